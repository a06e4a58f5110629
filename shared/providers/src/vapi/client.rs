//! Vapi's API.
//!
//! * Dial: `POST /call`. Vapi has no idempotency key.
//! * Lookup: `GET /call/{id}`, or `GET /call?createdAtGe=…` if the call id is unknown. The second request lists all
//!   calls that were created around the time of our dial, page by page. The call that we look for has our ids in its
//!   metadata. The assistant and the number of the account may have changed since the dial, so they filter nothing.

use serde_json::{Map, Value, json};
use switchhook_domain::Timestamp;

use super::payload::{CallStatus, LOOKED_UP};
use crate::api::{ApiRequest, bearer, echoed_ids, encoded, error_messages, json_object, object, objects, query, text};
use crate::config::{AccountConfig, VapiAccount};
use crate::dial::{DialRequest, Refusal};
use crate::ids::bounded;
use crate::json;
use crate::lookup::{Lookup, NO_PHONE_CALL, ParsedAnswer, ParsedPage, Period, Step, endings};

/// Calls per page. Each one includes its whole transcript, some hundred KB, and a response may have 4 MB.
const LISTED_MAX: usize = 10;

pub(crate) fn dial_api_request(config: &AccountConfig, request: &DialRequest<'_>) -> Option<ApiRequest> {
    let account = VapiAccount::of(config)?;
    let echo = json_object(&request.metadata_to_echo());
    let field = if request.to.is_e164() { "number" } else { "sipUri" };
    // Webhooks echo the metadata. The assistant sees only the variables.
    let body = json!({
        "assistantId": account.assistant_id,
        "phoneNumberId": account.phone_number_id,
        "customer": {field: request.to.as_str()},
        "assistantOverrides": {"metadata": echo, "variableValues": echo},
    });
    Some(ApiRequest::post_json("/call".to_owned(), bearer(&account.api_key), &body))
}

pub(crate) fn dialled_call_id(body: &[u8]) -> Option<String> {
    text(&object(body)?, "id").map(|id| bounded("", id))
}

/// Reads the texts of an error, and the limits in a response that accepts the request. Vapi accepts a call above the
/// limit of concurrent calls with `concurrencyBlocked`, and does not place it.
pub(crate) fn refusal(body: &[u8]) -> Option<Refusal> {
    let limits = object(body)?.remove("subscriptionLimits");
    if limits.and_then(|limits| limits.get("concurrencyBlocked")?.as_bool()) == Some(true) {
        return Some(Refusal::Capacity("concurrency_limit"));
    }
    let messages = error_messages(body);
    let blames = |word: &str| messages.iter().any(|text| text.contains(word));
    // Other messages of the same response would name another field.
    let names_fields =
        |text: &&String| text.contains("property ") || text.contains("must ") || text.contains("should ");
    if blames("concurrency") {
        Some(Refusal::Capacity("concurrency_limit"))
    } else if blames("daily outbound") {
        Some(Refusal::Account("daily_limit"))
    } else if blames("international call") {
        // A free number calls no other country.
        Some(Refusal::NumberOrAccount("country_not_enabled"))
    } else if (blames("customer.number") || blames("customer.sipuri"))
        && messages.iter().filter(names_fields).all(|text| text.contains("customer."))
    {
        Some(Refusal::Number("invalid_number"))
    } else {
        None
    }
}

/// Request of a search that waits for its response.
#[derive(Clone, Debug)]
pub(crate) enum Search {
    ById,
    /// Calls that were created in this period.
    List {
        from: Timestamp,
        until: Timestamp,
        /// True if an earlier page had a call that may be ours.
        is_unclear: bool,
    },
}

pub(crate) fn start_search(config: &AccountConfig, lookup: &Lookup<'_>) -> Option<(ApiRequest, Search)> {
    if let Some(id) = lookup.provider_call_id {
        let path = format!("/call/{}", encoded(id));
        return Some((ApiRequest::get(path, bearer(&VapiAccount::of(config)?.api_key)), Search::ById));
    }
    let Period { from, until } = lookup.period()?;
    Some((created_in(config, from, until)?, Search::List { from, until, is_unclear: false }))
}

/// Lists the calls that were created in a period.
fn created_in(config: &AccountConfig, from: Timestamp, until: Timestamp) -> Option<ApiRequest> {
    let (ge, le, limit) = (from.to_string(), until.to_string(), LISTED_MAX.to_string());
    let pairs = [("createdAtGe", ge.as_str()), ("createdAtLe", le.as_str()), ("limit", limit.as_str())];
    Some(ApiRequest::get(format!("/call?{}", query(pairs)), bearer(&VapiAccount::of(config)?.api_key)))
}

