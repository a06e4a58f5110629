//! Queries over the metrics: the part of CloudWatch's `GetMetricData` that the template's dashboard and alarms use.
//!
//! Arithmetic gives a value only at times at which all operands have one. A division by zero gives no value.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::expression::{Expression, Operator, parse};
use super::{Aggregate, Metrics, SeriesKey, to_f64};

/// Depth to which expressions may refer to each other.
const DEPTH_MAX: u8 = 10;
/// Number of earlier values that [`band`] needs.
const BAND_VALUES_MIN: usize = 12;

/// One query: a metric, or an expression over other queries. Written as in a template.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Query {
    pub id: String,
    pub expression: Option<String>,
    pub metric_stat: Option<MetricStat>,
    /// False if only other queries use the result.
    pub return_data: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct MetricStat {
    pub metric: Metric,
    pub stat: String,
    /// Length of a period in seconds. An alarm has one for all its queries.
    pub period: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Metric {
    pub namespace: String,
    pub metric_name: String,
    #[serde(default)]
    pub dimensions: Vec<Dimension>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Dimension {
    pub name: String,
    pub value: String,
}

/// Times at which the results of queries have values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub from_ms: u64,
    pub to_ms: u64,
    pub period_ms: u64,
}

impl Range {
    /// Range with whole periods.
    #[must_use]
    pub(super) const fn new(from_ms: u64, to_ms: u64, period_ms: u64) -> Self {
        Self { from_ms: from_ms - from_ms % period_ms, to_ms: to_ms - to_ms % period_ms, period_ms }
    }

    /// Starts of all periods.
    pub(super) fn periods(self) -> impl Iterator<Item = u64> {
        let step = usize::try_from(self.period_ms).unwrap_or(usize::MAX).max(1);
        (self.from_ms..self.to_ms).step_by(step)
    }
}

/// Values by the start of their period.
pub(super) type Points = BTreeMap<u64, f64>;

/// A result: its values, and the dimensions that tell it apart from the other results of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    pub label: String,
    pub points: Points,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    #[error("the query {id} is not understood: {reason}")]
    Query { id: String, reason: String },
    #[error("there is no query {0}")]
    UnknownId(String),
}

/// Value of an expression.
#[derive(Clone, Debug)]
enum Value {
    Number(f64),
    Text(String),
    Series(Series),
    Set(Vec<Series>),
}

/// Runs the query with this id.
///
/// # Errors
/// The query, or one that it refers to, does not exist or is not understood.
pub(super) fn run(metrics: &Metrics, queries: &[Query], id: &str, range: Range) -> Result<Vec<Series>, QueryError> {
    let queries = Queries { metrics, queries, range };
    Ok(match queries.by_id(id, 0)? {
        Value::Number(number) => {
            let points = range.periods().map(|at| (at, number)).collect();
            vec![Series { label: String::new(), points }]
        }
        Value::Text(_) => Vec::new(),
        Value::Series(series) => vec![series],
        Value::Set(set) => set,
    })
}

struct Queries<'a> {
    metrics: &'a Metrics,
    queries: &'a [Query],
    range: Range,
}

