//! Calls and retries that are called off, and calls that must be placed before a time.

use switchhook_domain::AppointmentStatus;

use super::*;

/// A call that must be placed before this time.
fn call_until(not_after: i64) -> Call {
    let mut call = call_with(RETRY);
    call.plan.as_mut().expect("a placed call has a plan").not_after = Some(at(not_after));
    call
}

/// The provider accepted the call, and sent no event about it.
fn unheard() -> Call {
    let call = dialled(&call_with(RETRY), 10);
    let call = folded(&call, &call.dial_accepted_event(&AttemptKey::new("1"), "p1", at(11)));
    let call = folded(&call, call.deadline_passed_events(&POLICY, at(911)).first().expect("overdue"));
    assert_eq!(call.job, Job::Failed);
    call
}

fn results(call: &Call) -> Vec<String> {
    let names = ["call.retry_scheduled", "call.exhausted", "call.canceled"];
    types(call).into_iter().filter(|name| names.contains(&name.as_str())).collect()
}

/// The ending of the attempt arrives late. Nobody may be called again about the old time.
#[test]
fn ended_call_that_is_called_off_is_not_retried_whatever_arrives_later() {
    let off = unheard().call_off(&POLICY, at(950)).expect("its booking changed").call;
    assert_eq!((&off.job, off.stop_reason), (&Job::Failed, Some(StopReason::BookingChanged)));
    assert_eq!(results(&off), ["call.exhausted"], "the call had ended, so nothing is news");
    let late = folded(&off, &reports("1", "1", EventKind::Busy, 960));
    assert_eq!(late.job, Job::Canceled);
    assert_eq!(results(&late), ["call.exhausted", "call.canceled"]);
    let resumed = late.resume(None, &POLICY, at(970)).expect("called off").call;
    assert!(resumed.is_pending());
}

/// The dialer that holds the claim loses it.
#[test]
fn user_cancels_a_claimed_call() {
    let claimed = claimed(&call_with(RETRY), 10);
    let canceled = claimed.cancel(&POLICY, at(11)).expect("claimed").call;
    assert_eq!((canceled.job.as_str(), canceled.settled_at), ("CANCELED", Some(at(11))));
    assert_eq!(canceled.start_dial("token", "dial", Provider::Retell, &POLICY, at(11)), None);
}

/// The attempt goes on, and no further one follows. A doubt about it is looked at as early as without the cancellation.
#[test]
fn user_cancels_a_call_that_rings() {
    let rings = dialled(&call_with(RETRY), 10);
    let canceled = rings.cancel(&POLICY, at(11)).expect("under way").call;
    assert_eq!((canceled.job.as_str(), canceled.wake_at), ("IN_PROGRESS", rings.wake_at));
    assert_eq!((types(&canceled), canceled.cancel(&POLICY, at(12))), (types(&rings), None));
    let missed = folded(&canceled, &reports("1", "1", EventKind::NoAnswer, 40));
    let last = missed.domain_events_from(1).into_iter().rfind(|event| event.event_type == "call.canceled");
    let last = last.expect("announced");
    assert_eq!((missed.job.as_str(), last.reason, last.attempt), ("CANCELED", Some("canceled_by_user"), Some(1)));
    let confirmed = folded(&canceled, &reports("1", "1", EventKind::UserConfirmed, 40));
    assert_eq!((confirmed.job.as_str(), confirmed.cancel(&POLICY, at(41))), ("COMPLETED", None));
}

/// A changed booking is no such cancellation: it may come back, and the provider refuses the number for good.
#[test]
fn call_that_a_user_canceled_stays_canceled_when_its_dial_is_refused() {
    let rings = dialled(&call_with(RETRY), 10);
    let canceled = rings.cancel(&POLICY, at(11)).expect("under way").call;
    for refused in [canceled.reject("dial", &POLICY, at(12)), canceled.withdraw("dial", at(60), &POLICY, at(12))] {
        let refused = refused.expect("not reported").call;
        assert_eq!((refused.job.as_str(), refused.stop_reason), ("CANCELED", Some(StopReason::CanceledByUser)));
        assert_eq!(types(&refused), ["call.canceled", "appointment.canceled"]);
    }
    let off = rings.call_off(&POLICY, at(11)).expect("under way").call;
    let refused = off.reject("dial", &POLICY, at(12)).expect("not reported").call;
    assert_eq!((refused.job.as_str(), refused.stop_reason), ("FAILED", Some(StopReason::RejectedByProvider)));
}

/// A booking that comes back lifts only what the booking has done.
#[test]
fn call_that_was_called_off_while_it_rang_can_be_canceled_by_the_user() {
    let off = dialled(&call_with(RETRY), 10).call_off(&POLICY, at(11)).expect("under way").call;
    let canceled = off.cancel(&POLICY, at(12)).expect("called off").call;
    assert_eq!(canceled.stop_reason, Some(StopReason::CanceledByUser));
    assert_eq!(canceled.resume(None, &POLICY, at(13)), None);
}

