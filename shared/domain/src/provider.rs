//! Providers: those that Switchhook has code for, and those that a stack's configuration describes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// Provider whose webhooks Switchhook reads. Stored and sent as its name.
///
/// The generic provider is the last one, because every other provider that reports an attempt is preferred to it. See
/// [`Call::attempt_provider`](crate::Call::attempt_provider).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    Retell,
    Twilio,
    Vapi,
    Telnyx,
    ElevenLabs,
    Plivo,
    Vonage,
    LiveKit,
    /// Its API puts a phone into a room, where an agent must be already. So Switchhook only receives its webhooks.
    Daily,
    Bland,
    SignalWire,
    /// Sender whose signature and events are described by the configuration of the stack. It has no API, so Switchhook cannot place
    /// calls with it.
    Configured(ProviderName),
    /// Any other sender that can sign its webhooks. It has no API either.
    Generic,
}

impl Provider {
    /// Every provider that Switchhook has code for.
    pub const ALL: [Self; 12] = [
        Self::Retell,
        Self::Twilio,
        Self::Vapi,
        Self::Telnyx,
        Self::ElevenLabs,
        Self::Plivo,
        Self::Vonage,
        Self::LiveKit,
        Self::Daily,
        Self::Bland,
        Self::SignalWire,
        Self::Generic,
    ];

    /// Returns the name used in the URL, in the secret and in ids.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Retell => "retell",
            Self::Twilio => "twilio",
            Self::Vapi => "vapi",
            Self::Telnyx => "telnyx",
            Self::ElevenLabs => "elevenlabs",
            Self::Plivo => "plivo",
            Self::Vonage => "vonage",
            Self::LiveKit => "livekit",
            Self::Daily => "daily",
            Self::Bland => "bland",
            Self::SignalWire => "signalwire",
            Self::Generic => "generic",
            Self::Configured(name) => name.as_str(),
        }
    }

    /// True if the provider reports what the person said, and does so after the end of the call. Every other provider reports only whether
    /// the call was answered, or reports what the person said together with the ending (Bland). A configured provider reports an
    /// outcome if the parameter `OutcomeProviders` names it, so this is false.
    #[must_use]
    pub const fn reports_outcome(self) -> bool {
        match self {
            Self::Retell | Self::Vapi | Self::ElevenLabs | Self::Generic => true,
            Self::Twilio
            | Self::Telnyx
            | Self::Plivo
            | Self::Vonage
            | Self::LiveKit
            | Self::Daily
            | Self::Bland
            | Self::SignalWire
            | Self::Configured(_) => false,
        }
    }

    /// True if the configuration of a stack describes the provider.
    #[must_use]
    pub const fn is_configured(self) -> bool {
        match self {
            Self::Retell
            | Self::Twilio
            | Self::Vapi
            | Self::Telnyx
            | Self::ElevenLabs
            | Self::Plivo
            | Self::Vonage
            | Self::LiveKit
            | Self::Daily
            | Self::Bland
            | Self::SignalWire
            | Self::Generic => false,
            Self::Configured(_) => true,
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Provider {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Provider {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Error for an unknown provider name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "unknown provider {0:?}: known are retell, twilio, vapi, telnyx, elevenlabs, plivo, vonage, livekit, daily, bland, signalwire, generic"
)]
pub struct UnknownProvider(pub String);

impl FromStr for Provider {
    type Err = UnknownProvider;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let built_in = Self::ALL.into_iter().find(|provider| provider.as_str() == text);
        let configured = || ProviderName::new(text).map(Self::Configured);
        built_in.or_else(configured).ok_or_else(|| UnknownProvider(text.to_owned()))
    }
}

/// Name of a configured provider: `x-`, then lower-case letters, digits and hyphens, for example `x-acme`.
///
/// **The prefix keeps ids apart.** A call id that begins with the name of a provider belongs to that provider, and no other sender may
/// use it. The prefix tells such a name without the configuration. And a provider that a later version has code for never has
/// the name of one that a stack configured before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderName {
    /// The name, filled up with zeros.
    bytes: [u8; Self::BYTES_MAX],
    length: u8,
}

