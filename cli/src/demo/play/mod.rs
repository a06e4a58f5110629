//! The player: it plays the traffic against the local cloud in virtual time, and records the observations.

mod error;
mod logs;
mod published;
mod signing;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use serde_json::Value;
use switchhook_aws::random::RandomIds;
use switchhook_aws::shards::Shards;
use switchhook_local::clock::Clock;
use switchhook_local::fake::DeliveryFaults;
use switchhook_local::{
    Cloud, CloudOptions, DEFAULT_RETRY_POLICY, DIAL_QUEUE, DIALERS, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE,
    MAX_RECEIVE_COUNT, RELAY_FAILURES_QUEUE,
};
use tokio::time::{Instant, sleep_until};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;

use super::observation::{
    ApiResponse, Observations, ObservedCall, PhoneRing, PlacedCall, ProviderResponse, SentWebhook, WebhookResponse,
};
use super::placed_script::{ApiAction, ApiRequest, OUTAGE_END, OUTAGE_START, PlacedScript};
use super::script::{HOUR, MINUTE, Millis, START};
use super::stack_settings::{INACTIVITY_TIMEOUT, RECONCILER_PERIOD};
use super::traffic::{Delivery, Traffic};
use crate::data_dir::{ClockFile, DataDir};
use crate::paths::encoded;
pub(crate) use error::PlayError;
use logs::LogCollector;
use published::PublishedEvents;
use signing::SigningKeys;

/// Time between two checks that every call is settled.
const SETTLED_CHECK_PERIOD: Millis = 5 * MINUTE;
/// Number of successive checks that must find every call settled. One is not enough: an event that is still on its way may open a
/// call again.
const SETTLED_CHECKS: u32 = 2;
/// Time after the start within which every call must be settled.
const SETTLED_WITHIN: Millis = 24 * HOUR;
/// Dial requests per second to the fake provider, which plays Retell.
const DIAL_RATES: &str = "retell=20";

/// Plays all traffic on this thread. Calls `progress` with the virtual time at every delivery and every API request. With `data`,
/// the stack is kept in this directory.
pub(super) fn play(
    traffic: &Traffic,
    seed: u64,
    data: Option<&Path>,
    progress: impl Fn(Millis),
) -> Result<Observations, PlayError> {
    let collector = LogCollector::default();
    switchhook_local::clock::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(PlayError::Runtime)?;
    let started = std::time::Instant::now();
    let mut observations = runtime.block_on(run(traffic, data, &collector, progress))?;
    observations.wall_time = started.elapsed();
    let logs = collector.take();
    observations.rejections_by_cause = logs.rejections_by_cause;
    observations.foreign_ids = logs.foreign_ids;
    observations.logged_failures = logs.failures;
    observations.worker_actions = logs.worker_actions;
    observations.drifted_calls = logs.drifted_calls;
    Ok(observations)
}

