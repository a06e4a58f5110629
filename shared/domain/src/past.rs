//! A call as Switchhook knew it at an earlier time.
//!
//! Every entry of the history has the time at which it was folded. So folding only the entries up to a given time gives the state
//! that the row had then. The row alone is enough: nothing else is read.
//!
//! Not everything can be computed from the history:
//! - The job of a call that Switchhook places also depends on what its workers did. It is known as far back as the row holds
//!   their moves.
//! - The call keeps only the latest of the findings that repeat (`alive`, `claim_expired`).
//! - The row has only the latest manual trigger, and the latest pause before the next dial. Earlier ones are not known.
//! - Numbers and the appointment have no time, so they are the present ones.

use crate::announce::{self, Cause};
use crate::announcement::{Announcement, AnnouncementSource};
use crate::call::{Call, HistoryEntry, Job, JobState};
use crate::event::EventKind;
use crate::moves::{MOVES_MAX, Move, MoveKind};
use crate::plan::StopReason;
use crate::time::Timestamp;
use crate::transition::{ACCOUNTS_UNREAD, EVENTS_UNFOLDED, WINDOW_CLOSED};

/// Call as it was known at an earlier time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastCall {
    /// The call with the history, attempts, dispositions and announcements of that time. Nothing that its workers stored later is in
    /// it. Its version and its wake-up time are those of the present.
    pub call: Call,
    /// State of the job at that time. `None` if it depends on moves that the row no longer holds.
    pub job: Option<JobState>,
}

/// One write of a call's row that folded events or announced something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub at: Timestamp,
    /// Indexes into the history of the entries that the write added.
    pub entries: Vec<usize>,
    /// Indexes of the announcements that the write added.
    pub announcements: std::ops::Range<usize>,
}

impl Call {
    /// Returns the call as Switchhook knew it at `time`. `None` if it did not know the call yet.
    #[must_use]
    pub fn as_of(&self, time: Timestamp) -> Option<PastCall> {
        let writes = self.writes();
        let announced = writes.iter().filter(|write| write.at <= time).map(|write| write.announcements.end).max();
        let mut past = self.state_as_of(time)?;
        past.call.announcements = self.announcements.iter().take(announced.unwrap_or_default()).cloned().collect();
        // A later event may have moved in front of the one that an announcement was made from.
        past.call.announcements =
            past.call.announcements.iter().map(|announcement| past.reindexed(self, announcement)).collect();
        Some(past)
    }

    /// Returns the writes of the row that folded events or announced something, the earliest first.
    #[must_use]
    pub fn writes(&self) -> Vec<Write> {
        let folds = self.history.iter().map(|entry| entry.folded_at);
        let moves = self.announcements.iter().filter_map(|announcement| match announcement.source {
            AnnouncementSource::Transition(at) => Some(at),
            AnnouncementSource::Event(_) => None,
        });
        let mut times: Vec<Timestamp> = folds.chain(moves).collect();
        times.sort();
        times.dedup();
        let mut announced = 0;
        let mut writes: Vec<Write> = times
            .into_iter()
            .map(|at| {
                let entries = self.history.iter().enumerate().filter(|(_, entry)| entry.folded_at == at);
                let start = announced;
                announced += self.announced_at(at, start);
                Write { at, entries: entries.map(|(index, _)| index).collect(), announcements: start..announced }
            })
            .collect();
        // The last write made every announcement that no write before it is known to have made.
        if let Some(last) = writes.last_mut() {
            last.announcements.end = self.announcements.len();
        }
        writes
    }

    /// Returns the number of announcements that the write at this time made, if `made` were made before.
    fn announced_at(&self, at: Timestamp, made: usize) -> usize {
        let Some(mut past) = self.state_as_of(at) else { return 0 };
        let (before, rest) = self.announcements.split_at(made.min(self.announcements.len()));
        past.call.announcements = before.iter().map(|announcement| past.reindexed(self, announcement)).collect();
        if rest.first().is_some_and(|next| !next.appointment_known) {
            past.call.appointment_id = None;
        }
        let attempts = past.call.attempts();
        let new = announce::new_announcements(&past.call, &attempts, Cause::Events, at);
        // Announcements are only ever added at the end, in the order of `new`. Between two of them may be one that a worker made
        // before.
        let mut count = 0;
        for expected in &new {
            let is_expected = |next: &Announcement| is_same(expected, &past.reindexed(self, next));
            count += rest.iter().skip(count).position(is_expected).map_or(0, |found| found + 1);
        }
        let is_of_time = |next: &Announcement| match next.source {
            AnnouncementSource::Transition(moved_at) => moved_at == at,
            AnnouncementSource::Event(index) => {
                next.kind.is_drift_repaired() && self.history.get(index).is_some_and(|entry| entry.folded_at == at)
            }
        };
        count.max(rest.iter().rposition(is_of_time).map_or(0, |last| last + 1))
    }

