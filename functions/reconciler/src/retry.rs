//! Retries of the events that [wait in the inbox](switchhook_aws::inbox::WAITS_AFTER). An event that reached an age is sent to the queue again. One that
//! failed for too long is sent to the dead-letter queue.
//!
//! **A run hands each shard with marks to a worker.** The worker reads the marks of the events that reached one of the ages since the last run. So
//! its work grows with the events that are due, and not with those that wait. A worker that dies, or has no time for all, leaves events to
//! their next age. The ages take turns in being the first, so that no age is always left out.
//!
//! **Every event older than [`GIVEN_UP_AFTER`] becomes a dead letter once its last try has failed**, however late a worker finds it. A worker begins
//! with these, so that each event comes to an end.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use switchhook_aws::Error;
use switchhook_aws::inbox::{
    Attention, AttentionKind, GIVEN_UP_AFTER, GIVEN_UP_ANYWAY, Note, UNANSWERED_EVERY, minute_of, retry_ages,
};
use switchhook_aws::queue::{RepairKind, RepairWork, SentAgain};
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{CallId, EventId, ProviderEvent, Timestamp, TraceId};

use crate::reconciler::{Reconciler, Report, WORK_WINDOW};
use crate::unfolded::Unfolded;

/// Time by which a run looks back at most, after an outage of the schedules: the longest pause between two ages. An event may have reached two
/// ages in it. SQS drops the second message, because both are of the same run.
const LOOK_BACK_MAX: Duration = Duration::from_secs(15 * 60);
/// [`UNANSWERED_EVERY`] in milliseconds.
const UNANSWERED_MS: i64 = UNANSWERED_EVERY.as_millis() as i64;
/// Marks that are read from the index at once.
const PAGE: i32 = 250;
/// Events that are read, or batches of ten that are sent, at the same time.
pub const CONCURRENCY: usize = 16;

impl Reconciler {
    /// Returns the work on the events that reached an age since the last run. Reads nothing if no mark is old enough to be trouble.
    ///
    /// # Errors
    /// The cursor could not be read or written.
    pub(crate) async fn retries(&self, unfolded: &Unfolded, started: Timestamp) -> Result<Vec<RepairWork>, Error> {
        if unfolded.shards.is_empty() {
            return Ok(Vec::new());
        }
        let earliest = started.minus(LOOK_BACK_MAX);
        let after = self.inbox.retry_cursor().await?.map_or(earliest, |cursor| cursor.max(earliest));
        if after >= started {
            return Ok(Vec::new());
        }
        self.inbox.set_retry_cursor(started).await?;
        let work = |shard| RepairWork::first(RepairKind::Retry { after }, shard, started, started.plus(WORK_WINDOW));
        Ok(unfolded.shards.iter().copied().map(work).collect())
    }

