//! Telnyx's API.
//!
//! * Dial: `POST /v2/calls`. `command_id` is an idempotency key: Telnyx ignores a second request with it within a
//!   minute.
//! * Lookup: `GET /v2/calls/{call_control_id}` tells whether the call is alive, until ten minutes after its end. How it
//!   ended is in `GET /v2/call_events`, which contains the webhooks of the last 24 hours. If the id is unknown, our ids
//!   are looked for there, and then in `GET /v2/connections/{id}/active_calls`.
//!
//! **Only lists that were read to their end prove that there was no call.** A row that cannot be read may be our call, and so may one of a page
//! that cannot be asked for. Then the search is undecided, and the dial is not repeated.
//!
//! Our ids are in `client_state`, which Telnyx echoes. Another program that controls the call can replace it with a
//! later command.

use std::cmp::Reverse;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use switchhook_domain::Timestamp;

use super::payload::EventType;
use crate::api::{ApiRequest, bearer, echoed_ids, encoded, json_object, object, query, text};
use crate::config::{AccountConfig, TelnyxAccount};
use crate::correlation::EchoedIds;
use crate::dial::DialRequest;
use crate::ids::bounded;
use crate::json;
use crate::lookup::{Lookup, ParsedAnswer, ParsedPage, Period, SIP_ADDRESS, Step, created_from, endings};

const HANGUP: &str = "call.hangup";
/// Webhooks that Telnyx is to send again if they are not accepted: those that change the state of a call. A screened call is left out,
/// because `call.answered` says as much.
const RETRIED_EVENTS: [&str; 8] = [
    "call.initiated",
    "call.answered",
    HANGUP,
    "call.machine.detection.ended",
    "call.machine.greeting.ended",
    "call.machine.premium.detection.ended",
    "call.machine.premium.greeting.ended",
    "call.analyzed",
];
/// Delays before these retries. Telnyx allows five, of at most 60 seconds together.
const RETRIES_MS: [u32; 5] = [1_000, 3_000, 8_000, 18_000, 30_000];
/// Rows per page of a list.
const PAGE_SIZE: u32 = 100;
/// Time for which Telnyx lists the events of all calls, less an hour for the difference between the clocks.
const EVENTS_KEPT_MS: i64 = 23 * 60 * 60 * 1000;

pub(crate) fn dial_api_request(config: &AccountConfig, request: &DialRequest<'_>) -> Option<ApiRequest> {
    let account = TelnyxAccount::of(config)?;
    let echo = json_object(&request.metadata_to_echo());
    let mut body = json!({
        "connection_id": account.connection_id,
        "from": request.from.as_str(),
        "to": request.to.as_str(),
        "client_state": BASE64_STANDARD.encode(echo.to_string()),
        "command_id": request.dial_key,
        "webhook_retries_policies": RETRIED_EVENTS.iter().map(|event| (*event, json!({"retries_ms": RETRIES_MS}))).collect::<Value>(),
    });
    let mut set = |name: &str, value: Value| {
        if let Value::Object(body) = &mut body {
            body.insert(name.to_owned(), value);
        }
    };
    if let Some(assistant_id) = &account.assistant_id {
        // Webhooks echo the client state. The assistant sees only the variables.
        set("assistant", json!({"id": assistant_id, "dynamic_variables": echo}));
    }
    if let Some(kind) = account.machine_detection {
        set("answering_machine_detection", kind.into());
    }
    if let Some(url) = config.webhook_url() {
        set("webhook_url", url.into());
        set("webhook_url_method", "POST".into());
    }
    Some(ApiRequest::post_json("/v2/calls".to_owned(), bearer(&account.api_key), &body))
}

pub(crate) fn dialled_call_id(body: &[u8]) -> Option<String> {
    let answer = object(body)?;
    text(answer.get("data")?.as_object()?, "call_control_id").map(|id| bounded("", id))
}

/// True if the body of a 422 says that Telnyx does not know the id of the call (90015), or that the call has ended (90018). See
/// <https://developers.telnyx.com/api-reference/call-information/retrieve-a-call-status>.
pub(crate) fn is_unknown(body: &[u8]) -> bool {
    let errors = object(body).and_then(|mut answer| answer.remove("errors"));
    let Some(Value::Array(errors)) = errors else { return false };
    errors.iter().filter_map(|error| error.get("code")).any(|code| match code {
        Value::String(code) => matches!(code.as_str(), "90015" | "90018"),
        Value::Number(code) => matches!(code.as_u64(), Some(90015 | 90018)),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    })
}

