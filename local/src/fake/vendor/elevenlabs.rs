//! ElevenLabs: `POST /v1/convai/{twilio,sip-trunk}/outbound-call`, `GET /v1/convai/conversations/{id}`, and
//! `GET /v1/convai/conversations` with filters, in pages. A list shows neither variables nor the result of a phone call.

use serde_json::{Value, json};

use super::{Order, Request, Webhook, number, page, parameters};
use crate::fake::behaviour::Ending;
use crate::fake::call::FakeCall;
use crate::fake::response::{ApiResponse, error, respond};
use crate::fake::state::State;

/// Conversations per page if the request does not say, and at most.
const PAGE_SIZE_DEFAULT: usize = 30;
const PAGE_SIZE_MAX: usize = 100;

pub(super) fn order(request: &Request<'_>) -> Option<Order> {
    let dials = ["/v1/convai/twilio/outbound-call", "/v1/convai/sip-trunk/outbound-call"];
    if request.method != "POST" || !dials.contains(&request.path) {
        return None;
    }
    let body: Value = serde_json::from_slice(request.body).unwrap_or_default();
    Some(Order {
        provider: request.provider,
        from: Value::Null,
        to: body["to_number"].clone(),
        metadata: body["conversation_initiation_client_data"]["dynamic_variables"].clone(),
        idempotency_key: None,
        echoed: json!({"agent_id": body["agent_id"], "phone_number_id": body["agent_phone_number_id"]}),
    })
}

pub(super) fn dialled(id: &str) -> Value {
    json!({"success": true, "message": "Success", "conversation_id": id, "callSid": "CA00000000000000000000000000000001"})
}

pub(super) fn answer(state: &mut State, request: &Request<'_>, now: i64) -> Option<ApiResponse> {
    let rest = request.path.strip_prefix("/v1/convai/conversations")?;
    match (request.method, rest.strip_prefix('/')) {
        ("GET", Some(id)) => Some(state.get(request.provider, id, now, error(404, "not found"), conversation)),
        ("GET", None) if rest.is_empty() => Some(list(state, request, now)),
        (_, _) => None,
    }
}

/// Lists the conversations that started in a period and have a variable, the newest first. A cursor is the number of a page.
fn list(state: &State, request: &Request<'_>, now: i64) -> ApiResponse {
    let asked = parameters(request.query.as_bytes());
    let seconds = |name: &str| asked.get(name).and_then(|text| text.parse::<i64>().ok());
    let is_asked = |call: &&(&String, &FakeCall)| {
        let started = call.1.created_ms.div_euclid(1000);
        let has_variable = asked.get("dynamic_variable_params").is_none_or(|filter| {
            let mut parts = filter.splitn(3, ':');
            let (name, operator, value) = (parts.next(), parts.next(), parts.next());
            operator == Some("eq") && name.and_then(|name| call.1.metadata[name].as_str()) == value && value.is_some()
        });
        has_variable
            && seconds("call_start_after_unix").is_none_or(|from| from <= started)
            && seconds("call_start_before_unix").is_none_or(|until| started <= until)
    };
    let known = state.known(request.provider, now);
    let rows = known.iter().filter(is_asked).map(|(id, call)| {
        let shown = conversation(call, id, now);
        json!({
            "conversation_id": id, "status": shown["status"], "agent_id": shown["agent_id"],
            "start_time_unix_secs": shown["metadata"]["start_time_unix_secs"],
            "call_duration_secs": shown["metadata"]["call_duration_secs"],
        })
    });
    let cursor = number(&asked, "cursor", 0);
    let size = number(&asked, "page_size", PAGE_SIZE_DEFAULT).min(PAGE_SIZE_MAX);
    let (rows, has_more) = page(rows.collect(), cursor, size);
    let next_cursor = has_more.then(|| (cursor + 1).to_string());
    respond(200, &json!({"conversations": rows, "has_more": has_more, "next_cursor": next_cursor}))
}

/// The conversation as the API and the webhooks show it at `now`.
fn conversation(call: &FakeCall, id: &str, now: i64) -> Value {
    let is_over = call.ended_ms <= now;
    let is_answered = call.answered_by(now).is_some();
    let is_analysed = call.analysed_ms <= now;
    let status = match (is_over, is_analysed) {
        (false, _) if is_answered => "in-progress",
        (false, _) => "initiated",
        (true, false) => "processing",
        (true, true) if is_answered => "done",
        (true, true) => "failed",
    };
    let result = match call.behaviour.ending() {
        Ending::Conversation => Some("answered"),
        Ending::Voicemail => Some("voicemail"),
        Ending::Busy => Some("busy"),
        // No document says that every call has a result.
        Ending::NoAnswer => None,
        Ending::Failed | Ending::WrongNumber => Some("failed"),
    };
    let started_ms = call.answered_ms.unwrap_or(call.created_ms);
    let seconds = if is_answered && is_over { (call.ended_ms - started_ms) / 1000 } else { 0 };
    let outcome = call.outcome().map_or_else(|| json!({}), |outcome| json!({"outcome": {"value": outcome}}));
    let analysis = is_analysed.then(|| json!({"data_collection_results": outcome, "call_successful": "unknown"}));
    json!({
        "agent_id": call.echoed["agent_id"],
        "conversation_id": id,
        "status": status,
        "transcript": [],
        "metadata": {
            "start_time_unix_secs": started_ms.div_euclid(1000),
            "call_duration_secs": seconds,
            "phone_call": {
                "type": "twilio", "direction": "outbound", "phone_number_id": call.echoed["phone_number_id"],
                "agent_number": "+15550100", "external_number": call.to,
                "call_result": result.filter(|_| is_over),
            },
        },
        "analysis": analysis,
        "conversation_initiation_client_data": {"dynamic_variables": call.metadata},
    })
}

/// One webhook: the conversation, or the reason why there is none. The latter names neither our ids nor the numbers.
pub(super) fn webhooks(call: &FakeCall, id: &str) -> Vec<Webhook> {
    let reason = match call.behaviour.ending() {
        Ending::Conversation | Ending::Voicemail => None,
        Ending::Busy => Some("busy"),
        Ending::NoAnswer => Some("no-answer"),
        Ending::Failed | Ending::WrongNumber => Some("unknown"),
    };
    let (event, at, data) = match reason {
        None => ("post_call_transcription", call.analysed_ms, conversation(call, id, call.analysed_ms)),
        Some(reason) => {
            let metadata = json!({"type": "twilio", "body": {}});
            let data = json!({
                "agent_id": call.echoed["agent_id"], "conversation_id": id, "failure_reason": reason,
                "metadata": metadata,
            });
            ("call_initiation_failure", call.ended_ms, data)
        }
    };
    let body = json!({"type": event, "event_timestamp": at.div_euclid(1000), "data": data}).to_string();
    vec![Webhook { event, at, body }]
}
