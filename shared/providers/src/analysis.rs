//! What the person answered, as a provider's analysis of the conversation has it.

use serde::Deserialize;
use switchhook_domain::EventKind;

use crate::wire;

/// Data of the team's own making. These two names are the ones that we document.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct CustomData {
    #[serde(deserialize_with = "wire::text")]
    outcome: Option<String>,
    #[serde(deserialize_with = "wire::flag")]
    appointment_confirmed: Option<bool>,
}

#[derive(Clone, Copy)]
pub(crate) enum Answer {
    Confirmed,
    Declined,
}

impl CustomData {
    pub(crate) fn answer(&self) -> Option<Answer> {
        let outcome = self.outcome.as_deref().map(|outcome| outcome.trim().to_ascii_lowercase());
        match (outcome.as_deref(), self.appointment_confirmed) {
            (Some("confirmed"), _) => Some(Answer::Confirmed),
            (Some("declined"), _) => Some(Answer::Declined),
            (_, Some(true)) => Some(Answer::Confirmed),
            (_, Some(false)) => Some(Answer::Declined),
            (_, None) => None,
        }
    }
}

impl Answer {
    pub(crate) fn kind(self) -> EventKind {
        match self {
            Self::Confirmed => EventKind::UserConfirmed,
            Self::Declined => EventKind::UserDeclined,
        }
    }
}
