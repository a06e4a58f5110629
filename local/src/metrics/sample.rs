//! Metrics that AWS samples or counts outside the functions: queues and tables.

use std::collections::BTreeMap;

use super::{Metrics, SeriesKey, to_f64};
use crate::dynamodb::Units;
use crate::services::Services;
use crate::stack::{MAX_RECEIVE_COUNT, stack_queues};

/// Reads the state of the services once a minute, and records it.
#[derive(Debug)]
pub(crate) struct Sampler {
    services: Services,
    metrics: Metrics,
    /// Counters at the last sample. A counter counts from the start; the metric is its increase.
    counted: BTreeMap<SeriesKey, f64>,
}

impl Sampler {
    pub(crate) const fn new(services: Services, metrics: Metrics) -> Self {
        Self { services, metrics, counted: BTreeMap::new() }
    }

    /// Records the depth, the age and the traffic of each queue, and the capacity units of each table and index.
    pub(crate) fn sample(&mut self) {
        let now_ms = self.services.clock().now_ms();
        let services = self.services.clone();
        for queue in stack_queues(MAX_RECEIVE_COUNT) {
            let dimensions = [("QueueName", queue.name.as_str())];
            let gauge = |name, value| {
                self.metrics.record(SeriesKey::new("AWS/SQS", name, &dimensions), to_f64(value), now_ms);
            };
            if let Ok(depth) = services.sqs().depth(&queue.name) {
                gauge("ApproximateNumberOfMessagesVisible", u64::try_from(depth.visible).unwrap_or(u64::MAX));
                gauge("ApproximateNumberOfMessagesNotVisible", u64::try_from(depth.in_flight).unwrap_or(u64::MAX));
            }
            if let Ok(sent_at_ms) = services.sqs().oldest_sent_at(&queue.name) {
                let age_ms = sent_at_ms.map_or(0, |sent_at_ms| now_ms.saturating_sub(sent_at_ms));
                gauge("ApproximateAgeOfOldestMessage", age_ms / 1_000);
            }
        }
        for ((queue, name), count) in services.sqs().traffic() {
            self.count(SeriesKey::new("AWS/SQS", name, &[("QueueName", &queue)]), to_f64(count), now_ms);
        }
        for (Units { table, index, is_write }, units) in services.dynamodb().units() {
            let name = if is_write { "ConsumedWriteCapacityUnits" } else { "ConsumedReadCapacityUnits" };
            let of_table = ("TableName", table.as_str());
            let key = match &index {
                Some(index) => {
                    SeriesKey::new("AWS/DynamoDB", name, &[("GlobalSecondaryIndexName", index.as_str()), of_table])
                }
                None => SeriesKey::new("AWS/DynamoDB", name, &[of_table]),
            };
            self.count(key, units, now_ms);
        }
    }

    fn count(&mut self, key: SeriesKey, total: f64, now_ms: u64) {
        let before = self.counted.insert(key.clone(), total).unwrap_or_default();
        self.metrics.record(key, (total - before).max(0.0), now_ms);
    }
}
