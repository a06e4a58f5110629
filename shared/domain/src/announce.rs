//! What a call announces, and the domain events made of it.
//!
//! The states that the fold runs through and that are higher than anything announced for the attempt are announced, in
//! order. **The log is the only record of it**: a domain event is computed from the log and from what a row never
//! changes, so that publishing it again, a second later or a year later, gives the same content under the same id.

use serde::Serialize;

use crate::call::{AppointmentStatus, AttemptState, Call, Job};
use crate::event::{CallId, EventId, Origin};
use crate::lifecycle::{INCONCLUSIVE, Lifecycle, Outcome};
use crate::machine::State;
use crate::time::Timestamp;

/// Of the content of domain events. A subscriber that does not know it must not guess.
pub const DOMAIN_EVENT_SCHEMA_VERSION: u32 = 1;

/// How a call without an attempt is shown where a state of an attempt is expected.
pub const NOT_PLACED: &str = "not_placed";

/// What is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnouncementKind {
    Lifecycle(Lifecycle),
    /// The attempt went silent without an ending.
    Inconclusive,
    /// What was announced of the attempt as its ending was not the last word; it stands like this now. With the sequence of that
    /// announcement.
    Corrected(Lifecycle, usize),
    /// Another attempt will be made, not before this.
    RetryScheduled(Timestamp),
    /// No further attempt will be made, and none succeeded.
    Exhausted,
    /// The user wanted no further attempt.
    CanceledByUser,
    /// The row was not what the call's events make it: how it showed the latest attempt, and what it shows now.
    DriftRepaired {
        before: &'static str,
        after: &'static str,
    },
    Appointment(AppointmentStatus),
}

impl AnnouncementKind {
    /// True if nothing was expected to follow: what does follow in the same attempt is a correction.
    const fn is_ending(self) -> bool {
        match self {
            Self::Lifecycle(state) => state.is_ending(),
            Self::Inconclusive => true,
            Self::Corrected(..)
            | Self::RetryScheduled(_)
            | Self::Exhausted
            | Self::CanceledByUser
            | Self::DriftRepaired { .. } => false,
            Self::Appointment(status) => match status {
                AppointmentStatus::Confirmed
                | AppointmentStatus::Declined
                | AppointmentStatus::NoAnswer
                | AppointmentStatus::Voicemail
                | AppointmentStatus::Inconclusive => true,
                AppointmentStatus::Pending
                | AppointmentStatus::Dialing
                | AppointmentStatus::Connected
                | AppointmentStatus::Retrying => false,
            },
        }
    }

    const fn is_of_appointment(self) -> bool {
        match self {
            Self::Appointment(_) => true,
            Self::Lifecycle(_)
            | Self::Inconclusive
            | Self::Corrected(..)
            | Self::RetryScheduled(_)
            | Self::Exhausted
            | Self::CanceledByUser
            | Self::DriftRepaired { .. } => false,
        }
    }

    /// True if it tells the state of an attempt: neither what is made of it, nor the appointment's.
    const fn is_of_lifecycle(self) -> bool {
        match self {
            Self::Lifecycle(_) | Self::Inconclusive => true,
            Self::Corrected(..)
            | Self::RetryScheduled(_)
            | Self::Exhausted
            | Self::CanceledByUser
            | Self::DriftRepaired { .. }
            | Self::Appointment(_) => false,
        }
    }

    /// True if it reports that a row was repaired.
    #[must_use]
    pub const fn is_drift_repaired(self) -> bool {
        match self {
            Self::DriftRepaired { .. } => true,
            Self::Lifecycle(_)
            | Self::Inconclusive
            | Self::Corrected(..)
            | Self::RetryScheduled(_)
            | Self::Exhausted
            | Self::CanceledByUser
            | Self::Appointment(_) => false,
        }
    }

    const fn lifecycle(self) -> Option<Lifecycle> {
        match self {
            Self::Lifecycle(state) => Some(state),
            Self::Inconclusive
            | Self::Corrected(..)
            | Self::RetryScheduled(_)
            | Self::Exhausted
            | Self::CanceledByUser
            | Self::DriftRepaired { .. }
            | Self::Appointment(_) => None,
        }
    }

