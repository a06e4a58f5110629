//! Requests of programs outside the process: queries and alarms, answered as JSON.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::alarm::Alarm;
use super::query::{Query, QueryError, Range, run};
use super::{MINUTE_MS, Metrics};

/// Queries and alarms that a program asks for at once.
#[derive(Clone, Debug, Deserialize)]
pub struct Request {
    from_ms: u64,
    to_ms: u64,
    /// Length of a period of the queries.
    #[serde(default = "minute")]
    period_ms: u64,
    #[serde(default)]
    queries: Vec<Query>,
    #[serde(default)]
    alarms: Vec<Alarm>,
}

const fn minute() -> u64 {
    MINUTE_MS
}

/// Answers a request: the series of each query, and the times at which each alarm was in the state ALARM.
///
/// # Errors
/// A query is not understood.
pub fn answer(metrics: &Metrics, request: &Request) -> Result<Value, QueryError> {
    let range = Range::new(request.from_ms, request.to_ms, request.period_ms.max(MINUTE_MS));
    let mut results = Map::new();
    for query in request.queries.iter().filter(|query| query.return_data != Some(false)) {
        let series = run(metrics, &request.queries, &query.id, range)?;
        let series: Vec<_> = series
            .iter()
            .map(|one| json!({"label": one.label, "points": one.points.iter().collect::<Vec<_>>()}))
            .collect();
        results.insert(query.id.clone(), json!(series));
    }
    let mut alarms = Map::new();
    for alarm in &request.alarms {
        let times = alarm.times_in_alarm(metrics, request.from_ms, request.to_ms)?;
        alarms.insert(alarm.alarm_name.clone(), json!(times));
    }
    Ok(json!({"results": results, "alarms": alarms}))
}
