//! The payload of a stored event, masked for people.

use switchhook_domain::EventId;
use switchhook_operate::mask::Masker;
use switchhook_operate::{Error, Stack};

/// Reads the masked payload of an event. `None` if the inbox does not hold the event.
pub(crate) async fn read(stack: &Stack, event_id: &EventId) -> Result<Option<String>, Error> {
    let Some(stored) = stack.inbox.get(event_id).await? else { return Ok(None) };
    let body = stack.inbox.read_body(&stored).await?;
    Ok(Some(Masker::new().body(&body).join("\n")))
}
