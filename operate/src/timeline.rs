//! The story of one call: its events with their effects and reasons, and its announcements.

mod in_short;

use std::time::Duration;

use serde::Serialize;
use switchhook_aws::calls::{Alias, Resolved};
use switchhook_aws::dynamodb::KEY_BYTES_MAX;
use switchhook_domain::{
    ALIVE_MAX, AnnouncementSource, AttemptState, Call, CallId, EventId, HistoryEntry, JobState, Origin, Policy, Reason,
    Timestamp, Write, explain_all,
};
pub use switchhook_domain::{AttemptSummary, CallSummary, JobSummary};

use crate::calls::DOUBT_AFTER;
use crate::error::Error;
use crate::mask::Masker;
use crate::stack::Stack;
use crate::time_text;

/// Time after which an event counts as late.
const LATE: Duration = Duration::from_secs(10);

/// A call that was found, and how.
#[derive(Clone, Debug)]
pub struct FoundCall {
    pub call: Call,
    pub how: How,
    /// Other calls with the same appointment or number, the latest first. At most 20.
    pub others: Vec<CallId>,
}

/// Way in which a text led to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    CallId,
    /// The text is a provider's id of an attempt.
    Alias(Alias),
    Event(EventId),
    /// The text names the booking that schedules the call.
    Booking,
    Appointment,
    Number,
}

/// The story of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Story {
    pub call: CallSummary,
    /// The story in a few short sentences.
    pub in_short: String,
    /// Number of the other person, masked.
    pub person: Option<String>,
    /// Text that says how the call was found, if not by its own id.
    pub found_by: Option<String>,
    pub other_calls: Vec<String>,
    /// Time at which Switchhook knew this state. `None` for the present.
    pub as_of: Option<String>,
    /// Dials that are in doubt.
    pub doubts: Vec<Doubt>,
    /// Events and writes in the order in which Switchhook learned of them.
    pub story: Vec<Line>,
}

/// Dial in doubt, and the time at which the doubt ends without anybody's help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Doubt {
    /// Number of the attempt.
    pub attempt: u8,
    /// Time of the dial.
    #[serde(with = "time_text")]
    pub since: Timestamp,
    /// Time at which the reconciler next looks for the call at the provider. `None` in a story of an earlier time.
    #[serde(with = "time_text::optional")]
    pub next_lookup_at: Option<Timestamp>,
    /// Time by which the doubt ends if the provider answers, even if it cannot tell what became of the dial.
    #[serde(with = "time_text")]
    pub ends_with_answer_by: Timestamp,
    /// Time by which the doubt ends even if the provider never answers.
    #[serde(with = "time_text")]
    pub ends_by: Timestamp,
}

