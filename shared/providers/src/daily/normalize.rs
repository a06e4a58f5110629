//! Meaning of Daily's events.
//!
//! A call is the stay of one phone in a room: a dial-out, or somebody who calls in. Daily names it by its session.
//!
//! **`dialout.stopped` says only that the call is over.** Daily documents no event that says why nobody answered. So the ending stays
//! unclear, unless `dialout.answered` says that somebody did.

use switchhook_domain::{Direction, EventId, EventKind, Timestamp};

use super::payload::{Event, EventType, Payload};
use crate::call_events::CallEventSet;
use crate::correlation::{EchoedIds, correlate};
use crate::ending::{CallTimes, Ending};
use crate::ids;
use crate::lenient;
use crate::normalized::NormalizedEvent;
use crate::reading::{ReadError, ReadNotes, Reading};
use crate::webhook::VerifiedWebhook;

/// Type under which the body is recorded that Daily sends to try a URL. It has no type of its own.
const TEST: &str = "test";

/// Start of a `userId` that names an appointment. Any other `userId` names a participant, who may have many calls.
const APPOINTMENT_PREFIX: &str = "appointment:";

pub(crate) fn read(
    webhook: &VerifiedWebhook,
    received_at: Timestamp,
    notes: &mut ReadNotes,
) -> Result<Reading, ReadError> {
    let mut event: Event = lenient::from_body(webhook.body())?;
    let name = match event.event_type.take() {
        Some(name) => name,
        None if event.test.is_some() => {
            let event_id = ids::event_id_of_body(webhook.provider(), webhook.body());
            return Ok(Reading::recorded(event_id, TEST, None));
        }
        None => return Err(ReadError::MissingEventType),
    };
    let event_type = EventType::from_name(&name);
    if event_type == EventType::Other {
        notes.unknown_value = Some("type");
    }
    let payload = event.payload.take().unwrap_or_default();
    let event_id = event_id(event.id.as_deref(), &name, &payload, webhook);
    let session_id = match event_type {
        // A participant has a session, too, and a participant may be a phone or not.
        EventType::NoCall | EventType::Other => None,
        EventType::DialOutConnected
        | EventType::DialOutAnswered
        | EventType::DialOutStopped
        | EventType::DialOutError
        | EventType::DialInConnected
        | EventType::DialInStopped
        | EventType::DialInError
        | EventType::NoChange => payload.session_id.as_deref(),
    };
    let echoed = session_id.map(|_| echoed_ids(&payload)).unwrap_or_default();
    let correlation = correlate(webhook.provider(), &echoed, session_id, notes);
    let call_events = call_events(event_type, payload.occurred_at()).into_sorted();
    let direction = direction(event_type);
    // A call that failed before it had a session is no call that anything else is known about.
    let is_failure_alone =
        session_id.is_none() && matches!(event_type, EventType::DialOutError | EventType::DialInError);
    if call_events.is_empty() || is_failure_alone {
        return Ok(Reading::recorded(event_id, &name, correlation.call_id));
    }
    let (from, to) = match direction {
        Some(Direction::Inbound) => (payload.sip_from, None),
        Some(Direction::Outbound) | None => (payload.origin, payload.destination),
    };
    let normalized = NormalizedEvent {
        provider: webhook.provider(),
        event_id,
        event_type: name,
        correlation,
        direction,
        from,
        to,
        call_events,
        block_number: false,
    };
    normalized.into_reading(received_at)
}

/// Id of the event. Daily's id is the same in every delivery. The type is added, because Daily's own examples use one id for two types.
fn event_id(id: Option<&str>, name: &str, payload: &Payload, webhook: &VerifiedWebhook) -> EventId {
    let (provider, body) = (webhook.provider(), webhook.body());
    let suffix = match (id, payload.session_id.as_deref(), payload.timestamp()) {
        (Some(id), _, _) => format!("{id}:{name}"),
        (None, Some(session_id), Some(timestamp)) => format!("{session_id}:{name}:{timestamp}"),
        (None, Some(_) | None, _) => return ids::event_id_of_body(provider, body),
    };
    ids::event_id(provider, &suffix)
}

/// Our ids in the event. A dial-out has one field for them, of 36 characters.
fn echoed_ids(payload: &Payload) -> EchoedIds {
    let appointment_id = payload.user_id.as_deref().and_then(|id| id.strip_prefix(APPOINTMENT_PREFIX));
    let appointment_id = appointment_id.filter(|id| !id.trim().is_empty()).map(str::to_owned);
    EchoedIds { appointment_id, ..EchoedIds::default() }
}

fn direction(event_type: EventType) -> Option<Direction> {
    match event_type {
        EventType::DialOutConnected
        | EventType::DialOutAnswered
        | EventType::DialOutStopped
        | EventType::DialOutError => Some(Direction::Outbound),
        EventType::DialInConnected | EventType::DialInStopped | EventType::DialInError => Some(Direction::Inbound),
        EventType::NoChange | EventType::NoCall | EventType::Other => None,
    }
}

fn call_events(event_type: EventType, occurred_at: Option<Timestamp>) -> CallEventSet {
    let times = CallTimes { started_at: None, ended_at: occurred_at };
    match event_type {
        EventType::DialOutConnected => CallEventSet::reporting(EventKind::Ringing, occurred_at),
        // Nothing rings inside a room: whoever calls in is connected at once.
        EventType::DialOutAnswered | EventType::DialInConnected => {
            let mut call_events = CallEventSet::reporting(EventKind::InProgress, occurred_at);
            call_events.imply(EventKind::Ringing, occurred_at, None);
            call_events
        }
        EventType::DialOutStopped | EventType::DialInStopped => Ending::Unclear.reported(times),
        EventType::DialOutError | EventType::DialInError => Ending::FAILED.reported(times),
        EventType::NoChange | EventType::NoCall | EventType::Other => CallEventSet::new(None),
    }
}
