//! Meaning of SignalWire's webhooks. A callback of cXML has the same meaning as at Twilio.
//!
//! **JSON of SWML is stored and changes no call.** Switchhook places its calls with cXML, so it needs no such webhook. And one key signs
//! both kinds, and nothing in the signed bytes tells them apart. A text that a caller dictates into one kind must not pass for the
//! other.

use switchhook_domain::Timestamp;

use super::payload::Event;
use crate::ids;
use crate::lenient;
use crate::reading::{ReadError, ReadNotes, Reading};
use crate::twiml;
use crate::webhook::VerifiedWebhook;

/// Event type of SWML's JSON that names none.
const UNNAMED: &str = "unknown";

pub(crate) fn read(
    webhook: &VerifiedWebhook,
    received_at: Timestamp,
    notes: &mut ReadNotes,
) -> Result<Reading, ReadError> {
    if twiml::is_json(webhook.query()) || !is_object(webhook.body()) {
        return twiml::read(webhook, received_at, notes);
    }
    let event: Event = lenient::from_body(webhook.body())?;
    let event_id = ids::event_id_of_body(webhook.provider(), webhook.body());
    Ok(Reading::recorded(event_id, event.event_type.as_deref().unwrap_or(UNNAMED), None))
}

/// True if the body begins like a JSON object. No form of a callback does.
fn is_object(body: &[u8]) -> bool {
    body.trim_ascii_start().first() == Some(&b'{')
}
