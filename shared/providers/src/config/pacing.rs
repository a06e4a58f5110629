//! Pace of dialling: the calls per second that an account may place, and the division of that rate among lanes.
//!
//! A lane is one message group of the dial queue. The calls of one lane are placed one after the other, and different
//! lanes work at the same time. **All lanes of a provider together never exceed its rate.**

use std::time::Duration;

/// Default rate in calls per second. Every provider allows a new account this rate.
const PER_SECOND_DEFAULT: f64 = 1.0;

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

/// Rate at which calls are placed with one provider.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    per_second: f64,
}

impl Default for Pacing {
    fn default() -> Self {
        Self { per_second: PER_SECOND_DEFAULT }
    }
}

impl Pacing {
    /// Makes a pacing from a rate in calls per second. `None` if the rate is out of range.
    pub(super) fn new(per_second: f64) -> Option<Self> {
        (PER_SECOND_MIN..=PER_SECOND_MAX).contains(&per_second).then_some(Self { per_second })
    }

    /// Error message for a rate that is out of range.
    pub(super) fn range_message() -> String {
        format!("not a number from {PER_SECOND_MIN} to {PER_SECOND_MAX}")
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
