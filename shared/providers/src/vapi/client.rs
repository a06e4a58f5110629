//! Placing calls and asking about them at Vapi: `POST /call`, `GET /call/{id}`, and, where the call id is not known, the calls that
//! were made about then (`GET /call?createdAtGe=…`), among which ours carries our ids. There is no idempotency key.

use serde_json::{Map, Value, json};
use switchhook_domain::Timestamp;

use super::payload::CallStatus;
use crate::client::{
    ApiRequest, DialRequest, Lookup, ParsedAnswer, bearer, echoed_ids, encoded, json_object, object, query, text,
};
use crate::config::{Account, DialFields, ProviderConfig};
use crate::ids::bounded;
use crate::key::Key;

/// Vapi's clock and ours may differ by as much, and a request may take as long to become a call.
const CREATED_BEFORE_MS: i64 = 2 * 60 * 1000;
const CREATED_AFTER_MS: i64 = 10 * 60 * 1000;

/// Each call comes with all that was said in it, so a page is kept small.
const LISTED_MAX: usize = 100;

#[derive(Clone)]
pub(crate) struct VapiAccount {
    api_key: Key,
    assistant_id: String,
    /// Which number calls; the number of the order is not told.
    phone_number_id: String,
}

impl VapiAccount {
    pub(crate) const FIELDS: &str = "api_key, assistant_id, phone_number_id";

    pub(crate) fn read(fields: &mut DialFields<'_, '_>) -> Option<Self> {
        let api_key = fields.key("api_key");
        let (assistant_id, phone_number_id) = (fields.text("assistant_id"), fields.text("phone_number_id"));
        Some(Self { api_key: api_key?, assistant_id: assistant_id?, phone_number_id: phone_number_id? })
    }
}

pub(crate) fn dial_api_request(config: &ProviderConfig, request: &DialRequest<'_>) -> Option<ApiRequest> {
    let account = account(config)?;
    let echo = json_object(&request.metadata_to_echo());
    // Metadata is for whoever reads the events, the variables are for the assistant.
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

pub(crate) fn lookup_api_request(config: &ProviderConfig, lookup: &Lookup<'_>) -> Option<ApiRequest> {
    let authorization = bearer(&account(config)?.api_key);
    if let Some(id) = lookup.provider_call_id {
        return Some(ApiRequest::get(format!("/call/{}", encoded(id)), authorization));
    }
    let dialled_ms = lookup.dialled_at?.as_millis();
    let from = Timestamp::from_millis(dialled_ms.saturating_sub(CREATED_BEFORE_MS)).to_string();
    let to = Timestamp::from_millis(dialled_ms.saturating_add(CREATED_AFTER_MS)).to_string();
    let limit = LISTED_MAX.to_string();
    let window = query([("createdAtGe", from.as_str()), ("createdAtLe", to.as_str()), ("limit", limit.as_str())]);
    Some(ApiRequest::get(format!("/call?{window}"), authorization))
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
        Value::Object(call) => Some(call).filter(|call| lookup.is_about(&echoed_ids(metadata(call)))),
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

/// A call that is over is what `status-update` says of its end, and once its analysis is in it, what `end-of-call-report` says: one
/// that is stored without would stand in for the webhook that brings the analysis, because it has the same id.
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
