//! SignalWire's compatibility API: `POST …/Calls.json`, `GET …/Calls/{sid}.json`, and `GET …/Calls.json` with filters, in pages. A path may
//! leave out `.json`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::twiml::{self, field, status};
use super::{Order, Request, Webhook, parameters, query_of, rfc2822_time, rfc3339};
use crate::fake::behaviour::Ending;
use crate::fake::call::FakeCall;
use crate::fake::response::{ApiResponse, error};
use crate::fake::state::State;

/// Direction of every call.
const DIRECTION: &str = "outbound-api";

pub(super) fn order(request: &Request<'_>) -> Option<Order> {
    if request.method != "POST" || !without_extension(request.path).ends_with("/Calls") {
        return None;
    }
    let form = parameters(request.body);
    let detects_machines = !field(&form, "MachineDetection").is_empty();
    let echoed = json!({"query": query_of(field(&form, "StatusCallback")), "detects_machines": detects_machines});
    Some(twiml::order(request, &form, echoed))
}

pub(super) fn answer(state: &mut State, request: &Request<'_>, now: i64) -> Option<ApiResponse> {
    if request.method != "GET" {
        return None;
    }
    let path = without_extension(request.path);
    match path.split_once("/Calls")? {
        (_, "") => Some(list(state, request, now)),
        (_, id) => Some(state.get(request.provider, id.strip_prefix('/')?, now, error(404, "not found"), call)),
    }
}

fn without_extension(path: &str) -> &str {
    path.strip_suffix(".json").unwrap_or(path)
}

/// Lists the calls between two numbers since a day.
fn list(state: &State, request: &Request<'_>, now: i64) -> ApiResponse {
    let is_asked = |asked: &BTreeMap<String, String>, call: &FakeCall| {
        asked.get("StartTime>").is_none_or(|day| *day <= rfc3339(call.created_ms))
    };
    twiml::list(state, request, now, is_asked, call)
}

/// The call as the API shows it at `now`. Its ids are not shown.
pub(super) fn call(call: &FakeCall, id: &str, now: i64) -> Value {
    let is_over = call.ended_ms <= now;
    let seconds = call.answered_by(now).filter(|_| is_over).map_or(0, |at| (call.ended_ms - at).div_euclid(1000));
    json!({
        "sid": id, "status": status(call, now), "direction": DIRECTION, "from": call.from, "to": call.to,
        "api_version": "2010-04-01", "date_created": rfc2822_time(call.created_ms),
        "start_time": call.answered_by(now).map(rfc2822_time),
        "end_time": is_over.then(|| rfc2822_time(call.ended_ms)),
        "duration": seconds, "answered_by": null, "parent_call_sid": null, "price": -0.005, "price_unit": "USD",
    })
}

pub(super) fn webhooks(call: &FakeCall, id: &str) -> Vec<Webhook> {
    // The verdict comes apart from the progress of the call, without a number.
    let machine = call.answered_ms.filter(|_| call.behaviour.ending() == Ending::Voicemail);
    let verdict = machine.filter(|_| call.echoed["detects_machines"] == true).map(|at| {
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("CallSid", id)
            .append_pair("AnsweredBy", "machine_start")
            .finish();
        Webhook { event: "amd", at: at + 2_000, body }
    });
    twiml::progress(call, id, DIRECTION).into_iter().chain(verdict).collect()
}
