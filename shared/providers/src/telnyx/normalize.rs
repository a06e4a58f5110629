//! Meaning of Telnyx's events.
//!
//! Telnyx has no event for ringing, so every later event implies it. A hangup does not say whether the call was
//! answered, and its start time is the time of the dial. So the ending of a normal hangup stays unclear until
//! `call.answered` arrives.

use switchhook_domain::{Direction, EventId, EventKind, Timestamp};

use super::payload::{self, Detection, EventType, HangupCause, Payload};
use crate::call_events::CallEventSet;
use crate::correlation::correlate;
use crate::ending::{CallTimes, Ending};
use crate::ids;
use crate::lenient;
use crate::normalized::NormalizedEvent;
use crate::reading::{ReadError, ReadNotes, Reading};
use crate::user_decision::UserDecision;
use crate::webhook::VerifiedWebhook;

pub(crate) fn read(
    webhook: &VerifiedWebhook,
    received_at: Timestamp,
    notes: &mut ReadNotes,
) -> Result<Reading, ReadError> {
    let webhook_payload: payload::Webhook = lenient::from_body(webhook.body())?;
    let event = webhook_payload.data.unwrap_or_default();
    let name = event.event_type.clone().ok_or(ReadError::MissingEventType)?;
    let event_type = EventType::from_name(&name);
    let occurred_at = event.occurred_at();
    let event_own_id = event.id.clone();
    let call = event.payload.unwrap_or_default();
    let event_id = event_id(event_own_id.as_deref(), event_type, &name, &call, webhook);
    let correlation = correlate(webhook.provider(), &call.echoed_ids(), call.call_control_id.as_deref(), notes);

    notes.unknown_value = unknown_value(event_type, &call);
    let call_events = match event_type {
        EventType::Initiated => CallEventSet::reporting(EventKind::Initiated, occurred_at),
        EventType::Answered => answered(Some(EventKind::InProgress), occurred_at),
        EventType::MachineDetection if correlation.attempt.is_some() => {
            let machine = call.detection() == Detection::Machine;
            answered(machine.then_some(EventKind::VoicemailDetected), occurred_at)
        }
        EventType::Analyzed => analyzed(&call, webhook.decision(), occurred_at),
        EventType::Hangup => ending(&call)
            .reported(CallTimes { started_at: call.started_at(), ended_at: call.ended_at().or(occurred_at) }),
        // A machine event that names no attempt would count for every earlier attempt of its call. Telnyx's examples of some have no
        // `call_control_id`. Other events tell the same: `call.answered`, and the end of the detection.
        EventType::MachineDetection | EventType::Ignored | EventType::Other => {
            return Ok(Reading::recorded(event_id, &name, correlation.call_id));
        }
    };
    let normalized = NormalizedEvent {
        provider: webhook.provider(),
        event_id,
        event_type: name,
        correlation,
        direction: call.direction.and_then(direction),
        from: call.from,
        to: call.to,
        call_events: call_events.into_sorted(),
        block_number: false,
    };
    normalized.into_reading(received_at)
}

/// Returns Telnyx's own event id, which is the same in every delivery. The result of a lookup has none, so it gets an
/// id from the call and the event type: a call is initiated, answered and hung up once.
fn event_id(id: Option<&str>, event_type: EventType, name: &str, call: &Payload, webhook: &VerifiedWebhook) -> EventId {
    let (provider, body) = (webhook.provider(), webhook.body());
    if let Some(id) = id {
        return ids::event_id(provider, id);
    }
    let Some(call_id) = &call.call_control_id else {
        return ids::event_id_of_body(provider, body);
    };
    let suffix = match event_type {
        EventType::Initiated | EventType::Answered | EventType::Hangup => format!("{call_id}:{name}"),
        EventType::MachineDetection | EventType::Analyzed | EventType::Ignored | EventType::Other => {
            format!("{call_id}:{name}:{}", ids::short_hash(body))
        }
    };
    ids::event_id(provider, &suffix)
}

/// Name of a field with a value that Telnyx has added to its list.
fn unknown_value(event_type: EventType, call: &Payload) -> Option<&'static str> {
    match event_type {
        EventType::Hangup => (call.hangup_cause == Some(HangupCause::Other)).then_some("hangup_cause"),
        EventType::MachineDetection => (call.detection() == Detection::Unknown).then_some("result"),
        EventType::Other => Some("event_type"),
        EventType::Initiated | EventType::Answered | EventType::Analyzed | EventType::Ignored => None,
    }
}

fn direction(direction: payload::Direction) -> Option<Direction> {
    match direction {
        payload::Direction::Incoming => Some(Direction::Inbound),
        payload::Direction::Outgoing => Some(Direction::Outbound),
        payload::Direction::Other => None,
    }
}

/// Call events of an answered call.
fn answered(kind: Option<EventKind>, occurred_at: Option<Timestamp>) -> CallEventSet {
    let mut call_events =
        kind.map_or_else(|| CallEventSet::new(None), |kind| CallEventSet::reporting(kind, occurred_at));
    call_events.imply(EventKind::Ringing, occurred_at, None);
    call_events.imply(EventKind::InProgress, occurred_at, None);
    call_events
}

/// Call events of an analysis. It is made after the end of the call, so the answer that it proves has no time: such a
/// beginning comes before every event with a time. An analysis that says that a machine answered holds no decision of the person.
fn analyzed(call: &Payload, decided: Option<UserDecision>, occurred_at: Option<Timestamp>) -> CallEventSet {
    let is_machine = call.detection() == Detection::Machine;
    let decision = decided.or_else(|| call.decision()).filter(|_| !is_machine).map(UserDecision::event_kind);
    let mut call_events =
        decision.map_or_else(|| CallEventSet::new(None), |kind| CallEventSet::reporting(kind, occurred_at));
    if decision.is_some() || call.has_conversation() {
        call_events.imply(EventKind::Ringing, None, None);
        call_events.imply(EventKind::InProgress, None, None);
    }
    call_events
}

fn ending(call: &Payload) -> Ending {
    match call.hangup_cause {
        Some(HangupCause::CallRejected) if call.was_forbidden() => Ending::FAILED,
        // The person rejected the call, or the line is busy.
        Some(HangupCause::CallRejected | HangupCause::UserBusy) => Ending::BUSY,
        Some(HangupCause::Timeout | HangupCause::NoAnswer) => Ending::NO_ANSWER,
        Some(HangupCause::OriginatorCancel) => Ending::CANCELED,
        Some(HangupCause::NotFound) => Ending::FAILED_PERMANENTLY,
        Some(HangupCause::NormalClearing | HangupCause::TimeLimit) => Ending::Unclear,
        Some(HangupCause::Unspecified | HangupCause::Other) if call.was_rejected() => Ending::FAILED,
        Some(HangupCause::Unspecified | HangupCause::Other) | None => Ending::Unclear,
    }
}
