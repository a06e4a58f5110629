//! Meaning of Vapi's messages.
//!
//! A `status-update` contains the state of the call. An `end-of-call-report` contains how the call ended, and the
//! analysis of the conversation. Vapi does not retry by default, so each message implies the earlier call events. A
//! call can have a start time although nobody answered, so a start time does not prove an answer. It only separates
//! faults and stops during a conversation from earlier ones. A call that ended at its start time was not answered.
//!
//! **A missing start time means something only in a message that has the times of the whole call.** The status update `ended`
//! repeats the call as it was created, without them. So it says neither that somebody answered nor that nobody did; the report does. If
//! the reason of such an update is a failure before the answer and another one after it, the update is only recorded. So it is if the reason may
//! mean that nobody was dialled.

use switchhook_domain::{Direction, EventId, EventKind, NeverDialled, Timestamp};

use super::payload::{self, CallStatus, CallType, EndedReason, Message};
use crate::call_events::CallEventSet;
use crate::correlation::{correlate, correlate_without_echo};
use crate::ending::{CallTimes, Ending};
use crate::ids;
use crate::lenient;
use crate::normalized::NormalizedEvent;
use crate::reading::{ReadError, ReadNotes, Reading};
use crate::user_decision::UserDecision;
use crate::webhook::VerifiedWebhook;

/// Message that asks which assistant shall take an inbound call.
pub(crate) const QUESTION: &str = "assistant-request";

pub(crate) fn read(
    webhook: &VerifiedWebhook,
    received_at: Timestamp,
    notes: &mut ReadNotes,
) -> Result<Reading, ReadError> {
    let payload: payload::Webhook = lenient::from_body(webhook.body())?;
    let message = payload.message.unwrap_or_default();
    let message_type = message.event_type.as_deref().ok_or(ReadError::MissingEventType)?;
    let mut kind = Kind::from_names(message_type, message.status.as_deref());
    if matches!(kind, Kind::Ended) && is_undecided(&message) {
        kind = Kind::Other;
    }
    let call_id = message.call.as_ref().and_then(|call| call.id.as_deref());
    let event_id = event_id(kind, message_type, &message, call_id, webhook);
    let call_type = message.call.as_ref().and_then(|call| call.call_type);
    let correlation = match call_type {
        Some(CallType::InboundPhoneCall | CallType::OutboundPhoneCall) => {
            correlate(webhook.provider(), &message.echoed_ids(), call_id, notes)
        }
        Some(CallType::Other) | None => {
            correlate_without_echo(webhook.provider(), &message.echoed_ids(), call_id, notes)
        }
    };
    let event_type = match (message_type, &message.status) {
        ("status-update", Some(status)) => format!("status-update:{status}"),
        (name, _) => name.to_owned(),
    };

    notes.unknown_value = unknown_value(&message, message_type);
    let call_events = match kind {
        Kind::Status(kind) => status(kind, message.occurred_at()),
        Kind::Forwarding => forwarding(message.occurred_at()),
        Kind::Ended => ending(&message, message.ended_at().is_some()).reported(call_times(&message)),
        Kind::Report => report(&message, webhook.decision()),
        Kind::Other => return Ok(Reading::recorded(event_id, &event_type, correlation.call_id)),
    };
    let direction = call_type.and_then(direction);
    let (from, to) = match direction {
        Some(Direction::Inbound) => (message.customer_number(), message.our_number()),
        Some(Direction::Outbound) => (message.our_number(), message.customer_number()),
        None => (None, None),
    };
    let normalized = NormalizedEvent {
        provider: webhook.provider(),
        event_id,
        event_type,
        correlation,
        direction,
        from,
        to,
        call_events: call_events.into_sorted(),
        block_number: false,
    };
    normalized.into_reading(received_at)
}

#[derive(Clone, Copy)]
enum Kind {
    Status(EventKind),
    Forwarding,
    Ended,
    Report,
    /// The status `scheduled`, `transcript`, `assistant-request`, future types, and an end that says nothing about the person.
    Other,
}