/// Reads a response. `body` is `None` if Vapi does not know the call.
pub(crate) fn next_step(
    config: &AccountConfig,
    lookup: &Lookup<'_>,
    search: Search,
    body: Option<&[u8]>,
) -> Step<Search> {
    let (from, until, is_unclear) = match search {
        Search::ById => {
            return Step::Answer(match body.map(object) {
                None => ParsedAnswer::Gone,
                Some(Some(call)) if text(&call, "id") == lookup.provider_call_id => parse_call(call),
                Some(Some(_) | None) => ParsedAnswer::Unreadable,
            });
        }
        Search::List { from, until, is_unclear } => (from, until, is_unclear),
    };
    let Some(Value::Array(calls)) = body.and_then(json::value) else {
        return Step::Answer(ParsedAnswer::Unreadable);
    };
    let rest = rest_of(&calls, from, until);
    let page_is_full = calls.len() >= LISTED_MAX;
    let calls: Vec<Map<String, Value>> = objects(calls).collect();
    let is_unclear = is_unclear || calls.iter().any(|call| may_be_ours(call, lookup));
    let ours = calls.into_iter().find(|call| lookup.matches(&echoed_ids(metadata(call))));
    if let Some(call) = ours {
        return Step::Answer(if is_phone_call(&call) { parse_call(call) } else { NO_PHONE_CALL });
    }
    if !page_is_full {
        return Step::Answer(if is_unclear {
            ParsedAnswer::Undecided("unclear_calls")
        } else {
            ParsedAnswer::NotFound
        });
    }
    match rest.and_then(|(from, until)| Some((created_in(config, from, until)?, from, until))) {
        Some((request, from, until)) => Step::Ask(request, Search::List { from, until, is_unclear }),
        None => Step::Answer(ParsedAnswer::Undecided("too_many_calls")),
    }
}

/// True if a call without metadata may be the one that we look for. In the mode of zero data retention, Vapi keeps no metadata.
fn may_be_ours(call: &Map<String, Value>, lookup: &Lookup<'_>) -> bool {
    let to =
        call.get("customer").and_then(|customer| customer.get("number").or_else(|| customer.get("sipUri"))?.as_str());
    text(call, "type") == Some("outboundPhoneCall")
        && !metadata(call).is_some_and(Value::is_object)
        && to.zip(lookup.to).is_none_or(|(to, asked)| to == asked.as_str())
}

/// Part of the period that a full page does not cover. The next page begins where this one ended, whether Vapi lists the
/// newest or the oldest call first: Vapi documents no order. `None` if all calls of the page were created at once.
fn rest_of(calls: &[Value], from: Timestamp, until: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let created_at = |call: Option<&Value>| Timestamp::parse_rfc3339(call?.get("createdAt")?.as_str()?);
    let (first, last) = (created_at(calls.first())?, created_at(calls.last())?);
    if first >= last && last < until {
        Some((from, last))
    } else if first < last && last > from {
        Some((last, until))
    } else {
        None
    }
}

pub(crate) fn discovery_request(config: &AccountConfig, period: Period, page: Option<&str>) -> Option<ApiRequest> {
    let (from, until) = page.and_then(parse_rest).unwrap_or((period.from, period.until));
    created_in(config, from, until)
}

/// Reads one page. The next page is named by the part of the period that is left.
pub(crate) fn parse_page(body: &[u8], period: Period, page: Option<&str>) -> Option<ParsedPage> {
    let Some(Value::Array(calls)) = json::value(body) else { return None };
    let (from, until) = page.and_then(parse_rest).unwrap_or((period.from, period.until));
    let rest = rest_of(&calls, from, until).filter(|_| calls.len() >= LISTED_MAX);
    let next_page = rest.map(|(from, until)| format!("{}-{}", from.as_millis(), until.as_millis()));
    Some((endings(objects(calls).map(parse_call)), next_page))
}

fn parse_rest(page: &str) -> Option<(Timestamp, Timestamp)> {
    let (from, until) = page.split_once('-')?;
    Some((Timestamp::from_millis(from.parse().ok()?), Timestamp::from_millis(until.parse().ok()?)))
}

fn is_phone_call(call: &Map<String, Value>) -> bool {
    matches!(text(call, "type"), Some("inboundPhoneCall" | "outboundPhoneCall"))
}

fn metadata(call: &Map<String, Value>) -> Option<&Value> {
    call.get("assistantOverrides")?.get("metadata")
}

/// Converts an ended call into an `end-of-call-report`. As in Vapi's own webhooks, the analysis and the artifact are in the message, so a
/// rule of the configuration finds the decision at the same place.
///
/// A call that has neither its end time nor a result says no more than the status update `ended`. So it is converted into one.
fn parse_call(mut call: Map<String, Value>) -> ParsedAnswer {
    let Some(id) = text(&call, "id") else {
        return ParsedAnswer::Unreadable;
    };
    match text(&call, "status").map(CallStatus::from_name) {
        Some(
            CallStatus::Scheduled
            | CallStatus::Queued
            | CallStatus::Ringing
            | CallStatus::InProgress
            | CallStatus::Forwarding,
        ) => ParsedAnswer::Alive { provider_call_id: bounded("", id) },
        Some(CallStatus::Ended) => {
            let has_fields =
                |value: Option<&Value>| value.and_then(Value::as_object).is_some_and(|data| !data.is_empty());
            let outputs = call.get("artifact").and_then(|artifact| artifact.get("structuredOutputs"));
            let is_complete =
                text(&call, "endedAt").is_some() || has_fields(call.get("analysis")) || has_fields(outputs);
            let mut message = Map::new();
            for name in ["analysis", "artifact"] {
                message.extend(call.remove(name).map(|value| (name.to_owned(), value)));
            }
            if is_complete {
                message.insert("type".to_owned(), "end-of-call-report".into());
            } else {
                // A lookup comes last, so its answer ends the call although its reason does not tell how.
                let fields = [("type", "status-update"), ("status", "ended"), (LOOKED_UP, "true")];
                message.extend(fields.map(|(name, value)| (name.to_owned(), value.into())));
            }
            message.insert("call".to_owned(), Value::Object(call));
            ParsedAnswer::ended(&json!({"message": message}))
        }
        Some(CallStatus::Other) => ParsedAnswer::UnknownValue("status"),
        Some(CallStatus::NotFound) | None => ParsedAnswer::Unreadable,
    }
}
