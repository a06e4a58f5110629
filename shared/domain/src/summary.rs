//! The state of a call, as the API and the tool show it.

use serde::Serialize;

use crate::attempt::AttemptState;
use crate::call::{Call, Job, JobState};
use crate::event::Direction;
use crate::plan::StopReason;
use crate::provider::Provider;

/// State of a call. It holds no phone number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallSummary {
    pub call_id: String,
    /// Provider of the next attempt if the call waits for one, else of the latest attempt.
    pub provider: Option<Provider>,
    pub direction: Option<Direction>,
    pub appointment_id: Option<String>,
    pub appointment_status: &'static str,
    pub job: JobSummary,
    pub lifecycle: Option<&'static str>,
    pub outcome: Option<&'static str>,
    pub settled: bool,
    pub attempts: Vec<AttemptSummary>,
    pub version: u64,
    pub created_at: String,
    pub updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<String>,
    /// Time at which the person was forgotten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forgotten_at: Option<String>,
}

/// State of the job of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobSummary {
    /// `None` if the job of that time is not known: see [`PastCall`](crate::PastCall).
    pub state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ends_at: Option<String>,
    /// Reason why there is no further attempt, whatever the retry policy says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<&'static str>,
}

/// State of an attempt of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttemptSummary {
    pub number: u8,
    pub provider: Option<Provider>,
    pub provider_call_id: Option<String>,
    pub lifecycle: &'static str,
    pub outcome: &'static str,
    /// `None` if Switchhook did not dial the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialled_at: Option<String>,
    pub started_at: String,
    pub ended_at: Option<String>,
}

impl CallSummary {
    /// Returns the state of a call as its row has it.
    #[must_use]
    pub fn of(call: &Call) -> Self {
        Self::new(call, &call.attempts(), Some(call.job.state()))
    }

    /// Returns the state of a call that may be a [`PastCall`](crate::PastCall), with these attempts. `job_state` is the state of the job
    /// then, if it is known.
    #[must_use]
    pub fn new(call: &Call, attempts: &[AttemptState], job_state: Option<JobState>) -> Self {
        let latest = attempts.last();
        let of_latest = latest.and_then(|attempt| call.attempt_provider(attempt.index));
        let provider = match &call.job {
            Job::Pending { .. } => call.dial_provider().or(of_latest),
            Job::Claimed { provider, .. } => Some(*provider),
            Job::InProgress | Job::Completed | Job::Failed | Job::Missed | Job::Canceled => {
                of_latest.or(call.dial_provider())
            }
        };
        Self {
            call_id: call.call_id.to_string(),
            provider,
            direction: call.direction,
            appointment_id: call.appointment_id.clone(),
            appointment_status: call.appointment_status().as_str(),
            job: JobSummary::new(call, job_state),
            lifecycle: latest.map(AttemptState::lifecycle_label),
            outcome: latest.map(AttemptState::outcome_label),
            settled: job_state == Some(call.job.state()) && call.is_settled(),
            attempts: attempts.iter().map(|attempt| AttemptSummary::new(call, attempt)).collect(),
            version: call.version,
            created_at: call.created_at.to_string(),
            updated_at: call.updated_at.to_string(),
            settled_at: call.settled_at.map(|at| at.to_string()),
            forgotten_at: call.forgotten_at.map(|at| at.to_string()),
        }
    }
}

impl JobSummary {
    fn new(call: &Call, state: Option<JobState>) -> Self {
        // The data of another state says nothing.
        if state != Some(call.job.state()) {
            return Self { state: state.map(JobState::as_str), due_at: None, lease_ends_at: None, stop_reason: None };
        }
        let (due_at, lease_ends_at) = match &call.job {
            Job::Pending { due_at } => (Some(*due_at), None),
            Job::Claimed { lease_ends_at, .. } => (None, Some(*lease_ends_at)),
            Job::InProgress | Job::Completed | Job::Failed | Job::Missed | Job::Canceled => (None, None),
        };
        Self {
            state: Some(call.job.as_str()),
            due_at: due_at.map(|at| at.to_string()),
            lease_ends_at: lease_ends_at.map(|at| at.to_string()),
            stop_reason: call.stop_reason.map(StopReason::as_str),
        }
    }
}

impl AttemptSummary {
    fn new(call: &Call, attempt: &AttemptState) -> Self {
        let record = call.attempt_records.get(attempt.index);
        Self {
            number: attempt.number,
            provider: call.attempt_provider(attempt.index),
            provider_call_id: record.and_then(|record| record.provider_call_id.clone()),
            lifecycle: attempt.lifecycle_label(),
            outcome: attempt.outcome_label(),
            dialled_at: record.and_then(|record| record.dialled_at).map(|at| at.to_string()),
            started_at: attempt.started_at.to_string(),
            ended_at: attempt.ended_at.map(|at| at.to_string()),
        }
    }
}
