//! The drift check: looks up calls that need no repair, and reports where their provider disagrees.
//!
//! **A repair takes the same path as every event.** An ending that the call does not have becomes an event in the inbox. Then
//! a `drift_found` event makes the consumer refold the call from the inbox. The call announces `call.drift_repaired`, and the
//! metric `drifted` counts it.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use serde::Serialize;
use switchhook_aws::Error;
use switchhook_aws::calls::{TimeRange, WakeQueue, wake_shards_from};
use switchhook_aws::inbox::minute_of;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{
    ALIVE_MAX, AttemptKey, AttemptRecord, AttemptState, Call, CallId, Policy, Provider, ProviderEvent, Timestamp, fold,
};

use crate::lookup::{LookupOutcome, Lookups, ReportedEnding};
use crate::reconciler::{RUN_MAX, Reconciler, RequestStats};

/// Time for which a settled call is checked.
const SETTLED_FOR: Duration = Duration::from_secs(6 * 60 * 60);
/// Time after an event during which a disagreement is not drift yet: the webhook may still be on its way.
pub const DELIVERY_MARGIN: Duration = Duration::from_secs(10 * 60);
/// Limit on the calls that one run checks per wake queue and shard.
pub const CALLS_PER_SHARD: i32 = 25;
/// Limit on the attempts per call that are looked up, the latest first.
const ATTEMPTS_MAX: usize = 3;
/// Calls checked at the same time.
const CONCURRENCY: usize = 8;

/// Result of one drift check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DriftReport {
    /// Calls that were checked.
    pub checked: u64,
    /// Requests to providers.
    pub lookups: u64,
    /// Disagreements found: attempts that the provider reports differently, and rows that do not match their own events.
    pub drifted: u64,
    /// Calls and index pages that failed with an error.
    pub failed: u64,
    /// 1 if the check had no time or no requests left for all calls.
    pub budget_used_up: u64,
    pub requests: RequestStats,
}

/// Disagreement between a provider and a call about one attempt.
enum Drift {
    /// The provider reports another ending than the call shows. The text is the lifecycle that the report leads to.
    Ended(ReportedEnding, &'static str),
    /// The provider reports the attempt alive, and the call shows that it ended.
    Alive,
}

impl Drift {
    const fn provider_lifecycle(&self) -> &'static str {
        match self {
            Self::Ended(_, lifecycle) => lifecycle,
            Self::Alive => "alive",
        }
    }
}

impl Reconciler {
    /// Checks open calls and calls that were settled lately, as many as there is time for.
    ///
    /// # Errors
    /// Returns the first error, after the run has tried every other call.
    pub async fn check_drift(&self, trace_id: &str) -> Result<DriftReport, Error> {
        let started = self.clock.now();
        let accounts = self.dial_accounts.current(started).await;
        let stop_at = started.plus(RUN_MAX);
        let lookups = &Lookups::new(&self.api, &accounts, &self.clock, stop_at);
        let mut report = DriftReport::default();
        let mut first_error = None;
        let first = minute_of(started).unsigned_abs() / 60;
        for shard in wake_shards_from(first) {
            let since = started.minus(SETTLED_FOR);
            // Every open call wakes up within its inactivity timeout, so this range holds all of them.
            let tomorrow = started.plus(Duration::from_secs(24 * 60 * 60));
            for (queue, range) in
                [(WakeQueue::Settled, TimeRange::Since(since)), (WakeQueue::Reconcile, TimeRange::UpTo(tomorrow))]
            {
                if self.is_time_up(stop_at) {
                    break;
                }
                let page = self.calls.wake_queue_pages(queue, shard, range, Some(CALLS_PER_SHARD), None).next().await;
                let calls = match page {
                    Ok(page) => page.map(|page| page.items).unwrap_or_default(),
                    Err(error) => {
                        report.failed += 1;
                        first_error.get_or_insert(error);
                        continue;
                    }
                };
                let checked: Vec<Option<Result<u64, Error>>> = stream::iter(calls)
                    .map(|id| async move {
                        if self.is_time_up(stop_at) {
                            None
                        } else {
                            Some(self.check_call(&id, lookups, trace_id).await)
                        }
                    })
                    .buffered(CONCURRENCY)
                    .collect()
                    .await;
                for checked in checked.into_iter().flatten() {
                    report.checked += 1;
                    match checked {
                        Ok(drifted) => report.drifted += drifted,
                        Err(error) => {
                            report.failed += 1;
                            first_error.get_or_insert(error);
                        }
                    }
                }
            }
        }
        report.lookups = lookups.sent();
        report.requests = self.log_lookups(lookups, trace_id);
        report.budget_used_up = u64::from(lookups.is_over_budget() || self.is_time_up(stop_at));
        self.log_drift(&report, first_error.as_ref(), started, trace_id);
        first_error.map_or(Ok(report), Err)
    }

