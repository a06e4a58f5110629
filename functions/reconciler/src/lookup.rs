//! Lookups: asks providers about attempts, within limits.
//!
//! **A provider gets at most [`REQUESTS_PER_MINUTE`] requests a minute from all workers together, and none from a worker at which
//! it has failed [`FAILURES_MAX`] times in a row.** The next run of the worker starts anew. A lookup that reads a provider's list takes
//! several requests.
//!
//! **Urgent work comes first, whoever does it.** Each [kind of work](Urgency) may use a share of the budget only. A worker takes some
//! requests at once from the [counter](switchhook_aws::inbox) that all share, and gives back those that it does not send.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use switchhook_aws::Error;
use switchhook_aws::inbox::{Inbox, may_be_deleted, minute_of};
use switchhook_aws::provider::ProviderApi;
use switchhook_aws::sdk::Clock;
use switchhook_domain::{AttemptRecord, Call, Policy, Provider, ProviderEvent, Timestamp, fold};
use switchhook_providers::{
    AccountConfig, CallSearch, Entries, Entry, Lookup, LookupAnswer, SearchStep, VerifiedWebhook, api_url,
    read_with_notes,
};
use tokio::sync::Semaphore;

use crate::reconciler::{Reconciler, RequestStats, log_unknown_value};

/// Limit on the requests to one provider in a minute.
pub const REQUESTS_PER_MINUTE: u32 = 1_200;
/// Requests that a worker takes from the budget at once.
const GRANT: u32 = 20;
/// Requests to a provider in a run from which on their mean time counts.
const MEASURED_MIN: u64 = 8;
/// Requests to a provider that an invocation sends at the same time. Providers refuse too many, and each takes a connection.
const AT_ONCE_MAX: usize = 48;
/// Failures in a row after which a provider gets no further request in this run.
const FAILURES_MAX: u32 = 5;

/// Urgency of work that asks providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// A dial in doubt: somebody may wait for a call that was never made.
    Doubt,
    /// An attempt without an ending.
    Ending,
    /// A call that ended, and whose outcome or promised retry has not come.
    Outcome,
    /// A dial that the provider accepted, and about which nothing was reported since. Such work does not stay due, so it waits for no
    /// request.
    Unreported,
    /// A call that needs no repair.
    Drift,
}

impl Urgency {
    /// Requests to one provider in a minute after which such work gets no further request.
    #[must_use]
    pub const fn ceiling(self) -> u32 {
        let percent = match self {
            Self::Doubt => 100,
            Self::Ending => 80,
            Self::Outcome => 60,
            Self::Unreported => 50,
            Self::Drift => 40,
        };
        REQUESTS_PER_MINUTE / 100 * percent
    }
}

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
    /// The provider gave no usable answer, or one with a status that is not known, or cannot tell yet. A later lookup may succeed.
    RetryLater,
    /// No time or no requests are left for the lookup.
    OverBudget,
    /// The provider was not asked, because it keeps failing.
    Failing,
}

/// Ending that a provider reported in its answer to a lookup.
pub(crate) struct ReportedEnding {
    /// Other events of the call, in the same form. Empty if they say no more about the attempt than the call and its ending do.
    pub(crate) others: Vec<(VerifiedWebhook, ProviderEvent)>,
    /// The ending as an event of the call and the attempt that were looked up.
    pub(crate) event: Box<ProviderEvent>,
    /// The answer in the form of a webhook, to be stored in the inbox.
    pub(crate) webhook: VerifiedWebhook,
    /// True if the answer does not tell the ending from another one, as a webhook of the same ending does.
    pub(crate) lacks_detail: bool,
}

impl ReportedEnding {
    /// Returns copies of all events, the ending last.
    pub(crate) fn events(&self) -> Vec<ProviderEvent> {
        self.others.iter().map(|(_, event)| event).chain([self.event.as_ref()]).cloned().collect()
    }
}

/// The lookups of one run.
pub(crate) struct Lookups<'a> {
    api: &'a ProviderApi,
    accounts: &'a Entries<AccountConfig>,
    inbox: &'a Inbox,
    clock: &'a Clock,
    policy: &'a Policy,
    stop_at: Timestamp,
    is_over_budget: AtomicBool,
    /// Locked while a request to the shared budget is under way, so that each is sent once.
    grants: tokio::sync::Mutex<BTreeMap<Provider, Grant>>,
    stats: Mutex<BTreeMap<Provider, RequestStats>>,
    /// Places for requests that are under way, by provider.
    places: Mutex<BTreeMap<Provider, Arc<Semaphore>>>,
    /// Number of failures in a row per provider.
    failures: Mutex<BTreeMap<Provider, u32>>,
}

