//! The knowledge about one attempt at some moment: the lifecycles and outcomes that the reports so far prove.

use super::evidence::{CheckedCall, InactivityTimeout, ReceivedReport};
use crate::demo::script::{Ending, Fact, GroundTruth, Millis, Provider, Report, Statement};

pub(super) const CONNECTED: &str = "connected";

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
    pub(super) presumes_loss: bool,
    /// The detected inactivity timeout, if no report has arrived since.
    pub(super) timeout: Option<InactivityTimeout>,
    call: &'a CheckedCall<'a>,
    /// True if a report carried the provider's id of the attempt.
    has_provider_call_id: bool,
    statements: Vec<(Statement, &'a ReceivedReport)>,
}

impl<'a> AttemptKnowledge<'a> {
    pub(super) const fn new(call: &'a CheckedCall<'a>, index: usize) -> Self {
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

    pub(super) fn add(&mut self, report: &'a Report, received: &'a ReceivedReport) {
        self.started_at = self.started_at.min(happened_at(report, received));
        self.last_event_at = self.last_event_at.max(received.at);
        self.has_provider_call_id |= report.has_provider_call_id;
        self.statements.extend(report.statements.iter().map(|statement| (*statement, received)));
    }

    pub(super) fn provider(&self) -> Option<Provider> {
        self.call.attempts.get(self.index).map(|attempt| attempt.provider)
    }

    /// The provider's id of the attempt, if a report has carried it.
    pub(super) fn provider_call_id(&self) -> Option<&'a str> {
        self.call.attempts.get(self.index)?.provider_call_id.filter(|_| self.has_provider_call_id)
    }

    /// True if a report may still state what the person said, although the attempt has ended.
    fn awaits_outcome(&self) -> bool {
        self.provider().is_none_or(Provider::reports_outcome)
    }

    fn is_stated(&self, fact: Fact) -> bool {
        self.statements.iter().any(|(statement, _)| statement.fact == fact)
    }

    /// Ending of the attempt. Some senders add `completed` after every call, so any other ending counts more.
    pub(super) fn ending(&self) -> Option<Ending> {
        let endings = self.statements.iter().filter_map(|(statement, _)| statement.fact.ending());
        endings.max_by_key(|ending| *ending != Ending::Completed)
    }

    /// Returns the lifecycles that the attempt has reached, each higher than the one before.
    ///
    /// A lifecycle counts only if the one before it was reported too: `in_progress` needs `ringing`. If a report that
    /// an ending needs is missing, the ending counts only after the inactivity timeout. After the timeout a person who
    /// decided, and a voicemail, have hung up, although no report states the ending.
    pub(super) fn lifecycles(&self) -> Vec<ReachedStatus> {
        let reached = |rank, status, fact| ReachedStatus { rank, status, fact, is_final: false };
        let mut all = vec![reached(0, "initiated", None)];
        let rang = self.is_stated(Fact::Ringing);
        let talked = rang && self.is_stated(Fact::Answered);
        if rang && !self.rang_after_end() {
            all.push(reached(1, "ringing", Some(Fact::Ringing)));
        }
        if talked {
            all.push(reached(4, "in_progress", Some(Fact::Answered)));
        }
        let ending = self.ending().and_then(|ending| {
            let follows_on = match ending {
                Ending::Completed => talked,
                Ending::NoAnswer | Ending::Busy => rang,
                Ending::Failed | Ending::Canceled => true,
            };
            // An ending after an answer outranks every other ending. A `completed` without an answer ranks lowest.
            let rank = match (talked, ending) {
                (true, _) => 6,
                (false, Ending::NoAnswer | Ending::Busy | Ending::Failed | Ending::Canceled) => 3,
                (false, Ending::Completed) => 2,
            };
            let status = ReachedStatus { is_final: true, ..reached(rank, ending.status(), Some(Fact::Ended(ending))) };
            (follows_on || self.presumes_loss).then_some(status)
        });
        let hung_up = self.first_outcome_fact().filter(|_| talked && self.presumes_loss);
        let presumed = hung_up.map(|fact| ReachedStatus { is_final: true, ..reached(5, "completed", Some(fact)) });
        all.extend(presumed);
        all.extend(ending);
        all
    }

    /// True if the attempt had failed or was canceled before the first report of its ringing is dated. The senders that
    /// add `completed` after every call do that, because `completed` implies ringing.
    fn rang_after_end(&self) -> bool {
        let ending = match self.ending() {
            Some(ending @ (Ending::Failed | Ending::Canceled)) => ending,
            Some(Ending::Completed | Ending::NoAnswer | Ending::Busy) | None => return false,
        };
        self.first_date(Some(Fact::Ringing)) > self.first_date(Some(Fact::Ended(ending)))
    }

    /// The first of the stated facts that tell how the conversation went.
    fn first_outcome_fact(&self) -> Option<Fact> {
        let stated =
            [Fact::Voicemail, Fact::Declined, Fact::Confirmed].into_iter().filter(|fact| self.is_stated(*fact));
        stated.min_by_key(|fact| self.first_date(Some(*fact)))
    }

