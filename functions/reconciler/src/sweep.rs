//! The sweep: finds stored events that are missing in their call, and queues them again.
//!
//! **Each minute of the inbox is swept once, two minutes behind the clock.** A cursor in the inbox table holds the last
//! swept minute, and the position inside a minute if a run had no time for all of it.
//!
//! An event that ingress decided not to fold never reaches the consumer. So the sweep [erases](switchhook_aws::inbox::Inbox::erase)
//! it if the person of its call was forgotten.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};
use switchhook_aws::Error;
use switchhook_aws::calls::{Alias, Resolved};
use switchhook_aws::inbox::{ReceivedEvent, SweepCursor, SweepPosition, adopt, minute_of, resend};
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{CallId, EventId, Timestamp};

use crate::reconciler::{Reconciler, Report};

/// Calls handled at the same time.
pub const CONCURRENCY: usize = 16;
/// Distance of the sweep from the current minute. By then an event that was stored normally is also queued and folded.
const SWEEP_BEHIND_MINUTES: i64 = 2;
/// Limit on the minutes of one run. The first sweep of a stack starts as many minutes back.
const SWEEP_MINUTES_MAX: i64 = 60;
/// Queue depth above which the sweep pauses: the consumer is behind, and the missing events are probably in the queue.
///
/// The age of the oldest message would be the better measure. SQS does not report it, and CloudWatch reports it minutes later.
pub const QUEUE_DEPTH_MAX: u64 = 1_000;

/// Result of queueing the missing events of one call.
#[derive(Default)]
struct Requeued {
    events: u64,
    /// True if there was no time for all events.
    is_incomplete: bool,
}

impl Reconciler {
    /// Sweeps the minutes after the cursor, as many as there is time for.
    pub(crate) async fn sweep(&self, report: &mut Report, stop_at: Timestamp) -> Result<(), Error> {
        let last = minute_of(self.clock.now()) - SWEEP_BEHIND_MINUTES;
        let cursor = self.inbox.sweep_cursor().await?;
        let mut done = cursor.as_ref().map(|cursor| cursor.minute);
        report.swept_until = done.map(end_of);
        let mut position = cursor.and_then(|cursor| cursor.position).unwrap_or_default();
        let first = done.map_or(last + 1 - SWEEP_MINUTES_MAX, |minute| minute + 1);
        for minute in first..=last.min(first + SWEEP_MINUTES_MAX - 1) {
            report.budget_used_up |= u64::from(self.is_time_up(stop_at));
            if self.is_time_up(stop_at) || self.queue.depth().await? > QUEUE_DEPTH_MAX {
                return Ok(());
            }
            let rest = self.sweep_minute(minute, std::mem::take(&mut position), report, stop_at).await?;
            let swept = match rest {
                None => SweepCursor { minute, position: None },
                Some(position) => SweepCursor { minute: minute - 1, position: Some(position) },
            };
            report.budget_used_up |= u64::from(swept.position.is_some());
            if !self.inbox.advance_sweep_cursor(done, &swept).await? || swept.position.is_some() {
                // Another run moved the cursor, or the next run continues inside this minute.
                return Ok(());
            }
            done = Some(minute);
            report.swept_until = done.map(end_of);
            report.swept_minutes += 1;
        }
        Ok(())
    }

    /// Sweeps a minute from a position on. If there is no time for all of it, returns the position at which the next run
    /// continues.
    async fn sweep_minute(
        &self,
        minute: i64,
        position: SweepPosition,
        report: &mut Report,
        stop_at: Timestamp,
    ) -> Result<Option<SweepPosition>, Error> {
        let mut start = position.start;
        for shard in position.shard..self.inbox.received_shards(minute).end {
            let mut index = self.inbox.received_pages(minute, shard, start.clone());
            loop {
                if self.is_time_up(stop_at) {
                    return Ok(Some(SweepPosition { shard, start }));
                }
                let Some(page) = index.next().await? else { break };
                if let Some(swept) = self.sweep_page(&page.items, report, stop_at).await? {
                    let last = swept.checked_sub(1).and_then(|index| page.items.get(index));
                    let start = last.map(|last| last.start_key_after(minute, shard)).transpose()?.or(start);
                    return Ok(Some(SweepPosition { shard, start }));
                }
                start = page.next;
                if start.is_none() {
                    break;
                }
            }
        }
        Ok(None)
    }

