//! Limits on the cost of webhooks. The local services count requests and capacity units. The tests compute their price.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod attention;
mod dollars;
mod entities;
mod growth;
mod reconciler;
mod scale;
mod scheduler;
mod webhooks;

use std::collections::BTreeMap;

use http::StatusCode;
use switchhook_domain::Provider;
use switchhook_operate::scale::{BATCH, BATCH_LINE_BYTES, RELAY_LINE_BYTES};
use switchhook_tests::{KEY, World, generic};

use crate::traffic::Webhook;

pub(crate) mod price {
    pub(crate) use switchhook_operate::cost::price::{
        EVENT, HTTP_API, LOG_GB, READ_UNIT, SQS_FIFO, WRITE_UNIT, capacity_month, invocation, running,
        saved_by_provisioning,
    };
    use switchhook_operate::cost::price::{LAMBDA_GB_S, LAMBDA_REQUEST};
    use switchhook_operate::scale::READ_S;

    /// Per run of a schedule that finds nothing, in a function with this memory. It sends its requests one after another, so it mostly waits.
    pub(crate) const fn idle_run(requests: f64, memory_gb: f64) -> f64 {
        LAMBDA_REQUEST + memory_gb * requests * READ_S * LAMBDA_GB_S
    }
}

/// Runs of the reconciler in a month: one per minute.
pub(crate) const RUNS: f64 = 30.0 * 24.0 * 60.0;
/// Bytes that CloudWatch adds to each log line.
pub(crate) const LOG_LINE_BYTES: f64 = 26.0;

/// Bytes of a line of the HTTP API's access log, for a webhook that a function answered.
pub(crate) fn access_log_bytes() -> f64 {
    let template = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../template.yaml")).unwrap();
    let line =
        template.lines().skip_while(|line| line.trim() != "AccessLogSettings:").find(|line| line.contains("$context."));
    let line = [
        ("$context.requestId", "Yd2pkjXVoAMEJ5g="),
        ("$context.routeKey", "POST /webhooks/{provider}"),
        ("$context.status", "200"),
        ("$context.identity.sourceIp", "203.0.113.100"),
        ("$context.responseLatency", "100"),
        ("$context.integrationErrorMessage", "-"),
    ]
    .into_iter()
    .fold(line.unwrap().trim().to_owned(), |line, (variable, value)| line.replace(variable, value));
    assert!(!line.contains('$'), "{line}");
    line.len() as f64 + LOG_LINE_BYTES
}

/// Returns the USD that a million webhooks cost more in batches of one than in batches of three: for invocations, for requests to SQS, and for
/// log lines. The relay has a batch for each of these records of a webhook.
fn added_by_batches_of_one(relay_records: f64) -> [f64; 3] {
    let (consumer, relay) = (1.0 - 1.0 / BATCH, relay_records - 1.0 / BATCH);
    let line_bytes = consumer * BATCH_LINE_BYTES + relay * RELAY_LINE_BYTES;
    [
        1e6 * (consumer + relay) * price::invocation(),
        1e6 * consumer * 2.0 * price::SQS_FIFO,
        1e6 * line_bytes / 1e9 * price::LOG_GB,
    ]
}

/// Expected counts of requests by operation, in the form of [`World::requests`].
pub(crate) fn request_counts(requests: &[(&str, u64)]) -> BTreeMap<String, u64> {
    requests.iter().map(|(operation, count)| ((*operation).to_owned(), *count)).collect()
}

/// Sets the counters of requests and capacity units to zero.
pub(crate) fn reset_counters(world: &World) {
    drop((world.requests(), world.capacity()));
}

/// Posts a webhook that must be answered 200. Returns the `status` of the answer.
async fn post(world: &World, webhook: &Webhook) -> String {
    let body = webhook.body.as_bytes();
    let (code, answer) = world.post_signed(webhook.provider, KEY, &webhook.query, body).await;
    assert_eq!(code, StatusCode::OK, "{}: {answer}", webhook.name);
    switchhook_tests::text(&answer["status"])
}

/// Invokes the consumer once with up to ten messages of the queue.
async fn consume(world: &World) {
    let received = world.receive();
    assert_eq!(world.consume(&received).await, received.len());
}

fn generic_webhook(call_id: &str, event_id: &str, event_type: &str) -> Webhook {
    Webhook {
        name: format!("generic/{event_type}"),
        provider: Provider::Generic,
        query: String::new(),
        body: generic(call_id, event_id, event_type, 0),
    }
}

/// Write units of the indexes since the last reset.
pub(crate) fn index_writes(world: &World) -> f64 {
    world.capacity().values().map(|count| count.index_write_units).sum()
}
