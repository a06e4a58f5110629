//! Failure windows on the way of a webhook. Each test opens one with a fault and shows what closes it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod concurrent_consumers;
mod deadlines;
mod event_status;
mod failing_message;
mod lost_response;
mod newer_versions;
mod not_queued;
mod outages;
mod unfoldable;

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use switchhook_domain::EventId;
use switchhook_tests::{World, generic, text};

const NOTHING: [Value; 0] = [];
const DIED: StatusCode = StatusCode::INTERNAL_SERVER_ERROR;
const HOUR: Duration = Duration::from_secs(60 * 60);

/// What `GET /events/{id}/status` says, in the order of the arguments.
async fn status(world: &World, event_id: &EventId, fields: &[&str]) -> Value {
    let status = world.status(event_id).await;
    fields.iter().map(|field| status[field].clone()).collect()
}

/// The ids and types of what was published, in order.
fn published_pairs(world: &World) -> Vec<(String, String)> {
    world.domain_events().iter().map(|event| (text(&event["id"]), text(&event["type"]))).collect()
}

fn pair(id: &str, event_type: &str) -> (String, String) {
    (id.to_owned(), event_type.to_owned())
}

/// The four facts of a call that is confirmed, in order.
fn call_events(call_id: &str) -> Vec<String> {
    [("CALL_STARTED", 0), ("RINGING", 1), ("ANSWERED", 3), ("ENDED", 60)]
        .into_iter()
        .map(|(kind, second)| generic(call_id, &format!("{call_id}-{kind}"), kind, second))
        .collect()
}
