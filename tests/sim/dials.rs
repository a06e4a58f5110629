//! Checks of the laws about dials: whom the program dialled, when, and how often.
//!
//! The dials are the fake provider's own record. The program's view of them does not count: it may miss a dial.

use std::collections::BTreeMap;
use std::time::Duration;

use switchhook_domain::{Call, CallId, Provider};
use switchhook_local::fake::{ApiRecord, Behaviour, Dial, RequestResult};

use crate::calls::Millis;
use crate::law::Law;
use crate::plan::{CLOCK_SKEW_MS_MAX, FaultKind, Reach};
use crate::requests::{Block, CallRequest, proves_no_absence};
use crate::run::TICK;
use crate::sim::{RequestedCall, Sim, Told};

/// Longest time from the dialer's last check to the dial: the timeout of the dialer.
const CHECK_TO_DIAL_MS: i64 = 30_000;
/// Longest time from the acknowledgement of a report to the last dial that does not know of it. A message that was lost is queued again by
/// the sweep within five minutes.
const TOLD_TO_DIAL_MS: i64 = 10 * 60 * 1_000;
/// Longest time for which a dial may be in doubt while nothing is wrong with the provider, the functions and AWS: ten minutes. A
/// run of the reconciler must come after them, and its event must be folded.
const DOUBT_MAX: Duration = Duration::from_secs(10 * 60 + 15).saturating_add(TICK);
/// The same for Twilio, which shows whose call it is 15 minutes after the end of a call. A call lasts two minutes at most, the program waits
/// up to 20 minutes, and looks every five minutes.
const DOUBT_MAX_AT_TWILIO: Duration = DOUBT_MAX.saturating_add(Duration::from_secs(20 * 60));

/// Largest number of dials that one provider refuses because of the account in one run. Three open its circuit, and the
/// probes take longer and longer. A few more come from calls whose own behaviour is to be refused at times.
const REFUSALS_MAX: usize = 24;

impl Sim {
    /// Checks the dials, if there is a new one.
    pub(crate) fn check_dials(&self) {
        let dials = self.world.cloud.fake().dials();
        let before = std::mem::replace(&mut self.observed.borrow_mut().dials, dials.len());
        for dial in dials.iter().skip(before) {
            let Dial { provider, call_id, attempt, provider_call_id, behaviour, .. } = dial;
            self.trace(&format!(
                "a phone rings through {provider}: {call_id}/{attempt} {behaviour:?}, {provider_call_id}"
            ));
        }
        if before < dials.len() {
            self.count_paced_dials();
            self.check_all_dials();
        }
    }

    /// Checks all dials so far.
    pub(crate) fn check_all_dials(&self) {
        let rung_twice = self.world.cloud.fake().duplicate_dials();
        if rung_twice > 0 {
            self.state().report_violation(Law::OnePhone, format!("{rung_twice} phones rang twice"));
        }
        let dials = self.world.cloud.fake().dials();
        self.check_rates();
        self.check_calls_at_once();
        let skew_ms = if self.plan.has_fault(FaultKind::ClockSkew) { CLOCK_SKEW_MS_MAX } else { 0 };
        let requested = self.requested.borrow();
        for (request, requested) in self.plan.call_requests.iter().zip(requested.iter()) {
            let is_of_call = |dial: &&Dial| dial.call_id == requested.call_id && !self.is_unknowable(dial);
            let dials: Vec<&Dial> = dials.iter().filter(is_of_call).collect();
            if let Some((law, what)) = self.broken_law(request, requested, &dials, skew_ms) {
                self.state().report_violation(law, format!("{} {request:?}: {what}", requested.call_id));
            }
        }
    }

    /// The law that the dials of one call break, if the clock of the dialer was wrong by `skew_ms` at most.
    fn broken_law(
        &self,
        request: &CallRequest,
        requested: &RequestedCall,
        dials: &[&Dial],
        skew_ms: Millis,
    ) -> Option<(Law, String)> {
        for (place, dial) in dials.iter().enumerate() {
            let checked_ms = dial.started_ms - CHECK_TO_DIAL_MS;
            // A number that was on the list before its call was created is never dialled.
            let is_blocked_before = requested.blocked_at.is_some() && request.block == Some(Block::BeforeCreation);
            if is_blocked_before || requested.blocked_at.is_some_and(|at| at < checked_ms) {
                return Some((Law::NoBlockedNumber, format!("dialled after its number was blocked: {dial:?}")));
            }
            let is_closed = |at| request.window.as_ref().is_some_and(|window| window.closed.contains(&at));
            if [checked_ms - skew_ms, dial.started_ms, dial.started_ms + skew_ms].into_iter().all(is_closed) {
                return Some((Law::WindowOpen, format!("dialled outside its window: {dial:?}")));
            }
            let answered = dials.iter().take(place).find(|earlier| {
                let told_at = self.told_at(earlier, Told::Answer).filter(|_| earlier.behaviour != Behaviour::Voicemail);
                let is_told = told_at.is_some_and(|at| at + TOLD_TO_DIAL_MS < dial.started_ms);
                is_told || !may_follow(request, earlier)
            });
            if let Some(answered) = answered {
                return Some((Law::NotAfterAnswer, format!("after {answered:?} it was dialled again: {dial:?}")));
            }
        }
        None
    }

