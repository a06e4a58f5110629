//! The job and the appointment status of a call, derived from its attempts.

use std::time::Duration;

use crate::announcement::AppointmentStatus;
use crate::attempt::AttemptState;
use crate::call::{
    AttemptRecord, CALL_ATTEMPTS_MAX, Call, HistoryEntry, InFlight, Job, Policy, WITHDRAWN_DIALS_MAX, WakeFor,
};
use crate::event::{Direction, EventKind};
use crate::lifecycle::{Lifecycle, Outcome};
use crate::plan::{EndReason, Plan, RetryPolicy, StopReason};
use crate::time::Timestamp;

/// Pause after the first dial of an attempt that was not made, although the provider had accepted it or its answer was lost. The
/// pause doubles with each such dial of the attempt, without a limit. So no pause is longer than the time for which nobody has dialled the
/// call, up to the 16th such dial of the call.
const WITHDRAWN_PAUSE: Duration = Duration::from_secs(30);
/// Number of such dials of a call from which on all of them count, those of earlier attempts too. So a call never uses up
/// [its room](Call::has_room_for_dial) by waiting.
const WITHDRAWN_DIALS_COUNT_FROM: usize = WITHDRAWN_DIALS_MAX / 2;
/// Lateness of a lookup that counts as none. The reconciler runs every minute, and a run takes up to another.
const LATENESS_MAX: Duration = Duration::from_secs(120);

/// Decision of the retry policy about an attempt that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetryDecision {
    Retry,
    /// Retry only if no earlier attempt got this decision.
    RetryOnce,
    Never,
}

impl Call {
    /// Returns the appointment status of the call.
    #[must_use]
    pub fn appointment_status(&self) -> AppointmentStatus {
        self.appointment_status_from(&self.attempts())
    }