    /// Does the same as [`Call::as_of`], but keeps the present announcements. So it costs one fold, not one for every write.
    #[must_use]
    pub fn state_as_of(&self, time: Timestamp) -> Option<PastCall> {
        if time < self.created_at {
            return None;
        }
        let mut call = self.clone();
        // Some writes of the row are no update of its state: a dial is in doubt, or the person is forgotten.
        call.moves.retain(|one| one.at <= time);
        call.forgotten_at = call.forgotten_at.filter(|at| *at <= time);
        if time >= self.updated_at {
            return Some(PastCall { call, job: Some(self.job.state()) });
        }
        let is_known = |entry: &&HistoryEntry| entry.folded_at <= time;
        call.history = self.history.iter().filter(is_known).cloned().collect();
        // Records stand in the order in which Switchhook learned of the attempts.
        let known_records = (0..self.attempt_records.len()).take_while(|index| self.knew_record(*index, time)).count();
        call.attempt_records.truncate(known_records);
        if self.plan.is_none() && call.history.is_empty() {
            return None;
        }
        self.remove_later_notes(&mut call, time);
        // If the call was stopped later, it was not stopped then.
        let is_stop = |one: &&Move| matches!(one.kind, MoveKind::Canceled | MoveKind::GivenUp | MoveKind::Rejected);
        let latest = call.moves.iter().rfind(|one| is_stop(one) || one.kind == MoveKind::Resumed);
        call.stop_reason = match latest.filter(is_stop) {
            None => None,
            // The call was resumed later.
            Some(stop) if stop.reason.as_deref() == Some(StopReason::BookingChanged.as_str()) => {
                Some(StopReason::BookingChanged)
            }
            Some(_) => call.stop_reason,
        };
        if let Some(plan) = &call.plan {
            call.job = Job::Pending { due_at: plan.due_at };
        }
        let attempts = call.attempts();
        call.job = call.derived_job(&attempts);
        let job = self.job_as_of(&call, time);
        call.settled_at = call.settled_at.filter(|at| *at <= time);
        call.derive_dispositions(&attempts);
        Some(PastCall { call, job })
    }

    /// Removes from `call` what workers and users stored after `time`. The row has only the latest value of each, so an earlier one
    /// that was replaced is not known any more.
    fn remove_later_notes(&self, call: &mut Self, time: Timestamp) {
        let later = || self.moves.iter().filter(|one| one.at > time);
        call.manual_trigger = call.manual_trigger.filter(|trigger| trigger.at <= time);
        if later().any(changes_not_before) {
            call.not_before = None;
        }
        // Each dial that is taken back adds one provider, or moves it to the end if it has refused before.
        let refused_later = later().filter(|one| one.kind == MoveKind::Withdrawn).count();
        if let Some(refusals) = &mut call.refusals {
            refusals.providers.truncate(refusals.providers.len().saturating_sub(refused_later));
        }
    }

    /// Returns the state of the job at `time`. `call` is the call of that time, with the job that its history gives.
    fn job_as_of(&self, call: &Self, time: Timestamp) -> Option<JobState> {
        let derived = call.job.state();
        let is_decided = self.plan.is_none()
            || match derived {
                JobState::InProgress | JobState::Completed | JobState::Missed => true,
                JobState::Pending | JobState::Claimed | JobState::Failed | JobState::Canceled => false,
            };
        let moves_are_dropped =
            self.moves.len() == MOVES_MAX && self.moves.first().is_some_and(|oldest| time < oldest.at);
        if is_decided || moves_are_dropped {
            return Some(derived).filter(|_| is_decided);
        }
        let newest = call.moves.iter().rposition(|one| one.kind != MoveKind::Doubted);
        let Some((at, newest)) = newest.and_then(|at| Some((at, call.moves.get(at)?))) else { return Some(derived) };
        match newest.kind {
            MoveKind::Claimed | MoveKind::Triggered if derived == JobState::Pending => {
                self.claim_as_of(at, newest, time)
            }
            // The dialer took this dial back later, so no record of it is left.
            MoveKind::Dialled if call.attempt_records.iter().all(|record| record.dialled_at != Some(newest.at)) => {
                Some(JobState::InProgress)
            }
            MoveKind::Claimed
            | MoveKind::Triggered
            | MoveKind::Dialled
            | MoveKind::Returned
            | MoveKind::Withdrawn
            | MoveKind::Doubted
            | MoveKind::Canceled
            | MoveKind::Resumed
            | MoveKind::Rejected
            | MoveKind::GivenUp => Some(derived),
        }
    }

