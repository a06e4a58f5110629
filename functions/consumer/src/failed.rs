//! Events that could not be folded now: their notes, and the time of their next try.

use std::time::Duration;

use aws_lambda_events::event::sqs::SqsMessage;
use futures_util::future::join_all;
use switchhook_aws::Error;
use switchhook_aws::inbox::{Note, WAITS_AFTER, next_retry};
use switchhook_aws::queue::{Message, backoff};
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{ProviderEvent, Timestamp};

use crate::batch::FailedTail;
use crate::{Consumer, receives_of};

/// Time limit of the reads that tell whether a failing event can wait in the inbox. They come after all else that takes time in an outage.
const WAIT_MAX: Duration = Duration::from_millis(500);

impl Consumer {
    /// Keeps a failed tail invisible for the backoff time, and notes the failure in the inbox. Returns the messages that SQS must deliver again:
    /// all but those whose events wait in the inbox.
    pub(crate) async fn retry_later(&self, tail: FailedTail) -> Vec<SqsMessage> {
        let now = self.clock.now();
        let receives = tail.messages.iter().map(receives_of).max().unwrap_or(1);
        let delay = backoff(receives);
        let receipts: Vec<(String, Duration)> =
            tail.messages.iter().filter_map(|message| Some((message.receipt_handle.clone()?, delay))).collect();
        // Concurrent writes, so that all notes together take no longer than one.
        let noted = tail.messages.iter().enumerate();
        let waits = noted.map(|(place, message)| self.note_failure(place, message, &tail.error, delay, now));
        let (delayed, waits) = tokio::join!(self.queue.delay(&receipts), join_all(waits));
        if let Err(error) = delayed {
            let decision = Decision {
                function: "consumer",
                message: "backoff not set, messages return at the visibility timeout",
                action_taken: "backoff_failed",
                ..Decision::from_error(Some(&error))
            };
            decision.log(now, true);
        }
        tail.messages.into_iter().zip(waits).filter(|(_, waits)| !waits).map(|(message, _)| message).collect()
    }

    /// Notes that an event was not folded. Returns true if it waits in the inbox now, so that its message may be deleted.
    async fn note_failure(
        &self,
        place: usize,
        message: &SqsMessage,
        error: &Error,
        delay: Duration,
        now: Timestamp,
    ) -> bool {
        let decoded = Message::decode(message.body.as_deref().unwrap_or_default()).ok();
        let dead = receives_of(message) >= self.max_receive_count;
        let mut waits = false;
        if let Some(decoded) = &decoded {
            let first_received_at = first_received_at(message);
            let series = self.series(&decoded.event, first_received_at.unwrap_or(now), now).await;
            let note = Note {
                attempts: series.map_or(0, |(_, attempts)| attempts + 1).max(receives_of(message)),
                error: Some(error.to_string()),
                cause: Some(error.operation().to_owned()),
                first_tried_at: series.map(|(first, _)| first).or(first_received_at),
                next_retry_at: (!dead).then(|| series.map_or(now.plus(delay), |(first, _)| next_retry(first, now))),
                waits: series.is_some() && !dead,
                dead_lettered_at: dead.then_some(now),
                disposition: None,
            };
            // The note is optional: whatever made the fold fail may also make this write fail.
            waits = self.inbox.put_note(&decoded.event, &note, now).await.is_ok() && note.waits;
        }
        let decision = Decision {
            function: "consumer",
            message: "event not folded",
            action_taken: if dead { "dead_lettered" } else { "retried" },
            provider: decoded.as_ref().map(|message| message.event.origin.as_str()),
            event_id: decoded.as_ref().map(|message| message.event.event_id.as_str()),
            call_id: decoded.as_ref().map(|message| message.event.call_id.as_str()),
            retry_count: Some(receives_of(message)),
            trace_id: decoded.as_ref().map(|message| message.trace_id.as_str()),
            counts: vec![("fold_conflicts", if place == 0 { lost_races(error) } else { 0 })],
            ..Decision::from_error(Some(error))
        };
        decision.log(now, true);
        waits
    }

    /// Returns the first try and the number of earlier failures of an event that is to wait in the inbox from now on. `None` if it stays in the queue:
    /// it has not failed for long, or the inbox does not hold it. That is also taken for true if nobody can tell in [`WAIT_MAX`].
    async fn series(
        &self,
        event: &ProviderEvent,
        first_received_at: Timestamp,
        now: Timestamp,
    ) -> Option<(Timestamp, u32)> {
        if now < event.received_at.plus(WAITS_AFTER) {
            return None;
        }
        let read =
            async { tokio::join!(self.inbox.get_note(&event.event_id), self.inbox.get_normalized(&event.event_id)) };
        let (Ok(note), Ok(Some(_))) = tokio::time::timeout(WAIT_MAX, read).await.ok()? else { return None };
        let before = note.and_then(|note| note.series(now));
        let (first, attempts) = before.unwrap_or((first_received_at, 0));
        (first.plus(WAITS_AFTER) <= now).then_some((first, attempts))
    }
}

/// Returns the number of races that a fold lost before it was given up.
fn lost_races(error: &Error) -> u64 {
    if let Error::Contended(races) = error { u64::from(*races) } else { 0 }
}

fn first_received_at(message: &SqsMessage) -> Option<Timestamp> {
    let at = message.attributes.get("ApproximateFirstReceiveTimestamp")?;
    at.parse().ok().map(Timestamp::from_millis)
}
