//! The reconciler: wakes calls whose time has come, and queues events that never reached the queue.
//!
//! It takes no input and keeps no plan: each run finds what is due in an index and repairs it by the one path there is.
//! **It never writes a call's state.** What it learns becomes an event in the inbox, under an id that says what was learned,
//! so that two runs at once, or one that died in the middle, make one event of it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use switchhook_aws::Error;
use switchhook_aws::calls::{Calls, WAKE_SHARDS, Written};
use switchhook_aws::config::{Environment, EnvironmentError};
use switchhook_aws::inbox::{Inbox, Kept, RECEIVED_SHARDS, Received, arrival_of, minute_of, resend, submit};
use switchhook_aws::queue::Queue;
use switchhook_aws::sdk::Clock;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{CallId, EventId, Policy, Timestamp};

/// A run starts nothing new after this: the function's timeout is 50 s.
const RUN_MAX: Duration = Duration::from_secs(40);
/// Calls or events that are worked on at once.
const CONCURRENCY: usize = 16;
/// When a deadline that was found before is not folded yet, its call is looked at again after this.
const UNFOLDED_PAUSE: Duration = Duration::from_secs(5 * 60);
/// The sweep looks at a minute when it has been over for a minute: by then what is on its way has arrived.
const SWEEP_BEHIND_MINUTES: i64 = 2;
/// Minutes that one run catches up at most; and how far back the first sweep of all looks.
const SWEEP_MINUTES_MAX: i64 = 60;
/// With more than this waiting, the queue is behind and the sweep would only add to it. (SQS itself does not tell the age of
/// its oldest message, CloudWatch does, minutes later; the number that waits is one request.)
const SWEEP_WAITING_MAX: u64 = 1_000;

/// What the function reads from its environment.
#[derive(Debug)]
pub struct Config {
    pub inbox_table: String,
    pub inbox_retention: Duration,
    pub calls_table: String,
    pub queue_url: String,
    pub patience: Duration,
}

impl Config {
    /// # Errors
    /// Names every variable that is missing or bad.
    pub fn from_environment(
        mut environment: Environment<impl Fn(&str) -> Option<String>>,
    ) -> Result<Self, EnvironmentError> {
        let config = Self {
            inbox_table: environment.text("INBOX_TABLE"),
            inbox_retention: environment.days("INBOX_RETENTION_DAYS"),
            calls_table: environment.text("CALLS_TABLE"),
            queue_url: environment.text("QUEUE_URL"),
            patience: environment.seconds("PATIENCE_SECONDS"),
        };
        environment.check(config)
    }
}

/// The handler and what it works with.
#[derive(Debug)]
pub struct Reconciler {
    pub inbox: Inbox,
    pub calls: Calls,
    pub queue: Queue,
    pub policy: Policy,
    pub clock: Clock,
}

/// What one run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Calls that were due in the index.
    pub woken: u64,
    /// `deadline passed` events that were put into the inbox.
    pub deadlines: u64,
    /// Calls that had been heard of since, and wake up later.
    pub moved: u64,
    /// Minutes of the inbox that were looked at.
    pub minutes: u64,
    /// Events that had never reached their call and were queued again.
    pub requeued: u64,
    /// Calls, minutes or events that must be tried again by the next run.
    pub failed: u64,
}

/// What became of one call that was due.
enum Woken {
    Deadlines(u64),
    Moved,
    Nothing,
}

impl Reconciler {
    /// One run.
    ///
    /// # Errors
    /// The first error met, after everything that could be done was done.
    pub async fn run(&self, trace_id: &str) -> Result<Report, Error> {
        let started = self.clock.now();
        let stop_at = started.plus(RUN_MAX);
        let mut report = Report::default();
        let mut first_error = None;
        // Neither starves the other: the sweep has the first half of the time, and what it leaves of it goes to the calls.
        if let Err(error) = self.sweep(&mut report, started.plus(RUN_MAX / 2)).await {
            report.failed += 1;
            first_error = Some(error);
        }
        if let Err(error) = self.wake(&mut report, stop_at, trace_id).await {
            first_error.get_or_insert(error);
        }
        let now = self.clock.now();
        let chain = first_error.as_ref().map(Error::chain);
        let decision = Decision {
            stage: "reconciler",
            message: "reconciled",
            action_taken: if first_error.is_some() { "reconcile_failed" } else { "reconciled" },
            cause: first_error.as_ref().map(Error::operation),
            error: chain.as_deref(),
            duration_ms: Some(now.millis_since(started)),
            trace_id: Some(trace_id),
            counts: vec![
                ("woken", report.woken),
                ("deadlines", report.deadlines),
                ("moved", report.moved),
                ("swept_minutes", report.minutes),
                ("requeued", report.requeued),
                ("failed", report.failed),
            ],
            ..Decision::default()
        };
        decision.log(now, first_error.is_some());
        first_error.map_or(Ok(report), Err)
    }

