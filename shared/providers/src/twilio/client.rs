//! Twilio's API.
//!
//! * Dial: `POST /2010-04-01/Accounts/{account}/Calls.json`. Twilio has no idempotency key for it.
//! * Lookup: `GET /2010-04-01/Accounts/{account}/Calls/{sid}.json`. If the sid is unknown, `GET …/Calls.json` lists the
//!   calls between both numbers: first the queued ones, then those that have started. If several were created around the time of our dial, `GET …/Calls/{sid}/Events.json`
//!   tells which of them requested a URL with our ids.
//!
//! Twilio stores no metadata. Our ids are in the query of the callback URLs, which Twilio signs.

use serde_json::{Map, Value};
use switchhook_domain::PhoneNumber;

use crate::api::{ApiRequest, basic, encoded, object, objects, query, text};
use crate::config::{Account, AccountConfig, TwilioAccount};
use crate::correlation::EchoedIds;
use crate::dial::{DialRequest, Refusal};
use crate::ids::bounded;
use crate::lookup::{Lookup, ParsedAnswer, ParsedPage, Period, Step, created_from, created_until, endings};
use crate::twiml::{created_at, parse_call};

/// Start of every path, also of the next page that a response names.
const API_PATH: &str = "/2010-04-01/Accounts/";
/// Calls per page of a list.
const PAGE_SIZE: &str = "50";
/// Limit on the calls whose requests are read.
const CANDIDATES_MAX: usize = 10;

const CALLBACK_PATH: &str = "/webhooks/twilio";

/// Five retries, after every kind of failure. By default, Twilio never repeats a callback that was answered with an
/// error.
const CALLBACK_RETRIES: &str = "rc=5&rp=all";

