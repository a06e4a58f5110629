//! Events that name no attempt, of calls whose dials were not made: a person who has decided is not dialled.

use switchhook_domain::{NeverDialled, explain_all};

use super::*;

/// Returns a report of another system that names no attempt.
fn unnamed(id: &str, kind: EventKind, now: i64) -> ProviderEvent {
    // A refusal implies the same as a confirmation: somebody answered.
    let implying = if kind == EventKind::UserDeclined { EventKind::UserConfirmed } else { kind };
    let mut event = reports(id, "1", implying, now);
    for call_event in event.call_events.iter_mut().filter(|call_event| !call_event.implied) {
        call_event.kind = kind;
    }
    event.event_id = EventId::new(format!("generic:{id}"));
    event.origin = Origin::Provider(Provider::Generic);
    (event.attempt, event.provider_call_id) = (None, None);
    event
}

/// Returns the report that dial `key` was accepted and not made.
fn not_made(key: &str, now: i64) -> ProviderEvent {
    let mut event = reports(&format!("not-made-{key}"), key, EventKind::Failed, now);
    for call_event in &mut event.call_events {
        call_event.never_dialled = Some(NeverDialled::Capacity);
    }
    event
}

/// Folds the events in every order, each as a batch of its own, and returns the calls.
fn in_every_order(call: &Call, events: &[ProviderEvent]) -> Vec<Call> {
    if events.is_empty() {
        return vec![call.clone()];
    }
    let with_first = |at: usize| {
        let mut rest = events.to_vec();
        let first = rest.remove(at);
        in_every_order(&folded(call, &first), &rest)
    };
    (0..events.len()).flat_map(with_first).collect()
}

/// Returns the job, the appointment, and the index, lifecycle and outcome of each attempt.
fn summary(call: &Call) -> String {
    let attempts = call.attempts();
    let attempts: Vec<_> = attempts.iter().map(|it| (it.index, it.lifecycle_label(), it.outcome_label())).collect();
    format!("{} {} {attempts:?}", call.job.as_str(), call.appointment_status().as_str())
}

fn count(call: &Call, event_type: &str) -> usize {
    types(call).iter().filter(|name| *name == event_type).count()
}

#[test]
fn decision_without_attempt_ends_a_call_whose_dial_was_not_made_in_every_order() {
    let call = dialled(&call_with(RETRY), 10);
    let key = AttemptKey::new("1");
    let accepted = call.dial_accepted_event(&key, "p1", at(11));
    let reports_of_nobody = [
        vec![accepted.clone(), call.not_dialled_event(&key, "p1", at(12))],
        vec![accepted, not_made("1", 12)],
        vec![call.dial_not_found_event(&key, at(910))],
    ];
    for nobody in reports_of_nobody {
        for (kind, status, time) in [
            (EventKind::UserConfirmed, "Confirmed", 5),
            (EventKind::UserConfirmed, "Confirmed", 40),
            (EventKind::UserDeclined, "Declined", 2_000),
        ] {
            let events = [nobody.clone(), vec![unnamed("wish", kind, time)]].concat();
            for decided in in_every_order(&call, &events) {
                let label = status.to_lowercase();
                assert_eq!(summary(&decided), format!("COMPLETED {status} [(0, \"in_progress\", {label:?})]"));
                assert_eq!(decided.claim("token", Provider::Retell, LEASE, true, &POLICY, at(3_000)), None);
                assert_eq!(count(&decided, &format!("appointment.{label}")), 1, "{:?}", types(&decided));
                assert_eq!((count(&decided, "call.failed"), count(&decided, "appointment.no_answer")), (0, 0));
                assert_eq!(decided.in_flight, None, "the provider has no such call");
                for (entry, reason) in decided.history.iter().zip(explain_all(&decided)) {
                    assert_eq!(reason.disposition(), entry.disposition, "{reason:?}");
                    let is_of_nobody =
                        entry.event.never_dialled.is_some() || entry.event.kind == EventKind::DialNotFound;
                    assert_eq!(reason.name() == "dial_proved", is_of_nobody, "{reason:?}");
                }
            }
        }
    }
}