#[test]
fn call_that_succeeded_stays_so_when_its_booking_changes() {
    let call = folded(&dialled(&call_with(RETRY), 10), &reports("1", "1", EventKind::UserConfirmed, 20));
    let off = call.call_off(&POLICY, at(30)).expect("its booking changed").call;
    assert_eq!((off.job.as_str(), types(&off)), ("COMPLETED", types(&call)));
}

#[test]
fn attempt_that_used_the_last_try_fails_the_call_although_it_was_called_off() {
    let rings = folded(
        &dialled(&call_with(RetryPolicy { attempts_max: 1, ..RETRY }), 10),
        &reports("1", "1", EventKind::Ringing, 12),
    );
    let off = rings.call_off(&POLICY, at(13)).expect("under way").call;
    let ended = folded(&off, &reports("2", "1", EventKind::Busy, 20));
    assert_eq!(ended.job, Job::Failed);
    let last = ended.domain_events_from(1).into_iter().rfind(|event| event.event_type == "call.exhausted");
    assert_eq!(last.and_then(|event| event.reason), Some("attempts_used"));
    // The booking has another call since, which gives the status of the appointment.
    assert_eq!(AppointmentStatus::of_calls(std::slice::from_ref(&ended)), Some(AppointmentStatus::NoAnswer));
    assert_eq!(AppointmentStatus::of_calls(&[ended, call_with(RETRY)]), Some(AppointmentStatus::Pending));
}

#[test]
fn ended_call_whose_person_was_forgotten_is_not_called_off() {
    let forgotten = unheard().forget(at(950)).expect("ended").call;
    let late = folded(&forgotten, &reports("1", "1", EventKind::Busy, 960));
    assert_eq!((&late.job, late.call_off(&POLICY, at(970))), (&Job::Failed, None));
}

/// The booking moves away and back. The call is canceled twice, and both times it is news.
#[test]
fn result_that_was_overtaken_is_announced_again() {
    let busy = folded(&dialled(&call_with(RETRY), 10), &reports("1", "1", EventKind::Busy, 20));
    let off = busy.call_off(&POLICY, at(21)).expect("waiting").call;
    let back = off.resume(None, &POLICY, at(22)).expect("called off").call;
    let again = back.call_off(&POLICY, at(23)).expect("waiting").call;
    assert_eq!(results(&again), ["call.retry_scheduled", "call.canceled", "call.retry_scheduled", "call.canceled"]);

    // The attempt times out, its ending arrives late, and then the dialer gives up.
    let retried = folded(&unheard(), &reports("1", "1", EventKind::Busy, 960));
    let due_at = due_at(&retried);
    let claimed = retried.claim("token", Provider::Retell, LEASE, false, &POLICY, due_at).expect("due").call;
    let ended = claimed.give_up("token", StopReason::DoNotCall, &POLICY, due_at).expect("claimed").call;
    assert_eq!(results(&ended), ["call.exhausted", "call.retry_scheduled", "call.exhausted"]);
    let events = ended.domain_events_from(1);
    let of_type = |event_type: &str| events.iter().find(|event| event.event_type == event_type).expect("announced");
    assert_eq!(of_type("call.retry_scheduled").corrects.as_ref(), Some(&of_type("call.exhausted").id));
}

/// The booking moves away and back before anybody is called. The appointment goes on, so it is announced neither as canceled nor again.
#[test]
fn call_without_an_attempt_announces_that_it_waits_again() {
    let call = call_with(RETRY);
    let off = call.call_off(&POLICY, at(5)).expect("waiting").call;
    assert_eq!(types(&off), ["call.canceled"]);
    let back = off.resume(None, &POLICY, at(6)).expect("called off").call;
    let event = back.domain_events_from(2).pop().expect("announced");
    assert_eq!((event.event_type.as_str(), event.attempt, event.source_event_id), ("call.retry_scheduled", None, None));
    assert_eq!((event.corrects.as_deref(), event.due_at), (Some("call-1/1"), Some(at(10).to_string())));
    let again = back.call_off(&POLICY, at(7)).expect("waiting").call;
    let again = again.resume(Some(at(700)), &POLICY, at(8)).expect("called off").call;
    assert_eq!(types(&again), ["call.canceled", "call.retry_scheduled", "call.canceled", "call.retry_scheduled"]);
    assert_eq!(due_at(&again), at(700));
    // An event that changes nothing announces nothing.
    let folded = folded(&again, &again.drift_found_event("1", at(9)));
    assert_eq!(types(&folded), types(&again));
    assert_eq!(types(&dialled(&folded, 700)), types(&again));
}

