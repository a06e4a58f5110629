//! The index of received events, and the cursor of the sweep that reads it.

use std::collections::BTreeMap;
use std::ops::Range;

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;
use switchhook_domain::{CallId, EventId, Timestamp};

use super::item::{CursorItem, LeftItem, ReceivedItem, ReceivedKey, SWEEP_CURSOR_KEY};
use super::table::{Inbox, encode};
use crate::dynamodb::{ConditionalWrite, Item, Page, Pages, number, text};
use crate::error::Error;

/// Index of received events: `received_bucket` (minute and shard) and `received_at`.
pub const BY_RECEIVED: &str = "by_received";
const MINUTE_MS: i64 = 60_000;

/// Entry of the index of received events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedEvent {
    pub event_id: EventId,
    pub call_id: Option<CallId>,
    pub received_at: Timestamp,
    /// True if ingress decided the disposition, so that the event is not to be folded.
    pub decided: bool,
}

/// Progress of the sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepCursor {
    /// Minute to whose end every shard is swept that is not in `left`, counted from the Unix epoch.
    pub minute: i64,
    /// Shards that were left to workers, each with the position up to which it is swept.
    pub left: BTreeMap<u64, SweepPosition>,
}

/// Position in the events of one shard. The events before it are swept.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepPosition {
    pub minute: i64,
    /// Key at which the next page of the minute starts. `None` for the first page.
    pub start: Option<Item>,
}

impl SweepCursor {
    /// Returns the last minute to whose end all shards are swept.
    #[must_use]
    pub fn swept_minute(&self) -> i64 {
        self.left.values().map(|position| position.minute - 1).fold(self.minute, i64::min)
    }

    /// Returns the shards that are swept less far than the others.
    pub fn shards_behind(&self) -> impl Iterator<Item = u64> {
        self.left.iter().filter(|(_, position)| position.minute <= self.minute).map(|(shard, _)| *shard)
    }
}

impl SweepPosition {
    /// Position before the first event of a minute.
    #[must_use]
    pub const fn start_of(minute: i64) -> Self {
        Self { minute, start: None }
    }

    fn from_item(item: LeftItem) -> Result<Self, serde_dynamo::Error> {
        Ok(Self { minute: item.minute, start: item.start.map(serde_dynamo::to_item).transpose()? })
    }

    fn to_item(&self) -> Result<LeftItem, serde_dynamo::Error> {
        Ok(LeftItem { minute: self.minute, start: self.start.clone().map(serde_dynamo::from_item).transpose()? })
    }
}

/// Returns the minute under which the index holds an event, counted from the Unix epoch.
#[must_use]
pub const fn minute_of(time: Timestamp) -> i64 {
    time.as_millis().div_euclid(MINUTE_MS)
}

impl ReceivedEvent {
    /// Returns the key with which a page starts right after this event.
    ///
    /// # Errors
    /// [`Error::ListInbox`].
    pub fn start_key_after(&self, minute: i64, shard: u64) -> Result<Item, Error> {
        let key = ReceivedKey {
            event_id: self.event_id.to_string(),
            received_bucket: bucket(minute, shard),
            received_at: self.received_at,
        };
        serde_dynamo::to_item(key).map_err(|error| Error::ListInbox(Box::new(error)))
    }

    fn parse(item: Item) -> Option<Self> {
        let ReceivedItem { event_id, call_id, received_at, disposition } = serde_dynamo::from_item(item).ok()?;
        Some(Self { event_id, call_id, received_at, decided: disposition.is_some() })
    }
}

impl Inbox {
    /// Returns the pages of the events that one shard received in one minute.
    #[must_use]
    pub fn received_pages(&self, minute: i64, shard: u64) -> Pages<ReceivedEvent> {
        Pages::new(self.received_query(minute, shard), ReceivedEvent::parse, Error::ListInbox)
    }

    /// Reads one page of at most `limit` events that one shard received in one minute.
    ///
    /// # Errors
    /// [`Error::ListInbox`].
    pub async fn received_page(
        &self,
        position: &SweepPosition,
        shard: u64,
        limit: i32,
    ) -> Result<Page<ReceivedEvent>, Error> {
        let query =
            self.received_query(position.minute, shard).set_exclusive_start_key(position.start.clone()).limit(limit);
        let page = Pages::new(query, ReceivedEvent::parse, Error::ListInbox).next().await?;
        Ok(page.unwrap_or(Page { items: Vec::new(), next: None }))
    }

    fn received_query(&self, minute: i64, shard: u64) -> QueryFluentBuilder {
        self.client
            .query()
            .table_name(&self.table)
            .index_name(BY_RECEIVED)
            .key_condition_expression("received_bucket = :bucket")
            .expression_attribute_values(":bucket", text(&bucket(minute, shard)))
    }

