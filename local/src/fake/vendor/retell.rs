//! Retell: `POST /v2/create-phone-call`, `GET /v2/get-call/{id}`, and `POST /v3/list-calls`, in pages.

use serde_json::{Map, Value, json};

use super::{Order, Request, Webhook};
use crate::fake::behaviour::Ending;
use crate::fake::call::FakeCall;
use crate::fake::records::RequestResult;
use crate::fake::response::{ApiResponse, error, respond};
use crate::fake::state::State;

/// Calls per page if the request does not say.
const LIMIT_DEFAULT: u64 = 50;
const LIMIT_MAX: u64 = 1_000;

pub(super) fn order(request: &Request<'_>) -> Option<Order> {
    if (request.method, request.path) != ("POST", "/v2/create-phone-call") {
        return None;
    }
    let body: Value = serde_json::from_slice(request.body).unwrap_or_default();
    Some(Order {
        provider: request.provider,
        from: body["from_number"].clone(),
        to: body["to_number"].clone(),
        metadata: body["metadata"].clone(),
        idempotency_key: body["idempotency_key"].as_str().map(str::to_owned),
        echoed: Value::Null,
    })
}

pub(super) fn answer(state: &mut State, request: &Request<'_>, now: i64) -> Option<ApiResponse> {
    match (request.method, request.path) {
        ("POST", "/v3/list-calls") => Some(list(state, request, now)),
        ("GET", path) => {
            let id = path.strip_prefix("/v2/get-call/")?;
            let unknown = error(422, "Cannot find requested asset under given api key.");
            Some(state.get(request.provider, id, now, unknown, call))
        }
        (_, _) => None,
    }
}

/// Answers with one page of the calls that match all filters. `pagination_key` is the id of the last call of the page
/// before.
fn list(state: &mut State, request: &Request<'_>, now: i64) -> ApiResponse {
    let body: Value = serde_json::from_slice(request.body).unwrap_or_default();
    let filters = body.pointer("/filter_criteria/metadata").and_then(Value::as_array).cloned().unwrap_or_default();
    let started = body.pointer("/filter_criteria/start_timestamp").cloned().unwrap_or_default();
    let matches = |call: &FakeCall| {
        filters.iter().all(|filter| matches_metadata(filter, &call.metadata)) && matches_start(&started, call, now)
    };
    let mut known = state.known(request.provider, now);
    known.retain(|(_, call)| matches(call));
    if body["sort_order"] == "ascending" {
        known.reverse();
    }
    let after = body["pagination_key"].as_str();
    let skipped = after.and_then(|key| known.iter().position(|(id, _)| *id == key)).map_or(0, |place| place + 1);
    let limit = usize::try_from(body["limit"].as_u64().unwrap_or(LIMIT_DEFAULT).min(LIMIT_MAX)).unwrap_or(0);
    let page: Vec<&(&String, &FakeCall)> = known.iter().skip(skipped).take(limit).collect();
    let has_more = known.len() > skipped + page.len();
    let first_result = page.first().map_or(RequestResult::NotFound, |(_, call)| call.lookup_result(now));
    let items: Vec<Value> = page.iter().map(|(id, known)| call(known, id, now)).collect();
    let last_id = page.last().filter(|_| has_more).map(|(id, _)| id.as_str());
    let mut answer = json!({"items": items, "has_more": has_more});
    if let (Some(id), Some(answer)) = (last_id, answer.as_object_mut()) {
        answer.insert("pagination_key".to_owned(), id.into());
    }
    // Only a list that is filtered by metadata asks about one attempt.
    if !filters.is_empty() {
        let asked: Map<String, Value> = filters
            .iter()
            .filter_map(|filter| Some((filter["key"].as_str()?.to_owned(), filter["value"].clone())))
            .collect();
        state.record(request.provider, &Value::Object(asked), now, first_result);
    }
    respond(200, &answer)
}

/// True if the metadata has the value that the filter requires.
fn matches_metadata(filter: &Value, metadata: &Value) -> bool {
    let key = filter.get("key").and_then(Value::as_str);
    key.is_some_and(|key| metadata.get(key).is_some() && metadata.get(key) == filter.get("value"))
}

/// True if the `start_timestamp` of the call is in the range of the filter. A call that nobody has answered has none, so no
/// range contains it. The fake provider knows the operator `bt` alone.
fn matches_start(filter: &Value, call: &FakeCall, now: i64) -> bool {
    let limit = |index: usize| filter.get("value").and_then(|range| range.get(index)?.as_i64());
    let (Some(from), Some(until)) = (limit(0), limit(1)) else { return true };
    call.answered_by(now).is_some_and(|at| (from..=until).contains(&at))
}

/// The call as the API and the webhooks show it at `now`.
pub(super) fn call(call: &FakeCall, id: &str, now: i64) -> Value {
    let mut shown = Map::new();
    let mut set = |name: &str, value: Value| shown.insert(name.to_owned(), value);
    for (name, value) in [
        ("call_id", id.into()),
        ("call_type", "phone_call".into()),
        ("agent_id", "agent_fake".into()),
        ("direction", call.direction_in("inbound", "outbound").into()),
        ("from_number", call.from.clone()),
        ("to_number", call.to.clone()),
        ("metadata", call.metadata.clone()),
    ] {
        set(name, value);
    }
    let ending = call.behaviour.ending();
    let (answered, over) = (call.answered_by(now), call.ended_ms <= now);
    let status = match (answered, over) {
        (_, true) if call.is_over_capacity => "error",
        (_, true) if ending.is_answered() => "ended",
        (_, true) => "not_connected",
        (Some(_), false) => "ongoing",
        (None, false) => "registered",
    };
    set("call_status", status.into());
    // A call that nobody answered has no times.
    if let Some(at) = answered {
        set("start_timestamp", at.into());
        if over {
            set("end_timestamp", call.ended_ms.into());
        }
    }
    if over {
        let reason = match ending {
            _ if call.is_over_capacity => "concurrency_limit_reached",
            Ending::Conversation => "user_hangup",
            Ending::Voicemail => "voicemail_reached",
            Ending::Busy => "dial_busy",
            Ending::NoAnswer => "dial_no_answer",
            Ending::Failed => "telephony_provider_unavailable",
            Ending::WrongNumber => "invalid_destination",
        };
        set("disconnection_reason", reason.into());
    }
    if call.analysed_ms <= now {
        let outcome = call.outcome().map_or_else(|| json!({}), |outcome| json!({"outcome": outcome}));
        let analysis = json!({
            "in_voicemail": ending == Ending::Voicemail && answered.is_some(),
            "call_successful": answered.is_some(),
            "user_sentiment": "Unknown",
            "custom_analysis_data": outcome,
        });
        set("call_analysis", analysis);
    }
    shown.extend(call.changed_fields.clone());
    Value::Object(shown)
}

pub(super) fn webhooks(fake: &FakeCall, id: &str) -> Vec<Webhook> {
    let webhook = |event: &'static str, at: i64| {
        let body = json!({"event": event, "call": call(fake, id, at)}).to_string();
        Webhook { event, at, body }
    };
    let started = fake.answered_ms.map(|at| webhook("call_started", at));
    let ended = [("call_ended", fake.ended_ms), ("call_analyzed", fake.analysed_ms)];
    started.into_iter().chain(ended.into_iter().map(|(event, at)| webhook(event, at))).collect()
}