/// The provider accepted a dial, and reports that it dialled nobody. Meanwhile the booking has moved.
#[test]
fn announced_dial_that_was_not_made_ends_when_its_booking_changes() {
    let call = dialled(&call_with(RETRY), 10);
    let call = folded(&call, &call.dial_accepted_event(&AttemptKey::new("1"), "p1", at(11)));
    let off = call.call_off(&POLICY, at(12)).expect("under way").call;
    let ended = folded(&off, &off.not_dialled_event(&AttemptKey::new("1"), "p1", at(13)));
    let expected = ["call.initiated", "appointment.dialing", "call.canceled", "appointment.canceled"];
    assert_eq!(types(&ended), expected);
    let back = ended.resume(None, &POLICY, at(14)).expect("called off").call;
    assert_eq!(types(&back)[4..], ["call.retry_scheduled", "appointment.retrying"]);
    assert_eq!(back.domain_events_from(6).pop().and_then(|event| event.attempt), Some(1));

    // The booking moves after the report. The retry was announced by then.
    let retried = folded(&call, &call.not_dialled_event(&AttemptKey::new("1"), "p1", at(12)));
    let off = retried.call_off(&POLICY, at(13)).expect("waiting").call;
    let back = off.resume(None, &POLICY, at(14)).expect("called off").call;
    let expected = ["call.retry_scheduled", "appointment.retrying"];
    assert_eq!(types(&back)[2..4], expected);
    assert_eq!(types(&back)[4..6], ["call.canceled", "appointment.canceled"]);
    assert_eq!(types(&back)[6..], expected);
}

/// The second dial was announced and not made. The appointment has the status of the first attempt again.
#[test]
fn announced_second_dial_that_was_not_made_does_not_stay_the_status_of_the_appointment() {
    let key = AttemptKey::new("2");
    let missed = folded(&dialled(&call_with(RETRY), 10), &reports("1", "1", EventKind::NoAnswer, 30));
    let again = dialled(&missed, 200);
    let again = folded(&again, &again.dial_accepted_event(&key, "p2", at(201)));
    assert_eq!(again.appointment_status(), AppointmentStatus::Dialing);
    let off = again.call_off(&POLICY, at(202)).expect("under way").call;
    let nobody = folded(&off, &off.not_dialled_event(&key, "p2", at(203)));
    assert_eq!((nobody.job.as_str(), nobody.appointment_status()), ("CANCELED", AppointmentStatus::NoAnswer));
    let events = nobody.domain_events_from(1);
    let last = events.iter().rfind(|event| event.event_type.starts_with("appointment.")).expect("announced");
    assert_eq!((last.event_type.as_str(), &last.corrects), ("appointment.no_answer", &None), "{:?}", types(&nobody));
    assert_eq!(types(&folded(&nobody, &nobody.dial_not_found_event(&key, at(999)))), types(&nobody), "it is told once");
}

#[test]
fn retry_that_would_come_too_late_is_none() {
    let ended = folded(&dialled(&call_until(41), 10), &reports("1", "1", EventKind::NoAnswer, 40));
    let (call, reason) = (ended.job.clone(), ended.domain_events_from(1));
    let reason = reason.iter().rfind(|event| event.event_type == "call.exhausted").and_then(|event| event.reason);
    assert_eq!((call, reason), (Job::Failed, Some("too_late")), "{:?}", results(&ended));
    assert!(!results(&ended).contains(&"call.retry_scheduled".to_owned()));
    assert_eq!(ended.appointment_status(), AppointmentStatus::NoAnswer);

    let in_time = folded(&dialled(&call_until(5_000), 10), &reports("1", "1", EventKind::NoAnswer, 40));
    assert!(in_time.is_pending());
}

#[test]
fn postponed_call_waits_no_longer_than_it_makes_sense() {
    let call = claimed(&call_until(100), 10);
    let postponed = call.postpone("token", at(90_000), &POLICY, at(11)).expect("claimed").call;
    assert_eq!((due_at(&postponed), postponed.wake_at), (at(100), Some(at(100))));
}

/// The attempt failed, a late report says that it was answered, and then the retry is called off. The first
/// `appointment.connected` corrects `appointment.no_answer`; the second one repeats the first and corrects nothing.
#[test]
fn retry_that_is_called_off_corrects_nothing_a_second_time() {
    let unnamed = |id, kind, now| ProviderEvent { attempt: None, ..reports(id, "1", kind, now) };
    let mut answered = unnamed("2", EventKind::InProgress, 3);
    answered.call_events.retain(|event| !event.implied);
    let call = folded(&call_with(RETRY), &unnamed("1", EventKind::Failed, 2));
    let call = folded(&call, &answered);
    let call = call.claim("token", Provider::Retell, LEASE, true, &POLICY, at(4)).unwrap().call;
    let call = call.give_up("token", StopReason::DoNotCall, &POLICY, at(5)).unwrap().call;

    let events = call.domain_events_from(1);
    let events = events.iter().filter(|event| event.event_type.starts_with("appointment."));
    let events: Vec<_> = events
        .map(|event| (event.sequence, event.status, event.corrects.as_deref(), event.source_event_id.as_deref()))
        .collect();
    let (failed, answered) = (Some("retell:1"), Some("retell:2"));
    assert_eq!(
        events,
        [
            (4, "dialing", None, failed),
            (5, "no_answer", None, failed),
            (6, "retrying", None, failed),
            (7, "connected", Some("call-1/5"), answered),
            (8, "retrying", None, failed),
            (10, "connected", None, None),
        ]
    );
}