async fn run(
    traffic: &Traffic,
    data: Option<&Path>,
    collector: &LogCollector,
    progress: impl Fn(Millis),
) -> Result<Observations, PlayError> {
    let keys = SigningKeys::new()?;
    let clock_start = UNIX_EPOCH + Duration::from_millis(START.unsigned_abs());
    let cloud = Cloud::open(CloudOptions {
        providers: keys.provider_config()?,
        replaces_secrets: false,
        reads_secrets: false,
        dial_rates: DIAL_RATES.parse().map_err(PlayError::DialRates)?,
        inactivity_timeout: Duration::from_millis(INACTIVITY_TIMEOUT.unsigned_abs()),
        tick: Duration::from_millis(RECONCILER_PERIOD.unsigned_abs()),
        data_dir: data.map(Path::to_owned),
        clock: Clock::starting_at(clock_start),
        default_retry_policy: DEFAULT_RETRY_POLICY,
        dialers: DIALERS,
        block_on_request: true,
        index_numbers: true,
        index_shards: Shards::default(),
        max_receive_count: MAX_RECEIVE_COUNT,
        random_ids: RandomIds::seeded(traffic.seed),
        seed: traffic.seed,
        delivery_faults: DeliveryFaults::USUAL,
    })
    .map_err(PlayError::Open)?;
    // Metrics are kept beside the data, for those who look at it later.
    let metrics = data.map(|_| cloud.metrics().clone());
    let subscriber = tracing_subscriber::registry().with(LevelFilter::INFO).with(collector.clone()).with(metrics);
    let _guard = tracing::subscriber::set_default(subscriber);
    let running = tokio::spawn({
        let cloud = cloud.clone();
        async move { cloud.run().await }
    });
    let start = Instant::now();
    let instant_of = |at: Millis| start + Duration::from_millis((at - START).unsigned_abs());

    cloud.fake().start_recording();
    let mut published = PublishedEvents::default();
    let mut responses = Vec::with_capacity(traffic.deliveries.len());
    let mut placed_calls = vec![PlacedCall::default(); traffic.placed_scripts.len()];
    for (at, step) in steps(traffic) {
        sleep_until(instant_of(at)).await;
        published.collect(&cloud);
        match step {
            Step::Deliver(delivery) => {
                progress(at);
                let request = keys.request(delivery)?;
                let cloud = cloud.clone();
                responses.push(tokio::spawn(async move { webhook_response(cloud.request(request).await) }));
            }
            Step::Request(request) => {
                progress(at);
                if let Some(script) = traffic.placed_scripts.get(request.script)
                    && let Some(call) = placed_calls.get_mut(request.script)
                {
                    send_api_request(request, script, &cloud, call).await?;
                }
            }
            Step::SetProviderDown(down) => cloud.fake().set_down(down),
        }
    }
    // The last delivery has no further consequences once the inactivity timeout after it has passed, the reconciler has
    // detected that, and the consumer has folded it.
    let last = traffic.deliveries.iter().map(|delivery| delivery.at).max().unwrap_or(START);
    let mut now = (last + INACTIVITY_TIMEOUT + 3 * RECONCILER_PERIOD).max(if placed_calls.is_empty() {
        START
    } else {
        OUTAGE_END
    });
    sleep_until(instant_of(now)).await;
    published.collect(&cloud);
    let mut checks = if placed_calls.is_empty() { SETTLED_CHECKS } else { 0 };
    while now < START + SETTLED_WITHIN && checks < SETTLED_CHECKS {
        checks = if is_settled(&cloud).await? { checks + 1 } else { 0 };
        now += SETTLED_CHECK_PERIOD;
        sleep_until(instant_of(now)).await;
        published.collect(&cloud);
    }

    let mut observations = Observations::default();
    for response in responses {
        observations.webhook_responses.push(response.await.map_err(|_| PlayError::Stopped)?);
    }
    observations.database_requests = cloud.services().dynamodb().counts();
    let depth = |queue| cloud.services().sqs().depth(queue).map_err(|_| PlayError::Stopped);
    observations.events_queue = depth(EVENTS_QUEUE)?;
    observations.dial_queue = depth(DIAL_QUEUE)?;
    observations.dead_letters = depth(EVENTS_DEAD_LETTER_QUEUE)?;
    observations.relay_failures = depth(RELAY_FAILURES_QUEUE)?;
    if running.is_finished() {
        return Err(PlayError::Stopped);
    }
    published.collect(&cloud);

    for script in &traffic.scripts {
        observations.calls.push(observe_call(&cloud, &mut published, &script.call_id).await?);
    }
    read_provider_record(&cloud, &mut placed_calls, &mut observations);
    for mut call in placed_calls {
        call.observed = observe_call(&cloud, &mut published, &call.call_id).await?;
        observations.placed_calls.push(call);
    }
    observations.quarantine_events = std::mem::take(&mut published.quarantine_events);
    observations.provider_events = std::mem::take(&mut published.provider_events);
    observations.ids_with_two_contents = std::mem::take(&mut published.ids_with_two_contents);
    observations.unexpected_events.extend(published.into_rest());
    running.abort();
    if let Some(data) = data {
        let directory = DataDir::new(data);
        let clock = ClockFile { ended_ms: Some(cloud.clock().now_ms()), ..ClockFile::default() };
        directory
            .write_providers(&keys.document())
            .and_then(|()| directory.write_clock(clock))
            .and_then(|()| directory.write_metrics(&cloud.metrics().to_text()?))
            .and_then(|()| traffic.look_first().map_or(Ok(()), |script| directory.write_look_first(&script.call_id)))
            .and_then(|()| directory.finish_demo())
            .map_err(PlayError::Keep)?;
    }
    Ok(observations)
}

/// One step of the run.
enum Step<'a> {
    Deliver(&'a Delivery),
    Request(ApiRequest),
    /// Takes the fake provider's API down (`true`), or brings it back (`false`).
    SetProviderDown(bool),
}