    /// Returns the state of the job at `time`, after the claim that is the move at `index`. A claim may also end without a move,
    /// when its lease ends: then a `claim_expired` event tells, and the row keeps only the latest of these.
    fn claim_as_of(&self, index: usize, claim: &Move, time: Timestamp) -> Option<JobState> {
        let is_expiry =
            |entry: &&HistoryEntry| entry.event.kind == EventKind::ClaimExpired && entry.folded_at >= claim.at;
        let next = self.moves.get(index + 1..).and_then(|rest| rest.iter().find(|one| one.kind != MoveKind::Doubted));
        let latest = self.history.iter().find(is_expiry).map(|entry| entry.folded_at);
        let expired_at = latest.filter(|at| next.is_none_or(|next| *at <= next.at));
        let has_expired = next.is_some_and(|next| match next.kind {
            MoveKind::Claimed | MoveKind::Triggered => true,
            // This move may have been made after the claim had expired. The expiry of a later claim then took the place of that.
            MoveKind::Returned | MoveKind::Canceled => latest.is_some(),
            MoveKind::Dialled
            | MoveKind::Withdrawn
            | MoveKind::Doubted
            | MoveKind::Resumed
            | MoveKind::Rejected
            | MoveKind::GivenUp => false,
        });
        match expired_at {
            Some(at) if at <= time => Some(JobState::Pending),
            Some(_) => Some(JobState::Claimed),
            None => Some(JobState::Claimed).filter(|_| !has_expired),
        }
    }

    /// True if Switchhook knew of the attempt at `time`: it had dialled it, or folded an event of it.
    fn knew_record(&self, index: usize, time: Timestamp) -> bool {
        let Some(record) = self.attempt_records.get(index) else { return false };
        let is_of_unnamed = record.dialled_at.is_none() && (index == 0 || record.key.is_none());
        record.dialled_at.is_some_and(|at| at <= time)
            || self.history.iter().any(|entry| {
                let belongs = entry.attempt_index.map_or(is_of_unnamed, |of| of == index);
                belongs && entry.folded_at <= time
            })
    }
}

/// True if a move sets or clears [`Call::not_before`].
fn changes_not_before(one: &Move) -> bool {
    match one.kind {
        MoveKind::Triggered | MoveKind::Dialled | MoveKind::Withdrawn | MoveKind::Resumed => true,
        MoveKind::Returned => {
            matches!(one.reason.as_deref(), Some(WINDOW_CLOSED | EVENTS_UNFOLDED | ACCOUNTS_UNREAD))
        }
        MoveKind::Claimed | MoveKind::Doubted | MoveKind::Canceled | MoveKind::Rejected | MoveKind::GivenUp => false,
    }
}

/// True if two announcements say the same. The due time of a retry is not compared, because it may depend on a worker.
fn is_same(one: &Announcement, other: &Announcement) -> bool {
    let key =
        |announcement: &Announcement| (announcement.kind.event_type(), announcement.attempt_index, announcement.source);
    key(one) == key(other)
}

impl PastCall {
    /// Returns the announcement with a source that points into the history of that time.
    fn reindexed(&self, present: &Call, announcement: &Announcement) -> Announcement {
        let index_then = |index: usize| {
            let entry = present.history.get(index)?;
            self.call.history.iter().position(|other| {
                (&other.source_event_id, other.event.kind) == (&entry.source_event_id, entry.event.kind)
            })
        };
        let source = match announcement.source {
            AnnouncementSource::Event(index) => {
                AnnouncementSource::Event(index_then(index).unwrap_or(self.call.history.len()))
            }
            AnnouncementSource::Transition(at) => AnnouncementSource::Transition(at),
        };
        Announcement { source, ..announcement.clone() }
    }
}

#[cfg(test)]
mod tests;
