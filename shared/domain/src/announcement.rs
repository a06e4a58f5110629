//! The announcements of a call: everything that it has told subscribers, as a list in its row. A domain event is made from each.

use crate::lifecycle::{INCONCLUSIVE, Lifecycle, Outcome};
use crate::machine::State;
use crate::plan::{EndReason, StopReason};
use crate::provider::Provider;
use crate::time::Timestamp;

/// Label in place of a lifecycle, for a call without an attempt.
pub const NOT_PLACED: &str = "not_placed";

/// Result of a call in the terms of the business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AppointmentStatus {
    Pending,
    Dialing,
    Connected,
    Confirmed,
    Declined,
    NoAnswer,
    Voicemail,
    Retrying,
    Inconclusive,
    /// The user canceled the call before any attempt.
    Canceled,
    /// The number is on the do-not-call list, and there was no attempt.
    Blocked,
    /// The call ended without any attempt, for another reason.
    Failed,
}

impl AppointmentStatus {
    pub const ALL: [Self; 12] = [
        Self::Pending,
        Self::Dialing,
        Self::Connected,
        Self::Confirmed,
        Self::Declined,
        Self::NoAnswer,
        Self::Voicemail,
        Self::Retrying,
        Self::Inconclusive,
        Self::Canceled,
        Self::Blocked,
        Self::Failed,
    ];

    /// Returns the name used in API answers and in rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Dialing => "Dialing",
            Self::Connected => "Connected",
            Self::Confirmed => "Confirmed",
            Self::Declined => "Declined",
            Self::NoAnswer => "NoAnswer",
            Self::Voicemail => "Voicemail",
            Self::Retrying => "Retrying",
            Self::Inconclusive => "Inconclusive",
            Self::Canceled => "Canceled",
            Self::Blocked => "Blocked",
            Self::Failed => "Failed",
        }
    }

    /// Returns the name used in domain events.
    const fn event_name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Dialing => "dialing",
            Self::Connected => "connected",
            Self::Confirmed => "confirmed",
            Self::Declined => "declined",
            Self::NoAnswer => "no_answer",
            Self::Voicemail => "voicemail",
            Self::Retrying => "retrying",
            Self::Inconclusive => INCONCLUSIVE,
            Self::Canceled => "canceled",
            Self::Blocked => "blocked",
            Self::Failed => "failed",
        }
    }

    /// Returns the status of a call that ended without any attempt.
    pub(crate) const fn from_end_reason(reason: EndReason) -> Self {
        match reason {
            EndReason::Stopped(StopReason::CanceledByUser | StopReason::BookingChanged) => Self::Canceled,
            EndReason::Stopped(StopReason::DoNotCall) => Self::Blocked,
            EndReason::Stopped(
                StopReason::UnknownTimeZone
                | StopReason::RejectedByProvider
                | StopReason::DialsUnknown
                | StopReason::TooLate,
            )
            | EndReason::AttemptsUsed
            | EndReason::NotRetryable
            | EndReason::Unheard
            | EndReason::Forgotten => Self::Failed,
        }
    }

    pub(crate) const fn from_outcome(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Dialing => Self::Dialing,
            Outcome::NoAnswer => Self::NoAnswer,
            Outcome::Connected => Self::Connected,
            Outcome::Voicemail => Self::Voicemail,
            Outcome::Declined => Self::Declined,
            Outcome::Confirmed => Self::Confirmed,
        }
    }
}

/// One announcement of a call. A domain event is made from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    pub kind: AnnouncementKind,
    /// Index into [`Call::attempt_records`](crate::Call::attempt_records). `None` if the announcement concerns no attempt.
    pub attempt_index: Option<usize>,
    /// Number of the attempt at the time of the announcement. 0 if the announcement concerns no attempt.
    pub attempt_number: u8,
    pub source: AnnouncementSource,
    /// Provider of the attempt at the time of the announcement. `None` if the source event has the same provider, or the
    /// announcement concerns no attempt.
    pub provider: Option<Provider>,
    /// True if the provider's call id was known at the time of the announcement.
    pub provider_call_known: bool,
    /// True if the appointment was known at the time of the announcement.
    pub appointment_known: bool,
}

/// Cause of an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnouncementSource {
    /// An event: index into [`Call::history`](crate::Call::history).
    Event(usize),
    /// A transition made by a worker or a user, at this time.
    Transition(Timestamp),
}

/// Subject of an announcement. Announcements with the same subject form a sequence: each reports the status that follows the one
/// before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// The lifecycle of one attempt.
    Lifecycle,
    /// The outcomes of a call without an appointment.
    Outcome,
    /// The status of the appointment.
    Appointment,
    /// None of these. The announcement starts or continues no sequence.
    Other,
}