    fn outcome(self) -> Option<Outcome> {
        let of = |outcome: &&Outcome| self == Self::Appointment(AppointmentStatus::from_outcome(**outcome));
        Outcome::ALL.iter().find(of).copied()
    }

    /// What the subject is from now on.
    const fn status(self) -> &'static str {
        match self {
            Self::Lifecycle(state) | Self::Corrected(state, _) => state.label(),
            Self::Inconclusive => INCONCLUSIVE,
            Self::RetryScheduled(_) => "retry_scheduled",
            Self::Exhausted => "exhausted",
            Self::CanceledByUser => Lifecycle::Canceled.label(),
            Self::DriftRepaired { after, .. } => after,
            Self::Appointment(status) => match status {
                AppointmentStatus::Pending => "pending",
                AppointmentStatus::Dialing => "dialing",
                AppointmentStatus::Connected => "connected",
                AppointmentStatus::Confirmed => "confirmed",
                AppointmentStatus::Declined => "declined",
                AppointmentStatus::NoAnswer => "no_answer",
                AppointmentStatus::Voicemail => "voicemail",
                AppointmentStatus::Retrying => "retrying",
                AppointmentStatus::Inconclusive => INCONCLUSIVE,
            },
        }
    }

    /// The type of the domain event.
    fn event_type(self) -> String {
        match self {
            Self::Corrected(..) => "call.corrected".to_owned(),
            Self::DriftRepaired { .. } => "call.drift_repaired".to_owned(),
            Self::Appointment(_) => format!("appointment.{}", self.status()),
            Self::Lifecycle(_)
            | Self::Inconclusive
            | Self::RetryScheduled(_)
            | Self::Exhausted
            | Self::CanceledByUser => format!("call.{}", self.status()),
        }
    }
}

/// One line of a call's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    pub kind: AnnouncementKind,
    /// Index into [`Call::attempt_records`]; none if it is of no attempt.
    pub attempt_index: Option<usize>,
    /// The attempt's number when it was announced; 0 if it is of no attempt.
    pub attempt_number: u8,
    pub source: AnnouncementSource,
    /// Whether the provider's call id was known then.
    pub provider_call_known: bool,
    /// Whether the appointment was known then.
    pub appointment_known: bool,
}

/// What brought an announcement about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnouncementSource {
    /// An event: index into [`Call::history`].
    Event(usize),
    /// A worker's transition, at this time.
    Transition(Timestamp),
}

/// What Switchhook publishes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DomainEvent {
    pub schema_version: u32,
    /// `{call_id}/{sequence}`: by this a subscriber tells a repetition.
    pub id: String,
    /// `call.{status}` or `appointment.{status}`.
    #[serde(rename = "type")]
    pub event_type: String,
    pub call_id: String,
    /// Counts the call's domain events from 1.
    pub sequence: usize,
    pub provider: &'static str,
    pub provider_call_id: Option<String>,
    pub appointment_id: Option<String>,
    /// The attempt's number; none if it is of no attempt.
    pub attempt: Option<u8>,
    /// The status announced before: of the attempt for `call.*`, of the call for `appointment.*`.
    pub previous: Option<&'static str>,
    pub status: &'static str,
    /// The event that brought it about; none if it was a request to Switchhook.
    pub source_event_id: Option<String>,
    /// By the provider's clock where it names a time, else when it was received. RFC 3339.
    pub occurred_at: String,
    /// The id of the ending announced before, which this one corrects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrects: Option<String>,
    /// Of `call.retry_scheduled`: when the next attempt is due. RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<String>,
}

/// What Switchhook publishes of an authentic webhook that it cannot use: unreadable, or beyond what its call holds. Published when
/// it happens and whenever the webhook comes again, under the same id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WebhookQuarantined {
    pub schema_version: u32,
    /// `{event_id}/quarantined`.
    pub id: String,
    /// `webhook.quarantined`.
    #[serde(rename = "type")]
    pub event_type: &'static str,
    pub provider: &'static str,
    pub event_id: String,
    /// None if it names no call that could be read.
    pub call_id: Option<String>,
    pub reason: String,
    /// When it was received. RFC 3339.
    pub occurred_at: String,
}

