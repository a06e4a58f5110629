//! The knowledge about a call at some moment: the states and outcomes that the evidence so far proves. Reports that
//! were lost or have not arrived yet are missing from it.

use super::evidence::{CheckedCall, Evidence, ReceivedReport, timeout_detected_between};
use crate::demo::script::{Ending, Fact, GroundTruth, MINUTE, Millis, Report, Statement};
use crate::demo::stack_settings::INACTIVITY_TIMEOUT;

/// The drift check ignores an ending that is more recent than this: its webhook may still be on the way.
const DRIFT_CHECK_MIN_AGE: Millis = 10 * MINUTE;

/// An inactivity timeout of an attempt, which the reconciler has detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InactivityTimeout {
    /// Index into the attempts of the call.
    pub(super) attempt: usize,
    /// Time of the attempt's last event. If it has none, the time of its dial.
    pub(super) since: Millis,
    /// Earliest and latest time of the detection, both included.
    pub(super) detected_between: (Millis, Millis),
}

/// Everything that is known about a call at some moment.
#[derive(Clone, Debug)]
pub(super) struct Knowledge<'a> {
    pub(super) call: &'a CheckedCall<'a>,
    received: Vec<(&'a Report, &'a ReceivedReport)>,
    timeouts: Vec<InactivityTimeout>,
}

/// A lifecycle or an outcome that an attempt has reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReachedStatus {
    /// The status with the highest rank counts.
    pub(super) rank: u8,
    pub(super) status: &'static str,
    /// Fact that proves the status. `None` for the first status, which every attempt has.
    pub(super) fact: Option<Fact>,
    pub(super) is_final: bool,
}

