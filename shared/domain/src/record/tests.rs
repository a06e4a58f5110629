use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::announcement::AnnouncementKind;
use crate::call::{Job, JobState};
use crate::event::{CallEvent, CallId, Origin};
use crate::fold::fold;
use crate::number::PhoneNumber;
use crate::plan::{EndReason, Plan, RetryPolicy};
use crate::provider::ProviderSet;

const LEASE: Duration = Duration::from_secs(300);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn policy() -> Policy {
    Policy { inactivity_timeout: Duration::from_secs(900), outcome_providers: ProviderSet::from_iter([]) }
}

fn creation() -> CallCreation {
    let retry =
        RetryPolicy { attempts_max: 3, delay_seconds: 60, delay_max_seconds: 600, voicemail: false, unheard: false };
    let plan = Plan {
        providers: vec![Provider::Retell],
        due_at: at(0),
        not_after: None,
        window: None,
        retry,
        metadata: BTreeMap::from([("name".to_owned(), "Zoë".to_owned())]),
        request_hash: Some("hash".to_owned()),
        trace_id: None,
    };
    let call = NewCall {
        call_id: CallId::new("call-1"),
        from: PhoneNumber::new("+15550100"),
        to: PhoneNumber::new("+15550101"),
        appointment_id: Some("apt".to_owned()),
        plan,
    };
    CallCreation { call, created_at: at(0) }
}

fn pending() -> Call {
    Call::schedule(creation().call, &policy(), at(0)).call
}

/// Dials a pending call.
fn dialled(call: &Call, now: i64) -> Call {
    let token = format!("token-{now}");
    let claimed = call.claim(&token, Provider::Retell, LEASE, true, &policy(), at(now)).expect("pending").call;
    let key = format!("dial-{now}");
    claimed.start_dial(&token, &key, Provider::Retell, &policy(), at(now)).expect("claimed").transition.call
}

/// A webhook about an attempt of the call.
fn event(id: &str, attempt: &str, kind: EventKind, now: i64) -> ProviderEvent {
    let (event_id, origin) = (EventId::new(format!("retell:{id}")), Origin::Provider(Provider::Retell));
    ProviderEvent {
        attempt: Some(AttemptKey::new(attempt)),
        provider_call_id: Some(format!("call_{attempt}")),
        call_events: vec![CallEvent::new(kind, Some(at(now)))],
        ..ProviderEvent::new(event_id, origin, id, CallId::new("call-1"), at(now))
    }
}

fn folded(call: Option<&Call>, events: &[ProviderEvent], now: i64) -> Call {
    fold(call, events, &policy(), at(now)).transition.expect("new events").call
}

fn busy(call: Option<&Call>, attempt: &str, now: i64) -> Call {
    let ringing = event(&format!("ringing-{attempt}"), attempt, EventKind::Ringing, now);
    folded(call, &[ringing, event(&format!("busy-{attempt}"), attempt, EventKind::Busy, now + 1)], now + 1)
}

fn records(call: &Call) -> DialRecords {
    DialRecords { dials: call.dials(), canceled: None }
}

fn rebuilt(row: Option<&Call>, records: &DialRecords, now: i64) -> Option<Call> {
    Call::rebuild(row, Some(&creation()), records, &policy(), at(now)).map(|transition| transition.call)
}

#[test]
fn row_that_lacks_nothing_is_not_rebuilt() {
    for call in [pending(), dialled(&pending(), 1), busy(Some(&dialled(&pending(), 1)), "1", 5)] {
        assert_eq!(rebuilt(Some(&call), &records(&call), 100), None);
    }
    assert_eq!(Call::rebuild(None, None, &DialRecords::default(), &policy(), at(0)), None);
}

#[test]
fn lost_row_of_a_call_that_was_never_dialled_is_pending_again() {
    let call = rebuilt(None, &DialRecords::default(), 100).expect("created");
    assert!(call.has_same_state(&pending()), "{call:?}");
    assert_eq!(call.version, 1);
}

#[test]
fn lost_row_of_a_call_whose_dials_may_have_expired_ends() {
    let expired = i64::try_from(DIALS_RETENTION_MIN.as_secs()).expect("a few weeks");
    let before = rebuilt(None, &DialRecords::default(), expired - 1).expect("created");
    assert_eq!((before.job.state(), before.stop_reason), (JobState::Pending, None));
    let ended = rebuilt(None, &DialRecords::default(), expired).expect("created");
    assert_eq!((&ended.job, ended.stop_reason), (&Job::Failed, Some(StopReason::DialsUnknown)));
    let exhausted = AnnouncementKind::Exhausted(EndReason::Stopped(StopReason::DialsUnknown));
    assert!(ended.announcements.iter().any(|announcement| announcement.kind == exhausted), "{ended:?}");
    assert_eq!(rebuilt(Some(&ended), &DialRecords::default(), expired + 1), None);
    // A dial that is recorded says more, and so does a row that still has its plan.
    let recorded = records(&dialled(&pending(), 1));
    assert_eq!(rebuilt(None, &recorded, expired).expect("created").stop_reason, None);
    assert_eq!(rebuilt(Some(&pending()), &DialRecords::default(), expired), None);
    let of_webhooks = rebuilt(Some(&busy(None, "1", 5)), &DialRecords::default(), expired).expect("without a plan");
    assert_eq!((&of_webhooks.job, of_webhooks.stop_reason), (&Job::Failed, Some(StopReason::DialsUnknown)));
}

