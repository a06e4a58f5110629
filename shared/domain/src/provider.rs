//! Providers: those that Switchhook has code for, further accounts of them, and those that a stack's configuration describes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// Provider whose webhooks Switchhook reads. Stored and sent as its name.
///
/// **A further account of a provider is a provider of its own**, with a name, keys, limits and a health of its own. Only what its
/// webhooks and its API mean is the [vendor's](Provider::vendor).
///
/// The generic provider is the last one, because every other provider that reports an attempt is preferred to it and its accounts. See
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
    /// Further account of one of the providers above, or a sender whose signature and events are described by the configuration of the
    /// stack. Such a sender has no API, so Switchhook cannot place calls with it.
    Named(ProviderName),
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
            Self::Named(name) => name.as_str(),
        }
    }

    /// True if the provider reports what the person said, and does so after the end of the call. Every other provider reports only whether
    /// the call was answered, or reports what the person said together with the ending (Bland). A configured provider reports an
    /// outcome if the parameter `OutcomeProviders` names it, so this is false.
    #[must_use]
    pub fn reports_outcome(self) -> bool {
        match self.vendor() {
            Self::Retell | Self::Vapi | Self::ElevenLabs | Self::Generic => true,
            Self::Twilio
            | Self::Telnyx
            | Self::Plivo
            | Self::Vonage
            | Self::LiveKit
            | Self::Daily
            | Self::Bland
            | Self::SignalWire
            | Self::Named(_) => false,
        }
    }

    /// Returns the provider whose code reads the webhooks and makes the requests: `retell` for `retell` and for its account `retell-eu`. A
    /// configured provider is its own vendor, so of all named ones only these are returned.
    #[must_use]
    pub fn vendor(self) -> Self {
        self.name().and_then(ProviderName::vendor).unwrap_or(self)
    }

    /// True if the configuration of a stack describes the provider.
    #[must_use]
    pub fn is_configured(self) -> bool {
        self.name().is_some_and(|name| name.vendor().is_none())
    }

    /// True if the configuration of a stack names the provider: it is configured, or a further account.
    #[must_use]
    pub const fn is_named(self) -> bool {
        self.name().is_some()
    }

    /// Name that the configuration of a stack gave the provider. `None` if Switchhook has code for it.
    const fn name(self) -> Option<ProviderName> {
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
            | Self::Generic => None,
            Self::Named(name) => Some(name),
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
    "unknown provider {0:?}: known are retell, twilio, vapi, telnyx, elevenlabs, plivo, vonage, livekit, daily, bland, signalwire, generic, \
     and accounts of them such as twilio-eu"
)]
pub struct UnknownProvider(pub String);

impl FromStr for Provider {
    type Err = UnknownProvider;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = || ProviderName::new(text).map(Self::Named);
        vendor_named(text).or_else(named).ok_or_else(|| UnknownProvider(text.to_owned()))
    }
}

/// Name that the configuration of a stack gives: `x-acme` for a configured provider, and `twilio-eu` for a further account of Twilio. The rest
/// has lower-case letters, digits and hyphens, and neither begins nor ends with a hyphen.
///
/// **The prefix keeps ids apart.** A call id that begins with the name of a provider belongs to that provider, and no other sender may
/// use it. The prefix tells such a name without the configuration. It also says whose code reads the webhooks of an account. And a provider
/// that a later version has code for never has the name of one that a stack configured before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderName {
    /// The name, filled up with zeros.
    bytes: [u8; Self::BYTES_MAX],
    length: u8,
}

impl ProviderName {
    /// Longest name, in bytes. A name is part of every id of its provider.
    pub const BYTES_MAX: usize = 24;
    /// Longest text after the name of the provider and a hyphen, in bytes.
    const ACCOUNT_BYTES_MAX: usize = 12;
    const CONFIGURED: &str = "x";

    /// Makes a name of a text. `None` if the text is no such name.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let (prefix, rest) = text.split_once('-')?;
        let rest_max = match vendor_named(prefix) {
            Some(_) => Self::ACCOUNT_BYTES_MAX,
            None if prefix == Self::CONFIGURED => Self::BYTES_MAX - Self::CONFIGURED.len() - 1,
            None => return None,
        };
        let is_valid = !rest.starts_with('-')
            && !rest.ends_with('-')
            && (1..=rest_max).contains(&rest.len())
            && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        let mut bytes = [0; Self::BYTES_MAX];
        bytes.get_mut(..text.len()).filter(|_| is_valid)?.copy_from_slice(text.as_bytes());
        Some(Self { bytes, length: u8::try_from(text.len()).ok()? })
    }

    /// Provider of the account that has this name. `None` if it is the name of a configured provider.
    fn vendor(self) -> Option<Provider> {
        self.as_str().split_once('-').and_then(|(prefix, _)| vendor_named(prefix))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.length)).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

/// Provider that Switchhook has code for, by its name.
fn vendor_named(name: &str) -> Option<Provider> {
    Provider::ALL.into_iter().find(|provider| provider.as_str() == name)
}

impl fmt::Debug for ProviderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProviderName({})", self.as_str())
    }
}

/// Set of providers. A provider in the set stands for its further accounts too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProviderSet {
    /// A bit for each provider of [`Provider::ALL`], by its place there.
    built_in: u32,
    named: [Option<ProviderName>; Self::NAMED_MAX],
    /// True if the set has every configured provider, whatever its name.
    has_every_configured: bool,
}

