//! The relay: publishes the domain events of every committed write of a call, of an entity, or of a provider's health.
//!
//! **It decides nothing.** The attribute `outbox_start` of a row is the sequence number of the first announcement that its last
//! write added. A write that leaves this attribute unchanged announces nothing.
//!
//! Events are published at least once. If a batch fails half-way, the stream delivers it again from the first failed record,
//! and the events have the same ids and content. A record whose row can never be read is skipped, and an alarm reports it. A
//! record of a newer schema version stays in the stream until a newer relay reads it.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_lambda_events::event::dynamodb::{Event, EventRecord};
use aws_lambda_events::event::streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse};
use switchhook_aws::Error;
use switchhook_aws::bus::{BATCH_MAX, Bus, OutboxEvent};
use switchhook_aws::calls::{CallRow, EntityRow, HealthRow};
use switchhook_aws::config::{Environment, EnvironmentError};
use switchhook_aws::sdk::Clock;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{ENTITY_PREFIX, Timestamp};

/// Pause before refused events are sent once more. The bus refuses events above its rate limit.
const REFUSED_PAUSE: Duration = Duration::from_millis(200);

/// Time in milliseconds after which no further request to the bus begins. The rest of the batch comes again, and Lambda does not end a run
/// whose progress nobody has recorded. The longest request, with its repetitions and those of refused events, fits into the rest of the
/// function's timeout of 30 seconds.
const PUBLISHING_MAX_MS: i64 = 20_000;

/// Number of calls that the line of a failed batch names.
const NAMED_MAX: usize = 10;

/// Configuration, read from environment variables at cold start.
#[derive(Debug)]
pub struct Config {
    pub event_bus: String,
}

impl Config {
    /// Reads the configuration.
    ///
    /// # Errors
    /// Names every variable that is missing or not valid.
    pub fn from_environment(
        mut environment: Environment<impl Fn(&str) -> Option<String>>,
    ) -> Result<Self, EnvironmentError> {
        let config = Self { event_bus: environment.text("EVENT_BUS") };
        environment.check(config)
    }
}

/// The handler, with its clients.
#[derive(Debug)]
pub struct Relay {
    pub bus: Bus,
    pub clock: Clock,
}

/// Types of the domain events that tell how an attempt ended, and their metrics.
const ENDINGS: [(&str, &str); 6] = [
    ("call.completed", "call_completed"),
    ("call.no_answer", "call_no_answer"),
    ("call.busy", "call_busy"),
    ("call.failed", "call_failed"),
    ("call.canceled", "call_canceled"),
    ("call.inconclusive", "call_inconclusive"),
];

/// Domain event, with the index of its stream record in the batch.
type RecordEvent = (usize, OutboxEvent);

/// Domain events of one stream record.
#[derive(Debug, Default)]
struct RecordEvents {
    events: Vec<OutboxEvent>,
    /// Time of receipt of the newest event of the call. `None` if a worker made the write.
    received_at: Option<Timestamp>,
}

impl Relay {
    /// Publishes the domain events of a batch of stream records. Reports the first record whose events were not all published.
    pub async fn handle(&self, batch: Event) -> DynamoDbEventResponse {
        let started = self.clock.now();
        let mut events: Vec<RecordEvent> = Vec::new();
        let mut received_at: Vec<Timestamp> = Vec::new();
        let mut failed: Option<(usize, Error)> = None;
        for (index, record) in batch.records.iter().enumerate() {
            match domain_events_of(record) {
                Ok(more) => {
                    events.extend(more.events.into_iter().map(|event| (index, event)));
                    received_at.extend(more.received_at);
                }
                // This record can never be read, and the records after it must not wait until the stream drops it.
                Err(error @ (Error::DecodeCall(_) | Error::DecodeHealth(_) | Error::DecodeEntity(_))) => {
                    self.log_skipped(record, &error)
                }
                Err(error) => {
                    failed = Some((index, error));
                    break;
                }
            }
        }
        let mut published = 0;
        for chunk in events.chunks(BATCH_MAX) {
            if self.clock.now().millis_since(started) >= PUBLISHING_MAX_MS {
                let first = chunk.first().map_or(0, |(index, _)| *index);
                failed = Some((first, Error::Publish("the event bus is too slow for the whole batch".into())));
                break;
            }
            if let Err(failure) = self.publish(chunk).await {
                failed = Some(failure);
                break;
            }
            published += chunk.len();
        }
        // A failed batch comes again, and is measured when it succeeds.
        let oldest = received_at.into_iter().min().filter(|_| failed.is_none());
        let published_events = events.get(..published).unwrap_or_default();
        self.log(&batch, published_events, oldest, failed.as_ref(), started);
        let mut response = DynamoDbEventResponse::default();
        if let Some(record) = failed.and_then(|(index, _)| batch.records.get(index)) {
            let mut failure = DynamoDbBatchItemFailure::default();
            failure.item_identifier.clone_from(&record.change.sequence_number);
            response.batch_item_failures.push(failure);
        }
        response
    }

