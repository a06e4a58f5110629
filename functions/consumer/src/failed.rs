//! Events that could not be folded now: their notes, and the time of their next try.

use std::time::Duration;

use aws_lambda_events::event::sqs::SqsMessage;
use futures_util::future::join_all;
use switchhook_aws::Error;
use switchhook_aws::calls::Found;
use switchhook_aws::inbox::{Note, WAITS_AFTER, next_retry};
use switchhook_aws::queue::{Message, backoff};
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{CallId, ProviderEvent, Timestamp};

use crate::batch::FailedTail;
use crate::{Consumer, receives_of};

/// Time limit of the reads that tell whether a failing event can wait in the inbox, and of the write that lists it. They come after all else that
/// takes time in an outage.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// First try of an event that is to wait in the inbox, and the number of its earlier failures.
type Series = (Timestamp, u32);

impl Consumer {
    /// Notes the failures of a tail in the inbox. Returns the messages that SQS must deliver again, and keeps them invisible for the backoff
    /// time: all but those whose events wait in the inbox now.
    pub(crate) async fn retry_later(&self, tail: FailedTail) -> Vec<SqsMessage> {
        let now = self.clock.now();
        let FailedTail { messages, error } = tail;
        let series = join_all(messages.iter().map(|message| self.series(message, now))).await;
        // The messages that stay become visible together. One that failed more often than they did does not delay them.
        let staying = messages.iter().zip(&series).filter(|(_, series)| series.is_none()).map(|(message, _)| message);
        let delay = backoff(staying.map(receives_of).max().unwrap_or(1));
        // The event of another message waits, unless its note cannot be written. Then the message goes on as if it had stayed.
        let delay_of = |message: &SqsMessage, series: &Option<Series>| match series {
            Some(_) => backoff(receives_of(message)),
            None => delay,
        };
        let receipts = messages.iter().zip(&series);
        let receipts: Vec<(String, Duration)> = receipts
            .filter_map(|(message, series)| Some((message.receipt_handle.clone()?, delay_of(message, series))))
            .collect();
        // Concurrent writes, so that all notes together take no longer than one.
        let notes = messages.iter().zip(&series).enumerate();
        let notes =
            notes.map(|(place, (message, series))| self.note_failure(place, message, &error, series.ok_or(delay), now));
        let (delayed, waits) = tokio::join!(self.queue.delay(&receipts), join_all(notes));
        if let Err(error) = delayed {
            let decision = Decision {
                function: "consumer",
                message: "backoff not set, messages return at the visibility timeout",
                action_taken: "backoff_failed",
                ..Decision::from_error(Some(&error))
            };
            decision.log(now, true);
        }
        messages.into_iter().zip(waits).filter(|(_, waits)| !waits).map(|(message, _)| message).collect()
    }

