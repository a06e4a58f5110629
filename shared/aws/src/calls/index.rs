//! Queries of the two indexes of the calls table.

use aws_sdk_dynamodb::types::AttributeValue;
use switchhook_domain::{CallId, Timestamp};

use super::table::Calls;
use super::wake_queue::{WAKE_SHARDS, WakeQueue};
use crate::dynamodb::{Item, Pages, number, text};
use crate::error::Error;

/// Index by which calls wake up and are listed: `wake_key` and `wake_at`, keys only.
pub const BY_WAKE: &str = "by_wake";
/// Index of the calls of an appointment: `appointment_id`, keys only.
pub const BY_APPOINTMENT: &str = "by_appointment";

/// Part of a wake queue, by `wake_at`.
#[derive(Clone, Copy, Debug)]
pub enum TimeRange {
    /// Calls up to this time, the earliest first.
    UpTo(Timestamp),
    /// Calls since this time, the latest first.
    Since(Timestamp),
}

/// Returns every shard of a wake queue once, starting with another shard each turn, so that no shard is always the last.
pub fn wake_shards_from(turn: u64) -> impl Iterator<Item = u64> {
    let first = turn % WAKE_SHARDS;
    (first..first + WAKE_SHARDS).map(|shard| shard % WAKE_SHARDS)
}

impl Calls {
    /// Pages of one shard of a wake queue. `limit` is the largest number of calls in a page, and `start` the
    /// [key](crate::dynamodb::Page::next) at which the first page starts.
    pub fn wake_queue_pages(
        &self,
        queue: WakeQueue,
        shard: u64,
        range: TimeRange,
        limit: Option<i32>,
        start: Option<Item>,
    ) -> Pages<CallId> {
        let (condition, time, forward) = match range {
            TimeRange::UpTo(time) => ("wake_key = :key AND wake_at <= :time", time, true),
            TimeRange::Since(time) => ("wake_key = :key AND wake_at >= :time", time, false),
        };
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(BY_WAKE)
            .key_condition_expression(condition)
            .expression_attribute_values(":key", text(&queue.key(shard)))
            .expression_attribute_values(":time", number(time.as_millis()))
            .scan_index_forward(forward)
            .set_limit(limit)
            .set_exclusive_start_key(start);
        Pages::new(query, call_id_of, Error::ListCalls)
    }

    /// Returns the calls of an appointment, at most `limit`.
    ///
    /// # Errors
    /// [`Error::ListCalls`].
    pub async fn calls_of_appointment(&self, appointment_id: &str, limit: i32) -> Result<Vec<CallId>, Error> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(BY_APPOINTMENT)
            .key_condition_expression("appointment_id = :id")
            .expression_attribute_values(":id", text(appointment_id))
            .limit(limit);
        let page = Pages::new(query, call_id_of, Error::ListCalls).next().await?;
        Ok(page.map(|page| page.items).unwrap_or_default())
    }
}

fn call_id_of(mut item: Item) -> Option<CallId> {
    match item.remove("call_id") {
        Some(AttributeValue::S(id)) => Some(CallId::new(id)),
        _ => None,
    }
}
