//! Calls that Switchhook places: each transition has one owner, and the retry policy decides what follows an ending.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test that panics has failed, which is what it is for"
)]

#[path = "plan/answered_late.rs"]
mod answered_late;
#[path = "plan/called_off.rs"]
mod called_off;
#[path = "plan/due.rs"]
mod due;
#[path = "plan/forgotten.rs"]
mod forgotten;
#[path = "plan/not_dialled.rs"]
mod not_dialled;
#[path = "plan/other_sender.rs"]
mod other_sender;
#[path = "plan/past.rs"]
mod past;
#[path = "plan/unnamed.rs"]
mod unnamed;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use switchhook_domain::{
    AttemptKey, Call, CallEvent, CallId, Disposition, EventId, EventKind, FoldOutcome, Job, Lifecycle, MOVES_MAX,
    MoveKind, NewCall, Origin, PhoneNumber, Plan, Policy, Provider, ProviderEvent, ProviderSet, RetryPolicy,
    StopReason, Timestamp, fold, refold,
};

const POLICY: Policy = Policy { inactivity_timeout: Duration::from_secs(900), outcome_providers: ProviderSet::ALL };
const LEASE: Duration = Duration::from_secs(300);
const RETRY: RetryPolicy =
    RetryPolicy { attempts_max: 3, delay_seconds: 60, delay_max_seconds: 600, voicemail: false, unheard: false };

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn call_with(retry: RetryPolicy) -> Call {
    let plan = Plan {
        providers: vec![Provider::Retell],
        due_at: at(10),
        not_after: None,
        window: None,
        retry,
        metadata: BTreeMap::new(),
        request_hash: None,
        trace_id: None,
    };
    let new = NewCall {
        call_id: CallId::new("call-1"),
        from: PhoneNumber::new("+15550100"),
        to: PhoneNumber::new("+15550101"),
        appointment_id: Some("apt".to_owned()),
        plan,
    };
    Call::schedule(new, &POLICY, at(0)).call
}

fn claimed(call: &Call, now: i64) -> Call {
    call.claim("token", Provider::Retell, LEASE, false, &POLICY, at(now)).expect("pending and due").call
}

fn dialled(call: &Call, now: i64) -> Call {
    let provider = call.dial_provider().expect("the plan names a provider");
    claimed(call, now).start_dial("token", "dial", provider, &POLICY, at(now)).expect("claimed").transition.call
}

/// Returns a provider event about an attempt.
fn reports(id: &str, attempt: &str, kind: EventKind, now: i64) -> ProviderEvent {
    let call_event = |kind, implied| CallEvent { implied, ..CallEvent::new(kind, Some(at(now))) };
    let own = call_event(kind, false);
    let ringing = call_event(EventKind::Ringing, true);
    let answered = call_event(EventKind::InProgress, true);
    let call_events = match kind {
        EventKind::Completed | EventKind::UserConfirmed | EventKind::VoicemailDetected => vec![ringing, answered, own],
        EventKind::NoAnswer | EventKind::Busy | EventKind::InProgress => vec![ringing, own],
        _ => vec![own],
    };
    let (event_id, origin) = (EventId::new(format!("retell:{id}")), Origin::Provider(Provider::Retell));
    ProviderEvent {
        attempt: Some(AttemptKey::new(attempt)),
        provider_call_id: Some(format!("p{attempt}")),
        call_events,
        ..ProviderEvent::new(event_id, origin, kind.as_str(), CallId::new("call-1"), at(now))
    }
}

fn folded(call: &Call, event: &ProviderEvent) -> Call {
    let now = event.received_at;
    fold(Some(call), std::slice::from_ref(event), &POLICY, now)
        .transition
        .map(|it| it.call)
        .expect("the event changes the call")
}

fn due_at(call: &Call) -> Timestamp {
    match call.job {
        Job::Pending { due_at } => due_at,
        _ => panic!("{:?}", call.job),
    }
}

fn types(call: &Call) -> Vec<String> {
    call.domain_events_from(1).into_iter().map(|event| event.event_type).collect()
}

/// Returns the type and the reason of each domain event that has no attempt.
fn reasons(call: &Call) -> Vec<(&'static str, Option<&'static str>)> {
    let events = call.domain_events_from(1).into_iter().filter(|event| event.attempt.is_none());
    events.map(|event| (&*event.event_type.leak(), event.reason)).collect()
}