#[test]
fn decision_takes_the_claim_of_the_next_dial_away() {
    let call = dialled(&call_with(RETRY), 10);
    let withdrawn = folded(&call, &call.dial_not_found_event(&AttemptKey::new("1"), at(910)));
    let again = claimed(&withdrawn, 1_000);
    let decided = folded(&again, &unnamed("wish", EventKind::UserConfirmed, 1_001));
    assert_eq!(decided.job, Job::Completed);
    assert_eq!(decided.start_dial("token", "dial", Provider::Retell, &POLICY, at(1_002)), None);
}

/// A call goes on after a dial that was not made and an attempt of another system. No later dial takes the event over.
#[test]
fn event_without_attempt_stays_with_the_latest_dial_before_it() {
    let first = dialled(&call_with(RETRY), 10);
    let first = folded(&first, &not_made("1", 12));
    let second = dialled(&first, 50);
    let second = folded(&second, &not_made("2", 52));
    assert_eq!((second.attempts().len(), second.job.as_str()), (0, "PENDING"));
    let missed = folded(&second, &unnamed("missed", EventKind::NoAnswer, 60));
    let shown = |call: &Call| -> Vec<_> {
        call.attempts().iter().map(|attempt| (attempt.index, attempt.lifecycle_label())).collect()
    };
    assert_eq!((shown(&missed), missed.job.as_str()), (vec![(1, "no_answer")], "PENDING"));
    let third = dialled(&missed, 1_000);
    assert_eq!((shown(&third), third.job.as_str()), (vec![(1, "no_answer"), (2, "initiated")], "IN_PROGRESS"));
    let withdrawn = folded(&third, &not_made("3", 1_002));
    assert_eq!((shown(&withdrawn), withdrawn.job.as_str()), (vec![(1, "no_answer")], "PENDING"));
    assert_eq!(matched(&withdrawn), matched(&missed));
    // The provider dialled the first time after all, so the event belongs to that attempt.
    let rang = folded(&withdrawn, &reports("rang", "1", EventKind::Ringing, 1_010));
    assert_eq!(shown(&rang), [(0, "failed")]);
}

/// Returns the disposition of each event without attempt.
fn matched(call: &Call) -> Vec<Disposition> {
    let entries = call.history.iter().filter(|entry| entry.attempt_index.is_none());
    entries.map(|entry| entry.disposition).collect()
}

/// The event arrived between the write of the dial and the refusal of the provider.
#[test]
fn dial_with_an_event_without_attempt_is_not_taken_back() {
    let call = dialled(&call_with(RETRY), 10);
    let decided = folded(&call, &unnamed("wish", EventKind::UserDeclined, 11));
    assert_eq!(decided.withdraw("dial", at(60), &POLICY, at(12)), None);
    assert_eq!(decided.reject("dial", &POLICY, at(12)), None);
    assert_eq!(decided.job, Job::Completed);
    // An older event belongs to an earlier attempt.
    let missed = folded(&call_with(RETRY), &unnamed("missed", EventKind::NoAnswer, 5));
    let again = dialled(&missed, 1_000);
    let taken_back = again.withdraw("dial", at(1_060), &POLICY, at(1_001)).expect("not reported").call;
    assert_eq!((taken_back.attempts().len(), taken_back.job.as_str()), (1, "PENDING"));
}

/// Returns an unnamed event that another system reported `received` after it happened at `happened`.
fn unnamed_late(id: &str, kind: EventKind, happened: i64, received: i64) -> ProviderEvent {
    ProviderEvent { received_at: at(received), ..unnamed(id, kind, happened) }
}

/// Returns the job, the appointment, and the lifecycle and outcome of each attempt. Two rows with the same events may hold the records
/// of their attempts in another order.
fn states(call: &Call) -> String {
    let attempts = call.attempts();
    let attempts: Vec<_> = attempts.iter().map(|it| (it.lifecycle_label(), it.outcome_label())).collect();
    format!("{} {} {attempts:?}", call.job.as_str(), call.appointment_status().as_str())
}

