//! Meaning of Twilio's callbacks. The shared protocol defines it.

use switchhook_domain::Timestamp;

use crate::reading::{ReadError, ReadNotes, Reading};
use crate::twiml;
use crate::webhook::VerifiedWebhook;

pub(crate) fn read(
    webhook: &VerifiedWebhook,
    received_at: Timestamp,
    notes: &mut ReadNotes,
) -> Result<Reading, ReadError> {
    twiml::read(webhook, received_at, notes)
}
