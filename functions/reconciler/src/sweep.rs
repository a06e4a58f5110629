//! The sweep: queues events again that were stored and never reached their call.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};
use switchhook_aws::Error;
use switchhook_aws::calls::{Alias, Found};
use switchhook_aws::inbox::{RECEIVED_SHARDS, ReceivedEvent, SweepCursor, SweepPosition, adopt, minute_of, resend};
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{Call, CallId, EventId, Timestamp};

use crate::reconciler::{Reconciler, Report};

/// Calls that are worked on at once.
const CONCURRENCY: usize = 16;
/// The sweep looks at a minute when it has been over for a minute: by then what is on its way has arrived.
const SWEEP_BEHIND_MINUTES: i64 = 2;
/// Minutes that one run catches up at most; and how far back the first sweep of all looks.
const SWEEP_MINUTES_MAX: i64 = 60;
/// With more than this waiting, the queue is behind and the sweep would only add to it. (SQS itself does not tell the age of
/// its oldest message, CloudWatch does, minutes later; the number that waits is one request.)
const SWEEP_WAITING_MAX: u64 = 1_000;

/// What became of the missing events of one call.
#[derive(Default)]
struct Requeued {
    events: u64,
    /// There was no time for all of them.
    left: bool,
}

impl Reconciler {
    /// Looks once at each minute of the inbox, two minutes behind.
    pub(crate) async fn sweep(&self, report: &mut Report, stop_at: Timestamp) -> Result<(), Error> {
        let last = minute_of(self.clock.now()) - SWEEP_BEHIND_MINUTES;
        let cursor = self.inbox.sweep_cursor().await?;
        let mut done = cursor.as_ref().map(|cursor| cursor.minute);
        let mut position = cursor.and_then(|cursor| cursor.position).unwrap_or_default();
        let first = done.map_or(last + 1 - SWEEP_MINUTES_MAX, |minute| minute + 1);
        for minute in first..=last.min(first + SWEEP_MINUTES_MAX - 1) {
            if self.is_over(stop_at) || self.queue.depth().await? > SWEEP_WAITING_MAX {
                return Ok(());
            }
            let left = self.sweep_minute(minute, std::mem::take(&mut position), report, stop_at).await?;
            let swept = match left {
                None => SweepCursor { minute, position: None },
                Some(position) => SweepCursor { minute: minute - 1, position: Some(position) },
            };
            if !self.inbox.advance_sweep_cursor(done, &swept).await? || swept.position.is_some() {
                // Another run is at it, or the next one goes on.
                return Ok(());
            }
            done = Some(minute);
            report.swept_minutes += 1;
        }
        Ok(())
    }

    /// Looks at a minute from a place in it on. Where there is no time for all of it, returns the place to go on from: it is further
    /// on than the one before by what was looked at.
    async fn sweep_minute(
        &self,
        minute: i64,
        position: SweepPosition,
        report: &mut Report,
        stop_at: Timestamp,
    ) -> Result<Option<SweepPosition>, Error> {
        let mut start = position.start;
        for shard in position.shard..RECEIVED_SHARDS {
            loop {
                if self.is_over(stop_at) {
                    return Ok(Some(SweepPosition { shard, start }));
                }
                let (received, next) = self.inbox.received_page(minute, shard, start.clone()).await?;
                if let Some(looked_at) = self.sweep_page(&received, report, stop_at).await? {
                    let last = looked_at.checked_sub(1).and_then(|index| received.get(index));
                    let start = last.map(|last| last.start_key_after(minute, shard)).or(start);
                    return Ok(Some(SweepPosition { shard, start }));
                }
                start = next;
                if start.is_none() {
                    break;
                }
            }
        }
        Ok(None)
    }

