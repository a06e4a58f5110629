//! Meaning of Vonage's events.
//!
//! **`completed` says only that the call is over.** Vonage sends it after `busy`, `unanswered`, `timeout`, `failed` and `cancelled` too,
//! sometimes before them. So it proves an answer only if the call has a duration. Otherwise the ending stays unclear, and another event
//! decides it.

use switchhook_domain::{Direction, EventId, EventKind, Timestamp};

use super::payload::{CALL_RECORD, Event, Status};
use crate::call_events::CallEventSet;
use crate::correlation::{EchoedIds, correlate};
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
    let event: Event = lenient::from_body(webhook.body())?;
    let name = event.name().ok_or(ReadError::MissingEventType)?.to_owned();
    let status = Status::from_name(&name);
    if event.status.is_some() && status == Status::Other {
        notes.unknown_value = Some("status");
    }
    notes.lacks_detail = status == Status::Rejected && event.event.as_deref() == Some(CALL_RECORD);
    let event_id = event_id(&event, &name, status, webhook);
    // Vonage repeats none of our ids in a body, and signs no query.
    let correlation = correlate(webhook.provider(), &EchoedIds::default(), event.call_id(), notes);
    let call_events = call_events(&event, status).into_sorted();
    if call_events.is_empty() {
        return Ok(Reading::recorded(event_id, &name, correlation.call_id));
    }
    let normalized = NormalizedEvent {
        provider: webhook.provider(),
        event_id,
        event_type: name,
        correlation,
        direction: direction(&event),
        from: event.from.map(with_plus),
        to: event.to.map(with_plus),
        call_events,
        block_number: false,
    };
    normalized.into_reading(received_at)
}

/// Id of the event, because Vonage names none: its token has an id, but nothing says whether a retry has the same one. The time of an
/// event is the same in every delivery. A record of the API has no such time, but a call ends once.
fn event_id(event: &Event, name: &str, status: Status, webhook: &VerifiedWebhook) -> EventId {
    let (provider, body) = (webhook.provider(), webhook.body());
    let Some(call_id) = event.call_id() else {
        return ids::event_id_of_body(provider, body);
    };
    let suffix = match (status, event.timestamp.as_deref()) {
        (Status::Ignored | Status::Other, _) => format!("{call_id}:{name}:{}", ids::short_hash(body)),
        (_, _) if event.event.as_deref() == Some(CALL_RECORD) => format!("{call_id}:{name}:{CALL_RECORD}"),
        (_, Some(timestamp)) => format!("{call_id}:{name}:{timestamp}"),
        (_, None) => format!("{call_id}:{name}:{}", ids::short_hash(body)),
    };
    ids::event_id(provider, &suffix)
}

fn direction(event: &Event) -> Option<Direction> {
    match event.direction.as_deref()? {
        "inbound" => Some(Direction::Inbound),
        "outbound" => Some(Direction::Outbound),
        _ => None,
    }
}

fn call_events(event: &Event, status: Status) -> CallEventSet {
    let occurred_at = event.occurred_at();
    let ending = match status {
        Status::Started => return CallEventSet::reporting(EventKind::Initiated, occurred_at),
        Status::Ringing => return CallEventSet::reporting(EventKind::Ringing, occurred_at),
        Status::Answered => return answered(Some(EventKind::InProgress), occurred_at),
        Status::Human => return answered(None, occurred_at),
        Status::Machine => return answered(Some(EventKind::VoicemailDetected), occurred_at),
        Status::Ignored | Status::Other => return CallEventSet::new(None),
        Status::Completed if event.has_duration() => Ending::COMPLETED,
        Status::Completed => Ending::Unclear,
        Status::Busy => Ending::BUSY,
        Status::Cancelled => Ending::CANCELED,
        Status::Timeout | Status::Unanswered => Ending::NO_ANSWER,
        Status::Rejected => match event.detail.as_deref() {
            // The record of a call has no detail. Most who reject a call are people who decline it.
            Some("declined") | None => Ending::BUSY,
            Some("invalid_number") => Ending::FAILED_PERMANENTLY,
            Some(_) => Ending::FAILED,
        },
        Status::Failed if event.has_duration() => Ending::FAILED_AFTER_ANSWER,
        Status::Failed if event.detail.as_deref() == Some("number_out_of_service") => Ending::FAILED_PERMANENTLY,
        Status::Failed => Ending::FAILED,
    };
    let ended_at = match ending {
        // Its end may have whole seconds, and lie before the answer. An ending without a time comes last.
        Ending::Unclear => occurred_at.map(|at| event.ended_at().map_or(at, |ended_at| ended_at.max(at))),
        Ending::Answered { .. } | Ending::NotAnswered { .. } | Ending::NeverDialled(_) => {
            event.ended_at().or(occurred_at)
        }
    };
    ending.reported(CallTimes { started_at: event.started_at(), ended_at })
}

/// Call events of an answered call.
fn answered(kind: Option<EventKind>, occurred_at: Option<Timestamp>) -> CallEventSet {
    let mut call_events =
        kind.map_or_else(|| CallEventSet::new(None), |kind| CallEventSet::reporting(kind, occurred_at));
    call_events.imply(EventKind::Ringing, occurred_at, None);
    call_events.imply(EventKind::InProgress, occurred_at, None);
    call_events
}
