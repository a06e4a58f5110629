//! Meaning of Plivo's callbacks.
//!
//! Plivo posts one callback when the phone rings (`ring_url`), one after the call (`hangup_url`), and one with the verdict about an
//! answering machine. Each implies the earlier events. `CallStatus` says how the call ended. The hangup cause counts for two statuses: for
//! `cancel`, it says whether somebody called the call off or Plivo did, and for `failed`, whether another attempt can help.

use switchhook_domain::{Direction, EventId, EventKind, Provider, Timestamp};

use super::payload::{CallStatus, Callback, failure, is_canceled_by_plivo};
use crate::call_events::CallEventSet;
use crate::correlation::{EchoedIds, correlate};
use crate::ending::{CallTimes, Ending};
use crate::form::{Form, canonical_form};
use crate::ids;
use crate::normalized::{NormalizedEvent, with_plus};
use crate::reading::{ReadError, ReadNotes, Reading};
use crate::webhook::VerifiedWebhook;

/// Event of a callback about an answering machine.
const MACHINE_DETECTION: &str = "MachineDetection";

pub(crate) fn read(
    webhook: &VerifiedWebhook,
    received_at: Timestamp,
    notes: &mut ReadNotes,
) -> Result<Reading, ReadError> {
    let callback: Callback = Form::parse(webhook.body()).read().unwrap_or_default();
    let kind = Kind::from_callback(&callback);
    if matches!(status(&callback), Some(CallStatus::Other)) {
        notes.unknown_value = Some("CallStatus");
    }
    // Another leg of the same call, such as a transfer, is recorded with the first leg, and does not change the call.
    let call_uuid = match kind {
        Kind::OtherLeg => callback.a_leg_uuid.as_deref(),
        Kind::Status(_) | Kind::MachineDetection { .. } | Kind::Other => callback.call_uuid.as_deref(),
    };
    // The signature does not cover the order of the query. If a name occurs twice, the first value in byte order counts.
    let echoed: EchoedIds = Form::parse(webhook.query().as_bytes()).read().unwrap_or_default();
    let correlation = correlate(webhook.provider(), &echoed, call_uuid, notes);
    let event_id = event_id(&callback, &kind, webhook);
    let event_type = event_type(&callback, &kind);

    let call_events = match kind {
        Kind::Status(status) => call_events(&callback, status).into_sorted(),
        Kind::MachineDetection { is_machine } => machine_events(&callback, is_machine).into_sorted(),
        Kind::OtherLeg | Kind::Other => Vec::new(),
    };
    if call_events.is_empty() {
        return Ok(Reading::recorded(event_id, event_type, correlation.call_id));
    }
    let (event_type, direction) = (event_type.to_owned(), direction(&callback));
    let normalized = NormalizedEvent {
        provider: webhook.provider(),
        event_id,
        event_type,
        correlation,
        direction,
        from: callback.from.map(with_plus),
        to: callback.to.map(with_plus),
        call_events,
        block_number: false,
    };
    normalized.into_reading(received_at)
}

enum Kind {
    Status(CallStatus),
    MachineDetection {
        is_machine: bool,
    },
    OtherLeg,
    /// A callback with an unknown status, or about something else: a recording, a conference.
    Other,
}

impl Kind {
    fn from_callback(callback: &Callback) -> Self {
        if callback.a_leg_uuid.is_some() && callback.a_leg_uuid != callback.call_uuid {
            return Self::OtherLeg;
        }
        if let Some(is_machine) = callback.machine
            && callback.event.as_deref() == Some(MACHINE_DETECTION)
        {
            return Self::MachineDetection { is_machine };
        }
        match status(callback) {
            Some(CallStatus::Other) | None => Self::Other,
            Some(status) => Self::Status(status),
        }
    }
}

fn status(callback: &Callback) -> Option<CallStatus> {
    callback.call_status.as_deref().map(CallStatus::from_name)
}

fn event_type<'a>(callback: &'a Callback, kind: &Kind) -> &'a str {
    let status = callback.call_status.as_deref();
    match kind {
        Kind::MachineDetection { .. } => MACHINE_DETECTION,
        Kind::Status(_) | Kind::OtherLeg | Kind::Other => status.or(callback.event.as_deref()).unwrap_or("unknown"),
    }
}

