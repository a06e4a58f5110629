//! Provider events, and the call events that are read from them.

mod kind;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::booking_report::BookingReport;
use crate::entity_report::EntityReport;
use crate::number::PhoneNumber;
use crate::provider::{Provider, UnknownProvider};
use crate::time::Timestamp;

pub use kind::EventKind;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            #[must_use]
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// `{provider}:{the provider's own event id}`. It is the key of the inbox: two events with the same id are duplicates.
///
/// The history of a call holds many ids and is copied often, so copies share the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(from = "String")]
pub struct EventId {
    text: Arc<str>,
    /// Read from the text once, because a fold asks for it for every entry of the history.
    origin: Option<Origin>,
}

impl EventId {
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self::from(text.into())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the sender of the event: the part of the id before the first colon. `None` if there is no such sender.
    #[must_use]
    pub const fn origin(&self) -> Option<Origin> {
        self.origin
    }

    /// Returns the provider that sent the event. `None` if Switchhook itself made the event, or nobody knows the sender.
    pub(crate) const fn provider(&self) -> Option<&Provider> {
        match &self.origin {
            Some(Origin::Provider(provider)) => Some(provider),
            Some(Origin::Switchhook) | None => None,
        }
    }
}

impl From<String> for EventId {
    fn from(text: String) -> Self {
        let origin = text.split_once(':').and_then(|(origin, _)| origin.parse().ok());
        Self { text: text.into(), origin }
    }
}

impl Serialize for EventId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EventId").field(&self.text).finish()
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

id! {
    /// Id of a call: Switchhook's own id, `appointment:{appointment id}` or `{provider}:{provider call id}`.
    CallId
}
id! {
    /// Key of an attempt within its call: the number under which Switchhook dialled it, else `{provider}:{provider call id}`,
    /// else the number that a generic sender gives it.
    AttemptKey
}

impl CallId {
    /// True if this is the key of an [entity](crate::Entity), which shares the table with the calls.
    #[must_use]
    pub fn is_entity(&self) -> bool {
        self.as_str().starts_with(ENTITY_PREFIX)
    }
}

/// Id of the request that brought an event or created a call: of API Gateway, or of a function's invocation. It leads
/// from a domain event to the log lines of everything that caused it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct TraceId(Arc<str>);

impl TraceId {
    /// Longest trace id. A row holds one for each of its first events.
    pub const BYTES_MAX: usize = 64;

    /// Makes a trace id of the printable ASCII characters of a text, as many as fit. `None` if there are none, or only a
    /// hyphen. In a row, a hyphen means that there is no trace id.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let kept: String = text.chars().filter(char::is_ascii_graphic).take(Self::BYTES_MAX).collect();
        (!kept.is_empty() && kept != "-").then(|| Self::from(kept))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for TraceId {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<TraceId> for String {
    fn from(id: TraceId) -> Self {
        id.0.as_ref().to_owned()
    }
}

/// Prefix of the keys of the do-not-call list. The list shares the tables with calls and events, so none of their ids starts with this prefix.
pub const DO_NOT_CALL_PREFIX: &str = "do-not-call:";

/// Prefix of the keys of the rows that hold a provider's health, and of the list of further accounts. They share a table with the calls too.
pub const PROVIDER_HEALTH_PREFIX: &str = "provider-health:";

/// Prefix of the keys of [entities](crate::Entity), which share the table with the calls too.
pub const ENTITY_PREFIX: &str = "entity:";

/// Direction of a call, as reported by the provider. Retell, ElevenLabs and the generic provider report it under these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    Inbound,
    Outbound,
}

/// One fact about a call, read from a provider event by that provider's `normalize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallEvent {
    pub kind: EventKind,
    /// True if the provider did not report this fact, but reported another one that cannot be true without it. Example:
    /// `answered` implies `ringing`. A provider event carries at most one call event that is not implied.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub implied: bool,
    /// Time by the provider's clock. `None` if the provider names no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurred_at: Option<Timestamp>,
    /// The provider's own counter. `None` if the provider has no counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u32>,
    /// True if an unanswered call failed for a reason that another attempt would meet again. Examples are an invalid destination,
    /// and a number that the account may not call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub permanent: bool,
    /// Reason why the provider accepted the request and never dialled the number, so that nobody's phone rang. `None` if the provider
    /// does not say that it never dialled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub never_dialled: Option<NeverDialled>,
}

