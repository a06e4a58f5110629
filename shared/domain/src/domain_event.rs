//! The domain events that Switchhook publishes.
//!
//! **The list of announcements is the only record of the published events.** A domain event is computed from that list, and
//! from the parts of the row that never change. So an event that is published again, a second later or a year later, has the
//! same id and the same content.

use serde::Serialize;

use crate::announcement::{Announcement, AnnouncementKind, AnnouncementSource, AppointmentStatus, Topic};
use crate::call::{Call, HistoryEntry};
use crate::event::{CallId, EventId, Origin, TraceId};
use crate::provider::Provider;
use crate::time::Timestamp;

/// Version of the content of domain events. A subscriber must not guess the meaning of a version that it does not know.
pub const DOMAIN_EVENT_SCHEMA_VERSION: u32 = 1;

/// Event that Switchhook publishes about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DomainEvent {
    pub schema_version: u32,
    /// `{call_id}/{sequence}`. A repetition of the event has the same id.
    pub id: String,
    /// `call.{status}` or `appointment.{status}`. The exceptions are `call.outcome`, `call.corrected` and `call.drift_repaired`.
    #[serde(rename = "type")]
    pub event_type: String,
    pub call_id: String,
    /// Position among the domain events of the call, counted from 1.
    pub sequence: usize,
    /// Provider of the attempt. `None` if the event concerns no attempt.
    pub provider: Option<Provider>,
    pub provider_call_id: Option<String>,
    pub appointment_id: Option<String>,
    /// Number of the attempt. `None` if the event concerns no attempt.
    pub attempt: Option<u8>,
    /// Status announced before: of the attempt for `call.*`, of the call for `call.outcome` and `appointment.*`.
    pub previous: Option<&'static str>,
    pub status: &'static str,
    /// Id of the event that caused the change. `None` if a worker or a request to Switchhook caused it.
    pub source_event_id: Option<String>,
    /// Trace id of the source event. If there is none, the trace id of the request that created the call. `None` if neither is
    /// known.
    pub trace_id: Option<String>,
    /// Time at which the source event happened: by the provider's clock if the provider names a time, else the time of receipt.
    /// If there is no source event, the time of the worker's transition. RFC 3339.
    pub occurred_at: String,
    /// Id of the earlier domain event that announced an ending or a cancellation, which this event corrects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrects: Option<String>,
    /// Reason why the call ended, only in `call.exhausted`, in `call.canceled` if the user canceled the call, and in an
    /// `appointment.*` about a call without an attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// Due time of the next attempt, only in `call.retry_scheduled`. RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<String>,
}

impl Call {
    /// Returns the domain events from this sequence on, in order.
    #[must_use]
    pub fn domain_events_from(&self, sequence: usize) -> Vec<DomainEvent> {
        (sequence.max(1)..=self.announcements.len()).filter_map(|n| self.domain_event(n)).collect()
    }

    fn trace_id_of<'a>(&'a self, source: Option<&'a HistoryEntry>) -> Option<&'a TraceId> {
        match source {
            Some(source) => source.trace_id.as_ref(),
            None => self.plan.as_ref()?.trace_id.as_ref(),
        }
    }

    fn domain_event(&self, sequence: usize) -> Option<DomainEvent> {
        let (announcement, earlier) = self.announcements.get(..sequence)?.split_last()?;
        let source = match announcement.source {
            AnnouncementSource::Event(index) => Some(self.history.get(index)?),
            AnnouncementSource::Transition(_) => None,
        };
        let kind = announcement.kind;
        let previous = self.previous_status(announcement, earlier);
        let provider_call_id = announcement
            .attempt_index
            .and_then(|index| self.attempt_records.get(index)?.provider_call_id.clone())
            .filter(|_| announcement.provider_call_known);
        Some(DomainEvent {
            schema_version: DOMAIN_EVENT_SCHEMA_VERSION,
            id: format!("{}/{sequence}", self.call_id),
            event_type: kind.event_type(),
            call_id: self.call_id.to_string(),
            sequence,
            provider: announcement
                .attempt_index
                .and_then(|_| announcement.provider.or_else(|| self.provider_of_source(announcement.source))),
            provider_call_id,
            appointment_id: self.appointment_id.clone().filter(|_| announcement.appointment_known),
            attempt: (announcement.attempt_number > 0).then_some(announcement.attempt_number),
            previous,
            status: kind.status(),
            source_event_id: source.map(|source| source.source_event_id.to_string()),
            trace_id: self.trace_id_of(source).map(|trace_id| trace_id.as_str().to_owned()),
            occurred_at: occurred_at(announcement, source)?.to_string(),
            corrects: corrected_sequence(announcement, earlier).map(|sequence| format!("{}/{sequence}", self.call_id)),
            reason: reason(kind),
            due_at: match kind {
                AnnouncementKind::RetryScheduled(due_at) => Some(due_at.to_string()),
                AnnouncementKind::Lifecycle(_)
                | AnnouncementKind::Inconclusive
                | AnnouncementKind::Corrected(..)
                | AnnouncementKind::Exhausted(_)
                | AnnouncementKind::JobCanceled(_)
                | AnnouncementKind::DriftRepaired { .. }
                | AnnouncementKind::Appointment(_)
                | AnnouncementKind::AppointmentEnded(_)
                | AnnouncementKind::Outcome(_)
                | AnnouncementKind::OutcomeInconclusive => None,
            },
        })
    }

