//! Properties of whole calls: several attempts, missing times, deadlines, repetitions, any order and any batching.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that panics has failed, which is what it is for"
)]

#[path = "call/unnamed.rs"]
mod unnamed;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use switchhook_domain::{
    ATTEMPT_EVENTS_MAX, AnnouncementKind, AppointmentStatus, AttemptKey, CALL_ATTEMPTS_MAX, Call, CallEvent, CallId,
    Direction, Disposition, DomainEvent, EventId, EventKind, FoldOutcome, Job, Lifecycle, Origin, Policy, Provider,
    ProviderEvent, ProviderSet, Timestamp, Transition, fold,
};

const POLICY: Policy = Policy { inactivity_timeout: Duration::from_secs(900), outcome_providers: ProviderSet::ALL };

/// Kinds of events that only Switchhook makes.
const OWN_KINDS: [EventKind; 6] = [
    EventKind::Alive,
    EventKind::ClaimExpired,
    EventKind::DialNotFound,
    EventKind::RetryMissed,
    EventKind::DriftFound,
    EventKind::DeadlinePassed,
];

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

/// Returns a provider event of the call `generic:c` that reports `kind`.
fn event(id: &str, attempt: Option<&str>, kind: EventKind, occurred: Option<i64>, received: i64) -> ProviderEvent {
    let (event_id, origin) = (EventId::new(format!("generic:{id}")), Origin::Provider(Provider::Generic));
    ProviderEvent {
        attempt: attempt.map(AttemptKey::new),
        provider_call_id: attempt.map(str::to_owned),
        appointment_id: Some("apt".to_owned()),
        call_events: vec![CallEvent::new(kind, occurred.map(at))],
        ..ProviderEvent::new(event_id, origin, kind.as_str(), CallId::new("generic:c"), at(received))
    }
}

/// Folds the batches one after the other.
fn deliver(batches: &[Vec<ProviderEvent>]) -> Option<Call> {
    batches
        .iter()
        .fold(None, |call, batch| fold(call.as_ref(), batch, &POLICY, at(10_000)).transition.map(|it| it.call).or(call))
}

fn one_by_one(events: &[ProviderEvent]) -> Option<Call> {
    deliver(&events.iter().map(|event| vec![event.clone()]).collect::<Vec<_>>())
}

/// Returns everything about a call that must not depend on the deliveries.
fn essence(call: &Call) -> impl PartialEq + std::fmt::Debug + use<> {
    let attempts: Vec<_> = call
        .attempts()
        .iter()
        .map(|attempt| {
            let key = call.attempt_records[attempt.index].key.clone();
            (
                key,
                call.attempt_provider(attempt.index),
                attempt.number,
                attempt.lifecycle,
                attempt.outcome,
                attempt.timed_out,
                attempt.started_at,
                attempt.ended_at,
            )
        })
        .collect();
    let dispositions: BTreeMap<EventId, _> = call.history.iter().map(|entry| (entry.id(), entry.disposition)).collect();
    let timeline: Vec<EventId> = call.timeline().iter().map(|entry| entry.id()).collect();
    let due = call.next_wake_at(&POLICY);
    (attempts, dispositions, timeline, call.job.clone(), call.appointment_status(), call.is_settled(), due)
}

fn a_kind() -> impl Strategy<Value = EventKind> {
    prop::sample::select(EventKind::ALL.to_vec())
}

/// Draws up to eight events. Each names one of two attempts, or none. They have so few times that ties happen.
fn some_events() -> impl Strategy<Value = Vec<ProviderEvent>> {
    let id = || prop::option::of(prop::sample::select(vec!["a", "b"]));
    let provider = prop::sample::select(vec![Provider::Generic, Provider::Retell, Provider::Twilio]);
    let direction = prop::sample::select(vec![None, Some(Direction::Inbound), Some(Direction::Outbound)]);
    let one = (a_kind(), id(), id(), prop::option::of(0..6_i64), 0..9_i64, provider, direction, any::<bool>());
    prop::collection::vec(one, 1..8).prop_map(|all| {
        all.into_iter()
            .enumerate()
            .map(|(n, (kind, attempt, provider_call, occurred, received, provider, direction, has_appointment))| {
                let mut event = event(&format!("e{n}"), attempt, kind, occurred, 100 + received);
                event.event_id = EventId::new(format!("{provider}:e{n}"));
                event.origin = Origin::Provider(provider);
                event.provider_call_id = provider_call.map(str::to_owned);
                event.direction = direction;
                event.appointment_id = event.appointment_id.filter(|_| has_appointment);
                if OWN_KINDS.contains(&kind) {
                    event.event_id = EventId::new(format!("switchhook:e{n}"));
                    event.origin = Origin::Switchhook;
                    (event.direction, event.appointment_id, event.provider_call_id) = (None, None, None);
                    event.call_events[0].occurred_at = Some(at(100 + received));
                }
                event
            })
            .collect()
    })
}