#[test]
fn lost_row_of_a_dialled_call_is_in_doubt() {
    let before = dialled(&pending(), 1);
    let call = rebuilt(None, &records(&before), 100).expect("created");
    assert_eq!((&call.job, call.in_doubt().len()), (&Job::InProgress, 1));
    assert_eq!(call.claim("token", Provider::Retell, LEASE, true, &policy(), at(101)), None);
    assert_eq!(call.attempt_records[0].dialled_at, Some(at(1)), "the provider is asked about that time");
}

#[test]
fn forgotten_dial_comes_back_and_its_number_is_not_used_again() {
    let first = busy(Some(&dialled(&pending(), 1)), "1", 5);
    let second = dialled(&first, 200);
    // The row is restored to the time between the two attempts.
    let call = rebuilt(Some(&first), &records(&second), 300).expect("forgotten");
    assert_eq!((&call.job, call.in_doubt().len(), call.attempts().len()), (&Job::InProgress, 1, 2));
    let ended = busy(Some(&call), "2", 400);
    let third = dialled(&ended, 2_000);
    assert_eq!(third.dials().iter().map(|dial| dial.attempt.as_str()).collect::<Vec<_>>(), ["1", "2", "3"]);
}

#[test]
fn acceptance_names_the_provider_to_a_row_that_has_forgotten_the_dial() {
    let attempt = AttemptKey::new("1");
    let row = dialled(&pending(), 1);
    let accepted = row.dial_accepted_event(&attempt, "call_1", at(2));
    let restored = folded(Some(&pending()), std::slice::from_ref(&accepted), 3);
    assert_eq!(restored.attempt_provider(0), Some(Provider::Retell));
    assert_eq!(restored.announcements[0].provider, Some(Provider::Retell));
    assert_eq!(restored.dials(), [], "the dial itself comes back from its record");
    // The event that the row gives back to a lost inbox names it too.
    let held = folded(Some(&row), &[accepted], 3).held_events();
    assert_eq!(held[0].dialled_provider, Some(Provider::Retell));
}

#[test]
fn row_without_a_plan_gets_it_back_with_its_dials() {
    let before = dialled(&pending(), 1);
    let of_webhooks = busy(None, "1", 5);
    assert_eq!((of_webhooks.plan.is_none(), &of_webhooks.job), (true, &Job::Failed));
    let call = rebuilt(Some(&of_webhooks), &records(&before), 100).expect("forgotten");
    let expected = busy(Some(&before), "1", 5);
    assert_eq!(call.job, expected.job, "due again, at the same time");
    assert_eq!((call.plan, call.attempt_records), (expected.plan, expected.attempt_records));
}

#[test]
fn call_of_another_system_gets_no_plan() {
    let older = Call { created_at: at(-1), ..busy(None, "1", 5) };
    assert_eq!(rebuilt(Some(&older), &DialRecords::default(), 100), None);
}

#[test]
fn forgotten_cancellation_comes_back() {
    let canceled = DialRecords { dials: Vec::new(), canceled: Some(StopReason::CanceledByUser) };
    let call = rebuilt(Some(&pending()), &canceled, 100).expect("forgotten");
    assert_eq!((&call.job, call.stop_reason), (&Job::Canceled, Some(StopReason::CanceledByUser)));
    assert_eq!(rebuilt(Some(&call), &canceled, 101), None);
}

#[test]
fn refused_dial_becomes_the_dial_that_was_forgotten() {
    let forgotten = records(&dialled(&pending(), 1));
    let again = dialled(&pending(), 500);
    let call = again.recall("dial-500", &forgotten, &policy(), at(501)).expect("not reported").call;
    assert_eq!(call.dials(), forgotten.dials);
    assert_eq!((&call.job, call.in_doubt().len()), (&Job::InProgress, 1));
    let canceled = DialRecords { dials: Vec::new(), canceled: Some(StopReason::CanceledByUser) };
    let call = again.recall("dial-500", &canceled, &policy(), at(501)).expect("not reported").call;
    assert_eq!((&call.job, call.attempts().len()), (&Job::Canceled, 0));
}

