//! Twilio's API.
//!
//! * Dial: `POST /2010-04-01/Accounts/{account}/Calls.json`. Twilio has no idempotency key for it.
//! * Lookup: `GET /2010-04-01/Accounts/{account}/Calls/{sid}.json`. If the sid is unknown, `GET …/Calls.json` lists the
//!   calls between both numbers: first the queued ones, then those that have started. For each that was not created before our dial,
//!   `GET …/Calls/{sid}/Events.json` lists the requests that Twilio made for it.
//!
//! **A call is ours only if Twilio requested a URL with our ids for it.** Another program may call the same person from the same number. Twilio
//! lists the requests of a call 15 minutes after its end. Until then a search without proof is too early. Afterwards, a call that has requests
//! is another's if none of them has our ids. If it has no requests even then, the search is undecided.
//!
//! Twilio stores no metadata. Our ids are in the query of the callback URLs, which Twilio signs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};
use switchhook_domain::{PhoneNumber, Timestamp};

use crate::api::{ApiRequest, basic, encoded, object, objects, query, text};
use crate::config::{AccountConfig, TwilioAccount};
use crate::correlation::EchoedIds;
use crate::dial::{DialRequest, Refusal};
use crate::ids::bounded;
use crate::lookup::{Lookup, ParsedAnswer, ParsedPage, Period, SIP_ADDRESS, Step, created_from, endings};
use crate::times::parse_rfc2822;
use crate::twiml::{created_at, parse_call};

/// Start of every path, also of the next page that a response names.
const API_PATH: &str = "/2010-04-01/Accounts/";
/// Calls per page of a list.
const PAGE_SIZE: &str = "50";
/// Limit on the calls whose requests are read.
const CANDIDATES_MAX: usize = 10;
/// Time after the end of a call in which its requests may be missing, and be listed later. Twilio documents 15 minutes. The rest is for the
/// difference between the clocks, and for calls that are listed late.
const REQUESTS_LISTED_AFTER: Duration = Duration::from_secs(20 * 60);

/// Five retries, after every kind of failure. By default, Twilio never repeats a callback that was answered with an
/// error.
const CALLBACK_RETRIES: &str = "rc=5&rp=all";

pub(crate) fn dial_api_request(config: &AccountConfig, request: &DialRequest<'_>) -> Option<ApiRequest> {
    let account = TwilioAccount::of(config)?;
    let echo = request.metadata_to_echo();
    let ids = ["switchhook_call_id", "switchhook_attempt", "appointment_id"];
    let ids = query(ids.into_iter().filter_map(|name| Some((name, *echo.get(name)?))));
    // All metadata would exceed the longest URL that Twilio and API Gateway take.
    let callback = format!("{}?{ids}#{CALLBACK_RETRIES}", config.webhook_url()?);
    // The application that answers with TwiML gets the metadata here. Other providers give it to their agent.
    let separator = if account.twiml_url.contains('?') { '&' } else { '?' };
    let twiml_url = format!("{}{separator}{}", account.twiml_url, query(echo));

    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("To", request.to.as_str());
    form.append_pair("From", request.from.as_str());
    form.append_pair("Url", &twiml_url);
    form.append_pair("StatusCallback", &callback);
    form.append_pair("StatusCallbackMethod", "POST");
    for event in ["initiated", "ringing", "answered", "completed"] {
        form.append_pair("StatusCallbackEvent", event);
    }
    if account.machine_detection {
        // Asynchronous detection: the person who answers hears the call at once, not after the detection.
        form.append_pair("MachineDetection", "Enable");
        form.append_pair("AsyncAmd", "true");
        form.append_pair("AsyncAmdStatusCallback", &callback);
        form.append_pair("AsyncAmdStatusCallbackMethod", "POST");
    }
    Some(ApiRequest::post(
        format!("{API_PATH}{}/Calls.json", encoded(&account.account_sid)),
        basic(&account.user, &account.password),
        "application/x-www-form-urlencoded",
        form.finish(),
    ))
}

pub(crate) fn dialled_call_id(body: &[u8]) -> Option<String> {
    text(&object(body)?, "sid").map(|id| bounded("", id))
}

