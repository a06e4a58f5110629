//! CloudWatch: the states of alarms, and the values of metrics.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use switchhook_aws::ledger::Usage;
use switchhook_domain::Timestamp;

use super::{AwsServices, Service};
use crate::error::Error;

/// Prefix of the operations in the JSON protocol.
const TARGET: &str = "GraniteServiceVersion20100801";
/// Operation that is charged by the metric.
pub(crate) const METRIC_DATA: &str = "GetMetricData";
/// Largest number of pages of one request for values. A page has up to 100,800 values, and the largest request asks for fewer.
const PAGES_MAX: usize = 20;
/// Status of values that CloudWatch could not all read.
const INTERNAL_ERROR: &str = "InternalError";
/// Status of values that are not complete. The next page has the rest.
const PARTIAL_DATA: &str = "PartialData";
/// Largest number of alarms in one response.
const ALARMS_MAX: u32 = 100;

/// State of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all(deserialize = "SCREAMING_SNAKE_CASE", serialize = "snake_case"))]
pub enum AlarmState {
    Ok,
    Alarm,
    InsufficientData,
}

/// Alarm of a deployed stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all(deserialize = "PascalCase"))]
pub struct Alarm {
    #[serde(rename(deserialize = "AlarmName"))]
    pub name: String,
    #[serde(rename(deserialize = "StateValue"))]
    pub state: AlarmState,
    #[serde(rename(deserialize = "StateReason"), default)]
    pub reason: String,
}

/// Statistic of one metric, whose values are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricQuery {
    pub namespace: String,
    pub name: String,
    pub dimensions: Vec<(String, String)>,
    /// For example `Sum`, `Maximum` or `p99`.
    pub statistic: String,
    /// Seconds that each value covers.
    pub period: u32,
}

/// Values of a metric, the latest first. Each belongs to the time at which its period began.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series(pub Vec<(Timestamp, f64)>);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Alarms {
    #[serde(default)]
    metric_alarms: Vec<Alarm>,
    next_token: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MetricData {
    #[serde(default)]
    metric_data_results: Vec<MetricDataResult>,
    next_token: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MetricDataResult {
    id: String,
    #[serde(default)]
    status_code: String,
    #[serde(default)]
    timestamps: Vec<PointTime>,
    #[serde(default)]
    values: Vec<f64>,
}

/// Time of a value. CloudWatch writes seconds since the Unix epoch, and local emulators write text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum PointTime {
    Seconds(f64),
    Text(String),
}

impl PointTime {
    fn read(self) -> Result<Timestamp, Error> {
        match self {
            Self::Seconds(seconds) => Ok(Timestamp::from_millis((seconds * 1_000.0) as i64)),
            Self::Text(text) => Timestamp::parse_rfc3339(&text).ok_or_else(unreadable),
        }
    }
}

