//! The stack in one process: the handlers over the local services, the pumps that feed them, the schedule, and the front.
//!
//! **Everything that reaches a handler reaches it as the event that AWS would give it**, read by the same types; every
//! invocation is a task of its own, so that a handler that panics costs one invocation, as in Lambda.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_lambda_events::event::dynamodb::Event as StreamEvent;
use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use aws_smithy_runtime_api::client::http::SharedHttpConnector;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use lambda_http::request::LambdaRequest;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use switchhook_api::Api;
use switchhook_aws::bus::Bus as BusClient;
use switchhook_aws::calls::Calls;
use switchhook_aws::http::request_from_event;
use switchhook_aws::inbox::Inbox;
use switchhook_aws::provider::{ApiUrls, ProviderApi};
use switchhook_aws::queue::Queue as QueueClient;
use switchhook_aws::sdk;
use switchhook_aws::secret::ProviderSecrets;
use switchhook_consumer::Consumer;
use switchhook_dialer::Dialer;
use switchhook_domain::{CallId, Policy, Provider, RetryPolicy, Timestamp};
use switchhook_ingress::Ingress;
use switchhook_providers::{Key, Providers, sign};
use switchhook_reconciler::Reconciler;
use switchhook_relay::{Relay, RepublishReport, calls_since, republish_call};
use switchhook_scheduler::Scheduler;
use tokio::task::JoinError;

use crate::bus::Bus;
use crate::clock::Clock;
use crate::connector::FakeProviderConnector;
use crate::fake::{Delivery, DeliveryFaults, FakeProvider};
use crate::queue::{NewMessage, ReceivedMessage};
use crate::sqs::{QueueError, queue_url, to_event_record};
use crate::stream::StreamRecord;
use crate::{
    CALLS_TABLE, DIAL_QUEUE, DIAL_VISIBILITY_TIMEOUT_MS, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE, INBOX_TABLE,
    LocalError, MAX_RECEIVE_COUNT, Options, RELAY_FAILURES_QUEUE, Services, VISIBILITY_TIMEOUT_MS,
};

/// Retentions of the stack's defaults; nothing lives that long here.
const INBOX_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const CALL_RETENTION: Duration = Duration::from_secs(400 * 24 * 60 * 60);
/// Consumers that run at once.
const CONSUMERS: usize = 4;
/// Messages per invocation of the consumer: the most that SQS gives for a FIFO queue.
const QUEUE_BATCH: usize = 10;
/// Records per invocation of the relay.
const STREAM_BATCH: usize = 100;
/// Messages per invocation of the dialer: it waits for its turn, and must not take others with it.
const DIAL_BATCH: usize = 1;
/// Calls of one provider that are placed at once, if nobody says otherwise.
pub const CONCURRENT_DIALS_PER_PROVIDER: u32 = 5;
/// Runs of the reconciler from one drift run to the next: an hour, at a run a minute.
const RUNS_PER_DRIFT_CHECK: u32 = 60;
/// Where the fake provider posts its webhooks.
const FAKE_WEBHOOKS: &str = "/webhooks/retell";
/// How long a poll for messages waits.
const POLL_MS: u64 = 20_000;
/// Between two tries at the same stream record.
const RELAY_PAUSE_FIRST: Duration = Duration::from_millis(500);
const RELAY_PAUSE_MAX: Duration = Duration::from_secs(60);
/// A stream record that could not be relayed for so long goes to the failures queue; the stream keeps one for a day.
const RECORD_AGE_MAX: Duration = Duration::from_secs(21 * 60 * 60);

/// What decides about a local stack.
#[derive(Debug)]
pub struct CloudOptions {
    pub providers: Providers,
    /// Silence of an attempt after which its deadline has passed.
    pub inactivity_timeout: Duration,
    /// Time between two runs of the reconciler.
    pub tick: Duration,
    /// Where everything is kept; none keeps it in memory.
    pub data_dir: Option<PathBuf>,
    pub clock: Clock,
    /// What a call is retried by that does not say.
    pub default_retry_policy: RetryPolicy,
    /// Calls of one provider that are placed at once, and dialers that are at work.
    pub concurrent_dials_per_provider: u32,
    /// Of the fake provider's dice.
    pub seed: u64,
    /// How badly the fake provider sends webhooks.
    pub delivery_faults: DeliveryFaults,
}

