//! Meaning of the events of a configured provider, by its mapping.

use serde_json::{Map, Value};
use switchhook_domain::{
    Booked, BookingReport, CallEvent, EntityReport, EventId, EventKind, PhoneNumber, ProviderEvent, Timestamp,
};

use super::mapping::{EventMapping, Meaning, Place};
use crate::call_events::CallEventSet;
use crate::correlation::{EchoedIds, correlate, numbered_attempt};
use crate::form::{Form, canonical_form};
use crate::ids::{self, bounded};
use crate::lenient;
use crate::normalized::{self, NormalizedEvent};
use crate::reading::{ReadError, ReadNotes, Reading};
use crate::webhook::VerifiedWebhook;

/// Type of all events of a provider whose mapping names no place of the type.
const ONLY_TYPE: &str = "webhook";

/// Reads a webhook by a mapping. `is_form` is true if the body is a form, and not JSON.
pub(crate) fn read(
    mapping: &EventMapping,
    is_form: bool,
    webhook: &VerifiedWebhook,
    received_at: Timestamp,
    notes: &mut ReadNotes,
) -> Result<Reading, ReadError> {
    let provider = webhook.provider();
    let body: Map<String, Value> =
        if is_form { Form::parse(webhook.body()).into_json() } else { lenient::from_body(webhook.body())? };
    let body = Value::Object(body);
    let text = |place: &Option<Place>| place.as_ref().and_then(|place| place.text(&body));
    let event_type = match &mapping.event_type {
        Some(place) => place.text(&body).ok_or(ReadError::MissingEventType)?,
        None => ONLY_TYPE.to_owned(),
    };
    let own_id: Option<Vec<String>> = mapping.event_id.iter().map(|place| place.text(&body)).collect();
    let own_id = own_id.and_then(|texts| joined(&texts));
    let event_id = match own_id.as_deref().or(webhook.signed_id()) {
        Some(id) => ids::event_id(provider, id),
        None => body_id(is_form, webhook),
    };
    let echoed = EchoedIds {
        switchhook_call_id: text(&mapping.switchhook_call_id),
        switchhook_attempt: text(&mapping.switchhook_attempt),
        appointment_id: text(&mapping.appointment_id),
    };
    // Most senders that sign the URL have no other place for ids than its query.
    let echoed = echoed.or(EchoedIds::from_query(webhook.query()));
    let mut correlation = correlate(provider, &echoed, text(&mapping.call_id).as_deref(), notes);
    let attempt_number = || mapping.attempt.as_ref()?.number(&body);
    correlation.attempt =
        correlation.attempt.or_else(|| attempt_number().map(|number| numbered_attempt(provider, number)));

    let Some(rule) = mapping.rule(&body) else {
        // A webhook that names no call keeps the key of its entity. So it is erased with the entity.
        let entity_key = || text(&mapping.entity_id).map(|id| normalized::entity_key(provider, &id));
        let (event_type, call_id) = (ids::event_type(&event_type), correlation.call_id.or_else(entity_key));
        return Ok(Reading::Recorded { event_id, event_type, call_id });
    };
    let occurred_at = mapping.time.as_ref().and_then(|place| place.time(&body));
    let sequence = mapping.sequence.as_ref().and_then(|place| place.number(&body));
    let replaces = || text(&mapping.replaces).map(|id| bounded("", &id));
    let booking = match &rule.meaning {
        Meaning::OfCall { .. } | Meaning::Received => None,
        Meaning::Booked => mapping.booking_rule.clone().map(|rule| {
            let starts_at = mapping.starts_at.as_ref().and_then(|place| place.time(&body));
            let starts_at = starts_at.filter(|at| normalized::is_plausible(*at));
            BookingReport::Booked(Booked { starts_at, replaces: replaces(), rule })
        }),
        Meaning::BookingCanceled => Some(BookingReport::Canceled { replaces: replaces() }),
    };
    let (kind, implies) = match &rule.meaning {
        Meaning::OfCall { kind, implies } => (*kind, implies),
        Meaning::Received | Meaning::Booked | Meaning::BookingCanceled => {
            let id = text(&mapping.entity_id);
            let data = mapping.data.iter().filter_map(|(name, place)| Some((name.clone(), place.scalar(&body)?)));
            if booking.is_some() && id.is_none() {
                return Err(ReadError::MissingBookingId);
            }
            let report =
                EntityReport { id: id.map(|id| bounded("", &id)), occurred_at, sequence, data: data.collect() };
            let event = normalized::of_entity(provider, event_id, &event_type, report, received_at);
            // Anybody may book an appointment, so a SIP address is not called.
            let to = text(&mapping.to).filter(|_| booking.is_some()).and_then(|text| PhoneNumber::parse_written(&text));
            let appointment_id = correlation.appointment_id.filter(|_| booking.is_some());
            return Ok(Reading::Event(ProviderEvent { to, appointment_id, booking: booking.map(Box::new), ..event }));
        }
    };
    let normalized = NormalizedEvent {
        provider,
        event_id,
        event_type,
        correlation,
        direction: None,
        from: text(&mapping.from),
        to: text(&mapping.to),
        call_events: call_events(kind, implies, occurred_at, sequence),
        block_number: false,
    };
    normalized.into_reading(received_at)
}

/// Returns the event id of a webhook that names none, or that cannot be read. The order of a form's parameters may be unsigned, so it
/// does not change the id.
pub(crate) fn body_id(is_form: bool, webhook: &VerifiedWebhook) -> EventId {
    let (provider, body) = (webhook.provider(), webhook.body());
    if is_form {
        ids::event_id_of_body(provider, canonical_form(body).as_bytes())
    } else {
        ids::event_id_of_body(provider, body)
    }
}

/// Joins the values that identify an event. A colon within a value is written differently, so that two events never share an id.
fn joined(texts: &[String]) -> Option<String> {
    match texts {
        [] => None,
        [text] => Some(text.clone()),
        texts => {
            let escaped: Vec<String> = texts.iter().map(|text| text.replace('%', "%25").replace(':', "%3A")).collect();
            Some(escaped.join(":"))
        }
    }
}

/// Returns the call events that a rule makes of an event.
///
/// A decision or a voicemail can be reported after the end of the call. So the beginnings that it implies get no time: they come
/// before every event with a time.
fn call_events(
    kind: EventKind,
    implies: &[EventKind],
    occurred_at: Option<Timestamp>,
    sequence: Option<u32>,
) -> Vec<CallEvent> {
    let reported = CallEvent { sequence, ..CallEvent::new(kind, occurred_at) };
    let mut call_events = CallEventSet::new(Some(reported));
    let is_late = matches!(
        kind,
        EventKind::VoicemailDetected | EventKind::UserConfirmed | EventKind::UserDeclined | EventKind::RetryScheduled
    );
    for kind in implies {
        let has_no_time = is_late && kind.is_beginning();
        call_events.imply(*kind, occurred_at.filter(|_| !has_no_time), sequence.filter(|_| !has_no_time));
    }
    call_events.into_sorted()
}
