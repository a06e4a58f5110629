//! The reconciler: wakes calls whose time has come, asks their providers what is true, and queues events that never reached the
//! queue.
//!
//! It takes no input and keeps no plan: each run finds what is due in an index and repairs it by the one path there is.
//! **It never writes a call's state.** What it learns becomes an event in the inbox, under an id that says what was learned,
//! so that two runs at once, or one that died in the middle, make one event of it. What a provider says goes the way of its
//! webhooks: same inbox, same normaliser, same id where the webhook's own can be known.
//!
//! **What is asked is bounded**: so many requests per run, none to a provider that fails again and again in this run, and of
//! one call less and less often. **A run ends by itself**: it looks at the clock before each call and each request, leaves what it
//! has no time for where the next run finds it, and says what it did.

mod drift;
mod lookup;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use switchhook_aws::Error;
use switchhook_aws::calls::{Alias, Calls, Found, StoreOutcome, TimeRange, WAKE_SHARDS, WakeQueue};
use switchhook_aws::config::{Environment, EnvironmentError};
use switchhook_aws::inbox::{
    Inbox, NewEvent, PutOutcome, RECEIVED_SHARDS, ReceivedEvent, SweepCursor, SweepPosition, adopt, minute_of, resend,
    submit,
};
use switchhook_aws::provider::{ApiUrls, ProviderApi};
use switchhook_aws::queue::Queue;
use switchhook_aws::sdk::Clock;
use switchhook_aws::secret::ProviderSecrets;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{AttemptRecord, AttemptState, Call, CallId, EventId, Policy, ProviderEvent, Timestamp};
use switchhook_providers::derived_call_id;

pub use crate::drift::DriftReport;
use crate::lookup::{Answered, LookupOutcome, Lookups};

/// A run starts nothing new after this. The function's timeout is 50 s, and a provider that was asked has 8 s to answer.
const RUN_MAX: Duration = Duration::from_secs(36);
/// Calls or events that are worked on at once.
const CONCURRENCY: usize = 16;
/// A dial whose answer was lost is asked about after this, then after twice the time, and so on until its deadline.
const DOUBT_PAUSE: Duration = Duration::from_secs(60);
/// A provider that says that a call lives is believed for this long since it started.
const ALIVE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
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
    pub providers_secret_id: String,
    pub api_urls: ApiUrls,
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
            patience: environment.seconds("INACTIVITY_TIMEOUT_SECONDS"),
            providers_secret_id: environment.text("PROVIDERS_SECRET_ID"),
            api_urls: ApiUrls::from_environment(&mut environment),
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
    pub secrets: ProviderSecrets,
    pub api: ProviderApi,
    pub policy: Policy,
    pub clock: Clock,
}

/// What one run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Calls that were due in the index.
    pub woken: u64,
    /// `deadline passed` events that were put into the inbox.
    pub deadlines_passed: u64,
    /// Requests that went to providers.
    pub lookups: u64,
    /// What they said that the call did not know, put into the inbox.
    pub lookup_events: u64,
    /// Claims whose lease had ended.
    pub claims_expired: u64,
    /// Calls that had been heard of since, and wake up later.
    pub rescheduled: u64,
    /// Minutes of the inbox that were looked at.
    pub swept_minutes: u64,
    /// Events that had never reached their call and were queued again.
    pub requeued: u64,
    /// Calls, minutes or events that must be tried again by the next run.
    pub failed: u64,
}

/// What becomes of an attempt whose patience has ended.
enum Resolution {
    /// The provider said something; true if the inbox did not have it.
    Stored(bool),
    DeadlinePassed,
    /// The provider is to be asked again.
    RetryAt(Timestamp),
    /// The provider was not asked: there was no time, or it was enough for one run.
    OverBudget,
}

/// What became of an ending that a provider told.
enum StoredEnding {
    New,
    /// The inbox had it since then, under this call or under another.
    Known {
        since: Timestamp,
    },
}

/// What became of the missing events of one call.
#[derive(Default)]
struct Requeued {
    events: u64,
    /// There was no time for all of them.
    left: bool,
}

/// What became of one call that was due.
#[derive(Default)]
struct WakeReport {
    deadlines_passed: u64,
    lookup_events: u64,
    claims_expired: u64,
    rescheduled: bool,
}