#[test]
fn call_is_claimed_when_due_and_once() {
    let call = call_with(RETRY);
    assert_eq!((call.job.as_str(), call.wake_at, call.version), ("PENDING", Some(at(10)), 1));
    assert_eq!(call.claim("t", Provider::Retell, LEASE, false, &POLICY, at(9)), None);
    // The manual trigger waives the due time and nothing else.
    let early = call.claim("t", Provider::Retell, LEASE, true, &POLICY, at(9)).unwrap().call;
    assert_eq!((early.job.as_str(), early.wake_at), ("CLAIMED", Some(at(309))));
    assert_eq!(early.claim("u", Provider::Retell, LEASE, true, &POLICY, at(9)), None);
}

#[test]
fn dialer_needs_the_token_and_a_live_lease() {
    let call = claimed(&call_with(RETRY), 10);
    assert_eq!(call.start_dial("other", "dial", Provider::Retell, &POLICY, at(11)), None);
    assert_eq!(call.start_dial("token", "dial", Provider::Retell, &POLICY, at(310)), None);
    let dialled = call.start_dial("token", "dial", Provider::Retell, &POLICY, at(309)).unwrap();
    assert_eq!((dialled.attempt.as_str(), dialled.is_last_attempt), ("1", false));
    let call = dialled.transition.call;
    assert_eq!((call.job.as_str(), call.attempts()[0].lifecycle), ("IN_PROGRESS", Lifecycle::Initiated));
    assert_eq!(call.in_doubt().len(), 1);
    assert_eq!(call.started_dial("dial"), Some((AttemptKey::new("1"), false)));
    assert_eq!(call.started_dial("another"), None);
    // The claim is used up: a second delivery of its message starts no dial.
    assert_eq!(call.start_dial("token", "dial", Provider::Retell, &POLICY, at(309)), None);
}

#[test]
fn expired_claim_returns_to_pending_and_a_live_one_stands() {
    let call = claimed(&call_with(RETRY), 10);
    assert_eq!(call.claim_expired_event(at(309)), None);
    let expired = call.claim_expired_event(at(310)).unwrap();
    let pending = folded(&call, &expired);
    assert_eq!((pending.job.as_str(), pending.wake_at), ("PENDING", Some(at(10))));
    // The event that ended the first claim does not end the second one when it is delivered again.
    let again = claimed(&pending, 400);
    let repeated = fold(Some(&again), std::slice::from_ref(&expired), &POLICY, at(401));
    assert_eq!(repeated.outcomes, [FoldOutcome::Duplicate]);
    let second = folded(&again, &again.claim_expired_event(at(700)).unwrap());
    assert_eq!(second.job.as_str(), "PENDING");
    // The history keeps only the latest expired claim.
    assert_eq!(second.history.len(), 1);
    let late = fold(Some(&second), &[expired], &POLICY, at(701));
    assert_eq!(late.outcomes, [FoldOutcome::Duplicate]);
}

#[test]
fn withdrawn_attempt_does_not_count() {
    let call = dialled(&call_with(RETRY), 10);
    let back = call.withdraw("dial", at(60), &POLICY, at(11)).unwrap().call;
    assert_eq!((due_at(&back), back.attempts().len()), (at(60), 0));
    assert_eq!(types(&back), Vec::<String>::new());
    // An attempt that has an event cannot be withdrawn.
    let ringing = folded(&call, &reports("1", "1", EventKind::Ringing, 11));
    assert_eq!(ringing.withdraw("dial", at(60), &POLICY, at(12)), None);
    // A number that the provider will never call ends the call. The dial is no attempt.
    let rejected = call.reject("dial", &POLICY, at(11)).unwrap().call;
    assert_eq!((rejected.job.as_str(), rejected.attempts().len()), ("FAILED", 0));
    let reason = Some("rejected_by_provider");
    assert_eq!(reasons(&rejected), [("call.exhausted", reason), ("appointment.failed", reason)]);
    assert_eq!(rejected.appointment_status().as_str(), "Failed");
    assert_eq!(ringing.reject("dial", &POLICY, at(12)), None);
}

