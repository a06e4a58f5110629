//! Received webhooks of the last hour, minute by minute, and the last one of each provider.

use serde::Serialize;
use switchhook_domain::{Provider, Timestamp};

use super::sources::Metrics;
use crate::aws::Series;
use crate::time_text;

const MINUTES: i64 = 60;
const MINUTE_MS: i64 = 60_000;
/// Seconds that one value of the ten days covers. The time of a webhook is known no better.
const SLOT_SECONDS: u64 = 300;
/// Shortest time from the first known webhook to the last one for which pauses are judged. It holds a night.
const KNOWN_SECONDS_MIN: u64 = 24 * 60 * 60;

/// Received webhooks of the last hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// All minutes of the hour, the earliest first. The last one is not over.
    pub minutes: Vec<Minute>,
    /// Providers that sent a webhook within the last ten days.
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
    pub provider: Provider,
    pub seconds: u64,
    /// Longest pause between two webhooks of the last ten days. `None` if less than a day of them is known.
    pub longest_pause: Option<u64>,
}

impl Silence {
    /// Returns the times since the last webhooks of the providers that sent one within the last ten days.
    pub(super) fn all(metrics: &Metrics, now: Timestamp) -> Vec<Self> {
        let received = |series: Option<&Series>| -> Vec<Timestamp> {
            let all = series.map_or(&[][..], |series| series.0.as_slice());
            let mut times: Vec<Timestamp> = all.iter().filter(|(_, value)| *value > 0.0).map(|(at, _)| *at).collect();
            times.sort_unstable();
            times
        };
        let silences = metrics.providers.iter().zip(0..).filter_map(|(provider, index)| {
            let known = received(metrics.ten_days.get(index));
            let last = received(metrics.by_provider.get(index)).last().copied().max(known.last().copied())?;
            let seconds =
                |from: Timestamp, to: Timestamp| u64::try_from(to.millis_since(from) / 1_000).unwrap_or_default();
            let is_known = known.first().is_some_and(|first| seconds(*first, last) >= KNOWN_SECONDS_MIN);
            let pauses = known.iter().zip(known.iter().skip(1)).map(|(from, to)| seconds(*from, *to));
            let longest_pause = pauses.max().filter(|_| is_known);
            Some(Self { provider: *provider, seconds: seconds(last, now), longest_pause })
        });
        silences.collect()
    }

    /// True if the provider has been silent for longer than in any pause of the last ten days.
    #[must_use]
    pub fn is_unusual(&self) -> bool {
        self.longest_pause.is_some_and(|longest| self.seconds > longest + 2 * SLOT_SECONDS)
    }
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
        Self { minutes: minutes.collect(), last: Silence::all(metrics, now) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::sources::PAUSES_IN;
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
            providers: Provider::ALL.into(),
            by_provider: vec![series(&[(10, 9.0), (100, 4.0)]), series(&[(30, 0.0)])],
            ..Metrics::default()
        };
        let traffic = Traffic::of(&metrics, NOW);
        assert_eq!(traffic.minutes.len(), 60);
        let last = traffic.minutes.last().unwrap();
        assert_eq!((last.accepted, last.duplicate, last.rejected), (6, 2, 1));
        assert_eq!(traffic.minutes.iter().map(|minute| minute.accepted).sum::<u64>(), 10, "older ones are left out");
        let last = Silence { provider: Provider::ALL[0], seconds: 10, longest_pause: None };
        assert_eq!(traffic.last, [last]);
    }

    /// Silence of a provider that sent webhooks so many hours ago.
    fn silence(hours: &[u64]) -> Silence {
        let known: Vec<(u64, f64)> = hours.iter().map(|hours| (hours * 3_600, 1.0)).collect();
        let providers = vec![Provider::Retell];
        let metrics = Metrics { providers, ten_days: vec![series(&known)], ..Metrics::default() };
        Silence::all(&metrics, NOW).remove(0)
    }

    #[test]
    fn silence_is_unusual_if_no_pause_was_as_long() {
        let nights = [3, 4, 12, 13, 14, 36, 37];
        assert_eq!((silence(&nights).seconds, silence(&nights).longest_pause), (3 * 3_600, Some(22 * 3_600)));
        assert!(!silence(&nights).is_unusual());
        assert!(silence(&[9, 10, 12, 13, 17, 18, 20, 24, 27, 33]).is_unusual(), "the longest pause was six hours");
        assert!(!silence(&[6, 9, 12, 18, 24, 30]).is_unusual(), "one just as long");
        assert!(!silence(&[20, 21, 22]).is_unusual(), "less than a day is known");
    }

    /// A stack with office hours: webhooks from Monday 9:00 to Friday 18:00, and no others.
    #[test]
    fn weekend_is_no_unusual_silence() {
        let days_read = PAUSES_IN.as_secs() / 3_600;
        // Hours since Monday 0:00, asked on Saturday at 10:00, on Sunday at 20:00 and on Monday at 8:00.
        for asked in [5 * 24 + 10, 6 * 24 + 20, 7 * 24 + 8] {
            let sent = |ago: &u64| {
                let hour = 2 * 168 + asked - ago;
                let (day, hour) = (hour / 24 % 7, hour % 24);
                day < 5 && (9..=18).contains(&hour)
            };
            let hours: Vec<u64> = (0..days_read).filter(sent).collect();
            let silence = silence(&hours);
            assert!(!silence.is_unusual(), "{asked}: {silence:?}");
        }
    }
}