/// The stack. Clones share everything.
#[derive(Clone, Debug)]
pub struct Cloud(Arc<Stack>);

#[derive(Debug)]
struct Stack {
    services: Services,
    tick: Duration,
    ingress: Arc<Ingress>,
    consumer: Arc<Consumer>,
    relay: Arc<Relay>,
    bus: BusClient,
    calls: Calls,
    inbox: Inbox,
    scheduler: Arc<Scheduler>,
    dialer: Arc<Dialer>,
    reconciler: Arc<Reconciler>,
    api: Arc<Api>,
    fake: Arc<FakeProvider>,
    /// What the fake provider signs with; none if Retell is not configured.
    fake_key: Option<Key>,
    requests: AtomicU64,
    runs: AtomicU64,
}

/// Why the stack had to stop: the local cloud itself broke, not a handler.
#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    #[error("the queue's pump stopped")]
    Queue(#[source] QueueError),
    #[error("the stream's pump stopped")]
    Stream(#[source] LocalError),
}

impl Cloud {
    /// Opens the services and builds the handlers over them. Make it inside the runtime whose time it is to follow.
    ///
    /// # Errors
    /// Whatever keeps the data directory from being opened.
    pub fn open(options: CloudOptions) -> Result<Self, LocalError> {
        let CloudOptions {
            providers,
            inactivity_timeout,
            tick,
            data_dir,
            clock,
            default_retry_policy,
            concurrent_dials_per_provider,
            seed,
            delivery_faults,
        } = options;
        let services = Services::open(Options { data_dir, ..Options::new(clock) })?;
        let aws = sdk::with_timeouts_and_retries(&services.sdk_config());
        let dynamodb = sdk::dynamodb(&aws);
        let inbox = |retention| Inbox::new(dynamodb.clone(), INBOX_TABLE.to_owned(), retention);
        let calls = || Calls::new(dynamodb.clone(), CALLS_TABLE.to_owned());
        let queue = |name| QueueClient::new(sdk::sqs(&aws), queue_url(name));
        let clock = || sdk::Clock::from_config(&aws);
        let policy = Policy { inactivity_timeout: inactivity_timeout };
        let fake = Arc::new(FakeProvider::new(services.clock(), seed, delivery_faults));
        let fake_key = providers.config(Provider::Retell).and_then(|config| config.keys().first()).cloned();
        let secrets = || ProviderSecrets::fixed(providers.clone());
        let connector = SharedHttpConnector::new(FakeProviderConnector(fake.clone()));
        let provider_api = || ProviderApi::with_connector(connector.clone(), ApiUrls::default());
        let bus = || BusClient::new(sdk::eventbridge(&aws), "switchhook".to_owned());
        Ok(Self(Arc::new(Stack {
            ingress: Arc::new(Ingress {
                secrets: secrets(),
                inbox: inbox(INBOX_RETENTION),
                queue: queue(EVENTS_QUEUE),
                dlq: queue(EVENTS_DEAD_LETTER_QUEUE),
                bus: bus(),
                clock: clock(),
            }),
            consumer: Arc::new(Consumer {
                inbox: inbox(INBOX_RETENTION),
                inbox_retention: INBOX_RETENTION,
                calls: calls(),
                call_retention: CALL_RETENTION,
                queue: queue(EVENTS_QUEUE),
                bus: bus(),
                policy,
                max_receive_count: MAX_RECEIVE_COUNT,
                clock: clock(),
            }),
            relay: Arc::new(Relay { bus: bus(), clock: clock() }),
            bus: bus(),
            calls: calls(),
            inbox: inbox(INBOX_RETENTION),
            scheduler: Arc::new(Scheduler {
                calls: calls(),
                call_retention: CALL_RETENTION,
                queue: queue(DIAL_QUEUE),
                secrets: secrets(),
                policy,
                lanes: concurrent_dials_per_provider,
                clock: clock(),
            }),
            dialer: Arc::new(Dialer {
                inbox: inbox(INBOX_RETENTION),
                calls: calls(),
                call_retention: CALL_RETENTION,
                queue: queue(EVENTS_QUEUE),
                secrets: secrets(),
                api: provider_api(),
                policy,
                lanes: concurrent_dials_per_provider,
                clock: clock(),
            }),
            reconciler: Arc::new(Reconciler {
                inbox: inbox(INBOX_RETENTION),
                calls: calls(),
                queue: queue(EVENTS_QUEUE),
                secrets: secrets(),
                api: provider_api(),
                policy,
                clock: clock(),
            }),
            api: Arc::new(Api {
                inbox: inbox(INBOX_RETENTION),
                calls: calls(),
                call_retention: CALL_RETENTION,
                policy,
                retry: default_retry_policy,
                clock: clock(),
            }),
            fake,
            fake_key,
            services,
            tick,
            requests: AtomicU64::new(1),
            runs: AtomicU64::new(1),
        })))
    }

    /// Runs the pumps and the schedule until the local cloud breaks, which it should not. Dropping this stops them.
    pub async fn run(&self) -> CloudError {
        let consumers = std::array::from_fn::<_, CONSUMERS, _>(|_| Box::pin(self.poll_events_queue()));
        let [first, second, third, fourth] = consumers;
        tokio::select! {
            biased;
            error = first => error,
            error = second => error,
            error = third => error,
            error = fourth => error,
            error = self.poll_dial_queue() => error,
            error = self.poll_stream() => error,
            never = self.run_schedules() => match never {},
            never = self.deliver() => match never {},
        }
    }

    /// Answers a request as API Gateway and the function behind its route would.
    pub async fn request(&self, request: Request<Bytes>) -> Response<Bytes> {
        let id = self.0.requests.fetch_add(1, Ordering::Relaxed);
        let Some(route) = Route::of(request.method(), request.uri().path()) else {
            return gateway_error(StatusCode::NOT_FOUND, "Not Found");
        };
        let event = match serde_json::from_value::<LambdaRequest>(gateway_event(&request, id)) {
            Ok(event) => event,
            Err(_) => return gateway_error(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"),
        };
        let stack = self.0.clone();
        let answered = tokio::spawn(async move {
            let request = request_from_event(event);
            match route {
                Route::Ingress => stack.ingress.handle(request).await,
                Route::Scheduler => stack.scheduler.handle(request).await,
                Route::Api => stack.api.handle(request).await,
            }
        });
        match answered.await {
            Ok(response) => response.map(|body| Bytes::from(body.to_vec())),
            Err(_) => gateway_error(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"),
        }
    }

    /// Runs the reconciler once, as its schedule does.
    ///
    /// # Errors
    /// Those of the reconciler; or that it panicked.
    pub async fn reconcile(&self) -> Result<Result<switchhook_reconciler::Report, switchhook_aws::Error>, JoinError> {
        let reconciler = self.0.reconciler.clone();
        let run = self.0.runs.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move { reconciler.run(&format!("reconcile-{run}")).await }).await
    }

    /// Runs the scheduler once, as its schedule does.
    ///
    /// # Errors
    /// Those of the scheduler; or that it panicked.
    pub async fn schedule(&self) -> Result<Result<switchhook_scheduler::Report, switchhook_aws::Error>, JoinError> {
        let scheduler = self.0.scheduler.clone();
        let run = self.0.runs.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move { scheduler.run(&format!("schedule-{run}")).await }).await
    }

    /// Looks for drift once, as its schedule does.
    ///
    /// # Errors
    /// Those of the reconciler; or that it panicked.
    pub async fn check_drift(
        &self,
    ) -> Result<Result<switchhook_reconciler::DriftReport, switchhook_aws::Error>, JoinError> {
        let reconciler = self.0.reconciler.clone();
        let run = self.0.runs.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move { reconciler.check_drift(&format!("drift-{run}")).await }).await
    }

    /// Publishes the domain events of a call again; of no call if there is none under this id.
    ///
    /// # Errors
    /// Those of the table and the bus.
    pub async fn republish(&self, call_id: &CallId) -> Result<RepublishReport, switchhook_aws::Error> {
        republish_call(&self.0.calls, &self.0.bus, call_id).await
    }

    /// The same of every call of which something was received, or that was settled, since then.
    ///
    /// # Errors
    /// Those of the tables and the bus.
    pub async fn republish_since(&self, since: Timestamp) -> Result<RepublishReport, switchhook_aws::Error> {
        let now = Timestamp::from_millis(i64::try_from(self.clock().now_ms()).unwrap_or(i64::MAX));
        let mut all = RepublishReport::default();
        for call_id in calls_since(&self.0.inbox, &self.0.calls, since, now, |_, _| {}).await? {
            let RepublishReport { calls, events } = self.republish(&call_id).await?;
            all.calls += calls;
            all.events += events;
        }
        Ok(all)
    }

    /// The handlers, for whoever wants to invoke one by itself.
    #[must_use]
    pub fn consumer(&self) -> Arc<Consumer> {
        self.0.consumer.clone()
    }

    #[must_use]
    pub fn relay(&self) -> Arc<Relay> {
        self.0.relay.clone()
    }

    #[must_use]
    pub fn scheduler(&self) -> Arc<Scheduler> {
        self.0.scheduler.clone()
    }

    #[must_use]
    pub fn dialer(&self) -> Arc<Dialer> {
        self.0.dialer.clone()
    }

    #[must_use]
    pub fn reconciler(&self) -> Arc<Reconciler> {
        self.0.reconciler.clone()
    }

    /// The provider that answers when this stack places a call or asks about one.
    #[must_use]
    pub fn fake(&self) -> &FakeProvider {
        &self.0.fake
    }

    /// The domain events that were published.
    #[must_use]
    pub fn bus(&self) -> &Bus {
        self.0.services.bus()
    }

    #[must_use]
    pub fn clock(&self) -> Clock {
        self.0.services.clock()
    }

    #[must_use]
    pub fn services(&self) -> &Services {
        &self.0.services
    }

    /// The event source mapping of the consumer.
    async fn poll_events_queue(&self) -> CloudError {
        let sqs = self.0.services.sqs();
        loop {
            let received = match sqs.long_poll(EVENTS_QUEUE, QUEUE_BATCH, Some(VISIBILITY_TIMEOUT_MS), POLL_MS).await {
                Ok(received) => received,
                Err(error) => return CloudError::Queue(error),
            };
            if received.is_empty() {
                continue;
            }
            for message in self.consume(received).await {
                match sqs.delete(EVENTS_QUEUE, &message.receipt_handle) {
                    // With a handle that has expired meanwhile, the message comes again.
                    Ok(_) | Err(QueueError::ReceiptHandle(_)) => {}
                    Err(error) => return CloudError::Queue(error),
                }
            }
        }
    }

    /// One invocation of the consumer. Returns what may be deleted: nothing if it panicked.
    async fn consume(&self, received: Vec<ReceivedMessage>) -> Vec<ReceivedMessage> {
        let records: Vec<Value> = received.iter().map(|one| to_event_record(EVENTS_QUEUE, one)).collect();
        let Ok(batch) = serde_json::from_value::<SqsEvent>(json!({"Records": records})) else { return Vec::new() };
        let consumer = self.0.consumer.clone();
        let Ok(response) = tokio::spawn(async move { consumer.handle(batch).await }).await else { return Vec::new() };
        delivered(received, response)
    }

    /// The event source mapping of the dialer: one poller, and as many dialers at work as there are lanes.
    async fn poll_dial_queue(&self) -> CloudError {
        let sqs = self.0.services.sqs();
        let lanes = usize::try_from(self.0.dialer.lanes).unwrap_or(usize::MAX);
        let mut running = FuturesUnordered::new();
        loop {
            let receive = sqs.long_poll(DIAL_QUEUE, DIAL_BATCH, Some(DIAL_VISIBILITY_TIMEOUT_MS), POLL_MS);
            tokio::select! {
                biased;
                Some(dialled) = running.next() => {
                    if let Err(error) = dialled {
                        return CloudError::Queue(error);
                    }
                }
                received = receive, if running.len() < lanes => match received {
                    Ok(received) if received.is_empty() => {}
                    Ok(received) => running.push(self.dial(received)),
                    Err(error) => return CloudError::Queue(error),
                },
            }
        }
    }

    /// One invocation of the dialer.
    async fn dial(&self, received: Vec<ReceivedMessage>) -> Result<(), QueueError> {
        let records: Vec<Value> = received.iter().map(|one| to_event_record(DIAL_QUEUE, one)).collect();
        let Ok(batch) = serde_json::from_value::<SqsEvent>(json!({"Records": records})) else { return Ok(()) };
        let dialer = self.0.dialer.clone();
        let Ok(response) = tokio::spawn(async move { dialer.handle(batch).await }).await else { return Ok(()) };
        for message in delivered(received, response) {
            match self.0.services.sqs().delete(DIAL_QUEUE, &message.receipt_handle) {
                Ok(_) | Err(QueueError::ReceiptHandle(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Brings the fake provider's webhooks to the front, signed at the moment at which they are sent.
    async fn deliver(&self) -> Infallible {
        loop {
            let delivery: Delivery = self.0.fake.next_delivery().await;
            let Some(key) = &self.0.fake_key else { continue };
            let now = Timestamp::from_millis(i64::try_from(self.clock().now_ms()).unwrap_or(i64::MAX));
            let signed = sign(Provider::Retell, key, FAKE_WEBHOOKS, delivery.body().as_bytes(), now);
            let mut request = Request::post(FAKE_WEBHOOKS).header(http::header::CONTENT_TYPE, signed.content_type);
            for (name, value) in &signed.headers {
                request = request.header(*name, value);
            }
            let Ok(request) = request.body(Bytes::from(delivery.body().to_owned())) else { continue };
            if !self.request(request).await.status().is_success() {
                self.0.fake.retry_delivery(delivery);
            }
        }
    }

    /// The event source mapping of the relay: from the oldest record on; what fails is tried again, and everything after it
    /// waits.
    async fn poll_stream(&self) -> CloudError {
        let stream = self.0.services.dynamodb().stream();
        let mut pause = RELAY_PAUSE_FIRST;
        loop {
            let mut watch = stream.watch();
            let batch = stream.next_batch(STREAM_BATCH);
            let (Some(first), Some(last)) = (batch.first(), batch.last()) else {
                watch.changed().await;
                continue;
            };
            let records: Vec<Value> = batch.iter().map(StreamRecord::to_event_record).collect();
            let relayed = match serde_json::from_value::<StreamEvent>(json!({"Records": records})) {
                Ok(event) => {
                    let relay = self.0.relay.clone();
                    tokio::spawn(async move { relay.handle(event).await }).await.ok()
                }
                Err(_) => None,
            };
            let failed_at = match relayed {
                Some(response) => {
                    let known = |id: Option<String>| batch.iter().find(|one| Some(one.sequence().to_string()) == id);
                    let failures = response.batch_item_failures.into_iter();
                    // A number that is none of the batch's fails all of it.
                    failures
                        .map(|one| known(one.item_identifier).map_or(first.sequence(), StreamRecord::sequence))
                        .min()
                }
                None => Some(first.sequence()),
            };
            let done = failed_at.map_or(last.sequence(), |failed: u64| failed - 1);
            if let Err(error) = stream.trim(done) {
                return CloudError::Stream(error);
            }
            let Some(failed) = failed_at else {
                pause = RELAY_PAUSE_FIRST;
                continue;
            };
            let record = batch.iter().find(|record| record.sequence() == failed);
            if let Some(record) = record
                && record.age(self.clock().now_ms()) > RECORD_AGE_MAX
            {
                let message = NewMessage { body: record.to_event_record().to_string(), ..NewMessage::default() };
                if let Err(error) = self.0.services.sqs().send(RELAY_FAILURES_QUEUE, message) {
                    return CloudError::Queue(error);
                }
                if let Err(error) = stream.trim(failed) {
                    return CloudError::Stream(error);
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RELAY_PAUSE_MAX);
        }
    }

    /// The schedules. A run that fails is logged by itself, and the next one does its work.
    async fn run_schedules(&self) -> Infallible {
        for run in (1..=RUNS_PER_DRIFT_CHECK).cycle() {
            tokio::time::sleep(self.0.tick).await;
            drop(self.schedule().await);
            drop(self.reconcile().await);
            if run == RUNS_PER_DRIFT_CHECK {
                drop(self.check_drift().await);
            }
        }
        std::future::pending().await
    }
}

/// What of a batch may be deleted: what its handler did not report as failed. A report that names what was not in the batch
/// fails all of it, as it does in Lambda.
fn delivered(received: Vec<ReceivedMessage>, response: SqsBatchResponse) -> Vec<ReceivedMessage> {
    let failed: Vec<String> = response.batch_item_failures.into_iter().map(|one| one.item_identifier).collect();
    if failed.iter().any(|id| received.iter().all(|one| one.message.id() != *id)) {
        return Vec::new();
    }
    received.into_iter().filter(|one| !failed.contains(&one.message.id())).collect()
}

/// Which function stands behind a route.
#[derive(Clone, Copy)]
enum Route {
    Ingress,
    Scheduler,
    Api,
}

impl Route {
    fn of(method: &Method, path: &str) -> Option<Self> {
        if let Some(rest) = path.strip_prefix("/webhooks/") {
            let provider = rest.strip_suffix("/inbound").unwrap_or(rest);
            let is_hook = method == Method::POST && !provider.is_empty() && !provider.contains('/');
            return is_hook.then_some(Self::Ingress);
        }
        if method == Method::POST && path.starts_with("/calls/") && path.ends_with("/trigger") {
            return Some(Self::Scheduler);
        }
        let of_api = path == "/calls"
            || ["/calls/", "/appointments/", "/events/", "/do-not-call/"].iter().any(|start| path.starts_with(start));
        of_api.then_some(Self::Api)
    }
}

/// The request as an event of an HTTP API, payload format 2.0.
fn gateway_event(request: &Request<Bytes>, id: u64) -> Value {
    let query = request.uri().query().unwrap_or_default();
    // An HTTP API decodes the path, and cuts it where a question mark comes to light.
    let path = percent_decode_str(request.uri().path()).decode_utf8_lossy();
    let path = path.split('?').next().unwrap_or_default();
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = header(http::header::CONTENT_TYPE);
    // A gateway hands on text as it is and anything else in base64.
    let textual = ["text/", "application/json", "application/javascript", "application/xml"];
    let text = textual.iter().any(|kind| content_type.starts_with(kind)).then(|| std::str::from_utf8(request.body()));
    let (body, encoded) = match text {
        Some(Ok(text)) => (text.to_owned(), false),
        Some(Err(_)) | None => (BASE64.encode(request.body()), true),
    };
    json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": joined_headers(request.headers()),
        "requestContext": {
            "accountId": crate::ACCOUNT,
            "apiId": "local",
            "domainName": "localhost",
            "http": {
                "method": request.method().as_str(),
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "127.0.0.1",
                "userAgent": header(http::header::USER_AGENT),
            },
            "requestId": format!("local-{id}"),
            "routeKey": "$default",
            "stage": "$default",
            "timeEpoch": 0,
        },
        "body": body,
        "isBase64Encoded": encoded,
    })
}

/// Headers as a gateway gives them: names in lower case, several values of one name joined by commas.
fn joined_headers(headers: &HeaderMap) -> Map<String, Value> {
    headers
        .keys()
        .map(|name| {
            let values: Vec<_> = headers
                .get_all(name)
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
                .collect();
            (name.as_str().to_owned(), Value::String(values.join(",")))
        })
        .collect()
}

/// What a gateway itself answers.
fn gateway_error(code: StatusCode, message: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(json!({"message": message}).to_string()));
    *response.status_mut() = code;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}
