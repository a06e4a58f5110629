//! The index of received events, and the cursor of the sweep that reads it.

use std::ops::Range;

use switchhook_domain::{CallId, EventId, Timestamp};

use super::item::{CursorItem, ReceivedItem, ReceivedKey, SWEEP_CURSOR_KEY};
use super::table::{Inbox, encode};
use crate::dynamodb::{ConditionalWrite, Item, Pages, number, text};
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
    /// Last minute that was swept to its end, counted from the Unix epoch.
    pub minute: i64,
    /// Position in the next minute at which to go on. `None` for its beginning.
    pub position: Option<SweepPosition>,
}

/// Position within a minute of the inbox.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweepPosition {
    pub shard: u64,
    /// Key at which the next page starts. `None` for the first page.
    pub start: Option<Item>,
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
    /// Returns the pages of the events that one shard received in one minute. `start` is the
    /// [key](crate::dynamodb::Page::next) at which the first page starts.
    #[must_use]
    pub fn received_pages(&self, minute: i64, shard: u64, start: Option<Item>) -> Pages<ReceivedEvent> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(BY_RECEIVED)
            .key_condition_expression("received_bucket = :bucket")
            .expression_attribute_values(":bucket", text(&bucket(minute, shard)))
            .set_exclusive_start_key(start);
        Pages::new(query, ReceivedEvent::parse, Error::ListInbox)
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
        let unreadable = |_| Error::DecodeInbox("the cursor of the sweep");
        let CursorItem { minute, shard, start, .. } = serde_dynamo::from_item(item).map_err(unreadable)?;
        let start = start.map(serde_dynamo::to_item).transpose().map_err(unreadable)?;
        Ok(Some(SweepCursor { minute, position: shard.map(|shard| SweepPosition { shard, start }) }))
    }

    /// Advances the cursor of the sweep. Returns false if another sweep has finished a minute since `from` was read.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn advance_sweep_cursor(&self, from: Option<i64>, to: &SweepCursor) -> Result<bool, Error> {
        let start = to.position.as_ref().and_then(|position| position.start.clone());
        let item = CursorItem {
            event_id: SWEEP_CURSOR_KEY.to_owned(),
            minute: to.minute,
            shard: to.position.as_ref().map(|position| position.shard),
            start: start
                .map(serde_dynamo::from_item)
                .transpose()
                .map_err(|error| Error::WriteInbox(Box::new(error)))?,
        };
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
}

/// Time at which a minute begins. This time decides its number of shards.
const fn start_of(minute: i64) -> Timestamp {
    Timestamp::from_millis(minute.saturating_mul(MINUTE_MS))
}

fn bucket(minute: i64, shard: u64) -> String {
    format!("{minute}#{shard}")
}
