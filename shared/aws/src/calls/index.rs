//! Queries of the two indexes of the calls table.

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;
use switchhook_domain::{CallId, Timestamp};

use super::table::Calls;
use super::wake_queue::{WAKE_SHARDS, WakeQueue};
use crate::dynamodb::{Item, Pages, number, text};
use crate::error::Error;

/// Index of all calls by wake queue and time: partition key `wake_key`, sort key `wake_at`. It holds keys only.
pub const BY_WAKE: &str = "by_wake";
/// Index of calls by `appointment_id`. It holds keys only.
pub const BY_APPOINTMENT: &str = "by_appointment";

/// Range of `wake_at` in a wake queue.
#[derive(Clone, Copy, Debug)]
pub enum TimeRange {
    /// Calls up to this time, the earliest first.
    UpTo(Timestamp),
    /// Calls since this time, the latest first.
    Since(Timestamp),
}

/// Returns every shard of a wake queue once. `turn` decides which shard comes first, so that no shard is always the
/// last.
pub fn wake_shards_from(turn: u64) -> impl Iterator<Item = u64> {
    let first = turn % WAKE_SHARDS;
    (first..first + WAKE_SHARDS).map(|shard| shard % WAKE_SHARDS)
}

impl Calls {
    /// Returns the pages of one shard of a wake queue. `limit` is the largest number of calls in a page, and `start`
    /// the [key](crate::dynamodb::Page::next) at which the first page starts.
    pub fn wake_queue_pages(
        &self,
        queue: WakeQueue,
        shard: u64,
        range: TimeRange,
        limit: Option<i32>,
        start: Option<Item>,
    ) -> Pages<CallId> {
        Pages::new(self.wake_queue_query(queue, shard, range, limit, start), call_id_of, Error::ListCalls)
    }

    fn wake_queue_query(
        &self,
        queue: WakeQueue,
        shard: u64,
        range: TimeRange,
        limit: Option<i32>,
        start: Option<Item>,
    ) -> QueryFluentBuilder {
        let (condition, time, forward) = match range {
            TimeRange::UpTo(time) => ("wake_key = :key AND wake_at <= :time", time, true),
            TimeRange::Since(time) => ("wake_key = :key AND wake_at >= :time", time, false),
        };
        self.client
            .query()
            .table_name(&self.table)
            .index_name(BY_WAKE)
            .key_condition_expression(condition)
            .expression_attribute_values(":key", text(&queue.key(shard)))
            .expression_attribute_values(":time", number(time.as_millis()))
            .scan_index_forward(forward)
            .set_limit(limit)
            .set_exclusive_start_key(start)
    }

    /// Returns the pages of one shard of a wake queue of pending calls: calls and their due times up to `until`, the earliest
    /// first. `limit` is the largest number of calls in a page.
    pub fn dial_queue_pages(
        &self,
        queue: WakeQueue,
        shard: u64,
        until: Timestamp,
        limit: u64,
    ) -> Pages<(CallId, Timestamp)> {
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let query = self.wake_queue_query(queue, shard, TimeRange::UpTo(until), Some(limit), None);
        Pages::new(query, due_call_of, Error::ListCalls)
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

fn due_call_of(item: Item) -> Option<(CallId, Timestamp)> {
    let wake_at = match item.get("wake_at") {
        Some(AttributeValue::N(wake_at)) => Timestamp::from_millis(wake_at.parse().ok()?),
        _ => return None,
    };
    Some((call_id_of(item)?, wake_at))
}

fn call_id_of(mut item: Item) -> Option<CallId> {
    match item.remove("call_id") {
        Some(AttributeValue::S(id)) => Some(CallId::new(id)),
        _ => None,
    }
}
