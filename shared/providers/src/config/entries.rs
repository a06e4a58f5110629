//! Entries of one half of the configuration, as it is stored in a secret.

use std::collections::BTreeMap;

use switchhook_domain::Provider;

use super::account::AccountConfig;
use super::parse::{self, Part};
use super::webhook::WebhookConfig;

/// Half of a provider's configuration, which is stored in a secret of its own.
pub trait SecretHalf: Clone + Sized {
    /// Name of the secret's content, for messages.
    const NAME: &'static str;

    /// Reads the text of the secret. A wrong entry disables its provider alone.
    ///
    /// If the text is not a JSON object, every provider is disabled. If an entry has the name of no provider, every provider
    /// without an entry is disabled: it may be the one that was meant.
    fn parse(json: &str) -> Entries<Self>;
}

/// Entry of one provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<C> {
    Configured(C),
    /// The configuration does not name the provider.
    Unnamed,
    /// The configuration of the provider cannot be read.
    Disabled,
}

/// Entries of all providers.
#[derive(Clone, Debug)]
pub struct Entries<C> {
    by_provider: BTreeMap<Provider, ReadEntry<C>>,
    /// Problems of the text that these entries were read from.
    problems: Vec<String>,
}

/// Entry of one provider, as it was read. A provider that is missing in the map is not named.
#[derive(Clone, Copy, Debug)]
enum ReadEntry<C> {
    Configured(C),
    /// The entry has problems.
    Wrong,
    /// Nobody knows whether the provider should be named.
    Unclear,
}

impl<C: Clone> Entries<C> {
    /// Entries of a text that cannot be read: every provider is disabled.
    #[must_use]
    pub fn unreadable(problem: String) -> Self {
        let by_provider = Provider::ALL.into_iter().map(|provider| (provider, ReadEntry::Unclear)).collect();
        Self { by_provider, problems: vec![problem] }
    }

    /// Entries of these providers alone.
    pub(super) fn configured(configured: BTreeMap<Provider, C>) -> Self {
        let read = |(provider, config)| (provider, ReadEntry::Configured(config));
        let by_provider = configured.into_iter().map(read).collect();
        Self { by_provider, problems: Vec::new() }
    }

    /// Entry of one provider.
    #[must_use]
    pub fn entry(&self, provider: Provider) -> Entry<&C> {
        match self.by_provider.get(&provider) {
            Some(ReadEntry::Configured(config)) => Entry::Configured(config),
            Some(ReadEntry::Wrong | ReadEntry::Unclear) => Entry::Disabled,
            None => Entry::Unnamed,
        }
    }

    /// Configuration of one provider. `None` if the provider is not named, or disabled.
    #[must_use]
    pub fn config(&self, provider: Provider) -> Option<&C> {
        match self.entry(provider) {
            Entry::Configured(config) => Some(config),
            Entry::Unnamed | Entry::Disabled => None,
        }
    }

    /// Providers that are disabled.
    #[must_use]
    pub fn disabled(&self) -> Vec<Provider> {
        let is_disabled = |provider: &Provider| match self.entry(*provider) {
            Entry::Disabled => true,
            Entry::Configured(_) | Entry::Unnamed => false,
        };
        Provider::ALL.into_iter().filter(is_disabled).collect()
    }

    /// One sentence for each problem of the text. Each names its provider and field, and none shows a value.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// These entries, and for each disabled provider its entry in an older version. A provider whose entry is wrong stays
    /// disabled if the older version does not name it.
    #[must_use]
    pub fn or_from(mut self, older: &Self) -> Self {
        for provider in self.disabled() {
            let is_wrong = matches!(self.by_provider.get(&provider), Some(ReadEntry::Wrong));
            match older.by_provider.get(&provider) {
                Some(ReadEntry::Configured(config)) => {
                    self.by_provider.insert(provider, ReadEntry::Configured(config.clone()));
                }
                None if !is_wrong => {
                    self.by_provider.remove(&provider);
                }
                Some(ReadEntry::Wrong | ReadEntry::Unclear) | None => {}
            }
        }
        self
    }

    fn parse(json: &str, part: Part, half: impl Fn(parse::Halves) -> Option<C>) -> Self {
        let document = match parse::document(json) {
            Ok(document) => document,
            Err(error) => return Self::unreadable(error.problems().join("; ")),
        };
        let (mut by_provider, mut problems) = (BTreeMap::new(), Vec::new());
        let mut has_unknown = false;
        for (name, value) in document {
            match name.parse::<Provider>() {
                Ok(provider) => {
                    let config = parse::entry(provider, value, part, &mut problems).and_then(&half);
                    by_provider.insert(provider, config.map_or(ReadEntry::Wrong, ReadEntry::Configured));
                }
                Err(unknown) => {
                    has_unknown = true;
                    problems.push(unknown.to_string());
                }
            }
        }
        if has_unknown {
            for provider in Provider::ALL {
                by_provider.entry(provider).or_insert(ReadEntry::Unclear);
            }
        }
        Self { by_provider, problems }
    }
}

impl SecretHalf for WebhookConfig {
    const NAME: &'static str = "webhook keys";

    fn parse(json: &str) -> Entries<Self> {
        Entries::parse(json, Part::WebhookKeys, |halves| halves.webhook)
    }
}

impl SecretHalf for AccountConfig {
    const NAME: &'static str = "dial accounts";

    fn parse(json: &str) -> Entries<Self> {
        Entries::parse(json, Part::DialAccounts, |halves| halves.account)
    }
}