/// Draws some events, and deliveries of them: shuffled, in batches, some delivered twice.
fn deliveries() -> impl Strategy<Value = (Vec<ProviderEvent>, Vec<Vec<ProviderEvent>>)> {
    some_events().prop_flat_map(|events| {
        let mut twice = events.clone();
        twice.extend(events.iter().step_by(2).cloned());
        let sizes = prop::collection::vec(1..4_usize, twice.len());
        (Just(events), Just(twice).prop_shuffle(), sizes).prop_map(|(events, shuffled, sizes)| {
            let mut rest = shuffled.as_slice();
            let mut batches = Vec::new();
            for size in sizes {
                let (batch, more) = rest.split_at(size.min(rest.len()));
                batches.push(batch.to_vec());
                rest = more;
            }
            (events, batches)
        })
    })
}

mod random {
    use super::*;

    proptest! {
        #![proptest_config(switchhook_random::config(2_000, Some("tests/call.proptest-regressions")))]

        #[test]
        fn invariant_state_is_a_function_of_the_set((events, batches) in deliveries()) {
            // A deadline cannot create a call, so in both deliveries the first event is a provider's.
            let opener = event("opener", None, EventKind::Initiated, Some(0), 100);
            let mut plain = vec![opener.clone()];
            plain.extend(events);
            let mut mixed = vec![vec![opener]];
            mixed.extend(batches);
            let (plain, mixed) = (one_by_one(&plain), deliver(&mixed));
            prop_assert_eq!(plain.as_ref().map(essence), mixed.as_ref().map(essence));
        }

        #[test]
        fn invariant_precedence_never_falls_within_a_named_attempt(events in some_events()) {
            let mut call: Option<Call> = None;
            let named = |event: &ProviderEvent| event.attempt.is_some();
            for event in events.iter().filter(|event| named(event)) {
                let Some(after) = fold(call.as_ref(), std::slice::from_ref(event), &POLICY, at(10_000)).transition.map(|it| it.call) else { continue };
                for before in call.iter().flat_map(Call::attempts) {
                    let now = after.attempts().into_iter().find(|attempt| attempt.index == before.index).unwrap();
                    prop_assert!(now.lifecycle >= before.lifecycle);
                    prop_assert!(now.outcome >= before.outcome);
                }
                call = Some(after);
            }
        }

        #[test]
        fn invariant_announcements_rise_and_never_change((_, batches) in deliveries()) {
            use AppointmentStatus::{Connected, Dialing, Inconclusive};
            let mut call: Option<Call> = None;
            let mut published: Vec<DomainEvent> = Vec::new();
            for batch in &batches {
                let folded = fold(call.as_ref(), batch, &POLICY, at(10_000));
                let Some(Transition { call: after, new_announcements }) = folded.transition else { continue };
                let first_new = after.announcements.len() + 1 - new_announcements;
                published.extend(after.domain_events_from(first_new));
                // Events that were published before are published again with the same content.
                prop_assert_eq!(&published, &after.domain_events_from(1));
                // The last word is the status. An attempt that is only reported to be alive, or goes on after its timeout, is not told.
                let mut kinds = after.announcements.iter().map(|announcement| announcement.kind);
                let last = kinds.rfind(|kind| matches!(kind, AnnouncementKind::Appointment(_)));
                let is_alive = after.attempts().last().is_some_and(|latest| latest.lifecycle == Lifecycle::Initiated);
                let is_told = match (last, after.appointment_status()) {
                    (Some(AnnouncementKind::Appointment(Inconclusive)), Dialing | Connected) => true,
                    (Some(last), status) => last == AnnouncementKind::Appointment(status) || status == Dialing && is_alive,
                    (None, _) => true,
                };
                prop_assert!(is_told, "{last:?} {:?}", after.appointment_status());
                call = Some(after);
            }
            let ids: BTreeSet<&str> = published.iter().map(|event| event.id.as_str()).collect();
            prop_assert_eq!(ids.len(), published.len());
            if let Some(call) = call {
                for index in 0..call.attempt_records.len() {
                    let own = call.announcements.iter().filter(|announcement| announcement.attempt_index == Some(index));
                    let states: Vec<_> = own.filter_map(|it| if let AnnouncementKind::Lifecycle(state) = it.kind { Some(state) } else { None }).collect();
                    // Only an ending may be lower: the attempt has lost an event to an earlier one.
                    let rises = |pair: &[Lifecycle]| pair[0] < pair[1] || pair[0] > pair[1] && pair[1].is_ending();
                    prop_assert!(states.windows(2).all(rises), "{states:?}");
                    // The last announcement of each attempt is its state. An attempt that is only reported to be alive has none.
                    let attempt = call.attempts().into_iter().find(|attempt| attempt.index == index).unwrap();
                    let is_told = |last: &Lifecycle| {
                        last.label() == attempt.lifecycle.label() || *last > attempt.lifecycle && !attempt.lifecycle.is_ending()
                    };
                    prop_assert!(states.last().is_none_or(is_told), "{states:?} {:?}", attempt.lifecycle);
                }
            }
        }

        #[test]
        fn invariant_an_unsettled_call_wakes_up((_, batches) in deliveries()) {
            let Some(call) = deliver(&batches) else { return Ok(()) };
            prop_assert_eq!(call.wake_at.is_none(), call.is_settled());
            if let (Some(wake), Some(due)) = (call.wake_at, call.next_wake_at(&POLICY)) {
                prop_assert!(wake <= due);
                // Once its deadlines have passed and are folded, the call is settled.
                let late = due.plus(Duration::from_secs(1_000_000));
                let deadlines = call.deadline_passed_events(&POLICY, late);
                prop_assert!(!deadlines.is_empty());
                let settled = fold(Some(&call), &deadlines, &POLICY, late).transition.unwrap().call;
                prop_assert!(settled.is_settled(), "{:?}", settled.attempts());
                prop_assert_eq!(settled.deadline_passed_events(&POLICY, late), vec![]);
            }
        }
    }
}

