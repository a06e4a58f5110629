//! Forgetting the person of a call.
//!
//! **A forgotten call keeps its history and its announcements, and loses everything that describes the person.** So its state
//! stays, and each of its domain events keeps its content. No later event brings the person back, and Switchhook never dials
//! the call again.
//!
//! The stored events of the call are erased too. An erased event says when the person was forgotten. So a row that is rebuilt
//! from such events, or restored from a backup, is forgotten again by the fold.

use crate::attempt::AttemptState;
use crate::call::Call;
use crate::derive::Transition;
use crate::event::ProviderEvent;
use crate::time::Timestamp;

impl Call {
    /// Forgets the person of a call that has ended, for an operator. No state changes, and nothing is announced.
    ///
    /// `None` if the call is waiting or under way: its number is still needed.
    #[must_use]
    pub fn forget(&self, now: Timestamp) -> Option<Transition> {
        if !self.has_ended() {
            return None;
        }
        let mut call = self.clone();
        call.erase_person(now);
        call.version += 1;
        Some(Transition { call, new_announcements: 0 })
    }

    /// True if the call is neither waiting nor under way. A final job is not enough: a person who has decided may still be on the
    /// line. The outcome of an ended call may still arrive.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.job.is_final() && self.attempts().iter().all(AttemptState::has_ended)
    }

    /// Removes the numbers, the metadata and the hash of the request. A number could be guessed from the hash.
    pub(crate) fn erase_person(&mut self, forgotten_at: Timestamp) {
        self.forgotten_at = Some(self.forgotten_at.map_or(forgotten_at, |before| before.min(forgotten_at)));
        self.from = None;
        self.to = None;
        if let Some(plan) = &mut self.plan {
            plan.metadata.clear();
            plan.request_hash = None;
        }
    }
}

impl ProviderEvent {
    /// Returns the event without the person. The fold of such an event forgets the person of its call, or its entity.
    #[must_use]
    pub fn forgotten(self, at: Timestamp) -> Self {
        let forgotten_at = Some(self.forgotten_at.unwrap_or(at));
        Self { forgotten_at, ..self.without_person() }
    }

    /// Returns the event without the person. Its fold forgets nothing else of its call or entity.
    #[must_use]
    pub fn without_person(mut self) -> Self {
        if let Some(report) = &mut self.entity {
            report.data.clear();
        }
        Self { from: None, to: None, block_number: false, ..self }
    }
}
