//! Endings of a call, and the events that must have happened before each of them.
//!
//! Used for providers whose webhooks repeat the whole call. Everything that a webhook repeats becomes an implied call
//! event. **So each webhook repairs the loss of the earlier ones.** Example: `call_ended` of an answered call implies
//! `ringing` and `in_progress`, in case `call_started` was lost.

use switchhook_domain::{CallEvent, EventKind, NeverDialled, Timestamp};

use crate::call_events::CallEventSet;

#[derive(Clone, Copy)]
pub(crate) enum Ending {
    Answered {
        kind: EventKind,
        voicemail: bool,
    },
    NotAnswered {
        kind: EventKind,
        rang: bool,
        /// True if a retry cannot help: the number does not exist, or may not be called.
        permanent: bool,
    },
    /// The provider accepted the dial and then dialled nobody, for this reason.
    NeverDialled(NeverDialled),
    /// The call is over, but nothing says whether anybody answered.
    Unclear,
}

impl Ending {
    pub(crate) const COMPLETED: Self = Self::Answered { kind: EventKind::Completed, voicemail: false };
    pub(crate) const VOICEMAIL: Self = Self::Answered { kind: EventKind::Completed, voicemail: true };
    pub(crate) const FAILED_AFTER_ANSWER: Self = Self::Answered { kind: EventKind::Failed, voicemail: false };
    pub(crate) const FAILED: Self = Self::NotAnswered { kind: EventKind::Failed, rang: false, permanent: false };
    pub(crate) const FAILED_PERMANENTLY: Self =
        Self::NotAnswered { kind: EventKind::Failed, rang: false, permanent: true };
    pub(crate) const CANCELED: Self = Self::NotAnswered { kind: EventKind::Canceled, rang: false, permanent: false };
    pub(crate) const BUSY: Self = Self::NotAnswered { kind: EventKind::Busy, rang: true, permanent: false };
    pub(crate) const NO_ANSWER: Self = Self::NotAnswered { kind: EventKind::NoAnswer, rang: true, permanent: false };

    /// Call events of a webhook that reports this ending.
    pub(crate) fn reported(self, times: CallTimes) -> CallEventSet {
        let mut call_events = CallEventSet::new(Some(self.event(self.kind(), times.ended_at)));
        self.imply_earlier_events(&mut call_events, times);
        call_events
    }

    /// Call events of a webhook that reports an outcome and repeats this ending. An unclear ending is not implied,
    /// because the call may not be over.
    pub(crate) fn implied_with(self, outcome: Option<EventKind>, times: CallTimes) -> CallEventSet {
        let mut call_events = CallEventSet::new(outcome.map(|kind| self.event(kind, times.ended_at)));
        self.imply_earlier_events(&mut call_events, times);
        match self {
            Self::Answered { kind, .. } | Self::NotAnswered { kind, .. } => {
                call_events.imply(kind, times.ended_at, None);
            }
            Self::NeverDialled(_) => call_events.imply(EventKind::Failed, times.ended_at, None),
            Self::Unclear => {}
        }
        call_events.mark_failure(self.is_permanent(), self.never_dialled());
        call_events
    }

    /// Kind of the reported event. An unclear ending counts as `completed`: the domain applies that only once another
    /// webhook says that the call was answered.
    fn kind(self) -> EventKind {
        match self {
            Self::Answered { kind, .. } | Self::NotAnswered { kind, .. } => kind,
            Self::NeverDialled(_) => EventKind::Failed,
            Self::Unclear => EventKind::Completed,
        }
    }

    fn is_permanent(self) -> bool {
        match self {
            Self::NotAnswered { permanent, .. } => permanent,
            Self::Answered { .. } | Self::NeverDialled(_) | Self::Unclear => false,
        }
    }

    fn never_dialled(self) -> Option<NeverDialled> {
        match self {
            Self::NeverDialled(reason) => Some(reason),
            Self::Answered { .. } | Self::NotAnswered { .. } | Self::Unclear => None,
        }
    }

    fn event(self, kind: EventKind, occurred_at: Option<Timestamp>) -> CallEvent {
        let failed = kind == EventKind::Failed;
        let (permanent, never_dialled) = (failed && self.is_permanent(), self.never_dialled().filter(|_| failed));
        CallEvent { kind, implied: false, occurred_at, sequence: None, permanent, never_dialled }
    }

    fn imply_earlier_events(self, call_events: &mut CallEventSet, times: CallTimes) {
        let started_at = times.earliest();
        match self {
            Self::Answered { voicemail, .. } => {
                call_events.imply(EventKind::Ringing, started_at, None);
                call_events.imply(EventKind::InProgress, started_at, None);
                if voicemail {
                    call_events.imply(EventKind::VoicemailDetected, times.ended_at, None);
                }
            }
            Self::NotAnswered { rang: true, .. } => call_events.imply(EventKind::Ringing, started_at, None),
            Self::NotAnswered { rang: false, .. } | Self::NeverDialled(_) | Self::Unclear => {}
        }
    }
}

/// Start and end of a call, as far as the provider gives them.
#[derive(Clone, Copy)]
pub(crate) struct CallTimes {
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
}

impl CallTimes {
    /// The earlier of both times. A provider's clock that ran backwards must not put the answer after the end.
    fn earliest(self) -> Option<Timestamp> {
        match (self.started_at, self.ended_at) {
            (Some(started), Some(ended)) => Some(started.min(ended)),
            (started, ended) => started.or(ended),
        }
    }
}
