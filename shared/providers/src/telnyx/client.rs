//! Telnyx's API.
//!
//! * Dial: `POST /v2/calls`. `command_id` is an idempotency key: Telnyx ignores a second request with it within a
//!   minute.
//! * Lookup: `GET /v2/calls/{call_control_id}`. Without that id, a call cannot be found.
//!
//! Our ids are in `client_state`, which Telnyx echoes. Another program that controls the call can replace it with a
//! later command.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};
use switchhook_domain::Timestamp;

use crate::api::{ApiRequest, bearer, encoded, json_object, object, text};
use crate::config::{Account, ProviderConfig, TelnyxAccount};
use crate::dial::{DialRequest, Refusal};
use crate::ids::bounded;
use crate::lookup::{Lookup, ParsedAnswer};

pub(crate) fn dial_api_request(config: &ProviderConfig, request: &DialRequest<'_>) -> Option<ApiRequest> {
    let account = account(config)?;
    let client_state = BASE64_STANDARD.encode(json_object(&request.metadata_to_echo()).to_string());
    let body = json!({
        "connection_id": account.connection_id,
        "from": request.from.as_str(),
        "to": request.to.as_str(),
        "client_state": client_state,
        "command_id": request.dial_key,
    });
    Some(ApiRequest::post_json("/v2/calls".to_owned(), bearer(&account.api_key), &body))
}

pub(crate) fn dialled_call_id(body: &[u8]) -> Option<String> {
    let answer = object(body)?;
    text(answer.get("data")?.as_object()?, "call_control_id").map(|id| bounded("", id))
}

/// Reads the `errors` of a response: each has a `code`, texts, and the field that it is about in `source.pointer`.
pub(crate) fn refusal(body: &[u8]) -> Option<Refusal> {
    let answer = object(body)?;
    let errors: Vec<&Map<String, Value>> =
        answer.get("errors")?.as_array()?.iter().filter_map(Value::as_object).collect();
    let says = |error: &&Map<String, Value>, words: &[&str]| {
        let texts = ["title", "detail"].into_iter().filter_map(|name| text(error, name)).map(str::to_lowercase);
        texts.into_iter().any(|text| words.iter().any(|word| text.contains(word)))
    };
    let is_about_called_number = |error: &&Map<String, Value>| {
        let pointer = error.get("source").and_then(|source| source.get("pointer").or_else(|| source.get("parameter")));
        pointer.and_then(Value::as_str).is_some_and(|pointer| pointer.trim_start_matches('/') == "to")
    };
    if errors.iter().any(|error| says(error, &["channel limit", "concurrent call", "concurrency"])) {
        Some(Refusal::Capacity("concurrency_limit"))
    } else if !errors.is_empty() && errors.iter().all(is_about_called_number) {
        Some(Refusal::Number("invalid_number"))
    } else {
        None
    }
}

pub(crate) fn lookup_api_request(config: &ProviderConfig, lookup: &Lookup<'_>) -> Option<ApiRequest> {
    let account = account(config)?;
    let path = format!("/v2/calls/{}", encoded(lookup.provider_call_id?));
    Some(ApiRequest::get(path, bearer(&account.api_key)))
}

/// Converts an ended call into a `call.hangup` without a cause, because the API gives none. A call that is neither
/// alive nor has an end time is still being set up, so the answer is unreadable for now.
pub(crate) fn parse_lookup_answer(lookup: &Lookup<'_>, body: &[u8]) -> ParsedAnswer {
    let Some(Value::Object(call)) = object(body).and_then(|mut answer| answer.remove("data")) else {
        return ParsedAnswer::Unreadable;
    };
    let Some(id) = text(&call, "call_control_id").filter(|id| lookup.provider_call_id == Some(*id)) else {
        return ParsedAnswer::Unreadable;
    };
    let ended = text(&call, "end_time").and_then(Timestamp::parse_rfc3339).is_some();
    match (call.get("is_alive").and_then(Value::as_bool), ended) {
        (Some(true), _) => ParsedAnswer::Alive { provider_call_id: bounded("", id) },
        (Some(false), true) => {
            let event = json!({"data": {"record_type": "event", "event_type": "call.hangup", "payload": call}});
            ParsedAnswer::Ended { query: String::new(), body: event.to_string().into_bytes() }
        }
        (Some(false), false) | (None, _) => ParsedAnswer::Unreadable,
    }
}

fn account(config: &ProviderConfig) -> Option<&TelnyxAccount> {
    match config.dial()?.account() {
        Account::Telnyx(account) => Some(account),
        Account::Retell(_) | Account::Twilio(_) | Account::Vapi(_) => None,
    }
}
