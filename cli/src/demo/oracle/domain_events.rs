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

use super::choices::Choices;
use super::evidence::{CheckedCall, Evidence, Placement, timeout_detected_between};
use super::expected_event::{AttemptEnd, EventContent, EventSource, ExpectedEvent, INCONCLUSIVE, Topic};
use super::knowledge::{AttemptKnowledge, InactivityTimeout, Knowledge, ReachedStatus};
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
        let mut matcher = EventMatcher { call, actual, expected: Vec::new() };
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
    if let Some(at) = call.placement.as_ref().and_then(|placement| placement.canceled_at) {
        matcher.expect(ExpectedEvent::canceled(at))?;
    }
    let mut order: Vec<&Evidence> = evidence.iter().collect();
    let mut knowledge = Knowledge::empty(call);
    let mut place = 0;
    loop {
        let next = order.get(place).copied();
        while let Some(timeout) = next_timeout(&knowledge, next, choices) {
            knowledge.add_timeout(timeout);
            expect_new(&knowledge, matcher)?;
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

/// Returns the next inactivity timeout that is detected before the next evidence arrives.
///
/// `None` for every call that Switchhook placed: its timeouts are detected by lookups, which are evidence themselves.
fn next_timeout(
    knowledge: &Knowledge<'_>,
    next: Option<&Evidence>,
    choices: &mut Choices,
) -> Option<InactivityTimeout> {
    if knowledge.call.placement.is_some() {
        return None;
    }
    let attempts = knowledge.attempts();
    let mut waiting: Vec<&AttemptKnowledge<'_>> = attempts.iter().filter(|attempt| !attempt.is_settled()).collect();
    waiting.sort_by_key(|attempt| attempt.last_event_at);
    let mut first = waiting.first().copied()?;
    // One run of the reconciler may detect both timeouts, in either order.
    if let Some(second) = waiting.get(1)
        && timeout_detected_between(second.last_event_at).0 <= timeout_detected_between(first.last_event_at).1
        && choices.choose()
    {
        first = second;
    }
    let detected_between = timeout_detected_between(first.last_event_at);
    let (earliest, latest) = detected_between;
    let is_next = match next {
        None => true,
        Some(evidence) if evidence.at() < earliest => false,
        Some(evidence) if evidence.at() > latest => true,
        Some(_) => choices.choose(),
    };
    is_next.then_some(InactivityTimeout { attempt: first.index, since: first.last_event_at, detected_between })
}

/// Expects the events that the knowledge newly requires: first those of each attempt, then of the job, then of the
/// appointment.
fn expect_new<'a>(knowledge: &Knowledge<'a>, matcher: &mut EventMatcher<'a, '_>) -> Result<(), String> {
    let attempts = knowledge.attempts();
    for (place, attempt) in attempts.iter().enumerate() {
        let event = |content| ExpectedEvent::of_attempt(Topic::Lifecycle, attempt, place + 1, content);
        let of_attempt =
            |event: &&ExpectedEvent<'_>| event.topic == Topic::Lifecycle && event.attempt == Some(attempt.index);
        let announced = matcher.expected.iter().filter(of_attempt).filter_map(|event| event.content.rank).max();
        let ended = matcher.expected.iter().rposition(|event| of_attempt(&event) && event.content.is_final);
        let lifecycles = attempt.lifecycles();
        let new: Vec<&ReachedStatus> = lifecycles.iter().filter(|status| Some(status.rank) > announced).collect();
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
    expect_appointment_events(knowledge, &numbered, matcher)
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
        None if placement.fails && latest.index == placement.retries.len() => EventContent::exhausted(&end),
        None => return Ok(()),
    };
    let event = ExpectedEvent::of_attempt(Topic::Job, latest, *number, content);
    matcher.expect(ExpectedEvent { provider_call_id: None, ..event })
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
    let planned_by_others = knowledge.retry_planned().map(|(at, report)| EventSource::Reports(vec![(report, at)]));
    let retries = || knowledge.call.placement.as_ref().is_some_and(|placement| placement.retries(latest.index));
    let planned_by_policy = || AttemptEnd::of(latest).filter(|_| retries()).map(|end| end.source());
    let content = match planned_by_others.or_else(planned_by_policy) {
        Some(source) => Some(EventContent::retrying(source)),
        None => latest.timeout.filter(|_| !latest.has_outcome()).map(EventContent::inconclusive),
    };
    let last = matcher.expected.iter().rfind(|event| event.topic == Topic::Appointment);
    let last = last.map(|event| event.content.status);
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
}

impl<'a> EventMatcher<'a, '_> {
    fn expect(&mut self, event: ExpectedEvent<'a>) -> Result<(), String> {
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
