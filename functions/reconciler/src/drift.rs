//! The drift check: looks up calls that need no repair, and reports where their provider disagrees.
//!
//! **Each settled call is looked at once.** A cursor per shard walks the settled calls in the order in which they were settled. The
//! hourly run moves its target to [`DELIVERY_MARGIN`] before now and begins the walk. If calls are left over, because no time or no
//! requests are left, the runs of the following minutes go on. Calls that were settled more than [`LAG_MAX`] ago are left out, so
//! that the walk never falls behind for ever. With more calls than the providers may be asked about, it looks at the first ones of
//! each minute. The metric `drift_skipped_ms` tells how much of the time was left out.
//!
//! **Open calls are looked at in turn**, a limited number per shard and hour, because each wakes up at its own time.
//!
//! **A repair takes the same path as every event.** An ending that the call does not have becomes an event in the inbox. Then
//! a `drift_found` event makes the consumer refold the call from the inbox. The call announces `call.drift_repaired`, and the
//! metric `drifted` counts it.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use serde::Serialize;
use switchhook_aws::Error;
use switchhook_aws::calls::{WakeEntry, WakeQueue};
use switchhook_aws::inbox::{DriftCursor, minute_of};
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{
    ALIVE_MAX, AttemptKey, AttemptRecord, AttemptState, Call, CallId, Policy, Provider, ProviderEvent, Timestamp, fold,
};

use crate::findings::StoredEnding;
use crate::lookup::{LookupOutcome, Lookups, ReportedEnding, Urgency};
use crate::reconciler::{RUN_MAX, Reconciler, RequestStats};

/// Longest time after which a settled call is still looked at.
const LAG_MAX: Duration = Duration::from_secs(6 * 60 * 60);
/// Time before the first check of a stack since which settled calls are looked at.
const FIRST_LOOK_BACK: Duration = Duration::from_secs(2 * 60 * 60);
/// Time after an event during which a disagreement is not drift yet: the webhook may still be on its way.
const DELIVERY_MARGIN: Duration = Duration::from_secs(10 * 60);
/// Settled calls that are read from the index at once.
const PAGE: i32 = 100;
/// Limit on the open calls that one hourly run looks at per shard.
const OPEN_CALLS: i32 = 100;
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
    /// Time whose settled calls were left out because the check fell behind, in milliseconds. The sum of all shards.
    pub skipped_ms: u64,
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

/// Result of looking at one call.
#[derive(Default)]
struct CheckedCall {
    /// Disagreements that were not reported before.
    drifted: u64,
    /// True if the provider was not asked, because no time or no requests are left.
    is_postponed: bool,
    /// Provider that gave no usable answer.
    unanswered_by: Option<Provider>,
}

/// A run of the drift check.
struct DriftRun<'a> {
    lookups: &'a Lookups<'a>,
    trace_id: &'a str,
    report: DriftReport,
    first_error: Option<Error>,
    /// True if a provider has answered no lookup lately.
    is_provider_failing: bool,
}

impl DriftRun<'_> {
    fn add_error(&mut self, error: Error) {
        self.report.failed += 1;
        self.first_error.get_or_insert(error);
    }
}

