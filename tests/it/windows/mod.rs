//! Failures at every point on the way of a webhook. Each test causes one, and shows how Switchhook recovers.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod concurrent_consumers;
mod deadlines;
mod event_status;
mod failing_message;
mod lost_response;
mod newer_versions;
mod not_queued;
mod outages;
mod shared_read;
mod unfoldable;
mod waiting;

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use switchhook_domain::EventId;
use switchhook_tests::{World, generic, text};

const NOTHING: [Value; 0] = [];
/// Answer to a webhook if ingress crashed before it queued the event.
const CRASHED: StatusCode = StatusCode::INTERNAL_SERVER_ERROR;
const HOUR: Duration = Duration::from_secs(60 * 60);

/// Fields of `GET /event/status?id={event_id}` as text, one line per field: `status: queued`.
async fn status(world: &World, event_id: &EventId, fields: &[&str]) -> String {
    let status = world.status(event_id).await;
    let shown = |field: &&str| {
        let value = &status[*field];
        format!("{field}: {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    fields.iter().map(shown).collect::<Vec<_>>().join("\n")
}

/// The ids of the domain events that were published, in order.
fn published_ids(world: &World) -> Vec<String> {
    world.domain_events().iter().map(|event| text(&event["id"])).collect()
}

/// The bodies of four generic webhooks of a completed call, in order.
fn call_events(call_id: &str) -> Vec<String> {
    [("CALL_STARTED", 0), ("RINGING", 1), ("ANSWERED", 3), ("ENDED", 60)]
        .into_iter()
        .map(|(kind, second)| generic(call_id, &format!("{call_id}-{kind}"), kind, second))
        .collect()
}
