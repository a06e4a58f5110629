//! Batches of the relay, which depend on how much the stack stores.

use switchhook_aws::bus::BATCH_MAX;

use super::partitions::calls_partitions;
use super::{Traffic, count, parameter, quota};

/// Returns the mean number of records in a batch of the relay.
///
/// The stream has a shard for each partition of the calls table. Lambda polls each shard four times a second, and divides the records
/// into `ParallelizationFactor` batches by the keys of the calls. If `x` records come for each of these batches on average, `1 - e^-x` of
/// them have one at least. The others invoke nothing.
#[must_use]
pub fn relay_batch(traffic: &Traffic) -> f64 {
    let batches = calls_partitions(traffic) * quota::STREAM_POLLS * parameter::RELAY_PARALLELIZATION;
    let records = traffic.webhooks() * traffic.units().relay_records / batches;
    records / -(-records).exp_m1()
}

/// Batches of the relay for each webhook.
pub(super) fn batches(traffic: &Traffic) -> f64 {
    traffic.units().relay_records / relay_batch(traffic)
}

/// `PutEvents` requests for each webhook. A request has the events of one batch, and at most ten.
pub(super) fn put_events(traffic: &Traffic) -> f64 {
    batches(traffic).max(traffic.units().domain_events / count(BATCH_MAX as u64))
}

/// Returns the same traffic for a new stack, whose partitions only the writes decide.
pub(super) fn in_new_stack(traffic: &Traffic) -> Traffic {
    Traffic { call_days: 0.0, ..*traffic }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_those_of_a_calculation_by_hand() {
        // A partition has 10 GB, and stores each call for 400 days: those of 0.85 webhooks per second. A sixteenth of their records comes to
        // each batch, so nearly all batches have one record.
        let full = [1e6, 1e8, 1e9].map(|size| relay_batch(&Traffic::new(size)));
        assert!(full.iter().all(|batch| (1.02..1.05).contains(batch)), "{full:?}");
        // A new stack has 4.5 partitions for 100 million webhooks a day.
        let traffic = in_new_stack(&Traffic::new(1e8));
        let records = traffic.webhooks() * traffic.units().relay_records / (4.514 * 16.0);
        assert!((relay_batch(&traffic) - records).abs() < 0.01, "{records}");
    }
}