impl Kind {
    fn from_names(message_type: &str, status: Option<&str>) -> Self {
        match (message_type, status.map(CallStatus::from_name)) {
            ("end-of-call-report", _) => Self::Report,
            ("status-update", Some(CallStatus::Queued)) => Self::Status(EventKind::Initiated),
            ("status-update", Some(CallStatus::Ringing)) => Self::Status(EventKind::Ringing),
            ("status-update", Some(CallStatus::InProgress)) => Self::Status(EventKind::InProgress),
            ("status-update", Some(CallStatus::Forwarding)) => Self::Forwarding,
            ("status-update", Some(CallStatus::Ended)) => Self::Ended,
            ("status-update", Some(CallStatus::Scheduled | CallStatus::NotFound | CallStatus::Other) | None)
            | (_, _) => Self::Other,
        }
    }
}

/// Makes an event id, because Vapi sends none. A call has each status once. A report is identified by the hash of its result, because
/// Vapi may send it before it has the result, and can compute the result again. Every other message may occur any number of times,
/// so the hash of its body identifies it.
fn event_id(
    kind: Kind,
    message_type: &str,
    message: &Message,
    call_id: Option<&str>,
    webhook: &VerifiedWebhook,
) -> EventId {
    let (provider, body) = (webhook.provider(), webhook.body());
    let Some(call_id) = call_id else {
        return ids::event_id_of_body(provider, body);
    };
    let suffix = match (kind, message.status.as_deref()) {
        (Kind::Report, _) => match message.canonical_result() {
            Some(result) => format!("{call_id}:{message_type}:{}", ids::short_hash(result.as_bytes())),
            None => format!("{call_id}:{message_type}"),
        },
        (Kind::Status(_) | Kind::Forwarding | Kind::Ended, Some(status)) => {
            format!("{call_id}:{message_type}:{status}")
        }
        (Kind::Status(_) | Kind::Forwarding | Kind::Ended | Kind::Other, _) => {
            format!("{call_id}:{message_type}:{}", ids::short_hash(body))
        }
    };
    ids::event_id(provider, &suffix)
}

/// Name of a field with a value that Vapi has added to its list.
fn unknown_value(message: &Message, message_type: &str) -> Option<&'static str> {
    if !payload::is_known_type(message_type) {
        return Some("type");
    }
    let status = message.status.as_deref().filter(|_| message_type == "status-update").map(CallStatus::from_name);
    match (message.ended_reason().map(EndedReason::from_name), status) {
        (Some(EndedReason::Unknown), _) => Some("endedReason"),
        (_, Some(CallStatus::Other)) => Some("status"),
        (_, _) => None,
    }
}

fn direction(call_type: CallType) -> Option<Direction> {
    match call_type {
        CallType::InboundPhoneCall => Some(Direction::Inbound),
        CallType::OutboundPhoneCall => Some(Direction::Outbound),
        CallType::Other => None,
    }
}

/// True if the reason means one failure before the answer and another one after it, or that nobody was dialled unless somebody answered, and no
/// time says which. A bare `completed` would be evidence against the report: that nobody was dialled, or that the conversation broke off. No
/// report may come after the answer to a lookup, so that answer ends the call.
fn is_undecided(message: &Message) -> bool {
    let reason = message.ended_reason().map(EndedReason::from_name);
    let depends = matches!(reason, Some(EndedReason::Fault | EndedReason::NoAssistant | EndedReason::TrunkRefused));
    depends && !message.is_looked_up() && message.started_at().is_none() && message.ended_at().is_none()
}

fn status(kind: EventKind, occurred_at: Option<Timestamp>) -> CallEventSet {
    let mut call_events = CallEventSet::reporting(kind, occurred_at);
    if kind == EventKind::InProgress {
        call_events.imply(EventKind::Ringing, occurred_at, None);
    }
    call_events
}

