//! From a verified webhook to what it says.

use switchhook_domain::{CallId, EventId, Provider, ProviderEvent, Timestamp};
use thiserror::Error;

use crate::webhook::VerifiedWebhook;
use crate::{generic, ids, retell, telnyx, twilio, vapi};

/// What an authentic webhook says. Every reading has an event id, so every authentic webhook can be stored once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It says something about a call: at least one call event.
    Event(ProviderEvent),
    /// It is of a type that we do not fold, or says nothing that changes a call.
    Recorded { event_id: EventId, event_type: String, call_id: Option<CallId> },
    /// It cannot be read, and no retry will mend that.
    Quarantined { event_id: EventId, error: ReadError },
}

impl Reading {
    #[must_use]
    pub fn event_id(&self) -> &EventId {
        match self {
            Self::Event(event) => &event.event_id,
            Self::Recorded { event_id, .. } | Self::Quarantined { event_id, .. } => event_id,
        }
    }

    /// The call, as far as the webhook names one.
    #[must_use]
    pub fn call_id(&self) -> Option<&CallId> {
        match self {
            Self::Event(event) => Some(&event.call_id),
            Self::Recorded { call_id, .. } => call_id.as_ref(),
            Self::Quarantined { .. } => None,
        }
    }
}

/// Why an authentic webhook cannot be read. Never contains any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    #[error("the body is not UTF-8")]
    InvalidUtf8,
    #[error("the body is not JSON at line {line}, column {column}")]
    InvalidJson { line: usize, column: usize },
    #[error("the body is not a JSON object")]
    NotAnObject,
    /// Which of two values counts would be anybody's guess.
    #[error("the body names a field twice at line {line}, column {column}")]
    RepeatedField { line: usize, column: usize },
    #[error("the event names no type")]
    MissingEventType,
    #[error("the event names no call")]
    MissingCallId,
}

/// Reads what a webhook says. The same webhook gives the same event id and the same call events whenever it is read.
///
/// `received_at` is ours, of when the event was first stored; it decides nothing.
#[must_use]
pub fn read(webhook: &VerifiedWebhook, received_at: Timestamp) -> Reading {
    let reading = match webhook.provider() {
        Provider::Retell => retell::read(webhook, received_at),
        Provider::Twilio => twilio::read(webhook, received_at),
        Provider::Vapi => vapi::read(webhook, received_at),
        Provider::Telnyx => telnyx::read(webhook, received_at),
        Provider::Generic => generic::read(webhook, received_at),
    };
    reading.unwrap_or_else(|error| Reading::Quarantined {
        event_id: ids::event_id_of_body(webhook.provider(), webhook.body()),
        error,
    })
}