impl ProviderSet {
    /// Every provider.
    pub const ALL: Self = Self { built_in: u32::MAX, named: [None; Self::NAMED_MAX], has_every_configured: true };

    /// In a text, this name means the providers that report an outcome.
    const DEFAULT: &str = "default";

    /// Most configured providers and accounts that a set can name. A set is copied into every fold.
    pub const NAMED_MAX: usize = 8;

    /// Returns the providers that report an outcome.
    #[must_use]
    pub fn reporting_outcome() -> Self {
        let mut set = Self::default();
        for provider in Provider::ALL.into_iter().filter(|provider| provider.reports_outcome()) {
            set.insert(provider);
        }
        set
    }

    /// Adds a provider. Returns false if the set has no room for another name.
    pub fn insert(&mut self, provider: Provider) -> bool {
        if self.contains(provider) {
            return true;
        }
        if let Some(name) = provider.name() {
            let free = self.named.iter_mut().find(|slot| slot.is_none());
            return free.map(|slot| *slot = Some(name)).is_some();
        }
        self.built_in |= bit(provider);
        true
    }

    /// Returns the built-in providers of the set, and the others that it names.
    pub fn iter(&self) -> impl Iterator<Item = Provider> {
        let built_in = Provider::ALL.into_iter().filter(|provider| self.contains(*provider));
        built_in.chain(self.named.into_iter().flatten().map(Provider::Named))
    }

    #[must_use]
    pub fn contains(&self, provider: Provider) -> bool {
        let is_named = provider.name().is_some_and(|name| self.named.contains(&Some(name)));
        is_named
            || self.built_in & bit(provider.vendor()) != 0
            || (self.has_every_configured && provider.is_configured())
    }
}

/// Reason why a text names no set of providers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProviderSetError {
    #[error(transparent)]
    Unknown(#[from] UnknownProvider),
    #[error("more than {} names of configured providers and accounts", ProviderSet::NAMED_MAX)]
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

/// Collects built-in providers, and named ones while there is room for them.
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
    fn accounts_have_names_of_their_own_and_the_code_of_their_provider() {
        for (name, vendor) in [
            ("twilio-eu", Provider::Twilio),
            ("elevenlabs-2", Provider::ElevenLabs),
            ("generic-a-b", Provider::Generic),
        ] {
            let account: Provider = name.parse().unwrap();
            assert_eq!((account.as_str(), account.vendor(), account.is_named()), (name, vendor, true));
            assert!(!account.is_configured() && account != vendor);
            assert_eq!(account.reports_outcome(), vendor.reports_outcome());
            assert_eq!(serde_json::from_str::<Provider>(&format!("{name:?}")).unwrap(), account);
        }
        let acme: Provider = "x-twilio-eu".parse().unwrap();
        assert!(acme.is_configured() && acme.is_named() && acme.vendor() == acme);
        assert!(Provider::ALL.into_iter().all(|provider| !provider.is_named() && provider.vendor() == provider));
        for bad in ["twilio-", "twilio--eu", "twilio-EU", "twilio_eu", "twilioeu", "retel-eu", "twilio-aaaaaaaaaaaaa"] {
            assert_eq!(bad.parse::<Provider>(), Err(UnknownProvider(bad.to_owned())));
        }
    }

    #[test]
    fn set_has_the_accounts_of_its_providers() {
        let account: Provider = "vapi-eu".parse().unwrap();
        let other: Provider = "vapi-us".parse().unwrap();
        let set = |text: &str| text.parse::<ProviderSet>().unwrap();
        assert!(
            set("default").contains(account) && set("vapi").contains(account) && ProviderSet::ALL.contains(account)
        );
        let named = set("vapi-eu");
        assert!(named.contains(account) && !named.contains(other) && !named.contains(Provider::Vapi));
        assert_eq!(named.iter().collect::<Vec<_>>(), [account]);
        assert!(!set("retell").contains(account));
    }

    #[test]
    fn names_of_configured_providers_are_told_from_built_in_ones() {
        for good in ["x-a", "x-1", "x-acme", "x-acme-voice-2", "x-retell", "x-aaaaaaaaaaaaaaaaaaaaaa"] {
            let provider: Provider = good.parse().unwrap();
            assert_eq!((provider.as_str(), provider.is_configured()), (good, true));
            assert_eq!(serde_json::to_string(&provider).unwrap(), format!("{good:?}"));
            assert_eq!(serde_json::from_str::<Provider>(&format!("{good:?}")).unwrap(), provider);
        }
        for bad in [
            "",
            "x",
            "x-",
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
        assert!((0..ProviderSet::NAMED_MAX).all(|number| set.insert(name(number))));
        assert!(!set.insert(name(ProviderSet::NAMED_MAX)), "the set is full");
        assert!(set.insert(name(0)) && set.insert(Provider::Telnyx));
        assert!(ProviderSet::ALL.contains(name(1)) && ProviderSet::ALL.contains(Provider::Vapi));
        let reporting = ProviderSet::reporting_outcome();
        assert_eq!(Provider::ALL.map(|one| reporting.contains(one)), Provider::ALL.map(Provider::reports_outcome));
        assert!(!reporting.contains(name(0)));
    }
}