    /// Checks how many dials each provider has refused because of the account.
    pub(crate) fn check_refusals(&self) {
        let records = self.world.cloud.fake().api_records();
        for provider in Provider::ALL {
            let is_refusal =
                |record: &&ApiRecord| record.provider == provider && record.result == RequestResult::Refused;
            let refused = records.iter().filter(is_refusal).count();
            if refused > REFUSALS_MAX {
                let what = format!("{provider} refused {refused} dials");
                self.state().report_violation(Law::FewRefusedDials, what);
            }
        }
    }

    /// True if the program cannot know of a dial: the provider forgot the call, and its answer to the dial was lost.
    pub(crate) fn is_unknowable(&self, dial: &Dial) -> bool {
        let observed = self.observed.borrow();
        let call = observed.calls.get(&CallId::new(dial.call_id.as_str()));
        let mut records = call.into_iter().flat_map(|call| &call.attempt_records);
        let is_known = records.any(|record| record.provider_call_id.as_ref() == Some(&dial.provider_call_id));
        dial.behaviour == Behaviour::Forgotten && !is_known
    }

    /// Checks for how long dials are in doubt. It is called every second. Time with faults of the provider, the
    /// functions or AWS does not count.
    pub(crate) fn check_doubts(&self) {
        let is_disturbed = self.state().has_fault(|kind| matches!(kind.reach(), Reach::Functions | Reach::Provider));
        let observed = &mut *self.observed.borrow_mut();
        let in_doubt: BTreeMap<(CallId, String), Duration> = observed.calls.values().flat_map(doubts_of).collect();
        observed.doubts.retain(|doubt, _| in_doubt.contains_key(doubt));
        for (doubt, limit) in in_doubt {
            let seconds = observed.doubts.entry(doubt.clone()).or_default();
            *seconds += u64::from(!is_disturbed);
            if Duration::from_secs(*seconds) > limit {
                let (call_id, attempt) = doubt;
                self.state().report_violation(Law::DoubtEnds, format!("{call_id}/{attempt} is still in doubt"));
            }
        }
    }
}

/// True if a call may be dialled again after this dial: nobody can know that the person has answered, or nobody has.
fn may_follow(request: &CallRequest, earlier: &Dial) -> bool {
    // The answer to the dial was lost. The list of a provider that proves no absence may name several calls, and each may be the dialled one.
    let is_undecidable = earlier.behaviour == Behaviour::ResponseLost && proves_no_absence(earlier.provider.as_str());
    if earlier.behaviour == Behaviour::Forgotten {
        request.retries_unheard
    } else {
        earlier.behaviour == Behaviour::Voicemail
            || earlier.answered_ms.is_none()
            || (request.retries_unheard && is_undecidable)
    }
}

/// Returns the attempts in doubt: they were dialled, nothing more is known about them, and their provider can tell more. Each with the longest
/// time for which it may be in doubt.
fn doubts_of(call: &Call) -> Vec<((CallId, String), Duration)> {
    let mut doubts = Vec::new();
    for attempt in call.attempts() {
        let Some(record) = call.attempt_records.get(attempt.index) else { continue };
        let is_heard = call.history.iter().any(|entry| entry.attempt_index == Some(attempt.index));
        // The doubt about a dial whose provider cannot rule it out ends with the inactivity timeout.
        let is_undecidable = record.provider.is_some_and(|provider| proves_no_absence(provider.as_str()));
        let is_unknown = record.provider_call_id.is_none() && !is_heard && !attempt.timed_out;
        if record.dialled_at.is_some() && is_unknown && !is_undecidable {
            let key = record.key.as_ref().map_or_else(String::new, |key| key.as_str().to_owned());
            let is_at_twilio = record.provider == Some(Provider::Twilio);
            let limit = if is_at_twilio { DOUBT_MAX_AT_TWILIO } else { DOUBT_MAX };
            doubts.push(((call.call_id.clone(), key), limit));
        }
    }
    doubts
}
