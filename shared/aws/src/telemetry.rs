//! Logging: one JSON line per decision, which also carries its metrics (CloudWatch's embedded metric format).
//!
//! **No line carries a phone number, a body, a signature or a key.** Switchhook logs only [`Decision`]s, and these have no field
//! for such data. Senders choose the ids, so digits that look like a phone number are hidden in them. Lines go through
//! `tracing`, so that a test can read them and the local cloud can suppress them. Messages of libraries are logged too.

mod metrics;

use std::borrow::Cow;
use std::fmt;
use std::io::Write;
use std::sync::{Mutex, OnceLock};

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use switchhook_domain::{ENTITY_PREFIX, Timestamp};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

pub use self::metrics::{METRICS, Metric};
use crate::error::Error;

/// CloudWatch namespace of all metrics.
pub const NAMESPACE: &str = "Switchhook";
/// Text in place of the hidden digits of a phone number.
const HIDDEN: &str = "***";
/// Fewest digits of a phone number after a plus sign.
const E164_DIGITS_MIN: usize = 7;
/// Numbers of digits with which an id is hidden although it has no plus sign, because it may be a phone number.
const NATIONAL_DIGITS: std::ops::RangeInclusive<usize> = 10..=15;

/// Name of this stack, a dimension of every metric. Two stacks in one account must not trigger each other's alarms.
static STACK: OnceLock<String> = OnceLock::new();
/// Stack name if the environment sets none.
const STACK_UNNAMED: &str = "local";

/// One decision, as it is logged and counted.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Decision<'a> {
    /// Function that decided: ingress, consumer, relay, scheduler, dialer, reconciler or api. `secret` if any of them
    /// reads the secret again, `calls` if any of them reads several calls.
    pub function: &'static str,
    /// Constant text, without values. Empty if the action says it all.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub message: &'static str,
    /// Action that was taken, for example `accepted`. If [`METRICS`] names it, it is also a metric, which counts 1.
    pub action_taken: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<&'a str>,
    /// Type of a webhook, from the bounded list of types that Switchhook folds, else `other`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "without_number")]
    pub event_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "without_number")]
    pub call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "without_number")]
    pub appointment_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "without_number")]
    pub attempt: Option<&'a str>,
    /// Short name of the reason for the action, for example `bad_signature`. A dimension of the action's metric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<&'a str>,
    /// Error, with the errors that caused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Provider's field with a value that Switchhook does not know. Never the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_field: Option<&'a str>,
    /// Number of the key that verified a webhook: 1 is the newest. `None` if the provider has one key only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_number: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// Number of times that the queue message has been received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<&'a str>,
    /// Trace ids, if the line is about several requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trace_ids: Vec<&'a str>,
    /// Calls that a failure is about, the first of them. Keys of entities become the field `entities` of the line.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "without_numbers")]
    pub call_ids: Vec<&'a str>,
    /// Further numbers: name and value. Those that [`METRICS`] names are metrics. A count of 0 is left out: CloudWatch
    /// charges for every series that has a value, even 0. Counts with the same name are added up. Durations with the same name
    /// become a list, in which each is one value of the metric.
    #[serde(skip)]
    pub counts: Vec<(&'static str, u64)>,
    /// True if another line counts this decision. The consumer has one line with the metrics of a whole batch.
    #[serde(skip)]
    pub counted_elsewhere: bool,
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
        let action = metrics::metric(self.function, self.action_taken).filter(|_| !self.counted_elsewhere);
        let numbers = self.numbers(action);
        let metrics: Vec<&Metric> = numbers.iter().filter_map(|number| number.metric).collect();
        let mut line = serde_json::to_value(self).unwrap_or_default();
        if let Some(fields) = line.as_object_mut() {
            // Lambda reads both fields. It gives a line without a valid time the level INFO.
            fields.insert("level".to_owned(), json!(level));
            fields.insert("timestamp".to_owned(), json!(now.to_string()));
            name_entities(fields);
            for number in &numbers {
                let value = match number.values.as_slice() {
                    [value] => json!(value),
                    values => json!(values),
                };
                fields.insert(number.name.to_owned(), value);
            }
            if !metrics.is_empty() {
                fields.insert("stack".to_owned(), json!(STACK.get().map_or(STACK_UNNAMED, String::as_str)));
                let directives = self.directives(action, &metrics);
                let header = json!({"Timestamp": now.as_millis(), "CloudWatchMetrics": directives});
                fields.insert("_aws".to_owned(), header);
            }
        }
        line.to_string()
    }

    /// Returns the numbers of the line: its action, if that is a metric, and its counts.
    fn numbers(&self, action: Option<&'static Metric>) -> Vec<Number> {
        let mut numbers: Vec<Number> = Vec::new();
        for (name, value) in action.map(|metric| (metric.name, 1)).into_iter().chain(self.counts.iter().copied()) {
            let metric = metrics::metric(self.function, name);
            let is_duration = metric.is_some_and(Metric::is_duration);
            if value == 0 && !is_duration {
                continue;
            }
            match numbers.iter_mut().find(|known| known.name == name) {
                Some(known) if is_duration => known.values.push(value),
                Some(known) => known.values.iter_mut().for_each(|sum| *sum += value),
                None => numbers.push(Number { name, values: vec![value], metric }),
            }
        }
        numbers
    }

    /// Metric directives of the line: which metrics it carries, and under which sets of dimensions CloudWatch counts
    /// them. Only the action has a cause, and only some metrics a provider, because every further set is a further series. No
    /// directive names a unit: the name of a duration ends in `_ms`.
    fn directives(&self, action: Option<&Metric>, metrics: &[&Metric]) -> Vec<Value> {
        let directive = |dimensions: &[&str], metrics: &[&Metric]| {
            let metrics: Vec<Value> = metrics.iter().map(|metric| json!({"Name": metric.name})).collect();
            json!({"Namespace": NAMESPACE, "Dimensions": [dimensions], "Metrics": metrics})
        };
        let mut directives = vec![directive(&["stack", "function"], metrics)];
        if let Some(action) = action
            && self.cause.is_some()
        {
            directives.push(directive(&["stack", "function", "cause"], &[action]));
        }
        let by_provider: Vec<&Metric> = metrics.iter().copied().filter(|metric| metric.by_provider).collect();
        if self.provider.is_some() && !by_provider.is_empty() {
            directives.push(directive(&["stack", "function", "provider"], &by_provider));
        }
        directives
    }
}

