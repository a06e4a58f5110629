//! Twilio: `POST …/Calls.json`, `GET …/Calls/{sid}.json`, `GET …/Calls.json` with filters, and `GET …/Calls/{sid}/Events.json`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::twiml::{self, field, status};
use super::{Order, Request, Webhook, parameters, query_of, rfc2822_time, rfc3339};
use crate::fake::call::FakeCall;
use crate::fake::response::{ApiResponse, error, respond};
use crate::fake::state::State;

/// Time from the end of a call until its requests are listed.
const REQUESTS_MS: i64 = 15 * 60 * 1000;

pub(super) fn order(request: &Request<'_>) -> Option<Order> {
    if request.method != "POST" || !request.path.ends_with("/Calls.json") {
        return None;
    }
    let form = parameters(request.body);
    let callback = field(&form, "StatusCallback").split('#').next().unwrap_or_default();
    let echoed = json!({"query": query_of(callback), "callback": callback, "url": field(&form, "Url")});
    Some(twiml::order(request, &form, echoed))
}

pub(super) fn answer(state: &mut State, request: &Request<'_>, now: i64) -> Option<ApiResponse> {
    if request.method != "GET" {
        return None;
    }
    if request.path.ends_with("/Calls.json") {
        return Some(list(state, request, now));
    }
    let (_, asked) = request.path.split_once("/Calls/")?;
    match asked.strip_suffix("/Events.json") {
        Some(sid) => Some(events(state, request, sid, now)),
        None => Some(state.get(request.provider, asked.strip_suffix(".json")?, now, error(404, "not found"), call)),
    }
}

/// Lists the calls between two numbers, the newest first. They may be filtered by their status, or by the day on which they started: a queued
/// call has not started.
fn list(state: &State, request: &Request<'_>, now: i64) -> ApiResponse {
    let is_asked = |asked: &BTreeMap<String, String>, call: &FakeCall| {
        asked.get("Status").is_none_or(|asked| *asked == status(call, now))
            && asked.get("StartTime>").is_none_or(|day| started_ms(call, now).is_some_and(|at| *day <= rfc3339(at)))
    };
    twiml::list(state, request, now, is_asked, call)
}

/// Lists the requests that Twilio made for a call: for its instructions if somebody has answered, and for its callbacks. They are listed
/// some time after its end.
fn events(state: &State, request: &Request<'_>, sid: &str, now: i64) -> ApiResponse {
    let Some(call) = state.calls.get(sid).filter(|call| call.provider == request.provider) else {
        return error(404, "not found");
    };
    let answered = call.answered_by(now).map(|_| &call.echoed["url"]);
    let urls = answered.into_iter().chain([&call.echoed["callback"]]).filter(|_| call.ended_ms + REQUESTS_MS <= now);
    let events: Vec<Value> =
        urls.map(|url| json!({"request": {"method": "POST", "url": url}, "response": {}})).collect();
    respond(200, &json!({"events": events, "next_page_uri": null}))
}

/// Time at which Twilio dialled, if it has by `now`.
fn started_ms(call: &FakeCall, now: i64) -> Option<i64> {
    (status(call, now) != "queued").then(|| call.rang_ms().unwrap_or(call.ended_ms))
}

/// The call as the API shows it at `now`. Its ids are not shown. A queued call has no times.
pub(super) fn call(call: &FakeCall, id: &str, now: i64) -> Value {
    json!({
        "sid": id, "status": status(call, now), "direction": direction(call), "from": call.from, "to": call.to,
        "date_created": started_ms(call, now).map(rfc2822_time),
        "start_time": started_ms(call, now).map(rfc2822_time),
        "end_time": (call.ended_ms <= now).then(|| rfc2822_time(call.ended_ms)),
        "answered_by": null, "parent_call_sid": null,
    })
}

pub(super) fn webhooks(call: &FakeCall, id: &str) -> Vec<Webhook> {
    twiml::progress(call, id, direction(call))
}

fn direction(call: &FakeCall) -> &'static str {
    call.direction_in("inbound", "outbound-api")
}