/// Request of a search that waits for its response. Pages are counted from 1.
#[derive(Clone, Debug)]
pub(crate) enum Search {
    ById,
    /// Events in which the hangup of a call with a known id is looked for. `call` is the ended call, if Telnyx still
    /// knows it. `others` are the other events of the call so far.
    Hangup {
        call: Option<Map<String, Value>>,
        others: Vec<Map<String, Value>>,
        filters: String,
        page: u64,
    },
    /// Events in which our ids are looked for. `found` is the id of our call, whose hangup was not seen yet. `others` are its events so
    /// far.
    Events {
        found: Option<String>,
        others: Vec<Map<String, Value>>,
        filters: String,
        page: u64,
        /// True if our call may be on a row that cannot be read.
        is_unclear: bool,
    },
    /// Calls of the connection in which our ids are looked for.
    ActiveCalls {
        page: ActivePage,
        /// True if our call may be on a row of either list that cannot be read.
        is_unclear: bool,
    },
}

/// Page of the list of active calls. Telnyx documents that a cursor names the next page. Its newer packages count the pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ActivePage {
    Number(u64),
    After(String),
}

/// Place of the next page, as one page of a list shows it.
enum NextPage {
    Ask(ActivePage),
    /// This page is the last one.
    None,
    /// The page does not say whether another one follows, or where it is.
    Unclear,
}

pub(crate) fn start_search(config: &AccountConfig, lookup: &Lookup<'_>) -> Option<(ApiRequest, Search)> {
    if let Some(id) = lookup.provider_call_id {
        return Some((get(config, format!("/v2/calls/{}", encoded(id)))?, Search::ById));
    }
    lookup.dialled_at?;
    let filters = number_filters(lookup)?;
    let request = events_request(config, &filters, 1)?;
    Some((request, Search::Events { found: None, others: Vec::new(), filters, page: 1, is_unclear: false }))
}

fn get(config: &AccountConfig, path: String) -> Option<ApiRequest> {
    Some(ApiRequest::get(path, bearer(&TelnyxAccount::of(config)?.api_key)))
}

/// Filters for the webhooks of all calls between both numbers, since our dial if the call has one.
fn number_filters(lookup: &Lookup<'_>) -> Option<String> {
    let since = lookup.dialled_at.map(|at| created_from(at).to_string());
    let numbers =
        [("filter[from]", lookup.from?.as_str()), ("filter[to]", lookup.to?.as_str()), ("filter[type]", "webhook")];
    Some(query(numbers.into_iter().chain(since.as_deref().map(|since| ("filter[occurred_at][gte]", since)))))
}

fn events_request(config: &AccountConfig, filters: &str, page: u64) -> Option<ApiRequest> {
    get(config, format!("/v2/call_events?{filters}&page%5Bnumber%5D={page}&page%5Bsize%5D={PAGE_SIZE}"))
}

fn active_calls_request(config: &AccountConfig, page: &ActivePage) -> Option<ApiRequest> {
    let page = match page {
        ActivePage::Number(1) => None,
        ActivePage::Number(number) => Some(("page[number]", number.to_string())),
        ActivePage::After(cursor) => Some(("page[after]", cursor.clone())),
    };
    let limit = ("page[limit]", PAGE_SIZE.to_string());
    let parameters: Vec<_> = page.into_iter().chain([limit]).collect();
    let parameters = query(parameters.iter().map(|(name, value)| (*name, value.as_str())));
    let connection_id = encoded(&TelnyxAccount::of(config)?.connection_id);
    get(config, format!("/v2/connections/{connection_id}/active_calls?{parameters}"))
}