    /// Returns the outcomes that the attempt has reached, each higher than the one before.
    pub(super) fn outcomes(&self) -> Vec<ReachedStatus> {
        let reached = |rank, status, fact| ReachedStatus { rank, status, fact, is_final: false };
        let ending = |rank, status, fact| ReachedStatus { is_final: true, ..reached(rank, status, Some(fact)) };
        let mut all = vec![reached(0, "dialing", None)];
        let answered = self.is_stated(Fact::Answered);
        match self.ending() {
            // A completed call, or one that has not ended, has no outcome from its ending.
            Some(Ending::Completed) | None => {}
            Some(_) if answered => {}
            Some(unanswered) => all.push(ending(1, "no_answer", Fact::Ended(unanswered))),
        }
        if answered {
            all.push(reached(2, "connected", Some(Fact::Answered)));
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

    /// Returns the final outcomes that the attempt has reached. `connected` is final if the attempt has ended and its
    /// provider does not report what the person said. The ending then makes it final.
    pub(super) fn final_outcomes(&self) -> Vec<ReachedStatus> {
        let all = self.outcomes();
        let last = highest(&all);
        let mut is_final: Vec<ReachedStatus> = all.into_iter().filter(|outcome| outcome.is_final).collect();
        if last.status == CONNECTED && self.has_outcome() {
            let end = highest(&self.lifecycles()).fact;
            is_final.push(ReachedStatus { rank: last.rank, status: CONNECTED, fact: end, is_final: true });
        }
        is_final
    }

    /// Returns the reports that may be the source of a status, each with the time that it states.
    ///
    /// These are the reports that date the fact first. `initiated`, `ringing` and `answered` without a time count as
    /// earliest, any other fact without a time counts as latest.
    pub(super) fn sources(&self, fact: Option<Fact>) -> Vec<(&'a ReceivedReport, Millis)> {
        let first = self.first_date(fact);
        self.matching(fact)
            .filter(|(statement, _)| Some(dated(statement)) == first)
            .map(|(statement, received)| (*received, statement.at.unwrap_or(received.at)))
            .collect()
    }

    /// Earliest date of a fact, in the order in which facts count. `None` if it is not stated.
    fn first_date(&self, fact: Option<Fact>) -> Option<Millis> {
        self.matching(fact).map(|(statement, _)| dated(statement)).min()
    }

    fn matching(&self, fact: Option<Fact>) -> impl Iterator<Item = &(Statement, &'a ReceivedReport)> {
        self.statements.iter().filter(move |(statement, _)| fact.is_none_or(|fact| statement.fact == fact))
    }

    pub(super) fn has_ended(&self) -> bool {
        highest(&self.lifecycles()).is_final
    }

    /// The fact that ended the attempt. `None` if it has not ended.
    pub(super) fn end_fact(&self) -> Option<Fact> {
        highest(&self.lifecycles()).fact.filter(|_| self.has_ended())
    }

    /// True if the attempt can have ended at this time: a report states it, or, without a reported ending, the
    /// inactivity timeout was detected then.
    pub(super) fn is_possible_end(&self, at: Millis) -> bool {
        match self.end_fact() {
            Some(fact) => self.sources(Some(fact)).iter().any(|(_, time)| *time == at),
            None => self
                .timeout
                .is_some_and(|timeout| (timeout.detected_between.0..=timeout.detected_between.1).contains(&at)),
        }
    }

    /// True if Switchhook waits for no further report of the outcome.
    pub(super) fn has_outcome(&self) -> bool {
        let outcome = highest(&self.outcomes());
        outcome.is_final || (outcome.status == CONNECTED && self.has_ended() && !self.awaits_outcome())
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
pub(super) fn true_outcome(provider: Provider, truth: &GroundTruth) -> &'static str {
    match (truth.outcome_fact, truth.answered_at) {
        (Some((Fact::Voicemail, _)), _) => "voicemail",
        (Some((Fact::Confirmed, _)), _) if provider.hears() => "confirmed",
        (Some((Fact::Declined, _)), _) if provider.hears() => "declined",
        // The provider reports that somebody answered, and no outcome.
        (Some(_) | None, Some(_)) if !provider.reports_outcome() => CONNECTED,
        // Somebody answered, and no report ever tells the outcome.
        (Some(_) | None, Some(_)) => "inconclusive",
        (Some(_) | None, None) => "no_answer",
    }
}

/// Date of a statement, in the order in which facts count.
const fn dated(statement: &Statement) -> Millis {
    match (statement.at, statement.fact) {
        (Some(at), _) => at,
        (None, Fact::Initiated | Fact::Ringing | Fact::Answered) => Millis::MIN,
        (None, Fact::Voicemail | Fact::Declined | Fact::Confirmed | Fact::Ended(_) | Fact::RetryPlanned) => Millis::MAX,
    }
}

fn highest(reached: &[ReachedStatus]) -> ReachedStatus {
    let none = ReachedStatus { rank: 0, status: "", fact: None, is_final: false };
    reached.iter().max_by_key(|status| status.rank).cloned().unwrap_or(none)
}

/// Time that a report states by the provider's clock, or the time of its arrival if it states none.
pub(super) fn happened_at(report: &Report, received: &ReceivedReport) -> Millis {
    report.statements.iter().map(|statement| statement.at.unwrap_or(received.at)).min().unwrap_or(received.at)
}
