//! Bookings: entities that are appointments, and the call that each of them schedules.
//!
//! **The call of a booking is a function of the set of its events.** The latest event decides: the booking has a start and a number
//! to call, or it is over. Events are ordered by their time, then by the sender's counter. At the same time, the end of a booking
//! comes last, and nobody is called.
//!
//! **A call belongs to a booking, a start and a number.** Its id is a hash of the three. So a booking that is moved away and back has
//! the same call again, and nobody is called twice about one start. The hash does not hide the number: whoever knows booking and start can
//! try all numbers.
//!
//! Fold and calls are separate writes. The row says first which call the booking has now, and which calls it had. Then the consumer
//! makes the calls agree, and the row says that they do. Each step can be repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::booking_report::{Booked, BookingReport};
use crate::entity_position::EntityPosition;
use crate::event::{CallId, EventId, ProviderEvent};
use crate::plan::{CallDefaults, DUE_AHEAD_MAX, NewCall, Plan};
use crate::time::Timestamp;

/// Beginning of the id of a call that a booking schedules.
const CALL_ID_PREFIX: &str = "booking-";
/// Bytes of the hash in such an id. 128 bits are enough to tell calls apart.
const CALL_ID_HASH_BYTES: usize = 16;
/// Name in the metadata of a call under which the provider gets the start of the appointment, in RFC 3339.
const STARTS_AT: &str = "appointment_starts_at";
/// Longest id of an appointment, in bytes. A call of a booking with a longer id has no appointment.
pub const APPOINTMENT_ID_BYTES_MAX: usize = 128;

/// Reason why a booking schedules no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotScheduled {
    /// The event names no start of the appointment that can be read.
    NoStart,
    /// The event names no number, or none with a country code.
    NoNumber,
    /// The appointment has begun, or begins before the call may be placed.
    TooLate,
    /// The call would be due in more than a year.
    TooFarAhead,
    /// The person was forgotten.
    Forgotten,
}

impl NotScheduled {
    /// Returns the name used in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoStart => "no_start",
            Self::NoNumber => "no_number",
            Self::TooLate => "too_late",
            Self::TooFarAhead => "too_far_ahead",
            Self::Forgotten => "forgotten",
        }
    }
}

/// State of a booking, in the row of its entity. The row holds no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    /// Latest event of the booking.
    pub decided_by: EntityPosition,
    /// True if that event ended the booking.
    pub is_canceled: bool,
    /// Start of the appointment. `None` if the booking is over, or if its event names no start.
    pub starts_at: Option<Timestamp>,
    /// Latest start that any event of the booking names. The row is kept until then, also if the booking is over: a webhook that is
    /// sent again would make the booking anew.
    pub latest_start: Option<Timestamp>,
    /// Call of the booking. `None` if the booking is over, or if its event names no start or no number.
    pub call_id: Option<CallId>,
    /// Earlier calls of the booking that have yet to be called off, or were under way when they were. It grows only while that fails, and
    /// while such a call goes on.
    pub superseded: BTreeSet<CallId>,
    /// True if the consumer has made the calls agree with this state.
    pub calls_agree: bool,
}

impl Booking {
    /// Returns the state after this event. `None` if the event changes nothing: it is older, or the same.
    pub(crate) fn after(before: Option<&Self>, position: &EntityPosition, event: &ProviderEvent) -> Option<Self> {
        let report = event.booking.as_deref()?;
        let (is_canceled, starts_at) = match report {
            BookingReport::Booked(booked) => (false, booked.starts_at),
            BookingReport::Canceled { .. } => (true, None),
        };
        let latest_start = before.and_then(|before| before.latest_start).max(starts_at);
        if let Some(before) = before.filter(|before| before.rank() >= rank(position, is_canceled)) {
            let is_later = before.latest_start < latest_start;
            return is_later.then(|| Self { latest_start, ..before.clone() });
        }
        let call_id = event.booked_call_id();
        let mut superseded = before.map(|before| before.superseded.clone()).unwrap_or_default();
        superseded.extend(before.and_then(|before| before.call_id.clone()));
        superseded.retain(|superseded| Some(superseded) != call_id.as_ref());
        let decided_by = position.clone();
        Some(Self { decided_by, is_canceled, starts_at, latest_start, call_id, superseded, calls_agree: false })
    }

