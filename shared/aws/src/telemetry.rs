//! Logging: one JSON line per decision, which also carries its metrics (CloudWatch's embedded metric format).
//!
//! **No line carries a phone number, a body, a signature or a key.** Only the fields of [`Decision`] can be logged, and
//! none of them holds one. Lines go through `tracing`, so that a test can read them and the local cloud can suppress
//! them.

use std::fmt;
use std::io::Write;
use std::sync::{Mutex, OnceLock};

use serde::Serialize;
use serde_json::json;
use switchhook_domain::Timestamp;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::error::Error;

/// CloudWatch namespace of all metrics.
pub const NAMESPACE: &str = "Switchhook";

/// Name of this stack, a dimension of every metric. Two stacks in one account must not trigger each other's alarms.
static STACK: OnceLock<String> = OnceLock::new();
/// Stack name if the environment sets none.
const STACK_UNNAMED: &str = "local";

/// One decision, as it is logged and counted.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Decision<'a> {
    /// Function that decided: ingress, consumer, relay, scheduler, dialer, reconciler or api. `secret` if any of them
    /// reads the secret again.
    pub stage: &'static str,
    /// Constant text, without values.
    pub message: &'static str,
    /// Action that was taken. Also the name of a metric, which counts 1.
    pub action_taken: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub appointment_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Provider's field with a value that Switchhook does not know. Never the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<&'a str>,
    /// Further metrics: name and value.
    #[serde(skip)]
    pub counts: Vec<(&'static str, u64)>,
}

impl Decision<'_> {
    /// Decision whose `cause` and `error` come from an error. `None` leaves both empty.
    #[must_use]
    pub fn from_error(error: Option<&Error>) -> Self {
        Self { cause: error.map(Error::operation), error: error.map(Error::with_causes), ..Self::default() }
    }

    /// Writes the line. `failed` gives it the level ERROR instead of INFO.
    pub fn log(&self, now: Timestamp, failed: bool) {
        let line = self.line(now, if failed { "ERROR" } else { "INFO" });
        if failed {
            tracing::error!(target: "switchhook", line);
        } else {
            tracing::info!(target: "switchhook", line);
        }
    }

    fn line(&self, now: Timestamp, level: &str) -> String {
        let own = (self.action_taken, 1);
        let counts: Vec<(&str, u64)> =
            std::iter::once(own).filter(|(name, _)| !name.is_empty()).chain(self.counts.iter().copied()).collect();
        let mut dimensions = vec!["stack", "stage"];
        dimensions.extend(self.provider.map(|_| "provider"));
        dimensions.extend(self.cause.map(|_| "cause"));
        let metrics: Vec<_> = counts.iter().map(|(name, _)| json!({"Name": name})).collect();
        let mut line = serde_json::to_value(self).unwrap_or_default();
        if let Some(fields) = line.as_object_mut() {
            fields.insert("level".to_owned(), json!(level));
            fields.insert("timestamp".to_owned(), json!(now.to_string()));
            fields.insert("stack".to_owned(), json!(STACK.get().map_or(STACK_UNNAMED, String::as_str)));
            for (name, count) in counts {
                fields.insert(name.to_owned(), json!(count));
            }
            if !metrics.is_empty() {
                fields.insert(
                    "_aws".to_owned(),
                    json!({
                        "Timestamp": now.as_millis(),
                        "CloudWatchMetrics":
                            [{"Namespace": NAMESPACE, "Dimensions": [dimensions, ["stack", "stage"]], "Metrics": metrics}],
                    }),
                );
            }
        }
        line.to_string()
    }
}

/// Sends all lines to standard output, where CloudWatch reads them. Called once, at the start of `main`.
pub fn init() {
    if let Some(name) = std::env::var("STACK_NAME").ok().filter(|name| !name.is_empty()) {
        STACK.get_or_init(|| name);
    }
    let set = std::env::var("RUST_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = set.unwrap_or_else(|| Targets::new().with_default(Level::INFO));
    let subscriber = tracing_subscriber::registry().with(filter).with(JsonLines::new(std::io::stdout()));
    // Only a second call can fail, and it would set the same subscriber.
    drop(tracing::subscriber::set_global_default(subscriber));
}

/// Writes each tracing event as one line of JSON: a [`Decision`] as it is, an event of a library with its level and
/// target.
#[derive(Debug)]
pub struct JsonLines<W>(Mutex<W>);

impl<W> JsonLines<W> {
    pub const fn new(writer: W) -> Self {
        Self(Mutex::new(writer))
    }
}

impl<S: Subscriber, W: Write + 'static> Layer<S> for JsonLines<W> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let line = fields.line.unwrap_or_else(|| {
            let (level, target) = (event.metadata().level().as_str(), event.metadata().target());
            json!({"level": level, "target": target, "message": fields.message}).to_string()
        });
        if let Ok(mut writer) = self.0.lock() {
            // There is no other place to report that the log cannot be written.
            drop(writeln!(writer, "{line}"));
        }
    }
}

#[derive(Default)]
struct Fields {
    line: Option<String>,
    message: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "line" {
            self.line = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_carries_its_metric() {
        let decision = Decision {
            stage: "ingress",
            message: "webhook answered",
            action_taken: "accepted",
            provider: Some("retell"),
            ..Decision::default()
        };
        let line: serde_json::Value = serde_json::from_str(&decision.line(Timestamp::from_millis(0), "INFO")).unwrap();
        assert_eq!(line["accepted"], 1);
        assert_eq!(line["stack"], "local");
        assert_eq!(line["timestamp"], "1970-01-01T00:00:00.000Z");
        let metrics = &line["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(metrics["Metrics"], json!([{"Name": "accepted"}]));
        assert_eq!(metrics["Dimensions"], json!([["stack", "stage", "provider"], ["stack", "stage"]]));
    }
}
