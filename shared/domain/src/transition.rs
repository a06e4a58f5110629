//! The transitions that workers and users make: create, claim, dial, postpone, hold, release, give up, withdraw, reject, cancel.
//!
//! **Only one worker or user may make each transition, by one conditional write.** The functions here are pure. They return the
//! next row, or `None` if the call is not in the state in which the transition starts. The caller stores the row, on the condition
//! that nobody else has written it since it was read.

mod due;

use std::time::Duration;

use crate::announce::Cause;
use crate::call::{AttemptRecord, Call, Job, Policy};
use crate::derive::Transition;
use crate::event::{AttemptKey, Direction};
use crate::moves::{MOVES_MAX, Move, MoveKind};
use crate::plan::{ManualTrigger, NewCall, StopReason};
use crate::provider::Provider;
use crate::record::DialRecords;
use crate::time::Timestamp;

/// Reason of a move: the person may not be called at this time.
pub(crate) const WINDOW_CLOSED: &str = "window_closed";
/// Reason of a move: an event of the call waits for its next try, or is a dead letter.
pub const EVENTS_UNFOLDED: &str = "events_unfolded";
/// Reason of a move: the dialer could not get the accounts.
pub const ACCOUNTS_UNREAD: &str = "accounts_unread";
/// Reason of a move: the provider of the claim takes no calls.
const PROVIDER_UNAVAILABLE: &str = "provider_unavailable";
/// Reason of a move: the claim came so late to a dialer that it has missed its place in the dial rate.
const DIALERS_LATE: &str = "dialers_late";

/// Highest number of another system's attempt that the numbers of later dials are above. A system may send any number, and no dial
/// could follow the highest one that there is.
const FOREIGN_NUMBER_MAX: u32 = 1_000;

/// Dial that a dialer may send to the provider as soon as `transition` is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialStarted {
    pub transition: Transition,
    pub attempt: AttemptKey,
    /// True if the retry policy allows no attempt after this one.
    pub is_last_attempt: bool,
}

impl DialStarted {
    /// Marks the dial as [watched](AttemptRecord::is_watched): the first report that it was made ends the doubt about its provider.
    #[must_use]
    pub fn watched(mut self) -> Self {
        if let Some(record) = self.transition.call.attempt_records.last_mut() {
            record.is_watched = true;
        }
        self
    }
}

impl Call {
    /// → PENDING: creates a call that Switchhook places.
    #[must_use]
    pub fn schedule(new: NewCall, policy: &Policy, now: Timestamp) -> Transition {
        let NewCall { call_id, from, to, appointment_id, plan } = new;
        let due_at = plan.due_at;
        let mut call = Self::new(call_id, Job::Pending { due_at }, now);
        call.direction = Some(Direction::Outbound);
        call.from = Some(from);
        call.to = Some(to);
        call.appointment_id = appointment_id;
        call.plan = Some(plan);
        call.into_transition(policy, now)
    }

    /// PENDING → CLAIMED, for the scheduler, to be placed through this provider. With `forced`, the user triggered the call: it is claimed although it is not due.
    ///
    /// `None` if the call is not pending, or is neither due nor `forced`.
    #[must_use]
    pub fn claim(
        &self,
        token: &str,
        provider: Provider,
        lease: Duration,
        forced: bool,
        policy: &Policy,
        now: Timestamp,
    ) -> Option<Transition> {
        let due_at = self.pending_due_at()?;
        if !forced && due_at > now {
            return None;
        }
        let mut call = self.clone();
        call.job = Job::Claimed { token: token.to_owned(), provider, lease_ends_at: now.plus(lease) };
        if forced {
            call.note_trigger(now);
        } else {
            call.note_move(MoveKind::Claimed, None, now);
        }
        Some(call.into_transition(policy, now))
    }

    /// PENDING → PENDING, for the user: the next attempt is due now, or when its calling window opens.
    ///
    /// `None` if the call is not pending.
    #[must_use]
    pub fn trigger(&self, policy: &Policy, now: Timestamp) -> Option<Transition> {
        self.pending_due_at()?;
        let mut call = self.clone();
        call.note_trigger(now);
        call.not_before = self.next_opening(now);
        Some(call.into_transition(policy, now))
    }

