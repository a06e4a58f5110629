//! The drift run: asks providers about calls that seem to be in order, and says where they disagree.
//!
//! **It repairs by the same path as everything else.** What a provider says and the call does not know becomes an event; what
//! the call knows and shows otherwise makes the consumer fold it again from the inbox. The report of it is an announcement of
//! the call, `call.drift_repaired`, and a metric.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use sha2::{Digest, Sha256};
use switchhook_aws::Error;
use switchhook_aws::calls::{TimeRange, WAKE_SHARDS, WakeQueue};
use switchhook_aws::inbox::minute_of;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{
    AttemptKey, AttemptRecord, AttemptState, Call, CallId, EventKind, Policy, ProviderEvent, Timestamp, fold,
};

use crate::findings::ALIVE_MAX;
use crate::lookup::{Answered, LookupOutcome, Lookups};
use crate::reconciler::{RUN_MAX, Reconciler};

/// Calls that were settled within this time are asked about.
const SETTLED_FOR: Duration = Duration::from_secs(6 * 60 * 60);
/// What a provider says of a time that is nearer is not drift yet: its webhook may be on the way.
const SLACK: Duration = Duration::from_secs(10 * 60);
/// Calls of each queue and shard that one run looks at.
const CALLS_PER_SHARD: i32 = 25;
/// Attempts of a call that are asked about: the latest ones.
const ATTEMPTS_MAX: usize = 3;
const CONCURRENCY: usize = 8;

/// What one drift run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriftReport {
    /// Calls that were looked at.
    pub checked: u64,
    /// Requests that went to providers.
    pub lookups: u64,
    /// Attempts of which the provider said otherwise.
    pub drifted: u64,
    /// Calls that must be looked at by the next run.
    pub failed: u64,
}

/// How a provider disagrees with a call about one of its attempts.
enum Drift {
    /// It ended, in another way than the call says; and how the answer alone shows it.
    Ended(Box<ProviderEvent>, Answered, &'static str),
    /// It lives, and the call says that it ended.
    Alive,
}

impl Drift {
    const fn theirs(&self) -> &'static str {
        match self {
            Self::Ended(_, _, theirs) => theirs,
            Self::Alive => "alive",
        }
    }
}

impl Reconciler {
    /// One drift run, over calls that are not settled and calls that lately were; over as many as there is time for.
    ///
    /// # Errors
    /// The first error met, after everything that could be done was done.
    pub async fn drift(&self, trace_id: &str) -> Result<DriftReport, Error> {
        let started = self.clock.now();
        let providers = self.secrets.current(started).await;
        let stop_at = started.plus(RUN_MAX);
        let lookups = &Lookups::new(&self.api, &providers, &self.clock, stop_at);
        let mut report = DriftReport::default();
        let mut first_error = None;
        let first = minute_of(started).unsigned_abs() / 60;
        for shard in (first..first + WAKE_SHARDS).map(|shard| shard % WAKE_SHARDS) {
            let since = started.minus(SETTLED_FOR);
            // The whole queue of what is not settled wakes within its patience; a day from now is later than all of it.
            let soon = started.plus(Duration::from_secs(24 * 60 * 60));
            for (queue, range) in
                [(WakeQueue::Settled, TimeRange::Since(since)), (WakeQueue::Reconcile, TimeRange::UpTo(soon))]
            {
                if self.is_over(stop_at) {
                    break;
                }
                let page = self.calls.wake_queue_page(queue, shard, range, Some(CALLS_PER_SHARD), None).await;
                let calls = match page {
                    Ok((calls, _)) => calls,
                    Err(error) => {
                        report.failed += 1;
                        first_error.get_or_insert(error);
                        continue;
                    }
                };
                let checked: Vec<Option<Result<u64, Error>>> = stream::iter(calls)
                    .map(|id| async move {
                        if self.is_over(stop_at) { None } else { Some(self.check(&id, lookups, trace_id).await) }
                    })
                    .buffered(CONCURRENCY)
                    .collect()
                    .await;
                for drifted in checked.into_iter().flatten() {
                    report.checked += 1;
                    match drifted {
                        Ok(count) => report.drifted += count,
                        Err(error) => {
                            report.failed += 1;
                            first_error.get_or_insert(error);
                        }
                    }
                }
            }
        }
        report.lookups = lookups.sent();
        self.log_drift(&report, first_error.as_ref(), started, trace_id);
        first_error.map_or(Ok(report), Err)
    }

