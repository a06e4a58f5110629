//! Local routes by which operators' commands reach the stack: its names, AWS requests, and schedules.
//!
//! **A page in a browser must not reach them.** The [guard](super::guard) stands before them, as before the whole API.

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::{get, post};
use serde::Serialize;
use serde_json::json;
use switchhook_domain::Timestamp;
use switchhook_local::metrics;
use switchhook_local::sqs::queue_url;
use switchhook_local::{
    CALLS_TABLE, Cloud, DIAL_ACCOUNTS_SECRET, DIAL_QUEUE, DUE_QUEUE, EVENT_BUS, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE,
    INBOX_TABLE, REGION, RELAY_FAILURES_QUEUE, WEBHOOK_KEYS_SECRET,
};
use switchhook_operate::{StackNames, StackSettings};

use super::response::json_response;

/// Largest body of a request to DynamoDB.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

#[derive(Clone)]
struct OperatorState {
    cloud: Cloud,
    names: StackNames,
}

/// Returns the routes of the stack with these names.
pub(super) fn routes(cloud: Cloud, names: StackNames) -> Router {
    Router::new()
        .route("/stack", get(stack))
        .route("/clock", get(clock))
        .route("/aws", post(aws))
        // The SDK appends a slash to its endpoint.
        .route("/aws/", post(aws))
        .route("/run/{schedule}", post(run))
        .route("/metrics-data", get(metrics_since))
        .with_state(OperatorState { cloud, names })
}

/// Returns the names of the stack at this URL.
pub(super) fn names(cloud: &Cloud, base_url: &str) -> StackNames {
    let consumer = cloud.consumer();
    let days = |time: Duration| time.as_secs() / (24 * 60 * 60);
    StackNames {
        // The dimension `stack` of its metrics.
        stack: "local".to_owned(),
        region: REGION.to_owned(),
        api_url: base_url.to_owned(),
        inbox_table: INBOX_TABLE.to_owned(),
        calls_table: CALLS_TABLE.to_owned(),
        events_queue_url: queue_url(EVENTS_QUEUE),
        events_dlq_url: queue_url(EVENTS_DEAD_LETTER_QUEUE),
        dial_queue_url: queue_url(DIAL_QUEUE),
        due_queue_url: queue_url(DUE_QUEUE),
        relay_failures_queue_url: queue_url(RELAY_FAILURES_QUEUE),
        event_bus: EVENT_BUS.to_owned(),
        scheduler_function: metrics::function_name("scheduler"),
        reconciler_function: metrics::function_name("reconciler"),
        webhook_keys_secret: WEBHOOK_KEYS_SECRET.to_owned(),
        dial_accounts_secret: DIAL_ACCOUNTS_SECRET.to_owned(),
        settings: StackSettings {
            inactivity_timeout_seconds: consumer.policy.inactivity_timeout.as_secs(),
            outcome_providers: consumer.policy.outcome_providers.iter().collect(),
            inbox_retention_days: days(consumer.inbox.retention()),
            call_retention_days: days(consumer.calls.retention()),
            block_on_request: consumer.block_on_request,
            dial_rates: cloud.scheduler().dial_rates.to_string(),
            index_numbers: consumer.calls.indexes_numbers(),
            index_shards: consumer.calls.index_shards().to_string(),
        },
    }
}

async fn stack(State(state): State<OperatorState>) -> Response {
    json_response(StatusCode::OK, &json!(state.names))
}

/// Returns the time of the stack. It runs ahead of this machine if a user has skipped time. It runs behind if the stack goes on from the end of a
/// demo. The time of a frozen stack stands still.
async fn clock(State(state): State<OperatorState>) -> Response {
    let clock = state.cloud.clock();
    let now = Timestamp::from_millis(i64::try_from(clock.now_ms()).unwrap_or(i64::MAX));
    json_response(StatusCode::OK, &json!({"now": now.to_string(), "is_stopped": clock.is_stopped()}))
}

/// Answers a request of an AWS SDK.
async fn aws(State(state): State<OperatorState>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        return message(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large");
    };
    let target = parts.headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    match state.cloud.services().connector().handle(target, &body).await {
        Ok(response) => response.map(Body::from),
        Err(error) => message(StatusCode::BAD_GATEWAY, &error.to_string()),
    }
}

/// Returns the metrics of each minute since a time, or all of them.
async fn metrics_since(State(state): State<OperatorState>, uri: Uri) -> Response {
    let query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let since = query.into_iter().find_map(|(name, value)| (name == "since").then_some(value));
    let since_ms = match since.as_deref().map(Timestamp::parse_rfc3339) {
        None => 0,
        Some(Some(since)) => u64::try_from(since.as_millis()).unwrap_or_default(),
        Some(None) => return message(StatusCode::BAD_REQUEST, "since must be an RFC 3339 time"),
    };
    state.cloud.sample();
    json_response(StatusCode::OK, &state.cloud.metrics().since(since_ms))
}

/// Runs a schedule once.
async fn run(State(state): State<OperatorState>, Path(schedule): Path<String>) -> Response {
    let cloud = &state.cloud;
    match schedule.as_str() {
        "scheduler" => ran(cloud.schedule().await),
        "reconciler" => ran(cloud.reconcile().await),
        "drift" => ran(cloud.check_drift().await),
        _ => message(StatusCode::NOT_FOUND, "the schedules are scheduler, reconciler and drift"),
    }
}

fn ran<T: Serialize, E: Error, F: Error>(run: Result<Result<T, E>, F>) -> Response {
    let failed = |error: &dyn Error| message(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string());
    match run {
        Ok(Ok(report)) => json_response(StatusCode::OK, &json!(report)),
        Ok(Err(error)) => failed(&error),
        Err(panicked) => failed(&panicked),
    }
}

fn message(status: StatusCode, message: &str) -> Response {
    json_response(status, &json!({"message": message}))
}
