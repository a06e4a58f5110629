//! The reconciler: wakes calls that are due, looks them up at their providers, and queues stored events that were never folded.
//!
//! A scheduled run takes no input and remembers nothing. It reads from an index which calls are due, and repairs them. Some
//! work it hands to workers, which are invocations of the same function by the repair queue. They get the calls and the events that are too
//! many for the run, the providers' lists of calls, and the rest of the drift check.
//!
//! **It never decides a call's state.** Every finding becomes an event in the inbox, under an id made of the finding itself. So
//! two runs at the same time, or a run after one that died, store it once. A provider's answer is handled like its webhooks: it
//! has the same inbox, the same normaliser, and the same event id if the webhook's id can be derived. In a row it writes
//! only wake-up times and moves. Before a doubt about a dial ends, the row also gets the dials that the inbox records and it
//! lacks, and the reason why the call stops. The dialer adds them in the same way.
//!
//! **Lookups are limited.** All runs and workers share a maximum number of them per minute, and each stops asking a provider that
//! keeps failing. The same call is looked up less and less often.
//!
//! **A run ends in time, and does the most urgent work first.** It reads the clock before each call and each request. Calls that it has
//! no time for stay due for the next run. The sweep gets half of the time at most. Then the run tells operators about new trouble, whatever is due.
//! Then it hands work to workers, the most urgent first, and wakes calls itself, those of all wake queues at the same time.

mod attention;
mod compare;
mod discovery;
mod drift;
mod findings;
mod lookup;
mod reconciler;
mod repair;
mod resolve;
mod retry;
mod stuck;
mod sweep;
mod unfolded;
mod wake;

use std::time::Duration;

use serde_json::{Value, json};
use switchhook_aws::Error;
use switchhook_aws::config::{Environment, EnvironmentError};
use switchhook_aws::error::note_error;
use switchhook_aws::provider::ApiUrls;
use switchhook_aws::shards::Shards;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{Policy, Timestamp};

use crate::attention::MARK_UNTIL;
pub use crate::drift::DriftReport;
use crate::reconciler::RUN_MAX;
pub use crate::reconciler::{Reconciler, Report, RequestStats};
use crate::unfolded::UNFOLDED_FOR;

/// Limits of the runs, for the model of `switchhook simulate`.
pub mod limits {
    use std::time::Duration;

    pub use crate::discovery::{
        LOOK_BACK_MAX as DISCOVERY_LOOK_BACK_MAX, OVERLAP as DISCOVERY_OVERLAP, PAGES_MAX as DISCOVERY_PAGES_MAX,
        PERIOD as DISCOVERY_PERIOD,
    };
    pub use crate::drift::LAG_MAX as DRIFT_LAG_MAX;
    pub use crate::lookup::{REQUESTS_PER_MINUTE, Urgency};
    pub use crate::reconciler::{RUN_MAX, WORK_WINDOW};
    pub use crate::retry::CONCURRENCY as RETRIES_AT_ONCE;
    pub use crate::sweep::{
        CALLS_PER_READ as SWEEP_CALLS_PER_READ, PAGE as SWEEP_PAGE, QUEUE_DEPTH_PER_SHARD,
        READS_AT_ONCE as SWEEP_READS_AT_ONCE,
    };

    /// Time of a scheduled run that the sweep gets at most, so that it cannot starve the calls.
    pub const SWEEP_MAX: Duration = Duration::from_millis(RUN_MAX.as_millis() as u64 / 2);
}

/// Configuration, read from environment variables at cold start.
#[derive(Debug)]
pub struct Config {
    pub inbox_table: String,
    pub shards: Shards,
    pub inbox_retention: Duration,
    pub calls_table: String,
    pub index_numbers: bool,
    pub call_retention: Duration,
    pub queue_url: String,
    pub dlq_url: String,
    pub repair_queue_url: String,
    pub event_bus: String,
    pub policy: Policy,
    pub dial_accounts_secret_id: String,
    pub api_urls: ApiUrls,
}

impl Config {
    /// Reads the configuration.
    ///
    /// # Errors
    /// Names every variable that is missing or not valid.
    pub fn from_environment(
        mut environment: Environment<impl Fn(&str) -> Option<String>>,
    ) -> Result<Self, EnvironmentError> {
        let config = Self {
            inbox_table: environment.text("INBOX_TABLE"),
            shards: environment.shards(),
            inbox_retention: environment.days("INBOX_RETENTION_DAYS"),
            calls_table: environment.text("CALLS_TABLE"),
            index_numbers: environment.flag("INDEX_NUMBERS"),
            call_retention: environment.days("CALL_RETENTION_DAYS"),
            queue_url: environment.text("QUEUE_URL"),
            dlq_url: environment.text("DLQ_URL"),
            repair_queue_url: environment.text("REPAIR_QUEUE_URL"),
            event_bus: environment.text("EVENT_BUS"),
            policy: environment.policy(),
            dial_accounts_secret_id: environment.text("DIAL_ACCOUNTS_SECRET_ID"),
            api_urls: ApiUrls::from_environment(&mut environment),
        };
        environment.check(config)
    }
}