impl<'a> Knowledge<'a> {
    pub(super) const fn empty(call: &'a CheckedCall<'a>) -> Self {
        Self { call, received: Vec::new(), timeouts: Vec::new() }
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

    /// True if Switchhook makes use of the answer to a lookup. There are two kinds of lookup:
    ///
    /// - The reconciler looks up a dial without any report, and an attempt whose inactivity timeout has passed. It uses
    ///   every answer.
    /// - The hourly drift check uses only the ending of an attempt that is not known to have ended.
    fn is_used(&self, received: &ReceivedReport) -> bool {
        let Some(report) = self.call.reports.get(received.report) else { return false };
        let attempts = self.attempts();
        let Some(attempt) = attempts.iter().find(|attempt| attempt.index == report.attempt) else { return true };
        let mut endings = report.statements.iter().filter(|statement| statement.fact.ending().is_some());
        let ended_long_ago = endings.any(|ending| ending.at.is_some_and(|at| at + DRIFT_CHECK_MIN_AGE <= received.at));
        let timeout_passed = received.at >= attempt.last_event_at + INACTIVITY_TIMEOUT;
        !attempt.is_settled() && (timeout_passed || (!attempt.has_ended() && ended_long_ago))
    }

    /// Adds a lookup that found no such call at the provider. It counts only once the inactivity timeout has passed:
    /// before that, the dial may still be on its way to the provider.
    fn add_not_found(&mut self, attempt: usize, at: Millis) {
        let known = self.attempts().into_iter().find(|known| known.index == attempt);
        let dialled_at = self.call.placement.as_ref().and_then(|placement| placement.dialled_at.get(attempt)).copied();
        let since = match known {
            Some(known) if known.is_settled() => return,
            Some(known) => known.last_event_at,
            None => dialled_at.unwrap_or(at),
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
        // An attempt without any report becomes known when its inactivity timeout is detected.
        for timeout in &self.timeouts {
            if attempts.iter().all(|attempt| attempt.index != timeout.attempt) {
                let InactivityTimeout { attempt, since, .. } = *timeout;
                let unreported = AttemptKnowledge::new(self.call, attempt);
                attempts.push(AttemptKnowledge { started_at: since, last_event_at: since, ..unreported });
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

    /// Latest report that another attempt is planned, and the time that it states. `None` if an attempt has started
    /// since.
    pub(super) fn retry_planned(&self) -> Option<(Millis, &'a ReceivedReport)> {
        let started_at = self.attempts().last().map_or(Millis::MIN, |latest| latest.started_at);
        self.received
            .iter()
            .filter(|(report, _)| report.states(Fact::RetryPlanned))
            .map(|(report, received)| (happened_at(report, received), *received))
            .filter(|(planned_at, _)| *planned_at >= started_at)
            .max_by_key(|(planned_at, _)| *planned_at)
    }

    /// Appointment status that the API must show in the end.
    pub(super) fn final_appointment(&self) -> &'static str {
        let attempts = self.attempts();
        if let Some(decided) = attempts.iter().rev().find_map(AttemptKnowledge::decisive_outcome) {
            return if decided == "confirmed" { "Confirmed" } else { "Declined" };
        }
        if self.retry_planned().is_some() {
            return "Retrying";
        }
        match attempts.last().map(AttemptKnowledge::final_outcome) {
            Some("no_answer") => "NoAnswer",
            Some("voicemail") => "Voicemail",
            Some("inconclusive") => "Inconclusive",
            Some(_) | None => "unexpected",
        }
    }

    /// Final job state of a call that others place. It is completed if somebody confirmed or declined, or if an attempt
    /// was completed.
    pub(super) fn final_job(&self) -> &'static str {
        let attempts = self.attempts();
        let done = attempts
            .iter()
            .any(|attempt| attempt.decisive_outcome().is_some() || attempt.final_lifecycle() == "completed");
        if done { "COMPLETED" } else { "FAILED" }
    }
}

/// Everything that is known about one attempt.
#[derive(Clone, Debug)]
pub(super) struct AttemptKnowledge<'a> {
    /// Index into the attempts of the call.
    pub(super) index: usize,
    /// Earliest time that a report about the attempt states, by the provider's clock.
    pub(super) started_at: Millis,
    /// Time at which the latest report arrived. The inactivity timeout starts here.
    pub(super) last_event_at: Millis,
    /// True once an inactivity timeout was detected. From then on Switchhook presumes that the missing reports were
    /// lost.
    presumes_loss: bool,
    /// The detected inactivity timeout, if no report has arrived since.
    pub(super) timeout: Option<InactivityTimeout>,
    call: &'a CheckedCall<'a>,
    /// True if a report carried the provider's id of the attempt.
    has_provider_call_id: bool,
    statements: Vec<(Statement, &'a ReceivedReport)>,
}

impl<'a> AttemptKnowledge<'a> {
    const fn new(call: &'a CheckedCall<'a>, index: usize) -> Self {
        Self {
            index,
            started_at: Millis::MAX,
            last_event_at: Millis::MIN,
            presumes_loss: false,
            timeout: None,
            call,
            has_provider_call_id: false,
            statements: Vec::new(),
        }
    }

    fn add(&mut self, report: &'a Report, received: &'a ReceivedReport) {
        self.started_at = self.started_at.min(happened_at(report, received));
        self.last_event_at = self.last_event_at.max(received.at);
        self.has_provider_call_id |= report.has_provider_call_id;
        self.statements.extend(report.statements.iter().map(|statement| (*statement, received)));
    }

    /// The provider's id of the attempt, if a report has carried it.
    pub(super) fn provider_call_id(&self) -> Option<&'a str> {
        self.call.provider_call_ids.get(self.index).copied().flatten().filter(|_| self.has_provider_call_id)
    }

    pub(super) fn has_no_report(&self) -> bool {
        self.statements.is_empty()
    }

    fn is_stated(&self, fact: Fact) -> bool {
        self.statements.iter().any(|(statement, _)| statement.fact == fact)
    }

    /// Ending of the attempt. Some senders add `completed` after every call, so any other ending counts more.
    pub(super) fn ending(&self) -> Option<Ending> {
        let endings = self.statements.iter().filter_map(|(statement, _)| statement.fact.ending());
        endings.max_by_key(|ending| *ending != Ending::Completed)
    }

    /// Returns the lifecycles that the attempt has reached.
    ///
    /// A lifecycle counts only if the one before it was reported too: `in_progress` needs `ringing`. If a report that
    /// an ending needs is missing, the ending counts only after the inactivity timeout.
    pub(super) fn lifecycles(&self) -> Vec<ReachedStatus> {
        let reached = |rank, status, fact| ReachedStatus { rank, status, fact, is_final: false };
        let mut all = vec![reached(0, "initiated", None)];
        let rang = self.is_stated(Fact::Ringing);
        let talked = rang && self.is_stated(Fact::Answered);
        if rang {
            all.push(reached(1, "ringing", Some(Fact::Ringing)));
        }
        if talked {
            all.push(reached(4, "in_progress", Some(Fact::Answered)));
        }
        if let Some(ending) = self.ending() {
            let follows_on = match ending {
                Ending::Completed => talked,
                Ending::NoAnswer | Ending::Busy => rang,
                Ending::Failed | Ending::Canceled => true,
            };
            if follows_on || self.presumes_loss {
                // An ending after an answer outranks every other ending. A `completed` without an answer ranks lowest.
                let rank = match (talked, ending) {
                    (true, _) => 5,
                    (false, Ending::NoAnswer | Ending::Busy | Ending::Failed | Ending::Canceled) => 3,
                    (false, Ending::Completed) => 2,
                };
                all.push(ReachedStatus { is_final: true, ..reached(rank, ending.status(), Some(Fact::Ended(ending))) });
            }
        }
        all
    }

    /// Returns the outcomes that the attempt has reached.
    pub(super) fn outcomes(&self) -> Vec<ReachedStatus> {
        let reached = |rank, status, fact| ReachedStatus { rank, status, fact, is_final: false };
        let ending = |rank, status, fact| ReachedStatus { is_final: true, ..reached(rank, status, Some(fact)) };
        let mut all = vec![reached(0, "dialing", None)];
        let answered = self.is_stated(Fact::Answered);
        if answered {
            all.push(reached(2, "connected", Some(Fact::Answered)));
        }
        match self.ending() {
            // A completed call, or one that has not ended, has no outcome from its ending.
            Some(Ending::Completed) | None => {}
            Some(_) if answered => {}
            Some(unanswered) => all.push(ending(1, "no_answer", Fact::Ended(unanswered))),
        }
        if self.is_stated(Fact::Voicemail) {
            all.push(ending(3, "voicemail", Fact::Voicemail));
        }
        // A person can confirm or decline only after an answer. Without one, Switchhook waits for the missing report.
        if answered || self.presumes_loss {
            if self.is_stated(Fact::Declined) {
                all.push(ending(4, "declined", Fact::Declined));
            }
            if self.is_stated(Fact::Confirmed) {
                all.push(ending(5, "confirmed", Fact::Confirmed));
            }
        }
        all
    }

    /// Returns the reports that may be the source of a status, each with the time that it states.
    ///
    /// These are the reports that date the fact first. `initiated`, `ringing` and `answered` without a time count as
    /// earliest, any other fact without a time counts as latest.
    pub(super) fn sources(&self, fact: Option<Fact>) -> Vec<(&'a ReceivedReport, Millis)> {
        let dated = |statement: &Statement| match (statement.at, statement.fact) {
            (Some(at), _) => at,
            (None, Fact::Initiated | Fact::Ringing | Fact::Answered) => Millis::MIN,
            (None, Fact::Voicemail | Fact::Declined | Fact::Confirmed | Fact::Ended(_) | Fact::RetryPlanned) => {
                Millis::MAX
            }
        };
        let matching =
            || self.statements.iter().filter(|(statement, _)| fact.is_none_or(|fact| statement.fact == fact));
        let first = matching().map(|(statement, _)| dated(statement)).min();
        matching()
            .filter(|(statement, _)| Some(dated(statement)) == first)
            .map(|(statement, received)| (*received, statement.at.unwrap_or(received.at)))
            .collect()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.lifecycles().last().is_some_and(|last| last.is_final)
    }

    /// True if the attempt can have ended at this time: a report states it, or, without a reported ending, the
    /// inactivity timeout was detected then.
    pub(super) fn is_possible_end(&self, at: Millis) -> bool {
        match self.ending() {
            Some(ending) => self.sources(Some(Fact::Ended(ending))).iter().any(|(_, time)| *time == at),
            None => self
                .timeout
                .is_some_and(|timeout| (timeout.detected_between.0..=timeout.detected_between.1).contains(&at)),
        }
    }

    pub(super) fn has_outcome(&self) -> bool {
        highest(&self.outcomes()).is_final
    }

    /// The outcome, if it is `confirmed` or `declined`.
    pub(super) fn decisive_outcome(&self) -> Option<&'static str> {
        let outcome = highest(&self.outcomes());
        (outcome.rank >= 4).then_some(outcome.status)
    }

    /// True if Switchhook waits for no further report about the attempt.
    pub(super) fn is_settled(&self) -> bool {
        self.timeout.is_some() || (self.has_ended() && self.has_outcome())
    }

    pub(super) fn final_lifecycle(&self) -> &'static str {
        if self.has_ended() { highest(&self.lifecycles()).status } else { "inconclusive" }
    }

    pub(super) fn final_outcome(&self) -> &'static str {
        if self.has_outcome() { highest(&self.outcomes()).status } else { "inconclusive" }
    }
}

/// Outcome that Switchhook must show if every report has arrived.
pub(super) fn true_outcome(truth: &GroundTruth) -> &'static str {
    match (truth.outcome_fact, truth.answered_at) {
        (Some((Fact::Confirmed, _)), _) => "confirmed",
        (Some((Fact::Declined, _)), _) => "declined",
        (Some((Fact::Voicemail, _)), _) => "voicemail",
        // Somebody answered, and no report ever tells the outcome.
        (Some(_) | None, Some(_)) => "inconclusive",
        (Some(_) | None, None) => "no_answer",
    }
}

fn highest(reached: &[ReachedStatus]) -> ReachedStatus {
    let none = ReachedStatus { rank: 0, status: "", fact: None, is_final: false };
    reached.iter().max_by_key(|status| status.rank).cloned().unwrap_or(none)
}

/// Time that a report states by the provider's clock, or the time of its arrival if it states none.
fn happened_at(report: &Report, received: &ReceivedReport) -> Millis {
    report.statements.iter().map(|statement| statement.at.unwrap_or(received.at)).min().unwrap_or(received.at)
}
