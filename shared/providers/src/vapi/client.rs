//! Vapi's API.
//!
//! * Dial: `POST /call`. Vapi has no idempotency key.
//! * Lookup: `GET /call/{id}`, or `GET /call?createdAtGe=…` if the call id is unknown. The second request lists the
//!   calls that were created around the time of our dial. The call that we look for has our ids in its metadata.

use serde_json::{Map, Value, json};
use switchhook_domain::Timestamp;

use super::payload::CallStatus;
use crate::api::{ApiRequest, bearer, echoed_ids, encoded, error_messages, json_object, object, query, text};
use crate::config::{Account, ProviderConfig, VapiAccount};
use crate::dial::{DialRequest, Refusal};
use crate::ids::bounded;
use crate::lookup::{Lookup, ParsedAnswer};

/// The listed period starts this long before our dial: Vapi's clock and ours may differ.
const CREATED_BEFORE_MS: i64 = 2 * 60 * 1000;
/// The listed period ends this long after our dial: a request may take time to become a call.
const CREATED_AFTER_MS: i64 = 10 * 60 * 1000;

/// Calls per page. Each one includes its whole transcript, so the page is kept small.
const LISTED_MAX: usize = 100;

pub(crate) fn dial_api_request(config: &ProviderConfig, request: &DialRequest<'_>) -> Option<ApiRequest> {
    let account = account(config)?;
    let echo = json_object(&request.metadata_to_echo());
    // Webhooks echo the metadata. The assistant sees only the variables.
    let body = json!({
        "assistantId": account.assistant_id,
        "phoneNumberId": account.phone_number_id,
        "customer": {"number": request.to.as_str()},
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
    } else if blames("customer.number") && messages.iter().filter(names_fields).all(|text| text.contains("customer.")) {
        Some(Refusal::Number("invalid_number"))
    } else {
        None
    }
}

pub(crate) fn lookup_api_request(config: &ProviderConfig, lookup: &Lookup<'_>) -> Option<ApiRequest> {
    let authorization = bearer(&account(config)?.api_key);
    if let Some(id) = lookup.provider_call_id {
        return Some(ApiRequest::get(format!("/call/{}", encoded(id)), authorization));
    }
    let dialled_ms = lookup.dialled_at?.as_millis();
    let from = Timestamp::from_millis(dialled_ms.saturating_sub(CREATED_BEFORE_MS)).to_string();
    let to = Timestamp::from_millis(dialled_ms.saturating_add(CREATED_AFTER_MS)).to_string();
    let limit = LISTED_MAX.to_string();
    let period = query([("createdAtGe", from.as_str()), ("createdAtLe", to.as_str()), ("limit", limit.as_str())]);
    Some(ApiRequest::get(format!("/call?{period}"), authorization))
}

pub(crate) fn parse_lookup_answer(lookup: &Lookup<'_>, body: &[u8]) -> ParsedAnswer {
    if let Some(id) = lookup.provider_call_id {
        return match object(body) {
            Some(call) if text(&call, "id") == Some(id) => parse_call(call),
            Some(_) | None => ParsedAnswer::Unreadable,
        };
    }
    let Ok(Value::Array(calls)) = serde_json::from_slice(body) else {
        return ParsedAnswer::Unreadable;
    };
    let page_is_full = calls.len() >= LISTED_MAX;
    let ours = calls.into_iter().find_map(|call| match call {
        Value::Object(call) => Some(call).filter(|call| lookup.matches(&echoed_ids(metadata(call)))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    });
    match (ours, page_is_full) {
        (Some(call), _) => parse_call(call),
        (None, true) => ParsedAnswer::NotOnFirstPage,
        (None, false) => ParsedAnswer::NotFound,
    }
}

fn metadata(call: &Map<String, Value>) -> Option<&Value> {
    call.get("assistantOverrides")?.get("metadata")
}

/// Converts an ended call into an `end-of-call-report` if it has an analysis, otherwise into a `status-update`.
///
/// An `end-of-call-report` without an analysis would get the same event id as Vapi's own report. Vapi's own report
/// would then count as a duplicate, and its analysis would be lost.
fn parse_call(call: Map<String, Value>) -> ParsedAnswer {
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
            let analysed = call.get("analysis").and_then(Value::as_object).is_some_and(|data| !data.is_empty());
            let message = if analysed {
                json!({"type": "end-of-call-report", "call": call})
            } else {
                json!({"type": "status-update", "status": "ended", "call": call})
            };
            ParsedAnswer::Ended { query: String::new(), body: json!({"message": message}).to_string().into_bytes() }
        }
        Some(CallStatus::Other) | None => ParsedAnswer::Unreadable,
    }
}

fn account(config: &ProviderConfig) -> Option<&VapiAccount> {
    match config.dial()?.account() {
        Account::Vapi(account) => Some(account),
        Account::Retell(_) | Account::Twilio(_) | Account::Telnyx(_) => None,
    }
}