#[test]
fn trigger_waives_the_due_time_until_its_attempt_was_made() {
    let mut call = call_with(RETRY);
    let forced = |call: &Call, now| call.claim("token", Provider::Retell, LEASE, true, &POLICY, at(now)).unwrap().call;
    // After its claim has expired, the call is due at the time of the trigger, not at its original due time.
    call = forced(&call, 2);
    call = folded(&call, &call.claim_expired_event(at(302)).unwrap());
    assert_eq!(due_at(&call), at(2));
    // A provider that refused the attempt is asked again after the backoff.
    call = dialled(&call, 303);
    call = call.withdraw("dial", at(360), &POLICY, at(304)).unwrap().call;
    assert_eq!(due_at(&call), at(360));
    // The retry policy sets the due time of the next attempt.
    call = dialled(&call, 400);
    call = folded(&call, &reports("1", "1", EventKind::Busy, 430));
    let by_policy = due_at(&call);
    assert!(by_policy > at(431), "{by_policy:?}");
    // A triggered call waits for the calling window, and no longer.
    let early = forced(&call, 430);
    let postponed = early.postpone("token", at(431), &POLICY, at(430)).unwrap().call;
    assert_eq!(due_at(&postponed), at(431));
}

#[test]
fn no_answer_is_retried_with_its_delay_until_attempts_are_used_up() {
    let mut call = call_with(RETRY);
    let mut now = 10;
    for attempt in ["1", "2", "3"] {
        call = dialled(&call, now);
        call = folded(&call, &reports(attempt, attempt, EventKind::NoAnswer, now + 30));
        if attempt != "3" {
            let due = due_at(&call);
            assert!(at(now + 30) <= due && due <= at(now + 30 + 120), "{due:?}");
            assert_eq!((call.appointment_status().as_str(), call.wake_at), ("Retrying", Some(due)));
            now = due.as_millis() / 1_000 + 1;
        }
    }
    assert_eq!((call.job.as_str(), call.appointment_status().as_str()), ("FAILED", "NoAnswer"));
    assert!(call.is_settled() && call.wake_at.is_none() && call.settled_at.is_some());
    let kinds = types(&call);
    assert_eq!(kinds.iter().filter(|kind| *kind == "call.retry_scheduled").count(), 2);
    assert_eq!(kinds.iter().filter(|kind| *kind == "call.exhausted").count(), 1);
    let scheduled = call.domain_events_from(1).into_iter().find(|e| e.event_type == "call.retry_scheduled").unwrap();
    assert!(scheduled.due_at.is_some());
    assert_eq!((scheduled.attempt, scheduled.previous), (Some(1), Some("no_answer")));
}

#[test]
fn late_truth_cancels_a_retry_that_is_no_longer_needed() {
    let call = dialled(&call_with(RETRY), 10);
    let call = folded(&call, &reports("1", "1", EventKind::NoAnswer, 40));
    assert_eq!(call.job.as_str(), "PENDING");
    let confirmed = folded(&call, &reports("2", "1", EventKind::UserConfirmed, 41));
    assert_eq!((confirmed.job.as_str(), confirmed.appointment_status().as_str()), ("COMPLETED", "Confirmed"));
    // The same holds if a dialer has claimed the call.
    let claimed = call.claim("token", Provider::Retell, LEASE, true, &POLICY, at(41)).unwrap().call;
    let confirmed = folded(&claimed, &reports("2", "1", EventKind::UserConfirmed, 42));
    assert_eq!(confirmed.start_dial("token", "dial", Provider::Retell, &POLICY, at(43)), None);
    // The person is on the phone: nobody dials.
    let answered = folded(&claimed, &reports("3", "1", EventKind::InProgress, 42));
    assert_eq!(answered.job.as_str(), "IN_PROGRESS");
    assert_eq!(answered.start_dial("token", "dial", Provider::Retell, &POLICY, at(43)), None);
}

#[test]
fn valid_claim_stands_through_an_event_that_changes_nothing() {
    let call = dialled(&call_with(RETRY), 10);
    let call = folded(&call, &reports("1", "1", EventKind::NoAnswer, 40));
    let claimed = call.claim("token", Provider::Retell, LEASE, true, &POLICY, at(41)).unwrap().call;
    let stale = folded(&claimed, &reports("2", "1", EventKind::Ringing, 42));
    assert!(stale.is_claimed_by("token", at(43)));
    assert_eq!(stale.wake_at, claimed.wake_at);
}

