//! The new announcements of a call.
//!
//! The fold of an attempt runs through states of rising precedence. The call announces each of them that is higher than every
//! state of the attempt that it has announced before. Example: if `in_progress` arrives after `completed`, it announces both,
//! `in_progress` first.

use crate::announcement::{Announcement, AnnouncementKind, AnnouncementSource, AppointmentStatus};
use crate::attempt::AttemptState;
use crate::call::{Call, Job};
use crate::lifecycle::{Lifecycle, Outcome};
use crate::time::Timestamp;

/// Reason why a call derives its state again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Events were added to the history.
    Events,
    /// A worker made a transition.
    Worker,
}

/// Returns the announcements that a call has yet to make, in order. Its job must be derived from `attempts` already.
pub(crate) fn new_announcements(
    call: &Call,
    attempts: &[AttemptState],
    cause: Cause,
    now: Timestamp,
) -> Vec<Announcement> {
    let mut new: Vec<Announcement> =
        attempts.iter().flat_map(|attempt| lifecycle_announcements(call, attempt)).collect();
    new.extend(job_announcement(call, attempts, now));
    new.extend(appointment_announcements(call, attempts, cause, now));
    new
}

/// Returns an announcement that concerns the call and no attempt. Its source is an event, given by its index into the history,
/// or a transition made `now`.
pub(crate) fn call_announcement(
    call: &Call,
    kind: AnnouncementKind,
    source: Option<usize>,
    now: Timestamp,
) -> Announcement {
    Announcement {
        kind,
        attempt_index: None,
        attempt_number: 0,
        source: source.map_or(AnnouncementSource::Transition(now), AnnouncementSource::Event),
        provider_call_known: false,
        appointment_known: call.appointment_id.is_some(),
    }
}

fn lifecycle_announcements(call: &Call, attempt: &AttemptState) -> Vec<Announcement> {
    let announced: Vec<AnnouncementKind> =
        announced_kinds(call, attempt).filter(|kind| kind.is_of_lifecycle()).collect();
    let highest = announced.iter().filter_map(|kind| kind.lifecycle()).max();
    let initiated = attempt.first.map(|first| (Lifecycle::Initiated, first));
    let states = initiated.into_iter().chain(attempt.lifecycle_maxima.iter().copied());
    let higher: Vec<(Lifecycle, usize)> = states.filter(|(state, _)| Some(*state) > highest).collect();
    let mut new: Vec<Announcement> = higher
        .iter()
        .map(|(state, source)| {
            let source = AnnouncementSource::Event(*source);
            attempt_announcement(call, attempt, AnnouncementKind::Lifecycle(*state), source)
        })
        .collect();
    let is_ending = |other: &Announcement| {
        other.attempt_index == Some(attempt.index) && other.kind.is_ending() && other.kind.is_of_lifecycle()
    };
    let ending = call.announcements.iter().rposition(is_ending);
    if let (Some((state, source)), Some(ending)) = (higher.last(), ending) {
        let (kind, source) = (AnnouncementKind::Corrected(*state, ending + 1), AnnouncementSource::Event(*source));
        new.push(attempt_announcement(call, attempt, kind, source));
    }
    if let Some(deadline) = attempt.deadline
        && attempt.is_inconclusive()
        && (!new.is_empty() || announced.last() != Some(&AnnouncementKind::Inconclusive))
    {
        let source = AnnouncementSource::Event(deadline);
        new.push(attempt_announcement(call, attempt, AnnouncementKind::Inconclusive, source));
    }
    new
}

/// Returns what the job of a call that Switchhook places has come to after the latest attempt. A call announces it once per
/// attempt.
fn job_announcement(call: &Call, attempts: &[AttemptState], now: Timestamp) -> Option<Announcement> {
    call.plan.as_ref()?;
    let latest = attempts.last();
    let (kind, is_same): (AnnouncementKind, fn(AnnouncementKind) -> bool) = match (&call.job, latest) {
        (Job::Pending { due_at }, Some(_)) => {
            (AnnouncementKind::RetryScheduled(*due_at), |kind| matches!(kind, AnnouncementKind::RetryScheduled(_)))
        }
        (Job::Failed, _) => (AnnouncementKind::Exhausted, |kind| kind == AnnouncementKind::Exhausted),
        (Job::Canceled, _) => (AnnouncementKind::CanceledByUser, |kind| kind == AnnouncementKind::CanceledByUser),
        (Job::Pending { .. } | Job::Claimed { .. } | Job::InProgress | Job::Completed, _) => return None,
    };
    let attempt_index = latest.map(|attempt| attempt.index);
    if call.announcements.iter().any(|other| other.attempt_index == attempt_index && is_same(other.kind)) {
        return None;
    }
    let source = latest.filter(|_| call.stop_reason.is_none()).and_then(AttemptState::ended_by);
    let attempt_number = latest.map_or(0, |attempt| attempt.number);
    Some(Announcement { attempt_index, attempt_number, ..call_announcement(call, kind, source, now) })
}

