//! The events of a call that were not folded in time: those that [wait](super::WAITS_AFTER), and dead letters.
//!
//! **No call is dialled while one of them may tell that the person answered.** The queue keeps the events of a call in order. So
//! the finding that the provider has no call for a dial is folded after the webhooks before it. An event that waits, or is a dead letter, has left that
//! order. So the consumer lists it under its call before that, and the dialer reads the list before it dials. The reconciler lists a dead letter that has no
//! note.
//!
//! **The events that a rebuilt row lacks [are made to wait](Inbox::await_events_of_rebuilt) before the row is stored.** Such a row may be due, and no message
//! of them is in the queue any more.
//!
//! The list is one companion item for each call that had such an event. An event stays in it when it is folded: its call has it then, or its note tells
//! that it is no longer in trouble. So the end of the wait costs no write, and the dialer reads the notes only of calls that have a list.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;
use switchhook_domain::{Call, CallId, EventId, Timestamp};

use super::attention::{Attention, AttentionKind};
use super::item::{note_key, unfolded_key};
use super::note::{Note, is_discarded};
use super::sweep::minute_of;
use super::table::{Inbox, READ_AT_ONCE_MAX};
use super::waiting::next_retry;
use crate::dynamodb::{number, text};
use crate::error::Error;
use crate::sdk::Clock;

/// Limit on the index pages that are read for one rebuilt row. Each minute since the creation of the call has at least one page, so these are ten hours
/// at most. They take about a second of a function's ten, and up to four if the pages are full.
const REBUILT_PAGES_MAX: u64 = 600;
/// Time in milliseconds since the start of an invocation after which it rebuilds no further row. The rest of the function's ten seconds is for the row
/// that it has begun.
const REBUILDING_MS_MAX: i64 = 3_000;

impl Inbox {
    /// Makes the events wait that the inbox holds and a rebuilt row lacks. **Call this before the row is stored**: a lost row comes back as one that may
    /// be due, and only its events tell that the person has answered. The dialer holds the call until the reconciler has sent them and they are folded.
    ///
    /// **An invocation rebuilds one row after the other**, and none when some seconds have passed since `began`. Rows that are read at the same time would
    /// share the time of the function, and it could end before any of them is stored. So each repetition of a batch brings rows back.
    ///
    /// # Errors
    /// [`Error::CreatedTooLongAgo`] if the call was created too long ago to find its events, and [`Error::RebuildPostponed`] if the time of the invocation
    /// is used up. In both cases the row must not be stored. And the errors of [`Inbox::await_events`] and [`Error::ListInbox`]. A repetition is safe.
    pub async fn await_events_of_rebuilt(&self, call: &Call, began: Timestamp, clock: &Clock) -> Result<(), Error> {
        let _turn = self.rebuilding.lock().await;
        let now = clock.now();
        if now.millis_since(began) > REBUILDING_MS_MAX {
            return Err(Error::RebuildPostponed);
        }
        let minutes = minute_of(call.created_at.min(now))..=minute_of(now);
        let received = self.ids_received_in(minutes, &call.call_id, REBUILT_PAGES_MAX).await?;
        let received = received.ok_or(Error::CreatedTooLongAgo)?;
        self.await_events(call, &received, now).await.map(drop)
    }

    /// Makes those of these events wait that the row of a call lacks, and lists them. The reconciler sends them to the queue within five minutes. Leaves out
    /// those that the consumer has decided not to fold, and those that are [discarded](Inbox::discard). Those that are retried or dead letters already are
    /// only listed. Returns true if it has made an event wait that can be read.
    ///
    /// An event that [cannot be read](Error::is_unreadable) waits too. It becomes a dead letter, unless another version folds it before.
    ///
    /// # Errors
    /// [`Error::ReadInbox`], [`Error::WriteInbox`]. A repetition is safe.
    pub async fn await_events(&self, call: &Call, ids: &[EventId], now: Timestamp) -> Result<bool, Error> {
        let mut is_any_new = false;
        for id in ids {
            if call.contains_event(id) || call.is_drift_found_id(id) {
                continue;
            }
            let note = self.get_item(&note_key(id)).await?.unwrap_or_default();
            if note.contains_key("disposition") || is_discarded(&note) {
                continue;
            }
            let is_known = Attention::parse(note).is_some_and(|mark| is_in_trouble(mark.kind));
            if !is_known {
                let note = Note {
                    first_tried_at: Some(now),
                    next_retry_at: Some(next_retry(now, now)),
                    waits: true,
                    ..Note::default()
                };
                match self.get_normalized(id).await {
                    Ok(Some(event)) => {
                        self.put_note(&event, &note, now).await?;
                        is_any_new = true;
                    }
                    Ok(None) => continue,
                    // Nobody may dial before a person knows of it, and it must not stop the others.
                    Err(error) if error.is_unreadable() => {
                        let cause = Some(error.operation().to_owned());
                        let note = Note { error: Some(error.to_string()), cause, ..note };
                        self.put_note_on(id, &call.call_id, id.origin(), None, &note, now).await?;
                    }
                    Err(error) => return Err(error),
                }
            }
            self.list_unfolded(&call.call_id, id, now).await?;
        }
        Ok(is_any_new)
    }

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
