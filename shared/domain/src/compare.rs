//! Comparison of a stored call with the events in the inbox.
//!
//! **The events decide.** The call is folded again from them, and each [`Difference`] names one place where the row says something
//! else. If there is no difference, a [`refold`](crate::refold) would leave the row as it is.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::announce::{Cause, new_announcements};
use crate::announcement::AnnouncementSource;
use crate::attempt::AttemptState;
use crate::call::{Call, HistoryEntry, Job, Policy};
use crate::event::{CallEvent, EventId, EventKind, ProviderEvent};
use crate::fold::rebuild_history;
use crate::provider::ProviderSet;
use crate::time::Timestamp;

/// One place where the row of a call does not match the events in the inbox. `Display` gives one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The inbox holds an event of the call, and the row does not.
    MissingEvent { event_id: EventId, received_at: Timestamp },
    /// The row holds an event that the inbox does not.
    UnknownEvent { event_id: EventId, received_at: Timestamp },
    /// The row holds an event with a wrong kind, time or attempt.
    WrongEvent { event_id: EventId, stored: String, expected: String },
    /// The row gives an event another disposition than the events do.
    WrongDisposition { event_id: EventId, kind: EventKind, stored: &'static str, expected: &'static str },
    /// The row shows another job than the events give.
    Job { stored: String, expected: String },
    /// The row shows another state of an attempt than the events give.
    Attempt { number: u8, stored: String, expected: String },
    /// The events give announcements that the row does not have, so they were not published.
    MissingAnnouncements { statuses: Vec<String> },
    /// An announcement names a source event that the row does not hold.
    AnnouncementWithoutSource { sequence: usize },
    /// With `is_stored`, the row has a wake-up time although the call is settled. Otherwise the row lacks one although the call is
    /// open, so no worker ever looks at the call.
    WakeUp { is_stored: bool },
    /// Erased events say that the person was forgotten, and the row still holds the person's data.
    NotForgotten,
}

impl Difference {
    /// Returns the name of the difference for programs, for example `missing_event`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::MissingEvent { .. } => "missing_event",
            Self::UnknownEvent { .. } => "unknown_event",
            Self::WrongEvent { .. } => "wrong_event",
            Self::WrongDisposition { .. } => "wrong_disposition",
            Self::Job { .. } => "job",
            Self::Attempt { .. } => "attempt",
            Self::MissingAnnouncements { .. } => "missing_announcements",
            Self::AnnouncementWithoutSource { .. } => "announcement_without_source",
            Self::WakeUp { .. } => "wake_up",
            Self::NotForgotten => "not_forgotten",
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingEvent { event_id, received_at } => {
                write!(f, "the inbox holds the event {event_id}, received at {received_at}, and the row does not")
            }
            Self::UnknownEvent { event_id, received_at } => {
                write!(f, "the row holds the event {event_id}, received at {received_at}, and the inbox does not")
            }
            Self::WrongEvent { event_id, stored, expected } => {
                write!(f, "the row holds the event {event_id} as {stored}, and its body says {expected}")
            }
            Self::WrongDisposition { event_id, kind, stored, expected } => {
                write!(
                    f,
                    "the row says that {kind} of the event {event_id} is {stored}, and its events make it {expected}"
                )
            }
            Self::Job { stored, expected } => {
                write!(f, "the row says that the job is {stored}, and its events make it {expected}")
            }
            Self::Attempt { number, stored, expected } => {
                write!(f, "the row says that attempt {number} is {stored}, and its events make it {expected}")
            }
            Self::MissingAnnouncements { statuses } => {
                write!(f, "the events give announcements that the row does not have: {}", statuses.join(", "))
            }
            Self::AnnouncementWithoutSource { sequence } => {
                write!(f, "announcement {sequence} names a source event that the row does not hold")
            }
            Self::WakeUp { is_stored: true } => f.write_str("the row has a wake-up time, although the call is settled"),
            Self::WakeUp { is_stored: false } => {
                f.write_str("the row has no wake-up time, although the call is open, so no worker looks at it")
            }
            Self::NotForgotten => f.write_str(
                "the person was forgotten, as erased events of the call say, and the row holds the person's data",
            ),
        }
    }
}

/// Policy for a question that has the same answer under every policy: whether a call wakes up at all.
const ANY_POLICY: Policy = Policy { inactivity_timeout: Duration::ZERO, outcome_providers: ProviderSet::ALL };

/// Compares the row of a call with its events, and returns the differences.
///
/// `events` and `is_kept` have the same meaning as for [`refold`](crate::refold). An event that was received after `arrived_by` may
/// still be on its way to the consumer, so it is no difference if the row lacks it.
#[must_use]
pub fn differences(
    row: &Call,
    events: &[ProviderEvent],
    is_kept: impl Fn(&HistoryEntry) -> bool,
    arrived_by: Timestamp,
) -> Vec<Difference> {
    let arrived: Vec<ProviderEvent> = events
        .iter()
        .filter(|event| event.received_at <= arrived_by || row.contains_event(&event.event_id))
        .cloned()
        .collect();
    let rebuilt = rebuild_history(row, &arrived, is_kept, row.updated_at);
    let has_same_history = history_keys(&rebuilt) == history_keys(row);
    let mut found = history_differences(row, &rebuilt);
    if rebuilt.forgotten_at.is_some() && row.forgotten_at.is_none() {
        found.push(Difference::NotForgotten);
    }
    for (sequence, announcement) in (1..).zip(&row.announcements) {
        let has_source = match announcement.source {
            AnnouncementSource::Event(index) => index < row.history.len(),
            AnnouncementSource::Transition(_) => true,
        };
        if !has_source {
            found.push(Difference::AnnouncementWithoutSource { sequence });
        }
    }
    // Announcements name their sources by index, so the order of the row is kept if nothing else differs.
    let mut expected = if has_same_history { Call { history: row.history.clone(), ..rebuilt } } else { rebuilt };
    let attempts = expected.attempts();
    expected.job = expected.derived_job(&attempts);
    expected.derive_dispositions(&attempts);
    if has_same_history {
        found.extend(disposition_differences(row, &expected));
    }
    found.extend(state_differences(row, &expected, &attempts));
    let new = new_announcements(&expected, &attempts, Cause::Events, row.updated_at);
    if !new.is_empty() {
        let statuses = new.iter().map(|announcement| announcement.kind.event_type()).collect();
        found.push(Difference::MissingAnnouncements { statuses });
    }
    let is_open = expected.next_wake_at(&ANY_POLICY).is_some();
    if row.wake_at.is_some() != is_open {
        found.push(Difference::WakeUp { is_stored: row.wake_at.is_some() });
    }
    found
}

