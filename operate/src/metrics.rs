//! Values of metrics, from CloudWatch or from a running `switchhook dev`.
//!
//! `switchhook dev` aggregates the log lines of its own process by the minute, under the names and dimensions that they
//! have in CloudWatch. So one query serves both.

use std::collections::BTreeMap;

use http::Method;
use serde::Deserialize;
use switchhook_aws::ledger::Usage;
use switchhook_domain::Timestamp;

use crate::aws::{METRIC_DATA, MetricQuery, Series};
use crate::error::Error;
use crate::stack::Stack;
use crate::web;

/// Answer of `GET /metrics-data`.
#[derive(Debug, Deserialize)]
struct MetricsData {
    /// Name of each number in a point: `minute`, `sum`, `count`, `min`, `max`, `p50`, …
    columns: Vec<String>,
    series: Vec<LocalSeries>,
}

#[derive(Debug, Deserialize)]
struct LocalSeries {
    namespace: String,
    name: String,
    dimensions: BTreeMap<String, String>,
    points: Vec<Vec<f64>>,
}

impl Stack {
    /// Returns the values of each metric since `from`, in the order of the queries. A local stack has one value per
    /// minute, whatever the period of the query is.
    ///
    /// # Errors
    /// An error of the request, or [`Error::Unreadable`].
    pub async fn metrics(&self, queries: &[MetricQuery], from: Timestamp) -> Result<Vec<Series>, Error> {
        if let Some(services) = &self.services {
            return services.metric_data(queries, from, self.now()).await;
        }
        // CloudWatch would be asked for as many on AWS.
        let usage = Usage { requests: 1, metrics: queries.len() as u64, ..Usage::default() };
        self.ledger.record("monitoring", METRIC_DATA, usage);
        let url = self.local.as_deref().unwrap_or_default();
        let request = web::request(Method::GET, &format!("{url}/metrics-data?since={from}"))?;
        let response = web::send_in_background(request, web::TIMEOUT).await?;
        let data = serde_json::from_str(&response.body).ok().filter(|_| response.status == 200);
        let data: MetricsData = data.ok_or(Error::Unreadable { service: "/metrics-data" })?;
        Ok(queries.iter().map(|query| data.select(query)).collect())
    }
}

impl MetricsData {
    /// Returns the values of the series that a query names. Empty if there is no such series.
    fn select(&self, query: &MetricQuery) -> Series {
        let dimensions: BTreeMap<String, String> = query.dimensions.iter().cloned().collect();
        let is_asked = |series: &&LocalSeries| {
            series.namespace == query.namespace && series.name == query.name && series.dimensions == dimensions
        };
        let column = match query.statistic.as_str() {
            "Sum" => "sum",
            "Maximum" => "max",
            "Minimum" => "min",
            "SampleCount" => "count",
            percentile => percentile,
        };
        let index_of = |name: &str| self.columns.iter().position(|column| column == name);
        let (Some(minute), Some(value)) = (index_of("minute"), index_of(column)) else { return Series::default() };
        let points = self.series.iter().find(is_asked).map_or(&[][..], |series| series.points.as_slice());
        let mut values: Vec<(Timestamp, f64)> = points
            .iter()
            .filter_map(|point| Some((Timestamp::from_millis(*point.get(minute)? as i64), *point.get(value)?)))
            .collect();
        values.reverse();
        Series(values)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn query(name: &str, statistic: &str) -> MetricQuery {
        MetricQuery::new("Switchhook", name, &[("stack", "local"), ("function", "ingress")], statistic, 300)
    }

    #[test]
    fn series_is_found_by_name_and_exact_dimensions() {
        let dimensions = json!({"stack": "local", "function": "ingress"});
        let by_provider = json!({"stack": "local", "function": "ingress", "provider": "retell"});
        let data: MetricsData = serde_json::from_value(json!({
            "columns": ["minute", "sum", "count", "min", "max", "p50", "p90", "p99"],
            "series": [
                {"namespace": "Switchhook", "name": "answer_ms", "dimensions": by_provider, "points": [[0, 9, 9, 9, 9, 9, 9, 9]]},
                {"namespace": "Switchhook", "name": "answer_ms", "dimensions": dimensions,
                 "points": [[60_000, 30, 2, 10, 20, 10, 20, 20], [120_000, 5, 1, 5, 5, 5, 5, 5]]},
            ],
        }))
        .unwrap();
        let sum = data.select(&query("answer_ms", "Sum"));
        assert_eq!((sum.sum(), sum.latest()), (35.0, Some(5.0)));
        assert_eq!(data.select(&query("answer_ms", "p99")).max(), Some(20.0));
        assert_eq!(data.select(&query("accepted", "Sum")), Series::default());
    }
}
