//! The only source of time in the local cloud.
//!
//! **Everything in the local cloud reads this clock, including the SDK clients and the handlers.**
//!
//! In `demo`, in the simulator and in most tests, time is virtual. It is tokio's paused clock: it stops while any task
//! can run, and jumps to the next timer when none can.
//!
//! In `dev`, time is the system clock. Tokio's clock pauses while a computer sleeps and stays behind afterwards.
//! Timestamps of signed webhooks would then lie in the future.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_smithy_async::time::TimeSource;
use tokio::time::Instant;

/// A clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Kind);

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// `start` plus the time that has passed on tokio's clock since `started`.
    Tokio {
        start: SystemTime,
        started: Instant,
    },
    System,
}

impl Clock {
    /// Creates a clock that shows `start` now and follows tokio's clock. Call this inside the tokio runtime: outside of
    /// it, tokio's clock cannot be virtual.
    pub fn starting_at(start: SystemTime) -> Self {
        Self(Kind::Tokio { start, started: Instant::now() })
    }

    /// Creates a clock that shows the time of the system clock, even after the system clock was adjusted.
    pub const fn system() -> Self {
        Self(Kind::System)
    }

    /// Current time in milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> u64 {
        millis_since_epoch(self.now())
    }

    /// Returns the instant at which [`Clock::now_ms`] will be `at_ms`, or the current instant if that has passed.
    pub fn instant_of(&self, at_ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(at_ms.saturating_sub(self.now_ms()))
    }
}

impl TimeSource for Clock {
    fn now(&self) -> SystemTime {
        match self.0 {
            Kind::Tokio { start, started } => start + started.elapsed(),
            Kind::System => SystemTime::now(),
        }
    }
}

/// Seeds the random numbers of the SDK clients, so that the same seed gives the same run. Call this on the thread that
/// runs the simulation, before the clients are built.
///
/// The SDK draws the jitter of its retries, and the seed of its invocation ids, from the thread-local generator of
/// `fastrand` (`StandardRetryStrategy` in aws-smithy-runtime, `DefaultInvocationIdGenerator` in aws-runtime).
pub fn seed(seed: u64) {
    fastrand::seed(seed);
}

fn millis_since_epoch(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn virtual_time_stands_still_until_something_waits() {
        let clock = Clock::starting_at(UNIX_EPOCH + Duration::from_secs(1_000));

        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(clock.now_ms(), 1_000_000);

        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert_eq!(clock.now_ms(), 4_600_000);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_moment_ends_at_that_moment() {
        let clock = Clock::starting_at(UNIX_EPOCH);

        tokio::time::sleep_until(clock.instant_of(250)).await;
        assert_eq!(clock.now_ms(), 250);
        assert_eq!(clock.instant_of(100), Instant::now());
    }
}
