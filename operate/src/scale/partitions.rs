//! Partitions of the tables, and the writes that an index takes whose keys meet on them by chance.

use serde::Serialize;

use super::{Traffic, count, quota};

/// Largest share of the minutes in which more keys of `by_received` meet on one partition than the model reckons with.
const WORSE_MINUTES: f64 = 0.01;

/// Partitions of the tables of a stack that has run as long as it stores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Partitions {
    pub inbox: f64,
    /// Partitions of the index `by_received`.
    pub received: f64,
    pub calls: f64,
    /// Partitions of the calls table for its writes alone, as in a stack that stores little yet.
    pub calls_by_writes: f64,
    pub inbox_gb: f64,
    pub calls_gb: f64,
}

/// Returns the partitions that DynamoDB makes of the tables.
#[must_use]
pub fn partitions(traffic: &Traffic) -> Partitions {
    let units = traffic.units();
    let peak = traffic.webhooks() * traffic.peak_factor;
    let by_writes = |writes: f64| (writes * peak / quota::PARTITION_WRITES).ceil().max(quota::NEW_TABLE_PARTITIONS);
    let by_bytes = |bytes: f64| (bytes / quota::PARTITION_BYTES).ceil();
    let inbox_bytes = units.inbox_bytes * traffic.webhooks_per_day * traffic.inbox_days;
    let received_bytes = units.inbox_index_bytes * traffic.webhooks_per_day * traffic.inbox_days;
    let calls_bytes = calls_bytes(traffic);
    Partitions {
        inbox: by_writes(units.inbox_writes).max(by_bytes(inbox_bytes)),
        received: by_writes(units.received_writes).max(by_bytes(received_bytes)),
        calls: calls_partitions(traffic).ceil(),
        calls_by_writes: by_writes(units.calls_writes),
        inbox_gb: inbox_bytes / quota::GB,
        calls_gb: calls_bytes / quota::GB,
    }
}

/// Partitions of the calls table before they are rounded up, so that what depends on them changes evenly with the traffic.
pub(super) fn calls_partitions(traffic: &Traffic) -> f64 {
    let writes = traffic.units().calls_writes * traffic.webhooks() * traffic.peak_factor;
    let by_writes = (writes / quota::PARTITION_WRITES).max(quota::NEW_TABLE_PARTITIONS);
    by_writes.max(calls_bytes(traffic) / quota::PARTITION_BYTES)
}

/// Bytes that the calls table stores.
fn calls_bytes(traffic: &Traffic) -> f64 {
    traffic.units().calls_bytes * traffic.webhooks_per_day * traffic.call_days
}

/// Returns the writes per second that an index takes whose keys are new: in 99 % of the cases, at least as many.
///
/// `by_received` has a new key for each minute and shard. The keys of `by_attention` are new at the beginning of an incident. Chance decides
/// which partition takes a key, so the fullest partition limits the index.
#[must_use]
pub fn new_keys_writes_max(keys: u64, partitions: f64) -> f64 {
    count(keys) * quota::PARTITION_WRITES / count(keys_together(keys, partitions))
}

/// Returns the same with the best number of keys, up to `keys_max`. More keys are not always better, because more of them may meet.
#[must_use]
pub fn new_keys_writes_at_most(keys_max: u64, partitions: f64) -> f64 {
    (1..=keys_max).map(|keys| new_keys_writes_max(keys, partitions)).fold(0.0, f64::max)
}

/// Returns how many of these keys meet on one partition at most, in 99 % of the minutes.
///
/// There are `C(keys, m + 1)` groups of `m + 1` keys. Each of them meets on one partition with a chance of `1 / partitions^m`. The result
/// is the smallest `m` for which the product is at most 1 %.
fn keys_together(keys: u64, partitions: f64) -> u64 {
    let (mut together, mut larger_groups) = (0, count(keys));
    while larger_groups > WORSE_MINUTES {
        together += 1;
        larger_groups *= count(keys - together) / (count(together + 1) * partitions);
    }
    together
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_meet_as_in_a_calculation_by_hand() {
        // Four keys on four partitions: all of them meet in 4 of 256 minutes, which is more than 1 %.
        assert_eq!(keys_together(4, 4.0), 4);
        // On five partitions, all four meet in 1 of 125 minutes. On 20, three of them meet in 4 of 400, and on 600 two of them in 6 of 600.
        assert_eq!([5.0, 19.0, 20.0, 599.0, 600.0].map(|partitions| keys_together(4, partitions)), [3, 3, 2, 2, 1]);
        assert_eq!(keys_together(1, 4.0), 1);
        assert_eq!(
            [4.0, 73.0, 1_000.0].map(|partitions| new_keys_writes_max(4, partitions)),
            [1_000.0, 2_000.0, 4_000.0]
        );
        // Two keys on four partitions meet in one of four incidents.
        assert_eq!(new_keys_writes_max(2, 4.0), 1_000.0);
    }

    #[test]
    fn more_shards_are_not_always_better() {
        // On 721 partitions, four of 99 keys meet more often than in 1 % of the minutes, and four of 98 keys do not.
        let writes = [98, 99].map(|shards| new_keys_writes_max(shards, 721.0));
        assert!((writes[0] - 98_000.0 / 3.0).abs() < 1e-6 && writes[1] == 24_750.0, "{writes:?}");
        assert_eq!(new_keys_writes_at_most(99, 721.0), writes[0]);
    }
}
