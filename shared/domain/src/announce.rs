//! What a call announces, and the domain events made of it.
//!
//! The states that the fold runs through and that are higher than anything announced for the attempt are announced, in
//! order. **The log is the only record of it**: a domain event is computed from the log and from what a row never
//! changes, so that publishing it again, a second later or a year later, gives the same content under the same id.

use serde::Serialize;

use crate::call::{AppointmentStatus, Attempt, Call};
use crate::lifecycle::{INCONCLUSIVE, Lifecycle, Outcome};
use crate::machine::State;

/// Of the content of domain events. A subscriber that does not know it must not guess.
pub const DOMAIN_EVENT_SCHEMA: u32 = 1;

/// What is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    Lifecycle(Lifecycle),
    /// The attempt went silent without an ending.
    Inconclusive,
    Appointment(AppointmentStatus),
}

impl News {
    /// True if nothing was expected to follow: what does follow in the same attempt is a correction.
    const fn is_ending(self) -> bool {
        match self {
            Self::Lifecycle(state) => state.is_ending(),
            Self::Inconclusive => true,
            Self::Appointment(status) => match status {
                AppointmentStatus::Confirmed
                | AppointmentStatus::Declined
                | AppointmentStatus::NoAnswer
                | AppointmentStatus::Voicemail
                | AppointmentStatus::Inconclusive => true,
                AppointmentStatus::Pending
                | AppointmentStatus::Dialing
                | AppointmentStatus::Connected
                | AppointmentStatus::Retrying => false,
            },
        }
    }

    const fn is_of_appointment(self) -> bool {
        match self {
            Self::Lifecycle(_) | Self::Inconclusive => false,
            Self::Appointment(_) => true,
        }
    }

    const fn lifecycle(self) -> Option<Lifecycle> {
        match self {
            Self::Lifecycle(state) => Some(state),
            Self::Inconclusive | Self::Appointment(_) => None,
        }
    }

    fn outcome(self) -> Option<Outcome> {
        let of = |outcome: &&Outcome| self == Self::Appointment(AppointmentStatus::of(**outcome));
        Outcome::ALL.iter().find(of).copied()
    }

    const fn status(self) -> &'static str {
        match self {
            Self::Lifecycle(state) => state.shown(),
            Self::Inconclusive => INCONCLUSIVE,
            Self::Appointment(status) => match status {
                AppointmentStatus::Pending => "pending",
                AppointmentStatus::Dialing => "dialing",
                AppointmentStatus::Connected => "connected",
                AppointmentStatus::Confirmed => "confirmed",
                AppointmentStatus::Declined => "declined",
                AppointmentStatus::NoAnswer => "no_answer",
                AppointmentStatus::Voicemail => "voicemail",
                AppointmentStatus::Retrying => "retrying",
                AppointmentStatus::Inconclusive => INCONCLUSIVE,
            },
        }
    }
}

/// One line of a call's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    pub news: News,
    /// Index into [`Call::slots`].
    pub slot: usize,
    /// The attempt's number when it was announced.
    pub number: u8,
    /// Index into [`Call::history`]: the event that brought it about.
    pub source: usize,
    /// Whether the provider's call id was known then.
    pub knows_provider_call: bool,
    /// Whether the appointment was known then.
    pub knows_appointment: bool,
}

/// What Switchhook publishes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DomainEvent {
    pub schema_version: u32,
    /// `{call_id}/{sequence}`: by this a subscriber tells a repetition.
    pub id: String,
    /// `call.{status}` or `appointment.{status}`.
    #[serde(rename = "type")]
    pub event_type: String,
    pub call_id: String,
    /// Counts the call's domain events from 1.
    pub sequence: usize,
    pub provider: &'static str,
    pub provider_call_id: Option<String>,
    pub appointment_id: Option<String>,
    /// The attempt's number.
    pub attempt: u8,
    /// The status announced before: of the attempt for `call.*`, of the call for `appointment.*`.
    pub previous: Option<&'static str>,
    pub status: &'static str,
    /// The provider event that brought it about.
    pub source_event_id: String,
    /// By the provider's clock where it names a time, else when it was received. RFC 3339.
    pub occurred_at: String,
    /// The id of the ending announced before, which this one corrects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrects: Option<String>,
}

impl Call {
    /// The domain events from this sequence on, in order.
    #[must_use]
    pub fn domain_events_from(&self, sequence: usize) -> Vec<DomainEvent> {
        (sequence.max(1)..=self.log.len()).filter_map(|n| self.domain_event(n)).collect()
    }

