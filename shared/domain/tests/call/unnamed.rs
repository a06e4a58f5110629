//! Events that name no attempt, of calls that other systems place.

use EventKind::{Busy, Completed, InProgress, NoAnswer, RetryScheduled, Ringing, UserConfirmed, UserDeclined};

use super::*;

/// A confirmation without attempt, and later reports of two attempts: the second of them began before everything.
fn all() -> Vec<ProviderEvent> {
    let mut confirmed = event("1", None, UserConfirmed, Some(500), 600);
    let implied = |kind| CallEvent { implied: true, ..CallEvent::new(kind, None) };
    confirmed.call_events.splice(0..0, [implied(Ringing), implied(InProgress)]);
    vec![
        confirmed,
        event("2", Some("d"), Ringing, Some(795), 800),
        event("3", Some("d"), NoAnswer, Some(800), 801),
        event("4", Some("c"), Ringing, Some(430), 802),
        event("5", Some("c"), InProgress, Some(440), 803),
        event("6", Some("c"), Completed, Some(560), 804),
    ]
}

fn taken_by_an_earlier_attempt() -> Call {
    one_by_one(&all()).unwrap()
}

#[test]
fn confirmation_that_belongs_to_an_earlier_attempt_after_all_is_announced_once() {
    let call = taken_by_an_earlier_attempt();
    let attempts: Vec<_> = call.attempts().iter().map(|it| (it.lifecycle_label(), it.outcome_label())).collect();
    assert_eq!(attempts, [("completed", "confirmed"), ("no_answer", "no_answer")]);
    let types = types(&call);
    assert_eq!(types.iter().filter(|name| *name == "appointment.confirmed").count(), 1, "{types:?}");
}

#[test]
fn two_decisions_that_belong_to_an_earlier_attempt_after_all_are_announced_once() {
    let mut declined = event("0", None, UserDeclined, Some(490), 599);
    declined
        .call_events
        .splice(0..0, [Ringing, InProgress].map(|kind| CallEvent { implied: true, ..CallEvent::new(kind, None) }));
    let call = one_by_one(&[vec![declined], all()].concat()).unwrap();
    let types = types(&call);
    let count = |name: &str| types.iter().filter(|other| *other == name).count();
    assert_eq!((count("appointment.declined"), count("appointment.confirmed")), (1, 1), "{types:?}");
    assert_eq!(call.appointment_status().as_str(), "Confirmed");
}

/// An event that follows on the lower ending is announced too, and corrects it.
#[test]
fn attempt_that_announced_its_lower_ending_announces_what_replaces_it() {
    let call = taken_by_an_earlier_attempt();
    for kind in [Busy, InProgress] {
        let next = fold(Some(&call), &[event("7", Some("d"), kind, Some(797), 900)], &POLICY, at(900))
            .transition
            .unwrap()
            .call;
        let state = next.attempts()[1].lifecycle_label();
        let of_call = |event: &DomainEvent| {
            event.event_type.starts_with("call.").then(|| (event.status, event.corrects.is_some()))
        };
        let last = next.domain_events_from(1).iter().rev().find_map(of_call);
        assert_eq!(last, Some((state, true)), "{kind:?}: {:?}", types(&next));
    }
}

/// The attempt loses its ending, times out, and then reports the same ending itself.
#[test]
fn ending_that_comes_back_after_a_timeout_is_announced_again() {
    let mut answered = event("1", None, InProgress, Some(500), 800);
    answered.call_events.insert(0, CallEvent { implied: true, ..CallEvent::new(Ringing, None) });
    let all = [
        event("0", Some("d"), Ringing, Some(795), 799),
        answered,
        event("2", None, Completed, Some(560), 801),
        event("3", Some("c"), Ringing, Some(430), 802),
    ];
    let call = one_by_one(&all).unwrap();
    assert_eq!(call.attempts()[1].lifecycle_label(), "ringing");
    let next =
        |call: &Call, events: &[ProviderEvent]| fold(Some(call), events, &POLICY, at(2_000)).transition.unwrap().call;
    let call = next(&call, &call.deadline_passed_events(&POLICY, at(2_000)));
    assert_eq!(call.attempts()[1].lifecycle_label(), "inconclusive");
    let own = [event("4", Some("d"), InProgress, Some(797), 2_001), event("5", Some("d"), Completed, Some(799), 2_002)];
    let call = next(&call, &own);
    assert_eq!(call.attempts()[1].lifecycle_label(), "completed");
    let of_d = |event: &DomainEvent| event.attempt == Some(2) && event.event_type.starts_with("call.");
    let last = call.domain_events_from(1).into_iter().rfind(of_d).unwrap();
    assert_eq!((last.status, last.corrects.is_some()), ("completed", true), "{:?}", types(&call));
}

/// The sender's clock, or its delivery, is late. The promise is news all the same.
#[test]
fn attempt_of_which_only_a_promise_is_known_times_out_after_its_receipt() {
    let call = one_by_one(&[event("1", None, RetryScheduled, Some(0), 2_000)]).unwrap();
    assert_eq!(call.deadline_passed_events(&POLICY, at(2_899)), vec![]);
    assert_ne!(call.deadline_passed_events(&POLICY, at(2_900)), vec![]);
}

#[test]
fn attempt_that_loses_an_event_to_an_earlier_one_announces_its_ending() {
    let call = taken_by_an_earlier_attempt();
    let endings: Vec<_> =
        call.domain_events_from(1).into_iter().filter(|event| event.event_type == "call.no_answer").collect();
    assert_eq!(endings.len(), 1, "{:?}", types(&call));
    assert!(call.domain_events_from(1).iter().any(|event| event.event_type == "call.completed"));
}

/// The promise of another attempt is no sign of life of the last one.
#[test]
fn promised_retry_does_not_bring_an_inconclusive_attempt_back() {
    let call = one_by_one(&[event("1", Some("a"), InProgress, Some(1), 1)]).unwrap();
    let passed = call.deadline_passed_events(&POLICY, at(901));
    let call = fold(Some(&call), &passed, &POLICY, at(901)).transition.unwrap().call;
    assert_eq!((call.attempts()[0].lifecycle_label(), call.is_settled()), ("inconclusive", true));
    let retry = event("2", None, RetryScheduled, Some(950), 950);
    let call = fold(Some(&call), &[retry], &POLICY, at(950)).transition.unwrap().call;
    assert_eq!((call.attempts()[0].lifecycle_label(), call.job.as_str()), ("inconclusive", "IN_PROGRESS"));
    assert_eq!((call.appointment_status().as_str(), call.next_wake_at(&POLICY)), ("Retrying", Some(at(1_850))));
}
