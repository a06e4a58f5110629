//! The health of a provider: whether calls are placed with it now, and how fast.
//!
//! A dial may fail for a reason that is not the number's. For example, the account is out of credit, or the provider is overloaded.
//! Such failures say something about the provider, and nothing about the call.
//!
//! **Failures in a row open the provider's circuit. While it is open, one call at a time is dialled, as a probe, and only
//! the success of a probe closes it.** The pause before a probe doubles with every probe that fails.
//!
//! **Some refusals are because of the number or because of the account, and do not say which.** A refused calling number is like them:
//! each call names its own. Only refusals of different numbers count, so a blocked number never opens the circuit by itself.
//!
//! A provider that gets too many requests is slowed down: each such answer halves its dial rate and pauses all dials.
//! Then the rate rises again. A provider that has too many calls gets a [limit](CallLimit) on them instead.
//!
//! **A provider may accept calls and then dial nobody.** Its answers to dials then prove nothing. So after the first report of such
//! a call the provider is *doubted*: a call that it accepts neither clears the failures nor closes the circuit. Only a report that
//! a call was really dialled does, if that call was sent after the doubt began. The report may be about the probe that closed the
//! circuit. Then the probe failed after all, and the circuit opens again, unless a later call was reported as dialled. Accepted calls
//! clear nothing meanwhile, so **failures that are few of the calls since the doubt began do not open the circuit.**
//!
//! **A claim books its place in the dial rate, and among the calls in flight.** Any number of schedulers may run at once.
//! Together they never claim more calls than the provider takes in the time ahead, and never more than it may have at the same time.
//! Each [place](Place) has a time. The dialer waits for it, so the provider is asked at its present rate and never in bursts.

mod availability;
mod booking;
mod pace;
mod place;
mod signal;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::availability::ProviderAvailability;
pub use self::pace::{COUNT_AGE_MAX, CallLimit, CallsInFlight, Pace};
pub use self::place::{LANE_SECONDS, LATE_MAX, Place};
pub use self::signal::{DialFailure, DialSignal};
use self::signal::{limits_calls, undialled_failure};
use crate::domain_event::DOMAIN_EVENT_SCHEMA_VERSION;
use crate::event::{CallId, NeverDialled, PROVIDER_HEALTH_PREFIX};
use crate::number::NumberTag;
use crate::provider::Provider;
use crate::time::Timestamp;

/// Failure score that opens the circuit. See [`DialFailure::score`].
const SCORE_TO_OPEN: u64 = 12;
/// Number of dials since a doubt began for which that score is enough. For more dials it must be higher in proportion: six calls of 20 that
/// were not dialled open the circuit, and six of a hundred do not. After five times as many dials, the count begins anew.
const DOUBTED_DIALS: u64 = 20;
/// Pause before the first probe. It doubles with every probe that fails, up to [`PROBE_PAUSE_MAX`].
const PROBE_PAUSE_FIRST: Duration = Duration::from_secs(30);
const PROBE_PAUSE_MAX: Duration = Duration::from_secs(15 * 60);
/// Limit on the refused numbers that the health of a provider remembers, the latest.
const REFUSED_NUMBERS_MAX: usize = 16;
/// Time for which a due probe waits for a call that no other provider takes. A run of the schedule finds such a call within a minute.
const PROBE_SEARCH: Duration = Duration::from_secs(2 * 60);
/// Time after which a probe that brought no result is given up. A claim is dialled within that time, unless it is lost.
const PROBE_RESULT_MAX: Duration = Duration::from_secs(2 * 60);
/// Full dial rate, in thousandths of the configured rate.
pub const FULL_RATE: u64 = 1_000;
/// Growth of a lowered rate per minute, in thousandths of the configured rate. A halved rate is whole again after 25 minutes.
const RATE_GROWTH: u64 = 20;
/// Limits of the pause of all dials after the provider had too many calls.
const BUSY_PAUSE_MIN: Duration = Duration::from_secs(2);
const BUSY_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Pause of all dials after the provider had too many calls.
const REFUSAL_PAUSE: Duration = Duration::from_secs(5);
/// Age of a dial from which a report that it was not made says nothing about the provider now. A report may be delivered late, or be
/// found by a lookup.
const REPORT_AGE_MAX: Duration = Duration::from_secs(10 * 60);
/// Longest time from one dial to the next that a lowered rate may require.
const DIAL_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Decision whether a provider gets dials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Circuit {
    /// The provider gets dials at its rate.
    Closed,
    /// The provider gets probes only.
    Open {
        failure: DialFailure,
        cause: String,
        /// Time of the next probe. While a probe is under way: the time at which it is given up.
        probe_at: Timestamp,
        failed_probes: u32,
        /// Call that is dialled as a probe now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        probe: Option<CallId>,
    },
}

