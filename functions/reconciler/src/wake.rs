//! The wake-up: looks up the attempts of every call that is due, and stores what it finds as events.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use switchhook_aws::Error;
use switchhook_aws::calls::{StoreOutcome, TimeRange, WAKE_SHARDS, WakeQueue};
use switchhook_aws::inbox::minute_of;
use switchhook_domain::{AttemptState, Call, CallId, Timestamp};

use crate::findings::{ALIVE_MAX, StoredEnding};
use crate::lookup::{LookupOutcome, Lookups};
use crate::reconciler::{Reconciler, Report};

/// Calls that are worked on at once.
const CONCURRENCY: usize = 16;
/// A dial whose answer was lost is asked about after this, then after twice the time, and so on until its deadline.
const DOUBT_PAUSE: Duration = Duration::from_secs(60);
/// When a deadline that was found before is not folded yet, its call is looked at again after this.
const UNFOLDED_PAUSE: Duration = Duration::from_secs(5 * 60);

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

/// What became of one call that was due.
#[derive(Default)]
struct WakeReport {
    deadlines_passed: u64,
    lookup_events: u64,
    claims_expired: u64,
    rescheduled: bool,
}

impl Reconciler {
    pub(crate) async fn wake(&self, report: &mut Report, stop_at: Timestamp, trace_id: &str) -> Result<(), Error> {
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
}
