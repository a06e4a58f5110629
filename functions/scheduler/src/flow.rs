//! The providers as one invocation of the scheduler sees them: their health, their dial rates, and the calls that they have.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::calls::Calls;
use switchhook_aws::sdk::Clock;
use switchhook_domain::{COUNT_AGE_MAX, Call, CallId, CallsInFlight, Pace, Place, Provider, ProviderHealth, Timestamp};
use switchhook_providers::DialRates;

/// Way on which a call reaches a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The call needs a place in the dial rate of this provider.
    AtRate(Provider),
    /// The call is the probe of this provider.
    Probe(Provider),
}

impl Route {
    pub(crate) const fn provider(self) -> Provider {
        match self {
            Self::AtRate(provider) | Self::Probe(provider) => provider,
        }
    }
}

/// Order in which a scheduler takes calls, which decides how many places it may book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The calls that have waited longest come first, as in a run of the schedule.
    OldestFirst,
    /// A call that was written, delivered or triggered comes, whatever waits.
    Woken,
}

impl Turn {
    /// Time for which the dial rate is booked.
    ///
    /// For a run of the schedule it is twice the time to the next run, so dialers never idle while calls wait. For calls that were woken it is
    /// less, so that calls that wait come first.
    pub(crate) const fn ahead(self) -> Duration {
        match self {
            Self::OldestFirst => Duration::from_secs(2 * 60),
            Self::Woken => Duration::from_secs(60),
        }
    }
}

/// Time from one run of the schedule to the next.
const RUN_INTERVAL: Duration = Duration::from_secs(60);

/// Providers and their health. The health of each is read once, when it is asked for first. The calls in flight are counted only if
/// a provider has a limit on them, and no scheduler has counted them in the last seconds.
pub(crate) struct Flow<'a> {
    calls: &'a Calls,
    dial_rates: &'a DialRates,
    dialers: u32,
    clock: &'a Clock,
    health: BTreeMap<Provider, ProviderHealth>,
    /// Count that this invocation made.
    in_flight: Option<(BTreeMap<Provider, CallsInFlight>, Timestamp)>,
    /// Providers for which a call waits, because they have as many calls as they may have.
    full: BTreeSet<Provider>,
    /// Full providers for which no scheduler knew before this invocation that a call waits.
    newly_full: BTreeSet<Provider>,
    /// Providers for which calls may wait until their pause ends, and that time.
    paused: BTreeMap<Provider, Timestamp>,
    /// Providers with due calls that wait because no provider of the call has a dial rate. Of each call it is the first provider.
    unconfigured: BTreeSet<Provider>,
    /// Calls that were woken, and got no place because others have waited longer.
    behind: BTreeMap<Provider, Vec<CallId>>,
    /// Providers that counted as unavailable, because their health or their calls in flight could not be read.
    unread: BTreeSet<Provider>,
    /// The same, if [no further try could read](Error::is_unreadable) their health.
    unreadable: BTreeSet<Provider>,
    /// The first of these errors that nobody has taken.
    error: Option<Error>,
}

impl<'a> Flow<'a> {
    pub(crate) const fn new(calls: &'a Calls, dial_rates: &'a DialRates, dialers: u32, clock: &'a Clock) -> Self {
        Self {
            calls,
            dial_rates,
            dialers,
            clock,
            health: BTreeMap::new(),
            in_flight: None,
            full: BTreeSet::new(),
            newly_full: BTreeSet::new(),
            paused: BTreeMap::new(),
            unconfigured: BTreeSet::new(),
            behind: BTreeMap::new(),
            unread: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            error: None,
        }
    }

    /// True if calls are placed with the provider.
    pub(crate) fn is_configured(&self, provider: Provider) -> bool {
        self.dial_rates.pacing(provider).is_some()
    }

    /// Health of a provider.
    pub(crate) async fn health(&mut self, provider: Provider) -> Result<ProviderHealth, Error> {
        if let Some(known) = self.health.get(&provider) {
            return Ok(known.clone());
        }
        let mut health = self.calls.provider_health_eventual(provider).await?;
        if health.call_limit.needs_count() {
            let now = self.clock.now();
            let in_flight = self.in_flight(provider, now).await?;
            let counted = self.calls.change_provider_health(provider, |health| {
                let next = health.counted(in_flight, now)?;
                Some((next.clone(), next))
            });
            health = counted.await?.unwrap_or(health);
        }
        self.health.insert(provider, health.clone());
        Ok(health)
    }

