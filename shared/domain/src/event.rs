//! Provider events and the call events read from them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::time::Timestamp;

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

id! {
    /// `{provider}:{provider's own event id}`: the key of the inbox, what decides about duplicates.
    EventId
}
id! {
    /// The call that an event belongs to: our own id, `appointment:{appointment id}` or `{provider}:{provider call id}`.
    CallId
}
id! {
    /// What tells the attempts of a call apart: the number that we dialled under, else the provider's own call id.
    AttemptKey
}

/// A phone number or SIP address. `Debug` hides it: a number never reaches a log or an error.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PhoneNumber(String);

impl PhoneNumber {
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PhoneNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PhoneNumber(hidden)")
    }
}

/// The providers whose webhooks Switchhook reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    Retell,
    Twilio,
    Vapi,
    Telnyx,
    Generic,
}

impl Provider {
    pub const ALL: [Self; 5] = [Self::Retell, Self::Twilio, Self::Vapi, Self::Telnyx, Self::Generic];

    /// The name in the URL, in the secret and in every id.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retell => "retell",
            Self::Twilio => "twilio",
            Self::Vapi => "vapi",
            Self::Telnyx => "telnyx",
            Self::Generic => "generic",
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// No provider of that name is known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown provider {0:?}: known are retell, twilio, vapi, telnyx, generic")]
pub struct UnknownProvider(pub String);

impl FromStr for Provider {
    type Err = UnknownProvider;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|provider| provider.as_str() == text).ok_or_else(|| UnknownProvider(text.to_owned()))
    }
}

/// Who called whom, as the provider says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    Inbound,
    Outbound,
}

/// What one call event says. The order is the rank that breaks a tie of time and sequence: what can only come earlier in a call ranks lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    Initiated,
    Ringing,
    /// The call was answered.
    InProgress,
    VoicemailDetected,
    /// The person said no to the appointment.
    UserDeclined,
    /// The person said yes to the appointment.
    UserConfirmed,
    NoAnswer,
    Canceled,
    Busy,
    Failed,
    Completed,
    /// Another system, which orchestrates this call, will try again. Of the call, not of an attempt.
    RetryScheduled,
    /// The provider was asked and says that the call lives: grants patience anew. Of several, the call keeps the last.
    Alive,
    /// The lease of a claim ended without a dial. Of the call; of several, the call keeps the last. Only the reconciler says so.
    ClaimExpired,
    /// What the provider was asked disagrees with what the call's row says. Of the call. Only the reconciler says so.
    DriftFound,
    /// Nothing was heard of the attempt for the whole of its patience. Only the reconciler says so.
    DeadlinePassed,
}

impl EventKind {
    pub const ALL: [Self; 16] = [
        Self::Initiated,
        Self::Ringing,
        Self::InProgress,
        Self::VoicemailDetected,
        Self::UserDeclined,
        Self::UserConfirmed,
        Self::NoAnswer,
        Self::Canceled,
        Self::Busy,
        Self::Failed,
        Self::Completed,
        Self::RetryScheduled,
        Self::Alive,
        Self::ClaimExpired,
        Self::DriftFound,
        Self::DeadlinePassed,
    ];

    /// The name in rows, messages, timelines and derived ids.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initiated => "initiated",
            Self::Ringing => "ringing",
            Self::InProgress => "in_progress",
            Self::VoicemailDetected => "voicemail_detected",
            Self::UserDeclined => "user_declined",
            Self::UserConfirmed => "user_confirmed",
            Self::NoAnswer => "no_answer",
            Self::Canceled => "canceled",
            Self::Busy => "busy",
            Self::Failed => "failed",
            Self::Completed => "completed",
            Self::RetryScheduled => "retry_scheduled",
            Self::Alive => "alive",
            Self::ClaimExpired => "claim_expired",
            Self::DriftFound => "drift_found",
            Self::DeadlinePassed => "deadline_passed",
        }
    }

    /// Beginnings without a time of the provider's sort before everything, all else after everything.
    #[must_use]
    pub const fn is_beginning(self) -> bool {
        match self {
            Self::Initiated | Self::Ringing | Self::InProgress => true,
            Self::VoicemailDetected
            | Self::UserDeclined
            | Self::UserConfirmed
            | Self::NoAnswer
            | Self::Canceled
            | Self::Busy
            | Self::Failed
            | Self::Completed
            | Self::RetryScheduled
            | Self::Alive
            | Self::ClaimExpired
            | Self::DriftFound
            | Self::DeadlinePassed => false,
        }
    }

    /// True if it is of the call, whatever attempt it names.
    pub(crate) const fn is_call_level(self) -> bool {
        match self {
            Self::RetryScheduled | Self::ClaimExpired | Self::DriftFound => true,
            Self::Initiated
            | Self::Ringing
            | Self::InProgress
            | Self::VoicemailDetected
            | Self::UserDeclined
            | Self::UserConfirmed
            | Self::NoAnswer
            | Self::Canceled
            | Self::Busy
            | Self::Failed
            | Self::Completed
            | Self::Alive
            | Self::DeadlinePassed => false,
        }
    }

    /// True if it tells something about an attempt: what Switchhook only finds out by its own clock does not.
    pub(crate) const fn is_evidence(self) -> bool {
        match self {
            Self::Alive | Self::ClaimExpired | Self::DriftFound | Self::DeadlinePassed => false,
            Self::Initiated
            | Self::Ringing
            | Self::InProgress
            | Self::VoicemailDetected
            | Self::UserDeclined
            | Self::UserConfirmed
            | Self::NoAnswer
            | Self::Canceled
            | Self::Busy
            | Self::Failed
            | Self::Completed
            | Self::RetryScheduled => true,
        }
    }

    /// True if an attempt has its whole patience again from then on.
    pub(crate) fn restarts_timeout(self) -> bool {
        self == Self::Alive || self.is_evidence()
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One canonical fact about a call, read from a provider event by that provider's `normalize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallEvent {
    pub kind: EventKind,
    /// True if the provider did not say this in so many words, but what it said cannot be true without it.
    /// A provider event carries at most one call event that is not implied.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub implied: bool,
    /// By the provider's clock; none where the provider names no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurred_at: Option<Timestamp>,
    /// The provider's own counter, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u32>,
    /// Of a `failed` that nobody answered: trying again cannot help (an invalid destination, a number that may not be called).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub permanent: bool,
}

/// Sender of a provider event. Stored and sent as one word, for example `retell` or `switchhook`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum Origin {
    Provider(Provider),
    /// Switchhook itself, for example the reconciler after it asked a provider.
    Switchhook,
}

impl Origin {
    const SWITCHHOOK: &str = "switchhook";

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Provider(provider) => provider.as_str(),
            Self::Switchhook => Self::SWITCHHOOK,
        }
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

impl From<Origin> for &'static str {
    fn from(origin: Origin) -> Self {
        origin.as_str()
    }
}

/// A provider event after `normalize`: whose it is and what it says. This is what a queue message carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderEvent {
    pub event_id: EventId,
    pub origin: Origin,
    /// The provider's own name for the type of event, for example `call_ended`.
    pub event_type: String,
    pub call_id: CallId,
    /// None: the event names no attempt and belongs to every attempt that had started by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_call_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub appointment_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PhoneNumber>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<PhoneNumber>,
    /// By our clock, when the event was first stored.
    pub received_at: Timestamp,
    pub call_events: Vec<CallEvent>,
}
