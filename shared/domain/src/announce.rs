//! The new announcements of a call.
//!
//! The fold of an attempt runs through states of rising precedence. The call announces each of them that is higher than every
//! state of the attempt that it has announced before. Example: if `in_progress` arrives after `completed`, it announces both,
//! `in_progress` first.

use crate::announcement::{Announcement, AnnouncementKind, AnnouncementSource, AppointmentStatus, Topic};
use crate::attempt::AttemptState;
use crate::call::{Call, HistoryEntry, Job};
use crate::lifecycle::{Lifecycle, Outcome};
use crate::plan::{EndReason, StopReason};
use crate::time::Timestamp;

/// Reason why a call derives its state again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Events were added to the history.
    Events,
    /// A worker or a user made a transition.
    Worker,
}

/// Returns the announcements that a call has yet to make, in order. Its job must be derived from `attempts` already.
pub(crate) fn new_announcements(
    call: &Call,
    attempts: &[AttemptState],
    cause: Cause,
    now: Timestamp,
) -> Vec<Announcement> {
    let mut new = Vec::new();
    for attempt in attempts {
        new.extend(lifecycle_announcements(call, attempt, call.announcements.len() + new.len()));
    }
    new.extend(job_announcement(call, attempts, cause, now));
    if call.appointment_id.is_some() {
        new.extend(appointment_announcements(call, attempts, cause, now));
    } else {
        new.extend(attempts.iter().flat_map(|attempt| outcome_announcements(call, attempt)));
    }
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
        provider: None,
        provider_call_known: false,
        appointment_known: call.appointment_id.is_some(),
    }
}

/// Returns the new announcements about the lifecycle of an attempt. The first of them comes after `before` others of the call.
fn lifecycle_announcements(call: &Call, attempt: &AttemptState, before: usize) -> Vec<Announcement> {
    let announced = || announced_kinds(call, attempt).filter(|kind| kind.topic() == Topic::Lifecycle);
    // They rise, but for the lower ending below.
    let last_state = announced().filter_map(AnnouncementKind::lifecycle).last();
    let initiated = attempt.first.map(|first| (Lifecycle::Initiated, first));
    let states = initiated.into_iter().chain(attempt.lifecycle_maxima.iter().copied());
    let mut higher: Vec<(Lifecycle, usize)> = states.filter(|(state, _)| Some(*state) > last_state).collect();
    // A late report may show an earlier attempt, which takes events that name no attempt away from this one. Then the ending is lower than the last
    // announced state, or it comes back after a timeout.
    let is_back = Some(attempt.lifecycle) == last_state && announced().last() == Some(AnnouncementKind::Inconclusive);
    if attempt.lifecycle.is_ending() && (Some(attempt.lifecycle) < last_state || is_back) {
        higher.extend(attempt.lifecycle_maxima.last());
    }
    // Two states may have one name: a presumed completion, and then the reported one. That is no news.
    let mut last = announced().last().map(AnnouncementKind::status);
    higher.retain(|(state, _)| last.replace(state.label()) != Some(state.label()));
    let mut new: Vec<Announcement> = higher
        .iter()
        .map(|(state, source)| {
            let source = AnnouncementSource::Event(*source);
            attempt_announcement(call, attempt, AnnouncementKind::Lifecycle(*state), source)
        })
        .collect();
    let is_ending = |other: &Announcement| {
        other.attempt_index == Some(attempt.index) && other.kind.is_ending() && other.kind.topic() == Topic::Lifecycle
    };
    // The ending may be announced just now, by an earlier event of the same batch.
    let earlier = new.split_last().map_or(&[][..], |(_, earlier)| earlier);
    let ending = earlier.iter().rposition(is_ending).map(|index| before + index);
    let ending = ending.or_else(|| call.announcements.iter().rposition(is_ending));
    if let (Some((state, source)), Some(ending)) = (higher.last(), ending) {
        let (kind, source) = (AnnouncementKind::Corrected(*state, ending + 1), AnnouncementSource::Event(*source));
        new.push(attempt_announcement(call, attempt, kind, source));
    }
    if let Some(deadline) = attempt.deadline
        && attempt.is_inconclusive()
        && (!new.is_empty() || announced().last() != Some(AnnouncementKind::Inconclusive))
    {
        let source = AnnouncementSource::Event(deadline);
        new.push(attempt_announcement(call, attempt, AnnouncementKind::Inconclusive, source));
    }
    new
}

