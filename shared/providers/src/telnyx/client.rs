//! Placing calls and asking about them at Telnyx: `POST /v2/calls`, `GET /v2/calls/{call_control_id}`.
//!
//! Our ids go into `client_state`, which later commands of somebody else's may replace. A call whose id is not known cannot be found
//! again; but a dial that is sent again with its key within a minute is not dialled again.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use switchhook_domain::Timestamp;

use crate::client::{ApiRequest, DialRequest, Lookup, ParsedAnswer, bearer, encoded, json_object, object, text};
use crate::config::{Account, DialFields, ProviderConfig};
use crate::ids::bounded;
use crate::key::Key;

#[derive(Clone)]
pub(crate) struct TelnyxAccount {
    api_key: Key,
    connection_id: String,
}

impl TelnyxAccount {
    pub(crate) const FIELDS: &str = "api_key, connection_id";

    pub(crate) fn read(fields: &mut DialFields<'_, '_>) -> Option<Self> {
        let (api_key, connection_id) = (fields.key("api_key"), fields.text("connection_id"));
        Some(Self { api_key: api_key?, connection_id: connection_id? })
    }
}

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

pub(crate) fn lookup_api_request(config: &ProviderConfig, lookup: &Lookup<'_>) -> Option<ApiRequest> {
    let account = account(config)?;
    let path = format!("/v2/calls/{}", encoded(lookup.provider_call_id?));
    Some(ApiRequest::get(path, bearer(&account.api_key)))
}

/// A call that is over is a hangup of which no cause is told. A dial that is not through yet is neither alive nor over.
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
