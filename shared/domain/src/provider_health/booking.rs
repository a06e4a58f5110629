//! Booking of places: how many calls may be claimed now, for the dial rate and for the limit on calls in flight.

use std::time::Duration;

use super::pace::{CallsInFlight, Pace};
use super::place::Place;
use super::{DIAL_INTERVAL_MAX, FULL_RATE, ProviderHealth};
use crate::time::Timestamp;

impl ProviderHealth {
    /// Returns the number of calls that can be claimed now. A rate of less than one dial in the time ahead still allows one claim.
    #[must_use]
    pub fn free_places(&self, pace: &Pace, now: Timestamp) -> u64 {
        // After a refusal, nothing is claimed before the calls are counted.
        if !self.is_available(now) || self.call_limit.needs_count() {
            return 0;
        }
        if !pace.is_in_turn && self.calls_wait(pace, now) {
            return 0;
        }
        let start = self.booking_start(now);
        let free = u64::try_from(now.plus(pace.ahead).millis_since(start)).unwrap_or_default();
        let interval = self.current_interval(pace.interval, now).as_nanos().max(1);
        let places = u64::try_from(Duration::from_millis(free).as_nanos() / interval).unwrap_or(u64::MAX);
        let places = if start == now { places.max(1) } else { places };
        self.call_limit.free(pace, now).map_or(places, |calls| calls.min(places))
    }

    /// Returns the health with the limit that follows from a refusal and from the calls that are in flight now. `None` if no refusal
    /// waits for a count.
    #[must_use]
    pub fn counted(&self, in_flight: CallsInFlight, now: Timestamp) -> Option<Self> {
        Some(Self { call_limit: self.call_limit.counted(in_flight, now)?, ..self.clone() })
    }

    /// Returns the health with a [count](super::CallLimit::recent_count) for all schedulers. `None` if it tells nothing new.
    #[must_use]
    pub fn with_count(&self, calls: CallsInFlight, at: Timestamp) -> Option<Self> {
        let call_limit = self.call_limit.with_count(calls, at, self.slowdown.map(|slowdown| slowdown.since))?;
        Some(Self { call_limit, ..self.clone() })
    }

    /// True if the limit on calls in flight is all that keeps calls from being claimed.
    #[must_use]
    pub fn is_full(&self, pace: &Pace, now: Timestamp) -> bool {
        self.is_available(now) && self.call_limit.free(pace, now) == Some(0)
    }

    /// True if calls are known to wait until one of those in flight ends. They come before calls that ask out of turn.
    #[must_use]
    pub fn calls_wait(&self, pace: &Pace, now: Timestamp) -> bool {
        self.call_limit.calls_max(pace.calls_max, now).is_some() && self.call_limit.calls_wait(now)
    }

    /// Books places for up to `wanted` claims, and notes that calls wait if the provider is full. Returns the booked places, which may be
    /// none. `None` if there is nothing to write.
    #[must_use]
    pub fn book(&self, wanted: u64, pace: &Pace, now: Timestamp) -> Option<(Self, Vec<Place>)> {
        let booked = wanted.min(self.free_places(pace, now));
        let first = self.places_booked;
        let (start, interval) = (self.booking_start(now), self.current_interval(pace.interval, now));
        // Rounded up, so that single bookings keep to the rate too.
        let after = |places: u64| {
            let time = interval.saturating_mul(u32::try_from(places).unwrap_or(u32::MAX));
            start.plus(Duration::from_millis(u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)))
        };
        let mut next = self.clone();
        if booked > 0 {
            next.booked_until = Some(after(booked));
            next.booked_interval = Some(interval);
            next.places_booked = first.saturating_add(booked);
            if self.call_limit.calls_max(pace.calls_max, now).is_some() {
                next.call_limit.reserve(booked, now);
            }
        }
        let is_noted = booked < wanted && next.is_full(pace, now) && next.call_limit.note_waiting(now);
        let place = |index| Place { number: first.saturating_add(index), dial_at: after(index), interval };
        (booked > 0 || is_noted).then(|| (next, (0..booked).map(place).collect()))
    }

    /// Returns the health after all calls that waited for a place got one. `None` if none is known to wait.
    #[must_use]
    pub fn without_waiting(&self) -> Option<Self> {
        Some(Self { call_limit: self.call_limit.without_waiting()?, ..self.clone() })
    }

    fn current_interval(&self, interval: Duration, now: Timestamp) -> Duration {
        let lowered = interval.saturating_mul(u32::try_from(FULL_RATE).unwrap_or(u32::MAX));
        let lowered = lowered / u32::try_from(self.rate(now).max(1)).unwrap_or(u32::MAX);
        lowered.min(DIAL_INTERVAL_MAX).max(interval)
    }

    /// Gives up the places of all claims so far, which are void.
    pub(super) fn clear_places(&mut self, now: Timestamp) {
        if self.is_doubted() {
            self.places_before_doubt = self.places_before_doubt.saturating_add(self.places_ahead(now));
        }
        self.booked_until = None;
        self.call_limit.clear_reservations();
    }

    /// Number of calls that were dialled since the provider is doubted, or since the count began anew. Some of them may not have been dialled,
    /// because their claims expired. 0 if there is no doubt.
    pub(super) fn dials_since_doubt(&self, now: Timestamp) -> u64 {
        if self.is_doubted() { self.places_passed(now).saturating_sub(self.places_before_doubt) } else { 0 }
    }

    /// Number of booked places whose time has come.
    pub(super) fn places_passed(&self, now: Timestamp) -> u64 {
        self.places_booked.saturating_sub(self.places_ahead(now))
    }

    /// Number of booked places whose time has not come.
    fn places_ahead(&self, now: Timestamp) -> u64 {
        let (Some(until), Some(interval)) = (self.booked_until, self.booked_interval) else { return 0 };
        let ahead = Duration::from_millis(u64::try_from(until.millis_since(now)).unwrap_or_default());
        u64::try_from(ahead.as_nanos() / interval.as_nanos().max(1)).unwrap_or(u64::MAX)
    }

    fn booking_start(&self, now: Timestamp) -> Timestamp {
        self.booked_until.map_or(now, |until| until.max(now))
    }
}
