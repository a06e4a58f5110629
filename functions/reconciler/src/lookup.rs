//! Asking providers, within bounds.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use switchhook_aws::inbox::NewEvent;
use switchhook_aws::provider::ProviderApi;
use switchhook_aws::sdk::Clock;
use switchhook_domain::{AttemptKey, Call, Provider, ProviderEvent, Timestamp};
use switchhook_providers::{Lookup, LookupAnswer, Providers, VerifiedWebhook, lookup_api_request, read_lookup_answer};

/// Requests of one run. What is left over is asked by the next.
pub(crate) const LOOKUPS_MAX: u64 = 300;
/// After this many failures in a row, a provider is not asked any more in this run.
const FAILURES_MAX: u32 = 5;

/// What a provider said of an attempt.
pub(crate) enum LookupOutcome {
    /// How it ended, as an event of the provider's.
    Ended(Box<ProviderEvent>, Answered),
    /// It lives; the provider calls it by this id.
    Alive(String),
    /// The provider has no call of ours with our ids.
    NotFound,
    /// There is nobody to ask, or nothing to ask by.
    Unavailable,
    /// Not now.
    RetryLater,
    /// This run asks no more: for the next.
    OverBudget,
}

/// The answer, in the words of a webhook.
pub(crate) struct Answered(VerifiedWebhook);

impl Answered {
    /// As it goes into the inbox.
    pub(crate) fn into_new_event(self, event: &ProviderEvent, trace_id: &str) -> NewEvent {
        NewEvent::from_lookup(&self.0, event, trace_id)
    }
}

/// Asks for one run.
pub(crate) struct Lookups<'a> {
    api: &'a ProviderApi,
    providers: &'a Providers,
    clock: &'a Clock,
    stop_at: Timestamp,
    sent: AtomicU64,
    /// In a row, by provider.
    failures: Mutex<BTreeMap<Provider, u32>>,
}

impl<'a> Lookups<'a> {
    pub(crate) fn new(api: &'a ProviderApi, providers: &'a Providers, clock: &'a Clock, stop_at: Timestamp) -> Self {
        Self { api, providers, clock, stop_at, sent: AtomicU64::new(0), failures: Mutex::default() }
    }

    /// Requests that were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed).min(LOOKUPS_MAX)
    }

    pub(crate) async fn look_up(
        &self,
        call: &Call,
        attempt: &AttemptKey,
        provider_call_id: Option<&str>,
        dialled_at: Option<Timestamp>,
        now: Timestamp,
    ) -> LookupOutcome {
        let provider = call.provider;
        let lookup = Lookup { call_id: &call.call_id, attempt, provider_call_id, dialled_at };
        let request =
            self.providers.config(provider).and_then(|config| lookup_api_request(provider, config, &lookup).ok());
        let Some(request) = request else { return LookupOutcome::Unavailable };
        if self.is_down(provider) {
            return LookupOutcome::RetryLater;
        }
        if self.clock.now() >= self.stop_at || self.sent.fetch_add(1, Ordering::Relaxed) >= LOOKUPS_MAX {
            return LookupOutcome::OverBudget;
        }
        let told = match self.api.send(provider, request).await {
            Ok(answer) => read_lookup_answer(provider, &lookup, answer.status, &answer.body, now),
            Err(_) => LookupAnswer::RetryLater { reason: "no_answer" },
        };
        match told {
            LookupAnswer::Ended { webhook, event } => {
                self.note(provider, true);
                // It is about this attempt, whatever ids the provider echoes.
                let (call_id, attempt) = (call.call_id.clone(), Some(attempt.clone()));
                LookupOutcome::Ended(Box::new(ProviderEvent { call_id, attempt, ..*event }), Answered(webhook))
            }
            LookupAnswer::Alive { provider_call_id } => {
                self.note(provider, true);
                LookupOutcome::Alive(provider_call_id)
            }
            LookupAnswer::NotFound => {
                self.note(provider, true);
                LookupOutcome::NotFound
            }
            LookupAnswer::Gone => {
                self.note(provider, true);
                LookupOutcome::Unavailable
            }
            LookupAnswer::RetryLater { reason: _ } => {
                self.note(provider, false);
                LookupOutcome::RetryLater
            }
        }
    }

    fn is_down(&self, provider: Provider) -> bool {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.get(&provider).is_some_and(|count| *count >= FAILURES_MAX)
    }

    fn note(&self, provider: Provider, answered: bool) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(provider).or_default();
        *count = if answered { 0 } else { *count + 1 };
    }
}
