//! Queries of the indexes of the calls table.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::{StreamExt, TryStreamExt, stream};
use switchhook_domain::{CallId, CallsInFlight, InFlight, PhoneNumber, Provider, Timestamp};
use switchhook_providers::bounded;

use super::encoding::decode_in_flight;
use super::table::Calls;
use super::wake_queue::WakeQueue;
use crate::dynamodb::{Item, Pages, number, text};
use crate::error::Error;

/// Index of all calls by wake queue and time: partition key `wake_key`, sort key `wake_at`. Besides its keys it holds `in_flight`.
pub const BY_WAKE: &str = "by_wake";
/// Index of calls by `appointment_id`. It holds keys only.
pub const BY_APPOINTMENT: &str = "by_appointment";
/// Index of calls by the number of the other person: partition key `party`, sort key `created_at`. It holds keys only.
pub const BY_PARTY: &str = "by_party";

/// Concurrent requests of a count.
const CONCURRENCY: usize = 16;

/// Range of `wake_at` in a wake queue.
#[derive(Clone, Copy, Debug)]
pub enum TimeRange {
    /// Calls up to this time, the earliest first.
    UpTo(Timestamp),
    /// Calls since this time, the latest first.
    Since(Timestamp),
}

/// Entry of the index by wake queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WakeEntry {
    pub call_id: CallId,
    pub wake_at: Timestamp,
}

impl Calls {
    /// Returns the pages of one shard of a wake queue. `limit` is the largest number of calls in a page.
    pub fn wake_queue_pages(
        &self,
        queue: WakeQueue,
        shard: u64,
        range: TimeRange,
        limit: Option<i32>,
    ) -> Pages<CallId> {
        Pages::new(self.wake_queue_query(queue, shard, range, limit), call_id_of, Error::ListCalls)
    }

    fn wake_queue_query(
        &self,
        queue: WakeQueue,
        shard: u64,
        range: TimeRange,
        limit: Option<i32>,
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
    }

    /// Returns the pages of one shard of the settled calls: those that were settled since this time, the latest first, with that
    /// time.
    pub fn settled_pages(&self, shard: u64, since: Timestamp) -> Pages<(CallId, Timestamp)> {
        let query = self.wake_queue_query(WakeQueue::Settled, shard, TimeRange::Since(since), None);
        Pages::new(query, due_call_of, Error::ListCalls)
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
        let query = self.wake_queue_query(queue, shard, TimeRange::UpTo(until), Some(limit));
        Pages::new(query, due_call_of, Error::ListCalls)
    }

    /// Reads one page of a shard of a wake queue: at most `limit` entries whose `wake_at` is in `range`, after the entry
    /// `after`. Returns true with it if more entries follow.
    ///
    /// # Errors
    /// [`Error::ListCalls`].
    pub async fn wake_entries(
        &self,
        queue: WakeQueue,
        shard: u64,
        range: RangeInclusive<Timestamp>,
        latest_first: bool,
        limit: i32,
        after: Option<&WakeEntry>,
    ) -> Result<(Vec<WakeEntry>, bool), Error> {
        let wake_key = queue.key(shard);
        let start = after.map(|entry| {
            Item::from([
                ("call_id".to_owned(), text(entry.call_id.as_str())),
                ("wake_key".to_owned(), text(&wake_key)),
                ("wake_at".to_owned(), number(entry.wake_at.as_millis())),
            ])
        });
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(BY_WAKE)
            .key_condition_expression("wake_key = :key AND wake_at BETWEEN :from AND :to")
            .expression_attribute_values(":key", text(&wake_key))
            .expression_attribute_values(":from", number(range.start().as_millis()))
            .expression_attribute_values(":to", number(range.end().as_millis()))
            .scan_index_forward(!latest_first)
            .limit(limit)
            .set_exclusive_start_key(start);
        let page = Pages::new(query, wake_entry_of, Error::ListCalls).next().await?;
        Ok(page.map(|page| (page.items, page.next.is_some())).unwrap_or_default())
    }

