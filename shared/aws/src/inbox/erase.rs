//! Erasing the person from stored events: those of calls whose [person was forgotten](switchhook_domain::Call::forget), and of
//! forgotten [entities](switchhook_domain::Entity::forget).
//!
//! **An erased event keeps its key, its times and the call events that were read from it.** So another delivery is still a
//! duplicate, and a refold, a replay and the sweep still find the event. Its body, query and headers are gone, and the
//! hash of its body too, from which a short body could be guessed.
//!
//! **A repetition finishes what an interruption left.** The chunks of a large body are deleted after the event's item was
//! replaced, and their number stays in the item until they are gone.

use serde_bytes::ByteBuf;
use switchhook_domain::{EventId, ProviderEvent, Timestamp};

use super::event::{StoredEvent, compress};
use super::item::{StoredConflictItem, chunk_key, conflict_key, note_key};
use super::reread::Reread;
use super::table::Inbox;
use crate::compression::Compressed;
use crate::dynamodb::{ConditionalWrite, number, text};
use crate::error::Error;

impl Inbox {
    /// Erases the person from an event, and with it the conflicting body and the error text of the note. Both may be kept for longer than
    /// their event. Returns false if there is no such event.
    ///
    /// # Errors
    /// [`Error::ReadInbox`], [`Error::WriteInbox`], [`Error::DecodeInbox`], [`Error::NewerSchema`]. A repetition is safe.
    pub async fn erase(&self, event_id: &EventId, forgotten_at: Timestamp) -> Result<bool, Error> {
        self.erase_by(event_id, forgotten_at, |event| event.forgotten(forgotten_at)).await
    }

    /// Erases the person from an event as [`Inbox::erase`] does, but leaves the entity that it is about remembered: a fold of the
    /// erased event forgets nothing else.
    ///
    /// # Errors
    /// The same as [`Inbox::erase`].
    pub async fn erase_alone(&self, event_id: &EventId, now: Timestamp) -> Result<bool, Error> {
        self.erase_by(event_id, now, ProviderEvent::without_person).await
    }

    /// Deletes the body that contradicts an event, and leaves the event as it is: the two may be about different persons. Does nothing if
    /// there is no such body.
    ///
    /// # Errors
    /// [`Error::ReadInbox`], [`Error::WriteInbox`], [`Error::DecodeInbox`]. A repetition is safe.
    pub async fn erase_conflict(&self, event_id: &EventId) -> Result<(), Error> {
        let key = conflict_key(event_id);
        let Some(item) = self.get_item(&key).await? else { return Ok(()) };
        let item: StoredConflictItem =
            serde_dynamo::from_item(item).map_err(|_| Error::DecodeInbox("the conflicting body"))?;
        self.delete_chunks(event_id, &item.body_hash, item.body_chunks.unwrap_or(0)).await?;
        self.delete_item(&key).await
    }

    async fn erase_by(
        &self,
        event_id: &EventId,
        at: Timestamp,
        erased: impl FnOnce(ProviderEvent) -> ProviderEvent,
    ) -> Result<bool, Error> {
        let stored = self.get(event_id).await?;
        if let Some(stored) = &stored {
            if stored.erased_at.is_none() {
                self.replace_body(stored, at, erased).await?;
            }
            if let Some(count) = stored.body_chunks {
                self.delete_chunks(event_id, &stored.body_hash, count).await?;
                self.update_if("attribute_exists(erased_at)", event_id.as_str(), "REMOVE body_chunks, body_hash")
                    .await?;
            }
        }
        self.erase_conflict(event_id).await?;
        self.erase_note(event_id).await?;
        Ok(stored.is_some())
    }

    /// Replaces the body by the call events that this version of the program reads from it.
    async fn replace_body(
        &self,
        stored: &StoredEvent,
        at: Timestamp,
        erased: impl FnOnce(ProviderEvent) -> ProviderEvent,
    ) -> Result<(), Error> {
        let read = match self.read_again(stored, None).await {
            Ok(Reread::Foldable(event)) => Some(erased(*event)),
            Ok(Reread::Recorded | Reread::Quarantined(_) | Reread::Erased) => None,
            // A body that cannot be read is of no use to anybody.
            Err(Error::DecodeInbox(_)) => None,
            Err(error) => return Err(error),
        };
        let headers = stored.own_headers();
        let mut update = "SET erased_at = :at, headers = :headers".to_owned();
        if read.is_some() {
            update.push_str(", body = :body, dictionary = :dictionary");
        }
        update.push_str(" REMOVE #query, reading, decision");
        if read.is_none() {
            // There is nothing left that a person could look at.
            update.push_str(", body, attention, attention_at, cause");
        }
        if stored.body_chunks.is_none() {
            update.push_str(", body_hash");
        }
        let mut request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("event_id", text(stored.event_id.as_str()))
            .condition_expression("attribute_exists(event_id) AND attribute_not_exists(erased_at)")
            .update_expression(update)
            .expression_attribute_names("#query", "query")
            .expression_attribute_values(":at", number(at.as_millis()))
            .expression_attribute_values(":headers", headers);
        if let Some(event) = read {
            let content = serde_json::to_vec(&event).map_err(|error| Error::WriteInbox(Box::new(error)))?;
            let Compressed { bytes, dictionary } = compress(&content)?;
            request = request
                .expression_attribute_values(
                    ":body",
                    serde_dynamo::to_attribute_value(ByteBuf::from(bytes))
                        .map_err(|error| Error::WriteInbox(Box::new(error)))?,
                )
                .expression_attribute_values(":dictionary", number(dictionary.into()));
        }
        ConditionalWrite::from_result(request.send().await).map(drop).map_err(Error::WriteInbox)
    }

    async fn erase_note(&self, event_id: &EventId) -> Result<(), Error> {
        let request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("event_id", text(&note_key(event_id)))
            .condition_expression("attribute_exists(#error)")
            .update_expression("REMOVE #error")
            .expression_attribute_names("#error", "error");
        ConditionalWrite::from_result(request.send().await).map(drop).map_err(Error::WriteInbox)
    }

    async fn delete_chunks(&self, event_id: &EventId, body_hash: &str, count: u32) -> Result<(), Error> {
        for index in 0..count {
            self.delete_item(&chunk_key(event_id, body_hash, index)).await?;
        }
        Ok(())
    }

    pub(super) async fn delete_item(&self, key: &str) -> Result<(), Error> {
        let request = self.client.delete_item().table_name(&self.table).key("event_id", text(key));
        request.send().await.map_err(|error| Error::WriteInbox(Box::new(error)))?;
        Ok(())
    }

    async fn update_if(&self, condition: &str, key: &str, update: &str) -> Result<(), Error> {
        let request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("event_id", text(key))
            .condition_expression(condition)
            .update_expression(update);
        ConditionalWrite::from_result(request.send().await).map(drop).map_err(Error::WriteInbox)
    }
}