impl WebhookQuarantined {
    #[must_use]
    pub fn new(
        event_id: &EventId,
        origin: Origin,
        call_id: Option<&CallId>,
        reason: &str,
        received_at: Timestamp,
    ) -> Self {
        Self {
            schema_version: DOMAIN_EVENT_SCHEMA_VERSION,
            id: format!("{event_id}/quarantined"),
            event_type: "webhook.quarantined",
            provider: origin.as_str(),
            event_id: event_id.to_string(),
            call_id: call_id.map(CallId::to_string),
            reason: reason.to_owned(),
            occurred_at: received_at.to_string(),
        }
    }
}

impl Call {
    /// The domain events from this sequence on, in order.
    #[must_use]
    pub fn domain_events_from(&self, sequence: usize) -> Vec<DomainEvent> {
        (sequence.max(1)..=self.announcements.len()).filter_map(|n| self.domain_event(n)).collect()
    }

    fn domain_event(&self, sequence: usize) -> Option<DomainEvent> {
        let (said, before) = self.announcements.get(..sequence)?.split_last()?;
        let source = match said.source {
            AnnouncementSource::Event(index) => Some(self.history.get(index)?),
            AnnouncementSource::Transition(_) => None,
        };
        let slot = said.attempt_index.and_then(|index| self.attempt_records.get(index));
        let of_appointment = said.kind.is_of_appointment();
        let same_subject = |other: &&Announcement| {
            other.kind.is_of_appointment() == of_appointment
                && (of_appointment || other.attempt_index == said.attempt_index)
        };
        let is_state = |other: &&Announcement| of_appointment || other.kind.is_of_lifecycle();
        let previous = match said.kind {
            AnnouncementKind::DriftRepaired { before, .. } => Some(before),
            AnnouncementKind::Corrected(_, sequence) => {
                Some(self.announcements.get(sequence.checked_sub(1)?)?.kind.status())
            }
            AnnouncementKind::Lifecycle(_)
            | AnnouncementKind::Inconclusive
            | AnnouncementKind::RetryScheduled(_)
            | AnnouncementKind::Exhausted
            | AnnouncementKind::CanceledByUser
            | AnnouncementKind::Appointment(_) => {
                before.iter().rev().find(|o| same_subject(o) && is_state(o)).map(|o| o.kind.status())
            }
        };
        let of_attempt = |other: &&Announcement| same_subject(other) && other.attempt_index == said.attempt_index;
        // After a retry was called off, the appointment returns to the status that the attempt had already announced. That
        // announcement made the correction, if one was due.
        let retrying = AnnouncementKind::Appointment(AppointmentStatus::Retrying);
        let repeats = previous == Some(retrying.status())
            && before
                .iter()
                .rfind(|other| of_attempt(other) && other.kind != retrying)
                .is_some_and(|other| other.kind == said.kind);
        // A retry, or the next attempt, moves the appointment on: only the same attempt can correct itself.
        let corrected = match said.kind {
            AnnouncementKind::Appointment(AppointmentStatus::Retrying)
            | AnnouncementKind::RetryScheduled(_)
            | AnnouncementKind::Exhausted
            | AnnouncementKind::CanceledByUser
            | AnnouncementKind::DriftRepaired { .. } => None,
            AnnouncementKind::Corrected(_, sequence) => Some(sequence),
            AnnouncementKind::Lifecycle(_) | AnnouncementKind::Inconclusive | AnnouncementKind::Appointment(_) => {
                before
                    .iter()
                    .rposition(|other| of_attempt(&other) && other.kind.is_ending())
                    .filter(|_| !repeats)
                    .map(|at| at + 1)
            }
        };
        let occurred_at = match (source, said.source) {
            (Some(source), _) => match said.kind {
                AnnouncementKind::Inconclusive | AnnouncementKind::Appointment(AppointmentStatus::Inconclusive) => {
                    source.received_at
                }
                AnnouncementKind::Lifecycle(_)
                | AnnouncementKind::Corrected(..)
                | AnnouncementKind::RetryScheduled(_)
                | AnnouncementKind::Exhausted
                | AnnouncementKind::CanceledByUser
                | AnnouncementKind::DriftRepaired { .. }
                | AnnouncementKind::Appointment(_) => source.happened_at(),
            },
            (None, AnnouncementSource::Transition(at)) => at,
            (None, AnnouncementSource::Event(_)) => return None,
        };
        Some(DomainEvent {
            schema_version: DOMAIN_EVENT_SCHEMA_VERSION,
            id: format!("{}/{sequence}", self.call_id),
            event_type: said.kind.event_type(),
            call_id: self.call_id.to_string(),
            sequence,
            provider: self.provider.as_str(),
            provider_call_id: slot.and_then(|slot| slot.provider_call_id.clone()).filter(|_| said.provider_call_known),
            appointment_id: self.appointment_id.clone().filter(|_| said.appointment_known),
            attempt: (said.attempt_number > 0).then_some(said.attempt_number),
            previous,
            status: said.kind.status(),
            source_event_id: source.map(|source| source.source_event_id.to_string()),
            occurred_at: occurred_at.to_string(),
            corrects: corrected.map(|sequence| format!("{}/{sequence}", self.call_id)),
            due_at: match said.kind {
                AnnouncementKind::RetryScheduled(due_at) => Some(due_at.to_string()),
                AnnouncementKind::Lifecycle(_)
                | AnnouncementKind::Inconclusive
                | AnnouncementKind::Corrected(..)
                | AnnouncementKind::Exhausted
                | AnnouncementKind::CanceledByUser
                | AnnouncementKind::DriftRepaired { .. }
                | AnnouncementKind::Appointment(_) => None,
            },
        })
    }
}