    /// Reads the newest events that one shard received in one minute, before `until`: at most `limit`, the newest first. Returns
    /// true with them if there are more.
    ///
    /// # Errors
    /// [`Error::ListInbox`].
    pub async fn received_before(
        &self,
        minute: i64,
        shard: u64,
        until: Timestamp,
        limit: i32,
    ) -> Result<(Vec<ReceivedEvent>, bool), Error> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(BY_RECEIVED)
            .key_condition_expression("received_bucket = :bucket AND received_at < :until")
            .expression_attribute_values(":bucket", text(&bucket(minute, shard)))
            .expression_attribute_values(":until", number(until.as_millis()))
            .scan_index_forward(false)
            .limit(limit);
        let page = Pages::new(query, ReceivedEvent::parse, Error::ListInbox).next().await?;
        Ok(page.map(|page| (page.items, page.next.is_some())).unwrap_or_default())
    }

    /// Returns the shards of a minute.
    #[must_use]
    pub fn received_shards(&self, minute: i64) -> Range<u64> {
        0..self.shards.at(start_of(minute))
    }

    /// Returns the shard of a minute in which the events of a call are found.
    #[must_use]
    pub fn shard_of_call(&self, call_id: &CallId, minute: i64) -> u64 {
        self.shards.shard_of(call_id.as_str(), start_of(minute))
    }

    /// Bucket of an event in the index. Events of one call share a shard, so that those of one minute are in one bucket.
    pub(super) fn received_bucket(
        &self,
        call_id: Option<&CallId>,
        event_id: &EventId,
        received_at: Timestamp,
    ) -> String {
        let sharded_by = call_id.map_or(event_id.as_str(), CallId::as_str);
        let minute = minute_of(received_at);
        bucket(minute, self.shards.shard_of(sharded_by, start_of(minute)))
    }

    /// Reads the progress of the sweep. `None` before the first sweep.
    ///
    /// # Errors
    /// [`Error::ReadInbox`], [`Error::DecodeInbox`].
    pub async fn sweep_cursor(&self) -> Result<Option<SweepCursor>, Error> {
        let Some(item) = self.get_item(SWEEP_CURSOR_KEY).await? else { return Ok(None) };
        let unreadable = || Error::DecodeInbox("the cursor of the sweep");
        let CursorItem { minute, left, .. } = serde_dynamo::from_item(item).map_err(|_| unreadable())?;
        let left: Option<BTreeMap<u64, SweepPosition>> = left
            .into_iter()
            .map(|(shard, item)| Some((shard.parse().ok()?, SweepPosition::from_item(item).ok()?)))
            .collect();
        Ok(Some(SweepCursor { minute, left: left.ok_or_else(unreadable)? }))
    }

    /// Advances the cursor of the sweep, on the condition that it is still at the minute `from`. Returns false if another run has
    /// advanced it.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn advance_sweep_cursor(&self, from: Option<i64>, to: &SweepCursor) -> Result<bool, Error> {
        let left: Result<BTreeMap<String, LeftItem>, serde_dynamo::Error> =
            to.left.iter().map(|(shard, position)| Ok((shard.to_string(), position.to_item()?))).collect();
        let left = left.map_err(|error| Error::WriteInbox(Box::new(error)))?;
        let item = CursorItem { event_id: SWEEP_CURSOR_KEY.to_owned(), minute: to.minute, left };
        let Some(from) = from else { return self.put_new_item(&item).await };
        let request = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(encode(&item)?))
            .condition_expression("#minute = :from")
            .expression_attribute_names("#minute", "minute")
            .expression_attribute_values(":from", number(from));
        let write = ConditionalWrite::from_result(request.send().await).map_err(Error::WriteInbox)?;
        Ok(write.is_applied())
    }

    /// Stores the progress of the sweep in a shard that was left to a worker. Returns false if the shard is no longer left to workers.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn set_sweep_position(&self, shard: u64, position: &SweepPosition) -> Result<bool, Error> {
        let failed = |error| Error::WriteInbox(Box::new(error));
        let position = position.to_item().and_then(serde_dynamo::to_item).map_err(failed)?;
        let request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("event_id", text(SWEEP_CURSOR_KEY))
            .update_expression("SET #left.#shard = :position")
            .condition_expression("attribute_exists(#left.#shard)")
            .expression_attribute_names("#left", "left")
            .expression_attribute_names("#shard", shard.to_string())
            .expression_attribute_values(":position", AttributeValue::M(position));
        let write = ConditionalWrite::from_result(request.send().await).map_err(Error::WriteInbox)?;
        Ok(write.is_applied())
    }
}

/// Time at which a minute begins. This time decides its number of shards.
const fn start_of(minute: i64) -> Timestamp {
    Timestamp::from_millis(minute.saturating_mul(MINUTE_MS))
}

fn bucket(minute: i64, shard: u64) -> String {
    format!("{minute}#{shard}")
}
