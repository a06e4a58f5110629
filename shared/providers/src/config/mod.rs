//! Configuration of the providers, read once from one secret. A wrong configuration is rejected with a list of all its
//! problems.
//!
//! The secret is one JSON object with one object per provider. `docs/providers/` explains every field.

mod account;
mod fields;
mod pacing;
mod parse;
mod provider;
mod scheme;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;
use switchhook_domain::Provider;

pub use fields::ConfigError;
pub use pacing::{PER_SECOND_MIN, Pacing};
pub use provider::{DEDUPE_RETENTION, DialConfig, ProviderConfig, WINDOW_MAX};

pub(crate) use scheme::{HmacScheme, SharedKey, SignatureEncoding, VapiScheme};

pub(crate) use account::{Account, RetellAccount, TelnyxAccount, TwilioAccount, VapiAccount};

/// The configured providers.
#[derive(Clone, Debug)]
pub struct Providers(BTreeMap<Provider, ProviderConfig>);

impl Providers {
    /// Reads the text of the secret, for example `{"retell":{"keys":["new","old"]},
    /// "twilio":{"keys":["…"],"public_url":"https://example.com"},
    /// "generic":{"keys":["…"],"window_seconds":300,"allowed_sources":["10.0.0.0/8"]}}`.
    ///
    /// A provider that places calls also has a `dial`:
    ///
    /// * Retell: `{"api_key":"…","agent_id":"…"}`.
    /// * Twilio: `{"account_sid":"…","auth_token":"…","twiml_url":"https://…","machine_detection":true}`, or
    ///   `api_key_sid` and `api_key_secret` instead of `auth_token`.
    /// * Vapi: `{"api_key":"…","assistant_id":"…","phone_number_id":"…"}`.
    /// * Telnyx: `{"api_key":"…","connection_id":"…"}`.
    ///
    /// Each `dial` may set `"per_second":1.0`. The `keys` of Telnyx are the account's public keys.
    ///
    /// # Errors
    ///
    /// Every problem of the whole document at once. Each names its provider and field, and none shows a value.
    pub fn from_json(json: &str) -> Result<Self, ConfigError> {
        let document: Value = serde_json::from_str(json).map_err(|error| {
            ConfigError::one(format!("not JSON at line {}, column {}", error.line(), error.column()))
        })?;
        let Value::Object(document) = document else {
            return Err(ConfigError::one("not a JSON object".to_owned()));
        };

        let mut problems = Vec::new();
        let mut providers = BTreeMap::new();
        for (name, fields) in document {
            match name.parse::<Provider>() {
                Ok(provider) => {
                    if let Some(config) = parse::provider_config(provider, fields, &mut problems) {
                        providers.insert(provider, config);
                    }
                }
                Err(unknown) => problems.push(unknown.to_string()),
            }
        }
        if problems.is_empty() { Ok(Self(providers)) } else { Err(ConfigError::new(problems)) }
    }

    /// Configuration of one provider. `None` if the provider is not configured: ingress then answers its webhooks with
    /// 404, like those of an unknown provider.
    #[must_use]
    pub fn config(&self, provider: Provider) -> Option<&ProviderConfig> {
        self.0.get(&provider)
    }
}
