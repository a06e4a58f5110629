//! The one source of time of the local cloud.
//!
//! **Every moment that anything here reads, the SDK clients and the handlers included, is this clock's.** In `demo`, the
//! simulator and most tests time is virtual: it is tokio's paused clock, stands still while anything can run and jumps to the
//! next timer when nothing can. In `dev` it is the machine's: a computer that slept must not go on with the time at which it
//! fell asleep, or every signed timestamp would be of the future.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_smithy_async::time::TimeSource;
use tokio::time::Instant;

/// What time it is.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Kind);

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// `start` plus what tokio's clock has counted since the clock was made.
    Tokio {
        start: SystemTime,
        started: Instant,
    },
    System,
}

impl Clock {
    /// A clock that reads `start` now. Make it inside the runtime whose time it is to follow: outside one, tokio's clock
    /// is the machine's.
    pub fn starting_at(start: SystemTime) -> Self {
        Self(Kind::Tokio { start, started: Instant::now() })
    }

    /// A clock that reads what the machine's clock reads, whatever happens to that.
    pub const fn system() -> Self {
        Self(Kind::System)
    }

    /// Milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> u64 {
        millis_since_epoch(self.now())
    }

    /// The moment at which `now_ms` will read `at_ms`; now, where that has passed.
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

/// Makes the randomness of the SDK clients repeat. Call it on the thread that runs the simulation, before the clients
/// are built.
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