/// Reads the `code` of an error. A code that is not listed counts as one of the account, for example 20003 (login).
/// 21210, 21212 and 21213 are about the calling number. So is 573002: a trial account has a calling number for each verified recipient, and
/// must call others from another one (<https://www.twilio.com/docs/api/errors/573002>).
///
/// Some codes are about the called number, and an operator can still make calls to it possible:
/// - 21216 means that Twilio blocked the call, as 13225 does for the verb `<Dial>`. The causes are a destination that is fraudulent
///   or forbidden, and, for calls to +1 alone, an account without a Primary Customer Profile:
///   <https://www.twilio.com/docs/errors/21216>. Every call to +1 of such an account meets it, so there it ends none.
/// - 21215 means that the account may not call this country, or these numbers of it. So does the older 21203. 13227 and 32205 are the same
///   for `<Dial>` and for trunks.
/// - 21219 and 573005 mean that a trial account has not verified this number.
/// - 21226 means that the account may not call SIP addresses. 21227, 21228 and 21229 blame the headers of such an address, so no retry can help.
///
/// 13224 means that the number is invalid. In an outage of the networks there, Twilio answers it too:
/// <https://www.twilio.com/docs/api/errors/13224>. It counts for the number, because that is the usual cause. Otherwise calls to numbers
/// that do not exist would be dialled without an end, and would open the circuit for all others.
pub(crate) fn refusal(body: &[u8], to: &PhoneNumber) -> Option<Refusal> {
    match object(body)?.get("code")?.as_u64()? {
        // Invalid, not reachable, a premium number, or a number that Twilio does not support.
        13_223 | 13_224 | 13_226 | 21_201 | 21_202 | 21_211 | 21_214 | 21_217 | 21_227 | 21_228 | 21_229 | 21_401 => {
            Some(Refusal::Number("invalid_number"))
        }
        10_004 => Some(Refusal::Capacity("concurrency_limit")),
        20_003 => Some(Refusal::Account("unauthorized")),
        21_210 | 21_212 | 21_213 | 573_002 => Some(Refusal::CallingNumber("invalid_calling_number")),
        13_225 | 21_216 if to.as_str().starts_with("+1") => Some(Refusal::NumberOrAccount("call_blocked")),
        13_225 | 21_216 => Some(Refusal::Number("call_blocked")),
        13_227 | 21_203 | 21_215 | 32_205 => Some(Refusal::NumberOrAccount("country_not_enabled")),
        21_219 | 573_005 => Some(Refusal::NumberOrAccount("trial_account")),
        21_226 => Some(Refusal::NumberOrAccount("destination_forbidden")),
        _ => None,
    }
}

/// Request of a search that waits for its response.
#[derive(Clone, Debug)]
pub(crate) enum Search {
    ById,
    /// Page of a list of the calls between both numbers.
    Candidates {
        list: List,
        found: Found,
    },
    /// Page of the requests that Twilio made for `candidate`.
    Requests {
        candidate: Map<String, Value>,
        /// True if earlier pages have shown requests.
        has_requests: bool,
        found: Found,
    },
}

/// Calls that a search has found so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Calls that may be ours and were not looked at yet, by their ids.
    unread: BTreeMap<String, Map<String, Value>>,
    /// Calls whose requests do not tell whose they are.
    unproven: Vec<Map<String, Value>>,
    /// True if a call that may be ours has no id, no direction, or no time that can be read.
    is_unclear: bool,
}

/// List of the calls between both numbers. Twilio queues the calls above the rate of the account, and a queued call has no start time, by
/// which the other list is filtered. A call that starts between the two requests is found by the later one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum List {
    Queued,
    Started,
}

pub(crate) fn start_search(config: &AccountConfig, lookup: &Lookup<'_>) -> Option<(ApiRequest, Search)> {
    if let Some(sid) = lookup.provider_call_id {
        return Some((call_request(config, sid, ".json")?, Search::ById));
    }
    Some((
        list_request(config, lookup, List::Queued)?,
        Search::Candidates { list: List::Queued, found: Found::default() },
    ))
}

/// `None` if a number or the time of the dial is unknown.
fn list_request(config: &AccountConfig, lookup: &Lookup<'_>, list: List) -> Option<ApiRequest> {
    let day = created_from(lookup.dialled_at?).to_string();
    let state = match list {
        List::Queued => ("Status", "queued"),
        List::Started => ("StartTime>", day.split('T').next()?),
    };
    let filters = query([("To", lookup.to?.as_str()), ("From", lookup.from?.as_str()), state, ("PageSize", PAGE_SIZE)]);
    get(config, format!("{API_PATH}{}/Calls.json?{filters}", encoded(&TwilioAccount::of(config)?.account_sid)))
}

