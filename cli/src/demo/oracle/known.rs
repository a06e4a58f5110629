//! What can be known of a call: what its script says, less what was lost or has not come yet.

use super::{Receipt, found_out};
use crate::demo::script::{Ending, Fact, Millis, Report, Said, Script, Story};

/// A silence that was found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Silence {
    /// Index into the script's attempts.
    pub(super) attempt: usize,
    /// When the attempt was last heard of.
    pub(super) since: Millis,
}

/// What was heard of a call up to some moment.
#[derive(Clone, Debug)]
pub(super) struct Known<'a> {
    script: &'a Script,
    heard: Vec<(&'a Report, &'a Receipt)>,
    silences: Vec<Silence>,
}

/// One state, or one outcome, that what is known leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    /// The higher one stands.
    pub(super) rank: u8,
    pub(super) status: &'static str,
    /// What it takes; none for what is true of every attempt.
    pub(super) fact: Option<Fact>,
    pub(super) is_ending: bool,
}

impl<'a> Known<'a> {
    pub(super) const fn nothing(script: &'a Script) -> Self {
        Self { script, heard: Vec::new(), silences: Vec::new() }
    }

    /// When everything has come that will, and all patience is over.
    pub(super) fn in_the_end(script: &'a Script, receipts: &'a [Receipt]) -> Self {
        let mut known = Self::nothing(script);
        for receipt in receipts {
            known.hear(receipt);
        }
        for attempt in known.attempts().iter().filter(|attempt| !attempt.is_settled()) {
            known.silences.push(Silence { attempt: attempt.index, since: attempt.heard_at });
        }
        known
    }

    pub(super) fn hear(&mut self, receipt: &'a Receipt) {
        if let Some(report) = self.script.reports.get(receipt.report) {
            self.heard.push((report, receipt));
        }
    }

    pub(super) fn pass(&mut self, silence: Silence) {
        self.silences.push(silence);
    }

    /// True if of every report at least one delivery came.
    pub(super) fn is_whole(&self) -> bool {
        self.heard.len() == self.script.reports.iter().filter(|report| report.is_folded()).count()
    }

    pub(super) fn appointment_id(&self) -> Option<&'a str> {
        self.script.appointment_id.as_deref().filter(|_| !self.heard.is_empty())
    }

    /// The attempts that were heard of, in the order in which they started as far as that is known.
    pub(super) fn attempts(&self) -> Vec<KnownAttempt<'a>> {
        let mut attempts: Vec<KnownAttempt<'a>> = Vec::new();
        for (report, receipt) in self.heard.iter().filter(|(report, _)| !report.says(Fact::RetryPlanned)) {
            let place = match attempts.iter().position(|attempt| attempt.index == report.attempt) {
                Some(place) => place,
                None => {
                    attempts.push(KnownAttempt::new(self.script, report.attempt));
                    attempts.len() - 1
                }
            };
            if let Some(attempt) = attempts.get_mut(place) {
                attempt.hear(report, receipt);
            }
        }
        attempts.sort_by_key(|attempt| attempt.started_at);
        // A plan to retry is about the call: a sign of life of every attempt that had started by then.
        for (report, receipt) in self.heard.iter().filter(|(report, _)| report.says(Fact::RetryPlanned)) {
            let planned_at = happened_at(report, receipt);
            for (place, attempt) in attempts.iter_mut().enumerate() {
                if place == 0 || attempt.started_at <= planned_at {
                    attempt.heard_at = attempt.heard_at.max(receipt.at);
                }
            }
        }
        for attempt in &mut attempts {
            let mut silences = self.silences.iter().filter(|silence| silence.attempt == attempt.index).peekable();
            attempt.believed = silences.peek().is_some();
            attempt.silent = silences.any(|silence| silence.since >= attempt.heard_at);
        }
        attempts
    }

    /// The latest word that there will be another attempt, unless one has started since.
    pub(super) fn retry_planned(&self) -> Option<(Millis, &'a Receipt)> {
        let started_at = self.attempts().last().map_or(Millis::MIN, |latest| latest.started_at);
        self.heard
            .iter()
            .filter(|(report, _)| report.says(Fact::RetryPlanned))
            .map(|(report, receipt)| (happened_at(report, receipt), *receipt))
            .filter(|(planned_at, _)| *planned_at >= started_at)
            .max_by_key(|(planned_at, _)| *planned_at)
    }

    /// What the business sees.
    pub(super) fn final_appointment(&self) -> &'static str {
        let attempts = self.attempts();
        if let Some(decided) = attempts.iter().rev().find_map(KnownAttempt::decided) {
            return if decided == "confirmed" { "Confirmed" } else { "Declined" };
        }
        if self.retry_planned().is_some() {
            return "Retrying";
        }
        match attempts.last().map(KnownAttempt::final_outcome) {
            Some("no_answer") => "NoAnswer",
            Some("voicemail") => "Voicemail",
            Some("inconclusive") => "Inconclusive",
            Some(_) | None => "unexpected",
        }
    }

    /// Calls that others place: done if somebody answered to the purpose or talked to the end, else failed.
    pub(super) fn final_job(&self) -> &'static str {
        let attempts = self.attempts();
        let done =
            attempts.iter().any(|attempt| attempt.decided().is_some() || attempt.final_lifecycle() == "completed");
        if done { "COMPLETED" } else { "FAILED" }
    }
}

