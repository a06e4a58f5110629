//! The reconciler's clients and limits, and what one run reports.

use std::time::Duration;

use switchhook_aws::calls::Calls;
use switchhook_aws::inbox::Inbox;
use switchhook_aws::provider::ProviderApi;
use switchhook_aws::queue::Queue;
use switchhook_aws::sdk::Clock;
use switchhook_aws::secret::ProviderSecrets;
use switchhook_domain::{Policy, Timestamp};

/// A run starts nothing new after this. The function's timeout is 50 s, and a provider that was asked has 8 s to answer.
pub(crate) const RUN_MAX: Duration = Duration::from_secs(36);

/// The handler and what it works with.
#[derive(Debug)]
pub struct Reconciler {
    pub inbox: Inbox,
    pub calls: Calls,
    pub queue: Queue,
    pub secrets: ProviderSecrets,
    pub api: ProviderApi,
    pub policy: Policy,
    pub clock: Clock,
}

/// What one run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Calls that were due in the index.
    pub woken: u64,
    /// `deadline passed` events that were put into the inbox.
    pub deadlines_passed: u64,
    /// Requests that went to providers.
    pub lookups: u64,
    /// What they said that the call did not know, put into the inbox.
    pub lookup_events: u64,
    /// Claims whose lease had ended.
    pub claims_expired: u64,
    /// Calls that had been heard of since, and wake up later.
    pub rescheduled: u64,
    /// Minutes of the inbox that were looked at.
    pub swept_minutes: u64,
    /// Events that had never reached their call and were queued again.
    pub requeued: u64,
    /// Calls, minutes or events that must be tried again by the next run.
    pub failed: u64,
}

impl Reconciler {
    pub(crate) fn is_over(&self, stop_at: Timestamp) -> bool {
        self.clock.now() >= stop_at
    }
}
