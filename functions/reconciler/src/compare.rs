//! Compares a call with the reports of its providers, and stores a disagreement as events.

use std::collections::BTreeMap;
use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::calls::Found;
use switchhook_aws::inbox::DriftWalk;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{
    ALIVE_MAX, AttemptKey, AttemptRecord, AttemptState, Call, CallEvent, CallId, Policy, Provider, ProviderEvent,
    Timestamp, fold,
};

use crate::findings::StoredEnding;
use crate::lookup::{LookupOutcome, Lookups, ReportedEnding, Urgency};
use crate::reconciler::{RUN_MAX, Reconciler};

/// Time after an event during which a disagreement is not drift yet: the webhook may still be on its way.
pub(crate) const DELIVERY_MARGIN: Duration = Duration::from_secs(10 * 60);
/// Calls of a walk that are checked at the same time.
pub(crate) const CONCURRENCY: usize = 8;
/// Mean time of a provider's answers, in milliseconds, above which it falls behind: 600. A walk cannot ask a slower provider as often as
/// the budget allows, so it would have no time left for the others.
const SLOW_MS: u64 = RUN_MAX.as_millis() as u64 * CONCURRENCY as u64 / Urgency::Drift.ceiling() as u64;
/// Limit on the attempts per call that are looked up, the latest first.
const ATTEMPTS_MAX: usize = 3;

/// Providers that a walk asks.
pub(crate) enum Asked<'a> {
    /// All but these. Each of them has a walk of its own.
    AllBut(&'a BTreeMap<Provider, DriftWalk>),
    Only(Provider),
}

impl Asked<'_> {
    fn contains(&self, provider: Provider) -> bool {
        match self {
            Self::AllBut(behind) => !behind.contains_key(&provider),
            Self::Only(only) => *only == provider,
        }
    }
}