/// What is to be announced of a call whose history was just folded into `attempts`, and whose job was derived from them.
pub(crate) fn news(call: &Call, attempts: &[AttemptState], now: Timestamp) -> Vec<Announcement> {
    let mut news: Vec<Announcement> = attempts.iter().flat_map(|attempt| lifecycle_news(call, attempt)).collect();
    news.extend(job_news(call, attempts, now));
    news.extend(appointment_news(call, attempts, now));
    news
}

fn lifecycle_news(call: &Call, attempt: &AttemptState) -> Vec<Announcement> {
    let log: Vec<AnnouncementKind> = log_of(call, attempt).filter(|news| news.is_of_lifecycle()).collect();
    let highest = log.iter().filter_map(|news| news.lifecycle()).max();
    let begun = attempt.first.map(|first| (Lifecycle::Initiated, first));
    let run = begun.into_iter().chain(attempt.lifecycle_maxima.iter().copied());
    let higher: Vec<(Lifecycle, usize)> = run.filter(|(state, _)| Some(*state) > highest).collect();
    let mut news: Vec<Announcement> = higher
        .iter()
        .map(|(state, source)| said(call, attempt, AnnouncementKind::Lifecycle(*state), *source))
        .collect();
    let is_ending = |said: &Announcement| said.attempt_index == Some(attempt.index) && said.kind.is_ending();
    let ending = call.announcements.iter().rposition(|said| is_ending(said) && said.kind.is_of_lifecycle());
    if let (Some((state, source)), Some(ending)) = (higher.last(), ending) {
        news.push(said(call, attempt, AnnouncementKind::Corrected(*state, ending + 1), *source));
    }
    if let Some(deadline) = attempt.deadline
        && attempt.is_inconclusive()
        && (!news.is_empty() || log.last() != Some(&AnnouncementKind::Inconclusive))
    {
        news.push(said(call, attempt, AnnouncementKind::Inconclusive, deadline));
    }
    news
}

/// What becomes of a call that Switchhook places, once for each attempt after which it comes to that.
fn job_news(call: &Call, attempts: &[AttemptState], now: Timestamp) -> Option<Announcement> {
    call.plan.as_ref()?;
    let latest = attempts.last();
    let (news, is_same): (AnnouncementKind, fn(AnnouncementKind) -> bool) = match (&call.job, latest) {
        (Job::Pending { due_at }, Some(_)) => {
            (AnnouncementKind::RetryScheduled(*due_at), |n| matches!(n, AnnouncementKind::RetryScheduled(_)))
        }
        (Job::Failed, _) => (AnnouncementKind::Exhausted, |n| n == AnnouncementKind::Exhausted),
        (Job::Canceled, _) => (AnnouncementKind::CanceledByUser, |n| n == AnnouncementKind::CanceledByUser),
        (Job::Pending { .. } | Job::Claimed { .. } | Job::InProgress | Job::Completed, _) => return None,
    };
    let slot = latest.map(|attempt| attempt.index);
    if call.announcements.iter().any(|said| said.attempt_index == slot && is_same(said.kind)) {
        return None;
    }
    let source = latest.filter(|_| call.stop_reason.is_none()).and_then(AttemptState::ended_by);
    let attempt_number = latest.map_or(0, |attempt| attempt.number);
    Some(Announcement { attempt_index: slot, attempt_number, ..of_call(call, news, source, now) })
}

