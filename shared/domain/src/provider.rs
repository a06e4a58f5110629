//! The providers whose webhooks Switchhook reads.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Provider whose webhooks Switchhook reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    Retell,
    Twilio,
    Vapi,
    Telnyx,
    ElevenLabs,
    /// Any other sender that can sign its webhooks. It has no API, so Switchhook cannot place calls with it.
    Generic,
}

impl Provider {
    pub const ALL: [Self; 6] = [Self::Retell, Self::Twilio, Self::Vapi, Self::Telnyx, Self::ElevenLabs, Self::Generic];

    /// Returns the name used in the URL, in the secret and in ids.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retell => "retell",
            Self::Twilio => "twilio",
            Self::Vapi => "vapi",
            Self::Telnyx => "telnyx",
            Self::ElevenLabs => "elevenlabs",
            Self::Generic => "generic",
        }
    }

    /// True if the provider reports what the person said. Such an outcome can follow after the end of the call. Every other
    /// provider reports only whether the call was answered.
    #[must_use]
    pub const fn reports_outcome(self) -> bool {
        match self {
            Self::Retell | Self::Vapi | Self::ElevenLabs | Self::Generic => true,
            Self::Twilio | Self::Telnyx => false,
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Error for an unknown provider name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown provider {0:?}: known are retell, twilio, vapi, telnyx, elevenlabs, generic")]
pub struct UnknownProvider(pub String);

impl FromStr for Provider {
    type Err = UnknownProvider;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|provider| provider.as_str() == text).ok_or_else(|| UnknownProvider(text.to_owned()))
    }
}

/// Set of providers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProviderSet(u32);

impl ProviderSet {
    /// Every provider.
    pub const ALL: Self = Self(u32::MAX);

    /// Returns the providers that report an outcome.
    #[must_use]
    pub fn reporting_outcome() -> Self {
        Provider::ALL.into_iter().filter(|provider| provider.reports_outcome()).collect()
    }

    #[must_use]
    pub const fn contains(self, provider: Provider) -> bool {
        self.0 & (1 << provider as u32) != 0
    }
}

impl FromIterator<Provider> for ProviderSet {
    fn from_iter<T: IntoIterator<Item = Provider>>(providers: T) -> Self {
        Self(providers.into_iter().fold(0, |set, provider| set | 1 << provider as u32))
    }
}