/// Moves the keys of entities from the fields of calls to fields of their own.
fn name_entities(fields: &mut Map<String, Value>) {
    let is_entity = |id: &Value| id.as_str().is_some_and(|id| id.starts_with(ENTITY_PREFIX));
    if let Some(key) = fields.remove("call_id") {
        fields.insert(if is_entity(&key) { "entity" } else { "call_id" }.to_owned(), key);
    }
    if let Some(Value::Array(ids)) = fields.remove("call_ids") {
        let (entities, calls): (Vec<Value>, Vec<Value>) = ids.into_iter().partition(is_entity);
        for (name, ids) in [("entities", entities), ("call_ids", calls)] {
            if !ids.is_empty() {
                fields.insert(name.to_owned(), Value::Array(ids));
            }
        }
    }
}

/// A number of a line. Only a duration has several values.
struct Number {
    name: &'static str,
    values: Vec<u64>,
    metric: Option<&'static Metric>,
}

/// Serializes an id without the digits of a phone number. Ids are chosen by providers and users, and some users name an
/// appointment or a call by the person's number.
fn without_number<S: Serializer>(id: &Option<&str>, serializer: S) -> Result<S::Ok, S::Error> {
    id.map(hide_number).serialize(serializer)
}

fn without_numbers<S: Serializer>(ids: &[&str], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(ids.iter().map(|id| hide_number(id)))
}

/// Hides phone numbers in an id: digits after a plus sign, and a part between colons with as many digits as a national number has. Such a
/// part consists of the digits, or has a slash behind them. Before the digits there may be a word and a hyphen, and after them the host of a
/// SIP address. An id of fewer or of more digits, such as a row number, is shown.
#[must_use]
pub fn hide_number(id: &str) -> Cow<'_, str> {
    let is_separator = |c: char| matches!(c, ' ' | '-' | '.' | '(' | ')' | '/');
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).count();
    let is_number = |part: &str| {
        let international = part.split('+').skip(1).any(|rest| {
            let number: String = rest.chars().take_while(|c| c.is_ascii_digit() || is_separator(*c)).collect();
            digits(&number) >= E164_DIGITS_MIN
        });
        let user = part.split('@').next().unwrap_or(part);
        let after_word = user.trim_start_matches(|c: char| c.is_ascii_alphabetic()).strip_prefix('-').unwrap_or(user);
        let is_national = |text: &str| {
            NATIONAL_DIGITS.contains(&digits(text)) && text.chars().all(|c| c.is_ascii_digit() || is_separator(c))
        };
        // The ids of Switchhook's own events have a slash behind the id of the call.
        let before_slash = after_word.split('/').next().unwrap_or(after_word);
        international || is_national(after_word) || is_national(before_slash)
    };
    if !id.split(':').any(is_number) {
        return Cow::Borrowed(id);
    }
    let parts: Vec<&str> = id.split(':').map(|part| if is_number(part) { HIDDEN } else { part }).collect();
    Cow::Owned(parts.join(":"))
}

/// Reads the name of the stack, and sends all lines to standard output, where CloudWatch reads them. Called once, at the start of
/// `main`.
pub fn init() {
    if let Some(name) = std::env::var("STACK_NAME").ok().filter(|name| !name.is_empty()) {
        STACK.get_or_init(|| name);
    }
    let lines = JsonLines::new(std::io::stdout());
    let subscriber = tracing_subscriber::registry().with(LevelFilter::INFO).with(lines);
    // Only a second call can fail, and it would set the same subscriber.
    drop(tracing::subscriber::set_global_default(subscriber));
}