/// Calls `check` with every call that results from these events, folded one by one in every order.
fn in_every_order(call: Option<&Call>, left: &[ProviderEvent], check: &mut impl FnMut(&Call)) {
    for at in 0..left.len() {
        let mut rest = left.to_vec();
        let event = rest.remove(at);
        let folded = fold(call, &[event], &POLICY, self::at(10_000)).transition.unwrap().call;
        if rest.is_empty() {
            check(&folded);
        } else {
            in_every_order(Some(&folded), &rest, check);
        }
    }
}

/// Returns histories of one attempt, with a second between events, and the call that each results in. Histories grow up to
/// `length_max` for as long as `goes_on` is true for their call.
fn histories(
    kinds: &[EventKind],
    length_max: usize,
    goes_on: impl Fn(&Call) -> bool,
) -> Vec<(Vec<ProviderEvent>, Call)> {
    let mut all = Vec::new();
    let mut open = vec![Vec::new()];
    while let Some(history) = open.pop() {
        for kind in kinds {
            let second = i64::try_from(history.len()).unwrap();
            let mut longer: Vec<ProviderEvent> = history.clone();
            longer.push(event(&second.to_string(), Some("a"), *kind, Some(second), 100));
            let call = one_by_one(&longer).unwrap();
            if goes_on(&call) {
                if longer.len() < length_max {
                    open.push(longer.clone());
                }
                all.push((longer, call));
            }
        }
    }
    all
}

/// Property 1 of the design, order does not matter, for both machines at once and for every legal history.
#[test]
fn invariant_every_legal_history_is_the_same_in_every_order() {
    let is_legal = |call: &Call| call.history.iter().all(|entry| entry.disposition == Disposition::Applied);
    // The kinds that the machines have edges for.
    let kinds: Vec<EventKind> = EventKind::ALL
        .into_iter()
        .filter(|kind| *kind > EventKind::Initiated && *kind < EventKind::RetryScheduled)
        .collect();
    let mut orders = 0;
    for (events, call) in histories(&kinds, 6, is_legal) {
        let truth = essence(&call);
        in_every_order(None, &events, &mut |found| {
            orders += 1;
            assert_eq!(essence(found), truth, "{events:?}");
        });
    }
    println!("{orders} orders");
    assert!(orders > 1_000, "{orders}");
}

