//! Metrics of a local stack, in the form in which CloudWatch would have them.
//!
//! They have two sources. The functions' own metrics come from their log lines (CloudWatch's embedded metric format), which
//! a tracing layer reads. The metrics that AWS makes itself (`AWS/Lambda`, `AWS/ApiGateway`, `AWS/SQS`, `AWS/DynamoDB`) are
//! recorded by the event sources and the gateway, or sampled once a minute.
//!
//! **A metric here has the namespace, the name, the dimensions and the unit that it has on AWS.** So the queries of the
//! template's dashboard and alarms run on it unchanged ([`answer`]).

mod alarm;
mod expression;
mod query;
mod request;
mod sample;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::sync::lock;

pub use alarm::Alarm;
pub use query::{Query, QueryError, Series};
pub use request::{Request, answer};
pub(crate) use sample::Sampler;

/// Length of an aggregate, the resolution of CloudWatch's standard metrics.
pub const MINUTE_MS: u64 = 60_000;
/// Time for which aggregates are kept: a week.
const KEPT_MS: u64 = 7 * 24 * 60 * MINUTE_MS;
/// Largest number of series. Metrics of further series are dropped, so that a mistake in a dimension cannot use up the memory.
const SERIES_MAX: usize = 10_000;
/// Ratio between the borders of a histogram's buckets. A percentile is at most 2 % too high.
const BUCKET_RATIO: f64 = 1.02;
/// Percentiles that [`Metrics::since`] returns.
const PERCENTILES: [(&str, f64); 3] = [("p50", 50.0), ("p90", 90.0), ("p99", 99.0)];

/// Identifies a series of values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SeriesKey {
    pub namespace: String,
    pub name: String,
    pub dimensions: BTreeMap<String, String>,
}

impl SeriesKey {
    #[must_use]
    pub fn new(namespace: &str, name: &str, dimensions: &[(&str, &str)]) -> Self {
        let dimensions = dimensions.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { namespace: namespace.to_owned(), name: name.to_owned(), dimensions }
    }
}

/// Aggregate of the values of one series in one minute, or in a longer period.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Aggregate {
    pub count: u64,
    pub sum: f64,
    pub min: f64,
    pub max: f64,
    /// Number of values by bucket. Bucket `n` ends at [`BUCKET_RATIO`] to the power of `n`.
    histogram: BTreeMap<i32, u64>,
}

impl Aggregate {
    fn add(&mut self, value: f64) {
        let mut buckets = BTreeMap::new();
        buckets.insert(bucket_of(value), 1);
        self.merge(&Self { count: 1, sum: value, min: value, max: value, histogram: buckets });
    }

    fn merge(&mut self, other: &Self) {
        if self.count == 0 {
            (self.min, self.max) = (other.min, other.max);
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        for (bucket, count) in &other.histogram {
            *self.histogram.entry(*bucket).or_default() += count;
        }
    }

    /// Value below which this percentage of all values lie.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> f64 {
        let wanted = percent / 100.0 * to_f64(self.count);
        let mut seen = 0;
        for (bucket, count) in &self.histogram {
            seen += count;
            if to_f64(seen) >= wanted {
                return BUCKET_RATIO.powi(*bucket).clamp(self.min, self.max);
            }
        }
        self.max
    }
}

fn bucket_of(value: f64) -> i32 {
    // Values of zero and below share the lowest bucket.
    let bucket = (value.max(f64::from(f32::MIN_POSITIVE)).ln() / BUCKET_RATIO.ln()).ceil();
    #[expect(clippy::cast_possible_truncation, reason = "the logarithm of any value is small")]
    let bucket = bucket as i32;
    bucket
}

/// A count as a number of metric math. Exact up to 2 to the power of 53.
#[expect(clippy::cast_precision_loss, reason = "counts are far below the limit of an f64")]
pub(crate) const fn to_f64(count: u64) -> f64 {
    count as f64
}

/// All metrics of a stack. Clones share the same metrics.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Mutex<Store>>);

#[derive(Default)]
struct Store {
    series: BTreeMap<SeriesKey, BTreeMap<u64, Aggregate>>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Metrics").field(&lock(&self.0).series.len()).finish()
    }
}

impl Metrics {
    /// Adds a value to the aggregate of its minute.
    pub fn record(&self, key: SeriesKey, value: f64, at_ms: u64) {
        let minute = at_ms - at_ms % MINUTE_MS;
        let mut store = lock(&self.0);
        if store.series.len() >= SERIES_MAX && !store.series.contains_key(&key) {
            return;
        }
        let minutes = store.series.entry(key).or_default();
        minutes.entry(minute).or_default().add(value);
        while let Some((oldest, _)) = minutes.first_key_value()
            && *oldest + KEPT_MS < minute
        {
            minutes.pop_first();
        }
    }

