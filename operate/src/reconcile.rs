//! Schedules, run by hand.
//!
//! A schedule may run at any time, also beside its usual run: every worker's writes are conditional.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::error::Error;
use crate::stack::Stack;
use crate::web;

/// Time limit of a run. The functions have a timeout of 50 seconds.
const RUN_MAX: Duration = Duration::from_secs(70);

/// Work that a stack does on a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Claims calls that are due.
    Scheduler,
    /// Queues stored events that were never folded, wakes silent calls, and has workers read the providers' lists of calls.
    Reconciler,
    /// Compares recently settled calls with their events and with their providers' reports.
    Drift,
}

impl Schedule {
    /// Name of the schedule in the path of a local stack.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduler => "scheduler",
            Self::Reconciler => "reconciler",
            Self::Drift => "drift",
        }
    }
}

impl Stack {
    /// Runs a schedule now, waits for its end, and returns its report: names with numbers, and times in RFC 3339 format.
    ///
    /// # Errors
    /// [`Error::FunctionFailed`] if the run failed, or an error of the request.
    pub async fn run(&self, schedule: Schedule) -> Result<Value, Error> {
        let (function, payload) = match schedule {
            Schedule::Scheduler => (&self.names.scheduler_function, json!({})),
            Schedule::Reconciler => (&self.names.reconciler_function, json!({})),
            Schedule::Drift => (&self.names.reconciler_function, json!({"run": "drift"})),
        };
        if let Some(services) = &self.services {
            return services.invoke(function, &payload, RUN_MAX).await;
        }
        let url = self.local.as_deref().unwrap_or_default();
        let request = web::request(Method::POST, &format!("{url}/run/{}", schedule.as_str()))?;
        let response = web::send_in_background(request, RUN_MAX).await?;
        let result: Value = serde_json::from_str(&response.body).unwrap_or_default();
        if response.status == 200 {
            return Ok(result);
        }
        let message = result.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
        Err(Error::FunctionFailed { function: function.clone(), message })
    }
}