/// Line of a story.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Line {
    Event(EventInStory),
    /// A worker or a user changed the job.
    Move {
        at: String,
        kind: &'static str,
        reason: Option<String>,
    },
    /// A write of the call's row, which folded the events before it or was made by a worker.
    Write(WriteInStory),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventInStory {
    pub event_id: String,
    /// Id of the webhook. It differs from `event_id` if the event is implied.
    pub source_event_id: String,
    pub kind: &'static str,
    pub implied: bool,
    pub occurred_at: Option<String>,
    pub received_at: String,
    /// Time between the event and its receipt. `None` if the provider names no time.
    pub late_ms: Option<i64>,
    pub is_late: bool,
    pub folded_at: String,
    /// Number of the attempt. `None` if the event names none.
    pub attempt: Option<u8>,
    pub disposition: &'static str,
    pub reason: &'static str,
    pub why: String,
    /// Ids of the other events that the reason refers to.
    pub refers_to: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WriteInStory {
    pub at: String,
    /// State of the latest attempt after the write, as Switchhook knew it then.
    pub lifecycle: Option<&'static str>,
    pub outcome: Option<&'static str>,
    pub appointment_status: &'static str,
    /// `None` if it is not known.
    pub job: Option<&'static str>,
    pub announced: Vec<AnnouncedInStory>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AnnouncedInStory {
    pub id: String,
    pub sequence: usize,
    #[serde(rename = "type")]
    pub event_type: String,
}

/// Finds a call by its id or by a provider's id of one of its attempts.
///
/// # Errors
/// A read failed.
pub async fn find_by_id(stack: &Stack, id: &CallId) -> Result<Option<FoundCall>, Error> {
    // A text that can be no key is the id of no call.
    if !(1..=KEY_BYTES_MAX).contains(&id.as_str().len()) {
        return Ok(None);
    }
    let Resolved { call, alias } = stack.calls.resolve(id).await?;
    let how = alias.map_or(How::CallId, How::Alias);
    Ok(call.map(|call| FoundCall { call, how, others: Vec::new() }))
}

/// Returns the times at which Switchhook is known to have written the call's row, the earliest first. At each of them, the state
/// may have changed.
#[must_use]
pub fn write_times(call: &Call) -> Vec<Timestamp> {
    let created = call.plan.as_ref().map(|_| call.created_at);
    let folded = call.history.iter().map(|entry| entry.folded_at);
    let moved = call.moves.iter().map(|one| one.at);
    let announced = call.announcements.iter().filter_map(|announcement| match announcement.source {
        AnnouncementSource::Transition(at) => Some(at),
        AnnouncementSource::Event(_) => None,
    });
    let mut times: Vec<Timestamp> = created.into_iter().chain(folded).chain(moved).chain(announced).collect();
    times.sort_unstable();
    times.dedup();
    times
}

/// Tells the story of a call, as Switchhook knows it now or knew it at `as_of`. `None` if it did not know the call then. `policy`
/// is the policy of the stack.
#[must_use]
pub fn story(found: &FoundCall, policy: &Policy, now: Timestamp, as_of: Option<Timestamp>) -> Option<Story> {
    let past = found.call.as_of(as_of.unwrap_or(Timestamp::MAX))?;
    let call = &past.call;
    let attempts = call.attempts();
    let reasons = explain_all(call);
    let mut story = Vec::new();
    let mut moves = call.moves.iter().peekable();
    let mut writes = call.writes();
    // A worker may write without announcing anything, and so may the request that creates a call.
    let created = call.plan.as_ref().map(|_| call.created_at);
    let mut silent: Vec<Timestamp> = created.into_iter().chain(call.moves.iter().map(|one| one.at)).collect();
    silent.retain(|at| writes.iter().all(|write| write.at != *at));
    silent.dedup();
    writes.extend(silent.into_iter().map(|at| Write { at, entries: Vec::new(), announcements: 0..0 }));
    writes.sort_by_key(|write| write.at);
    for write in writes {
        while let Some(one) = moves.next_if(|one| one.at <= write.at) {
            let (at, kind, reason) = (one.at.to_string(), one.kind.as_str(), one.reason.clone());
            story.push(Line::Move { at, kind, reason });
        }
        let mut entries = write.entries.clone();
        // An event comes before the events that it implies.
        entries.sort_by_key(|index| {
            call.history
                .get(*index)
                .map(|entry| (entry.received_at, entry.source_event_id.clone(), entry.event.implied))
        });
        for index in entries {
            if let (Some(entry), Some(reason)) = (call.history.get(index), reasons.get(index)) {
                story.push(Line::Event(event_in_story(entry, reason, &attempts)));
            }
        }
        story.push(Line::Write(write_in_story(call, &write)));
    }
    let found_by = match &found.how {
        How::CallId => None,
        How::Alias(alias) => Some(format!("a provider's id, which leads to attempt {} of this call", alias.attempt)),
        How::Event(id) => Some(format!("its event {id}")),
        How::Booking => Some("its booking".to_owned()),
        How::Appointment => Some("its appointment".to_owned()),
        How::Number => Some("the other person's number".to_owned()),
    };
    let summary = CallSummary::new(call, &attempts, past.job);
    let doubts = doubts(call, &attempts, policy, now, as_of);
    Some(Story {
        in_short: in_short::in_short(&summary, &story, &doubts, as_of.unwrap_or(now)),
        person: call.party().map(|number| Masker::new().number(&number)),
        call: summary,
        found_by,
        other_calls: found.others.iter().map(ToString::to_string).collect(),
        as_of: as_of.map(|at| at.to_string()),
        doubts,
        story,
    })
}

/// Returns the dials that are in doubt now, or were at `as_of`. While the answer to a dial may be on its way, the dial is not in doubt.
fn doubts(
    call: &Call,
    attempts: &[AttemptState],
    policy: &Policy,
    now: Timestamp,
    as_of: Option<Timestamp>,
) -> Vec<Doubt> {
    let mut call = call.clone();
    if as_of.is_some() {
        // The row has the ids of the present. The provider's id of a dial comes with an event, and the events are those of that time.
        for record in &mut call.attempt_records {
            record.provider_call_id = None;
        }
    }
    let in_doubt = call.in_doubt();
    let at = as_of.unwrap_or(now);
    let next_lookup_at = call.wake_at.filter(|_| as_of.is_none());
    let doubt = |attempt: &AttemptState| {
        let record = call.attempt_records.get(attempt.index).filter(|record| in_doubt.contains(record))?;
        let since = record.dialled_at.filter(|dialled_at| dialled_at.plus(DOUBT_AFTER) <= at)?;
        let ends_with_answer_by = attempt.last_event_at.plus(policy.inactivity_timeout);
        let ends_by = ends_with_answer_by.plus(ALIVE_MAX);
        Some(Doubt { attempt: attempt.number, since, next_lookup_at, ends_with_answer_by, ends_by })
    };
    attempts.iter().filter_map(doubt).collect()
}

/// Time between an event and its receipt. `None` if the provider names no time.
fn late_ms(entry: &HistoryEntry) -> Option<i64> {
    entry.event.occurred_at.map(|at| entry.received_at.millis_since(at))
}

/// True if an event arrived late. A finding of Switchhook names the start of a silence, so it is never late.
pub(crate) fn is_late(entry: &HistoryEntry) -> bool {
    entry.source_event_id.origin() != Some(Origin::Switchhook)
        && late_ms(entry).is_some_and(|ms| u128::try_from(ms).is_ok_and(|ms| ms >= LATE.as_millis()))
}

fn event_in_story(entry: &HistoryEntry, reason: &Reason, attempts: &[AttemptState]) -> EventInStory {
    let attempt = attempts.iter().find(|attempt| Some(attempt.index) == entry.attempt_index);
    EventInStory {
        event_id: entry.id().to_string(),
        source_event_id: entry.source_event_id.to_string(),
        kind: entry.event.kind.as_str(),
        implied: entry.event.implied,
        occurred_at: entry.event.occurred_at.map(|at| at.to_string()),
        received_at: entry.received_at.to_string(),
        late_ms: late_ms(entry),
        is_late: is_late(entry),
        folded_at: entry.folded_at.to_string(),
        attempt: attempt.map(|attempt| attempt.number),
        disposition: entry.disposition.as_str(),
        reason: reason.name(),
        why: reason.to_string(),
        refers_to: reason.entries().iter().map(|entry| entry.id.to_string()).collect(),
    }
}

fn write_in_story(call: &Call, write: &Write) -> WriteInStory {
    let past = call.state_as_of(write.at);
    let attempts = past.as_ref().map(|past| past.call.attempts()).unwrap_or_default();
    let latest = attempts.last();
    let events = call.domain_events_from(write.announcements.start + 1);
    let announced = events.into_iter().take(write.announcements.len());
    WriteInStory {
        at: write.at.to_string(),
        lifecycle: latest.map(AttemptState::lifecycle_label),
        outcome: latest.map(AttemptState::outcome_label),
        appointment_status: past.as_ref().map_or("", |past| past.call.appointment_status().as_str()),
        job: past.as_ref().and_then(|past| past.job).map(JobState::as_str),
        announced: announced
            .map(|event| AnnouncedInStory { id: event.id, sequence: event.sequence, event_type: event.event_type })
            .collect(),
    }
}
