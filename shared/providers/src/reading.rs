//! Result of reading a verified webhook.

use switchhook_domain::{CallId, EventId, Origin, ProviderEvent};
use thiserror::Error;

use crate::ids;

/// Label of every event type that is not folded.
const OTHER_EVENT_TYPE: &str = "other";

/// Content of an authentic webhook. Every reading has an event id, so that every authentic webhook can be stored
/// exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "most readings are events, and each is made once")]
pub enum Reading {
    /// An event about a call, with at least one call event.
    Event(ProviderEvent),
    /// A webhook that changes no call: its type is unknown to us, or it contains no call event. `call_id` may be the key of the entity that
    /// it is about.
    Recorded { event_id: EventId, event_type: String, call_id: Option<CallId> },
    /// A webhook that cannot be read. A retry would not help.
    Quarantined { event_id: EventId, error: ReadError },
}

impl Reading {
    /// Reading of a webhook that changes no call. A long event type is cut.
    pub(crate) fn recorded(event_id: EventId, event_type: &str, call_id: Option<CallId>) -> Self {
        Self::Recorded { event_id, event_type: ids::event_type(event_type), call_id }
    }

    #[must_use]
    pub fn event_id(&self) -> &EventId {
        match self {
            Self::Event(event) => &event.event_id,
            Self::Recorded { event_id, .. } | Self::Quarantined { event_id, .. } => event_id,
        }
    }

    /// Type of the event as a metric may count it. The list of types that are folded is bounded; every other type is
    /// `other`. The types of a configured provider are unknown, so the kind of its call event stands in for the type.
    #[must_use]
    pub fn event_type_label(&self) -> &str {
        match self {
            Self::Event(ProviderEvent { origin: Origin::Provider(provider), call_events, .. })
                if provider.is_configured() =>
            {
                let reported = call_events.iter().find(|event| !event.implied);
                reported.map_or(OTHER_EVENT_TYPE, |event| event.kind.as_str())
            }
            Self::Event(event) => &event.event_type,
            Self::Recorded { .. } | Self::Quarantined { .. } => OTHER_EVENT_TYPE,
        }
    }

    /// Call or entity that the webhook names. `None` if it names none or cannot be read.
    #[must_use]
    pub fn call_id(&self) -> Option<&CallId> {
        match self {
            Self::Event(event) => Some(&event.call_id),
            Self::Recorded { call_id, .. } => call_id.as_ref(),
            Self::Quarantined { .. } => None,
        }
    }
}

/// Facts about a webhook for the log, the metrics and the drift check. The stored event is the same without them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadNotes {
    /// True if the webhook names a call id that its sender may not use. That id was ignored. Examples: an id that starts with another
    /// provider's name, and any id in a session of a web page.
    pub reserved_call_id: bool,
    /// Provider's name of a field whose value is unknown to Switchhook, for example `disconnection_reason`. The webhook was read
    /// by its other fields, or recorded if its type is unknown.
    pub unknown_value: Option<&'static str>,
    /// True if this is a provider's record of a call that does not have the detail by which the webhook tells one ending from another. So a
    /// different ending in the call is no disagreement.
    pub lacks_detail: bool,
}

/// Reason why an authentic webhook cannot be read. Contains no part of the webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    #[error("the body is not UTF-8")]
    InvalidUtf8,
    #[error("the body is not JSON at line {line}, column {column}")]
    InvalidJson { line: usize, column: usize },
    #[error("the body is not a JSON object")]
    NotAnObject,
    /// The body is rejected, because it does not tell which of the two values is right.
    #[error("the body names a field twice at line {line}, column {column}")]
    RepeatedField { line: usize, column: usize },
    #[error("the event names no type")]
    MissingEventType,
    #[error("the event names no call")]
    MissingCallId,
    #[error("the event names no booking")]
    MissingBookingId,
    /// Its provider is a configured one, and the mapping of that provider is not at hand.
    #[error("the mapping of its provider is unknown")]
    UnknownMapping,
}

impl ReadError {
    /// Every reason once. Places in a body are zero.
    const ALL: [Self; 8] = [
        Self::InvalidUtf8,
        Self::InvalidJson { line: 0, column: 0 },
        Self::NotAnObject,
        Self::RepeatedField { line: 0, column: 0 },
        Self::MissingEventType,
        Self::MissingCallId,
        Self::MissingBookingId,
        Self::UnknownMapping,
    ];

    /// Returns the reason with this [cause](Self::cause) as a text, without the place in the body. `None` if there is no such reason.
    #[must_use]
    pub fn text_of(cause: &str) -> Option<String> {
        let error = Self::ALL.into_iter().find(|error| error.cause() == cause)?.to_string();
        Some(error.split_once(" at line ").map_or(error.clone(), |(text, _)| text.to_owned()))
    }

    /// Short name of the reason, for a log and an index.
    #[must_use]
    pub const fn cause(self) -> &'static str {
        match self {
            Self::InvalidUtf8 => "invalid_utf8",
            Self::InvalidJson { .. } => "invalid_json",
            Self::NotAnObject => "not_an_object",
            Self::RepeatedField { .. } => "repeated_field",
            Self::MissingEventType => "missing_event_type",
            Self::MissingCallId => "missing_call_id",
            Self::MissingBookingId => "missing_booking_id",
            Self::UnknownMapping => "unknown_mapping",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_is_told_without_a_place() {
        assert_eq!(ReadError::text_of("invalid_json").as_deref(), Some("the body is not JSON"));
        assert_eq!(ReadError::text_of("missing_call_id").as_deref(), Some("the event names no call"));
        assert_eq!(ReadError::text_of("call_full"), None);
    }
}