/// Probe that closed the circuit because the provider accepted it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedProbe {
    pub call_id: CallId,
    /// Time at which the call became the probe. A dial before it was no probe.
    pub started_at: Timestamp,
    /// Number of probes that had failed before.
    pub failed_probes: u32,
}

/// Lowered dial rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slowdown {
    /// Rate at `since`, in thousandths of the configured rate.
    pub rate: u64,
    pub since: Timestamp,
}

/// Health of one provider, as stored in one row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderHealth {
    pub provider: Provider,
    pub circuit: Circuit,
    /// Number of times that the circuit has opened or closed.
    pub sequence: u64,
    /// Time at which the circuit opened or closed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Timestamp>,
    /// Probe that closed the circuit last. `None` while the circuit is open, and once a call that was sent later is reported as dialled.
    /// `None` too if such a report closed the circuit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_by: Option<AcceptedProbe>,
    /// Weight of all failed dials since the last one that worked.
    pub failure_score: u32,
    /// Numbers that the provider has refused since the last dial that worked, perhaps because of the account.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_numbers: Vec<NumberTag>,
    /// Time of the first report that the provider accepted a call and dialled nobody. `None` again once a call that was sent later
    /// is reported as dialled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubted_since: Option<Timestamp>,
    /// Number of booked places that do not count as dials of the doubt. Their times came before the count began, or their claims are void. 0
    /// if the provider is not doubted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub places_before_doubt: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Slowdown>,
    /// Limit on the calls in flight that the provider has set by refusals.
    #[serde(default, skip_serializing_if = "CallLimit::is_empty")]
    pub call_limit: CallLimit,
    /// Time until which no call is dialled, because the provider had too many requests or calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Timestamp>,
    /// Time until which the dial rate is used up by calls that are claimed already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booked_until: Option<Timestamp>,
    /// Time from one place to the next, among those that were booked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booked_interval: Option<Duration>,
    /// Number of places that were booked so far.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub places_booked: u64,
}

impl ProviderHealth {
    /// Health of a provider before the result of any dial is known: it is available.
    #[must_use]
    pub fn new(provider: Provider) -> Self {
        Self {
            provider,
            circuit: Circuit::Closed,
            sequence: 0,
            changed_at: None,
            closed_by: None,
            failure_score: 0,
            refused_numbers: Vec::new(),
            doubted_since: None,
            places_before_doubt: 0,
            slowdown: None,
            call_limit: CallLimit::default(),
            paused_until: None,
            booked_until: None,
            booked_interval: None,
            places_booked: 0,
        }
    }