    /// Calls that the provider has in flight.
    async fn in_flight(&mut self, provider: Provider, now: Timestamp) -> Result<CallsInFlight, Error> {
        let (counted, _) = match self.in_flight.take().filter(|(_, counted_at)| now < counted_at.plus(COUNT_AGE_MAX)) {
            Some(counted) => self.in_flight.insert(counted),
            None => self.in_flight.insert((self.calls.count_in_flight().await?, now)),
        };
        Ok(counted.get(&provider).copied().unwrap_or_default())
    }

    /// Limits of the provider. `None` if it places no calls.
    async fn pace(&mut self, provider: Provider, turn: Turn, now: Timestamp) -> Result<Option<Pace>, Error> {
        let Some(pacing) = self.dial_rates.pacing(provider) else { return Ok(None) };
        let Some(interval) = self.dial_rates.interval(provider, self.dialers) else { return Ok(None) };
        let calls_max = pacing.calls_max();
        let call_limit = self.health(provider).await?.call_limit;
        let in_flight = match call_limit.calls_max(calls_max, now).and(call_limit.recent_count(now)) {
            Some((shared, _)) => Some(shared),
            None if call_limit.calls_max(calls_max, now).is_some() => Some(self.in_flight(provider, now).await?),
            None => None,
        };
        let is_in_turn = turn == Turn::OldestFirst;
        Ok(Some(Pace { interval, ahead: turn.ahead(), calls_max, in_flight, is_in_turn }))
    }

    /// Takes the first error of a provider that counted as unavailable. A caller that asks this flow for providers returns it after its work.
    pub(crate) fn take_error(&mut self) -> Result<(), Error> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// Returns the value that was read about a provider. After an error it is the default, which says that the provider takes no calls: **a
    /// provider that cannot be read keeps no call from the others.**
    fn or_unavailable<T: Default>(&mut self, provider: Provider, read: Result<T, Error>) -> T {
        read.unwrap_or_else(|error| {
            self.unread.insert(provider);
            self.unreadable.extend(error.is_unreadable().then_some(provider));
            self.error.get_or_insert(error);
            T::default()
        })
    }

    /// True if calls are placed with the provider, and its health is no item that cannot be read. Otherwise it would be read again for each
    /// call that names it.
    fn is_known(&self, provider: Provider) -> bool {
        self.is_configured(provider) && !self.unreadable.contains(&provider)
    }

    /// True if the provider gets calls other than probes.
    async fn is_available(&mut self, provider: Provider, now: Timestamp) -> Result<bool, Error> {
        Ok(self.is_known(provider) && self.health(provider).await?.is_available(now))
    }

    /// Number of providers whose circuit is known to be open.
    pub(crate) fn unavailable(&self) -> u64 {
        self.health.values().filter(|health| health.is_open()).count() as u64
    }

    /// Providers for which a call waits, because they have as many calls as they may have.
    pub(crate) const fn full(&self) -> &BTreeSet<Provider> {
        &self.full
    }

    /// The [full](Self::full) providers for which no scheduler knew before this invocation that a call waits.
    pub(crate) const fn newly_full(&self) -> &BTreeSet<Provider> {
        &self.newly_full
    }

    /// Providers for which calls may wait until their pause ends, and that time.
    pub(crate) const fn paused(&self) -> &BTreeMap<Provider, Timestamp> {
        &self.paused
    }

    /// Notes that calls may wait for the provider until its pause ends, if it is paused.
    pub(crate) async fn await_resumption(&mut self, provider: Provider, now: Timestamp) {
        if !self.is_known(provider) {
            return;
        }
        let until = self.health(provider).await.map(|health| health.pause_end(now));
        let until = self.or_unavailable(provider, until);
        self.paused.extend(until.map(|until| (provider, until)));
    }

    /// Notes that due calls wait for the provider, which has no dial rate.
    pub(crate) fn note_unconfigured(&mut self, provider: Provider) {
        self.unconfigured.insert(provider);
    }

    /// Notes that a due call waits, if no provider of it has a dial rate.
    pub(crate) fn note_if_unconfigured(&mut self, call: &Call) {
        let providers = call.dial_providers();
        if let Some(first) = providers.first().filter(|_| !providers.iter().any(|other| self.is_configured(*other))) {
            self.note_unconfigured(*first);
        }
    }

    /// Providers whose due calls wait, because no provider of the call has a dial rate.
    pub(crate) fn unconfigured(&self) -> u64 {
        self.unconfigured.len() as u64
    }

