//! The secret that holds the providers' keys.

use aws_config::SdkConfig;
use aws_sdk_secretsmanager::Client;
use switchhook_providers::Providers;

use crate::error::Error;

/// Reads the providers' keys. Once, at cold start: after a rotation the functions are started again.
///
/// # Errors
/// [`Error::ReadSecret`]; [`Error::Secret`] names everything that is wrong with it, and never a key.
pub async fn providers(config: &SdkConfig, secret_id: &str) -> Result<Providers, Error> {
    let answer = Client::new(config)
        .get_secret_value()
        .secret_id(secret_id)
        .send()
        .await
        .map_err(|error| Error::ReadSecret(Box::new(error)))?;
    Providers::from_json(answer.secret_string().unwrap_or_default()).map_err(Error::Secret)
}
