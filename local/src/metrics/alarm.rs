//! Alarms of the template, evaluated over local metrics as CloudWatch does.

use serde::Deserialize;

use super::Metrics;
use super::query::{Dimension, Metric, MetricStat, Points, Query, QueryError, Range, run};

/// Id of the query of an alarm that names a single metric.
const ONLY_ID: &str = "only";

/// Properties of an `AWS::CloudWatch::Alarm`, with plain values in the place of references.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Alarm {
    pub alarm_name: String,
    #[serde(default)]
    metrics: Vec<Query>,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    metric_name: String,
    #[serde(default)]
    dimensions: Vec<Dimension>,
    statistic: Option<String>,
    extended_statistic: Option<String>,
    period: Option<u64>,
    evaluation_periods: u64,
    datapoints_to_alarm: Option<u64>,
    comparison_operator: Comparison,
    threshold: Option<f64>,
    /// Id of the band that an anomaly detection alarm compares with.
    threshold_metric_id: Option<String>,
    treat_missing_data: MissingData,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[expect(clippy::enum_variant_names, reason = "these are CloudWatch's names")]
enum Comparison {
    GreaterThanThreshold,
    LessThanThreshold,
    LessThanLowerThreshold,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
enum MissingData {
    Breaching,
    NotBreaching,
}

impl Alarm {
    /// Ends of the periods at which the alarm is in the state ALARM. The data begins at `from_ms`: the alarm is not evaluated
    /// before all periods that it looks at lie after that time.
    ///
    /// # Errors
    /// A query of the alarm is not understood.
    pub fn times_in_alarm(&self, metrics: &Metrics, from_ms: u64, to_ms: u64) -> Result<Vec<u64>, QueryError> {
        let period_ms = self.period_ms();
        // The first whole period. There may be none.
        let range = Range::new((from_ms + period_ms - 1).min(to_ms), to_ms, period_ms);
        let queries = self.queries();
        let values =
            |id: &str| Ok(run(metrics, &queries, id, range)?.into_iter().map(|series| series.points).collect());
        let judged: Vec<Points> = values(self.judged_id())?;
        let judged = judged.into_iter().next().unwrap_or_default();
        let band: Vec<Points> = self.threshold_metric_id.as_deref().map_or(Ok(Vec::new()), values)?;
        let limit = |at: u64| match self.threshold {
            Some(threshold) => Some(threshold),
            None => band.last().and_then(|lower| lower.get(&at)).copied(),
        };
        let breaches = |at: u64| match (judged.get(&at), limit(at)) {
            (Some(value), Some(limit)) => match self.comparison_operator {
                Comparison::GreaterThanThreshold => *value > limit,
                Comparison::LessThanThreshold | Comparison::LessThanLowerThreshold => *value < limit,
            },
            (Some(_) | None, _) => self.treat_missing_data == MissingData::Breaching,
        };
        let breaching: Vec<(u64, bool)> = range.periods().map(|at| (at, breaches(at))).collect();
        let (of, wanted) = (self.evaluation_periods, self.datapoints_to_alarm.unwrap_or(self.evaluation_periods));
        let (of, wanted) = (usize::try_from(of).unwrap_or(1).max(1), usize::try_from(wanted).unwrap_or(1));
        let in_alarm = breaching.windows(of).filter_map(|window| {
            let (last, _) = window.last()?;
            (window.iter().filter(|(_, breaches)| *breaches).count() >= wanted).then_some(last + period_ms)
        });
        Ok(in_alarm.collect())
    }

    fn period_ms(&self) -> u64 {
        let of_queries = self.metrics.iter().find_map(|query| query.metric_stat.as_ref()?.period);
        1_000 * self.period.or(of_queries).unwrap_or(60)
    }

    /// Id of the query whose values the alarm judges.
    fn judged_id(&self) -> &str {
        let returned = self.metrics.iter().find(|query| {
            query.return_data != Some(false) && Some(query.id.as_str()) != self.threshold_metric_id.as_deref()
        });
        returned.map_or(ONLY_ID, |query| query.id.as_str())
    }

    fn queries(&self) -> Vec<Query> {
        if !self.metrics.is_empty() {
            return self.metrics.clone();
        }
        let metric = Metric {
            namespace: self.namespace.clone(),
            metric_name: self.metric_name.clone(),
            dimensions: self.dimensions.clone(),
        };
        let stat = self.extended_statistic.clone().or_else(|| self.statistic.clone()).unwrap_or_default();
        let metric_stat = Some(MetricStat { metric, stat, period: self.period });
        vec![Query { id: ONLY_ID.to_owned(), expression: None, metric_stat, return_data: None }]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::metrics::{MINUTE_MS, SeriesKey};

    fn alarm(more: serde_json::Value) -> Alarm {
        let mut properties = json!({
            "AlarmName": "a", "Namespace": "N", "MetricName": "m", "Statistic": "Sum", "Period": 60,
            "ComparisonOperator": "GreaterThanThreshold", "Threshold": 0, "EvaluationPeriods": 3,
            "TreatMissingData": "notBreaching",
        });
        for (name, value) in more.as_object().unwrap() {
            properties[name] = value.clone();
        }
        serde_json::from_value(properties).unwrap()
    }

    /// Minutes at which an alarm is in ALARM, if the metric has the value 1 in these minutes of ten.
    fn minutes(alarm: &Alarm, recorded: &[u64]) -> Vec<u64> {
        let metrics = Metrics::default();
        for minute in recorded {
            metrics.record(SeriesKey::new("N", "m", &[]), 1.0, minute * MINUTE_MS);
        }
        let times = alarm.times_in_alarm(&metrics, 0, 10 * MINUTE_MS).unwrap();
        times.into_iter().map(|at| at / MINUTE_MS).collect()
    }

    #[test]
    fn alarm_needs_as_many_breaching_periods_as_it_says() {
        assert_eq!(minutes(&alarm(json!({})), &[1, 2, 4, 5, 6]), [7]);
        assert_eq!(minutes(&alarm(json!({"DatapointsToAlarm": 2})), &[1, 2, 9]), [3, 4]);
    }

    #[test]
    fn missing_data_breaches_only_if_the_alarm_says_so() {
        let silent = alarm(json!({
            "TreatMissingData": "breaching", "ComparisonOperator": "LessThanThreshold", "Threshold": 1,
        }));
        assert_eq!(minutes(&silent, &[0, 1, 2, 3, 4, 5]), [9, 10]);
    }
}