#[test]
fn policy_goes_by_the_ending() {
    let check = |retry: RetryPolicy, kind: EventKind, permanent: bool, job: &str| {
        let mut event = reports("1", "1", kind, 40);
        for call_event in &mut event.call_events {
            call_event.permanent = permanent;
        }
        let call = folded(&dialled(&call_with(retry), 10), &event);
        assert_eq!(call.job.as_str(), job, "{kind} permanent {permanent}");
    };
    check(RETRY, EventKind::NoAnswer, false, "PENDING");
    check(RETRY, EventKind::Busy, false, "PENDING");
    check(RETRY, EventKind::Failed, false, "PENDING");
    check(RETRY, EventKind::Failed, true, "FAILED");
    check(RETRY, EventKind::Canceled, false, "FAILED");
    check(RETRY, EventKind::Completed, false, "COMPLETED");
    check(RetryPolicy { attempts_max: 1, ..RETRY }, EventKind::NoAnswer, false, "FAILED");

    let voicemail = |retry| {
        let call = dialled(&call_with(retry), 10);
        let call = folded(&call, &reports("1", "1", EventKind::VoicemailDetected, 40));
        folded(&call, &reports("2", "1", EventKind::Completed, 41))
    };
    assert_eq!(voicemail(RETRY).job.as_str(), "COMPLETED");
    assert_eq!(voicemail(RetryPolicy { voicemail: true, ..RETRY }).job.as_str(), "PENDING");
}

#[test]
fn passing_failure_is_retried_once() {
    let call = folded(&dialled(&call_with(RETRY), 10), &reports("1", "1", EventKind::Failed, 40));
    let call = folded(&dialled(&call, 10_000), &reports("2", "2", EventKind::Failed, 10_001));
    assert_eq!(call.job.as_str(), "FAILED");
}

/// A person may have answered, so the phone rings again only if the retry policy allows it.
#[test]
fn unheard_attempt_is_retried_only_if_the_policy_says_so() {
    let check = |retry: RetryPolicy, heard: Option<EventKind>, job: &str| {
        let mut call = dialled(&call_with(retry), 10);
        call = folded(&call, &call.dial_accepted_event(&AttemptKey::new("1"), "p1", at(11)));
        if let Some(kind) = heard {
            call = folded(&call, &reports("1", "1", kind, 20));
        }
        let timed_out = folded(&call, &call.deadline_passed_events(&POLICY, at(2_000))[0]);
        assert_eq!((timed_out.job.as_str(), timed_out.attempts()[0].lifecycle_label()), (job, "inconclusive"));
        timed_out
    };
    let unheard = RetryPolicy { unheard: true, ..RETRY };
    let call = check(RETRY, None, "FAILED");
    let exhausted = call.domain_events_from(1).into_iter().find(|event| event.event_type == "call.exhausted").unwrap();
    assert_eq!(exhausted.reason, Some("unheard"));
    check(RETRY, Some(EventKind::Ringing), "FAILED");
    check(unheard, None, "PENDING");
    check(unheard, Some(EventKind::Ringing), "PENDING");
    check(unheard, Some(EventKind::InProgress), "FAILED");
}

/// A dial in doubt that the provider does not have was never made: it is no attempt, and the call is due again.
#[test]
fn dial_that_the_provider_does_not_have_is_no_attempt() {
    let once = RetryPolicy { attempts_max: 1, ..RETRY };
    let call = dialled(&call_with(once), 10);
    assert_eq!(call.in_doubt().len(), 1);
    let deadline = call.deadline_passed_events(&POLICY, at(910));
    assert_eq!(deadline[0].event_id.as_str(), "switchhook:call-1/1/deadline/10000");
    let not_found = call.dial_not_found_event(&AttemptKey::new("1"), at(910));
    let withdrawn = folded(&call, &not_found);
    assert_eq!((withdrawn.attempts().len(), withdrawn.in_doubt().len(), due_at(&withdrawn)), (0, 0, at(940)));
    assert_eq!(withdrawn.history[0].disposition, Disposition::Applied);
    assert_eq!(types(&withdrawn), [""; 0]);
    // The pause doubles, and no number of such dials fails the call while there is room for one.
    let mut again = dialled(&withdrawn, 940);
    assert_eq!(again.attempts().len(), 1);
    again = folded(&again, &again.dial_not_found_event(&AttemptKey::new("2"), at(2_000)));
    assert_eq!(due_at(&again), at(2_060));
    // Evidence of the first dial arrives after all: it was an attempt, and the only one that the policy allows.
    let late = folded(&withdrawn, &reports("1", "1", EventKind::NoAnswer, 950));
    assert_eq!((late.attempts().len(), late.job.as_str()), (1, "FAILED"));
    assert_eq!(late.history[0].disposition, Disposition::Stale);
}