    /// Returns the state after the consumer made the calls agree with it. These superseded calls are still under way.
    #[must_use]
    pub fn agreed(&self, under_way: BTreeSet<CallId>) -> Self {
        Self { superseded: under_way, calls_agree: true, ..self.clone() }
    }

    /// True if the state takes this event into account, and the calls agree with it.
    #[must_use]
    pub(crate) fn includes(&self, position: &EntityPosition, report: &BookingReport) -> bool {
        self.calls_agree && self.rank() >= rank(position, report.is_canceled())
    }

    fn rank(&self) -> Rank<'_> {
        rank(&self.decided_by, self.is_canceled)
    }
}

/// Place of an event among the events of its booking: its time, the sender's counter, whether it ends the booking, and its id.
type Rank<'a> = (Timestamp, Option<u32>, bool, &'a EventId);

fn rank(position: &EntityPosition, is_canceled: bool) -> Rank<'_> {
    (position.at, position.sequence, is_canceled, &position.event_id)
}

impl ProviderEvent {
    /// Returns the id of the call that the booking schedules. `None` if the event is about no booking, or names no start or number.
    fn booked_call_id(&self) -> Option<CallId> {
        let (Some(BookingReport::Booked(booked)), Some(to)) = (self.booking.as_deref(), &self.to) else { return None };
        let starts_at = booked.starts_at?.as_millis().to_string();
        let mut hasher = Sha256::new();
        for part in [self.call_id.as_str(), &starts_at, to.canonical().as_str()] {
            hasher.update(part);
            hasher.update([0]);
        }
        let hash: String =
            hasher.finalize().iter().take(CALL_ID_HASH_BYTES).map(|byte| format!("{byte:02x}")).collect();
        Some(CallId::new(format!("{CALL_ID_PREFIX}{hash}")))
    }

    /// Returns the call that a booking schedules. It is not due before `earliest`, which is now or later. `None` if the event is about no
    /// booking, or ends it.
    #[must_use]
    pub fn booked_call(&self, defaults: &CallDefaults, earliest: Timestamp) -> Option<Result<NewCall, NotScheduled>> {
        match self.booking.as_deref()? {
            BookingReport::Booked(booked) => Some(self.call_of(booked, defaults, earliest)),
            BookingReport::Canceled { .. } => None,
        }
    }

    fn call_of(&self, booked: &Booked, defaults: &CallDefaults, earliest: Timestamp) -> Result<NewCall, NotScheduled> {
        if self.forgotten_at.is_some() {
            return Err(NotScheduled::Forgotten);
        }
        let starts_at = booked.starts_at.ok_or(NotScheduled::NoStart)?;
        let to = self.to.clone().ok_or(NotScheduled::NoNumber)?;
        let call_id = self.booked_call_id().ok_or(NotScheduled::NoNumber)?;
        let rule = &booked.rule;
        let before = Duration::from_secs(u64::from(rule.before_minutes) * 60);
        let plan = Plan {
            providers: rule.providers.clone(),
            due_at: starts_at.minus(before).max(earliest),
            not_after: Some(starts_at),
            window: rule.window.clone().or_else(|| defaults.window.clone()),
            retry: defaults.retry,
            metadata: BTreeMap::from([(STARTS_AT.to_owned(), starts_at.to_string())]),
            request_hash: None,
            trace_id: self.trace_id.clone(),
        };
        if plan.moved_into_window(plan.due_at) >= starts_at {
            return Err(NotScheduled::TooLate);
        }
        if plan.due_at > earliest.plus(DUE_AHEAD_MAX) {
            return Err(NotScheduled::TooFarAhead);
        }
        let own_id = self.entity.as_ref().and_then(|entity| entity.id.clone());
        let appointment_id = self.appointment_id.clone().or(own_id);
        let appointment_id = appointment_id.filter(|id| id.len() <= APPOINTMENT_ID_BYTES_MAX);
        Ok(NewCall { call_id, from: rule.from.clone(), to, appointment_id, plan })
    }
}

#[cfg(test)]
mod tests;
