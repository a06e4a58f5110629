//! The limit on the calls that Switchhook has in flight at a provider: claimed, or dialled and not known to have ended.
//!
//! An operator may configure a limit. **A provider that refuses a call because it has too many sets one too**: the number of calls
//! that it had then. It grows by 2 % a minute, so that few dials are refused before the true limit is known, and ends after an hour.
//! With neither limit, nobody counts calls, which costs requests.
//!
//! The count comes from an index that misses the writes of the last moment. So the places of claims are reserved until the index
//! shows them. **All schedulers share one count**: the first that needs it stores it beside the reservations.
//!
//! **Calls that wait for one in flight to end come first.** Whoever finds the provider full notes that calls wait. While the note holds, only
//! a scheduler that takes the calls in the order of their due times gets places.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Time after which a limit that a provider set by a refusal no longer holds.
const LIMIT_MAX: Duration = Duration::from_secs(60 * 60);
/// Growth of such a limit per minute, in thousandths of it.
const LIMIT_GROWTH: u64 = 20;
/// Least growth of such a limit per minute, in thousandths of a call: one call in five minutes.
const LIMIT_GROWTH_MIN: u64 = 200;
/// Share of the present limit that is left after a further refusal, in thousandths.
const LIMIT_AFTER_REFUSAL: u64 = 900;
/// Time after a refusal in which a count shows how many calls the provider had then. Later, many of them may have ended.
const REFUSAL_COUNT_MAX: Duration = Duration::from_secs(10);
/// Time for which the place of a claim is reserved. By then the index shows the claim.
const RESERVATION: Duration = Duration::from_secs(10);

/// Time for which a note holds that calls wait. A run of the schedule writes it anew each minute, while calls wait.
const WAITING: Duration = Duration::from_secs(90);
/// Rest of that time from which the note is written anew.
const WAITING_REST_MIN: Duration = Duration::from_secs(60);
/// Age from which a count of the calls in flight is not used any more. It is so much less than the time for which the place of a claim is
/// reserved that every claim is either reserved or counted.
pub const COUNT_AGE_MAX: Duration = Duration::from_secs(5);

/// Limits by which places are booked at a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Time from one dial to the next at the configured rate.
    pub interval: Duration,
    /// Time for which the rate may be booked.
    pub ahead: Duration,
    /// Configured limit on calls in flight. `None` if there is none.
    pub calls_max: Option<u64>,
    /// Calls in flight now. `None` if nobody counted them: then no place is free while there is a limit.
    pub in_flight: Option<CallsInFlight>,
    /// True if the calls that have waited longest ask for the places. Others get none while calls wait for one in flight to end.
    pub is_in_turn: bool,
}

/// Calls that Switchhook has in flight at one provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallsInFlight {
    /// Calls that are claimed, and not dialled yet.
    pub claimed: u64,
    /// Calls that were dialled and are not known to have ended.
    pub dialled: u64,
}

/// Limit on the calls in flight that a provider has set by refusing calls, and the places that are reserved under any limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallLimit {
    /// Limit at `since`, at least 1. `None` if the provider has set none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    calls: Option<u64>,
    /// Time of the last refusal. `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    /// True until the calls in flight are counted after that refusal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    needs_count: bool,
    /// Places that are booked, and that the count may not contain yet. The earliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    reservations: Vec<Reservation>,
    /// Last count of the calls in flight that a scheduler stored. `None` if there was none since the last refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    count: Option<Count>,
    /// Time until which it is assumed that calls wait for one in flight to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    calls_wait_until: Option<Timestamp>,
}

/// Count of the calls in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Count {
    /// Time at which the count began.
    at: Timestamp,
    calls: CallsInFlight,
}

/// Places of claims that were booked at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Reservation {
    at: Timestamp,
    calls: u64,
}

impl CallLimit {
    /// True if nothing is stored.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Time of the last refusal. Claims from before it are void.
    pub(super) const fn since(&self) -> Option<Timestamp> {
        self.since
    }

    /// True if the calls in flight must be counted before anything is claimed: the provider refused a call because it has too many.
    #[must_use]
    pub const fn needs_count(&self) -> bool {
        self.needs_count
    }

    /// Notes that the provider refused a call because it has too many.
    pub(super) fn refuse(&mut self, now: Timestamp) {
        // The present limit, as far as it has grown, is the measure for the next one.
        let (calls, calls_wait_until) = (self.learned(now), self.calls_wait_until);
        *self = Self { calls, since: Some(now), needs_count: true, calls_wait_until, ..Self::default() };
    }

