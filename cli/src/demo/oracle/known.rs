//! What can be known of a call: what its reports say, less what was lost or has not come yet.

use super::{Moment, Receipt, Subject, found_out};
use crate::demo::script::{Ending, Fact, MINUTE, Millis, Report, Said, Story};
use crate::demo::traffic::PATIENCE;

/// What a provider says of a call that has been over for less is no reason to doubt: its webhook may be on the way.
const DRIFT_SLACK: Millis = 10 * MINUTE;

/// A silence that was found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Silence {
    /// Index into the subject's attempts.
    pub(super) attempt: usize,
    /// When the attempt was last heard of; of one never heard of, when it was dialled.
    pub(super) since: Millis,
    /// Between these two moments, both included.
    pub(super) found_out: (Millis, Millis),
}

/// What was heard of a call up to some moment.
#[derive(Clone, Debug)]
pub(super) struct Known<'a> {
    pub(super) subject: &'a Subject<'a>,
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
    pub(super) const fn nothing(subject: &'a Subject<'a>) -> Self {
        Self { subject, heard: Vec::new(), silences: Vec::new() }
    }

    /// When everything has come that will, and all patience is over.
    pub(super) fn in_the_end(subject: &'a Subject<'a>, moments: &'a [Moment]) -> Self {
        let mut known = Self::nothing(subject);
        for moment in moments {
            known.learn(moment);
        }
        for attempt in known.attempts().iter().filter(|attempt| !attempt.is_settled()) {
            let (attempt, since) = (attempt.index, attempt.heard_at);
            known.silences.push(Silence { attempt, since, found_out: found_out(since) });
        }
        known
    }

    pub(super) fn learn(&mut self, moment: &'a Moment) {
        match moment {
            Moment::Came(receipt) => self.hear(receipt),
            Moment::Asked(receipt) if self.is_wanted(receipt) => self.hear(receipt),
            Moment::Asked(_) => {}
            Moment::Unknown { attempt, at } => self.despair(*attempt, *at),
        }
    }

    /// Of a report that comes again nothing is new.
    fn hear(&mut self, receipt: &'a Receipt) {
        let is_new = self.heard.iter().all(|(_, heard)| heard.report != receipt.report);
        if let Some(report) = self.subject.reports.get(receipt.report).filter(|_| is_new) {
            self.heard.push((report, receipt));
        }
    }

    /// Whether an answer is made use of. Switchhook asks about a dial of which it has heard nothing, and about an attempt that was
    /// silent for the whole of its patience; of what it asks besides, once an hour, it takes only the end of a call that it does
    /// not know to be over.
    fn is_wanted(&self, receipt: &Receipt) -> bool {
        let Some(report) = self.subject.reports.get(receipt.report) else { return false };
        let attempts = self.attempts();
        let Some(attempt) = attempts.iter().find(|attempt| attempt.index == report.attempt) else { return true };
        let mut endings = report.says.iter().filter(|said| matches!(said.fact, Fact::Ended(_)));
        let over_for_long = endings.any(|said| said.at.is_some_and(|at| at + DRIFT_SLACK <= receipt.at));
        !attempt.is_settled() && (receipt.at >= attempt.heard_at + PATIENCE || (!attempt.has_ended() && over_for_long))
    }

    /// That the provider has no such call counts at the end of patience alone: before that it may still be on the way there.
    fn despair(&mut self, attempt: usize, at: Millis) {
        let known = self.attempts().into_iter().find(|known| known.index == attempt);
        let dialled_at = self.subject.plan.as_ref().and_then(|plan| plan.dialled_at.get(attempt)).copied();
        let since = match known {
            Some(known) if known.is_settled() => return,
            Some(known) => known.heard_at,
            None => dialled_at.unwrap_or(at),
        };
        if at >= since + PATIENCE {
            self.pass(Silence { attempt, since, found_out: (at, at) });
        }
    }

    pub(super) fn pass(&mut self, silence: Silence) {
        self.silences.push(silence);
    }

    /// True if of every report at least one delivery came.
    pub(super) fn is_whole(&self) -> bool {
        self.heard.len() == self.subject.reports.iter().filter(|report| report.is_folded()).count()
    }

    /// The attempts that were heard of, in the order in which they started as far as that is known.
    pub(super) fn attempts(&self) -> Vec<KnownAttempt<'a>> {
        let mut attempts: Vec<KnownAttempt<'a>> = Vec::new();
        for (report, receipt) in self.heard.iter().filter(|(report, _)| !report.says(Fact::RetryPlanned)) {
            let place = match attempts.iter().position(|attempt| attempt.index == report.attempt) {
                Some(place) => place,
                None => {
                    attempts.push(KnownAttempt::new(self.subject, report.attempt));
                    attempts.len() - 1
                }
            };
            if let Some(attempt) = attempts.get_mut(place) {
                attempt.hear(report, receipt);
            }
        }
        // What was dialled and never heard of begins, for others, with the end of patience.
        for silence in &self.silences {
            if attempts.iter().all(|attempt| attempt.index != silence.attempt) {
                let Silence { attempt, since, .. } = *silence;
                let unheard = KnownAttempt::new(self.subject, attempt);
                attempts.push(KnownAttempt { started_at: since, heard_at: since, ..unheard });
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
            attempt.silence = silences.find(|silence| silence.since >= attempt.heard_at).copied();
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
    /// Index into the subject's attempts.
    pub(super) index: usize,
    pub(super) started_at: Millis,
    pub(super) heard_at: Millis,
    /// A silence was found out at some time: what waited for a lost report is believed from then on.
    believed: bool,
    /// The silence that was found out, and since which nothing was heard.
    pub(super) silence: Option<Silence>,
    subject: &'a Subject<'a>,
    named: bool,
    said: Vec<(Said, &'a Receipt)>,
}

impl<'a> KnownAttempt<'a> {
    const fn new(subject: &'a Subject<'a>, index: usize) -> Self {
        Self {
            index,
            started_at: Millis::MAX,
            heard_at: Millis::MIN,
            believed: false,
            silence: None,
            subject,
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
        self.subject.vendor_call_ids.get(self.index).copied().flatten().filter(|_| self.named)
    }

    pub(super) fn is_unheard(&self) -> bool {
        self.said.is_empty()
    }

    fn knows(&self, fact: Fact) -> bool {
        self.said.iter().any(|(said, _)| said.fact == fact)
    }

    /// How it ended. Some senders say `completed` of every call in the end, so any other word for it says more.
    pub(super) fn ending(&self) -> Option<Ending> {
        let endings = self.said.iter().filter_map(|(said, _)| said.fact.ending());
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

    /// The reports that a stage may name as its source, each with the time that it gives: those that date it first. Of
    /// beginnings without a time nothing is earlier, of all else without a time nothing is later.
    pub(super) fn sources(&self, fact: Option<Fact>) -> Vec<(&'a Receipt, Millis)> {
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
            .map(|(said, receipt)| (*receipt, said.at.unwrap_or(receipt.at)))
            .collect()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.lifecycle().last().is_some_and(|stage| stage.is_ending)
    }

    /// True of the time that the ending's report gives; or, where nobody told the ending, of when that was found out.
    pub(super) fn may_have_ended_at(&self, at: Millis) -> bool {
        match self.ending() {
            Some(ending) => self.sources(Some(Fact::Ended(ending))).iter().any(|(_, time)| *time == at),
            None => self.silence.is_some_and(|silence| (silence.found_out.0..=silence.found_out.1).contains(&at)),
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
        self.silence.is_some() || (self.has_ended() && self.has_outcome())
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
