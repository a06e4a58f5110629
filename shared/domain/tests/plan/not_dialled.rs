//! Dials that were not made, although the provider had accepted them.

use switchhook_domain::{NeverDialled, WITHDRAWN_DIALS_MAX, explain_all};

use super::*;

/// The provider accepted the dial and then did not make it, because too many calls were in progress.
#[test]
fn dial_that_the_provider_never_made_is_no_attempt() {
    let call = dialled(&call_with(RETRY), 10);
    let call = folded(&call, &call.dial_accepted_event(&AttemptKey::new("1"), "p1", at(11)));
    let mut report = reports("1", "1", EventKind::Failed, 12);
    report.call_events.retain(|event| !event.implied);
    report.call_events[0].never_dialled = Some(NeverDialled::Capacity);
    let withdrawn = folded(&call, &report);
    assert_eq!((withdrawn.attempts().len(), due_at(&withdrawn)), (0, at(42)));
    let dispositions: Vec<_> = withdrawn.history.iter().map(|entry| entry.disposition).collect();
    assert_eq!(dispositions, [Disposition::Stale, Disposition::Applied]);
    // A phone rang after all.
    let rang = folded(&withdrawn, &reports("2", "1", EventKind::Ringing, 13));
    assert_eq!((rang.attempts().len(), rang.job.as_str()), (1, "PENDING"));
}

/// The provider had queued the call when it was asked, and then did not make it.
#[test]
fn dial_that_was_queued_and_then_not_made_is_no_attempt() {
    let started = claimed(&call_with(RETRY), 10).start_dial("token", "dial", Provider::Retell, &POLICY, at(10));
    let call = started.expect("claimed").watched().transition.call;
    let call = folded(&call, &call.dial_accepted_event(&AttemptKey::new("1"), "p1", at(11)));
    let alive = call.alive_event(&call.attempts()[0], at(911));
    let mut not_made = reports("1", "1", EventKind::Failed, 912);
    not_made.call_events[0].never_dialled = Some(NeverDialled::Capacity);
    for [first, second] in [[&alive, &not_made], [&not_made, &alive]] {
        let withdrawn = folded(&folded(&call, first), second);
        assert_eq!((withdrawn.attempts().len(), due_at(&withdrawn)), (0, at(942)));
        assert!(withdrawn.undialled(&not_made.event_id).is_some());
    }
    assert_eq!(folded(&call, &alive).watched_dial(&alive.event_id), None);
    let ringing = reports("2", "1", EventKind::Ringing, 913);
    assert_eq!(folded(&call, &ringing).watched_dial(&ringing.event_id), Some((Provider::Retell, at(10))));
    // A search did not find the call. It was asked about later, or at the same time, and had it.
    let not_found = call.dial_not_found_event(&AttemptKey::new("1"), at(910));
    for [first, second] in [[&alive, &not_found], [&not_found, &alive]] {
        let queued = folded(&folded(&call, first), second);
        assert_eq!((queued.attempts().len(), queued.job.as_str()), (1, "IN_PROGRESS"));
        let reasons: Vec<_> = explain_all(&queued).iter().map(|reason| reason.name()).collect();
        assert!(reasons.contains(&"dial_proved"), "{reasons:?}");
    }
}

/// The search may come first if the event that the provider took the dial, or a webhook, is folded late.
#[test]
fn dial_that_its_provider_took_and_forgot_is_not_made_again_in_any_order() {
    let call = dialled(&call_with(RETRY), 10);
    let key = AttemptKey::new("1");
    let not_found = call.dial_not_found_event(&key, at(910));
    for known in [call.dial_accepted_event(&key, "p1", at(11)), reports("1", "1", EventKind::Initiated, 11)] {
        for [first, second] in [[&known, &not_found], [&not_found, &known]] {
            let folded_both = folded(&folded(&call, first), second);
            assert_eq!((folded_both.attempts().len(), folded_both.job.as_str()), (1, "IN_PROGRESS"));
        }
    }
    // The provider itself says that it dialled nobody.
    let not_dialled = call.not_dialled_event(&key, "p1", at(911));
    let accepted = folded(&call, &call.dial_accepted_event(&key, "p1", at(11)));
    assert_eq!(folded(&accepted, &not_dialled).job.as_str(), "PENDING");
}