    async fn wake(&self, report: &mut Report, stop_at: Timestamp, trace_id: &str) -> Result<(), Error> {
        let mut first_error = None;
        // Each run starts with another shard, so that none is always the last.
        let first = minute_of(self.clock.now()).unsigned_abs();
        for shard in (first..first + WAKE_SHARDS).map(|shard| shard % WAKE_SHARDS) {
            let now = self.clock.now();
            let mut start = None;
            while self.clock.now() < stop_at {
                let (due, next) = match self.calls.due(shard, now, start).await {
                    Ok(page) => page,
                    Err(error) => {
                        report.failed += 1;
                        first_error.get_or_insert(error);
                        break;
                    }
                };
                let woken: Vec<Result<Woken, Error>> = stream::iter(due)
                    .map(|call_id| async move { self.wake_call(&call_id, trace_id).await })
                    .buffered(CONCURRENCY)
                    .collect()
                    .await;
                for woken in woken {
                    report.woken += 1;
                    match woken {
                        Ok(Woken::Deadlines(count)) => report.deadlines += count,
                        Ok(Woken::Moved) => report.moved += 1,
                        Ok(Woken::Nothing) => {}
                        Err(error) => {
                            report.failed += 1;
                            first_error.get_or_insert(error);
                        }
                    }
                }
                start = next;
                if start.is_none() {
                    break;
                }
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    /// A call that is due by the index: its deadlines become events, or it has been heard of since and wakes up later.
    async fn wake_call(&self, call_id: &CallId, trace_id: &str) -> Result<Woken, Error> {
        let now = self.clock.now();
        // The index may be behind the row, and the row may have been removed.
        let Some(call) = self.calls.load(call_id).await? else { return Ok(Woken::Nothing) };
        if call.wake_at.is_none_or(|at| at > now) {
            return Ok(Woken::Nothing);
        }
        let deadlines = call.deadlines_passed(&self.policy, now);
        if deadlines.is_empty() {
            return match self.calls.move_wake(&call, call.next_due(&self.policy)).await? {
                Written::Written => Ok(Woken::Moved),
                Written::LostRace => Ok(Woken::Nothing),
            };
        }
        let mut new = false;
        for event in &deadlines {
            // Whether it is new or was found before, it is queued now; the fold takes it once.
            let kept = submit(&self.inbox, &self.queue, &arrival_of(event, trace_id)?, event).await?;
            new |= matches!(kept, Kept::New);
        }
        if !new {
            // An earlier run said the same, and it is still not folded: the queue is behind, and asking each minute would
            // only add to it. Whoever changed the row meanwhile has decided when it wakes.
            match self.calls.move_wake(&call, Some(now.plus(UNFOLDED_PAUSE))).await? {
                Written::Written | Written::LostRace => {}
            }
        }
        Ok(Woken::Deadlines(deadlines.len() as u64))
    }

    /// Looks once at each minute of the inbox, two minutes behind.
    async fn sweep(&self, report: &mut Report, stop_at: Timestamp) -> Result<(), Error> {
        let last = minute_of(self.clock.now()) - SWEEP_BEHIND_MINUTES;
        let mut cursor = self.inbox.sweep_cursor().await?;
        let first = cursor.map_or(last + 1 - SWEEP_MINUTES_MAX, |minute| minute + 1);
        for minute in first..=last.min(first + SWEEP_MINUTES_MAX - 1) {
            if self.clock.now() >= stop_at || self.queue.waiting().await? > SWEEP_WAITING_MAX {
                return Ok(());
            }
            self.sweep_minute(minute, report).await?;
            if !self.inbox.move_sweep_cursor(cursor, minute).await? {
                // Another run is at it.
                return Ok(());
            }
            cursor = Some(minute);
            report.minutes += 1;
        }
        Ok(())
    }

    async fn sweep_minute(&self, minute: i64, report: &mut Report) -> Result<(), Error> {
        for shard in 0..RECEIVED_SHARDS {
            let mut start = None;
            loop {
                let (received, next) = self.inbox.received_in(minute, shard, start).await?;
                let mut by_call: BTreeMap<CallId, Vec<EventId>> = BTreeMap::new();
                for Received { event_id, call_id, decided } in received {
                    if let Some(call_id) = call_id.filter(|_| !decided) {
                        by_call.entry(call_id).or_default().push(event_id);
                    }
                }
                let requeued: Vec<Result<u64, Error>> = stream::iter(by_call)
                    .map(|(call_id, events)| async move { self.requeue_missing(&call_id, &events).await })
                    .buffered(CONCURRENCY)
                    .collect()
                    .await;
                for count in requeued {
                    report.requeued += count?;
                }
                start = next;
                if start.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Queues those events again that are not in their call's history.
    async fn requeue_missing(&self, call_id: &CallId, events: &[EventId]) -> Result<u64, Error> {
        let call = match self.calls.glance(call_id).await {
            Ok(call) => call,
            // A row that cannot be read is taken to hold nothing: the consumer will say so of each event, and try again.
            Err(Error::DecodeCall(_) | Error::NewerSchema(_)) => None,
            Err(error) => return Err(error),
        };
        let mut requeued = 0;
        for event_id in events {
            if call.as_ref().is_some_and(|call| call.holds(event_id)) {
                continue;
            }
            match self.requeue(event_id).await {
                Ok(true) => requeued += 1,
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

    async fn requeue(&self, event_id: &EventId) -> Result<bool, Error> {
        let Some(stored) = self.inbox.load(event_id).await? else { return Ok(false) };
        resend(&self.inbox, &self.queue, &stored).await?;
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