/// Returns the new statuses of the appointment. The outcomes come first: those of the attempt with a decision, else those of
/// the latest attempt. Then comes the present status, if it is not an outcome.
fn appointment_announcements(
    call: &Call,
    attempts: &[AttemptState],
    cause: Cause,
    now: Timestamp,
) -> Vec<Announcement> {
    let Some(latest) = attempts.last() else {
        return Vec::new();
    };
    let mut new = outcome_announcements(call, attempts, latest);
    let present = AnnouncementKind::Appointment(call.appointment_status_from(attempts));
    let last = call.announcements.iter().map(|other| other.kind).rfind(|kind| kind.is_of_appointment());
    if let Some(source) = source_of_status(call, attempts, latest, present)
        && (!new.is_empty() || last != Some(present))
    {
        new.push(attempt_announcement(call, latest, present, AnnouncementSource::Event(source)));
    }
    // The last status was `Retrying`, but the retry was called off: by a worker, or because of an event.
    if call.job.is_final()
        && new.is_empty()
        && last == Some(AnnouncementKind::Appointment(AppointmentStatus::Retrying))
        && last != Some(present)
    {
        let event = match cause {
            // If the latest attempt has no ending, the newest event called the retry off.
            Cause::Events => latest.ended_by().or_else(|| call.history.len().checked_sub(1)),
            Cause::Worker => None,
        };
        let source = event.map_or(AnnouncementSource::Transition(now), AnnouncementSource::Event);
        new.push(attempt_announcement(call, latest, present, source));
    }
    new
}

fn outcome_announcements(call: &Call, attempts: &[AttemptState], latest: &AttemptState) -> Vec<Announcement> {
    let subject = attempts.iter().rfind(|attempt| attempt.decision().is_some()).unwrap_or(latest);
    let highest = announced_kinds(call, subject).filter_map(AnnouncementKind::outcome).max();
    let dialing = subject.first.map(|first| (Outcome::Dialing, first));
    let outcomes = dialing.into_iter().chain(subject.outcome_maxima.iter().copied());
    // The decision that one attempt brought stands until another attempt brings a decision.
    let decided_by_other = call
        .announcements
        .iter()
        .any(|other| other.attempt_index != Some(subject.index) && other.kind.outcome().is_some_and(is_decision));
    outcomes
        .filter(|(outcome, _)| Some(*outcome) > highest && (!decided_by_other || is_decision(*outcome)))
        .map(|(outcome, source)| {
            let kind = AnnouncementKind::Appointment(AppointmentStatus::from_outcome(outcome));
            attempt_announcement(call, subject, kind, AnnouncementSource::Event(source))
        })
        .collect()
}

/// Returns the index into the history of the event that made the appointment `Retrying` or `Inconclusive`. `None` for any
/// other status: those are outcomes.
fn source_of_status(
    call: &Call,
    attempts: &[AttemptState],
    latest: &AttemptState,
    present: AnnouncementKind,
) -> Option<usize> {
    match present {
        AnnouncementKind::Appointment(AppointmentStatus::Retrying) => {
            call.external_retry(attempts).or_else(|| latest.ended_by())
        }
        AnnouncementKind::Appointment(AppointmentStatus::Inconclusive) => latest.deadline,
        AnnouncementKind::Lifecycle(_)
        | AnnouncementKind::Inconclusive
        | AnnouncementKind::Corrected(..)
        | AnnouncementKind::RetryScheduled(_)
        | AnnouncementKind::Exhausted
        | AnnouncementKind::CanceledByUser
        | AnnouncementKind::DriftRepaired { .. }
        | AnnouncementKind::Appointment(_) => None,
    }
}

const fn is_decision(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Confirmed | Outcome::Declined => true,
        Outcome::Dialing | Outcome::NoAnswer | Outcome::Connected | Outcome::Voicemail => false,
    }
}

fn announced_kinds(call: &Call, attempt: &AttemptState) -> impl Iterator<Item = AnnouncementKind> {
    let own = call.announcements.iter().filter(|announcement| announcement.attempt_index == Some(attempt.index));
    own.map(|announcement| announcement.kind)
}

fn attempt_announcement(
    call: &Call,
    attempt: &AttemptState,
    kind: AnnouncementKind,
    source: AnnouncementSource,
) -> Announcement {
    let record = call.attempt_records.get(attempt.index);
    Announcement {
        kind,
        attempt_index: Some(attempt.index),
        attempt_number: attempt.number,
        source,
        provider_call_known: record.is_some_and(|record| record.provider_call_id.is_some()),
        appointment_known: call.appointment_id.is_some(),
    }
}
