//! Retries of the events that [wait in the inbox](switchhook_aws::inbox::WAITS_AFTER): sends those to the queue that reached an age, and those to
//! the dead-letter queue that failed for too long.
//!
//! **A run hands the shards with marks to workers.** A worker reads the marks of the events that reached one of the ages since the last run. So
//! its work grows with the events that are due, and not with those that wait. A worker that dies, or has no time for all, leaves events to
//! their next age. The last age is no moment: whatever is older becomes a dead letter, so that each event comes to an end.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use switchhook_aws::Error;
use switchhook_aws::inbox::{Attention, AttentionKind, GIVEN_UP_AFTER, Note, retry_ages};
use switchhook_aws::queue::{RepairKind, RepairWork, SentAgain};
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{ProviderEvent, Timestamp, TraceId};

use crate::reconciler::{Reconciler, Report, WORK_WINDOW};
use crate::unfolded::Unfolded;

/// Time by which a run looks back at most, after an outage of the schedules: the longest pause between two ages. An event may have reached two
/// ages in it. SQS drops the second message, because both are of the same run.
const LOOK_BACK_MAX: Duration = Duration::from_secs(15 * 60);
/// Marks that are read from the index at once.
const PAGE: i32 = 250;
/// Events that are read at the same time.
const CONCURRENCY: usize = 16;

/// Event that waits in the inbox, and its note.
struct Waiting {
    event: ProviderEvent,
    note: Note,
}

impl Reconciler {
    /// Returns the work on the events that reached an age since the last run. None if no event waits: then this reads nothing.
    ///
    /// # Errors
    /// The cursor could not be read or written.
    pub(crate) async fn retries(&self, unfolded: &Unfolded, started: Timestamp) -> Result<Vec<RepairWork>, Error> {
        if unfolded.marks.is_empty() {
            return Ok(Vec::new());
        }
        let earliest = started.minus(LOOK_BACK_MAX);
        let after = self.inbox.retry_cursor().await?.map_or(earliest, |cursor| cursor.max(earliest));
        self.inbox.set_retry_cursor(started).await?;
        let work = |shard| RepairWork::first(RepairKind::Retry { after }, shard, started, started.plus(WORK_WINDOW));
        Ok(self.inbox.attention_shards().map(work).collect())
    }

    /// Sends the events of a shard that reached an age after `after` and up to `until` to the queue, and those that failed for too long
    /// to the dead-letter queue.
    pub(crate) async fn retry_shard(
        &self,
        (shard, after, until): (u64, Timestamp, Timestamp),
        report: &mut Report,
        stop_at: Timestamp,
    ) -> Result<(), Error> {
        let run = format!("retry-{until}");
        let mut first_error = None;
        let ages = retry_ages().map(|age| (after.minus(age), until.minus(age), false));
        let too_old = (Timestamp::from_millis(0), until.minus(GIVEN_UP_AFTER), true);
        for (after, until, is_too_old) in ages.chain([too_old]) {
            let mut pages = self.inbox.attention_between(AttentionKind::Retrying, shard, after, until, PAGE);
            while let Some(page) = pages.next().await? {
                if self.is_time_up(stop_at) {
                    report.budget_used_up = 1;
                    return first_error.map_or(Ok(()), Err);
                }
                let done = if is_too_old {
                    self.give_up(&page.items).await
                } else {
                    self.send_again(&page.items, &run, report).await
                };
                first_error = first_error.or(done.err());
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    /// Queues the events of these marks that wait. An error of one event hides no other.
    async fn send_again(&self, marks: &[Attention], run: &str, report: &mut Report) -> Result<(), Error> {
        let read = at_once(marks.iter().map(|mark| self.read_waiting(mark))).await;
        let (mut events, mut first_error) = (Vec::new(), None);
        for read in read {
            match read {
                Ok(waiting) => events.extend(waiting.map(|Waiting { event, .. }| SentAgain {
                    trace_id: event.trace_id.as_ref().map_or("", TraceId::as_str).to_owned(),
                    event,
                    run: run.to_owned(),
                })),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        let sent = self.queue.send_again(&events).await;
        report.retried += sent.as_ref().map_or(0, |()| events.len() as u64);
        first_error.map_or(sent, Err)
    }

    /// Returns the event of a mark. `None` if it does not wait, because its message is in the queue, or if nothing can be folded of it.
    async fn read_waiting(&self, mark: &Attention) -> Result<Option<Waiting>, Error> {
        let (Some(event_id), Some(call_id)) = (&mark.event_id, &mark.call_id) else { return Ok(None) };
        let note = self.inbox.get_note(event_id).await?;
        let Some(note) = note.filter(|note| note.waits) else { return Ok(None) };
        let event = self.if_readable(event_id, call_id, self.inbox.get_normalized(event_id).await)?.flatten();
        Ok(event.map(|event| Waiting { event, note }))
    }

    /// Makes dead letters of the events of these marks that wait. An error of one event hides no other.
    async fn give_up(&self, marks: &[Attention]) -> Result<(), Error> {
        let done = at_once(marks.iter().map(|mark| self.give_one_up(mark))).await;
        done.into_iter().fold(Ok(()), Result::and)
    }

    /// The message comes before the mark, so that no mark lacks its message.
    async fn give_one_up(&self, mark: &Attention) -> Result<(), Error> {
        let Some(Waiting { event, note }) = self.read_waiting(mark).await? else { return Ok(()) };
        if self.remove_if_folded(mark).await? {
            return Ok(());
        }
        let trace_id = event.trace_id.as_ref().map_or("", TraceId::as_str);
        let cause = note.cause.as_deref().unwrap_or_default();
        let now = self.clock.now();
        self.dlq.send(&event, trace_id).await?;
        self.inbox.mark_dead_letter(&event, cause, now).await?;
        let decision = Decision {
            function: "reconciler",
            message: "event not folded",
            action_taken: "given_up",
            provider: Some(event.origin.as_str()),
            event_id: Some(event.event_id.as_str()),
            call_id: Some(event.call_id.as_str()),
            retry_count: Some(note.attempts),
            trace_id: Some(trace_id),
            cause: Some(cause),
            ..Decision::default()
        };
        decision.log(now, true);
        Ok(())
    }
}

/// Waits for futures, [`CONCURRENCY`] of them at the same time.
async fn at_once<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    // Collected first: an iterator with a closure in the stream would not be `Send`.
    let futures: Vec<F> = futures.collect();
    stream::iter(futures).buffered(CONCURRENCY).collect().await
}