/// Reads a response. `body` is `None` if Telnyx does not know the call.
pub(crate) fn next_step(
    config: &AccountConfig,
    lookup: &Lookup<'_>,
    search: Search,
    body: Option<&[u8]>,
    now: Timestamp,
) -> Step<Search> {
    let answer = body.and_then(object);
    let ask = |request: Option<ApiRequest>, search| match request {
        Some(request) => Step::Ask(request, search),
        None => Step::Answer(ParsedAnswer::Unreadable),
    };
    match search {
        Search::ById => {
            let call = match (body, answer.and_then(|mut answer| answer.remove("data"))) {
                (None, _) => None,
                (Some(_), Some(Value::Object(call))) if text(&call, "call_control_id") == lookup.provider_call_id => {
                    match state_of(&call) {
                        Some(alive) => return Step::Answer(alive),
                        None => Some(call),
                    }
                }
                (Some(_), Some(_) | None) => return Step::Answer(ParsedAnswer::Unreadable),
            };
            let leg_id = call.as_ref().and_then(|call| text(call, "call_leg_id"));
            let by_leg = leg_id.map(|id| query([("filter[leg_id]", id), ("filter[type]", "webhook")]));
            match by_leg.or_else(|| number_filters(lookup)) {
                Some(filters) => ask(
                    events_request(config, &filters, 1),
                    Search::Hangup { call, others: Vec::new(), filters, page: 1 },
                ),
                None => Step::Answer(without_hangup(call, &[])),
            }
        }
        Search::Hangup { call, mut others, filters, page } => {
            let Some(events) = answer else { return Step::Answer(without_hangup(call, &others)) };
            let ours = raw_events(&events).filter(|event| call_control_id(event) == lookup.provider_call_id);
            if let Some(hangup) = hangup_among(ours, &mut others) {
                return Step::Answer(ended(&others, hangup));
            }
            if has_next_page(&events, page) == Some(true) {
                let request = events_request(config, &filters, page + 1);
                return ask(request, Search::Hangup { call, others, filters, page: page + 1 });
            }
            Step::Answer(without_hangup(call, &others))
        }
        Search::Events { mut found, mut others, filters, page, mut is_unclear } => {
            let Some(events) = answer.filter(has_rows) else { return Step::Answer(ParsedAnswer::Unreadable) };
            let is_ours = |payload: &Map<String, Value>| lookup.matches(&echo(payload));
            let ours = || raw_events(&events).filter(|event| payload(event).is_some_and(is_ours));
            found = found.or_else(|| ours().find_map(call_control_id).map(str::to_owned));
            if let Some(hangup) = hangup_among(ours(), &mut others) {
                return Step::Answer(ended(&others, hangup));
            }
            is_unclear |= raw_events(&events).count() < rows(&events).len();
            let has_next = has_next_page(&events, page);
            if has_next == Some(true) {
                let (request, page) = (events_request(config, &filters, page + 1), page + 1);
                return ask(request, Search::Events { found, others, filters, page, is_unclear });
            }
            if let Some(id) = found {
                return Step::Answer(ParsedAnswer::Alive { provider_call_id: bounded("", &id) });
            }
            let page = ActivePage::Number(1);
            is_unclear |= has_next.is_none();
            ask(active_calls_request(config, &page), Search::ActiveCalls { page, is_unclear })
        }
        Search::ActiveCalls { page, mut is_unclear } => {
            let Some(answer) = answer.filter(has_rows) else { return Step::Answer(ParsedAnswer::Unreadable) };
            let calls = || rows(&answer).iter().filter_map(active_call);
            let ours = calls().find(|(_, echoed)| lookup.matches(echoed));
            if let Some((id, _)) = ours {
                return Step::Answer(ParsedAnswer::Alive { provider_call_id: bounded("", id) });
            }
            is_unclear |= calls().count() < rows(&answer).len();
            match next_active_page(&answer, &page) {
                NextPage::Ask(page) => {
                    return ask(active_calls_request(config, &page), Search::ActiveCalls { page, is_unclear });
                }
                NextPage::None => {}
                NextPage::Unclear => is_unclear = true,
            }
            let are_events_complete = lookup.dialled_at.is_some_and(|at| now.millis_since(at) < EVENTS_KEPT_MS);
            Step::Answer(if is_unclear {
                ParsedAnswer::Undecided("unclear_calls")
            } else if !lookup.is_filtered_by_numbers() {
                SIP_ADDRESS
            } else if are_events_complete {
                ParsedAnswer::NotFound
            } else {
                ParsedAnswer::Undecided("forgotten")
            })
        }
    }
}

/// Lists the webhooks of all calls since the start of the period: Telnyx has no list of ended calls.
pub(crate) fn discovery_request(config: &AccountConfig, period: Period, page: Option<&str>) -> Option<ApiRequest> {
    let since = period.from.to_string();
    let filters = query([("filter[type]", "webhook"), ("filter[occurred_at][gte]", since.as_str())]);
    events_request(config, &filters, page.map_or(Some(1), |page| page.parse().ok())?)
}

