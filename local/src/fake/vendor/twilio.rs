//! Twilio: `POST …/Calls.json`, `GET …/Calls/{sid}.json`, `GET …/Calls.json` with filters, and `GET …/Calls/{sid}/Events.json`.

use serde_json::{Value, json};

use super::{Order, Request, Webhook, number, page, parameters, rfc2822_time, rfc3339};
use crate::fake::behaviour::Ending;
use crate::fake::call::FakeCall;
use crate::fake::response::{ApiResponse, error, respond};
use crate::fake::state::State;

/// Calls per page if the request does not say.
const PAGE_SIZE_DEFAULT: usize = 50;
/// Time from the end of a call until its requests are listed.
const REQUESTS_MS: i64 = 15 * 60 * 1000;

pub(super) fn order(request: &Request<'_>) -> Option<Order> {
    if request.method != "POST" || !request.path.ends_with("/Calls.json") {
        return None;
    }
    let mut form = parameters(request.body);
    let mut take = |name: &str| form.remove(name).unwrap_or_default();
    // The metadata of a call is in the query of the URL that the application answers. The callback repeats our ids alone.
    let (url, callback) = (take("Url"), take("StatusCallback"));
    let callback = callback.split('#').next().unwrap_or_default();
    let query = |url: &str| url.split_once('?').map_or("", |(_, query)| query).to_owned();
    let metadata = parameters(query(&url).as_bytes()).into_iter().map(|(name, value)| (name, Value::String(value)));
    Some(Order {
        provider: request.provider,
        from: take("From").into(),
        to: take("To").into(),
        metadata: metadata.collect(),
        idempotency_key: None,
        echoed: json!({"query": query(callback), "callback": callback, "url": url}),
    })
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
    let mut asked = parameters(request.query.as_bytes());
    let is_asked = |call: &FakeCall| {
        asked.get("To").is_none_or(|to| call.to == *to)
            && asked.get("From").is_none_or(|from| call.from == *from)
            && asked.get("Status").is_none_or(|asked| *asked == status(call, now))
            && asked.get("StartTime>").is_none_or(|day| started_ms(call, now).is_some_and(|at| *day <= rfc3339(at)))
    };
    let mut known = state.known(request.provider, now);
    known.retain(|(_, call)| is_asked(call));
    let (place, size) = (number(&asked, "Page", 0), number(&asked, "PageSize", PAGE_SIZE_DEFAULT));
    let (calls, has_more) = page(known, place, size);
    let calls: Vec<Value> = calls.into_iter().map(|(id, known)| call(known, id, now)).collect();
    asked.insert("Page".to_owned(), (place + 1).to_string());
    let next = form_urlencoded::Serializer::new(String::new()).extend_pairs(&asked).finish();
    let next = has_more.then(|| format!("{}?{next}", request.path));
    respond(200, &json!({"calls": calls, "next_page_uri": next}))
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

/// The call as the API shows it at `now`. Its ids are not shown. A queued call has no times.
pub(super) fn call(call: &FakeCall, id: &str, now: i64) -> Value {
    json!({
        "sid": id, "status": status(call, now), "direction": call.direction_in("inbound", "outbound-api"), "from": call.from,
        "to": call.to,
        "date_created": started_ms(call, now).map(rfc2822_time),
        "start_time": started_ms(call, now).map(rfc2822_time),
        "end_time": (call.ended_ms <= now).then(|| rfc2822_time(call.ended_ms)),
        "answered_by": null, "parent_call_sid": null,
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
            .append_pair("Direction", call.direction_in("inbound", "outbound-api"))
            .append_pair("From", &text(&call.from))
            .append_pair("To", &text(&call.to))
            .append_pair("Timestamp", &rfc2822_time(at))
            .finish();
        Webhook { event, at, body }
    };
    let rang = call.rang_ms().map(|at| ("ringing", at));
    let answered = call.answered_ms.map(|at| ("in-progress", at));
    let events = [("initiated", call.created_ms)].into_iter().chain(rang).chain(answered);
    events.chain([(status(call, call.ended_ms), call.ended_ms)]).enumerate().map(callback).collect()
}
