//! The knowledge about a call at some moment: the states and outcomes that the evidence so far proves. Reports that
//! were lost or have not arrived yet are missing from it.

use super::attempt_knowledge::{AttemptKnowledge, happened_at};
use super::evidence::{
    CheckedCall, Evidence, InactivityTimeout, MissedRetry, ReceivedReport, timeout_detected_between,
};
use crate::demo::script::{Fact, MINUTE, Millis, Report};
use crate::demo::stack_settings::INACTIVITY_TIMEOUT;

/// The drift check ignores an ending that is more recent than this: its webhook may still be on the way.
const DRIFT_CHECK_MIN_AGE: Millis = 10 * MINUTE;

/// Time after a dial at which the lease of its claim ends at the earliest. A lookup before is one of the drift check.
const UNREPORTED_AFTER: Millis = 3 * MINUTE;
/// Beginning of the ids of events that Switchhook makes, such as that a dial was accepted.
const OWN_EVENTS: &str = "switchhook:";

/// Everything that is known about a call at some moment.
#[derive(Clone, Debug)]
pub(super) struct Knowledge<'a> {
    pub(super) call: &'a CheckedCall<'a>,
    received: Vec<(&'a Report, &'a ReceivedReport)>,
    timeouts: Vec<InactivityTimeout>,
    missed_retries: Vec<MissedRetry>,
}

impl<'a> Knowledge<'a> {
    pub(super) const fn empty(call: &'a CheckedCall<'a>) -> Self {
        Self { call, received: Vec::new(), timeouts: Vec::new(), missed_retries: Vec::new() }
    }

    /// Knowledge after all evidence has arrived and every inactivity timeout has passed.
    pub(super) fn at_the_end(call: &'a CheckedCall<'a>, evidence: &'a [Evidence]) -> Self {
        let mut knowledge = Self::empty(call);
        for item in evidence {
            knowledge.add(item);
        }
        for attempt in knowledge.attempts().iter().filter(|attempt| !attempt.is_settled()) {
            let (attempt, since) = (attempt.index, attempt.last_event_at);
            knowledge.timeouts.push(InactivityTimeout {
                attempt,
                since,
                detected_between: timeout_detected_between(since),
            });
        }
        let since = knowledge.awaited_retry().map(|(_, report)| report.at);
        knowledge.missed_retries.extend(since.map(MissedRetry::since));
        knowledge
    }

    pub(super) fn add(&mut self, evidence: &'a Evidence) {
        match evidence {
            Evidence::Received(report) => self.add_report(report),
            Evidence::LookupAnswered(report) if self.is_used(report) => self.add_report(report),
            Evidence::LookupAnswered(_) => {}
            Evidence::LookupNotFound { attempt, at } => self.add_not_found(*attempt, *at),
        }
    }

    /// Adds a report. A report that was added before changes nothing.
    fn add_report(&mut self, received: &'a ReceivedReport) {
        let is_new = self.received.iter().all(|(_, before)| before.report != received.report);
        if let Some(report) = self.call.reports.get(received.report).filter(|_| is_new) {
            self.received.push((report, received));
        }
    }

    /// True if Switchhook makes use of the answer to a lookup. There are three kinds of lookup:
    ///
    /// - The reconciler looks up a dial without any report, and an attempt whose inactivity timeout has passed. It uses
    ///   every answer.
    /// - It looks up a dial that the provider accepted and then reported nothing about. It uses only the ending.
    /// - The hourly drift check uses only the ending of an attempt that is not known to have ended.
    fn is_used(&self, received: &ReceivedReport) -> bool {
        let Some(report) = self.call.reports.get(received.report) else { return false };
        let attempts = self.attempts();
        let Some(attempt) = attempts.iter().find(|attempt| attempt.index == report.attempt) else { return true };
        let mut endings = report.statements.iter().filter(|statement| statement.fact.ending().is_some());
        // An unanswered call may have an ending without a time. The attempt's last event then gives its age.
        let ended_long_ago =
            endings.any(|ending| ending.at.unwrap_or(attempt.last_event_at) + DRIFT_CHECK_MIN_AGE <= received.at);
        let is_ending = report.statements.iter().any(|statement| statement.fact.ending().is_some());
        let of_attempt = self.received.iter().filter(|(report, _)| report.attempt == attempt.index);
        let is_unreported = of_attempt.map(|(_, received)| &received.event_id).all(|id| id.starts_with(OWN_EVENTS))
            && received.at >= attempt.started_at + UNREPORTED_AFTER;
        let timeout_passed = received.at >= attempt.last_event_at + INACTIVITY_TIMEOUT;
        let tells_ending = !attempt.has_ended() && (ended_long_ago || (is_ending && is_unreported));
        !attempt.is_settled() && (timeout_passed || tells_ending)
    }