    /// True if the call is claimed with this token and the lease has not ended.
    #[must_use]
    pub fn is_claimed_by(&self, token: &str, now: Timestamp) -> bool {
        match &self.job {
            Job::Claimed { token: held, provider: _, lease_ends_at } => held == token && now < *lease_ends_at,
            Job::Pending { .. } | Job::InProgress | Job::Completed | Job::Failed | Job::Missed | Job::Canceled => false,
        }
    }

    /// CLAIMED → IN_PROGRESS, for the dialer that holds the claim. **Only the dialer that stored this transition may ask the
    /// provider to place the attempt, and only once.** `dial_key` identifies this dial.
    ///
    /// `None` if the dialer does not hold the claim, if the call has no room for another dial, or if its events would end the dial.
    #[must_use]
    pub fn start_dial(
        &self,
        token: &str,
        dial_key: &str,
        provider: Provider,
        policy: &Policy,
        now: Timestamp,
    ) -> Option<DialStarted> {
        let plan = self.plan.as_ref().filter(|_| self.is_claimed_by(token, now))?;
        if !self.has_room_for_dial() {
            return None;
        }
        let attempt = self.free_number()?;
        let is_last_attempt = self.attempts().len() + 1 >= usize::from(plan.retry.attempts_max);
        let mut call = self.clone();
        call.attempt_records.push(AttemptRecord {
            key: Some(attempt.clone()),
            provider: Some(provider),
            provider_call_id: None,
            awaits_outcome: policy.outcome_providers.contains(provider),
            dialled_at: Some(now),
            is_watched: false,
            dial_key: Some(dial_key.to_owned()),
        });
        call.not_before = None;
        call.note_move(MoveKind::Dialled, None, now);
        // `wake_at` stays at the end of the claim's lease, which saves a write to the index. If the response to the dial was
        // lost, the reconciler looks the attempt up at that time.
        let transition = call.rederive(Cause::Worker, policy, now);
        // If the history ended the dial at once, the claim would stay valid, and the next delivery would dial again.
        (transition.call.job == Job::InProgress).then_some(DialStarted { transition, attempt, is_last_attempt })
    }

    /// Returns the number of the next dial, which is above the numbers of all attempts. Numbers above [`FOREIGN_NUMBER_MAX`] do not
    /// count, but none of them is used twice.
    fn free_number(&self) -> Option<AttemptKey> {
        let keys = || self.attempt_records.iter().filter_map(|record| record.key.as_ref());
        let numbers = keys().filter_map(|key| key.as_str().parse::<u32>().ok());
        let highest = numbers.filter(|number| *number <= FOREIGN_NUMBER_MAX).max().unwrap_or(0);
        (highest + 1..).map(|number| AttemptKey::new(number.to_string())).find(|key| keys().all(|held| held != key))
    }

    /// Returns the attempt that this dial started, and true if the retry policy allows no attempt after it. `None` if this dial
    /// was never stored.
    ///
    /// For a dialer whose write may have succeeded, although the response was lost.
    #[must_use]
    pub fn started_dial(&self, dial_key: &str) -> Option<(AttemptKey, bool)> {
        let record = self.attempt_records.iter().find(|record| record.dial_key.as_deref() == Some(dial_key))?;
        let attempts_max = self.plan.as_ref().map_or(0, |plan| usize::from(plan.retry.attempts_max));
        Some((record.key.clone()?, self.attempts().len() >= attempts_max))
    }

    /// CLAIMED → PENDING, for the dialer that holds the claim: the person may not be called before `until`.
    #[must_use]
    pub fn postpone(&self, token: &str, until: Timestamp, policy: &Policy, now: Timestamp) -> Option<Transition> {
        self.release_until(token, until, WINDOW_CLOSED, policy, now)
    }

    /// CLAIMED → PENDING, for the dialer that holds the claim: an event of the call is not folded yet. It may tell that the person has answered, so
    /// nobody is dialled before `until`.
    #[must_use]
    pub fn hold(&self, token: &str, until: Timestamp, policy: &Policy, now: Timestamp) -> Option<Transition> {
        self.release_until(token, until, EVENTS_UNFOLDED, policy, now)
    }