/// The same for all histories, legal or not, up to a smaller length.
#[test]
fn invariant_every_history_is_the_same_in_every_order() {
    let kinds: Vec<EventKind> = EventKind::ALL.into_iter().filter(|kind| !OWN_KINDS.contains(kind)).collect();
    for (events, call) in histories(&kinds, 3, |_| true) {
        let truth = essence(&call);
        in_every_order(None, &events, &mut |found| assert_eq!(essence(found), truth, "{events:?}"));
    }
}

fn types(call: &Call) -> Vec<String> {
    call.domain_events_from(1).into_iter().map(|event| event.event_type).collect()
}

#[test]
fn late_answer_unparks_completion_and_both_are_announced() {
    use EventKind::{Completed, InProgress, Ringing};
    let early = [event("1", Some("a"), Ringing, Some(1), 1), event("3", Some("a"), Completed, Some(9), 2)];
    let call = one_by_one(&early).unwrap();
    assert_eq!(call.attempts()[0].lifecycle_label(), "ringing");
    assert_eq!(types(&call), ["call.initiated", "call.ringing", "appointment.dialing"]);
    let late = event("2", Some("a"), InProgress, Some(4), 3);
    let folded = fold(Some(&call), &[late], &POLICY, at(3));
    let Transition { call, new_announcements } = folded.transition.unwrap();
    assert_eq!(new_announcements, 3);
    assert_eq!(types(&call)[3..], ["call.in_progress", "call.completed", "appointment.connected"]);
    assert_eq!(call.attempts()[0].lifecycle_label(), "completed");
}

#[test]
fn timed_out_attempt_is_inconclusive_until_an_event_arrives() {
    use EventKind::{Completed, InProgress, Ringing};
    let call = one_by_one(&[event("1", Some("a"), Ringing, Some(1), 1)]).unwrap();
    assert_eq!(call.deadline_passed_events(&POLICY, at(900)), vec![]);
    let deadlines = call.deadline_passed_events(&POLICY, at(901));
    assert_eq!(deadlines[0].event_id.as_str(), "switchhook:generic:c/a/deadline/1000");
    let call = fold(Some(&call), &deadlines, &POLICY, at(901)).transition.unwrap().call;
    assert_eq!(call.attempts()[0].lifecycle_label(), "inconclusive");
    assert_eq!(call.appointment_status().as_str(), "Inconclusive");
    assert!(call.is_settled());
    assert_eq!(call.wake_at, None);

    // A late ending is a correction. The ending before it was `inconclusive`.
    let answered = event("2", Some("a"), InProgress, Some(5), 1_000);
    let call = fold(Some(&call), &[answered], &POLICY, at(1_000)).transition.unwrap().call;
    assert_eq!(call.attempts()[0].lifecycle_label(), "in_progress");
    assert_eq!(call.wake_at, Some(at(1_900)));
    let ended = event("3", Some("a"), Completed, Some(9), 1_001);
    let call = fold(Some(&call), &[ended], &POLICY, at(1_001)).transition.unwrap().call;
    let events = call.domain_events_from(1);
    let inconclusive = events.iter().find(|event| event.event_type == "call.inconclusive").unwrap();
    let completed = events.iter().find(|event| event.event_type == "call.completed").unwrap();
    assert_eq!(completed.corrects.as_ref(), Some(&inconclusive.id));
    assert_eq!(completed.previous, Some("in_progress"));
}

#[test]
fn ending_that_waited_for_a_lost_link_is_presumed_when_the_deadline_passes() {
    use EventKind::{Completed, Initiated, UserConfirmed};
    let early = [
        event("1", Some("a"), Initiated, Some(1), 1),
        event("2", Some("a"), Completed, Some(8), 2),
        event("3", Some("a"), UserConfirmed, Some(6), 3),
    ];
    let call = one_by_one(&early).unwrap();
    assert_eq!((call.attempts()[0].lifecycle_label(), call.attempts()[0].outcome_label()), ("initiated", "dialing"));
    let call = fold(Some(&call), &call.deadline_passed_events(&POLICY, at(2_000)), &POLICY, at(2_000))
        .transition
        .unwrap()
        .call;
    assert_eq!((call.attempts()[0].lifecycle_label(), call.attempts()[0].outcome_label()), ("completed", "confirmed"));
    assert_eq!(call.job.as_str(), "COMPLETED");
    assert!(call.is_settled());
}

