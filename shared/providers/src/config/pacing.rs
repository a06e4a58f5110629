//! Pace of dialling: the calls per second that an account may place, and the division of that rate among lanes.
//!
//! A lane is one message group of the dial queue. The calls of one lane are placed one after the other, and different
//! lanes work at the same time. **All lanes of a provider together never exceed its rate.**

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use switchhook_domain::{Provider, UnknownProvider};
use thiserror::Error;

use crate::api::api_url;

/// Highest rate in calls per second. Any higher rate is a mistake: no provider accepts a hundred calls per second from
/// one account.
const PER_SECOND_MAX: f64 = 100.0;
/// Lowest rate in calls per second. At a lower rate, a dialer would have to wait longer for its turn than its
/// invocation may last.
pub const PER_SECOND_MIN: f64 = 0.1;
/// Wanted time from one call to the next within one lane. The number of lanes follows from it: with more lanes, each
/// would wait longer for its turn.
const LANE_SECONDS: f64 = 5.0;
/// Typical time that a provider takes to answer a request that places a call.
const ANSWER_SECONDS: f64 = 2.0;

/// Rates of the providers that calls are placed with, as text: `retell=1,twilio=0.5`. Calls of another provider wait.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DialRates(BTreeMap<Provider, Pacing>);

/// Reason why a text does not name dial rates.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DialRatesError {
    #[error("{0:?} is not of the form provider=calls per second")]
    Form(String),
    #[error(transparent)]
    Unknown(#[from] UnknownProvider),
    #[error("{0} has no API, and places no calls")]
    NoApi(Provider),
    #[error("the rate of {0} is not a number from {PER_SECOND_MIN} to {PER_SECOND_MAX}")]
    Range(Provider),
    #[error("{0} has two rates")]
    Twice(Provider),
}

impl DialRates {
    /// Rate of one provider. `None` if no calls are placed with it.
    #[must_use]
    pub fn pacing(&self, provider: Provider) -> Option<Pacing> {
        self.0.get(&provider).copied()
    }
}

impl FromStr for DialRates {
    type Err = DialRatesError;

    fn from_str(text: &str) -> Result<Self, DialRatesError> {
        let mut rates = BTreeMap::new();
        for rate in text.split(',').map(str::trim).filter(|rate| !rate.is_empty()) {
            let (provider, per_second) = rate.split_once('=').ok_or_else(|| DialRatesError::Form(rate.to_owned()))?;
            let provider: Provider = provider.trim().parse()?;
            if api_url(provider).is_none() {
                return Err(DialRatesError::NoApi(provider));
            }
            let pacing = per_second.trim().parse().ok().and_then(Pacing::new);
            if rates.insert(provider, pacing.ok_or(DialRatesError::Range(provider))?).is_some() {
                return Err(DialRatesError::Twice(provider));
            }
        }
        Ok(Self(rates))
    }
}

impl fmt::Display for DialRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (provider, Pacing { per_second })) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{provider}={per_second}")?;
        }
        Ok(())
    }
}

/// Rate at which calls are placed with one provider.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pacing {
    per_second: f64,
}

impl Pacing {
    /// Makes a pacing from a rate in calls per second. `None` if the rate is out of range.
    #[must_use]
    pub fn new(per_second: f64) -> Option<Self> {
        (PER_SECOND_MIN..=PER_SECOND_MAX).contains(&per_second).then_some(Self { per_second })
    }

    /// Calls that the account may place per second: 0.1 to 100.
    #[must_use]
    pub fn per_second(self) -> f64 {
        self.per_second
    }

    /// Number of lanes, from 1 to `lanes_max`. A low rate gets few lanes: with many, each would wait long for its turn.
    #[must_use]
    pub fn lanes(self, lanes_max: u32) -> u32 {
        let wanted = (1..lanes_max).find(|lanes| f64::from(*lanes) >= self.per_second * LANE_SECONDS);
        wanted.unwrap_or(lanes_max).max(1)
    }

    /// Time from one call to the next within one lane. At this interval all lanes together keep the rate.
    #[must_use]
    pub fn lane_interval(self, lanes_max: u32) -> Duration {
        Duration::from_secs(1).mul_f64(f64::from(self.lanes(lanes_max)) / self.per_second)
    }

    /// Calls per second that all lanes together can place. Limited by the rate, and by the time that the provider takes
    /// to answer.
    #[must_use]
    pub fn throughput(self, lanes_max: u32) -> f64 {
        self.per_second.min(f64::from(self.lanes(lanes_max)) / ANSWER_SECONDS)
    }
}