    /// Queues again what a page names and no call has. Where there is no time for all of it, returns how many lines from the first on
    /// were looked at.
    async fn sweep_page(
        &self,
        received: &[ReceivedEvent],
        report: &mut Report,
        stop_at: Timestamp,
    ) -> Result<Option<usize>, Error> {
        // In the order in which they are first named, each with the line that does.
        let mut calls: Vec<(usize, CallId, Vec<EventId>)> = Vec::new();
        let mut by_id: BTreeMap<&CallId, usize> = BTreeMap::new();
        for (line, ReceivedEvent { event_id, call_id, decided, .. }) in received.iter().enumerate() {
            let Some(call_id) = call_id.as_ref().filter(|_| !decided) else { continue };
            let index = *by_id.entry(call_id).or_insert(calls.len());
            match calls.get_mut(index) {
                Some((_, _, events)) => events.push(event_id.clone()),
                None => calls.push((line, call_id.clone(), vec![event_id.clone()])),
            }
        }
        let lines: Vec<usize> = calls.iter().map(|(line, _, _)| *line).collect();
        let requeued: Vec<Result<Requeued, Error>> = stream::iter(calls)
            .map(|(_, call_id, events)| async move { self.requeue_missing(&call_id, &events, stop_at).await })
            .buffered(CONCURRENCY)
            .collect()
            .await;
        let mut looked_at = None;
        for (line, requeued) in lines.into_iter().zip(requeued) {
            let Requeued { events, left } = requeued?;
            report.requeued += events;
            looked_at = looked_at.or(left.then_some(line));
        }
        Ok(looked_at)
    }

    /// Queues those events again that are not in their call's history.
    async fn requeue_missing(
        &self,
        call_id: &CallId,
        events: &[EventId],
        stop_at: Timestamp,
    ) -> Result<Requeued, Error> {
        let mut requeued = Requeued { events: 0, left: self.is_over(stop_at) };
        if requeued.left {
            return Ok(requeued);
        }
        let (call, alias) = match self.follow(call_id).await {
            Ok(found) => found,
            // A row that cannot be read is taken to hold nothing: the consumer will say so of each event, and try again.
            Err(Error::DecodeCall(_) | Error::NewerSchema(_)) => (None, None),
            Err(error) => return Err(error),
        };
        for event_id in events {
            if call.as_ref().is_some_and(|call| call.contains_event(event_id)) {
                continue;
            }
            if self.is_over(stop_at) {
                requeued.left = true;
                break;
            }
            match self.requeue(event_id, alias.as_ref()).await {
                Ok(true) => requeued.events += 1,
                Ok(false) => {}
                // What can never be read must not keep the sweep from what comes after it.
                Err(error @ (Error::DecodeInbox(_) | Error::NewerSchema(_))) => {
                    self.log_unreadable(event_id, call_id, &error)
                }
                Err(error) => return Err(error),
            }
        }
        Ok(requeued)
    }

    /// The call under an id, or the one that its alias leads to.
    async fn follow(&self, call_id: &CallId) -> Result<(Option<Call>, Option<Alias>), Error> {
        match self.calls.get_eventual(call_id).await? {
            Found::Call(call) => Ok((Some(*call), None)),
            Found::Nothing => Ok((None, None)),
            Found::Alias(alias) => match self.calls.get_eventual(&alias.call_id).await? {
                Found::Call(call) => Ok((Some(*call), Some(alias))),
                Found::Alias(_) | Found::Nothing => Ok((None, Some(alias))),
            },
        }
    }

    async fn requeue(&self, event_id: &EventId, alias: Option<&Alias>) -> Result<bool, Error> {
        let Some(stored) = self.inbox.get(event_id).await? else { return Ok(false) };
        match alias {
            Some(alias) => adopt(&self.inbox, &self.queue, [event_id.clone()], alias).await?,
            None => resend(&self.inbox, &self.queue, &stored).await?,
        }
        Ok(true)
    }

    fn log_unreadable(&self, event_id: &EventId, call_id: &CallId, error: &Error) {
        let chain = error.chain();
        let decision = Decision {
            stage: "reconciler",
            message: "stored event cannot be read",
            action_taken: "not_requeued",
            event_id: Some(event_id.as_str()),
            call_id: Some(call_id.as_str()),
            cause: Some(error.operation()),
            error: Some(&chain),
            ..Decision::default()
        };
        decision.log(self.clock.now(), true);
    }
}