#[test]
fn call_that_ends_without_an_attempt_says_why() {
    let canceled = call_with(RETRY).cancel(&POLICY, at(5)).unwrap().call;
    let reason = Some("canceled_by_user");
    assert_eq!(reasons(&canceled), [("call.canceled", reason), ("appointment.canceled", reason)]);
    assert_eq!(canceled.appointment_status().as_str(), "Canceled");

    let blocked = claimed(&call_with(RETRY), 10).give_up("token", StopReason::DoNotCall, &POLICY, at(11)).unwrap().call;
    let reason = Some("do_not_call");
    assert_eq!(reasons(&blocked), [("call.exhausted", reason), ("appointment.blocked", reason)]);
    assert_eq!(blocked.appointment_status().as_str(), "Blocked");
    // None of these events has a provider or a source event.
    assert!(blocked.domain_events_from(1).iter().all(|event| event.provider.is_none()));
    assert!(blocked.domain_events_from(1).iter().all(|event| event.source_event_id.is_none()));
}

/// A call without an appointment has no `appointment.*` events: it announces the outcome of each attempt.
#[test]
fn call_without_an_appointment_announces_its_outcome() {
    let mut call = call_with(RETRY);
    call.appointment_id = None;
    let call = folded(&dialled(&call, 10), &reports("1", "1", EventKind::NoAnswer, 40));
    let call = folded(&dialled(&call, 1_000), &reports("2", "2", EventKind::InProgress, 1_010));
    let call = folded(&call, &reports("3", "2", EventKind::UserConfirmed, 1_020));
    let events = call.domain_events_from(1);
    assert!(events.iter().all(|event| !event.event_type.starts_with("appointment.")), "{events:?}");
    let outcomes = events.iter().filter(|event| event.event_type == "call.outcome");
    let outcomes: Vec<_> = outcomes.map(|event| (event.attempt, event.previous, event.status)).collect();
    assert_eq!(outcomes, [(Some(1), None, "no_answer"), (Some(2), Some("no_answer"), "confirmed")]);
}

/// Twilio reports what happened to the line, and nothing of what the person said.
#[test]
fn no_outcome_is_awaited_where_none_can_come() {
    let policy = Policy { outcome_providers: [Provider::Retell].into_iter().collect(), ..POLICY };
    let ended = |provider| {
        let mut call = call_with(RETRY);
        call.appointment_id = None;
        call.plan.as_mut().unwrap().providers = vec![provider];
        let mut call = dialled(&call, 10);
        for (id, kind, now) in [("1", EventKind::InProgress, 20), ("2", EventKind::Completed, 30)] {
            call = fold(Some(&call), &[reports(id, "1", kind, now)], &policy, at(now)).transition.unwrap().call;
        }
        call
    };
    let outcomes = |call: &Call| -> Vec<_> {
        let events = call.domain_events_from(1).into_iter();
        events.filter(|event| event.event_type == "call.outcome").map(|event| event.status).collect()
    };
    let twilio = ended(Provider::Twilio);
    assert!(twilio.is_settled());
    assert_eq!((twilio.attempts()[0].outcome_label(), outcomes(&twilio)), ("connected", vec!["connected"]));
    let retell = ended(Provider::Retell);
    assert!(!retell.is_settled());
    assert_eq!(outcomes(&retell), [""; 0]);
}

#[test]
fn provider_that_says_alive_restarts_the_timeout_and_leaves_one_entry() {
    let mut call = folded(&dialled(&call_with(RETRY), 10), &reports("1", "1", EventKind::InProgress, 20));
    let mut all = Vec::new();
    for now in [920, 1_900, 2_900] {
        let overdue = call.overdue_attempts(&POLICY, at(now));
        assert_eq!(overdue.len(), 1, "{now}");
        let alive = call.alive_event(&overdue[0], at(now));
        assert!(!call.includes_event(&alive), "{now}");
        call = folded(&call, &alive);
        assert_eq!(call.next_wake_at(&POLICY), Some(at(now + 900)));
        all.push(alive);
    }
    assert_eq!(call.history.len(), 3);
    // The call has the latest one, and the others change it no more.
    assert!(all.iter().all(|alive| call.includes_event(alive)) && !call.contains_event(&all[0].event_id));
}