impl AwsServices {
    /// Returns the alarms of a stack, whose names begin with the stack and the severity.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Web`], [`Error::Unreadable`].
    pub(crate) async fn alarms(&self, stack: &str) -> Result<Vec<Alarm>, Error> {
        let prefix = format!("{stack}-P");
        // Another stack may have a name that begins with this prefix.
        let is_own = |alarm: &Alarm| {
            let severity = alarm.name.strip_prefix(&prefix).and_then(|rest| rest.split_once('-'));
            severity.is_some_and(|(severity, _)| matches!(severity, "1" | "2" | "3"))
        };
        let mut alarms = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let mut body = json!({"AlarmNamePrefix": prefix, "MaxRecords": ALARMS_MAX});
            if let (Some(token), Some(body)) = (next, body.as_object_mut()) {
                body.insert("NextToken".to_owned(), token.into());
            }
            let page: Alarms = parse(self.json(Service::CloudWatch, TARGET, "DescribeAlarms", &body).await?)?;
            alarms.extend(page.metric_alarms.into_iter().filter(is_own));
            next = page.next_token.filter(|token| !token.is_empty());
            if next.is_none() {
                return Ok(alarms);
            }
        }
    }

    /// Returns the values of each metric in a span of time, in the order of the queries.
    ///
    /// # Errors
    /// The same as [`AwsServices::alarms`].
    pub(crate) async fn metric_data(
        &self,
        queries: &[MetricQuery],
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<Series>, Error> {
        let all: Vec<Value> = queries.iter().enumerate().map(|(index, query)| query.json(index)).collect();
        let seconds = |time: Timestamp| time.as_millis() / 1_000;
        let mut body = json!({
            "MetricDataQueries": all, "StartTime": seconds(from), "EndTime": seconds(to),
            "ScanBy": "TimestampDescending",
        });
        self.ledger.record(
            Service::CloudWatch.name(),
            METRIC_DATA,
            Usage { metrics: queries.len() as u64, ..Usage::default() },
        );
        let mut all = vec![Series::default(); queries.len()];
        for _ in 0..PAGES_MAX {
            let data = self.json(Service::CloudWatch, TARGET, METRIC_DATA, &body).await?;
            let Some(token) = add_page(data, &mut all)? else { return Ok(all) };
            if let Some(body) = body.as_object_mut() {
                body.insert("NextToken".to_owned(), token.into());
            }
        }
        Err(unreadable())
    }
}

impl MetricQuery {
    pub(crate) fn new(namespace: &str, name: &str, dimensions: &[(&str, &str)], statistic: &str, period: u32) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            dimensions: dimensions.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            statistic: statistic.to_owned(),
            period,
        }
    }

    /// Returns a query for a queue, whose name is the last part of its URL.
    pub(crate) fn of_queue(url: &str, name: &str, statistic: &str, period: u32) -> Self {
        let queue = url.rsplit('/').next().unwrap_or_default();
        Self::new("AWS/SQS", name, &[("QueueName", queue)], statistic, period)
    }

    fn json(&self, index: usize) -> Value {
        let dimensions: Vec<Value> =
            self.dimensions.iter().map(|(name, value)| json!({"Name": name, "Value": value})).collect();
        json!({
            "Id": format!("m{index}"), "ReturnData": true,
            "MetricStat": {
                "Metric": {"Namespace": self.namespace, "MetricName": self.name, "Dimensions": dimensions},
                "Period": self.period, "Stat": self.statistic,
            },
        })
    }
}

impl Series {
    /// Sum of the values.
    #[must_use]
    pub fn sum(&self) -> f64 {
        // An empty sum is -0.0.
        self.0.iter().map(|(_, value)| value).sum::<f64>() + 0.0
    }

    /// Largest value. `None` if there is no value.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        self.0.iter().map(|(_, value)| *value).reduce(f64::max)
    }

    /// Latest value. `None` if there is no value.
    #[must_use]
    pub fn latest(&self) -> Option<f64> {
        self.0.iter().max_by_key(|(time, _)| *time).map(|(_, value)| *value)
    }
}

/// Adds the values of a page. Returns the token of the next page. **Missing values are an error**: no value would mean that nothing
/// happened.
fn add_page(data: Value, all: &mut [Series]) -> Result<Option<String>, Error> {
    let data: MetricData = parse(data)?;
    let next = data.next_token.filter(|token| !token.is_empty());
    for result in data.metric_data_results {
        let is_cut = result.status_code == PARTIAL_DATA && next.is_none();
        if is_cut || result.status_code == INTERNAL_ERROR {
            return Err(unreadable());
        }
        let index: Option<usize> = result.id.strip_prefix('m').and_then(|index| index.parse().ok());
        let Some(series) = index.and_then(|index| all.get_mut(index)) else { continue };
        for (time, value) in result.timestamps.into_iter().zip(result.values) {
            series.0.push((time.read()?, value));
        }
    }
    Ok(next)
}

fn parse<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, Error> {
    serde_json::from_value(value).map_err(|_| unreadable())
}