/// The team called the person itself, and its report arrives before the dial or after it. The phone must not ring a second time.
#[test]
fn event_without_attempt_from_before_the_first_dial_does_not_end_the_dial() {
    for kind in [EventKind::NoAnswer, EventKind::Busy, EventKind::Failed] {
        let before = dialled(&folded(&call_with(RETRY), &unnamed("missed", kind, 20)), 200);
        let after = folded(&dialled(&call_with(RETRY), 200), &unnamed_late("missed", kind, 20, 210));
        assert!(states(&before).starts_with("IN_PROGRESS Dialing [("), "{}", states(&before));
        assert_eq!((states(&after), after.attempts().len()), (states(&before), 2));
        let both = [before, after].map(|call| folded(&call, &reports("1", "1", EventKind::NoAnswer, 240)));
        assert_eq!(states(&both[1]), states(&both[0]));
        assert_eq!((due_at(&both[1]), both[1].attempts().len()), (due_at(&both[0]), 2));
    }
}

/// The clock of another system may be behind. What began shortly before a dial is taken for the dial, but it must not end it.
#[test]
fn event_without_attempt_from_shortly_before_the_dial_begins_it_and_does_not_end_it() {
    let call = dialled(&call_with(RETRY), 200);
    let check = |event: &ProviderEvent, expected: &str| assert_eq!(states(&folded(&call, event)), expected);
    let rang = unnamed_late("rang", EventKind::Ringing, 198, 210);
    check(&rang, "IN_PROGRESS Dialing [(\"ringing\", \"dialing\")]");
    let answered = unnamed_late("answered", EventKind::InProgress, 198, 210);
    check(&answered, "IN_PROGRESS Connected [(\"in_progress\", \"connected\")]");
    let missed = unnamed_late("missed", EventKind::NoAnswer, 198, 210);
    check(&missed, "IN_PROGRESS Dialing [(\"no_answer\", \"no_answer\"), (\"initiated\", \"dialing\")]");
    // It was received before the dial, so it tells of an earlier call, whatever its sender's clock says.
    let received = unnamed("rang", EventKind::Ringing, 198);
    check(&received, "IN_PROGRESS Dialing [(\"ringing\", \"dialing\"), (\"initiated\", \"dialing\")]");
    // A decision counts, whenever it was made.
    let decided = unnamed_late("wish", EventKind::UserConfirmed, 20, 210);
    check(&decided, "COMPLETED Confirmed [(\"in_progress\", \"confirmed\")]");
}

/// The clock of another system may be ahead, by seconds or by a time zone. A report that arrived before a dial is not about it.
#[test]
fn event_without_attempt_that_arrived_before_a_dial_does_not_end_it_whatever_time_it_names() {
    for kind in [EventKind::NoAnswer, EventKind::Busy, EventKind::Failed] {
        for ahead in [600, 3_600] {
            // It arrives during the first attempt, and ends it. The second is dialled before the time that the event names.
            let first = dialled(&call_with(RETRY), 10);
            let missed = folded(&first, &unnamed_late("missed", kind, 20 + ahead, 20));
            assert_eq!(missed.job.as_str(), "PENDING");
            let again = dialled(&missed, 200);
            assert_eq!(again.attempts().len(), 2, "{}", states(&again));
            assert_eq!(again.attempts()[1].lifecycle_label(), "initiated", "{}", states(&again));
            assert_eq!(again.job, Job::InProgress, "{}", states(&again));
            assert!(!again.is_claimed_by("token", at(201)));
            // The provider refuses the second dial: nobody was called.
            let refused = again.withdraw("dial", at(260), &POLICY, at(201)).expect("no event belongs to it").call;
            assert_eq!(refused.attempts().len(), 1, "{}", states(&refused));
            // It arrives before the first dial, and tells of a call by somebody else.
            let before = dialled(&folded(&call_with(RETRY), &unnamed_late("missed", kind, 20 + ahead, 5)), 200);
            assert_eq!(before.job, Job::InProgress, "{}", states(&before));
            assert!(states(&before).ends_with("(\"initiated\", \"dialing\")]"), "{}", states(&before));
            assert!(before.matches_history());
            // It waited in the queue while the call was dialled.
            let after = folded(&dialled(&call_with(RETRY), 200), &unnamed_late("missed", kind, 20 + ahead, 5));
            assert_eq!((states(&after), after.matches_history()), (states(&before), true));
            // The same sender names the attempt in another event.
            let named = ProviderEvent { received_at: at(6), ..reports("named", "7", kind, 20 + ahead) };
            let both = folded(&folded(&call_with(RETRY), &named), &unnamed_late("missed", kind, 10 + ahead, 7));
            let types_before = types(&both);
            let both = dialled(&both, 200);
            assert_eq!((both.job.as_str(), both.attempts().len()), ("IN_PROGRESS", 2), "{}", states(&both));
            assert!(states(&both).ends_with("(\"initiated\", \"dialing\")]"), "{}", states(&both));
            assert_eq!(types(&both), types_before, "no event tells of the dial yet");
            // A report that arrives after the dial is about it, although its time is wrong.
            let ended = folded(&first, &unnamed_late("missed", kind, 20 + ahead, 30));
            assert_eq!((ended.attempts().len(), ended.job.as_str()), (1, "PENDING"));
        }
    }
}

