//! Values of `template.yaml` that the model uses: defaults, unless the name says otherwise. A test compares them with the template.

pub const WEBHOOK_RATE: f64 = 1_000.0;
pub const API_RATE: f64 = 50.0;
pub const CONSUMER_CONCURRENCY: f64 = 50.0;
/// Largest value of `ConsumerMaxConcurrency`.
pub const CONSUMER_CONCURRENCY_MAX: f64 = 1_000.0;
/// Largest value of `ConsumerPollers`.
pub const CONSUMER_POLLERS_MAX: f64 = 200.0;
/// Dials per second of each provider in `DialRates`.
pub const DIAL_RATE: f64 = 1.0;
pub const DIALER_CONCURRENCY: f64 = 30.0;
/// Largest value of `DialerMaxConcurrency`.
pub const DIALER_CONCURRENCY_MAX: f64 = 1_000.0;
pub const INBOX_DAYS: f64 = 30.0;
pub const CALL_DAYS: f64 = 400.0;
/// Smallest value of `InboxRetentionDays`.
pub const INBOX_DAYS_MIN: f64 = 3.0;
/// Smallest value of `CallRetentionDays`.
pub const CALL_DAYS_MIN: f64 = 44.0;
/// Largest value of `InboxRetentionDays` and of `CallRetentionDays`.
pub const DAYS_MAX: f64 = 3_650.0;
/// `ParallelizationFactor` of the relay's event source mapping.
pub const RELAY_PARALLELIZATION: f64 = 4.0;
/// `MaximumConcurrency` of the repair queue's event source mapping.
pub const REPAIR_WORKERS: f64 = 8.0;
