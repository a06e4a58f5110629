//! Entries of one half of the configuration, as it is stored in a secret.

use std::collections::BTreeMap;

use switchhook_domain::Provider;

use super::account::AccountConfig;
use super::edge::{EDGE, Edge};
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

/// Entries of all providers, and the entry of the edge.
#[derive(Clone, Debug)]
pub struct Entries<C> {
    by_provider: BTreeMap<Provider, ReadEntry<C>>,
    /// Reason why a configured provider or an account without an entry may be named by something that cannot be read.
    doubt: Option<Doubt>,
    /// `None` if the edge is not named. Always `None` in the dial accounts.
    edge: Option<ReadEntry<Edge>>,
    /// Problems of the text that these entries were read from.
    problems: Vec<String>,
    /// True if there is no text, because the request for it failed.
    is_unread: bool,
}

/// Entry of one provider, or of the edge, as it was read. A provider that is missing in the map is not named.
#[derive(Clone, Copy, Debug)]
enum ReadEntry<C> {
    Configured(C),
    /// The entry has problems.
    Wrong,
    /// Nobody knows whether the provider should be named.
    Unclear(Doubt),
}

/// Reason why nobody knows whether a provider without an entry should be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// An entry has the name of no provider. An older version decides which provider was meant: one that it does not name is not named.
    UnknownName,
    /// The text cannot be read, so it may have added any provider. An older version decides only about those that it names.
    Unreadable,
}

impl<T: Clone> ReadEntry<T> {
    /// Returns the entry to use, if an older version has the entry `older`. An entry that is wrong stays wrong if the older
    /// version does not name it.
    fn or_from(own: Option<Self>, older: Option<&Self>) -> Option<Self> {
        match (own, older) {
            (Some(Self::Wrong | Self::Unclear(_)), Some(Self::Configured(config))) => {
                Some(Self::Configured(config.clone()))
            }
            (Some(Self::Unclear(_)), Some(Self::Wrong)) => Some(Self::Wrong),
            (Some(Self::Unclear(Doubt::UnknownName)), None) => None,
            (own, _) => own,
        }
    }
}

impl<C: Clone> Entries<C> {
    /// Entries of a secret whose request failed: every provider is disabled.
    #[must_use]
    pub fn unread(problem: String) -> Self {
        Self { is_unread: true, ..Self::unreadable(problem) }
    }

    /// Entries of a text that cannot be read: every provider is disabled.
    fn unreadable(problem: String) -> Self {
        let doubt = Doubt::Unreadable;
        let by_provider = Provider::ALL.into_iter().map(|provider| (provider, ReadEntry::Unclear(doubt))).collect();
        let (edge, problems) = (Some(ReadEntry::Unclear(doubt)), vec![problem]);
        Self { by_provider, doubt: Some(doubt), edge, problems, is_unread: false }
    }

    /// Entries of these providers alone.
    pub(super) fn configured(configured: BTreeMap<Provider, C>, edge: Option<Edge>) -> Self {
        let read = |(provider, config)| (provider, ReadEntry::Configured(config));
        let by_provider = configured.into_iter().map(read).collect();
        let edge = edge.map(ReadEntry::Configured);
        Self { by_provider, doubt: None, edge, problems: Vec::new(), is_unread: false }
    }

    /// True if the request for the secret failed. Another process may have the secret, and its entries may be right.
    #[must_use]
    pub const fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// Entry of the edge. **An entry that is wrong counts as [`Entry::Disabled`], and never as missing.** Otherwise a typo
    /// would open the stack to requests that did not come through the edge.
    #[must_use]
    pub fn edge(&self) -> Entry<&Edge> {
        match &self.edge {
            Some(ReadEntry::Configured(edge)) => Entry::Configured(edge),
            Some(ReadEntry::Wrong | ReadEntry::Unclear(Doubt::Unreadable)) => Entry::Disabled,
            // An unknown name is seldom meant to be the edge, and other providers must go on.
            Some(ReadEntry::Unclear(Doubt::UnknownName)) | None => Entry::Unnamed,
        }
    }

    /// True if an older version may know an entry that cannot be read here.
    #[must_use]
    pub fn needs_older(&self) -> bool {
        let is_edge_read = matches!(self.edge, None | Some(ReadEntry::Configured(_)));
        !is_edge_read || self.doubt.is_some() || !self.disabled().is_empty()
    }

    /// Entry of one provider.
    #[must_use]
    pub fn entry(&self, provider: Provider) -> Entry<&C> {
        match self.by_provider.get(&provider) {
            Some(ReadEntry::Configured(config)) => Entry::Configured(config),
            Some(ReadEntry::Wrong | ReadEntry::Unclear(_)) => Entry::Disabled,
            None if self.doubt.is_some() && provider.is_named() => Entry::Disabled,
            None => Entry::Unnamed,
        }
    }

    /// True if the provider has an entry, also if it is wrong.
    #[must_use]
    pub fn names(&self, provider: Provider) -> bool {
        self.by_provider.contains_key(&provider)
    }

    /// Providers with an entry, also if it is wrong.
    pub fn named(&self) -> impl Iterator<Item = Provider> {
        self.by_provider.keys().copied()
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
        self.named().filter(is_disabled).collect()
    }