    /// Returns the limit that follows from the last refusal and from the calls that are in flight now. `None` if it is set already.
    ///
    /// Claims that were not dialled are no part of the calls that the provider had. A count that comes late says nothing about them. So a
    /// first refusal then sets no limit, and a further one lowers the limit as usual.
    pub(super) fn counted(&self, in_flight: CallsInFlight, now: Timestamp) -> Option<Self> {
        if !self.needs_count {
            return None;
        }
        let is_early = self.since.is_some_and(|since| now < since.plus(REFUSAL_COUNT_MAX));
        let counted = is_early.then_some(in_flight.dialled);
        let lowered = self.calls.map(|calls| calls.saturating_mul(LIMIT_AFTER_REFUSAL) / 1_000);
        let calls = [counted, lowered].into_iter().flatten().min().map(|calls| calls.max(1));
        Some(Self { calls, needs_count: false, ..self.clone() })
    }

    /// Returns the limit that holds now. `None` if there is none. `configured` is the limit of the account.
    #[must_use]
    pub fn calls_max(&self, configured: Option<u64>, now: Timestamp) -> Option<u64> {
        [configured, self.learned(now)].into_iter().flatten().min()
    }

    /// Returns the stored count of the calls in flight, with the time at which it began. `None` if it is too old, or if there is none.
    #[must_use]
    pub fn recent_count(&self, now: Timestamp) -> Option<(CallsInFlight, Timestamp)> {
        let Count { at, calls } = self.count.filter(|count| now < count.at.plus(COUNT_AGE_MAX))?;
        Some((calls, at))
    }

    /// Returns the limit with a count that began at this time. `None` if a later one is stored, or the provider has refused a call or
    /// asked for fewer since.
    pub(super) fn with_count(&self, calls: CallsInFlight, at: Timestamp, slowed_at: Option<Timestamp>) -> Option<Self> {
        let since = self.count.map(|count| count.at).max(self.since).max(slowed_at);
        since.is_none_or(|since| since < at).then(|| Self { count: Some(Count { at, calls }), ..self.clone() })
    }

    /// Number of calls that may be claimed besides those in flight. `None` if there is no limit.
    pub(super) fn free(&self, pace: &Pace, now: Timestamp) -> Option<u64> {
        let calls_max = self.calls_max(pace.calls_max, now)?;
        let in_flight = pace.in_flight.map_or(u64::MAX, |calls| calls.claimed.saturating_add(calls.dialled));
        Some(calls_max.saturating_sub(in_flight.saturating_add(self.reserved(now))))
    }

    /// True if calls are known to wait for one in flight to end.
    pub(super) fn calls_wait(&self, now: Timestamp) -> bool {
        self.calls_wait_until.is_some_and(|until| now < until)
    }

    /// Notes that calls wait for one in flight to end. Returns false if that was noted a moment ago.
    pub(super) fn note_waiting(&mut self, now: Timestamp) -> bool {
        let is_due = self.calls_wait_until.is_none_or(|until| until <= now.plus(WAITING_REST_MIN));
        if is_due {
            self.calls_wait_until = Some(now.plus(WAITING));
        }
        is_due
    }

    /// Returns the limit without the note that calls wait. `None` if there is no note.
    pub(super) fn without_waiting(&self) -> Option<Self> {
        self.calls_wait_until.map(|_| Self { calls_wait_until: None, ..self.clone() })
    }

    /// Reserves the places of claims until the index shows them.
    pub(super) fn reserve(&mut self, calls: u64, now: Timestamp) {
        self.reservations.retain(|reservation| now < reservation.at.plus(RESERVATION));
        match self.reservations.last_mut().filter(|last| now < last.at.plus(Duration::from_secs(1))) {
            // The time stays, so that a reservation ends however often places are booked.
            Some(last) => last.calls = last.calls.saturating_add(calls),
            None => self.reservations.push(Reservation { at: now, calls }),
        }
    }

    /// Gives up all reserved places. Calls that were dialled since the count are known from them alone, so it is not valid any more.
    pub(super) fn clear_reservations(&mut self) {
        self.reservations.clear();
        self.count = None;
    }

    /// Limit that the provider has set, as it has grown. `None` if there is none, or it no longer holds.
    fn learned(&self, now: Timestamp) -> Option<u64> {
        let (calls, since) = self.calls.zip(self.since)?;
        let age = u64::try_from(now.millis_since(since)).unwrap_or_default();
        let growth = calls.saturating_mul(LIMIT_GROWTH).max(LIMIT_GROWTH_MIN);
        let grown = calls.saturating_add(age.saturating_mul(growth) / 60_000 / 1_000);
        (now < since.plus(LIMIT_MAX)).then_some(grown)
    }

    fn reserved(&self, now: Timestamp) -> u64 {
        let valid = self.reservations.iter().filter(|reservation| now < reservation.at.plus(RESERVATION));
        valid.fold(0, |sum, reservation| sum.saturating_add(reservation.calls))
    }
}