impl Queries<'_> {
    fn by_id(&self, id: &str, depth: u8) -> Result<Value, QueryError> {
        let query = self.queries.iter().find(|query| query.id == id);
        let query = query.ok_or_else(|| QueryError::UnknownId(id.to_owned()))?;
        let fail = |reason: String| QueryError::Query { id: id.to_owned(), reason };
        if depth > DEPTH_MAX {
            return Err(fail("its expressions refer to each other".to_owned()));
        }
        match (&query.metric_stat, &query.expression) {
            (Some(stat), _) => {
                let dimensions: Vec<(&str, &str)> =
                    stat.metric.dimensions.iter().map(|one| (one.name.as_str(), one.value.as_str())).collect();
                let key = SeriesKey::new(&stat.metric.namespace, &stat.metric.metric_name, &dimensions);
                Ok(Value::Series(self.series(&key, &stat.stat, String::new()).map_err(fail)?))
            }
            (None, Some(expression)) => self.evaluate(&parse(expression).map_err(&fail)?, depth, &fail),
            (None, None) => Err(fail("it has neither MetricStat nor Expression".to_owned())),
        }
    }

    fn series(&self, key: &SeriesKey, stat: &str, label: String) -> Result<Series, String> {
        let Range { from_ms, to_ms, period_ms } = self.range;
        let periods = self.metrics.periods(key, from_ms, to_ms, period_ms);
        let points = periods.into_iter().map(|(at, aggregate)| Ok((at, statistic(&aggregate, stat)?)));
        Ok(Series { label, points: points.collect::<Result<Points, String>>()? })
    }

    fn evaluate(
        &self,
        expression: &Expression,
        depth: u8,
        fail: &impl Fn(String) -> QueryError,
    ) -> Result<Value, QueryError> {
        match expression {
            Expression::Number(number) => Ok(Value::Number(*number)),
            Expression::Text(text) => Ok(Value::Text(text.clone())),
            Expression::Id(id) => self.by_id(id, depth + 1),
            Expression::List(items) => {
                let mut set = Vec::new();
                for item in items {
                    match self.evaluate(item, depth, fail)? {
                        Value::Series(series) => set.push(series),
                        Value::Set(more) => set.extend(more),
                        Value::Number(_) | Value::Text(_) => return Err(fail("a list holds series".to_owned())),
                    }
                }
                Ok(Value::Set(set))
            }
            Expression::Binary(operator, left, right) => {
                let (left, right) = (self.evaluate(left, depth, fail)?, self.evaluate(right, depth, fail)?);
                combine(*operator, left, right).map_err(fail)
            }
            Expression::Call(name, arguments) => {
                let arguments = arguments.iter().map(|argument| self.evaluate(argument, depth, fail));
                let arguments = arguments.collect::<Result<Vec<Value>, QueryError>>()?;
                self.call(name, arguments).map_err(fail)
            }
        }
    }

    fn call(&self, name: &str, arguments: Vec<Value>) -> Result<Value, String> {
        let mut arguments = arguments.into_iter();
        let arguments = (arguments.next(), arguments.next(), arguments.next(), arguments.next());
        match (name, arguments) {
            ("FILL", (Some(value), Some(Value::Number(fill)), None, None)) => Ok(self.fill(value, fill)),
            ("IF", (Some(condition), Some(then), Some(otherwise), None)) => {
                Ok(Value::Series(self.choose(&condition, &then, &otherwise)))
            }
            ("SUM" | "MAX" | "MIN" | "AVG", (Some(Value::Set(set)), None, None, None)) => {
                Ok(Value::Series(aggregate(name, &set)))
            }
            ("SEARCH", (Some(Value::Text(pattern)), Some(Value::Text(stat)), _, None)) => {
                self.search(&pattern, &stat).map(Value::Set)
            }
            ("ANOMALY_DETECTION_BAND", (Some(Value::Series(series)), Some(Value::Number(width)), None, None)) => {
                Ok(Value::Set(band(&series, width)))
            }
            ("AVG", (Some(Value::Series(series)), None, None, None)) => {
                let count = u64::try_from(series.points.len().max(1)).unwrap_or(1);
                Ok(Value::Number(series.points.values().sum::<f64>() / to_f64(count)))
            }
            (name, _) => Err(format!("the function {name} is not known with these arguments")),
        }
    }

    fn fill(&self, value: Value, fill: f64) -> Value {
        let fill_one = |mut series: Series| {
            for at in self.range.periods() {
                series.points.entry(at).or_insert(fill);
            }
            series
        };
        match value {
            Value::Series(series) => Value::Series(fill_one(series)),
            Value::Set(set) => Value::Set(set.into_iter().map(fill_one).collect()),
            other @ (Value::Number(_) | Value::Text(_)) => other,
        }
    }

    fn choose(&self, condition: &Value, then: &Value, otherwise: &Value) -> Series {
        let at = |value: &Value, at: u64| match value {
            Value::Number(number) => Some(*number),
            Value::Series(series) => series.points.get(&at).copied(),
            Value::Text(_) | Value::Set(_) => None,
        };
        let points = self.range.periods().filter_map(|time| {
            let chosen = if at(condition, time)? == 0.0 { otherwise } else { then };
            Some((time, at(chosen, time)?))
        });
        Series { label: String::new(), points: points.collect() }
    }

    /// Finds series by a search expression such as `{Namespace,dimension} MetricName="x" dimension="y"`.
    fn search(&self, pattern: &str, stat: &str) -> Result<Vec<Series>, String> {
        let malformed = || format!("the search {pattern} is not understood");
        let (schema, terms) = pattern.strip_prefix('{').and_then(|rest| rest.split_once('}')).ok_or_else(malformed)?;
        let mut schema = schema.split(',').map(str::trim);
        let namespace = schema.next().ok_or_else(malformed)?;
        let mut dimensions: Vec<&str> = schema.collect();
        dimensions.sort_unstable();
        let mut wanted: Vec<(&str, Vec<&str>)> = Vec::new();
        let mut rest = terms.trim();
        while !rest.is_empty() {
            let (name, after) = rest.split_once('=').ok_or_else(malformed)?;
            let (values, after) = match after.strip_prefix('(') {
                Some(inner) => inner.split_once(')').ok_or_else(malformed)?,
                None => {
                    let end = after.get(1..).and_then(|inner| inner.find('"')).ok_or_else(malformed)? + 2;
                    after.split_at_checked(end).ok_or_else(malformed)?
                }
            };
            wanted.push((name.trim(), values.split(" OR ").map(|value| value.trim().trim_matches('"')).collect()));
            rest = after.trim();
        }
        let keys = self.metrics.keys(|key| {
            key.namespace == namespace
                && key.dimensions.keys().eq(dimensions.iter())
                && wanted.iter().all(|(name, values)| {
                    let found = if *name == "MetricName" { Some(&key.name) } else { key.dimensions.get(*name) };
                    found.is_some_and(|found| values.contains(&found.as_str()))
                })
        });
        let is_open = |name: &str| wanted.iter().all(|(wanted, values)| *wanted != name || values.len() > 1);
        let series = keys.iter().map(|key| {
            let label: Vec<&str> =
                key.dimensions.iter().filter(|(name, _)| is_open(name)).map(|(_, value)| value.as_str()).collect();
            let label = if label.is_empty() { key.name.clone() } else { label.join(" ") };
            self.series(key, stat, label)
        });
        let found = series.collect::<Result<Vec<Series>, String>>()?;
        Ok(found.into_iter().filter(|series| !series.points.is_empty()).collect())
    }
}