#[test]
fn events_without_attempt_from_before_the_first_dial_are_folded_alike_in_every_order() {
    let call = dialled(&call_with(RETRY), 200);
    let accepted = call.dial_accepted_event(&AttemptKey::new("1"), "p1", at(201));
    let of_other = |happened, received| {
        let mut event = reports("other", "7", EventKind::Busy, happened);
        event.received_at = at(received);
        event
    };
    let other_rang = ProviderEvent { received_at: at(302), ..reports("other-rang", "7", EventKind::Ringing, 100) };
    let missed = unnamed_late("missed", EventKind::NoAnswer, 20, 210);
    let rang = unnamed_late("rang", EventKind::Ringing, 198, 211);
    let confirmed = unnamed_late("wish", EventKind::UserConfirmed, 230, 231);
    for events in [
        vec![accepted.clone(), missed.clone(), rang.clone(), confirmed],
        vec![accepted.clone(), missed.clone(), rang.clone(), not_made("1", 212)],
        vec![accepted.clone(), missed.clone(), rang, of_other(300, 301)],
        vec![accepted.clone(), missed.clone(), of_other(100, 301)],
        // Their attempt lasts from before the dial until after it.
        vec![accepted, missed, of_other(300, 301), other_rang],
    ] {
        let calls = in_every_order(&call, &events);
        for other in &calls {
            assert_eq!(states(other), states(&calls[0]));
            assert!(other.matches_history());
        }
    }
}

/// A report about an earlier call makes an attempt, which comes before the dial. It takes nothing away from the dial.
#[test]
fn older_report_without_attempt_leaves_the_dial_what_it_had() {
    let call = dialled(&call_with(RETRY), 200);
    let missed = unnamed_late("missed", EventKind::NoAnswer, 20, 230);
    // The same report, by a sender that numbers its calls.
    let mut numbered = reports("numbered", "generic#1", EventKind::NoAnswer, 20);
    (numbered.received_at, numbered.provider_call_id) = (at(230), None);
    // The clock of the sender is two seconds behind.
    let rang = unnamed_late("rang", EventKind::Ringing, 198, 210);
    let answered = unnamed_late("answered", EventKind::InProgress, 199, 211);
    let mut ended = unnamed_late("ended", EventKind::Completed, 220, 222);
    ended.call_events.retain(|call_event| !call_event.implied);
    let decided = unnamed_late("wish", EventKind::UserConfirmed, 100, 212);
    for (events, job, dial) in [
        (vec![rang.clone(), missed.clone()], "IN_PROGRESS", "(\"ringing\", \"dialing\")]"),
        (
            vec![rang.clone(), answered.clone(), ended.clone(), missed.clone()],
            "COMPLETED",
            "(\"completed\", \"connected\")]",
        ),
        (vec![rang, answered, ended, numbered.clone()], "COMPLETED", "(\"completed\", \"connected\")]"),
        (vec![decided.clone(), missed], "COMPLETED", "(\"in_progress\", \"confirmed\")]"),
        (vec![decided, numbered], "COMPLETED", "(\"in_progress\", \"confirmed\")]"),
    ] {
        for other in in_every_order(&call, &events) {
            let states = states(&other);
            assert!(states.starts_with(job) && states.ends_with(dial), "{states}");
            assert_eq!(other.attempts().len(), 2, "{states}");
            assert!(other.matches_history());
            let types = types(&other);
            assert!(count(&other, "appointment.confirmed") <= 1, "{types:?}");
        }
    }
}