/// Writes each tracing event as one line of JSON: a [`Decision`] with its fields, and a message of a library with its level and
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

    fn logged(decision: &Decision<'_>) -> Value {
        serde_json::from_str(&decision.line(Timestamp::from_millis(0), "INFO")).unwrap()
    }

    #[test]
    fn line_carries_its_metrics_with_their_dimensions() {
        let line = logged(&Decision {
            function: "ingress",
            action_taken: "rejected",
            provider: Some("retell"),
            event_type: Some("call_ended"),
            cause: Some("bad_signature"),
            counts: vec![("received", 1), ("answer_ms", 0), ("unsigned", 0), ("of_no_metric", 7)],
            ..Decision::default()
        });
        assert_eq!(json!([line["rejected"], line["received"], line["answer_ms"]]), json!([1, 1, 0]));
        assert_eq!(json!([line["of_no_metric"], line["unsigned"], line["message"]]), json!([7, null, null]));
        assert_eq!((&line["stack"], &line["timestamp"]), (&json!("local"), &json!("1970-01-01T00:00:00.000Z")));
        let names = [json!({"Name": "rejected"}), json!({"Name": "received"}), json!({"Name": "answer_ms"})];
        assert_eq!(
            line["_aws"]["CloudWatchMetrics"],
            json!([
                {"Namespace": "Switchhook", "Dimensions": [["stack", "function"]], "Metrics": names},
                {"Namespace": "Switchhook", "Dimensions": [["stack", "function", "cause"]], "Metrics": [names[0]]},
                {"Namespace": "Switchhook", "Dimensions": [["stack", "function", "provider"]], "Metrics": [names[0], names[1]]},
            ])
        );
    }

    #[test]
    fn counts_are_added_up_and_durations_are_listed() {
        let line = logged(&Decision {
            function: "consumer",
            action_taken: "batch_folded",
            counts: vec![
                ("received", 1),
                ("received_to_applied_ms", 30),
                ("received", 1),
                ("received_to_applied_ms", 0),
                ("of_no_metric", 2),
                ("of_no_metric", 3),
            ],
            ..Decision::default()
        });
        let values = json!([line["received"], line["received_to_applied_ms"], line["of_no_metric"]]);
        assert_eq!(values, json!([2, [30, 0], 5]));
        let names = json!([{"Name": "received"}, {"Name": "received_to_applied_ms"}]);
        assert_eq!(line["_aws"]["CloudWatchMetrics"][0]["Metrics"], names, "each metric is named once");
    }

    #[test]
    fn decision_that_another_line_counts_has_no_metrics() {
        let line = logged(&Decision {
            function: "consumer",
            action_taken: "applied",
            counted_elsewhere: true,
            ..Decision::default()
        });
        assert_eq!(json!([line["applied"], line["_aws"], line["stack"]]), json!([null, null, null]));
    }

    #[test]
    fn no_dimension_set_is_listed_twice() {
        // CloudWatch counts a metric once for each set in the list.
        let line = logged(&Decision { function: "scheduler", action_taken: "schedule_failed", ..Decision::default() });
        assert_eq!(line["_aws"]["CloudWatchMetrics"][0]["Dimensions"], json!([["stack", "function"]]));
    }

    #[test]
    fn action_that_is_no_metric_is_only_logged() {
        let line = logged(&Decision { function: "api", action_taken: "shown", ..Decision::default() });
        assert_eq!(json!([line["action_taken"], line["shown"], line["_aws"]]), json!(["shown", null, null]));
    }

    #[test]
    fn id_that_is_a_phone_number_is_hidden() {
        for (id, shown) in [
            ("appointment:apt_1", "appointment:apt_1"),
            ("+15550107002", "***"),
            ("appointment:+1 (555) 010-7002", "appointment:***"),
            ("generic:call+15550107002", "generic:***"),
            ("retell:call_1:+15550107002:call_ended", "retell:call_1:***:call_ended"),
            ("(555) 010-7002", "***"),
            ("5550107002", "***"),
            ("x-jwt:sip:447700900123@example.com", "x-jwt:sip:***"),
            ("x-jwt:tel-447700900123", "x-jwt:***"),
            ("switchhook:appointment:5550107002/1/deadline/1767225600000", "switchhook:appointment:***"),
            ("x-jwt:5550107002/paid", "x-jwt:***"),
            ("555/010/7002", "***"),
            ("x-jwt:4711/paid", "x-jwt:4711/paid"),
            ("tel-4711", "tel-4711"),
            ("deadbeef-1234-4123-8123-123456789012", "deadbeef-1234-4123-8123-123456789012"),
            // A row number, a sum of two, a UUID and a hash are no phone numbers.
            ("4711", "4711"),
            ("1+234567", "1+234567"),
            ("12345678901234567", "12345678901234567"),
            ("9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d"),
        ] {
            let line = logged(&Decision {
                appointment_id: Some(id),
                call_id: Some(id),
                call_ids: vec![id],
                ..Decision::default()
            });
            let ids = json!([line["appointment_id"], line["call_id"], line["call_ids"]]);
            assert_eq!(ids, json!([shown, shown, [shown]]), "{id}");
        }
    }
}
