//! The job and the appointment status of a call, derived from its attempts.

use crate::announcement::AppointmentStatus;
use crate::attempt::AttemptState;
use crate::call::{CALL_ATTEMPTS_MAX, Call, Job, Policy};
use crate::event::EventKind;
use crate::lifecycle::{Lifecycle, Outcome};
use crate::plan::{Plan, RetryPolicy, StopReason};
use crate::time::Timestamp;

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

    /// Returns the next time at which something happens without an event: the call is due, the lease of its claim ends, or an
    /// attempt times out. `None` if the call is settled.
    #[must_use]
    pub fn next_wake_at(&self, policy: &Policy) -> Option<Timestamp> {
        let job = match &self.job {
            Job::Pending { due_at } => Some(*due_at),
            Job::Claimed { lease_ends_at, .. } => Some(*lease_ends_at),
            Job::InProgress | Job::Completed | Job::Failed | Job::Canceled => None,
        };
        let deadlines = self
            .attempts()
            .into_iter()
            .filter(|attempt| !attempt.is_settled())
            .map(|attempt| attempt.last_event_at.plus(policy.inactivity_timeout));
        deadlines.chain(job).min()
    }

    /// Returns the unsettled attempts whose inactivity timeout has passed by `now`.
    #[must_use]
    pub fn overdue_attempts(&self, policy: &Policy, now: Timestamp) -> Vec<AttemptState> {
        let mut attempts = self.attempts();
        attempts
            .retain(|attempt| !attempt.is_settled() && attempt.last_event_at.plus(policy.inactivity_timeout) <= now);
        attempts
    }

    /// Derives the job. The first rule that matches decides.
    pub(crate) fn derived_job(&self, attempts: &[AttemptState]) -> Job {
        if attempts.iter().any(|attempt| attempt.decision().is_some()) {
            Job::Completed
        } else if attempts.iter().any(|attempt| !attempt.has_ended()) {
            Job::InProgress
        } else if attempts.iter().any(|attempt| self.is_completed_by(attempt)) {
            Job::Completed
        } else if let Some(plan) = &self.plan {
            self.job_by_policy(plan, attempts)
        } else if attempts.is_empty() {
            self.job.clone()
        } else {
            // Switchhook does not retry a call that another system places.
            Job::Failed
        }
    }

    pub(crate) fn appointment_status_from(&self, attempts: &[AttemptState]) -> AppointmentStatus {
        let decision = attempts.iter().rev().find_map(AttemptState::decision);
        let retrying = match self.job {
            Job::Pending { .. } | Job::Claimed { .. } => !attempts.is_empty(),
            Job::InProgress | Job::Completed | Job::Failed | Job::Canceled => self.external_retry(attempts).is_some(),
        };
        match (decision, attempts.last()) {
            (Some(status), _) => status,
            (None, _) if retrying => AppointmentStatus::Retrying,
            (None, Some(latest)) if latest.outcome_is_inconclusive() => AppointmentStatus::Inconclusive,
            (None, Some(latest)) => AppointmentStatus::from_outcome(latest.outcome),
            (None, None) => AppointmentStatus::Pending,
        }
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
            Lifecycle::Completed | Lifecycle::PresumedCompleted => true,
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
        let trigger = self.manual_trigger.filter(|trigger| trigger.after_attempts == self.attempt_records.len());
        let due_at = due_at.map(|due_at| trigger.map_or(due_at, |trigger| due_at.min(trigger.at)));
        match (self.stop_reason, due_at, &self.job) {
            (Some(StopReason::Canceled), _, _) => Job::Canceled,
            (Some(StopReason::DoNotCall | StopReason::UnknownTimeZone | StopReason::ProviderRefused), _, _) => {
                Job::Failed
            }
            (None, None, _) => Job::Failed,
            (None, Some(_), Job::Claimed { lease_ends_at, .. }) if !self.claim_has_expired(*lease_ends_at) => {
                self.job.clone()
            }
            (None, Some(due_at), _) => {
                let due_at = self.not_before.map_or(due_at, |at| at.max(due_at));
                Job::Pending { due_at: plan.moved_into_window(due_at) }
            }
        }
    }

    /// Returns the due time of the attempt after the latest one. `None` if the retry policy allows no further attempt.
    fn retry_at(&self, plan: &Plan, attempts: &[AttemptState], latest: &AttemptState) -> Option<Timestamp> {
        let decision = |attempt: &AttemptState| retry_decision(attempt, &plan.retry);
        let retried = match decision(latest) {
            RetryDecision::Retry => true,
            RetryDecision::RetryOnce => {
                attempts.iter().filter(|attempt| decision(attempt) == RetryDecision::RetryOnce).count() == 1
            }
            RetryDecision::Never => false,
        };
        let left = attempts.len() < usize::from(plan.retry.attempts_max).min(CALL_ATTEMPTS_MAX);
        let key = self.attempt_key(latest);
        (retried && left).then(|| plan.retry.due_after(&self.call_id, key, latest.number, latest.end_received_at))
    }

    fn claim_has_expired(&self, lease_ends_at: Timestamp) -> bool {
        let kind = EventKind::ClaimExpired;
        self.history.iter().any(|entry| entry.event.kind == kind && entry.event.occurred_at >= Some(lease_ends_at))
    }
}

/// Decides by the ending of an attempt. An attempt that a person answered is never retried. An attempt that reached a
/// voicemail is retried if the policy allows it.
fn retry_decision(attempt: &AttemptState, retry: &RetryPolicy) -> RetryDecision {
    if attempt.outcome == Outcome::Voicemail {
        return if retry.voicemail { RetryDecision::Retry } else { RetryDecision::Never };
    }
    match attempt.lifecycle {
        Lifecycle::NoAnswer | Lifecycle::Busy => RetryDecision::Retry,
        Lifecycle::Initiated | Lifecycle::Ringing if attempt.timed_out => RetryDecision::Retry,
        Lifecycle::Failed if !attempt.permanent => RetryDecision::RetryOnce,
        Lifecycle::Failed
        | Lifecycle::Initiated
        | Lifecycle::Ringing
        | Lifecycle::Canceled
        | Lifecycle::InProgress
        | Lifecycle::BusyAfterAnswer
        | Lifecycle::FailedAfterAnswer
        | Lifecycle::Completed
        | Lifecycle::PresumedCompleted => RetryDecision::Never,
    }
}
