//! The next dial of a call: when it is due, and which provider is asked to place it.

use crate::attempt::AttemptState;
use crate::call::{AttemptRecord, Call, Job};
use crate::plan::{Plan, Refusals};
use crate::provider::Provider;
use crate::time::Timestamp;

impl Call {
    /// True if the call waits to be placed, and its time has come.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.pending_due_at().is_some_and(|due_at| due_at <= now)
    }

    /// Returns the due time of a call that waits to be claimed. `None` for any other call.
    #[must_use]
    pub fn pending_due_at(&self) -> Option<Timestamp> {
        match self.job {
            Job::Pending { due_at } => self.plan.is_some().then_some(due_at),
            Job::Claimed { .. } | Job::InProgress | Job::Completed | Job::Failed | Job::Missed | Job::Canceled => None,
        }
    }

    /// Returns the time at which the call was due first: its planned due time, or the time of a trigger before it. `None` if another system
    /// places the call.
    pub(crate) fn first_due_at(&self) -> Option<Timestamp> {
        let planned = self.plan.as_ref()?.due_at;
        Some(self.manual_trigger.map_or(planned, |trigger| trigger.at.min(planned)))
    }

    /// Returns the providers that may place the next attempt, in the order in which they are asked. That is the order of the
    /// plan, but providers that have refused this attempt come last, in the order of their last refusals. Empty if another system places
    /// the call.
    #[must_use]
    pub fn dial_providers(&self) -> Vec<Provider> {
        let refused = self.next_attempt(&self.attempts()).refused;
        let mut providers = self.plan.as_ref().map_or_else(Vec::new, |plan| plan.providers.clone());
        providers.sort_by_key(|provider| refused.iter().position(|refused| refused == provider));
        providers
    }

    /// Returns the provider that is asked first to place the next attempt. `None` if another system places the call.
    #[must_use]
    pub fn dial_provider(&self) -> Option<Provider> {
        self.dial_providers().first().copied()
    }

    /// Returns how often the attempt of this dial has paused before, after refusals that may be because of one of its numbers.
    #[must_use]
    pub fn refusal_pauses(&self, dial_key: &str) -> u32 {
        let is_dial = |record: &AttemptRecord| record.dial_key.as_deref() == Some(dial_key);
        let index = self.attempt_records.iter().position(is_dial);
        index.and_then(|index| self.refusals_before(index)).map_or(0, |noted| noted.pauses)
    }

    /// Notes that a provider refused to place the next attempt. Returns true if another provider is left to ask. If none is
    /// left, all of them are asked again.
    pub(crate) fn note_refusal(&mut self, provider: Option<Provider>) -> bool {
        let mut next = self.next_attempt(&self.attempts());
        let asks_next = provider.is_some_and(|provider| next.note_refusal(provider, self.plan.as_ref()));
        let after_dials = self.attempt_records.len();
        let pauses = self.refusals_before(after_dials).map_or(0, |noted| noted.pauses);
        self.refusals = Some(Refusals { after_dials, providers: next.refused, pauses });
        asks_next
    }

    /// Returns the noted refusals of the attempt whose dial has this index among the records. `None` if they are of an earlier attempt.
    fn refusals_before(&self, index: usize) -> Option<&Refusals> {
        self.refusals.as_ref().filter(|noted| {
            noted.after_dials <= index && (noted.after_dials..index).all(|index| self.is_withdrawn(index))
        })
    }

    /// Returns the state of the attempt that follows `attempts`, which are all attempts of the call.
    pub(crate) fn next_attempt(&self, attempts: &[AttemptState]) -> NextAttempt {
        let latest = attempts.last().map(|attempt| (attempt.started_at, attempt.index));
        let is_later = |dial: &(Timestamp, usize)| Some(*dial) > latest && self.is_withdrawn(dial.1);
        let records = self.attempt_records.iter().enumerate();
        let mut dials: Vec<_> = records.filter_map(|(index, record)| Some((record.dialled_at?, index))).collect();
        dials.retain(is_later);
        dials.sort_unstable();
        let noted = self.refusals_before(self.attempt_records.len());
        let is_in_note = |index: usize| noted.is_some_and(|noted| index < noted.after_dials);
        let mut next = NextAttempt::default();
        for (_, index) in dials.iter().filter(|(_, index)| is_in_note(*index)) {
            self.add_dial_not_made(&mut next, *index);
        }
        if let Some(noted) = noted {
            next.refused.clone_from(&noted.providers);
        }
        for (_, index) in dials.iter().filter(|(_, index)| !is_in_note(*index)) {
            self.add_dial_not_made(&mut next, *index);
        }
        next
    }

    fn add_dial_not_made(&self, next: &mut NextAttempt, index: usize) {
        let Some(provider) = self.attempt_records.get(index).and_then(|record| record.provider) else { return };
        let asks_next = next.note_refusal(provider, self.plan.as_ref());
        if !asks_next || next.dials_not_made.contains(&provider) {
            next.pausing_dials.push(index);
        }
        next.dials_not_made.push(provider);
    }
}