/// AnnouncementKind of the call itself, brought about by an event or by a worker's move now.
pub(crate) fn of_call(call: &Call, news: AnnouncementKind, source: Option<usize>, now: Timestamp) -> Announcement {
    Announcement {
        kind: news,
        attempt_index: None,
        attempt_number: 0,
        source: source.map_or(AnnouncementSource::Transition(now), AnnouncementSource::Event),
        provider_call_known: false,
        appointment_known: call.appointment_id.is_some(),
    }
}

/// The appointment runs through what the outcome of one attempt runs through: of the one that decided it, else the latest.
fn appointment_news(call: &Call, attempts: &[AttemptState], now: Timestamp) -> Vec<Announcement> {
    let Some(latest) = attempts.last() else {
        return Vec::new();
    };
    let subject = attempts.iter().rfind(|attempt| attempt.decided().is_some()).unwrap_or(latest);
    let highest = log_of(call, subject).filter_map(AnnouncementKind::outcome).max();
    let begun = subject.first.map(|first| (Outcome::Dialing, first));
    let run = begun.into_iter().chain(subject.outcome_maxima.iter().copied());
    // What another attempt decided is not taken back by one that only rings.
    let decided = call
        .announcements
        .iter()
        .any(|said| said.attempt_index != Some(subject.index) && said.kind.outcome().is_some_and(decides));
    let mut news: Vec<Announcement> = run
        .filter(|(outcome, _)| Some(*outcome) > highest && (!decided || decides(*outcome)))
        .map(|(outcome, source)| (AnnouncementKind::Appointment(AppointmentStatus::from_outcome(outcome)), source))
        .map(|(news, source)| said(call, subject, news, source))
        .collect();
    let present = AnnouncementKind::Appointment(call.appointment_status_from(attempts));
    let source = match present {
        AnnouncementKind::Appointment(AppointmentStatus::Retrying) => {
            call.retry_scheduled(attempts).or_else(|| latest.ended_by())
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
    };
    let last = call.announcements.iter().map(|said| said.kind).rfind(|news| news.is_of_appointment());
    if let Some(source) = source
        && (!news.is_empty() || last != Some(present))
    {
        news.push(said(call, latest, present, source));
    }
    // A retry that was announced and will not be made, because the user or the policy says so now, is not the last word.
    let is_over = match call.job {
        Job::Completed | Job::Failed | Job::Canceled => true,
        Job::Pending { .. } | Job::Claimed { .. } | Job::InProgress => false,
    };
    if is_over
        && news.is_empty()
        && last == Some(AnnouncementKind::Appointment(AppointmentStatus::Retrying))
        && last != Some(present)
    {
        let source = latest.ended_by().filter(|_| call.stop_reason.is_none());
        let source = source.map_or(AnnouncementSource::Transition(now), AnnouncementSource::Event);
        news.push(Announcement { source, ..said(call, latest, present, 0) });
    }
    news
}

const fn decides(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Confirmed | Outcome::Declined => true,
        Outcome::Dialing | Outcome::NoAnswer | Outcome::Connected | Outcome::Voicemail => false,
    }
}

fn log_of(call: &Call, attempt: &AttemptState) -> impl Iterator<Item = AnnouncementKind> {
    call.announcements.iter().filter(|said| said.attempt_index == Some(attempt.index)).map(|said| said.kind)
}

fn said(call: &Call, attempt: &AttemptState, news: AnnouncementKind, source: usize) -> Announcement {
    let slot = call.attempt_records.get(attempt.index);
    Announcement {
        kind: news,
        attempt_index: Some(attempt.index),
        attempt_number: attempt.number,
        source: AnnouncementSource::Event(source),
        provider_call_known: slot.is_some_and(|slot| slot.provider_call_id.is_some()),
        appointment_known: call.appointment_id.is_some(),
    }
}
