//! Notes on events that the consumer could not fold.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use switchhook_domain::{CallId, Disposition, EventId, Origin, ProviderEvent, Timestamp};

use super::attention::AttentionKind;
use super::event::StoredEvent;
use super::item::{NoteItem, disposition_of, marked_event, note_key};
use super::table::{Inbox, READ_AT_ONCE_MAX};
use crate::dynamodb::{ConditionalWrite, Item, number, text};
use crate::error::Error;

/// Note on an event: why it was not folded, or how often that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// Number of failed attempts of the consumer.
    pub attempts: u32,
    pub error: Option<String>,
    /// Short name of what went wrong, for example `read_call`.
    pub cause: Option<String>,
    /// Time at which the consumer received the event for the first time.
    pub first_tried_at: Option<Timestamp>,
    pub next_retry_at: Option<Timestamp>,
    /// True if the event has no message in the queue, and [waits](super::WAITS_AFTER) until the reconciler sends it again.
    pub waits: bool,
    pub dead_lettered_at: Option<Timestamp>,
    /// Time at which an operator [discarded](Inbox::discard) its dead letter.
    pub discarded_at: Option<Timestamp>,
    /// Refused or quarantined. `None` if the consumer has not decided against folding the event.
    pub disposition: Option<Disposition>,
}

impl Note {
    /// Note on an event whose call does not exist, or on one of Switchhook itself whose call became an alias.
    #[must_use]
    pub fn no_call() -> Self {
        Self {
            disposition: Some(Disposition::Refused),
            error: Some("the event's call does not exist, or was merged into another call".to_owned()),
            ..Self::default()
        }
    }

    /// True if the consumer is done with the event. `is_folded` tells whether a call or an entity has it: a fold that succeeds leaves no note.
    #[must_use]
    pub const fn is_done(&self, is_folded: bool) -> bool {
        is_folded || self.disposition.is_some()
    }

    /// Returns the number of times that the consumer tried to process the event.
    #[must_use]
    pub const fn tries(&self, is_folded: bool) -> u32 {
        self.attempts + self.is_done(is_folded) as u32
    }

    /// Returns the reason why a person should look at the event, and since when. The time of a retry stays the same
    /// from try to try, so that the index is written once.
    fn attention(&self, now: Timestamp) -> Option<(AttentionKind, Timestamp)> {
        if let Some(at) = self.dead_lettered_at {
            Some((AttentionKind::DeadLettered, at))
        } else if self.disposition == Some(Disposition::Quarantined) {
            Some((AttentionKind::Quarantined, now))
        } else {
            self.next_retry_at.map(|_| (AttentionKind::Retrying, self.first_tried_at.unwrap_or(now)))
        }
    }
}

