//! The stack in one process: the handlers over the local services, the pumps that feed them, the schedule, and the front.
//!
//! **Everything that reaches a handler reaches it as the event that AWS would give it**, read by the same types; every
//! invocation is a task of its own, so that a handler that panics costs one invocation, as in Lambda.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use aws_lambda_events::event::dynamodb::Event as StreamEvent;
use aws_lambda_events::event::sqs::SqsEvent;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use lambda_http::request::LambdaRequest;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use switchhook_api::{Api, NO_RETENTION};
use switchhook_aws::bus::Bus as BusClient;
use switchhook_aws::calls::Calls;
use switchhook_aws::http::request_of;
use switchhook_aws::inbox::Inbox;
use switchhook_aws::queue::Queue as QueueClient;
use switchhook_aws::sdk;
use switchhook_aws::secret::Keys;
use switchhook_consumer::Consumer;
use switchhook_domain::Policy;
use switchhook_ingress::Ingress;
use switchhook_providers::Providers;
use switchhook_reconciler::Reconciler;
use switchhook_relay::Relay;
use tokio::task::JoinError;

use crate::bus::Bus;
use crate::clock::Clock;
use crate::queue::{NewMessage, Received};
use crate::sqs::{QueueError, queue_url, to_event_record};
use crate::{
    CALLS_TABLE, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE, INBOX_TABLE, LocalError, Options, RECEIVE_COUNT_MAX,
    RELAY_FAILURES_QUEUE, Services, VISIBILITY_TIMEOUT_MS,
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
    pub patience: Duration,
    /// Time between two runs of the reconciler.
    pub tick: Duration,
    /// Where everything is kept; none keeps it in memory.
    pub data_dir: Option<PathBuf>,
    /// What the clock reads when the stack is opened.
    pub start: SystemTime,
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
    reconciler: Arc<Reconciler>,
    api: Arc<Api>,
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
        let CloudOptions { providers, patience, tick, data_dir, start } = options;
        let services = Services::open(Options { data_dir, ..Options::new(Clock::starting_at(start)) })?;
        let aws = sdk::tuned(&services.sdk_config());
        let dynamodb = sdk::dynamodb(&aws);
        let inbox = |retention| Inbox::new(dynamodb.clone(), INBOX_TABLE.to_owned(), retention);
        let calls = || Calls::new(dynamodb.clone(), CALLS_TABLE.to_owned());
        let queue = |name| QueueClient::new(sdk::sqs(&aws), queue_url(name));
        let clock = || sdk::Clock::of(&aws);
        let policy = Policy { patience };
        Ok(Self(Arc::new(Stack {
            ingress: Arc::new(Ingress {
                keys: Keys::fixed(providers),
                inbox: inbox(INBOX_RETENTION),
                queue: queue(EVENTS_QUEUE),
                dlq: queue(EVENTS_DEAD_LETTER_QUEUE),
                clock: clock(),
            }),
            consumer: Arc::new(Consumer {
                inbox: inbox(INBOX_RETENTION),
                calls: calls(),
                call_retention: CALL_RETENTION,
                queue: queue(EVENTS_QUEUE),
                policy,
                receives_max: RECEIVE_COUNT_MAX,
                clock: clock(),
            }),
            relay: Arc::new(Relay {
                bus: BusClient::new(sdk::eventbridge(&aws), "switchhook".to_owned()),
                clock: clock(),
            }),
            reconciler: Arc::new(Reconciler {
                inbox: inbox(INBOX_RETENTION),
                calls: calls(),
                queue: queue(EVENTS_QUEUE),
                policy,
                clock: clock(),
            }),
            api: Arc::new(Api { inbox: inbox(NO_RETENTION), calls: calls(), clock: clock() }),
            services,
            tick,
            requests: AtomicU64::new(1),
            runs: AtomicU64::new(1),
        })))
    }

    /// Runs the pumps and the schedule until the local cloud breaks, which it should not. Dropping this stops them.
    pub async fn run(&self) -> CloudError {
        let consumers = std::array::from_fn::<_, CONSUMERS, _>(|_| Box::pin(self.pump_queue()));
        let [first, second, third, fourth] = consumers;
        tokio::select! {
            biased;
            error = first => error,
            error = second => error,
            error = third => error,
            error = fourth => error,
            error = self.pump_stream() => error,
            never = self.tick() => match never {},
        }
    }

    /// Answers a request as API Gateway and the function behind its route would.
    pub async fn request(&self, request: Request<Bytes>) -> Response<Bytes> {
        let id = self.0.requests.fetch_add(1, Ordering::Relaxed);
        let path = request.uri().path();
        let to_ingress = request.method() == Method::POST && is_one_segment(path.strip_prefix("/webhooks/"));
        let to_api = request.method() == Method::GET
            && (path.starts_with("/calls/") || (path.starts_with("/events/") && path.ends_with("/status")));
        if !to_ingress && !to_api {
            return refused(StatusCode::NOT_FOUND, "Not Found");
        }
        let event = match serde_json::from_value::<LambdaRequest>(gateway_event(&request, id)) {
            Ok(event) => event,
            Err(_) => return refused(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"),
        };
        let (ingress, api) = (self.0.ingress.clone(), self.0.api.clone());
        let answered = tokio::spawn(async move {
            let request = request_of(event);
            if to_ingress { ingress.handle(request).await } else { api.handle(request).await }
        });
        match answered.await {
            Ok(response) => response.map(|body| Bytes::from(body.to_vec())),
            Err(_) => refused(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"),
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
    async fn pump_queue(&self) -> CloudError {
        let sqs = self.0.services.sqs();
        loop {
            let received =
                match sqs.receive_waiting(EVENTS_QUEUE, QUEUE_BATCH, Some(VISIBILITY_TIMEOUT_MS), POLL_MS).await {
                    Ok(received) => received,
                    Err(error) => return CloudError::Queue(error),
                };
            if received.is_empty() {
                continue;
            }
            for done in self.consume(received).await {
                match sqs.delete(EVENTS_QUEUE, &done.receipt_handle) {
                    // With a handle that has expired meanwhile, the message comes again.
                    Ok(_) | Err(QueueError::Handle(_)) => {}
                    Err(error) => return CloudError::Queue(error),
                }
            }
        }
    }

    /// One invocation of the consumer. Returns what may be deleted: nothing if it panicked.
    async fn consume(&self, received: Vec<Received>) -> Vec<Received> {
        let records: Vec<Value> = received.iter().map(|one| to_event_record(EVENTS_QUEUE, one)).collect();
        let Ok(batch) = serde_json::from_value::<SqsEvent>(json!({"Records": records})) else { return Vec::new() };
        let consumer = self.0.consumer.clone();
        let Ok(response) = tokio::spawn(async move { consumer.handle(batch).await }).await else { return Vec::new() };
        let failed: Vec<String> =
            response.batch_item_failures.into_iter().map(|failure| failure.item_identifier).collect();
        received.into_iter().filter(|one| !failed.contains(&one.message.id())).collect()
    }

    /// The event source mapping of the relay: from the oldest record on; what fails is tried again, and everything after it
    /// waits.
    async fn pump_stream(&self) -> CloudError {
        let stream = self.0.services.dynamodb().stream();
        let mut pause = RELAY_PAUSE_FIRST;
        loop {
            let mut watch = stream.watch();
            let batch = stream.next_batch(STREAM_BATCH);
            let (Some(first), Some(last)) = (batch.first(), batch.last()) else {
                watch.changed().await;
                continue;
            };
            let records: Vec<Value> = batch.iter().map(crate::stream::StreamRecord::to_event_record).collect();
            let relayed = match serde_json::from_value::<StreamEvent>(json!({"Records": records})) {
                Ok(event) => {
                    let relay = self.0.relay.clone();
                    tokio::spawn(async move { relay.handle(event).await }).await.ok()
                }
                Err(_) => None,
            };
            let failed_at = match relayed {
                Some(response) => {
                    response.batch_item_failures.iter().filter_map(|f| f.item_identifier.as_ref()?.parse().ok()).min()
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

    /// The schedule of the reconciler. A run that fails is logged by itself, and the next one does its work.
    async fn tick(&self) -> Infallible {
        loop {
            tokio::time::sleep(self.0.tick).await;
            drop(self.reconcile().await);
        }
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
        "headers": joined(request.headers()),
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
fn joined(headers: &HeaderMap) -> Map<String, Value> {
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

fn is_one_segment(path: Option<&str>) -> bool {
    path.is_some_and(|segment| !segment.is_empty() && !segment.contains('/'))
}

/// What a gateway itself answers.
fn refused(code: StatusCode, message: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(json!({"message": message}).to_string()));
    *response.status_mut() = code;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}
