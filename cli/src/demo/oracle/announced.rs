//! The domain events that a call must have caused, in order.
//!
//! The call is lived through once more: report after report in the order of arrival, and every silence when it was found
//! out. Whatever is new and higher than all that was announced before must be announced at that moment.

use serde_json::Value;

use super::choices::Choices;
use super::known::{Known, KnownAttempt, Silence, Stage};
use super::{Receipt, found_out};
use crate::demo::script::{Millis, SECOND, Script};

/// Reports that come so close to each other may be folded together.
const CLOSE: Millis = SECOND;
/// How many ways a call may have gone before the oracle gives up, which is a finding.
const WAYS_MAX: usize = 1 << 14;

const INCONCLUSIVE: &str = "inconclusive";
const RETRYING: &str = "retrying";

/// One domain event that must be there.
#[derive(Clone, Debug)]
pub(super) struct Expected<'a> {
    subject: Subject,
    /// Index into the script's attempts.
    attempt: usize,
    number: usize,
    news: News<'a>,
    vendor_call_id: Option<&'a str>,
    appointment_id: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Call,
    /// That what was announced of an attempt as its ending, there in the log, was not the last word.
    Correction(usize),
    Appointment,
}

#[derive(Clone, Debug)]
struct News<'a> {
    /// None: not a stage of the attempt.
    rank: Option<u8>,
    status: &'static str,
    is_ending: bool,
    source: Source<'a>,
}

/// What brought it about.
#[derive(Clone, Debug)]
enum Source<'a> {
    /// One of these reports, each with the time that it gives.
    Reports(Vec<(&'a str, Millis)>),
    /// Switchhook's own finding that nothing was heard since then.
    Silence(Millis),
}

/// What is wrong with the domain events of a call.
pub(super) fn findings(script: &Script, receipts: &[Receipt], actual: &[Value]) -> Vec<String> {
    let mut choices = Choices::default();
    // Of all ways in which the call can have gone, the complaint about the one that fits longest.
    let mut closest: Option<(usize, String)> = None;
    for _ in 0..WAYS_MAX {
        let mut log = Log { script, actual, expected: Vec::new() };
        match live_through(script, receipts, &mut choices, &mut log).and_then(|()| log.complete()) {
            Ok(()) => return Vec::new(),
            Err(complaint) => {
                let fits = log.expected.len();
                if closest.as_ref().is_none_or(|(longest, _)| fits > *longest) {
                    closest = Some((fits, complaint));
                }
            }
        }
        if !choices.next() {
            return closest.map(|(_, complaint)| complaint).into_iter().collect();
        }
    }
    vec![format!("of {WAYS_MAX} ways in which this call can have gone none fits what was announced")]
}

/// Expects all that must have been announced, if what was left open went as `choices` say.
fn live_through<'a>(
    script: &'a Script,
    receipts: &'a [Receipt],
    choices: &mut Choices,
    log: &mut Log<'a, '_>,
) -> Result<(), String> {
    let mut order: Vec<&Receipt> = receipts.iter().collect();
    let mut known = Known::nothing(script);
    let mut place = 0;
    loop {
        let next = order.get(place).copied();
        while let Some(silence) = next_silence(&known, next, choices) {
            known.pass(silence);
            announce(&known, log)?;
        }
        let Some(mut receipt) = next else { return Ok(()) };
        // Of two that come at the same moment either may be first.
        if order.get(place + 1).is_some_and(|after| after.at == receipt.at) && choices.choose() {
            order.swap(place, place + 1);
            receipt = order.get(place).copied().unwrap_or(receipt);
        }
        known.hear(receipt);
        place += 1;
        let close = order.get(place).is_some_and(|after| after.at - receipt.at <= CLOSE);
        if !(close && choices.choose()) {
            announce(&known, log)?;
        }
    }
}

/// The next silence that is found out before the next report comes.
fn next_silence(known: &Known<'_>, next: Option<&Receipt>, choices: &mut Choices) -> Option<Silence> {
    let attempts = known.attempts();
    let mut waiting: Vec<&KnownAttempt<'_>> = attempts.iter().filter(|attempt| !attempt.is_settled()).collect();
    waiting.sort_by_key(|attempt| attempt.heard_at);
    let mut first = waiting.first().copied()?;
    // Two that end within one run of the reconciler are found out together.
    if let Some(second) = waiting.get(1)
        && found_out(second.heard_at).0 <= found_out(first.heard_at).1
        && choices.choose()
    {
        first = second;
    }
    let (earliest, latest) = found_out(first.heard_at);
    let passes = match next {
        None => true,
        Some(receipt) if receipt.at < earliest => false,
        Some(receipt) if receipt.at > latest => true,
        Some(_) => choices.choose(),
    };
    passes.then_some(Silence { attempt: first.index, since: first.heard_at })
}

