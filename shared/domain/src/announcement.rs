//! The announcements of a call. They are stored as a list in the row of the call.

use crate::lifecycle::{INCONCLUSIVE, Lifecycle, Outcome};
use crate::machine::State;
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
}

impl AppointmentStatus {
    pub const ALL: [Self; 9] = [
        Self::Pending,
        Self::Dialing,
        Self::Connected,
        Self::Confirmed,
        Self::Declined,
        Self::NoAnswer,
        Self::Voicemail,
        Self::Retrying,
        Self::Inconclusive,
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
    /// A transition made by a worker, at this time.
    Transition(Timestamp),
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
    Exhausted,
    /// The user canceled the call.
    CanceledByUser,
    /// The row did not match the call's events and was repaired. `before` and `after` are the lifecycle labels of the latest
    /// attempt, before and after the repair.
    DriftRepaired {
        before: &'static str,
        after: &'static str,
    },
    Appointment(AppointmentStatus),
}

impl AnnouncementKind {
    /// True if the announcement reports an ending. A later announcement of the same attempt is then a correction.
    pub(crate) const fn is_ending(self) -> bool {
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

    pub(crate) const fn is_of_appointment(self) -> bool {
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

    /// True if the announcement reports the state of an attempt.
    pub(crate) const fn is_of_lifecycle(self) -> bool {
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

    /// True if the announcement reports that a row was repaired.
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

    pub(crate) const fn lifecycle(self) -> Option<Lifecycle> {
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

    pub(crate) fn outcome(self) -> Option<Outcome> {
        let is_own = |outcome: &&Outcome| self == Self::Appointment(AppointmentStatus::from_outcome(**outcome));
        Outcome::ALL.iter().find(is_own).copied()
    }

    /// Returns the `status` of the domain event.
    pub(crate) const fn status(self) -> &'static str {
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

    /// Returns the `type` of the domain event.
    pub(crate) fn event_type(self) -> String {
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
