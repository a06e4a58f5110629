//! Vapi: `POST /call`, `GET /call/{id}`, and `GET /call` with filters.

use serde_json::{Map, Value, json};
use switchhook_domain::Direction;

use super::{Order, Request, Webhook, millis_of, number, parameters, rfc3339};
use crate::fake::behaviour::Ending;
use crate::fake::call::FakeCall;
use crate::fake::response::{ApiResponse, error, respond};
use crate::fake::state::State;

/// Calls in a list if the request does not say.
const LIMIT_DEFAULT: usize = 100;

pub(super) fn order(request: &Request<'_>) -> Option<Order> {
    if (request.method, request.path) != ("POST", "/call") {
        return None;
    }
    let body: Value = serde_json::from_slice(request.body).unwrap_or_default();
    let overrides = &body["assistantOverrides"];
    Some(Order {
        provider: request.provider,
        from: Value::Null,
        to: ["number", "sipUri"].into_iter().find_map(|name| body["customer"].get(name).cloned()).unwrap_or_default(),
        metadata: overrides["metadata"].clone(),
        idempotency_key: None,
        echoed: json!({
            "assistantId": body["assistantId"], "phoneNumberId": body["phoneNumberId"], "assistantOverrides": overrides,
        }),
    })
}

pub(super) fn answer(state: &mut State, request: &Request<'_>, now: i64) -> Option<ApiResponse> {
    match (request.method, request.path.strip_prefix("/call/")) {
        ("GET", Some(id)) => Some(state.get(request.provider, id, now, error(404, "Not Found"), call)),
        ("GET", None) => Some(list(state, request, now)),
        (_, _) => None,
    }
}

/// Lists the calls that were created in a period, the newest first. They may be filtered by assistant and number.
fn list(state: &State, request: &Request<'_>, now: i64) -> ApiResponse {
    let asked = parameters(request.query.as_bytes());
    let is_asked = |call: &&(&String, &FakeCall)| {
        let is_same = |name: &str| asked.get(name).is_none_or(|value| call.1.echoed[name] == *value);
        is_same("assistantId")
            && is_same("phoneNumberId")
            && millis_of(asked.get("createdAtGe")).is_none_or(|from| from <= call.1.created_ms)
            && millis_of(asked.get("createdAtLe")).is_none_or(|until| call.1.created_ms <= until)
    };
    let known = state.known(request.provider, now);
    let calls = known.iter().filter(is_asked).take(number(&asked, "limit", LIMIT_DEFAULT));
    respond(200, &calls.map(|(id, known)| call(known, id, now)).collect())
}

/// Response to a dial above the limit of concurrent calls: Vapi takes the request and dials nobody.
pub(super) fn blocked(id: &str) -> ApiResponse {
    respond(201, &json!({"id": id, "status": "queued", "subscriptionLimits": {"concurrencyBlocked": true}}))
}

/// The call as the API and the webhooks show it at `now`.
pub(super) fn call(call: &FakeCall, id: &str, now: i64) -> Value {
    let mut shown = Map::new();
    shown.extend(call.echoed.as_object().cloned().unwrap_or_default());
    let mut set = |name: &str, value: Value| shown.insert(name.to_owned(), value);
    set("id", id.into());
    set("type", call.direction_in("inboundPhoneCall", "outboundPhoneCall").into());
    set("createdAt", rfc3339(call.created_ms).into());
    let (customer, ours) = match call.direction {
        Direction::Inbound => (&call.from, &call.to),
        Direction::Outbound => (&call.to, &call.from),
    };
    set("customer", json!({"number": customer}));
    if !ours.is_null() {
        set("phoneNumber", json!({"number": ours}));
    }
    let status = if call.ended_ms <= now {
        "ended"
    } else if call.answered_by(now).is_some() {
        "in-progress"
    } else if call.rings_by(now) {
        "ringing"
    } else {
        "queued"
    };
    set("status", status.into());
    if let Some(at) = call.answered_by(now) {
        set("startedAt", rfc3339(at).into());
    }
    if call.ended_ms <= now {
        set("endedAt", rfc3339(call.ended_ms).into());
        let reason = match call.behaviour.ending() {
            _ if call.is_over_capacity => "call.start.error-subscription-concurrency-limit-reached",
            Ending::Conversation => "customer-ended-call",
            Ending::Voicemail => "voicemail",
            Ending::Busy => "customer-busy",
            Ending::NoAnswer => "customer-did-not-answer",
            Ending::Failed => "twilio-failed-to-connect-call",
            Ending::WrongNumber => "sip-outbound-unallocated-number",
        };
        set("endedReason", reason.into());
    }
    // Vapi analyses no call in which nobody spoke.
    if call.analysed_ms <= now && call.answered_ms.is_some() {
        let outcome = call.outcome().map_or_else(|| json!({}), |outcome| json!({"outcome": outcome}));
        set("analysis", json!({"summary": "", "structuredData": outcome}));
    }
    Value::Object(shown)
}

pub(super) fn webhooks(fake: &FakeCall, id: &str) -> Vec<Webhook> {
    let status = |status: &str, at| {
        let message = json!({"type": "status-update", "status": status, "timestamp": at, "call": call(fake, id, at)});
        Webhook { event: "status-update", at, body: json!({"message": message}).to_string() }
    };
    let rang = fake.rang_ms().map(|at| status("ringing", at));
    let answered = fake.answered_ms.map(|at| status("in-progress", at));
    let report = json!({"type": "end-of-call-report", "call": call(fake, id, fake.analysed_ms)});
    let report =
        Webhook { event: "end-of-call-report", at: fake.analysed_ms, body: json!({"message": report}).to_string() };
    rang.into_iter().chain(answered).chain([report]).collect()
}
