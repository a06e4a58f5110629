//! The providers as one invocation of the scheduler sees them: their health, and their dial rates.

use std::collections::BTreeMap;
use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::calls::Calls;
use switchhook_domain::{Call, CallId, Provider, ProviderHealth, Timestamp};
use switchhook_providers::DialRates;

/// Way on which a call reaches a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The call takes a place in the dial rate of this provider.
    AtRate(Provider),
    /// The call is the probe of this provider.
    Probe(Provider),
}

/// Providers and their health. The health of each is read once, when it is asked for first.
pub(crate) struct Flow<'a> {
    calls: &'a Calls,
    dial_rates: &'a DialRates,
    lanes: u32,
    health: BTreeMap<Provider, ProviderHealth>,
}

impl<'a> Flow<'a> {
    pub(crate) const fn new(calls: &'a Calls, dial_rates: &'a DialRates, lanes: u32) -> Self {
        Self { calls, dial_rates, lanes, health: BTreeMap::new() }
    }

    /// True if calls are placed with the provider.
    pub(crate) fn is_configured(&self, provider: Provider) -> bool {
        self.dial_interval(provider).is_some()
    }

    /// Health of a provider.
    pub(crate) async fn health(&mut self, provider: Provider) -> Result<ProviderHealth, Error> {
        if let Some(known) = self.health.get(&provider) {
            return Ok(known.clone());
        }
        let health = self.calls.provider_health_eventual(provider).await?;
        self.health.insert(provider, health.clone());
        Ok(health)
    }

    /// True if the provider gets calls other than probes.
    pub(crate) async fn is_available(&mut self, provider: Provider, now: Timestamp) -> Result<bool, Error> {
        Ok(self.is_configured(provider) && self.health(provider).await?.is_available(now))
    }

    /// Number of providers whose circuit is known to be open.
    pub(crate) fn unavailable(&self) -> u64 {
        self.health.values().filter(|health| health.is_open()).count() as u64
    }

    /// Number of claims that the provider's dial rate allows.
    pub(crate) async fn free_places(
        &mut self,
        provider: Provider,
        ahead: Duration,
        now: Timestamp,
    ) -> Result<u64, Error> {
        let Some(interval) = self.dial_interval(provider) else { return Ok(0) };
        Ok(self.health(provider).await?.free_places(interval, ahead, now))
    }

    /// Books up to `wanted` places in the provider's dial rate. Returns the number of booked places.
    pub(crate) async fn book(
        &mut self,
        provider: Provider,
        wanted: u64,
        ahead: Duration,
        now: Timestamp,
    ) -> Result<u64, Error> {
        let Some(interval) = self.dial_interval(provider) else { return Ok(0) };
        let book = |health: &ProviderHealth| {
            let (next, booked) = health.book(wanted, interval, ahead, now)?;
            Some((next.clone(), (next, booked)))
        };
        Ok(match self.calls.change_provider_health(provider, book).await? {
            Some((health, booked)) => {
                self.health.insert(provider, health);
                booked
            }
            None => 0,
        })
    }

    /// True if another provider than this one gets calls.
    pub(crate) async fn is_other_available(&mut self, provider: Provider, now: Timestamp) -> Result<bool, Error> {
        for other in Provider::ALL.into_iter().filter(|other| *other != provider) {
            if self.is_available(other, now).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finds a provider for the call, in the order that the call names. If a provider needs a probe, the call becomes that
    /// probe. With `forced`, every open circuit gets a probe. `None` if no provider takes the call now.
    pub(crate) async fn route(&mut self, call: &Call, forced: bool, now: Timestamp) -> Result<Option<Route>, Error> {
        for provider in call.dial_providers() {
            if self.is_available(provider, now).await? {
                return Ok(Some(Route::AtRate(provider)));
            }
            if self.is_configured(provider) && self.start_probe(provider, &call.call_id, forced, now).await? {
                return Ok(Some(Route::Probe(provider)));
            }
        }
        Ok(None)
    }

    async fn start_probe(
        &mut self,
        provider: Provider,
        call_id: &CallId,
        forced: bool,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let needs_probe = |health: &ProviderHealth| health.needs_probe(now) || (forced && health.is_open());
        if !needs_probe(&self.health(provider).await?) {
            return Ok(false);
        }
        let probe = |health: &ProviderHealth| {
            let next = needs_probe(health).then(|| health.start_probe(call_id, now))??;
            Some((next.clone(), next))
        };
        let started = self.calls.change_provider_health(provider, probe).await?;
        Ok(started.map(|health| self.health.insert(provider, health)).is_some())
    }

    /// Lane of a call: one of the provider's message groups in the dial queue.
    pub(crate) fn lane(&self, provider: Provider, call_id: &CallId) -> u64 {
        let lanes = self.dial_rates.pacing(provider).map_or(1, |pacing| pacing.lanes(self.lanes));
        switchhook_aws::dynamodb::shard_of(call_id.as_str(), lanes.into())
    }

    /// Time from one dial to the next at the configured rate. `None` if the provider places no calls.
    fn dial_interval(&self, provider: Provider) -> Option<Duration> {
        let pacing = self.dial_rates.pacing(provider)?;
        Some(Duration::from_secs_f64(1.0 / pacing.throughput(self.lanes)))
    }
}
