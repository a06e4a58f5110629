//! One domain event that must have been published, and its comparison with the event that was published.

use serde_json::Value;

use super::attempt_knowledge::{AttemptKnowledge, ReachedStatus};
use super::evidence::{CheckedCall, EndWithoutAttempt, InactivityTimeout, MissedRetry, ReceivedReport};
use crate::demo::json::{text, time};
use crate::demo::script::{Millis, Provider};

pub(super) const INCONCLUSIVE: &str = "inconclusive";
pub(super) const RETRYING: &str = "retrying";
const RETRY_SCHEDULED: &str = "retry_scheduled";
const EXHAUSTED: &str = "exhausted";

/// One domain event that must have been published.
#[derive(Clone, Debug)]
pub(super) struct ExpectedEvent<'a> {
    pub(super) topic: Topic,
    /// Index into the attempts of the call. `None` if the event belongs to no attempt.
    pub(super) attempt: Option<usize>,
    /// Number of the attempt as subscribers see it, counted from 1.
    pub(super) number: Option<usize>,
    pub(super) content: EventContent<'a>,
    pub(super) provider: Option<Provider>,
    pub(super) provider_call_id: Option<&'a str>,
    /// The appointment of the call, as far as it was known then.
    pub(super) appointment_id: Option<&'a str>,
}

/// The subject of a domain event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    /// The lifecycle of an attempt, such as `call.ringing`.
    Lifecycle,
    /// The job, such as `call.retry_scheduled`.
    Job,
    /// `call.corrected`: a later report replaced the ending that the expected event of this index announced.
    Correction(usize),
    /// `call.outcome`: the outcome of an attempt of a call without an appointment.
    Outcome,
    Appointment,
}

#[derive(Clone, Debug)]
pub(super) struct EventContent<'a> {
    /// Rank of the reached status. `None` if the event announces no such status.
    pub(super) rank: Option<u8>,
    pub(super) status: &'static str,
    pub(super) is_final: bool,
    source: EventSource<'a>,
    /// Earliest and latest time at which the next attempt may be due, both included.
    due_between: Option<(Millis, Millis)>,
    /// Reason why the call gets no further attempt.
    reason: Option<&'static str>,
}

