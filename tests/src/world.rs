//! A local stack in virtual time. A test sends requests to it, waits, injects faults, and inspects the results.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_lambda_events::event::dynamodb::Event as StreamEvent;
use aws_lambda_events::event::sqs::SqsEvent;
use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use switchhook_aws::calls::Calls;
use switchhook_aws::inbox::Inbox;
use switchhook_aws::queue::Queue;
use switchhook_aws::sdk;
use switchhook_aws::shards::Shards;
use switchhook_aws::telemetry::JsonLines;
use switchhook_consumer::Consumer;
use switchhook_domain::{Call, CallId, EventId, Provider, Timestamp};
use switchhook_local::connector::{Fault, RequestInfo};
use switchhook_local::dynamodb::Count;
use switchhook_local::queue::ReceivedMessage;
use switchhook_local::sqs::{queue_url, to_event_record};
use switchhook_local::{
    CALLS_TABLE, Cloud, CloudOptions, DIAL_QUEUE, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE, INBOX_TABLE, REPAIR_QUEUE,
};
use switchhook_providers::{Key, sign};
use switchhook_reconciler::Reconciler;
use switchhook_relay::Relay;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;

use crate::contract;
use crate::fixtures::{
    CALL_RETENTION, INBOX_RETENTION, KEY, MINUTE, PUBLIC_URL, all_providers, dial_rates, is_request_to, options, text,
};
use crate::log_buffer::LogBuffer;
use crate::recorded;

/// A local stack, and the test's own clients of the same local services. It needs a Tokio runtime with one thread and
/// paused time.
///
/// Dropping it checks every published event against its JSON Schema.
#[derive(Debug)]
pub struct World {
    pub cloud: Cloud,
    pub inbox: Inbox,
    pub calls: Calls,
    pub queue: Queue,
    pub consumer: Arc<Consumer>,
    pub relay: Arc<Relay>,
    pub reconciler: Arc<Reconciler>,
    running: Option<tokio::task::JoinHandle<()>>,
    lines: LogBuffer,
    _subscriber: tracing::subscriber::DefaultGuard,
}

impl World {
    /// A stack with all providers. Its event sources and schedules run until the value is dropped.
    #[must_use]
    pub fn new() -> Self {
        Self::with_secret(&all_providers())
    }

    /// A running stack whose providers are configured by this secret.
    #[must_use]
    pub fn with_secret(secret: &Value) -> Self {
        let mut world = Self::with_options(options(secret));
        world.start();
        world
    }

    /// A running stack with this rate for each provider, as in `DialRates`: `2.5` or `2.5/20`. As many dialers may run as it needs.
    #[must_use]
    pub fn with_dial_rate(rate: &str) -> Self {
        let secret = all_providers();
        let dial_rates = dial_rates(&secret, rate);
        let mut world = Self::with_options(CloudOptions { dial_rates, dialers: 1_000, ..options(&secret) });
        world.start();
        world
    }

    /// A stack whose event sources and schedules do not run: the test invokes the functions itself. Its indexes have the default number of
    /// shards, because many such tests count requests.
    #[must_use]
    pub fn stopped() -> Self {
        Self::with_options(CloudOptions { index_shards: Shards::default(), ..options(&all_providers()) })
    }

    /// Starts the event sources and the schedules.
    pub fn start(&mut self) {
        let cloud = self.cloud.clone();
        self.running = Some(tokio::spawn(async move { panic!("the stack stopped: {}", cloud.run().await) }));
    }