/// What was heard of one attempt.
#[derive(Clone, Debug)]
pub(super) struct KnownAttempt<'a> {
    /// Index into the script's attempts.
    pub(super) index: usize,
    pub(super) started_at: Millis,
    pub(super) heard_at: Millis,
    /// A silence was found out at some time: what waited for a lost report is believed from then on.
    believed: bool,
    /// Nothing was heard since a silence was found out.
    pub(super) silent: bool,
    script: &'a Script,
    named: bool,
    said: Vec<(Said, &'a Receipt)>,
}

impl<'a> KnownAttempt<'a> {
    const fn new(script: &'a Script, index: usize) -> Self {
        Self {
            index,
            started_at: Millis::MAX,
            heard_at: Millis::MIN,
            believed: false,
            silent: false,
            script,
            named: false,
            said: Vec::new(),
        }
    }

    fn hear(&mut self, report: &'a Report, receipt: &'a Receipt) {
        self.started_at = self.started_at.min(happened_at(report, receipt));
        self.heard_at = self.heard_at.max(receipt.at);
        self.named |= report.names_attempt;
        self.said.extend(report.says.iter().map(|said| (*said, receipt)));
    }

    /// The vendor's id of it, if a report has named it.
    pub(super) fn vendor_call_id(&self) -> Option<&'a str> {
        self.script.attempts.get(self.index)?.vendor_call_id.as_deref().filter(|_| self.named)
    }

    /// How it truly went.
    pub(super) fn story(&self) -> Option<&'a Story> {
        self.script.attempts.get(self.index).map(|attempt| &attempt.story)
    }

    fn knows(&self, fact: Fact) -> bool {
        self.said.iter().any(|(said, _)| said.fact == fact)
    }

    /// How it ended. Some senders say `completed` of every call in the end, so any other word for it says more.
    fn ending(&self) -> Option<Ending> {
        let endings = self.said.iter().filter_map(|(said, _)| match said.fact {
            Fact::Ended(ending) => Some(ending),
            Fact::Begun
            | Fact::Rang
            | Fact::Answered
            | Fact::Voicemail
            | Fact::Declined
            | Fact::Confirmed
            | Fact::RetryPlanned => None,
        });
        endings.max_by_key(|ending| *ending != Ending::Completed)
    }

    /// The states that the attempt is known to have gone through. A step whose first half is missing waits: for the
    /// missing report, or, if it is an ending, for the end of patience.
    pub(super) fn lifecycle(&self) -> Vec<Stage> {
        let stage = |rank, status, fact| Stage { rank, status, fact, is_ending: false };
        let mut stages = vec![stage(0, "initiated", None)];
        let rang = self.knows(Fact::Rang);
        let talked = rang && self.knows(Fact::Answered);
        if rang {
            stages.push(stage(1, "ringing", Some(Fact::Rang)));
        }
        if talked {
            stages.push(stage(4, "in_progress", Some(Fact::Answered)));
        }
        if let Some(ending) = self.ending() {
            let follows = match ending {
                Ending::Completed => talked,
                Ending::NoAnswer | Ending::Busy => rang,
                Ending::Failed | Ending::Canceled => true,
            };
            if follows || self.believed {
                // An ending after an answer outranks every ending without one, and `completed` without one is the weakest.
                let rank = match (talked, ending) {
                    (true, _) => 5,
                    (false, Ending::NoAnswer | Ending::Busy | Ending::Failed | Ending::Canceled) => 3,
                    (false, Ending::Completed) => 2,
                };
                stages.push(Stage { is_ending: true, ..stage(rank, ending.status(), Some(Fact::Ended(ending))) });
            }
        }
        stages
    }

    /// What the attempt is known to have achieved, step by step.
    pub(super) fn outcomes(&self) -> Vec<Stage> {
        let stage = |rank, status, fact| Stage { rank, status, fact, is_ending: false };
        let ending = |rank, status, fact| Stage { is_ending: true, ..stage(rank, status, Some(fact)) };
        let mut stages = vec![stage(0, "dialing", None)];
        let answered = self.knows(Fact::Answered);
        if answered {
            stages.push(stage(2, "connected", Some(Fact::Answered)));
        }
        match self.ending() {
            // That it was completed says that somebody talked, and not what came of it.
            Some(Ending::Completed) | None => {}
            Some(_) if answered => {}
            Some(unanswered) => stages.push(ending(1, "no_answer", Fact::Ended(unanswered))),
        }
        if self.knows(Fact::Voicemail) {
            stages.push(ending(3, "voicemail", Fact::Voicemail));
        }
        // Words of a person whom nobody is known to have reached have to wait.
        if answered || self.believed {
            if self.knows(Fact::Declined) {
                stages.push(ending(4, "declined", Fact::Declined));
            }
            if self.knows(Fact::Confirmed) {
                stages.push(ending(5, "confirmed", Fact::Confirmed));
            }
        }
        stages
    }

    /// The reports that a stage may name as its source, each with the time of it: those that date it first. Of beginnings
    /// without a time nothing is earlier, of all else without a time nothing is later.
    pub(super) fn sources(&self, fact: Option<Fact>) -> Vec<(&'a str, Millis)> {
        let dated = |said: &Said| match (said.at, said.fact) {
            (Some(at), _) => at,
            (None, Fact::Begun | Fact::Rang | Fact::Answered) => Millis::MIN,
            (None, Fact::Voicemail | Fact::Declined | Fact::Confirmed | Fact::Ended(_) | Fact::RetryPlanned) => {
                Millis::MAX
            }
        };
        let saying = || self.said.iter().filter(|(said, _)| fact.is_none_or(|fact| said.fact == fact));
        let first = saying().map(|(said, _)| dated(said)).min();
        saying()
            .filter(|(said, _)| Some(dated(said)) == first)
            .map(|(said, receipt)| (receipt.event_id.as_str(), said.at.unwrap_or(receipt.at)))
            .collect()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.lifecycle().last().is_some_and(|stage| stage.is_ending)
    }

    /// True of the time that the ending's report gives; or, where nobody told the ending, of when that was found out.
    pub(super) fn may_have_ended_at(&self, at: Millis) -> bool {
        match self.ending() {
            Some(ending) => self.sources(Some(Fact::Ended(ending))).iter().any(|(_, time)| *time == at),
            None => {
                let (earliest, latest) = found_out(self.heard_at);
                (earliest..=latest).contains(&at)
            }
        }
    }

    pub(super) fn has_outcome(&self) -> bool {
        highest(&self.outcomes()).is_ending
    }

    pub(super) fn decided(&self) -> Option<&'static str> {
        let outcome = highest(&self.outcomes());
        (outcome.rank >= 4).then_some(outcome.status)
    }

    /// Nothing more is waited for.
    pub(super) fn is_settled(&self) -> bool {
        self.silent || (self.has_ended() && self.has_outcome())
    }

    pub(super) fn final_lifecycle(&self) -> &'static str {
        if self.has_ended() { highest(&self.lifecycle()).status } else { "inconclusive" }
    }

    pub(super) fn final_outcome(&self) -> &'static str {
        if self.has_outcome() { highest(&self.outcomes()).status } else { "inconclusive" }
    }
}

/// What a vendor that tells everything would have told of the outcome.
pub(super) fn true_outcome(story: &Story) -> &'static str {
    match (story.word, story.answered_at) {
        (Some((Fact::Confirmed, _)), _) => "confirmed",
        (Some((Fact::Declined, _)), _) => "declined",
        (Some((Fact::Voicemail, _)), _) => "voicemail",
        // Somebody answered, and nobody ever says what came of it.
        (Some(_) | None, Some(_)) => "inconclusive",
        (Some(_) | None, None) => "no_answer",
    }
}

pub(super) fn highest(stages: &[Stage]) -> Stage {
    let none = Stage { rank: 0, status: "", fact: None, is_ending: false };
    stages.iter().max_by_key(|stage| stage.rank).cloned().unwrap_or(none)
}

/// By the vendor's clock where it names a time, else when it came.
fn happened_at(report: &Report, receipt: &Receipt) -> Millis {
    report.says.iter().map(|said| said.at.unwrap_or(receipt.at)).min().unwrap_or(receipt.at)
}
