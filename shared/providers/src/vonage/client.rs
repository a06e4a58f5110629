//! Vonage's Voice API.
//!
//! * Dial: `POST /v1/calls`. Vonage has no idempotency key for it.
//! * Lookup: `GET /v1/calls/{uuid}`. If the id is unknown, `GET /v1/calls` lists the calls of the time around our dial, and both numbers
//!   are compared.
//!
//! Every request has a token of its own, which the private key of the application signs.
//!
//! Vonage stores no metadata, and its signature does not cover the query of a URL. So our ids are in no event and in no record: an
//! event finds its call by the `uuid` that the answer to the dial names.
//!
//! **A search never proves that there was no call.** The documentation does not say by which time the list is filtered, and a call that
//! nobody answered may have none. So a search that finds nothing is undecided, and the dial is not repeated.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use switchhook_domain::{PhoneNumber, Timestamp};

use super::payload::{CALL_RECORD, Status};
use crate::api::{ApiRequest, Login, encoded, object, objects, query, text};
use crate::config::{AccountConfig, VonageAccount};
use crate::dial::{DialRequest, Refusal};
use crate::ids::bounded;
use crate::jwt::TokenLogin;
use crate::lookup::{Lookup, ParsedAnswer, ParsedPage, Period, Step, endings};
use crate::normalized::without_plus;
use crate::times::parse_time;

const CALLS_PATH: &str = "/v1/calls";
/// Calls per page of a list. Vonage allows no more.
const PAGE_SIZE: usize = 100;

pub(crate) fn dial_api_request(config: &AccountConfig, request: &DialRequest<'_>) -> Option<ApiRequest> {
    let account = VonageAccount::of(config)?;
    // The application that answers with a call control object gets the metadata here. Other providers give it to their agent.
    let separator = if account.answer_url.contains('?') { '&' } else { '?' };
    let answer_url = format!("{}{separator}{}", account.answer_url, query(request.metadata_to_echo()));
    let mut body = Map::new();
    let to = if request.to.is_e164() {
        json!({"type": "phone", "number": without_plus(request.to.as_str())})
    } else {
        json!({"type": "sip", "uri": request.to.as_str()})
    };
    body.insert("to".to_owned(), json!([to]));
    body.insert("from".to_owned(), json!({"type": "phone", "number": without_plus(request.from.as_str())}));
    body.insert("answer_url".to_owned(), json!([answer_url]));
    body.insert("answer_method".to_owned(), "POST".into());
    // Without a URL, Vonage posts to the event URL of the application.
    if let Some(url) = config.webhook_url() {
        body.insert("event_url".to_owned(), json!([url]));
        // The body of a POST is signed. A GET has its event in the query, which is not.
        body.insert("event_method".to_owned(), "POST".into());
    }
    if account.machine_detection {
        let detection = json!({"behavior": "continue", "mode": "detect"});
        body.insert("advanced_machine_detection".to_owned(), detection);
    }
    Some(ApiRequest::post_json(CALLS_PATH.to_owned(), login(account), &Value::Object(body)))
}

pub(crate) fn dialled_call_id(body: &[u8]) -> Option<String> {
    text(&object(body)?, "uuid").map(|id| bounded("", id))
}

/// Reads a refusal. Only an error that names one of the numbers as the invalid parameter, and nothing else, blames that number.
///
/// Vonage answers 403 to a call that the account may not make. It may be the destination alone, so other numbers may work.
pub(crate) fn refusal(status: u16, body: &[u8]) -> Option<Refusal> {
    invalid_parameters(body).or((status == 403).then_some(Refusal::NumberOrAccount("destination_forbidden")))
}