const fn unreadable() -> Error {
    Error::Unreadable { service: Service::CloudWatch.name() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(data: Value, queries: usize) -> Result<Vec<Series>, Error> {
        let mut all = vec![Series::default(); queries];
        add_page(data, &mut all).map(|_| all)
    }

    #[test]
    fn values_of_all_pages_are_read_and_missing_ones_are_unknown() {
        let page = |status: &str, next: Option<&str>, at: f64| {
            json!({"NextToken": next, "MetricDataResults": [
                {"Id": "m0", "StatusCode": status, "Timestamps": [at], "Values": [3.0]},
            ]})
        };
        let mut all = vec![Series::default()];
        let next = add_page(page("PartialData", Some("more"), 1_760_961_660.0), &mut all).unwrap();
        assert_eq!(next.as_deref(), Some("more"));
        assert_eq!(add_page(page("Complete", None, 1_760_961_600.0), &mut all).unwrap(), None);
        assert_eq!(all[0].sum(), 6.0);
        for status in ["InternalError", "PartialData"] {
            let read = series(page(status, None, 1_760_961_600.0), 1);
            assert!(matches!(read, Err(Error::Unreadable { .. })), "{status}");
        }
    }

    #[test]
    fn alarms_are_read_with_their_states() {
        let page: Alarms = parse(json!({
            "CompositeAlarms": [],
            "MetricAlarms": [
                {"AlarmName": "switchhook-P1-EventsDlq", "StateValue": "ALARM", "StateReason": "Threshold Crossed",
                 "StateUpdatedTimestamp": 1_760_961_600.123, "Threshold": 0.0},
                {"AlarmName": "switchhook-P2-RelayAge", "StateValue": "INSUFFICIENT_DATA"},
            ],
            "NextToken": "more",
        }))
        .unwrap();
        assert_eq!(page.next_token.as_deref(), Some("more"));
        let states: Vec<AlarmState> = page.metric_alarms.iter().map(|alarm| alarm.state).collect();
        assert_eq!(states, [AlarmState::Alarm, AlarmState::InsufficientData]);
        assert_eq!(page.metric_alarms[0].name, "switchhook-P1-EventsDlq");
    }

    #[test]
    fn values_are_read_in_the_order_of_the_queries() {
        let data = json!({"Messages": [], "MetricDataResults": [
            {"Id": "m1", "Label": "b", "StatusCode": "Complete", "Timestamps": [1_760_961_660.0, 1_760_961_600.0], "Values": [3.0, 5.0]},
            {"Id": "m0", "Label": "a", "StatusCode": "Complete", "Timestamps": [], "Values": []},
        ]});
        let all = series(data, 2).unwrap();
        assert_eq!((all[0].max(), all[0].latest(), all[0].sum()), (None, None, 0.0));
        assert_eq!((all[1].max(), all[1].latest(), all[1].sum()), (Some(5.0), Some(3.0), 8.0));
    }

    #[test]
    fn time_of_a_value_may_be_text() {
        let answer = |time: Value| json!({"MetricDataResults": [{"Id": "m0", "Timestamps": [time], "Values": [3.0]}]});
        let at = series(answer(json!("2025-10-20T12:01:00Z")), 1).unwrap();
        assert_eq!(at, series(answer(json!(1_760_961_660.0)), 1).unwrap());
        assert!(matches!(series(answer(json!("yesterday")), 1), Err(Error::Unreadable { .. })));
    }

    #[test]
    fn query_names_metric_statistic_and_period() {
        let query = MetricQuery::new("Switchhook", "accepted", &[("stack", "switchhook")], "Sum", 60);
        assert_eq!(
            query.json(3),
            json!({"Id": "m3", "ReturnData": true, "MetricStat": {
                "Metric": {"Namespace": "Switchhook", "MetricName": "accepted", "Dimensions": [{"Name": "stack", "Value": "switchhook"}]},
                "Period": 60, "Stat": "Sum"}})
        );
    }
}
