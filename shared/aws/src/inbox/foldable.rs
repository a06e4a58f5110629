//! Recorded and quarantined events that become foldable, because their meaning is known since.

use aws_sdk_dynamodb::types::AttributeValue;
use switchhook_domain::ProviderEvent;

use super::event::{Reread, StoredEvent, compressed_reading};
use super::table::Inbox;
use crate::dynamodb::{ConditionalWrite, number, text};
use crate::error::Error;

impl Inbox {
    /// Makes an event foldable that an earlier version of the program recorded or quarantined, if this version can fold it. The
    /// stored item loses its disposition and gets its call and its type; its body and its id stay. So the sweep, the refold and
    /// the drift check treat it like any other event. The caller must then queue it.
    ///
    /// # Errors
    /// The same as [`Inbox::renormalize`], and [`Error::WriteInbox`]. A repetition is safe.
    pub async fn make_foldable(&self, stored: &StoredEvent) -> Result<Reread, Error> {
        let reread = self.read_again(stored).await?;
        let Reread::Foldable(event) = &reread else { return Ok(reread) };
        if stored.disposition.is_none() {
            return Ok(reread);
        }
        // If another operator was faster, or the event is deleted, nothing is written.
        self.clear_disposition(stored, event, None).await?;
        Ok(reread)
    }

    /// Makes an event foldable that was recorded because its provider's mapping had no rule for it, with the reading of a later
    /// delivery. Returns false if that is not possible: another delivery was faster, or the event is deleted or was compressed by
    /// another version of the program.
    ///
    /// # Errors
    /// [`Error::WriteInbox`]. A repetition is safe.
    pub(super) async fn adopt_reading(&self, stored: &StoredEvent, event: &ProviderEvent) -> Result<bool, Error> {
        let (reading, dictionary) = compressed_reading(event)?;
        if stored.dictionary != Some(dictionary) {
            return Ok(false);
        }
        self.clear_disposition(stored, event, Some(reading)).await
    }

    /// Removes the disposition of a stored event, and sets its call, its type and perhaps its reading. Returns false if the event
    /// has no disposition any more.
    async fn clear_disposition(
        &self,
        stored: &StoredEvent,
        event: &ProviderEvent,
        reading: Option<Vec<u8>>,
    ) -> Result<bool, Error> {
        let bucket = self.received_bucket(Some(&event.call_id), &event.event_id, stored.received_at);
        let occurred_at = event.occurred_at();
        let mut update = "SET call_id = :call, #type = :type, received_bucket = :bucket".to_owned();
        if occurred_at.is_some() {
            update.push_str(", occurred_at = :occurred");
        }
        if reading.is_some() {
            update.push_str(", reading = :reading");
        }
        update.push_str(" REMOVE disposition, attention, attention_at, cause");
        let request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("event_id", text(stored.event_id.as_str()))
            .condition_expression("attribute_exists(event_id) AND attribute_exists(disposition)")
            .update_expression(update)
            .expression_attribute_names("#type", "type")
            .expression_attribute_values(":call", text(event.call_id.as_str()))
            .expression_attribute_values(":type", text(&event.event_type))
            .expression_attribute_values(":bucket", text(&bucket));
        let request = match occurred_at {
            Some(at) => request.expression_attribute_values(":occurred", number(at.as_millis())),
            None => request,
        };
        let request = match reading {
            Some(reading) => request.expression_attribute_values(":reading", AttributeValue::B(reading.into())),
            None => request,
        };
        match ConditionalWrite::from_result(request.send().await).map_err(Error::WriteInbox)? {
            ConditionalWrite::Applied(_) => Ok(true),
            ConditionalWrite::Refused(_) => Ok(false),
        }
    }
}