/// Content of an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnouncementKind {
    /// The attempt reached this state.
    Lifecycle(Lifecycle),
    /// The attempt timed out without an ending.
    Inconclusive,
    /// The attempt reached this state after it had announced an ending. The number is the sequence of the announcement that
    /// reported the ending.
    Corrected(Lifecycle, usize),
    /// Switchhook will make another attempt, not before this time.
    RetryScheduled(Timestamp),
    /// Switchhook will make no further attempt, and none succeeded.
    Exhausted(EndReason),
    /// The call was canceled, for this reason: by the user, or because its booking changed.
    JobCanceled(StopReason),
    /// The row did not match the call's events and was repaired. `before` and `after` are the lifecycle labels of the latest
    /// attempt, before and after the repair.
    DriftRepaired { before: &'static str, after: &'static str },
    /// The appointment has this status now.
    Appointment(AppointmentStatus),
    /// The call ended without any attempt. Reports the status of the appointment.
    AppointmentEnded(EndReason),
    /// Final outcome of an attempt, for a call without an appointment.
    Outcome(Outcome),
    /// The attempt timed out, and its outcome is unknown. For a call without an appointment.
    OutcomeInconclusive,
}

impl AnnouncementKind {
    /// True if the announcement reports an ending. A later announcement of the same attempt is then a correction.
    pub(crate) const fn is_ending(self) -> bool {
        match self {
            Self::Lifecycle(state) => state.is_ending(),
            Self::Inconclusive | Self::Outcome(_) | Self::OutcomeInconclusive => true,
            Self::Corrected(..)
            | Self::RetryScheduled(_)
            | Self::Exhausted(_)
            | Self::JobCanceled(_)
            | Self::AppointmentEnded(_)
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
                | AppointmentStatus::Retrying
                | AppointmentStatus::Canceled
                | AppointmentStatus::Blocked
                | AppointmentStatus::Failed => false,
            },
        }
    }

    /// True if the announcement reports the result of the job after an attempt.
    pub(crate) const fn is_job_result(self) -> bool {
        match self {
            Self::RetryScheduled(_) | Self::Exhausted(_) | Self::JobCanceled(_) => true,
            Self::Lifecycle(_)
            | Self::Inconclusive
            | Self::Corrected(..)
            | Self::Outcome(_)
            | Self::OutcomeInconclusive
            | Self::Appointment(_)
            | Self::AppointmentEnded(_)
            | Self::DriftRepaired { .. } => false,
        }
    }

    pub(crate) const fn topic(self) -> Topic {
        match self {
            Self::Lifecycle(_) | Self::Inconclusive => Topic::Lifecycle,
            Self::Outcome(_) | Self::OutcomeInconclusive => Topic::Outcome,
            Self::Appointment(_) | Self::AppointmentEnded(_) => Topic::Appointment,
            Self::Corrected(..)
            | Self::RetryScheduled(_)
            | Self::Exhausted(_)
            | Self::JobCanceled(_)
            | Self::DriftRepaired { .. } => Topic::Other,
        }
    }

    /// True if the announcement reports that a row was repaired.
    #[must_use]
    pub const fn is_drift_repaired(self) -> bool {
        matches!(self, Self::DriftRepaired { .. })
    }

    pub(crate) const fn lifecycle(self) -> Option<Lifecycle> {
        if let Self::Lifecycle(state) = self { Some(state) } else { None }
    }

    /// Returns the outcome that the announcement reports as the status of the appointment.
    pub(crate) fn outcome_of_appointment(self) -> Option<Outcome> {
        let Self::Appointment(status) = self else { return None };
        Outcome::ALL.iter().copied().find(|outcome| status == AppointmentStatus::from_outcome(*outcome))
    }

    /// Returns the outcome that the announcement reports for a call without an appointment.
    pub(crate) const fn outcome(self) -> Option<Outcome> {
        if let Self::Outcome(outcome) = self { Some(outcome) } else { None }
    }

    /// Returns the `status` of the domain event.
    pub(crate) const fn status(self) -> &'static str {
        match self {
            Self::Lifecycle(state) | Self::Corrected(state, _) => state.label(),
            Self::Inconclusive => INCONCLUSIVE,
            Self::RetryScheduled(_) => "retry_scheduled",
            Self::Exhausted(_) => "exhausted",
            Self::JobCanceled(_) => Lifecycle::Canceled.label(),
            Self::Outcome(outcome) => outcome.label(),
            Self::OutcomeInconclusive => INCONCLUSIVE,
            Self::DriftRepaired { after, .. } => after,
            Self::Appointment(status) => status.event_name(),
            Self::AppointmentEnded(reason) => AppointmentStatus::from_end_reason(reason).event_name(),
        }
    }

    /// Returns the `type` of the domain event.
    pub(crate) fn event_type(self) -> String {
        match self {
            Self::Corrected(..) => "call.corrected".to_owned(),
            Self::DriftRepaired { .. } => "call.drift_repaired".to_owned(),
            Self::Appointment(_) | Self::AppointmentEnded(_) => format!("appointment.{}", self.status()),
            Self::Outcome(_) | Self::OutcomeInconclusive => "call.outcome".to_owned(),
            Self::Lifecycle(_)
            | Self::Inconclusive
            | Self::RetryScheduled(_)
            | Self::Exhausted(_)
            | Self::JobCanceled(_) => format!("call.{}", self.status()),
        }
    }
}