    /// Checks one call. Returns the number of disagreements that were not reported before.
    async fn check_call(&self, call_id: &CallId, lookups: &Lookups<'_>, trace_id: &str) -> Result<u64, Error> {
        let now = self.clock.now();
        let Some(call) = self.calls.get_call(call_id).await? else { return Ok(0) };
        let mut drifted = 0;
        for attempt in call.attempts().iter().rev().take(ATTEMPTS_MAX) {
            let Some(record) = call.attempt_records.get(attempt.index) else { continue };
            if record.key.is_none() || record.provider_call_id.is_none() {
                continue;
            }
            let drift = match lookups.look_up(&call, record, now).await {
                LookupOutcome::Ended(ending) if is_recent(&ending.event, attempt, now) => continue,
                LookupOutcome::Ended(ending) => match reported_lifecycle(&call, attempt, &ending.event, &self.policy) {
                    Some(lifecycle) if lifecycle != attempt.lifecycle_label() => Drift::Ended(ending, lifecycle),
                    Some(_) | None => continue,
                },
                LookupOutcome::Alive(_) if !attempt.has_ended() => continue,
                // The provider may need a moment to register an ending.
                LookupOutcome::Alive(_) if attempt.last_event_at.plus(DELIVERY_MARGIN) >= now => continue,
                // No call lasts this long, so the provider's report is not trusted.
                LookupOutcome::Alive(_) if attempt.started_at.plus(ALIVE_MAX) <= now => continue,
                LookupOutcome::Alive(_) => Drift::Alive,
                LookupOutcome::NotFound | LookupOutcome::Unavailable | LookupOutcome::RetryLater => continue,
                LookupOutcome::OverBudget => break,
            };
            if self.repair(&call, attempt, record, drift, now, trace_id).await? {
                drifted += 1;
            }
        }
        if !call.matches_history()
            && self.request_refold(&call, &call.drift_fingerprint("itself"), now, trace_id).await?
        {
            drifted += 1;
        }
        Ok(drifted)
    }

    /// Stores a disagreement as events, and logs it. Returns false if it was reported before.
    async fn repair(
        &self,
        call: &Call,
        attempt: &AttemptState,
        record: &AttemptRecord,
        drift: Drift,
        now: Timestamp,
        trace_id: &str,
    ) -> Result<bool, Error> {
        let disagreement = call.drift_fingerprint(drift.provider_lifecycle());
        if call.contains_event(&call.drift_found_event(&disagreement, now).event_id) {
            return Ok(false);
        }
        // The provider's report comes before the request to refold: it may be all that the call lacks.
        match drift {
            Drift::Ended(ending, _) => {
                self.store_ending(call, record, &ending, now, trace_id).await?;
            }
            // The attempt was ended too early. This event restarts its inactivity timeout.
            Drift::Alive => {
                self.submit(&call.alive_event(attempt, now), trace_id).await?;
            }
        }
        self.request_refold(call, &disagreement, now, trace_id).await?;
        let decision = Decision {
            function: "reconciler",
            message: "provider disagrees with call",
            action_taken: "drift_found",
            provider: attempt.provider.map(Provider::as_str),
            call_id: Some(call.call_id.as_str()),
            attempt: record.key.as_ref().map(AttemptKey::as_str),
            cause: Some(attempt.lifecycle_label()),
            trace_id: Some(trace_id),
            ..Decision::default()
        };
        decision.log(now, true);
        Ok(true)
    }

    /// Makes the consumer refold the call, once per disagreement. Returns false if this disagreement was reported before.
    async fn request_refold(
        &self,
        call: &Call,
        disagreement: &str,
        now: Timestamp,
        trace_id: &str,
    ) -> Result<bool, Error> {
        let event = call.drift_found_event(disagreement, now);
        if call.contains_event(&event.event_id) {
            return Ok(false);
        }
        self.submit(&event, trace_id).await?;
        Ok(true)
    }

    fn log_drift(&self, report: &DriftReport, error: Option<&Error>, started: Timestamp, trace_id: &str) {
        let now = self.clock.now();
        let counts = vec![
            ("drift_checked", report.checked),
            ("drift_lookups", report.lookups),
            ("drifted", report.drifted),
            ("failed", report.failed),
            ("budget_used_up", report.budget_used_up),
        ];
        let decision = Decision {
            function: "reconciler",
            message: "drift check done",
            action_taken: if error.is_some() { "drift_run_failed" } else { "drift_run" },
            duration_ms: Some(now.millis_since(started)),
            trace_id: Some(trace_id),
            counts,
            ..Decision::from_error(error)
        };
        decision.log(now, error.is_some());
    }
}