/// Returns a key for each entry of a history. Two entries with the same key describe the same event in the same way.
fn history_keys(call: &Call) -> BTreeSet<(&EventId, EventKind, String)> {
    let key = |entry: &HistoryEntry| described(&entry.event, entry.attempt_index);
    call.history.iter().map(|entry| (&entry.source_event_id, entry.event.kind, key(entry))).collect()
}

fn history_differences(row: &Call, rebuilt: &Call) -> Vec<Difference> {
    let is_in = |call: &Call, entry: &HistoryEntry| call.contains_event(&entry.source_event_id);
    let once = |entries: Vec<(EventId, Timestamp)>| {
        let mut seen = BTreeSet::new();
        entries.into_iter().filter(move |(id, _)| seen.insert(id.clone())).collect::<Vec<_>>()
    };
    let ids = |of: &Call, but: &Call| {
        let entries = of.history.iter().filter(|entry| !is_in(but, entry));
        once(entries.map(|entry| (entry.source_event_id.clone(), entry.received_at)).collect())
    };
    let missing = ids(rebuilt, row).into_iter();
    let mut found: Vec<Difference> =
        missing.map(|(event_id, received_at)| Difference::MissingEvent { event_id, received_at }).collect();
    let unknown = ids(row, rebuilt).into_iter();
    found.extend(unknown.map(|(event_id, received_at)| Difference::UnknownEvent { event_id, received_at }));
    let texts = |call: &Call, id: &EventId| {
        let entries = call.history.iter().filter(|entry| entry.source_event_id == *id);
        entries.map(|entry| described(&entry.event, entry.attempt_index)).collect::<Vec<_>>()
    };
    let both = row.history.iter().filter(|entry| is_in(rebuilt, entry));
    for (event_id, _) in once(both.map(|entry| (entry.source_event_id.clone(), entry.received_at)).collect()) {
        let (mut stored, mut expected) = (texts(row, &event_id), texts(rebuilt, &event_id));
        stored.sort();
        expected.sort();
        if stored != expected {
            let (stored, expected) = (stored.join(" and "), expected.join(" and "));
            found.push(Difference::WrongEvent { event_id, stored, expected });
        }
    }
    found
}

fn disposition_differences(row: &Call, expected: &Call) -> Vec<Difference> {
    let pairs =
        row.history.iter().zip(&expected.history).filter(|(stored, derived)| stored.disposition != derived.disposition);
    pairs
        .map(|(stored, derived)| Difference::WrongDisposition {
            event_id: stored.source_event_id.clone(),
            kind: stored.event.kind,
            stored: stored.disposition.as_str(),
            expected: derived.disposition.as_str(),
        })
        .collect()
}

fn state_differences(row: &Call, expected: &Call, derived: &[AttemptState]) -> Vec<Difference> {
    let mut found = Vec::new();
    if row.job != expected.job {
        found.push(Difference::Job { stored: job_text(&row.job), expected: job_text(&expected.job) });
    }
    let text = |attempt: Option<&AttemptState>| match attempt {
        Some(attempt) => format!("{}, outcome {}", attempt.lifecycle_label(), attempt.outcome_label()),
        None => "absent".to_owned(),
    };
    let stored = row.attempts();
    for (index, number) in (0..stored.len().max(derived.len())).zip(1..) {
        let (stored, derived) = (text(stored.get(index)), text(derived.get(index)));
        if stored != derived {
            found.push(Difference::Attempt { number, stored, expected: derived });
        }
    }
    found
}

fn job_text(job: &Job) -> String {
    match job {
        Job::Pending { due_at } => format!("{}, due at {due_at}", job.as_str()),
        Job::Claimed { lease_ends_at, .. } => format!("{} until {lease_ends_at}", job.as_str()),
        Job::InProgress | Job::Completed | Job::Failed | Job::Missed | Job::Canceled => job.as_str().to_owned(),
    }
}

/// Describes a call event in words, without its disposition.
fn described(event: &CallEvent, attempt_index: Option<usize>) -> String {
    let mut text = event.kind.to_string();
    if event.implied {
        text.push_str(" (implied)");
    }
    if let Some(at) = event.occurred_at {
        text.push_str(&format!(" at {at}"));
    }
    if let Some(sequence) = event.sequence {
        text.push_str(&format!(", sequence {sequence}"));
    }
    if event.permanent {
        text.push_str(", permanent");
    }
    if let Some(reason) = event.never_dialled {
        text.push_str(&format!(", never dialled ({})", reason.as_str()));
    }
    match attempt_index {
        Some(index) => text.push_str(&format!(", of attempt record {}", index + 1)),
        None => text.push_str(", of no attempt"),
    }
    text
}
