//! Halves of the providers' configuration, read from Secrets Manager.
//!
//! **The rotation of a key needs no restart.** A function reads its secret when it starts and again every five minutes. Ingress also
//! reads it when it has no entry for a webhook, or when the entry does not accept it, at most once in ten seconds. To rotate a key:
//!
//! 1. Add the new key to the provider's list.
//! 2. Change the key at the provider, ten seconds later or more.
//! 3. Remove the old one when no webhook matches it any more.
//!
//! **This rejects no webhook if the secret can be read**: a function that does not know the new key reads the secret before it rejects one.
//! An entry has only one scheme. If that changes, webhooks of the old scheme are rejected once the entry is read. Those of the new scheme are
//! rejected until then, for up to ten seconds after the last read. The provider must send them again.
//!
//! **A wrong entry disables at most its own provider, and only if no older entry of that provider is known.** A running
//! function goes on with the entry that it has. A function that starts takes that provider's entry from the version of the
//! secret before (`AWSPREVIOUS`). The same holds for all entries if the secret is not JSON. Providers that no older version names are
//! then disabled too, because the current version may have added them.
//!
//! **If the request for the secret fails, the version before is not used**: the current one may be right, and have other providers and
//! keys. A running function keeps all its entries. A function that starts disables every provider, and reads the secret again after
//! 30 seconds. [`Entries::is_unread`] tells such entries from wrong ones.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_secretsmanager::Client;
use switchhook_domain::Timestamp;
use switchhook_providers::{AccountConfig, Entries, SecretHalf, WebhookConfig};

use crate::error::Error;
use crate::sdk;
use crate::telemetry::Decision;

/// Time after which a secret is read again.
pub const SECRET_AGE_MAX: Duration = Duration::from_secs(5 * 60);
/// Shortest time between two reads of a secret after webhooks that no entry accepted.
pub const REJECTION_AGE_MIN: Duration = Duration::from_secs(10);
/// Time after which a secret is read again if it could not be read, or disables a provider.
pub const DISABLED_AGE_MAX: Duration = Duration::from_secs(30);

/// Version of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretVersion {
    Current,
    /// The version before the current one.
    Previous,
}

impl SecretVersion {
    /// Name of the version's stage in Secrets Manager.
    #[must_use]
    pub const fn stage(self) -> &'static str {
        match self {
            Self::Current => "AWSCURRENT",
            Self::Previous => "AWSPREVIOUS",
        }
    }
}

/// Client of Secrets Manager.
#[derive(Clone, Debug)]
pub struct Secrets(Client);

impl Secrets {
    #[must_use]
    pub fn new(config: &SdkConfig) -> Self {
        Self(sdk::secretsmanager(config))
    }

    /// Returns the text of a secret. Empty if the secret has no text.
    ///
    /// # Errors
    /// [`Error::ReadSecret`], also if there is no such secret or version.
    pub async fn read(&self, secret_id: &str, version: SecretVersion) -> Result<String, Error> {
        let request = self.0.get_secret_value().secret_id(secret_id).version_stage(version.stage());
        let answer = request.send().await.map_err(|error| Error::ReadSecret(Box::new(error)))?;
        Ok(answer.secret_string().unwrap_or_default().to_owned())
    }

    /// Stores a new version of a secret. The current one becomes the previous one.
    ///
    /// # Errors
    /// [`Error::WriteSecret`].
    pub async fn write(&self, secret_id: &str, text: String) -> Result<(), Error> {
        let request = self.0.put_secret_value().secret_id(secret_id).secret_string(text);
        request.send().await.map(drop).map_err(|error| Error::WriteSecret(Box::new(error)))
    }
}

/// Entries of all providers, as last read from their secret.
#[derive(Debug)]
pub struct ProviderSecret<C>(Source<C>);

/// Keys and settings that verify webhooks.
pub type WebhookKeys = ProviderSecret<WebhookConfig>;
/// Accounts that place calls.
pub type DialAccounts = ProviderSecret<AccountConfig>;

#[derive(Debug)]
enum Source<C> {
    Fixed(Arc<Entries<C>>),
    Secret { secrets: Secrets, secret_id: String, cached: Mutex<Option<Cached<C>>> },
}

#[derive(Debug)]
struct Cached<C> {
    entries: Arc<Entries<C>>,
    read_at: Timestamp,
    read_again_at: Timestamp,
}

impl<C: SecretHalf> ProviderSecret<C> {
    /// Entries that never change, for a stack without a secret.
    #[must_use]
    pub fn fixed(entries: Entries<C>) -> Self {
        Self(Source::Fixed(Arc::new(entries)))
    }

