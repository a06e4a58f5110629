//! The body that contradicts a stored event.

use std::fmt;

use serde_bytes::Bytes;
use switchhook_domain::{EventId, Timestamp};

use super::attention::AttentionKind;
use super::event::{INLINE_BYTES_MAX, StoredBody, body_hash, compress};
use super::item::{ConflictItem, StoredConflictItem, conflict_key};
use super::new_event::NewEvent;
use super::table::Inbox;
use crate::compression::Compressed;
use crate::error::Error;

/// Cause in the index of items that a person should look at, for a body that contradicts the stored one.
const CONFLICT_CAUSE: &str = "conflicting_body";

/// Body that arrived under the id of a stored event, with other content.
pub struct ConflictingBody {
    pub received_at: Timestamp,
    pub body: Vec<u8>,
}

impl fmt::Debug for ConflictingBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConflictingBody").field("received_at", &self.received_at).finish_non_exhaustive()
    }
}

impl Inbox {
    /// Stores the body of an event whose id belongs to a stored event with other content. Keeps only the first such
    /// body. Returns true if this is the first.
    ///
    /// # Errors
    /// [`Error::WriteInbox`], [`Error::ReadInbox`].
    pub async fn put_conflict(&self, event: &NewEvent) -> Result<bool, Error> {
        let event_id = conflict_key(&event.event_id);
        let body_hash = body_hash(&event.body);
        let Compressed { bytes, dictionary } = compress(&event.body)?;
        if bytes.len() > INLINE_BYTES_MAX && self.get_item(&event_id).await?.is_some() {
            return Ok(false);
        }
        let body_chunks = self.put_chunks(event, &body_hash, &bytes).await?;
        self.put_new_item(&ConflictItem {
            attention: self.attention_key(AttentionKind::Conflict, &event_id, event.received_at),
            attention_at: event.received_at,
            cause: CONFLICT_CAUSE,
            event_id,
            call_id: event.call_id.as_ref(),
            origin: event.origin,
            event_type: &event.event_type,
            received_at: event.received_at,
            body: body_chunks.is_none().then(|| Bytes::new(&bytes)),
            body_chunks,
            dictionary,
            body_hash: &body_hash,
            expires_at: self.expires_at(event.received_at),
        })
        .await
    }

    /// Reads the body that contradicts the stored event with this id. `None` if there is none.
    ///
    /// # Errors
    /// The same as [`Inbox::read_body`].
    pub async fn get_conflict(&self, event_id: &EventId) -> Result<Option<ConflictingBody>, Error> {
        let Some(item) = self.get_item(&conflict_key(event_id)).await? else { return Ok(None) };
        let item: StoredConflictItem =
            serde_dynamo::from_item(item).map_err(|_| Error::DecodeInbox("the conflicting body"))?;
        let body = StoredBody::decode(item.body, item.body_chunks)?;
        let body = self.read_stored_body(event_id, &body, &item.body_hash, item.dictionary).await?;
        Ok(Some(ConflictingBody { received_at: item.received_at, body }))
    }
}
