//! Transitions of the scheduler for a call that is due and cannot be dialled now.
//!
//! **They need no claim and no provider.** So a call also ends, or waits for its calling window, while no provider takes calls. The scheduler
//! reads no calls of providers without a rate, so these wait until one has a rate.

use super::WINDOW_CLOSED;
use crate::call::{Call, Policy};
use crate::derive::Transition;
use crate::moves::MoveKind;
use crate::plan::StopReason;
use crate::time::Timestamp;

impl Call {
    /// True if no attempt may begin any more, because the time [`not_after`](crate::Plan::not_after) has come.
    #[must_use]
    pub fn is_too_late(&self, now: Timestamp) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.is_too_late(now))
    }

    /// PENDING → FAILED, for the scheduler: the call is [too late](Self::is_too_late).
    ///
    /// `None` if the call is not pending, or not too late.
    #[must_use]
    pub fn expire(&self, policy: &Policy, now: Timestamp) -> Option<Transition> {
        self.pending_due_at().filter(|_| self.is_too_late(now))?;
        let reason = StopReason::TooLate;
        let mut call = self.clone();
        call.stop_reason = Some(reason);
        call.note_move(MoveKind::GivenUp, Some(reason.as_str()), now);
        Some(call.into_transition(policy, now))
    }

    /// Returns the time at which the calling window of the call opens. `None` if it is open, if the call has none, or if its time zone is
    /// unknown. In the last case the dialer ends the call.
    #[must_use]
    pub fn next_opening(&self, now: Timestamp) -> Option<Timestamp> {
        self.plan.as_ref()?.window.as_ref()?.next_opening(now).ok().flatten()
    }

    /// PENDING → PENDING, for the scheduler: the call became due while its calling window was open, and the window has closed. The call
    /// is due again when the window opens.
    ///
    /// `None` if the call is not due, or if there is no [opening](Self::next_opening) to wait for.
    #[must_use]
    pub fn await_opening(&self, policy: &Policy, now: Timestamp) -> Option<Transition> {
        let opening = self.next_opening(now).filter(|_| self.is_due(now))?;
        let mut call = self.clone();
        call.not_before = Some(opening);
        call.note_move(MoveKind::Returned, Some(WINDOW_CLOSED), now);
        Some(call.into_transition(policy, now))
    }
}
