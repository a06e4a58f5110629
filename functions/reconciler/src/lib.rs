//! The reconciler: wakes calls whose time has come, asks their providers what is true, and queues events that never reached the
//! queue.
//!
//! It takes no input and keeps no plan: each run finds what is due in an index and repairs it by the one path there is.
//! **It never writes a call's state.** What it learns becomes an event in the inbox, under an id that says what was learned,
//! so that two runs at once, or one that died in the middle, make one event of it. What a provider says goes the way of its
//! webhooks: same inbox, same normaliser, same id where the webhook's own can be known.
//!
//! **What is asked is bounded**: so many requests per run, none to a provider that fails again and again in this run, and of
//! one call less and less often. **A run ends by itself**: it looks at the clock before each call and each request, leaves what it
//! has no time for where the next run finds it, and says what it did.

mod drift;
mod findings;
mod lookup;
mod reconciler;
mod sweep;
mod wake;

use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::config::{Environment, EnvironmentError};
use switchhook_aws::provider::ApiUrls;
use switchhook_aws::telemetry::Decision;

pub use crate::drift::DriftReport;
use crate::reconciler::RUN_MAX;
pub use crate::reconciler::{Reconciler, Report};

/// What the function reads from its environment.
#[derive(Debug)]
pub struct Config {
    pub inbox_table: String,
    pub inbox_retention: Duration,
    pub calls_table: String,
    pub queue_url: String,
    pub inactivity_timeout: Duration,
    pub providers_secret_id: String,
    pub api_urls: ApiUrls,
}

impl Config {
    /// # Errors
    /// Names every variable that is missing or bad.
    pub fn from_environment(
        mut environment: Environment<impl Fn(&str) -> Option<String>>,
    ) -> Result<Self, EnvironmentError> {
        let config = Self {
            inbox_table: environment.text("INBOX_TABLE"),
            inbox_retention: environment.days("INBOX_RETENTION_DAYS"),
            calls_table: environment.text("CALLS_TABLE"),
            queue_url: environment.text("QUEUE_URL"),
            inactivity_timeout: environment.seconds("INACTIVITY_TIMEOUT_SECONDS"),
            providers_secret_id: environment.text("PROVIDERS_SECRET_ID"),
            api_urls: ApiUrls::from_environment(&mut environment),
        };
        environment.check(config)
    }
}

impl Reconciler {
    /// One run.
    ///
    /// # Errors
    /// The first error met, after everything that could be done was done.
    pub async fn run(&self, trace_id: &str) -> Result<Report, Error> {
        let started = self.clock.now();
        let mut report = Report::default();
        let mut first_error = None;
        // Neither starves the other: the sweep has the first half of the time, and what it leaves of it goes to the calls.
        if let Err(error) = self.sweep(&mut report, started.plus(RUN_MAX / 2)).await {
            report.failed += 1;
            first_error = Some(error);
        }
        if let Err(error) = self.wake(&mut report, started.plus(RUN_MAX), trace_id).await {
            first_error.get_or_insert(error);
        }
        let now = self.clock.now();
        let chain = first_error.as_ref().map(Error::chain);
        let decision = Decision {
            stage: "reconciler",
            message: "reconciled",
            action_taken: if first_error.is_some() { "reconcile_failed" } else { "reconciled" },
            cause: first_error.as_ref().map(Error::operation),
            error: chain.as_deref(),
            duration_ms: Some(now.millis_since(started)),
            trace_id: Some(trace_id),
            counts: vec![
                ("woken", report.woken),
                ("deadlines_passed", report.deadlines_passed),
                ("lookups", report.lookups),
                ("lookup_events", report.lookup_events),
                ("claims_expired", report.claims_expired),
                ("rescheduled", report.rescheduled),
                ("swept_minutes", report.swept_minutes),
                ("requeued", report.requeued),
                ("failed", report.failed),
            ],
            ..Decision::default()
        };
        decision.log(now, first_error.is_some());
        first_error.map_or(Ok(report), Err)
    }
}
