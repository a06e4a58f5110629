//! Webhook half of the configuration of one provider: its keys, and where its webhooks may come from.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

use super::question::QuestionConfig;
use super::scheme::SharedKey;
use crate::configured::EventMapping;
use crate::key::Key;
use crate::scheme::Scheme;
use crate::user_decision::DecisionRule;

/// Shortest time for which the inbox may remember an event id. Ingress and the parameter `InboxRetentionDays` accept no
/// less.
pub const DEDUPE_RETENTION: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// Longest signature window that can be configured, in either direction.
pub const WINDOW_MAX: Duration = Duration::from_secs(24 * 60 * 60);

// A webhook that is still accepted must still be remembered. Otherwise a recorded webhook could be replayed as a new
// event once the inbox has forgotten its id. Twice the window, because a timestamp may also lie in the future.
const _: () = assert!(2 * WINDOW_MAX.as_secs() <= DEDUPE_RETENTION.as_secs());

/// Keys and settings that verify the webhooks of one provider.
#[derive(Clone)]
pub struct WebhookConfig {
    pub(super) keys: Vec<Key>,
    pub(super) public_url: Option<String>,
    pub(super) window: Option<Duration>,
    pub(super) allowed_sources: Vec<IpNet>,
    pub(super) scheme: Option<Scheme>,
    pub(super) mapping: Option<EventMapping>,
    pub(super) reports_outcome: bool,
    pub(super) shared_keys: Vec<SharedKey>,
    pub(super) question: Option<QuestionConfig>,
    pub(super) decision: Option<DecisionRule>,
}

impl WebhookConfig {
    /// Keys that verify webhooks: at least one, unless Twilio has shared keys. The first is the current key. The others
    /// serve a rotation: the key that is being phased out, or the next one.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Start of the URL that the provider posts to, up to our own path: scheme, host, and perhaps user info, port and a
    /// path. It has no slash at the end. Twilio, SignalWire and Plivo sign this URL, and behind a proxy the request itself no longer
    /// contains it.
    #[must_use]
    pub fn public_url(&self) -> Option<&str> {
        self.public_url.as_deref()
    }

    /// Largest accepted difference between a signed timestamp and now, in either direction, inclusive. `None` if the
    /// scheme signs no timestamp (Twilio, SignalWire, Plivo, Bland).
    #[must_use]
    pub fn window(&self) -> Option<Duration> {
        self.window
    }

    /// True if webhooks prove only that their sender knows a key, because nothing is signed.
    #[must_use]
    pub fn is_unsigned(&self) -> bool {
        match self.scheme {
            Some(Scheme::Header(_) | Scheme::Url(_) | Scheme::Token(_)) | None => false,
            Some(Scheme::SharedSecret { .. }) => true,
        }
    }

    /// Signature scheme, if the configuration names one. Vapi has several, and a configured provider names its own.
    pub(crate) const fn scheme(&self) -> Option<&Scheme> {
        self.scheme.as_ref()
    }

    /// Mapping of a configured provider. `None` for every other provider.
    pub(crate) const fn mapping(&self) -> Option<&EventMapping> {
        self.mapping.as_ref()
    }

    /// True if the entry of a configured provider says that the provider reports what the person said. The consumer goes by the
    /// parameter `OutcomeProviders`, which must name the provider too.
    #[must_use]
    pub const fn reports_outcome(&self) -> bool {
        self.reports_outcome
    }

    /// Number of keys that may sign, Twilio's shared keys included.
    #[must_use]
    pub fn keys_total(&self) -> usize {
        self.keys.len() + self.shared_keys.len()
    }

    /// Shared keys of Twilio. Empty for every other provider.
    pub(crate) fn shared_keys(&self) -> &[SharedKey] {
        &self.shared_keys
    }

    /// Answer to the provider's questions. `None` if a question is stored and answered like any other webhook.
    #[must_use]
    pub const fn question(&self) -> Option<&QuestionConfig> {
        self.question.as_ref()
    }

    /// Rule that finds the person's decision in a body. `None` if the built-in fields count.
    pub(crate) const fn decision(&self) -> Option<&DecisionRule> {
        self.decision.as_ref()
    }

    /// Networks that webhooks may come from. Empty if every address is allowed.
    #[must_use]
    pub fn allowed_sources(&self) -> &[IpNet] {
        &self.allowed_sources
    }

    /// True if no allow-list is set or the address is on it. An IPv4-mapped IPv6 address counts as its IPv4 address.
    #[must_use]
    pub fn allows(&self, source: IpAddr) -> bool {
        let source = source.to_canonical();
        self.allowed_sources.is_empty() || self.allowed_sources.iter().any(|net| net.contains(&source))
    }
}

/// Leaves out the URL, which may contain a password.
impl fmt::Debug for WebhookConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookConfig")
            .field("keys", &self.keys)
            .field("shared_keys", &self.shared_keys)
            .field("scheme", &self.scheme)
            .field("window", &self.window)
            .field("allowed_sources", &self.allowed_sources)
            .finish_non_exhaustive()
    }
}
