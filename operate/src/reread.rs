//! Stored events that are read anew, by the entries that their providers have now.
//!
//! Ingress reads the webhooks of some providers by their entry in the webhook keys, and stores the result. Where it found nothing,
//! because the entry was wrong or had no rule, a corrected entry gives the event its meaning here. The secret is read once per plan
//! and run, and only if such an event is selected.

use std::sync::Arc;

use switchhook_aws::Error;
use switchhook_aws::inbox::{Reread, StoredEvent};
use switchhook_aws::secret::SecretVersion;
use switchhook_domain::Provider;
use switchhook_providers::{Entries, Entry, SecretHalf, WebhookConfig};
use tokio::sync::OnceCell;

use crate::stack::Stack;

/// Webhook keys of a stack, or the reason why they could not be read. They are read when the first event needs them.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredEntries(Arc<OnceCell<Result<Entries<WebhookConfig>, String>>>);

/// Result of reading a stored event by the entry of its provider.
#[derive(Debug)]
pub(crate) enum ReadAnew {
    Read(Reread),
    /// Ingress found no meaning in the event, and its provider has no entry that could be used. The text says what to do.
    NoEntry(String),
}

impl Stack {
    /// Returns this stack with entries that are not read yet. A console uses one stack for hours, and an operator corrects an entry
    /// meanwhile.
    pub(crate) fn with_unread_entries(&self) -> Self {
        let mut stack = self.clone();
        stack.entries = StoredEntries::default();
        stack
    }

    /// Reads a stored event again, whatever its disposition.
    pub(crate) async fn read_anew(&self, stored: &StoredEvent) -> Result<ReadAnew, Error> {
        let Some(provider) = stored.provider_to_ask() else {
            return Ok(ReadAnew::Read(self.inbox.read_again(stored, None).await?));
        };
        match self.entry(provider).await {
            Ok(config) => Ok(ReadAnew::Read(self.inbox.read_again(stored, config).await?)),
            Err(reason) if provider.is_configured() => Ok(ReadAnew::NoEntry(reason)),
            // The program itself reads the event. The plan warns that a rule for decisions was not applied.
            Err(_) => Ok(ReadAnew::Read(self.inbox.read_again(stored, None).await?)),
        }
    }

    /// Makes a stored event foldable, with the meaning that [`Stack::read_anew`] finds.
    pub(crate) async fn make_foldable(&self, stored: &StoredEvent) -> Result<Reread, Error> {
        let config = match stored.provider_to_ask() {
            Some(provider) => self.entry(provider).await.ok().flatten(),
            None => None,
        };
        self.inbox.make_foldable(stored, config).await
    }

    /// Returns a warning if entries were asked for and could not be used, so that the rules for decisions in them did not count.
    pub(crate) fn entries_warning(&self) -> Option<String> {
        let problem = match self.entries.0.get()? {
            Ok(entries) => entries.problems().first()?,
            Err(error) => error,
        };
        Some(format!("stored webhooks were read without the rules for decisions of the providers' entries: {problem}"))
    }

    /// Returns the entry of a provider. `None` if a provider that Switchhook has code for has none. An error says what to do.
    async fn entry(&self, provider: Provider) -> Result<Option<&WebhookConfig>, String> {
        let entries = self.entries.0.get_or_init(|| self.read_entries()).await.as_ref()?;
        let names = self.names.stack.as_str();
        match entries.entry(provider) {
            Entry::Configured(config) => Ok(Some(config)),
            Entry::Unnamed if !provider.is_configured() => Ok(None),
            Entry::Unnamed => Err(format!(
                "the webhook keys of the stack {names} have no entry {provider}, by which its events are read: store it with \
                 `switchhook providers put`, and plan again"
            )),
            Entry::Disabled => Err(format!(
                "the entry of {provider} in the webhook keys of the stack {names} is wrong: `switchhook providers list` names the \
                 field; correct it with `switchhook providers put`, and plan again"
            )),
        }
    }

    async fn read_entries(&self) -> Result<Entries<WebhookConfig>, String> {
        let secret = &self.names.webhook_keys_secret;
        match self.secrets.read(secret, SecretVersion::Current).await {
            Ok(text) => Ok(WebhookConfig::parse(&text)),
            Err(error) => Err(format!(
                "the webhook keys could not be read from the secret {secret}: {}. Your credentials need \
                 secretsmanager:GetSecretValue on it",
                error.with_causes()
            )),
        }
    }
}