/// Reads the parameters that an error calls invalid.
fn invalid_parameters(body: &[u8]) -> Option<Refusal> {
    let names: Vec<String> = match object(body)?.remove("invalid_parameters")? {
        Value::Object(parameters) => parameters.into_iter().map(|(name, _)| name).collect(),
        Value::Array(parameters) => {
            objects(parameters).map(|parameter| text(&parameter, "name").unwrap_or_default().to_owned()).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    let all_are = |field: &str| {
        let is_field = |name: &String| {
            name.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.']))
        };
        !names.is_empty() && names.iter().all(is_field)
    };
    if all_are("to") {
        Some(Refusal::Number("invalid_number"))
    } else {
        all_are("from").then_some(Refusal::CallingNumber("invalid_calling_number"))
    }
}

/// Request of a search that waits for its response.
#[derive(Clone, Debug)]
pub(crate) enum Search {
    ById,
    /// Reads a page of the list. `index` is the number of calls before it.
    List {
        index: usize,
        found: Found,
    },
}

/// Calls that a search has found so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Calls that may be ours, by their ids.
    candidates: BTreeMap<String, Map<String, Value>>,
    /// True if a call between both numbers has no id or no time.
    is_unclear: bool,
}

pub(crate) fn start_search(config: &AccountConfig, lookup: &Lookup<'_>) -> Option<(ApiRequest, Search)> {
    let account = VonageAccount::of(config)?;
    match lookup.provider_call_id {
        Some(id) => Some((get(account, format!("{CALLS_PATH}/{}", encoded(id))), Search::ById)),
        None => {
            lookup.from.and(lookup.to)?;
            let request = list_request(account, lookup.period()?, 0);
            Some((request, Search::List { index: 0, found: Found::default() }))
        }
    }
}

/// Reads a response. `body` is `None` if Vonage does not know the call.
pub(crate) fn next_step(
    config: &AccountConfig,
    lookup: &Lookup<'_>,
    search: Search,
    body: Option<&[u8]>,
) -> Step<Search> {
    let unreadable = Step::Answer(ParsedAnswer::Unreadable);
    match search {
        Search::ById => match body.map(object) {
            None => Step::Answer(ParsedAnswer::Gone),
            Some(Some(call)) if text(&call, "uuid") == lookup.provider_call_id => Step::Answer(parse_call(&call)),
            Some(Some(_) | None) => unreadable,
        },
        Search::List { index, mut found } => {
            let (Some(account), Some(period)) = (VonageAccount::of(config), lookup.period()) else { return unreadable };
            let Some((calls, next)) = body.and_then(|body| parse_list(body, index)) else { return unreadable };
            for call in calls {
                found.consider(lookup, period, call);
            }
            match next {
                Some(index) => Step::Ask(list_request(account, period, index), Search::List { index, found }),
                None => Step::Answer(found.answer()),
            }
        }
    }
}

impl Found {
    /// Keeps the call if it may be ours.
    fn consider(&mut self, lookup: &Lookup<'_>, period: Period, call: Map<String, Value>) {
        let is_between = |asked: Option<&PhoneNumber>, name| {
            asked.is_some_and(|asked| number(&call, name).map(without_plus) == Some(without_plus(asked.as_str())))
        };
        let is_ours_by_number = text(&call, "direction") == Some("outbound")
            && is_between(lookup.from, "from")
            && is_between(lookup.to, "to");
        if !is_ours_by_number {
            return;
        }
        match (text(&call, "uuid"), started_at(&call)) {
            (Some(id), Some(at)) if period.contains(at) => {
                self.candidates.insert(id.to_owned(), call);
            }
            (Some(_), Some(_)) => {}
            (Some(_) | None, Some(_) | None) => self.is_unclear = true,
        }
    }

    /// Decides between the calls that may be ours. If there is one, it is ours.
    fn answer(mut self) -> ParsedAnswer {
        match (self.candidates.len(), self.candidates.pop_first()) {
            (1, Some((_, call))) if !self.is_unclear => parse_call(&call),
            (1, Some(_)) => ParsedAnswer::Undecided("unclear_calls"),
            (_, Some(_)) => ParsedAnswer::Undecided("several_calls"),
            (_, None) => ParsedAnswer::Undecided("no_listed_call"),
        }
    }
}

/// Lists the calls of the period.
pub(crate) fn discovery_request(config: &AccountConfig, period: Period, page: Option<&str>) -> Option<ApiRequest> {
    let index = page.map_or(Some(0), |page| page.parse().ok())?;
    Some(list_request(VonageAccount::of(config)?, period, index))
}

/// Reads one page.
pub(crate) fn parse_page(body: &[u8], period: Period, page: Option<&str>) -> Option<ParsedPage> {
    let index: usize = page.map_or(Some(0), |page| page.parse().ok())?;
    let (calls, next) = parse_list(body, index)?;
    let first_legs = first_legs(&calls);
    // The list holds the calls of the period, and a call that nobody answered may have no start.
    let wanted = calls.iter().enumerate().filter(|(place, call)| {
        let is_of_period = started_at(call).is_none_or(|at| period.contains(at));
        is_of_period && is_to_a_person(call) && !is_later_leg(*place, call, &first_legs)
    });
    Some((endings(wanted.map(|(_, call)| parse_call(call))), next.map(|index| index.to_string())))
}

fn started_at(call: &Map<String, Value>) -> Option<Timestamp> {
    text(call, "start_time").and_then(parse_time)
}

/// False for a leg to a program: a websocket, or a user of an application. Its address may hold a secret.
fn is_to_a_person(call: &Map<String, Value>) -> bool {
    let kind = call.get("to").and_then(|to| to.get("type").or_else(|| to.get(0)?.get("type"))).and_then(Value::as_str);
    kind.is_none_or(|kind| matches!(kind, "phone" | "sip"))
}

/// Places of the earliest legs to persons of the conversations on a page. A leg without a start counts as later than the others.
fn first_legs(calls: &[Map<String, Value>]) -> BTreeMap<&str, usize> {
    let mut legs: Vec<_> = calls
        .iter()
        .enumerate()
        .filter(|(_, call)| is_to_a_person(call))
        .filter_map(|(place, call)| Some((text(call, "conversation_uuid")?, place, started_at(call))))
        .collect();
    // The first leg comes last, so its place replaces those of the others.
    legs.sort_by_key(|(_, place, started_at)| Reverse((started_at.is_none(), *started_at, *place)));
    legs.into_iter().map(|(conversation, place, _)| (conversation, place)).collect()
}

/// True for a leg that another call added to its conversation by `connect`. See
/// <https://developer.vonage.com/voice/voice-api/guides/legs-conversations>.
fn is_later_leg(place: usize, call: &Map<String, Value>, first_legs: &BTreeMap<&str, usize>) -> bool {
    let first = text(call, "conversation_uuid").and_then(|conversation| first_legs.get(conversation));
    text(call, "direction") == Some("outbound") && first.is_some_and(|first| *first != place)
}

fn list_request(account: &VonageAccount, period: Period, index: usize) -> ApiRequest {
    let (since, until) = (list_time(period.from), list_time(period.until));
    let (size, index) = (PAGE_SIZE.to_string(), index.to_string());
    let filters = query([
        ("date_start", since.as_str()),
        ("date_end", &until),
        ("order", "asc"),
        ("page_size", &size),
        ("record_index", &index),
    ]);
    get(account, format!("{CALLS_PATH}?{filters}"))
}

/// Time in a filter: UTC, with a resolution of one second.
fn list_time(time: Timestamp) -> String {
    let time = time.to_string();
    format!("{}Z", time.split('.').next().unwrap_or(&time).trim_end_matches('Z'))
}

/// Calls of a page, as the API shows them.
type Calls = Vec<Map<String, Value>>;

/// Calls of a page that starts at `index`, and the index of the next page. `None` if this is no page.
fn parse_list(body: &[u8], index: usize) -> Option<(Calls, Option<usize>)> {
    let mut page = object(body)?;
    let count = page.get("count")?.as_u64()?;
    let Value::Object(mut embedded) = page.remove("_embedded")? else { return None };
    let Value::Array(calls) = embedded.remove("calls")? else { return None };
    // A page may be shorter than asked for. One that is empty would be asked for again and again.
    let next = index.saturating_add(calls.len());
    let has_next = !calls.is_empty() && u64::try_from(next).is_ok_and(|next| next < count);
    Some((objects(calls).collect(), has_next.then_some(next)))
}

/// Number of one side of a call, without `+` as Vonage writes it, or its SIP address.
fn number<'a>(call: &'a Map<String, Value>, side: &str) -> Option<&'a str> {
    let of_endpoint = |endpoint: &'a Map<String, Value>| text(endpoint, "number").or_else(|| text(endpoint, "uri"));
    match call.get(side)? {
        Value::Object(endpoint) => of_endpoint(endpoint),
        Value::Array(endpoints) => match endpoints.as_slice() {
            [Value::Object(endpoint)] => of_endpoint(endpoint),
            _ => None,
        },
        Value::String(number) => Some(number),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Converts an ended call into an event. It contains only fields that never change after the call.
fn parse_call(call: &Map<String, Value>) -> ParsedAnswer {
    let (Some(id), Some(status)) = (text(call, "uuid"), text(call, "status")) else {
        return ParsedAnswer::Unreadable;
    };
    match Status::from_name(status) {
        Status::Started | Status::Ringing | Status::Answered | Status::Human | Status::Machine => {
            ParsedAnswer::Alive { provider_call_id: bounded("", id) }
        }
        Status::Busy
        | Status::Cancelled
        | Status::Failed
        | Status::Rejected
        | Status::Timeout
        | Status::Unanswered
        | Status::Completed => {
            let mut event = Map::new();
            event.insert("event".to_owned(), CALL_RECORD.into());
            for name in ["uuid", "status", "direction", "duration"] {
                event.extend(call.get(name).map(|value| (name.to_owned(), value.clone())));
            }
            for side in ["from", "to"] {
                event.extend(number(call, side).map(|number| (side.to_owned(), number.into())));
            }
            // The record has times without a zone, which count as UTC.
            for name in ["start_time", "end_time"] {
                let time = text(call, name).and_then(parse_time);
                event.extend(time.map(|time| (name.to_owned(), time.to_string().into())));
            }
            ParsedAnswer::ended(&Value::Object(event))
        }
        Status::Ignored | Status::Other => ParsedAnswer::UnknownValue("status"),
    }
}

fn get(account: &VonageAccount, path: String) -> ApiRequest {
    ApiRequest::get(path, login(account))
}

fn login(account: &VonageAccount) -> Login {
    let claims = [("application_id".to_owned(), account.application_id.clone().into())];
    Login::Token(TokenLogin::rs256(account.private_key.clone(), claims.into_iter().collect()))
}
