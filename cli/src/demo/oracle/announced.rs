//! The domain events that a call must have caused, in order.
//!
//! The call is lived through once more: report after report in the order of arrival, and every silence when it was found
//! out. Whatever is new and higher than all that was announced before must be announced at that moment.
//!
//! **What truth leaves open is tried either way, and nothing else**: of two reports that come in the same instant either may
//! be taken first, of two that come within a second both may be taken at once, and of a call that nobody can be asked about
//! silence is found out by a run of the reconciler of which only the period is known.

use serde_json::Value;

use super::choices::Choices;
use super::known::{Known, KnownAttempt, Silence, Stage};
use super::{Moment, Plan, Receipt, Subject, found_out};
use crate::demo::script::{Fact, Millis, SECOND};

/// Reports that come so close to each other may be folded together.
const CLOSE: Millis = SECOND;
/// How many ways a call may have gone before the oracle gives up, which is a finding.
const WAYS_MAX: usize = 1 << 14;

const INCONCLUSIVE: &str = "inconclusive";
const RETRYING: &str = "retrying";
const CANCELED: &str = "canceled";
const RETRY_SCHEDULED: &str = "retry_scheduled";
const EXHAUSTED: &str = "exhausted";

/// One domain event that must be there.
#[derive(Clone, Debug)]
struct Expected<'a> {
    about: About,
    /// Index into the subject's attempts; none if it is of no attempt.
    attempt: Option<usize>,
    number: Option<usize>,
    news: News<'a>,
    vendor_call_id: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Call,
    /// What Switchhook makes of an attempt, or of the call.
    Plan,
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
    /// Between these two moments, both included, the next attempt must be due.
    due: Option<(Millis, Millis)>,
}

