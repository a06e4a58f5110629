//! It becomes known late that a person had answered an attempt.

use switchhook_domain::{AttemptKey, EventKind, RetryPolicy};

use super::{POLICY, RETRY, at, call_with, dialled, folded, reports};

/// A silent attempt was followed by another one, and only then it becomes known that the person had answered.
#[test]
fn person_who_had_answered_an_earlier_attempt_is_not_dialled_again() {
    let check = |events: &[(EventKind, i64)], job: &str| {
        let mut call =
            dialled(&call_with(RetryPolicy { unheard: true, voicemail: true, attempts_max: 5, ..RETRY }), 10);
        call = folded(&call, &call.dial_accepted_event(&AttemptKey::new("1"), "p1", at(11)));
        call = folded(&call, &call.deadline_passed_events(&POLICY, at(2_000))[0]);
        call = dialled(&call, 20_000);
        for (number, (kind, second)) in events.iter().enumerate() {
            call = folded(&call, &reports(&format!("late-{number}"), "1", *kind, *second));
        }
        let second = call.attempt_records.last().and_then(|record| record.key.clone()).unwrap();
        call = folded(&call, &reports("second", second.as_str(), EventKind::NoAnswer, 20_030));
        assert_eq!(call.job.as_str(), job, "{events:?}");
        call
    };
    check(&[], "PENDING");
    check(&[(EventKind::NoAnswer, 40)], "PENDING");
    check(&[(EventKind::VoicemailDetected, 20), (EventKind::Failed, 40)], "PENDING");
    let call = check(&[(EventKind::InProgress, 20), (EventKind::Failed, 40)], "FAILED");
    let exhausted = call.domain_events_from(1).into_iter().rfind(|event| event.event_type == "call.exhausted").unwrap();
    assert_eq!(exhausted.reason, Some("not_retryable"));
    check(&[(EventKind::InProgress, 20), (EventKind::Busy, 40)], "FAILED");
    check(&[(EventKind::InProgress, 20)], "IN_PROGRESS");
    check(&[(EventKind::InProgress, 20), (EventKind::Completed, 40)], "COMPLETED");
}
