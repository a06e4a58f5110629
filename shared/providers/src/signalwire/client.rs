//! SignalWire's compatibility API. Each space has a host of its own.
//!
//! * Dial: `POST /api/laml/2010-04-01/Accounts/{project}/Calls.json`. SignalWire has no idempotency key for it.
//! * Lookup: `GET …/Calls/{sid}.json`. If the sid is unknown, `GET …/Calls.json` lists the calls between both numbers.
//!
//! SignalWire stores no metadata. Our ids are in the query of the callback URLs, which SignalWire signs. No answer of the API shows
//! them, so a search that finds several calls is undecided.
//!
//! **A search never proves that there was no call.** Calls have been seen that went on although the request for them timed out, and
//! nothing says when such a call is listed. So a search that finds nothing is undecided, and the dial is not repeated.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use switchhook_domain::PhoneNumber;

use crate::api::{ApiRequest, basic, encoded, object, objects, query, text};
use crate::config::{AccountConfig, SignalWireAccount};
use crate::dial::{DialRequest, Refusal};
use crate::ids::bounded;
use crate::lookup::{Lookup, ParsedAnswer, ParsedPage, Period, Step, created_from, endings};
use crate::normalized::without_plus;
use crate::twiml::{created_at, parse_call};

/// Start of every path, also of the next page that a response names.
const API_PATH: &str = "/api/laml/2010-04-01/Accounts/";
/// Calls per page of a list.
const PAGE_SIZE: &str = "50";

pub(crate) fn dial_api_request(config: &AccountConfig, request: &DialRequest<'_>) -> Option<ApiRequest> {
    let account = SignalWireAccount::of(config)?;
    let echo = request.metadata_to_echo();
    let ids = ["switchhook_call_id", "switchhook_attempt", "appointment_id"];
    let ids = query(ids.into_iter().filter_map(|name| Some((name, *echo.get(name)?))));
    let callback = format!("{}?{ids}", config.webhook_url()?);
    // The application that answers with cXML gets the metadata here. Other providers give it to their agent.
    let separator = if account.cxml_url.contains('?') { '&' } else { '?' };
    let cxml_url = format!("{}{separator}{}", account.cxml_url, query(echo));

    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("To", request.to.as_str());
    form.append_pair("From", request.from.as_str());
    form.append_pair("Url", &cxml_url);
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
        calls_path(account, ".json"),
        basic(&account.project_id, &account.api_token),
        "application/x-www-form-urlencoded",
        form.finish(),
    ))
}

pub(crate) fn dialled_call_id(body: &[u8]) -> Option<String> {
    text(&object(body)?, "sid").map(|id| bounded("", id))
}

/// Reads the `code` of an error, a number or a text. Only the codes that name one number are read. SignalWire's list has none about
/// countries: <https://developer.signalwire.com/rest/compatibility-api/overview/error-codes>.
pub(crate) fn refusal(body: &[u8]) -> Option<Refusal> {
    let error = object(body)?;
    let code = error.get("code")?;
    match code.as_u64().or_else(|| code.as_str()?.parse().ok())? {
        // "Invalid 'To' phone number", and a destination that is no valid number.
        21_211 | 21_217 => Some(Refusal::Number("invalid_number")),
        // "'To' phone number not verified". Only a trial account needs that.
        21_219 => Some(Refusal::NumberOrAccount("trial_account")),
        // "Invalid 'From' phone number", and a number of somebody else.
        21_210 | 21_212 => Some(Refusal::CallingNumber("invalid_calling_number")),
        _ => None,
    }
}

/// Request of a search that waits for its response.
#[derive(Clone, Debug)]
pub(crate) enum Search {
    ById,
    /// Reads a page of the list.
    List {
        found: Found,
    },
}

/// Calls that a search has found so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Calls that may be ours, by their ids.
    candidates: BTreeMap<String, Map<String, Value>>,
    /// True if a call that may be ours has no id, no number, or no time that can be read.
    is_unclear: bool,
}

pub(crate) fn start_search(config: &AccountConfig, lookup: &Lookup<'_>) -> Option<(ApiRequest, Search)> {
    let account = SignalWireAccount::of(config)?;
    if let Some(sid) = lookup.provider_call_id {
        let path = calls_path(account, &format!("/{}.json", encoded(sid)));
        return Some((get(account, path), Search::ById));
    }
    let day = created_from(lookup.dialled_at?).to_string();
    let day = day.split('T').next()?;
    let filters =
        [("To", lookup.to?.as_str()), ("From", lookup.from?.as_str()), ("StartTime>", day), ("PageSize", PAGE_SIZE)];
    let path = format!("{}?{}", calls_path(account, ".json"), query(filters));
    Some((get(account, path), Search::List { found: Found::default() }))
}