    async fn check(&self, call_id: &CallId, lookups: &Lookups<'_>, trace_id: &str) -> Result<u64, Error> {
        let now = self.clock.now();
        let Some(call) = self.calls.get_call(call_id).await? else { return Ok(0) };
        let mut drifted = 0;
        for attempt in call.attempts().iter().rev().take(ATTEMPTS_MAX) {
            let Some(slot) = call.attempt_records.get(attempt.index) else { continue };
            let (Some(key), Some(provider_call_id)) = (&slot.key, &slot.provider_call_id) else { continue };
            let drift = match lookups.look_up(&call, key, Some(provider_call_id), slot.dialled_at, now).await {
                LookupOutcome::Ended(event, _) if happened_at(&event).is_some_and(|at| at.plus(SLACK) > now) => {
                    continue;
                }
                LookupOutcome::Ended(event, answered) => match lifecycle_of(&event, &self.policy) {
                    Some(theirs) if theirs != attempt.lifecycle_label() => Drift::Ended(event, answered, theirs),
                    Some(_) | None => continue,
                },
                // A call that ended a moment ago may still be told to live, and one that is told so for ever does not.
                LookupOutcome::Alive(_) if !attempt.has_ended() || attempt.last_event_at.plus(SLACK) >= now => continue,
                LookupOutcome::Alive(_) if attempt.started_at.plus(ALIVE_MAX) <= now => continue,
                LookupOutcome::Alive(_) => Drift::Alive,
                LookupOutcome::NotFound | LookupOutcome::Unavailable | LookupOutcome::RetryLater => continue,
                LookupOutcome::OverBudget => break,
            };
            if self.report_drift(&call, attempt, slot, drift, now, trace_id).await? {
                drifted += 1;
            }
        }
        if !call.matches_history() && self.report(&call, &fingerprint(&call, "itself"), now, trace_id).await? {
            drifted += 1;
        }
        Ok(drifted)
    }

    async fn report_drift(
        &self,
        call: &Call,
        attempt: &AttemptState,
        slot: &AttemptRecord,
        drift: Drift,
        now: Timestamp,
        trace_id: &str,
    ) -> Result<bool, Error> {
        let disagreement = fingerprint(call, drift.theirs());
        if call.contains_event(&call.drift_found_event(&disagreement, now).event_id) {
            return Ok(false);
        }
        // First what they say, then why the call is folded again: it may be all that was missing.
        match drift {
            Drift::Ended(event, answered, _) => {
                self.store_ending(call, slot, &event, answered, now, trace_id).await?;
            }
            // Its patience was given up too early: it has it anew.
            Drift::Alive => {
                self.submit(&call.alive_event(attempt, now), trace_id).await?;
            }
        }
        self.report(call, &disagreement, now, trace_id).await?;
        let decision = Decision {
            stage: "reconciler",
            message: "the provider says otherwise",
            action_taken: "drift_found",
            provider: Some(call.provider.as_str()),
            call_id: Some(call.call_id.as_str()),
            attempt: slot.key.as_ref().map(AttemptKey::as_str),
            cause: Some(attempt.lifecycle_label()),
            trace_id: Some(trace_id),
            ..Decision::default()
        };
        decision.log(now, true);
        Ok(true)
    }

    /// Has the call folded again from the inbox, once for each way in which it disagrees.
    async fn report(&self, call: &Call, what: &str, now: Timestamp, trace_id: &str) -> Result<bool, Error> {
        let event = call.drift_found_event(what, now);
        if call.contains_event(&event.event_id) {
            return Ok(false);
        }
        self.submit(&event, trace_id).await?;
        Ok(true)
    }

    fn log_drift(&self, report: &DriftReport, error: Option<&Error>, started: Timestamp, trace_id: &str) {
        let now = self.clock.now();
        let chain = error.map(Error::chain);
        let decision = Decision {
            stage: "reconciler",
            message: "looked for drift",
            action_taken: if error.is_some() { "drift_run_failed" } else { "drift_run" },
            cause: error.map(Error::operation),
            error: chain.as_deref(),
            duration_ms: Some(now.millis_since(started)),
            trace_id: Some(trace_id),
            counts: vec![
                ("drift_checked", report.checked),
                ("drift_lookups", report.lookups),
                ("drifted", report.drifted),
                ("failed", report.failed),
            ],
            ..Decision::default()
        };
        decision.log(now, error.is_some());
    }
}

/// How the provider's answer alone shows the attempt.
fn lifecycle_of(event: &ProviderEvent, policy: &Policy) -> Option<&'static str> {
    let alone = fold(None, std::slice::from_ref(event), policy, event.received_at).transition?.call;
    alone.attempts().last().map(AttemptState::lifecycle_label)
}

fn happened_at(event: &ProviderEvent) -> Option<Timestamp> {
    event.call_events.iter().filter_map(|e| e.occurred_at).max()
}

/// Of how a row disagrees with what: by it the same disagreement, found again, is known, and one after a repair is another.
fn fingerprint(call: &Call, theirs: &str) -> String {
    let mut hasher = Sha256::new();
    // What says that the patience goes on is of how often they were asked, and no other disagreement.
    let is_said = |kind: EventKind| kind != EventKind::DriftFound && kind != EventKind::Alive;
    for entry in call.history.iter().filter(|entry| is_said(entry.event.kind)) {
        hasher.update(format!("{} {} {:?}\n", entry.source_event_id, entry.event.kind, entry.event.occurred_at));
    }
    let repaired = call.announcements.iter().filter(|said| said.kind.is_drift_repaired()).count();
    hasher.update(format!("{} {repaired} {theirs}", call.job.as_str()));
    let mut digits = hex::encode(hasher.finalize());
    digits.truncate(16);
    digits
}