#[test]
fn outcome_that_never_came_is_inconclusive_after_the_timeout() {
    use EventKind::{Completed, InProgress, Ringing};
    let all = [
        event("1", Some("a"), Ringing, Some(1), 1),
        event("2", Some("a"), InProgress, Some(2), 2),
        event("3", Some("a"), Completed, Some(3), 3),
    ];
    let call = one_by_one(&all).unwrap();
    assert!(!call.is_settled());
    let call =
        fold(Some(&call), &call.deadline_passed_events(&POLICY, at(903)), &POLICY, at(903)).transition.unwrap().call;
    assert_eq!(
        (call.attempts()[0].lifecycle_label(), call.attempts()[0].outcome_label()),
        ("completed", "inconclusive")
    );
    assert_eq!(types(&call).last().map(String::as_str), Some("appointment.inconclusive"));
}

#[test]
fn scheduled_retry_shows_until_a_later_attempt_starts() {
    use EventKind::{Initiated, NoAnswer, RetryScheduled, Ringing};
    let first = [
        event("1", Some("a"), Ringing, Some(1), 1),
        event("2", Some("a"), NoAnswer, Some(30), 30),
        event("3", Some("a"), RetryScheduled, Some(31), 31),
    ];
    let call = one_by_one(&first).unwrap();
    assert_eq!(call.appointment_status().as_str(), "Retrying");
    let call =
        fold(Some(&call), &[event("4", Some("b"), Initiated, Some(60), 60)], &POLICY, at(60)).transition.unwrap().call;
    assert_eq!(call.appointment_status().as_str(), "Dialing");
    assert_eq!(
        types(&call)[3..],
        ["call.no_answer", "appointment.no_answer", "appointment.retrying", "call.initiated", "appointment.dialing"]
    );
}

#[test]
fn confirmation_of_an_earlier_attempt_wins() {
    use EventKind::{InProgress, Initiated, UserConfirmed};
    let all = [
        event("1", Some("a"), InProgress, Some(1), 1),
        event("2", Some("b"), Initiated, Some(60), 60),
        event("3", Some("a"), UserConfirmed, Some(40), 61),
    ];
    let call = one_by_one(&all).unwrap();
    assert_eq!(call.appointment_status().as_str(), "Confirmed");
    assert_eq!(call.job.as_str(), "COMPLETED");
}

#[test]
fn second_attempt_that_decides_otherwise_announces_its_decision_alone() {
    use EventKind::{InProgress, Ringing, UserConfirmed, UserDeclined};
    let all = [
        event("1", Some("a"), InProgress, Some(1), 1),
        event("2", Some("a"), UserConfirmed, Some(2), 2),
        event("3", Some("b"), Ringing, Some(60), 60),
        event("4", Some("b"), InProgress, Some(61), 61),
        event("5", Some("b"), UserDeclined, Some(62), 62),
    ];
    let call = one_by_one(&all).unwrap();
    assert_eq!(call.appointment_status().as_str(), "Declined");
    let of_appointment: Vec<String> = types(&call).into_iter().filter(|kind| kind.starts_with("appointment")).collect();
    assert_eq!(
        of_appointment,
        ["appointment.dialing", "appointment.connected", "appointment.confirmed", "appointment.declined"]
    );
}

#[test]
fn event_that_names_no_attempt_belongs_to_those_that_had_started() {
    use EventKind::{InProgress, Initiated, UserConfirmed};
    let all = [
        event("1", Some("a"), InProgress, Some(10), 10),
        event("2", Some("b"), Initiated, Some(60), 60),
        event("3", None, UserConfirmed, Some(40), 61),
    ];
    let call = one_by_one(&all).unwrap();
    let outcomes: Vec<_> = call.attempts().iter().map(|attempt| attempt.outcome_label()).collect();
    assert_eq!(outcomes, ["confirmed", "dialing"]);
}

