//! The phases of an attempt: dialled, ringing, in progress.

use switchhook_domain::{Disposition, EventKind, MoveKind};
use switchhook_operate::timeline::{AttemptSummary, EventInStory, Line, Story};

use super::times::{happened, millis};

/// Reason of an event that reports a state which another event had reached.
const REPEATED: &str = "repeated";
/// Reasons of events that concern the call, and no attempt of it.
const OF_CALL: [&str; 10] = [
    "claim_expired",
    "drift_found",
    "retry_missed",
    "retry_promised",
    "retry_promised_again",
    "retry_began",
    "not_our_dial",
    "no_attempt",
    // These are about a dial that was taken back, which is no attempt.
    "withdrew",
    "of_withdrawn_dial",
];

/// Look of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    Job(&'static str),
    /// A dial without a report of ringing.
    Dialled,
    /// A dial whose result was not known.
    Doubt,
    Ringing,
    InProgress,
    /// The silence before an attempt was given up.
    Inconclusive,
}

/// True if an event concerns an attempt: it names it, or it names none and the call has no other.
pub(super) fn concerns(story: &Story, event: &EventInStory, attempt: u8) -> bool {
    event.attempt == Some(attempt) || (is_unnamed(event) && story.call.attempts.len() == 1)
}

/// True if an event concerns an attempt that it does not name.
pub(super) fn is_unnamed(event: &EventInStory) -> bool {
    event.attempt.is_none() && !OF_CALL.contains(&event.reason)
}

/// Returns the phases of an attempt with the times at which they began.
pub(super) fn phases(story: &Story, attempt: &AttemptSummary, begin_ms: i64) -> Vec<(i64, Fill)> {
    let mut phases: Vec<(i64, Fill)> = Vec::new();
    let mut first_event = None;
    let starts = story.call.attempts.iter().filter_map(|other| millis(&other.started_at));
    let next_ms = starts.filter(|start| *start > begin_ms).min();
    let mut is_doubted = false;
    for line in &story.story {
        match line {
            Line::Event(event) if concerns(story, event, attempt.number) => {
                let Some(at_ms) = happened(event).or_else(|| millis(&event.received_at)) else { continue };
                first_event = Some(first_event.unwrap_or(at_ms).min(at_ms));
                let kind = EventKind::ALL.into_iter().find(|kind| kind.as_str() == event.kind);
                // The fold may have applied an event that a later one implies. Then the report of the event itself repeats it.
                let is_of_path = event.disposition == Disposition::Applied.as_str() || event.reason == REPEATED;
                let fill = kind.and_then(phase).filter(|_| is_of_path);
                phases.extend(fill.map(|fill| (at_ms.max(begin_ms), fill)));
            }
            Line::Move { at, kind, .. } => {
                let is_of_this = |at_ms| at_ms >= begin_ms && next_ms.is_none_or(|next| at_ms < next);
                is_doubted |= *kind == MoveKind::Doubted.as_str() && millis(at).is_some_and(is_of_this);
            }
            Line::Event(_) | Line::Write(_) => {}
        }
    }
    let is_silent = first_event.is_none_or(|first| first > begin_ms);
    let first = if is_doubted && is_silent { Fill::Doubt } else { Fill::Dialled };
    phases.push((begin_ms, first));
    // The phase that comes later in a call counts, if two begin at the same time.
    phases.sort_by_key(|(at_ms, fill)| (*at_ms, rank(*fill)));
    // A call never rings again after it was answered.
    let mut next = 0;
    phases.retain(|(_, fill)| {
        let is_next = rank(*fill) >= next;
        next = next.max(rank(*fill) + 1);
        is_next
    });
    phases
}

const fn rank(fill: Fill) -> u8 {
    match fill {
        Fill::Job(_) | Fill::Dialled | Fill::Doubt => 0,
        Fill::Ringing => 1,
        Fill::InProgress => 2,
        Fill::Inconclusive => 3,
    }
}

/// Returns the phase that an event begins.
const fn phase(kind: EventKind) -> Option<Fill> {
    match kind {
        EventKind::Ringing => Some(Fill::Ringing),
        EventKind::InProgress => Some(Fill::InProgress),
        EventKind::Initiated
        | EventKind::VoicemailDetected
        | EventKind::UserDeclined
        | EventKind::UserConfirmed
        | EventKind::NoAnswer
        | EventKind::Canceled
        | EventKind::Busy
        | EventKind::Failed
        | EventKind::Completed
        | EventKind::RetryScheduled
        | EventKind::Alive
        | EventKind::ClaimExpired
        | EventKind::DialNotFound
        | EventKind::RetryMissed
        | EventKind::DriftFound
        | EventKind::DeadlinePassed => None,
    }
}