impl Reconciler {
    /// Begins the hourly check: looks at calls that were settled since the last one, and at open calls, as many as there is time
    /// for.
    ///
    /// # Errors
    /// Returns the first error, after the run has tried every other call.
    pub async fn check_drift(&self, trace_id: &str) -> Result<DriftReport, Error> {
        let started = self.clock.now();
        let target = started.minus(DELIVERY_MARGIN);
        let mut cursors = Vec::new();
        let mut first_error = None;
        for shard in self.calls.wake_shards_from(minute_of(started).unsigned_abs() / 60) {
            match self.inbox.drift_cursor(shard).await {
                Ok(cursor) => {
                    let mut cursor = cursor.unwrap_or(DriftCursor::starting_at(started.minus(FIRST_LOOK_BACK)));
                    cursor.target = cursor.target.max(target);
                    cursors.push((shard, cursor));
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        self.walk(cursors, true, (started, started.plus(RUN_MAX)), first_error, trace_id).await
    }

    /// Goes on with the hourly check, if it has left calls over. Each minute belongs to one shard, so that an idle minute costs one
    /// read.
    pub(crate) async fn continue_drift_check(&self, stop_at: Timestamp, trace_id: &str) -> Result<(), Error> {
        let started = self.clock.now();
        let Some(shard) = self.calls.wake_shards_from(minute_of(started).unsigned_abs()).next() else { return Ok(()) };
        match self.inbox.drift_cursor(shard).await?.filter(DriftCursor::is_behind) {
            Some(cursor) => {
                self.walk(vec![(shard, cursor)], false, (started, stop_at), None, trace_id).await.map(|_| ())
            }
            None => Ok(()),
        }
    }

    /// Looks at open calls if `with_open`, and then at the settled calls after these cursors, one page of each shard in turn. Logs
    /// the run.
    async fn walk(
        &self,
        mut cursors: Vec<(u64, DriftCursor)>,
        with_open: bool,
        (started, stop_at): (Timestamp, Timestamp),
        first_error: Option<Error>,
        trace_id: &str,
    ) -> Result<DriftReport, Error> {
        let accounts = self.dial_accounts.current(started).await;
        let lookups = &self.lookups(&accounts, stop_at);
        let report = DriftReport { failed: u64::from(first_error.is_some()), ..DriftReport::default() };
        let mut run = DriftRun { lookups, trace_id, report, first_error, is_provider_failing: false };
        if with_open {
            let mut opened = Vec::new();
            for (shard, mut cursor) in cursors {
                self.check_open(shard, &mut cursor, &mut run).await;
                // From now on, the runs of the next minutes know the target, even if this one ends early.
                if let Err(error) = self.inbox.set_drift_cursor(shard, &cursor).await {
                    run.add_error(error);
                }
                opened.push((shard, cursor));
            }
            cursors = opened;
        }
        while !cursors.is_empty() && !lookups.is_time_up() {
            let mut behind = Vec::new();
            for (shard, mut cursor) in cursors {
                if self.check_settled(shard, &mut cursor, &mut run).await {
                    behind.push((shard, cursor));
                }
            }
            cursors = behind;
        }
        let DriftRun { mut report, first_error, .. } = run;
        report.lookups = lookups.sent();
        report.requests = self.finish_lookups(lookups, trace_id).await;
        report.budget_used_up = u64::from(lookups.is_over_budget() || lookups.is_time_up());
        self.log_drift(&report, first_error.as_ref(), started, trace_id);
        first_error.map_or(Ok(report), Err)
    }

    /// Looks at the next page of settled calls, and stores the cursor. Returns true if there are more and they can be looked at
    /// now.
    async fn check_settled(&self, shard: u64, cursor: &mut DriftCursor, run: &mut DriftRun<'_>) -> bool {
        let oldest = self.clock.now().minus(LAG_MAX);
        if cursor.settled_until < oldest {
            run.report.skipped_ms += oldest.millis_since(cursor.settled_until).unsigned_abs();
            (cursor.settled_until, cursor.settled_call) = (oldest, None);
        }
        if !cursor.is_behind() || run.lookups.is_time_up() {
            return false;
        }
        let range = cursor.settled_until..=cursor.target;
        let after = cursor.settled_call.clone().map(|call_id| WakeEntry { call_id, wake_at: cursor.settled_until });
        let page = self.calls.wake_entries(WakeQueue::Settled, shard, range, false, PAGE, after.as_ref()).await;
        let (entries, is_more) = match page {
            Ok(page) => page,
            Err(error) => {
                run.add_error(error);
                return false;
            }
        };
        run.is_provider_failing = false;
        let checked = self.check_calls(&entries, run).await;
        let is_done = checked == entries.len();
        if is_done && !is_more {
            (cursor.settled_until, cursor.settled_call) = (cursor.target.plus(Duration::from_millis(1)), None);
        } else if let Some(last) = checked.checked_sub(1).and_then(|last| entries.get(last)) {
            (cursor.settled_until, cursor.settled_call) = (last.wake_at, Some(last.call_id.clone()));
        }
        if !is_done && run.is_provider_failing {
            // The next hourly run goes on. Until then, the provider is left alone.
            cursor.target = cursor.settled_until;
        }
        if let Err(error) = self.inbox.set_drift_cursor(shard, cursor).await {
            run.add_error(error);
            return false;
        }
        is_done && is_more
    }

    /// Looks at the next open calls of a shard.
    async fn check_open(&self, shard: u64, cursor: &mut DriftCursor, run: &mut DriftRun<'_>) {
        // Every open call wakes up within its inactivity timeout, so this range holds all of them.
        let range = Timestamp::from_millis(0)..=self.clock.now().plus(Duration::from_secs(24 * 60 * 60));
        let mut left = OPEN_CALLS;
        let first = cursor.open.as_ref().and_then(|(queue, _)| WakeQueue::OPEN.iter().position(|open| open == queue));
        for queue in WakeQueue::OPEN.into_iter().skip(first.unwrap_or(0)) {
            if run.lookups.is_time_up() || left == 0 {
                return;
            }
            let after = cursor.open.take().filter(|(of, _)| *of == queue).map(|(_, entry)| entry);
            let page = self.calls.wake_entries(queue, shard, range.clone(), false, left, after.as_ref()).await;
            let (entries, is_more) = match page {
                Ok(page) => page,
                Err(error) => return run.add_error(error),
            };
            let checked = self.check_calls(&entries, run).await;
            if checked < entries.len() || is_more {
                let last = checked.checked_sub(1).map_or(after, |last| entries.get(last).cloned());
                cursor.open = last.map(|last| (queue, last));
                return;
            }
            left -= i32::try_from(checked).unwrap_or(left);
        }
    }

    /// Looks at calls, and adds them to the report. Returns the number of calls before the first that was postponed.
    async fn check_calls(&self, entries: &[WakeEntry], run: &mut DriftRun<'_>) -> usize {
        let (lookups, trace_id) = (run.lookups, run.trace_id);
        let ids: Vec<CallId> = entries.iter().map(|entry| entry.call_id.clone()).collect();
        let checked: Vec<Option<Result<CheckedCall, Error>>> = stream::iter(ids)
            .map(|id| async move {
                if lookups.is_time_up() { None } else { Some(self.check_call(&id, lookups, trace_id).await) }
            })
            .buffered(CONCURRENCY)
            .collect()
            .await;
        // A provider that failed last may be down: its calls are looked at later. A single call without an answer is passed over.
        let is_unanswered = |by: Option<Provider>| by.is_some_and(|provider| lookups.has_failed_last(provider));
        let is_left = |checked: &Option<Result<CheckedCall, Error>>| match checked {
            None => true,
            Some(Ok(checked)) => checked.is_postponed || is_unanswered(checked.unanswered_by),
            Some(Err(_)) => false,
        };
        let before = checked.iter().position(is_left).unwrap_or(checked.len());
        run.is_provider_failing |= checked.iter().flatten().flatten().any(|call| is_unanswered(call.unanswered_by));
        for checked in checked.into_iter().flatten() {
            match checked {
                Ok(checked) => {
                    let is_left = checked.is_postponed || is_unanswered(checked.unanswered_by);
                    run.report.checked += u64::from(!is_left);
                    run.report.drifted += checked.drifted;
                }
                Err(error) => {
                    run.report.checked += 1;
                    run.add_error(error);
                }
            }
        }
        before
    }

    /// Checks one call.
    async fn check_call(&self, call_id: &CallId, lookups: &Lookups<'_>, trace_id: &str) -> Result<CheckedCall, Error> {
        let now = self.clock.now();
        let mut checked = CheckedCall::default();
        let Some(call) = self.calls.get_call(call_id).await? else { return Ok(checked) };
        for attempt in call.attempts().iter().rev().take(ATTEMPTS_MAX) {
            let Some(record) = call.attempt_records.get(attempt.index) else { continue };
            if record.key.is_none() || record.provider_call_id.is_none() {
                continue;
            }
            let drift = match lookups.look_up(&call, record, Urgency::Drift, now).await? {
                LookupOutcome::Ended(ending) => {
                    let events = ending.events();
                    if events.iter().any(|event| is_recent(event, attempt, now)) {
                        continue;
                    }
                    match reported_lifecycle(&call, attempt, &events, &self.policy) {
                        Some(lifecycle) if lifecycle != attempt.lifecycle_label() => Drift::Ended(ending, lifecycle),
                        Some(_) | None => continue,
                    }
                }
                LookupOutcome::Alive(_) if !attempt.has_ended() => continue,
                // The provider may need a moment to register an ending.
                LookupOutcome::Alive(_) if attempt.last_event_at.plus(DELIVERY_MARGIN) >= now => continue,
                // No call lasts this long, so the provider's report is not trusted.
                LookupOutcome::Alive(_) if attempt.started_at.plus(ALIVE_MAX) <= now => continue,
                LookupOutcome::Alive(_) => Drift::Alive,
                LookupOutcome::NotFound | LookupOutcome::Unavailable => continue,
                LookupOutcome::RetryLater => {
                    checked.unanswered_by = call.attempt_provider(attempt.index);
                    continue;
                }
                LookupOutcome::OverBudget => {
                    checked.is_postponed = true;
                    break;
                }
            };
            if self.repair(&call, attempt, record, drift, now, trace_id).await? {
                checked.drifted += 1;
            }
        }
        if !call.matches_history()
            && self.request_refold(&call, &call.drift_fingerprint("itself"), now, trace_id).await?
        {
            checked.drifted += 1;
        }
        Ok(checked)
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
            Drift::Ended(ending, _) => match self.store_ending(call, record, &ending, now, trace_id).await? {
                StoredEnding::New | StoredEnding::Known { .. } => {}
                // The report is about another attempt.
                StoredEnding::OfAnotherAttempt => return Ok(false),
            },
            // The attempt was ended too early. This event restarts its inactivity timeout.
            Drift::Alive => {
                self.submit(&call.alive_event(attempt, now), trace_id).await?;
            }
        }
        self.request_refold(call, &disagreement, now, trace_id).await?;
        let provider = call.attempt_provider(attempt.index);
        let decision = Decision {
            function: "reconciler",
            message: "provider disagrees with call",
            action_taken: "drift_found",
            provider: provider.as_ref().map(Provider::as_str),
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
        let mut counts = vec![
            ("drift_checked", report.checked),
            ("drift_lookups", report.lookups),
            ("drifted", report.drifted),
            ("failed", report.failed),
            ("budget_used_up", report.budget_used_up),
        ];
        // CloudWatch would charge for a series of zeros.
        counts.extend(Some(("drift_skipped_ms", report.skipped_ms)).filter(|(_, skipped)| *skipped > 0));
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
/// `events` are those of the report, the ending last. An ending that says how the attempt ended counts alone, so that it can
/// disagree with all that the call shows. One that does not say whether anybody answered counts together with the other events.
/// Example: Telnyx's `normal_clearing`. So does one that says that the provider dialled nobody: it is no ending if the attempt counts all the
/// same.
fn reported_lifecycle(
    call: &Call,
    attempt: &AttemptState,
    events: &[ProviderEvent],
    policy: &Policy,
) -> Option<&'static str> {
    let ending = events.last()?;
    let fold_into = |call, events| fold(call, events, policy, ending.received_at).transition;
    let alone = fold_into(None, std::slice::from_ref(ending))?.call.attempts().pop()?;
    let says_not_dialled = ending.call_events.iter().any(|event| event.never_dialled.is_some());
    if alone.has_ended() && !says_not_dialled {
        return Some(alone.lifecycle_label());
    }
    let attempts = fold_into(Some(call), events)?.call.attempts();
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
        (attempt.lifecycle_label(), reported_lifecycle(&call, &attempt, std::slice::from_ref(report), &POLICY))
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