    /// CLAIMED → PENDING, for the dialer that holds the claim: it could not get the accounts. Another dialer may have them, so the call is due
    /// again at `until`.
    #[must_use]
    pub fn await_accounts(&self, token: &str, until: Timestamp, policy: &Policy, now: Timestamp) -> Option<Transition> {
        self.release_until(token, until, ACCOUNTS_UNREAD, policy, now)
    }

    fn release_until(
        &self,
        token: &str,
        until: Timestamp,
        reason: &'static str,
        policy: &Policy,
        now: Timestamp,
    ) -> Option<Transition> {
        let mut call = self.release_claim(token, now)?;
        call.not_before = Some(until);
        call.note_move(MoveKind::Returned, Some(reason), now);
        Some(call.into_transition(policy, now))
    }

    /// CLAIMED → PENDING, for the dialer that holds the claim: the provider of the claim takes no calls now. The call stays due.
    #[must_use]
    pub fn release(&self, token: &str, policy: &Policy, now: Timestamp) -> Option<Transition> {
        self.release_because(token, PROVIDER_UNAVAILABLE, policy, now)
    }

    /// CLAIMED → PENDING, for the dialer that holds the claim: it has [missed its place](crate::Place::is_missed) in the dial rate. The call stays
    /// due.
    #[must_use]
    pub fn release_late(&self, token: &str, policy: &Policy, now: Timestamp) -> Option<Transition> {
        self.release_because(token, DIALERS_LATE, policy, now)
    }

    fn release_because(
        &self,
        token: &str,
        reason: &'static str,
        policy: &Policy,
        now: Timestamp,
    ) -> Option<Transition> {
        let mut call = self.release_claim(token, now)?;
        call.note_move(MoveKind::Returned, Some(reason), now);
        Some(call.into_transition(policy, now))
    }

    /// CLAIMED → FAILED, for the dialer that holds the claim.
    #[must_use]
    pub fn give_up(&self, token: &str, reason: StopReason, policy: &Policy, now: Timestamp) -> Option<Transition> {
        let mut call = self.release_claim(token, now)?;
        call.stop_reason = Some(reason);
        call.note_move(MoveKind::GivenUp, Some(reason.as_str()), now);
        Some(call.into_transition(policy, now))
    }

    /// IN_PROGRESS → PENDING, for the dialer whose attempt was not dialled. The attempt is removed and does not count. The call
    /// is due again at once if it names another provider that has not refused the attempt, and its own has refused it for the first time.
    /// Else it is due at `until`. A call that must be placed before a time is due again at that time, and ends then.
    ///
    /// `None` if the latest dial is another one, or if an event of the attempt has arrived after all: then that event decides.
    #[must_use]
    pub fn withdraw(&self, dial_key: &str, until: Timestamp, policy: &Policy, now: Timestamp) -> Option<Transition> {
        let refused_by = self.attempt_records.last().and_then(|record| record.provider);
        let mut call = self.without_dial(dial_key)?;
        call.not_before = Some(until).filter(|_| !call.note_refusal(refused_by));
        call.note_move(MoveKind::Withdrawn, None, now);
        Some(call.into_transition(policy, now))
    }

    /// IN_PROGRESS → FAILED, for the dialer whose attempt was not dialled and never will be. The attempt is removed and does not
    /// count. A cancellation by the user stays: then the call is CANCELED.
    ///
    /// `None` if the latest dial is another one, or if an event of the attempt has arrived after all: then that event decides.
    #[must_use]
    pub fn reject(&self, dial_key: &str, policy: &Policy, now: Timestamp) -> Option<Transition> {
        let mut call = self.without_dial(dial_key)?;
        if call.stop_reason != Some(StopReason::CanceledByUser) {
            call.stop_reason = Some(StopReason::RejectedByProvider);
        }
        call.note_move(MoveKind::Rejected, None, now);
        Some(call.into_transition(policy, now))
    }

