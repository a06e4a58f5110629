//! What every provider's `normalize` arrives at, and how it becomes a reading.

use switchhook_domain::{
    CallEvent, Direction, EventId, EventKind, Origin, PhoneNumber, Provider, ProviderEvent, Timestamp,
};

use crate::correlation::Correlation;
use crate::ids;
use crate::reading::{ReadError, Reading};

/// The longest thing taken for a phone number or SIP address. Whatever is longer is neither, and has no place in a queue message.
const NUMBER_BYTES_MAX: usize = 256;

/// From the year 2000 to 2100. A time outside of it is a mistake of its sender, and would be one in every domain event.
const TIMES_PLAUSIBLE_MS: std::ops::Range<i64> = 946_684_800_000..4_102_444_800_000;

/// An event of a type that we know.
pub(crate) struct NormalizedEvent {
    pub(crate) provider: Provider,
    pub(crate) event_id: EventId,
    pub(crate) event_type: String,
    pub(crate) correlation: Correlation,
    pub(crate) direction: Option<Direction>,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) call_events: Vec<CallEvent>,
}

impl NormalizedEvent {
    /// Folded, or recorded if it says nothing about the call after all; an error if it names no call.
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
            received_at,
            call_events: self.call_events.into_iter().map(with_plausible_time).collect(),
        }))
    }
}

/// The event without its time, if that cannot be one: microseconds for milliseconds, say.
fn with_plausible_time(event: CallEvent) -> CallEvent {
    let occurred_at = event.occurred_at.filter(|at| TIMES_PLAUSIBLE_MS.contains(&at.as_millis()));
    CallEvent { occurred_at, ..event }
}

/// A phone number or address, if it can be one.
fn number(text: Option<String>) -> Option<PhoneNumber> {
    text.filter(|text| text.len() <= NUMBER_BYTES_MAX).map(PhoneNumber::new)
}

/// What one event says: the fact that it is about, if there is one, and those that follow from it. Each kind at most once.
pub(crate) struct CallEventSet {
    own: Option<CallEvent>,
    implied: Vec<CallEvent>,
}

impl CallEventSet {
    pub(crate) fn new(own: Option<CallEvent>) -> Self {
        Self { own, implied: Vec::new() }
    }

    pub(crate) fn imply(&mut self, kind: EventKind, occurred_at: Option<Timestamp>, sequence: Option<u32>) {
        if self.own.iter().chain(&self.implied).all(|fact| fact.kind != kind) {
            self.implied.push(CallEvent { kind, implied: true, occurred_at, sequence, permanent: false });
        }
    }

    /// Marks `failed`, implied or not, as one that trying again cannot mend.
    pub(crate) fn mark_permanent(&mut self) {
        for fact in self.own.iter_mut().chain(&mut self.implied).filter(|fact| fact.kind == EventKind::Failed) {
            fact.permanent = true;
        }
    }

    /// In the order in which they can only have happened.
    pub(crate) fn into_sorted(self) -> Vec<CallEvent> {
        let mut call_events: Vec<CallEvent> = self.implied.into_iter().chain(self.own).collect();
        call_events.sort_by_key(|fact| fact.kind);
        call_events
    }
}