impl ProviderName {
    /// Longest name, in bytes. A name is part of every id of its provider.
    pub const BYTES_MAX: usize = 24;
    const PREFIX: &str = "x-";

    /// Makes a name of a text. `None` if the text is no such name.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(Self::PREFIX)?;
        let is_valid = rest.starts_with(|first: char| first.is_ascii_lowercase())
            && !rest.ends_with('-')
            && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        let mut bytes = [0; Self::BYTES_MAX];
        bytes.get_mut(..text.len()).filter(|_| is_valid)?.copy_from_slice(text.as_bytes());
        Some(Self { bytes, length: u8::try_from(text.len()).ok()? })
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.length)).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl fmt::Debug for ProviderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProviderName({})", self.as_str())
    }
}

/// Set of providers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProviderSet {
    /// A bit for each provider of [`Provider::ALL`], by its place there.
    built_in: u32,
    configured: [Option<ProviderName>; Self::CONFIGURED_MAX],
    /// True if the set has every configured provider, whatever its name.
    has_every_configured: bool,
}

impl ProviderSet {
    /// Every provider.
    pub const ALL: Self =
        Self { built_in: u32::MAX, configured: [None; Self::CONFIGURED_MAX], has_every_configured: true };

    /// In a text, this name means the providers that report an outcome.
    const DEFAULT: &str = "default";

    /// Most configured providers that a set can name. A set is copied into every fold.
    pub const CONFIGURED_MAX: usize = 8;

    /// Returns the providers that report an outcome.
    #[must_use]
    pub fn reporting_outcome() -> Self {
        let mut set = Self::default();
        for provider in Provider::ALL.into_iter().filter(|provider| provider.reports_outcome()) {
            set.insert(provider);
        }
        set
    }

    /// Adds a provider. Returns false if the set has no room for another configured provider.
    pub fn insert(&mut self, provider: Provider) -> bool {
        if self.contains(provider) {
            return true;
        }
        if let Provider::Configured(name) = provider {
            let free = self.configured.iter_mut().find(|slot| slot.is_none());
            return free.map(|slot| *slot = Some(name)).is_some();
        }
        self.built_in |= bit(provider);
        true
    }

    /// Returns the built-in providers of the set, and the configured ones that it names.
    pub fn iter(&self) -> impl Iterator<Item = Provider> {
        let built_in = Provider::ALL.into_iter().filter(|provider| self.contains(*provider));
        built_in.chain(self.configured.into_iter().flatten().map(Provider::Configured))
    }

    #[must_use]
    pub fn contains(&self, provider: Provider) -> bool {
        match provider {
            Provider::Configured(name) => self.has_every_configured || self.configured.contains(&Some(name)),
            Provider::Retell
            | Provider::Twilio
            | Provider::Vapi
            | Provider::Telnyx
            | Provider::ElevenLabs
            | Provider::Plivo
            | Provider::Vonage
            | Provider::LiveKit
            | Provider::Daily
            | Provider::Bland
            | Provider::SignalWire
            | Provider::Generic => self.built_in & bit(provider) != 0,
        }
    }
}

/// Reason why a text names no set of providers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProviderSetError {
    #[error(transparent)]
    Unknown(#[from] UnknownProvider),
    #[error("more than {} configured providers", ProviderSet::CONFIGURED_MAX)]
    Full,
}

/// Reads names separated by commas. The name `default` stands for [`ProviderSet::reporting_outcome`].
impl FromStr for ProviderSet {
    type Err = ProviderSetError;

    fn from_str(text: &str) -> Result<Self, ProviderSetError> {
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        let mut set = if names.contains(&Self::DEFAULT) { Self::reporting_outcome() } else { Self::default() };
        for name in names.into_iter().filter(|name| *name != Self::DEFAULT) {
            if !set.insert(name.parse()?) {
                return Err(ProviderSetError::Full);
            }
        }
        Ok(set)
    }
}