    /// Stops the event sources and the schedules at once, even in the middle of an invocation.
    pub fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
        }
    }

    /// A stack with these options, whose event sources and schedules do not run.
    ///
    /// # Panics
    /// If the stack cannot be opened.
    #[must_use]
    pub fn with_options(options: CloudOptions) -> Self {
        // The SDK and the functions draw the jitter of their retries from this seed, so that it is the same in every
        // run.
        switchhook_local::clock::seed(1);
        let lines = LogBuffer::default();
        let subscriber = tracing_subscriber::registry()
            .with(Targets::new().with_default(tracing::Level::INFO))
            .with(JsonLines::new(lines.clone()));
        let subscriber = tracing::subscriber::set_default(subscriber);
        let shards = options.index_shards.clone();
        let cloud = Cloud::open(options).unwrap_or_else(|error| panic!("{error}"));
        cloud.services().connector().set_observer(recorded::observer());
        let aws = sdk::with_timeouts_and_retries(&cloud.services().sdk_config_for("tests"));
        let inbox = Inbox::new(sdk::dynamodb(&aws), INBOX_TABLE.to_owned(), INBOX_RETENTION).shards(shards.clone());
        let calls = Calls::new(sdk::dynamodb(&aws), CALLS_TABLE.to_owned(), CALL_RETENTION).shards(shards);
        let queue = Queue::new(sdk::sqs(&aws), queue_url(EVENTS_QUEUE));
        Self {
            consumer: cloud.consumer(),
            relay: cloud.relay(),
            reconciler: cloud.reconciler(),
            cloud,
            inbox,
            calls,
            queue,
            running: None,
            lines,
            _subscriber: subscriber,
        }
    }

    /// The time of the stack's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(i64::try_from(self.cloud.clock().now_ms()).unwrap_or(i64::MAX))
    }

    /// Lets virtual time pass.
    pub async fn wait(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Lets time pass in which nothing is due. The event sources and the schedules stand still, because an idle run of a schedule
    /// takes as long as any other.
    pub async fn skip(&mut self, time: Duration) {
        self.stop();
        self.wait(time).await;
        self.start();
    }

    /// Waits until the condition holds, at most this long. It is checked every five minutes.
    pub async fn wait_until(&self, limit: Duration, mut holds: impl AsyncFnMut() -> bool) {
        let end = self.now().plus(limit);
        while self.now() < end && !holds().await {
            self.wait(MINUTE * 5).await;
        }
    }

    /// Waits until so many messages are dead letters. That takes two hours: events wait in the inbox so long, and the queue delivers other messages
    /// 20 times. The schedules run for the first minutes. After that, they are off as in [`World::skip`], but the reconciler runs every five minutes.
    ///
    /// # Panics
    /// If the reconciler panics.
    pub async fn wait_for_dead_letters(&mut self, count: usize) {
        self.wait(MINUTE * 10).await;
        self.stop();
        let cloud = self.cloud.clone();
        self.running =
            Some(tokio::spawn(async move { panic!("the stack stopped: {}", cloud.run_event_sources().await) }));
        let is_done = async || {
            drop(self.cloud.reconcile().await.unwrap_or_else(|error| panic!("{error}")));
            self.quiesce().await;
            self.dead_letters().len() >= count
        };
        self.wait_until(MINUTE * 360, is_done).await;
        self.stop();
        self.start();
    }

    /// Waits two seconds. In this time, queued messages are consumed and their domain events published.
    pub async fn quiesce(&self) {
        self.wait(Duration::from_secs(2)).await;
    }

    /// Posts a body, signed with [`KEY`].
    pub async fn post(&self, provider: Provider, body: &str) -> (StatusCode, Value) {
        self.post_signed(provider, KEY, "", body.as_bytes()).await
    }

    /// Posts a body, signed with this key. `query` is appended to the path and has no `?`.
    pub async fn post_signed(&self, provider: Provider, key: &str, query: &str, body: &[u8]) -> (StatusCode, Value) {
        self.send(self.signed(provider, key, query, body, self.now())).await
    }

    /// Posts a body that must be answered 200 `accepted`. Returns the event's id.
    ///
    /// # Panics
    /// If the answer differs.
    pub async fn accept(&self, provider: Provider, body: &str) -> EventId {
        let (code, answer) = self.post(provider, body).await;
        assert_eq!((code, &answer["status"]), (StatusCode::OK, &json!("accepted")), "{answer}");
        EventId::new(text(&answer["event_id"]))
    }

    /// The signed request that a provider would send with this body.
    ///
    /// # Panics
    /// If the key is empty, or the query makes no valid URL.
    #[must_use]
    pub fn signed(&self, provider: Provider, key: &str, query: &str, body: &[u8], at: Timestamp) -> Request<Bytes> {
        let mut url = format!("{PUBLIC_URL}/webhooks/{provider}");
        if !query.is_empty() {
            url = format!("{url}?{query}");
        }
        let key = Key::new(key).unwrap_or_else(|error| panic!("{error}"));
        let signed = sign(provider, &key, &url, body, at);
        let path = signed.url.strip_prefix(PUBLIC_URL).unwrap_or_default();
        let mut request = Request::post(path).header("content-type", signed.content_type);
        for (name, value) in &signed.headers {
            request = request.header(*name, value);
        }
        request.body(Bytes::copy_from_slice(body)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Sends a request to the HTTP API. Returns the status code and the JSON body, or `null` for any other body.
    pub async fn send(&self, request: Request<Bytes>) -> (StatusCode, Value) {
        let response = self.cloud.request(request).await;
        let body = serde_json::from_slice(response.body()).unwrap_or(Value::Null);
        (response.status(), body)
    }

    /// Sends a GET request.
    ///
    /// # Panics
    /// If the path is not valid.
    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        let request = Request::get(path).body(Bytes::new()).unwrap_or_else(|error| panic!("{error}"));
        self.send(request).await
    }

    /// The answer of `GET /event/status?id={event_id}`.
    ///
    /// # Panics
    /// If the event is unknown.
    pub async fn status(&self, event_id: &EventId) -> Value {
        let id: String = form_urlencoded::byte_serialize(event_id.as_str().as_bytes()).collect();
        let (code, answer) = self.get(&format!("/event/status?id={id}")).await;
        assert_eq!(code, StatusCode::OK, "{answer}");
        answer
    }

    /// The stored call.
    ///
    /// # Panics
    /// If it does not exist.
    pub async fn call(&self, call_id: &str) -> Call {
        let call =
            self.calls.get_call(&CallId::new(call_id)).await.unwrap_or_else(|error| panic!("{}", error.with_causes()));
        call.unwrap_or_else(|| panic!("there is no call {call_id}"))
    }

    /// The stored call. `None` if it does not exist.
    ///
    /// # Panics
    /// If it cannot be read.
    pub async fn load(&self, call_id: &str) -> Option<Call> {
        self.calls.get_call(&CallId::new(call_id)).await.unwrap_or_else(|error| panic!("{}", error.with_causes()))
    }

    /// Removes up to ten claims from the dial queue. Returns them as the event that invokes a dialer.
    ///
    /// # Panics
    /// Never: the queue exists.
    #[must_use]
    pub fn take_claims(&self) -> SqsEvent {
        let received = self.cloud.services().sqs().receive(DIAL_QUEUE, 10, None);
        let received = received.unwrap_or_else(|error| panic!("{error}"));
        let records: Vec<Value> = received.iter().map(|one| to_event_record(DIAL_QUEUE, one)).collect();
        for message in &received {
            let deleted = self.cloud.services().sqs().delete(DIAL_QUEUE, &message.receipt_handle);
            deleted.unwrap_or_else(|error| panic!("{error}"));
        }
        serde_json::from_value(json!({"Records": records})).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Takes the messages of the repair queue that are visible now: at most one per shard. Returns each as the event that invokes a
    /// worker of the reconciler, with its receipt handle.
    ///
    /// # Panics
    /// Never: the queue exists.
    #[must_use]
    pub fn take_repairs(&self) -> Vec<(SqsEvent, String)> {
        let sqs = self.cloud.services().sqs();
        std::iter::from_fn(|| {
            let received = sqs.receive(REPAIR_QUEUE, 1, None).unwrap_or_else(|error| panic!("{error}")).pop()?;
            let records = json!({"Records": [to_event_record(REPAIR_QUEUE, &received)]});
            let event = serde_json::from_value(records).unwrap_or_else(|error| panic!("{error}"));
            Some((event, received.receipt_handle))
        })
        .collect()
    }

    /// Runs the workers of the reconciler, those of different groups at the same time, until the repair queue is empty. Returns their
    /// reports.
    ///
    /// # Panics
    /// Never: the queue exists.
    pub async fn repair(&self) -> Vec<switchhook_reconciler::Report> {
        let mut reports = Vec::new();
        loop {
            let taken = self.take_repairs();
            if taken.is_empty() {
                return reports;
            }
            let work = taken.into_iter().map(|(event, receipt)| async move {
                let report = self.reconciler.work(event, "repair").await;
                let deleted = self.cloud.services().sqs().delete(REPAIR_QUEUE, &receipt);
                deleted.unwrap_or_else(|error| panic!("{error}"));
                report
            });
            reports.extend(join_all(work).await);
        }
    }

    /// Runs the reconciler as its schedule does, and then its workers. Returns the sums of their reports.
    ///
    /// # Panics
    /// If the run returns an error.
    pub async fn reconcile(&self) -> switchhook_reconciler::Report {
        let run = self.cloud.reconcile().await.unwrap_or_else(|error| panic!("{error}"));
        let mut sum = run.unwrap_or_else(|error| panic!("{error}"));
        for report in self.repair().await {
            sum.woken += report.woken;
            sum.lookups += report.lookups;
            sum.deadlines_passed += report.deadlines_passed;
            sum.timeouts += report.timeouts;
            sum.doubts += report.doubts;
            sum.failed += report.failed;
            sum.budget_used_up |= report.budget_used_up;
            sum.discovered += report.discovered;
            sum.discovery_postponed += report.discovery_postponed;
            sum.discovery_skipped_ms += report.discovery_skipped_ms;
            sum.requests.sent += report.requests.sent;
            sum.requests.failed += report.requests.failed;
        }
        sum
    }

    /// Invokes a consumer with these messages, and deletes those that it does not report as failed. Returns the number
    /// of deleted messages.
    ///
    /// # Panics
    /// If the handler panics.
    pub async fn consume(&self, received: &[ReceivedMessage]) -> usize {
        let done = self.invoke_consumer(received).await;
        for message in &done {
            let deleted = self.cloud.services().sqs().delete(EVENTS_QUEUE, &message.receipt_handle);
            deleted.unwrap_or_else(|error| panic!("{error}"));
        }
        done.len()
    }

    /// Invokes a consumer with these messages, and deletes none of them. Returns the messages that it does not report
    /// as failed.
    ///
    /// # Panics
    /// If the handler panics.
    pub async fn invoke_consumer(&self, received: &[ReceivedMessage]) -> Vec<ReceivedMessage> {
        let records: Vec<Value> = received.iter().map(|one| to_event_record(EVENTS_QUEUE, one)).collect();
        let batch: SqsEvent =
            serde_json::from_value(json!({"Records": records})).unwrap_or_else(|error| panic!("{error}"));
        let response = self.consumer.handle(batch).await;
        let failed: Vec<String> = response.batch_item_failures.into_iter().map(|one| one.item_identifier).collect();
        received.iter().filter(|one| !failed.contains(&one.message.id())).cloned().collect()
    }

    /// Receives up to ten messages from the events queue.
    ///
    /// # Panics
    /// Never: the queue exists.
    #[must_use]
    pub fn receive(&self) -> Vec<ReceivedMessage> {
        let received = self.cloud.services().sqs().receive(EVENTS_QUEUE, 10, None);
        received.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Invokes the relay with every record of the stream, and trims the stream up to the first record that failed.
    ///
    /// # Panics
    /// Never: the stream can be read and trimmed.
    pub async fn relay(&self) {
        let stream = self.cloud.services().dynamodb().stream();
        let batch = stream.next_batch(100);
        let Some(last) = batch.last() else { return };
        let records: Vec<Value> = batch.iter().map(|record| record.to_event_record()).collect();
        let event: StreamEvent =
            serde_json::from_value(json!({"Records": records})).unwrap_or_else(|error| panic!("{error}"));
        let response = self.relay.handle(event).await;
        let failed = response.batch_item_failures.iter().filter_map(|one| one.item_identifier.as_ref()?.parse().ok());
        let done = failed.min().map_or(last.sequence(), |failed: u64| failed - 1);
        stream.trim(done).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Injects `fault` into the first `times` requests for this operation on the table or queue named `on`.
    pub fn inject_fault(&self, operation: &'static str, on: &'static str, times: u64, fault: Fault) {
        let left = AtomicU64::new(times);
        self.set_fault_hook(move |call| {
            let hit = call.operation == operation && is_request_to(call, on);
            let more = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(u64::from(hit)));
            (hit && more.is_ok()).then(|| fault.clone())
        });
    }

    /// Sets the hook that chooses the fault of each further request. It replaces all earlier faults of requests.
    pub fn set_fault_hook(&self, hook: impl Fn(&RequestInfo<'_>) -> Option<Fault> + Send + Sync + 'static) {
        self.cloud.services().connector().set_fault_hook(Some(Arc::new(hook)));
    }

    /// Makes a function panic before it sends a request for this operation on the table or queue named `on`.
    pub fn crash_at(&self, operation: &'static str, on: &'static str) {
        self.set_fault_hook(move |call| {
            assert!(
                !(call.operation == operation && is_request_to(call, on)),
                "the function crashes here, as the test demands"
            );
            None
        });
    }

    /// Ends all faults.
    pub fn clear_faults(&self) {
        self.cloud.services().connector().set_fault_hook(None);
        self.cloud.bus().fail_entries(None);
    }

    /// Requests to AWS since the last call of this method, by operation.
    #[must_use]
    pub fn requests(&self) -> BTreeMap<String, u64> {
        let connector = self.cloud.services().connector();
        let requests = connector.requests();
        connector.reset_requests();
        requests.into_iter().map(|((_, operation), count)| (operation, count)).collect()
    }

    /// Requests to DynamoDB and their capacity units since the last call of this method, by operation.
    #[must_use]
    pub fn capacity(&self) -> BTreeMap<&'static str, Count> {
        let dynamodb = self.cloud.services().dynamodb();
        let counts = dynamodb.counts();
        dynamodb.reset_counts();
        counts
    }

    /// The bodies of the messages in the dead-letter queue.
    #[must_use]
    pub fn dead_letters(&self) -> Vec<Value> {
        self.bodies(EVENTS_DEAD_LETTER_QUEUE)
    }

    /// The bodies of the messages in the events queue, in flight or not.
    #[must_use]
    pub fn queued(&self) -> Vec<Value> {
        self.bodies(EVENTS_QUEUE)
    }

    fn bodies(&self, queue: &str) -> Vec<Value> {
        let messages = self.cloud.services().sqs().messages(queue).unwrap_or_default().into_iter();
        messages.map(|message| serde_json::from_str(&message.body).unwrap_or(Value::String(message.body))).collect()
    }

    /// The types of the domain events of a call, in order.
    #[must_use]
    pub fn published_types(&self, call_id: &str) -> Vec<String> {
        let of_call = |event: &Value| event["call_id"] == call_id;
        self.domain_events().into_iter().filter(of_call).map(|event| text(&event["type"])).collect()
    }

    /// The timeline of the published domain events, one line per event. A line has the event's id, its type, and the id
    /// of the event that it corrects.
    #[must_use]
    pub fn timeline(&self) -> String {
        let line = |event: Value| {
            let corrects = event.get("corrects").map(|id| format!(" corrects {}", text(id))).unwrap_or_default();
            format!("{} {}{corrects}", text(&event["id"]), text(&event["type"]))
        };
        self.domain_events().into_iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Every domain event that was published, in order.
    #[must_use]
    pub fn domain_events(&self) -> Vec<Value> {
        let events = self.cloud.bus().events_since(0).into_iter();
        events.map(|event| serde_json::from_str(&event.detail).unwrap_or(Value::Null)).collect()
    }

    /// The log as it was written.
    #[must_use]
    pub fn log_text(&self) -> String {
        self.lines.text()
    }

    /// The log lines with this `action_taken`.
    #[must_use]
    pub fn logged(&self, action_taken: &str) -> Vec<Value> {
        let lines = self.log_text();
        let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["action_taken"] == action_taken).collect()
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop();
        if std::thread::panicking() {
            return;
        }
        // Every event that any test publishes must match its schema.
        for event in self.cloud.bus().events_since(0) {
            if let Some(violation) = contract::bus_event_violation(&event) {
                panic!("the event {} violates its schema: {violation}", event.detail);
            }
        }
    }
}