/// Returns the announcement of the job's result after the latest attempt: a retry, the failure of the call, or its cancellation. A call
/// that waits again after its cancellation announces a retry too. `None` if there is nothing new to announce, or Switchhook does not place
/// the call.
///
/// A result that is the last one announced is no news. For a cancellation this also holds if another attempt is the latest by now: a
/// late event may show an attempt that was not known before.
fn job_announcement(call: &Call, attempts: &[AttemptState], cause: Cause, now: Timestamp) -> Option<Announcement> {
    call.plan.as_ref()?;
    let latest = attempts.last();
    if let (Job::Pending { due_at }, Some(taken_back)) = (&call.job, taken_back(call)) {
        let kind = AnnouncementKind::RetryScheduled(*due_at);
        return Some(Announcement { kind, provider_call_known: false, ..taken_back });
    }
    let last = call.announcements.iter().rfind(|other| other.kind.is_job_result());
    let is_resumed = last.is_some_and(|last| matches!(last.kind, AnnouncementKind::JobCanceled(_)));
    let kind = match (&call.job, latest) {
        (Job::Pending { due_at }, _) if latest.is_some() || is_resumed => AnnouncementKind::RetryScheduled(*due_at),
        (Job::Failed, _) => AnnouncementKind::Exhausted(call.end_reason(attempts)),
        (Job::Canceled, _) => AnnouncementKind::JobCanceled(call.stop_reason.unwrap_or(StopReason::CanceledByUser)),
        (Job::Pending { .. } | Job::Claimed { .. } | Job::InProgress | Job::Completed | Job::Missed, _) => return None,
    };
    let attempt_index = latest.map(|attempt| attempt.index);
    let is_same_retry = |last: &Announcement| match last.attempt_index {
        // The retry follows a dial that was taken back, and no later attempt.
        Some(index) if call.is_withdrawn(index) => attempt_index <= Some(index),
        // If the dial was not taken back after all, the retry that follows its ending is another one.
        Some(_) | None => last.attempt_index == attempt_index && !is_about_other_withdrawal(call, last, latest),
    };
    let is_same = |last: &Announcement| match (last.kind, kind) {
        (AnnouncementKind::JobCanceled(_), AnnouncementKind::JobCanceled(_)) => true,
        (AnnouncementKind::RetryScheduled(_), AnnouncementKind::RetryScheduled(_)) => is_same_retry(last),
        (AnnouncementKind::Exhausted(_), AnnouncementKind::Exhausted(_)) => last.attempt_index == attempt_index,
        (_, _) => false,
    };
    if last.is_some_and(is_same) {
        return None;
    }
    let source = source_of_end(call, latest, cause, now);
    Some(match latest {
        Some(latest) => {
            let announcement = attempt_announcement(call, latest, kind, source);
            Announcement { provider_call_known: false, ..announcement }
        }
        None => Announcement { source, ..call_announcement(call, kind, None, now) },
    })
}

/// True if the source of an announcement says that the provider did not make a dial, and is not the ending of the latest attempt.
fn is_about_other_withdrawal(call: &Call, announced: &Announcement, latest: Option<&AttemptState>) -> bool {
    match announced.source {
        AnnouncementSource::Event(index) => {
            call.history.get(index).is_some_and(HistoryEntry::is_withdrawal)
                && latest.and_then(AttemptState::ended_by) != Some(index)
        }
        AnnouncementSource::Transition(_) => false,
    }
}

/// Returns an announcement about the attempt that was announced last, if the provider did not make that call. Otherwise subscribers would take
/// it for a call under way until the next dial. Its kind is still the announced state. `None` if the retry is announced.
fn taken_back(call: &Call) -> Option<Announcement> {
    let is_of_dial = |other: &&Announcement| other.kind.topic() == Topic::Lifecycle || other.kind.is_job_result();
    let announced = call.announcements.iter().rfind(is_of_dial).filter(|last| !last.kind.is_job_result())?;
    let index = announced.attempt_index.filter(|index| call.is_withdrawn(*index))?;
    let withdraws = |entry: &HistoryEntry| entry.attempt_index == Some(index) && entry.is_withdrawal();
    let source = AnnouncementSource::Event(call.history.iter().rposition(withdraws)?);
    let provider = call.attempt_provider(index).filter(|provider| call.provider_of_source(source) != Some(*provider));
    Some(Announcement { source, provider, ..announced.clone() })
}

