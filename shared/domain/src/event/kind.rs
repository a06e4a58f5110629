//! Kinds of call events.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Fact that a call event reports. The order of the variants decides between two events with the same time and sequence: the kind
/// that is listed first comes first. Kinds that happen earlier in a call are listed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    Initiated,
    Ringing,
    /// The call was answered.
    InProgress,
    VoicemailDetected,
    /// The person said no to the appointment.
    UserDeclined,
    /// The person said yes to the appointment.
    UserConfirmed,
    NoAnswer,
    Canceled,
    Busy,
    Failed,
    Completed,
    /// Another system places this call and will try again. Concerns the call, not an attempt.
    RetryScheduled,
    /// The provider was asked and reports the attempt alive. Restarts the inactivity timeout. The call keeps only the latest such
    /// event of each attempt.
    Alive,
    /// The lease of a claim ended without a dial. Concerns the call, which keeps only the latest. Made by the reconciler alone.
    ClaimExpired,
    /// Switchhook dialled the attempt, no event about it has arrived, and the provider has no such call. So nothing was dialled.
    /// Made by the reconciler alone.
    DialNotFound,
    /// Another system announced a retry, and no further attempt started until the inactivity timeout passed. Concerns the call.
    /// Made by the reconciler alone.
    RetryMissed,
    /// The row of the call disagrees with the provider or with its own history, or an operator asked for a refold. Makes the
    /// consumer fold the call again from the inbox. Concerns the call.
    DriftFound,
    /// No event of the attempt arrived for its inactivity timeout. Made by the reconciler alone.
    DeadlinePassed,
}

impl EventKind {
    pub const ALL: [Self; 18] = [
        Self::Initiated,
        Self::Ringing,
        Self::InProgress,
        Self::VoicemailDetected,
        Self::UserDeclined,
        Self::UserConfirmed,
        Self::NoAnswer,
        Self::Canceled,
        Self::Busy,
        Self::Failed,
        Self::Completed,
        Self::RetryScheduled,
        Self::Alive,
        Self::ClaimExpired,
        Self::DialNotFound,
        Self::RetryMissed,
        Self::DriftFound,
        Self::DeadlinePassed,
    ];

    /// Returns the name used in rows, messages, timelines and derived ids.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initiated => "initiated",
            Self::Ringing => "ringing",
            Self::InProgress => "in_progress",
            Self::VoicemailDetected => "voicemail_detected",
            Self::UserDeclined => "user_declined",
            Self::UserConfirmed => "user_confirmed",
            Self::NoAnswer => "no_answer",
            Self::Canceled => "canceled",
            Self::Busy => "busy",
            Self::Failed => "failed",
            Self::Completed => "completed",
            Self::RetryScheduled => "retry_scheduled",
            Self::Alive => "alive",
            Self::ClaimExpired => "claim_expired",
            Self::DialNotFound => "dial_not_found",
            Self::RetryMissed => "retry_missed",
            Self::DriftFound => "drift_found",
            Self::DeadlinePassed => "deadline_passed",
        }
    }

    /// True if the kind belongs to the beginning of an attempt, up to the answer. If the provider names no time for such an event,
    /// it comes before every event with a time. All other events without a time come last.
    #[must_use]
    pub const fn is_beginning(self) -> bool {
        match self {
            Self::Initiated | Self::Ringing | Self::InProgress => true,
            Self::VoicemailDetected
            | Self::UserDeclined
            | Self::UserConfirmed
            | Self::NoAnswer
            | Self::Canceled
            | Self::Busy
            | Self::Failed
            | Self::Completed
            | Self::RetryScheduled
            | Self::Alive
            | Self::ClaimExpired
            | Self::DialNotFound
            | Self::RetryMissed
            | Self::DriftFound
            | Self::DeadlinePassed => false,
        }
    }

    /// True if the kind concerns the call. The attempt that such an event names is then ignored.
    pub(crate) const fn is_call_level(self) -> bool {
        match self {
            Self::RetryScheduled | Self::ClaimExpired | Self::RetryMissed | Self::DriftFound => true,
            Self::Initiated
            | Self::Ringing
            | Self::InProgress
            | Self::VoicemailDetected
            | Self::UserDeclined
            | Self::UserConfirmed
            | Self::NoAnswer
            | Self::Canceled
            | Self::Busy
            | Self::Failed
            | Self::Completed
            | Self::Alive
            | Self::DialNotFound
            | Self::DeadlinePassed => false,
        }
    }

    /// True if the kind is evidence of what happened in a call. Kinds that only Switchhook makes, such as `deadline_passed`, are
    /// not.
    pub(crate) const fn is_evidence(self) -> bool {
        match self {
            Self::Alive
            | Self::ClaimExpired
            | Self::DialNotFound
            | Self::RetryMissed
            | Self::DriftFound
            | Self::DeadlinePassed => false,
            Self::Initiated
            | Self::Ringing
            | Self::InProgress
            | Self::VoicemailDetected
            | Self::UserDeclined
            | Self::UserConfirmed
            | Self::NoAnswer
            | Self::Canceled
            | Self::Busy
            | Self::Failed
            | Self::Completed
            | Self::RetryScheduled => true,
        }
    }

    /// True if an event of the kind restarts the inactivity timeout of its attempt. The promise of another attempt does not.
    pub(crate) fn restarts_timeout(self) -> bool {
        self == Self::Alive || self.is_evidence() && !self.is_call_level()
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