/// Id of the event. Plivo names none. A call reaches each status once, so a callback that Plivo sends again has the same id, also the
/// one of `ring_url`, which Plivo may post several times. Other callbacks are distinguished by the hash of the form, whose order is not
/// signed.
fn event_id(callback: &Callback, kind: &Kind, webhook: &VerifiedWebhook) -> EventId {
    let (provider, body) = (webhook.provider(), webhook.body());
    let Some(call_uuid) = &callback.call_uuid else {
        return ids::event_id_of_body(provider, canonical_form(body).as_bytes());
    };
    let event = callback.event.as_deref().unwrap_or("-");
    let status = callback.call_status.as_deref().unwrap_or("-");
    let suffix = match kind {
        Kind::Status(_) => format!("{call_uuid}:{event}:{status}"),
        Kind::MachineDetection { is_machine: true } => format!("{call_uuid}:{MACHINE_DETECTION}:machine"),
        Kind::MachineDetection { is_machine: false } => format!("{call_uuid}:{MACHINE_DETECTION}:human"),
        Kind::OtherLeg | Kind::Other => {
            format!("{call_uuid}:{event}:{status}:{}", ids::short_hash(canonical_form(body).as_bytes()))
        }
    };
    ids::event_id(provider, &suffix)
}

/// Ids of the events that the callbacks of a call have. A call that one of them reported is known, also if Plivo named another id when it
/// was placed.
pub(crate) fn callback_event_ids(provider: Provider, call_uuid: &str) -> Vec<EventId> {
    let endings = ["completed", "busy", "failed", "timeout", "no-answer", "cancel"].into_iter();
    let callbacks = std::iter::once(("Ring", "ringing")).chain(endings.map(|status| ("Hangup", status)));
    callbacks.map(|(event, status)| ids::event_id(provider, &format!("{call_uuid}:{event}:{status}"))).collect()
}

fn direction(callback: &Callback) -> Option<Direction> {
    match callback.direction.as_deref()? {
        "inbound" => Some(Direction::Inbound),
        "outbound" => Some(Direction::Outbound),
        _ => None,
    }
}

fn call_events(callback: &Callback, status: CallStatus) -> CallEventSet {
    let answered = |kind| Some(Ending::Answered { kind, voicemail: false });
    let is_of_plivo = callback.hangup_cause().is_some_and(is_canceled_by_plivo);
    let status = if status == CallStatus::Cancel && is_of_plivo { CallStatus::Failed } else { status };
    // Billed seconds prove an answer. Such a call reached its time limit, or broke off.
    let ending = match (status, callback.is_billed()) {
        (CallStatus::Ringing | CallStatus::InProgress | CallStatus::Other, _) => None,
        (CallStatus::Completed, _) | (CallStatus::Timeout | CallStatus::Cancel | CallStatus::Ended, true) => {
            answered(EventKind::Completed)
        }
        (CallStatus::Busy, true) => answered(EventKind::Busy),
        (CallStatus::Failed, true) => answered(EventKind::Failed),
        (CallStatus::Busy, false) => Some(Ending::BUSY),
        (CallStatus::Failed, false) => Some(failure(callback.hangup_cause())),
        // Plivo's timeout is one of connecting the call, so nothing says that a phone rang.
        (CallStatus::Timeout, false) => Some(Ending::FAILED),
        (CallStatus::NoAnswer, _) => Some(Ending::NO_ANSWER),
        (CallStatus::Cancel, false) => Some(Ending::CANCELED),
        (CallStatus::Ended, false) => Some(Ending::Unclear),
    };
    match (ending, status) {
        (Some(ending), _) => ending.reported(CallTimes {
            started_at: callback.answered_at().or_else(|| callback.started_at()),
            ended_at: callback.ended_at(),
        }),
        (None, CallStatus::Ringing) => CallEventSet::reporting(EventKind::Ringing, callback.started_at()),
        (None, CallStatus::InProgress) => {
            let occurred_at = callback.answered_at().or_else(|| callback.started_at());
            let mut call_events = CallEventSet::reporting(EventKind::InProgress, occurred_at);
            call_events.imply(EventKind::Ringing, occurred_at, None);
            call_events
        }
        (
            None,
            CallStatus::Completed
            | CallStatus::Busy
            | CallStatus::Failed
            | CallStatus::Timeout
            | CallStatus::NoAnswer
            | CallStatus::Cancel
            | CallStatus::Ended
            | CallStatus::Other,
        ) => CallEventSet::new(None),
    }
}

/// Call events of a verdict about an answering machine. Any verdict means that the call was answered.
fn machine_events(callback: &Callback, is_machine: bool) -> CallEventSet {
    let answered_at = callback.answered_at();
    let mut call_events =
        if is_machine { CallEventSet::reporting(EventKind::VoicemailDetected, None) } else { CallEventSet::new(None) };
    call_events.imply(EventKind::Ringing, answered_at, None);
    call_events.imply(EventKind::InProgress, answered_at, None);
    call_events
}
