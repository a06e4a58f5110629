//! The domain events that a call must have caused, in order.
//!
//! The oracle goes through the evidence in the order of arrival, and inserts each inactivity timeout at the time of its
//! detection. After each step it expects a domain event for every status that is new and higher than all that were
//! announced before.
//!
//! **If the ground truth determines the order, the oracle accepts no other.** It does not determine the order in three
//! cases, and the oracle then tries both:
//!
//! - If two reports arrive in the same millisecond, either may be folded first.
//! - If two reports arrive within a second, they may be folded together.
//! - For calls that others place, the oracle knows the period of the reconciler, but not the moment of its runs. A
//!   timeout may therefore be detected before or after a report that arrives at about the same time.

use serde_json::Value;

use super::attempt_knowledge::{AttemptKnowledge, CONNECTED, ReachedStatus};
use super::choices::Choices;
use super::evidence::{CheckedCall, Evidence, Placement};
use super::expected_event::{AttemptEnd, EventContent, EventSource, ExpectedEvent, INCONCLUSIVE, Topic};
use super::knowledge::Knowledge;
use super::silence::{Timeout, next_timeout, waiting_timeouts};
use crate::demo::script::{Millis, SECOND};

/// Two reports that arrive within this time may be folded together.
const FOLDED_TOGETHER_WITHIN: Millis = SECOND;
/// Largest number of combinations that the oracle tries for one call. A call that needs more is a mismatch.
const COMBINATIONS_MAX: usize = 1 << 14;

/// Compares the domain events of a call with the expected ones. `evidence` is in the order of time.
///
/// Returns `None` if one of the possible orders explains every event. Otherwise it describes the first mismatch of the
/// order that explains the most events.
pub(super) fn mismatch(call: &CheckedCall<'_>, evidence: &[Evidence], actual: &[Value]) -> Option<String> {
    let mut choices = Choices::default();
    let mut closest: Option<(usize, String)> = None;
    for _ in 0..COMBINATIONS_MAX {
        let mut matcher = EventMatcher { call, actual, expected: Vec::new(), appointment_id: None };
        let result = expect_all(call, evidence, &mut choices, &mut matcher).and_then(|()| matcher.finish());
        match result {
            Ok(()) => return None,
            Err(description) => {
                let matched = matcher.expected.len();
                if closest.as_ref().is_none_or(|(most, _)| matched > *most) {
                    closest = Some((matched, description));
                }
            }
        }
        if !choices.next() {
            return closest.map(|(_, description)| description);
        }
    }
    Some(format!("none of {COMBINATIONS_MAX} possible orders of this call explains its domain events"))
}

/// Expects every domain event of the call, in the order that `choices` select.
fn expect_all<'a>(
    call: &'a CheckedCall<'a>,
    evidence: &'a [Evidence],
    choices: &mut Choices,
    matcher: &mut EventMatcher<'a, '_>,
) -> Result<(), String> {
    let mut order: Vec<&Evidence> = evidence.iter().collect();
    let mut knowledge = Knowledge::empty(call);
    matcher.appointment_id = knowledge.appointment_id();
    if let Some(end) = call.placement.as_ref().and_then(|placement| placement.ended) {
        for event in ExpectedEvent::of_end(end) {
            if event.topic == Topic::Job || matcher.appointment_id.is_some() {
                matcher.expect(event)?;
            }
        }
    }
    let mut place = 0;
    loop {
        let next = order.get(place).copied();
        while let Some(detected) = next_timeout(&knowledge, next, choices) {
            match detected {
                Timeout::Attempt(timeout) => knowledge.add_timeout(timeout),
                Timeout::Retry(missed) => knowledge.add_missed_retry(missed),
            }
            // One run of the reconciler may detect several timeouts, which are then folded together.
            let more = waiting_timeouts(&knowledge)
                .iter()
                .any(|other| other.detected_between().0 <= detected.detected_between().1);
            if !(more && choices.choose()) {
                expect_new(&knowledge, matcher)?;
            }
        }
        let Some(mut item) = next else { return Ok(()) };
        let same_time = order.get(place + 1).is_some_and(|after| after.at() == item.at());
        if same_time && choices.choose() {
            order.swap(place, place + 1);
            item = order.get(place).copied().unwrap_or(item);
        }
        knowledge.add(item);
        place += 1;
        let close = order.get(place).is_some_and(|after| after.at() - item.at() <= FOLDED_TOGETHER_WITHIN);
        if !(close && choices.choose()) {
            expect_new(&knowledge, matcher)?;
        }
    }
}

