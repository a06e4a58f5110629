//! Calls that Switchhook places: created over the API, claimed once, dialled once, retried by policy, and settled by
//! webhooks and lookups.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod accounts;
mod blocked;
mod calling_windows;
mod calls_in_flight;
mod claims;
mod due;
mod held;
mod lookups;
mod moves;
mod placed;
mod probes;
mod provider_health;
mod providers;
mod refused;
mod several_dialers;
mod shared_rate;
mod vapi_reports;

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use switchhook_aws::inbox::{NewEvent, submit};
use switchhook_domain::Provider;
use switchhook_local::EVENTS_QUEUE;
use switchhook_tests::{World, text};

pub(crate) use self::providers::all_accounts;

pub(crate) const HOUR: Duration = Duration::from_secs(60 * 60);

/// The body of `POST /calls`. `behaviour` says what the person called does in each attempt: `busy,confirms`.
pub(crate) fn call_request(behaviour: &str) -> Value {
    json!({
        "provider": "retell", "from": "+15550100", "to": "+15550199", "appointment_id": "apt",
        "metadata": {"fake": behaviour}, "allow_duplicate": true,
    })
}

/// Sends a request to the API. `key` is its idempotency key. A `null` body is sent as an empty one.
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

/// Creates a call over the API. Returns its id.
pub(crate) async fn create(world: &World, request: &Value) -> String {
    let (code, answer) = send(world, "POST", "/calls", None, request).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
    answer["call_id"].as_str().unwrap().to_owned()
}

pub(crate) async fn get_call(world: &World, call_id: &str) -> Value {
    let (code, call) = send(world, "GET", &format!("/call?id={call_id}"), None, &Value::Null).await;
    assert_eq!(code, StatusCode::OK, "{call}");
    call
}

/// Waits until the call is settled, at most half a day.
pub(crate) async fn wait_for_the_end(world: &World, call_id: &str) {
    wait_for_all(world, HOUR * 12, &[call_id]).await;
}

/// Waits until all these calls are settled, at most this long.
pub(crate) async fn wait_for_all(world: &World, limit: Duration, call_ids: &[impl AsRef<str>]) {
    let all_are_settled = async || {
        for call_id in call_ids {
            if world.load(call_id.as_ref()).await.is_none_or(|call| call.settled_at.is_none()) {
                return false;
            }
        }
        true
    };
    world.wait_until(limit, all_are_settled).await;
}

/// The state of a call as `GET /call?id={call_id}` shows it, with the lifecycle of each attempt. For example `job
/// PENDING, appointment Retrying, attempts [busy, no_answer]`.
pub(crate) async fn call_state(world: &World, call_id: &str) -> String {
    let call = get_call(world, call_id).await;
    let lifecycles: Vec<String> =
        call["attempts"].as_array().unwrap().iter().map(|attempt| text(&attempt["lifecycle"])).collect();
    let (job, appointment) = (text(&call["job"]["state"]), text(&call["appointment_status"]));
    format!("job {job}, appointment {appointment}, attempts [{}]", lifecycles.join(", "))
}

/// Posts a webhook that is stored and not queued, because ingress crashes between the two.
pub(crate) async fn post_stored_only(world: &World, provider: Provider, body: &str) {
    world.crash_at("SendMessage", EVENTS_QUEUE);
    assert!(world.post(provider, body).await.0.is_server_error());
    world.clear_faults();
}

/// Stores and queues a report of drift about a call, as the drift check does. `fingerprint` identifies the report.
pub(crate) async fn report_drift(world: &World, call_id: &str, fingerprint: &str) {
    let drift = world.call(call_id).await.drift_found_event(fingerprint, world.now());
    let new_event = NewEvent::from_switchhook(&drift, "test").unwrap();
    drop(submit(&world.inbox, &world.queue, &new_event, &drift).await.unwrap());
}
