//! Place of a claim in the dial rate of a provider: its lane, and the time at which a dialer asks the provider.
//!
//! A lane is one message group of the dial queue. The claims of one lane are dialled one after the other, and different lanes work at the
//! same time. Places that were booked one after the other take turns through the lanes, so that no lane has more claims than another.
//!
//! **The times of the places keep the provider's rate, without bursts.** A claim may miss the time of its place, because it is late, or
//! because others are missing. Then a pause between two dials of a lane still keeps the rate.
//!
//! **No lane is late for long.** Places are booked by the clock alone. So the claims of a lane whose dials take longer than a round come later
//! and later, until they expire. Therefore a dialer returns a claim that has [missed](Place::is_missed) its place by far, without a dial. That takes a
//! moment, so the lane catches up, and the call gets a new place.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Time in seconds from one call to the next within one lane, but at low rates. It is longer than providers usually take to answer, so the
/// lanes reach the rate. It is no longer than that, because a dialer is paid for while it waits.
pub const LANE_SECONDS: f64 = 2.5;
/// Longest time for which a dialer waits before a dial, and from a dial to the next. It leaves the time to ask the provider. At less than one
/// call in this time, the rate is kept on average only.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Lateness from which a claim is returned without a dial. Claims are booked up to two minutes ahead. So none of them gets older than three and
/// a half minutes, unless a dialer dies, and their lease lasts five. After a shorter standstill of the dialers, the claims are dialled late.
pub const LATE_MAX: Duration = Duration::from_secs(90);

/// Place of a claim in the dial rate of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Number of the place. All places of a provider are numbered, in the order in which they were booked.
    pub number: u64,
    /// Time at which the provider may be asked to place the call.
    pub dial_at: Timestamp,
    /// Time from one place to the next, at the rate that the provider had when this one was booked.
    pub interval: Duration,
}

impl Place {
    /// Number of its lane.
    #[must_use]
    pub fn lane(self) -> u64 {
        self.number % u64::from(self.lanes())
    }

    /// Number of lanes that take turns, at least 1. A provider with a lowered rate has fewer.
    fn lanes(self) -> u32 {
        let round = Duration::from_secs_f64(LANE_SECONDS).as_nanos();
        u32::try_from(round.div_ceil(self.interval.as_nanos().max(1))).unwrap_or(u32::MAX)
    }

    /// Time from one place of a lane to the next one of the same lane: at least [`LANE_SECONDS`].
    #[must_use]
    pub fn round(self) -> Duration {
        self.interval.saturating_mul(self.lanes())
    }

    /// Time that a dialer waits before the dial: until the time of the place. If that is more than a round away, claims before it are missing,
    /// or come after it. Then the dialer waits for the same moment of the present round, so that the lanes stay apart.
    #[must_use]
    pub fn wait(self, now: Timestamp) -> Duration {
        let ahead = Duration::from_millis(u64::try_from(self.dial_at.millis_since(now)).unwrap_or_default());
        let round = self.round();
        let ahead = if ahead > round {
            Duration::from_nanos(u64::try_from(ahead.as_nanos() % round.as_nanos().max(1)).unwrap_or_default())
        } else {
            ahead
        };
        ahead.min(WAIT_MAX)
    }

    /// True if a claim with this place is so late that it is returned without a dial.
    #[must_use]
    pub fn is_missed(self, now: Timestamp) -> bool {
        self.dial_at.plus(LATE_MAX) <= now
    }

    /// Time from a dial at this place to the next dial of its lane. `share` is the booked share of the rate: lanes that are late dial at the
    /// full rate, so they catch up.
    #[must_use]
    pub fn pause(self, share: f64) -> Duration {
        self.round().mul_f64(share).min(WAIT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_767_225_600_123);

    fn place(number: u64, per_second: f64, ahead_ms: u64) -> Place {
        let (dial_at, interval) =
            (START.plus(Duration::from_millis(ahead_ms)), Duration::from_secs_f64(1.0 / per_second));
        Place { number, dial_at, interval }
    }

    #[test]
    fn lanes_follow_from_the_rate() {
        for (per_second, lanes, round_ms) in [
            (0.01, 1, 100_000),
            (0.1, 1, 10_000),
            (0.5, 2, 4_000),
            (1.0, 3, 3_000),
            (3.0, 8, 2_666),
            (200.0, 500, 2_500),
        ] {
            let found = place(0, per_second, 0);
            assert_eq!((found.lanes(), found.round().as_millis()), (lanes, round_ms), "{per_second}");
            assert_eq!(place(u64::from(lanes) + 1, per_second, 0).lane(), 1 % u64::from(lanes));
        }
    }

    #[test]
    fn dialer_waits_for_its_place_and_for_a_round_at_most() {
        let wait_ms = |place: Place, now: u64| place.wait(START.plus(Duration::from_millis(now))).as_millis();
        // A round takes three seconds. The place is four seconds away, and then past.
        let ahead = place(4, 1.0, 4_000);
        assert_eq!([0, 1_500, 3_999, 4_000, 9_000].map(|now| wait_ms(ahead, now)), [1_000, 2_500, 1, 0, 0]);
        // The lanes of a rate that is booked for two minutes stay apart.
        let waits: Vec<u128> = (117..120).map(|number| wait_ms(place(number, 1.0, number * 1_000), 0)).collect();
        assert_eq!(waits, [0, 1_000, 2_000]);
        // A dialer cannot wait for a minute.
        assert_eq!((wait_ms(place(1, 0.016, 60_000), 0), place(1, 0.016, 0).pause(1.0)), (10_000, WAIT_MAX));
        assert_eq!(place(4, 1.0, 0).pause(0.9), Duration::from_millis(2_700));
    }

    #[test]
    fn place_is_missed_a_minute_and_a_half_after_its_time() {
        let is_missed = |seconds: u64| place(4, 1.0, 4_000).is_missed(START.plus(Duration::from_secs(seconds)));
        assert_eq!([0, 4, 93, 94, 200].map(is_missed), [false, false, false, true, true]);
    }
}
