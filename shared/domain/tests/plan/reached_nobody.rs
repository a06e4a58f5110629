//! Dials that reached nobody: the provider accepted them and then did not make them.

use switchhook_domain::CALL_DIALS_MAX;

use super::*;

/// The provider accepted the dial and then did not make it, because too many calls were in progress.
#[test]
fn dial_that_the_provider_never_made_is_no_attempt() {
    let call = dialled(&call_with(RETRY), 10);
    let call = folded(&call, &call.dial_accepted_event(&AttemptKey::new("1"), "p1", at(11)));
    let mut report = reports("1", "1", EventKind::Failed, 12);
    report.call_events.retain(|event| !event.implied);
    report.call_events[0].never_dialled = true;
    let withdrawn = folded(&call, &report);
    assert_eq!((withdrawn.attempts().len(), due_at(&withdrawn)), (0, at(42)));
    let dispositions: Vec<_> = withdrawn.history.iter().map(|entry| entry.disposition).collect();
    assert_eq!(dispositions, [Disposition::Stale, Disposition::Applied]);
    // A phone rang after all.
    let rang = folded(&withdrawn, &reports("2", "1", EventKind::Ringing, 13));
    assert_eq!((rang.attempts().len(), rang.job.as_str()), (1, "PENDING"));
}

/// Vapi takes a dial above its limit under an id, answers that it dials nobody, and then reports that call as failed. The report
/// arrives before the answer, after it, or after the next dial.
#[test]
fn late_report_of_a_dial_that_was_not_made_is_none_of_the_next_dial() {
    let report = |key: &str, now: i64| {
        let mut report = reports(&format!("report-{key}"), key, EventKind::Failed, now);
        report.provider_call_id = Some(format!("v{key}"));
        report.call_events.retain(|event| !event.implied);
        report.call_events[0].never_dialled = true;
        report
    };
    let not_dialled =
        |call: &Call, key: &str, now: i64| call.not_dialled_event(&AttemptKey::new(key), &format!("v{key}"), at(now));
    for answer_first in [true, false] {
        let mut call = call_with(RETRY);
        for (key, now) in [("1", 10), ("2", 1_000), ("3", 2_000)] {
            call = dialled(&call, now);
            let answer = not_dialled(&call, key, now + 1);
            let late = report(key, now + 2);
            for event in if answer_first { [answer, late] } else { [late, answer] } {
                call = folded(&call, &event);
            }
            assert_eq!((call.attempts().len(), call.job.as_str()), (0, "PENDING"), "dial {key}");
        }
        assert_eq!(types(&call), Vec::<String>::new());
    }
    // The report comes when the person's phone rings for the next dial.
    let call = dialled(&call_with(RETRY), 10);
    let call = folded(&call, &not_dialled(&call, "1", 11));
    assert_eq!(due_at(&call), at(41));
    let call = folded(&dialled(&call, 50), &reports("ringing", "2", EventKind::Ringing, 52));
    let call = folded(&call, &report("1", 53));
    let keys: Vec<_> = call.attempts().iter().map(|attempt| (attempt.index, attempt.lifecycle_label())).collect();
    assert_eq!((keys, call.job.as_str()), (vec![(1, "ringing")], "IN_PROGRESS"));
}

/// The room for dials bounds the row. It must not end a call whose provider has a bad day, or a bad week.
#[test]
fn call_that_nobody_dials_waits_for_weeks_before_it_ends() {
    let mut call = call_with(RetryPolicy { attempts_max: 16, ..RETRY });
    let mut dials = 0;
    let mut now = 10;
    let mut pauses = Vec::new();
    while call.is_pending() {
        dials += 1;
        call = dialled(&call, now);
        let mut report = reports(&format!("report-{dials}"), &dials.to_string(), EventKind::Failed, now + 1);
        report.call_events.retain(|event| !event.implied);
        report.call_events[0].never_dialled = true;
        call = folded(&call, &report);
        if call.is_pending() {
            pauses.push(due_at(&call).millis_since(at(now + 1)) / 1_000);
            now += 1 + *pauses.last().unwrap();
        }
    }
    assert_eq!((dials, call.job.as_str()), (CALL_DIALS_MAX, "FAILED"));
    assert_eq!(call.domain_events_from(1).last().unwrap().reason, Some("never_dialled"));
    assert_eq!((pauses[0], pauses[1], pauses[12], pauses[20]), (30, 60, 30 << 12, 7 * 24 * 3_600));
    let sixteen: i64 = pauses.iter().take(16).sum();
    assert!(sixteen > 14 * 24 * 3_600, "{sixteen} seconds");
}

/// The user cancels a call after a dial that reached nobody. A late event shows that a phone rang after all.
#[test]
fn cancellation_is_announced_once_whatever_arrives_later() {
    let call = dialled(&call_with(RETRY), 10);
    let withdrawn = folded(&call, &call.dial_not_found_event(&AttemptKey::new("1"), at(910)));
    let canceled = withdrawn.cancel(&POLICY, at(911)).unwrap().call;
    assert_eq!(reasons(&canceled)[0], ("call.canceled", Some("canceled_by_user")));
    let late = folded(&canceled, &reports("1", "1", EventKind::NoAnswer, 920));
    assert_eq!((late.attempts().len(), late.job.as_str()), (1, "CANCELED"));
    assert_eq!(types(&late).iter().filter(|name| *name == "call.canceled").count(), 1, "{:?}", types(&late));
}

/// A call that is due in a day.
fn call_due_tomorrow() -> Call {
    let mut call = call_with(RETRY);
    call.plan.as_mut().expect("a placed call has a plan").due_at = at(90_000);
    call.job = Job::Pending { due_at: at(90_000) };
    call
}

#[test]
fn dial_that_reached_nobody_leaves_a_trigger_in_force() {
    let triggered = call_due_tomorrow().claim("token", Provider::Retell, LEASE, true, &POLICY, at(10)).unwrap().call;
    let started = triggered.start_dial("token", "dial", Provider::Retell, &POLICY, at(11)).unwrap();
    let call = started.transition.call;
    // The provider accepted the dial, and reports that it had too many calls.
    let withdrawn = folded(&call, &call.not_dialled_event(&AttemptKey::new("1"), "p1", at(12)));
    assert_eq!(due_at(&withdrawn), at(42));
    // Another trigger ends the pause.
    let again = withdrawn.trigger(&POLICY, at(13)).unwrap().call;
    assert_eq!(due_at(&again), at(13));
}

#[test]
fn trigger_makes_a_pending_call_due() {
    let triggered = call_due_tomorrow().trigger(&POLICY, at(10)).unwrap().call;
    assert_eq!((due_at(&triggered), triggered.wake_at), (at(10), Some(at(10))));
    assert_eq!(triggered.moves.last().map(|last| last.kind), Some(MoveKind::Triggered));
    assert_eq!(dialled(&triggered, 11).trigger(&POLICY, at(12)), None);
}