/// Returns an announcement about the last announced dial, if that was not made, and the call was resumed `now`. Its kind is still the announced
/// state. `None` if the appointment was not announced to be canceled since.
fn resumed_dial(call: &Call, last: Option<AnnouncementKind>, now: Timestamp) -> Option<Announcement> {
    let booking_changed = AnnouncementKind::AppointmentEnded(EndReason::Stopped(StopReason::BookingChanged));
    let announced = call.announcements.iter().rfind(|other| other.kind.topic() == Topic::Lifecycle)?;
    let index = announced.attempt_index.filter(|index| call.is_withdrawn(*index))?;
    let provider = call.attempt_provider(index);
    let dial = Announcement { source: AnnouncementSource::Transition(now), provider, ..announced.clone() };
    Some(dial).filter(|_| last == Some(booking_changed))
}

/// Returns the source of an announcement that a job has ended or goes on: the worker's transition, or the event that ended the
/// latest attempt. If that attempt has no ending, the newest event is the source.
fn source_of_end(call: &Call, latest: Option<&AttemptState>, cause: Cause, now: Timestamp) -> AnnouncementSource {
    let event = match cause {
        Cause::Events => latest.and_then(AttemptState::ended_by).or_else(|| call.newest_event()),
        Cause::Worker => None,
    };
    event.map_or(AnnouncementSource::Transition(now), AnnouncementSource::Event)
}

/// Returns the new statuses of the appointment. The outcomes come first: those of the attempt with a decision, else those of
/// the latest attempt. Then comes the present status, if it is not an outcome.
fn appointment_announcements(
    call: &Call,
    attempts: &[AttemptState],
    cause: Cause,
    now: Timestamp,
) -> Vec<Announcement> {
    let present = AnnouncementKind::Appointment(call.appointment_status_from(attempts));
    let last = last_announced(call, Topic::Appointment).map(|other| other.kind);
    let Some(latest) = attempts.last() else {
        if !call.job.is_final() {
            let is_dialing = last == Some(AnnouncementKind::Appointment(AppointmentStatus::Dialing));
            let dial = taken_back(call).filter(|_| is_dialing).or_else(|| resumed_dial(call, last, now));
            let dial = dial.filter(|_| last != Some(present));
            return dial.map(|dial| Announcement { kind: present, ..dial }).into_iter().collect();
        }
        let reason = call.end_reason(attempts);
        let ended = AnnouncementKind::AppointmentEnded(reason);
        // The booking may have another call by now, or the call may be resumed. Nobody but the calendar knows what became of the
        // appointment. But a dial or a retry that was announced must not look as if it went on.
        // A user who cancels such a call later ends nothing more.
        let result = call.announcements.iter().map(|other| other.kind).rfind(|kind| kind.is_job_result());
        let is_called_off = reason == EndReason::Stopped(StopReason::BookingChanged)
            || result == Some(AnnouncementKind::JobCanceled(StopReason::BookingChanged));
        let is_known = !is_called_off || last.is_some();
        // Another reason alone is not announced, as in `job_announcement`.
        let is_new = is_known && last.map(AnnouncementKind::status) != Some(ended.status());
        let source = source_of_end(call, None, cause, now);
        let announcement = Announcement { source, ..call_announcement(call, ended, None, now) };
        return Some(announcement).filter(|_| is_new).into_iter().collect();
    };
    let mut new = appointment_outcome_announcements(call, attempts, latest);
    let is_changed = !new.is_empty() || last != Some(present);
    if present == AnnouncementKind::Appointment(AppointmentStatus::Inconclusive)
        && let Some(missed) = call.missed_retry(attempts)
    {
        new.extend(Some(call_announcement(call, present, Some(missed), now)).filter(|_| is_changed));
    } else if let Some(dial) = taken_back(call).filter(|_| is_retrying(present)) {
        new.extend(Some(Announcement { kind: present, ..dial }).filter(|_| is_changed));
    } else if let Some(source) = source_of_status(call, attempts, latest, present) {
        let source = AnnouncementSource::Event(source);
        new.extend(Some(attempt_announcement(call, latest, present, source)).filter(|_| is_changed));
    }
    // The appointment goes back to a status that its attempt had announced before. A retry was called off, the attempt ended after its
    // timeout, the dial that was announced last was not made, or another attempt is the latest after all. A dial is not announced before
    // an event tells that it began. Nor is an attempt that goes on after its timeout, until its outcome is known or it times out again.
    let subject = subject_of_status(attempts, latest);
    let goes_back = new.is_empty() && is_changed && matches!(last, Some(AnnouncementKind::Appointment(_)));
    let goes_on =
        last == Some(AnnouncementKind::Appointment(AppointmentStatus::Inconclusive)) && !subject.outcome_is_final();
    if goes_back && !goes_on && subject.first.is_some() {
        new.push(attempt_announcement(call, subject, present, source_of_end(call, Some(subject), cause, now)));
    }
    new
}

