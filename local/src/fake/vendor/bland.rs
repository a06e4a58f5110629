//! Bland: `POST /v1/calls`, `GET /v1/calls/{id}`, and `GET /v1/calls` with filters, in pages. A row of the list shows no metadata.

use serde_json::{Value, json};

use super::{Order, Request, Webhook, number, parameters, rfc3339};
use crate::fake::behaviour::Ending;
use crate::fake::call::FakeCall;
use crate::fake::response::{ApiResponse, error, respond};
use crate::fake::state::State;

const CALLS_PATH: &str = "/v1/calls";
/// Calls per page if the request does not say.
const LIMIT_DEFAULT: usize = 1_000;

pub(super) fn order(request: &Request<'_>) -> Option<Order> {
    if (request.method, request.path) != ("POST", CALLS_PATH) {
        return None;
    }
    let body: Value = serde_json::from_slice(request.body).unwrap_or_default();
    Some(Order {
        provider: request.provider,
        from: body["from"].clone(),
        to: body["phone_number"].clone(),
        metadata: body["metadata"].clone(),
        idempotency_key: None,
        echoed: json!({
            "has_webhook": body["webhook"].is_string(),
            "detects": body["answered_by_enabled"] == true,
            "request_data": body["request_data"],
        }),
    })
}

pub(super) fn dialled(id: &str) -> Value {
    json!({"status": "success", "message": "Call successfully queued.", "call_id": id, "batch_id": null})
}

pub(super) fn answer(state: &mut State, request: &Request<'_>, now: i64) -> Option<ApiResponse> {
    let rest = request.path.strip_prefix(CALLS_PATH)?;
    match (request.method, rest.strip_prefix('/')) {
        ("GET", Some(id)) => Some(state.get(request.provider, id, now, error(404, "Call not found"), call)),
        ("GET", None) if rest.is_empty() => Some(list(state, request, now)),
        (_, _) => None,
    }
}

/// Lists the calls to a number, the newest first. `from` and `to` are the places of the first call and of the one after the last.
fn list(state: &State, request: &Request<'_>, now: i64) -> ApiResponse {
    let asked = parameters(request.query.as_bytes());
    let mut known = state.known(request.provider, now);
    known.retain(|(_, call)| asked.get("to_number").is_none_or(|to| call.to == *to));
    if asked.get("ascending").is_some_and(|text| text == "true") {
        known.reverse();
    }
    let from = number(&asked, "from", 0);
    let limit = number(&asked, "limit", LIMIT_DEFAULT).min(number(&asked, "to", usize::MAX).saturating_sub(from));
    let rows = known.into_iter().skip(from).take(limit).map(|(id, known)| {
        let shown = call(known, id, now);
        let names = [
            "call_id",
            "created_at",
            "call_length",
            "to",
            "from",
            "completed",
            "queue_status",
            "error_message",
            "answered_by",
            "batch_id",
        ];
        names.into_iter().map(|name| (name.to_owned(), shown[name].clone())).collect::<Value>()
    });
    let rows: Vec<Value> = rows.collect();
    respond(200, &json!({"count": rows.len(), "calls": rows}))
}

/// The call as the API and the webhook show it at `now`.
fn call(call: &FakeCall, id: &str, now: i64) -> Value {
    let is_over = call.ended_ms <= now;
    let answered = call.answered_by(now);
    let (status, answered_by) = match call.behaviour.ending() {
        Ending::Conversation => ("completed", "human"),
        Ending::Voicemail => ("completed", "voicemail"),
        Ending::Busy => ("busy", "no-answer"),
        Ending::NoAnswer => ("no-answer", "no-answer"),
        Ending::Failed | Ending::WrongNumber => ("failed", "no-answer"),
    };
    let minutes = answered.filter(|_| is_over).map_or(0.0, |at| (call.ended_ms - at) as f64 / 60_000.0);
    let outcome = call.outcome().filter(|_| call.analysed_ms <= now);
    let mut shown = json!({
        "call_id": id,
        "c_id": id,
        "batch_id": null,
        "to": call.to,
        "from": call.from,
        "inbound": false,
        "created_at": rfc3339(call.created_ms),
        "started_at": answered.map(rfc3339),
        // The deadline of the call.
        "end_at": rfc3339(call.created_ms + 30 * 60_000),
        "call_length": minutes,
        "completed": is_over,
        "status": if is_over { status } else { "in-progress" },
        "queue_status": if is_over { "complete" } else { "started" },
        "error_message": null,
        "answered_by": (is_over && call.echoed["detects"] == true).then_some(answered_by),
        "call_ended_by": answered.filter(|_| is_over).map(|_| "USER"),
        "request_data": call.echoed["request_data"],
        "metadata": call.metadata,
        "analysis": outcome.map(|outcome| json!({"outcome": outcome})),
        "disposition_tag": null,
        "variables": {"call_id": id},
        "summary": null,
        "transcripts": [],
        "concatenated_transcript": "",
        "recording_url": null,
        "price": 0.0,
    });
    if let Value::Object(shown) = &mut shown {
        shown.extend(call.changed_fields.clone());
    }
    shown
}

/// One webhook: the call, with its analysis. There is none if the request named no URL.
pub(super) fn webhooks(fake: &FakeCall, id: &str) -> Vec<Webhook> {
    let at = fake.analysed_ms;
    let webhook = || Webhook { event: "post_call", at, body: call(fake, id, at).to_string() };
    if fake.echoed["has_webhook"] == true { vec![webhook()] } else { Vec::new() }
}