/// Reads a response. `body` is `None` if SignalWire does not know the call.
pub(crate) fn next_step(
    config: &AccountConfig,
    lookup: &Lookup<'_>,
    search: Search,
    body: Option<&[u8]>,
) -> Step<Search> {
    let unreadable = Step::Answer(ParsedAnswer::Unreadable);
    let Some(account) = SignalWireAccount::of(config) else { return unreadable };
    match search {
        Search::ById => match body.map(object) {
            None => Step::Answer(ParsedAnswer::Gone),
            Some(Some(call)) if text(&call, "sid") == lookup.provider_call_id => {
                Step::Answer(parse_call(lookup.ids_query(), &call))
            }
            Some(Some(_) | None) => unreadable,
        },
        Search::List { mut found } => {
            let Some(period) = lookup.period() else { return unreadable };
            let Some((calls, next_page)) = body.and_then(parse_list) else { return unreadable };
            for call in calls {
                found.consider(lookup, period, call);
            }
            match next_page {
                Some(path) => Step::Ask(get(account, path), Search::List { found }),
                None => Step::Answer(found.answer(lookup)),
            }
        }
    }
}

impl Found {
    /// Keeps the call if it may be ours.
    fn consider(&mut self, lookup: &Lookup<'_>, period: Period, call: Map<String, Value>) {
        // `None` if the call shows no number. SignalWire filters the list, so such a call may be ours.
        let is_number = |name: &str, asked: Option<&PhoneNumber>| {
            text(&call, name)
                .map(|shown| asked.is_some_and(|asked| without_plus(shown) == without_plus(asked.as_str())))
        };
        let numbers = [is_number("from", lookup.from), is_number("to", lookup.to)];
        let created_at = created_at(&call);
        let is_of_others = text(&call, "direction") == Some("inbound")
            || text(&call, "parent_call_sid").is_some()
            || numbers.contains(&Some(false))
            || created_at.is_some_and(|at| !period.contains(at));
        if is_of_others {
            return;
        }
        match text(&call, "sid") {
            Some(sid) if numbers == [Some(true); 2] && created_at.is_some() => {
                self.candidates.insert(sid.to_owned(), call);
            }
            Some(_) | None => self.is_unclear = true,
        }
    }

    /// Decides between the calls that may be ours. If there is one, it is ours.
    fn answer(mut self, lookup: &Lookup<'_>) -> ParsedAnswer {
        match (self.candidates.len(), self.candidates.pop_first()) {
            (1, Some((_, call))) if !self.is_unclear => parse_call(lookup.ids_query(), &call),
            (0 | 1, _) if self.is_unclear => ParsedAnswer::Undecided("unclear_calls"),
            (_, Some(_)) => ParsedAnswer::Undecided("several_calls"),
            (_, None) => ParsedAnswer::Undecided("no_listed_call"),
        }
    }
}

/// Lists the calls that started on the days of the period.
pub(crate) fn discovery_request(config: &AccountConfig, period: Period, page: Option<&str>) -> Option<ApiRequest> {
    let account = SignalWireAccount::of(config)?;
    if let Some(path) = page {
        return path.starts_with(API_PATH).then(|| get(account, path.to_owned()));
    }
    let day = period.from.to_string();
    let filters = query([("StartTime>", day.split('T').next()?), ("PageSize", PAGE_SIZE)]);
    Some(get(account, format!("{}?{filters}", calls_path(account, ".json"))))
}

/// Reads one page. Calls that another call dialled are left out. The ids that we gave to a call are not in the list. Nothing says how the
/// list is sorted, so it is read to its end.
pub(crate) fn parse_page(body: &[u8], period: Period) -> Option<ParsedPage> {
    let (calls, next_page) = parse_list(body)?;
    let wanted = calls.iter().filter(|call| {
        text(call, "parent_call_sid").is_none() && created_at(call).is_none_or(|at| period.contains(at))
    });
    Some((endings(wanted.map(|call| parse_call(String::new(), call))), next_page))
}

/// Calls of a page, as the API shows them.
type Calls = Vec<Map<String, Value>>;

/// Calls of a page, and the path of the next page. `None` if this is no page.
fn parse_list(body: &[u8]) -> Option<(Calls, Option<String>)> {
    let mut page = object(body)?;
    let Some(Value::Array(calls)) = page.remove("calls") else { return None };
    let next_page = match text(&page, "next_page_uri") {
        // The login goes to this path, so it must be one of the API.
        Some(path) if path.starts_with(API_PATH) => Some(path.to_owned()),
        Some(_) => return None,
        None => None,
    };
    Some((objects(calls).collect(), next_page))
}

fn calls_path(account: &SignalWireAccount, suffix: &str) -> String {
    format!("{API_PATH}{}/Calls{suffix}", encoded(&account.project_id))
}

fn get(account: &SignalWireAccount, path: String) -> ApiRequest {
    ApiRequest::get(path, basic(&account.project_id, &account.api_token))
}