    /// Records an invocation of a function, as Lambda does.
    pub fn record_invocation(&self, function: &str, duration_ms: u64, failed: bool, at_ms: u64) {
        let name = function_name(function);
        for (metric, value) in
            [("Invocations", 1.0), ("Errors", if failed { 1.0 } else { 0.0 }), ("Duration", to_f64(duration_ms))]
        {
            self.record(SeriesKey::new("AWS/Lambda", metric, &[("FunctionName", &name)]), value, at_ms);
        }
    }

    /// Records that a schedule invoked a function, as Lambda does. Schedules invoke asynchronously, and nothing else does.
    pub fn record_scheduled_event(&self, function: &str, at_ms: u64) {
        let key = SeriesKey::new("AWS/Lambda", "AsyncEventsReceived", &[("FunctionName", &function_name(function))]);
        self.record(key, 1.0, at_ms);
    }

    /// Records that such an invocation failed, as Lambda does. It repeats none of them.
    pub fn record_dropped_event(&self, function: &str, at_ms: u64) {
        let key = SeriesKey::new("AWS/Lambda", "AsyncEventsDropped", &[("FunctionName", &function_name(function))]);
        self.record(key, 1.0, at_ms);
    }

    /// Records an answer of the gateway, as API Gateway does.
    pub fn record_request(&self, status: u16, latency_ms: u64, at_ms: u64) {
        let one_if = |is_true: bool| if is_true { 1.0 } else { 0.0 };
        for (metric, value) in [
            ("Count", 1.0),
            ("4xx", one_if((400..500).contains(&status))),
            ("5xx", one_if(status >= 500)),
            ("Latency", to_f64(latency_ms)),
        ] {
            self.record(SeriesKey::new("AWS/ApiGateway", metric, &[("ApiId", API_ID)]), value, at_ms);
        }
    }

    /// Records the metrics of a log line in CloudWatch's embedded metric format. Ignores every other line.
    pub fn record_line(&self, line: &str) {
        let Ok(line) = serde_json::from_str::<Value>(line) else { return };
        let Some(aws) = line.get("_aws") else { return };
        let at_ms = aws.get("Timestamp").and_then(Value::as_u64).unwrap_or_default();
        let items = |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        for directive in items(aws, "CloudWatchMetrics") {
            let namespace = directive.get("Namespace").and_then(Value::as_str).unwrap_or_default();
            for set in items(&directive, "Dimensions") {
                let names = set.as_array().into_iter().flatten().filter_map(Value::as_str);
                let dimensions: Vec<(&str, &str)> =
                    names.map(|name| (name, line.get(name).and_then(Value::as_str).unwrap_or_default())).collect();
                for metric in items(&directive, "Metrics") {
                    let name = metric.get("Name").and_then(Value::as_str).unwrap_or_default();
                    let values = match line.get(name) {
                        Some(Value::Array(values)) => values.iter().filter_map(Value::as_f64).collect(),
                        other => other.and_then(Value::as_f64).into_iter().collect::<Vec<f64>>(),
                    };
                    for value in values {
                        self.record(SeriesKey::new(namespace, name, &dimensions), value, at_ms);
                    }
                }
            }
        }
    }

    /// All aggregates that began at this time or later, as JSON. A point is `[minute, sum, count, min, max, p50, p90, p99]`.
    #[must_use]
    pub fn since(&self, since_ms: u64) -> Value {
        let point = |(minute, aggregate): (&u64, &Aggregate)| {
            let mut point = vec![
                json!(minute),
                json!(aggregate.sum),
                json!(aggregate.count),
                json!(aggregate.min),
                json!(aggregate.max),
            ];
            point.extend(PERCENTILES.map(|(_, percent)| json!(aggregate.percentile(percent))));
            point
        };
        let store = lock(&self.0);
        let series = store.series.iter().map(|(key, minutes)| {
            let points: Vec<_> = minutes.range(since_ms..).map(point).collect();
            json!({"namespace": key.namespace, "name": key.name, "dimensions": key.dimensions, "points": points})
        });
        let series: Vec<Value> = series
            .filter(|one| one.get("points").and_then(Value::as_array).is_some_and(|points| !points.is_empty()))
            .collect();
        let columns: Vec<&str> =
            ["minute", "sum", "count", "min", "max"].into_iter().chain(PERCENTILES.map(|(name, _)| name)).collect();
        json!({"columns": columns, "series": series})
    }

