//! What Telnyx's events mean.
//!
//! There is no event of ringing, so whatever comes after it implies it. A hangup does not say whether the call was answered, and its
//! start time is that of the dial: an orderly end waits for the event that says so.

use switchhook_domain::{CallEvent, Direction, EventId, EventKind, Provider, Timestamp};

use super::payload::{self, EventType, HangupCause, Payload};
use crate::correlation::correlate;
use crate::ending::{CallTimes, Ending};
use crate::ids;
use crate::lenient;
use crate::normalized::{CallEventSet, NormalizedEvent};
use crate::reading::{ReadError, Reading};
use crate::webhook::VerifiedWebhook;

pub(crate) fn read(webhook: &VerifiedWebhook, received_at: Timestamp) -> Result<Reading, ReadError> {
    let webhook_payload: payload::Webhook = lenient::from_body(webhook.body())?;
    let event = webhook_payload.data.unwrap_or_default();
    let name = event.event_type.clone().ok_or(ReadError::MissingEventType)?;
    let event_type = EventType::from_name(&name);
    let occurred_at = event.occurred_at();
    let event_own_id = event.id.clone();
    let call = event.payload.unwrap_or_default();
    let event_id = event_id(event_own_id.as_deref(), event_type, &name, &call, webhook.body());
    let correlation = correlate(Provider::Telnyx, &call.echo(), call.call_control_id.as_deref());

    let call_events = match event_type {
        EventType::Initiated => CallEventSet::new(Some(main_event(EventKind::Initiated, occurred_at))),
        EventType::Answered => answered(Some(EventKind::InProgress), occurred_at),
        EventType::MachineDetection => {
            answered(call.detected_machine().then_some(EventKind::VoicemailDetected), occurred_at)
        }
        EventType::Hangup => ending(&call)
            .into_call_events(CallTimes { started_at: call.started_at(), ended_at: call.ended_at().or(occurred_at) }),
        EventType::Other => {
            return Ok(Reading::Recorded {
                event_id,
                event_type: ids::event_type(&name),
                call_id: correlation.call_id,
            });
        }
    };
    let report = NormalizedEvent {
        provider: Provider::Telnyx,
        event_id,
        event_type: name,
        correlation,
        direction: call.direction.and_then(direction),
        from: call.from,
        to: call.to,
        call_events: call_events.into_sorted(),
    };
    report.into_reading(received_at)
}

/// Telnyx gives each event an id, the same in every delivery. What we learn by asking has none: a call is begun, answered and hung up
/// once.
fn event_id(id: Option<&str>, event_type: EventType, name: &str, call: &Payload, body: &[u8]) -> EventId {
    if let Some(id) = id {
        return ids::event_id(Provider::Telnyx, id);
    }
    let Some(call_id) = &call.call_control_id else {
        return ids::event_id_of_body(Provider::Telnyx, body);
    };
    let own = match event_type {
        EventType::Initiated | EventType::Answered | EventType::Hangup => format!("{call_id}:{name}"),
        EventType::MachineDetection | EventType::Other => format!("{call_id}:{name}:{}", ids::short_hash(body)),
    };
    ids::event_id(Provider::Telnyx, &own)
}

fn direction(direction: payload::Direction) -> Option<Direction> {
    match direction {
        payload::Direction::Incoming => Some(Direction::Inbound),
        payload::Direction::Outgoing => Some(Direction::Outbound),
        payload::Direction::Other => None,
    }
}

/// Somebody or something answered.
fn answered(kind: Option<EventKind>, occurred_at: Option<Timestamp>) -> CallEventSet {
    let mut call_events = CallEventSet::new(kind.map(|kind| main_event(kind, occurred_at)));
    call_events.imply(EventKind::Ringing, occurred_at, None);
    call_events.imply(EventKind::InProgress, occurred_at, None);
    call_events
}

fn ending(call: &Payload) -> Ending {
    match call.hangup_cause {
        // Somebody who refuses to pick up.
        Some(HangupCause::CallRejected | HangupCause::UserBusy) => Ending::BUSY,
        Some(HangupCause::Timeout | HangupCause::NoAnswer) => Ending::NO_ANSWER,
        Some(HangupCause::OriginatorCancel) => Ending::CANCELED,
        Some(HangupCause::NotFound) => Ending::FAILED_PERMANENTLY,
        Some(HangupCause::NormalClearing | HangupCause::TimeLimit) => Ending::Unclear,
        Some(HangupCause::Other) if call.was_rejected() => Ending::FAILED,
        Some(HangupCause::Other) | None => Ending::Unclear,
    }
}

fn main_event(kind: EventKind, occurred_at: Option<Timestamp>) -> CallEvent {
    CallEvent { kind, implied: false, occurred_at, sequence: None, permanent: false }
}