/// Label of the lifecycle of an attempt, as its provider reports it. `None` if the report adds nothing to what the call knows.
///
/// A report that says how the attempt ended counts alone, so that it can disagree with all that the call shows. One that does not
/// say whether anybody answered counts together with the events of the call. Example: Telnyx's `normal_clearing`.
fn reported_lifecycle(
    call: &Call,
    attempt: &AttemptState,
    event: &ProviderEvent,
    policy: &Policy,
) -> Option<&'static str> {
    let fold_into = |call| fold(call, std::slice::from_ref(event), policy, event.received_at).transition;
    let alone = fold_into(None)?.call.attempts().pop()?;
    if alone.has_ended() {
        return Some(alone.lifecycle_label());
    }
    let attempts = fold_into(Some(call))?.call.attempts();
    attempts.iter().find(|other| other.index == attempt.index).map(AttemptState::lifecycle_label)
}

/// True if the ending happened so lately that its webhook may still be on its way. Retell reports no time for a call that nobody
/// answered. Such an ending comes soon after the last event of the attempt.
fn is_recent(event: &ProviderEvent, attempt: &AttemptState, now: Timestamp) -> bool {
    let occurred_at = event.call_events.iter().filter_map(|event| event.occurred_at).max();
    occurred_at.unwrap_or(attempt.last_event_at).plus(DELIVERY_MARGIN) > now
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use switchhook_domain::ProviderSet;
    use switchhook_providers::{Reading, VerifiedWebhook, read};

    use super::*;

    const POLICY: Policy = Policy { inactivity_timeout: Duration::from_secs(900), outcome_providers: ProviderSet::ALL };

    /// Event of the same Telnyx call. `id` is Telnyx's own id of the event.
    fn telnyx(event: &str, id: &str, cause: Option<&str>) -> ProviderEvent {
        let body = json!({"data": {
            "record_type": "event", "event_type": event, "id": id, "occurred_at": "2026-01-01T00:00:00Z",
            "payload": {"call_control_id": "v3:1", "direction": "outgoing", "hangup_cause": cause},
        }});
        let webhook = VerifiedWebhook::from_inbox(Provider::Telnyx, String::new(), body.to_string().into_bytes(), 0);
        match read(&webhook, Timestamp::from_millis(1_767_225_600_000)) {
            Reading::Event(event) => event,
            other @ (Reading::Recorded { .. } | Reading::Quarantined { .. }) => panic!("{other:?}"),
        }
    }

    /// Label that the call of these events shows, and the one that the report leads to.
    fn shown_and_reported(events: &[ProviderEvent], report: &ProviderEvent) -> (&'static str, Option<&'static str>) {
        let call = fold(None, events, &POLICY, report.received_at).transition.unwrap().call;
        let attempt = call.attempts().pop().unwrap();
        (attempt.lifecycle_label(), reported_lifecycle(&call, &attempt, report, &POLICY))
    }

    #[test]
    fn ending_that_does_not_say_whether_anybody_answered_is_read_with_the_answer_that_the_call_knows() {
        let answered = telnyx("call.answered", "a", None);
        let hangup = telnyx("call.hangup", "h", Some("normal_clearing"));
        // The call has this ending, and it completed the attempt.
        assert_eq!(shown_and_reported(&[answered.clone(), hangup.clone()], &hangup), ("completed", None));
        // The call lacks its ending.
        assert_eq!(shown_and_reported(std::slice::from_ref(&answered), &hangup), ("in_progress", Some("completed")));
        // Telnyx lists the hangup no more, and tells only that the call is over.
        let over = telnyx("call.hangup", "o", None);
        assert_eq!(shown_and_reported(&[answered, hangup], &over), ("completed", Some("completed")));
        let busy = telnyx("call.hangup", "b", Some("user_busy"));
        assert_eq!(shown_and_reported(&[busy], &over), ("busy", Some("busy")));
    }

    #[test]
    fn ending_that_says_how_the_attempt_ended_disagrees_with_another_ending() {
        let busy = telnyx("call.hangup", "b", Some("user_busy"));
        let timeout = telnyx("call.hangup", "t", Some("timeout"));
        assert_eq!(shown_and_reported(&[busy], &timeout), ("busy", Some("no_answer")));
    }
}