/// What brought it about.
#[derive(Clone, Debug)]
enum Source<'a> {
    /// One of these reports, each with the time that it gives.
    Reports(Vec<(&'a Receipt, Millis)>),
    /// Switchhook's own finding that nothing was heard, at the moment at which that was found out.
    Silence(Silence),
    /// The same, for what dates from the last that was heard.
    LastWord(Silence),
    /// A request to Switchhook at this time.
    Request(Millis),
}

/// What is wrong with the domain events of a call of which these moments tell, in the order of time.
pub(in crate::demo) fn findings(subject: &Subject<'_>, moments: &[Moment], actual: &[Value]) -> Vec<String> {
    let mut choices = Choices::default();
    // Of all ways in which the call can have gone, the complaint about the one that fits longest.
    let mut closest: Option<(usize, String)> = None;
    for _ in 0..WAYS_MAX {
        let mut log = Log { subject, actual, expected: Vec::new() };
        match live_through(subject, moments, &mut choices, &mut log).and_then(|()| log.complete()) {
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
    subject: &'a Subject<'a>,
    moments: &'a [Moment],
    choices: &mut Choices,
    log: &mut Log<'a, '_>,
) -> Result<(), String> {
    if let Some(at) = subject.plan.as_ref().and_then(|plan| plan.canceled_at) {
        log.expect(Expected::canceled(at))?;
    }
    let mut order: Vec<&Moment> = moments.iter().collect();
    let mut known = Known::nothing(subject);
    let mut place = 0;
    loop {
        let next = order.get(place).copied();
        while let Some(silence) = next_silence(&known, next, choices) {
            known.pass(silence);
            announce(&known, log)?;
        }
        let Some(mut moment) = next else { return Ok(()) };
        // Of two that come at the same moment either may be first.
        if order.get(place + 1).is_some_and(|after| after.at() == moment.at()) && choices.choose() {
            order.swap(place, place + 1);
            moment = order.get(place).copied().unwrap_or(moment);
        }
        known.learn(moment);
        place += 1;
        let close = order.get(place).is_some_and(|after| after.at() - moment.at() <= CLOSE);
        if !(close && choices.choose()) {
            announce(&known, log)?;
        }
    }
}

/// The next silence that is found out before the next report comes. Of a call that Switchhook placed its provider is asked, and
/// the moments tell when.
fn next_silence(known: &Known<'_>, next: Option<&Moment>, choices: &mut Choices) -> Option<Silence> {
    if known.subject.plan.is_some() {
        return None;
    }
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
        Some(moment) if moment.at() < earliest => false,
        Some(moment) if moment.at() > latest => true,
        Some(_) => choices.choose(),
    };
    passes.then_some(Silence { attempt: first.index, since: first.heard_at, found_out: (earliest, latest) })
}

/// Expects what is new by now: of each attempt, then of what is made of them, then of the appointment.
fn announce<'a>(known: &Known<'a>, log: &mut Log<'a, '_>) -> Result<(), String> {
    let attempts = known.attempts();
    for (place, attempt) in attempts.iter().enumerate() {
        let expect = |news| Expected::of(About::Call, attempt, place + 1, news);
        let of_attempt = |said: &&Expected<'_>| said.about == About::Call && said.attempt == Some(attempt.index);
        let announced = log.expected.iter().filter(of_attempt).filter_map(|said| said.news.rank).max();
        let ended = log.expected.iter().rposition(|said| of_attempt(&said) && said.news.is_ending);
        let stages = attempt.lifecycle();
        let new: Vec<&Stage> = stages.iter().filter(|stage| Some(stage.rank) > announced).collect();
        for stage in &new {
            log.expect(expect(News::of(stage, attempt)))?;
        }
        if let (Some(stage), Some(ended)) = (new.last(), ended) {
            log.expect(Expected { about: About::Correction(ended), ..expect(News::of(stage, attempt)) })?;
        }
        let last = log.expected.iter().rfind(of_attempt).map(|said| said.news.status);
        if let Some(silence) = attempt.silence.filter(|_| !attempt.has_ended() && last != Some(INCONCLUSIVE)) {
            log.expect(expect(News::inconclusive(silence)))?;
        }
    }
    let numbered: Vec<(&KnownAttempt<'a>, usize)> = attempts.iter().zip(1..).collect();
    if let Some(plan) = &known.subject.plan {
        announce_plan(plan, &numbered, log)?;
    }
    announce_appointment(known, &numbered, log)
}

/// Once the latest attempt is over: that there will be another, or that there will be none and nobody was reached.
fn announce_plan<'a>(
    plan: &Plan,
    attempts: &[(&KnownAttempt<'a>, usize)],
    log: &mut Log<'a, '_>,
) -> Result<(), String> {
    let Some((latest, number)) = attempts.last() else { return Ok(()) };
    let is_said = |said: &Expected<'_>| said.about == About::Plan && said.attempt == Some(latest.index);
    if log.expected.iter().any(is_said) {
        return Ok(());
    }
    let Some(end) = latest.end() else { return Ok(()) };
    let news = match plan.retried_between(latest.index, end.known_between()) {
        Some(due) => News { due: Some(due), ..News::told(RETRY_SCHEDULED, end.source()) },
        None if plan.fails && latest.index == plan.retries.len() => News::told(EXHAUSTED, end.source()),
        None => return Ok(()),
    };
    let of_call = Expected::of(About::Plan, latest, *number, news);
    log.expect(Expected { vendor_call_id: None, ..of_call })
}

/// The appointment follows the attempt that decided it, else the latest.
fn announce_appointment<'a>(
    known: &Known<'a>,
    attempts: &[(&KnownAttempt<'a>, usize)],
    log: &mut Log<'a, '_>,
) -> Result<(), String> {
    let decided = attempts.iter().rfind(|(attempt, _)| attempt.decided().is_some()).copied();
    let Some(latest) = attempts.last().copied() else { return Ok(()) };
    let (deciding, number) = decided.unwrap_or(latest);
    let of_deciding = |said: &&Expected<'_>| said.about == About::Appointment && said.attempt == Some(deciding.index);
    let announced = log.expected.iter().filter(of_deciding).filter_map(|said| said.news.rank).max();
    for stage in deciding.outcomes().iter().filter(|stage| Some(stage.rank) > announced) {
        log.expect(Expected::of(About::Appointment, deciding, number, News::of(stage, deciding)))?;
    }
    if decided.is_some() {
        return Ok(());
    }
    let (latest, number) = latest;
    let planned = known.retry_planned().map(|(at, receipt)| Source::Reports(vec![(receipt, at)]));
    let ours = || latest.end().filter(|_| known.subject.plan.as_ref().is_some_and(|plan| plan.retries(latest.index)));
    let present = match planned.or_else(|| ours().map(|end| end.source())) {
        Some(source) => Some(News::told(RETRYING, source)),
        None => latest.silence.filter(|_| !latest.has_outcome()).map(News::inconclusive),
    };
    let last = log.expected.iter().rfind(|said| said.about == About::Appointment).map(|said| said.news.status);
    match present.filter(|present| last != Some(present.status)) {
        Some(present) => log.expect(Expected::of(About::Appointment, latest, number, present)),
        None => Ok(()),
    }
}

/// What must be there, held against what is there as it grows.
struct Log<'a, 'b> {
    subject: &'a Subject<'a>,
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
        if let Some(difference) = event.difference(self.subject, &self.expected, actual) {
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
        let source = match attempt.silence.filter(|_| attempt.is_unheard()) {
            Some(silence) => Source::LastWord(silence),
            None => Source::Reports(attempt.sources(stage.fact)),
        };
        Self { rank: Some(stage.rank), is_ending: stage.is_ending, ..Self::told(stage.status, source) }
    }

    fn inconclusive(silence: Silence) -> Self {
        Self { is_ending: true, ..Self::told(INCONCLUSIVE, Source::Silence(silence)) }
    }

    fn told(status: &'static str, source: Source<'a>) -> Self {
        Self { rank: None, status, is_ending: false, source, due: None }
    }
}

/// What ended an attempt.
enum End<'a> {
    /// One of these reports, each with the time that it gives.
    Told(Vec<(&'a Receipt, Millis)>),
    Silence(Silence),
}

impl<'a> KnownAttempt<'a> {
    fn end(&self) -> Option<End<'a>> {
        let told = self.ending().filter(|_| self.has_ended());
        let told = told.map(|ending| End::Told(self.sources(Some(Fact::Ended(ending)))));
        told.or_else(|| self.silence.map(End::Silence))
    }
}

impl<'a> End<'a> {
    fn source(&self) -> Source<'a> {
        match self {
            Self::Told(reports) => Source::Reports(reports.clone()),
            Self::Silence(silence) => Source::LastWord(*silence),
        }
    }

    /// When it became known, by our clock, at the earliest and at the latest.
    fn known_between(&self) -> (Millis, Millis) {
        match self {
            Self::Told(reports) => {
                let came_at = || reports.iter().map(|(receipt, _)| receipt.at);
                (came_at().min().unwrap_or(Millis::MIN), came_at().max().unwrap_or(Millis::MAX))
            }
            Self::Silence(silence) => silence.found_out,
        }
    }
}

impl<'a> Expected<'a> {
    fn of(about: About, attempt: &KnownAttempt<'a>, number: usize, news: News<'a>) -> Self {
        let vendor_call_id = attempt.vendor_call_id();
        Self { about, attempt: Some(attempt.index), number: Some(number), news, vendor_call_id }
    }

    fn canceled(at: Millis) -> Self {
        let news = News::told(CANCELED, Source::Request(at));
        Self { about: About::Plan, attempt: None, number: None, news, vendor_call_id: None }
    }

    fn event_type(&self) -> String {
        match self.about {
            About::Call | About::Plan => format!("call.{}", self.news.status),
            About::Correction(_) => "call.corrected".to_owned(),
            About::Appointment => format!("appointment.{}", self.news.status),
        }
    }

    /// The first field that is not as it must be. `before` is what must have been announced before it.
    fn difference(&self, subject: &Subject<'_>, before: &[Self], actual: &Value) -> Option<String> {
        let sequence = before.len() + 1;
        let of_attempt = |other: &&Self| other.about == About::Call && other.attempt == self.attempt;
        let of_appointment = |other: &&Self| other.about == About::Appointment;
        let is_corrected = |other: &Self| other.attempt == self.attempt && other.news.is_ending;
        let (previous, corrected) = match self.about {
            About::Call => {
                (before.iter().rfind(of_attempt), before.iter().rposition(|o| of_attempt(&o) && is_corrected(o)))
            }
            // A plan to retry corrects nothing, it goes on from there.
            About::Appointment if self.news.status == RETRYING => (before.iter().rfind(of_appointment), None),
            About::Appointment => (
                before.iter().rfind(of_appointment),
                before.iter().rposition(|o| of_appointment(&o) && is_corrected(o)),
            ),
            About::Plan => (before.iter().rfind(of_attempt), None),
            About::Correction(place) => (before.get(place), Some(place)),
        };
        let previous = previous.map(|other| other.news.status);
        let corrects = corrected.map(|place| format!("{}/{}", subject.call_id, place + 1));
        let fields: [(&str, Value); 12] = [
            ("schema_version", 1.into()),
            ("type", self.event_type().into()),
            ("id", format!("{}/{sequence}", subject.call_id).into()),
            ("sequence", sequence.into()),
            ("call_id", subject.call_id.into()),
            ("provider", subject.vendor.name().into()),
            ("status", self.news.status.into()),
            ("previous", previous.into()),
            ("attempt", self.number.into()),
            ("provider_call_id", self.vendor_call_id.into()),
            ("appointment_id", subject.appointment_id.into()),
            ("corrects", corrects.into()),
        ];
        for (name, expected) in fields {
            let found = actual.get(name).unwrap_or(&Value::Null);
            if *found != expected {
                return Some(format!("{name} is {found}, must be {expected}"));
            }
        }
        self.source_difference(subject, actual).or_else(|| self.due_difference(actual))
    }

    fn source_difference(&self, subject: &Subject<'_>, actual: &Value) -> Option<String> {
        let text = |name: &str| actual.get(name).and_then(Value::as_str).unwrap_or_default();
        let (source, occurred_at) = (text("source_event_id"), text("occurred_at"));
        let at = time(actual, "occurred_at").unwrap_or_default();
        match &self.news.source {
            Source::Reports(reports) => {
                let of_source = reports.iter().filter(|(receipt, _)| receipt.event_id == source);
                let of_source: Vec<Millis> = of_source.map(|(_, time)| *time).collect();
                if of_source.is_empty() {
                    let ids: Vec<&str> = reports.iter().map(|(receipt, _)| receipt.event_id.as_str()).collect();
                    return Some(format!("source_event_id is {source}, must be one of {ids:?}"));
                }
                (!of_source.contains(&at))
                    .then(|| format!("occurred_at is {occurred_at}, must be one of {of_source:?}"))
            }
            Source::Silence(Silence { since, found_out: (earliest, latest), .. }) => {
                let own = self.is_finding_of_silence(subject, source, *since);
                (!own || at < *earliest || at > *latest).then(|| {
                    format!(
                        "source_event_id is {source}, occurred_at {occurred_at}: no finding of silence since {since}"
                    )
                })
            }
            Source::LastWord(Silence { since, .. }) => {
                let own = self.is_finding_of_silence(subject, source, *since);
                (!own || at != *since).then(|| {
                    format!(
                        "source_event_id is {source}, occurred_at {occurred_at}: not dated by silence since {since}"
                    )
                })
            }
            Source::Request(asked_at) => {
                (actual.get("source_event_id").is_some_and(|source| !source.is_null()) || at != *asked_at).then(|| {
                    format!("source_event_id is {source}, occurred_at {occurred_at}: not the request at {asked_at}")
                })
            }
        }
    }

    /// True of the id that Switchhook gives to its finding that the attempt was silent since then. What it calls an attempt that
    /// others placed is not for the oracle to say; those of its own it counts.
    fn is_finding_of_silence(&self, subject: &Subject<'_>, id: &str, since: Millis) -> bool {
        let rest = id.strip_prefix(&format!("switchhook:{}/", subject.call_id));
        let key = rest.and_then(|rest| rest.strip_suffix(&format!("/deadline/{since}")));
        let number = self.number.filter(|_| subject.plan.is_some()).map(|number| number.to_string());
        key.is_some_and(|key| number.is_none_or(|number| key == number))
    }

    fn due_difference(&self, actual: &Value) -> Option<String> {
        let due_at = actual.get("due_at");
        match self.news.due {
            None => due_at.map(|due_at| format!("due_at is {due_at}, must not be there")),
            Some((earliest, latest)) => {
                let is_due = time(actual, "due_at").is_some_and(|at| (earliest..=latest).contains(&at));
                (!is_due).then(|| format!("due_at is {due_at:?}, must be from {earliest} to {latest}"))
            }
        }
    }
}

fn time(value: &Value, name: &str) -> Option<Millis> {
    let text = value.get(name).and_then(Value::as_str)?;
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}
