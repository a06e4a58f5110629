//! The story of one call: its events with their effects and reasons, and its announcements.

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use serde::Serialize;
use switchhook_aws::calls::{Alias, Resolved};
use switchhook_domain::{
    AttemptState, Call, CallId, Direction, EventId, HistoryEntry, Job, JobState, PhoneNumber, Provider, Reason,
    StopReason, Timestamp, Write, explain_all,
};

use crate::error::Error;
use crate::stack::Stack;

/// Time after which an event counts as late.
const LATE: Duration = Duration::from_secs(10);
/// Smallest number of digits of a text that is looked for as a phone number.
const NUMBER_DIGITS_MIN: usize = 5;
/// Largest number of other calls that are named.
const OTHERS_MAX: usize = 20;

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
    Appointment,
    Number,
}

/// The story of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Story {
    pub call: CallSummary,
    /// Text that says how the call was found, if not by its own id.
    pub found_by: Option<String>,
    pub other_calls: Vec<String>,
    /// Time at which Switchhook knew this state. `None` for the present.
    pub as_of: Option<String>,
    /// Events and writes in the order in which Switchhook learned of them.
    pub story: Vec<Line>,
}

/// State of a call. It holds no phone number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallSummary {
    pub call_id: String,
    /// Provider of the next attempt if the call waits for one, else of the latest attempt.
    pub provider: Option<&'static str>,
    pub direction: Option<Direction>,
    pub appointment_id: Option<String>,
    pub appointment_status: &'static str,
    pub job: JobSummary,
    pub lifecycle: Option<&'static str>,
    pub outcome: Option<&'static str>,
    pub settled: bool,
    pub attempts: Vec<AttemptSummary>,
    pub version: u64,
    pub created_at: String,
    pub updated_at: String,
    pub settled_at: Option<String>,
    /// Time at which the person was forgotten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forgotten_at: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobSummary {
    /// `None` if the job of that time is not known: see [`switchhook_domain::PastCall`].
    pub state: Option<&'static str>,
    pub due_at: Option<String>,
    pub lease_ends_at: Option<String>,
    pub stop_reason: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttemptSummary {
    pub number: u8,
    pub provider: Option<&'static str>,
    pub provider_call_id: Option<String>,
    pub lifecycle: &'static str,
    pub outcome: &'static str,
    pub dialled_at: Option<String>,
    pub started_at: String,
    pub ended_at: Option<String>,
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

/// Finds a call by its id, a provider's id of one of its attempts, the id of one of its events, its appointment, or the other
/// person's number. Of several calls it returns the latest. `None` if nothing is found.
///
/// # Errors
/// A read failed.
pub async fn find(stack: &Stack, text: &str) -> Result<Option<FoundCall>, Error> {
    let ids = [Some(text.to_owned()), Some(format!("appointment:{text}"))].into_iter().flatten();
    let ids = ids.chain(Provider::ALL.iter().map(|provider| format!("{provider}:{text}"))).map(CallId::new);
    let found: Vec<Resolved> = try_join_all(ids.map(|id| async move { stack.calls.resolve(&id).await })).await?;
    for Resolved { call, alias } in found {
        if let Some(call) = call {
            let how = alias.map_or(How::CallId, How::Alias);
            return Ok(Some(FoundCall { call, how, others: Vec::new() }));
        }
    }
    let event_id = EventId::new(text);
    if let Some(call_id) = stack.inbox.get(&event_id).await?.and_then(|event| event.call_id)
        && let Some(call) = stack.calls.resolve(&call_id).await?.call
    {
        return Ok(Some(FoundCall { call, how: How::Event(event_id), others: Vec::new() }));
    }
    let of_appointment = stack.calls.calls_of_appointment(text).await?;
    if !of_appointment.is_empty() {
        return latest(stack, of_appointment, How::Appointment).await;
    }
    latest(stack, by_number(stack, text).await?, How::Number).await
}

/// Returns the calls to or from a number, the latest first. Empty if the text is no number.
async fn by_number(stack: &Stack, text: &str) -> Result<Vec<CallId>, Error> {
    let digits = text.chars().filter(char::is_ascii_digit).count();
    if digits < NUMBER_DIGITS_MIN && !text.starts_with("sip:") {
        return Ok(Vec::new());
    }
    let page = stack.calls.by_party(&PhoneNumber::new(text)).next().await?;
    Ok(page.map(|page| page.items).unwrap_or_default())
}

/// Reads the calls and returns the one that was created last.
async fn latest(stack: &Stack, ids: Vec<CallId>, how: How) -> Result<Option<FoundCall>, Error> {
    let read = join_all(ids.iter().take(OTHERS_MAX).map(|id| stack.calls.get_call(id))).await;
    let mut calls = read.into_iter().filter_map(Result::transpose).collect::<Result<Vec<Call>, _>>()?;
    calls.sort_by_key(|call| std::cmp::Reverse(call.created_at));
    let mut calls = calls.into_iter();
    let Some(call) = calls.next() else { return Ok(None) };
    Ok(Some(FoundCall { call, how, others: calls.map(|call| call.call_id).collect() }))
}

/// Tells the story of a call, as Switchhook knows it now or knew it at `as_of`. `None` if it did not know the call then.
#[must_use]
pub fn story(found: &FoundCall, as_of: Option<Timestamp>) -> Option<Story> {
    let past = found.call.as_of(as_of.unwrap_or(found.call.updated_at))?;
    let call = &past.call;
    let attempts = call.attempts();
    let reasons = explain_all(call);
    let mut story = Vec::new();
    let mut moves = call.moves.iter().peekable();
    let mut writes = call.writes();
    // A worker may write without announcing anything.
    let moved = call.moves.iter().map(|one| one.at).filter(|at| writes.iter().all(|write| write.at != *at));
    let moved: Vec<Write> = moved.map(|at| Write { at, entries: Vec::new(), announcements: 0..0 }).collect();
    writes.extend(moved);
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
        How::Appointment => Some("its appointment".to_owned()),
        How::Number => Some("the other person's number".to_owned()),
    };
    Some(Story {
        call: summary(call, &attempts, past.job),
        found_by,
        other_calls: found.others.iter().map(ToString::to_string).collect(),
        as_of: as_of.map(|at| at.to_string()),
        story,
    })
}

