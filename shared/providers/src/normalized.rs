//! Result of every provider's `normalize.rs`, and its conversion into a [`Reading`].

use std::collections::BTreeMap;

use switchhook_domain::{
    BookingReport, CallEvent, CallId, Direction, ENTITY_PREFIX, EntityReport, EventId, NUMBER_BYTES_MAX, Origin,
    PhoneNumber, Provider, ProviderEvent, Timestamp,
};

use crate::correlation::Correlation;
use crate::ids::{self, bounded};
use crate::reading::{ReadError, Reading};

/// Part of the id of an event that ends a replaced booking. Before it is the id of the event that replaces the booking, and after it a hash
/// of the replaced id.
const REPLACED: &str = "/replaced/";

/// Plausible times, in milliseconds since the Unix epoch: the years 2000 to 2099. Any other time is a mistake of its
/// sender. If it were kept, every domain event would repeat it.
const TIMES_PLAUSIBLE_MS: std::ops::Range<i64> = 946_684_800_000..4_102_444_800_000;

/// Fewest digits of a number with a country code.
const INTERNATIONAL_DIGITS_MIN: usize = 8;

/// Event of a known type, in our own terms.
pub(crate) struct NormalizedEvent {
    pub(crate) provider: Provider,
    pub(crate) event_id: EventId,
    pub(crate) event_type: String,
    pub(crate) correlation: Correlation,
    pub(crate) direction: Option<Direction>,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) call_events: Vec<CallEvent>,
    /// True if the person asked not to be called again.
    pub(crate) block_number: bool,
}

impl NormalizedEvent {
    /// Returns an event, or a recorded reading if there is no call event.
    ///
    /// # Errors
    ///
    /// [`ReadError::MissingCallId`] if the event names no call.
    pub(crate) fn into_reading(self, received_at: Timestamp) -> Result<Reading, ReadError> {
        let Correlation { call_id, attempt, provider_call_id, appointment_id } = self.correlation;
        let call_id = call_id.ok_or(ReadError::MissingCallId)?;
        let event_type = ids::event_type(&self.event_type);
        if self.call_events.is_empty() {
            return Ok(Reading::Recorded { event_id: self.event_id, event_type, call_id: Some(call_id) });
        }
        Ok(Reading::Event(ProviderEvent {
            event_id: self.event_id,
            origin: Origin::Provider(self.provider),
            event_type,
            call_id,
            attempt,
            provider_call_id,
            appointment_id,
            direction: self.direction,
            from: number(self.from),
            to: number(self.to),
            block_number: self.block_number,
            entity: None,
            booking: None,
            dialled_provider: None,
            forgotten_at: None,
            trace_id: None,
            received_at,
            call_events: self.call_events.into_iter().map(with_plausible_time).collect(),
        }))
    }
}

/// Reading of an event that is about no call. Events of one entity share the key of its row; an event without an id of its entity
/// has a row of its own.
pub(crate) fn of_entity(
    provider: Provider,
    event_id: EventId,
    event_type: &str,
    report: EntityReport,
    received_at: Timestamp,
) -> ProviderEvent {
    let key = match &report.id {
        Some(id) => entity_key(provider, id),
        None => CallId::new(bounded(&format!("{ENTITY_PREFIX}event:"), event_id.as_str())),
    };
    let occurred_at = report.occurred_at.filter(|at| is_plausible(*at));
    ProviderEvent {
        entity: Some(EntityReport { occurred_at, ..report }),
        ..ProviderEvent::new(event_id, Origin::Provider(provider), ids::event_type(event_type), key, received_at)
    }
}

/// Returns the event that ends the booking which this one replaces. `None` if the event replaces no booking.
///
/// It is an event of its own, with an id that follows from the first. So the booking that was replaced finds out in the same way as
/// from any event, and in any order. It carries no values of the body, which belong to the event that was received. So nothing of the
/// person is in it when the new booking is forgotten.
#[must_use]
pub fn replaced_booking(event: &ProviderEvent) -> Option<ProviderEvent> {
    let Origin::Provider(provider) = event.origin else { return None };
    let id = bounded("", event.booking.as_deref()?.replaces()?);
    let report = event.entity.clone().filter(|report| report.id.as_ref() != Some(&id))?;
    let own_id = event.event_id.as_str().strip_prefix(provider.as_str()).unwrap_or_default().trim_start_matches(':');
    Some(ProviderEvent {
        event_id: ids::event_id(provider, &format!("{own_id}{REPLACED}{}", ids::short_hash(id.as_bytes()))),
        call_id: entity_key(provider, &id),
        appointment_id: None,
        to: None,
        entity: Some(EntityReport { id: Some(id), data: BTreeMap::new(), ..report }),
        booking: Some(Box::new(BookingReport::CANCELED)),
        ..event.clone()
    })
}

/// Returns the key of an entity of a provider: `entity:` with the provider and the id that the mapping finds. A long id is replaced by its hash.
#[must_use]
pub fn entity_key(provider: Provider, id: &str) -> CallId {
    CallId::new(bounded(&format!("{ENTITY_PREFIX}{provider}:"), id))
}

pub(crate) fn is_plausible(at: Timestamp) -> bool {
    TIMES_PLAUSIBLE_MS.contains(&at.as_millis())
}

/// Removes an implausible time from the event. Example: microseconds that were sent as milliseconds.
fn with_plausible_time(event: CallEvent) -> CallEvent {
    let occurred_at = event.occurred_at.filter(|at| is_plausible(*at));
    CallEvent { occurred_at, ..event }
}

/// Phone number or SIP address. `None` if the text is too long for either. It could make a queue message too large.
fn number(text: Option<String>) -> Option<PhoneNumber> {
    text.filter(|text| text.len() <= NUMBER_BYTES_MAX).map(PhoneNumber::new)
}

/// The number without its `+`, which Plivo, Vonage and SignalWire do not always write.
pub(crate) fn without_plus(number: &str) -> &str {
    number.trim_start_matches('+')
}

/// E.164 form of a number. Plivo and Vonage leave out the `+` of most numbers. A short number is one of a network, and a SIP address is none.
pub(crate) fn with_plus(number: String) -> String {
    let is_international = number.len() >= INTERNATIONAL_DIGITS_MIN && number.bytes().all(|byte| byte.is_ascii_digit());
    if is_international { format!("+{number}") } else { number }
}