#[test]
fn cancel_needs_a_call_that_has_not_ended_and_holds() {
    let call = call_with(RETRY);
    let canceled = call.cancel(&POLICY, at(5)).unwrap().call;
    assert_eq!((canceled.job.as_str(), types(&canceled).len()), ("CANCELED", 2));
    assert_eq!(canceled.claim("t", Provider::Retell, LEASE, true, &POLICY, at(20)), None);
    assert_eq!(canceled.cancel(&POLICY, at(6)), None, "a repetition changes nothing");

    // Between two attempts. A late event of the first attempt does not change the job.
    let call = folded(&dialled(&call, 10), &reports("1", "1", EventKind::NoAnswer, 40));
    let canceled = call.cancel(&POLICY, at(41)).unwrap().call;
    let late = folded(&canceled, &reports("2", "1", EventKind::Ringing, 42));
    assert_eq!(late.job.as_str(), "CANCELED");
}

#[test]
fn retry_that_is_called_off_is_not_the_last_word_on_the_appointment() {
    let call = folded(&dialled(&call_with(RETRY), 10), &reports("1", "1", EventKind::NoAnswer, 40));
    let last_of_appointment = |call: &Call| {
        let events = call.domain_events_from(1);
        events.into_iter().rfind(|event| event.event_type.starts_with("appointment.")).expect("an attempt was made")
    };
    assert_eq!(last_of_appointment(&call).status, "retrying");
    let canceled = call.cancel(&POLICY, at(41)).unwrap().call;
    let event = last_of_appointment(&canceled);
    assert_eq!((event.status, event.previous, event.corrects.as_ref()), ("no_answer", Some("retrying"), None));
    assert_eq!((event.source_event_id.as_ref(), event.occurred_at.as_str()), (None, "1970-01-01T00:00:41.000Z"));
    // It is announced once, whatever arrives later.
    let late = folded(&canceled, &reports("2", "1", EventKind::Ringing, 42));
    assert_eq!(last_of_appointment(&late), event);
}

#[test]
fn number_that_may_not_be_called_fails_permanently() {
    let call = folded(&dialled(&call_with(RETRY), 10), &reports("1", "1", EventKind::NoAnswer, 40));
    let claimed = call.claim("token", Provider::Retell, LEASE, true, &POLICY, at(41)).unwrap().call;
    let stopped = claimed.give_up("token", StopReason::DoNotCall, &POLICY, at(42)).unwrap().call;
    assert_eq!(stopped.job.as_str(), "FAILED");
    assert_eq!(folded(&stopped, &reports("2", "1", EventKind::Ringing, 43)).job.as_str(), "FAILED");
}

#[test]
fn closed_window_postpones_whatever_policy_draws() {
    let call = claimed(&call_with(RETRY), 10);
    let postponed = call.postpone("token", at(5_000), &POLICY, at(11)).unwrap().call;
    assert_eq!(due_at(&postponed), at(5_000));
    assert_eq!(call.postpone("other", at(5_000), &POLICY, at(11)), None);
}

#[test]
fn answer_to_the_dial_names_the_providers_call() {
    let call = dialled(&call_with(RETRY), 10);
    let accepted = call.dial_accepted_event(&AttemptKey::new("1"), "p1", at(11));
    let call = folded(&call, &accepted);
    assert_eq!((call.in_doubt().len(), call.attempt_records[0].provider_call_id.as_deref()), (0, Some("p1")));
    // An event that knows only the provider's call id finds the attempt.
    let mut event = reports("1", "p1", EventKind::Ringing, 12);
    event.provider_call_id = Some("p1".to_owned());
    let call = folded(&call, &event);
    assert_eq!((call.attempts().len(), call.attempts()[0].lifecycle), (1, Lifecycle::Ringing));
}