    /// Returns the status that was announced before, of the same attempt or of the appointment.
    fn previous_status(&self, announcement: &Announcement, earlier: &[Announcement]) -> Option<&'static str> {
        match announcement.kind {
            AnnouncementKind::DriftRepaired { before, .. } => Some(before),
            AnnouncementKind::Corrected(_, sequence) => {
                Some(self.announcements.get(sequence.checked_sub(1)?)?.kind.status())
            }
            AnnouncementKind::Lifecycle(_)
            | AnnouncementKind::Inconclusive
            | AnnouncementKind::RetryScheduled(_)
            | AnnouncementKind::Exhausted(_)
            | AnnouncementKind::JobCanceled(_)
            | AnnouncementKind::Appointment(_)
            | AnnouncementKind::AppointmentEnded(_)
            | AnnouncementKind::Outcome(_)
            | AnnouncementKind::OutcomeInconclusive => {
                let is_previous = |other: &&Announcement| is_previous_status(announcement, other);
                earlier.iter().rfind(is_previous).map(|other| other.kind.status())
            }
        }
    }
}

/// Returns the reason why the call ended.
const fn reason(kind: AnnouncementKind) -> Option<&'static str> {
    match kind {
        AnnouncementKind::Exhausted(reason) | AnnouncementKind::AppointmentEnded(reason) => Some(reason.as_str()),
        AnnouncementKind::JobCanceled(reason) => Some(reason.as_str()),
        AnnouncementKind::Appointment(_)
        | AnnouncementKind::Lifecycle(_)
        | AnnouncementKind::Inconclusive
        | AnnouncementKind::Corrected(..)
        | AnnouncementKind::RetryScheduled(_)
        | AnnouncementKind::DriftRepaired { .. }
        | AnnouncementKind::Outcome(_)
        | AnnouncementKind::OutcomeInconclusive => None,
    }
}

/// True if `other` reports a status of the same subject. The subject is the appointment, or the outcome of the call, or the
/// lifecycle of one attempt.
fn is_previous_status(announcement: &Announcement, other: &Announcement) -> bool {
    match (announcement.kind.topic(), other.kind.topic()) {
        (Topic::Appointment, Topic::Appointment) | (Topic::Outcome, Topic::Outcome) => true,
        (Topic::Lifecycle | Topic::Other, Topic::Lifecycle) => announcement.attempt_index == other.attempt_index,
        (
            Topic::Appointment | Topic::Outcome | Topic::Lifecycle | Topic::Other,
            Topic::Appointment | Topic::Outcome | Topic::Lifecycle | Topic::Other,
        ) => false,
    }
}

/// Returns the sequence of the earlier announcement that this one corrects.
///
/// Only an announcement of the same attempt corrects an ending. After a retry, or in the next attempt, the appointment moves
/// on and nothing is corrected. A call that goes on corrects the announcement that it was canceled, or that there is no further attempt.
fn corrected_sequence(announcement: &Announcement, earlier: &[Announcement]) -> Option<usize> {
    let retrying = AnnouncementKind::Appointment(AppointmentStatus::Retrying);
    match announcement.kind {
        AnnouncementKind::Appointment(AppointmentStatus::Dialing | AppointmentStatus::Retrying)
        | AnnouncementKind::Exhausted(_)
        | AnnouncementKind::JobCanceled(_)
        | AnnouncementKind::AppointmentEnded(_)
        | AnnouncementKind::DriftRepaired { .. } => None,
        AnnouncementKind::RetryScheduled(_) => {
            let last = earlier.iter().rposition(|other| other.kind.is_job_result())?;
            let is_end =
                matches!(earlier.get(last)?.kind, AnnouncementKind::JobCanceled(_) | AnnouncementKind::Exhausted(_));
            is_end.then_some(last + 1)
        }
        AnnouncementKind::Corrected(_, sequence) => Some(sequence),
        AnnouncementKind::Lifecycle(_)
        | AnnouncementKind::Inconclusive
        | AnnouncementKind::Appointment(_)
        | AnnouncementKind::Outcome(_)
        | AnnouncementKind::OutcomeInconclusive => {
            let is_own = |other: &Announcement| {
                is_previous_status(announcement, other) && other.attempt_index == announcement.attempt_index
            };
            // After a retry was called off, or another attempt was none, the appointment returns to the status that the attempt had
            // already announced. That announcement made the correction, if one was due.
            let last = earlier.iter().rfind(|other| is_own(other) && other.kind != retrying);
            let repeats = last.is_some_and(|other| other.kind == announcement.kind);
            let ending = earlier.iter().rposition(|other| is_own(other) && other.kind.is_ending());
            ending.filter(|_| !repeats).map(|index| index + 1)
        }
    }
}

