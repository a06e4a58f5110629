use serde_json::json;

use super::*;
use crate::metrics::MINUTE_MS;

const FROM: u64 = 1_000 * MINUTE_MS;

/// Metrics with one series per function. Each value is recorded in the minute of its position.
fn metrics(series: &[(&str, &[f64])]) -> Metrics {
    let metrics = Metrics::default();
    for (function, values) in series {
        for (minute, value) in (0..).zip(*values) {
            let key = SeriesKey::new("Switchhook", "received", &[("stack", "local"), ("function", function)]);
            metrics.record(key, *value, FROM + minute * MINUTE_MS);
        }
    }
    metrics
}

/// Runs an expression over `a` (ingress), `b` (consumer) and `c` (a function that never logged). Returns its values, with
/// their minutes.
fn values(metrics: &Metrics, expression: &str) -> Vec<(u64, f64)> {
    let metric = |id: &str, function: &str| {
        json!({"Id": id, "MetricStat": {"Stat": "Sum", "Metric": {
            "Namespace": "Switchhook", "MetricName": "received",
            "Dimensions": [{"Name": "function", "Value": function}, {"Name": "stack", "Value": "local"}],
        }}})
    };
    let queries = json!([
        metric("a", "ingress"), metric("b", "consumer"), metric("c", "nobody"), {"Id": "e", "Expression": expression},
    ]);
    let queries: Vec<Query> = serde_json::from_value(queries).unwrap();
    let range = Range::new(FROM, FROM + 4 * MINUTE_MS, MINUTE_MS);
    let series = run(metrics, &queries, "e", range).unwrap();
    series.iter().flat_map(|series| &series.points).map(|(at, value)| ((at - FROM) / MINUTE_MS, *value)).collect()
}

#[test]
fn value_exists_where_all_operands_have_one() {
    let metrics = metrics(&[("ingress", &[4.0, 6.0, 8.0]), ("consumer", &[2.0, 0.0])]);
    assert_eq!(values(&metrics, "a - b"), [(0, 2.0), (1, 6.0)]);
    assert_eq!(values(&metrics, "a / b"), [(0, 2.0)], "a division by zero gives no value");
    assert_eq!(values(&metrics, "c + 1"), []);
    assert_eq!(values(&metrics, "FILL(c, 0) + 1"), [(0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0)]);
    assert_eq!(values(&metrics, "IF(a > 5 AND FILL(b, 0) < 1, a, 0)"), [(0, 0.0), (1, 6.0), (2, 8.0)]);
    assert_eq!(values(&metrics, "SUM([a, b])"), [(0, 6.0), (1, 6.0), (2, 8.0)]);
    assert_eq!(values(&metrics, "MAX([a, b, c])"), [(0, 4.0), (1, 6.0), (2, 8.0)]);
}

#[test]
fn search_finds_series_by_dimension() {
    let metrics = metrics(&[("ingress", &[4.0]), ("consumer", &[2.0])]);
    let search = r#"SUM(SEARCH('{Switchhook,stack,function} MetricName="received" stack="local"', 'Sum', 60))"#;
    assert_eq!(values(&metrics, search), [(0, 6.0)]);
    let one = r#"SUM(SEARCH('{Switchhook,stack,function} MetricName="received" function=("ingress" OR "x")', 'Sum'))"#;
    assert_eq!(values(&metrics, one), [(0, 4.0)]);
    let other_schema = r#"SUM(SEARCH('{Switchhook,stack} MetricName="received"', 'Sum'))"#;
    assert_eq!(values(&metrics, other_schema), []);
}

#[test]
fn queries_that_refer_to_each_other_are_refused() {
    let queries = json!([{"Id": "a", "Expression": "b"}, {"Id": "b", "Expression": "a"}]);
    let queries: Vec<Query> = serde_json::from_value(queries).unwrap();
    let range = Range::new(FROM, FROM + MINUTE_MS, MINUTE_MS);
    let failed = run(&Metrics::default(), &queries, "a", range);
    assert!(matches!(failed, Err(QueryError::Query { .. })), "{failed:?}");
    assert_eq!(run(&Metrics::default(), &queries, "z", range), Err(QueryError::UnknownId("z".to_owned())));
}

#[test]
fn nothing_is_unusual_before_there_is_a_usual() {
    let usual = Series { label: String::new(), points: (0..20).map(|at| (at, 100.0)).collect() };
    let bands = band(&usual, 2.0);
    let lower = &bands.last().unwrap().points;
    assert_eq!(lower.first_key_value(), Some((&12, &100.0)));
}