/// Twilio's callback and Retell's confirmation belong to one appointment, in either order.
#[test]
fn two_providers_report_one_appointment() {
    let of = |provider: Provider, id: &str, kind, second| {
        let mut event = event(id, Some(&format!("{provider}:c")), kind, Some(second), second);
        event.event_id = EventId::new(format!("{provider}:{id}"));
        event.origin = Origin::Provider(provider);
        event.appointment_id = Some("apt".to_owned());
        event.direction = Some(Direction::Outbound);
        event
    };
    let all = [
        of(Provider::Twilio, "1", EventKind::Ringing, 1),
        of(Provider::Twilio, "2", EventKind::InProgress, 5),
        of(Provider::Retell, "3", EventKind::Ringing, 4),
        of(Provider::Retell, "4", EventKind::InProgress, 5),
        of(Provider::Retell, "5", EventKind::UserConfirmed, 20),
    ];
    let truth = essence(&one_by_one(&all).unwrap());
    in_every_order(None, &all, &mut |call| {
        assert_eq!(essence(call), truth);
        assert_eq!((call.job.as_str(), call.appointment_status().as_str()), ("COMPLETED", "Confirmed"));
        let providers: BTreeSet<_> =
            call.attempts().iter().map(|attempt| call.attempt_provider(attempt.index)).collect();
        assert_eq!(providers, BTreeSet::from([Some(Provider::Retell), Some(Provider::Twilio)]));
        for event in call.domain_events_from(1) {
            let index = usize::from(event.attempt.unwrap() - 1);
            // Attempts may have been numbered differently when the event was announced, but its provider stays.
            assert!(call.attempts().get(index).is_some());
            assert!(matches!(event.provider, Some(Provider::Twilio | Provider::Retell)), "{event:?}");
        }
    });
}

/// A configured provider and the team's own application report one attempt.
#[test]
fn attempt_belongs_to_the_provider_that_is_not_generic() {
    let configured: Provider = "x-acme".parse().unwrap();
    let mut ringing = event("1", None, EventKind::Ringing, Some(1), 1);
    (ringing.event_id, ringing.origin) = (EventId::new("x-acme:1"), Origin::Provider(configured));
    let mut answered = event("2", None, EventKind::InProgress, Some(2), 2);
    answered.event_id = EventId::new("generic-crm:2");
    assert_eq!(one_by_one(&[ringing, answered]).unwrap().attempt_provider(0), Some(configured));
}

#[test]
fn correction_of_an_ending_in_the_same_batch_is_announced() {
    use EventKind::{Completed, InProgress, NoAnswer, Ringing};
    let events = [
        event("0", Some("a"), Ringing, Some(0), 0),
        event("1", Some("a"), NoAnswer, Some(1), 1),
        event("2", Some("a"), InProgress, Some(4), 2),
        event("3", Some("a"), Completed, Some(9), 3),
    ];
    let corrected = |call: &Call| {
        let events = call.domain_events_from(1).into_iter();
        let corrections = events.filter(|event| event.event_type == "call.corrected");
        corrections.map(|event| (event.status, event.corrects)).next_back()
    };
    let together = corrected(&deliver(&[events.to_vec()]).unwrap());
    assert_eq!(together, Some(("completed", Some("generic:c/3".to_owned()))));
    // Apart, the appointment is dialling before that.
    assert_eq!(corrected(&one_by_one(&events).unwrap()), Some(("completed", Some("generic:c/4".to_owned()))));
}

/// A retry that another system promised never comes.
#[test]
fn missed_retry_makes_the_appointment_inconclusive() {
    let with_appointment = |mut event: ProviderEvent| {
        event.appointment_id = Some("apt".to_owned());
        event
    };
    let failed = with_appointment(event("1", Some("1"), EventKind::Busy, Some(1), 1));
    let mut failed = failed;
    failed
        .call_events
        .insert(0, CallEvent { kind: EventKind::Ringing, implied: true, ..failed.call_events[0].clone() });
    let retry = with_appointment(event("2", None, EventKind::RetryScheduled, Some(2), 2));
    let call = one_by_one(&[failed, retry]).unwrap();
    assert_eq!((call.job.as_str(), call.appointment_status().as_str()), ("IN_PROGRESS", "Retrying"));
    assert_eq!((call.next_wake_at(&POLICY), call.is_settled()), (Some(at(902)), false));
    assert_eq!(call.deadline_passed_events(&POLICY, at(901)), vec![]);

    let missed = call.deadline_passed_events(&POLICY, at(902));
    assert_eq!(missed[0].event_id.as_str(), "switchhook:generic:c/retry/2000");
    let call = fold(Some(&call), &missed, &POLICY, at(902)).transition.unwrap().call;
    assert_eq!((call.job.as_str(), call.appointment_status().as_str()), ("FAILED", "Inconclusive"));
    assert!(call.is_settled());
    let last = call.domain_events_from(1).pop().unwrap();
    assert_eq!((last.event_type.as_str(), last.previous), ("appointment.inconclusive", Some("retrying")));
    assert_eq!((last.attempt, last.corrects), (None, None));

    // It comes after all.
    let late = with_appointment(event("3", Some("2"), EventKind::Ringing, Some(950), 950));
    let call = fold(Some(&call), &[late], &POLICY, at(950)).transition.unwrap().call;
    assert_eq!((call.job.as_str(), call.appointment_status().as_str()), ("IN_PROGRESS", "Dialing"));
}