    /// Adds a lookup that found no such call at the provider. It counts only for an attempt that was reported, and only once
    /// the inactivity timeout has passed. Before that, the dial may still be on its way to the provider.
    fn add_not_found(&mut self, attempt: usize, at: Millis) {
        let known = self.attempts().into_iter().find(|known| known.index == attempt);
        let since = match known {
            Some(known) if known.is_settled() => return,
            Some(known) => known.last_event_at,
            // Nothing was ever reported, so the provider dialled nobody. The dial is no attempt.
            None => return,
        };
        if at >= since + INACTIVITY_TIMEOUT {
            self.add_timeout(InactivityTimeout { attempt, since, detected_between: (at, at) });
        }
    }

    pub(super) fn add_timeout(&mut self, timeout: InactivityTimeout) {
        self.timeouts.push(timeout);
    }

    /// True if every report has arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.received.len() == self.call.reports.iter().filter(|report| report.is_folded()).count()
    }

    /// Returns the attempts that are known, in the order in which they started.
    pub(super) fn attempts(&self) -> Vec<AttemptKnowledge<'a>> {
        let mut attempts: Vec<AttemptKnowledge<'a>> = Vec::new();
        for (report, received) in self.received.iter().filter(|(report, _)| !report.states(Fact::RetryPlanned)) {
            let place = match attempts.iter().position(|attempt| attempt.index == report.attempt) {
                Some(place) => place,
                None => {
                    attempts.push(AttemptKnowledge::new(self.call, report.attempt));
                    attempts.len() - 1
                }
            };
            if let Some(attempt) = attempts.get_mut(place) {
                attempt.add(report, received);
            }
        }
        attempts.sort_by_key(|attempt| attempt.started_at);
        // A planned retry concerns the whole call. It restarts the timeout of every attempt that had started by then.
        for (report, received) in self.received.iter().filter(|(report, _)| report.states(Fact::RetryPlanned)) {
            let planned_at = happened_at(report, received);
            for (place, attempt) in attempts.iter_mut().enumerate() {
                if place == 0 || attempt.started_at <= planned_at {
                    attempt.last_event_at = attempt.last_event_at.max(received.at);
                }
            }
        }
        for attempt in &mut attempts {
            let mut timeouts = self.timeouts.iter().filter(|timeout| timeout.attempt == attempt.index).peekable();
            attempt.presumes_loss = timeouts.peek().is_some();
            attempt.timeout = timeouts.find(|timeout| timeout.since >= attempt.last_event_at).copied();
        }
        attempts
    }

    /// The appointment id of the call, if a report has carried it or the request that created the call names it.
    pub(super) fn appointment_id(&self) -> Option<&'a str> {
        let is_known = || self.received.iter().any(|(report, _)| report.names_appointment);
        self.call.appointment_id.filter(|_| self.call.placement.is_some() || is_known())
    }

    /// Latest report that another attempt is planned, and the time that it states. `None` if an attempt has started
    /// since, or if the person has decided.
    fn planned_retry(&self) -> Option<(Millis, &'a ReceivedReport)> {
        let attempts = self.attempts();
        if attempts.iter().any(|attempt| attempt.decisive_outcome().is_some()) {
            return None;
        }
        let started_at = attempts.last().map_or(Millis::MIN, |latest| latest.started_at);
        self.received
            .iter()
            .filter(|(report, _)| report.states(Fact::RetryPlanned))
            .map(|(report, received)| (happened_at(report, received), *received))
            .filter(|(planned_at, _)| *planned_at >= started_at)
            .max_by_key(|(planned_at, _)| *planned_at)
    }

    /// The planned retry that may still come.
    pub(super) fn awaited_retry(&self) -> Option<(Millis, &'a ReceivedReport)> {
        self.planned_retry().filter(|(_, report)| self.miss_of(report).is_none())
    }

    /// The planned retry that has not come in time.
    pub(super) fn missed_retry(&self) -> Option<MissedRetry> {
        self.planned_retry().and_then(|(_, report)| self.miss_of(report))
    }

    fn miss_of(&self, planned: &ReceivedReport) -> Option<MissedRetry> {
        self.missed_retries.iter().find(|missed| missed.since >= planned.at).copied()
    }

    pub(super) fn add_missed_retry(&mut self, missed: MissedRetry) {
        self.missed_retries.push(missed);
    }

    /// Appointment status that the API must show in the end.
    pub(super) fn final_appointment(&self) -> &'static str {
        let attempts = self.attempts();
        if let Some(decided) = attempts.iter().rev().find_map(AttemptKnowledge::decisive_outcome) {
            return if decided == "confirmed" { "Confirmed" } else { "Declined" };
        }
        if self.missed_retry().is_some() {
            return "Inconclusive";
        }
        match attempts.last().map(AttemptKnowledge::final_outcome) {
            Some("no_answer") => "NoAnswer",
            Some("voicemail") => "Voicemail",
            Some("connected") => "Connected",
            Some("inconclusive") => "Inconclusive",
            Some(_) | None => "unexpected",
        }
    }

    /// Final job state of a call that others place. It is completed if somebody confirmed or declined, or if an attempt
    /// was completed. An inbound call that certainly nobody answered is missed, for whatever reason: nobody had a job that could fail.
    pub(super) fn final_job(&self, inbound: bool) -> &'static str {
        let attempts = self.attempts();
        let done = attempts
            .iter()
            .any(|attempt| attempt.decisive_outcome().is_some() || attempt.final_lifecycle() == "completed");
        let missed = attempts.iter().all(|attempt| attempt.final_outcome() == "no_answer");
        match (done, inbound && missed) {
            (true, _) => "COMPLETED",
            (false, true) => "MISSED",
            (false, false) => "FAILED",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::oracle::evidence::CheckedAttempt;
    use crate::demo::script::{Ending, Provider, Statement};

    fn report(fact: Fact, at: Option<Millis>) -> Report {
        Report {
            name: String::new(),
            attempt: 0,
            has_provider_call_id: true,
            names_appointment: false,
            statements: vec![Statement { fact, at }],
            emitted_at: 0,
            query: String::new(),
            body: Vec::new(),
        }
    }

    /// True if the drift check uses an ending that it learns at this time. The attempt began at 0, and its webhooks were lost.
    fn uses_ending(ended_at: Option<Millis>, learned_at: Millis) -> bool {
        let reports = [report(Fact::Initiated, Some(0)), report(Fact::Ended(Ending::Failed), ended_at)];
        let attempt = CheckedAttempt { provider: Provider::Retell, provider_call_id: None };
        let call = CheckedCall {
            call_id: "call-1",
            appointment_id: None,
            attempts: vec![attempt],
            reports: &reports,
            placement: None,
        };
        let received = |report, at| ReceivedReport { report, event_id: String::new(), at };
        let evidence = [Evidence::Received(received(0, 0)), Evidence::LookupAnswered(received(1, learned_at))];
        let mut knowledge = Knowledge::empty(&call);
        evidence.iter().for_each(|item| knowledge.add(item));
        knowledge.received.len() == 2
    }

    #[test]
    fn drift_check_uses_endings_that_are_ten_minutes_old() {
        assert!(uses_ending(Some(MINUTE), 11 * MINUTE));
        assert!(!uses_ending(Some(MINUTE), 11 * MINUTE - 1));
        // An ending without a time is as old as the last event before it.
        assert!(uses_ending(None, 10 * MINUTE));
        assert!(!uses_ending(None, 10 * MINUTE - 1));
    }
}