    /// Gives up the events of a shard that failed for too long. Queues those that reached an age after `after`, up to `until`. Returns the first
    /// error, after it has tried everything else.
    pub(crate) async fn retry_shard(
        &self,
        (shard, after, until): (u64, Timestamp, Timestamp),
        report: &mut Report,
        stop_at: Timestamp,
    ) -> Result<(), Error> {
        let run = format!("retry-{until}");
        let mut ages: Vec<Duration> = retry_ages().collect();
        let turn = usize::try_from(minute_of(until)).unwrap_or(0);
        ages.rotate_left(turn % retry_ages().count());
        let too_old = (Timestamp::from_millis(0), until.minus(GIVEN_UP_AFTER), true);
        let due = ages.into_iter().map(|age| (after.minus(age), until.minus(age), false));
        let mut first_error = None;
        for (first, last, is_too_old) in [too_old].into_iter().chain(due) {
            let mut pages = self.inbox.attention_between(AttentionKind::Retrying, shard, first, last, PAGE);
            loop {
                if self.is_time_up(stop_at) {
                    report.budget_used_up = 1;
                    return first_error.map_or(Ok(()), Err);
                }
                let page = match pages.next().await {
                    Ok(Some(page)) => page,
                    Ok(None) => break,
                    Err(error) => {
                        first_error = first_error.or(Some(error));
                        break;
                    }
                };
                let mut marks = page.items;
                if is_too_old {
                    let (unanswered, error) = self.give_up(marks, stop_at).await;
                    first_error = first_error.or(error);
                    // Counts the pauses that an event has waited for since its first try.
                    let pauses = |mark: &Attention, at: Timestamp| at.millis_since(mark.at) / UNANSWERED_MS;
                    marks = unanswered.into_iter().filter(|mark| pauses(mark, after) < pauses(mark, until)).collect();
                }
                let sent = self.send_waiting(&marks, &run, report, stop_at).await;
                first_error = first_error.or(sent.err());
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    /// Queues the events of these marks that wait. An error of one event hides no other.
    async fn send_waiting(
        &self,
        marks: &[Attention],
        run: &str,
        report: &mut Report,
        stop_at: Timestamp,
    ) -> Result<(), Error> {
        let read = at_once(marks.iter().map(|mark| self.read_waiting(mark, run, stop_at))).await;
        let (mut events, mut first_error) = (Vec::new(), None);
        for read in read {
            match read {
                Ok(event) => events.extend(event),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        let tens: Vec<&[SentAgain]> = events.chunks(10).collect();
        let sent = at_once(tens.iter().map(|ten| self.queue.send_again(ten))).await;
        for (sent, ten) in sent.into_iter().zip(tens) {
            match sent {
                Ok(()) => report.retried += ten.len() as u64,
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    /// Returns the event of a mark. `None` if it does not wait, because its message is in the queue, if nothing can be folded of it, or if there is
    /// no time.
    async fn read_waiting(&self, mark: &Attention, run: &str, stop_at: Timestamp) -> Result<Option<SentAgain>, Error> {
        let (Some(event_id), Some(call_id)) = (&mark.event_id, &mark.call_id) else { return Ok(None) };
        if self.is_time_up(stop_at) {
            return Ok(None);
        }
        let (note, event) = tokio::join!(self.inbox.get_note(event_id), self.inbox.get_normalized(event_id));
        if !note?.is_some_and(|note| note.waits) {
            return Ok(None);
        }
        let event = self.if_readable(event_id, call_id, event)?.flatten();
        Ok(event.map(|event| SentAgain { trace_id: trace_id_of(&event).to_owned(), event, run: run.to_owned() }))
    }

    /// Makes dead letters of the events of these marks that wait. Returns the marks of those that no consumer has tried at the last age, and the first
    /// error.
    async fn give_up(&self, marks: Vec<Attention>, stop_at: Timestamp) -> (Vec<Attention>, Option<Error>) {
        let done = at_once(marks.iter().map(|mark| self.give_one_up(mark, stop_at))).await;
        let (mut unanswered, mut first_error) = (Vec::new(), None);
        for (done, mark) in done.into_iter().zip(marks) {
            match done {
                Ok(is_over) => unanswered.extend((!is_over).then_some(mark)),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        (unanswered, first_error)
    }

    /// Makes a dead letter of an event that waits. Returns false if no consumer has tried it at the last age, or if the event can no longer be read and
    /// is younger than [`GIVEN_UP_ANYWAY`]. Until then, the alarm on events that are not folded tells of it. Does nothing if there is no time.
    ///
    /// The message comes before the mark, so that no mark lacks its message. An event that can no longer be read gets no message: it is in the list of
    /// dead letters alone, and the inbox keeps it.
    async fn give_one_up(&self, mark: &Attention, stop_at: Timestamp) -> Result<bool, Error> {
        let (Some(event_id), Some(call_id)) = (&mark.event_id, &mark.call_id) else { return Ok(true) };
        if self.is_time_up(stop_at) {
            return Ok(true);
        }
        let Some(note) = self.inbox.get_note(event_id).await?.filter(|note| note.waits) else { return Ok(true) };
        if self.remove_if_folded(mark).await? {
            return Ok(true);
        }
        let event = self.if_readable(event_id, call_id, self.inbox.get_normalized(event_id).await)?.flatten();
        let is_tried = event.is_some() && note.is_at_its_end();
        if !is_tried && self.clock.now() < mark.at.plus(GIVEN_UP_ANYWAY) {
            return Ok(false);
        }
        if let Some(event) = &event {
            self.dlq.send(event, trace_id_of(event)).await?;
        }
        let now = self.clock.now();
        if self.inbox.give_up(event_id, now).await? {
            log_given_up((event_id, call_id), event.as_ref(), &note, now);
        }
        Ok(true)
    }
}

fn log_given_up((event_id, call_id): (&EventId, &CallId), event: Option<&ProviderEvent>, note: &Note, now: Timestamp) {
    let decision = Decision {
        function: "reconciler",
        message: "event not folded",
        action_taken: "given_up",
        provider: event.map(|event| event.origin.as_str()),
        event_id: Some(event_id.as_str()),
        call_id: Some(call_id.as_str()),
        retry_count: Some(note.attempts),
        trace_id: event.map(trace_id_of),
        cause: note.cause.as_deref(),
        ..Decision::default()
    };
    decision.log(now, true);
}

fn trace_id_of(event: &ProviderEvent) -> &str {
    event.trace_id.as_ref().map_or("", TraceId::as_str)
}

/// Waits for futures, [`CONCURRENCY`] of them at the same time.
async fn at_once<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    // Collected first: a stream over an iterator with a closure would not be `Send`.
    let futures: Vec<F> = futures.collect();
    stream::iter(futures).buffered(CONCURRENCY).collect().await
}