/// The answer to the dial is lost, and nobody knows whether the phone rings. The timeout of the earlier attempt must not make it ring again.
#[test]
fn timeout_of_an_attempt_without_a_key_does_not_end_a_dial() {
    let placed = dialled(&call_with(RetryPolicy { unheard: true, ..RETRY }), 1_000);
    let rang = unnamed_late("rang", EventKind::Ringing, 500, 1_020);
    let call = folded(&placed, &rang);
    let passed = call.deadline_passed_event(&call.attempts()[0], at(1_920));
    assert_eq!(passed.attempt, None);
    for call in in_every_order(&placed, &[rang, passed]) {
        let expected = "IN_PROGRESS Dialing [(\"inconclusive\", \"inconclusive\"), (\"initiated\", \"dialing\")]";
        assert_eq!((states(&call).as_str(), call.matches_history()), (expected, true));
        for (entry, reason) in call.history.iter().zip(explain_all(&call)) {
            assert_eq!(reason.disposition(), entry.disposition, "{reason:?}");
        }
        // The dial goes on, so nothing about it is presumed.
        let mut missed = reports("missed", "1", EventKind::NoAnswer, 1_930);
        missed.call_events.retain(|call_event| !call_event.implied);
        assert_eq!(folded(&call, &missed).attempts()[1].lifecycle_label(), "initiated");
        let own = call.deadline_passed_event(&call.attempts()[1], at(1_930));
        assert_eq!((own.attempt.is_some(), folded(&call, &own).job.as_str()), (true, "PENDING"));
    }
}

/// The other system's promise tells nothing about the dial. The provider refuses it, and then accepts the next one.
#[test]
fn event_without_attempt_that_tells_nothing_about_a_dial_does_not_announce_it() {
    let scheduled = folded(&call_with(RETRY), &unnamed("retry", EventKind::RetryScheduled, 5));
    let started = folded(&dialled(&call_with(RETRY), 10), &unnamed("started", EventKind::Initiated, 11));
    let started = folded(&started, &not_made("1", 12));
    for (call, now, key) in [(scheduled, 20, "1"), (started, 100, "2")] {
        let count = types(&call).len();
        let refused = dialled(&call, now);
        assert_eq!(refused.attempts()[0].last_event_at, at(now));
        let refused = refused.withdraw("dial", at(now + 60), &POLICY, at(now + 1)).expect("not reported").call;
        assert_eq!(types(&refused).len(), count, "{:?}", types(&refused));
        let call = dialled(&refused, now + 100);
        let accepted = call.dial_accepted_event(&AttemptKey::new(key), "p", at(now + 101));
        let announced = folded(&call, &accepted).domain_events_from(count + 1);
        let announced: Vec<_> =
            announced.iter().map(|event| (event.event_type.as_str(), event.source_event_id.clone())).collect();
        let source = Some(accepted.event_id.to_string());
        assert_eq!(announced, [("call.initiated", source.clone()), ("appointment.dialing", source)]);
    }
}

/// The attempt of another system gets its key after the retry was announced, or before.
#[test]
fn retry_keeps_its_due_time_when_the_attempt_gets_its_key() {
    let failed = unnamed("failed", EventKind::Failed, 20);
    let ringing = ProviderEvent { received_at: at(25), ..reports("ringing", "7", EventKind::Ringing, 19) };
    let pending = folded(&call_with(RETRY), &failed);
    for call in in_every_order(&call_with(RETRY), &[failed, ringing]) {
        assert_eq!((call.attempts().len(), due_at(&call)), (1, due_at(&pending)));
    }
}