/// Expects what is new by now: of each attempt, then of the appointment.
fn announce<'a>(known: &Known<'a>, log: &mut Log<'a, '_>) -> Result<(), String> {
    let attempts = known.attempts();
    for (place, attempt) in attempts.iter().enumerate() {
        let expect = |news| Expected::of(Subject::Call, known, attempt, place + 1, news);
        let of_attempt = |said: &&Expected<'_>| said.subject == Subject::Call && said.attempt == attempt.index;
        let announced = log.expected.iter().filter(of_attempt).filter_map(|said| said.news.rank).max();
        let ended = log.expected.iter().rposition(|said| of_attempt(&said) && said.news.is_ending);
        let stages = attempt.lifecycle();
        let new: Vec<&Stage> = stages.iter().filter(|stage| Some(stage.rank) > announced).collect();
        for stage in &new {
            log.expect(expect(News::of(stage, attempt)))?;
        }
        if let (Some(stage), Some(ended)) = (new.last(), ended) {
            log.expect(Expected { subject: Subject::Correction(ended), ..expect(News::of(stage, attempt)) })?;
        }
        let last = log.expected.iter().rfind(of_attempt).map(|said| said.news.status);
        if attempt.silent && !attempt.has_ended() && last != Some(INCONCLUSIVE) {
            log.expect(expect(News::inconclusive(attempt)))?;
        }
    }
    announce_appointment(known, &attempts, log)
}

/// The appointment follows the attempt that decided it, else the latest.
fn announce_appointment<'a>(
    known: &Known<'a>,
    attempts: &[KnownAttempt<'a>],
    log: &mut Log<'a, '_>,
) -> Result<(), String> {
    let numbered: Vec<(&KnownAttempt<'a>, usize)> = attempts.iter().zip(1..).collect();
    let decided = numbered.iter().rfind(|(attempt, _)| attempt.decided().is_some()).copied();
    let Some(latest) = numbered.last().copied() else { return Ok(()) };
    let (subject, number) = decided.unwrap_or(latest);
    let of_subject = |said: &&Expected<'_>| said.subject == Subject::Appointment && said.attempt == subject.index;
    let announced = log.expected.iter().filter(of_subject).filter_map(|said| said.news.rank).max();
    for stage in subject.outcomes().iter().filter(|stage| Some(stage.rank) > announced) {
        log.expect(Expected::of(Subject::Appointment, known, subject, number, News::of(stage, subject)))?;
    }
    if decided.is_some() {
        return Ok(());
    }
    let (latest, number) = latest;
    let present = match known.retry_planned() {
        Some((planned_at, receipt)) => Some(News::retrying(planned_at, receipt)),
        None => (latest.silent && !latest.has_outcome()).then(|| News::inconclusive(latest)),
    };
    let last = log.expected.iter().rfind(|said| said.subject == Subject::Appointment).map(|said| said.news.status);
    match present.filter(|present| last != Some(present.status)) {
        Some(present) => log.expect(Expected::of(Subject::Appointment, known, latest, number, present)),
        None => Ok(()),
    }
}

/// What must be there, held against what is there as it grows.
struct Log<'a, 'b> {
    script: &'a Script,
    actual: &'b [Value],
    expected: Vec<Expected<'a>>,
}

impl<'a> Log<'a, '_> {
    fn expect(&mut self, event: Expected<'a>) -> Result<(), String> {
        let sequence = self.expected.len() + 1;
        let event_type = event.event_type();
        let Some(actual) = self.actual.get(self.expected.len()) else {
            return Err(format!("domain event {sequence} is missing: {event_type}"));
        };
        if let Some(difference) = event.difference(self.script, &self.expected, actual) {
            return Err(format!("domain event {sequence}, {event_type}: {difference}"));
        }
        self.expected.push(event);
        Ok(())
    }

    fn complete(&self) -> Result<(), String> {
        match self.actual.get(self.expected.len()) {
            Some(extra) => Err(format!("domain event {} is one too many: {extra}", self.expected.len() + 1)),
            None => Ok(()),
        }
    }
}

