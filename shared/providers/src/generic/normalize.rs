//! Meaning of generic events. Each event of a known type reports one call event. It also implies what must have happened before:
//! `ANSWERED` implies that the phone rang, and a decision implies that the person answered.

use switchhook_domain::{EventKind, Timestamp};

use super::payload::{Event, Proof, meaning};
use crate::call_events::CallEventSet;
use crate::correlation::{correlate, numbered_attempt};
use crate::ids;
use crate::lenient;
use crate::normalized::NormalizedEvent;
use crate::reading::{ReadError, ReadNotes, Reading};
use crate::webhook::VerifiedWebhook;

pub(crate) fn read(
    webhook: &VerifiedWebhook,
    received_at: Timestamp,
    notes: &mut ReadNotes,
) -> Result<Reading, ReadError> {
    let event: Event = lenient::from_body(webhook.body())?;
    let event_type = event.event_type().ok_or(ReadError::MissingEventType)?.to_owned();
    let event_id = match &event.event_id {
        Some(id) => ids::event_id(webhook.provider(), id),
        None => ids::event_id_of_body(webhook.provider(), webhook.body()),
    };
    let (occurred_at, echoed, attempt_number) = (event.occurred_at(), event.echoed_ids(), event.attempt_number());
    let call = event.call.unwrap_or_default();
    let mut correlation = correlate(webhook.provider(), &echoed, call.sid.as_deref(), notes);
    correlation.attempt =
        correlation.attempt.or_else(|| attempt_number.map(|number| numbered_attempt(webhook.provider(), number)));

    let Some((kind, proof)) = meaning(&event_type) else {
        notes.unknown_value = Some("event_type");
        return Ok(Reading::recorded(event_id, &event_type, correlation.call_id));
    };
    let normalized = NormalizedEvent {
        provider: webhook.provider(),
        event_id,
        event_type,
        correlation,
        direction: call.direction,
        from: call.from,
        to: call.to,
        call_events: call_events(kind, proof, occurred_at).into_sorted(),
        block_number: false,
    };
    normalized.into_reading(received_at)
}

/// Returns the call events of one event type.
///
/// A decision or a voicemail can be reported after the end of the call. So the answer that it implies gets no time: an answer
/// without a time comes before every event with a time.
fn call_events(kind: EventKind, proof: Proof, occurred_at: Option<Timestamp>) -> CallEventSet {
    let mut call_events = CallEventSet::reporting(kind, occurred_at);
    match proof {
        Proof::Nothing => {}
        Proof::Ringing => call_events.imply(EventKind::Ringing, occurred_at, None),
        Proof::Answer => {
            call_events.imply(EventKind::Ringing, None, None);
            call_events.imply(EventKind::InProgress, None, None);
        }
    }
    call_events
}