/// Expects the events that the knowledge newly requires: first those of each attempt, then of the job, then of the
/// appointment. For a call without an appointment, the outcomes of each attempt take the place of the last.
fn expect_new<'a>(knowledge: &Knowledge<'a>, matcher: &mut EventMatcher<'a, '_>) -> Result<(), String> {
    let attempts = knowledge.attempts();
    matcher.appointment_id = knowledge.appointment_id();
    for (place, attempt) in attempts.iter().enumerate() {
        let event = |content| ExpectedEvent::of_attempt(Topic::Lifecycle, attempt, place + 1, content);
        let of_attempt =
            |event: &&ExpectedEvent<'_>| event.topic == Topic::Lifecycle && event.attempt == Some(attempt.index);
        let announced = matcher.expected.iter().filter(of_attempt).filter_map(|event| event.content.rank).max();
        let ended = matcher.expected.iter().rposition(|event| of_attempt(&event) && event.content.is_final);
        let mut last = matcher.expected.iter().rfind(of_attempt).map(|event| event.content.status);
        let lifecycles = attempt.lifecycles();
        // A presumed `completed` and a reported one look the same to a subscriber, so the second is not announced.
        let is_new = |status: &&ReachedStatus| {
            Some(status.rank) > announced && last.replace(status.status) != Some(status.status)
        };
        let new: Vec<&ReachedStatus> = lifecycles.iter().filter(is_new).collect();
        for status in &new {
            matcher.expect(event(EventContent::reached(status, attempt)))?;
        }
        if let (Some(status), Some(ended)) = (new.last(), ended) {
            let correction = event(EventContent::reached(status, attempt));
            matcher.expect(ExpectedEvent { topic: Topic::Correction(ended), ..correction })?;
        }
        let last = matcher.expected.iter().rfind(of_attempt).map(|event| event.content.status);
        if let Some(timeout) = attempt.timeout.filter(|_| !attempt.has_ended() && last != Some(INCONCLUSIVE)) {
            matcher.expect(event(EventContent::inconclusive(timeout)))?;
        }
    }
    let numbered: Vec<(&AttemptKnowledge<'a>, usize)> = attempts.iter().zip(1..).collect();
    if let Some(placement) = &knowledge.call.placement {
        expect_job_event(placement, &numbered, matcher)?;
    }
    if matcher.appointment_id.is_some() {
        return expect_appointment_events(knowledge, &numbered, matcher);
    }
    numbered.iter().try_for_each(|(attempt, number)| expect_outcome_events(attempt, *number, matcher))
}

/// Expects `call.retry_scheduled` or `call.exhausted` once the latest attempt has ended.
fn expect_job_event<'a>(
    placement: &Placement,
    attempts: &[(&AttemptKnowledge<'a>, usize)],
    matcher: &mut EventMatcher<'a, '_>,
) -> Result<(), String> {
    let Some((latest, number)) = attempts.last() else { return Ok(()) };
    let is_announced = |event: &ExpectedEvent<'_>| event.topic == Topic::Job && event.attempt == Some(latest.index);
    if matcher.expected.iter().any(is_announced) {
        return Ok(());
    }
    let Some(end) = AttemptEnd::of(latest) else { return Ok(()) };
    let content = match placement.retry_due_between(latest.index, end.known_between()) {
        Some(due_between) => EventContent::retry_scheduled(&end, due_between),
        None => match placement.fails_after {
            Some((attempt, reason)) if attempt == latest.index => EventContent::exhausted(&end, reason),
            Some(_) | None => return Ok(()),
        },
    };
    let event = ExpectedEvent::of_attempt(Topic::Job, latest, *number, content);
    matcher.expect(ExpectedEvent { provider_call_id: None, ..event })
}

/// Expects `call.outcome` for each final outcome that the attempt has newly reached.
fn expect_outcome_events<'a>(
    attempt: &AttemptKnowledge<'a>,
    number: usize,
    matcher: &mut EventMatcher<'a, '_>,
) -> Result<(), String> {
    let own = |event: &&ExpectedEvent<'_>| event.topic == Topic::Outcome && event.attempt == Some(attempt.index);
    let announced = matcher.expected.iter().filter(own).filter_map(|event| event.content.rank).max();
    for outcome in attempt.final_outcomes().iter().filter(|outcome| Some(outcome.rank) > announced) {
        let content = EventContent::reached(outcome, attempt);
        matcher.expect(ExpectedEvent::of_attempt(Topic::Outcome, attempt, number, content))?;
    }
    let last = matcher.expected.iter().rfind(own).map(|event| event.content.status);
    match attempt.timeout.filter(|_| !attempt.has_outcome() && last != Some(INCONCLUSIVE)) {
        Some(timeout) => {
            let content = EventContent::inconclusive(timeout);
            matcher.expect(ExpectedEvent::of_attempt(Topic::Outcome, attempt, number, content))
        }
        None => Ok(()),
    }
}

/// Expects the new events of the appointment. It follows the attempt that was confirmed or declined, otherwise the
/// latest.
fn expect_appointment_events<'a>(
    knowledge: &Knowledge<'a>,
    attempts: &[(&AttemptKnowledge<'a>, usize)],
    matcher: &mut EventMatcher<'a, '_>,
) -> Result<(), String> {
    let decided = attempts.iter().rfind(|(attempt, _)| attempt.decisive_outcome().is_some()).copied();
    let Some(latest) = attempts.last().copied() else { return Ok(()) };
    let (deciding, number) = decided.unwrap_or(latest);
    let of_deciding =
        |event: &&ExpectedEvent<'_>| event.topic == Topic::Appointment && event.attempt == Some(deciding.index);
    let announced = matcher.expected.iter().filter(of_deciding).filter_map(|event| event.content.rank).max();
    for outcome in deciding.outcomes().iter().filter(|outcome| Some(outcome.rank) > announced) {
        let content = EventContent::reached(outcome, deciding);
        matcher.expect(ExpectedEvent::of_attempt(Topic::Appointment, deciding, number, content))?;
    }
    if decided.is_some() {
        return Ok(());
    }
    let (latest, number) = latest;
    let last = matcher.expected.iter().rfind(|event| event.topic == Topic::Appointment);
    let last = last.map(|event| event.content.status);
    if let Some(missed) = knowledge.missed_retry() {
        // The promise was made for the whole call, so its end belongs to no attempt.
        let event = ExpectedEvent::of_call(Topic::Appointment, EventContent::retry_missed(missed));
        return if last == Some(INCONCLUSIVE) { Ok(()) } else { matcher.expect(event) };
    }
    let awaited = knowledge.awaited_retry().map(|(at, report)| EventSource::Reports(vec![(report, at)]));
    let retries = || knowledge.call.placement.as_ref().is_some_and(|placement| placement.retries(latest.index));
    let planned_by_policy = || AttemptEnd::of(latest).filter(|_| retries()).map(|end| end.source());
    let content = match awaited.or_else(planned_by_policy) {
        Some(source) => Some(EventContent::retrying(source)),
        None if latest.has_outcome() => {
            // After an inactivity timeout, the ending shows that nothing more will come.
            let settled = latest.final_outcomes().pop().filter(|outcome| outcome.status == CONNECTED);
            settled.filter(|_| last == Some(INCONCLUSIVE)).map(|outcome| EventContent::reached(&outcome, latest))
        }
        None => latest.timeout.map(EventContent::inconclusive),
    };
    match content.filter(|content| last != Some(content.status)) {
        Some(content) => matcher.expect(ExpectedEvent::of_attempt(Topic::Appointment, latest, number, content)),
        None => Ok(()),
    }
}

/// Compares the expected events one by one with the published events.
struct EventMatcher<'a, 'b> {
    call: &'a CheckedCall<'a>,
    actual: &'b [Value],
    /// The expected events that were found so far.
    expected: Vec<ExpectedEvent<'a>>,
    /// The appointment of the call, as far as it is known now.
    appointment_id: Option<&'a str>,
}

impl<'a> EventMatcher<'a, '_> {
    fn expect(&mut self, event: ExpectedEvent<'a>) -> Result<(), String> {
        let event = ExpectedEvent { appointment_id: self.appointment_id, ..event };
        let sequence = self.expected.len() + 1;
        let event_type = event.event_type();
        let Some(actual) = self.actual.get(self.expected.len()) else {
            return Err(format!("domain event {sequence} is missing: {event_type}"));
        };
        if let Some(difference) = event.difference(self.call, &self.expected, actual) {
            return Err(format!("domain event {sequence}, {event_type}: {difference}"));
        }
        self.expected.push(event);
        Ok(())
    }

    /// Fails if more events were published than expected.
    fn finish(&self) -> Result<(), String> {
        match self.actual.get(self.expected.len()) {
            Some(extra) => Err(format!("domain event {} is one too many: {extra}", self.expected.len() + 1)),
            None => Ok(()),
        }
    }
}
