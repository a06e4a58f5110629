//! The status of an appointment that has several calls.

use crate::announcement::AppointmentStatus;
use crate::attempt::AttemptState;
use crate::call::Call;
use crate::plan::StopReason;

impl AppointmentStatus {
    /// Returns the status of an appointment with these calls. `None` if there is no call.
    ///
    /// The call in which the person decided last gives the status, else the call that started last, else the call that was
    /// created last. A call that was [called off](Call::call_off) without a decision gives it only if every call was.
    #[must_use]
    pub fn of_calls(calls: &[Call]) -> Option<Self> {
        let statuses = calls.iter().map(|call| {
            let attempts = call.attempts();
            let decided = attempts.iter().filter(|attempt| attempt.decision().is_some());
            let decided_at = decided.map(|attempt| attempt.started_at).max();
            let started_at = attempts.last().map(|attempt: &AttemptState| attempt.started_at);
            let is_wanted = !call.job.is_final() || call.stop_reason != Some(StopReason::BookingChanged);
            ((decided_at, is_wanted, started_at, call.created_at, &call.call_id), call.appointment_status())
        });
        statuses.max_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, status)| status)
    }
}