/// Telnyx refuses a dial under an id, and then reports the hangup of that call. Its report does not say that nobody was dialled.
#[test]
fn late_hangup_of_a_refused_dial_is_none_of_the_next_dial() {
    let hangup = |key: &str, now: i64| {
        let mut hangup = reports(&format!("hangup-{key}"), key, EventKind::Failed, now);
        hangup.provider_call_id = Some(format!("v3:{key}"));
        hangup.call_events.retain(|event| !event.implied);
        hangup
    };
    let call = dialled(&call_with(RETRY), 10);
    let call = folded(&call, &call.not_dialled_event(&AttemptKey::new("1"), "v3:1", at(11)));
    let call = dialled(&call, 60);
    let call = folded(&call, &call.dial_accepted_event(&AttemptKey::new("2"), "v3:2", at(61)));
    let call = folded(&call, &hangup("1", 62));
    let states: Vec<_> = call.attempts().iter().map(|attempt| (attempt.index, attempt.lifecycle_label())).collect();
    assert_eq!(states, [(0, "failed"), (1, "initiated")]);
    assert_eq!(call.job.as_str(), "IN_PROGRESS");
}

/// Vapi takes a dial above its limit under an id, answers that it dials nobody, and then reports that call as failed. The report
/// arrives before the answer, after it, or after the next dial.
#[test]
fn late_report_of_a_dial_that_was_not_made_is_none_of_the_next_dial() {
    let report = |key: &str, now: i64| {
        let mut report = reports(&format!("report-{key}"), key, EventKind::Failed, now);
        report.provider_call_id = Some(format!("v{key}"));
        report.call_events.retain(|event| !event.implied);
        report.call_events[0].never_dialled = Some(NeverDialled::Capacity);
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

/// Returns the call after another dial that its provider accepted and did not make.
fn dial_not_made(call: &Call, now: i64) -> Call {
    let call = dialled(call, now);
    let attempt = call.attempt_records.last().and_then(|record| record.key.clone()).expect("a dial has a key");
    let mut report = reports(&format!("report-{attempt}"), attempt.as_str(), EventKind::Failed, now + 1);
    report.call_events.retain(|event| !event.implied);
    for call_event in &mut report.call_events {
        call_event.never_dialled = Some(NeverDialled::Capacity);
    }
    folded(&call, &report)
}

fn years(from: i64, until: Timestamp) -> i64 {
    until.millis_since(at(from)) / 1_000 / (365 * 24 * 3_600)
}

/// The room for dials bounds the row. It must not end a call, however long its provider dials nobody.
#[test]
fn no_number_of_dials_that_were_not_made_ends_a_call() {
    let mut call = call_with(RetryPolicy { attempts_max: 16, ..RETRY });
    let mut now = 10;
    let mut pauses = Vec::new();
    while call.has_room_for_dial() {
        call = dial_not_made(&call, now);
        pauses.push(due_at(&call).millis_since(at(now + 1)) / 1_000);
        let waited = now + 1 - 10;
        assert!(*pauses.last().unwrap() <= waited + 30, "a pause after {waited} seconds of waiting: {pauses:?}");
        now += 1 + *pauses.last().unwrap();
    }
    assert_eq!((call.attempt_records.len(), call.attempts().len()), (WITHDRAWN_DIALS_MAX, 0));
    assert_eq!((pauses[0], pauses[1], pauses[12], pauses[20]), (30, 60, 30 << 12, 30 << 20));
    assert!(call.is_pending());
    assert!(pauses[30] > 1_000 * 365 * 24 * 3_600, "the room is used up in a thousand years: {}", pauses[30]);
    // A number is never used twice.
    let mut keys: Vec<_> = call.attempt_records.iter().filter_map(|record| record.key.clone()).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), WITHDRAWN_DIALS_MAX);
}

/// Somebody triggers a call again and again, while its provider accepts and makes no dial.
#[test]
fn triggers_use_up_the_room_for_dials_and_do_not_end_the_call() {
    let mut call = call_with(RETRY);
    for now in 0..WITHDRAWN_DIALS_MAX as i64 {
        call = dial_not_made(&call.trigger(&POLICY, at(100 + now * 10)).unwrap().call, 100 + now * 10);
    }
    assert!(!call.has_room_for_dial());
    let triggered = call.trigger(&POLICY, at(900)).unwrap().call;
    assert!(years(900, due_at(&triggered)) > 1_000, "{:?}", triggered.job);
    // Not even a claim leads to a dial.
    let claim = triggered.claim("token", Provider::Retell, LEASE, true, &POLICY, at(901)).unwrap().call;
    assert_eq!(claim.start_dial("token", "dial", Provider::Retell, &POLICY, at(902)), None);
    // The person's phone rang after all, in one of the dials. It is an attempt, and there is room for another.
    let rang = folded(&triggered, &reports("late", "7", EventKind::NoAnswer, 910));
    assert_eq!((rang.attempts().len(), rang.has_room_for_dial()), (1, true));
    assert!(triggered.cancel(&POLICY, at(903)).is_some());
}