impl CallEvent {
    /// Makes a call event with a kind and a time, and nothing else. It is not implied.
    #[must_use]
    pub const fn new(kind: EventKind, occurred_at: Option<Timestamp>) -> Self {
        Self { kind, implied: false, occurred_at, sequence: None, permanent: false, never_dialled: None }
    }
}

/// Reason why a provider accepted a call and then dialled nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NeverDialled {
    /// The account has a problem that every call meets: its credit, its keys, its permissions, its settings.
    Account,
    /// The account has as many calls as it may have.
    Capacity,
    /// The provider does not say whether the account is the reason.
    Unclear,
}

impl NeverDialled {
    pub const ALL: [Self; 3] = [Self::Account, Self::Capacity, Self::Unclear];

    /// Returns the name used in rows and texts.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::Capacity => "capacity",
            Self::Unclear => "unclear",
        }
    }
}

/// Sender of a provider event. Stored and sent as one word, for example `retell` or `switchhook`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub enum Origin {
    Provider(Provider),
    /// Switchhook itself, for example the reconciler after it asked a provider.
    Switchhook,
}

impl Origin {
    const SWITCHHOOK: &str = "switchhook";

    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Provider(provider) => provider.as_str(),
            Self::Switchhook => Self::SWITCHHOOK,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Origin {
    type Err = UnknownProvider;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == Self::SWITCHHOOK { Ok(Self::Switchhook) } else { text.parse().map(Self::Provider) }
    }
}

impl TryFrom<String> for Origin {
    type Error = UnknownProvider;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Provider event after `normalize`: the call that it belongs to, and the facts that it reports. A queue message carries one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderEvent {
    pub event_id: EventId,
    pub origin: Origin,
    /// The provider's own name for the type of the event, for example `call_ended`.
    pub event_type: String,
    pub call_id: CallId,
    /// Key of the attempt. `None` if the event names no attempt: it then belongs to every attempt that had started by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_call_id: Option<String>,
    /// Provider that Switchhook asked to place the attempt, in an event that Switchhook itself made. If the row lost its record of
    /// the dial, it learns the provider from here. `None` in an event of a provider, because `origin` names that provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialled_provider: Option<Provider>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub appointment_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PhoneNumber>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<PhoneNumber>,
    /// Time by our clock at which the event was first stored.
    pub received_at: Timestamp,
    /// Empty if the event is about an entity.
    pub call_events: Vec<CallEvent>,
    /// The report about an entity, if the event is about no call. `call_id` is then the key of the entity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity: Option<EntityReport>,
    /// The report about a booking, if the entity is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booking: Option<Box<BookingReport>>,
    /// True if the person asked not to be called again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub block_number: bool,
    /// Time at which the person was forgotten, if the stored event was erased for that reason. `None` in every other event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgotten_at: Option<Timestamp>,
    /// Trace id of the request that stored the event first. It is not serialized with the event, because a second delivery has
    /// another trace id. The queue message and the inbox hold it in a field of their own.
    #[serde(skip)]
    pub trace_id: Option<TraceId>,
}

impl ProviderEvent {
    /// Makes an event with the fields that every event has. All other fields are empty, so it reports no fact yet.
    #[must_use]
    pub fn new(
        event_id: EventId,
        origin: Origin,
        event_type: impl Into<String>,
        call_id: CallId,
        received_at: Timestamp,
    ) -> Self {
        Self {
            event_id,
            origin,
            event_type: event_type.into(),
            call_id,
            attempt: None,
            provider_call_id: None,
            dialled_provider: None,
            appointment_id: None,
            direction: None,
            from: None,
            to: None,
            received_at,
            call_events: Vec::new(),
            entity: None,
            booking: None,
            block_number: false,
            forgotten_at: None,
            trace_id: None,
        }
    }

    /// Time by the provider's clock of what the event reports. `None` if the provider names no time.
    #[must_use]
    pub fn occurred_at(&self) -> Option<Timestamp> {
        match &self.entity {
            Some(entity) => entity.occurred_at,
            None => self.call_events.iter().find(|event| !event.implied).and_then(|event| event.occurred_at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_id_is_short_and_has_no_blank() {
        let made = |text: &str| TraceId::new(text).map(|id| id.as_str().to_owned());
        assert_eq!(made("Yd2pkjXVoAMEJ5g=").as_deref(), Some("Yd2pkjXVoAMEJ5g="));
        assert_eq!(made(" a b\u{e9}\n").as_deref(), Some("ab"));
        assert_eq!(made(&"a".repeat(100)).map(|id| id.len()), Some(TraceId::BYTES_MAX));
        assert_eq!((made(""), made(" "), made("-")), (None, None, None));
    }
}
