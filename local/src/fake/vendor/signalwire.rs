//! SignalWire's compatibility API: `POST …/Calls.json`, `GET …/Calls/{sid}.json`, and `GET …/Calls.json` with filters, in pages. A path may
//! leave out `.json`.

use serde_json::{Value, json};

use super::{Order, Request, Webhook, number, page, parameters, rfc2822_time, rfc3339};
use crate::fake::behaviour::Ending;
use crate::fake::call::FakeCall;
use crate::fake::response::{ApiResponse, error, respond};
use crate::fake::state::State;

/// Calls per page if the request does not say.
const PAGE_SIZE_DEFAULT: usize = 50;

pub(super) fn order(request: &Request<'_>) -> Option<Order> {
    if request.method != "POST" || !without_extension(request.path).ends_with("/Calls") {
        return None;
    }
    let mut form = parameters(request.body);
    let mut take = |name: &str| form.remove(name).unwrap_or_default();
    // The metadata of a call is in the query of the URL that the application answers. The callback repeats our ids alone.
    let (url, callback) = (take("Url"), take("StatusCallback"));
    let query = |url: &str| url.split_once('?').map_or("", |(_, query)| query).to_owned();
    let metadata = parameters(query(&url).as_bytes()).into_iter().map(|(name, value)| (name, Value::String(value)));
    Some(Order {
        provider: request.provider,
        from: take("From").into(),
        to: take("To").into(),
        metadata: metadata.collect(),
        idempotency_key: None,
        echoed: json!({"query": query(&callback), "detects_machines": !take("MachineDetection").is_empty()}),
    })
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
    let mut asked = parameters(request.query.as_bytes());
    let mut known = state.known(request.provider, now);
    known.retain(|(_, call)| {
        asked.get("To").is_none_or(|to| call.to == *to)
            && asked.get("From").is_none_or(|from| call.from == *from)
            && asked.get("StartTime>").is_none_or(|day| *day <= rfc3339(call.created_ms))
    });
    let (place, size) = (number(&asked, "Page", 0), number(&asked, "PageSize", PAGE_SIZE_DEFAULT));
    let (calls, has_more) = page(known, place, size);
    let calls: Vec<Value> = calls.into_iter().map(|(id, known)| call(known, id, now)).collect();
    asked.insert("Page".to_owned(), (place + 1).to_string());
    let next = form_urlencoded::Serializer::new(String::new()).extend_pairs(&asked).finish();
    let next = has_more.then(|| format!("{}?{next}", request.path));
    respond(200, &json!({"calls": calls, "next_page_uri": next}))
}

/// Status of the call at `now`.
fn status(call: &FakeCall, now: i64) -> &'static str {
    if now < call.ended_ms {
        return match call.answered_by(now) {
            Some(_) => "in-progress",
            None if call.rings_by(now) => "ringing",
            None => "queued",
        };
    }
    match call.behaviour.ending() {
        Ending::Conversation | Ending::Voicemail => "completed",
        Ending::Busy => "busy",
        Ending::NoAnswer => "no-answer",
        Ending::Failed | Ending::WrongNumber => "failed",
    }
}

/// The call as the API shows it at `now`. Its ids are not shown.
pub(super) fn call(call: &FakeCall, id: &str, now: i64) -> Value {
    let is_over = call.ended_ms <= now;
    let seconds = call.answered_by(now).filter(|_| is_over).map_or(0, |at| (call.ended_ms - at).div_euclid(1000));
    json!({
        "sid": id, "status": status(call, now), "direction": "outbound-api", "from": call.from, "to": call.to,
        "api_version": "2010-04-01", "date_created": rfc2822_time(call.created_ms),
        "start_time": call.answered_by(now).map(rfc2822_time),
        "end_time": is_over.then(|| rfc2822_time(call.ended_ms)),
        "duration": seconds, "answered_by": null, "parent_call_sid": null, "price": -0.005, "price_unit": "USD",
    })
}

pub(super) fn webhooks(call: &FakeCall, id: &str) -> Vec<Webhook> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let callback = |(sequence, (event, at)): (usize, (&'static str, i64))| {
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("CallSid", id)
            .append_pair("CallStatus", event)
            .append_pair("CallbackSource", "call-progress-events")
            .append_pair("SequenceNumber", &sequence.to_string())
            .append_pair("Direction", "outbound-api")
            .append_pair("From", &text(&call.from))
            .append_pair("To", &text(&call.to))
            .append_pair("Timestamp", &rfc2822_time(at))
            .finish();
        Webhook { event, at, body }
    };
    let rang = call.rang_ms().map(|at| ("ringing", at));
    let answered = call.answered_ms.map(|at| ("in-progress", at));
    let events = [("initiated", call.created_ms)].into_iter().chain(rang).chain(answered);
    let progress = events.chain([(status(call, call.ended_ms), call.ended_ms)]).enumerate().map(callback);
    // The verdict comes apart from the progress of the call, without a number.
    let machine = call.answered_ms.filter(|_| call.behaviour.ending() == Ending::Voicemail);
    let verdict = machine.filter(|_| call.echoed["detects_machines"] == true).map(|at| {
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("CallSid", id)
            .append_pair("AnsweredBy", "machine_start")
            .finish();
        Webhook { event: "amd", at: at + 2_000, body }
    });
    progress.chain(verdict).collect()
}
