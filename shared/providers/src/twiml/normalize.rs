//! Meaning of callbacks.
//!
//! `completed` means that the call was answered, except in the webhook of a number. It is also the only event that is posted unless
//! `StatusCallbackEvent` names more. So each callback implies the earlier events, with its own time as the latest time
//! at which they can have happened. The SIP response code is ignored: a busy call has been seen with the code of a
//! canceled one.

use std::borrow::Cow;

use switchhook_domain::{CallEvent, Direction, EventId, EventKind, Provider, Timestamp};

use super::payload::{AnsweredBy, CallStatus, Callback};
use super::signature::is_json;
use crate::call_events::CallEventSet;
use crate::correlation::{EchoedIds, correlate};
use crate::ending::{CallTimes, Ending};
use crate::form::{Form, canonical_form};
use crate::ids;
use crate::lenient;
use crate::normalized::NormalizedEvent;
use crate::reading::{ReadError, ReadNotes, Reading};
use crate::webhook::VerifiedWebhook;

/// Event type of an answering-machine callback, which has no status.
const AMD: &str = "amd";

/// Source of status callbacks. It is the default, so event ids leave it out.
const CALL_PROGRESS: &str = "call-progress-events";

/// Reads a callback.
pub(crate) fn read(
    webhook: &VerifiedWebhook,
    received_at: Timestamp,
    notes: &mut ReadNotes,
) -> Result<Reading, ReadError> {
    let provider = webhook.provider();
    let callback = parse(webhook)?;
    let kind = Kind::from_callback(&callback);
    notes.unknown_value = unknown_value(&callback);
    let event_type = event_type(&callback);
    let event_id = event_id(&callback, &kind, event_type, webhook);
    // A child leg is another leg of the same call, such as a transfer. It is recorded with its parent, and does not
    // change it.
    let call_sid = callback.parent_call_sid.as_deref().or(callback.call_sid.as_deref());
    let correlation = correlate(provider, &EchoedIds::from_query(webhook.query()), call_sid, notes);

    let is_of_number = is_of_number(provider, &callback);
    let mut times = Times { began_at: callback.occurred_at(), occurred_at: callback.occurred_at() };
    if is_of_number {
        times.occurred_at = callback.ended_at();
    }

    let call_events = match kind {
        // This webhook knows no other word for a caller who hung up while it rang.
        Kind::Status(EventKind::Completed)
            if is_of_number && callback.duration_s() == 0 && callback.answered_by.is_none() =>
        {
            Ending::Unclear.reported(CallTimes { started_at: times.began_at, ended_at: times.occurred_at })
        }
        Kind::Status(kind) => call_events(&callback, Some(kind), times),
        Kind::AnsweringMachineDetection => call_events(&callback, None, times),
        Kind::ChildLeg | Kind::Other => return Ok(Reading::recorded(event_id, event_type, correlation.call_id)),
    };
    let normalized = NormalizedEvent {
        provider,
        event_id,
        event_type: event_type.to_owned(),
        correlation,
        direction: if is_of_number { Some(Direction::Inbound) } else { direction(&callback) },
        from: callback.from.clone(),
        to: callback.to.clone(),
        call_events: call_events.into_sorted(),
        block_number: false,
    };
    normalized.into_reading(received_at)
}

fn parse(webhook: &VerifiedWebhook) -> Result<Callback, ReadError> {
    if is_json(webhook.query()) {
        lenient::from_body(webhook.body())
    } else {
        Ok(Form::parse(webhook.body()).read().unwrap_or_default())
    }
}

/// True if the provider asks for the first instructions of an inbound call. Unlike a status callback, such a request names no source and has
/// no number.
pub(crate) fn is_question(webhook: &VerifiedWebhook) -> bool {
    parse(webhook).is_ok_and(|callback| {
        callback.direction.as_deref() == Some("inbound")
            && matches!(callback.call_status.as_deref().map(CallStatus::from_name), Some(CallStatus::Ringing))
            && callback.parent_call_sid.is_none()
            && callback.callback_source.is_none()
            && callback.sequence_number.is_none()
    })
}

enum Kind {
    Status(EventKind),
    AnsweringMachineDetection,
    ChildLeg,
    /// A callback with an unknown status, or about something else: a recording, a conference.
    Other,
}

impl Kind {
    fn from_callback(callback: &Callback) -> Self {
        if callback.parent_call_sid.is_some() {
            return Self::ChildLeg;
        }
        let Some(status) = &callback.call_status else {
            return match callback.answered_by {
                Some(_) => Self::AnsweringMachineDetection,
                None => Self::Other,
            };
        };
        match CallStatus::from_name(status) {
            CallStatus::Queued | CallStatus::Initiated => Self::Status(EventKind::Initiated),
            CallStatus::Ringing => Self::Status(EventKind::Ringing),
            CallStatus::InProgress => Self::Status(EventKind::InProgress),
            CallStatus::Completed => Self::Status(EventKind::Completed),
            CallStatus::Busy => Self::Status(EventKind::Busy),
            CallStatus::NoAnswer => Self::Status(EventKind::NoAnswer),
            CallStatus::Failed => Self::Status(EventKind::Failed),
            CallStatus::Canceled => Self::Status(EventKind::Canceled),
            CallStatus::Other => Self::Other,
        }
    }
}

/// Name of a parameter with a value that the provider has added to its list.
fn unknown_value(callback: &Callback) -> Option<&'static str> {
    if matches!(callback.call_status.as_deref().map(CallStatus::from_name), Some(CallStatus::Other)) {
        Some("CallStatus")
    } else if matches!(callback.answered_by.as_deref().map(AnsweredBy::from_name), Some(AnsweredBy::Other)) {
        Some("AnsweredBy")
    } else {
        None
    }
}

