//! The relay: publishes the domain events that a committed write of a call carries.
//!
//! **It decides nothing.** A row says in `outbox_start` where the announcements of its last write begin; a record whose write left
//! that unchanged carries none. Publishing is at least once: when a batch fails half-way the stream delivers it again from
//! the first record that failed, and the events have the same ids and content. A record whose row can never be read is
//! skipped and alarmed; one of a later version waits for the later program.

mod republish;

use std::time::Duration;

use aws_lambda_events::event::dynamodb::{Event, EventRecord};
use aws_lambda_events::event::streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse};
use switchhook_aws::Error;
use switchhook_aws::bus::{BATCH_MAX, Bus};
use switchhook_aws::calls::CallRow;
use switchhook_aws::config::{Environment, EnvironmentError};
use switchhook_aws::sdk::Clock;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::DomainEvent;

pub use republish::{RepublishReport, calls_since, republish_call};

/// A pause before what the bus refused for being too fast is sent once more.
const REFUSED_PAUSE: Duration = Duration::from_millis(200);

/// What the function reads from its environment.
#[derive(Debug)]
pub struct Config {
    pub event_bus: String,
}

impl Config {
    /// # Errors
    /// Names every variable that is missing or bad.
    pub fn from_environment(
        mut environment: Environment<impl Fn(&str) -> Option<String>>,
    ) -> Result<Self, EnvironmentError> {
        let config = Self { event_bus: environment.text("EVENT_BUS") };
        environment.check(config)
    }
}

/// The handler and what it works with.
#[derive(Debug)]
pub struct Relay {
    pub bus: Bus,
    pub clock: Clock,
}

/// A domain event and the stream record that carries it.
type Carried = (usize, DomainEvent);

impl Relay {
    /// Publishes what a batch of stream records carries. Reports the first record whose events did not all get through.
    pub async fn handle(&self, batch: Event) -> DynamoDbEventResponse {
        let started = self.clock.now();
        let mut events: Vec<Carried> = Vec::new();
        let mut failed: Option<(usize, Error)> = None;
        for (index, record) in batch.records.iter().enumerate() {
            match carried(record) {
                Ok(more) => events.extend(more.into_iter().map(|event| (index, event))),
                // It will never be one, and what comes after it must not wait until the stream forgets it.
                Err(error @ Error::DecodeCall(_)) => self.log_skipped(record, &error),
                Err(error) => {
                    failed = Some((index, error));
                    break;
                }
            }
        }
        let mut published = 0;
        for some in events.chunks(BATCH_MAX) {
            if let Err(failure) = self.publish(some).await {
                failed = Some(failure);
                break;
            }
            published += some.len();
        }
        self.log(&batch, published, failed.as_ref(), self.clock.now().millis_since(started));
        let mut response = DynamoDbEventResponse::default();
        if let Some(record) = failed.and_then(|(index, _)| batch.records.get(index)) {
            let mut failure = DynamoDbBatchItemFailure::default();
            failure.item_identifier.clone_from(&record.change.sequence_number);
            response.batch_item_failures.push(failure);
        }
        response
    }

    /// Publishes up to ten events; those that the bus refuses once more.
    async fn publish(&self, events: &[Carried]) -> Result<(), (usize, Error)> {
        let first = |error| (events.first().map_or(0, |(index, _)| *index), error);
        let refused = self.bus.publish(events.iter().map(|(_, event)| event)).await.map_err(first)?;
        if refused.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(REFUSED_PAUSE).await;
        let again: Vec<&Carried> = refused.iter().filter_map(|(at, _)| events.get(*at)).collect();
        let still = self.bus.publish(again.iter().map(|(_, event)| event)).await.map_err(first)?;
        match still.into_iter().next() {
            Some((at, reason)) => Err((again.get(at).map_or(0, |(index, _)| *index), Error::PublishRefused(reason))),
            None => Ok(()),
        }
    }

    fn log_skipped(&self, record: &EventRecord, error: &Error) {
        let call_id = match record.change.keys.get("call_id") {
            Some(serde_dynamo::AttributeValue::S(id)) => Some(id.as_str()),
            Some(_) | None => None,
        };
        let decision = Decision {
            stage: "relay",
            message: "row of a stream record cannot be read",
            action_taken: "record_skipped",
            call_id,
            ..Decision::from_error(Some(error))
        };
        decision.log(self.clock.now(), true);
    }

    fn log(&self, batch: &Event, published: usize, failed: Option<&(usize, Error)>, duration_ms: i64) {
        let decision = Decision {
            stage: "relay",
            message: "stream batch relayed",
            action_taken: if failed.is_some() { "relay_failed" } else { "relayed" },
            duration_ms: Some(duration_ms),
            counts: vec![("records", batch.records.len() as u64), ("published", published as u64)],
            ..Decision::from_error(failed.map(|(_, error)| error))
        };
        decision.log(self.clock.now(), failed.is_some());
    }
}

/// The domain events of one record: none if it is a removal, or if the write left the outbox as it was.
fn carried(record: &EventRecord) -> Result<Vec<DomainEvent>, Error> {
    let outbox_start = |image: &serde_dynamo::Item| image.get("outbox_start").cloned();
    let (new, old) = (&record.change.new_image, &record.change.old_image);
    if new.is_empty() || outbox_start(new).is_none() || outbox_start(new) == outbox_start(old) {
        return Ok(Vec::new());
    }
    let row = CallRow::parse(new.clone())?;
    let from = row.outbox_start;
    let call = row.decode()?;
    Ok(from.map_or_else(Vec::new, |sequence| call.domain_events_from(sequence)))
}
