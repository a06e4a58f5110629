//! The next dial of a call: when it is due, and who is asked.

use crate::call::{Call, Job};
use crate::event::Provider;
use crate::time::Timestamp;

impl Call {
    /// True if the call waits to be placed, and its time has come.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        match self.job {
            Job::Pending { due_at } => self.plan.is_some() && due_at <= now,
            Job::Claimed { .. } | Job::InProgress | Job::Completed | Job::Failed | Job::Canceled => false,
        }
    }

    /// Returns the providers that may place the next attempt, the preferred one first.
    #[must_use]
    pub fn dial_providers(&self) -> Vec<Provider> {
        vec![self.provider]
    }
}
