//! The key that signs the webhook of a check: the first key of the generic provider, from the stack's own secret.

use std::time::Duration;

use switchhook_aws::sdk;
use switchhook_domain::{Provider, Timestamp};
use switchhook_providers::{Entry, SecretHalf, SignedWebhook, WebhookConfig, sign_as_configured};

use super::advice;
use super::step::Finding;
use crate::aws::AwsServices;
use crate::error::Error;
use crate::stack::Stack;

/// Time after which every function has read a new version of the secret.
pub(super) const READ_AGAIN: Duration = Duration::from_secs(5 * 60);

/// Configuration of the generic provider, as the stack has stored it.
pub(super) struct StoredKey {
    config: WebhookConfig,
    /// Time at which the secret was stored. `None` if it is not known.
    pub(super) stored_at: Option<Timestamp>,
}

impl StoredKey {
    /// Reads the key. Returns the finding, also if there is no key.
    pub(super) async fn read(stack: &Stack) -> Result<(Self, Finding), Finding> {
        let (text, stored_at) = match read(stack).await {
            Ok(secret) => secret,
            Err(error) => return Err(advice::failed(&error)),
        };
        let entries = WebhookConfig::parse(&text);
        let (problems, put) =
            (entries.problems().join("; "), format!("switchhook providers put FILE {}", stack.options()));
        let config = match entries.entry(Provider::Generic) {
            Entry::Configured(config) => config.clone(),
            Entry::Unnamed => return Err(no_key(&put, text.trim() == "{}")),
            Entry::Disabled => {
                let text = format!("the secret has no entry of the generic provider that can be read: {problems}");
                return Err(Finding::failed(text, format!("correct it: {put}")));
            }
        };
        let since = stored_at.map_or_else(String::new, |at| format!(", stored {at}"));
        let found = if problems.is_empty() {
            Finding::passed(format!("the secret has a key of the generic provider{since}"))
        } else {
            let text = format!("the secret has a key of the generic provider{since}, and problems: {problems}");
            Finding::note(text, format!("correct the entries, which disable their providers: {put}"))
        };
        Ok((Self { config, stored_at }, found))
    }

    /// Signs a body of the generic provider.
    pub(super) fn sign(&self, url: &str, body: &[u8], now: Timestamp) -> Option<SignedWebhook<String>> {
        sign_as_configured(Provider::Generic, &self.config, url, body, now)
    }
}

async fn read(stack: &Stack) -> Result<(String, Option<Timestamp>), Error> {
    let services = match &stack.services {
        Some(services) => services.clone(),
        None => {
            let url = stack.local.as_deref().unwrap_or_default();
            AwsServices::new(&sdk::from_url(&format!("{url}/aws"), &stack.names.region))?
        }
    };
    services.secret(&stack.names.webhook_keys_secret).await
}

/// Describes a secret without a key. `put` is the command that stores one.
fn no_key(put: &str, is_empty: bool) -> Finding {
    let text = if is_empty {
        "the secret is empty, so every webhook is answered 404"
    } else {
        "the secret has no key of the generic provider, with which the check signs its webhook"
    };
    let advice = format!(
        "make a key with `openssl rand -hex 32`, put {{\"generic\": {{\"keys\": [\"KEY\"]}}}} into the providers file beside the \
         providers that you use, and store it: {put}"
    );
    Finding::failed(text, advice)
}