fn event_type(callback: &Callback) -> &str {
    match (&callback.call_status, &callback.answered_by) {
        (Some(status), _) => status,
        (None, Some(_)) => AMD,
        (None, None) => callback.callback_source.as_deref().unwrap_or("unknown"),
    }
}

/// Status callbacks are numbered per call. Requests without a number are distinguished by the hash of the form: one
/// call may make many TwiML requests with the same status.
fn event_id(callback: &Callback, kind: &Kind, event_type: &str, webhook: &VerifiedWebhook) -> EventId {
    let provider = webhook.provider();
    // The signature does not cover the order of the parameters. With the hash of the body, a form in another order would be a new event.
    let signed = || {
        let body = webhook.body();
        if is_json(webhook.query()) { Cow::Borrowed(body) } else { Cow::Owned(canonical_form(body).into_bytes()) }
    };
    let Some(call_sid) = &callback.call_sid else {
        return ids::event_id_of_body(provider, &signed());
    };
    let suffix = match (kind, &callback.sequence_number, &callback.answered_by) {
        (Kind::AnsweringMachineDetection, _, Some(answered_by)) => {
            format!("{call_sid}:{AMD}:{answered_by}")
        }
        (Kind::Status(_) | Kind::ChildLeg, Some(sequence), _) => match callback.callback_source.as_deref() {
            None | Some(CALL_PROGRESS) => format!("{call_sid}:{event_type}:{sequence}"),
            Some(source) => format!("{call_sid}:{event_type}:{sequence}:{source}"),
        },
        (Kind::Status(_) | Kind::ChildLeg | Kind::AnsweringMachineDetection | Kind::Other, _, _) => {
            format!("{call_sid}:{event_type}:-:{}", ids::short_hash(&signed()))
        }
    };
    ids::event_id(provider, &suffix)
}

/// Ids of the events that the status callbacks of a call have. If only some of the statuses are subscribed to, their callbacks are numbered
/// without gaps. So a callback never has a higher number than with all of them.
pub(crate) fn callback_event_ids(provider: Provider, call_sid: &str) -> Vec<EventId> {
    let before = [("queued", 0), ("initiated", 0), ("ringing", 1), ("in-progress", 2)].into_iter();
    let endings = ["completed", "busy", "no-answer", "failed", "canceled"].into_iter().map(|status| (status, 3));
    let callbacks = before.chain(endings).flat_map(|(status, last)| (0..=last).map(move |number| (status, number)));
    callbacks.map(|(status, number)| ids::event_id(provider, &format!("{call_sid}:{status}:{number}"))).collect()
}

/// True if this is the webhook about the status of a number at SignalWire, which is posted after each inbound call.
///
/// Its parameters are `CallSid`, `AccountSid`, `From`, `To`, `Timestamp`, `CallStatus` (`failed` or `completed`), `CallDuration`
/// and `AudioInMos`. Its timestamp is the time at which the call was created. (`signalwire/docs`,
/// `specs/compatibility-api/incoming-phone-numbers/models/webhooks.tsp`.) Every other callback has a direction and a number. A record of the
/// API that is read like a callback has no account.
fn is_of_number(provider: Provider, callback: &Callback) -> bool {
    let status = callback.call_status.as_deref().map(CallStatus::from_name);
    provider.vendor() == Provider::SignalWire
        && matches!(status, Some(CallStatus::Completed | CallStatus::Failed))
        && callback.account_sid.is_some()
        && callback.direction.is_none()
        && callback.sequence_number.is_none()
        && callback.callback_source.is_none()
        && callback.parent_call_sid.is_none()
}

fn direction(callback: &Callback) -> Option<Direction> {
    match callback.direction.as_deref()? {
        "inbound" => Some(Direction::Inbound),
        outbound if outbound.starts_with("outbound") => Some(Direction::Outbound),
        _ => None,
    }
}

#[derive(Clone, Copy)]
struct Times {
    /// Latest time at which the implied events can have happened.
    began_at: Option<Timestamp>,
    occurred_at: Option<Timestamp>,
}

/// Call events of a callback, from its status and from `AnsweredBy`. Any `AnsweredBy` means that the call was answered.
fn call_events(callback: &Callback, status: Option<EventKind>, times: Times) -> CallEventSet {
    let Times { began_at, occurred_at } = times;
    let sequence = callback.sequence();
    let machine = match callback.answered_by.as_deref().map(AnsweredBy::from_name) {
        Some(AnsweredBy::Machine) => true,
        Some(AnsweredBy::Human | AnsweredBy::Unknown | AnsweredBy::Other) | None => false,
    };
    let reported = match status {
        Some(kind) => Some(kind),
        None if machine => Some(EventKind::VoicemailDetected),
        None => None,
    };
    let answered =
        callback.answered_by.is_some() || matches!(reported, Some(EventKind::InProgress | EventKind::Completed));
    let rang = answered || matches!(reported, Some(EventKind::Busy | EventKind::NoAnswer));

    let mut call_events =
        CallEventSet::new(reported.map(|kind| CallEvent { sequence, ..CallEvent::new(kind, occurred_at) }));
    if rang {
        call_events.imply(EventKind::Ringing, began_at, sequence);
    }
    if answered {
        call_events.imply(EventKind::InProgress, began_at, sequence);
    }
    if machine {
        call_events.imply(EventKind::VoicemailDetected, occurred_at, sequence);
    }
    call_events
}
