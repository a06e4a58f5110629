//! Placing calls and asking about them at Retell: `POST /v2/create-phone-call`, `GET /v2/get-call/{call_id}`, and, where the call id
//! is not known, `POST /v3/list-calls` filtered by the metadata that we gave. There is no idempotency key.

use serde_json::{Map, Value, json};

use crate::client::{
    ApiRequest, DialRequest, Lookup, ParsedAnswer, bearer, echoed_ids, encoded, json_object, object, text,
};
use crate::config::{Account, DialFields, ProviderConfig};
use crate::ids::bounded;
use crate::key::Key;

/// More calls than one with the same attempt of ours are none of our making; the newest comes first.
const LISTED_MAX: u32 = 10;

#[derive(Clone)]
pub(crate) struct RetellAccount {
    api_key: Key,
    /// None: the agent that is bound to the number that calls.
    agent_id: Option<String>,
}

impl RetellAccount {
    pub(crate) const FIELDS: &str = "api_key, agent_id";

    pub(crate) fn read(fields: &mut DialFields<'_, '_>) -> Option<Self> {
        let (api_key, agent_id) = (fields.key("api_key"), fields.optional_text("agent_id"));
        Some(Self { api_key: api_key?, agent_id })
    }
}

pub(crate) fn dial_api_request(config: &ProviderConfig, request: &DialRequest<'_>) -> Option<ApiRequest> {
    let account = account(config)?;
    let echo = json_object(&request.metadata_to_echo());
    let mut body = Map::new();
    body.insert("from_number".to_owned(), request.from.as_str().into());
    body.insert("to_number".to_owned(), request.to.as_str().into());
    if let Some(agent_id) = &account.agent_id {
        body.insert("override_agent_id".to_owned(), agent_id.as_str().into());
    }
    // Metadata is for whoever reads the events, the variables are for the agent.
    body.insert("metadata".to_owned(), echo.clone());
    body.insert("retell_llm_dynamic_variables".to_owned(), echo);
    Some(ApiRequest::post_json("/v2/create-phone-call".to_owned(), bearer(&account.api_key), &Value::Object(body)))
}

pub(crate) fn dialled_call_id(body: &[u8]) -> Option<String> {
    text(&object(body)?, "call_id").map(|id| bounded("", id))
}

pub(crate) fn lookup_api_request(config: &ProviderConfig, lookup: &Lookup<'_>) -> Option<ApiRequest> {
    let authorization = bearer(&account(config)?.api_key);
    if let Some(id) = lookup.provider_call_id {
        return Some(ApiRequest::get(format!("/v2/get-call/{}", encoded(id)), authorization));
    }
    let metadata = |key: &str, value: &str| json!({"key": key, "type": "string", "op": "eq", "value": value});
    let body = json!({
        "filter_criteria": {"metadata": [
            metadata("switchhook_call_id", lookup.call_id.as_str()),
            metadata("switchhook_attempt", lookup.attempt.as_str()),
        ]},
        "sort_order": "descending",
        "limit": LISTED_MAX,
    });
    Some(ApiRequest::post_json("/v3/list-calls".to_owned(), authorization, &body))
}

pub(crate) fn parse_lookup_answer(lookup: &Lookup<'_>, body: &[u8]) -> ParsedAnswer {
    let Some(mut answer) = object(body) else {
        return ParsedAnswer::Unreadable;
    };
    if let Some(id) = lookup.provider_call_id {
        return if text(&answer, "call_id") == Some(id) { parse_call(answer) } else { ParsedAnswer::Unreadable };
    }
    let Some(Value::Array(items)) = answer.remove("items") else {
        return ParsedAnswer::Unreadable;
    };
    // The filter is Retell's, and what is not ours must not be taken for it.
    let ours = items.into_iter().find_map(|item| match item {
        Value::Object(call) => Some(call).filter(|call| lookup.is_about(&echoed_ids(call.get("metadata")))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    });
    match (ours, answer.get("has_more")) {
        (Some(call), _) => parse_call(call),
        (None, Some(Value::Bool(true))) => ParsedAnswer::NotOnFirstPage,
        (None, _) => ParsedAnswer::NotFound,
    }
}

/// A call that is over is what `call_ended` says of it, and once its analysis is in it, what `call_analyzed` says.
fn parse_call(call: Map<String, Value>) -> ParsedAnswer {
    let Some(call_id) = text(&call, "call_id") else {
        return ParsedAnswer::Unreadable;
    };
    match text(&call, "call_status") {
        Some("registered" | "ongoing") => ParsedAnswer::Alive { provider_call_id: bounded("", call_id) },
        Some("ended" | "error" | "not_connected") => {
            let analysed = call.get("call_analysis").and_then(Value::as_object).is_some_and(|data| !data.is_empty());
            let event = if analysed { "call_analyzed" } else { "call_ended" };
            ParsedAnswer::Ended {
                query: String::new(),
                body: json!({"event": event, "call": call}).to_string().into_bytes(),
            }
        }
        Some(_) | None => ParsedAnswer::Unreadable,
    }
}

fn account(config: &ProviderConfig) -> Option<&RetellAccount> {
    match config.dial()?.account() {
        Account::Retell(account) => Some(account),
        Account::Twilio(_) | Account::Vapi(_) | Account::Telnyx(_) => None,
    }
}
