//! Providers file: the whole configuration in one document, for people and for `switchhook dev`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use switchhook_domain::Provider;

use super::account::AccountConfig;
use super::edge::{EDGE, Edge};
use super::entries::Entries;
use super::fields::ConfigError;
use super::parse::{self, ACCOUNT_FIELDS, KeyLengths, Part, SHARED_FIELDS};
use super::webhook::WebhookConfig;

/// The configured providers.
#[derive(Clone)]
pub struct ProvidersFile {
    webhook_keys: Entries<WebhookConfig>,
    dial_accounts: Entries<AccountConfig>,
    document: Map<String, Value>,
}

impl ProvidersFile {
    /// Reads the text of a providers file, for example `{"retell":{"keys":["new","old"]},
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
    /// The `keys` of Telnyx are the account's public keys.
    ///
    /// An entry `edge` has the keys of the proxy in front of the stack: `{"edge":{"keys":["new","old"]}}`.
    ///
    /// # Errors
    ///
    /// Every problem of the whole document at once. Each names its provider and field, and none shows a value. A document that is no JSON, or
    /// that names a field twice, has one problem, with its line.
    pub fn from_json(json: &str) -> Result<Self, ConfigError> {
        Self::parse(json, KeyLengths::Enforced)
    }

    /// Reads the text of a providers file by this rule for the length of its keys.
    ///
    /// # Errors
    ///
    /// The same as [`Self::from_json`].
    pub fn parse(json: &str, lengths: KeyLengths) -> Result<Self, ConfigError> {
        let document = parse::new_document(json)?;
        let mut problems = Vec::new();
        let (mut webhook_keys, mut dial_accounts, mut edge) = (BTreeMap::new(), BTreeMap::new(), None);
        for (name, value) in &document {
            if name == EDGE {
                edge = Edge::read(value.clone(), &mut problems);
                continue;
            }
            match name.parse::<Provider>() {
                Ok(provider) => {
                    let halves = parse::entry(provider, value.clone(), Part::Both, lengths, &mut problems);
                    let (webhook, account) = halves.map_or((None, None), |halves| (halves.webhook, halves.account));
                    webhook_keys.extend(webhook.map(|config| (provider, config)));
                    dial_accounts.extend(account.map(|config| (provider, config)));
                }
                Err(unknown) => problems.push(parse::unknown_name(&unknown)),
            }
        }
        if !problems.is_empty() {
            return Err(ConfigError::new(problems));
        }
        let webhook_keys = Entries::configured(webhook_keys, edge);
        let dial_accounts = Entries::configured(dial_accounts, None);
        Ok(Self { webhook_keys, dial_accounts, document })
    }

    /// Keys and settings that verify webhooks.
    #[must_use]
    pub fn webhook_keys(&self) -> &Entries<WebhookConfig> {
        &self.webhook_keys
    }

    /// Configured providers whose entries say that they report an outcome.
    pub fn outcome_providers(&self) -> impl Iterator<Item = Provider> {
        let reports =
            |provider: &Provider| self.webhook_keys.config(*provider).is_some_and(WebhookConfig::reports_outcome);
        self.webhook_keys.named().filter(reports)
    }

    /// Accounts that place calls.
    #[must_use]
    pub fn dial_accounts(&self) -> &Entries<AccountConfig> {
        &self.dial_accounts
    }

    /// Half of the document for the secret of the webhook keys, as a JSON object. Contains keys.
    #[must_use]
    pub fn webhook_keys_document(&self) -> Map<String, Value> {
        let without_account = |(name, entry): (&String, &Value)| {
            let fields = entry.as_object()?.iter();
            let fields = fields.filter(|(field, _)| !ACCOUNT_FIELDS.contains(&field.as_str()));
            Some((name.clone(), fields.map(|(field, value)| (field.clone(), value.clone())).collect()))
        };
        self.document.iter().filter_map(without_account).collect()
    }

    /// Half of the document for the secret of the dial accounts, as a JSON object. Contains keys.
    #[must_use]
    pub fn dial_accounts_document(&self) -> Map<String, Value> {
        let account = |(name, entry): (&String, &Value)| {
            let fields = entry.as_object().filter(|fields| fields.contains_key("dial"))?.iter();
            let belongs = |name: &str| ACCOUNT_FIELDS.contains(&name) || SHARED_FIELDS.contains(&name);
            let fields = fields.filter(|(field, _)| belongs(field));
            Some((name.clone(), fields.map(|(field, value)| (field.clone(), value.clone())).collect()))
        };
        self.document.iter().filter_map(account).collect()
    }
}

/// Leaves out the document, which contains the keys.
impl std::fmt::Debug for ProvidersFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProvidersFile")
            .field("webhook_keys", &self.webhook_keys)
            .field("dial_accounts", &self.dial_accounts)
            .finish_non_exhaustive()
    }
}