/// Returns all steps in the order of time.
fn steps(traffic: &Traffic) -> Vec<(Millis, Step<'_>)> {
    let mut steps: Vec<(Millis, Step<'_>)> =
        traffic.deliveries.iter().map(|delivery| (delivery.at, Step::Deliver(delivery))).collect();
    steps.extend(traffic.requests.iter().map(|request| (request.at, Step::Request(*request))));
    if !traffic.placed_scripts.is_empty() {
        steps.extend([(OUTAGE_START, Step::SetProviderDown(true)), (OUTAGE_END, Step::SetProviderDown(false))]);
    }
    steps.sort_by_key(|(at, _)| *at);
    steps
}

/// True if every call is settled. Calls that are not settled come first in a list.
async fn is_settled(cloud: &Cloud) -> Result<bool, PlayError> {
    let page = get(cloud, "/calls?limit=1").await?.unwrap_or_default();
    let first = page.get("calls").and_then(|calls| calls.get(0));
    Ok(first.is_none_or(|call| call.get("settled") == Some(&Value::Bool(true))))
}

/// Sends one request about a placed call to Switchhook's API, and records the response.
async fn send_api_request(
    request: ApiRequest,
    script: &PlacedScript,
    cloud: &Cloud,
    call: &mut PlacedCall,
) -> Result<(), PlayError> {
    let path = match request.action {
        ApiAction::Create | ApiAction::CreateAgain | ApiAction::CreateOther => "/calls".to_owned(),
        ApiAction::Trigger | ApiAction::TriggerCanceled => format!("/call/trigger?id={}", encoded(&call.call_id)),
        ApiAction::Cancel => format!("/call/cancel?id={}", encoded(&call.call_id)),
        ApiAction::Block => format!("/do-not-call?number={}", encoded(&script.to)),
    };
    let body = match request.action {
        ApiAction::Create | ApiAction::CreateAgain => script.request_body(false).to_string(),
        ApiAction::CreateOther => script.request_body(true).to_string(),
        ApiAction::Trigger | ApiAction::TriggerCanceled | ApiAction::Cancel | ApiAction::Block => String::new(),
    };
    let method = if request.action == ApiAction::Block { Method::PUT } else { Method::POST };
    let http_request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .header("idempotency-key", &script.key)
        .body(Bytes::from(body))
        .map_err(PlayError::Request)?;
    let response = cloud.request(http_request).await;
    let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
    if request.action == ApiAction::Create {
        call.call_id = body.get("call_id").and_then(Value::as_str).unwrap_or_default().to_owned();
    }
    call.api_responses.push(ApiResponse { request, code: response.status().as_u16(), body });
    Ok(())
}

/// Reads from the API everything that it shows about a call.
async fn observe_call(
    cloud: &Cloud,
    published: &mut PublishedEvents,
    call_id: &str,
) -> Result<ObservedCall, PlayError> {
    let id = encoded(call_id);
    let call = get(cloud, &format!("/call?id={id}")).await?;
    let timeline = get(cloud, &format!("/call/events?id={id}")).await?;
    let events = timeline.as_ref().and_then(|timeline| timeline.get("events")).and_then(Value::as_array);
    let timeline = events.cloned().unwrap_or_default();
    let published = published.take_call(call_id);
    Ok(ObservedCall { call, timeline, domain_events: published.domain_events, published_at: published.published_at })
}

/// Reads the fake provider's record: the phones that rang, the webhooks that it sent, and its responses.
fn read_provider_record(cloud: &Cloud, placed_calls: &mut [PlacedCall], observations: &mut Observations) {
    observations.duplicate_dials = cloud.fake().duplicate_dials();
    let mut by_id: BTreeMap<String, &mut PlacedCall> =
        placed_calls.iter_mut().map(|call| (call.call_id.clone(), call)).collect();
    let mut call_ids: BTreeMap<String, String> = BTreeMap::new();
    for dial in cloud.fake().dials() {
        call_ids.insert(dial.provider_call_id.clone(), dial.call_id.clone());
        match by_id.get_mut(&dial.call_id) {
            Some(call) => call.phone_rings.push(PhoneRing {
                provider_call_id: dial.provider_call_id,
                attempt: dial.attempt,
                behaviour: dial.behaviour.as_str(),
                started_at: dial.started_ms,
                answered_at: dial.answered_ms,
                ended_at: dial.ended_ms,
            }),
            None => observations.unexpected_events.push(Value::String(format!("a phone rang for {}", dial.call_id))),
        }
    }
    for sent in cloud.fake().sent_webhooks() {
        let call = call_ids.get(&sent.provider_call_id).and_then(|call_id| by_id.get_mut(call_id));
        if let Some(call) = call {
            let provider_call_id = sent.provider_call_id.clone();
            call.sent_webhooks.push(SentWebhook { provider_call_id, at: sent.at_ms, event: sent.event });
        }
        observations.sent_webhooks.insert((sent.provider_call_id, sent.at_ms));
    }
    for record in cloud.fake().api_records() {
        if let Some(call) = by_id.get_mut(&record.call_id) {
            call.provider_responses.push(ProviderResponse {
                attempt: record.attempt,
                at: record.at_ms,
                result: record.result,
            });
        }
    }
}

/// Sends a GET request to Switchhook's API. Returns `None` unless the answer is 200.
async fn get(cloud: &Cloud, path: &str) -> Result<Option<Value>, PlayError> {
    let request = Request::builder().uri(path).body(Bytes::new()).map_err(PlayError::Request)?;
    let response = cloud.request(request).await;
    let found = response.status() == StatusCode::OK;
    Ok(found.then(|| serde_json::from_slice(response.body()).unwrap_or_default()))
}

fn webhook_response(response: http::Response<Bytes>) -> WebhookResponse {
    let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    WebhookResponse {
        code: response.status().as_u16(),
        status: text("status").or_else(|| text("error")).unwrap_or_default(),
        event_id: text("event_id"),
    }
}
