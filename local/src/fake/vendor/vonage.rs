//! Vonage: `POST /v1/calls`, `GET /v1/calls/{uuid}`, and `GET /v1/calls` with filters, in pages.

use serde_json::{Value, json};

use super::{Order, Request, Webhook, metadata_of, millis_of, number, page, parameters, rfc3339};
use crate::fake::behaviour::Ending;
use crate::fake::call::FakeCall;
use crate::fake::response::{ApiResponse, error, respond};
use crate::fake::state::State;

const CALLS_PATH: &str = "/v1/calls";
/// Calls per page if the request does not say, and at most.
const PAGE_SIZE_DEFAULT: usize = 10;
const PAGE_SIZE_MAX: usize = 100;

pub(super) fn order(request: &Request<'_>) -> Option<Order> {
    if (request.method, request.path) != ("POST", CALLS_PATH) {
        return None;
    }
    let body: Value = serde_json::from_slice(request.body).unwrap_or_default();
    // The metadata of a call is in the query of the URL that the application answers. No webhook repeats it.
    let answer_url = body["answer_url"][0].as_str().unwrap_or_default();
    Some(Order {
        provider: request.provider,
        from: body["from"]["number"].clone(),
        to: ["number", "uri"].into_iter().find_map(|name| body["to"][0].get(name).cloned()).unwrap_or_default(),
        metadata: metadata_of(answer_url),
        idempotency_key: None,
        echoed: json!({"detects_machines": !body["advanced_machine_detection"].is_null()}),
    })
}

pub(super) fn dialled(id: &str) -> Value {
    json!({"uuid": id, "status": "started", "direction": "outbound", "conversation_uuid": conversation(id)})
}

pub(super) fn answer(state: &mut State, request: &Request<'_>, now: i64) -> Option<ApiResponse> {
    let rest = request.path.strip_prefix(CALLS_PATH)?;
    match (request.method, rest.strip_prefix('/')) {
        ("GET", Some(id)) => Some(state.get(request.provider, id, now, error(404, "not found"), show)),
        ("GET", None) if rest.is_empty() => Some(list(state, request, now)),
        (_, _) => None,
    }
}

/// Lists the calls that were created in a period.
fn list(state: &State, request: &Request<'_>, now: i64) -> ApiResponse {
    let asked = parameters(request.query.as_bytes());
    let mut known = state.known(request.provider, now);
    known.retain(|(_, call)| {
        millis_of(asked.get("date_start")).is_none_or(|from| from <= call.created_ms)
            && millis_of(asked.get("date_end")).is_none_or(|until| call.created_ms <= until)
    });
    let count = known.len();
    let size = number(&asked, "page_size", PAGE_SIZE_DEFAULT).clamp(1, PAGE_SIZE_MAX);
    let index = number(&asked, "record_index", 0);
    let (rows, _) = page(known, index / size, size);
    let calls: Vec<Value> = rows.into_iter().map(|(id, call)| show(call, id, now)).collect();
    respond(200, &json!({"count": count, "page_size": size, "record_index": index, "_embedded": {"calls": calls}}))
}

/// The call as the API shows it at `now`. A call that nobody answered has no start time.
fn show(call: &FakeCall, id: &str, now: i64) -> Value {
    let answered = call.answered_by(now);
    let is_over = call.ended_ms <= now;
    let status = match (is_over, answered.is_some()) {
        (true, _) => ending(call).0,
        (false, true) => "answered",
        (false, false) if call.rings_by(now) => "ringing",
        (false, false) => "started",
    };
    json!({
        "uuid": id, "status": status, "direction": "outbound", "conversation_uuid": conversation(id),
        "from": {"type": "phone", "number": call.from}, "to": {"type": "phone", "number": call.to},
        "start_time": call.answered_ms.filter(|_| answered.is_some()).map(time),
        "end_time": is_over.then(|| time(call.ended_ms)),
        "duration": is_over.then(|| seconds(call).to_string()),
    })
}

/// Status and detail of the event that says how the call ended.
fn ending(call: &FakeCall) -> (&'static str, Option<&'static str>) {
    match call.behaviour.ending() {
        Ending::Conversation | Ending::Voicemail => ("completed", None),
        Ending::Busy => ("busy", None),
        Ending::NoAnswer => ("unanswered", Some("timeout")),
        Ending::Failed | Ending::WrongNumber => ("failed", Some("cannot_route")),
    }
}

/// Vonage sends `completed` after the other endings too.
pub(super) fn webhooks(call: &FakeCall, id: &str) -> Vec<Webhook> {
    let webhook = |event: &'static str, at: i64, more: Value| {
        let mut body = json!({
            "uuid": id, "conversation_uuid": conversation(id), "status": event, "direction": "outbound",
            "from": call.from, "to": call.to, "timestamp": rfc3339(at),
        });
        if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
            body.extend(more);
        }
        Webhook { event, at, body: body.to_string() }
    };
    let mut webhooks = vec![webhook("started", call.created_ms, Value::Null)];
    webhooks.extend(call.rang_ms().map(|at| webhook("ringing", at, Value::Null)));
    if let Some(at) = call.answered_ms {
        webhooks.push(webhook("answered", at, json!({"start_time": null})));
        if call.behaviour.ending() == Ending::Voicemail && call.echoed["detects_machines"] == true {
            let body = json!({
                "call_uuid": id, "conversation_uuid": conversation(id), "status": "machine", "from": call.from,
                "to": call.to, "timestamp": rfc3339(at + 2_000),
            });
            webhooks.push(Webhook { event: "machine", at: at + 2_000, body: body.to_string() });
        }
    }
    let (status, detail) = ending(call);
    if status != "completed" {
        webhooks.push(webhook(status, call.ended_ms, json!({"detail": detail})));
    }
    let over = json!({
        "start_time": call.answered_ms.map(rfc3339), "end_time": rfc3339(call.ended_ms),
        "duration": seconds(call).to_string(), "rate": "0.00", "price": "0.00", "disconnected_by": "user",
    });
    webhooks.push(webhook("completed", call.ended_ms + 1, over));
    webhooks
}

fn seconds(call: &FakeCall) -> i64 {
    call.answered_ms.map_or(0, |answered| (call.ended_ms - answered).div_euclid(1000))
}

fn conversation(id: &str) -> String {
    format!("CON-{id}")
}

/// Time in UTC, without a zone, as the API has it.
fn time(at: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(at).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}