    fn domain_event(&self, sequence: usize) -> Option<DomainEvent> {
        let (said, before) = self.log.get(..sequence)?.split_last()?;
        let source = self.history.get(said.source)?;
        let slot = self.slots.get(said.slot)?;
        let of_appointment = said.news.is_of_appointment();
        let same_subject = |other: &&Announcement| {
            other.news.is_of_appointment() == of_appointment && (of_appointment || other.slot == said.slot)
        };
        let previous = before.iter().rev().find(same_subject).map(|other| other.news.status());
        // A retry, or the next attempt, moves the appointment on: only the same attempt can correct itself.
        let corrected = match said.news {
            News::Appointment(AppointmentStatus::Retrying) => None,
            News::Lifecycle(_) | News::Inconclusive | News::Appointment(_) => before
                .iter()
                .rposition(|other| same_subject(&other) && other.slot == said.slot && other.news.is_ending())
                .map(|at| at + 1),
        };
        Some(DomainEvent {
            schema_version: DOMAIN_EVENT_SCHEMA,
            id: format!("{}/{sequence}", self.call_id),
            event_type: format!("{}.{}", if of_appointment { "appointment" } else { "call" }, said.news.status()),
            call_id: self.call_id.to_string(),
            sequence,
            provider: self.provider.as_str(),
            provider_call_id: slot.provider_call_id.clone().filter(|_| said.knows_provider_call),
            appointment_id: self.appointment_id.clone().filter(|_| said.knows_appointment),
            attempt: said.number,
            previous,
            status: said.news.status(),
            source_event_id: source.source.to_string(),
            occurred_at: match said.news {
                News::Inconclusive | News::Appointment(AppointmentStatus::Inconclusive) => {
                    source.received_at.to_string()
                }
                News::Lifecycle(_) | News::Appointment(_) => source.happened_at().to_string(),
            },
            corrects: corrected.map(|sequence| format!("{}/{sequence}", self.call_id)),
        })
    }
}

/// What is to be announced of a call whose history was just folded into `attempts`.
pub(crate) fn news(call: &Call, attempts: &[Attempt]) -> Vec<Announcement> {
    let mut news: Vec<Announcement> = attempts.iter().flat_map(|attempt| lifecycle_news(call, attempt)).collect();
    news.extend(appointment_news(call, attempts));
    news
}

fn lifecycle_news(call: &Call, attempt: &Attempt) -> Vec<Announcement> {
    let log: Vec<News> = log_of(call, attempt).filter(|news| !news.is_of_appointment()).collect();
    let highest = log.iter().filter_map(|news| news.lifecycle()).max();
    let begun = (Lifecycle::Initiated, attempt.first);
    let run = std::iter::once(begun).chain(attempt.lifecycle_run.iter().copied());
    let mut news: Vec<Announcement> = run
        .filter(|(state, _)| Some(*state) > highest)
        .map(|(state, source)| said(call, attempt, News::Lifecycle(state), source))
        .collect();
    if let Some(deadline) = attempt.deadline
        && attempt.is_inconclusive()
        && (!news.is_empty() || log.last() != Some(&News::Inconclusive))
    {
        news.push(said(call, attempt, News::Inconclusive, deadline));
    }
    news
}

/// The appointment runs through what the outcome of one attempt runs through: of the one that decided it, else the latest.
fn appointment_news(call: &Call, attempts: &[Attempt]) -> Vec<Announcement> {
    let Some(latest) = attempts.last() else {
        return Vec::new();
    };
    let subject = attempts.iter().rfind(|attempt| attempt.decided().is_some()).unwrap_or(latest);
    let highest = log_of(call, subject).filter_map(News::outcome).max();
    let begun = (Outcome::Dialing, subject.first);
    let run = std::iter::once(begun).chain(subject.outcome_run.iter().copied());
    // What another attempt decided is not taken back by one that only rings.
    let decided = call.log.iter().any(|said| said.slot != subject.slot && said.news.outcome().is_some_and(decides));
    let mut news: Vec<Announcement> = run
        .filter(|(outcome, _)| Some(*outcome) > highest && (!decided || decides(*outcome)))
        .map(|(outcome, source)| (News::Appointment(AppointmentStatus::of(outcome)), source))
        .map(|(news, source)| said(call, subject, news, source))
        .collect();
    let present = News::Appointment(call.appointment_given(attempts));
    let source = match present {
        News::Appointment(AppointmentStatus::Retrying) => call.retry_scheduled(attempts),
        News::Appointment(AppointmentStatus::Inconclusive) => latest.deadline,
        News::Lifecycle(_) | News::Inconclusive | News::Appointment(_) => None,
    };
    let mut log = call.log.iter().map(|said| said.news).filter(|news| news.is_of_appointment());
    if let Some(source) = source
        && (!news.is_empty() || log.next_back() != Some(present))
    {
        news.push(said(call, latest, present, source));
    }
    news
}

const fn decides(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Confirmed | Outcome::Declined => true,
        Outcome::Dialing | Outcome::NoAnswer | Outcome::Connected | Outcome::Voicemail => false,
    }
}

fn log_of(call: &Call, attempt: &Attempt) -> impl Iterator<Item = News> {
    call.log.iter().filter(|said| said.slot == attempt.slot).map(|said| said.news)
}

fn said(call: &Call, attempt: &Attempt, news: News, source: usize) -> Announcement {
    let slot = call.slots.get(attempt.slot);
    Announcement {
        news,
        slot: attempt.slot,
        number: attempt.number,
        source,
        knows_provider_call: slot.is_some_and(|slot| slot.provider_call_id.is_some()),
        knows_appointment: call.appointment_id.is_some(),
    }
}