fn occurred_at(announcement: &Announcement, source: Option<&HistoryEntry>) -> Option<Timestamp> {
    match (source, announcement.source) {
        (Some(source), _) => match announcement.kind {
            AnnouncementKind::Inconclusive
            | AnnouncementKind::OutcomeInconclusive
            | AnnouncementKind::Appointment(AppointmentStatus::Inconclusive) => Some(source.received_at),
            AnnouncementKind::Lifecycle(_)
            | AnnouncementKind::Corrected(..)
            | AnnouncementKind::RetryScheduled(_)
            | AnnouncementKind::Exhausted(_)
            | AnnouncementKind::JobCanceled(_)
            | AnnouncementKind::DriftRepaired { .. }
            | AnnouncementKind::Outcome(_)
            | AnnouncementKind::AppointmentEnded(_)
            | AnnouncementKind::Appointment(_) => Some(source.happened_at()),
        },
        (None, AnnouncementSource::Transition(at)) => Some(at),
        (None, AnnouncementSource::Event(_)) => None,
    }
}

/// Event that Switchhook publishes when there are new dead letters or quarantined events, or events that are retried for long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperatorAttention {
    pub schema_version: u32,
    /// `operator.attention/{kind}/{after}-{until}-{count}`, with times in Unix milliseconds. A repetition of the event has the
    /// same id.
    pub id: String,
    /// `operator.attention`.
    #[serde(rename = "type")]
    pub event_type: &'static str,
    /// `dead_lettered`, `quarantined` or `retrying`.
    pub kind: &'static str,
    /// Number of events since the previous event of this kind.
    pub count: u64,
    /// True if there are more events than `count` says.
    pub more: bool,
    /// The first of these events.
    pub events: Vec<TroubledEvent>,
    /// Time of the last of these events. RFC 3339.
    pub occurred_at: String,
}

/// Event that an operator should look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TroubledEvent {
    pub event_id: String,
    /// `None` if the webhook could not be read, or is about no call.
    pub call_id: Option<String>,
    /// Key of the entity, if the webhook is about no call.
    pub entity: Option<String>,
    /// Short name of what went wrong.
    pub cause: Option<String>,
}

impl OperatorAttention {
    /// Returns the event about `count` troubled events, later than `after` and not later than `until`.
    #[must_use]
    pub fn new(
        kind: &'static str,
        (after, until): (Timestamp, Timestamp),
        count: u64,
        more: bool,
        events: Vec<TroubledEvent>,
    ) -> Self {
        Self {
            schema_version: DOMAIN_EVENT_SCHEMA_VERSION,
            id: format!("operator.attention/{kind}/{}-{}-{count}", after.as_millis(), until.as_millis()),
            event_type: "operator.attention",
            kind,
            count,
            more,
            events,
            occurred_at: until.to_string(),
        }
    }
}

/// Event that Switchhook publishes about an authentic webhook that it cannot use: the webhook is unreadable, or its call is full.
/// The event is published at once, and again under the same id whenever the webhook is delivered again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WebhookQuarantined {
    pub schema_version: u32,
    /// `{event_id}/quarantined`.
    pub id: String,
    /// `webhook.quarantined`.
    #[serde(rename = "type")]
    pub event_type: &'static str,
    pub provider: Origin,
    pub event_id: String,
    /// Id of the call that the webhook belongs to. `None` if the webhook names no readable call.
    pub call_id: Option<String>,
    pub reason: String,
    /// Trace id of the request that stored the webhook. `None` if it is not known.
    pub trace_id: Option<String>,
    /// Time of receipt. RFC 3339.
    pub occurred_at: String,
}

impl WebhookQuarantined {
    #[must_use]
    pub fn new(
        event_id: &EventId,
        origin: Origin,
        call_id: Option<&CallId>,
        reason: &str,
        trace_id: Option<&TraceId>,
        received_at: Timestamp,
    ) -> Self {
        Self {
            schema_version: DOMAIN_EVENT_SCHEMA_VERSION,
            id: format!("{event_id}/quarantined"),
            event_type: "webhook.quarantined",
            provider: origin,
            event_id: event_id.to_string(),
            call_id: call_id.map(CallId::to_string),
            reason: reason.to_owned(),
            trace_id: trace_id.map(|trace_id| trace_id.as_str().to_owned()),
            occurred_at: received_at.to_string(),
        }
    }
}