/// Call events of a forwarded call. Only an answered call can be forwarded.
fn forwarding(occurred_at: Option<Timestamp>) -> CallEventSet {
    let mut call_events = CallEventSet::new(None);
    call_events.imply(EventKind::Ringing, occurred_at, None);
    call_events.imply(EventKind::InProgress, occurred_at, None);
    call_events
}

/// Call events of a report, which contains how the call ended and perhaps the person's decision.
///
/// The decision is ignored if nobody answered, whatever Vapi found in the empty transcript, and if a voicemail
/// answered: a machine cannot confirm.
fn report(message: &Message, decided: Option<UserDecision>) -> CallEventSet {
    let ending = ending(message, true);
    let decision = match ending {
        Ending::NotAnswered { .. } | Ending::NeverDialled(_) | Ending::Answered { voicemail: true, .. } => None,
        Ending::Answered { voicemail: false, .. } | Ending::Unclear => decided.or_else(|| message.decision()),
    };
    let Some(decision) = decision else {
        return ending.reported(call_times(message));
    };
    let mut call_events = ending.implied_with(Some(decision.event_kind()), call_times(message));
    if matches!(ending, Ending::Unclear) {
        // Vapi sends this report only after the end of the call.
        call_events.imply(EventKind::Completed, call_times(message).ended_at, None);
    }
    call_events
}

/// Reads how the call ended. `has_times` is false if the message does not have the times of the whole call.
fn ending(message: &Message, has_times: bool) -> Ending {
    let started_at = message.started_at();
    // The call ended at the moment at which it started, so there was no conversation.
    let is_empty = started_at.is_some() && started_at == message.ended_at();
    let started = started_at.is_some() && !is_empty;
    let reason = message.ended_reason().map_or(EndedReason::Unclear, EndedReason::from_name);
    match (reason, started) {
        (EndedReason::Conversation | EndedReason::Unclear | EndedReason::Unknown, _) if is_empty => Ending::NO_ANSWER,
        // The report may show that the call ended at its start.
        (EndedReason::Conversation, false) if !has_times => Ending::Unclear,
        (EndedReason::Conversation, _) => Ending::COMPLETED,
        (EndedReason::Voicemail, _) => Ending::VOICEMAIL,
        (EndedReason::Busy, _) => Ending::BUSY,
        (EndedReason::NoAnswer, _) => Ending::NO_ANSWER,
        (EndedReason::CallerHungUp, _) => Ending::CANCELED,
        // A fault or a stop before the answer, or during the conversation.
        (EndedReason::Stopped | EndedReason::Fault | EndedReason::NoAssistant | EndedReason::TrunkRefused, false)
            if !has_times =>
        {
            Ending::Unclear
        }
        (EndedReason::Stopped, true) => Ending::COMPLETED,
        (EndedReason::Stopped, false) => Ending::CANCELED,
        (EndedReason::NeverDialled(reason), _) => Ending::NeverDialled(reason),
        (EndedReason::NoAssistant | EndedReason::TrunkRefused, false) => Ending::NeverDialled(NeverDialled::Account),
        (EndedReason::NeverConnected, _) => Ending::FAILED,
        // Without the times, it may have been a transfer. With a start, the dial may still have failed.
        (EndedReason::DialOrTransfer(_), false) if !has_times => Ending::Unclear,
        (EndedReason::DialOrTransfer(_) | EndedReason::NoAssistant, true) => Ending::Unclear,
        (EndedReason::DialOrTransfer(dial), false) => dial,
        (EndedReason::WrongNumber, _) => Ending::FAILED_PERMANENTLY,
        (EndedReason::Fault | EndedReason::TrunkRefused, true) => Ending::FAILED_AFTER_ANSWER,
        (EndedReason::Fault, false) => Ending::FAILED,
        (EndedReason::Unclear | EndedReason::Unknown, _) => Ending::Unclear,
    }
}

/// Times of the call. Without an end time, the time of the message is used, because it was sent at the end.
fn call_times(message: &Message) -> CallTimes {
    CallTimes { started_at: message.started_at(), ended_at: message.ended_at().or_else(|| message.occurred_at()) }
}
