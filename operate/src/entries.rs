//! Entries of the providers, as the secret of the webhook keys holds them now.

use std::sync::Arc;

use switchhook_aws::secret::{SecretVersion, Secrets};
use switchhook_providers::{Entries, SecretHalf, WebhookConfig};
use tokio::sync::OnceCell;

/// Webhook keys of a stack, or the reason why they could not be read. They are read when they are first asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredEntries(Arc<OnceCell<Result<Entries<WebhookConfig>, String>>>);

impl StoredEntries {
    /// Returns the entries of this secret.
    pub(crate) async fn of(&self, secrets: &Secrets, secret_id: &str) -> &Result<Entries<WebhookConfig>, String> {
        let read = async {
            let read = secrets.read(secret_id, SecretVersion::Current).await.map(|text| WebhookConfig::parse(&text));
            read.map_err(|error| {
                let error = error.with_causes();
                format!(
                    "the webhook keys could not be read from the secret {secret_id}: {error}. Your credentials need \
                     secretsmanager:GetSecretValue on it"
                )
            })
        };
        self.0.get_or_init(|| read).await
    }

    /// Returns the first problem of the entries of providers that Switchhook has code for, if they were asked for. An event of a provider
    /// that is described by its entry is not read at all without it.
    pub(crate) fn problem(&self) -> Option<&str> {
        match self.0.get()? {
            Ok(entries) => entries.problems().iter().find(|problem| !problem.starts_with("x-")).map(String::as_str),
            Err(error) => Some(error),
        }
    }
}
