//! The next dial of a call: when it is due, and who is asked.

use serde::{Deserialize, Serialize};

use crate::call::{Call, Job};
use crate::event::Provider;
use crate::time::Timestamp;

/// Providers that refused to place the next attempt. They hold until the attempt is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals {
    /// Number of dials of the call that were not withdrawn, when the providers refused.
    after_dials: usize,
    providers: Vec<Provider>,
}

impl Call {
    /// True if the call waits to be placed, and its time has come.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        match self.job {
            Job::Pending { due_at } => self.plan.is_some() && due_at <= now,
            Job::Claimed { .. } | Job::InProgress | Job::Completed | Job::Failed | Job::Missed | Job::Canceled => false,
        }
    }

    /// Returns the providers that may place the next attempt, in the order in which they are asked: as the call names them, but
    /// those that have refused this attempt come last. Empty if another system places the call.
    #[must_use]
    pub fn dial_providers(&self) -> Vec<Provider> {
        let named = self.plan.iter().flat_map(|plan| plan.providers.iter().copied());
        let (refused, mut asked): (Vec<_>, Vec<_>) = named.partition(|provider| self.has_refused(*provider));
        asked.extend(refused);
        asked
    }

    /// Returns the provider that is asked first to place the next attempt. `None` if another system places the call.
    #[must_use]
    pub fn dial_provider(&self) -> Option<Provider> {
        self.dial_providers().first().copied()
    }

    /// Notes that a provider refused to place the next attempt. Returns true if another provider is left to ask. If none is
    /// left, all of them are asked again.
    pub(crate) fn note_refusal(&mut self, provider: Option<Provider>) -> bool {
        let after_dials = self.attempt_records.len();
        let mut providers = match self.refusals.take() {
            Some(refusals) if refusals.after_dials == after_dials => refusals.providers,
            Some(_) | None => Vec::new(),
        };
        providers.extend(provider);
        self.refusals = Some(Refusals { after_dials, providers });
        let is_one_left = self.dial_provider().is_some_and(|provider| !self.has_refused(provider));
        if !is_one_left {
            self.refusals = None;
        }
        is_one_left
    }

    fn has_refused(&self, provider: Provider) -> bool {
        let refusals = self.refusals.as_ref().filter(|refusals| refusals.after_dials == self.attempt_records.len());
        refusals.is_some_and(|refusals| refusals.providers.contains(&provider))
    }
}