/// Reads one page, and takes the hangups of the period. A hangup does not say whether the call was answered, so the other events of its
/// call on this page are taken too. The latest of them comes first, because it tells most about an answer. The hangup comes last. A call
/// that is known without its hangup is asked about, and one that is known only by its hangup is not.
pub(crate) fn parse_page(body: &[u8], period: Period, page: Option<&str>) -> Option<ParsedPage> {
    let answer = object(body).filter(|answer| answer.contains_key("data"))?;
    let number: u64 = page.map_or(Some(1), |page| page.parse().ok())?;
    let occurred_at = |event: &Map<String, Value>| Timestamp::parse_rfc3339(text(event, "occurred_at")?);
    let times: Vec<Timestamp> = raw_events(&answer).filter_map(occurred_at).collect();
    // With the oldest event first, nothing of the period follows after its end.
    let is_past = times.first() < times.last() && times.last().is_some_and(|last| *last > period.until);
    let next_page = (has_next_page(&answer, number) == Some(true) && !is_past).then(|| (number + 1).to_string());
    let hangups = raw_events(&answer)
        .filter(|event| is_hangup(event) && occurred_at(event).is_some_and(|at| period.contains(at)));
    let events = hangups.flat_map(|hangup| {
        let id = call_control_id(hangup);
        let is_other =
            move |event: &&Map<String, Value>| !is_hangup(event) && id.is_some() && call_control_id(event) == id;
        let mut events: Vec<&Map<String, Value>> = raw_events(&answer).filter(is_other).collect();
        events.sort_by_key(|event| Reverse(occurred_at(event)));
        events.into_iter().chain([hangup])
    });
    Some((endings(events.map(|event| ended(&[], event))), next_page))
}

/// Answer about a call that has not ended. A call that is neither alive nor has an end time is still being set up, so
/// the answer is unreadable for now. `None` if the call has ended.
fn state_of(call: &Map<String, Value>) -> Option<ParsedAnswer> {
    let ended = text(call, "end_time").and_then(Timestamp::parse_rfc3339).is_some();
    match (call.get("is_alive").and_then(Value::as_bool), ended) {
        (Some(true), _) => Some(ParsedAnswer::Alive {
            provider_call_id: bounded("", text(call, "call_control_id").unwrap_or_default()),
        }),
        (Some(false), true) => None,
        (Some(false), false) | (None, _) => Some(ParsedAnswer::Unreadable),
    }
}

/// Returns the hangup among the events of a call on one page. Adds those of its other events that may change it to `others`. Telnyx does not
/// document the order of the events.
fn hangup_among<'a>(
    events: impl Iterator<Item = &'a Map<String, Value>>,
    others: &mut Vec<Map<String, Value>>,
) -> Option<&'a Map<String, Value>> {
    let (hangups, rest): (Vec<_>, Vec<_>) = events.partition(|event| is_hangup(event));
    others.extend(rest.into_iter().filter(|event| may_change_a_call(event)).cloned());
    hangups.first().copied()
}

