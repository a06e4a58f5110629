//! Notes on events that the consumer could not fold.

use switchhook_domain::{Disposition, EventId, Timestamp};

use super::item::{NoteItem, disposition_of, note_key};
use super::table::Inbox;
use crate::error::Error;

/// Note on an event: why it was not folded, or how often that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// Number of failed attempts of the consumer.
    pub attempts: u32,
    pub error: Option<String>,
    pub next_retry_at: Option<Timestamp>,
    pub dead_lettered_at: Option<Timestamp>,
    /// Refused or quarantined. `None` if the consumer has not decided against folding the event.
    pub disposition: Option<Disposition>,
}

impl Inbox {
    /// Writes the note on an event. Replaces an earlier note.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn put_note(&self, event_id: &EventId, note: &Note, now: Timestamp) -> Result<(), Error> {
        self.put_item(&NoteItem {
            event_id: note_key(event_id),
            attempts: note.attempts,
            error: note.error.clone(),
            next_retry_at: note.next_retry_at,
            dead_lettered_at: note.dead_lettered_at,
            disposition: note.disposition.map(|disposition| disposition.as_str().to_owned()),
            expires_at: self.expires_at(now),
        })
        .await
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
            next_retry_at: note.next_retry_at,
            dead_lettered_at: note.dead_lettered_at,
            disposition: note.disposition.as_deref().and_then(disposition_of),
        }))
    }
}
