//! The parts that the APIs of Twilio and SignalWire share: dial requests, statuses, lists of calls, and the webhooks of a call's progress.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Order, Request, Webhook, metadata_of, number, page, parameters, rfc2822_time};
use crate::fake::behaviour::Ending;
use crate::fake::call::FakeCall;
use crate::fake::response::{ApiResponse, respond};
use crate::fake::state::State;

/// Calls per page if the request does not say.
const PAGE_SIZE_DEFAULT: usize = 50;

/// Field of a form. Empty if the form does not have it.
pub(super) fn field<'a>(form: &'a BTreeMap<String, String>, name: &str) -> &'a str {
    form.get(name).map(String::as_str).unwrap_or_default()
}

/// Reads the form of a dial request. The metadata of a call is in the query of the URL that the application answers. The callback repeats our
/// ids alone.
pub(super) fn order(request: &Request<'_>, form: &BTreeMap<String, String>, echoed: Value) -> Order {
    Order {
        provider: request.provider,
        from: field(form, "From").into(),
        to: field(form, "To").into(),
        metadata: metadata_of(field(form, "Url")),
        idempotency_key: None,
        echoed,
    }
}

/// Lists the calls between two numbers for which `is_asked` is true, the newest first.
pub(super) fn list(
    state: &State,
    request: &Request<'_>,
    now: i64,
    is_asked: impl Fn(&BTreeMap<String, String>, &FakeCall) -> bool,
    show: impl Fn(&FakeCall, &str, i64) -> Value,
) -> ApiResponse {
    let mut asked = parameters(request.query.as_bytes());
    let mut known = state.known(request.provider, now);
    known.retain(|(_, call)| {
        asked.get("To").is_none_or(|to| call.to == *to)
            && asked.get("From").is_none_or(|from| call.from == *from)
            && is_asked(&asked, call)
    });
    let (place, size) = (number(&asked, "Page", 0), number(&asked, "PageSize", PAGE_SIZE_DEFAULT));
    let (calls, has_more) = page(known, place, size);
    let calls: Vec<Value> = calls.into_iter().map(|(id, call)| show(call, id, now)).collect();
    asked.insert("Page".to_owned(), (place + 1).to_string());
    let next = form_urlencoded::Serializer::new(String::new()).extend_pairs(&asked).finish();
    let next = has_more.then(|| format!("{}?{next}", request.path));
    respond(200, &json!({"calls": calls, "next_page_uri": next}))
}

/// Status of the call at `now`.
pub(super) fn status(call: &FakeCall, now: i64) -> &'static str {
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

/// The webhooks of a call's progress, in the order of its events.
pub(super) fn progress(call: &FakeCall, id: &str, direction: &str) -> Vec<Webhook> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let callback = |(sequence, (event, at)): (usize, (&'static str, i64))| {
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("CallSid", id)
            .append_pair("CallStatus", event)
            .append_pair("CallbackSource", "call-progress-events")
            .append_pair("SequenceNumber", &sequence.to_string())
            .append_pair("Direction", direction)
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
