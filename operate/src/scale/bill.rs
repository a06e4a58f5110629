//! Dollars per month, by service.

use serde::Serialize;

use super::units::{BATCH, BATCH_LINE_BYTES, RELAY_LINE_BYTES};
use super::{DIALER_S, Traffic, quota, relay};
use crate::cost::{INVOCATION_S, price};

/// Days of a month of the bill.
pub const MONTH_DAYS: f64 = 30.0;

/// Dollars per month of a stack with the default parameters that nobody uses, as `docs/cost.md` lists them. A test compares them with
/// that page.
pub const IDLE_STACK: [(&str, f64); 8] = [
    ("87,120 runs of the schedules", 0.09),
    ("the reconciler when it finds nothing (the line above, and 86,400 requests for the lengths of two queues)", 0.24),
    ("the scheduler when it finds nothing, for the ten providers that `DialRates` stands for by default", 0.32),
    ("their log lines", 0.01),
    ("31 alarms on 47 metrics, $0.10 each", 4.70),
    ("requests of Lambda to four empty queues, from five pollers each", 1.23),
    ("two secrets, $0.40 each, and 8,640 reads of one of them", 0.84),
    ("43,200 requests to KMS for the keys of the tables", 0.13),
];

/// Dollars per month of the metrics of a stack that is used. A row of the same page.
pub const METRICS_IN_USE: (&str, f64) = ("two providers that report calls, one of which places some", 8.70);

/// Dollars per month that provisioned tables cost beside the units that every webhook uses. The other capacities, two for writes and six for
/// reads, do not fall below five units. Auto scaling has four alarms for each of all fourteen. The same page has this row.
pub const PROVISIONED_TABLES: (&str, f64) = (
    "the other capacities of provisioned tables, and the alarms of auto scaling",
    price::capacity_month(2.0 * 5.0, 6.0 * 5.0) + 14.0 * 4.0 * price::ALARM,
);

/// One line of the bill.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Charge {
    pub name: &'static str,
    /// Formula of the dollars per webhook.
    pub formula: &'static str,
    pub dollars_per_million: f64,
    pub dollars_per_month: f64,
}

/// Costs of a month.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bill {
    pub charges: Vec<Charge>,
    pub dollars_per_million: f64,
    pub dollars_per_month: f64,
    /// Addition to the dollars per million if consumer and relay get batches of one, and the consumer got batches of [`BATCH`] before.
    pub batches_of_one: f64,
    /// Reduction of the dollars per million by provisioned tables, with the assumed use of their capacity. [`PROVISIONED_TABLES`] come on top.
    pub provisioned_tables: f64,
}

/// Formula of a charge for storage.
const STORED: &str = "bytes stored × days / 30 × price per GB / 2³⁰";

