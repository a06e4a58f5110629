//! Received webhooks of the last hour, minute by minute, and the last one of each provider.

use serde::Serialize;
use switchhook_domain::{Provider, Timestamp};

use super::sources::Metrics;
use crate::aws::Series;
use crate::time_text;

const MINUTES: i64 = 60;
const MINUTE_MS: i64 = 60_000;

/// Received webhooks of the last hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// All minutes of the hour, the earliest first. The last one is not over.
    pub minutes: Vec<Minute>,
    /// Providers that sent a webhook within the last day.
    pub last: Vec<Silence>,
}

/// Webhooks of one minute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Minute {
    #[serde(serialize_with = "time_text::serialize")]
    pub at: Timestamp,
    pub accepted: u64,
    pub duplicate: u64,
    pub rejected: u64,
}

/// Time since the last webhook of a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Silence {
    pub provider: &'static str,
    pub seconds: u64,
}

impl Traffic {
    pub(super) fn of(metrics: &Metrics, now: Timestamp) -> Self {
        let this_minute = now.as_millis().div_euclid(MINUTE_MS);
        let minutes = (this_minute - MINUTES + 1..=this_minute).map(|minute| {
            let count = |series: &Series| {
                let of_minute = series.0.iter().filter(|(at, _)| at.as_millis().div_euclid(MINUTE_MS) == minute);
                of_minute.map(|(_, value)| *value as u64).sum::<u64>()
            };
            let (duplicate, rejected) = (count(&metrics.duplicate), count(&metrics.rejected));
            let accepted = count(&metrics.received).saturating_sub(duplicate + rejected);
            Minute { at: Timestamp::from_millis(minute * MINUTE_MS), accepted, duplicate, rejected }
        });
        let silences = Provider::ALL.into_iter().zip(&metrics.by_provider).filter_map(|(provider, series)| {
            let last = series.0.iter().filter(|(_, value)| *value > 0.0).map(|(at, _)| *at).max()?;
            let seconds = u64::try_from(now.millis_since(last) / 1_000).unwrap_or_default();
            Some(Silence { provider: provider.as_str(), seconds })
        });
        Self { minutes: minutes.collect(), last: silences.collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_760_961_630_000);

    fn series(values: &[(u64, f64)]) -> Series {
        Series(values.iter().map(|(seconds, value)| (NOW.minus(Duration::from_secs(*seconds)), *value)).collect())
    }

    #[test]
    fn every_minute_of_the_hour_is_there() {
        let metrics = Metrics {
            received: series(&[(10, 9.0), (100, 4.0), (4_000, 50.0)]),
            duplicate: series(&[(10, 2.0)]),
            rejected: series(&[(10, 1.0)]),
            by_provider: vec![series(&[(10, 9.0), (100, 4.0)]), series(&[(30, 0.0)])],
            ..Metrics::default()
        };
        let traffic = Traffic::of(&metrics, NOW);
        assert_eq!(traffic.minutes.len(), 60);
        let last = traffic.minutes.last().unwrap();
        assert_eq!((last.accepted, last.duplicate, last.rejected), (6, 2, 1));
        assert_eq!(traffic.minutes.iter().map(|minute| minute.accepted).sum::<u64>(), 10, "older ones are left out");
        assert_eq!(traffic.last, [Silence { provider: Provider::ALL[0].as_str(), seconds: 10 }]);
    }
}
