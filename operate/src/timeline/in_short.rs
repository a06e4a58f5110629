//! The story of a call in a few short sentences.

use switchhook_domain::{Disposition, EVENTS_UNFOLDED, EventKind, JobState, MoveKind, Reason, StopReason, Timestamp};

use super::{AttemptSummary, CallSummary, Doubt, EventInStory, Line};
use crate::calls::LATE_AFTER;
use crate::duration::duration;

/// Largest number of phrases about dials. Of more, the middle ones are counted.
const PHRASES_MAX: usize = 6;

/// Returns the sentences: the end of each dial, the next step of the job, the dials that are in doubt at `now`, and anything unusual
/// about the events.
pub(super) fn in_short(call: &CallSummary, story: &[Line], doubts: &[Doubt], now: Timestamp) -> String {
    let mut sentences = vec![dials(call, story)];
    sentences.extend(job(call));
    sentences.extend(held(call, story));
    sentences.extend(past_doubts(call, story, doubts));
    sentences.extend(doubts.iter().map(|doubt| present_doubt(doubt, now)));
    let events: Vec<&EventInStory> = story.iter().filter_map(event).collect();
    sentences.extend(arrivals(&events));
    sentences.extend(without_effect(&events));
    if call.forgotten_at.is_some() {
        sentences.push("The person was forgotten.".to_owned());
    }
    sentences.join(" ")
}

fn event(line: &Line) -> Option<&EventInStory> {
    match line {
        Line::Event(event) => Some(event),
        Line::Move { .. } | Line::Write(_) => None,
    }
}

/// Returns the times and reasons of the moves of one kind.
fn moves(story: &[Line], wanted: MoveKind) -> Vec<(&str, Option<&str>)> {
    let of_kind = |line| match line {
        &Line::Move { ref at, kind, ref reason } if kind == wanted.as_str() => Some((at.as_str(), reason.as_deref())),
        Line::Move { .. } | Line::Event(_) | Line::Write(_) => None,
    };
    story.iter().filter_map(of_kind).collect()
}

/// Returns the sentence about the dials: `Busy, then answered and confirmed.`
fn dials(call: &CallSummary, story: &[Line]) -> String {
    let attempts = call.attempts.iter().map(|attempt| (attempt.started_at.as_str(), phrase(attempt)));
    let withdrawn = moves(story, MoveKind::Withdrawn).into_iter().map(|(at, reason)| {
        let reason = reason.map(|reason| format!(" ({})", reason.replace('_', " "))).unwrap_or_default();
        (at, format!("not placed{reason}"))
    });
    // A dial that an event took back is no attempt any more. The event may have implied others.
    let is_withdrawal = |event: &&EventInStory| event.reason == Reason::Withdrew.name() && !event.implied;
    let taken_back = story.iter().filter_map(event).filter(is_withdrawal).map(|event| {
        let is_unknown = event.kind == EventKind::DialNotFound.as_str();
        let reason = if is_unknown { "the provider had no such call" } else { "the provider dialled nobody" };
        (event.received_at.as_str(), format!("not placed ({reason})"))
    });
    let mut dials: Vec<(&str, String)> = attempts.chain(withdrawn).chain(taken_back).collect();
    // All times have the same format, so their texts are in the order of time.
    dials.sort_by_key(|(at, _)| *at);
    let mut phrases: Vec<(String, usize)> = Vec::new();
    for (_, phrase) in dials {
        match phrases.last_mut() {
            Some((last, count)) if *last == phrase => *count += 1,
            Some(_) | None => phrases.push((phrase, 1)),
        }
    }
    let mut texts: Vec<String> = phrases
        .into_iter()
        .map(|(phrase, count)| if count == 1 { phrase } else { format!("{phrase}, {count} times") })
        .collect();
    if texts.len() > PHRASES_MAX {
        let left_out = texts.len() + 1 - PHRASES_MAX;
        texts.splice(2..2 + left_out, [format!("{left_out} other endings")]);
    }
    let waiting = [JobState::Pending, JobState::Claimed].map(JobState::as_str);
    let may_dial = call.job.state.is_some_and(|state| waiting.contains(&state));
    let text = if texts.is_empty() {
        if may_dial { "not dialled yet" } else { "not dialled" }.to_owned()
    } else {
        texts.join(", then ")
    };
    format!("{}.", capitalized(&text))
}

