//! Units of the tables and messages of the queue per webhook, from the metrics that AWS makes itself.
//!
//! A metric covers whole minutes, and everything that the stack does in them. So the counts are divided by the webhooks that ingress received
//! in the same minutes. Other traffic of the stack changes the result only if it is of another kind.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use switchhook_aws::{calls, inbox};
use switchhook_domain::Timestamp;
use tokio::time::sleep;

use super::Progress;
use crate::aws::MetricQuery;
use crate::cost::price;
use crate::error::Error;
use crate::stack::Stack;

const MINUTE: u32 = 60;
const MINUTE_MS: i64 = 60_000;
/// Time after which CloudWatch has the metrics of a minute.
const LATE: Duration = Duration::from_secs(150);

/// Counts per webhook in the minutes of a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Consumed {
    /// Webhooks that ingress received in these minutes, also those of providers.
    pub received: f64,
    /// Write units by table or index, such as `inbox` and `inbox/by_received`. Those without any are left out.
    pub write_units: BTreeMap<String, f64>,
    /// Read units by table or index.
    pub read_units: BTreeMap<String, f64>,
    /// Messages that were sent to the events queue.
    pub messages: f64,
    /// Price of the units for a million webhooks, in USD, at the prices of us-east-1 on demand.
    pub dollars_per_million: f64,
}

impl Consumed {
    /// Reads the counts of the minutes from `began` until now. On AWS it waits until they are there, and tells that. `None` if ingress
    /// received nothing.
    ///
    /// # Errors
    /// The metrics could not be read.
    pub(super) async fn read(
        stack: &Stack,
        began: Timestamp,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Option<Self>, Error> {
        let minute = |at: Timestamp| Timestamp::from_millis(at.as_millis().div_euclid(MINUTE_MS) * MINUTE_MS);
        let (from, last) = (minute(began), minute(stack.now()));
        if stack.local.is_none() {
            progress(Progress::WaitsForMetrics);
            let ends_in = u64::try_from(MINUTE_MS - stack.now().millis_since(last)).unwrap_or_default();
            sleep(Duration::from_millis(ends_in) + LATE).await;
        }
        let sum_of = |namespace: &str, name: &str, dimensions: &[(&str, &str)]| {
            MetricQuery::new(namespace, name, dimensions, "Sum", MINUTE)
        };
        let mut queries = vec![
            sum_of("Switchhook", "received", &[("stack", &stack.names.stack), ("function", "ingress")]),
            MetricQuery::of_queue(&stack.names.events_queue_url, "NumberOfMessagesSent", "Sum", MINUTE),
        ];
        let places = places(stack);
        for metric in ["ConsumedWriteCapacityUnits", "ConsumedReadCapacityUnits"] {
            queries.extend(places.iter().map(|(_, table, index)| match index {
                Some(index) => {
                    sum_of("AWS/DynamoDB", metric, &[("GlobalSecondaryIndexName", index), ("TableName", table)])
                }
                None => sum_of("AWS/DynamoDB", metric, &[("TableName", table)]),
            }));
        }
        let mut sums = stack.metrics(&queries, from).await?.into_iter().map(|series| {
            let values = series.0.iter().filter(|(at, _)| (from..=last).contains(at));
            values.map(|(_, value)| value).sum::<f64>()
        });
        let (received, sent) = (sums.next().unwrap_or_default(), sums.next().unwrap_or_default());
        if received <= 0.0 {
            return Ok(None);
        }
        let mut units = || -> BTreeMap<String, f64> {
            let of_places = places.iter().zip(&mut sums);
            let of_places = of_places.map(|((name, _, _), sum)| (name.clone(), sum / received));
            of_places.filter(|(_, units)| *units > 0.0).collect()
        };
        let (write_units, read_units) = (units(), units());
        let sum = |units: &BTreeMap<String, f64>| units.values().sum::<f64>();
        let dollars = sum(&write_units) * price::WRITE_UNIT + sum(&read_units) * price::READ_UNIT;
        let messages = sent / received;
        Ok(Some(Self { received, write_units, read_units, messages, dollars_per_million: dollars * 1e6 }))
    }
}

/// Tables and indexes: the name in the report, the table, and the index.
fn places(stack: &Stack) -> Vec<(String, &str, Option<&'static str>)> {
    let of = |name: &'static str, table, indexes: &[&'static str]| {
        let all = std::iter::once(None).chain(indexes.iter().copied().map(Some));
        let named = |index: Option<&'static str>| index.map_or(name.to_owned(), |index| format!("{name}/{index}"));
        all.map(move |index| (named(index), table, index)).collect::<Vec<_>>()
    };
    let inbox = of("inbox", stack.names.inbox_table.as_str(), &[inbox::BY_RECEIVED, inbox::BY_ATTENTION]);
    let indexes = [calls::BY_WAKE, calls::BY_APPOINTMENT, calls::BY_PARTY];
    [inbox, of("calls", stack.names.calls_table.as_str(), &indexes)].concat()
}