    /// Publishes up to ten events. Sends refused events once more.
    async fn publish(&self, events: &[RecordEvent]) -> Result<(), (usize, Error)> {
        let first = |error| (events.first().map_or(0, |(index, _)| *index), error);
        let refused = self.bus.publish(events.iter().map(|(_, event)| event)).await.map_err(first)?;
        if refused.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(REFUSED_PAUSE).await;
        let retried: Vec<&RecordEvent> = refused.iter().filter_map(|(at, _)| events.get(*at)).collect();
        let refused_again = self.bus.publish(retried.iter().map(|(_, event)| event)).await.map_err(first)?;
        match refused_again.into_iter().next() {
            Some((at, reason)) => Err((retried.get(at).map_or(0, |(index, _)| *index), Error::PublishRefused(reason))),
            None => Ok(()),
        }
    }

    fn log_skipped(&self, record: &EventRecord, error: &Error) {
        let decision = Decision {
            function: "relay",
            message: "row in a stream record cannot be read",
            action_taken: "record_skipped",
            call_id: key_of(record),
            ..Decision::from_error(Some(error))
        };
        decision.log(self.clock.now(), true);
    }

    /// Logs a batch. `oldest` is the time of receipt of the oldest of the events that caused its domain events.
    fn log(
        &self,
        batch: &Event,
        published: &[RecordEvent],
        oldest: Option<Timestamp>,
        failed: Option<&(usize, Error)>,
        started: Timestamp,
    ) {
        let now = self.clock.now();
        let mut counts = vec![("records", batch.records.len() as u64), ("published", published.len() as u64)];
        counts.extend(endings(published));
        counts.extend(oldest.map(|at| ("received_to_announced_ms", now.millis_since(at).unsigned_abs())));
        let trace_ids: BTreeSet<&str> = published.iter().filter_map(|(_, event)| event.trace_id()).collect();
        let decision = Decision {
            function: "relay",
            action_taken: if failed.is_some() { "relay_failed" } else { "relayed" },
            duration_ms: Some(now.millis_since(started)),
            trace_ids: trace_ids.into_iter().collect(),
            call_ids: failed.map(|(index, _)| waiting_calls(batch, *index)).unwrap_or_default(),
            counts,
            ..Decision::from_error(failed.map(|(_, error)| error))
        };
        decision.log(now, failed.is_some());
    }
}

/// Returns the number of published domain events for each ending of an attempt.
fn endings(published: &[RecordEvent]) -> impl Iterator<Item = (&'static str, u64)> {
    ENDINGS.into_iter().map(|(event_type, metric)| {
        let count = published.iter().filter(|(_, event)| event.event_type() == event_type).count();
        (metric, count as u64)
    })
}

/// Returns the first calls whose domain events wait from this record on.
fn waiting_calls(batch: &Event, from: usize) -> Vec<&str> {
    let mut calls = Vec::new();
    let waiting = batch.records.iter().skip(from).filter(|record| announces(record)).filter_map(key_of);
    for call in waiting.filter(|key| !HealthRow::is_key(key)) {
        if calls.len() < NAMED_MAX && !calls.contains(&call) {
            calls.push(call);
        }
    }
    calls
}

/// True if the write of this record added announcements.
fn announces(record: &EventRecord) -> bool {
    let outbox_start = |image: &serde_dynamo::Item| image.get("outbox_start").cloned();
    let (new, old) = (outbox_start(&record.change.new_image), outbox_start(&record.change.old_image));
    new.is_some() && new != old
}

/// Domain events of one record. Empty for a deletion, and for a write that left `outbox_start` unchanged.
fn domain_events_of(record: &EventRecord) -> Result<RecordEvents, Error> {
    if !announces(record) {
        return Ok(RecordEvents::default());
    }
    let new = &record.change.new_image;
    if key_of(record).is_some_and(HealthRow::is_key) {
        let row = HealthRow::parse(new.clone())?;
        let events = row.domain_event().map(OutboxEvent::OfProvider).into_iter().collect();
        return Ok(RecordEvents { events, received_at: None });
    }
    if key_of(record).is_some_and(|key| key.starts_with(ENTITY_PREFIX)) {
        let entity = EntityRow::decode(new.clone())?;
        let received_at = entity.announced.iter().map(|event| event.received_at).max();
        let events = entity.domain_events().into_iter().map(OutboxEvent::OfEntity).collect();
        return Ok(RecordEvents { events, received_at });
    }
    let row = CallRow::parse(new.clone())?;
    let Some(from) = row.outbox_start else { return Ok(RecordEvents::default()) };
    let call = row.decode()?;
    let events = call.domain_events_from(from);
    // A fold adds its events at the end of the history. A domain event may name an older one, for example if the
    // appointment of the call has just become known.
    let newest = call.history.last().filter(|_| events.iter().any(|event| event.source_event_id.is_some()));
    let received_at = newest.map(|entry| entry.received_at);
    Ok(RecordEvents { events: events.into_iter().map(OutboxEvent::from).collect(), received_at })
}

fn key_of(record: &EventRecord) -> Option<&str> {
    match record.change.keys.get("call_id") {
        Some(serde_dynamo::AttributeValue::S(id)) => Some(id),
        Some(_) | None => None,
    }
}
