//! The two state machines of an attempt, as tables: its lifecycle (what the line does) and its outcome (whether
//! the person was reached, and decided).

use std::sync::OnceLock;

use crate::event::EventKind::{
    self, Busy, Canceled, Completed, Failed, InProgress, NoAnswer, Ringing, UserConfirmed, UserDeclined,
    VoicemailDetected,
};
use crate::machine::{INPUTS_MAX, Input, Machine, State, states};
use Lifecycle as L;
use Outcome as O;

const _: () = assert!(EventKind::ALL.len() <= INPUTS_MAX, "each kind of event is an input with a number");

impl Input for EventKind {
    fn number(self) -> u8 {
        self as u8
    }
}

states! {
    /// State of an attempt. An answered call has precedence over an unanswered one. So the endings that can follow an answer
    /// exist twice: `Busy` and `Failed` before the answer, `BusyAfterAnswer` and `FailedAfterAnswer` after it.
    pub enum Lifecycle {
        Initiated
        < Ringing
        < /// The provider reported that the call was completed, but not that it was answered. Presumed when the deadline passed.
          PresumedCompleted
        < NoAnswer
        < Canceled
        < Busy
        < Failed
        < InProgress
        < /// The person decided or a voicemail answered, and the end of the call was never reported. Presumed when the deadline passed.
          PresumedCompletedAfterAnswer
        < BusyAfterAnswer
        < FailedAfterAnswer
        < Completed
    }
}

/// Machine of the [`Lifecycle`]. Its inputs are call events.
pub static LIFECYCLE: Machine<Lifecycle, EventKind> = Machine {
    initial: L::Initiated,
    edges: &[
        (L::Initiated, &[(Ringing, L::Ringing), (Failed, L::Failed), (Canceled, L::Canceled)]),
        (
            L::Ringing,
            &[
                (InProgress, L::InProgress),
                (Busy, L::Busy),
                (NoAnswer, L::NoAnswer),
                (Failed, L::Failed),
                (Canceled, L::Canceled),
            ],
        ),
        (L::InProgress, &[(Completed, L::Completed), (Failed, L::FailedAfterAnswer), (Busy, L::BusyAfterAnswer)]),
    ],
    presumed_edges: &[
        (L::Initiated, &[(NoAnswer, L::NoAnswer), (Busy, L::Busy), (Completed, L::PresumedCompleted)]),
        (L::Ringing, &[(Completed, L::PresumedCompleted)]),
        (
            L::InProgress,
            &[
                (UserConfirmed, L::PresumedCompletedAfterAnswer),
                (UserDeclined, L::PresumedCompletedAfterAnswer),
                (VoicemailDetected, L::PresumedCompletedAfterAnswer),
            ],
        ),
    ],
    sources: OnceLock::new(),
};

states! {
    /// Result of an attempt: whether it reached the person, and what the person answered.
    pub enum Outcome { Dialing < NoAnswer < Connected < Voicemail < Declined < Confirmed }
}

/// Machine of the [`Outcome`]. Its inputs are the same call events.
pub static OUTCOME: Machine<Outcome, EventKind> = Machine {
    initial: O::Dialing,
    edges: &[
        (
            O::Dialing,
            &[
                (InProgress, O::Connected),
                (NoAnswer, O::NoAnswer),
                (Busy, O::NoAnswer),
                (Failed, O::NoAnswer),
                (Canceled, O::NoAnswer),
                (VoicemailDetected, O::Voicemail),
            ],
        ),
        (
            O::Connected,
            &[(UserConfirmed, O::Confirmed), (UserDeclined, O::Declined), (VoicemailDetected, O::Voicemail)],
        ),
    ],
    presumed_edges: &[(O::Dialing, &[(UserConfirmed, O::Confirmed), (UserDeclined, O::Declined)])],
    sources: OnceLock::new(),
};

impl Lifecycle {
    /// True if no state follows.
    #[must_use]
    pub const fn is_ending(self) -> bool {
        match self {
            L::Initiated | L::Ringing | L::InProgress => false,
            L::PresumedCompleted
            | L::PresumedCompletedAfterAnswer
            | L::NoAnswer
            | L::Canceled
            | L::Busy
            | L::Failed
            | L::BusyAfterAnswer
            | L::FailedAfterAnswer
            | L::Completed => true,
        }
    }

    /// Returns the name for display and for the API. Endings of the same kind have the same name.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            L::Initiated => "initiated",
            L::Ringing => "ringing",
            L::NoAnswer => "no_answer",
            L::Canceled => "canceled",
            L::InProgress => "in_progress",
            L::Busy | L::BusyAfterAnswer => "busy",
            L::Failed | L::FailedAfterAnswer => "failed",
            L::Completed | L::PresumedCompleted | L::PresumedCompletedAfterAnswer => "completed",
        }
    }
}

impl Outcome {
    /// True if no state follows.
    #[must_use]
    pub const fn is_ending(self) -> bool {
        match self {
            O::Dialing | O::Connected => false,
            O::NoAnswer | O::Voicemail | O::Declined | O::Confirmed => true,
        }
    }

    /// Returns the name for display and for the API.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            O::Dialing => "dialing",
            O::NoAnswer => "no_answer",
            O::Connected => "connected",
            O::Voicemail => "voicemail",
            O::Declined => "declined",
            O::Confirmed => "confirmed",
        }
    }
}

/// Label of an attempt, or of an outcome, that timed out without an ending. It is not a state of a machine: no event leads to
/// it.
pub const INCONCLUSIVE: &str = "inconclusive";

/// Returns each label that the lifecycle of an attempt is shown with, once.
#[must_use]
pub fn lifecycle_labels() -> Vec<&'static str> {
    let mut labels: Vec<&str> = Vec::new();
    for label in Lifecycle::ALL.iter().map(|lifecycle| lifecycle.label()).chain([INCONCLUSIVE]) {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    labels
}

#[cfg(test)]
mod tests;
