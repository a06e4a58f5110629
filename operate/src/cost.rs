//! Prices of AWS, and estimates of what a run costs.

use serde::{Deserialize, Serialize};
use switchhook_aws::ledger::{Ledger, Usage};

/// List prices of us-east-1 in USD, as published in November 2026, without free tiers.
pub mod price {
    /// Per request to an HTTP API of up to 512 KB.
    pub const HTTP_API: f64 = 1.00 / 1e6;
    pub const LAMBDA_REQUEST: f64 = 0.20 / 1e6;
    /// Per GB-second on arm64.
    pub const LAMBDA_GB_S: f64 = 0.000_013_333_4;
    /// Per unit, on demand.
    pub const WRITE_UNIT: f64 = 0.625 / 1e6;
    pub const READ_UNIT: f64 = 0.125 / 1e6;
    /// Per hour of a provisioned poller of a queue. Source: the example for SQS of the Lambda pricing page. It gives the price of an event
    /// poller unit, and its 10 pollers and more have 8,000 unit-hours in a month. So the model takes a poller for one unit.
    pub const POLLER_HOUR: f64 = 0.009_25;
    /// Per unit of a provisioned table that is used in every second of the hour. An hour of one unit costs $0.00065 and $0.00013.
    const PROVISIONED_WRITE_UNIT: f64 = 0.000_65 / 3_600.0;
    const PROVISIONED_READ_UNIT: f64 = 0.000_13 / 3_600.0;
    /// Share of the capacity of a provisioned table that is used. It is an assumption: auto scaling keeps busy tables at 70 %.
    pub const PROVISIONED_USE: f64 = 0.6;
    /// Per request of up to 64 KB. A batch of messages is one request.
    pub const SQS_FIFO: f64 = 0.50 / 1e6;
    /// Per event of up to 64 KB.
    pub const EVENT: f64 = 1.00 / 1e6;
    pub const LOG_GB: f64 = 0.50;
    /// Per GB that a table or an index stores for a month.
    pub const STORED_GB: f64 = 0.25;
    /// Per GB of a table, without its indexes, for a month of its point-in-time recovery.
    pub const RECOVERY_GB: f64 = 0.20;
    /// Per metric whose values `GetMetricData` returns.
    pub const METRIC: f64 = 0.01 / 1e3;
    /// Per other request to CloudWatch.
    pub const CLOUDWATCH: f64 = 0.01 / 1e3;
    pub const SECRET: f64 = 0.05 / 1e4;
    /// Per alarm on one metric, for a month.
    pub const ALARM: f64 = 0.10;

    /// USD by which these units cost less in provisioned tables than on demand, with the assumed use of their capacity.
    #[must_use]
    pub const fn saved_by_provisioning(write_units: f64, read_units: f64) -> f64 {
        write_units * (WRITE_UNIT - PROVISIONED_WRITE_UNIT / PROVISIONED_USE)
            + read_units * (READ_UNIT - PROVISIONED_READ_UNIT / PROVISIONED_USE)
    }

    /// For a month of 30 days with these units of capacity, whether they are used or not.
    #[must_use]
    pub const fn capacity_month(write_units: f64, read_units: f64) -> f64 {
        (write_units * PROVISIONED_WRITE_UNIT + read_units * PROVISIONED_READ_UNIT) * 30.0 * 86_400.0
    }

    /// Per invocation of a function.
    #[must_use]
    pub const fn invocation() -> f64 {
        LAMBDA_REQUEST + running(super::INVOCATION_S)
    }

    /// For a function that runs for this time.
    #[must_use]
    pub const fn running(seconds: f64) -> f64 {
        super::MEMORY_GB * seconds * LAMBDA_GB_S
    }
}

/// Memory of each function but the reconciler.
pub const MEMORY_GB: f64 = 0.25;
/// Memory of the reconciler. Lambda gives CPU in proportion to memory, and the sweep of a large stack needs more than the other functions.
pub const RECONCILER_MEMORY_GB: f64 = 1.0;
/// Duration of an invocation with that memory, network included. It is an assumption with a margin.
pub const INVOCATION_S: f64 = 0.020;

/// Read units of an event with a body of 5 KB, or of a typical call.
const READ_UNITS: f64 = 1.0;
/// Write units of a typical call, with its place in the index.
const CALL_WRITE_UNITS: f64 = 3.0;
/// Read units of a refold: the events of a call, and the index of half an hour.
const REFOLD_READ_UNITS: f64 = 30.0;
/// Write units of the event that asks for a refold.
const REFOLD_WRITE_UNITS: f64 = 2.0;
/// Writes for an event that is marked as not folded: the list of its call, the mark, and the removal of the mark.
const MARK_WRITES: f64 = 3.0;
/// Write units of these writes. Two of them also write into the index `by_attention`.
const MARK_WRITE_UNITS: f64 = 5.0;
/// Messages in a batch of the consumer.
const BATCH: f64 = 10.0;

/// Estimated cost of a run, together with the work that it causes in the functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    pub requests: u64,
    pub read_units: u64,
    pub write_units: u64,
    pub dollars: f64,
}

