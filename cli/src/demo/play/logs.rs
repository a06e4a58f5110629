//! A collector for those log lines of the functions that the oracle or the summary needs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// Subscriber layer that collects rejections, ids that a sender must not name, failures, drifts and the decisions of scheduler and dialer.
#[derive(Clone, Default)]
pub(super) struct LogCollector(Arc<Mutex<CollectedLogs>>);

#[derive(Default)]
pub(super) struct CollectedLogs {
    pub(super) rejections_by_cause: BTreeMap<String, u64>,
    pub(super) foreign_ids: u64,
    pub(super) failures: Vec<String>,
    pub(super) worker_actions: BTreeMap<String, u64>,
    pub(super) drifted_calls: Vec<String>,
}

impl LogCollector {
    /// Returns everything that was collected since the last time.
    pub(super) fn take(&self) -> CollectedLogs {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S: Subscriber> Layer<S> for LogCollector {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut visitor = LineVisitor(None);
        event.record(&mut visitor);
        let failed = *event.metadata().level() == Level::ERROR;
        let Some(line) = visitor.0 else { return };
        let rejected = line.contains("\"action_taken\":\"rejected\"");
        let of_worker =
            ["scheduler", "dialer"].iter().any(|function| line.contains(&format!("\"function\":\"{function}\"")));
        let foreign_id = line.contains("\"reserved_call_id\":1");
        if !failed && !rejected && !of_worker && !foreign_id {
            return;
        }
        let fields: Value = serde_json::from_str(&line).unwrap_or_default();
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut logs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        logs.foreign_ids += u64::from(foreign_id);
        if rejected {
            let cause = fields.get("cause").and_then(Value::as_str).unwrap_or("unnamed");
            *logs.rejections_by_cause.entry(cause.to_owned()).or_default() += 1;
        }
        if of_worker {
            *logs.worker_actions.entry(text("action_taken").to_owned()).or_default() += 1;
            let claimed = fields.get("claimed").and_then(Value::as_u64).unwrap_or_default();
            *logs.worker_actions.entry("claimed".to_owned()).or_default() += claimed;
        }
        if failed && text("action_taken") == "drift_found" {
            logs.drifted_calls.push(text("call_id").to_owned());
        } else if failed {
            logs.failures.push(line);
        }
    }
}

/// Visitor that keeps the JSON line of a log event.
struct LineVisitor(Option<String>);

impl Visit for LineVisitor {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "line" {
            self.0 = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}