fn call_of(providers: &[Provider]) -> Call {
    let mut call = call_with(RetryPolicy { attempts_max: 16, ..RETRY });
    call.plan.as_mut().expect("a placed call has a plan").providers = providers.to_vec();
    call
}

/// Returns the call after a dial through this provider, which accepted it and did not make it.
fn dial_not_made_through(call: &Call, provider: Provider, now: i64) -> Call {
    let claim = call.claim("token", provider, LEASE, true, &POLICY, at(now)).expect("pending").call;
    let started = claim.start_dial("token", "dial", provider, &POLICY, at(now)).expect("claimed");
    folded(&started.transition.call, &started.transition.call.not_dialled_event(&started.attempt, "p", at(now)))
}

#[test]
fn next_provider_is_asked_at_once_if_one_accepts_a_dial_and_does_not_make_it() {
    let call = dial_not_made(&call_of(&[Provider::Vapi, Provider::Retell]), 10);
    assert!(call.is_due(at(11)));
    assert_eq!(call.dial_providers(), [Provider::Retell, Provider::Vapi]);
    // Both have refused. They are asked in turn, and each dial has a pause.
    let mut call = dial_not_made(&call, 12);
    for (due, provider, next) in [
        (43, Provider::Vapi, Provider::Retell),
        (43 + 61, Provider::Retell, Provider::Vapi),
        (104 + 121, Provider::Vapi, Provider::Retell),
    ] {
        assert_eq!((due_at(&call), call.dial_providers()), (at(due), vec![provider, next]));
        call = dial_not_made(&call, due);
    }
    assert_eq!(call.attempts().len(), 0);
    // A phone rang after all, so the next attempt begins anew.
    let rang = folded(&call, &reports("late", "5", EventKind::NoAnswer, 400));
    assert_eq!((rang.attempts().len(), rang.dial_providers()), (1, vec![Provider::Vapi, Provider::Retell]));
}

/// One provider refuses the request, and another one accepts the dial and does not make it.
#[test]
fn each_provider_is_asked_once_before_a_call_pauses() {
    let call = call_of(&[Provider::Vapi, Provider::Retell, Provider::Twilio]);
    for vapi_answers_first in [true, false] {
        let vapi = |call: &Call, now| dial_not_made_through(call, Provider::Vapi, now);
        let retell = |call: &Call, now| {
            let claim = call.claim("token", Provider::Retell, LEASE, true, &POLICY, at(now)).unwrap().call;
            let dial = claim.start_dial("token", "429", Provider::Retell, &POLICY, at(now)).unwrap().transition.call;
            dial.withdraw("429", at(now + 60), &POLICY, at(now)).unwrap().call
        };
        let both = if vapi_answers_first { retell(&vapi(&call, 10), 11) } else { vapi(&retell(&call, 10), 11) };
        assert!(both.is_due(at(11)), "{:?}", both.job);
        assert_eq!(both.dial_provider(), Some(Provider::Twilio));
        let all = dial_not_made_through(&both, Provider::Twilio, 12);
        assert_eq!((due_at(&all), all.dial_provider()), (at(42), Some(Provider::Vapi)));
    }
}

/// The second provider is unavailable, so only the first one is asked.
#[test]
fn provider_that_is_asked_alone_is_asked_with_pauses() {
    let once = dial_not_made_through(&call_of(&[Provider::Vapi, Provider::Retell]), Provider::Vapi, 10);
    let twice = dial_not_made_through(&once, Provider::Vapi, 12);
    let again = dial_not_made_through(&twice, Provider::Vapi, 100);
    assert_eq!((due_at(&twice), due_at(&again)), (at(42), at(160)));
    assert_eq!(again.dial_provider(), Some(Provider::Retell));
    let both = dial_not_made_through(&again, Provider::Retell, 200);
    assert_eq!((due_at(&both), both.dial_provider()), (at(320), Some(Provider::Vapi)));
}

