//! The payload of a stored event, for people.

use switchhook_domain::EventId;
use switchhook_operate::mask::Masker;
use switchhook_operate::{Error, Stack};

/// Reads the payload of an event: masked, or `whole` on request. `None` if the inbox does not hold the event.
pub(crate) async fn read(stack: &Stack, event_id: &EventId, whole: bool) -> Result<Option<String>, Error> {
    let Some(stored) = stack.inbox.get(event_id).await? else { return Ok(None) };
    let body = stack.inbox.read_body(&stored).await?;
    Ok(Some(if whole { String::from_utf8_lossy(&body).into_owned() } else { Masker::new().body(&body).join("\n") }))
}
