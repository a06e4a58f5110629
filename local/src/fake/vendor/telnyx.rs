//! Telnyx: `POST /v2/calls`, `GET /v2/calls/{call_control_id}`, `GET /v2/call_events`, and `GET /v2/connections/{id}/active_calls`.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::{Order, Request, Webhook, millis_of, number, page, parameters, rfc3339};
use crate::fake::behaviour::Ending;
use crate::fake::call::FakeCall;
use crate::fake::response::{ApiResponse, respond};
use crate::fake::state::State;

/// Time after its end for which a call can be asked for by its id.
const ENDED_CALL_MS: i64 = 10 * 60 * 1000;
/// Time for which the events of calls are listed.
const EVENTS_MS: i64 = 24 * 60 * 60 * 1000;
/// Rows per page if the request does not say.
const PAGE_SIZE_DEFAULT: usize = 20;
/// Start of a cursor. Its rest is the number of a page, which a client does not know.
const CURSOR: &str = "v1:";

pub(super) fn order(request: &Request<'_>) -> Option<Order> {
    if (request.method, request.path) != ("POST", "/v2/calls") {
        return None;
    }
    let body: Value = serde_json::from_slice(request.body).unwrap_or_default();
    let state = body["client_state"].as_str().and_then(|state| BASE64_STANDARD.decode(state).ok());
    Some(Order {
        provider: request.provider,
        from: body["from"].clone(),
        to: body["to"].clone(),
        metadata: state.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default(),
        idempotency_key: body["command_id"].as_str().map(str::to_owned),
        echoed: json!({"client_state": body["client_state"], "connection_id": body["connection_id"]}),
    })
}

pub(super) fn answer(state: &mut State, request: &Request<'_>, now: i64) -> Option<ApiResponse> {
    if request.method != "GET" {
        return None;
    }
    let asked = parameters(request.query.as_bytes());
    if request.path == "/v2/call_events" {
        let known = state.known(request.provider, now);
        return Some(numbered_page(events(known, |name| asked.get(&format!("filter[{name}]")), now), &asked));
    }
    if let Some(rest) = request.path.strip_prefix("/v2/connections/") {
        let connection = rest.strip_suffix("/active_calls")?;
        let mut known = state.known(request.provider, now);
        known.retain(|(_, call)| now < call.ended_ms && call.echoed["connection_id"] == connection);
        let calls = known.into_iter().map(|(id, known)| active_call(known, id, now)).collect();
        return Some(page_after(calls, &asked, request.path));
    }
    let id = request.path.strip_prefix("/v2/calls/")?;
    if state.calls.get(id).is_some_and(|call| call.ended_ms + ENDED_CALL_MS <= now) {
        return Some(unknown_call());
    }
    let show = |known: &FakeCall, id: &str, now| json!({"data": call(known, id, now)});
    Some(state.get(request.provider, id, now, unknown_call(), show))
}

/// Telnyx documents 422 for a call that it does not know, or has forgotten.
fn unknown_call() -> ApiResponse {
    respond(422, &json!({"errors": [{"code": "90015", "title": "Invalid Call Control ID"}]}))
}

/// Page of a list whose pages are counted from 1.
fn numbered_page(rows: Vec<Value>, asked: &BTreeMap<String, String>) -> ApiResponse {
    let (number, size) = (number(asked, "page[number]", 1), number(asked, "page[size]", PAGE_SIZE_DEFAULT).max(1));
    let (total, pages) = (rows.len(), rows.len().div_ceil(size));
    let (rows, _) = page(rows, number.saturating_sub(1), size);
    let meta = json!({"total_pages": pages, "total_results": total, "page_number": number, "page_size": size});
    respond(200, &json!({"data": rows, "meta": meta}))
}

/// Page of a list whose pages are named by a cursor. This list ignores the number of a page.
fn page_after(rows: Vec<Value>, asked: &BTreeMap<String, String>, path: &str) -> ApiResponse {
    let limit = number(asked, "page[limit]", PAGE_SIZE_DEFAULT).max(1);
    let cursor = asked.get("page[after]").and_then(|cursor| cursor.strip_prefix(CURSOR)?.parse().ok());
    let (place, total) = (cursor.unwrap_or(0), rows.len());
    let (rows, has_more) = page(rows, place, limit);
    let after = has_more.then(|| format!("{CURSOR}{}", place + 1));
    let next = after.as_ref().map(|after| format!("{path}?page[after]={after}"));
    let cursors = json!({"after": after, "before": null});
    let meta = json!({"cursors": cursors, "next": next, "previous": null, "total_items": total});
    respond(200, &json!({"data": rows, "meta": meta}))
}