    /// Adds to the row the records that it lacks, for a dialer whose dial the inbox refused to record. The records show that the
    /// attempt was dialled before, or that the user canceled the call.
    ///
    /// `None` if the latest dial is another one, or if an event of the attempt has arrived after all: then that event decides.
    #[must_use]
    pub fn recall(&self, dial_key: &str, records: &DialRecords, policy: &Policy, now: Timestamp) -> Option<Transition> {
        let (attempt, _) = self.started_dial(dial_key)?;
        if records.dial_of(&attempt).is_some() {
            return Self::rebuild(Some(self), None, records, policy, now);
        }
        let call = self.without_dial(dial_key)?;
        // A call that was called off while its dial began lacks nothing but the dial that was not made.
        let rebuilt = Self::rebuild(Some(&call), None, records, policy, now);
        rebuilt.or_else(|| Some(call.into_transition(policy, now)))
    }

    /// Ends a call for which the records of its dials may be lost: no further attempt follows. Later reports of the provider are
    /// still folded. A call that its booking has [called off](Self::call_off) stays canceled, as if the user had canceled it: the booking
    /// may have come back and been dialled before. **Record the stop reason before the row is stored**: a row that is lost later comes back
    /// from the records.
    ///
    /// `None` if Switchhook does not place the call, or it is stopped already.
    #[must_use]
    pub fn stop_unknown(&self, policy: &Policy, now: Timestamp) -> Option<Transition> {
        self.plan.as_ref()?;
        let is_called_off = self.stop_reason == Some(StopReason::BookingChanged);
        let mut call = self.clone();
        if is_called_off && self.job == Job::Canceled {
            call.stop_reason = Some(StopReason::CanceledByUser);
            call.note_move(MoveKind::Canceled, None, now);
        } else if is_called_off || self.stop_reason.is_none() {
            let reason = StopReason::DialsUnknown;
            call.stop_reason = Some(reason);
            call.note_move(MoveKind::GivenUp, Some(reason.as_str()), now);
        } else {
            return None;
        }
        Some(call.into_transition(policy, now))
    }

    /// Returns the call without the latest dial, which must have this key. `None` if it is another, or if the provider has reported the
    /// call. The number of its attempt does not identify a dial: when a dial is taken back, the next one gets its number.
    fn without_dial(&self, dial_key: &str) -> Option<Self> {
        let last = self.attempt_records.len().checked_sub(1)?;
        let record = self.attempt_records.get(last)?;
        let is_named = self.history.iter().any(|entry| entry.attempt_index == Some(last));
        let is_known = record.provider_call_id.is_some() || is_named || self.has_unnamed_event(last);
        if record.dial_key.as_deref() != Some(dial_key) || record.dialled_at.is_none() || is_known {
            return None;
        }
        let mut call = self.clone();
        call.attempt_records.pop();
        Some(call)
    }

    /// True if an event that names no attempt is evidence and belongs to this attempt.
    fn has_unnamed_event(&self, index: usize) -> bool {
        let attempts = self.attempts();
        let attempt = attempts.iter().find(|attempt| attempt.index == index);
        let mut entries = attempt.into_iter().flat_map(|attempt| &attempt.verdicts);
        entries.any(|(at, _)| {
            let entry = self.history.get(*at);
            entry.is_some_and(|entry| entry.attempt_index.is_none() && entry.disproves_withdrawal())
        })
    }

    /// PENDING or CLAIMED → CANCELED, for the user. A dialer that holds the claim loses it. An attempt that is under way is left alone, and no
    /// further one follows. A call that its booking has [called off](Self::call_off) stays canceled from then on, also if the booking comes back.
    ///
    /// `None` if the call has ended, is stopped already, or is placed by another system.
    #[must_use]
    pub fn cancel(&self, policy: &Policy, now: Timestamp) -> Option<Transition> {
        let is_called_off = self.stop_reason == Some(StopReason::BookingChanged);
        let is_open = !self.job.is_final() || (is_called_off && self.job == Job::Canceled);
        if self.plan.is_none() || !is_open || (self.stop_reason.is_some() && !is_called_off) {
            return None;
        }
        let mut call = self.clone();
        call.stop_reason = Some(StopReason::CanceledByUser);
        call.note_move(MoveKind::Canceled, None, now);
        // `wake_at` stays, so that a dial in doubt is looked up as early as without the cancellation.
        Some(call.rederive(Cause::Worker, policy, now))
    }

