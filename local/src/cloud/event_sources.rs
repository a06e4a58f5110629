//! Event source mappings: they read the queues and the stream, and invoke the functions with batches.
//!
//! **A function receives exactly the event that AWS would send**, parsed by the same types. Every invocation is a task
//! of its own. If a handler panics, only that invocation fails, as in Lambda.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::event::dynamodb::Event as StreamEvent;
use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use switchhook_consumer::Consumer;
use switchhook_dialer::Dialer;
use switchhook_domain::Timestamp;
use switchhook_reconciler::Reconciler;
use switchhook_relay::Relay;
use switchhook_scheduler::Scheduler;

use crate::error::LocalError;
use crate::metrics::{Metrics, SeriesKey, function_name, to_f64};
use crate::queue::{NewMessage, ReceivedMessage};
use crate::services::Services;
use crate::sqs::{QueueError, to_event_record};
use crate::stack::{
    DIAL_BATCH, DIAL_QUEUE, DIAL_VISIBILITY_TIMEOUT_MS, DUE_BATCH, DUE_QUEUE, DUE_VISIBILITY_TIMEOUT_MS, EVENTS_QUEUE,
    QUEUE_BATCH, RECORD_AGE_MAX, RELAY_FAILURES_QUEUE, REPAIR_BATCH, REPAIR_QUEUE, REPAIR_VISIBILITY_TIMEOUT_MS,
    REPAIR_WORKERS, STREAM_BATCH, VISIBILITY_TIMEOUT_MS,
};
use crate::stream::StreamRecord;

/// Duration of one long poll.
const POLL_MS: u64 = 20_000;
/// Pause before a failed stream record is tried again. It doubles with every failure, up to [`RELAY_PAUSE_MAX`].
const RELAY_PAUSE_FIRST: Duration = Duration::from_millis(500);
const RELAY_PAUSE_MAX: Duration = Duration::from_secs(60);

