//! Meaning of generic events. Each event of a known type is one call event, and implies nothing.

use switchhook_domain::{Direction, Provider, Timestamp};

use super::payload::{self, Event, event_kind};
use crate::call_events::CallEventSet;
use crate::correlation::correlate;
use crate::ids;
use crate::lenient;
use crate::normalized::NormalizedEvent;
use crate::reading::{ReadError, Reading};
use crate::webhook::VerifiedWebhook;

pub(crate) fn read(webhook: &VerifiedWebhook, received_at: Timestamp) -> Result<Reading, ReadError> {
    let event: Event = lenient::from_body(webhook.body())?;
    let event_type = event.event_type().ok_or(ReadError::MissingEventType)?.to_owned();
    let event_id = match &event.event_id {
        Some(id) => ids::event_id(Provider::Generic, id),
        None => ids::event_id_of_body(Provider::Generic, webhook.body()),
    };
    let (occurred_at, echoed) = (event.occurred_at(), event.echoed_ids());
    let call = event.call.unwrap_or_default();
    let correlation = correlate(Provider::Generic, &echoed, call.sid.as_deref());

    let Some(kind) = event_kind(&event_type) else {
        return Ok(Reading::Recorded {
            event_id,
            event_type: ids::event_type(&event_type),
            call_id: correlation.call_id,
        });
    };
    let normalized = NormalizedEvent {
        provider: Provider::Generic,
        event_id,
        event_type,
        correlation,
        direction: call.direction.and_then(direction),
        from: call.from,
        to: call.to,
        call_events: CallEventSet::reporting(kind, occurred_at).into_sorted(),
    };
    normalized.into_reading(received_at)
}

fn direction(direction: payload::Direction) -> Option<Direction> {
    match direction {
        payload::Direction::Inbound => Some(Direction::Inbound),
        payload::Direction::Outbound => Some(Direction::Outbound),
        payload::Direction::Other => None,
    }
}