/// The cause of a domain event. It determines `source_event_id` and `occurred_at`.
#[derive(Clone, Debug)]
pub(super) enum EventSource<'a> {
    /// One of these reports, each with the time that it states.
    Reports(Vec<(&'a ReceivedReport, Millis)>),
    /// An inactivity timeout. `occurred_at` is the time at which the timeout was detected.
    TimeoutDetected(InactivityTimeout),
    /// An inactivity timeout. `occurred_at` is the start of the timeout: the time of the last event before it.
    TimeoutStarted(InactivityTimeout),
    /// The detection that a promised retry has not come.
    RetryMissed(MissedRetry),
    /// A request to Switchhook, or a decision of Switchhook, at a time between these, both included.
    NoReport(Millis, Millis),
}

/// The reason why an attempt has ended.
pub(super) enum AttemptEnd<'a> {
    /// One of these reports states the ending, each with the time that it states.
    Reported(Vec<(&'a ReceivedReport, Millis)>),
    TimedOut(InactivityTimeout),
}

impl<'a> AttemptEnd<'a> {
    /// `None` if the attempt has not ended.
    pub(super) fn of(attempt: &AttemptKnowledge<'a>) -> Option<Self> {
        let reported = attempt.end_fact().map(|fact| Self::Reported(attempt.sources(Some(fact))));
        reported.or_else(|| attempt.timeout.map(Self::TimedOut))
    }

    pub(super) fn source(&self) -> EventSource<'a> {
        match self {
            Self::Reported(reports) => EventSource::Reports(reports.clone()),
            Self::TimedOut(timeout) => EventSource::TimeoutStarted(*timeout),
        }
    }

    /// Earliest and latest time, by the system's clock, at which Switchhook learned of the end.
    pub(super) fn known_between(&self) -> (Millis, Millis) {
        match self {
            Self::Reported(reports) => {
                let arrivals = || reports.iter().map(|(received, _)| received.at);
                (arrivals().min().unwrap_or(Millis::MIN), arrivals().max().unwrap_or(Millis::MAX))
            }
            Self::TimedOut(timeout) => timeout.detected_between,
        }
    }
}

impl<'a> EventContent<'a> {
    /// Announces a status that an attempt has reached.
    pub(super) fn reached(status: &ReachedStatus, attempt: &AttemptKnowledge<'a>) -> Self {
        let source = EventSource::Reports(attempt.sources(status.fact));
        Self { rank: Some(status.rank), is_final: status.is_final, ..Self::new(status.status, source) }
    }

    pub(super) fn inconclusive(timeout: InactivityTimeout) -> Self {
        Self { is_final: true, ..Self::new(INCONCLUSIVE, EventSource::TimeoutDetected(timeout)) }
    }

    pub(super) fn retry_missed(missed: MissedRetry) -> Self {
        Self { is_final: true, ..Self::new(INCONCLUSIVE, EventSource::RetryMissed(missed)) }
    }

    pub(super) fn retrying(source: EventSource<'a>) -> Self {
        Self::new(RETRYING, source)
    }

    pub(super) fn retry_scheduled(end: &AttemptEnd<'a>, due_between: (Millis, Millis)) -> Self {
        Self { due_between: Some(due_between), ..Self::new(RETRY_SCHEDULED, end.source()) }
    }

    pub(super) fn exhausted(end: &AttemptEnd<'a>, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..Self::new(EXHAUSTED, end.source()) }
    }

    fn new(status: &'static str, source: EventSource<'a>) -> Self {
        Self { rank: None, status, is_final: false, source, due_between: None, reason: None }
    }
}

impl<'a> ExpectedEvent<'a> {
    pub(super) fn of_attempt(
        topic: Topic,
        attempt: &AttemptKnowledge<'a>,
        number: usize,
        content: EventContent<'a>,
    ) -> Self {
        Self {
            attempt: Some(attempt.index),
            number: Some(number),
            provider: attempt.provider(),
            provider_call_id: attempt.provider_call_id(),
            ..Self::of_call(topic, content)
        }
    }

    /// An event that belongs to no attempt.
    pub(super) fn of_call(topic: Topic, content: EventContent<'a>) -> Self {
        let (attempt, number, provider, provider_call_id, appointment_id) = (None, None, None, None, None);
        Self { topic, attempt, number, content, provider, provider_call_id, appointment_id }
    }

    /// Returns the events at the end of a call without an attempt: one for its job, then one for its appointment.
    pub(super) fn of_end(end: EndWithoutAttempt) -> [Self; 2] {
        let content = |status| {
            let content = EventContent::new(status, EventSource::NoReport(end.between.0, end.between.1));
            EventContent { reason: Some(end.reason), ..content }
        };
        [
            Self::of_call(Topic::Job, content(end.status)),
            Self::of_call(Topic::Appointment, content(end.appointment_status)),
        ]
    }

    pub(super) fn event_type(&self) -> String {
        match self.topic {
            Topic::Lifecycle | Topic::Job => format!("call.{}", self.content.status),
            Topic::Correction(_) => "call.corrected".to_owned(),
            Topic::Outcome => "call.outcome".to_owned(),
            Topic::Appointment => format!("appointment.{}", self.content.status),
        }
    }

    /// Returns the first field of the published event that differs from this one. `before` holds the events that must
    /// have been published before.
    pub(super) fn difference(&self, call: &CheckedCall<'_>, before: &[Self], actual: &Value) -> Option<String> {
        let sequence = before.len() + 1;
        let of_attempt = |other: &&Self| other.topic == Topic::Lifecycle && other.attempt == self.attempt;
        let of_topic = |other: &&Self| other.topic == self.topic;
        let is_corrected = |other: &Self| other.attempt == self.attempt && other.content.is_final;
        let (previous, corrected) = match self.topic {
            Topic::Lifecycle => (
                before.iter().rfind(of_attempt),
                before.iter().rposition(|other| of_attempt(&other) && is_corrected(other)),
            ),
            // A planned retry continues after the previous status. It does not correct it.
            Topic::Appointment if self.content.status == RETRYING => (before.iter().rfind(of_topic), None),
            Topic::Appointment | Topic::Outcome => (
                before.iter().rfind(of_topic),
                before.iter().rposition(|other| of_topic(&other) && is_corrected(other)),
            ),
            Topic::Job => (before.iter().rfind(of_attempt), None),
            Topic::Correction(index) => (before.get(index), Some(index)),
        };
        let previous = previous.map(|other| other.content.status);
        let corrects = corrected.map(|index| format!("{}/{}", call.call_id, index + 1));
        let fields: [(&str, Value); 13] = [
            ("schema_version", 1.into()),
            ("type", self.event_type().into()),
            ("id", format!("{}/{sequence}", call.call_id).into()),
            ("sequence", sequence.into()),
            ("call_id", call.call_id.into()),
            ("provider", self.provider.map(Provider::name).into()),
            ("status", self.content.status.into()),
            ("previous", previous.into()),
            ("attempt", self.number.into()),
            ("provider_call_id", self.provider_call_id.into()),
            ("appointment_id", self.appointment_id.into()),
            ("corrects", corrects.into()),
            ("reason", self.content.reason.into()),
        ];
        for (name, expected) in fields {
            let found = actual.get(name).unwrap_or(&Value::Null);
            if *found != expected {
                return Some(format!("{name} is {found}, must be {expected}"));
            }
        }
        self.source_difference(call, actual).or_else(|| self.due_difference(actual))
    }

    fn source_difference(&self, call: &CheckedCall<'_>, actual: &Value) -> Option<String> {
        let (source, occurred_at) = (text(actual, "source_event_id"), text(actual, "occurred_at"));
        let at = time(actual, "occurred_at").unwrap_or_default();
        let found = || format!("source_event_id is {source}, occurred_at is {occurred_at}");
        match &self.content.source {
            EventSource::Reports(reports) => {
                let of_source = reports.iter().filter(|(received, _)| received.event_id == source);
                let of_source: Vec<Millis> = of_source.map(|(_, stated_at)| *stated_at).collect();
                if of_source.is_empty() {
                    let ids: Vec<&str> = reports.iter().map(|(received, _)| received.event_id.as_str()).collect();
                    return Some(format!("source_event_id is {source}, must be one of {ids:?}"));
                }
                (!of_source.contains(&at))
                    .then(|| format!("occurred_at is {occurred_at}, must be one of {of_source:?}"))
            }
            EventSource::TimeoutDetected(InactivityTimeout { since, detected_between: (earliest, latest), .. }) => {
                let is_timeout = self.is_timeout_event(call, source, *since);
                (!is_timeout || at < *earliest || at > *latest)
                    .then(|| format!("{}: not the detection of the inactivity timeout since {since}", found()))
            }
            EventSource::TimeoutStarted(InactivityTimeout { since, .. }) => {
                let is_timeout = self.is_timeout_event(call, source, *since);
                (!is_timeout || at != *since)
                    .then(|| format!("{}: not dated by the start of the inactivity timeout at {since}", found()))
            }
            EventSource::RetryMissed(MissedRetry { detected_between: (earliest, latest), .. }) => {
                let is_own = source.starts_with(&format!("switchhook:{}/", call.call_id));
                (!is_own || at < *earliest || at > *latest)
                    .then(|| format!("{}: not the detection that the promised retry has not come", found()))
            }
            EventSource::NoReport(earliest, latest) => {
                let has_source = actual.get("source_event_id").is_some_and(|source| !source.is_null());
                (has_source || at < *earliest || at > *latest)
                    .then(|| format!("{}: not without a source, from {earliest} to {latest}", found()))
            }
        }
    }

    /// True if `id` is the id that Switchhook gives to the inactivity timeout of this attempt that began at `since`.
    ///
    /// The id names the attempt. If Switchhook placed the call, that is the number of the dial. If others placed it,
    /// the oracle does not check the name.
    fn is_timeout_event(&self, call: &CheckedCall<'_>, id: &str, since: Millis) -> bool {
        let rest = id.strip_prefix(&format!("switchhook:{}/", call.call_id));
        let attempt = rest.and_then(|rest| rest.strip_suffix(&format!("/deadline/{since}")));
        let dial = self.attempt.filter(|_| call.placement.is_some());
        let number = dial.map(|index| (index + 1).to_string());
        attempt.is_some_and(|attempt| number.is_none_or(|number| attempt == number))
    }

    fn due_difference(&self, actual: &Value) -> Option<String> {
        let due_at = actual.get("due_at");
        match self.content.due_between {
            None => due_at.map(|due_at| format!("due_at is {due_at}, must be absent")),
            Some((earliest, latest)) => {
                let is_due = time(actual, "due_at").is_some_and(|at| (earliest..=latest).contains(&at));
                (!is_due).then(|| format!("due_at is {due_at:?}, must be from {earliest} to {latest}"))
            }
        }
    }
}
