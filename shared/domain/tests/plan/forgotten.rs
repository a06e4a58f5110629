//! Calls whose person is forgotten: the state stays, the person goes, and nobody dials.

use switchhook_domain::{Direction, differences};

use super::*;

fn forgotten(call: &Call, now: i64) -> Call {
    call.forget(at(now)).expect("the call has ended").call
}

/// A call that was answered and has ended. Its outcome may still arrive.
fn ended() -> Call {
    let mut call = call_with(RetryPolicy { voicemail: true, ..RETRY });
    if let Some(plan) = &mut call.plan {
        plan.metadata.insert("customer".to_owned(), "Ottilie".to_owned());
        plan.request_hash = Some("hash".to_owned());
    }
    folded(&dialled(&call, 10), &reports("1", "1", EventKind::Completed, 60))
}

#[test]
fn forgotten_call_keeps_its_state_and_names_nobody() {
    let call = ended();
    let transition = call.forget(at(100)).unwrap();
    assert_eq!(transition.new_announcements, 0);
    let after = transition.call;
    assert_eq!(
        (after.forgotten_at, after.version, after.updated_at),
        (Some(at(100)), call.version + 1, call.updated_at)
    );
    assert_eq!((&after.from, &after.to, after.party()), (&None, &None, None));
    let plan = after.plan.as_ref().unwrap();
    assert!(plan.metadata.is_empty() && plan.request_hash.is_none(), "{plan:?}");
    assert_eq!((&after.history, &after.announcements, &after.job), (&call.history, &call.announcements, &call.job));
    assert_eq!(after.domain_events_from(1), call.domain_events_from(1));
    assert_eq!(forgotten(&after, 200).forgotten_at, Some(at(100)), "the first time stays");
}

#[test]
fn call_that_waits_or_runs_is_not_forgotten() {
    let pending = call_with(RETRY);
    let busy = folded(&dialled(&pending, 10), &reports("1", "1", EventKind::Busy, 20));
    for call in [&pending, &claimed(&pending, 10), &dialled(&pending, 10), &busy] {
        assert_eq!(call.forget(at(30)), None, "{}", call.job.as_str());
    }
    // The person has decided, and is still on the line.
    let confirmed = folded(&dialled(&pending, 10), &reports("1", "1", EventKind::UserConfirmed, 20));
    assert_eq!((confirmed.job.as_str(), confirmed.forget(at(30))), ("COMPLETED", None));
    let canceled = busy.cancel(&POLICY, at(31)).unwrap().call;
    assert!(canceled.forget(at(32)).is_some());
}

#[test]
fn late_event_changes_the_state_and_brings_nobody_back() {
    let call = forgotten(&ended(), 100);
    let number = PhoneNumber::new("+15550101");
    let late = reports("2", "1", EventKind::UserConfirmed, 110);
    let late = ProviderEvent { to: Some(number), direction: Some(Direction::Outbound), ..late };
    let after = folded(&call, &late);
    assert_eq!((&after.from, &after.to, after.forgotten_at), (&None, &None, Some(at(100))));
    assert_eq!(types(&after).last().map(String::as_str), Some("appointment.confirmed"));
}

/// Nobody knows the number any more, so the call cannot be retried.
#[test]
fn late_event_that_would_make_the_call_due_ends_it() {
    let call = ended();
    let voicemail = reports("2", "1", EventKind::VoicemailDetected, 50);
    assert!(folded(&call, &voicemail).is_pending(), "the retry policy retries a voicemail");
    let after = folded(&forgotten(&call, 100), &voicemail);
    assert_eq!((after.job.as_str(), after.next_wake_at(&POLICY)), ("FAILED", None));
    assert_eq!(reasons_of_end(&after), [("call.exhausted".to_owned(), Some("forgotten"))]);
}

fn reasons_of_end(call: &Call) -> Vec<(String, Option<&'static str>)> {
    let events = call.domain_events_from(1).into_iter().filter(|event| event.reason.is_some());
    events.map(|event| (event.event_type, event.reason)).collect()
}

/// The row was restored from a backup that is older than the request to forget.
#[test]
fn erased_event_forgets_a_restored_row() {
    let row = ended();
    let erased = reports("1", "1", EventKind::Completed, 60).forgotten(at(100));
    let found = differences(&row, std::slice::from_ref(&erased), |_| false, at(200));
    assert_eq!(found.iter().map(switchhook_domain::Difference::name).collect::<Vec<_>>(), ["not_forgotten"]);
    let drift = row.drift_found_event("restored", at(200));
    let repaired = refold(&row, std::slice::from_ref(&erased), |_| false, &drift, &POLICY, at(200));
    let repaired = repaired.transition.unwrap().call;
    assert_eq!((&repaired.to, repaired.forgotten_at), (&None, Some(at(100))));
    assert_eq!(repaired.job, row.job);
    let again = differences(&repaired, &[erased], |entry| entry.event.kind == EventKind::DriftFound, at(200));
    assert_eq!(again, []);
}

/// A person is forgotten after the end of a call, so nothing of what the call was before depends on it.
#[test]
fn earlier_states_are_those_of_a_call_that_was_not_forgotten() {
    let busy = folded(&dialled(&call_with(RETRY), 10), &reports("1", "1", EventKind::Busy, 20));
    let canceled = busy.cancel(&POLICY, at(50)).expect("pending").call;
    let call = forgotten(&canceled, 100);
    let past = |time| call.as_of(at(time)).map(|past| (past.job.map(|job| job.as_str()), past.call.forgotten_at));
    assert_eq!([past(5), past(30)], [Some((Some("PENDING"), None)); 2]);
    // The request wrote the row, and is no event, so `updated_at` stays.
    assert_eq!([past(50), past(99)], [Some((Some("CANCELED"), None)); 2]);
    assert_eq!(past(100), Some((Some("CANCELED"), Some(at(100)))));
}