    /// Returns all aggregates as a text that [`restore`](Self::restore) reads.
    ///
    /// # Errors
    /// The text could not be written.
    pub fn to_text(&self) -> serde_json::Result<String> {
        serde_json::to_string(&lock(&self.0).series.iter().collect::<Vec<_>>())
    }

    /// Adds the aggregates of another process.
    ///
    /// # Errors
    /// The text is not one of [`to_text`](Self::to_text).
    pub fn restore(&self, text: &str) -> serde_json::Result<()> {
        let series: Vec<(SeriesKey, BTreeMap<u64, Aggregate>)> = serde_json::from_str(text)?;
        lock(&self.0).series.extend(series);
        Ok(())
    }

    /// Keys of all series that this function selects.
    fn keys(&self, select: impl Fn(&SeriesKey) -> bool) -> Vec<SeriesKey> {
        lock(&self.0).series.keys().filter(|key| select(key)).cloned().collect()
    }

    /// Aggregates of a series by the start of their period, in `from_ms..to_ms`.
    fn periods(&self, key: &SeriesKey, from_ms: u64, to_ms: u64, period_ms: u64) -> BTreeMap<u64, Aggregate> {
        let mut periods: BTreeMap<u64, Aggregate> = BTreeMap::new();
        if let Some(minutes) = lock(&self.0).series.get(key) {
            for (minute, aggregate) in minutes.range(from_ms..to_ms) {
                periods.entry(minute - minute % period_ms).or_default().merge(aggregate);
            }
        }
        periods
    }
}

/// Id of the HTTP API in the metrics.
pub const API_ID: &str = "local";

/// Name of a function in the metrics, as a stack called `switchhook` would have it.
#[must_use]
pub fn function_name(function: &str) -> String {
    format!("switchhook-{function}")
}

/// Reads the metrics of each decision that is logged.
impl<S: Subscriber> Layer<S> for Metrics {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut visitor = LineVisitor(self);
        event.record(&mut visitor);
    }
}

struct LineVisitor<'a>(&'a Metrics);

impl Visit for LineVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "line" {
            self.0.record_line(value);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_adds_to_every_series_that_it_names() {
        let metrics = Metrics::default();
        let line = json!({
            "stack": "local", "function": "ingress", "provider": "retell", "received": 1, "answer_ms": 12,
            "_aws": {"Timestamp": 61_000, "CloudWatchMetrics": [{
                "Namespace": "Switchhook",
                "Dimensions": [["stack", "function"], ["stack", "function", "provider"]],
                "Metrics": [{"Name": "received"}, {"Name": "answer_ms", "Unit": "Milliseconds"}],
            }]},
        });
        metrics.record_line(&line.to_string());
        metrics.record_line(&line.to_string());
        metrics.record_line("no JSON");

        let key = SeriesKey::new("Switchhook", "received", &[("stack", "local"), ("function", "ingress")]);
        let minutes = metrics.periods(&key, 0, u64::MAX, MINUTE_MS);
        assert_eq!(minutes.keys().copied().collect::<Vec<_>>(), [60_000]);
        assert_eq!(minutes[&60_000].sum, 2.0);
        assert_eq!(metrics.keys(|_| true).len(), 4);
    }

    #[test]
    fn metrics_of_another_process_are_the_same() {
        let metrics = Metrics::default();
        for (value, at_ms) in [(3.0, 61_000), (40.0, 62_000), (5.5, 130_000)] {
            metrics.record(SeriesKey::new("Switchhook", "answer_ms", &[("function", "ingress")]), value, at_ms);
        }
        let other = Metrics::default();
        other.restore(&metrics.to_text().unwrap()).unwrap();
        assert_eq!(other.since(0), metrics.since(0));
        assert!(other.restore("{}").is_err());
    }

    #[test]
    fn percentile_is_at_most_two_percent_too_high() {
        let mut aggregate = Aggregate::default();
        (1..=1_000).for_each(|value| aggregate.add(f64::from(value)));
        for (percent, expected) in [(50.0, 500.0), (90.0, 900.0), (99.0, 990.0)] {
            let found = aggregate.percentile(percent);
            assert!((expected..=expected * 1.02).contains(&found), "p{percent} is {found}");
        }
        let mut zero = Aggregate::default();
        zero.add(0.0);
        assert_eq!(zero.percentile(99.0), 0.0);
    }
}
