//! Plivo: `POST …/Call/`, `GET …/Call/{id}/` in each of three states, and `GET …/Call/` with filters, in pages.

use serde_json::{Value, json};

use super::{Order, Request, Webhook, metadata_of, number, page, parameters, query_of, twiml};
use crate::fake::behaviour::Ending;
use crate::fake::call::FakeCall;
use crate::fake::response::{ApiResponse, error, respond};
use crate::fake::state::State;

/// Calls per page if the request does not say, and at most.
const PAGE_SIZE_MAX: usize = 20;

pub(super) fn order(request: &Request<'_>) -> Option<Order> {
    if request.method != "POST" || !request.path.ends_with("/Call/") {
        return None;
    }
    let body: Value = serde_json::from_slice(request.body).unwrap_or_default();
    let url = |name: &str| body[name].as_str().unwrap_or_default().split('#').next().unwrap_or_default();
    Some(Order {
        provider: request.provider,
        from: body["from"].clone(),
        to: body["to"].clone(),
        metadata: metadata_of(url("answer_url")),
        idempotency_key: None,
        echoed: json!({"query": query_of(url("hangup_url"))}),
    })
}

pub(super) fn dialled(id: &str) -> Value {
    json!({"message": "call fired", "request_uuid": id, "api_id": "a"})
}

pub(super) fn answer(state: &mut State, request: &Request<'_>, now: i64) -> Option<ApiResponse> {
    let (_, rest) = request.path.split_once("/Call/")?;
    if request.method != "GET" {
        return None;
    }
    let asked = parameters(request.query.as_bytes());
    let status = asked.get("status").map(String::as_str);
    let Some(id) = rest.strip_suffix('/') else {
        return rest.is_empty().then(|| list(state, request, status, now));
    };
    let unknown = error(404, "not found");
    match state.calls.get(id) {
        Some(call) if state_of(call, now) == status => Some(state.get(request.provider, id, now, unknown, show)),
        Some(_) | None => Some(unknown),
    }
}

/// Value of the parameter `status` by which Plivo shows the call. `None` once the call has ended.
fn state_of(call: &FakeCall, now: i64) -> Option<&'static str> {
    if call.ended_ms <= now {
        None
    } else if call.rings_by(now) {
        Some("live")
    } else {
        Some("queued")
    }
}

/// Lists the calls to a number in one state, the newest first. Queued and live calls are only named.
fn list(state: &State, request: &Request<'_>, status: Option<&str>, now: i64) -> ApiResponse {
    let asked = parameters(request.query.as_bytes());
    let is_asked = |call: &FakeCall| {
        state_of(call, now) == status
            && asked.get("to_number").is_none_or(|to| call.to == *to)
            && asked.get("end_time__gte").is_none_or(|since| status.is_some() || *since <= time(call.ended_ms))
    };
    let mut known = state.known(request.provider, now);
    known.retain(|(_, call)| is_asked(call));
    let size = number(&asked, "limit", PAGE_SIZE_MAX).clamp(1, PAGE_SIZE_MAX);
    let (rows, has_more) = page(known, number(&asked, "offset", 0) / size, size);
    match status {
        Some(_) => {
            let ids: Vec<&String> = rows.into_iter().map(|(id, _)| id).collect();
            respond(200, &json!({"api_id": "a", "calls": ids}))
        }
        None => {
            let objects: Vec<Value> = rows.into_iter().map(|(id, call)| show(call, id, now)).collect();
            respond(200, &json!({"objects": objects, "meta": {"next": has_more.then_some(request.path)}}))
        }
    }
}

/// The call as the API shows it at `now`: as a record once it has ended.
fn show(call: &FakeCall, id: &str, now: i64) -> Value {
    if state_of(call, now).is_some() {
        let status = if call.answered_by(now).is_some() { "in-progress" } else { "ringing" };
        return json!({
            "call_uuid": id, "request_uuid": id, "call_status": status, "direction": "outbound",
            "from": call.from, "to": call.to, "session_start": time(call.created_ms),
        });
    }
    let (code, name) = hangup_cause(call);
    let zoned = |at: i64| format!("{}+00:00", time(at));
    json!({
        "call_uuid": id, "call_direction": "outbound", "from_number": call.from, "to_number": call.to,
        "initiation_time": zoned(call.created_ms), "answer_time": call.answered_ms.map(zoned),
        "end_time": zoned(call.ended_ms), "bill_duration": billed_seconds(call), "parent_call_uuid": null,
        "hangup_cause_code": code, "hangup_cause_name": name,
    })
}

/// Code and name of the hangup cause.
fn hangup_cause(call: &FakeCall) -> (u32, &'static str) {
    match call.behaviour.ending() {
        Ending::Conversation | Ending::Voicemail => (4000, "Normal Hangup"),
        Ending::Busy => (3010, "Busy Line"),
        Ending::NoAnswer => (3000, "No Answer"),
        Ending::Failed => (3090, "Network congestion from carrier"),
        Ending::WrongNumber => (2000, "Invalid Destination Address"),
    }
}

fn billed_seconds(call: &FakeCall) -> i64 {
    call.answered_ms.map_or(0, |answered| (call.ended_ms - answered).div_euclid(1000))
}

pub(super) fn webhooks(call: &FakeCall, id: &str) -> Vec<Webhook> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let callback = |event: &'static str, name: &str, at: i64| {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("CallUUID", id)
            .append_pair("RequestUUID", id)
            .append_pair("ALegUUID", id)
            .append_pair("Event", name)
            .append_pair("CallStatus", event)
            .append_pair("Direction", "outbound")
            .append_pair("From", &text(&call.from))
            .append_pair("To", &text(&call.to));
        if name == "Hangup" {
            form.append_pair("StartTime", &time(call.created_ms))
                .append_pair("AnswerTime", &call.answered_ms.map(time).unwrap_or_default())
                .append_pair("EndTime", &time(call.ended_ms))
                .append_pair("BillDuration", &billed_seconds(call).to_string())
                .append_pair("HangupCauseCode", &hangup_cause(call).0.to_string());
        }
        Webhook { event, at, body: form.finish() }
    };
    // Plivo has Twilio's words for the end of a call.
    let ending = twiml::status(call, call.ended_ms);
    let rang = call.rang_ms().map(|at| callback("ringing", "Ring", at));
    rang.into_iter().chain([callback(ending, "Hangup", call.ended_ms)]).collect()
}

/// Time in UTC, without a zone, as Plivo's callbacks have it.
fn time(at: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(at).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string()
}
