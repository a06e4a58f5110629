//! The clients and settings that all parts of the reconciler share, and the report of one run.

use std::time::Duration;

use serde::Serialize;
use switchhook_aws::bus::Bus;
use switchhook_aws::calls::Calls;
use switchhook_aws::inbox::Inbox;
use switchhook_aws::provider::ProviderApi;
use switchhook_aws::queue::Queue;
use switchhook_aws::sdk::Clock;
use switchhook_aws::secret::ProviderSecrets;
use switchhook_domain::{Policy, Timestamp};

/// Time after which a run starts no further call or request. The function's timeout is 50 s, and a provider has 8 s to
/// answer a lookup.
pub(crate) const RUN_MAX: Duration = Duration::from_secs(36);

/// The handler, with its clients and settings.
#[derive(Debug)]
pub struct Reconciler {
    pub inbox: Inbox,
    pub calls: Calls,
    pub queue: Queue,
    /// Dead-letter queue of the events queue.
    pub dlq: Queue,
    pub bus: Bus,
    pub secrets: ProviderSecrets,
    pub api: ProviderApi,
    pub policy: Policy,
    pub clock: Clock,
}

/// Result of one run. Each field is also a metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Due calls that the index returned.
    pub woken: u64,
    /// Attempts whose inactivity timeout passed, and for which a `deadline_passed` event is in the inbox.
    pub deadlines_passed: u64,
    /// Requests to providers.
    pub lookups: u64,
    /// Lookups whose result is in the inbox as an event.
    pub lookup_events: u64,
    /// Claims whose lease ended.
    pub claims_expired: u64,
    /// Calls that got a later wake-up time.
    pub rescheduled: u64,
    /// Minutes of the inbox that were swept.
    pub swept_minutes: u64,
    /// Events that were missing in their call and are queued again.
    pub requeued: u64,
    /// Calls that nobody had reported, found in the providers' own lists.
    pub discovered: u64,
    /// Dead letters that the consumer had not noted.
    pub dead_letters_marked: u64,
    /// Notices to operators about new trouble.
    pub notices: u64,
    /// Errors: calls, index pages and sweeps that the next run tries again.
    pub failed: u64,
}

impl Reconciler {
    pub(crate) fn is_time_up(&self, stop_at: Timestamp) -> bool {
        self.clock.now() >= stop_at
    }
}
