//! The status of an appointment that has several calls.

use crate::announcement::AppointmentStatus;
use crate::attempt::AttemptState;
use crate::call::Call;

impl AppointmentStatus {
    /// Returns the status of an appointment with these calls. `None` if there is no call.
    ///
    /// The call in which the person decided last gives the status, else the call that started last, else the call that was
    /// created last.
    #[must_use]
    pub fn of_calls(calls: &[Call]) -> Option<Self> {
        let statuses = calls.iter().map(|call| {
            let attempts = call.attempts();
            let decided = attempts.iter().filter(|attempt| attempt.decision().is_some());
            let decided_at = decided.map(|attempt| attempt.started_at).max();
            let started_at = attempts.last().map(|attempt: &AttemptState| attempt.started_at);
            ((decided_at, started_at, call.created_at, &call.call_id), call.appointment_status())
        });
        statuses.max_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, status)| status)
    }
}