/// The reason why the local stack stopped: the local cloud itself failed. A handler that fails does not stop the stack.
#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    #[error("could not read or write a queue")]
    Queue(#[from] QueueError),
    #[error("could not trim the stream of the calls table")]
    Stream(#[from] LocalError),
}

/// Invokes the consumer with batches of the events queue.
pub(super) async fn poll_events_queue(
    services: &Services,
    consumer: &Arc<Consumer>,
    metrics: &Metrics,
) -> Result<Infallible, CloudError> {
    let invoker = Invoker { services, metrics, function: "consumer", queue: EVENTS_QUEUE };
    loop {
        let received =
            services.sqs().long_poll(EVENTS_QUEUE, QUEUE_BATCH, Some(VISIBILITY_TIMEOUT_MS), POLL_MS).await?;
        if received.is_empty() {
            continue;
        }
        let consumer = consumer.clone();
        invoker.invoke(received, |event| async move { consumer.handle(event).await }).await?;
    }
}

/// Invokes the dialer with messages of the dial queue. One poller feeds `concurrency` dialers.
pub(super) async fn poll_dial_queue(
    services: &Services,
    dialer: &Arc<Dialer>,
    concurrency: usize,
    metrics: &Metrics,
) -> Result<Infallible, CloudError> {
    let invoker = Invoker { services, metrics, function: "dialer", queue: DIAL_QUEUE };
    let mut running = FuturesUnordered::new();
    loop {
        let receive = services.sqs().long_poll(DIAL_QUEUE, DIAL_BATCH, Some(DIAL_VISIBILITY_TIMEOUT_MS), POLL_MS);
        tokio::select! {
            biased;
            Some(finished) = running.next() => finished?,
            received = receive, if running.len() < concurrency => {
                let received = received?;
                if !received.is_empty() {
                    let dialer = dialer.clone();
                    let handle = |event| async move {
                        dialer.handle(event).await;
                        SqsBatchResponse::default()
                    };
                    running.push(invoker.invoke(received, handle));
                }
            }
        }
    }
}

/// Invokes the scheduler with messages of the queue of due calls.
pub(super) async fn poll_due_queue(
    services: &Services,
    scheduler: &Arc<Scheduler>,
    metrics: &Metrics,
) -> Result<Infallible, CloudError> {
    let invoker = Invoker { services, metrics, function: "scheduler", queue: DUE_QUEUE };
    loop {
        let received = services.sqs().long_poll(DUE_QUEUE, DUE_BATCH, Some(DUE_VISIBILITY_TIMEOUT_MS), POLL_MS).await?;
        if received.is_empty() {
            continue;
        }
        let scheduler = scheduler.clone();
        let handle = |event| async move {
            scheduler.claim_delayed(event, "due").await;
            SqsBatchResponse::default()
        };
        invoker.invoke(received, handle).await?;
    }
}

/// Invokes workers of the reconciler with messages of the repair queue.
pub(super) async fn poll_repair_queue(
    services: &Services,
    reconciler: &Arc<Reconciler>,
    metrics: &Metrics,
) -> Result<Infallible, CloudError> {
    let invoker = Invoker { services, metrics, function: "reconciler", queue: REPAIR_QUEUE };
    let mut running = FuturesUnordered::new();
    loop {
        let receive = services.sqs().long_poll(REPAIR_QUEUE, REPAIR_BATCH, Some(REPAIR_VISIBILITY_TIMEOUT_MS), POLL_MS);
        tokio::select! {
            biased;
            Some(finished) = running.next() => finished?,
            received = receive, if running.len() < REPAIR_WORKERS => {
                let received = received?;
                if !received.is_empty() {
                    let reconciler = reconciler.clone();
                    let handle = |event| async move {
                        reconciler.work(event, "repair").await;
                        SqsBatchResponse::default()
                    };
                    running.push(invoker.invoke(received, handle));
                }
            }
        }
    }
}

/// Invokes the scheduler with the records of calls that are due soon. A record that fails is not tried again: the
/// schedule finds its call.
pub(super) async fn poll_due_records(services: &Services, scheduler: &Arc<Scheduler>, metrics: &Metrics) -> Infallible {
    let stream = services.dynamodb().stream();
    loop {
        let mut watch = stream.watch();
        let batch = stream.take_due(DUE_BATCH);
        if batch.is_empty() {
            watch.changed().await;
            continue;
        }
        if let Ok(event) = event_of::<StreamEvent>(batch.iter().map(StreamRecord::event_record)) {
            let scheduler = scheduler.clone();
            let started_ms = services.clock().now_ms();
            let done = tokio::spawn(async move { scheduler.claim_written(event, "stream").await }).await;
            let now_ms = services.clock().now_ms();
            metrics.record_invocation("scheduler", now_ms.saturating_sub(started_ms), done.is_err(), now_ms);
        }
    }
}

/// Invokes the relay with batches of the stream, oldest record first. A record that fails is tried again, and all later
/// records wait for it.
pub(super) async fn poll_stream(
    services: &Services,
    relay: &Arc<Relay>,
    metrics: &Metrics,
) -> Result<Infallible, CloudError> {
    let stream = services.dynamodb().stream();
    let mut pause = RELAY_PAUSE_FIRST;
    loop {
        let mut watch = stream.watch();
        let batch = stream.next_batch(STREAM_BATCH);
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else {
            watch.changed().await;
            continue;
        };
        let response = match event_of::<StreamEvent>(batch.iter().map(StreamRecord::event_record)) {
            Ok(event) => {
                let relay = relay.clone();
                let started_ms = services.clock().now_ms();
                let response = tokio::spawn(async move { relay.handle(event).await }).await.ok();
                let now_ms = services.clock().now_ms();
                metrics.record_invocation("relay", now_ms.saturating_sub(started_ms), response.is_none(), now_ms);
                let age_ms = u64::try_from(first.age(now_ms).as_millis()).unwrap_or(u64::MAX);
                let name = function_name("relay");
                let key = SeriesKey::new("AWS/Lambda", "IteratorAge", &[("FunctionName", &name)]);
                metrics.record(key, to_f64(age_ms), now_ms);
                response
            }
            Err(_) => None,
        };
        let failed_at = match response {
            Some(response) => {
                let find = |id: Option<String>| batch.iter().find(|record| Some(record.sequence().to_string()) == id);
                let failures = response.batch_item_failures.into_iter();
                // A sequence number that is not in the batch fails the whole batch.
                failures
                    .map(|failure| find(failure.item_identifier).map_or(first.sequence(), StreamRecord::sequence))
                    .min()
            }
            None => Some(first.sequence()),
        };
        stream.trim(failed_at.map_or(last.sequence(), |failed: u64| failed - 1))?;
        let Some(failed) = failed_at else {
            pause = RELAY_PAUSE_FIRST;
            continue;
        };
        let record = batch.iter().find(|record| record.sequence() == failed);
        if let Some(record) = record
            && record.age(services.clock().now_ms()) > RECORD_AGE_MAX
        {
            let message = NewMessage { body: failure_message(record).to_string(), ..NewMessage::default() };
            services.sqs().send(RELAY_FAILURES_QUEUE, message)?;
            stream.trim(failed)?;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RELAY_PAUSE_MAX);
    }
}

/// Parses the event that AWS would send with these records.
fn event_of<E: DeserializeOwned>(records: impl Iterator<Item = impl Serialize>) -> serde_json::Result<E> {
    #[derive(Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct Event<R> {
        records: Vec<R>,
    }
    // Lambda gets an event as text too. A tree of JSON values in between would need a map for each attribute of a row.
    serde_json::from_slice(&serde_json::to_vec(&Event { records: records.collect() })?)
}

