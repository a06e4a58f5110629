use switchhook_domain::{Direction, Provider};

use super::*;
use crate::timeline::JobSummary;

const NO_JOB: JobSummary = JobSummary { state: None, due_at: None, lease_ends_at: None, stop_reason: None };

fn at(second: usize) -> String {
    format!("2026-11-22T15:{:02}:{:02}.000Z", second / 60, second % 60)
}

fn attempt(number: u8, second: usize, lifecycle: &'static str, outcome: &'static str) -> AttemptSummary {
    AttemptSummary {
        number,
        provider: Some(Provider::Retell),
        provider_call_id: None,
        lifecycle,
        outcome,
        dialled_at: None,
        started_at: at(second),
        ended_at: None,
    }
}

fn call(attempts: Vec<AttemptSummary>, job: JobSummary) -> CallSummary {
    CallSummary {
        call_id: "c".to_owned(),
        provider: Some(Provider::Retell),
        direction: Some(Direction::Outbound),
        appointment_id: None,
        appointment_status: "Dialing",
        job,
        lifecycle: None,
        outcome: None,
        settled: false,
        attempts,
        version: 1,
        created_at: at(0),
        updated_at: at(0),
        settled_at: None,
        forgotten_at: None,
    }
}

fn told(call: &CallSummary, story: &[Line]) -> String {
    in_short(call, story, &[], Timestamp::MAX)
}

fn moved(second: usize, kind: MoveKind, reason: Option<&str>) -> Line {
    Line::Move { at: at(second), kind: kind.as_str(), reason: reason.map(str::to_owned) }
}

fn event_at(kind: &'static str, occurred: usize, received: usize, disposition: Disposition) -> Line {
    let late_ms = (received as i64 - occurred as i64) * 1_000;
    Line::Event(EventInStory {
        event_id: format!("e{occurred}"),
        source_event_id: format!("e{occurred}"),
        kind,
        implied: false,
        occurred_at: Some(at(occurred)),
        received_at: at(received),
        late_ms: Some(late_ms),
        is_late: late_ms >= 10_000,
        folded_at: at(received),
        attempt: Some(1),
        disposition: disposition.as_str(),
        reason: "stepped",
        why: String::new(),
        refers_to: Vec::new(),
    })
}

#[test]
fn dials_stand_in_order_and_equal_ones_are_counted() {
    let attempts = vec![
        attempt(1, 100, "busy", "no_answer"),
        attempt(2, 200, "busy", "no_answer"),
        attempt(3, 300, "completed", "confirmed"),
    ];
    let story = [moved(50, MoveKind::Withdrawn, Some("connection_refused"))];
    assert_eq!(
        told(&call(attempts, NO_JOB), &story),
        "Not placed (connection refused), then busy, 2 times, then answered and confirmed."
    );
}

#[test]
fn dial_that_an_event_took_back_is_named() {
    let withdrawal = |kind, second| match event_at(kind, second, second, Disposition::Applied) {
        Line::Event(event) => Line::Event(EventInStory { attempt: None, reason: "withdrew", ..event }),
        other @ (Line::Move { .. } | Line::Write(_)) => other,
    };
    let attempts = || vec![attempt(1, 10, "busy", "no_answer"), attempt(2, 300, "completed", "confirmed")];
    let story = [
        moved(10, MoveKind::Dialled, None),
        moved(100, MoveKind::Dialled, None),
        moved(160, MoveKind::Doubted, None),
        withdrawal("dial_not_found", 200),
    ];
    assert_eq!(
        told(&call(attempts(), NO_JOB), &story),
        "Busy, then not placed (the provider had no such call), then answered and confirmed.",
        "the doubt was about the dial that was taken back"
    );
    assert_eq!(told(&call(vec![], NO_JOB), &[withdrawal("failed", 20)]), "Not placed (the provider dialled nobody).");
}

#[test]
fn many_endings_are_cut_in_the_middle() {
    let states = ["busy", "failed"];
    let attempts =
        (1..=16).map(|number| attempt(number, usize::from(number), states[usize::from(number) % 2], "no_answer"));
    assert_eq!(
        told(&call(attempts.collect(), NO_JOB), &[]),
        "Failed, then busy, then 11 other endings, then busy, then failed, then busy."
    );
}

#[test]
fn every_pair_of_states_has_its_words() {
    let of = |lifecycle, outcome| told(&call(vec![attempt(1, 1, lifecycle, outcome)], NO_JOB), &[]);
    assert_eq!(of("initiated", "dialing"), "Dialled.");
    assert_eq!(of("in_progress", "connected"), "In progress.");
    assert_eq!(of("in_progress", "confirmed"), "Confirmed, and still in progress.");
    assert_eq!(of("completed", "connected"), "Answered, without a decision.");
    assert_eq!(of("completed", "inconclusive"), "Ended, with an unknown outcome.");
    assert_eq!(of("inconclusive", "inconclusive"), "Without any report of its end.");
    assert_eq!(of("inconclusive", "declined"), "Declined, with an unknown end.");
    assert_eq!(of("busy", "confirmed"), "Busy, but confirmed.");
    assert_eq!(of("no_answer", "no_answer"), "No answer.");
}

