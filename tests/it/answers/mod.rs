//! Answers of `POST /webhooks/{provider}`, and the state of the stack after each.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod accepted;
mod authenticity;
mod conflicts;
mod edge;
mod outages;
mod paths;
mod questions;
mod sizes;
mod unreadable;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Request, StatusCode};
use serde_json::{Value, json};
use switchhook_domain::Provider;

use crate::traffic::noise;

const OK: StatusCode = StatusCode::OK;

/// The answer 200 with this status and event id.
fn answer(status: &str, event_id: &str) -> (StatusCode, Value) {
    (OK, json!({"status": status, "event_id": event_id}))
}

/// The answer of ingress if it could not store, queue or report the event.
fn storage_failure() -> (StatusCode, Value) {
    let message = "the event could not be stored; send it again, a repetition is safe";
    (StatusCode::INTERNAL_SERVER_ERROR, json!({"error": "storage_failure", "message": message}))
}

/// The provider of a sample, from its name: `retell/call_started`.
fn provider_of(name: &str) -> Provider {
    name.split_once('/').unwrap().0.parse().unwrap()
}

fn id_of(answered: &Value) -> String {
    answered["event_id"].as_str().unwrap().to_owned()
}

fn with_header(mut request: Request<Bytes>, name: &'static str, value: &str) -> Request<Bytes> {
    request.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    request
}

fn with_body(request: Request<Bytes>, body: &[u8]) -> Request<Bytes> {
    request.map(|_| Bytes::copy_from_slice(body))
}

fn with_uri(mut request: Request<Bytes>, uri: &str) -> Request<Bytes> {
    *request.uri_mut() = uri.parse().unwrap();
    request
}

/// A generic event of exactly `bytes` bytes.
fn event_of_size(bytes: usize) -> String {
    let frame = json!({"event_id": "large", "type": "ANSWERED", "call_id": "c1", "noise": ""}).to_string();
    frame.replace("\"noise\":\"\"", &format!("\"noise\":\"{}\"", noise(bytes - frame.len())))
}