    /// True if nothing more is expected: the job is final, and every attempt has an ending and an outcome, or has timed out.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.job.is_final() && self.attempts().iter().all(AttemptState::is_settled)
    }

    /// Returns the next time at which a worker must act although no event arrives. Then the call is due, the lease of its claim
    /// ends, an attempt times out, or a retry by another system is overdue. `None` if the call is settled.
    #[must_use]
    pub fn next_wake_at(&self, policy: &Policy) -> Option<Timestamp> {
        self.next_wake_at_from(&self.attempts(), policy)
    }

    pub(crate) fn next_wake_at_from(&self, attempts: &[AttemptState], policy: &Policy) -> Option<Timestamp> {
        let job = match &self.job {
            Job::Pending { due_at } => Some(*due_at),
            Job::Claimed { lease_ends_at, .. } => Some(*lease_ends_at),
            Job::InProgress | Job::Completed | Job::Failed | Job::Missed | Job::Canceled => None,
        };
        let deadlines = attempts
            .iter()
            .filter(|attempt| !attempt.is_settled())
            .map(|attempt| attempt.last_event_at.plus(policy.inactivity_timeout));
        let retry = self.awaited_retry(attempts).map(|(_, entry)| entry.received_at.plus(policy.inactivity_timeout));
        deadlines.chain(job).chain(retry).min()
    }

    /// Returns the call with another wake-up time, and the work that it needs now.
    #[must_use]
    pub fn waking_at(&self, wake_at: Timestamp) -> Self {
        Self { wake_at: Some(wake_at), wake_for: self.needed_work(&self.attempts()), ..self.clone() }
    }

    /// Returns the most urgent work that the call needs.
    pub(crate) fn needed_work(&self, attempts: &[AttemptState]) -> WakeFor {
        if matches!(self.job, Job::Claimed { .. }) || !self.in_doubt().is_empty() {
            WakeFor::Claim
        } else if attempts.iter().any(|attempt| !attempt.has_ended()) {
            WakeFor::Ending
        } else {
            WakeFor::Outcome
        }
    }

    /// Returns the place that the call takes among the calls of a provider. An attempt that another system placed takes none, and
    /// neither does a dial that is known not to have been made.
    pub(crate) fn place_in_flight(&self, attempts: &[AttemptState]) -> Option<InFlight> {
        if let Job::Claimed { provider, .. } = &self.job {
            return Some(InFlight::Claimed(*provider));
        }
        let open = attempts.iter().filter(|attempt| !attempt.has_ended() && !self.was_not_dialled(attempt.index));
        open.filter_map(|attempt| self.attempt_records.get(attempt.index)?.provider).map(InFlight::Dialled).next()
    }

    /// Returns the unsettled attempts whose inactivity timeout has passed by `now`.
    #[must_use]
    pub fn overdue_attempts(&self, policy: &Policy, now: Timestamp) -> Vec<AttemptState> {
        let mut attempts = self.attempts();
        attempts
            .retain(|attempt| !attempt.is_settled() && attempt.last_event_at.plus(policy.inactivity_timeout) <= now);
        attempts
    }

    /// Returns the open dials that the provider accepted, and about which nobody has reported anything since.
    #[must_use]
    pub fn unreported_dials(&self) -> Vec<&AttemptRecord> {
        let is_reported = |index: usize| {
            let mut entries = self.history.iter().filter(|entry| entry.attempt_index == Some(index));
            entries.any(|entry| entry.source_event_id.provider().is_some())
        };
        let attempts = self.attempts();
        let open = attempts.iter().filter(|attempt| !attempt.has_ended() && !is_reported(attempt.index));
        let records = open.filter_map(|attempt| self.attempt_records.get(attempt.index));
        records.filter(|record| record.dialled_at.is_some() && record.provider_call_id.is_some()).collect()
    }

    /// Returns the next [`unanswered_since`](Self::unanswered_since) of a call that is looked at at `now`, and whose provider gives no usable
    /// answer about an overdue attempt.
    ///
    /// It begins when the timeout of the attempt passes. Only time in which the provider was asked counts. So the result is later by the time
    /// for which the call was due and nobody looked at it, if that is more than two minutes.
    #[must_use]
    pub fn unanswered_from(&self, attempt: &AttemptState, policy: &Policy, now: Timestamp) -> Timestamp {
        let overdue_since = attempt.last_event_at.plus(policy.inactivity_timeout);
        let (since, due_at) = match self.unanswered_since.filter(|since| *since >= overdue_since) {
            None => (overdue_since, self.wake_at.map_or(overdue_since, |wake_at| wake_at.max(overdue_since))),
            // A fold may have set an earlier time, to which the call is not late.
            Some(since) => (since, self.wake_at.filter(|wake_at| *wake_at > since).unwrap_or(now)),
        };
        let late = Duration::from_millis(now.millis_since(due_at).max(0).unsigned_abs());
        if late > LATENESS_MAX { since.plus(late) } else { since }
    }

    /// Derives the job. The first rule that matches decides.
    pub(crate) fn derived_job(&self, attempts: &[AttemptState]) -> Job {
        if attempts.iter().any(|attempt| attempt.decision().is_some()) {
            Job::Completed
        } else if attempts.iter().any(|attempt| !attempt.has_ended()) || self.awaited_retry(attempts).is_some() {
            Job::InProgress
        } else if attempts.iter().any(|attempt| self.is_completed_by(attempt)) {
            Job::Completed
        } else if let Some(plan) = &self.plan {
            self.job_by_policy(plan, attempts)
        } else if attempts.is_empty() {
            self.job.clone()
        } else if self.direction == Some(Direction::Inbound) && attempts.iter().all(is_missed) {
            Job::Missed
        } else {
            // Switchhook does not retry a call that another system places.
            Job::Failed
        }
    }

    pub(crate) fn appointment_status_from(&self, attempts: &[AttemptState]) -> AppointmentStatus {
        let decision = attempts.iter().rev().find_map(AttemptState::decision);
        let retrying = match self.job {
            // A dial that the provider did not make is no attempt. It is made again all the same.
            Job::Pending { .. } | Job::Claimed { .. } => !attempts.is_empty() || self.withdrawn_dials() > 0,
            Job::InProgress | Job::Completed | Job::Failed | Job::Missed | Job::Canceled => {
                self.awaited_retry(attempts).is_some()
            }
        };
        match (decision, attempts.last()) {
            (Some(status), _) => status,
            (None, _) if retrying => AppointmentStatus::Retrying,
            (None, _) if self.missed_retry(attempts).is_some() => AppointmentStatus::Inconclusive,
            (None, Some(latest)) if latest.outcome_is_inconclusive() => AppointmentStatus::Inconclusive,
            (None, Some(latest)) => AppointmentStatus::from_outcome(latest.outcome),
            (None, None) if self.job.is_final() => AppointmentStatus::from_end_reason(self.end_reason(attempts)),
            (None, None) => AppointmentStatus::Pending,
        }
    }

    /// Returns the time at which another system announced a retry that still may come. `None` if no such retry is awaited.
    #[must_use]
    pub fn awaited_retry_since(&self) -> Option<Timestamp> {
        self.awaited_retry(&self.attempts()).map(|(_, entry)| entry.received_at)
    }

    /// Returns the announcement of a retry by another system that still may come, with its index into the history. `None` if
    /// the person has decided, or Switchhook places the call, or the retry has been missed.
    pub(crate) fn awaited_retry(&self, attempts: &[AttemptState]) -> Option<(usize, &HistoryEntry)> {
        if self.plan.is_some() || attempts.iter().any(|attempt| attempt.decision().is_some()) {
            return None;
        }
        let index = self.external_retry(attempts)?;
        let retry = (index, self.history.get(index)?);
        self.miss_of(retry.1).is_none().then_some(retry)
    }

    /// Returns the index into the history of the event that says that the latest retry by another system was missed. `None` if
    /// no retry was missed, or a later attempt has started since.
    pub(crate) fn missed_retry(&self, attempts: &[AttemptState]) -> Option<usize> {
        if self.plan.is_some() {
            return None;
        }
        self.miss_of(self.history.get(self.external_retry(attempts)?)?)
    }

    /// Returns the index into the history of the first event that says that this retry was missed.
    fn miss_of(&self, retry: &HistoryEntry) -> Option<usize> {
        let misses = self.history.iter().enumerate().filter(|(_, entry)| {
            entry.event.kind == EventKind::RetryMissed && entry.event.occurred_at >= Some(retry.received_at)
        });
        misses.min_by(|(_, a), (_, b)| a.canonical_cmp(b)).map(|(index, _)| index)
    }

    /// Returns the index into the history of the latest `retry_scheduled` event of another system. `None` if a later attempt
    /// has started since.
    pub(crate) fn external_retry(&self, attempts: &[AttemptState]) -> Option<usize> {
        let started_at = attempts.last().map_or(Timestamp::MIN, |latest| latest.started_at);
        self.history
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.event.kind == EventKind::RetryScheduled)
            // If the retry and the start of the latest attempt have the same time, the retry announced this attempt. The first
            // attempt is an exception: no retry announced it.
            .filter(|(_, entry)| {
                entry.happened_at() > started_at || (attempts.len() < 2 && entry.happened_at() == started_at)
            })
            .max_by(|(_, a), (_, b)| a.canonical_cmp(b))
            .map(|(index, _)| index)
    }

    /// True if the attempt was completed, unless it reached a voicemail and the retry policy retries voicemail.
    fn is_completed_by(&self, attempt: &AttemptState) -> bool {
        let completed = match attempt.lifecycle {
            Lifecycle::Completed | Lifecycle::PresumedCompleted | Lifecycle::PresumedCompletedAfterAnswer => true,
            Lifecycle::Initiated
            | Lifecycle::Ringing
            | Lifecycle::NoAnswer
            | Lifecycle::Canceled
            | Lifecycle::Busy
            | Lifecycle::Failed
            | Lifecycle::InProgress
            | Lifecycle::BusyAfterAnswer
            | Lifecycle::FailedAfterAnswer => false,
        };
        completed && !(attempt.outcome == Outcome::Voicemail && self.plan.as_ref().is_some_and(|p| p.retry.voicemail))
    }

    /// Derives the job of a call that Switchhook places, after every attempt has ended without success.
    fn job_by_policy(&self, plan: &Plan, attempts: &[AttemptState]) -> Job {
        let due_at = match attempts.last() {
            None => Some(plan.due_at),
            Some(latest) => self.retry_at(plan, attempts, latest),
        };
        let triggered_at = self.triggered_at(attempts);
        let due_at = due_at.map(|due_at| triggered_at.map_or(due_at, |at| due_at.min(at)));
        let withdrawn_until = self.withdrawn_until(attempts, triggered_at);
        let due_at = due_at.map(|due_at| withdrawn_until.map_or(due_at, |until| due_at.max(until)));
        match (self.stop_reason, due_at, &self.job) {
            // No attempt would follow anyway, so the change of the booking ended nothing.
            (Some(StopReason::BookingChanged), None, _) => Job::Failed,
            (Some(StopReason::CanceledByUser | StopReason::BookingChanged), _, _) => Job::Canceled,
            (
                Some(
                    StopReason::DoNotCall
                    | StopReason::UnknownTimeZone
                    | StopReason::RejectedByProvider
                    | StopReason::DialsUnknown
                    | StopReason::TooLate,
                ),
                _,
                _,
            ) => Job::Failed,
            // The number of a forgotten person is erased, so there is nobody to dial.
            (None, Some(_), _) if self.forgotten_at.is_some() => Job::Failed,
            (None, None, _) => Job::Failed,
            (None, Some(_), Job::Claimed { lease_ends_at, .. }) if !self.claim_has_expired(*lease_ends_at) => {
                self.job.clone()
            }
            (None, Some(due_at), _) => {
                let due_at = self.not_before.map_or(due_at, |at| at.max(due_at));
                Job::Pending { due_at: plan.bounded(plan.moved_into_window(due_at)) }
            }
        }
    }

    /// Returns the due time of the attempt after the latest one. `None` if the retry policy allows no further attempt.
    fn retry_at(&self, plan: &Plan, attempts: &[AttemptState], latest: &AttemptState) -> Option<Timestamp> {
        self.end_reason_by_policy(plan, attempts, latest).is_none().then(|| self.drawn_retry_at(plan, latest))
    }

    /// Returns the drawn due time of a retry. It is not before the call was due first: an attempt of another system may end earlier. A dial
    /// of Switchhook's shows that it was due, also if the row was lost and does not know of a trigger.
    fn drawn_retry_at(&self, plan: &Plan, latest: &AttemptState) -> Timestamp {
        let drawn = plan.retry.due_after(&self.call_id, latest.number, latest.end_received_at);
        let dialled_at = self.attempt_records.iter().filter_map(|record| record.dialled_at).min();
        let first = self.first_due_at().map(|due_at| dialled_at.map_or(due_at, |dialled_at| dialled_at.min(due_at)));
        first.map_or(drawn, |first| first.max(drawn))
    }

    /// Returns the reason why a call that Switchhook places has ended without success.
    pub(crate) fn end_reason(&self, attempts: &[AttemptState]) -> EndReason {
        let by_policy = || self.end_reason_by_policy(self.plan.as_ref()?, attempts, attempts.last()?);
        let stopped = self.stop_reason.map(EndReason::Stopped);
        let reason = match self.stop_reason {
            // The policy ends the call, whether the booking changed or not.
            Some(StopReason::BookingChanged) => by_policy().or(stopped),
            Some(_) | None => stopped.or_else(by_policy),
        };
        reason.unwrap_or(EndReason::Forgotten)
    }

    /// Returns the reason why the retry policy allows no attempt after the latest one. `None` if it allows one.
    fn end_reason_by_policy(&self, plan: &Plan, attempts: &[AttemptState], latest: &AttemptState) -> Option<EndReason> {
        let decision = |attempt: &AttemptState| retry_decision(attempt, &plan.retry);
        let is_used_up = attempts.len() >= usize::from(plan.retry.attempts_max).min(CALL_ATTEMPTS_MAX);
        let is_too_late = || plan.is_too_late(plan.moved_into_window(self.drawn_retry_at(plan, latest)));
        let too_late = || is_too_late().then_some(EndReason::Stopped(StopReason::TooLate));
        // It may become known only now that a person had answered an earlier attempt.
        if attempts.iter().any(is_answered_by_person) {
            return Some(EndReason::NotRetryable);
        }
        match decision(latest) {
            RetryDecision::Retry if is_used_up => Some(EndReason::AttemptsUsed),
            RetryDecision::Retry => too_late(),
            RetryDecision::RetryOnce => {
                let is_first =
                    attempts.iter().filter(|attempt| decision(attempt) == RetryDecision::RetryOnce).count() == 1;
                if is_used_up || !is_first { Some(EndReason::AttemptsUsed) } else { too_late() }
            }
            RetryDecision::Never if is_unheard(latest) => Some(EndReason::Unheard),
            RetryDecision::Never => Some(EndReason::NotRetryable),
        }
    }

    /// Returns the time at which a user triggered the next attempt. `None` if nobody did.
    fn triggered_at(&self, attempts: &[AttemptState]) -> Option<Timestamp> {
        self.manual_trigger.filter(|trigger| trigger.after_attempts == attempts.len()).map(|trigger| trigger.at)
    }

    /// Returns the time before which Switchhook does not dial again after dials that were not made. The pause doubles with each
    /// of them. A manual trigger ends the pauses that began before it, if there is room for another dial. `None` if no such dial has a
    /// pause, or a trigger ended it.
    fn withdrawn_until(&self, attempts: &[AttemptState], triggered_at: Option<Timestamp>) -> Option<Timestamp> {
        let mut dials: Vec<usize> = (0..self.attempt_records.len()).filter(|index| self.is_withdrawn(*index)).collect();
        if dials.len() <= WITHDRAWN_DIALS_COUNT_FROM {
            dials = self.next_attempt(attempts).pausing_dials;
        }
        let doublings = u32::try_from(dials.len().checked_sub(1)?).unwrap_or(u32::MAX).min(31);
        let pause = WITHDRAWN_PAUSE.saturating_mul(1 << doublings);
        let triggered_at = triggered_at.filter(|_| self.has_room_for_dial());
        // A dial may be reported again, by the provider's webhook for example. Its first report begins the pause.
        let withdrawn_at = |index: usize| {
            let entries = self.history.iter().filter(|entry| entry.attempt_index == Some(index));
            entries.filter(|entry| entry.is_withdrawal()).map(|entry| entry.received_at).min()
        };
        dials
            .into_iter()
            .filter_map(withdrawn_at)
            .filter(|withdrawn_at| triggered_at.is_none_or(|at| at <= *withdrawn_at))
            .map(|withdrawn_at| withdrawn_at.plus(pause))
            .max()
    }

    fn claim_has_expired(&self, lease_ends_at: Timestamp) -> bool {
        let kind = EventKind::ClaimExpired;
        self.history.iter().any(|entry| entry.event.kind == kind && entry.event.occurred_at >= Some(lease_ends_at))
    }
}