pub(crate) fn dial_api_request(config: &AccountConfig, request: &DialRequest<'_>) -> Option<ApiRequest> {
    let account = account(config)?;
    let echo = query(request.metadata_to_echo());
    let callback = format!("{}{CALLBACK_PATH}?{echo}#{CALLBACK_RETRIES}", config.public_url()?);
    // The application that answers with TwiML gets the metadata here. Other providers give it to their agent.
    let separator = if account.twiml_url.contains('?') { '&' } else { '?' };
    let twiml_url = format!("{}{separator}{echo}", account.twiml_url);

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

/// Reads the `code` of an error. A code that is not listed counts as one of the account, for example 20003 (login),
/// 21210 and 21212 (calling number).
///
/// Some codes are about the called number, and an operator can still make calls to it possible:
/// - 21216 means that Twilio blocked the call, as 13225 does for the verb `<Dial>`. The causes are a destination that is fraudulent
///   or forbidden, and, for calls to +1 alone, an account without a Primary Customer Profile:
///   <https://www.twilio.com/docs/errors/21216>. Every call to +1 of such an account meets it, so there it ends none.
/// - 21215 means that the account may not call this country, or these numbers of it. 13227 and 32205 are the same for `<Dial>` and for
///   trunks.
/// - 21219 and 573005 mean that a trial account has not verified this number.
pub(crate) fn refusal(body: &[u8], to: &PhoneNumber) -> Option<Refusal> {
    match object(body)?.get("code")?.as_u64()? {
        // Invalid, not reachable, a premium number, or a number that Twilio does not support.
        13_223 | 13_224 | 13_226 | 21_201 | 21_202 | 21_211 | 21_214 | 21_217 | 21_401 => {
            Some(Refusal::Number("invalid_number"))
        }
        10_004 => Some(Refusal::Capacity("concurrency_limit")),
        20_003 => Some(Refusal::Account("unauthorized")),
        21_210 | 21_212 | 21_213 => Some(Refusal::Account("invalid_calling_number")),
        13_225 | 21_216 if to.as_str().starts_with("+1") => Some(Refusal::NumberOrAccount("call_blocked")),
        13_225 | 21_216 => Some(Refusal::Number("call_blocked")),
        13_227 | 21_215 | 32_205 => Some(Refusal::NumberOrAccount("country_not_enabled")),
        21_219 | 573_005 => Some(Refusal::NumberOrAccount("trial_account")),
        _ => None,
    }
}

/// Request of a search that waits for its response.
#[derive(Clone, Debug)]
pub(crate) enum Search {
    ById,
    /// Page of a list of the calls between both numbers. `found` are those that may be ours.
    Candidates {
        list: List,
        found: Vec<Map<String, Value>>,
    },
    /// Requests that Twilio made for `candidate`. `others` are those that were not looked at yet.
    Requests {
        candidate: Map<String, Value>,
        others: Vec<Map<String, Value>>,
    },
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
    Some((list_request(config, lookup, List::Queued)?, Search::Candidates { list: List::Queued, found: Vec::new() }))
}

/// `None` if a number or the time of the dial is unknown.
fn list_request(config: &AccountConfig, lookup: &Lookup<'_>, list: List) -> Option<ApiRequest> {
    let day = created_from(lookup.dialled_at?).to_string();
    let state = match list {
        List::Queued => ("Status", "queued"),
        List::Started => ("StartTime>", day.split('T').next()?),
    };
    let filters = query([("To", lookup.to?.as_str()), ("From", lookup.from?.as_str()), state, ("PageSize", PAGE_SIZE)]);
    get(config, format!("{API_PATH}{}/Calls.json?{filters}", encoded(&account(config)?.account_sid)))
}

fn get(config: &AccountConfig, path: String) -> Option<ApiRequest> {
    let account = account(config)?;
    Some(ApiRequest::get(path, basic(&account.user, &account.password)))
}

fn call_request(config: &AccountConfig, sid: &str, suffix: &str) -> Option<ApiRequest> {
    let account_sid = encoded(&account(config)?.account_sid);
    get(config, format!("{API_PATH}{account_sid}/Calls/{}{suffix}", encoded(sid)))
}

/// Reads a response. `body` is `None` if Twilio does not know the call.
pub(crate) fn next_step(
    config: &AccountConfig,
    lookup: &Lookup<'_>,
    search: Search,
    body: Option<&[u8]>,
) -> Step<Search> {
    let answer = body.and_then(object);
    match (search, answer) {
        (Search::ById, None) if body.is_none() => Step::Answer(ParsedAnswer::Gone),
        (Search::ById, Some(call)) if text(&call, "sid") == lookup.provider_call_id => {
            Step::Answer(parse_call(lookup.ids_query(), &call))
        }
        (Search::ById, Some(_) | None) => Step::Answer(ParsedAnswer::Unreadable),
        (Search::Candidates { list, mut found }, Some(mut page)) => {
            let (Some(Value::Array(calls)), Some(dialled_at)) = (page.remove("calls"), lookup.dialled_at) else {
                return Step::Answer(ParsedAnswer::Unreadable);
            };
            let period = Period { from: created_from(dialled_at), until: created_until(dialled_at) };
            for call in objects(calls).filter(|call| may_be_ours(call, period)) {
                // A call that has started meanwhile is in both lists.
                found.retain(|earlier| text(earlier, "sid") != text(&call, "sid"));
                found.push(call);
            }
            let Ok(next_page) = next_page(&page) else { return Step::Answer(ParsedAnswer::Unreadable) };
            if let Some(request) = next_page.and_then(|path| get(config, path)) {
                return Step::Ask(request, Search::Candidates { list, found });
            }
            match list {
                List::Queued => match list_request(config, lookup, List::Started) {
                    Some(request) => Step::Ask(request, Search::Candidates { list: List::Started, found }),
                    None => Step::Answer(ParsedAnswer::Unreadable),
                },
                List::Started => choose(config, lookup, found),
            }
        }
        (Search::Requests { candidate, others }, answer) => {
            let is_ours = answer.is_some_and(|page| names_us(lookup, &page));
            if is_ours {
                Step::Answer(parse_call(lookup.ids_query(), &candidate))
            } else {
                read_requests(config, others)
            }
        }
        (Search::Candidates { .. }, None) => Step::Answer(ParsedAnswer::Unreadable),
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

/// True if the API created the call around the time of our dial.
fn may_be_ours(call: &Map<String, Value>, period: Period) -> bool {
    text(call, "direction") == Some("outbound-api") && created_at(call).is_some_and(|at| period.contains(at))
}

/// Decides between the calls that may be ours. If there is one, it is ours.
fn choose(config: &AccountConfig, lookup: &Lookup<'_>, mut found: Vec<Map<String, Value>>) -> Step<Search> {
    match found.len() {
        0 => Step::Answer(ParsedAnswer::NotFound),
        1 => Step::Answer(found.pop().map_or(ParsedAnswer::NotFound, |call| parse_call(lookup.ids_query(), &call))),
        2..=CANDIDATES_MAX => read_requests(config, found),
        _ => Step::Answer(ParsedAnswer::Undecided("several_calls")),
    }
}

/// Asks which requests Twilio made for the next of several calls.
fn read_requests(config: &AccountConfig, mut others: Vec<Map<String, Value>>) -> Step<Search> {
    let Some(candidate) = others.pop() else { return Step::Answer(ParsedAnswer::Undecided("several_calls")) };
    match text(&candidate, "sid").and_then(|sid| call_request(config, sid, "/Events.json")) {
        Some(request) => Step::Ask(request, Search::Requests { candidate, others }),
        None => Step::Answer(ParsedAnswer::Unreadable),
    }
}

/// True if Twilio requested a URL with our ids for the call.
fn names_us(lookup: &Lookup<'_>, page: &Map<String, Value>) -> bool {
    let events = page.get("events").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    events.iter().any(|event| {
        let url = event.get("request").and_then(|request| request.get("url")?.as_str());
        let query = url.and_then(|url| url.split_once('?')).map(|(_, query)| query.split('#').next().unwrap_or(query));
        query.is_some_and(|query| lookup.matches(&EchoedIds::from_query(query)))
    })
}

pub(crate) fn discovery_request(config: &AccountConfig, period: Period, page: Option<&str>) -> Option<ApiRequest> {
    if let Some(path) = page {
        return get(config, path.to_owned()).filter(|request| request.path.starts_with(API_PATH));
    }
    let day = period.from.to_string();
    let filters = query([("StartTime>", day.split('T').next()?), ("PageSize", PAGE_SIZE)]);
    get(config, format!("{API_PATH}{}/Calls.json?{filters}", encoded(&account(config)?.account_sid)))
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

fn account(config: &AccountConfig) -> Option<&TwilioAccount> {
    if let Account::Twilio(account) = config.account() { Some(account) } else { None }
}
