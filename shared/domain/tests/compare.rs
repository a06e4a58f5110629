//! The comparison of a row with its events: a row that was folded has no difference, and every alteration is named.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use switchhook_domain::{
    AttemptKey, Call, CallEvent, CallId, Difference, Disposition, EventId, EventKind, Job, Origin, Policy, Provider,
    ProviderEvent, ProviderSet, Timestamp, differences, fold, refold,
};

const POLICY: Policy = Policy { inactivity_timeout: Duration::from_secs(900), outcome_providers: ProviderSet::ALL };

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn event(id: &str, kind: EventKind, second: i64) -> ProviderEvent {
    let (event_id, origin) = (EventId::new(format!("retell:{id}")), Origin::Provider(Provider::Retell));
    ProviderEvent {
        attempt: Some(AttemptKey::new("retell:c")),
        provider_call_id: Some("c".to_owned()),
        appointment_id: Some("apt".to_owned()),
        call_events: vec![CallEvent::new(kind, Some(at(second)))],
        ..ProviderEvent::new(event_id, origin, kind.as_str(), CallId::new("retell:c"), at(second))
    }
}

fn events() -> Vec<ProviderEvent> {
    [
        ("1", EventKind::Ringing),
        ("2", EventKind::InProgress),
        ("3", EventKind::UserConfirmed),
        ("4", EventKind::Completed),
    ]
    .into_iter()
    .zip(1..)
    .map(|((id, kind), second)| event(id, kind, second))
    .collect()
}

fn folded(events: &[ProviderEvent]) -> Call {
    let mut call = None;
    for event in events {
        call = fold(call.as_ref(), std::slice::from_ref(event), &POLICY, at(100)).transition.map(|it| it.call).or(call);
    }
    call.unwrap()
}

fn found(row: &Call, events: &[ProviderEvent]) -> Vec<String> {
    differences(row, events, |_| false, at(1_000)).iter().map(ToString::to_string).collect()
}

#[test]
fn row_that_was_folded_in_any_order_has_no_difference() {
    let events = events();
    for first in 0..4 {
        for second in 0..4 {
            let mut order = events.clone();
            order.swap(0, first);
            order.swap(1, second);
            for count in 1..=4 {
                assert_eq!(found(&folded(&order[..count]), &order[..count]), [""; 0], "{first} {second} {count}");
            }
        }
    }
}

#[test]
fn every_alteration_is_named_and_repaired() {
    type Alter = fn(&mut Call);
    let cases: [(Alter, &[&str]); 6] = [
        (|call| call.job = Job::Failed, &["the row says that the job is FAILED, and its events make it COMPLETED"]),
        (
            |call| drop(call.history.pop()),
            &[
                "the inbox holds the event retell:4, received at 1970-01-01T00:00:04.000Z, and the row does not",
                "announcement 7 names a source event that the row does not hold",
                "the row says that attempt 1 is in_progress, outcome confirmed, and its events make it completed, \
                 outcome confirmed",
            ],
        ),
        (
            |call| call.history[1].event.kind = EventKind::Busy,
            &[
                "the row holds the event retell:2 as busy at 1970-01-01T00:00:02.000Z, of attempt record 1, and its body \
               says in_progress at 1970-01-01T00:00:02.000Z, of attempt record 1",
            ],
        ),
        (
            |call| call.history[0].disposition = Disposition::Parked,
            &["the row says that ringing of the event retell:1 is parked, and its events make it applied"],
        ),
        (
            |call| call.announcements.truncate(call.announcements.len() - 1),
            &["the events give announcements that the row does not have: call.completed"],
        ),
        (|call| call.wake_at = Some(at(5)), &["the row has a wake-up time, although the call is settled"]),
    ];
    let events = events();
    for (alter, expected) in cases {
        let mut row = folded(&events);
        alter(&mut row);
        let named = found(&row, &events);
        for sentence in expected {
            assert!(named.iter().any(|it| it == sentence), "{sentence} is not among {named:#?}");
        }
        let drift = row.drift_found_event("x", at(200));
        let repaired = refold(&row, &events, |_| false, &drift, &POLICY, at(200)).transition.unwrap().call;
        let left = differences(&repaired, &events, |entry| entry.event.kind == EventKind::DriftFound, at(1_000));
        assert_eq!(left, [], "{named:#?}");
    }
}

#[test]
fn event_that_may_still_be_on_its_way_is_no_difference() {
    let events = events();
    let row = folded(&events[..3]);
    assert_eq!(differences(&row, &events, |_| false, at(3)), []);
    let names: Vec<&str> = differences(&row, &events, |_| false, at(4)).iter().map(Difference::name).collect();
    assert_eq!(names[0], "missing_event");
}

#[test]
fn event_that_the_inbox_no_longer_holds_is_named_unless_it_may_be_deleted() {
    let events = events();
    let row = folded(&events);
    let gone = &events[1..];
    assert_eq!(differences(&row, gone, |entry| entry.received_at < at(2), at(1_000)), []);
    let named = differences(&row, gone, |_| false, at(1_000));
    assert_eq!(named[0].name(), "unknown_event");
}

#[test]
fn own_id_of_a_disagreement_is_recognised() {
    let call = folded(&events());
    assert!(call.is_drift_found_id(&call.drift_found_event("x", at(1)).event_id));
    let attempt = &call.attempts()[0];
    assert!(!call.is_drift_found_id(&call.alive_event(attempt, at(1)).event_id));
    assert!(!call.is_drift_found_id(&EventId::new("retell:1")));
}
