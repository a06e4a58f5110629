//! The person's decision about the appointment, from a provider's analysis of the conversation.

use serde::Deserialize;
use switchhook_domain::EventKind;

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

#[derive(Clone, Copy)]
pub(crate) enum UserDecision {
    Confirmed,
    Declined,
}

impl CustomData {
    pub(crate) fn decision(&self) -> Option<UserDecision> {
        let outcome = self.outcome.as_deref().map(|outcome| outcome.trim().to_ascii_lowercase());
        match (outcome.as_deref(), self.appointment_confirmed) {
            (Some("confirmed"), _) => Some(UserDecision::Confirmed),
            (Some("declined"), _) => Some(UserDecision::Declined),
            (_, Some(true)) => Some(UserDecision::Confirmed),
            (_, Some(false)) => Some(UserDecision::Declined),
            (_, None) => None,
        }
    }
}

impl UserDecision {
    pub(crate) fn event_kind(self) -> EventKind {
        match self {
            Self::Confirmed => EventKind::UserConfirmed,
            Self::Declined => EventKind::UserDeclined,
        }
    }
}