    /// Counts the calls that Switchhook has in flight at each provider. The index may miss the writes of the last few hundred
    /// milliseconds.
    ///
    /// It reads the entries of all open calls: one request per shard and wake queue, and half a read unit for each 4 KB, some thirty
    /// calls.
    ///
    /// # Errors
    /// [`Error::ListCalls`].
    pub async fn count_in_flight(&self) -> Result<BTreeMap<Provider, CallsInFlight>, Error> {
        let keys = WakeQueue::OPEN.into_iter().flat_map(|queue| self.wake_shards().map(move |shard| queue.key(shard)));
        let places: Vec<Vec<InFlight>> =
            stream::iter(keys).map(|key| self.places_of(key)).buffer_unordered(CONCURRENCY).try_collect().await?;
        let mut counted = BTreeMap::<Provider, CallsInFlight>::new();
        for place in places.into_iter().flatten() {
            match place {
                InFlight::Claimed(provider) => counted.entry(provider).or_default().claimed += 1,
                InFlight::Dialled(provider) => counted.entry(provider).or_default().dialled += 1,
            }
        }
        Ok(counted)
    }

    /// Returns the places in flight of all calls in one shard of a wake queue.
    async fn places_of(&self, wake_key: String) -> Result<Vec<InFlight>, Error> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(BY_WAKE)
            .key_condition_expression("wake_key = :key")
            .filter_expression("attribute_exists(in_flight)")
            .projection_expression("in_flight")
            .expression_attribute_values(":key", text(&wake_key));
        let mut pages = Pages::new(query, in_flight_of, Error::ListCalls);
        let mut places = Vec::new();
        while let Some(page) = pages.next().await? {
            places.extend(page.items);
        }
        Ok(places)
    }

    /// Returns the pages of the calls of an appointment. The id may be longer than the stored one.
    #[must_use]
    pub fn by_appointment(&self, appointment_id: &str) -> Pages<CallId> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(BY_APPOINTMENT)
            .key_condition_expression("appointment_id = :id")
            .expression_attribute_values(":id", text(&bounded("", appointment_id)));
        Pages::new(query, call_id_of, Error::ListCalls)
    }

    /// Returns all calls of an appointment, however many they are.
    ///
    /// # Errors
    /// [`Error::ListCalls`].
    pub async fn calls_of_appointment(&self, appointment_id: &str) -> Result<Vec<CallId>, Error> {
        let mut pages = self.by_appointment(appointment_id);
        let mut calls = Vec::new();
        while let Some(page) = pages.next().await? {
            calls.extend(page.items);
        }
        Ok(calls)
    }

    /// Returns the pages of the calls to or from a number, the latest call first. Every notation of the number finds the
    /// same calls. A call that was last written while `IndexNumbers` was off is not found.
    #[must_use]
    pub fn by_party(&self, number: &PhoneNumber) -> Pages<CallId> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(BY_PARTY)
            .key_condition_expression("party = :party")
            .expression_attribute_values(":party", text(number.canonical().as_str()))
            .scan_index_forward(false);
        Pages::new(query, call_id_of, Error::ListCalls)
    }
}

fn due_call_of(item: Item) -> Option<(CallId, Timestamp)> {
    let wake_at = match item.get("wake_at") {
        Some(AttributeValue::N(wake_at)) => Timestamp::from_millis(wake_at.parse().ok()?),
        _ => return None,
    };
    Some((call_id_of(item)?, wake_at))
}

fn wake_entry_of(item: Item) -> Option<WakeEntry> {
    due_call_of(item).map(|(call_id, wake_at)| WakeEntry { call_id, wake_at })
}

fn in_flight_of(item: Item) -> Option<InFlight> {
    match item.get("in_flight") {
        Some(AttributeValue::S(place)) => decode_in_flight(place),
        _ => None,
    }
}

fn call_id_of(mut item: Item) -> Option<CallId> {
    match item.remove("call_id") {
        Some(AttributeValue::S(id)) => Some(CallId::new(id)),
        _ => None,
    }
}