/// Returns the attempt whose outcome is the status of the appointment: the latest with a decision, else the latest.
fn subject_of_status<'a>(attempts: &'a [AttemptState], latest: &'a AttemptState) -> &'a AttemptState {
    attempts.iter().rfind(|attempt| attempt.decision().is_some()).unwrap_or(latest)
}

fn last_announced(call: &Call, topic: Topic) -> Option<&Announcement> {
    call.announcements.iter().rfind(|other| other.kind.topic() == topic)
}

/// Returns the new outcomes of an attempt, for a call without an appointment. Only final outcomes are announced.
fn outcome_announcements(call: &Call, attempt: &AttemptState) -> Vec<Announcement> {
    let announced = || announced_kinds(call, attempt).filter(|kind| kind.topic() == Topic::Outcome);
    let last = announced().filter_map(AnnouncementKind::outcome).last();
    let maxima = attempt.outcome_maxima.iter().copied().filter(|(outcome, _)| outcome.is_ending());
    let ended_by = attempt.ended_by().filter(|_| attempt.outcome_is_final() && !attempt.outcome.is_ending());
    let outcomes: Vec<(Outcome, usize)> = maxima.chain(ended_by.map(|source| (attempt.outcome, source))).collect();
    // The outcome may be lower than the announced one for the same reason as an ending, or come back after a timeout.
    let is_back = Some(attempt.outcome) == last && announced().last() == Some(AnnouncementKind::OutcomeInconclusive);
    let is_again = attempt.outcome_is_final() && (Some(attempt.outcome) < last || is_back);
    let again = outcomes.last().filter(|_| is_again).copied();
    let mut new: Vec<Announcement> = outcomes
        .into_iter()
        .filter(|(outcome, _)| Some(*outcome) > last)
        .chain(again)
        .map(|(outcome, source)| {
            let kind = AnnouncementKind::Outcome(outcome);
            attempt_announcement(call, attempt, kind, AnnouncementSource::Event(source))
        })
        .collect();
    if let Some(deadline) = attempt.deadline
        && attempt.outcome_is_inconclusive()
        && (!new.is_empty() || announced().last() != Some(AnnouncementKind::OutcomeInconclusive))
    {
        let source = AnnouncementSource::Event(deadline);
        new.push(attempt_announcement(call, attempt, AnnouncementKind::OutcomeInconclusive, source));
    }
    new
}

fn appointment_outcome_announcements(
    call: &Call,
    attempts: &[AttemptState],
    latest: &AttemptState,
) -> Vec<Announcement> {
    let subject = subject_of_status(attempts, latest);
    let highest = announced_kinds(call, subject).filter_map(AnnouncementKind::outcome_of_appointment).max();
    let dialing = subject.first.map(|first| (Outcome::Dialing, first));
    let outcomes = dialing.into_iter().chain(subject.outcome_maxima.iter().copied());
    // The decision that one attempt brought stands until another attempt brings a decision.
    let decided_by_other = call.announcements.iter().any(|other| {
        other.attempt_index != Some(subject.index) && other.kind.outcome_of_appointment().is_some_and(is_decision)
    });
    // It may be the same, or even come from the same event.
    let last = last_announced(call, Topic::Appointment).map(|other| other.kind);
    if decided_by_other && last.is_some() && last == subject.decision().map(AnnouncementKind::Appointment) {
        return Vec::new();
    }
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
    if is_retrying(present) {
        let of_other_system = call.external_retry(attempts).filter(|_| call.plan.is_none());
        of_other_system.or_else(|| latest.ended_by())
    } else if present == AnnouncementKind::Appointment(AppointmentStatus::Inconclusive) {
        latest.deadline
    } else {
        None
    }
}

fn is_retrying(kind: AnnouncementKind) -> bool {
    kind == AnnouncementKind::Appointment(AppointmentStatus::Retrying)
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
        provider: call
            .attempt_provider(attempt.index)
            .filter(|provider| call.provider_of_source(source) != Some(*provider)),
        provider_call_known: record.is_some_and(|record| record.provider_call_id.is_some()),
        appointment_known: call.appointment_id.is_some(),
    }
}