    /// Queues the events of a page that are missing in their call. If there is no time for all of them, returns the number of
    /// entries at the start of the page that are done.
    async fn sweep_page(
        &self,
        received: &[ReceivedEvent],
        report: &mut Report,
        stop_at: Timestamp,
    ) -> Result<Option<usize>, Error> {
        // Calls in the order of the page, each with the place of its first event in the page.
        let mut calls: Vec<(usize, CallId, Vec<ReceivedEvent>)> = Vec::new();
        let mut by_id: BTreeMap<&CallId, usize> = BTreeMap::new();
        for (place, event) in received.iter().enumerate() {
            let Some(call_id) = &event.call_id else { continue };
            let index = *by_id.entry(call_id).or_insert(calls.len());
            match calls.get_mut(index) {
                Some((_, _, events)) => events.push(event.clone()),
                None => calls.push((place, call_id.clone(), vec![event.clone()])),
            }
        }
        let places: Vec<usize> = calls.iter().map(|(place, _, _)| *place).collect();
        let requeued: Vec<Result<Requeued, Error>> = stream::iter(calls)
            .map(|(_, call_id, events)| async move { self.requeue_missing(&call_id, &events, stop_at).await })
            .buffered(CONCURRENCY)
            .collect()
            .await;
        let mut first_incomplete = None;
        for (place, requeued) in places.into_iter().zip(requeued) {
            let Requeued { events, is_incomplete } = requeued?;
            report.requeued += events;
            first_incomplete = first_incomplete.or(is_incomplete.then_some(place));
        }
        Ok(first_incomplete)
    }

    /// Queues the events of one call that are not in its history. If the person of the call was forgotten, erases those that
    /// are not to be folded.
    async fn requeue_missing(
        &self,
        call_id: &CallId,
        events: &[ReceivedEvent],
        stop_at: Timestamp,
    ) -> Result<Requeued, Error> {
        let mut requeued = Requeued { events: 0, is_incomplete: self.is_time_up(stop_at) };
        if requeued.is_incomplete {
            return Ok(requeued);
        }
        let Resolved { call, alias } = match self.calls.resolve_eventual(call_id).await {
            Ok(resolved) => resolved,
            // An unreadable row counts as empty. The consumer reports the same error for each event, and retries.
            Err(Error::DecodeCall(_) | Error::NewerSchema(_)) => Resolved { call: None, alias: None },
            Err(error) => return Err(error),
        };
        let forgotten_at = call.as_ref().and_then(|call| call.forgotten_at);
        for ReceivedEvent { event_id, decided, .. } in events {
            if call.as_ref().is_some_and(|call| call.contains_event(event_id)) || (*decided && forgotten_at.is_none()) {
                continue;
            }
            if self.is_time_up(stop_at) {
                requeued.is_incomplete = true;
                break;
            }
            let handled = match forgotten_at.filter(|_| *decided) {
                Some(forgotten_at) => self.inbox.erase(event_id, forgotten_at).await.map(|_| false),
                None => self.requeue(event_id, alias.as_ref()).await,
            };
            match handled {
                Ok(true) => requeued.events += 1,
                Ok(false) => {}
                // An unreadable event must not stop the sweep.
                Err(error @ (Error::DecodeInbox(_) | Error::NewerSchema(_))) => {
                    self.log_unreadable(event_id, call_id, &error)
                }
                Err(error) => return Err(error),
            }
        }
        Ok(requeued)
    }

    /// Queues one stored event. Returns false if the inbox no longer has it.
    async fn requeue(&self, event_id: &EventId, alias: Option<&Alias>) -> Result<bool, Error> {
        let Some(stored) = self.inbox.get(event_id).await? else { return Ok(false) };
        match alias {
            Some(alias) => adopt(&self.inbox, &self.queue, [event_id.clone()], alias).await?,
            None => resend(&self.inbox, &self.queue, &stored).await?,
        }
        Ok(true)
    }

    fn log_unreadable(&self, event_id: &EventId, call_id: &CallId, error: &Error) {
        let decision = Decision {
            function: "reconciler",
            message: "stored event cannot be read",
            action_taken: "not_requeued",
            event_id: Some(event_id.as_str()),
            call_id: Some(call_id.as_str()),
            ..Decision::from_error(Some(error))
        };
        decision.log(self.clock.now(), true);
    }
}

/// Returns the end of a minute of the inbox.
const fn end_of(minute: i64) -> Timestamp {
    Timestamp::from_millis(minute.saturating_add(1).saturating_mul(60_000))
}
