//! The only source of time in the local cloud.
//!
//! **Everything in the local cloud reads this clock, including the SDK clients and the handlers.**
//!
//! In `demo`, in the simulator and in most tests, time is virtual. It is tokio's paused clock: it stops while any task
//! can run, and jumps to the next timer when none can.
//!
//! In `dev`, time is the system clock. Tokio's clock pauses while a computer sleeps and stays behind afterwards.
//! Timestamps of signed webhooks would then lie in the future. A user of `dev` may skip time: the clock then runs ahead of the
//! system's. A stack that goes on from the end of a demo has a clock that runs behind. A clock can also stand still, to look at a stack as
//! it was.

use std::future::Future;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_smithy_async::time::TimeSource;
use tokio::task::futures::TaskLocalFuture;
use tokio::time::Instant;

use crate::sync::Signal;

tokio::task_local! {
    /// Milliseconds that the clock of the running function is ahead of the services' clock.
    static SKEW_MS: i64;
}

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
    /// The system's time plus an offset.
    Skipping(&'static Offset),
    Stopped(SystemTime),
}

/// Time that a clock runs ahead of the system clock. Negative if it runs behind.
#[derive(Debug)]
struct Offset {
    ms: AtomicI64,
    changed: Signal,
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

    /// Creates a clock that runs this many milliseconds ahead of the system clock, or behind it, and that can [skip](Self::skip) time.
    /// It is meant for the whole life of a process: its memory is never freed.
    pub fn ahead_by_ms(offset_ms: i64) -> Self {
        let offset = Offset { ms: AtomicI64::new(offset_ms), changed: Signal::default() };
        Self(Kind::Skipping(Box::leak(Box::new(offset))))
    }

    /// Creates a clock that always shows `at`.
    pub const fn stopped(at: SystemTime) -> Self {
        Self(Kind::Stopped(at))
    }

    /// True if the clock stands still.
    pub const fn is_stopped(&self) -> bool {
        matches!(self.0, Kind::Stopped(_))
    }

    /// Moves the clock forwards, and wakes everything that waits for a time that has come. Only clocks of [`Self::ahead_by_ms`] move.
    pub fn skip(&self, time: Duration) {
        match self.0 {
            Kind::Skipping(offset) => {
                offset.ms.fetch_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX), Ordering::AcqRel);
                offset.changed.changed();
            }
            Kind::Tokio { .. } | Kind::System | Kind::Stopped(_) => {}
        }
    }

    /// Milliseconds that the clock runs ahead of the system clock. Negative if it runs behind.
    pub fn offset_ms(&self) -> i64 {
        match self.0 {
            Kind::Skipping(offset) => offset.ms.load(Ordering::Acquire),
            Kind::Tokio { .. } | Kind::System | Kind::Stopped(_) => 0,
        }
    }

    /// Waits until the clock shows this time. A stopped clock never shows it.
    pub async fn sleep_until(&self, at_ms: u64) {
        match self.0 {
            Kind::Tokio { .. } | Kind::System => tokio::time::sleep_until(self.instant_of(at_ms)).await,
            Kind::Stopped(_) if self.now_ms() >= at_ms => {}
            Kind::Stopped(_) => std::future::pending().await,
            Kind::Skipping(offset) => loop {
                let mut changed = offset.changed.watch();
                if self.now_ms() >= at_ms {
                    return;
                }
                tokio::select! {
                    () = changed.changed() => {}
                    () = tokio::time::sleep_until(self.instant_of(at_ms)) => {}
                }
            },
        }
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
            Kind::Skipping(_) => {
                let (now, ms) = (SystemTime::now(), self.offset_ms());
                let offset = Duration::from_millis(ms.unsigned_abs());
                if ms < 0 { now - offset } else { now + offset }
            }
            Kind::Stopped(at) => at,
        }
    }
}

/// Clock of the machine that a function runs on. It is the services' clock, unless the function runs [with a skew](with_skew).
#[derive(Debug, Clone, Copy)]
pub(crate) struct FunctionClock(pub(crate) Clock);

impl TimeSource for FunctionClock {
    fn now(&self) -> SystemTime {
        let (now, skew) = (self.0.now(), skew_ms());
        let offset = Duration::from_millis(skew.unsigned_abs());
        if skew < 0 { now - offset } else { now + offset }
    }
}

/// Runs a function on a machine whose clock is this many milliseconds ahead of the services' clock. Negative if it is behind. A task that
/// the function spawns has the services' clock.
pub fn with_skew<F: Future>(skew_ms: i64, function: F) -> TaskLocalFuture<i64, F> {
    SKEW_MS.scope(skew_ms, function)
}

/// Milliseconds that the clock of the running function is ahead of the services' clock.
pub(crate) fn skew_ms() -> i64 {
    SKEW_MS.try_with(|skew| *skew).unwrap_or_default()
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
    millis(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
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

    #[tokio::test]
    async fn skipped_time_wakes_who_waits_for_it() {
        let clock = Clock::ahead_by_ms(60_000);
        assert!(clock.now_ms() >= Clock::system().now_ms() + 59_000);
        let in_an_hour = clock.now_ms() + 3_600_000;
        let waiting = tokio::spawn(async move { clock.sleep_until(in_an_hour).await });
        clock.skip(Duration::from_secs(1_800));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        clock.skip(Duration::from_secs(1_801));
        tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap();
        assert_eq!(clock.offset_ms(), (60 + 3_601) * 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_function_has_a_skewed_clock() {
        let clock = Clock::starting_at(UNIX_EPOCH + Duration::from_secs(1_000));
        let both = || (millis_since_epoch(FunctionClock(clock).now()), clock.now_ms());
        assert_eq!(both(), (1_000_000, 1_000_000));
        assert_eq!(with_skew(2_000, async { both() }).await, (1_002_000, 1_000_000));
        assert_eq!(with_skew(-2_000, async { both() }).await, (998_000, 1_000_000));
    }

    #[test]
    fn clock_that_runs_behind_moves_with_the_system_clock() {
        let clock = Clock::ahead_by_ms(-3_600_000);
        let behind_ms = Clock::system().now_ms() - clock.now_ms();
        assert!((3_599_000..=3_600_000).contains(&behind_ms), "{behind_ms}");
        clock.skip(Duration::from_secs(60));
        assert_eq!(clock.offset_ms(), -3_540_000);
    }

    #[tokio::test]
    async fn stopped_clock_stands_still() {
        let clock = Clock::stopped(UNIX_EPOCH + Duration::from_secs(7));
        clock.skip(Duration::from_secs(1));
        assert_eq!((clock.now_ms(), clock.offset_ms()), (7_000, 0));
        clock.sleep_until(7_000).await;
        assert!(tokio::time::timeout(Duration::from_millis(1), clock.sleep_until(7_001)).await.is_err());
    }
}