    /// True if the circuit is open.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        match self.circuit {
            Circuit::Closed => false,
            Circuit::Open { .. } => true,
        }
    }

    /// True if the provider has accepted calls and dialled nobody, so that an accepted call proves nothing.
    #[must_use]
    pub const fn is_doubted(&self) -> bool {
        self.doubted_since.is_some()
    }

    /// True if it matters whether a call that is sent now is reported as dialled. It does while the provider is doubted, and while a report
    /// about the probe that closed the circuit may open it again.
    #[must_use]
    pub fn watches_dials(&self, now: Timestamp) -> bool {
        let closed_at = self.closed_by.as_ref().and(self.changed_at);
        self.is_doubted() || closed_at.is_some_and(|at| now <= at.plus(REPORT_AGE_MAX))
    }

    /// True if the provider gets calls other than probes.
    #[must_use]
    pub fn is_available(&self, now: Timestamp) -> bool {
        !self.is_open() && self.paused_until.is_none_or(|until| until <= now)
    }

    /// True if this call, claimed at this time, may be dialled with the provider.
    #[must_use]
    pub fn allows(&self, call_id: &CallId, claimed_at: Timestamp, now: Timestamp) -> bool {
        match &self.circuit {
            Circuit::Closed => self.is_available(now) && !self.voids(claimed_at),
            Circuit::Open { probe, .. } => probe.as_ref() == Some(call_id),
        }
    }

    /// True if a claim from this time is void, and stays so. It is from before a slowdown or a refused call, so it was booked at a higher rate,
    /// or beyond the limit. If it was a probe, that ended when the circuit closed.
    #[must_use]
    pub fn voids(&self, claimed_at: Timestamp) -> bool {
        let slowed_at = self.slowdown.map(|slowdown| slowdown.since);
        !self.is_open() && slowed_at.max(self.call_limit.since()).is_some_and(|since| claimed_at < since)
    }

    /// True if a call should be dialled as a probe.
    #[must_use]
    pub fn needs_probe(&self, now: Timestamp) -> bool {
        match &self.circuit {
            Circuit::Closed => false,
            Circuit::Open { probe_at, .. } => *probe_at <= now,
        }
    }

    /// True if a call is no probe yet if another provider takes it. The probe may end in doubt, and then nobody dials the call for hours.
    #[must_use]
    pub fn spares_calls_of_others(&self, now: Timestamp) -> bool {
        match &self.circuit {
            Circuit::Closed => false,
            Circuit::Open { failure, probe_at, .. } => failure.leaves_doubt() && now < probe_at.plus(PROBE_SEARCH),
        }
    }

    /// Returns the health with this call as the probe. A probe that was under way no longer counts. `None` if the circuit is
    /// closed.
    #[must_use]
    pub fn start_probe(&self, call_id: &CallId, now: Timestamp) -> Option<Self> {
        let mut next = self.clone();
        match &mut next.circuit {
            Circuit::Closed => None,
            Circuit::Open { probe, probe_at, .. } => {
                *probe = Some(call_id.clone());
                *probe_at = now.plus(PROBE_RESULT_MAX);
                Some(next)
            }
        }
    }

    /// Returns the health without this call as the probe: its dial was not made, so the next call may be the probe at once. `None` if the
    /// call is not the probe.
    #[must_use]
    pub fn release_probe(&self, call_id: &CallId, now: Timestamp) -> Option<Self> {
        let mut next = self.clone();
        match &mut next.circuit {
            Circuit::Open { probe, probe_at, .. } if probe.as_ref() == Some(call_id) => {
                *probe = None;
                *probe_at = now;
                Some(next)
            }
            Circuit::Open { .. } | Circuit::Closed => None,
        }
    }

    /// Returns the health after a signal about the dial of a call. `None` if it does not change, so that nothing needs to be
    /// written.
    #[must_use]
    pub fn after_dial(&self, call_id: &CallId, signal: DialSignal<'_>, now: Timestamp) -> Option<Self> {
        let mut next = self.clone();
        match (&mut next.circuit, signal) {
            (_, DialSignal::Heard { dialled_at }) => {
                // A call that was sent before the doubt, the opening or the closing shows nothing about the provider since then.
                let closed_at = self.closed_by.as_ref().and(self.changed_at);
                let since = if self.is_open() { self.changed_at } else { self.doubted_since.or(closed_at) };
                if since.is_none_or(|since| dialled_at < since) {
                    return None;
                }
                if self.is_open() {
                    next.close(now);
                }
                next.clear_failures();
                (next.doubted_since, next.places_before_doubt) = (None, 0);
                next.closed_by = None;
            }
            // The dial is so long ago that the provider may work again.
            (_, DialSignal::Undialled { dialled_at, .. }) if now > dialled_at.plus(REPORT_AGE_MAX) => return None,
            // The dial is from before the circuit opened or closed. It tells something new only if it was the probe.
            (_, DialSignal::Undialled { reason, dialled_at })
                if self.changed_at.is_some_and(|changed_at| dialled_at < changed_at) =>
            {
                let is_probe = |probe: &&AcceptedProbe| probe.call_id == *call_id && probe.started_at <= dialled_at;
                let probe = self.closed_by.as_ref().filter(is_probe)?;
                next.reopen(probe.failed_probes, reason, now);
            }
            (_, DialSignal::Works) if self.is_doubted() => return None,
            (Circuit::Closed, DialSignal::Works) if self.failure_score == 0 => return None,
            (Circuit::Closed, DialSignal::Works) => next.clear_failures(),
            // The refusal of the same number again tells nothing new.
            (Circuit::Closed, DialSignal::NumberRefused { number, .. }) if self.refused_numbers.contains(&number) => {
                return None;
            }
            (Circuit::Closed, DialSignal::NumberRefused { number, cause }) => {
                next.remember_refused(number);
                next.add_failure(DialFailure::AccountProblem, cause, None, now);
            }
            // The dial was under way when the pause began, so the provider was slowed down for it already.
            (Circuit::Closed, DialSignal::Failed { failure: DialFailure::Busy | DialFailure::TooManyCalls, .. })
                if !self.is_available(now) =>
            {
                return None;
            }
            (Circuit::Closed, DialSignal::Undialled { reason, .. }) => {
                next.doubt(now);
                let (failure, cause) = undialled_failure(reason);
                if limits_calls(reason) && self.is_available(now) {
                    next.call_limit.refuse(now);
                    next.pause(REFUSAL_PAUSE, None, now);
                }
                next.add_failure(failure, cause, None, now);
            }
            (Circuit::Closed, DialSignal::Failed { failure, cause, retry_after }) => {
                if failure == DialFailure::Busy {
                    next.slow_down(retry_after, now);
                } else if failure == DialFailure::TooManyCalls && self.is_available(now) {
                    next.call_limit.refuse(now);
                    next.pause(REFUSAL_PAUSE, retry_after, now);
                }
                next.add_failure(failure, cause, retry_after, now);
            }
            // Only the probe counts. Other dials were sent before the circuit opened.
            (Circuit::Open { probe, .. }, _) if probe.as_ref() != Some(call_id) => return None,
            (Circuit::Open { probe_at, failed_probes, .. }, DialSignal::Works) => {
                let started_at = probe_at.minus(PROBE_RESULT_MAX);
                let probe = AcceptedProbe { call_id: call_id.clone(), started_at, failed_probes: *failed_probes };
                next.close(now);
                next.clear_failures();
                next.closed_by = Some(probe);
            }
            // This probe proves nothing, so the next one comes after the same pause as this one.
            (Circuit::Open { probe_at, failed_probes, probe, .. }, DialSignal::NumberRefused { number, .. })
                if self.refused_numbers.contains(&number) =>
            {
                *probe_at = now.plus(probe_pause(*failed_probes, None));
                *probe = None;
            }
            (Circuit::Open { .. }, DialSignal::NumberRefused { number, cause }) => {
                next.remember_refused(number);
                next.fail_probe(DialFailure::AccountProblem, cause, None, now);
            }
            (Circuit::Open { .. }, DialSignal::Undialled { reason, .. }) => {
                next.doubt(now);
                let (failure, cause) = undialled_failure(reason);
                next.fail_probe(failure, cause, None, now);
            }
            (Circuit::Open { .. }, DialSignal::Failed { failure, cause, retry_after }) => {
                next.fail_probe(failure, cause, retry_after, now);
            }
        }
        Some(next)
    }

    /// Returns the domain event that reports the last change of the circuit. `None` if it never changed.
    #[must_use]
    pub fn domain_event(&self) -> Option<ProviderAvailability> {
        let occurred_at = self.changed_at?;
        let (status, reason, cause) = match &self.circuit {
            Circuit::Closed => ("available", None, None),
            Circuit::Open { failure, cause, .. } => ("unavailable", Some(failure.as_str()), Some(cause.clone())),
        };
        Some(ProviderAvailability {
            schema_version: DOMAIN_EVENT_SCHEMA_VERSION,
            id: format!("{PROVIDER_HEALTH_PREFIX}{}/{}", self.provider, self.sequence),
            event_type: format!("provider.{status}"),
            provider: self.provider,
            sequence: self.sequence,
            status,
            reason,
            cause,
            occurred_at: occurred_at.to_string(),
        })
    }

    /// Adds the failure to the failure score. Opens the circuit if the score is high enough.
    fn add_failure(&mut self, failure: DialFailure, cause: &str, retry_after: Option<Duration>, now: Timestamp) {
        self.failure_score = self.failure_score.saturating_add(failure.score());
        let dials = self.dials_since_doubt(now);
        let score_min = (dials.saturating_mul(SCORE_TO_OPEN) / DOUBTED_DIALS).max(SCORE_TO_OPEN);
        if u64::from(self.failure_score) >= score_min {
            let (cause, probe_at) = (cause.to_owned(), now.plus(probe_pause(0, retry_after)));
            self.circuit = Circuit::Open { failure, cause, probe_at, failed_probes: 0, probe: None };
            self.change(now);
        } else if dials > 5 * DOUBTED_DIALS {
            // The failures so far were few, so the provider worked. If they still counted, it could fail for long before the circuit opens.
            (self.failure_score, self.places_before_doubt) = (failure.score(), self.places_passed(now));
        }
    }

    fn doubt(&mut self, now: Timestamp) {
        if self.doubted_since.is_none() {
            (self.doubted_since, self.places_before_doubt) = (Some(now), self.places_passed(now));
        }
    }

    /// Opens the circuit again that an accepted probe had closed, because the provider dialled nobody for it. The health is then as if
    /// this report had come before the provider's answer.
    fn reopen(&mut self, failed_probes: u32, reason: NeverDialled, now: Timestamp) {
        let (failure, cause) = undialled_failure(reason);
        self.doubt(now);
        self.circuit = Circuit::Open { failure, cause: cause.to_owned(), probe_at: now, failed_probes, probe: None };
        self.fail_probe(failure, cause, None, now);
        self.change(now);
    }

    /// Ends a probe that failed. The pause before the next one doubles.
    fn fail_probe(&mut self, failure: DialFailure, cause: &str, retry_after: Option<Duration>, now: Timestamp) {
        if let Circuit::Open { failed_probes, .. } = self.circuit {
            let failed_probes = failed_probes.saturating_add(1);
            let (cause, probe_at) = (cause.to_owned(), now.plus(probe_pause(failed_probes, retry_after)));
            self.circuit = Circuit::Open { failure, cause, probe_at, failed_probes, probe: None };
        }
    }

    fn remember_refused(&mut self, number: NumberTag) {
        self.refused_numbers.push(number);
        let surplus = self.refused_numbers.len().saturating_sub(REFUSED_NUMBERS_MAX);
        self.refused_numbers.drain(..surplus);
    }

    fn clear_failures(&mut self) {
        self.failure_score = 0;
        self.refused_numbers.clear();
    }

    fn close(&mut self, now: Timestamp) {
        self.circuit = Circuit::Closed;
        self.paused_until = None;
        self.change(now);
    }

    fn change(&mut self, now: Timestamp) {
        self.sequence += 1;
        self.changed_at = Some(now);
        self.closed_by = None;
    }

    fn slow_down(&mut self, retry_after: Option<Duration>, now: Timestamp) {
        let rate = (self.rate(now) / 2).max(1);
        let pause = (Duration::from_secs(1) * u32::try_from(FULL_RATE / rate).unwrap_or(u32::MAX))
            .clamp(BUSY_PAUSE_MIN, BUSY_PAUSE_MAX);
        self.slowdown = Some(Slowdown { rate, since: now });
        self.pause(pause, retry_after, now);
    }

    /// Stops all dials for a time, or for the longer time that the provider asks for. The claims so far are void.
    fn pause(&mut self, pause: Duration, retry_after: Option<Duration>, now: Timestamp) {
        self.paused_until = Some(now.plus(pause.max(retry_after.unwrap_or_default().min(PROBE_PAUSE_MAX))));
        self.clear_places(now);
    }

    /// End of the pause of all dials. `None` if there is none now, or if the circuit is open.
    #[must_use]
    pub fn pause_end(&self, now: Timestamp) -> Option<Timestamp> {
        self.paused_until.filter(|until| !self.is_open() && now < *until)
    }

    /// Returns the present dial rate, in thousandths of the configured rate.
    #[must_use]
    pub fn rate(&self, now: Timestamp) -> u64 {
        self.slowdown.map_or(FULL_RATE, |slowdown| {
            let elapsed = u64::try_from(now.millis_since(slowdown.since)).unwrap_or_default();
            slowdown.rate.saturating_add(elapsed.saturating_mul(RATE_GROWTH) / 60_000).min(FULL_RATE)
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn probe_pause(failed_probes: u32, retry_after: Option<Duration>) -> Duration {
    let pause = PROBE_PAUSE_FIRST.saturating_mul(1_u32 << failed_probes.min(16)).min(PROBE_PAUSE_MAX);
    pause.max(retry_after.unwrap_or_default().min(PROBE_PAUSE_MAX))
}

#[cfg(test)]
mod tests;