impl Inbox {
    /// Writes the note on an event. The note is in the index of items that a person should look at while the event is retried, dead-lettered or
    /// quarantined.
    ///
    /// **It replaces an earlier note, but for one case.** A note on a failure whose message stays in the queue changes nothing if the event waits, or if
    /// the consumer has decided against folding it. A consumer that is slow may write such a note after a later one has written the other,
    /// and has deleted the message. Then nobody would send the event again, or the decision would be lost.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn put_note(&self, event: &ProviderEvent, note: &Note, now: Timestamp) -> Result<(), Error> {
        let ProviderEvent { event_id, call_id, origin, event_type, .. } = event;
        self.put_note_on(event_id, call_id, Some(*origin), Some(event_type.clone()), note, now).await
    }

    /// Does the same as [`Inbox::put_note`]. The event may be one that cannot be read.
    pub(super) async fn put_note_on(
        &self,
        event_id: &EventId,
        call_id: &CallId,
        origin: Option<Origin>,
        event_type: Option<String>,
        note: &Note,
        now: Timestamp,
    ) -> Result<(), Error> {
        let event_id = note_key(event_id);
        let attention = note.attention(now);
        let item = NoteItem {
            call_id: Some(call_id.clone()),
            origin,
            event_type,
            attempts: note.attempts,
            error: note.error.clone(),
            cause: note.cause.clone(),
            first_tried_at: note.first_tried_at,
            next_retry_at: note.next_retry_at,
            waits: note.waits,
            dead_lettered_at: note.dead_lettered_at,
            discarded_at: note.discarded_at,
            disposition: note.disposition.map(|disposition| disposition.as_str().to_owned()),
            attention: attention.map(|(kind, at)| self.attention_key(kind, &event_id, at)),
            attention_at: attention.map(|(_, at)| at),
            event_id,
            expires_at: self.expires_at(now),
        };
        let is_in_queue = note.next_retry_at.is_some() && !note.waits;
        if is_in_queue {
            self.put_item_if(&item, "attribute_not_exists(waits) AND attribute_not_exists(disposition)").await.map(drop)
        } else {
            self.put_item(&item).await
        }
    }

    /// Marks an event whose message is in the dead-letter queue, and [lists](Inbox::list_unfolded) it under its call. The attempts and errors that an earlier note has stay.
    /// Returns false if the note has that mark already, or says that the event was redriven and waits. A mark that was removed comes back: an
    /// operator discarded an earlier dead letter of the event.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn mark_dead_letter(&self, event: &ProviderEvent, cause: &str, now: Timestamp) -> Result<bool, Error> {
        let item_key = note_key(&event.event_id);
        let attention = self.attention_key(AttentionKind::DeadLettered, &item_key, now);
        let request = self
            .update_note(&item_key)
            .condition_expression(
                "(attribute_not_exists(dead_lettered_at) OR attribute_not_exists(attention) \
                 OR begins_with(attention, :retrying)) AND attribute_not_exists(waits)",
            )
            .update_expression(
                "SET attention = :attention, attention_at = :at, dead_lettered_at = :at, call_id = :call, \
                 origin = :origin, #type = :type, cause = if_not_exists(cause, :cause), \
                 attempts = if_not_exists(attempts, :none), expires_at = if_not_exists(expires_at, :end) \
                 REMOVE next_retry_at, discarded_at",
            )
            .expression_attribute_names("#type", "type")
            .expression_attribute_values(":attention", text(&attention))
            .expression_attribute_values(":retrying", text(&format!("{}#", AttentionKind::Retrying.as_str())))
            .expression_attribute_values(":at", number(now.as_millis()))
            .expression_attribute_values(":call", text(event.call_id.as_str()))
            .expression_attribute_values(":origin", text(event.origin.as_str()))
            .expression_attribute_values(":type", text(&event.event_type))
            .expression_attribute_values(":cause", text(cause))
            .expression_attribute_values(":none", number(0))
            .expression_attribute_values(":end", number(self.expires_at(now)));
        // A repetition may find the mark that an earlier call has made, so the list comes first.
        self.list_unfolded(&event.call_id, &event.event_id, now).await?;
        let write = ConditionalWrite::from_result(request.send().await).map_err(Error::WriteInbox)?;
        Ok(write.is_applied())
    }

    /// Marks an event that waits as dead-lettered. Returns false if it no longer waits.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn give_up(&self, event_id: &EventId, now: Timestamp) -> Result<bool, Error> {
        let item_key = note_key(event_id);
        let attention = self.attention_key(AttentionKind::DeadLettered, &item_key, now);
        let request = self
            .update_note(&item_key)
            .condition_expression("attribute_exists(waits)")
            .update_expression(
                "SET attention = :attention, attention_at = :at, dead_lettered_at = :at REMOVE next_retry_at, waits",
            )
            .expression_attribute_values(":attention", text(&attention))
            .expression_attribute_values(":at", number(now.as_millis()));
        let write = ConditionalWrite::from_result(request.send().await).map_err(Error::WriteInbox)?;
        Ok(write.is_applied())
    }

    /// Takes the note on an event out of the index, if it says that the event was dead-lettered, and marks the event as discarded. **Nothing folds it by
    /// itself any more**: neither a refold nor the sweep, and no row that is made again. A fold that somebody asks for ends that, and so does the next
    /// trouble of the event. An event without a note gets the mark too: its consumer may have died before it could write one. Returns false if the
    /// note says something else: then the event is folded, is tried again, or was refused.
    ///
    /// The event must not be in its call. Otherwise the call would lose it with its row.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn discard(&self, event_id: &EventId, now: Timestamp) -> Result<bool, Error> {
        let request = self
            .update_note(&note_key(event_id))
            .condition_expression("attribute_not_exists(event_id) OR begins_with(attention, :dead)")
            .update_expression(
                "SET discarded_at = :now, expires_at = if_not_exists(expires_at, :end) REMOVE attention, attention_at",
            )
            .expression_attribute_values(":dead", text(&format!("{}#", AttentionKind::DeadLettered.as_str())))
            .expression_attribute_values(":now", number(now.as_millis()))
            .expression_attribute_values(":end", number(self.expires_at(now)));
        let write = ConditionalWrite::from_result(request.send().await).map_err(Error::WriteInbox)?;
        Ok(write.is_applied())
    }

    /// Returns those of these events that are [discarded](Inbox::discard). One request for each hundred events.
    ///
    /// # Errors
    /// [`Error::ReadInbox`].
    pub async fn discarded(&self, ids: &[EventId]) -> Result<BTreeSet<EventId>, Error> {
        // DynamoDB takes no key twice.
        let keys: BTreeSet<String> = ids.iter().map(note_key).collect();
        let keys: Vec<String> = keys.into_iter().collect();
        let mut discarded = BTreeSet::new();
        for keys in keys.chunks(READ_AT_ONCE_MAX) {
            for note in self.read_items(keys).await?.iter().filter(|note| is_discarded(note)) {
                let key = note.get("event_id").and_then(|key| key.as_s().ok());
                discarded.extend(key.and_then(|key| marked_event(key)).map(EventId::new));
            }
        }
        Ok(discarded)
    }

    /// Marks an event that its call lacks, as one that is retried `since` then. Keeps what the consumer noted, and has no cause of its own.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn mark_unfolded(&self, stored: &StoredEvent, since: Timestamp, now: Timestamp) -> Result<(), Error> {
        let item_key = note_key(&stored.event_id);
        let attention = self.attention_key(AttentionKind::Retrying, &item_key, since);
        let request = self
            .update_note(&item_key)
            .condition_expression("attribute_not_exists(attention) AND attribute_not_exists(disposition)")
            .update_expression(
                "SET attention = :attention, attention_at = :at, call_id = :call, origin = :origin, #type = :type, \
                 attempts = if_not_exists(attempts, :none), expires_at = if_not_exists(expires_at, :end) \
                 REMOVE discarded_at",
            )
            .expression_attribute_names("#type", "type")
            .expression_attribute_values(":attention", text(&attention))
            .expression_attribute_values(":at", number(since.as_millis()))
            .expression_attribute_values(":call", text(stored.call_id.as_ref().map_or("", CallId::as_str)))
            .expression_attribute_values(":origin", text(stored.origin.as_str()))
            .expression_attribute_values(":type", text(&stored.event_type))
            .expression_attribute_values(":none", number(0))
            .expression_attribute_values(":end", number(self.expires_at(now)));
        ConditionalWrite::from_result(request.send().await).map(drop).map_err(Error::WriteInbox)
    }

    fn update_note(&self, item_key: &str) -> UpdateItemFluentBuilder {
        self.client.update_item().table_name(&self.table).key("event_id", text(item_key))
    }

    /// Reads the note on an event. `None` if there is none.
    ///
    /// # Errors
    /// [`Error::ReadInbox`], [`Error::DecodeInbox`].
    pub async fn get_note(&self, event_id: &EventId) -> Result<Option<Note>, Error> {
        let Some(item) = self.get_item(&note_key(event_id)).await? else { return Ok(None) };
        let note: NoteItem = serde_dynamo::from_item(item).map_err(|_| Error::DecodeInbox("the note"))?;
        Ok(Some(Note {
            attempts: note.attempts,
            error: note.error,
            cause: note.cause,
            first_tried_at: note.first_tried_at,
            next_retry_at: note.next_retry_at,
            waits: note.waits,
            dead_lettered_at: note.dead_lettered_at,
            discarded_at: note.discarded_at,
            disposition: note.disposition.as_deref().and_then(disposition_of),
        }))
    }
}

/// True if a note says that its event is [discarded](Inbox::discard).
pub(super) fn is_discarded(note: &Item) -> bool {
    note.contains_key("discarded_at")
}