/// Result of looking at one call.
#[derive(Default)]
pub(crate) struct CheckedCall {
    /// Disagreements that were not reported before.
    pub(crate) drifted: u64,
    /// True if a provider was asked, whatever it answered.
    pub(crate) is_asked: bool,
    /// True if an attempt was left to the walk of its provider.
    pub(crate) is_passed_over: bool,
    /// True if no time is left.
    pub(crate) is_out_of_time: bool,
    /// Providers that were not asked, because no requests are left, because they fail or are slow, or because they lack an account.
    pub(crate) not_asked: Vec<Provider>,
    /// Providers that gave no usable answer.
    pub(crate) unanswered_by: Vec<Provider>,
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
    /// Checks one call. An eventually consistent read is enough: whatever the check finds becomes an event in the inbox, and the fold reads
    /// the row anew. A row that is a second old leads at worst to an event that the call has already.
    pub(crate) async fn check_call(
        &self,
        call_id: &CallId,
        asked: &Asked<'_>,
        lookups: &Lookups<'_>,
        trace_id: &str,
    ) -> Result<CheckedCall, Error> {
        let now = self.clock.now();
        let mut checked = CheckedCall::default();
        let Found::Call(call) = self.calls.get_eventual(call_id).await? else { return Ok(checked) };
        for attempt in call.attempts().iter().rev().take(ATTEMPTS_MAX) {
            let Some(record) = call.attempt_records.get(attempt.index) else { continue };
            let Some(provider) = call.attempt_provider(attempt.index) else { continue };
            if record.key.is_none() || record.provider_call_id.is_none() {
                continue;
            }
            if !asked.contains(provider) {
                checked.is_passed_over = true;
                continue;
            }
            if lookups.lacks_account(provider) {
                checked.not_asked.push(provider);
                continue;
            }
            // The others would wait for its answers.
            if matches!(asked, Asked::AllBut(_)) && lookups.is_slower_than(SLOW_MS, provider) {
                checked.not_asked.push(provider);
                continue;
            }
            checked.is_asked = true;
            let drift = match lookups.look_up(&call, record, Urgency::Drift, now).await? {
                LookupOutcome::Ended(ending) => {
                    let events = ending.events();
                    if events.iter().any(|event| is_recent(event, attempt, now)) {
                        continue;
                    }
                    match reported_lifecycle(&call, attempt, (&events, ending.lacks_detail), &self.policy) {
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
                    checked.unanswered_by.push(provider);
                    continue;
                }
                LookupOutcome::OverBudget if lookups.is_time_up() => {
                    checked.is_out_of_time = true;
                    break;
                }
                LookupOutcome::OverBudget | LookupOutcome::Failing => {
                    checked.not_asked.push(provider);
                    continue;
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
                // The report is about another attempt, or a refold could not read it either.
                StoredEnding::OfAnotherAttempt | StoredEnding::Unreadable => return Ok(false),
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
}

/// Label of the lifecycle of an attempt, as its provider reports it. `None` if the report adds nothing to what the call knows.
///
/// `events` are those of the report, the ending last. An ending that says how the attempt ended counts alone, so that it can
/// disagree with all that the call shows. One that does not say whether anybody answered counts together with the other events.
/// Example: Telnyx's `normal_clearing`. So does one that lacks the detail of its webhook. And so does one that says that the provider dialled
/// nobody, because it is no ending if the attempt counts all the same.
fn reported_lifecycle(
    call: &Call,
    attempt: &AttemptState,
    (events, lacks_detail): (&[ProviderEvent], bool),
    policy: &Policy,
) -> Option<&'static str> {
    let ending = events.last()?;
    // The call has this very report, and no other event of it is new. If another event outranks it, the provider has not changed its mind.
    let is_known = |event: &CallEvent| {
        call.history.iter().any(|entry| entry.source_event_id == ending.event_id && entry.event.kind == event.kind)
    };
    if events.len() == 1 && ending.call_events.iter().all(is_known) {
        return None;
    }
    let fold_into = |call, events| fold(call, events, policy, ending.received_at).transition;
    let alone = fold_into(None, std::slice::from_ref(ending))?.call.attempts().pop()?;
    let says_not_dialled = ending.call_events.iter().any(|event| event.never_dialled.is_some());
    if alone.has_ended() && !says_not_dialled && !lacks_detail {
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
    use switchhook_providers::{Reading, VerifiedWebhook, read_with_notes};

    use super::*;

    const POLICY: Policy = Policy { inactivity_timeout: Duration::from_secs(900), outcome_providers: ProviderSet::ALL };

    /// Event of the same Telnyx call. `id` is Telnyx's own id of the event.
    fn telnyx(event: &str, id: &str, cause: Option<&str>) -> ProviderEvent {
        let body = json!({"data": {
            "record_type": "event", "event_type": event, "id": id, "occurred_at": "2026-01-01T00:00:00Z",
            "payload": {"call_control_id": "v3:1", "direction": "outgoing", "hangup_cause": cause},
        }});
        let webhook = VerifiedWebhook::from_inbox(Provider::Telnyx, String::new(), body.to_string().into_bytes(), 0);
        reading(&webhook).0
    }

    /// Vonage's webhook about a call with this status and detail.
    fn vonage(status: &str, detail: Option<&str>) -> ProviderEvent {
        let body = json!({"uuid": "c", "status": status, "detail": detail, "timestamp": "2026-01-01T00:00:00Z"});
        let webhook = VerifiedWebhook::from_inbox(Provider::Vonage, String::new(), body.to_string().into_bytes(), 0);
        let (event, lacks_detail) = reading(&webhook);
        assert!(!lacks_detail);
        event
    }

    /// Event of a webhook, and whether it lacks the detail of its ending.
    fn reading(webhook: &VerifiedWebhook) -> (ProviderEvent, bool) {
        let (reading, notes) = read_with_notes(webhook, Timestamp::from_millis(1_767_225_600_000));
        match reading {
            Reading::Event(event) => (event, notes.lacks_detail),
            other @ (Reading::Recorded { .. } | Reading::Quarantined { .. }) => panic!("{other:?}"),
        }
    }

    /// Label that the call of these events shows, and the one that the report leads to.
    fn shown_and_reported(events: &[ProviderEvent], report: &ProviderEvent) -> (&'static str, Option<&'static str>) {
        shown_and_recorded(events, &(report.clone(), false))
    }

    /// The same, for a report that perhaps lacks the detail of its ending.
    fn shown_and_recorded(
        events: &[ProviderEvent],
        (record, lacks_detail): &(ProviderEvent, bool),
    ) -> (&'static str, Option<&'static str>) {
        let call = fold(None, events, &POLICY, record.received_at).transition.unwrap().call;
        let attempt = call.attempts().pop().unwrap();
        let report = (std::slice::from_ref(record), *lacks_detail);
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
    fn record_that_lacks_the_detail_of_its_webhook_disagrees_with_no_ending_and_ends_a_call_whose_webhook_was_lost() {
        let body = json!({"uuid": "c", "status": "rejected", "event": "call_record"});
        let webhook = VerifiedWebhook::from_inbox(Provider::Vonage, String::new(), body.to_string().into_bytes(), 0);
        let record = reading(&webhook);
        assert!(record.1);
        for (webhook, shown, reported) in [
            (vonage("rejected", Some("invalid_number")), "failed", "failed"),
            (vonage("rejected", Some("restricted")), "failed", "failed"),
            (vonage("rejected", Some("declined")), "busy", "busy"),
            (vonage("ringing", None), "ringing", "busy"),
        ] {
            assert_eq!(shown_and_recorded(&[webhook], &record), (shown, Some(reported)));
        }
    }

    #[test]
    fn record_without_a_reason_disagrees_with_no_reason_of_its_webhook_and_never_outranks_it() {
        let read_elevenlabs = |event: &str, data: &serde_json::Value| {
            let time = (event == "call_initiation_failure").then_some(1_767_225_540);
            let body = json!({"type": event, "event_timestamp": time, "looked_up": time.is_none(), "data": data});
            let body = body.to_string().into_bytes();
            reading(&VerifiedWebhook::from_inbox(Provider::ElevenLabs, String::new(), body, 0))
        };
        let metadata = json!({"start_time_unix_secs": 1_767_225_500, "call_duration_secs": 0, "phone_call": {}});
        let conversation = json!({"conversation_id": "c", "status": "failed", "metadata": metadata});
        let record = read_elevenlabs("post_call_transcription", &conversation);
        assert!(record.1);
        for (reason, ending) in [("busy", "busy"), ("no-answer", "no_answer"), ("unknown", "failed")] {
            let failure = json!({"conversation_id": "c", "failure_reason": reason});
            let (webhook, lacks_detail) = read_elevenlabs("call_initiation_failure", &failure);
            assert!(!lacks_detail);
            assert_eq!(shown_and_recorded(std::slice::from_ref(&webhook), &record), (ending, Some(ending)));
            // The call has the record, and it says nothing more.
            assert_eq!(shown_and_recorded(&[record.0.clone(), webhook], &record), (ending, None));
        }
        assert_eq!(shown_and_recorded(std::slice::from_ref(&record.0), &record).0, "no_answer");
    }

    #[test]
    fn report_that_the_call_has_disagrees_with_no_event_that_outranks_it() {
        let completed = vonage("completed", None);
        let failed = vonage("failed", None);
        let answered = vonage("answered", None);
        assert_eq!(shown_and_reported(&[answered.clone(), completed.clone()], &failed), ("completed", Some("failed")));
        assert_eq!(shown_and_reported(&[answered, completed, failed.clone()], &failed), ("completed", None));
    }

    #[test]
    fn report_that_the_call_has_still_tells_of_an_answer_that_was_lost() {
        let answered = telnyx("call.answered", "a", None);
        let hangup = telnyx("call.hangup", "h", Some("normal_clearing"));
        let call = fold(None, std::slice::from_ref(&hangup), &POLICY, hangup.received_at).transition.unwrap().call;
        let attempt = call.attempts().pop().unwrap();
        let reported = reported_lifecycle(&call, &attempt, (&[answered, hangup], false), &POLICY);
        assert_eq!(reported, Some("completed"));
    }

    #[test]
    fn ending_that_says_how_the_attempt_ended_disagrees_with_another_ending() {
        let busy = telnyx("call.hangup", "b", Some("user_busy"));
        let timeout = telnyx("call.hangup", "t", Some("timeout"));
        assert_eq!(shown_and_reported(&[busy], &timeout), ("busy", Some("no_answer")));
    }
}
