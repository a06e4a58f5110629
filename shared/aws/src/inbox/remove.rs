//! Deletion of an event without a trace, for an event that an operator's check made, or that an operator's run stored in vain. The inbox
//! is append-only otherwise.

use switchhook_domain::EventId;

use super::item::{conflict_key, note_key};
use super::table::Inbox;
use crate::dynamodb::text;
use crate::error::Error;

impl Inbox {
    /// Deletes an event with a small body, its note and its conflicting body. An item that does not exist is no error.
    ///
    /// **Delete the event before its call**: the sweep would queue an event again that its call lacks.
    ///
    /// # Errors
    /// [`Error::WriteInbox`]. A repetition is safe.
    pub async fn remove(&self, event_id: &EventId) -> Result<(), Error> {
        for key in [event_id.to_string(), note_key(event_id), conflict_key(event_id)] {
            let request = self.client.delete_item().table_name(&self.table).key("event_id", text(&key));
            request.send().await.map_err(|error| Error::WriteInbox(Box::new(error)))?;
        }
        Ok(())
    }
}