/// State of an attempt that is yet to be made.
#[derive(Debug, Default)]
pub(crate) struct NextAttempt {
    /// Providers that have refused it, in the order of their last refusals. A provider that accepted a dial and did not make it has
    /// refused it too. If all have refused, all are asked again, and none is listed.
    refused: Vec<Provider>,
    /// Providers of the dials that were not made, in the order of the dials.
    dials_not_made: Vec<Provider>,
    /// Indexes into [`Call::attempt_records`] of the dials that were not made, and after which the call pauses.
    ///
    /// A call pauses unless another provider is left to ask. **Only the first such dial of a provider leads to another provider at once.**
    /// So each further dial has a pause, and a call never uses up its [room](Call::has_room_for_dial).
    pub(crate) pausing_dials: Vec<usize>,
}

impl NextAttempt {
    /// Notes a refusal. Returns true if the next provider is asked at once.
    ///
    /// **A provider that refuses the attempt again leaves none to ask.** It was asked because the others take no calls now. If it were
    /// asked again at once, it would be dialled without a pause until another provider is available. It stays among those that have
    /// refused, so the others are asked first once they are available.
    fn note_refusal(&mut self, provider: Provider, plan: Option<&Plan>) -> bool {
        let is_repeated = self.refused.contains(&provider);
        self.refused.retain(|refused| *refused != provider);
        self.refused.push(provider);
        let is_one_left =
            plan.is_some_and(|plan| plan.providers.iter().any(|provider| !self.refused.contains(provider)));
        if !is_one_left {
            self.refused.clear();
        }
        is_one_left && !is_repeated
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::call::Policy;
    use crate::event::{AttemptKey, CallId};
    use crate::number::PhoneNumber;
    use crate::plan::{NewCall, RetryPolicy};
    use crate::provider::ProviderSet;

    const LEASE: Duration = Duration::from_secs(300);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn policy() -> Policy {
        Policy { inactivity_timeout: Duration::from_secs(900), outcome_providers: ProviderSet::from_iter([]) }
    }

    fn call_with(providers: &[Provider]) -> Call {
        let retry = RetryPolicy {
            attempts_max: 3,
            delay_seconds: 60,
            delay_max_seconds: 600,
            voicemail: false,
            unheard: false,
        };
        let plan = Plan {
            providers: providers.to_vec(),
            due_at: at(0),
            not_after: None,
            window: None,
            retry,
            metadata: BTreeMap::new(),
            request_hash: None,
            trace_id: None,
        };
        let new = NewCall {
            call_id: CallId::new("call-1"),
            from: PhoneNumber::new("+15550100"),
            to: PhoneNumber::new("+15550101"),
            appointment_id: None,
            plan,
        };
        Call::schedule(new, &policy(), at(0)).call
    }

    /// Dials a call with its next provider, which refuses.
    fn refused(call: &Call, now: i64) -> Call {
        refused_by(call, call.dial_provider().expect("placed by us"), now)
    }

    /// Dials a call with this provider, which refuses.
    fn refused_by(call: &Call, provider: Provider, now: i64) -> Call {
        let claimed = call.claim("token", Provider::Retell, LEASE, false, &policy(), at(now)).expect("due").call;
        let started = claimed.start_dial("token", "dial", provider, &policy(), at(now)).expect("claimed");
        let dialled = started.transition.call;
        dialled.withdraw("dial", at(now + 60), &policy(), at(now)).expect("not reported").call
    }

    #[test]
    fn providers_are_asked_in_turn_and_then_again_after_a_pause() {
        let call = call_with(&[Provider::Vapi, Provider::Retell]);
        let once = refused(&call, 1);
        assert!(once.is_due(at(1)), "the next provider is asked at once");
        assert_eq!(once.dial_providers(), [Provider::Retell, Provider::Vapi]);
        let twice = refused(&once, 2);
        assert!(!twice.is_due(at(61)) && twice.is_due(at(62)), "all have refused");
        assert_eq!(twice.dial_providers(), [Provider::Vapi, Provider::Retell]);
        assert_eq!(twice.attempts(), [], "no refusal counts as an attempt");
    }

    #[test]
    fn only_provider_is_asked_again_after_a_pause_however_often_it_refuses() {
        let mut call = call_with(&[Provider::Retell]);
        for round in 0..200 {
            call = refused(&call, round * 60 + 1);
            assert!(!call.is_due(at(round * 60 + 60)) && call.is_due(at(round * 60 + 61)));
        }
    }

    /// The first provider is unavailable, so only the second one is asked.
    #[test]
    fn provider_that_refuses_again_is_asked_after_a_pause_although_another_one_was_not_asked() {
        let mut call = refused_by(&call_with(&[Provider::Vapi, Provider::Retell]), Provider::Retell, 1);
        assert!(call.is_due(at(1)), "the other provider may take it at once");
        for round in 0..200 {
            let now = round * 60 + 1;
            call = refused_by(&call, Provider::Retell, now);
            assert!(!call.is_due(at(now + 59)) && call.is_due(at(now + 60)), "round {round}");
            assert_eq!(call.dial_providers(), [Provider::Vapi, Provider::Retell]);
            let refusals = call.refusals.as_ref().map(|refusals| refusals.providers.as_slice());
            assert_eq!(refusals, Some(&[Provider::Retell][..]));
        }
        // Once the first provider is available, it is asked. Then both have refused.
        let both = refused_by(&call, Provider::Vapi, 20_000);
        assert!(!both.is_due(at(20_059)) && both.refusals.is_some_and(|refusals| refusals.providers.is_empty()));
    }

    #[test]
    fn providers_that_refuse_again_are_asked_in_turn() {
        let call = call_with(&[Provider::Vapi, Provider::Retell, Provider::Twilio]);
        let once = refused_by(&call, Provider::Retell, 1);
        let twice = refused_by(&once, Provider::Twilio, 1);
        assert_eq!(twice.dial_providers(), [Provider::Vapi, Provider::Retell, Provider::Twilio]);
        let again = refused_by(&twice, Provider::Retell, 1);
        assert_eq!(again.dial_providers(), [Provider::Vapi, Provider::Twilio, Provider::Retell]);
        assert!(twice.is_due(at(1)) && !again.is_due(at(1)));
    }

    #[test]
    fn refusals_hold_for_one_attempt() {
        let call = refused(&call_with(&[Provider::Vapi, Provider::Retell]), 1);
        let claimed = call.claim("token", Provider::Retell, LEASE, false, &policy(), at(2)).expect("due").call;
        let started = claimed.start_dial("token", "dial", Provider::Retell, &policy(), at(2)).expect("claimed");
        assert_eq!(started.attempt, AttemptKey::new("1"));
        assert_eq!(started.transition.call.dial_providers(), [Provider::Vapi, Provider::Retell]);
    }

    #[test]
    fn pauses_because_of_a_number_are_counted_until_the_attempt_is_made() {
        let dialled = |call: &Call, now: i64| {
            let claimed = call.claim("token", Provider::Retell, LEASE, false, &policy(), at(now)).expect("due").call;
            claimed.start_dial("token", "dial", Provider::Retell, &policy(), at(now)).expect("claimed").transition.call
        };
        let blocked = |call: &Call, now: i64| {
            let withdrawn = dialled(call, now).withdraw("dial", at(now + 60), &policy(), at(now));
            withdrawn.expect("not reported").counting_pause().call
        };
        let call = call_with(&[Provider::Retell]);
        let twice = blocked(&blocked(&call, 500), 1_000);
        let busy = refused(&twice, 2_000);
        let pauses = [&call, &twice, &busy].map(|call| dialled(call, 3_000).refusal_pauses("dial"));
        assert_eq!(pauses, [0, 2, 2], "a refusal for another reason does not count");
        assert_eq!(dialled(&busy, 3_000).refusals_before(1), None, "the attempt was made, so the next one is another");
        let asks_next = blocked(&call_with(&[Provider::Vapi, Provider::Retell]), 1);
        assert_eq!(dialled(&asks_next, 1).refusal_pauses("dial"), 0, "there was no pause");
    }

    #[test]
    fn trigger_counts_from_its_time_if_the_call_was_not_due() {
        let call = call_with(&[Provider::Retell]);
        let early = Plan { due_at: at(1_000), ..call.plan.clone().expect("placed by us") };
        let early = Call { plan: Some(early), ..call.clone() };
        assert_eq!(early.first_due_at(), Some(at(1_000)));
        assert_eq!(early.trigger(&policy(), at(10)).expect("pending").call.first_due_at(), Some(at(10)));
        assert_eq!(call.trigger(&policy(), at(10)).expect("pending").call.first_due_at(), Some(at(0)));
    }

    #[test]
    fn released_call_stays_due() {
        let call = call_with(&[Provider::Retell]);
        let claimed = call.claim("token", Provider::Retell, LEASE, false, &policy(), at(1)).expect("due").call;
        assert_eq!(claimed.release("other", &policy(), at(2)), None);
        let released = claimed.release("token", &policy(), at(2)).expect("claimed").call;
        assert_eq!(released.job, Job::Pending { due_at: at(0) });
    }
}
