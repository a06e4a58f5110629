use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::call::{Disposition, Policy};
use crate::event::{AttemptKey, CallEvent, CallId, EventId, NeverDialled, Origin, ProviderEvent};
use crate::fold::fold;
use crate::number::PhoneNumber;
use crate::plan::{NewCall, Plan, RetryPolicy};
use crate::provider::{Provider, ProviderSet};
use crate::time::Timestamp;

const LENGTH_MAX: usize = 5;
const POLICY: Policy = Policy { inactivity_timeout: Duration::from_secs(900), outcome_providers: ProviderSet::ALL };

/// Event of a small alphabet. Its time is its position in the history.
#[derive(Clone, Copy, Debug)]
struct Letter {
    kind: EventKind,
    attempt: Option<&'static str>,
    never_dialled: Option<NeverDialled>,
}

const fn letter(kind: EventKind, attempt: Option<&'static str>) -> Letter {
    Letter { kind, attempt, never_dialled: None }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn is_own(kind: EventKind) -> bool {
    !kind.is_evidence()
}

fn event(letter: Letter, name: &str, second: i64) -> ProviderEvent {
    let Letter { kind, attempt, never_dialled } = letter;
    let (sender, origin) = match is_own(kind) {
        true => ("switchhook", Origin::Switchhook),
        false => ("retell", Origin::Provider(Provider::Retell)),
    };
    let event_id = EventId::new(format!("{sender}:{name}"));
    ProviderEvent {
        attempt: attempt.map(AttemptKey::new),
        call_events: vec![CallEvent { never_dialled, ..CallEvent::new(kind, Some(at(second))) }],
        ..ProviderEvent::new(event_id, origin, kind.as_str(), CallId::new("call-1"), at(second))
    }
}

fn folded(call: Option<&Call>, event: &ProviderEvent) -> Option<Call> {
    fold(call, std::slice::from_ref(event), &POLICY, event.received_at).transition.map(|it| it.call)
}

/// Returns a call whose first attempt Switchhook has just dialled.
fn dialled() -> Call {
    let retry =
        RetryPolicy { attempts_max: 3, delay_seconds: 60, delay_max_seconds: 600, voicemail: false, unheard: false };
    let plan = Plan {
        providers: vec![Provider::Retell],
        due_at: at(-20),
        not_after: None,
        window: None,
        retry,
        metadata: BTreeMap::new(),
        request_hash: None,
        trace_id: None,
    };
    let (from, to) = (PhoneNumber::new("+15550100"), PhoneNumber::new("+15550101"));
    let new = NewCall { call_id: CallId::new("call-1"), from, to, appointment_id: None, plan };
    let call = Call::schedule(new, &POLICY, at(-20)).call;
    let claimed =
        call.claim("token", Provider::Retell, Duration::from_secs(300), false, &POLICY, at(-10)).expect("due").call;
    claimed.start_dial("token", "dial", Provider::Retell, &POLICY, at(-10)).expect("claimed").transition.call
}

/// Calls `check` with the call of every history over the alphabet up to length 5. Returns the number of histories.
fn every_history(start: Option<&Call>, alphabet: &[Letter], check: &mut impl FnMut(&Call)) -> usize {
    fn go(call: Option<&Call>, alphabet: &[Letter], length: usize, check: &mut impl FnMut(&Call)) -> usize {
        if length == LENGTH_MAX {
            return 0;
        }
        let mut seen = 0;
        for letter in alphabet {
            let event = event(*letter, &format!("e{length}"), i64::try_from(length).expect("small"));
            let Some(next) = folded(call, &event) else { continue };
            check(&next);
            seen += 1 + go(Some(&next), alphabet, length + 1, check);
        }
        seen
    }
    go(start, alphabet, 0, check)
}

/// Checks every reason of a call: it gives the disposition that the fold gave, and names real entries.
fn check_reasons(call: &Call, names: &mut BTreeMap<&'static str, usize>) {
    for (index, (entry, reason)) in call.history.iter().zip(explain_all(call)).enumerate() {
        let context = || format!("{reason:?} of {entry:?} in {:#?}", call.timeline());
        assert_eq!(reason.disposition(), entry.disposition, "{}", context());
        *names.entry(reason.name()).or_default() += 1;
        let sentence = reason.to_string();
        assert!(sentence.ends_with('.') && sentence.len() < 240, "{sentence}");
        for named in reason.entries() {
            let other = &call.history[named.index];
            assert_eq!((&other.id(), other.event.kind), (&named.id, named.kind), "{}", context());
            assert_ne!(named.index, index, "{}", context());
            assert!(sentence.contains(named.id.as_str()), "{sentence}");
        }
        check_meaning(call, index, &reason);
    }
}

/// Checks that what a reason says is true.
fn check_meaning(call: &Call, index: usize, reason: &Reason) {
    let entry = &call.history[index];
    let is_before = |by: &EntryRef| call.history[by.index].canonical_cmp(entry).is_lt();
    match reason {
        // If the missing events arrive before the event, it is no longer parked.
        Reason::NoPath { missing, waits_with, .. } if !missing.is_empty() => {
            let before = waits_with.as_ref().map_or(entry, |with| &call.history[with.index]);
            let mut more = call.clone();
            for (n, kind) in missing.iter().enumerate() {
                let key = entry.attempt_index.and_then(|of| call.attempt_records[of].key.clone());
                let mut missing = event(letter(*kind, None), &format!("missing{n}"), 0);
                missing.attempt = key;
                // Just before the event, by the provider's counter.
                missing.call_events[0].occurred_at =
                    before.event.occurred_at.map(|at| Timestamp::from_millis(at.as_millis() - 10 + n as i64));
                more = folded(Some(&more), &missing).expect("new");
            }
            assert_ne!(more.history[index].disposition, Disposition::Parked, "{reason:?} in {:#?}", call.timeline());
        }
        Reason::Contradicts { by, .. } | Reason::Repeated { by, .. } | Reason::BeganBefore { by, .. } => {
            assert!(is_before(by), "{reason:?}");
        }
        Reason::Outranked { by, .. } => assert!(!is_before(by), "{reason:?}"),
        Reason::Unnamed { attempts, reason } => {
            assert!(!attempts.is_empty());
            check_meaning(call, index, reason);
        }
        Reason::Stepped { lifecycle, outcome, .. } => assert!(lifecycle.is_some() || outcome.is_some(), "{reason:?}"),
        Reason::NoPath { .. }
        | Reason::Began { .. }
        | Reason::Alive { .. }
        | Reason::DeadlineCounts { .. }
        | Reason::Withdrew
        | Reason::ClaimExpired
        | Reason::RetryPromised { .. }
        | Reason::RetryMissed { .. }
        | Reason::DriftFound
        | Reason::DeadlineLifted { .. }
        | Reason::DeadlineTooEarly { .. }
        | Reason::DeadlineRepeated { .. }
        | Reason::OfWithdrawnDial { .. }
        | Reason::DialProved { .. }
        | Reason::NotOurDial
        | Reason::RetryBegan { .. }
        | Reason::RetryPromisedAgain { .. }
        | Reason::NoAttempt => {}
    }
}

/// Explains every history over an alphabet, and checks that each of `expected` is the reason of some event.
fn every_reason_agrees(start: Option<&Call>, alphabet: &[Letter], expected: &[&str]) {
    let mut names = BTreeMap::new();
    let seen = every_history(start, alphabet, &mut |call| check_reasons(call, &mut names));
    assert!(seen > 5_000, "{seen}");
    let found: Vec<&str> = names.keys().copied().collect();
    assert_eq!(found, expected, "{names:?}");
}

#[test]
fn invariant_every_reason_of_one_attempt_agrees_with_the_fold() {
    let kinds = [
        EventKind::Initiated,
        EventKind::Ringing,
        EventKind::InProgress,
        EventKind::NoAnswer,
        EventKind::Busy,
        EventKind::Completed,
        EventKind::UserConfirmed,
    ];
    let expected = ["began", "began_before", "contradicts", "no_path", "outranked", "repeated", "stepped"];
    every_reason_agrees(None, &kinds.map(|kind| letter(kind, Some("a"))), &expected);
}

#[test]
fn invariant_every_reason_of_a_presumed_ending_agrees_with_the_fold() {
    let kinds = [
        EventKind::Ringing,
        EventKind::VoicemailDetected,
        EventKind::UserDeclined,
        EventKind::Failed,
        EventKind::Completed,
        EventKind::DeadlinePassed,
        EventKind::Alive,
    ];
    let expected = [
        "alive",
        "contradicts",
        "deadline_counts",
        "deadline_lifted",
        "deadline_repeated",
        "no_path",
        "outranked",
        "repeated",
        "stepped",
    ];
    every_reason_agrees(None, &kinds.map(|kind| letter(kind, Some("a"))), &expected);
}

#[test]
fn invariant_every_reason_of_a_dial_agrees_with_the_fold() {
    let own = Some("1");
    let alphabet = [
        letter(EventKind::Initiated, own),
        letter(EventKind::Ringing, own),
        letter(EventKind::DialNotFound, own),
        Letter { never_dialled: Some(NeverDialled::Unclear), ..letter(EventKind::Failed, own) },
        letter(EventKind::DeadlinePassed, own),
        letter(EventKind::ClaimExpired, None),
        letter(EventKind::DriftFound, None),
    ];
    let expected = [
        "began",
        "began_before",
        "claim_expired",
        "contradicts",
        "deadline_counts",
        "deadline_lifted",
        "deadline_repeated",
        "dial_proved",
        "drift_found",
        "of_withdrawn_dial",
        "repeated",
        "stepped",
        "withdrew",
    ];
    every_reason_agrees(Some(&dialled()), &alphabet, &expected);
}

#[test]
fn invariant_every_reason_in_a_call_of_two_attempts_agrees_with_the_fold() {
    let alphabet = [
        letter(EventKind::Ringing, Some("a")),
        letter(EventKind::NoAnswer, Some("b")),
        letter(EventKind::InProgress, None),
        letter(EventKind::RetryScheduled, None),
        letter(EventKind::RetryMissed, None),
        letter(EventKind::DialNotFound, Some("a")),
    ];
    let expected = [
        "contradicts",
        "not_our_dial",
        "outranked",
        "repeated",
        "retry_began",
        "retry_missed",
        "retry_promised",
        "retry_promised_again",
        "stepped",
    ];
    every_reason_agrees(None, &alphabet, &expected);
}

#[test]
fn sentences_are_plain() {
    let tell = |kinds: &[(EventKind, i64)]| -> Vec<String> {
        let events = kinds
            .iter()
            .enumerate()
            .map(|(n, (kind, second))| event(letter(*kind, Some("a")), &format!("e{n}"), *second));
        let call = events.fold(None, |call: Option<Call>, event| folded(call.as_ref(), &event)).expect("an event");
        (0..call.history.len()).map(|index| explain(&call, index).expect("an entry").to_string()).collect()
    };
    use EventKind::{Busy, Completed, InProgress, NoAnswer, Ringing, UserConfirmed};
    let late = tell(&[(Ringing, 1), (Completed, 5), (InProgress, 9), (NoAnswer, 10)]);
    assert_eq!(
        late,
        [
            "It moved attempt 1: initiated → ringing.",
            "Attempt 1 lacks in_progress before it; in_progress (retell:e2) has arrived, but comes later in the order of \
             events.",
            "It moved attempt 1: ringing → in_progress, outcome dialing → connected.",
            "It leads to no_answer, which contradicts in_progress (retell:e2): attempt 1 was already in_progress by then.",
        ]
    );
    let waiting = tell(&[(InProgress, 1), (Completed, 2)]);
    assert_eq!(waiting[1], "Attempt 1 lacks ringing before it; in_progress (retell:e0) waits for the same.");
    let outranked = tell(&[(Ringing, 1), (Busy, 2), (InProgress, 3), (UserConfirmed, 4)]);
    assert_eq!(
        outranked[1],
        "It leads to busy, but in_progress (retell:e2) came later and made attempt 1 in_progress, which outranks it."
    );
    assert_eq!(outranked[3], "It set the outcome of attempt 1: connected → confirmed.");
}
