//! HTTP server of `switchhook dev`: it passes requests on to the stack, and adds local routes.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::HOST;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::get;
use futures_util::stream::{Stream, StreamExt, iter, unfold};
use serde_json::{Value, json};
use switchhook_local::bus::BusEvent;
use switchhook_local::{Cloud, LocalError};
use switchhook_operate::StackNames;
use tokio::sync::watch;
use tower::ServiceExt;

use super::response::json_response;
use super::{frozen, guard, operator};

/// Largest request body that API Gateway accepts.
const BODY_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Time between two keep-alive comments on an idle event stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Clone)]
struct AppState {
    cloud: Cloud,
    stopped: watch::Receiver<bool>,
}

/// Returns the server of the API, behind its guard. Its event streams end when `stopped` becomes true. The server of
/// a frozen stack changes nothing.
pub(super) fn app(cloud: Cloud, names: StackNames, stopped: watch::Receiver<bool>, is_frozen: bool) -> Router {
    let operator = operator::routes(cloud.clone(), names);
    let routes = Router::new()
        .route("/domain-events", get(domain_events))
        .fallback(forward)
        .with_state(AppState { cloud, stopped })
        .merge(operator);
    let routes = if is_frozen { routes.layer(from_fn(frozen::check)) } else { routes };
    routes.layer(from_fn(guard::check))
}

/// Returns a server that answers requests to `pages_host` with pages, and all others with the API. Both have a route `/calls`.
pub(super) fn by_host(pages_host: String, pages: Router, api: Router, cloud: Cloud) -> Router {
    let by_host = Router::new().fallback(move |request: Request| {
        let is_page = request.headers().get(HOST).is_some_and(|host| host.as_bytes() == pages_host.as_bytes());
        let router = if is_page { pages.clone() } else { api.clone() };
        router.oneshot(request)
    });
    by_host.layer(from_fn_with_state(cloud, acknowledge))
}

/// Waits until the server stops.
pub(crate) async fn until_stopped(mut stopped: watch::Receiver<bool>) {
    // An error means that the sender is gone, so the server has stopped.
    drop(stopped.wait_for(|stopped| *stopped).await);
}

/// Answers a request that may have written something only when that is on the disk.
async fn acknowledge(State(cloud): State<Cloud>, request: Request, next: Next) -> Response {
    let only_reads = request.method() == Method::GET;
    let response = next.run(request).await;
    if only_reads {
        return response;
    }
    match cloud.services().flush().await {
        Ok(()) => response,
        Err(error) => {
            log_failed_flush(&error);
            json_response(StatusCode::INTERNAL_SERVER_ERROR, &json!({"message": error.to_string()}))
        }
    }
}

fn log_failed_flush(error: &LocalError) {
    tracing::error!(error = error as &dyn std::error::Error, "data of the local stack is not on the disk");
}

/// Passes a request on to the stack unchanged.
async fn forward(State(state): State<AppState>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    match to_bytes(body, BODY_BYTES_MAX).await {
        Ok(body) => state.cloud.request(Request::from_parts(parts, body)).await.map(Body::from),
        Err(_) => json_response(StatusCode::PAYLOAD_TOO_LARGE, &json!({"message": "Request Entity Too Large"})),
    }
}

/// Streams the domain events that the bus has kept, and all new ones. With `Last-Event-ID`, the stream starts after that event.
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
                // After a power cut, an event that was not on the disk might come back with the same id and another content.
                if let Err(error) = cloud.services().flush().await {
                    log_failed_flush(&error);
                    return None;
                }
                return Some((iter(events), (cloud, watch, next)));
            }
            watch.changed().await;
        }
    });
    let stream = stream.flatten().map(|event| Ok(sse_event(&event))).take_until(until_stopped(state.stopped));
    Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

/// Returns the index that follows the first event with this domain event id. `None` if there is no such event.
///
/// `switchhook republish` publishes an event again under its id. Events between the two may be new to the subscriber.
fn index_after(cloud: &Cloud, id: &str) -> Option<u64> {
    let events = cloud.bus().events_since(0);
    events.iter().find(|event| domain_event_id(event).as_deref() == Some(id)).map(|event| event.index + 1)
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