#[test]
fn refold_repairs_a_row_that_was_altered_by_hand() {
    let events = [reports("1", "1", EventKind::InProgress, 20), reports("2", "1", EventKind::Completed, 30)];
    let call = events.iter().fold(dialled(&call_with(RETRY), 10), |call, event| folded(&call, event));
    let published = call.domain_events_from(1);

    let mut altered = call.clone();
    altered.history.truncate(2);
    altered.job = Job::Failed;
    let drift = altered.drift_found_event("x", at(40));
    let repaired = refold(&altered, &events, |_| false, &drift, &POLICY, at(40));
    let after = repaired.transition.unwrap().call;
    assert_eq!((after.job.as_str(), after.attempts()[0].lifecycle_label()), ("COMPLETED", "completed"));
    let events_now = after.domain_events_from(1);
    assert_eq!(&events_now[..published.len()], &published[..]);
    let report = events_now.last().unwrap();
    assert_eq!(
        (report.event_type.as_str(), report.previous, report.status),
        ("call.drift_repaired", Some("in_progress"), "completed")
    );
    // The same drift is repaired once.
    assert_eq!(refold(&after, &events, |_| false, &drift, &POLICY, at(41)).outcomes, [FoldOutcome::Duplicate]);

    // No event is left. Each announcement keeps its provider.
    let emptied = refold(&call, &[], |_| false, &call.drift_found_event("x", at(40)), &POLICY, at(40));
    let emptied = emptied.transition.unwrap().call.domain_events_from(1);
    assert!(published.iter().zip(&emptied).all(|(was, is)| was.provider == is.provider), "{emptied:?}");

    // An event that is not in the inbox is removed.
    let mut forged = call.clone();
    forged.history.push(call.history[0].clone());
    forged.history[4].source_event_id = EventId::new("retell:forged");
    forged.history[4].event.kind = EventKind::UserConfirmed;
    let after = refold(&forged, &events, |_| false, &forged.drift_found_event("x", at(40)), &POLICY, at(40))
        .transition
        .unwrap()
        .call;
    assert!(!after.contains_event(&EventId::new("retell:forged")));
}

fn moves(call: &Call) -> Vec<(&'static str, Option<&str>)> {
    call.moves.iter().map(|one| (one.kind.as_str(), one.reason.as_deref())).collect()
}

#[test]
fn moves_tell_what_workers_did_and_the_newest_stay() {
    let call = dialled(&call_with(RETRY), 10);
    assert_eq!(moves(&call), [("claimed", None), ("dialled", None)]);
    let doubted = call.doubted(at(20)).expect("no event of the dial is known");
    assert_eq!((moves(&doubted)[2], doubted.doubted(at(30))), (("doubted", None), None));
    let withdrawn = call.withdraw("dial", at(12), &POLICY, at(11)).expect("not reported").because("busy").call;
    let forced = withdrawn.claim("u", Provider::Retell, LEASE, true, &POLICY, at(11)).expect("pending").call;
    let returned = forced.postpone("u", at(40), &POLICY, at(11)).expect("claimed").call;
    let canceled = returned.cancel(&POLICY, at(12)).expect("pending").call;
    let later =
        [("withdrawn", Some("busy")), ("triggered", None), ("returned", Some("window_closed")), ("canceled", None)];
    assert_eq!(moves(&canceled)[2..], later);

    let mut call = call_with(RETRY);
    for n in 0..20 {
        call = claimed(&call, 10 + n).release("token", &POLICY, at(10 + n)).expect("claimed").call;
    }
    assert_eq!((call.moves.len(), call.moves[0].at, call.moves[31].at), (MOVES_MAX, at(14), at(29)));
}

#[test]
fn moves_are_copied_by_folds_and_read_by_none() {
    let call = dialled(&call_with(RETRY), 10);
    let mut without = call.clone();
    without.moves.clear();
    let event = reports("e1", "1", EventKind::Busy, 20);
    let drift = ProviderEvent {
        event_id: EventId::new("switchhook:drift"),
        origin: Origin::Switchhook,
        ..reports("drift", "1", EventKind::DriftFound, 30)
    };
    let refolded = |call: &Call| {
        let fold = refold(call, std::slice::from_ref(&event), |_| false, &drift, &POLICY, at(30));
        fold.transition.expect("repaired").call
    };
    for (with, without) in [(folded(&call, &event), folded(&without, &event)), (refolded(&call), refolded(&without))] {
        assert_eq!(with.moves, call.moves);
        assert!(with.has_same_state(&without) && with != without);
        assert!(with.matches_history() && without.matches_history());
        assert!(!with.has_same_state(&call));
    }
}

mod random {
    use super::*;

