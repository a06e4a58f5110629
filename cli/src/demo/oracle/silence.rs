//! The silences that the reconciler detects in a call that others place: of an attempt, or of a promised retry.

use super::attempt_knowledge::AttemptKnowledge;
use super::choices::Choices;
use super::evidence::{Evidence, InactivityTimeout, MissedRetry, timeout_detected_between};
use super::knowledge::Knowledge;
use crate::demo::script::Millis;

/// Silence that the reconciler detects.
#[derive(Clone, Copy, Debug)]
pub(super) enum Timeout {
    /// No report of an attempt has arrived.
    Attempt(InactivityTimeout),
    /// A retry that another system had promised has not come.
    Retry(MissedRetry),
}

impl Timeout {
    pub(super) const fn detected_between(&self) -> (Millis, Millis) {
        match self {
            Self::Attempt(timeout) => timeout.detected_between,
            Self::Retry(missed) => missed.detected_between,
        }
    }
}

/// Returns the timeouts that will be detected if nothing more arrives, the earliest first.
///
/// None for a call that Switchhook placed: its timeouts are detected by lookups, which are evidence themselves.
pub(super) fn waiting_timeouts(knowledge: &Knowledge<'_>) -> Vec<Timeout> {
    if knowledge.call.placement.is_some() {
        return Vec::new();
    }
    let of_attempt = |attempt: &AttemptKnowledge<'_>| {
        let (attempt, since) = (attempt.index, attempt.last_event_at);
        Timeout::Attempt(InactivityTimeout { attempt, since, detected_between: timeout_detected_between(since) })
    };
    let attempts = knowledge.attempts();
    let mut waiting: Vec<Timeout> = attempts.iter().filter(|attempt| !attempt.is_settled()).map(of_attempt).collect();
    waiting.extend(knowledge.awaited_retry().map(|(_, report)| Timeout::Retry(MissedRetry::since(report.at))));
    waiting.sort_by_key(Timeout::detected_between);
    waiting
}

/// Returns the next timeout that is detected before the next evidence arrives.
pub(super) fn next_timeout(
    knowledge: &Knowledge<'_>,
    next: Option<&Evidence>,
    choices: &mut Choices,
) -> Option<Timeout> {
    let waiting = waiting_timeouts(knowledge);
    let mut first = *waiting.first()?;
    // One run of the reconciler may detect both timeouts, in either order.
    if let Some(second) = waiting.get(1)
        && second.detected_between().0 <= first.detected_between().1
        && choices.choose()
    {
        first = *second;
    }
    let (earliest, latest) = first.detected_between();
    let is_next = match next {
        None => true,
        Some(evidence) if evidence.at() < earliest => false,
        Some(evidence) if evidence.at() > latest => true,
        Some(_) => choices.choose(),
    };
    is_next.then_some(first)
}