    /// PENDING or CLAIMED → CANCELED, because the booking of the call was moved or canceled. A dialer that holds the claim loses it.
    /// An attempt that is under way is left alone, and no further one follows. A call that has ended keeps its job, and a late event
    /// does not make it due again.
    ///
    /// `None` if the call is stopped already, or if its person was forgotten, so that nobody is called anyway.
    #[must_use]
    pub fn call_off(&self, policy: &Policy, now: Timestamp) -> Option<Transition> {
        if self.plan.is_none() || self.stop_reason.is_some() || self.forgotten_at.is_some() {
            return None;
        }
        let mut call = self.clone();
        call.stop_reason = Some(StopReason::BookingChanged);
        call.note_move(MoveKind::Canceled, Some(StopReason::BookingChanged.as_str()), now);
        // `wake_at` stays, as in `cancel`.
        Some(call.rederive(Cause::Worker, policy, now))
    }

    /// CANCELED → PENDING, because the booking of the call is again as it was when the call was created. If an attempt is under way or
    /// has ended, the retry policy decides. With `not_before`, the next attempt is not made before that time.
    ///
    /// `None` if the call is not [called off](Self::call_off).
    #[must_use]
    pub fn resume(&self, not_before: Option<Timestamp>, policy: &Policy, now: Timestamp) -> Option<Transition> {
        if self.stop_reason != Some(StopReason::BookingChanged) {
            return None;
        }
        let mut call = self.clone();
        call.stop_reason = None;
        call.not_before = call.not_before.max(not_before);
        call.note_move(MoveKind::Resumed, None, now);
        Some(call.into_transition(policy, now))
    }

    /// Returns the call with a new move [`MoveKind::Doubted`]. `None` if that is its newest move already, or no dial is in doubt.
    #[must_use]
    pub fn doubted(&self, now: Timestamp) -> Option<Self> {
        let is_known = self.moves.last().is_some_and(|last| last.kind == MoveKind::Doubted);
        if is_known || self.in_doubt().is_empty() {
            return None;
        }
        let mut call = self.clone();
        call.note_move(MoveKind::Doubted, None, now);
        Some(call)
    }

    /// Remembers that the user triggered the next attempt, which no longer waits for anything but its calling window.
    fn note_trigger(&mut self, now: Timestamp) {
        self.not_before = None;
        self.manual_trigger = Some(ManualTrigger { after_attempts: self.attempts().len(), at: now });
        self.note_move(MoveKind::Triggered, None, now);
    }

    /// Adds a move, and drops the oldest ones if there are too many.
    fn note_move(&mut self, kind: MoveKind, reason: Option<&str>, at: Timestamp) {
        self.moves.push(Move { kind, at, reason: reason.map(str::to_owned) });
        let surplus = self.moves.len().saturating_sub(MOVES_MAX);
        self.moves.drain(..surplus);
    }

    fn release_claim(&self, token: &str, now: Timestamp) -> Option<Self> {
        let job = Job::Pending { due_at: now };
        self.is_claimed_by(token, now).then(|| Self { job, ..self.clone() })
    }

    /// Derives the next row with an exact `wake_at`. That costs no extra write: these transitions change the call's place in the
    /// index anyway.
    fn into_transition(mut self, policy: &Policy, now: Timestamp) -> Transition {
        self.wake_at = None;
        self.rederive(Cause::Worker, policy, now)
    }
}

impl Transition {
    /// Gives the newest move a reason.
    #[must_use]
    pub fn because(mut self, reason: &'static str) -> Self {
        if let Some(newest) = self.call.moves.last_mut() {
            newest.reason = Some(reason.to_owned());
        }
        self
    }

    /// Counts the pause after a [withdrawal](Call::withdraw) that may be because of a number, so that the next such pause is longer. Does
    /// nothing if there is none, because another provider is asked at once.
    #[must_use]
    pub fn counting_pause(mut self) -> Self {
        let has_pause = self.call.not_before.is_some();
        if let Some(refusals) = self.call.refusals.as_mut().filter(|_| has_pause) {
            refusals.pauses = refusals.pauses.saturating_add(1);
        }
        self
    }
}