/// Message that Lambda sends to the on-failure destination of a stream. It tells where the record was, and not its content.
fn failure_message(record: &StreamRecord) -> Value {
    let written_at = Timestamp::from_millis(i64::try_from(record.written_at_ms()).unwrap_or(i64::MAX)).to_string();
    let sequence = record.sequence().to_string();
    json!({
        "requestContext": {"requestId": sequence, "functionArn": "relay", "condition": "MaximumRecordAgeExceeded"},
        "version": "1.0",
        "DDBStreamBatchInfo": {
            "shardId": "shardId-local", "startSequenceNumber": sequence, "endSequenceNumber": sequence,
            "approximateArrivalOfFirstRecord": written_at, "approximateArrivalOfLastRecord": written_at,
            "batchSize": 1, "streamArn": "stream",
        },
    })
}

/// Invokes a function with the messages of one queue.
#[derive(Clone, Copy)]
struct Invoker<'a> {
    services: &'a Services,
    metrics: &'a Metrics,
    function: &'static str,
    queue: &'static str,
}

impl Invoker<'_> {
    /// Invokes the function once with a batch of messages, and deletes the messages that it processed. If the handler
    /// panics, nothing is deleted and all messages become visible again.
    async fn invoke<R>(
        self,
        received: Vec<ReceivedMessage>,
        handler: impl FnOnce(SqsEvent) -> R,
    ) -> Result<(), QueueError>
    where
        R: Future<Output = SqsBatchResponse> + Send + 'static,
    {
        let records = received.iter().map(|message| to_event_record(self.queue, message));
        let Ok(event) = event_of::<SqsEvent>(records) else { return Ok(()) };
        let started_ms = self.services.clock().now_ms();
        let done = tokio::spawn(handler(event)).await;
        let now_ms = self.services.clock().now_ms();
        self.metrics.record_invocation(self.function, now_ms.saturating_sub(started_ms), done.is_err(), now_ms);
        let Ok(response) = done else { return Ok(()) };
        let processed = processed(received, response);
        let handles = processed.iter().map(|message| message.receipt_handle.as_str());
        self.services.sqs().delete_batch(self.queue, handles)?;
        Ok(())
    }
}

/// Returns the messages that the handler did not report as failed. As in Lambda, a report that names a message outside
/// the batch fails the whole batch.
fn processed(received: Vec<ReceivedMessage>, response: SqsBatchResponse) -> Vec<ReceivedMessage> {
    let failed: Vec<String> = response.batch_item_failures.into_iter().map(|failure| failure.item_identifier).collect();
    if failed.iter().any(|id| received.iter().all(|message| message.message.id() != *id)) {
        return Vec::new();
    }
    received.into_iter().filter(|message| !failed.contains(&message.message.id())).collect()
}