    /// Number of calls that the provider's dial rate allows from one run of the schedule to the next, at least one. 0 if the provider
    /// places no calls.
    pub(crate) fn dials_per_run(&self, provider: Provider) -> u64 {
        let Some(interval) = self.dial_rates.interval(provider, self.dialers) else { return 0 };
        let dials = RUN_INTERVAL.as_nanos().checked_div(interval.as_nanos());
        dials.map_or(u64::MAX, |dials| u64::try_from(dials).unwrap_or(u64::MAX).max(1))
    }

    /// True if a call is known to wait for the provider, because it has as many calls as it may have.
    pub(crate) fn is_full(&self, provider: Provider) -> bool {
        self.full.contains(&provider)
    }

    /// True if the provider has as many calls as it may have.
    pub(crate) async fn has_no_place(&mut self, provider: Provider, now: Timestamp) -> bool {
        let is_full = match self.pace(provider, Turn::OldestFirst, now).await {
            Ok(Some(pace)) => self.health(provider).await.map(|health| health.is_full(&pace, now)),
            Ok(None) => Ok(false),
            Err(error) => Err(error),
        };
        self.or_unavailable(provider, is_full)
    }

    /// Number of claims that the provider's dial rate and its calls in flight allow.
    pub(crate) async fn free_places(&mut self, provider: Provider, turn: Turn, now: Timestamp) -> Result<u64, Error> {
        let Some(pace) = self.pace(provider, turn, now).await? else { return Ok(0) };
        Ok(self.health(provider).await?.free_places(&pace, now))
    }

    /// Books up to `wanted` places at the provider, and returns them. The same write shares the count of the calls in flight with the
    /// other schedulers, if this invocation made one.
    pub(crate) async fn book(
        &mut self,
        provider: Provider,
        wanted: u64,
        turn: Turn,
        now: Timestamp,
    ) -> Result<Vec<Place>, Error> {
        let Some(pace) = self.pace(provider, turn, now).await? else { return Ok(Vec::new()) };
        let own = self.in_flight.as_ref().filter(|(_, at)| pace.in_flight.is_some() && now < at.plus(COUNT_AGE_MAX));
        let own = own.map(|(counted, at)| (counted.get(&provider).copied().unwrap_or_default(), *at));
        let book = |health: &ProviderHealth| {
            let counted = own.and_then(|(calls, at)| health.with_count(calls, at));
            let (next, places) = match counted.as_ref().unwrap_or(health).book(wanted, &pace, now) {
                Some(booked) => booked,
                None => (counted?, Vec::new()),
            };
            let is_news = !health.calls_wait(&pace, now) && next.calls_wait(&pace, now);
            Some((next.clone(), (next, places, is_news)))
        };
        let places = match self.calls.change_provider_health(provider, book).await? {
            Some((health, places, is_news)) => {
                self.health.insert(provider, health);
                self.newly_full.extend(is_news.then_some(provider));
                places
            }
            // Others have taken the places since the health was read.
            None => {
                self.health.remove(&provider);
                Vec::new()
            }
        };
        if (places.len() as u64) < wanted && self.health(provider).await?.is_full(&pace, now) {
            self.full.insert(provider);
        }
        Ok(places)
    }

    /// True if calls are known to wait for the provider until one in flight ends.
    pub(crate) async fn calls_wait(&mut self, provider: Provider, now: Timestamp) -> Result<bool, Error> {
        let Some(pace) = self.pace(provider, Turn::OldestFirst, now).await? else { return Ok(false) };
        Ok(self.health(provider).await?.calls_wait(&pace, now))
    }

    /// Notes that no call waits for the provider any more, if places are left for calls in their turn. It is called after all that were due
    /// were claimed.
    pub(crate) async fn end_waiting(&mut self, provider: Provider, now: Timestamp) -> Result<(), Error> {
        if !self.calls_wait(provider, now).await? || self.free_places(provider, Turn::OldestFirst, now).await? == 0 {
            return Ok(());
        }
        let end = |health: &ProviderHealth| {
            let next = health.without_waiting()?;
            Some((next.clone(), next))
        };
        let ended = self.calls.change_provider_health(provider, end).await?;
        self.health.remove(&provider);
        self.health.extend(ended.map(|health| (provider, health)));
        Ok(())
    }

    /// Remembers calls that got no place because others have waited longer.
    pub(crate) fn put_behind(&mut self, provider: Provider, calls: impl Iterator<Item = CallId>) {
        self.behind.entry(provider).or_default().extend(calls);
    }

    /// Takes the calls that were [put behind](Self::put_behind) others.
    pub(crate) fn take_behind(&mut self) -> BTreeMap<Provider, Vec<CallId>> {
        std::mem::take(&mut self.behind)
    }

