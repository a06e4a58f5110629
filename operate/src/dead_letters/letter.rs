//! A dead letter.

use serde::Serialize;
use switchhook_domain::{CallId, EventId, Origin, ProviderEvent, Timestamp};

/// Content of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LetterKind {
    /// An event that the consumer could not fold.
    Event,
    /// A notice that ingress could not read a webhook.
    QuarantineNotice,
    /// A message that Switchhook did not send, or that a newer version sent.
    Unreadable,
}

/// One dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeadLetter {
    pub kind: LetterKind,
    /// Id of the event, or else of the message. Other commands take it.
    pub key: String,
    /// Id of the message. `None` if only the index names the dead letter.
    pub message_id: Option<String>,
    pub event_id: Option<EventId>,
    pub call_id: Option<CallId>,
    pub origin: Option<Origin>,
    pub event_type: Option<String>,
    /// Number of times that the consumer tried to fold the event. `None` if there is no note on it.
    pub tries: Option<u32>,
    pub error: Option<String>,
    #[serde(with = "crate::time_text")]
    pub dead_lettered_at: Timestamp,
    /// True if the index of items that need attention names it. Notices of unreadable webhooks are listed as quarantined there.
    pub in_index: bool,
    /// Cause in the index, for example `read_call`. `None` if the index does not name the dead letter.
    #[serde(skip)]
    pub index_cause: Option<String>,
    /// Event of the message, for a redrive of an event that the inbox no longer holds.
    #[serde(skip)]
    pub event: Option<Box<ProviderEvent>>,
}