#[test]
fn second_report_of_a_dial_does_not_begin_its_pause_anew() {
    let call = dial_not_made_through(&call_with(RETRY), Provider::Retell, 10);
    let mut report = reports("late", "1", EventKind::Failed, 25);
    report.call_events.retain(|event| !event.implied);
    report.call_events[0].never_dialled = Some(NeverDialled::Capacity);
    assert_eq!((due_at(&call), due_at(&folded(&call, &report))), (at(40), at(40)));
}

/// The person's phone rang a short time ago, so a long pause would be no consequence of the dials before.
#[test]
fn pauses_begin_anew_after_an_attempt() {
    let mut call = call_of(&[Provider::Retell]);
    for (round, pause) in [30, 60, 120, 240, 480, 960].into_iter().enumerate() {
        let now = 10_000 * (round as i64 + 1);
        call = dial_not_made_through(&call, Provider::Retell, now);
        assert_eq!(due_at(&call), at(now + pause));
    }
    call = folded(&dialled(&call, 70_000), &reports("rang", "7", EventKind::NoAnswer, 70_010));
    let now = 80_000;
    call = dial_not_made_through(&call, Provider::Retell, now);
    assert_eq!((call.attempts().len(), due_at(&call)), (1, at(now + 30)));
    call = dial_not_made_through(&call, Provider::Retell, now + 30);
    assert_eq!(due_at(&call), at(now + 90));
}

/// Before each attempt, several providers accept the call and do not make it. That must not use up the room for dials.
#[test]
fn attempts_between_dials_that_were_not_made_leave_room_for_others() {
    for providers in [&[Provider::Retell][..], &[Provider::Vapi, Provider::Retell, Provider::Twilio]] {
        let mut call = call_of(providers);
        let (mut now, mut dials) = (10, 0);
        while years(10, at(now)) < 1_000 && call.is_pending() {
            assert!(call.has_room_for_dial(), "{dials} dials until {now}");
            // Each sixth dial is made.
            dials += 1;
            call = if dials % 6 == 0 {
                let call = dialled(&call, now);
                let key = call.attempt_records.last().and_then(|record| record.key.clone()).unwrap();
                folded(&call, &reports(&format!("end-{key}"), key.as_str(), EventKind::NoAnswer, now))
            } else {
                let provider = call.dial_provider().unwrap();
                dial_not_made_through(&call, provider, now)
            };
            now = now.max(due_at(&call).as_millis() / 1_000 + 1);
        }
    }
}

/// Attempts have their own room.
#[test]
fn dials_that_were_not_made_take_no_attempt_away() {
    let mut call = call_with(RetryPolicy { attempts_max: 16, ..RETRY });
    for now in 1..WITHDRAWN_DIALS_MAX as i64 {
        call = dial_not_made(&call.trigger(&POLICY, at(now * 10)).unwrap().call, now * 10);
    }
    for attempt in 1..=16 {
        let now = 1_000 * attempt;
        let started = call.claim("token", Provider::Retell, LEASE, true, &POLICY, at(now)).unwrap().call;
        let started = started.start_dial("token", "dial", Provider::Retell, &POLICY, at(now + 1)).unwrap();
        let key = started.attempt.as_str();
        call = folded(&started.transition.call, &reports(&format!("end-{key}"), key, EventKind::NoAnswer, now + 2));
        assert_eq!(call.is_pending(), attempt < 16, "{:?}", call.job);
    }
    assert_eq!((call.attempts().len(), call.attempt_records.len()), (16, 15 + WITHDRAWN_DIALS_MAX));
    let exhausted = call.domain_events_from(1).into_iter().find(|event| event.event_type == "call.exhausted");
    assert_eq!(exhausted.and_then(|event| event.reason), Some("attempts_used"));
}

/// No pause outlasts the time after which a call makes no sense: the dialer ends the call then.
#[test]
fn pause_ends_when_the_call_is_too_late() {
    let mut call = call_with(RETRY);
    call.plan.as_mut().expect("a placed call has a plan").not_after = Some(at(100));
    let call = dial_not_made(&call, 10);
    assert_eq!(due_at(&call), at(41));
    let refused = dialled(&call, 45).withdraw("dial", at(5_000), &POLICY, at(46)).unwrap().call;
    assert_eq!(due_at(&refused), at(100));
    let call = dial_not_made(&call, 45);
    assert_eq!(due_at(&call), at(100));
}

