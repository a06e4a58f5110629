//! Reading the body that contradicts a stored event.

use std::fmt;

use switchhook_domain::{EventId, Timestamp};

use super::event::StoredBody;
use super::item::{StoredConflictItem, conflict_key};
use super::table::Inbox;
use crate::error::Error;

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
