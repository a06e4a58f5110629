//! The person's decision about the appointment, from a provider's analysis of the conversation.

use serde::Deserialize;
use serde_json::Value;
use switchhook_domain::EventKind;

use crate::configured::{Place, equals};
use crate::lenient;

/// Fields that a team defines for the provider's analysis of a conversation. Our documentation asks for these two
/// names.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct CustomData {
    #[serde(deserialize_with = "lenient::text")]
    outcome: Option<String>,
    #[serde(deserialize_with = "lenient::flag")]
    appointment_confirmed: Option<bool>,
}

/// The person's decision, as a webhook or an answer to a lookup reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserDecision {
    Confirmed,
    Declined,
}

impl CustomData {
    pub(crate) fn decision(&self) -> Option<UserDecision> {
        let outcome = self.outcome.as_deref().map(|outcome| outcome.trim().to_ascii_lowercase());
        match (outcome.as_deref(), self.appointment_confirmed) {
            (Some("confirmed"), _) => Some(UserDecision::Confirmed),
            (Some("declined"), _) => Some(UserDecision::Declined),
            // Another word says that the person has not decided. A boolean beside it may be false for the same reason.
            (Some(_), _) | (None, None) => None,
            (None, Some(true)) => Some(UserDecision::Confirmed),
            (None, Some(false)) => Some(UserDecision::Declined),
        }
    }
}

/// Rule of the configuration: the values that say yes, and those that say no.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DecisionRule {
    /// Places of the value. The first one that the body has counts.
    pub(crate) places: Vec<Place>,
    pub(crate) confirmed: Vec<Value>,
    pub(crate) declined: Vec<Value>,
}

impl DecisionRule {
    /// The decision that a body holds. `None` if it has no such value. A body that is not JSON is quarantined when it is read.
    pub(crate) fn decision(&self, body: &[u8]) -> Option<UserDecision> {
        let text = std::str::from_utf8(body).ok()?;
        let value = self.places.iter().find_map(|place| place.value_in(text).filter(|value| !value.is_null()))?;
        let is_one_of = |expected: &[Value]| expected.iter().any(|expected| equals(expected, &value));
        match (is_one_of(&self.confirmed), is_one_of(&self.declined)) {
            (true, _) => Some(UserDecision::Confirmed),
            (false, true) => Some(UserDecision::Declined),
            (false, false) => None,
        }
    }
}

impl UserDecision {
    /// Name in the inbox.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Declined => "declined",
        }
    }

    /// The decision of this name. `None` if there is no such name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Confirmed, Self::Declined].into_iter().find(|decision| decision.as_str() == name)
    }

    pub(crate) fn event_kind(self) -> EventKind {
        match self {
            Self::Confirmed => EventKind::UserConfirmed,
            Self::Declined => EventKind::UserDeclined,
        }
    }
}