/// Returns what became of one attempt.
fn phrase(attempt: &AttemptSummary) -> String {
    let text = match (attempt.lifecycle, attempt.outcome) {
        ("completed", "confirmed") => "answered and confirmed",
        ("completed", "declined") => "answered and declined",
        ("completed", "voicemail") => "answered by voicemail",
        ("completed", "connected") => "answered, without a decision",
        ("completed", "no_answer") => "ended without an answer",
        ("completed", _) => "ended, with an unknown outcome",
        ("inconclusive", "confirmed") => "confirmed, with an unknown end",
        ("inconclusive", "declined") => "declined, with an unknown end",
        ("inconclusive", "voicemail") => "answered by voicemail, with an unknown end",
        ("inconclusive", _) => "without any report of its end",
        ("in_progress", "confirmed") => "confirmed, and still in progress",
        ("in_progress", "declined") => "declined, and still in progress",
        ("in_progress", "voicemail") => "answered by voicemail, and still in progress",
        ("initiated", _) => "dialled",
        (lifecycle, outcome @ ("confirmed" | "declined")) => {
            return format!("{}, but {outcome}", lifecycle.replace('_', " "));
        }
        (lifecycle, _) => return lifecycle.replace('_', " "),
    };
    text.to_owned()
}

/// Returns the sentence about the job: its next step, or the reason why it ended early.
fn job(call: &CallSummary) -> Option<String> {
    let stopped = |reason: StopReason| call.job.stop_reason == Some(reason.as_str());
    let by_reason = StopReason::ALL.into_iter().find(|reason| stopped(*reason)).map(|reason| match reason {
        // The attempt that was under way went on.
        StopReason::CanceledByUser if call.job.state != Some(JobState::Canceled.as_str()) => {
            "A user canceled further attempts."
        }
        StopReason::CanceledByUser => "A user canceled the job.",
        StopReason::DoNotCall => "The number is on the do-not-call list.",
        StopReason::UnknownTimeZone => "The time zone of the calling window is unknown.",
        StopReason::RejectedByProvider => "The provider will never place this call.",
        StopReason::DialsUnknown => "The records of its dials were lost, so it is not dialled again.",
        StopReason::BookingChanged => "Its booking was moved or canceled.",
        StopReason::TooLate => "The appointment had begun before the call could be placed.",
    });
    if let Some(text) = by_reason {
        return Some(text.to_owned());
    }
    let state = JobState::ALL.into_iter().find(|state| call.job.state == Some(state.as_str()))?;
    match state {
        JobState::Pending => call.job.due_at.as_deref().and_then(utc).map(|at| format!("The next dial is due {at}.")),
        JobState::Claimed => Some("A dialer has claimed the next dial.".to_owned()),
        JobState::Missed => Some("It was an inbound call, and nobody answered it.".to_owned()),
        JobState::InProgress | JobState::Completed | JobState::Failed | JobState::Canceled => None,
    }
}

/// Returns the sentence about a call whose next dial was held back. The event may be folded or discarded since, so the sentence tells of the past.
fn held(call: &CallSummary, story: &[Line]) -> Option<String> {
    let newest = story.iter().rev().find_map(|line| match line {
        Line::Move { at, kind, reason } => Some((at, *kind, reason.as_deref())),
        Line::Event(_) | Line::Write(_) => None,
    });
    let (at, kind, reason) = newest?;
    let is_held = call.job.state == Some(JobState::Pending.as_str())
        && (kind, reason) == (MoveKind::Returned.as_str(), Some(EVENTS_UNFOLDED));
    let at = utc(at).filter(|_| is_held)?;
    Some(format!("It was held back at {at}, because an event of the call was not folded."))
}

/// Returns a time for people: `2026-11-22 15:01:00 UTC`. `None` if the text is no time.
fn utc(time: &str) -> Option<String> {
    Some(format!("{} {} UTC", time.get(..10)?, time.get(11..19)?))
}