    /// Workers and provider act in any order. Nobody is dialled while an attempt is alive, nor more often than the retry policy
    /// allows. An unsettled call has a time to wake up.
    #[test]
    fn invariant_nobody_is_dialled_while_an_attempt_is_alive() {
        const KINDS: [EventKind; 10] = [
            EventKind::Ringing,
            EventKind::InProgress,
            EventKind::NoAnswer,
            EventKind::Busy,
            EventKind::Failed,
            EventKind::Canceled,
            EventKind::Completed,
            EventKind::VoicemailDetected,
            EventKind::UserConfirmed,
            EventKind::UserDeclined,
        ];
        let (dials, retries, withdrawn) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let count = |counter: &Cell<u32>| counter.set(counter.get() + 1);
        let config = switchhook_random::config(2_000, Some("tests/plan.proptest-regressions"));
        let step = (0..12_u8, prop::sample::select(KINDS.to_vec()), 0..3_usize, 1..400_i64);
        let ran = TestRunner::new(config).run(&prop::collection::vec(step, 1..40), |steps| {
            let mut call = call_with(RETRY);
            let mut now = 0;
            let mut rows = Vec::new();
            for (n, (step, kind, which, pause)) in steps.into_iter().enumerate() {
                now += pause;
                let time = at(now);
                let folded =
                    |event: ProviderEvent| fold(Some(&call), &[event], &POLICY, time).transition.map(|it| it.call);
                let record = call
                    .attempt_records
                    .len()
                    .checked_sub(1)
                    .and_then(|last| call.attempt_records.get(which.min(last)));
                let key = record.and_then(|record| record.key.clone());
                let next = match step {
                    0 => call.claim("token", Provider::Retell, LEASE, false, &POLICY, time).map(|moved| moved.call),
                    1 => call.claim("token", Provider::Retell, LEASE, true, &POLICY, time).map(|moved| moved.call),
                    2..=4 => {
                        let alive = call.attempts().iter().filter(|attempt| !attempt.has_ended()).count();
                        let dialled = call
                            .start_dial("token", "dial", Provider::Retell, &POLICY, time)
                            .map(|dialled| dialled.transition.call);
                        if dialled.is_some() {
                            prop_assert_eq!(alive, 0);
                            count(&dials);
                            if !call.attempt_records.is_empty() {
                                count(&retries);
                            }
                        }
                        dialled
                    }
                    5 => call.postpone("token", at(now + 50), &POLICY, time).map(|moved| moved.call),
                    6 => {
                        let dial_key = record.and_then(|record| record.dial_key.as_deref());
                        let moved = dial_key.and_then(|key| call.withdraw(key, at(now + 5), &POLICY, time));
                        moved.map(|moved| {
                            count(&withdrawn);
                            moved.call
                        })
                    }
                    7 => call.claim_expired_event(time).and_then(folded),
                    8 => fold(Some(&call), &call.deadline_passed_events(&POLICY, time), &POLICY, time)
                        .transition
                        .map(|it| it.call),
                    9 => key.and_then(|key| folded(call.dial_accepted_event(&key, &format!("p{key}"), time))),
                    10 => {
                        call.overdue_attempts(&POLICY, time).first().and_then(|due| folded(call.alive_event(due, time)))
                    }
                    _ => key.and_then(|key| folded(reports(&n.to_string(), key.as_str(), kind, now))),
                };
                if let Some(next) = next {
                    prop_assert_eq!(next.version, call.version + 1);
                    prop_assert!(next.attempts().len() <= 3);
                    prop_assert_eq!(next.wake_at.is_none(), next.is_settled());
                    let (before, after) = (call.domain_events_from(1), next.domain_events_from(1));
                    prop_assert_eq!(&after[..before.len()], &before[..]);
                    call = next;
                    rows.push((call.updated_at, call.job.state()));
                }
            }
            // The job of an earlier time is the one that was written then, as far back as moves are recorded.
            for (time, job) in rows {
                let past = call.as_of(time).and_then(|past| past.job);
                prop_assert!(
                    past.is_none_or(|past| past == job),
                    "{:?} at {:?}, not {:?}: {:?}",
                    past,
                    time,
                    job,
                    call.moves
                );
            }
            Ok(())
        });
        ran.unwrap_or_else(|failure| panic!("{failure}"));
        let seen = [dials.get(), retries.get(), withdrawn.get()];
        assert!(seen.iter().all(|count| *count > 5), "dials, retries and withdrawals: {seen:?}");
    }
}