/// Nobody had a job, so an inbound call that nobody answered is no failure, for whatever reason it ended.
#[test]
fn inbound_call_that_nobody_answered_is_missed() {
    let inbound = |kind, direction| {
        let mut ringing = event("1", Some("a"), EventKind::Ringing, Some(1), 1);
        ringing.direction = direction;
        let mut ended = event("2", Some("a"), kind, Some(9), 9);
        ended.direction = Some(Direction::Inbound);
        let call = one_by_one(&[ringing.clone(), ended.clone()]).unwrap();
        assert_eq!(essence(&call), essence(&one_by_one(&[ended, ringing]).unwrap()));
        call.job.as_str()
    };
    for direction in [None, Some(Direction::Inbound), Some(Direction::Outbound)] {
        for kind in [EventKind::NoAnswer, EventKind::Busy, EventKind::Canceled, EventKind::Failed] {
            assert_eq!(inbound(kind, direction), "MISSED", "{kind:?}");
        }
    }
    // A call of another system that failed had a job.
    let mut failed = event("1", Some("a"), EventKind::Failed, Some(1), 1);
    failed.direction = Some(Direction::Outbound);
    assert_eq!(one_by_one(&[failed]).unwrap().job, Job::Failed);
}

/// An inbound call that broke off was answered. Of one whose ending never came, nobody knows whether it was.
#[test]
fn inbound_call_that_somebody_answered_or_may_have_answered_is_not_missed() {
    let inbound = |kinds: &[EventKind], has_deadline: bool| {
        let events = (1..).zip(kinds).map(|(second, kind)| {
            let mut event = event(&second.to_string(), Some("a"), *kind, Some(second), second);
            event.direction = Some(Direction::Inbound);
            event
        });
        let call = one_by_one(&events.collect::<Vec<_>>()).unwrap();
        let deadlines = if has_deadline { call.deadline_passed_events(&POLICY, at(902)) } else { Vec::new() };
        let call =
            fold(Some(&call), &deadlines, &POLICY, at(902)).transition.map_or(call, |transition| transition.call);
        (call.job.clone(), call.attempts()[0].lifecycle_label().to_owned())
    };
    let broken_off = inbound(&[EventKind::Ringing, EventKind::InProgress, EventKind::Failed], false);
    assert_eq!(broken_off, (Job::Failed, "failed".to_owned()));
    for kinds in [&[EventKind::Ringing][..], &[EventKind::Ringing, EventKind::InProgress]] {
        assert_eq!(inbound(kinds, true), (Job::Failed, "inconclusive".to_owned()), "{kinds:?}");
    }
}

/// The person confirmed, and the end of the call was never reported.
#[test]
fn confirmed_call_is_never_inconclusive() {
    use EventKind::{Completed, InProgress, Ringing, UserConfirmed};
    let all = [
        event("1", Some("a"), Ringing, Some(1), 1),
        event("2", Some("a"), InProgress, Some(2), 2),
        event("3", Some("a"), UserConfirmed, Some(3), 3),
    ];
    let call = one_by_one(&all).unwrap();
    let deadlines = call.deadline_passed_events(&POLICY, at(903));
    let call = fold(Some(&call), &deadlines, &POLICY, at(903)).transition.unwrap().call;
    assert_eq!((call.attempts()[0].lifecycle_label(), call.is_settled()), ("completed", true));
    assert!(!types(&call).contains(&"call.inconclusive".to_owned()));
    let ended = event("4", Some("a"), Completed, Some(9), 1_000);
    let call = fold(Some(&call), &[ended], &POLICY, at(1_000)).transition.unwrap().call;
    assert_eq!(call.attempts()[0].lifecycle, switchhook_domain::Lifecycle::Completed);
    // The reported ending has the name of the presumed one, so it is no news.
    assert_eq!(types(&call).iter().filter(|name| *name == "call.completed").count(), 1);
    assert!(!types(&call).contains(&"call.corrected".to_owned()));
}