fn statistic(aggregate: &Aggregate, stat: &str) -> Result<f64, String> {
    Ok(match stat {
        "Sum" => aggregate.sum,
        "Average" => aggregate.sum / to_f64(aggregate.count),
        "Minimum" => aggregate.min,
        "Maximum" => aggregate.max,
        "SampleCount" => to_f64(aggregate.count),
        percentile => {
            let percent = percentile.strip_prefix('p').and_then(|percent| percent.parse().ok());
            aggregate.percentile(percent.ok_or_else(|| format!("the statistic {percentile} is not known"))?)
        }
    })
}

fn combine(operator: Operator, left: Value, right: Value) -> Result<Value, String> {
    let one_if = |is_true: bool| if is_true { 1.0 } else { 0.0 };
    let apply = |left: f64, right: f64| match operator {
        Operator::Or => one_if(left != 0.0 || right != 0.0),
        Operator::And => one_if(left != 0.0 && right != 0.0),
        Operator::Greater => one_if(left > right),
        Operator::GreaterOrEqual => one_if(left >= right),
        Operator::Less => one_if(left < right),
        Operator::LessOrEqual => one_if(left <= right),
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
    };
    let map = |series: Series, change: &dyn Fn(u64, f64) -> Option<f64>| {
        let points = series.points.into_iter().filter_map(|(at, value)| Some((at, change(at, value)?)));
        Series { label: series.label, points: points.filter(|(_, value)| value.is_finite()).collect() }
    };
    Ok(match (left, right) {
        (Value::Number(left), Value::Number(right)) => Value::Number(apply(left, right)),
        (Value::Series(left), Value::Number(right)) => Value::Series(map(left, &|_, value| Some(apply(value, right)))),
        (Value::Number(left), Value::Series(right)) => Value::Series(map(right, &|_, value| Some(apply(left, value)))),
        (Value::Series(left), Value::Series(right)) => {
            Value::Series(map(left, &|at, value| Some(apply(value, *right.points.get(&at)?))))
        }
        (Value::Set(set), Value::Number(right)) => {
            Value::Set(set.into_iter().map(|series| map(series, &|_, value| Some(apply(value, right)))).collect())
        }
        (
            Value::Set(_) | Value::Text(_) | Value::Number(_) | Value::Series(_),
            Value::Set(_) | Value::Text(_) | Value::Series(_),
        )
        | (Value::Text(_), Value::Number(_)) => return Err("the operands do not fit together".to_owned()),
    })
}

/// Joins several series into one. At each time, only series with a value count.
fn aggregate(name: &str, set: &[Series]) -> Series {
    let mut by_time: BTreeMap<u64, Aggregate> = BTreeMap::new();
    for (at, value) in set.iter().flat_map(|series| &series.points) {
        by_time.entry(*at).or_default().add(*value);
    }
    let points = by_time.into_iter().map(|(at, all)| {
        let value = match name {
            "SUM" => all.sum,
            "MAX" => all.max,
            "MIN" => all.min,
            _ => all.sum / to_f64(all.count),
        };
        (at, value)
    });
    Series { label: String::new(), points: points.collect() }
}

/// Stands in for CloudWatch's trained model: at each time, the mean of all earlier values, plus and minus `width` standard
/// deviations. Has no value until there are enough earlier ones, as on the first day of a stack. Returns the upper border,
/// then the lower one.
fn band(series: &Series, width: f64) -> Vec<Series> {
    let (mut upper, mut lower) = (Points::new(), Points::new());
    let (mut count, mut sum, mut squares) = (0_u64, 0.0, 0.0);
    for (at, value) in &series.points {
        if usize::try_from(count).is_ok_and(|count| count >= BAND_VALUES_MIN) {
            let mean = sum / to_f64(count);
            let deviation = (squares / to_f64(count) - mean * mean).max(0.0).sqrt();
            upper.insert(*at, mean + width * deviation);
            lower.insert(*at, mean - width * deviation);
        }
        count += 1;
        sum += value;
        squares += value * value;
    }
    [upper, lower].map(|points| Series { label: String::new(), points }).into()
}

#[cfg(test)]
mod tests;
