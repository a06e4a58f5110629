//! Calls that the sweep reads.

use super::{READ_S, REQUEST_CPU_S, ReconcilerLimits, count, parameter, quota};
use crate::cost::RECONCILER_MEMORY_GB;

/// Returns the calls per second that the sweep reads with this number of shards.
///
/// Each shard has one worker, and a few workers work at the same time. A worker either waits for its reads or has no CPU left.
#[must_use]
pub fn sweep_reads_max(shards: u64, reconciler: &ReconcilerLimits) -> f64 {
    let workers = count(shards).min(parameter::REPAIR_WORKERS);
    let by_waiting = reconciler.sweep_concurrency / READ_S;
    let by_cpu = reconciler_vcpus() / REQUEST_CPU_S;
    workers * reconciler.sweep_s / 60.0 * by_waiting.min(by_cpu)
}

/// Share of a vCPU that the reconciler has.
#[must_use]
pub fn reconciler_vcpus() -> f64 {
    RECONCILER_MEMORY_GB * 1_024.0 / quota::VCPU_MB
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
            sweep_concurrency: 16.0,
            queue_depth_per_shard: 0.0,
            discovered_calls: 0.0,
            discovered_calls_in_time: 0.0,
            discovery_look_back_h: 0.0,
        };
        // 16 reads at once, each for 5 ms, are 3,200 a second. 0.58 vCPU are enough for 3,859.
        let four = sweep_reads_max(4, &limits);
        assert!((four - 4.0 * 3_200.0 * 50.0 / 60.0).abs() < 1e-6, "{four}");
        assert!((sweep_reads_max(64, &limits) - 2.0 * four).abs() < 1e-6, "eight workers take turns");
        limits.sweep_concurrency = 32.0;
        let four = sweep_reads_max(4, &limits);
        assert!((four - 4.0 * 3_859.05 * 50.0 / 60.0).abs() < 1.0, "{four}");
    }
}
