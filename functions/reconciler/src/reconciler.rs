//! The clients and settings that all parts of the reconciler share, and the report of one run.

use std::time::Duration;

use serde::{Serialize, Serializer};
use switchhook_aws::bus::Bus;
use switchhook_aws::calls::Calls;
use switchhook_aws::inbox::Inbox;
use switchhook_aws::provider::ProviderApi;
use switchhook_aws::queue::Queue;
use switchhook_aws::sdk::Clock;
use switchhook_aws::secret::DialAccounts;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{CallId, Policy, Provider, Timestamp};

/// Time after which a run starts no further call or request. The function's timeout is 50 s, and a provider has 8 s to
/// answer a lookup.
pub const RUN_MAX: Duration = Duration::from_secs(36);
/// Time after the start of a scheduled run at which its workers start no further call or request. A provider has 8 s to answer a
/// lookup, so they are done when the next run starts.
pub const WORK_WINDOW: Duration = Duration::from_secs(50);

/// The handler, with its clients and settings.
#[derive(Debug)]
pub struct Reconciler {
    pub inbox: Inbox,
    pub calls: Calls,
    pub queue: Queue,
    /// Dead-letter queue of the events queue.
    pub dlq: Queue,
    /// Queue of work that a scheduled run left to workers. Its messages invoke this function.
    pub repair_queue: Queue,
    pub bus: Bus,
    pub dial_accounts: DialAccounts,
    pub api: ProviderApi,
    pub policy: Policy,
    pub clock: Clock,
}

/// Result of one run.
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
    /// Shards with more due calls or received events than one invocation handles, which were handed to a worker.
    pub handed_on: u64,
    /// Calls that got a later wake-up time.
    pub rescheduled: u64,
    /// Minutes of the inbox by which the cursor of the sweep moved. Shards with much in them may be left to workers.
    pub swept_minutes: u64,
    /// Events that were missing in their call and are queued again.
    pub requeued: u64,
    /// Events that wait in the inbox, and that a worker queued again.
    #[serde(skip)]
    pub retried: u64,
    /// Providers' lists of calls that were due, and that the run handed to workers.
    pub lists_handed_on: u64,
    /// Calls that nobody had reported, found in the providers' own lists by a worker.
    #[serde(skip)]
    pub discovered: u64,
    /// Time whose calls discovery left out, because it was too far behind or gave a period up, in milliseconds. Of a worker.
    #[serde(skip)]
    pub discovery_skipped_ms: u64,
    /// 1 if a worker had no time for a provider's list that was due.
    #[serde(skip)]
    pub discovery_postponed: u64,
    /// Dead letters that the consumer had not noted.
    pub dead_letters_marked: u64,
    /// Notices to operators about new trouble.
    pub notices: u64,
    /// Calls that have been dialling for more than ten minutes. `None` if this run did not count them.
    pub stuck_dialing: Option<u64>,
    /// Errors: calls, index pages and sweeps that the next run tries again.
    pub failed: u64,
    /// Errors of a worker that no scheduled run meets: of providers' lists, and of the drift check.
    #[serde(skip)]
    pub failed_alone: u64,
    /// Attempts whose inactivity timeout ended them: `deadline_passed` events that are new in the inbox.
    pub timeouts: u64,
    /// Dials in doubt of the calls that were due.
    pub doubts: u64,
    /// 1 if the run had no time or no requests left for all that was due.
    pub budget_used_up: u64,
    /// Time since the oldest wake-up time that the run found, in milliseconds.
    pub overdue_wake_ms: u64,
    /// Time since the oldest event that is not known to be folded arrived or was tried first, in milliseconds. 0 if nothing was swept yet.
    pub unfolded_ms: u64,
    /// Time up to which all shards of the inbox are swept: the end of a minute. `None` if nothing was swept yet, or the cursor could not be
    /// read.
    #[serde(serialize_with = "as_text")]
    pub swept_until: Option<Timestamp>,
    pub requests: RequestStats,
}

/// Requests to providers, or to one of them, in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestStats {
    pub sent: u64,
    /// Requests without a usable answer.
    pub failed: u64,
    /// Time of the slowest request in milliseconds. `None` if there was no request.
    pub slowest_ms: Option<u64>,
    /// Time of all requests together, in milliseconds.
    #[serde(skip)]
    pub(crate) total_ms: u64,
}

/// Serializes a time in RFC 3339 format, because operators read it.
fn as_text<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.to_string()).serialize(serializer)
}

impl RequestStats {
    /// Adds a request that took this time.
    pub(crate) fn add_time(&mut self, millis: i64) {
        self.sent += 1;
        self.slowest_ms = self.slowest_ms.max(Some(millis.unsigned_abs()));
        self.total_ms += millis.unsigned_abs();
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.failed += other.failed;
        self.slowest_ms = self.slowest_ms.max(other.slowest_ms);
        self.total_ms += other.total_ms;
    }

    /// Returns the requests as metrics of a log line.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        let slowest = self.slowest_ms.map(|slowest_ms| ("provider_request_ms", slowest_ms));
        let counts = [("provider_requests", self.sent), ("provider_request_failed", self.failed)];
        slowest.into_iter().chain(counts).collect()
    }
}

/// Counts a value that a provider has added to its list. The log names the field alone.
pub(crate) fn log_unknown_value(
    provider: Provider,
    call_id: Option<&CallId>,
    field: &'static str,
    action_taken: &'static str,
    now: Timestamp,
) {
    let decision = Decision {
        function: "reconciler",
        message: "provider's answer has a value that is not known",
        action_taken,
        provider: Some(provider.as_str()),
        call_id: call_id.map(CallId::as_str),
        unknown_field: Some(field),
        counts: vec![("unknown_value", 1)],
        ..Decision::default()
    };
    decision.log(now, false);
}

/// Logs that a dial has ended about which its provider reported nothing. Without this line, nobody would notice that its webhooks do not
/// arrive.
pub(crate) fn log_unreported(provider: Option<Provider>, call_id: &CallId, trace_id: &str, now: Timestamp) {
    let decision = Decision {
        function: "reconciler",
        message: "dial ended, and its provider had reported nothing about it",
        action_taken: "unreported_ending_found",
        provider: provider.as_ref().map(Provider::as_str),
        call_id: Some(call_id.as_str()),
        trace_id: Some(trace_id),
        counts: vec![("stuck_dialing", 1)],
        ..Decision::default()
    };
    decision.log(now, false);
}

impl Reconciler {
    pub(crate) fn is_time_up(&self, stop_at: Timestamp) -> bool {
        self.clock.now() >= stop_at
    }

    /// Logs the requests to one provider. Each provider has a line of its own, because its name is a dimension of the metrics.
    pub(crate) fn log_requests(&self, provider: Provider, requests: &RequestStats, trace_id: &str) {
        if requests.sent == 0 {
            return;
        }
        let decision = Decision {
            function: "reconciler",
            message: "requests to a provider",
            action_taken: "provider_asked",
            provider: Some(provider.as_str()),
            trace_id: Some(trace_id),
            counts: requests.counts(),
            ..Decision::default()
        };
        decision.log(self.clock.now(), false);
    }
}