fn get(config: &AccountConfig, path: String) -> Option<ApiRequest> {
    let account = TwilioAccount::of(config)?;
    Some(ApiRequest::get(path, basic(&account.user, &account.password)))
}

fn call_request(config: &AccountConfig, sid: &str, suffix: &str) -> Option<ApiRequest> {
    let account_sid = encoded(&TwilioAccount::of(config)?.account_sid);
    get(config, format!("{API_PATH}{account_sid}/Calls/{}{suffix}", encoded(sid)))
}

/// Reads a response. `body` is `None` if Twilio does not know the call.
pub(crate) fn next_step(
    config: &AccountConfig,
    lookup: &Lookup<'_>,
    search: Search,
    body: Option<&[u8]>,
    now: Timestamp,
) -> Step<Search> {
    let unreadable = Step::Answer(ParsedAnswer::Unreadable);
    let answer = body.and_then(object);
    match search {
        Search::ById => match answer {
            None if body.is_none() => Step::Answer(ParsedAnswer::Gone),
            Some(call) if text(&call, "sid") == lookup.provider_call_id => {
                Step::Answer(parse_call(lookup.ids_query(), &call))
            }
            Some(_) | None => unreadable,
        },
        Search::Candidates { list, mut found } => {
            let (Some(mut page), Some(dialled_at)) = (answer, lookup.dialled_at) else { return unreadable };
            let Some(Value::Array(calls)) = page.remove("calls") else { return unreadable };
            let Ok(next_page) = next_page(&page) else { return unreadable };
            let from = created_from(dialled_at);
            for call in calls {
                found.consider(from, call);
            }
            if let Some(request) = next_page.and_then(|path| get(config, path)) {
                return Step::Ask(request, Search::Candidates { list, found });
            }
            match list {
                List::Queued => match list_request(config, lookup, List::Started) {
                    Some(request) => Step::Ask(request, Search::Candidates { list: List::Started, found }),
                    None => unreadable,
                },
                List::Started if found.unread.len() > CANDIDATES_MAX => {
                    Step::Answer(ParsedAnswer::Undecided("several_calls"))
                }
                List::Started => read_on(config, lookup, found, now),
            }
        }
        Search::Requests { candidate, has_requests, mut found } => {
            let requests = answer.as_ref().map_or(Requests::Unclear, |page| read_requests(lookup, page));
            let has_requests = match requests {
                Requests::NameUs => return Step::Answer(parse_call(lookup.ids_query(), &candidate)),
                Requests::NameOthers => true,
                Requests::None => has_requests,
                Requests::Unclear => {
                    found.unproven.push(candidate);
                    return read_on(config, lookup, found, now);
                }
            };
            let next_page = answer.as_ref().map_or(Ok(None), next_page);
            match next_page.map(|path| path.and_then(|path| get(config, path))) {
                Ok(Some(request)) => return Step::Ask(request, Search::Requests { candidate, has_requests, found }),
                // All its requests are known: it is another's.
                Ok(None) if has_requests && !may_get_requests(&candidate, now) => {}
                Ok(None) | Err(PageElsewhere) => found.unproven.push(candidate),
            }
            read_on(config, lookup, found, now)
        }
    }
}

impl Found {
    /// Keeps the call if the API may have created it for our dial: not before `from`. A call may wait in Twilio's queue for any time, so none
    /// is too late.
    fn consider(&mut self, from: Timestamp, call: Value) {
        let Value::Object(call) = call else {
            self.is_unclear = true;
            return;
        };
        let direction = text(&call, "direction");
        let created_at = created_at(&call);
        let is_of_others =
            direction.is_some_and(|direction| direction != "outbound-api") || created_at.is_some_and(|at| at < from);
        if is_of_others {
            return;
        }
        // A call that still waits in the queue shows no time.
        let has_time = created_at.is_some() || text(&call, "status") == Some("queued");
        match text(&call, "sid") {
            // A call that has started meanwhile is in both lists.
            Some(sid) if direction.is_some() && has_time => {
                self.unread.insert(sid.to_owned(), call);
            }
            Some(_) | None => self.is_unclear = true,
        }
    }

