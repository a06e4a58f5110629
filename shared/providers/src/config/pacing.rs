//! Pace of dialling: the calls per second that an account may place.
//!
//! The rate is divided into [places](switchhook_domain::Place) in lanes. Each lane keeps a dialer busy. If the function may not run that
//! often, the providers share its dials in the proportion of their rates.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use switchhook_domain::{LANE_SECONDS, Provider, UnknownProvider};
use thiserror::Error;

use crate::api::api_url;

/// Highest rate in calls per second. Each lane keeps a dialer busy, and an event source starts at most a thousand of them.
pub const PER_SECOND_MAX: f64 = 200.0;
/// Lowest rate in calls per second. At a lower rate, a dialer would have to wait longer for its place than its
/// invocation may last.
pub const PER_SECOND_MIN: f64 = 0.1;
/// Share of a provider's rate that is booked by claims. Lanes that are late dial at the full rate. So they catch up after a few slow answers,
/// if the dialers' own requests take less time than the rest.
pub const BOOKED_SHARE: f64 = 0.97;
/// Name of every provider that a text of rates does not name.
const OTHERS: &str = "*";
/// Highest maximum concurrency of an event source.
const DIALERS_MAX: u32 = 1_000;

/// Rates of the providers that calls are placed with, as text: `retell=1/20,twilio=0.5`. The number after the slash limits the calls
/// in flight. The name `*` stands for each provider with an API that the text does not name, but for no further account. Calls of another
/// provider wait.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DialRates(BTreeMap<Provider, Pacing>);

/// Reason why a text does not name dial rates.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DialRatesError {
    #[error("{0:?} is not of the form provider=calls per second or provider=calls per second/calls at the same time")]
    Form(String),
    #[error(transparent)]
    Unknown(#[from] UnknownProvider),
    #[error("Switchhook places no calls with {0}")]
    NoApi(Provider),
    #[error("the rate of {0} is not a number from {PER_SECOND_MIN} to {PER_SECOND_MAX}")]
    Range(String),
    #[error("the limit on the calls of {0} at the same time is not a whole number of at least 1")]
    Calls(String),
    #[error("{0} has two rates")]
    Twice(String),
}

impl DialRates {
    /// Providers that calls are placed with.
    pub fn providers(&self) -> impl Iterator<Item = Provider> {
        self.0.keys().copied()
    }

    /// Rate of one provider. `None` if no calls are placed with it.
    #[must_use]
    pub fn pacing(&self, provider: Provider) -> Option<Pacing> {
        self.0.get(&provider).copied()
    }

    /// Returns the time from one claim to the next at the provider, if this number of dialers may run at the same time. `None` if no calls
    /// are placed with the provider.
    #[must_use]
    pub fn interval(&self, provider: Provider, dialers: u32) -> Option<Duration> {
        let share = (f64::from(dialers) / self.dialers_busy()).min(1.0);
        self.pacing(provider).map(|pacing| Duration::from_secs_f64(1.0 / (pacing.per_second * share * BOOKED_SHARE)))
    }

    /// Number of dialers that must run at the same time, so that all providers get their rates. At most 1,000, which an event source
    /// starts. 0 if no calls are placed.
    #[must_use]
    pub fn dialers_wanted(&self) -> u32 {
        let busy = self.dialers_busy();
        (0..DIALERS_MAX).find(|dialers| f64::from(*dialers) >= busy).unwrap_or(DIALERS_MAX)
    }

    /// Dialers that all rates together keep busy.
    fn dialers_busy(&self) -> f64 {
        self.0.values().map(|pacing| pacing.per_second).sum::<f64>() * LANE_SECONDS
    }
}

impl FromStr for DialRates {
    type Err = DialRatesError;

    fn from_str(text: &str) -> Result<Self, DialRatesError> {
        let mut rates = BTreeMap::new();
        let mut others = None;
        for rate in text.split(',').map(str::trim).filter(|rate| !rate.is_empty()) {
            let (name, pacing) = rate.split_once('=').ok_or_else(|| DialRatesError::Form(rate.to_owned()))?;
            let name = name.trim();
            let pacing = Pacing::from_text(name, pacing)?;
            let earlier = if name == OTHERS {
                others.replace(pacing)
            } else {
                let provider: Provider = name.parse()?;
                if api_url(provider).is_none() {
                    return Err(DialRatesError::NoApi(provider));
                }
                rates.insert(provider, pacing)
            };
            if earlier.is_some() {
                return Err(DialRatesError::Twice(name.to_owned()));
            }
        }
        if let Some(pacing) = others {
            for provider in Provider::ALL.into_iter().filter(|provider| api_url(*provider).is_some()) {
                rates.entry(provider).or_insert(pacing);
            }
        }
        Ok(Self(rates))
    }
}

impl fmt::Display for DialRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (provider, Pacing { per_second, calls_max })) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{provider}={per_second}")?;
            if let Some(calls) = calls_max {
                write!(f, "/{calls}")?;
            }
        }
        Ok(())
    }
}

/// Rate at which calls are placed with one provider, and the limit on those in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pacing {
    per_second: f64,
    calls_max: Option<NonZeroU32>,
}

impl Pacing {
    /// Makes a pacing from a rate in calls per second, without a limit on calls in flight. `None` if the rate is out of range.
    #[must_use]
    pub fn new(per_second: f64) -> Option<Self> {
        (PER_SECOND_MIN..=PER_SECOND_MAX).contains(&per_second).then_some(Self { per_second, calls_max: None })
    }

    /// Reads calls per second, with or without a slash and a limit on calls in flight, of the provider with this name.
    fn from_text(name: &str, text: &str) -> Result<Self, DialRatesError> {
        let (per_second, calls) = match text.split_once('/') {
            Some((per_second, calls)) => (per_second, Some(calls)),
            None => (text, None),
        };
        let pacing = per_second.trim().parse().ok().and_then(Self::new);
        let pacing = pacing.ok_or_else(|| DialRatesError::Range(name.to_owned()))?;
        let calls_max = calls.map(|calls| calls.trim().parse()).transpose();
        let calls_max = calls_max.map_err(|_| DialRatesError::Calls(name.to_owned()))?;
        Ok(Self { calls_max, ..pacing })
    }

    /// Calls that the account may place per second: 0.1 to 200.
    #[must_use]
    pub const fn per_second(self) -> f64 {
        self.per_second
    }

    /// Calls that the account may have at the same time. `None` if there is no limit.
    #[must_use]
    pub fn calls_max(self) -> Option<u64> {
        self.calls_max.map(|calls| calls.get().into())
    }
}