impl<'a> News<'a> {
    fn of(stage: &Stage, attempt: &KnownAttempt<'a>) -> Self {
        let source = Source::Reports(attempt.sources(stage.fact));
        Self { rank: Some(stage.rank), status: stage.status, is_ending: stage.is_ending, source }
    }

    fn inconclusive(attempt: &KnownAttempt<'a>) -> Self {
        Self { rank: None, status: INCONCLUSIVE, is_ending: true, source: Source::Silence(attempt.heard_at) }
    }

    fn retrying(planned_at: Millis, receipt: &'a Receipt) -> Self {
        let source = Source::Reports(vec![(receipt.event_id.as_str(), planned_at)]);
        Self { rank: None, status: RETRYING, is_ending: false, source }
    }
}

impl<'a> Expected<'a> {
    fn of(subject: Subject, known: &Known<'a>, attempt: &KnownAttempt<'a>, number: usize, news: News<'a>) -> Self {
        Self {
            subject,
            attempt: attempt.index,
            number,
            news,
            vendor_call_id: attempt.vendor_call_id(),
            appointment_id: known.appointment_id(),
        }
    }

    fn event_type(&self) -> String {
        match self.subject {
            Subject::Call => format!("call.{}", self.news.status),
            Subject::Correction(_) => "call.corrected".to_owned(),
            Subject::Appointment => format!("appointment.{}", self.news.status),
        }
    }

    /// The first field that is not as it must be. `before` is what must have been announced before it.
    fn difference(&self, script: &Script, before: &[Self], actual: &Value) -> Option<String> {
        let sequence = before.len() + 1;
        let same_subject = |other: &&Self| {
            other.subject == self.subject && (self.subject == Subject::Appointment || other.attempt == self.attempt)
        };
        // A plan to retry corrects nothing, it goes on from there.
        let is_corrected = |other: &Self| {
            same_subject(&other)
                && other.attempt == self.attempt
                && other.news.is_ending
                && self.news.status != RETRYING
        };
        let (previous, corrected) = match self.subject {
            Subject::Call | Subject::Appointment => {
                (before.iter().rfind(same_subject), before.iter().rposition(is_corrected))
            }
            Subject::Correction(place) => (before.get(place), Some(place)),
        };
        let previous = previous.map(|other| other.news.status);
        let corrects = corrected.map(|place| format!("{}/{}", script.call_id, place + 1));
        let fields: [(&str, Value); 11] = [
            ("type", self.event_type().into()),
            ("id", format!("{}/{sequence}", script.call_id).into()),
            ("sequence", sequence.into()),
            ("call_id", script.call_id.as_str().into()),
            ("provider", script.vendor.name().into()),
            ("status", self.news.status.into()),
            ("previous", previous.into()),
            ("attempt", self.number.into()),
            ("provider_call_id", self.vendor_call_id.into()),
            ("appointment_id", self.appointment_id.into()),
            ("corrects", corrects.into()),
        ];
        for (name, expected) in fields {
            let found = actual.get(name).unwrap_or(&Value::Null);
            if *found != expected {
                return Some(format!("{name} is {found}, must be {expected}"));
            }
        }
        self.source_difference(script, actual)
    }

    fn source_difference(&self, script: &Script, actual: &Value) -> Option<String> {
        let text = |name: &str| actual.get(name).and_then(Value::as_str).unwrap_or_default();
        let (source, occurred_at) = (text("source_event_id"), text("occurred_at"));
        let at = occurred_at.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_millisecond).unwrap_or_default();
        match &self.news.source {
            Source::Reports(reports) => {
                let of_source: Vec<Millis> =
                    reports.iter().filter(|(id, _)| *id == source).map(|(_, time)| *time).collect();
                if of_source.is_empty() {
                    return Some(format!("source_event_id is {source}, must be one of {reports:?}"));
                }
                (!of_source.contains(&at))
                    .then(|| format!("occurred_at is {occurred_at}, must be one of {of_source:?}"))
            }
            Source::Silence(since) => {
                let (earliest, latest) = found_out(*since);
                let own = source.starts_with(&format!("switchhook:{}/", script.call_id));
                (!own || at < earliest || at > latest)
                    .then(|| format!("{source} at {occurred_at} is no finding of silence"))
            }
        }
    }
}