    /// One sentence for each problem of the text. Each names its provider and field, and none shows a value.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// These entries. An entry that cannot be read is replaced by the one of an older version. If the older version does not name a
    /// provider, it stays disabled if its entry is wrong, or if the whole text of these entries cannot be read.
    #[must_use]
    pub fn or_from(mut self, older: &Self) -> Self {
        if let Some(doubt) = self.doubt {
            for provider in older.named() {
                self.by_provider.entry(provider).or_insert(ReadEntry::Unclear(doubt));
            }
            if doubt == Doubt::UnknownName && older.doubt.is_none() {
                self.doubt = None;
            }
        }
        for provider in self.disabled() {
            let own = self.by_provider.remove(&provider);
            let entry = ReadEntry::or_from(own, older.by_provider.get(&provider));
            self.by_provider.extend(entry.map(|entry| (provider, entry)));
        }
        self.edge = match self.edge {
            // A text that cannot be read was never in use. The providers of the older version go on with its edge, or without one.
            Some(ReadEntry::Unclear(Doubt::Unreadable)) => older.edge.clone(),
            own => ReadEntry::or_from(own, older.edge.as_ref()),
        };
        self
    }

    fn parse(json: &str, part: Part, half: impl Fn(parse::Halves) -> Option<C>) -> Self {
        let document = match parse::document(json) {
            Ok(document) => document,
            Err(error) => return Self::unreadable(error.problems().join("; ")),
        };
        let (mut by_provider, mut edge, mut problems) = (BTreeMap::new(), None, Vec::new());
        let mut has_unknown = false;
        for (name, value) in document {
            if name == EDGE {
                edge = match part {
                    Part::DialAccounts => {
                        problems.push(format!("{EDGE}: belongs in the secret of the webhook keys"));
                        None
                    }
                    Part::Both | Part::WebhookKeys => {
                        let read = Edge::read(value, &mut problems);
                        Some(read.map_or(ReadEntry::Wrong, ReadEntry::Configured))
                    }
                };
                continue;
            }
            match name.parse::<Provider>() {
                Ok(provider) => {
                    let config =
                        parse::entry(provider, value, part, parse::KeyLengths::Enforced, &mut problems).and_then(&half);
                    by_provider.insert(provider, config.map_or(ReadEntry::Wrong, ReadEntry::Configured));
                }
                Err(unknown) => {
                    has_unknown = true;
                    problems.push(parse::unknown_name(&unknown));
                }
            }
        }
        if has_unknown {
            for provider in Provider::ALL {
                by_provider.entry(provider).or_insert(ReadEntry::Unclear(Doubt::UnknownName));
            }
            edge = edge.or(Some(ReadEntry::Unclear(Doubt::UnknownName)));
        }
        Self { by_provider, doubt: has_unknown.then_some(Doubt::UnknownName), edge, problems, is_unread: false }
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

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0123456789abcdef0123456789abcdef";

    /// Webhook keys with a provider, and with this entry beside it.
    fn keys(entry: &str) -> Entries<WebhookConfig> {
        WebhookConfig::parse(&format!(r#"{{{entry}"retell":{{"keys":["{KEY}"]}}}}"#))
    }

    fn edge(entries: &Entries<WebhookConfig>) -> &'static str {
        match entries.edge() {
            Entry::Configured(_) => "configured",
            Entry::Unnamed => "unnamed",
            Entry::Disabled => "disabled",
        }
    }

    #[test]
    fn wrong_entry_of_the_edge_never_counts_as_missing() {
        let right = format!(r#""edge":{{"keys":["{KEY}"]}},"#);
        let (right, none) = (keys(&right), keys(""));
        let (wrong, typo) = (keys(r#""edge":{"keys":["SECRET"]},"#), keys(r#""egde":{"keys":["SECRET"]},"#));
        let unreadable = WebhookConfig::parse("{");
        assert_eq!([&right, &none, &wrong].map(edge), ["configured", "unnamed", "disabled"]);
        assert_eq!([&typo, &unreadable].map(edge), ["unnamed", "disabled"]);
        assert!(wrong.config(Provider::Retell).is_some() && !format!("{:?}", wrong.problems()).contains("SECRET"));
        for (current, older, expected) in [
            (&wrong, &right, "configured"),
            (&wrong, &none, "disabled"),
            (&wrong, &unreadable, "disabled"),
            (&typo, &right, "configured"),
            (&typo, &wrong, "disabled"),
            // Nothing suggests that the unknown name was meant to be the edge.
            (&typo, &none, "unnamed"),
            (&typo, &typo, "unnamed"),
            (&unreadable, &right, "configured"),
            (&unreadable, &wrong, "disabled"),
            (&unreadable, &none, "unnamed"),
            (&unreadable, &typo, "unnamed"),
            (&unreadable, &unreadable, "disabled"),
            (&typo, &unreadable, "unnamed"),
            (&none, &right, "unnamed"),
        ] {
            let used = current.clone().or_from(older);
            assert_eq!(edge(&used), expected, "{:?} after {:?}", current.problems(), older.problems());
        }
        assert!([&wrong, &typo, &unreadable].iter().all(|entries| entries.needs_older()));
        assert!(!right.needs_older() && !none.needs_older() && !typo.clone().or_from(&none).needs_older());
    }

    #[test]
    fn edge_belongs_to_the_webhook_keys() {
        let accounts = AccountConfig::parse(&format!(r#"{{"edge":{{"keys":["{KEY}"]}}}}"#));
        assert_eq!(accounts.problems(), ["edge: belongs in the secret of the webhook keys"]);
        assert!(matches!(accounts.edge(), Entry::Unnamed) && accounts.disabled().is_empty());
    }
}