/// Returns the costs of a month in which the stack stores as much as it deletes.
#[must_use]
pub fn bill(traffic: &Traffic) -> Bill {
    let units = traffic.units();
    let millions = traffic.webhooks_per_day * MONTH_DAYS / 1e6;
    let (batches, relay_batches) = (units.messages / traffic.batch(), relay::batches(traffic));
    let [batch_line, relay_line] = [BATCH_LINE_BYTES, RELAY_LINE_BYTES].map(|bytes| bytes / 1e9 * price::LOG_GB);
    let of_consumer = |batch: f64| units.messages / batch * (price::invocation() + 2.0 * price::SQS_FIFO + batch_line);
    let relay_of_one = (units.relay_records - relay_batches) * (price::invocation() + relay_line);
    let writes =
        units.inbox_writes + units.calls_writes + units.received_writes + units.wake_writes + units.other_index_writes;
    let reads = units.reads + units.sweep_reads;
    let dials = traffic.dialled_share / traffic.profile.webhooks_per_call;
    let gb = |bytes: f64, days: f64| bytes * days / MONTH_DAYS / quota::GB;
    let inbox_gb = gb(units.inbox_bytes, traffic.inbox_days);
    let calls_gb = gb(units.calls_bytes, traffic.call_days);
    let indexes_gb = gb(units.inbox_index_bytes, traffic.inbox_days) + gb(units.calls_index_bytes, traffic.call_days);
    let lines = [
        ("HTTP API", "requests to the HTTP API × price", units.http_requests * price::HTTP_API),
        (
            "functions",
            "(invocations + messages / b + records / g) × price",
            (units.invocations + batches + relay_batches) * price::invocation(),
        ),
        (
            "dialers that wait for their places",
            "s / k × (a − i) × GB of memory × price per GB-second",
            dials * price::running(DIALER_S - INVOCATION_S),
        ),
        (
            "tables, written",
            "write units of both tables × price",
            (units.inbox_writes + units.calls_writes) * price::WRITE_UNIT,
        ),
        (
            "indexes, written",
            "write units of the four indexes × price",
            (units.received_writes + units.wake_writes + units.other_index_writes) * price::WRITE_UNIT,
        ),
        ("tables, read", "read units, with those of the sweep × price", reads * price::READ_UNIT),
        (
            "queues",
            "(requests to SQS + 2 × messages / b) × price",
            (units.sqs_requests + 2.0 * batches) * price::SQS_FIFO,
        ),
        ("domain events", "domain events × price", units.domain_events * price::EVENT),
        (
            "logs",
            "(bytes of log lines + messages / b × l' + records / g × l) × price per GB / 10⁹",
            units.log_bytes / 1e9 * price::LOG_GB + batches * batch_line + relay_batches * relay_line,
        ),
        ("inbox, stored", STORED, inbox_gb * price::STORED_GB),
        ("calls, stored", STORED, calls_gb * price::STORED_GB),
        ("indexes, stored", STORED, indexes_gb * price::STORED_GB),
        (
            "point-in-time recovery, stored",
            "the same for both tables, without their indexes",
            (inbox_gb + calls_gb) * price::RECOVERY_GB,
        ),
    ];
    let mut charges: Vec<Charge> = lines
        .into_iter()
        .map(|(name, formula, dollars)| Charge {
            name,
            formula,
            dollars_per_million: dollars * 1e6,
            dollars_per_month: dollars * 1e6 * millions,
        })
        .collect();
    let idle: f64 = IDLE_STACK.iter().map(|(_, dollars)| dollars).sum();
    let fixed = [
        ("idle stack", "the sum of [these lines](cost.md#an-idle-stack), whatever the traffic", idle),
        ("series of metrics", "29 series of a stack that is used, whatever the traffic", METRICS_IN_USE.1),
    ];
    charges.extend(fixed.map(|(name, formula, dollars)| Charge {
        name,
        formula,
        dollars_per_million: dollars / millions,
        dollars_per_month: dollars,
    }));
    Bill {
        dollars_per_million: charges.iter().map(|charge| charge.dollars_per_million).sum(),
        dollars_per_month: charges.iter().map(|charge| charge.dollars_per_month).sum(),
        batches_of_one: (of_consumer(1.0) - of_consumer(BATCH) + relay_of_one) * 1e6,
        provisioned_tables: price::saved_by_provisioning(writes, reads) * 1e6,
        charges,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_one_add_what_a_calculation_by_hand_gives() {
        // The consumer has two thirds of an invocation, of two requests to SQS and of a line more. The relay has few larger batches, with a line
        // each.
        let traffic = Traffic { dialled_share: 0.0, ..Traffic::new(1e8) };
        let consumer = 2.0 / 3.0 * (0.266_7 + 2.0 * 0.5 + 426.0 * 0.5 / 1e3);
        let relay = (1.0 - relay::batches(&traffic)) * (0.266_7 + 480.0 * 0.5 / 1e3);
        let added = bill(&traffic).batches_of_one;
        assert!((added - consumer - relay).abs() < 1e-3, "{added}: {consumer} and {relay}");
    }

    #[test]
    fn little_traffic_costs_what_batches_of_one_cost() {
        // With 300,000 webhooks a day, the queue holds 0.7 messages at the busiest time. With a million it holds 2.4, and with 100 million 243.
        let of_size = |webhooks_per_day| Traffic { dialled_share: 0.0, ..Traffic::new(webhooks_per_day) };
        let batches = [3e5, 1e6, 1e8].map(|size| of_size(size).batch());
        assert!(batches[0] == 1.0 && (batches[1] - 2.431).abs() < 1e-3 && batches[2] == BATCH, "{batches:?}");
        let of_traffic =
            |costs: Bill| costs.charges.iter().take(9).map(|charge| charge.dollars_per_million).sum::<f64>();
        let [little, much] = [3e5, 1e8].map(|size| of_traffic(bill(&of_size(size))));
        let consumer = 2.0 / 3.0 * (0.266_7 + 2.0 * 0.5 + 426.0 * 0.5 / 1e3);
        assert!((little - much - consumer).abs() < 1e-3, "{little}: {much} and {consumer}");
    }
}
