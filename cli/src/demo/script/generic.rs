//! What a sender without a scheme of its own posts: one event for each thing that happens, which says that and nothing
//! else. So a lost one leaves a gap, and what comes after the gap has to wait.

use fastrand::Rng;
use serde_json::json;

use super::{Ending, Fact, Fields, Keyed, Millis, Report, SECOND, Said, Script, object, soon};

/// How the sender words its events.
struct Habit {
    upper_case: bool,
    /// Without times the order of things can only be told from what they are.
    names_times: bool,
    /// Which of the events of an attempt name it: all, or those from this one on.
    names_attempt_from: usize,
    /// Whether it says `completed` of every call when the line is free again, however the call ended.
    completes_everything: bool,
}

pub(super) fn reports(script: &Script, rng: &mut Rng) -> Vec<Report> {
    let one_attempt = script.attempts.len() == 1;
    let habit = Habit {
        upper_case: rng.bool(),
        names_times: !(one_attempt && rng.u8(..8) == 0),
        names_attempt_from: if one_attempt && script.keyed != Keyed::VendorId && rng.u8(..5) == 0 { 2 } else { 0 },
        completes_everything: rng.u8(..3) == 0,
    };
    let begins = rng.u8(..4) > 0;
    let mut reports = Vec::new();
    for (number, attempt) in script.attempts.iter().enumerate() {
        let story = &attempt.story;
        let moments = [
            begins.then_some((Fact::Begun, story.placed_at)),
            story.rang_at.map(|at| (Fact::Rang, at)),
            story.answered_at.map(|at| (Fact::Answered, at)),
            story.word,
            Some((Fact::Ended(story.ending), story.ended_at)),
            (habit.completes_everything && story.answered_at.is_none() && story.ending != Ending::Completed)
                .then_some((Fact::Ended(Ending::Completed), story.ended_at + SECOND)),
        ];
        for (place, (fact, at)) in moments.into_iter().flatten().enumerate() {
            let named = attempt.vendor_call_id.is_some() && place >= habit.names_attempt_from;
            reports.push(report(script, number, fact, at, named, &habit, rng));
        }
        if rng.u8(..8) == 0 {
            let body = json!({"event_id": event_id(rng), "type": "billing.updated", "call_id": script.call_id});
            reports.push(Report {
                name: "billing.updated".to_owned(),
                attempt: number,
                names_attempt: false,
                says: Vec::new(),
                emitted_at: script.our_time(story.ended_at) + 5 * SECOND,
                query: String::new(),
                body: body.to_string().into_bytes(),
            });
        }
        if number + 1 < script.attempts.len() && rng.u8(..4) > 0 {
            let at = story.ended_at + rng.i64(SECOND..30 * SECOND);
            reports.push(report(script, number, Fact::RetryPlanned, at, false, &habit, rng));
        }
    }
    reports
}

fn report(
    script: &Script,
    attempt: usize,
    fact: Fact,
    at: Millis,
    names_attempt: bool,
    habit: &Habit,
    rng: &mut Rng,
) -> Report {
    let (lower, upper) = names(fact);
    let name = if habit.upper_case { upper } else { lower };
    let occurred_at = habit.names_times.then_some(at);
    let mut event: Fields = vec![
        ("event_id", event_id(rng).into()),
        (if habit.upper_case { "type" } else { "event_type" }, name.into()),
        ("meta", json!({"source": "orchestrator"})),
    ];
    if let Some(time) = occurred_at.and_then(|at| jiff::Timestamp::from_millisecond(at).ok()) {
        event.push((if habit.upper_case { "created_at" } else { "occurred_at" }, format!("{time:.3}").into()));
    }
    if script.keyed == Keyed::OurId {
        event.push(("call_id", script.call_id.as_str().into()));
    }
    event.extend(script.appointment_id.as_deref().map(|id| ("appointment_id", id.into())));
    if names_attempt {
        let sid = script.attempts.get(attempt).and_then(|attempt| attempt.vendor_call_id.clone());
        let line = json!({"sid": sid, "to": "+447700900000", "from": "+442079460018", "direction": "outbound"});
        event.push(("call", line));
    }
    Report {
        name: name.to_owned(),
        attempt,
        names_attempt,
        says: vec![Said { fact, at: occurred_at }],
        emitted_at: script.our_time(at) + soon(rng),
        query: String::new(),
        body: object(event).to_string().into_bytes(),
    }
}

fn event_id(rng: &mut Rng) -> String {
    format!("evt_{:012x}", rng.u64(..) >> 16)
}

const fn names(fact: Fact) -> (&'static str, &'static str) {
    match fact {
        Fact::Begun => ("call.initiated", "CALL_STARTED"),
        Fact::Rang => ("call.ringing", "RINGING"),
        Fact::Answered => ("call.in_progress", "ANSWERED"),
        Fact::Voicemail => ("voicemail.detected", "VOICEMAIL_DETECTED"),
        Fact::Declined => ("user.declined", "USER_DECLINED"),
        Fact::Confirmed => ("user.confirmed", "USER_CONFIRMED"),
        Fact::Ended(Ending::Completed) => ("call.completed", "ENDED"),
        Fact::Ended(Ending::NoAnswer) => ("call.no_answer", "TIMEOUT"),
        Fact::Ended(Ending::Busy) => ("call.busy", "BUSY"),
        Fact::Ended(Ending::Failed) => ("call.failed", "FAILED"),
        Fact::Ended(Ending::Canceled) => ("call.canceled", "CANCELED"),
        Fact::RetryPlanned => ("retry.scheduled", "RETRY_SCHEDULED"),
    }
}
