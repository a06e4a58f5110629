//! Dials that were not made, and whether they count as attempts all the same.
//!
//! - An attempt was **not dialled** if Switchhook asked the provider to dial, the provider did not, and no event that names the attempt
//!   is evidence of a dial.
//! - Such an attempt is **withdrawn** if no other event is evidence of it either. Then it does not count and is not shown.
//!
//! **Evidence of an attempt is never without one.** An event that names no attempt belongs to those that had started by then. If no
//! dial of these was made, the latest of them counts after all. Example: the provider did not make the dial, and the person then
//! confirms by text message. Otherwise nobody would take notice of the answer, and the person would be dialled.

use crate::call::{Call, HistoryEntry, WITHDRAWN_DIALS_MAX};
use crate::event::{EventId, EventKind, NeverDialled};
use crate::provider::Provider;
use crate::time::Timestamp;

/// Dial that a provider accepted and did not make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undialled {
    pub provider: Provider,
    /// Time at which Switchhook asked the provider.
    pub dialled_at: Timestamp,
    pub reason: NeverDialled,
}

impl HistoryEntry {
    /// Returns the kind as which an attempt folds the event. If the attempt counts although it `was_not_dialled`, the report of that
    /// is no ending of the attempt.
    pub(crate) fn folded_kind(&self, was_not_dialled: bool) -> EventKind {
        if was_not_dialled && self.is_withdrawal() { EventKind::DialNotFound } else { self.event.kind }
    }
}

impl Call {
    /// True if Switchhook asked the provider to dial, and the provider did not: it has no such call, or says that it did not dial. False
    /// as soon as an event that names the attempt is evidence of a dial. An answer or a report that shows that the provider has the call
    /// disproves that it has none, but it may still not dial it.
    pub(crate) fn was_not_dialled(&self, index: usize) -> bool {
        let is_dialled = self.attempt_records.get(index).is_some_and(|record| record.dialled_at.is_some());
        let entries = || self.history.iter().filter(|entry| entry.attempt_index == Some(index));
        let is_known = || entries().any(HistoryEntry::disproves_not_found);
        is_dialled
            && !entries().any(HistoryEntry::disproves_withdrawal)
            && entries().any(|entry| entry.event.never_dialled.is_some() || entry.is_withdrawal() && !is_known())
    }

    /// True if the attempt was not dialled, and no event that names no attempt belongs to it. Such an attempt does not count and is
    /// not shown.
    pub(crate) fn is_withdrawn(&self, index: usize) -> bool {
        self.was_not_dialled(index) && !self.has_unnamed_evidence(index)
    }

    /// True if an event that names no attempt is evidence, and belongs to this attempt because no attempt that had started by then was
    /// dialled. Of these it is the latest. If none had started, it is the first attempt.
    fn has_unnamed_evidence(&self, index: usize) -> bool {
        let is_unnamed = |entry: &&HistoryEntry| entry.attempt_index.is_none() && entry.disproves_withdrawal();
        let mut unnamed = self.history.iter().filter(is_unnamed).peekable();
        if unnamed.peek().is_none() {
            return false;
        }
        let starts = self.starts();
        let starts: Vec<(Timestamp, usize, bool)> =
            starts.into_iter().map(|(started_at, index)| (started_at, index, self.was_not_dialled(index))).collect();
        unnamed.any(|entry| {
            let had_started =
                |(started_at, index, _): &&(Timestamp, usize, bool)| self.had_started(*index, *started_at, entry);
            let latest = starts.iter().rfind(had_started).or_else(|| starts.first());
            latest.is_some_and(|(_, latest, _)| *latest == index)
                && starts.iter().filter(had_started).all(|(_, _, was_not_dialled)| *was_not_dialled)
        })
    }

    /// Returns the number of dials that were not made, and do not count as attempts.
    pub(crate) fn withdrawn_dials(&self) -> usize {
        (0..self.attempt_records.len()).filter(|index| self.is_withdrawn(*index)).count()
    }

    /// True if the row has room for the record of another dial, should that dial not be made. See [`WITHDRAWN_DIALS_MAX`].
    #[must_use]
    pub fn has_room_for_dial(&self) -> bool {
        self.withdrawn_dials() < WITHDRAWN_DIALS_MAX
    }

    /// Returns what an event says about the health of a provider, if it is the first to say that a dial of Switchhook's was not made.
    /// `None` if it does not say that, if an earlier event did, or if the provider dialled after all.
    #[must_use]
    pub fn undialled(&self, event_id: &EventId) -> Option<Undialled> {
        let withdraws = |entry: &&HistoryEntry| entry.source_event_id == *event_id && entry.is_withdrawal();
        let index = self.history.iter().find(withdraws)?.attempt_index.filter(|index| self.was_not_dialled(*index))?;
        let first = self.history.iter().find(|entry| entry.attempt_index == Some(index) && entry.is_withdrawal())?;
        let record = self.attempt_records.get(index)?;
        Some(Undialled {
            provider: record.provider?,
            dialled_at: record.dialled_at?,
            reason: first.event.never_dialled.filter(|_| first.source_event_id == *event_id)?,
        })
    }
}
