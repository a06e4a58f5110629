//! Repeats requests that only this dialer can make, because nobody else knows the provider's answer.

use std::time::Duration;

use switchhook_aws::Error;
use tokio::time::Instant;

/// Tries of a request that fails, each with the SDK's own.
const TRIES_MAX: u32 = 3;
/// Longest pause between two of them, in milliseconds.
const PAUSE_MS: u64 = 500;

/// Repeats a request that fails, after a short pause.
pub(crate) async fn repeated<T, F: Future<Output = Result<T, Error>>>(request: impl Fn() -> F) -> Result<T, Error> {
    repeated_within(Duration::MAX, request).await
}

/// Does the same, but begins no new try after this time.
pub(crate) async fn repeated_within<T, F: Future<Output = Result<T, Error>>>(
    limit: Duration,
    request: impl Fn() -> F,
) -> Result<T, Error> {
    let started = Instant::now();
    for _ in 1..TRIES_MAX {
        match request().await {
            Ok(answer) => return Ok(answer),
            Err(error) if started.elapsed() >= limit => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(fastrand::u64(PAUSE_MS / 2..=PAUSE_MS))).await,
        }
    }
    request().await
}