impl Reconciler {
    /// One run.
    ///
    /// # Errors
    /// The first error met, after everything that could be done was done.
    pub async fn run(&self, trace_id: &str) -> Result<Report, Error> {
        let started = self.clock.now();
        let mut report = Report::default();
        let mut first_error = None;
        // Neither starves the other: the sweep has the first half of the time, and what it leaves of it goes to the calls.
        if let Err(error) = self.sweep(&mut report, started.plus(RUN_MAX / 2)).await {
            report.failed += 1;
            first_error = Some(error);
        }
        if let Err(error) = self.wake(&mut report, started.plus(RUN_MAX), trace_id).await {
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
                ("deadlines_passed", report.deadlines_passed),
                ("lookups", report.lookups),
                ("lookup_events", report.lookup_events),
                ("claims_expired", report.claims_expired),
                ("rescheduled", report.rescheduled),
                ("swept_minutes", report.swept_minutes),
                ("requeued", report.requeued),
                ("failed", report.failed),
            ],
            ..Decision::default()
        };
        decision.log(now, first_error.is_some());
        first_error.map_or(Ok(report), Err)
    }

    fn is_over(&self, stop_at: Timestamp) -> bool {
        self.clock.now() >= stop_at
    }

    async fn wake(&self, report: &mut Report, stop_at: Timestamp, trace_id: &str) -> Result<(), Error> {
        let mut first_error = None;
        let providers = self.secrets.current(self.clock.now()).await;
        let lookups = &Lookups::new(&self.api, &providers, &self.clock, stop_at);
        // Each run starts with another shard, so that none is always the last.
        let first = minute_of(self.clock.now()).unsigned_abs();
        for shard in (first..first + WAKE_SHARDS).map(|shard| shard % WAKE_SHARDS) {
            let now = self.clock.now();
            let mut start = None;
            while !self.is_over(stop_at) {
                let (due, next) = match self
                    .calls
                    .wake_queue_page(WakeQueue::Reconcile, shard, TimeRange::UpTo(now), None, start)
                    .await
                {
                    Ok(page) => page,
                    Err(error) => {
                        report.failed += 1;
                        first_error.get_or_insert(error);
                        break;
                    }
                };
                let woken: Vec<Option<Result<WakeReport, Error>>> = stream::iter(due)
                    .map(|id| async move {
                        if self.is_over(stop_at) { None } else { Some(self.wake_call(&id, lookups, trace_id).await) }
                    })
                    .buffered(CONCURRENCY)
                    .collect()
                    .await;
                for woken in woken.into_iter().flatten() {
                    report.woken += 1;
                    match woken {
                        Ok(woken) => {
                            report.deadlines_passed += woken.deadlines_passed;
                            report.lookup_events += woken.lookup_events;
                            report.claims_expired += woken.claims_expired;
                            report.rescheduled += u64::from(woken.rescheduled);
                        }
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
        report.lookups += lookups.sent();
        first_error.map_or(Ok(()), Err)
    }

    /// A call that is due by the index: what its provider says and which deadlines have passed become events; or it has been
    /// heard of since, and wakes up later.
    async fn wake_call(&self, call_id: &CallId, lookups: &Lookups<'_>, trace_id: &str) -> Result<WakeReport, Error> {
        let now = self.clock.now();
        let mut woken = WakeReport::default();
        // The index may be behind the row, and the row may have been removed.
        let Some(call) = self.calls.get_call(call_id).await? else { return Ok(woken) };
        if call.wake_at.is_none_or(|at| at > now) || call.is_pending() {
            return Ok(woken);
        }
        let mut new = false;
        let mut found = false;
        // When to look again at what nothing could be said of.
        let mut look_at: Option<Timestamp> = None;
        if let Some(expired) = call.claim_expired_event(now) {
            new |= self.submit(&expired, trace_id).await?;
            found = true;
            woken.claims_expired += 1;
        }
        let overdue = call.overdue_attempts(&self.policy, now);
        for attempt in &overdue {
            match self.settle(&call, attempt, lookups, now, trace_id).await? {
                Resolution::Stored(is_new) => {
                    new |= is_new;
                    found = true;
                    woken.lookup_events += 1;
                }
                Resolution::DeadlinePassed => {
                    new |= self.submit(&call.deadline_passed_event(attempt, now), trace_id).await?;
                    found = true;
                    woken.deadlines_passed += 1;
                }
                Resolution::RetryAt(at) => look_at = Some(look_at.map_or(at, |set| set.min(at))),
                // It stays the next that is due.
                Resolution::OverBudget => return Ok(woken),
            }
        }
        for slot in call.in_doubt() {
            let (Some(key), Some(dialled_at)) = (&slot.key, slot.dialled_at) else { continue };
            if overdue.iter().any(|attempt| call.attempt_records.get(attempt.index) == Some(slot)) {
                continue;
            }
            if now < dialled_at.plus(DOUBT_PAUSE) {
                look_at = Some(dialled_at.plus(DOUBT_PAUSE));
                continue;
            }
            match lookups.look_up(&call, key, None, Some(dialled_at), now).await {
                LookupOutcome::Ended(event, answered) => {
                    let learned = self.store_ending(&call, slot, &event, answered, now, trace_id).await?;
                    new |= matches!(learned, StoredEnding::New);
                    found = true;
                    woken.lookup_events += 1;
                }
                LookupOutcome::Alive(provider_call_id) => {
                    new |= self.store_provider_call_id(&call, slot, &provider_call_id, now, trace_id).await?;
                    found = true;
                    woken.lookup_events += 1;
                }
                LookupOutcome::OverBudget => return Ok(woken),
                // That it is not found counts only at the deadline: it may be on its way into the provider's books.
                LookupOutcome::NotFound | LookupOutcome::Unavailable | LookupOutcome::RetryLater => {
                    let elapsed = Duration::from_millis(now.millis_since(dialled_at).unsigned_abs());
                    look_at = Some(now.plus(elapsed).min(dialled_at.plus(self.policy.inactivity_timeout)));
                }
            }
        }
        // Whoever changes the row meanwhile decides when it wakes. What was said before and is still not folded waits in the queue:
        // saying it every minute would only add to it.
        let next = if found && !new { Some(now.plus(UNFOLDED_PAUSE)) } else { look_at };
        let next = if found { next } else { next.or_else(|| self.next_due(&call, now)) };
        if let Some(next) = next {
            woken.rescheduled = self.calls.set_wake_at(&call, next).await? == StoreOutcome::Committed;
        }
        Ok(woken)
    }

    /// When a call that has been heard of since wakes up: a dial in doubt before its patience ends.
    fn next_due(&self, call: &Call, now: Timestamp) -> Option<Timestamp> {
        call.next_wake_at(&self.policy).map(|next| next.max(now.plus(DOUBT_PAUSE)))
    }

    /// What becomes of an attempt whose patience has ended.
    async fn settle(
        &self,
        call: &Call,
        attempt: &AttemptState,
        lookups: &Lookups<'_>,
        now: Timestamp,
        trace_id: &str,
    ) -> Result<Resolution, Error> {
        let Some(slot) = call.attempt_records.get(attempt.index) else { return Ok(Resolution::DeadlinePassed) };
        let Some(key) = &slot.key else { return Ok(Resolution::DeadlinePassed) };
        let overdue_since = attempt.last_event_at.plus(self.policy.inactivity_timeout);
        match lookups.look_up(call, key, slot.provider_call_id.as_deref(), slot.dialled_at, now).await {
            // It has said so before, and that was not enough.
            LookupOutcome::Ended(event, _) if call.contains_event(&event.event_id) => Ok(Resolution::DeadlinePassed),
            LookupOutcome::Ended(event, answered) => {
                match self.store_ending(call, slot, &event, answered, now, trace_id).await? {
                    StoredEnding::New => Ok(Resolution::Stored(true)),
                    // It had its time to be folded, and is not: it belongs to another call, or does not fit. It is queued before the
                    // deadline once more, and if it is folded after all, it stands.
                    StoredEnding::Known { since } if since.max(overdue_since).plus(UNFOLDED_PAUSE) <= now => {
                        Ok(Resolution::DeadlinePassed)
                    }
                    StoredEnding::Known { .. } => Ok(Resolution::Stored(false)),
                }
            }
            LookupOutcome::Alive(_) if attempt.started_at.plus(ALIVE_MAX) <= now => Ok(Resolution::DeadlinePassed),
            LookupOutcome::Alive(provider_call_id) => {
                let alive = self.submit(&call.alive_event(attempt, now), trace_id).await?;
                let id = self.store_provider_call_id(call, slot, &provider_call_id, now, trace_id).await?;
                Ok(Resolution::Stored(alive || id))
            }
            LookupOutcome::OverBudget => Ok(Resolution::OverBudget),
            LookupOutcome::NotFound | LookupOutcome::Unavailable => Ok(Resolution::DeadlinePassed),
            // A provider that is down for an hour ends no call; one that is down for as long again as patience does.
            LookupOutcome::RetryLater if now < overdue_since.plus(self.policy.inactivity_timeout) => {
                let elapsed = Duration::from_millis(now.millis_since(overdue_since).unsigned_abs());
                Ok(Resolution::RetryAt(now.plus(elapsed.max(DOUBT_PAUSE))))
            }
            LookupOutcome::RetryLater => Ok(Resolution::DeadlinePassed),
        }
    }

    /// Puts the ending that a provider told of an attempt into the inbox.
    async fn store_ending(
        &self,
        call: &Call,
        slot: &AttemptRecord,
        event: &ProviderEvent,
        answered: Answered,
        now: Timestamp,
        trace_id: &str,
    ) -> Result<StoredEnding, Error> {
        let provider_call_id = event.provider_call_id.as_deref();
        if let Some(provider_call_id) = provider_call_id.filter(|_| slot.provider_call_id.is_none()) {
            self.write_alias(call, slot, provider_call_id, None, now).await?;
        }
        let outcome = submit(&self.inbox, &self.queue, &answered.into_new_event(event, trace_id), event).await?;
        let PutOutcome::Duplicate { stored, .. } = outcome else { return Ok(StoredEnding::New) };
        // Its webhook came without our ids. What was queued again went to the call that it made.
        if let Some(provider_call_id) = provider_call_id.filter(|_| stored.call_id.as_ref() != Some(&call.call_id)) {
            self.write_alias(call, slot, provider_call_id, Some(&event.event_id), now).await?;
        }
        Ok(StoredEnding::Known { since: stored.received_at })
    }

    /// What a provider calls an attempt that it took, and whose answer to the dial was lost, goes into the inbox. True if it is new
    /// there; nothing is learned of an attempt that was not dialled, or whose id is known.
    async fn store_provider_call_id(
        &self,
        call: &Call,
        slot: &AttemptRecord,
        provider_call_id: &str,
        now: Timestamp,
        trace_id: &str,
    ) -> Result<bool, Error> {
        let (Some(key), Some(_), None) = (&slot.key, slot.dialled_at, &slot.provider_call_id) else { return Ok(false) };
        self.write_alias(call, slot, provider_call_id, None, now).await?;
        self.submit(&call.dial_accepted_event(key, provider_call_id, now), trace_id).await
    }

    /// Writes the alias of an attempt that we dialled. What came for it before goes to its call now, and with it this `event`. Of an
    /// attempt that others placed there is none: its call may be the very one that the provider's id makes.
    async fn write_alias(
        &self,
        call: &Call,
        slot: &AttemptRecord,
        provider_call_id: &str,
        event: Option<&EventId>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let (Some(key), Some(_)) = (&slot.key, slot.dialled_at) else { return Ok(()) };
        let from = CallId::new(derived_call_id(call.provider, provider_call_id));
        let alias = Alias { call_id: call.call_id.clone(), attempt: key.clone() };
        let mut orphaned_events = self.calls.write_alias(&from, &alias, now).await?;
        orphaned_events.extend(event.cloned());
        adopt(&self.inbox, &self.queue, orphaned_events, &alias).await
    }

    /// Puts what Switchhook itself found out into the inbox. True if it is new there. Whether it is or was found before, it is
    /// queued now; the fold takes it once.
    async fn submit(&self, event: &ProviderEvent, trace_id: &str) -> Result<bool, Error> {
        let outcome = submit(&self.inbox, &self.queue, &NewEvent::from_switchhook(event, trace_id)?, event).await?;
        Ok(matches!(outcome, PutOutcome::Stored))
    }

    /// Looks once at each minute of the inbox, two minutes behind.
    async fn sweep(&self, report: &mut Report, stop_at: Timestamp) -> Result<(), Error> {
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
