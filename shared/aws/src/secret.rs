//! The providers' keys and settings, read from Secrets Manager.
//!
//! **The rotation of a key needs no restart and rejects no webhook.** A function reads the secret at cold start and
//! again every five minutes. To rotate a key, add the new one to the provider's list, wait five minutes, change the key
//! at the provider, and remove the old one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_secretsmanager::Client;
use switchhook_domain::Timestamp;
use switchhook_providers::Providers;

use crate::error::Error;
use crate::telemetry::Decision;

/// Time after which the secret is read again.
pub const SECRETS_AGE_MAX: Duration = Duration::from_secs(5 * 60);

/// Providers and their keys, as last read from the secret.
#[derive(Debug)]
pub struct ProviderSecrets {
    secret: Option<(Client, String)>,
    cached: Mutex<(Arc<Providers>, Timestamp)>,
}

impl ProviderSecrets {
    /// Keys that never change, for a stack without a secret.
    #[must_use]
    pub fn fixed(providers: Providers) -> Self {
        Self { secret: None, cached: Mutex::new((Arc::new(providers), Timestamp::MAX)) }
    }

    /// Reads the keys from the secret.
    ///
    /// # Errors
    /// [`Error::ReadSecret`]. [`Error::Secret`] names every problem in the secret, but no key.
    pub async fn load(config: &SdkConfig, secret_id: String, now: Timestamp) -> Result<Self, Error> {
        let client = Client::new(config);
        let providers = read(&client, &secret_id).await?;
        Ok(Self { secret: Some((client, secret_id)), cached: Mutex::new((Arc::new(providers), now)) })
    }

    /// Returns the keys, and reads them again if they are old. If that fails, this process goes on with the old keys:
    /// only a cold start needs a valid secret.
    pub async fn current(&self, now: Timestamp) -> Arc<Providers> {
        let (cached, read_at) = self.cached();
        let Some((client, secret_id)) = &self.secret else { return cached };
        if now < read_at.plus(SECRETS_AGE_MAX) {
            return cached;
        }
        let providers = match read(client, secret_id).await {
            Ok(providers) => Arc::new(providers),
            Err(error) => {
                let decision = Decision {
                    function: "secret",
                    message: "the secret with the providers' keys could not be read again; the old keys stay in use",
                    action_taken: "secret_refresh_failed",
                    ..Decision::from_error(Some(&error))
                };
                decision.log(now, true);
                cached
            }
        };
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = (providers.clone(), now);
        providers
    }

    fn cached(&self) -> (Arc<Providers>, Timestamp) {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn read(client: &Client, secret_id: &str) -> Result<Providers, Error> {
    let answer = client
        .get_secret_value()
        .secret_id(secret_id)
        .send()
        .await
        .map_err(|error| Error::ReadSecret(Box::new(error)))?;
    Providers::from_json(answer.secret_string().unwrap_or_default()).map_err(Error::Secret)
}
