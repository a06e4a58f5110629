//! Moves: what workers and users did to the job of a call, for display.
//!
//! **Moves are not part of the state.** The transitions add them, folds copy them, and nothing reads them to decide
//! anything. A call without them behaves the same.

use crate::time::Timestamp;

/// Maximum number of moves that a call keeps, the newest ones.
pub const MOVES_MAX: usize = 32;

/// Action of a worker or a user on the job of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    pub kind: MoveKind,
    pub at: Timestamp,
    /// Short name, for example `window_closed`. `None` if the kind says everything.
    pub reason: Option<String>,
}

/// Kind of a [`Move`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MoveKind {
    /// The scheduler claimed the call for a dialer.
    Claimed,
    /// A user triggered the call, and the scheduler claimed it at once.
    Triggered,
    /// The dialer returned its claim without dialling: the window is closed, the provider is not available, or the accounts could not be
    /// read. Or an event of the call is not folded. Or the claim has missed its place in the dial rate. Or the scheduler made no claim, because the
    /// window has closed.
    Returned,
    /// The dialer recorded the dial, and then asked the provider.
    Dialled,
    /// The provider placed no call, so the dialer took the dial back.
    Withdrawn,
    /// The reconciler found no event of the dial, and the provider could not tell yet.
    Doubted,
    /// A user canceled the call, or its booking was moved or canceled.
    Canceled,
    /// The booking of the call is again as it was when the call was created.
    Resumed,
    /// The provider will never place the call, so the dialer ended it.
    Rejected,
    /// The dialer ended the call without dialling, for example because of the do-not-call list. Or the scheduler ended it, because it was
    /// too late. Or an operator ended it, because the records of its dials were lost.
    GivenUp,
}

impl MoveKind {
    pub const ALL: [Self; 10] = [
        Self::Claimed,
        Self::Triggered,
        Self::Returned,
        Self::Dialled,
        Self::Withdrawn,
        Self::Doubted,
        Self::Canceled,
        Self::Resumed,
        Self::Rejected,
        Self::GivenUp,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Triggered => "triggered",
            Self::Returned => "returned",
            Self::Dialled => "dialled",
            Self::Withdrawn => "withdrawn",
            Self::Doubted => "doubted",
            Self::Canceled => "canceled",
            Self::Resumed => "resumed",
            Self::Rejected => "rejected",
            Self::GivenUp => "given_up",
        }
    }

    /// Returns the kind with this name. `None` if there is none.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}