    /// Answer if the requests prove no call to be ours.
    fn answer(&self, lookup: &Lookup<'_>, now: Timestamp) -> ParsedAnswer {
        match self.unproven.as_slice() {
            unproven if unproven.iter().any(|call| may_get_requests(call, now)) => {
                ParsedAnswer::TooEarly("requests_not_listed")
            }
            [_, _, ..] => ParsedAnswer::Undecided("several_calls"),
            [_] => ParsedAnswer::Undecided("unproven_call"),
            [] if self.is_unclear => ParsedAnswer::Undecided("unclear_calls"),
            [] if !lookup.is_filtered_by_numbers() => SIP_ADDRESS,
            [] => ParsedAnswer::NotFound,
        }
    }
}

/// Asks for the requests of the next call. Without any, the search is over.
fn read_on(config: &AccountConfig, lookup: &Lookup<'_>, mut found: Found, now: Timestamp) -> Step<Search> {
    let Some((sid, candidate)) = found.unread.pop_last() else { return Step::Answer(found.answer(lookup, now)) };
    match call_request(config, &sid, "/Events.json") {
        Some(request) => Step::Ask(request, Search::Requests { candidate, has_requests: false, found }),
        None => Step::Answer(ParsedAnswer::Unreadable),
    }
}

/// True if Twilio may list further requests of the call: it is not over, or has ended a short time ago. The end of a call that reached
/// nobody may be missing, and then its last change counts.
fn may_get_requests(call: &Map<String, Value>, now: Timestamp) -> bool {
    let is_over = matches!(parse_call(String::new(), call), ParsedAnswer::Ended { .. });
    let ended_at = ["end_time", "date_updated"].into_iter().find_map(|name| parse_rfc2822(text(call, name)?));
    !is_over || ended_at.is_none_or(|at| now < at.plus(REQUESTS_LISTED_AFTER))
}

/// Result of reading one page of requests.
enum Requests {
    /// Twilio requested a URL with our ids.
    NameUs,
    /// Twilio requested URLs, and none has our ids.
    NameOthers,
    None,
    /// A request cannot be read, or the list cannot.
    Unclear,
}

fn read_requests(lookup: &Lookup<'_>, page: &Map<String, Value>) -> Requests {
    let Some(events) = page.get("events").and_then(Value::as_array) else { return Requests::Unclear };
    let urls = || events.iter().filter_map(|event| event.get("request")?.get("url")?.as_str());
    let names_us = |url: &str| {
        let query = url.split_once('?').map(|(_, query)| query.split('#').next().unwrap_or(query));
        query.is_some_and(|query| lookup.matches(&EchoedIds::from_query(query)))
    };
    if urls().any(names_us) {
        Requests::NameUs
    } else if urls().count() < events.len() {
        Requests::Unclear
    } else if events.is_empty() {
        Requests::None
    } else {
        Requests::NameOthers
    }
}

/// A next page that is not one of the API. The login would go there.
struct PageElsewhere;

/// Path of the page after this one.
fn next_page(page: &Map<String, Value>) -> Result<Option<String>, PageElsewhere> {
    match text(page, "next_page_uri") {
        Some(path) if path.starts_with(API_PATH) => Ok(Some(path.to_owned())),
        Some(_) => Err(PageElsewhere),
        None => Ok(None),
    }
}

pub(crate) fn discovery_request(config: &AccountConfig, period: Period, page: Option<&str>) -> Option<ApiRequest> {
    if let Some(path) = page {
        return get(config, path.to_owned()).filter(|request| request.path.starts_with(API_PATH));
    }
    let day = period.from.to_string();
    let filters = query([("StartTime>", day.split('T').next()?), ("PageSize", PAGE_SIZE)]);
    get(config, format!("{API_PATH}{}/Calls.json?{filters}", encoded(&TwilioAccount::of(config)?.account_sid)))
}

/// Reads one page, the newest calls first. Calls that another call dialled are left out. The ids that we gave to a call
/// are not in the list.
pub(crate) fn parse_page(body: &[u8], period: Period) -> Option<ParsedPage> {
    let mut page = object(body)?;
    let Some(Value::Array(calls)) = page.remove("calls") else { return None };
    let calls: Vec<Map<String, Value>> = objects(calls).collect();
    let is_past = calls.iter().any(|call| created_at(call).is_some_and(|at| at < period.from));
    let next_page = next_page(&page).ok()?.filter(|_| !is_past);
    let wanted = calls.iter().filter(|call| {
        text(call, "parent_call_sid").is_none() && created_at(call).is_some_and(|at| period.contains(at))
    });
    Some((endings(wanted.map(|call| parse_call(String::new(), call))), next_page))
}
