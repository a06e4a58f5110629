//! HTTP server of `switchhook dev`: it passes requests on to the stack, and adds local routes.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream::{Stream, StreamExt, iter, unfold};
use serde_json::{Value, json};
use switchhook_domain::{CallId, Timestamp};
use switchhook_local::Cloud;
use switchhook_local::bus::BusEvent;
use switchhook_operate::providers::Configured;
use tokio::sync::watch;

use super::operator;

/// Largest request body that API Gateway accepts.
const BODY_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Time between two keep-alive comments on an idle event stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Clone)]
struct AppState {
    cloud: Cloud,
    stopped: watch::Receiver<bool>,
}

/// Returns the server. Its event streams end when `stopped` becomes true.
pub(super) fn app(cloud: Cloud, providers: Vec<Configured>, base_url: &str, stopped: watch::Receiver<bool>) -> Router {
    let operator = operator::routes(cloud.clone(), providers, base_url);
    Router::new()
        .route("/domain-events", get(domain_events))
        .route("/republish", post(republish))
        .fallback(forward)
        .with_state(AppState { cloud, stopped })
        .merge(operator)
}

/// Waits until the server stops.
pub(super) async fn until_stopped(mut stopped: watch::Receiver<bool>) {
    // An error means that the sender is gone, so the server has stopped.
    drop(stopped.wait_for(|stopped| *stopped).await);
}

/// Publishes domain events again. Not part of the API of a deployed stack: there an operator does it with their own AWS
/// credentials.
async fn republish(State(state): State<AppState>, body: String) -> Response {
    let request: Value = serde_json::from_str(&body).unwrap_or_default();
    let text = |name: &str| request.get(name).and_then(Value::as_str);
    let report = match (text("call_id"), text("since").map(Timestamp::parse_rfc3339)) {
        (Some(call_id), None) => state.cloud.republish(&CallId::new(call_id)).await,
        (None, Some(Some(since))) => state.cloud.republish_since(since).await,
        (Some(_) | None, Some(_) | None) => {
            let message = "the body must contain either call_id, or since as an RFC 3339 time";
            return json_response(StatusCode::BAD_REQUEST, &json!({"message": message}));
        }
    };
    match report {
        Ok(report) => json_response(StatusCode::OK, &json!({"calls": report.calls, "events": report.events})),
        Err(error) => json_response(StatusCode::INTERNAL_SERVER_ERROR, &json!({"message": error.to_string()})),
    }
}

/// Passes a request on to the stack unchanged.
async fn forward(State(state): State<AppState>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    match to_bytes(body, BODY_BYTES_MAX).await {
        Ok(body) => state.cloud.request(Request::from_parts(parts, body)).await.map(Body::from),
        Err(_) => json_response(StatusCode::PAYLOAD_TOO_LARGE, &json!({"message": "Request Entity Too Large"})),
    }
}

/// Streams all domain events, past and future. With `Last-Event-ID`, the stream starts after that event.
async fn domain_events(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let next = last.and_then(|id| index_after(&state.cloud, id)).unwrap_or_default();
    let watch = state.cloud.bus().watch();
    let stream = unfold((state.cloud, watch, next), |(cloud, mut watch, next)| async move {
        loop {
            let events = cloud.bus().events_since(next);
            if let Some(last) = events.last() {
                let next = last.index + 1;
                return Some((iter(events), (cloud, watch, next)));
            }
            watch.changed().await;
        }
    });
    let stream = stream.flatten().map(|event| Ok(sse_event(&event))).take_until(until_stopped(state.stopped));
    Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

/// Returns the index that follows the last event with this domain event id. `None` if there is no such event.
fn index_after(cloud: &Cloud, id: &str) -> Option<u64> {
    let events = cloud.bus().events_since(0);
    events.iter().rfind(|event| domain_event_id(event).as_deref() == Some(id)).map(|event| event.index + 1)
}

fn sse_event(event: &BusEvent) -> Event {
    let id = domain_event_id(event).unwrap_or_else(|| event.id.clone());
    Event::default().id(id).event(&event.detail_type).data(&event.detail)
}

/// Returns the id of the domain event, by which subscribers recognise repeated deliveries.
fn domain_event_id(event: &BusEvent) -> Option<String> {
    let detail: Value = serde_json::from_str(&event.detail).ok()?;
    detail.get("id").and_then(Value::as_str).map(str::to_owned)
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