/// Decides by the ending of an attempt whether another one follows. An attempt that a person answered is never retried. An
/// attempt that reached a voicemail is retried if the policy allows it.
fn retry_decision(attempt: &AttemptState, retry: &RetryPolicy) -> RetryDecision {
    if attempt.outcome == Outcome::Voicemail {
        return if retry.voicemail { RetryDecision::Retry } else { RetryDecision::Never };
    }
    match attempt.lifecycle {
        Lifecycle::NoAnswer | Lifecycle::Busy => RetryDecision::Retry,
        Lifecycle::Initiated | Lifecycle::Ringing if is_unheard(attempt) && retry.unheard => RetryDecision::Retry,
        Lifecycle::Failed if !attempt.permanent => RetryDecision::RetryOnce,
        Lifecycle::Failed
        | Lifecycle::Initiated
        | Lifecycle::Ringing
        | Lifecycle::Canceled
        | Lifecycle::InProgress
        | Lifecycle::BusyAfterAnswer
        | Lifecycle::FailedAfterAnswer
        | Lifecycle::Completed
        | Lifecycle::PresumedCompleted
        | Lifecycle::PresumedCompletedAfterAnswer => RetryDecision::Never,
    }
}

/// True if a person answered the attempt.
fn is_answered_by_person(attempt: &AttemptState) -> bool {
    let is_answered = match attempt.lifecycle {
        Lifecycle::InProgress
        | Lifecycle::BusyAfterAnswer
        | Lifecycle::FailedAfterAnswer
        | Lifecycle::Completed
        | Lifecycle::PresumedCompleted
        | Lifecycle::PresumedCompletedAfterAnswer => true,
        Lifecycle::Initiated
        | Lifecycle::Ringing
        | Lifecycle::NoAnswer
        | Lifecycle::Canceled
        | Lifecycle::Busy
        | Lifecycle::Failed => false,
    };
    is_answered && attempt.outcome != Outcome::Voicemail
}

/// True if the attempt timed out, and nobody knows whether a person answered it.
fn is_unheard(attempt: &AttemptState) -> bool {
    attempt.timed_out && matches!(attempt.lifecycle, Lifecycle::Initiated | Lifecycle::Ringing)
}

/// True if it is known that nobody answered the attempt, for whatever reason it ended.
fn is_missed(attempt: &AttemptState) -> bool {
    attempt.outcome == Outcome::NoAnswer
}