/// Answer about a call whose hangup is not among the events. If Telnyx still knows the call, that is a `call.hangup`
/// without a cause, because `GET /v2/calls/{id}` gives none.
fn without_hangup(call: Option<Map<String, Value>>, others: &[Map<String, Value>]) -> ParsedAnswer {
    let Some(call) = call else { return ParsedAnswer::Gone };
    let fields = [("record_type", "event".into()), ("event_type", HANGUP.into()), ("payload", Value::Object(call))];
    ended(others, &fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Answer about a call that has ended, with the other events of the same leg. Another leg may have our ids too.
fn ended(others: &[Map<String, Value>], hangup: &Map<String, Value>) -> ParsedAnswer {
    let of_leg = others.iter().filter(|event| call_control_id(event) == call_control_id(hangup));
    ParsedAnswer::Ended { others: of_leg.map(raw_webhook).collect(), query: String::new(), body: raw_webhook(hangup) }
}

/// The raw webhook, as Telnyx posted it or would have posted it. Its own id is the id of the event.
fn raw_webhook(event: &Map<String, Value>) -> Vec<u8> {
    json!({"data": event}).to_string().into_bytes()
}

fn has_rows(answer: &Map<String, Value>) -> bool {
    answer.get("data").is_some_and(Value::is_array)
}

fn rows(answer: &Map<String, Value>) -> &[Value] {
    answer.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Raw events in the `metadata` of the rows. Telnyx documents that they are there, and not at which depth. Rows that cannot be read are left
/// out.
fn raw_events(answer: &Map<String, Value>) -> impl Iterator<Item = &Map<String, Value>> {
    rows(answer).iter().filter_map(|row| {
        let metadata = row.get("metadata")?.as_object()?;
        let inner = || metadata.values().filter_map(Value::as_object);
        let innermost = || inner().flat_map(|object| object.values().filter_map(Value::as_object));
        [metadata]
            .into_iter()
            .chain(inner())
            .chain(innermost())
            .find(|event| text(event, "event_type").is_some() && payload(event).is_some())
    })
}

fn payload(event: &Map<String, Value>) -> Option<&Map<String, Value>> {
    event.get("payload")?.as_object()
}

fn call_control_id(event: &Map<String, Value>) -> Option<&str> {
    text(payload(event)?, "call_control_id")
}

fn may_change_a_call(event: &Map<String, Value>) -> bool {
    match text(event, "event_type").map(EventType::from_name) {
        Some(
            EventType::Initiated
            | EventType::Answered
            | EventType::Hangup
            | EventType::MachineDetection
            | EventType::Analyzed,
        ) => true,
        Some(EventType::Ignored | EventType::Other) | None => false,
    }
}

fn is_hangup(event: &Map<String, Value>) -> bool {
    text(event, "event_type") == Some(HANGUP)
}

/// Our ids in the `client_state` of a call.
fn echo(call: &Map<String, Value>) -> EchoedIds {
    let decoded = text(call, "client_state").and_then(|state| BASE64_STANDARD.decode(state).ok());
    echoed_ids(decoded.and_then(|state| json::value(&state)).as_ref())
}

/// Id of a row of the active calls, and our ids in it. Every row has a `client_state`, also if it is empty. `None` if the row cannot be read.
fn active_call(row: &Value) -> Option<(&str, EchoedIds)> {
    let call = row.as_object().filter(|call| call.contains_key("client_state"))?;
    Some((text(call, "call_control_id")?, echo(call)))
}

/// True if another page of events follows. `None` if this page does not say.
fn has_next_page(answer: &Map<String, Value>, page: u64) -> Option<bool> {
    if rows(answer).is_empty() {
        return Some(false);
    }
    let pages = answer.get("meta")?.get("total_pages")?.as_u64()?;
    Some(page < pages)
}

/// The page of active calls after `page`. An empty page is the last one.
fn next_active_page(answer: &Map<String, Value>, page: &ActivePage) -> NextPage {
    if rows(answer).is_empty() {
        return NextPage::None;
    }
    let Some(meta) = answer.get("meta").and_then(Value::as_object) else { return NextPage::Unclear };
    let after = meta.get("cursors").and_then(Value::as_object).and_then(|cursors| text(cursors, "after"));
    let next = text(meta, "next");
    match (after.map(str::to_owned).or_else(|| next.and_then(cursor_of)), next, page) {
        // The same page again.
        (Some(cursor), _, ActivePage::After(this)) if cursor == *this => NextPage::Unclear,
        (Some(cursor), _, _) => NextPage::Ask(ActivePage::After(cursor)),
        (None, Some(_), _) => NextPage::Unclear,
        (None, None, _) if ["cursors", "next", "total_items"].iter().any(|name| meta.contains_key(*name)) => {
            NextPage::None
        }
        (None, None, ActivePage::After(_)) => NextPage::Unclear,
        (None, None, ActivePage::Number(number)) => match has_next_page(answer, *number) {
            Some(true) => NextPage::Ask(ActivePage::Number(number + 1)),
            Some(false) => NextPage::None,
            None => NextPage::Unclear,
        },
    }
}

/// Cursor in the path of a next page. Telnyx shows paths in which nothing is encoded, so a `+` is no space.
fn cursor_of(path: &str) -> Option<String> {
    let (_, query) = path.split_once('?')?;
    let decoded = |text| percent_decode_str(text).decode_utf8().ok();
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let cursor = pairs.find_map(|(name, cursor)| (decoded(name)? == "page[after]").then(|| decoded(cursor))?)?;
    (!cursor.is_empty()).then(|| cursor.into_owned())
}