/// Returns the sentences about a dial that is in doubt: since when, how Switchhook looks for its call, and when the doubt ends.
fn present_doubt(doubt: &Doubt, now: Timestamp) -> String {
    let Doubt { attempt, since, next_lookup_at, ends_with_answer_by, ends_by } = doubt;
    let utc = |time: &Timestamp| utc(&time.to_string()).unwrap_or_else(|| time.to_string());
    let fact = format!(
        "The result of dial {attempt} has been in doubt since {}: the provider's answer was lost and no event has arrived, so nobody \
         knows whether the phone rang, and nobody is dialled again.",
        utc(since)
    );
    let lookup = match next_lookup_at {
        Some(at) if at.plus(LATE_AFTER) <= now => format!(
            "The reconciler should have looked for the call at the provider at {}, and has not: see `switchhook status`.",
            utc(at)
        ),
        Some(at) => format!("The reconciler looks for the call at the provider, next at {}.", utc(at)),
        None => "The reconciler looks for the call at the provider.".to_owned(),
    };
    let end = if now < *ends_with_answer_by {
        let (answered, latest) = (utc(ends_with_answer_by), utc(ends_by));
        format!("The doubt ends by {answered} if the provider answers, and by {latest} at the latest.")
    } else if now < *ends_by {
        format!("The doubt ends when the provider answers, and by {} at the latest.", utc(ends_by))
    } else {
        format!("The doubt should have ended by {}: `switchhook reconcile` runs the reconciler now.", utc(ends_by))
    };
    format!("{fact} {lookup} {end}")
}

/// Returns a sentence for each dial that was in doubt, and is no more.
fn past_doubts(call: &CallSummary, story: &[Line], doubts: &[Doubt]) -> Vec<String> {
    let mut doubted: Vec<&AttemptSummary> = Vec::new();
    for (at, _) in moves(story, MoveKind::Doubted) {
        // A dial that was taken back is no attempt: the sentence about the dials names it.
        let dialled_at = moves(story, MoveKind::Dialled).into_iter().map(|(at, _)| at).filter(|dial| *dial <= at).max();
        let begun = call.attempts.iter().rev().find(|attempt| {
            let begin = attempt.dialled_at.as_deref().unwrap_or(&attempt.started_at);
            begin <= at && dialled_at.is_none_or(|dial| begin >= dial)
        });
        doubted.extend(begun.filter(|attempt| {
            let is_past = doubts.iter().all(|doubt| doubt.attempt != attempt.number);
            is_past && doubted.iter().all(|known| known.number != attempt.number)
        }));
    }
    let sentence = |attempt: &&AttemptSummary| {
        let number = attempt.number;
        let settled = story.iter().filter_map(event).any(|event| event.attempt == Some(number));
        if settled {
            format!("The result of dial {number} was in doubt until an event settled it.")
        } else {
            format!("The result of dial {number} was in doubt until the provider's id of the call became known.")
        }
    };
    doubted.iter().map(sentence).collect()
}

/// Returns the sentence about late events and about those that arrived out of order.
fn arrivals(events: &[&EventInStory]) -> Option<String> {
    let late: Vec<&&EventInStory> = events.iter().filter(|event| event.is_late && !event.implied).collect();
    let longest = late.iter().filter_map(|event| event.late_ms).max().map(duration).unwrap_or_default();
    let late = match late.as_slice() {
        [] => None,
        [only] => Some(format!("the event {} came {longest} late", only.kind)),
        [_, _, ..] => Some(format!("{} events came late, by up to {longest}", late.len())),
    };
    let mut arrived: Vec<(&str, &str)> = events
        .iter()
        .filter(|event| !event.implied)
        .filter_map(|event| Some((event.received_at.as_str(), event.occurred_at.as_deref()?)))
        .collect();
    arrived.sort_unstable();
    let is_crossed = arrived.windows(2).any(|pair| matches!(pair, [(_, one), (_, next)] if one > next));
    match (late, is_crossed) {
        (None, false) => None,
        (None, true) => Some("Events arrived out of order.".to_owned()),
        (Some(late), false) => Some(format!("{}.", capitalized(&late))),
        (Some(late), true) => Some(format!("Events arrived out of order: {late}.")),
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}", letters.as_str())
}

/// Returns a sentence about the events that wait for others, and one about those that contradict others.
fn without_effect(events: &[&EventInStory]) -> Vec<String> {
    let count =
        |disposition: Disposition| events.iter().filter(|event| event.disposition == disposition.as_str()).count();
    let parked = match count(Disposition::Parked) {
        0 => None,
        1 => Some("1 event waits for another.".to_owned()),
        count => Some(format!("{count} events wait for others.")),
    };
    let refused = match count(Disposition::Refused) {
        0 => None,
        1 => Some("1 event contradicts an earlier one and was refused.".to_owned()),
        count => Some(format!("{count} events contradict earlier ones and were refused.")),
    };
    parked.into_iter().chain(refused).collect()
}

#[cfg(test)]
mod tests;