impl Reconciler {
    /// Handles an invocation. The repair queue sends records. Otherwise the input only selects the drift check or the usual run, and
    /// schedules, tests and operators start the same two. Returns the report of a run.
    ///
    /// # Errors
    /// The run returned an error, or a worker met one that no scheduled run meets: at a provider's list, or in the drift check. An alarm
    /// watches the invocations that fail.
    pub async fn handle(
        &self,
        payload: Value,
        trace_id: &str,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        if payload.get("Records").is_some() {
            let report = self.work(serde_json::from_value(payload)?, trace_id).await;
            return match report.failed_alone {
                0 => Ok(Value::Null),
                _ => Err("a provider's list or the drift check failed: the log says why".into()),
            };
        }
        if payload.get("run").and_then(Value::as_str) == Some("drift") {
            return Ok(json!(self.check_drift(trace_id).await?));
        }
        Ok(json!(self.run(trace_id).await?))
    }

    /// Sweeps the inbox, tells operators about new trouble, hands work to workers, and wakes the calls that are due.
    ///
    /// # Errors
    /// Returns [one](note_error) of the errors, after the run has tried everything else.
    pub async fn run(&self, trace_id: &str) -> Result<Report, Error> {
        let started = self.clock.now();
        let mut report = Report::default();
        let mut first_error = None;
        if let Err(error) = self.sweep(&mut report, started).await {
            report.failed += 1;
            note_error(&mut first_error, error);
        }
        let (unfolded, error) = self.find_unfolded(&mut report).await;
        report.failed += u64::from(error.is_some());
        note_error(&mut first_error, error);
        if let Err(error) = self.notify(&unfolded, &mut report, started.plus(MARK_UNTIL)).await {
            report.failed += 1;
            note_error(&mut first_error, error);
        }
        if let Err(error) = self.count_stuck(&mut report, started).await {
            report.failed += 1;
            note_error(&mut first_error, error);
        }
        // The workers begin now, at the same time as this run.
        let (pages, mut works, error) = self.due_pages(&mut report, started).await;
        note_error(&mut first_error, error);
        match self.retries(&unfolded, started).await {
            Ok(retries) => works.extend(retries),
            Err(error) => {
                report.failed += 1;
                note_error(&mut first_error, error);
            }
        }
        let (lists, error) = self.lists_due(started).await;
        report.failed += u64::from(error.is_some());
        note_error(&mut first_error, error);
        works.extend(lists);
        match self.drift_left(started).await {
            Ok(work) => works.extend(work),
            Err(error) => {
                report.failed += 1;
                note_error(&mut first_error, error);
            }
        }
        if let Err(error) = self.hand_on(&works, &mut report).await {
            note_error(&mut first_error, error);
        }
        if let Err(error) = self.wake(pages, &mut report, started.plus(RUN_MAX), trace_id).await {
            note_error(&mut first_error, error);
        }
        let action = if first_error.is_some() { "reconcile_failed" } else { "reconciled" };
        self.log_run(("reconciled", action), &report, first_error.as_ref(), started, trace_id);
        first_error.map_or(Ok(report), Err)
    }

    /// Logs a run or the work of a worker: its message and action, and the counts of its report.
    pub(crate) fn log_run(
        &self,
        (message, action_taken): (&'static str, &'static str),
        report: &Report,
        error: Option<&Error>,
        started: Timestamp,
        trace_id: &str,
    ) {
        let now = self.clock.now();
        let mut counts = vec![
            ("woken", report.woken),
            ("timeouts", report.timeouts),
            ("doubts", report.doubts),
            ("lookups", report.lookups),
            ("lookup_events", report.lookup_events),
            ("claims_expired", report.claims_expired),
            ("rescheduled", report.rescheduled),
            ("handed_on", report.handed_on),
            ("swept_minutes", report.swept_minutes),
            ("requeued", report.requeued),
            ("discovered", report.discovered),
            ("dead_letters_marked", report.dead_letters_marked),
            ("notices", report.notices),
            ("failed", report.failed),
            ("budget_used_up", report.budget_used_up),
        ];
        // CloudWatch would charge for a series of zeros.
        counts.extend(Some(("overdue_wake_ms", report.overdue_wake_ms)).filter(|(_, overdue)| *overdue > 0));
        let is_trouble = Duration::from_millis(report.unfolded_ms) > UNFOLDED_FOR;
        counts.extend(is_trouble.then_some(("unfolded_ms", report.unfolded_ms)));
        counts.extend(Some(("discovery_skipped_ms", report.discovery_skipped_ms)).filter(|(_, skipped)| *skipped > 0));
        counts.extend((report.discovery_postponed > 0).then_some(("discovery_postponed", report.discovery_postponed)));
        counts.extend((report.retried > 0).then_some(("retried", report.retried)));
        counts.extend(report.stuck_dialing.map(|stuck| ("stuck_dialing", stuck)));
        counts.extend(report.swept_until.map(|until| ("sweep_lag_ms", now.millis_since(until).unsigned_abs())));
        let decision = Decision {
            function: "reconciler",
            message,
            action_taken,
            duration_ms: Some(now.millis_since(started)),
            trace_id: Some(trace_id),
            counts,
            ..Decision::from_error(error)
        };
        decision.log(now, error.is_some());
    }
}