#[test]
fn deadline_of_an_unknown_call_opens_none() {
    let mut deadline = event("1", Some("a"), EventKind::DeadlinePassed, Some(1), 1);
    deadline.origin = Origin::Switchhook;
    assert_eq!(fold(None, &[deadline], &POLICY, at(2)).outcomes, [FoldOutcome::Refused]);
}

#[test]
fn full_call_takes_no_more_and_still_settles() {
    let mut events: Vec<ProviderEvent> =
        (0..=ATTEMPT_EVENTS_MAX).map(|n| event(&n.to_string(), Some("a"), EventKind::Ringing, Some(1), 1)).collect();
    let folded = fold(None, &events, &POLICY, at(2));
    assert_eq!(folded.outcomes.last(), Some(&FoldOutcome::Quarantined));
    let call = folded.transition.unwrap().call;
    assert_eq!(call.history.len(), ATTEMPT_EVENTS_MAX);
    let deadlines = call.deadline_passed_events(&POLICY, at(5_000));
    assert!(fold(Some(&call), &deadlines, &POLICY, at(5_000)).transition.unwrap().call.is_settled());

    events = (0..=CALL_ATTEMPTS_MAX)
        .map(|n| event(&n.to_string(), Some(&format!("attempt {n}")), EventKind::Ringing, Some(1), 1))
        .collect();
    assert_eq!(fold(None, &events, &POLICY, at(2)).outcomes.last(), Some(&FoldOutcome::Quarantined));
}

#[test]
fn nothing_new_writes_nothing() {
    let ringing = event("1", Some("a"), EventKind::Ringing, Some(1), 1);
    let call = one_by_one(std::slice::from_ref(&ringing)).unwrap();
    let folded = fold(Some(&call), &[ringing], &POLICY, at(2));
    assert_eq!((folded.transition, folded.outcomes), (None, vec![FoldOutcome::Duplicate]));
}

/// The second `failed` contradicts the outcome `connected`, but the first one ended the attempt.
#[test]
fn second_report_of_a_failure_after_an_answer_is_stale() {
    for ending in [EventKind::Failed, EventKind::Busy] {
        let kinds = [EventKind::Ringing, EventKind::InProgress, ending, ending];
        let report = |(n, kind): (i64, &EventKind)| event(&format!("e{n}"), Some("a"), *kind, Some(n), n);
        let events: Vec<ProviderEvent> = (0..).zip(&kinds).map(report).collect();
        let call = fold(None, &events, &POLICY, at(10)).transition.unwrap().call;
        let last = call.history.last().unwrap();
        assert_eq!((last.event.kind, last.disposition), (ending, Disposition::Stale));
    }
}

#[test]
fn attempts_of_a_sender_are_ordered_by_its_own_clock() {
    use EventKind::{InProgress, NoAnswer, Ringing, UserConfirmed, VoicemailDetected};
    for ahead in [0, 120] {
        let sent = |id: &str, attempt: Option<&str>, kind: EventKind, time: i64| {
            let mut event = event(id, attempt, kind, Some(time + ahead), time);
            if matches!(kind, VoicemailDetected | UserConfirmed) {
                let own = event.call_events[0].clone();
                let implied = |kind| CallEvent { kind, implied: true, occurred_at: None, ..own.clone() };
                drop(event.call_events.splice(0..0, [implied(Ringing), implied(InProgress)]));
            }
            event
        };
        let mut events = vec![
            sent("1", Some("a"), Ringing, 10),
            sent("2", Some("a"), NoAnswer, 20),
            sent("3", Some("b"), Ringing, 50),
            sent("4", Some("b"), VoicemailDetected, 60),
        ];
        let outcomes = |events: &[ProviderEvent]| -> Vec<_> {
            let call = one_by_one(events).unwrap();
            let key = |index: usize| call.attempt_records[index].key.clone().unwrap().to_string();
            call.attempts().iter().map(|attempt| (key(attempt.index), attempt.outcome_label())).collect()
        };
        assert_eq!(outcomes(&events), [("a".to_owned(), "no_answer"), ("b".to_owned(), "voicemail")]);
        // It belongs to both attempts, because both had started.
        events.push(sent("5", None, UserConfirmed, 70));
        assert_eq!(outcomes(&events), [("a".to_owned(), "confirmed"), ("b".to_owned(), "confirmed")]);
    }
}
