//! The events of a call that were not folded in time: those that [wait](super::WAITS_AFTER), and dead letters.
//!
//! **No call is dialled while one of them may tell that the person answered.** The queue keeps the events of a call in order. So
//! the finding that the provider has no call for a dial is folded after the webhooks before it. An event that waits, or is a dead letter, has left that
//! order. So the consumer lists it under its call before that, and the dialer reads the list before it dials. The reconciler lists a dead letter that has no
//! note.
//!
//! The list is one companion item for each call that had such an event. An event stays in it when it is folded: its call has it then, or its note tells
//! that it is no longer in trouble. So the end of the wait costs no write, and the dialer reads the notes only of calls that have a list.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;
use switchhook_domain::{CallId, EventId, Timestamp};

use super::attention::{Attention, AttentionKind};
use super::item::{note_key, unfolded_key};
use super::table::{Inbox, READ_AT_ONCE_MAX};
use crate::dynamodb::{number, text};
use crate::error::Error;

impl Inbox {
    /// Lists an event under its call as one that was not folded in time. **Call this before its message leaves the queue.** Entities are not
    /// dialled, so they have no list.
    ///
    /// # Errors
    /// [`Error::WriteInbox`]. A repetition is safe.
    pub async fn list_unfolded(&self, call_id: &CallId, event_id: &EventId, now: Timestamp) -> Result<(), Error> {
        if call_id.is_entity() {
            return Ok(());
        }
        let request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("event_id", text(&unfolded_key(call_id)))
            .update_expression("ADD event_ids :ids SET expires_at = :end")
            .expression_attribute_values(":ids", AttributeValue::Ss(vec![event_id.to_string()]))
            .expression_attribute_values(":end", number(self.expires_at(now)));
        request.send().await.map(drop).map_err(|error| Error::WriteInbox(Box::new(error)))
    }

    /// Returns the marks of the listed events about these calls that are retried, wait, or are dead letters. A refold may have added one of them to its
    /// call since.
    ///
    /// One request, and one more for each hundred events in the lists of the calls.
    ///
    /// # Errors
    /// [`Error::ReadInbox`].
    pub async fn unfolded_events(&self, calls: &BTreeSet<CallId>) -> Result<Vec<Attention>, Error> {
        let lists: Vec<String> = calls.iter().map(unfolded_key).collect();
        let lists = self.read_items(&lists).await?;
        let listed = lists.iter().filter_map(|list| list.get("event_ids")?.as_ss().ok()).flatten();
        // An event may be in two lists: its call has one, and an alias of the call may have another. DynamoDB takes no key twice.
        let notes: BTreeSet<String> = listed.map(|id| note_key(&EventId::new(id))).collect();
        let notes: Vec<String> = notes.into_iter().collect();
        let mut unfolded = Vec::new();
        for keys in notes.chunks(READ_AT_ONCE_MAX) {
            let marks = self.read_items(keys).await?.into_iter().filter_map(Attention::parse);
            unfolded.extend(marks.filter(|mark| is_in_trouble(mark.kind)));
        }
        Ok(unfolded)
    }

    /// Deletes the list of a call.
    ///
    /// # Errors
    /// [`Error::WriteInbox`]. A repetition is safe.
    pub async fn remove_unfolded(&self, call_id: &CallId) -> Result<(), Error> {
        self.delete_item(&unfolded_key(call_id)).await
    }
}

/// True if the mark is on an event that is not folded.
const fn is_in_trouble(kind: AttentionKind) -> bool {
    match kind {
        AttentionKind::Retrying | AttentionKind::DeadLettered => true,
        AttentionKind::Quarantined | AttentionKind::Conflict | AttentionKind::Audit => false,
    }
}