/// Requests to a provider that were taken from the shared budget of a minute.
#[derive(Default)]
struct Grant {
    minute: i64,
    unused: u32,
    /// The ceiling at which the unused requests were taken. Less urgent work does not use them.
    ceiling: u32,
    /// The highest ceiling at which the budget refused requests in this minute.
    refused_at: u32,
}

impl Reconciler {
    /// Returns the lookups of a run that starts now.
    pub(crate) fn lookups<'a>(&'a self, accounts: &'a Entries<AccountConfig>, stop_at: Timestamp) -> Lookups<'a> {
        Lookups {
            api: &self.api,
            accounts,
            inbox: &self.inbox,
            clock: &self.clock,
            policy: &self.policy,
            stop_at,
            is_over_budget: AtomicBool::new(false),
            grants: tokio::sync::Mutex::default(),
            stats: Mutex::default(),
            places: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    /// Gives back the requests that lookups did not send, and logs those that they sent, one line for each provider. Returns the sum.
    pub(crate) async fn finish_lookups(&self, lookups: &Lookups<'_>, trace_id: &str) -> RequestStats {
        lookups.return_unused().await;
        let mut sum = RequestStats::default();
        for (provider, requests) in lookups.stats() {
            self.log_requests(provider, &requests, trace_id);
            sum.add(requests);
        }
        sum
    }
}

impl Lookups<'_> {
    pub(crate) fn is_time_up(&self) -> bool {
        self.clock.now() >= self.stop_at
    }

    /// True if a lookup was left out, because no requests were left.
    pub(crate) fn is_over_budget(&self) -> bool {
        self.is_over_budget.load(Ordering::Relaxed)
    }

    /// Requests so far, by provider.
    fn stats(&self) -> BTreeMap<Provider, RequestStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn places_of(&self, provider: Provider) -> Arc<Semaphore> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.entry(provider).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE_MAX))).clone()
    }

    fn add(&self, provider: Provider, change: impl FnOnce(&mut RequestStats)) {
        let mut stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        change(stats.entry(provider).or_default());
    }

    /// Number of requests sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.stats().values().map(|stats| stats.sent).sum()
    }

    /// Takes one request to a provider from the budget. Returns false if none is left in this minute for work of this urgency.
    async fn take(&self, provider: Provider, urgency: Urgency) -> Result<bool, Error> {
        let mut grants = self.grants.lock().await;
        let (now, ceiling) = (self.clock.now(), urgency.ceiling());
        let grant = grants.entry(provider).or_default();
        if grant.minute != minute_of(now) {
            *grant = Grant { minute: minute_of(now), ..Grant::default() };
        }
        if grant.unused == 0 || grant.ceiling > ceiling {
            if ceiling <= grant.refused_at {
                return Ok(false);
            }
            if !self.inbox.take_lookups(provider, now, GRANT, ceiling).await? {
                grant.refused_at = ceiling;
                return Ok(false);
            }
            grant.unused += GRANT;
            grant.ceiling = ceiling;
        }
        grant.unused -= 1;
        Ok(true)
    }

    /// Gives requests of this minute back to the budget. If that fails, no work gets them.
    async fn return_unused(&self) {
        let (mut grants, minute) = (self.grants.lock().await, minute_of(self.clock.now()));
        for (provider, grant) in grants.iter_mut().filter(|(_, grant)| grant.minute == minute && grant.unused > 0) {
            let unused = std::mem::take(&mut grant.unused);
            drop(self.inbox.return_lookups(*provider, minute, unused).await);
        }
    }

    /// Asks the provider of a call about one of its attempts.
    ///
    /// # Errors
    /// The budget could not be read.
    pub(crate) async fn look_up(
        &self,
        call: &Call,
        record: &AttemptRecord,
        urgency: Urgency,
        now: Timestamp,
    ) -> Result<LookupOutcome, Error> {
        let Some(attempt) = &record.key else { return Ok(LookupOutcome::Unavailable) };
        let index = call.attempt_records.iter().position(|other| other.key == record.key);
        let provider = index.and_then(|index| call.attempt_provider(index));
        let Some(provider) = provider else { return Ok(LookupOutcome::Unavailable) };
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
            Entry::Unnamed => return Ok(LookupOutcome::Unavailable),
            Entry::Disabled => return Ok(LookupOutcome::RetryLater),
        };
        let Ok(mut search) = CallSearch::start(provider, config, lookup) else { return Ok(LookupOutcome::Unavailable) };
        let answer = loop {
            let _place = self.places_of(provider).acquire_owned().await;
            if self.is_failing(provider) {
                return Ok(LookupOutcome::Failing);
            }
            if self.is_time_up() {
                return Ok(LookupOutcome::OverBudget);
            }
            if !self.take(provider, urgency).await? {
                self.is_over_budget.fetch_or(urgency != Urgency::Unreported, Ordering::Relaxed);
                return Ok(LookupOutcome::OverBudget);
            }
            let asked_at = self.clock.now();
            let response = self.api.send(provider, search.request().clone(), asked_at).await;
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
            LookupAnswer::Ended { others, webhook, event } => {
                // The events belong to the attempt that was looked up, whatever ids the provider echoes.
                let of_attempt = |event: ProviderEvent| {
                    let (call_id, attempt) = (call.call_id.clone(), Some(attempt.clone()));
                    ProviderEvent { call_id, attempt, ..event }
                };
                let missing = others.into_iter().filter(|(_, event)| !call.contains_event(&event.event_id));
                let others = missing.map(|(webhook, event)| (webhook, of_attempt(event))).collect();
                let lacks_detail = read_with_notes(&webhook, now).1.lacks_detail;
                let mut ending = ReportedEnding { others, event: Box::new(of_attempt(*event)), webhook, lacks_detail };
                let state_after = |events: &[ProviderEvent]| {
                    let folded = fold(Some(call), events, self.policy, now).transition;
                    let attempts = folded.map_or_else(|| call.attempts(), |folded| folded.call.attempts());
                    let state = attempts.iter().find(|other| Some(other.index) == index);
                    state.map(|state| (state.lifecycle, state.outcome))
                };
                if state_after(&ending.events()) == state_after(std::slice::from_ref(&*ending.event)) {
                    ending.others.clear();
                }
                for webhook in ending.others.iter().map(|(webhook, _)| webhook).chain([&ending.webhook]) {
                    if let Some(field) = read_with_notes(webhook, now).1.unknown_value {
                        log_unknown_value(provider, Some(&call.call_id), field, "read_without_it", now);
                    }
                }
                (true, LookupOutcome::Ended(ending))
            }
            LookupAnswer::Alive { provider_call_id } => (true, LookupOutcome::Alive(provider_call_id)),
            LookupAnswer::NotFound if proves_nothing(record, config, now) => (true, LookupOutcome::Unavailable),
            LookupAnswer::NotFound => (true, LookupOutcome::NotFound),
            LookupAnswer::Gone | LookupAnswer::Undecided { reason: _ } => (true, LookupOutcome::Unavailable),
            // The provider works, and shows more later.
            LookupAnswer::TooEarly { reason: _ } => (true, LookupOutcome::RetryLater),
            // The provider works, and its list has grown.
            LookupAnswer::UnknownValue { field } => {
                log_unknown_value(provider, Some(&call.call_id), field, "asked_again_later", self.clock.now());
                (true, LookupOutcome::RetryLater)
            }
            LookupAnswer::RetryLater { reason: _ } => (false, LookupOutcome::RetryLater),
        };
        self.record_result(provider, is_answered);
        Ok(outcome)
    }

    /// True if the provider gets no further request in this run.
    fn is_failing(&self, provider: Provider) -> bool {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.get(&provider).is_some_and(|count| *count >= FAILURES_MAX)
    }

    /// True if the provider gave no usable answer to the last lookup, or has no account to be asked with.
    pub(crate) fn is_unreachable(&self, provider: Provider) -> bool {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        self.lacks_account(provider) || failures.get(&provider).is_some_and(|count| *count > 0)
    }

    /// True if the provider can be looked up, and the accounts do not name it, or its account cannot be read.
    pub(crate) fn lacks_account(&self, provider: Provider) -> bool {
        api_url(provider).is_some() && self.accounts.config(provider).is_none()
    }

    /// True if the accounts name the provider.
    pub(crate) fn is_named(&self, provider: Provider) -> bool {
        !matches!(self.accounts.entry(provider), Entry::Unnamed)
    }

    /// True if the requests to a provider took longer than this on average, in milliseconds.
    pub(crate) fn is_slower_than(&self, mean_ms: u64, provider: Provider) -> bool {
        let stats = self.stats().get(&provider).copied().unwrap_or_default();
        stats.sent >= MEASURED_MIN && stats.total_ms > mean_ms * stats.sent
    }

    fn record_result(&self, provider: Provider, is_answered: bool) {
        self.add(provider, |stats| stats.failed += u64::from(!is_answered));
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(provider).or_default();
        *count = if is_answered { 0 } else { *count + 1 };
    }
}

/// True if the dial may have been made although the provider does not have its call. Another account than now may have made it. Or the inbox may have
/// deleted the events that tell of it. A row that was restored from a backup may get such an old dial from its record.
fn proves_nothing(record: &AttemptRecord, config: &AccountConfig, now: Timestamp) -> bool {
    let is_of_account = record.dial_key.as_deref().is_some_and(|key| config.made_dial(key));
    !is_of_account || record.dialled_at.is_none_or(|dialled_at| may_be_deleted(dialled_at, now))
}
