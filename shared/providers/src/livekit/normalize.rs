//! Meaning of LiveKit's webhooks.
//!
//! A telephone call is a participant of the kind SIP. Every other webhook is recorded, and changes no call.
//!
//! **No webhook reports a change of the call's status.** The participant joins while LiveKit dials, and its attribute `sip.callStatus`
//! is seen again only when it leaves. So the status at that time says whether somebody answered. If it leaves that open, the ending stays
//! unclear: nobody is called again who may have answered.

use switchhook_domain::{Direction, EventId, EventKind, Timestamp};

use super::payload::{Attributes, CallStatus, DisconnectReason, EventName, Kind, Webhook};
use crate::call_events::CallEventSet;
use crate::correlation::correlate;
use crate::ending::{CallTimes, Ending};
use crate::ids;
use crate::lenient;
use crate::normalized::{NormalizedEvent, with_plus};
use crate::reading::{ReadError, ReadNotes, Reading};
use crate::webhook::VerifiedWebhook;

pub(crate) fn read(
    webhook: &VerifiedWebhook,
    received_at: Timestamp,
    notes: &mut ReadNotes,
) -> Result<Reading, ReadError> {
    let event: Webhook = lenient::from_body(webhook.body())?;
    let name = event.event.clone().ok_or(ReadError::MissingEventType)?;
    let event_name = EventName::from_name(&name);
    let event_id = event_id(&event, webhook);
    let kind = event.participant.as_ref().map(|participant| participant.kind());
    notes.unknown_value = match (event_name, kind) {
        (EventName::Other, _) => Some("event"),
        (_, Some(Kind::Other)) => Some("kind"),
        (_, Some(Kind::Sip | Kind::Ignored) | None) => None,
    };
    let created_at = event.created_at();
    let Some(participant) = event.participant.filter(|_| kind == Some(Kind::Sip)) else {
        return Ok(Reading::recorded(event_id, &name, None));
    };
    let (reason, joined_at) = (participant.disconnect_reason(), participant.joined_at());
    let attributes = participant.into_attributes();
    let correlation = correlate(webhook.provider(), &attributes.echoed_ids(), attributes.call_id.as_deref(), notes);
    let call_events = match event_name {
        EventName::ParticipantJoined => joined(&attributes, created_at, notes),
        EventName::ParticipantLeft | EventName::ParticipantConnectionAborted => {
            left(&attributes, reason, CallTimes { started_at: joined_at, ended_at: created_at }, notes)
        }
        EventName::Ignored | EventName::Other => CallEventSet::new(None),
    };
    let call_events = call_events.into_sorted();
    if call_events.is_empty() {
        return Ok(Reading::recorded(event_id, &name, correlation.call_id));
    }
    let direction = direction(&attributes);
    let (person, own) = (attributes.phone_number.map(with_plus), attributes.trunk_phone_number.map(with_plus));
    let (from, to) = match direction {
        Direction::Inbound => (person, own),
        Direction::Outbound => (own, person),
    };
    let normalized = NormalizedEvent {
        provider: webhook.provider(),
        event_id,
        event_type: name,
        correlation,
        direction: Some(direction),
        from,
        to,
        call_events,
        block_number: false,
    };
    normalized.into_reading(received_at)
}

/// Id of the event. LiveKit gives each one, and a retry has the same.
fn event_id(event: &Webhook, webhook: &VerifiedWebhook) -> EventId {
    let (provider, body) = (webhook.provider(), webhook.body());
    match &event.id {
        Some(id) => ids::event_id(provider, id),
        None => ids::event_id_of_body(provider, body),
    }
}

/// Only an inbound call comes by a dispatch rule.
fn direction(attributes: &Attributes) -> Direction {
    if attributes.rule_id.is_some() { Direction::Inbound } else { Direction::Outbound }
}

fn joined(attributes: &Attributes, at: Option<Timestamp>, notes: &mut ReadNotes) -> CallEventSet {
    match status(attributes, notes) {
        CallStatus::Dialing | CallStatus::Hangup | CallStatus::Missing | CallStatus::Other => {
            CallEventSet::reporting(EventKind::Initiated, at)
        }
        CallStatus::Ringing => CallEventSet::reporting(EventKind::Ringing, at),
        CallStatus::Automation | CallStatus::Active => answered_since(at),
    }
}

fn answered_since(at: Option<Timestamp>) -> CallEventSet {
    let mut call_events = CallEventSet::reporting(EventKind::InProgress, at);
    call_events.imply(EventKind::Ringing, at, None);
    call_events
}

fn left(attributes: &Attributes, reason: DisconnectReason, times: CallTimes, notes: &mut ReadNotes) -> CallEventSet {
    let answered = match status(attributes, notes) {
        CallStatus::Automation | CallStatus::Active => true,
        // An outbound call gets this status only after an answer. An inbound one also gets it if the caller gave up.
        CallStatus::Hangup => direction(attributes) == Direction::Outbound,
        CallStatus::Dialing | CallStatus::Ringing | CallStatus::Missing | CallStatus::Other => false,
    };
    let ending = match (reason, answered) {
        // The call may go on with another connection. Its status still proves an answer.
        (DisconnectReason::Replaced, true) => return answered_since(times.started_at),
        (DisconnectReason::Replaced, false) => return CallEventSet::new(None),
        (DisconnectReason::SipTrunkFailure | DisconnectReason::MediaFailure, true) => Ending::FAILED_AFTER_ANSWER,
        (
            DisconnectReason::UserUnavailable
            | DisconnectReason::UserRejected
            | DisconnectReason::Unspecific
            | DisconnectReason::Other,
            true,
        ) => Ending::COMPLETED,
        (DisconnectReason::UserUnavailable, false) => Ending::NO_ANSWER,
        // LiveKit also gives this reason if the media cannot be agreed on after an answer. The webhook does not tell the two apart.
        (DisconnectReason::UserRejected, false) => Ending::BUSY,
        (DisconnectReason::SipTrunkFailure, false) => Ending::FAILED,
        // The media can fail because of the answer.
        (DisconnectReason::MediaFailure | DisconnectReason::Unspecific | DisconnectReason::Other, false) => {
            Ending::Unclear
        }
    };
    if reason == DisconnectReason::Other {
        notes.unknown_value = Some("disconnectReason");
    }
    ending.reported(times)
}

/// Status of the call. Notes an unknown one.
fn status(attributes: &Attributes, notes: &mut ReadNotes) -> CallStatus {
    let status = attributes.call_status();
    if status == CallStatus::Other {
        notes.unknown_value = Some("sip.callStatus");
    }
    status
}