/// Bit of a provider that Switchhook has code for. Zero for a configured provider.
fn bit(provider: Provider) -> u32 {
    Provider::ALL.iter().position(|known| *known == provider).map_or(0, |place| 1 << place)
}

/// Collects built-in providers, and configured ones while there is room for them.
impl FromIterator<Provider> for ProviderSet {
    fn from_iter<T: IntoIterator<Item = Provider>>(providers: T) -> Self {
        let mut set = Self::default();
        for provider in providers {
            set.insert(provider);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_from_names() {
        let set = |text: &str| text.parse::<ProviderSet>();
        assert_eq!(set("retell, vapi"), Ok([Provider::Retell, Provider::Vapi].into_iter().collect()));
        assert_eq!(set("default"), Ok(ProviderSet::reporting_outcome()));
        let acme: Provider = "x-acme".parse().unwrap();
        let more = set("x-acme,default,bland").unwrap();
        assert!(more.contains(acme) && more.contains(Provider::Bland) && more.contains(Provider::Retell));
        assert!(!more.contains(Provider::Twilio));
        assert_eq!(set("default,retel"), Err(ProviderSetError::Unknown(UnknownProvider("retel".to_owned()))));
        let nine: Vec<String> = (1..=9).map(|number| format!("x-a{number}")).collect();
        assert_eq!(set(&nine.join(",")), Err(ProviderSetError::Full));
    }

    #[test]
    fn names_of_configured_providers_are_told_from_built_in_ones() {
        for good in ["x-a", "x-acme", "x-acme-voice-2", "x-retell", "x-aaaaaaaaaaaaaaaaaaaaaa"] {
            let provider: Provider = good.parse().unwrap();
            assert_eq!((provider.as_str(), provider.is_configured()), (good, true));
            assert_eq!(serde_json::to_string(&provider).unwrap(), format!("{good:?}"));
            assert_eq!(serde_json::from_str::<Provider>(&format!("{good:?}")).unwrap(), provider);
        }
        for bad in [
            "",
            "x",
            "x-",
            "x-1",
            "x--a",
            "x-a-",
            "x-A",
            "x-a_b",
            "x-a:b",
            "x-a b",
            "x-\u{e4}",
            "acme",
            "X-acme",
            "retel",
            "x-aaaaaaaaaaaaaaaaaaaaaaa",
            "switchhook",
            "call",
            "do-not-call",
        ] {
            assert_eq!(bad.parse::<Provider>(), Err(UnknownProvider(bad.to_owned())));
        }
        for provider in Provider::ALL {
            assert_eq!(provider.as_str().parse(), Ok(provider));
            assert!(!provider.is_configured());
        }
    }

    #[test]
    fn set_holds_what_was_inserted() {
        let name = |number: usize| -> Provider { format!("x-p{number}").parse().unwrap() };
        let mut set: ProviderSet = [Provider::Twilio, name(0)].into_iter().collect();
        assert!(set.contains(Provider::Twilio) && set.contains(name(0)));
        assert!(!set.contains(Provider::Generic) && !set.contains(name(1)));
        assert!((0..ProviderSet::CONFIGURED_MAX).all(|number| set.insert(name(number))));
        assert!(!set.insert(name(ProviderSet::CONFIGURED_MAX)), "the set is full");
        assert!(set.insert(name(0)) && set.insert(Provider::Telnyx));
        assert!(ProviderSet::ALL.contains(name(1)) && ProviderSet::ALL.contains(Provider::Vapi));
        let reporting = ProviderSet::reporting_outcome();
        assert_eq!(Provider::ALL.map(|one| reporting.contains(one)), Provider::ALL.map(Provider::reports_outcome));
        assert!(!reporting.contains(name(0)));
    }
}
