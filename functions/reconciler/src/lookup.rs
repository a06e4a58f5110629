//! Lookups: asks providers about attempts, within limits.
//!
//! **One run sends at most [`REQUESTS_MAX`] requests, and none to a provider that has failed [`FAILURES_MAX`] times in a row.**
//! The next run starts anew. A lookup that reads a provider's list takes several requests.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use switchhook_aws::provider::ProviderApi;
use switchhook_aws::sdk::Clock;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{AttemptRecord, Call, Provider, ProviderEvent, Timestamp};
use switchhook_providers::{
    AccountConfig, CallSearch, Entries, Entry, Lookup, LookupAnswer, SearchStep, VerifiedWebhook,
};

use crate::reconciler::{Reconciler, RequestStats};

/// Limit on the requests of one run.
pub const REQUESTS_MAX: u64 = 300;
/// Failures in a row after which a provider gets no further request in this run.
const FAILURES_MAX: u32 = 5;

/// Result of looking up one attempt.
pub(crate) enum LookupOutcome {
    /// The attempt has ended.
    Ended(ReportedEnding),
    /// The attempt has not ended. The text is the provider call id in the answer.
    Alive(String),
    /// The provider does not have the call: the search covered every call that could match.
    NotFound,
    /// Nobody can tell: the attempt cannot be looked up, the provider has deleted its record, or its list does not decide.
    Unavailable,
    /// The provider gave no usable answer, or one with a status that is not known. A later lookup may succeed.
    RetryLater,
    /// The run has no time or no requests left for the lookup.
    OverBudget,
}

/// Ending that a provider reported in its answer to a lookup.
pub(crate) struct ReportedEnding {
    /// The ending as an event of the call and the attempt that were looked up.
    pub(crate) event: Box<ProviderEvent>,
    /// The answer in the form of a webhook, to be stored in the inbox.
    pub(crate) webhook: VerifiedWebhook,
}

/// The lookups of one run.
pub(crate) struct Lookups<'a> {
    api: &'a ProviderApi,
    accounts: &'a Entries<AccountConfig>,
    clock: &'a Clock,
    stop_at: Timestamp,
    sent: AtomicU64,
    is_over_budget: AtomicBool,
    stats: Mutex<BTreeMap<Provider, RequestStats>>,
    /// Number of failures in a row per provider.
    failures: Mutex<BTreeMap<Provider, u32>>,
}

impl Reconciler {
    /// Logs the requests of lookups, one line for each provider. Returns their sum.
    pub(crate) fn log_lookups(&self, lookups: &Lookups<'_>, trace_id: &str) -> RequestStats {
        let mut sum = RequestStats::default();
        for (provider, requests) in lookups.stats() {
            self.log_requests(provider, &requests, trace_id);
            sum.add(requests);
        }
        sum
    }
}

impl<'a> Lookups<'a> {
    pub(crate) fn new(
        api: &'a ProviderApi,
        accounts: &'a Entries<AccountConfig>,
        clock: &'a Clock,
        stop_at: Timestamp,
    ) -> Self {
        let (sent, is_over_budget) = (AtomicU64::new(0), AtomicBool::new(false));
        Self {
            api,
            accounts,
            clock,
            stop_at,
            sent,
            is_over_budget,
            stats: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    /// True if a lookup was left out, because the run had no time or no requests left.
    pub(crate) fn is_over_budget(&self) -> bool {
        self.is_over_budget.load(Ordering::Relaxed)
    }

    /// Requests so far, by provider.
    fn stats(&self) -> BTreeMap<Provider, RequestStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, provider: Provider, change: impl FnOnce(&mut RequestStats)) {
        let mut stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        change(stats.entry(provider).or_default());
    }

    /// Number of requests sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed).min(REQUESTS_MAX)
    }

    /// Asks the provider of a call about one of its attempts.
    pub(crate) async fn look_up(&self, call: &Call, record: &AttemptRecord, now: Timestamp) -> LookupOutcome {
        let Some(attempt) = &record.key else { return LookupOutcome::Unavailable };
        let index = call.attempt_records.iter().position(|other| other.key == record.key);
        let provider = index.and_then(|index| call.attempt_provider(index));
        let Some(provider) = provider else { return LookupOutcome::Unavailable };
        let lookup = Lookup {
            call_id: &call.call_id,
            attempt,
            provider_call_id: record.provider_call_id.as_deref(),
            dialled_at: record.dialled_at,
            from: call.from.as_ref(),
            to: call.to.as_ref(),
        };
        let config = match self.accounts.entry(provider) {
            Entry::Configured(config) => config,
            Entry::Unnamed => return LookupOutcome::Unavailable,
            Entry::Disabled => return LookupOutcome::RetryLater,
        };
        let Ok(mut search) = CallSearch::start(provider, config, lookup) else { return LookupOutcome::Unavailable };
        let answer = loop {
            if self.is_failing(provider) {
                return LookupOutcome::RetryLater;
            }
            if self.clock.now() >= self.stop_at || self.sent.fetch_add(1, Ordering::Relaxed) >= REQUESTS_MAX {
                self.is_over_budget.store(true, Ordering::Relaxed);
                return LookupOutcome::OverBudget;
            }
            let asked_at = self.clock.now();
            let response = self.api.send(provider, search.request().clone()).await;
            let elapsed = self.clock.now().millis_since(asked_at);
            self.add(provider, |stats| stats.add_time(elapsed));
            let Ok(response) = response else {
                break LookupAnswer::RetryLater { reason: "no_response" };
            };
            match search.respond(response.status, &response.body, now) {
                SearchStep::Ask(next) => search = next,
                SearchStep::Answer(answer) => break answer,
            }
        };
        let (is_answered, outcome) = match answer {
            LookupAnswer::Ended { webhook, event } => {
                // The event belongs to the attempt that was looked up, whatever ids the provider echoes.
                let (call_id, attempt) = (call.call_id.clone(), Some(attempt.clone()));
                let event = Box::new(ProviderEvent { call_id, attempt, ..*event });
                (true, LookupOutcome::Ended(ReportedEnding { event, webhook }))
            }
            LookupAnswer::Alive { provider_call_id } => (true, LookupOutcome::Alive(provider_call_id)),
            LookupAnswer::NotFound => (true, LookupOutcome::NotFound),
            LookupAnswer::Gone | LookupAnswer::Undecided { reason: _ } => (true, LookupOutcome::Unavailable),
            // The provider works, and its list has grown.
            LookupAnswer::UnknownValue { field } => {
                self.note_unknown(provider, call, field);
                (true, LookupOutcome::RetryLater)
            }
            LookupAnswer::RetryLater { reason: _ } => (false, LookupOutcome::RetryLater),
        };
        self.record_result(provider, is_answered);
        outcome
    }

    /// Counts a value that the provider has added to its list. The log names the field alone.
    fn note_unknown(&self, provider: Provider, call: &Call, field: &'static str) {
        let decision = Decision {
            function: "reconciler",
            message: "call has a status that is not known",
            action_taken: "asked_again_later",
            provider: Some(provider.as_str()),
            call_id: Some(call.call_id.as_str()),
            unknown_field: Some(field),
            counts: vec![("unknown_value", 1)],
            ..Decision::default()
        };
        decision.log(self.clock.now(), false);
    }

    fn is_failing(&self, provider: Provider) -> bool {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.get(&provider).is_some_and(|count| *count >= FAILURES_MAX)
    }

    fn record_result(&self, provider: Provider, is_answered: bool) {
        self.add(provider, |stats| stats.failed += u64::from(!is_answered));
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(provider).or_default();
        *count = if is_answered { 0 } else { *count + 1 };
    }
}