#[test]
fn job_says_what_it_waits_for_or_why_it_stopped() {
    let waiting = JobSummary { state: Some("PENDING"), due_at: Some(at(60)), ..NO_JOB };
    assert_eq!(told(&call(vec![], waiting), &[]), "Not dialled yet. The next dial is due 2026-11-22 15:01:00 UTC.");
    let canceled = JobSummary { state: Some("CANCELED"), stop_reason: Some("canceled_by_user"), ..NO_JOB };
    assert_eq!(told(&call(vec![], canceled), &[]), "Not dialled. A user canceled the job.");
    let completed = JobSummary { state: Some("COMPLETED"), stop_reason: Some("canceled_by_user"), ..NO_JOB };
    let text = told(&call(vec![attempt(1, 1, "completed", "confirmed")], completed), &[]);
    assert_eq!(text, "Answered and confirmed. A user canceled further attempts.");
    let missed = JobSummary { state: Some("MISSED"), ..NO_JOB };
    let text = told(&call(vec![attempt(1, 1, "busy", "no_answer")], missed), &[]);
    assert_eq!(text, "Busy. It was an inbound call, and nobody answered it.");
}

#[test]
fn call_says_why_its_next_dial_was_held_back() {
    let text = |state, newest| {
        let job = JobSummary { state: Some(state), ..NO_JOB };
        let returned = moved(20, MoveKind::Returned, Some("events_unfolded"));
        told(
            &call(vec![attempt(1, 1, "busy", "no_answer")], job),
            &[moved(1, MoveKind::Dialled, None), returned, newest],
        )
    };
    let write = event_at("ringing", 1, 30, Disposition::Stale);
    // Nobody knows here whether the event was folded or discarded since.
    let expected = "Busy. It was held back at 2026-11-22 15:00:20 UTC, because an event of the call was not folded.";
    assert!(text("PENDING", write).starts_with(expected));
    for (state, newest) in [("PENDING", MoveKind::Triggered), ("COMPLETED", MoveKind::Doubted)] {
        assert!(!text(state, moved(30, newest, None)).contains("not folded"), "{state}");
    }
}

#[test]
fn doubted_dial_is_named_when_it_is_settled() {
    let attempts = || vec![attempt(1, 10, "completed", "confirmed")];
    let doubted = || moved(30, MoveKind::Doubted, None);
    let text = told(&call(attempts(), NO_JOB), &[doubted(), doubted()]);
    let known = "The result of dial 1 was in doubt until the provider's id of the call became known.";
    assert_eq!(text, format!("Answered and confirmed. {known}"));
    let story = [doubted(), event_at("completed", 50, 51, Disposition::Applied)];
    let text = told(&call(attempts(), NO_JOB), &story);
    assert_eq!(text, "Answered and confirmed. The result of dial 1 was in doubt until an event settled it.");
}

#[test]
fn dial_in_doubt_says_since_when_what_is_done_and_when_it_ends() {
    let time = |minute: i64| Timestamp::from_millis(1_795_359_600_000 + minute * 60_000);
    let doubt = |next_lookup_at| Doubt {
        attempt: 1,
        since: time(0),
        next_lookup_at,
        ends_with_answer_by: time(15),
        ends_by: time(24 * 60 + 15),
    };
    let of = |next: Option<i64>, now: i64| {
        let story = [moved(0, MoveKind::Dialled, None), moved(300, MoveKind::Doubted, None)];
        let attempts = vec![attempt(1, 0, "initiated", "dialing")];
        let text = in_short(&call(attempts, NO_JOB), &story, &[doubt(next.map(time))], time(now));
        let begin = "Dialled. The result of dial 1 has been in doubt since 2026-11-22 15:00:00 UTC: the provider's answer was lost and \
                     no event has arrived, so nobody knows whether the phone rang, and nobody is dialled again. The reconciler ";
        text.strip_prefix(begin).unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    assert_eq!(
        of(Some(5), 2),
        "looks for the call at the provider, next at 2026-11-22 15:05:00 UTC. The doubt ends by 2026-11-22 15:15:00 UTC if the \
         provider answers, and by 2026-11-23 15:15:00 UTC at the latest."
    );
    assert_eq!(
        of(None, 15),
        "looks for the call at the provider. The doubt ends when the provider answers, and by 2026-11-23 15:15:00 UTC at the latest."
    );
    assert_eq!(
        of(Some(5), 24 * 60 + 15),
        "should have looked for the call at the provider at 2026-11-22 15:05:00 UTC, and has not: see `switchhook status`. The \
         doubt should have ended by 2026-11-23 15:15:00 UTC: `switchhook reconcile` runs the reconciler now."
    );
}

#[test]
fn late_and_crossed_events_are_named() {
    let of = |story: &[Line]| told(&call(vec![attempt(1, 1, "busy", "no_answer")], NO_JOB), story);
    let ringing = || event_at("ringing", 10, 200, Disposition::Applied);
    let busy = |received| event_at("busy", 20, received, Disposition::Applied);
    assert_eq!(
        of(&[busy(21), ringing()]),
        "Busy. Events arrived out of order: the event ringing came 3 min 10 s late."
    );
    assert_eq!(of(&[ringing()]), "Busy. The event ringing came 3 min 10 s late.");
    assert_eq!(of(&[ringing(), busy(300)]), "Busy. 2 events came late, by up to 4 min 40 s.");
    let crossed = [busy(21), event_at("ringing", 15, 22, Disposition::Applied)];
    assert_eq!(of(&crossed), "Busy. Events arrived out of order.");
    assert_eq!(of(&[busy(21)]), "Busy.");
}

#[test]
fn events_without_effect_are_counted() {
    let story = [
        event_at("completed", 1, 1, Disposition::Parked),
        event_at("busy", 2, 2, Disposition::Refused),
        event_at("failed", 3, 3, Disposition::Refused),
    ];
    assert_eq!(
        told(&call(vec![], NO_JOB), &story),
        "Not dialled. 1 event waits for another. 2 events contradict earlier ones and were refused."
    );
}