/// The accepted dial was announced. Each time, subscribers learn that nobody is called.
#[test]
fn accepted_dial_that_was_not_made_is_announced_to_be_made_again() {
    let mut call = call_with(RETRY);
    for (round, now) in [(1, 10), (2, 100)] {
        let key = AttemptKey::new(round.to_string());
        call = dialled(&call, now);
        call = folded(&call, &call.dial_accepted_event(&key, "p1", at(now + 1)));
        assert_eq!(types(&call)[4 * (round - 1)..], ["call.initiated", "appointment.dialing"]);
        call = folded(&call, &call.not_dialled_event(&key, "p1", at(now + 2)));
        let events = call.domain_events_from(4 * (round - 1) + 3);
        let shown: Vec<_> =
            events.iter().map(|event| (event.event_type.as_str(), event.attempt, event.provider)).collect();
        let of_dial = (Some(1), Some(Provider::Retell));
        assert_eq!(
            shown,
            [("call.retry_scheduled", of_dial.0, of_dial.1), ("appointment.retrying", of_dial.0, of_dial.1)]
        );
        assert_eq!(call.appointment_status().as_str(), "Retrying");
    }
}

/// The second dial was accepted, and not made. The retry is announced once, and another one if a phone rang after all.
#[test]
fn retry_after_a_dial_that_was_not_made_is_announced_once() {
    let busy = folded(&dialled(&call_with(RETRY), 10), &reports("1", "1", EventKind::Busy, 12));
    let call = dialled(&busy, 100);
    let call = folded(&call, &call.dial_accepted_event(&AttemptKey::new("2"), "p2", at(101)));
    let call = folded(&call, &call.not_dialled_event(&AttemptKey::new("2"), "p2", at(102)));
    let retries = |call: &Call| types(call).iter().filter(|name| *name == "call.retry_scheduled").count();
    assert_eq!(retries(&call), 2, "{:?}", types(&call));
    // Both events tell of the second dial.
    let events = call.domain_events_from(1);
    for event_type in ["call.retry_scheduled", "appointment.retrying"] {
        let last = events.iter().rfind(|event| event.event_type == event_type).expect("announced");
        let source = last.source_event_id.as_deref();
        assert_eq!((last.attempt, source), (Some(2), Some("switchhook:call-1/2/not_dialled")), "{event_type}");
    }
    let mut again = reports("3", "2", EventKind::Failed, 103);
    again.call_events.retain(|event| !event.implied);
    again.call_events[0].never_dialled = Some(NeverDialled::Capacity);
    let again = folded(&call, &again);
    assert_eq!(types(&again), types(&call));
    let rang = folded(&again, &reports("4", "2", EventKind::Busy, 110));
    assert_eq!((rang.attempts().len(), retries(&rang)), (2, 3), "{:?}", types(&rang));
    assert_eq!(types(&folded(&rang, &reports("5", "2", EventKind::Busy, 111))), types(&rang));
}

/// The user cancels a call after a dial that was not made. A late event shows that a phone rang after all.
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
fn dial_that_was_not_made_leaves_a_trigger_in_force() {
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

/// Another system numbers its attempts as it likes.
#[test]
fn every_dial_has_a_number_of_its_own() {
    for numbers in [&[u32::MAX][..], &[2, 4], &[3, u32::MAX - 1]] {
        let mut call = call_with(RetryPolicy { attempts_max: 16, ..RETRY });
        for number in numbers {
            call = folded(&call, &reports(&number.to_string(), &number.to_string(), EventKind::NoAnswer, 5));
        }
        let mut dials = Vec::new();
        for now in 1..4 {
            let now = now * 10_000;
            let started = claimed(&call, now).start_dial("token", "dial", Provider::Retell, &POLICY, at(now));
            let started = started.expect("claimed");
            let key = started.attempt.as_str();
            dials.push(key.parse::<u32>().expect("a number"));
            call = folded(&started.transition.call, &reports(&format!("end-{key}"), key, EventKind::Busy, now + 1));
        }
        assert!(dials.is_sorted() && dials.iter().all(|dial| *dial < 10), "{dials:?}");
        let mut keys: Vec<_> = call.attempt_records.iter().map(|record| record.key.clone()).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), numbers.len() + dials.len(), "{keys:?}");
    }
}
