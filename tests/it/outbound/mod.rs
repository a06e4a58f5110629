//! Calls that Switchhook places: created over the API, claimed once, dialled once, retried by policy, and settled by
//! webhooks and lookups.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod claims;
mod lookups;
mod placed;
mod republish;

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use switchhook_tests::World;

pub(crate) const HOUR: Duration = Duration::from_secs(60 * 60);

/// The body of `POST /calls`. `behaviour` lists what the fake person does, one word per attempt.
pub(crate) fn call_request(behaviour: &str) -> Value {
    json!({"provider": "retell", "from": "+15550100", "to": "+15550199", "appointment_id": "apt", "metadata": {"fake": behaviour}})
}

pub(crate) async fn send(
    world: &World,
    method: &str,
    path: &str,
    key: Option<&str>,
    body: &Value,
) -> (StatusCode, Value) {
    let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    world.send(request.body(body).unwrap()).await
}

pub(crate) async fn create(world: &World, order: &Value) -> String {
    let (code, answer) = send(world, "POST", "/calls", None, order).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
    answer["call_id"].as_str().unwrap().to_owned()
}

pub(crate) async fn get_call(world: &World, call_id: &str) -> Value {
    let (code, call) = send(world, "GET", &format!("/calls/{call_id}"), None, &Value::Null).await;
    assert_eq!(code, StatusCode::OK, "{call}");
    call
}

/// The job, the appointment status and the lifecycles of the attempts, as the API shows them.
pub(crate) async fn call_state(world: &World, call_id: &str) -> (String, String, Vec<String>) {
    let call = get_call(world, call_id).await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let attempts = call["attempts"].as_array().unwrap().iter().map(|attempt| text(&attempt["lifecycle"])).collect();
    (text(&call["job"]["state"]), text(&call["appointment_status"]), attempts)
}

pub(crate) fn expected_state(job: &str, appointment: &str, attempts: &[&str]) -> (String, String, Vec<String>) {
    (job.to_owned(), appointment.to_owned(), attempts.iter().map(|text| (*text).to_owned()).collect())
}