#[test]
fn stopped_call_is_not_tried_again_and_still_learns_how_it_ended() {
    let ringing = folded(Some(&dialled(&pending(), 1)), &[event("r", "1", EventKind::Ringing, 5)], 5);
    for call in [pending(), dialled(&pending(), 1), ringing.clone()] {
        let stopped = call.stop_unknown(&policy(), at(10)).expect("placed by us").call;
        assert_eq!(stopped.stop_unknown(&policy(), at(11)), None);
        assert_eq!(stopped.claim("token", Provider::Retell, LEASE, true, &policy(), at(11)), None);
        let ended = busy(Some(&stopped), "1", 20);
        assert_eq!((&ended.job, ended.attempts().len()), (&Job::Failed, 1));
    }
    let stopped = ringing.stop_unknown(&policy(), at(10)).expect("placed by us").call;
    let answered = event("answered", "1", EventKind::InProgress, 20);
    let completed = folded(Some(&stopped), &[answered, event("done", "1", EventKind::Completed, 30)], 30);
    assert_eq!(completed.job, Job::Completed);
    assert_eq!(busy(None, "1", 5).stop_unknown(&policy(), at(10)), None, "another system places it");
}

#[test]
fn stopped_call_of_a_booking_is_not_resumed() {
    let ringing = folded(Some(&dialled(&pending(), 1)), &[event("r", "1", EventKind::Ringing, 5)], 5);
    let mut ended = dialled(&pending(), 1);
    ended.plan.as_mut().expect("a placed call has a plan").retry.attempts_max = 1;
    let ended = busy(Some(&ended), "1", 5);
    for (call, job) in [(pending(), Job::Canceled), (ringing, Job::InProgress), (ended, Job::Failed)] {
        let called_off = call.call_off(&policy(), at(8)).expect("not stopped").call;
        let stopped = called_off.stop_unknown(&policy(), at(10)).expect("it may have been resumed and dialled");
        assert_eq!((&stopped.call.job, stopped.new_announcements), (&job, 0));
        assert_eq!(stopped.call.resume(None, &policy(), at(11)), None);
        assert_eq!(stopped.call.stop_unknown(&policy(), at(11)), None);
    }
}

#[test]
fn events_that_a_row_holds_give_the_same_row_again() {
    let first = busy(Some(&dialled(&pending(), 1)), "1", 5);
    let call = busy(Some(&dialled(&first, 200)), "2", 210);
    let events = call.held_events();
    assert_eq!(events.len(), 4);
    let lost = rebuilt(None, &records(&call), 300).expect("created");
    let again = folded(Some(&lost), &events, 301);
    assert_eq!((again.attempts(), again.job), (call.attempts(), call.job));
}

#[test]
fn call_that_is_called_off_before_its_dial_is_recorded_is_not_dialled() {
    let off = dialled(&pending(), 500).call_off(&policy(), at(501)).expect("under way").call;
    assert_eq!(off.job, Job::InProgress);
    let canceled = DialRecords { dials: Vec::new(), canceled: Some(StopReason::BookingChanged) };
    let call = off.recall("dial-500", &canceled, &policy(), at(502)).expect("not reported").call;
    assert_eq!((&call.job, call.attempts().len()), (&Job::Canceled, 0));
}

#[test]
fn call_that_is_called_off_is_resumed_and_gets_no_retry_meanwhile() {
    let off = pending().call_off(&policy(), at(10)).expect("waiting").call;
    assert_eq!((&off.job, off.call_off(&policy(), at(11))), (&Job::Canceled, None));
    let again = off.resume(None, &policy(), at(20)).expect("called off").call;
    assert_eq!((again.job.state(), again.resume(None, &policy(), at(21))), (JobState::Pending, None));
    let job_at = |time: i64| again.state_as_of(at(time)).and_then(|past| past.job);
    assert_eq!([5, 15, 20].map(job_at), [JobState::Pending, JobState::Canceled, JobState::Pending].map(Some));
    // The phone rings when the booking changes. Nobody answers, and nobody is called again.
    let rings = folded(Some(&dialled(&pending(), 1)), &[event("r", "1", EventKind::Ringing, 5)], 5);
    let off = rings.call_off(&policy(), at(10)).expect("under way").call;
    let ended = busy(Some(&off), "1", 20);
    assert_eq!((&ended.job, ended.attempts().len()), (&Job::Canceled, 1));
    assert_eq!(ended.resume(None, &policy(), at(30)).expect("called off").call.job.state(), JobState::Pending);
    let canceled = pending().cancel(&policy(), at(10)).expect("waiting").call;
    assert_eq!((canceled.call_off(&policy(), at(11)), canceled.resume(None, &policy(), at(11))), (None, None));
}