    /// Notes that an event was not folded. `series` is its series if it is to wait, or else the time until its message is visible. Returns true if
    /// the event waits in the inbox now, so that its message may be deleted.
    async fn note_failure(
        &self,
        place: usize,
        message: &SqsMessage,
        error: &Error,
        series: Result<Series, Duration>,
        now: Timestamp,
    ) -> bool {
        let decoded = decode(message);
        let dead = self.is_last(message);
        let mut waits = false;
        if let Some(decoded) = &decoded {
            let next_retry_at = match series {
                Ok((first, _)) => next_retry(first, now),
                Err(delay) => now.plus(delay),
            };
            let note = Note {
                attempts: series.map_or(0, |(_, failures)| failures + 1).max(receives_of(message)),
                error: Some(error.to_string()),
                cause: Some(error.operation().to_owned()),
                first_tried_at: series.map_or_else(|_| first_received_at(message), |(first, _)| Some(first)),
                next_retry_at: (!dead).then_some(next_retry_at),
                waits: series.is_ok(),
                dead_lettered_at: dead.then_some(now),
                discarded_at: None,
                disposition: None,
            };
            let leaves_queue = dead || matches!(series, Ok((_, 0)));
            let is_listed = !leaves_queue || self.list(&decoded.event, now).await;
            // The note is optional: whatever made the fold fail may also make this write fail. SQS takes a dead letter without asking.
            let is_noted = (is_listed || dead) && self.inbox.put_note(&decoded.event, &note, now).await.is_ok();
            waits = is_noted && note.waits;
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

    /// Lists the events of messages that come again and again, before they are folded. If the consumer crashes at one of them each time, SQS moves it to
    /// the dead-letter queue, and no note lists it. A list that fails is written some receives later.
    pub(crate) async fn list_repeated(&self, received: &[SqsMessage], messages: &[Message]) {
        let now = self.clock.now();
        let repeated = received.iter().zip(messages).filter(|(received, _)| is_listed_at(receives_of(received)));
        join_all(repeated.map(|(_, message)| self.list(&message.event, now))).await;
    }

    /// Lists an event that leaves the queue, for the dialer. Later tries find it there. Returns false if that fails, or takes longer than [`WAIT_MAX`].
    async fn list(&self, event: &ProviderEvent, now: Timestamp) -> bool {
        let list = self.inbox.list_unfolded(&event.call_id, &event.event_id, now);
        tokio::time::timeout(WAIT_MAX, list).await.is_ok_and(|listed| listed.is_ok())
    }

    /// True if SQS moves the message to the dead-letter queue now.
    fn is_last(&self, message: &SqsMessage) -> bool {
        receives_of(message) >= self.max_receive_count
    }

    /// Returns the series of an event that is to wait in the inbox from now on, or `None` if its message stays in the queue:
    ///
    /// - The event has not failed for long, or SQS moves its message to the dead-letter queue now.
    /// - It is about an entity. A later event that overtook it would make it stale, and nothing would be published about it.
    /// - The inbox does not hold it, or the reads take longer than [`WAIT_MAX`].
    /// - The stored event leads to another call: a lookup found it there, and sent it here.
    async fn series(&self, message: &SqsMessage, now: Timestamp) -> Option<Series> {
        let ProviderEvent { event_id, call_id, received_at, .. } = &decode(message)?.event;
        if self.is_last(message) || call_id.is_entity() || now < received_at.plus(WAITS_AFTER) {
            return None;
        }
        let read = async {
            let read = tokio::join!(self.inbox.get_note(event_id), self.inbox.get_normalized(event_id));
            let (Ok(note), Ok(Some(stored))) = read else { return None };
            let leads_here = stored.call_id == *call_id || self.is_alias_of(&stored.call_id, call_id).await;
            leads_here.then_some(note)
        };
        let note = tokio::time::timeout(WAIT_MAX, read).await.ok()??;
        let (first, failures) =
            note.and_then(|note| note.series()).or_else(|| Some((first_received_at(message)?, 0)))?;
        (first.plus(WAITS_AFTER) <= now).then_some((first, failures))
    }
}

impl Consumer {
    /// True if one id is an alias of a call. False too if that cannot be read.
    async fn is_alias_of(&self, alias: &CallId, call_id: &CallId) -> bool {
        matches!(self.calls.find(alias).await, Ok(Found::Alias(found)) if found.call_id == *call_id)
    }
}

/// True for the 4th, 8th and 16th receive of a message.
const fn is_listed_at(receives: u32) -> bool {
    receives >= 4 && receives.is_power_of_two()
}

fn decode(message: &SqsMessage) -> Option<Message> {
    Message::decode(message.body.as_deref().unwrap_or_default()).ok()
}

/// Returns the number of races that a fold lost before it was given up.
fn lost_races(error: &Error) -> u64 {
    if let Error::Contended(races) = error { u64::from(*races) } else { 0 }
}

fn first_received_at(message: &SqsMessage) -> Option<Timestamp> {
    let at = message.attributes.get("ApproximateFirstReceiveTimestamp")?;
    at.parse().ok().map(Timestamp::from_millis)
}
