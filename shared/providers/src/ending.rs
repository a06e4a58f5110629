//! How a call ended, and what must have come before such an ending. For providers whose reports repeat the whole call: what a report
//! repeats is emitted as implied, so that each mends the loss of those before it.

use switchhook_domain::{CallEvent, EventKind, Timestamp};

use crate::report::Facts;

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
        lasting: bool,
    },
    /// Over, but nothing says whether anybody answered.
    Unclear,
}

impl Ending {
    pub(crate) const COMPLETED: Self = Self::Answered { kind: EventKind::Completed, voicemail: false };
    pub(crate) const VOICEMAIL: Self = Self::Answered { kind: EventKind::Completed, voicemail: true };
    pub(crate) const FAILED_AFTER_ANSWER: Self = Self::Answered { kind: EventKind::Failed, voicemail: false };
    pub(crate) const FAILED: Self = Self::NotAnswered { kind: EventKind::Failed, rang: false, lasting: false };
    pub(crate) const FAILED_FOR_GOOD: Self = Self::NotAnswered { kind: EventKind::Failed, rang: false, lasting: true };
    pub(crate) const CANCELED: Self = Self::NotAnswered { kind: EventKind::Canceled, rang: false, lasting: false };
    pub(crate) const BUSY: Self = Self::NotAnswered { kind: EventKind::Busy, rang: true, lasting: false };
    pub(crate) const NO_ANSWER: Self = Self::NotAnswered { kind: EventKind::NoAnswer, rang: true, lasting: false };

    /// How a report of the end shows. An unclear one completes a call that another report says was answered, and waits for that
    /// report.
    fn kind(self) -> EventKind {
        match self {
            Self::Answered { kind, .. } | Self::NotAnswered { kind, .. } => kind,
            Self::Unclear => EventKind::Completed,
        }
    }

    fn is_lasting(self) -> bool {
        match self {
            Self::NotAnswered { lasting, .. } => lasting,
            Self::Answered { .. } | Self::Unclear => false,
        }
    }

    /// What the report of such an end says.
    pub(crate) fn reported(self, span: Span) -> Facts {
        let mut facts = Facts::new(Some(self.event(self.kind(), span.ended_at)));
        self.imply_path(&mut facts, span);
        facts
    }

    /// What a report says that knows of such an end, and whose own matter is the outcome. An unclear end is not implied: the call may
    /// not be over.
    pub(crate) fn implied_by(self, outcome: Option<EventKind>, span: Span) -> Facts {
        let mut facts = Facts::new(outcome.map(|kind| self.event(kind, span.ended_at)));
        self.imply_path(&mut facts, span);
        match self {
            Self::Answered { kind, .. } | Self::NotAnswered { kind, .. } => facts.imply(kind, span.ended_at, None),
            Self::Unclear => {}
        }
        if self.is_lasting() {
            facts.set_lasting();
        }
        facts
    }

    fn event(self, kind: EventKind, occurred_at: Option<Timestamp>) -> CallEvent {
        let lasting = kind == EventKind::Failed && self.is_lasting();
        CallEvent { kind, implied: false, occurred_at, sequence: None, lasting }
    }

    /// What must have come before.
    fn imply_path(self, facts: &mut Facts, span: Span) {
        let began_at = span.began_at();
        match self {
            Self::Answered { voicemail, .. } => {
                facts.imply(EventKind::Ringing, began_at, None);
                facts.imply(EventKind::InProgress, began_at, None);
                if voicemail {
                    facts.imply(EventKind::VoicemailDetected, span.ended_at, None);
                }
            }
            Self::NotAnswered { rang: true, .. } => facts.imply(EventKind::Ringing, began_at, None),
            Self::NotAnswered { rang: false, .. } | Self::Unclear => {}
        }
    }
}

/// From when to when a call was, as far as its provider says.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
}

impl Span {
    /// A clock that runs backwards must not put the answer after the end.
    fn began_at(self) -> Option<Timestamp> {
        match (self.started_at, self.ended_at) {
            (Some(started), Some(ended)) => Some(started.min(ended)),
            (started, ended) => started.or(ended),
        }
    }
}