/// Lists the webhooks of all calls, whether or not they arrived, the oldest first.
fn events<'a>(known: Vec<(&String, &FakeCall)>, filter: impl Fn(&str) -> Option<&'a String>, now: i64) -> Vec<Value> {
    let since = millis_of(filter("occurred_at][gte")).unwrap_or(i64::MIN).max(now - EVENTS_MS);
    let is_asked = |(id, call): &(&String, &FakeCall)| {
        filter("from").is_none_or(|from| call.from == *from)
            && filter("to").is_none_or(|to| call.to == *to)
            && filter("leg_id").is_none_or(|leg| leg == *id)
    };
    let webhooks = known.into_iter().filter(is_asked).flat_map(|(id, call)| webhooks(call, id));
    let mut rows: Vec<Webhook> = webhooks.filter(|webhook| (since..=now).contains(&webhook.at)).collect();
    rows.sort_by_key(|webhook| webhook.at);
    let event = |webhook: Webhook| serde_json::from_str::<Value>(&webhook.body).unwrap_or_default()["data"].take();
    let row = |webhook: Webhook| {
        let (name, at) = (webhook.event, rfc3339(webhook.at));
        let event = event(webhook);
        json!({
            "record_type": "call_event", "type": "webhook", "name": name, "event_timestamp": at,
            "call_leg_id": event["payload"]["call_leg_id"], "call_session_id": event["payload"]["call_leg_id"],
            "metadata": {"event": event},
        })
    };
    rows.into_iter().map(row).collect()
}

/// The call in the list of active calls.
fn active_call(call: &FakeCall, id: &str, now: i64) -> Value {
    json!({
        "record_type": "call", "call_control_id": id, "call_leg_id": id, "call_session_id": id,
        "client_state": call.echoed["client_state"], "call_duration": (now - call.created_ms) / 1000,
    })
}

/// The call as the API shows it at `now`.
pub(super) fn call(call: &FakeCall, id: &str, now: i64) -> Value {
    json!({
        "call_control_id": id, "call_leg_id": id, "client_state": call.echoed["client_state"],
        "is_alive": now < call.ended_ms, "start_time": rfc3339(call.created_ms),
        "end_time": (call.ended_ms <= now).then(|| rfc3339(call.ended_ms)),
    })
}

pub(super) fn webhooks(call: &FakeCall, id: &str) -> Vec<Webhook> {
    let webhook = |event: &'static str, at: i64, ending: Option<(&str, Option<&str>)>| {
        let mut payload = json!({
            "call_control_id": id, "call_leg_id": id, "client_state": call.echoed["client_state"],
            "direction": call.direction_in("incoming", "outgoing"), "from": call.from, "to": call.to, "start_time": rfc3339(call.created_ms),
        });
        if let (Some((cause, sip)), Some(payload)) = (ending, payload.as_object_mut()) {
            payload.insert("hangup_cause".to_owned(), cause.into());
            payload.insert("sip_hangup_cause".to_owned(), sip.into());
            payload.insert("end_time".to_owned(), rfc3339(at).into());
        }
        let data = json!({
            "record_type": "event", "event_type": event, "id": format!("{id}:{event}"), "occurred_at": rfc3339(at),
            "payload": payload,
        });
        Webhook { event, at, body: json!({"data": data}).to_string() }
    };
    let ending = match call.behaviour.ending() {
        Ending::Conversation | Ending::Voicemail => ("normal_clearing", None),
        Ending::Busy => ("user_busy", Some("486")),
        Ending::NoAnswer => ("timeout", None),
        Ending::Failed => ("unspecified", Some("503")),
        Ending::WrongNumber => ("not_found", Some("404")),
    };
    let answered = call.answered_ms.map(|at| webhook("call.answered", at, None));
    let first = webhook("call.initiated", call.created_ms, None);
    let last = webhook("call.hangup", call.ended_ms, Some(ending));
    [first].into_iter().chain(answered).chain([last]).collect()
}