/// Amount of work of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// Events that are queued again.
    pub(crate) events: usize,
    /// Calls and bookings that these events, and the other items, belong to.
    pub(crate) calls: usize,
    pub(crate) refolds: usize,
    /// Events of rebuilt calls. The run marks each as not folded, and its fold removes the mark.
    pub(crate) marks: usize,
    pub(crate) domain_events: usize,
}

/// Bytes that one read unit returns, for a read that is eventually consistent.
const READ_BYTES: f64 = 8.0 * 1024.0;
/// Bytes that one write unit stores.
const WRITE_BYTES: f64 = 1024.0;
/// Write units of the entries of an item in the indexes of its table.
const INDEX_WRITE_UNITS: f64 = 2.0;

impl Cost {
    /// Estimates the copy of a table that was read once with these read units and requests.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "an estimate"
    )]
    pub(crate) fn of_copy(items: u64, read_units: f64, requests: u64) -> Self {
        let bytes = read_units * READ_BYTES / (items as f64).max(1.0);
        let write_units = items as f64 * ((bytes / WRITE_BYTES).ceil().max(1.0) + INDEX_WRITE_UNITS);
        // The copy reads consistently, which takes twice the units.
        let read_units = 2.0 * read_units;
        Self {
            requests: items + requests,
            read_units: read_units.ceil() as u64,
            write_units: write_units.ceil() as u64,
            dollars: read_units * price::READ_UNIT + write_units * price::WRITE_UNIT,
        }
    }

    /// Adds two costs.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            read_units: self.read_units + other.read_units,
            write_units: self.write_units + other.write_units,
            dollars: self.dollars + other.dollars,
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "an estimate"
    )]
    pub(crate) fn of(work: Work) -> Self {
        let (events, calls) = (work.events as f64, work.calls as f64);
        let (refolds, marks, domain_events) = (work.refolds as f64, work.marks as f64, work.domain_events as f64);
        let batches = (events / BATCH).ceil() + refolds;
        // The run reads each event and each call, and the consumer reads each call once more.
        let reads = events + 2.0 * calls + refolds * REFOLD_READ_UNITS;
        let writes = calls + refolds + marks * MARK_WRITES;
        let read_units = reads * READ_UNITS;
        let write_units = calls * CALL_WRITE_UNITS + refolds * REFOLD_WRITE_UNITS + marks * MARK_WRITE_UNITS;
        // A batch is sent, received and deleted.
        let sqs = 3.0 * batches;
        let publishes = (domain_events / BATCH).ceil();
        let invocations = batches + publishes;
        Self {
            requests: (reads + writes + sqs + publishes).ceil() as u64,
            read_units: read_units.ceil() as u64,
            write_units: write_units.ceil() as u64,
            dollars: read_units * price::READ_UNIT
                + write_units * price::WRITE_UNIT
                + sqs * price::SQS_FIFO
                + domain_events * price::EVENT
                + invocations * price::invocation(),
        }
    }
}

/// Requests of a program, and their estimated cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spent {
    pub requests: u64,
    pub read_units: f64,
    pub write_units: u64,
    pub metrics: u64,
    pub dollars: f64,
}

impl Spent {
    /// Adds up a ledger.
    #[must_use]
    pub fn of(ledger: &Ledger) -> Self {
        let mut spent = Self::default();
        for ((service, _), usage) in ledger.entries() {
            let Usage { requests, half_read_units, write_units, metrics } = usage;
            let read_units = 0.5 * half_read_units as f64;
            spent.requests += requests;
            spent.read_units += read_units;
            spent.write_units += write_units;
            spent.metrics += metrics;
            spent.dollars += read_units * price::READ_UNIT + write_units as f64 * price::WRITE_UNIT;
            spent.dollars += match service.as_str() {
                "sqs" => requests as f64 * price::SQS_FIFO,
                "events" => requests as f64 * price::EVENT,
                "secretsmanager" => requests as f64 * price::SECRET,
                // A request for values is charged by the metric.
                "monitoring" if metrics > 0 => metrics as f64 * price::METRIC,
                "monitoring" => requests as f64 * price::CLOUDWATCH,
                _ => 0.0,
            };
        }
        spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ledger_is_added_up_with_its_prices() {
        let ledger = Ledger::default();
        let usage = Usage { requests: 4, ..Usage::default() };
        ledger.record("dynamodb", "Query", Usage { half_read_units: 9, ..usage });
        ledger.record("dynamodb", "PutItem", Usage { write_units: 2, ..usage });
        ledger.record("sqs", "GetQueueAttributes", usage);
        ledger.record("monitoring", "GetMetricData", Usage { metrics: 19, ..usage });
        ledger.record("monitoring", "DescribeAlarms", usage);
        ledger.record("cloudformation", "DescribeStacks", usage);
        let spent = Spent::of(&ledger);
        assert_eq!((spent.requests, spent.read_units, spent.write_units, spent.metrics), (24, 4.5, 2, 19));
        let expected = 4.5 * 0.125e-6 + 2.0 * 0.625e-6 + 4.0 * 0.5e-6 + 19.0 * 1e-5 + 4.0 * 1e-5;
        assert!((spent.dollars - expected).abs() < 1e-12, "{}", spent.dollars);
    }
}