    /// Number of claims that the provider allows. `None` if it gets no calls other than probes.
    pub(crate) async fn places(&mut self, provider: Provider, turn: Turn, now: Timestamp) -> Option<u64> {
        let places = match self.is_available(provider, now).await {
            Ok(true) => self.free_places(provider, turn, now).await.map(Some),
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        self.or_unavailable(provider, places)
    }

    /// The other providers with a rate, without those that [could not be read](Self::or_unavailable).
    fn others(&self, provider: Provider) -> Vec<Provider> {
        self.dial_rates.providers().filter(|other| *other != provider && !self.unread.contains(other)).collect()
    }

    /// Number of claims that the other providers allow. `None` if no other provider gets calls.
    pub(crate) async fn free_places_of_others(
        &mut self,
        provider: Provider,
        turn: Turn,
        now: Timestamp,
    ) -> Option<u64> {
        let mut places = None;
        for other in self.others(provider) {
            if let Some(free) = self.places(other, turn, now).await {
                places = Some(places.unwrap_or(0) + free);
            }
        }
        places
    }

    /// True if the provider has a rate and takes calls again after its pause. For a provider that takes no calls now.
    async fn is_only_paused(&mut self, provider: Provider) -> Result<bool, Error> {
        Ok(self.is_known(provider) && !self.health(provider).await?.is_open())
    }

    /// True if the provider needs a probe.
    pub(crate) async fn needs_probe(&mut self, provider: Provider, now: Timestamp) -> bool {
        if !self.is_known(provider) {
            return false;
        }
        let needs_probe = self.health(provider).await.map(|health| health.needs_probe(now));
        self.or_unavailable(provider, needs_probe)
    }

    /// True if one of the other providers needs a probe, and a call of this provider may become it. While this one is only paused, [some
    /// probes](ProviderHealth::spares_calls_of_others) are made by calls of other providers.
    pub(crate) async fn others_need_probe(&mut self, provider: Provider, now: Timestamp) -> bool {
        let is_only_paused = self.is_only_paused(provider).await;
        let is_only_paused = self.or_unavailable(provider, is_only_paused);
        for other in self.others(provider) {
            if self.needs_probe(other, now).await {
                let spares = self.health(other).await.map(|health| health.spares_calls_of_others(now));
                if !(is_only_paused && self.or_unavailable(other, spares)) {
                    return true;
                }
            }
        }
        false
    }

    /// Finds a provider for the call, in the order that the call names. If a provider needs a probe, the call becomes that
    /// probe, unless [it is spared](ProviderHealth::spares_calls_of_others) and another provider takes it, now or after a short pause. With
    /// `forced`, every open circuit gets a probe. `None` if no provider takes the call now.
    pub(crate) async fn route(&mut self, call: &Call, forced: bool, now: Timestamp) -> Result<Option<Route>, Error> {
        let (mut available, mut has_paused) = (None, false);
        for provider in call.dial_providers() {
            let is_available = self.is_available(provider, now).await;
            if self.or_unavailable(provider, is_available) {
                available = Some(Route::AtRate(provider));
                break;
            }
            let is_only_paused = self.is_only_paused(provider).await;
            has_paused |= self.or_unavailable(provider, is_only_paused);
        }
        let is_taken = available.is_some() || (has_paused && !forced);
        for provider in call.dial_providers() {
            if available == Some(Route::AtRate(provider)) {
                break;
            }
            if !self.is_known(provider) {
                continue;
            }
            let health = self.health(provider).await.map(Some);
            let Some(health) = self.or_unavailable(provider, health) else { continue };
            if is_taken && health.spares_calls_of_others(now) {
                continue;
            }
            if self.start_probe(provider, &call.call_id, forced, now).await? {
                return Ok(Some(Route::Probe(provider)));
            }
        }
        Ok(available)
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
        let is_started = started.is_some();
        self.health.remove(&provider);
        self.health.extend(started.map(|health| (provider, health)));
        Ok(is_started)
    }

    /// Lets another call be the probe of the provider, because this one was not claimed.
    pub(crate) async fn release_probe(
        &mut self,
        provider: Provider,
        call_id: &CallId,
        now: Timestamp,
    ) -> Result<(), Error> {
        let release = |health: &ProviderHealth| {
            let next = health.release_probe(call_id, now)?;
            Some((next.clone(), next))
        };
        let released = self.calls.change_provider_health(provider, release).await?;
        self.health.extend(released.map(|health| (provider, health)));
        Ok(())
    }
}
