//! How a call ended, and what must have come before such an ending. For providers whose reports repeat the whole call: what a report
//! repeats is emitted as implied, so that each mends the loss of those before it.

use switchhook_domain::{CallEvent, EventKind, Timestamp};

use crate::normalized::CallEventSet;

#[derive(Clone, Copy)]
pub(crate) enum Ending {
    Answered {
        kind: EventKind,
        voicemail: bool,
    },
    NotAnswered {
        kind: EventKind,
        rang: bool,
        /// Trying again cannot help.
        permanent: bool,
    },
    /// Over, but nothing says whether anybody answered.
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

    /// How a report of the end shows. An unclear one completes a call that another report says was answered, and waits for that
    /// report.
    fn kind(self) -> EventKind {
        match self {
            Self::Answered { kind, .. } | Self::NotAnswered { kind, .. } => kind,
            Self::Unclear => EventKind::Completed,
        }
    }

    fn is_permanent(self) -> bool {
        match self {
            Self::NotAnswered { permanent, .. } => permanent,
            Self::Answered { .. } | Self::Unclear => false,
        }
    }

    /// What the report of such an end says.
    pub(crate) fn into_call_events(self, times: CallTimes) -> CallEventSet {
        let mut call_events = CallEventSet::new(Some(self.event(self.kind(), times.ended_at)));
        self.imply_earlier_events(&mut call_events, times);
        call_events
    }

    /// What a report says that knows of such an end, and whose own matter is the outcome. An unclear end is not implied: the call may
    /// not be over.
    pub(crate) fn with_outcome(self, outcome: Option<EventKind>, times: CallTimes) -> CallEventSet {
        let mut call_events = CallEventSet::new(outcome.map(|kind| self.event(kind, times.ended_at)));
        self.imply_earlier_events(&mut call_events, times);
        match self {
            Self::Answered { kind, .. } | Self::NotAnswered { kind, .. } => {
                call_events.imply(kind, times.ended_at, None)
            }
            Self::Unclear => {}
        }
        if self.is_permanent() {
            call_events.mark_permanent();
        }
        call_events
    }

    fn event(self, kind: EventKind, occurred_at: Option<Timestamp>) -> CallEvent {
        let permanent = kind == EventKind::Failed && self.is_permanent();
        CallEvent { kind, implied: false, occurred_at, sequence: None, permanent: permanent }
    }

    /// What must have come before.
    fn imply_earlier_events(self, call_events: &mut CallEventSet, times: CallTimes) {
        let began_at = times.began_at();
        match self {
            Self::Answered { voicemail, .. } => {
                call_events.imply(EventKind::Ringing, began_at, None);
                call_events.imply(EventKind::InProgress, began_at, None);
                if voicemail {
                    call_events.imply(EventKind::VoicemailDetected, times.ended_at, None);
                }
            }
            Self::NotAnswered { rang: true, .. } => call_events.imply(EventKind::Ringing, began_at, None),
            Self::NotAnswered { rang: false, .. } | Self::Unclear => {}
        }
    }
}

/// From when to when a call was, as far as its provider says.
#[derive(Clone, Copy)]
pub(crate) struct CallTimes {
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
}

impl CallTimes {
    /// A clock that runs backwards must not put the answer after the end.
    fn began_at(self) -> Option<Timestamp> {
        match (self.started_at, self.ended_at) {
            (Some(started), Some(ended)) => Some(started.min(ended)),
            (started, ended) => started.or(ended),
        }
    }
}