fn event_in_story(entry: &HistoryEntry, reason: &Reason, attempts: &[AttemptState]) -> EventInStory {
    let attempt = attempts.iter().find(|attempt| Some(attempt.index) == entry.attempt_index);
    let late_ms = entry.event.occurred_at.map(|at| entry.received_at.millis_since(at));
    EventInStory {
        event_id: entry.id().to_string(),
        kind: entry.event.kind.as_str(),
        implied: entry.event.implied,
        occurred_at: entry.event.occurred_at.map(|at| at.to_string()),
        received_at: entry.received_at.to_string(),
        late_ms,
        // A finding names the start of a silence, so it is never late.
        is_late: entry.source_event_id.origin() != Some(switchhook_domain::Origin::Switchhook)
            && late_ms.is_some_and(|ms| u128::try_from(ms).is_ok_and(|ms| ms >= LATE.as_millis())),
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

fn summary(call: &Call, attempts: &[AttemptState], job_state: Option<JobState>) -> CallSummary {
    let latest = attempts.last();
    let of_latest = latest.and_then(|attempt| attempt.provider);
    let provider = match &call.job {
        Job::Pending { .. } | Job::Claimed { .. } => call.dial_provider().or(of_latest),
        Job::InProgress | Job::Completed | Job::Failed | Job::Missed | Job::Canceled => {
            of_latest.or(call.dial_provider())
        }
    };
    CallSummary {
        call_id: call.call_id.to_string(),
        provider: provider.map(Provider::as_str),
        direction: call.direction,
        appointment_id: call.appointment_id.clone(),
        appointment_status: call.appointment_status().as_str(),
        job: job(call, job_state),
        lifecycle: latest.map(AttemptState::lifecycle_label),
        outcome: latest.map(AttemptState::outcome_label),
        settled: job_state == Some(call.job.state()) && call.is_settled(),
        attempts: attempts.iter().map(|attempt| attempt_summary(call, attempt)).collect(),
        version: call.version,
        created_at: call.created_at.to_string(),
        updated_at: call.updated_at.to_string(),
        settled_at: call.settled_at.map(|at| at.to_string()),
        forgotten_at: call.forgotten_at.map(|at| at.to_string()),
    }
}

fn job(call: &Call, state: Option<JobState>) -> JobSummary {
    // The data of another state says nothing.
    if state != Some(call.job.state()) {
        return JobSummary { state: state.map(JobState::as_str), due_at: None, lease_ends_at: None, stop_reason: None };
    }
    let (due_at, lease_ends_at) = match &call.job {
        Job::Pending { due_at } => (Some(*due_at), None),
        Job::Claimed { token: _, lease_ends_at } => (None, Some(*lease_ends_at)),
        Job::InProgress | Job::Completed | Job::Failed | Job::Missed | Job::Canceled => (None, None),
    };
    JobSummary {
        state: Some(call.job.as_str()),
        due_at: due_at.map(|at| at.to_string()),
        lease_ends_at: lease_ends_at.map(|at| at.to_string()),
        stop_reason: call.stop_reason.map(StopReason::as_str),
    }
}

fn attempt_summary(call: &Call, attempt: &AttemptState) -> AttemptSummary {
    let record = call.attempt_records.get(attempt.index);
    AttemptSummary {
        number: attempt.number,
        provider: attempt.provider.map(Provider::as_str),
        provider_call_id: record.and_then(|record| record.provider_call_id.clone()),
        lifecycle: attempt.lifecycle_label(),
        outcome: attempt.outcome_label(),
        dialled_at: record.and_then(|record| record.dialled_at).map(|at| at.to_string()),
        started_at: attempt.started_at.to_string(),
        ended_at: attempt.ended_at.map(|at| at.to_string()),
    }
}
