//! Refolds. A refold reads the index entries of all calls that share the shard and the minutes of its call.

use serde::Serialize;
use switchhook_aws::inbox::{REFOLD_AFTER_MINUTES, REFOLD_BEFORE_MINUTES, REFOLD_PAGES_MAX};
use switchhook_aws::shards::SHARDS_DEFAULT;

use super::{Traffic, count, vcpus};
use crate::cost::MEMORY_GB;

/// Seconds for which a consumer reads the events of a call that it folds again.
pub const REFOLD_READ_S: f64 = 3.0;
/// Seconds of one vCPU that a function needs for each entry of an index page. It is an assumption: three times what the JSON of an entry takes.
pub const ENTRY_CPU_S: f64 = 0.000_003;
/// Length of the call of the model in minutes.
pub const REFOLD_CALL_MINUTES: u64 = 3;
/// Bytes of a page of an index.
const PAGE_BYTES: f64 = 1_048_576.0;
/// Bytes that DynamoDB adds to each entry of an index when it bills storage.
const ENTRY_OVERHEAD_BYTES: f64 = 100.0;

/// Webhooks per day up to which a call of three minutes can be folded again at the busiest time, with the default of `IndexShards`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RefoldMax {
    /// Entries that a refold has the time to read.
    pub entries: f64,
    /// Webhooks per day at which it needs all its time.
    pub webhooks_by_time: f64,
    /// Webhooks per day at which it needs all its pages.
    pub webhooks_by_pages: f64,
}

/// Returns how much traffic lets a call be folded again. A refold needs CPU for each entry, whatever call it belongs to.
#[must_use]
pub fn refold_max(traffic: &Traffic) -> RefoldMax {
    let minutes = REFOLD_BEFORE_MINUTES.unsigned_abs() + REFOLD_CALL_MINUTES + REFOLD_AFTER_MINUTES.unsigned_abs() + 1;
    let units = traffic.units();
    let entry_bytes = units.inbox_index_bytes / units.received_writes - ENTRY_OVERHEAD_BYTES;
    let entries = REFOLD_READ_S * vcpus(MEMORY_GB) / ENTRY_CPU_S;
    let of_pages = count(REFOLD_PAGES_MAX / minutes) * PAGE_BYTES / entry_bytes;
    // Entries of one minute and shard lead to the entries of a day, at the mean.
    let webhooks =
        |of_minute: f64| of_minute * count(SHARDS_DEFAULT) * 1_440.0 / traffic.peak_factor / units.received_writes;
    RefoldMax { entries, webhooks_by_time: webhooks(entries / count(minutes)), webhooks_by_pages: webhooks(of_pages) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_a_refold_is_used_up_before_its_pages() {
        let refold = refold_max(&Traffic { dialled_share: 0.0, ..Traffic::new(1e8) });
        // 3 seconds of 0.145 vCPU. A call of three minutes needs 21 minutes of its shard, and four shards have the entries of a minute.
        let entries = 3.0 * 256.0 / 1_769.0 / 0.000_003;
        assert!((refold.entries - entries).abs() < 1e-6, "{refold:?}");
        let by_time = entries / 21.0 * 4.0 * 1_440.0 / 3.0;
        assert!((refold.webhooks_by_time - by_time).abs() < 1.0, "{refold:?}");
        // 160 pages are seven for each of these minutes. An entry has 140.2 bytes.
        let by_pages = 7.0 * 1_048_576.0 / 140.2 * 4.0 * 1_440.0 / 3.0;
        assert!((refold.webhooks_by_pages - by_pages).abs() < 1.0, "{refold:?}");
        assert!(refold.webhooks_by_time < refold.webhooks_by_pages);
    }
}
