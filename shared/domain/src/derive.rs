//! The next row of a call: everything that is computed from its history, and its new announcements.

use crate::announce::{self, Cause};
use crate::attempt::AttemptState;
use crate::call::{Call, Disposition, HistoryEntry, Policy};
use crate::event::EventKind;
use crate::machine::Verdict;
use crate::time::Timestamp;

/// Next row of a call, made by a fold or by a worker. It must still be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    pub call: Call,
    /// Number of announcements, at the end of the call's list, that are new.
    pub new_announcements: usize,
}

impl Call {
    /// True if the row stores the job and the dispositions that follow from its history.
    #[must_use]
    pub fn matches_history(&self) -> bool {
        let mut derived = self.clone();
        let attempts = derived.attempts();
        derived.job = derived.derived_job(&attempts);
        derived.derive_dispositions(&attempts);
        derived.job == self.job && derived.history == self.history
    }

    /// Derives everything from the history again, adds the new announcements and raises the version.
    pub(crate) fn rederive(mut self, cause: Cause, policy: &Policy, now: Timestamp) -> Transition {
        for index in 0..self.attempt_records.len() {
            let provider = self.attempt_provider(index);
            if let Some(record) = self.attempt_records.get_mut(index) {
                record.awaits_outcome = provider.is_none_or(|provider| policy.outcome_providers.contains(provider));
            }
        }
        let attempts = self.attempts();
        let was_pending = self.is_pending();
        self.job = self.derived_job(&attempts);
        self.derive_dispositions(&attempts);
        let new = announce::new_announcements(&self, &attempts, cause, now);
        let new_announcements = new.len();
        self.announcements.extend(new);
        // A change of `wake_at` costs a write to the index, so an earlier time stays. The worker that wakes the call at that
        // time finds nothing to do, and sets a later one. But if the call became pending or ceased to be, it moves to another
        // part of the index. That costs a write anyway, so the exact time is set.
        let kept = self.wake_at.filter(|_| was_pending == self.is_pending());
        self.wake_at = match (kept, self.next_wake_at_from(&attempts, policy)) {
            (Some(kept), Some(next)) => Some(kept.min(next)),
            (None, next) => next,
            (Some(_), None) => None,
        };
        if self.wake_at != kept {
            self.wake_for = self.needed_work(&attempts);
        }
        self.in_flight = self.place_in_flight(&attempts);
        self.settled_at = if self.wake_at.is_none() { self.settled_at.or(Some(now)) } else { None };
        self.version += 1;
        self.updated_at = now;
        Transition { call: self, new_announcements }
    }

    /// Gives every entry of the history its disposition. An event that belongs to several attempts gets the strongest verdict.
    pub(crate) fn derive_dispositions(&mut self, attempts: &[AttemptState]) {
        let retry = self.external_retry(attempts);
        let withdrawn: Vec<bool> = (0..self.attempt_records.len()).map(|index| self.is_withdrawn(index)).collect();
        let mut strongest = vec![Verdict::Unhandled; self.history.len()];
        for attempt in attempts {
            for (at, verdict) in &attempt.verdicts {
                if let Some(strongest) = strongest.get_mut(*at) {
                    *strongest = strongest.stronger(*verdict);
                }
            }
        }
        let is_finding = |entry: &HistoryEntry| {
            matches!(entry.event.kind, EventKind::ClaimExpired | EventKind::RetryMissed | EventKind::DriftFound)
                || entry.is_withdrawal() && entry.attempt_index.is_some_and(|of| withdrawn.get(of) == Some(&true))
        };
        for (index, (entry, verdict)) in self.history.iter_mut().zip(strongest).enumerate() {
            entry.disposition = match verdict {
                Verdict::Unhandled if is_finding(entry) || retry == Some(index) => Disposition::Applied,
                Verdict::Applied => Disposition::Applied,
                Verdict::Refused => Disposition::Refused,
                Verdict::Repeated | Verdict::Stale | Verdict::Unhandled => Disposition::Stale,
                Verdict::Parked => Disposition::Parked,
            };
        }
    }
}
