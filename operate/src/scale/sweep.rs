//! Limits of the reconciler, and the calls that its sweep reads.

use serde::Serialize;
use switchhook_aws::shards::shards_of_marks;

use super::{READ_S, count, parameter, vcpus};
use crate::cost::RECONCILER_MEMORY_GB;

/// Limits of the reconciler, from its own constants.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReconcilerLimits {
    /// Requests to one provider in a minute.
    pub lookups: f64,
    /// The same, as far as they may be about calls without an ending.
    pub ending_lookups: f64,
    /// The same, as far as they may belong to the drift check.
    pub drift_lookups: f64,
    /// Hours after which the drift check leaves a settled call out.
    pub drift_lag_h: f64,
    /// Seconds of each minute in which workers sweep a shard.
    pub sweep_s: f64,
    /// Calls that a worker of the sweep reads by one request.
    pub sweep_calls_per_read: f64,
    /// Such requests of a worker at the same time.
    pub sweep_reads_at_once: f64,
    /// Calls that a worker of the sweep reads between two steps of its position.
    pub sweep_page: f64,
    /// Seconds for which a worker sends events again.
    pub retry_s: f64,
    /// Events that wait in the inbox and that a worker reads at the same time.
    pub retries_at_once: f64,
    /// Messages in the events queue, for each shard, at which the sweep pauses.
    pub queue_depth_per_shard: f64,
    /// Pages of one provider's list that discovery reads in a minute.
    pub discovery_pages: f64,
    /// Periods in which discovery reads each call, because they overlap.
    pub discovery_periods: f64,
    /// Hours after which discovery leaves calls out.
    pub discovery_look_back_h: f64,
}

/// Requests of a worker of the sweep for a page, beside the reads of calls: the length of the queue, the page, and the position.
pub(super) const PAGE_REQUESTS: f64 = 3.0;

/// Seconds of a request that reads a hundred calls. It is an assumption: the request ends when the slowest of its items is read.
pub const BATCH_READ_S: f64 = 4.0 * READ_S;
/// Seconds of one vCPU that a function needs for each call of such a request. `docs/performance.md` has the measurement.
pub const CALL_CPU_S: f64 = 0.000_045;

/// Returns the calls per second that the sweep reads with this number of shards.
///
/// Each shard has one worker, and a few workers work at the same time. A worker either waits for its reads or has no CPU left. Between two
/// pages it sends `PAGE_REQUESTS` requests, one after the other.
#[must_use]
pub fn sweep_reads_max(shards: u64, reconciler: &ReconcilerLimits) -> f64 {
    let workers = count(shards).min(parameter::REPAIR_WORKERS);
    let by_waiting = reconciler.sweep_reads_at_once * reconciler.sweep_calls_per_read / BATCH_READ_S;
    let by_cpu = reconciler_vcpus() / CALL_CPU_S;
    let page_s = reconciler.sweep_page / by_waiting.min(by_cpu) + PAGE_REQUESTS * READ_S;
    workers * reconciler.sweep_s / 60.0 * reconciler.sweep_page / page_s
}

/// Seconds of one vCPU that a function needs to read an event that waits, and to send it again. It is an assumption: two reads and a tenth of a
/// request to SQS.
pub const RETRY_CPU_S: f64 = 0.000_4;

/// Returns the events that wait and that are sent again per second with this number of shards. Their marks have half as many.
#[must_use]
pub fn retries_max(shards: u64, reconciler: &ReconcilerLimits) -> f64 {
    let workers = count(shards_of_marks(shards)).min(parameter::REPAIR_WORKERS);
    let by_waiting = reconciler.retries_at_once / READ_S;
    let by_cpu = reconciler_vcpus() / RETRY_CPU_S;
    workers * reconciler.retry_s / 60.0 * by_waiting.min(by_cpu)
}

/// Share of a vCPU that the reconciler has.
#[must_use]
pub fn reconciler_vcpus() -> f64 {
    vcpus(RECONCILER_MEMORY_GB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_and_waiting_limit_the_sweep() {
        let mut limits = ReconcilerLimits {
            lookups: 0.0,
            ending_lookups: 0.0,
            drift_lookups: 0.0,
            drift_lag_h: 0.0,
            sweep_s: 50.0,
            sweep_calls_per_read: 100.0,
            sweep_reads_at_once: 1.0,
            sweep_page: 1_000.0,
            retry_s: 36.0,
            retries_at_once: 16.0,
            queue_depth_per_shard: 0.0,
            discovery_pages: 0.0,
            discovery_periods: 0.0,
            discovery_look_back_h: 0.0,
        };
        // A request for 100 calls in 20 ms reads 5,000 calls a second. 0.58 vCPU are enough for 12,863. Each page takes 15 ms more.
        let four = sweep_reads_max(4, &limits);
        assert!((four - 4.0 * 1_000.0 / (0.2 + 0.015) * 50.0 / 60.0).abs() < 1e-6, "{four}");
        assert!((sweep_reads_max(64, &limits) - 2.0 * four).abs() < 1e-6, "eight workers take turns");
        limits.sweep_reads_at_once = 4.0;
        let four = sweep_reads_max(4, &limits);
        assert!((four - 4.0 * 1_000.0 / (1_000.0 / 12_863.52 + 0.015) * 50.0 / 60.0).abs() < 1.0, "{four}");
    }
}
