//! Calls that are due and cannot be dialled, dials that are taken back, and attempts about which a provider gives no answer.

use switchhook_domain::{Call, CallingWindow, DialRecords, EventKind, Job, Plan, Provider, StopReason};

use super::{LEASE, POLICY, RETRY, at, call_with, claimed, dialled, due_at, folded, moves, reasons, reports, types};

fn with_plan(change: impl FnOnce(&mut Plan)) -> Call {
    let mut call = call_with(RETRY);
    change(call.plan.as_mut().expect("a placed call has a plan"));
    call
}

#[test]
fn call_ends_without_a_claim_when_it_is_too_late() {
    let call = with_plan(|plan| plan.not_after = Some(at(100)));
    assert_eq!((call.is_too_late(at(99)), call.expire(&POLICY, at(99))), (false, None));
    let expired = call.expire(&POLICY, at(100)).expect("pending").call;
    assert_eq!((expired.job.as_str(), expired.stop_reason), ("FAILED", Some(StopReason::TooLate)));
    let reason = Some("too_late");
    assert_eq!(reasons(&expired), [("call.exhausted", reason), ("appointment.failed", reason)]);
    assert_eq!((moves(&expired), expired.wake_at), (vec![("given_up", reason)], None));
    assert_eq!(expired.expire(&POLICY, at(101)), None);
    // A dialer holds the claim, or the phone rings.
    assert_eq!(claimed(&call, 10).expire(&POLICY, at(100)), None);
    assert_eq!(dialled(&call, 10).expire(&POLICY, at(100)), None);
    assert_eq!(call_with(RETRY).expire(&POLICY, at(100)), None, "only calls of bookings have such a time");
}

#[test]
fn due_call_waits_for_the_opening_of_its_window() {
    // The window is open for the first hour of each day.
    let window: CallingWindow = "UTC 00:00-01:00".parse().expect("a valid window");
    let call = with_plan(|plan| plan.window = Some(window));
    assert_eq!(call.await_opening(&POLICY, at(3_599)), None, "the window is open");
    let waiting = call.await_opening(&POLICY, at(3_600)).expect("due").call;
    assert_eq!((due_at(&waiting), waiting.wake_at), (at(86_400), Some(at(86_400))));
    assert_eq!(moves(&waiting), [("returned", Some("window_closed"))]);
    assert_eq!(waiting.await_opening(&POLICY, at(3_601)), None, "it is not due");
    assert_eq!(claimed(&call, 10).await_opening(&POLICY, at(3_600)), None);
    assert_eq!(call_with(RETRY).await_opening(&POLICY, at(3_600)), None, "it has no window");
}

/// The first dial was withdrawn and the answer was lost. The next dial has the same number.
#[test]
fn dial_is_taken_back_by_its_own_dialer_only() {
    let first = dialled(&call_with(RETRY), 10);
    let withdrawn = first.withdraw("dial", at(10), &POLICY, at(10)).expect("not reported").call;
    let again = claimed(&withdrawn, 11).start_dial("token", "other", Provider::Vapi, &POLICY, at(11)).expect("claimed");
    let again = again.transition.call;
    assert_eq!(again.attempt_records[0].key, first.attempt_records[0].key);
    assert_eq!(again.withdraw("dial", at(12), &POLICY, at(12)), None);
    assert_eq!(again.reject("dial", &POLICY, at(12)), None);
    assert_eq!(again.recall("dial", &DialRecords::default(), &POLICY, at(12)), None);
    assert!(again.withdraw("other", at(12), &POLICY, at(12)).is_some());
}

/// The second claim expires too, and its expiry takes the place of the first one in the history.
#[test]
fn end_of_a_claim_before_a_closed_window_is_not_guessed() {
    let window: CallingWindow = "UTC 00:00-01:00".parse().expect("a valid window");
    let call = claimed(&with_plan(|plan| plan.window = Some(window)), 3_000);
    let expire = |call: &Call, now| {
        let expired = call.claim_expired_event(at(now)).expect("the lease has ended");
        folded(call, &expired)
    };
    let waiting = expire(&call, 3_400).await_opening(&POLICY, at(3_600)).expect("due").call;
    let job = |call: &Call, time| call.state_as_of(at(time)).and_then(|past| past.job).map(|job| job.as_str());
    assert_eq!([job(&waiting, 3_100), job(&waiting, 3_500)], [Some("CLAIMED"), Some("PENDING")]);
    let second = waiting.claim("token", Provider::Retell, LEASE, false, &POLICY, at(86_400)).expect("due").call;
    let second = expire(&second, 86_800);
    assert_eq!([job(&second, 3_100), job(&second, 3_500)], [None, None]);
    assert_eq!(job(&second, 86_500), Some("CLAIMED"));
}

/// Another system promises a retry of a call that Switchhook places.
#[test]
fn promise_of_a_retry_is_no_dial() {
    let call = call_with(RETRY);
    let mut promise = reports("1", "1", EventKind::RetryScheduled, 5);
    promise.attempt = None;
    for call in [call.clone(), claimed(&call, 10)] {
        let after = folded(&call, &promise);
        assert_eq!((after.job.as_str(), after.attempts().len()), (call.job.as_str(), 0));
        assert_eq!(types(&after), Vec::<String>::new());
    }
}

/// Another system reports an attempt of its own, while the call waits for its due time.
#[test]
fn attempt_of_another_system_does_not_make_a_call_due_before_its_time() {
    let mut call = with_plan(|plan| plan.due_at = at(90_000));
    call.job = Job::Pending { due_at: at(90_000) };
    let mut unnamed = reports("1", "1", EventKind::Busy, 20);
    unnamed.attempt = None;
    for event in [reports("1", "7", EventKind::NoAnswer, 20), unnamed] {
        let missed = folded(&call, &event);
        assert_eq!((missed.attempts().len(), due_at(&missed)), (1, at(90_000)));
        assert_eq!(due_at(&missed.trigger(&POLICY, at(30)).expect("pending").call), at(30));
    }
    // The retry of an attempt that a user triggered does not wait for the planned time.
    let triggered = dialled(&call.trigger(&POLICY, at(10)).expect("pending").call, 11);
    assert!(due_at(&folded(&triggered, &reports("1", "1", EventKind::NoAnswer, 20))) <= at(80));
}

#[test]
fn time_without_an_answer_leaves_out_when_nobody_asked_and_begins_anew_after_an_event() {
    let call = folded(&dialled(&call_with(RETRY), 10), &reports("1", "1", EventKind::InProgress, 20));
    let since = |call: &Call, now| {
        let overdue = call.overdue_attempts(&POLICY, at(now));
        call.unanswered_from(&overdue[0], &POLICY, at(now))
    };
    assert_eq!(since(&call, 960), at(920), "the timeout has just passed");
    assert_eq!(since(&call, 5_000), at(5_000), "the first lookup may be late");
    let call = Call { unanswered_since: Some(at(5_000)), ..call.waking_at(at(5_060)) };
    assert_eq!(since(&call, 5_060), at(5_000));
    assert_eq!(since(&call, 6_060), at(6_000), "nobody asked for 1,000 seconds");
    let refolded = Call { wake_at: Some(at(920)), ..call.clone() };
    assert_eq!(since(&refolded, 5_300), at(5_000), "a fold has set the time at which the timeout passed");
    let alive = call.alive_event(&call.overdue_attempts(&POLICY, at(6_000))[0], at(6_000));
    let call = folded(&call, &alive);
    assert_eq!((since(&call, 6_910), since(&call, 7_100)), (at(6_900), at(7_100)));
}
