//! What Vapi's messages mean.
//!
//! A `status-update` says where the call is, an `end-of-call-report` how it ended and what was said. Vapi does not retry unless it is
//! told to, so each report implies what must have come before. A call has a start time even if nobody answered, so that alone is no
//! answer; it only tells a fault in a conversation from one before it.

use switchhook_domain::{CallEvent, Direction, EventId, EventKind, Provider, Timestamp};

use super::payload::{self, CallStatus, CallType, EndedReason, Message};
use crate::correlation::correlate;
use crate::ending::{CallTimes, Ending};
use crate::ids;
use crate::lenient;
use crate::normalized::{CallEventSet, NormalizedEvent};
use crate::reading::{ReadError, Reading};
use crate::user_decision::UserDecision;
use crate::webhook::VerifiedWebhook;

pub(crate) fn read(webhook: &VerifiedWebhook, received_at: Timestamp) -> Result<Reading, ReadError> {
    let payload: payload::Webhook = lenient::from_body(webhook.body())?;
    let message = payload.message.unwrap_or_default();
    let message_type = message.event_type.as_deref().ok_or(ReadError::MissingEventType)?;
    let kind = Kind::of(message_type, message.status.as_deref());
    let call_id = message.call.as_ref().and_then(|call| call.id.as_deref());
    let event_id = event_id(kind, message_type, message.status.as_deref(), call_id, webhook.body());
    let correlation = correlate(Provider::Vapi, &message.echo(), call_id);
    let event_type = match (message_type, &message.status) {
        ("status-update", Some(status)) => format!("status-update:{status}"),
        (name, _) => name.to_owned(),
    };

    let call_events = match kind {
        Kind::Status(own) => status(own, message.occurred_at()),
        Kind::Forwarding => forwarding(message.occurred_at()),
        Kind::Ended => ending(&message).into_call_events(call_times(&message)),
        Kind::Report => report(&message),
        Kind::Other => {
            return Ok(Reading::Recorded {
                event_id,
                event_type: ids::event_type(&event_type),
                call_id: correlation.call_id,
            });
        }
    };
    let direction = message.call.as_ref().and_then(|call| direction(call.call_type?));
    let (from, to) = match direction {
        Some(Direction::Inbound) => (message.customer_number(), message.our_number()),
        Some(Direction::Outbound) => (message.our_number(), message.customer_number()),
        None => (None, None),
    };
    let report = NormalizedEvent {
        provider: Provider::Vapi,
        event_id,
        event_type,
        correlation,
        direction,
        from,
        to,
        call_events: call_events.into_sorted(),
    };
    report.into_reading(received_at)
}

#[derive(Clone, Copy)]
enum Kind {
    Status(EventKind),
    Forwarding,
    Ended,
    Report,
    /// A call that is only planned, `transcript`, `assistant-request`, and what Vapi adds next.
    Other,
}

impl Kind {
    fn of(message_type: &str, status: Option<&str>) -> Self {
        match (message_type, status.map(CallStatus::from_name)) {
            ("end-of-call-report", _) => Self::Report,
            ("status-update", Some(CallStatus::Queued)) => Self::Status(EventKind::Initiated),
            ("status-update", Some(CallStatus::Ringing)) => Self::Status(EventKind::Ringing),
            ("status-update", Some(CallStatus::InProgress)) => Self::Status(EventKind::InProgress),
            ("status-update", Some(CallStatus::Forwarding)) => Self::Forwarding,
            ("status-update", Some(CallStatus::Ended)) => Self::Ended,
            ("status-update", Some(CallStatus::Scheduled | CallStatus::Other) | None) | (_, _) => Self::Other,
        }
    }
}

/// Vapi has no event id: a call has each status once and is reported once, and may say anything else any number of times.
fn event_id(kind: Kind, message_type: &str, status: Option<&str>, call_id: Option<&str>, body: &[u8]) -> EventId {
    let Some(call_id) = call_id else {
        return ids::event_id_of_body(Provider::Vapi, body);
    };
    let own = match (kind, status) {
        (Kind::Report, _) => format!("{call_id}:{message_type}"),
        (Kind::Status(_) | Kind::Forwarding | Kind::Ended, Some(status)) => {
            format!("{call_id}:{message_type}:{status}")
        }
        (Kind::Status(_) | Kind::Forwarding | Kind::Ended | Kind::Other, _) => {
            format!("{call_id}:{message_type}:{}", ids::short_hash(body))
        }
    };
    ids::event_id(Provider::Vapi, &own)
}

fn direction(call_type: CallType) -> Option<Direction> {
    match call_type {
        CallType::InboundPhoneCall => Some(Direction::Inbound),
        CallType::OutboundPhoneCall => Some(Direction::Outbound),
        CallType::Other => None,
    }
}

fn status(kind: EventKind, occurred_at: Option<Timestamp>) -> CallEventSet {
    let own = CallEvent { kind, implied: false, occurred_at, sequence: None, permanent: false };
    let mut call_events = CallEventSet::new(Some(own));
    if kind == EventKind::InProgress {
        call_events.imply(EventKind::Ringing, occurred_at, None);
    }
    call_events
}

/// Only a call that was answered is forwarded.
fn forwarding(occurred_at: Option<Timestamp>) -> CallEventSet {
    let mut call_events = CallEventSet::new(None);
    call_events.imply(EventKind::Ringing, occurred_at, None);
    call_events.imply(EventKind::InProgress, occurred_at, None);
    call_events
}

/// How the call ended, and perhaps what the person answered. In a call that nobody answered nobody said anything, whatever the
/// analysis of its empty transcript holds; and a machine cannot confirm.
fn report(message: &Message) -> CallEventSet {
    let ending = ending(message);
    let said = || message.analysis()?.structured_data.as_ref()?.decision();
    let answer = match ending {
        Ending::NotAnswered { .. } | Ending::Answered { voicemail: true, .. } => None,
        Ending::Answered { voicemail: false, .. } | Ending::Unclear => said(),
    };
    let Some(answer) = answer else {
        return ending.into_call_events(call_times(message));
    };
    let mut call_events = ending.with_outcome(Some(UserDecision::event_kind(answer)), call_times(message));
    if matches!(ending, Ending::Unclear) {
        // Over it is.
        call_events.imply(EventKind::Completed, call_times(message).ended_at, None);
    }
    call_events
}

fn ending(message: &Message) -> Ending {
    let started = message.started_at().is_some();
    let Some(reason) = message.ended_reason() else {
        return Ending::Unclear;
    };
    match (EndedReason::from_name(reason), started) {
        (EndedReason::Conversation, _) => Ending::COMPLETED,
        (EndedReason::Voicemail, _) => Ending::VOICEMAIL,
        (EndedReason::Busy, _) => Ending::BUSY,
        (EndedReason::NoAnswer, _) => Ending::NO_ANSWER,
        (EndedReason::CallerHungUp, _) => Ending::CANCELED,
        (EndedReason::Stopped, true) => Ending::COMPLETED,
        (EndedReason::Stopped, false) => Ending::CANCELED,
        (EndedReason::NeverConnected, _) => Ending::FAILED,
        (EndedReason::WrongNumber, _) => Ending::FAILED_PERMANENTLY,
        (EndedReason::Fault, true) => Ending::FAILED_AFTER_ANSWER,
        (EndedReason::Fault, false) => Ending::FAILED,
        (EndedReason::Unclear, _) => Ending::Unclear,
    }
}

/// A status update that says nothing of the end was made at the end.
fn call_times(message: &Message) -> CallTimes {
    CallTimes { started_at: message.started_at(), ended_at: message.ended_at().or_else(|| message.occurred_at()) }
}
