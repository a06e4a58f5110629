//! The index of inbox items that a person should look at.
//!
//! **The write that finds the trouble also marks it.** Two attributes of an item put it into the index: `attention` (kind
//! and shard) and `attention_at`. A healthy webhook has neither, so the index costs it nothing. A marked item costs one
//! more write unit, and another one when the mark is removed.

use std::ops::Range;

use switchhook_domain::{Call, CallId, EventId, Origin, Timestamp};

use super::item::{AttentionItem, marked_event, note_key};
use super::table::Inbox;
use crate::dynamodb::{ConditionalWrite, Pages, number, shard_of, text};
use crate::error::Error;

/// Index of items that a person should look at: partition key `attention`, sort key `attention_at`.
pub const BY_ATTENTION: &str = "by_attention";

/// Reason why a person should look at an inbox item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttentionKind {
    /// The event cannot be read, or its call has no room for it.
    Quarantined,
    /// The event was not folded within two hours, or its message was received as often as the queue allows.
    DeadLettered,
    /// The consumer failed to fold the event, and will try again. Or the sweep found an event that was not folded within minutes.
    Retrying,
    /// The id of the event came again with other content.
    Conflict,
    /// An operator changed something.
    Audit,
}

impl AttentionKind {
    pub const ALL: [Self; 5] = [Self::Quarantined, Self::DeadLettered, Self::Retrying, Self::Conflict, Self::Audit];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quarantined => "quarantined",
            Self::DeadLettered => "dead_lettered",
            Self::Retrying => "retrying",
            Self::Conflict => "conflict",
            Self::Audit => "audit",
        }
    }

    /// Returns the kind with this name. `None` if there is none.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    fn key_of_shard(self, shard: u64) -> String {
        format!("{}#{shard}", self.as_str())
    }
}

/// Entry of the index of items that a person should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attention {
    pub kind: AttentionKind,
    /// Key of the marked item: an event, its note, its conflicting body, or an audit record.
    pub item_key: String,
    /// Event that the item is about. `None` for an audit record.
    pub event_id: Option<EventId>,
    pub call_id: Option<CallId>,
    pub origin: Option<Origin>,
    pub event_type: Option<String>,
    /// Short name of what went wrong, for example `read_call`.
    pub cause: Option<String>,
    /// Time of the trouble. For `Retrying`, the time of the first try, or of the receipt if the consumer noted none.
    pub at: Timestamp,
}

impl Attention {
    pub(super) fn parse(item: crate::dynamodb::Item) -> Option<Self> {
        let AttentionItem { event_id: item_key, attention, attention_at, call_id, origin, event_type, cause } =
            serde_dynamo::from_item(item).ok()?;
        let kind = AttentionKind::parse(attention.split('#').next()?)?;
        let event_id = marked_event(&item_key).map(EventId::new);
        let event_type = event_type.filter(|name| !name.is_empty());
        Some(Self { kind, item_key, event_id, call_id, origin, event_type, cause, at: attention_at })
    }

    /// True if the item is about an event, and the call lacks that event.
    #[must_use]
    pub fn is_missing_in(&self, call: &Call) -> bool {
        self.event_id.as_ref().is_some_and(|id| !call.contains_event(id))
    }
}

impl Inbox {
    /// Returns the shards in which marks of a kind may be.
    #[must_use]
    pub fn attention_shards(&self) -> Range<u64> {
        0..self.shards.of_marks_max()
    }

    /// Value of `attention` for the item under this key, for example `dead_lettered#1`. `at` is its `attention_at`.
    #[must_use]
    pub fn attention_key(&self, kind: AttentionKind, item_key: &str, at: Timestamp) -> String {
        kind.key_of_shard(shard_of(item_key, self.shards.of_marks_at(at)))
    }

    /// Returns the pages of one shard of a kind, the latest item first. With `before`, they hold only items that were
    /// marked earlier. `limit` is the largest number of items in a page. To read all items of a kind, read all
    /// [shards](Inbox::attention_shards).
    #[must_use]
    pub fn attention_pages(
        &self,
        kind: AttentionKind,
        shard: u64,
        before: Option<Timestamp>,
        limit: Option<i32>,
    ) -> Pages<Attention> {
        let before = before.map_or(i64::MAX, Timestamp::as_millis);
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(BY_ATTENTION)
            .key_condition_expression("attention = :kind AND attention_at < :before")
            .expression_attribute_values(":kind", text(&kind.key_of_shard(shard)))
            .expression_attribute_values(":before", number(before))
            .set_limit(limit)
            .scan_index_forward(false);
        Pages::new(query, Attention::parse, Error::ListInbox)
    }

    /// Returns the pages of one shard of a kind, the earliest item first: those marked later than `after`, up to
    /// `until`. `limit` is the largest number of items in a page.
    #[must_use]
    pub fn attention_between(
        &self,
        kind: AttentionKind,
        shard: u64,
        after: Timestamp,
        until: Timestamp,
        limit: i32,
    ) -> Pages<Attention> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(BY_ATTENTION)
            .key_condition_expression("attention = :kind AND attention_at BETWEEN :first AND :until")
            .expression_attribute_values(":kind", text(&kind.key_of_shard(shard)))
            .expression_attribute_values(":first", number(after.as_millis().saturating_add(1)))
            .expression_attribute_values(":until", number(until.as_millis()))
            .limit(limit);
        Pages::new(query, Attention::parse, Error::ListInbox)
    }

    /// Takes an item out of the index. The item itself stays. Returns false if it was not in the index, or is the note on an event that waits: that
    /// needs its mark.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn clear_attention(&self, item_key: &str) -> Result<bool, Error> {
        self.clear_attention_if(item_key, "attribute_exists(attention) AND attribute_not_exists(waits)", &[]).await
    }

    /// Takes the note on an event out of the index, if it says that the event is retried or dead-lettered. Called when
    /// the event was folded after all. So it ends a [discard](Inbox::discard) too. Returns false if there was no such note.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn clear_retry(&self, event_id: &EventId) -> Result<bool, Error> {
        let kinds = [(":retrying", AttentionKind::Retrying), (":dead", AttentionKind::DeadLettered)];
        let condition =
            "begins_with(attention, :retrying) OR begins_with(attention, :dead) OR attribute_exists(discarded_at)";
        self.clear_attention_if(&note_key(event_id), condition, &kinds).await
    }

    /// Takes the note on an event out of the index, if it says that the event was dead-lettered. A dead letter that was redriven may have failed
    /// again since, and needs the mark of an event that is retried. Returns false if there was no such note.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn clear_dead_letter(&self, event_id: &EventId) -> Result<bool, Error> {
        let kinds = [(":dead", AttentionKind::DeadLettered)];
        self.clear_attention_if(&note_key(event_id), "begins_with(attention, :dead)", &kinds).await
    }

    async fn clear_attention_if(
        &self,
        item_key: &str,
        condition: &str,
        kinds: &[(&str, AttentionKind)],
    ) -> Result<bool, Error> {
        let mut request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("event_id", text(item_key))
            .update_expression("REMOVE attention, attention_at, waits, discarded_at")
            .condition_expression(condition);
        for (name, kind) in kinds {
            request = request.expression_attribute_values(*name, text(&format!("{}#", kind.as_str())));
        }
        let write = ConditionalWrite::from_result(request.send().await).map_err(Error::WriteInbox)?;
        Ok(write.is_applied())
    }
}