    /// Entries of this secret, which is read when they are asked for first.
    #[must_use]
    pub fn new(config: &SdkConfig, secret_id: String) -> Self {
        Self(Source::Secret { secrets: Secrets::new(config), secret_id, cached: Mutex::default() })
    }

    /// Reads the secret before the first request needs it.
    pub async fn warm_up(&self, now: Timestamp) {
        drop(self.current(now).await);
    }

    /// Returns the entries, and reads them again if they are old.
    pub async fn current(&self, now: Timestamp) -> Arc<Entries<C>> {
        let (secrets, secret_id, cached) = match &self.0 {
            Source::Fixed(entries) => return entries.clone(),
            Source::Secret { secrets, secret_id, cached } => (secrets, secret_id, cached),
        };
        let before = {
            let cached = cached.lock().unwrap_or_else(PoisonError::into_inner);
            match &*cached {
                Some(cached) if now < cached.read_again_at => return cached.entries.clone(),
                Some(cached) => Some(cached.entries.clone()),
                None => None,
            }
        };
        refresh(secrets, secret_id, cached, before.as_deref(), now).await
    }

    /// Returns the entries after no entry accepted a webhook: the secret is read again, because somebody may just have added or
    /// changed the entry. `None` if the secret was read within the last ten seconds. **So forged webhooks cause one read in ten seconds at most.**
    pub async fn after_rejection(&self, now: Timestamp) -> Option<Arc<Entries<C>>> {
        let (secrets, secret_id, cached) = match &self.0 {
            Source::Fixed(_) => return None,
            Source::Secret { secrets, secret_id, cached } => (secrets, secret_id, cached),
        };
        let before = {
            let mut cached = cached.lock().unwrap_or_else(PoisonError::into_inner);
            let cached = cached.as_mut().filter(|cached| now >= cached.read_at.plus(REJECTION_AGE_MIN))?;
            // Requests that are handled at the same time do not read it too.
            cached.read_at = now;
            cached.entries.clone()
        };
        Some(refresh(secrets, secret_id, cached, Some(&before), now).await)
    }
}

/// Reads the secret and keeps its entries.
async fn refresh<C: SecretHalf>(
    secrets: &Secrets,
    secret_id: &str,
    cached: &Mutex<Option<Cached<C>>>,
    before: Option<&Entries<C>>,
    now: Timestamp,
) -> Arc<Entries<C>> {
    let entries = Arc::new(read(secrets, secret_id, before, now).await);
    let age_max = if entries.needs_older() { DISABLED_AGE_MAX } else { SECRET_AGE_MAX };
    let read = Cached { entries: entries.clone(), read_at: now, read_again_at: now.plus(age_max) };
    *cached.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
    entries
}

/// Reads the secret. Entries that are wrong are those of `before`, or else those of the version before. If the request fails, all
/// entries are those of `before`.
async fn read<C: SecretHalf>(
    secrets: &Secrets,
    secret_id: &str,
    before: Option<&Entries<C>>,
    now: Timestamp,
) -> Entries<C> {
    let entries = match secrets.read(secret_id, SecretVersion::Current).await {
        Ok(text) => {
            let mut entries = C::parse(&text);
            if !entries.problems().is_empty() {
                log_problem::<C>(entries.problems().join("; "), now);
            }
            if let Some(before) = before {
                entries = entries.or_from(before);
            }
            if entries.needs_older()
                && let Ok(text) = secrets.read(secret_id, SecretVersion::Previous).await
            {
                entries = entries.or_from(&C::parse(&text));
            }
            entries
        }
        Err(error) => {
            let problem = error.with_causes();
            log_problem::<C>(problem.clone(), now);
            before.cloned().unwrap_or_else(|| Entries::unread(problem))
        }
    };
    for provider in entries.disabled() {
        let decision = Decision {
            message: "a provider is disabled: its entry cannot be read",
            action_taken: "provider_disabled",
            provider: Some(provider.as_str()),
            ..decision::<C>()
        };
        decision.log(now, true);
    }
    entries
}

fn log_problem<C: SecretHalf>(problem: String, now: Timestamp) {
    let decision = Decision {
        message: "a secret has problems; older entries stay in use",
        action_taken: "secret_refresh_failed",
        error: Some(problem),
        ..decision::<C>()
    };
    decision.log(now, true);
}

fn decision<C: SecretHalf>() -> Decision<'static> {
    Decision { function: "secret", cause: Some(C::NAME), ..Decision::default() }
}

#[cfg(test)]
mod tests;
