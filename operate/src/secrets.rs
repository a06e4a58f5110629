//! Storing a providers file in the two secrets of a stack.
//!
//! **A secret is written only if one of its entries changes.** Its previous version is what a function that starts falls back
//! to. A second version with the same content would push the last different one out.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};
use switchhook_aws::secret::SecretVersion;
use switchhook_providers::{AccountConfig, ProvidersFile, SecretHalf, WebhookConfig};

use crate::error::{Error, Refusal};
use crate::stack::Stack;

/// Largest value of a secret. Source: the page "AWS Secrets Manager quotas" of the AWS documentation.
const SECRET_BYTES_MAX: usize = 65_536;

/// Effect of storing a file on one entry of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryChange {
    /// The secret has no such entry, before and after.
    Absent,
    Unchanged,
    /// The file does not name the provider, and its entry stays.
    Kept,
    Added,
    Changed,
    Removed,
}

/// Effect of storing a file on the entries of one provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProviderChange {
    /// Name of the entry. A stored one may be the name of no provider.
    pub provider: String,
    pub webhook_keys: EntryChange,
    pub dial_account: EntryChange,
}

/// Effect of storing a file on both secrets. Shows no key.
#[derive(Clone, Debug, Serialize)]
pub struct SecretsPlan {
    pub changes: Vec<ProviderChange>,
    /// Problems of entries that are kept, and accounts without a rate. They do not keep the file from being stored.
    pub warnings: Vec<String>,
    #[serde(skip)]
    webhook_keys: Half,
    #[serde(skip)]
    dial_accounts: Half,
}

/// One secret before and after.
#[derive(Clone, Default)]
struct Half {
    stored: Map<String, Value>,
    wanted: Map<String, Value>,
}

impl SecretsPlan {
    /// True if a secret changes.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.webhook_keys.has_changed() || self.dial_accounts.has_changed()
    }
}

/// Compares a file with the secrets of the stack. Entries that the file does not name are kept, or removed with `replace`.
///
/// # Errors
/// A secret could not be read. [`Refusal::UnreadableSecret`] if entries should be kept, and a secret is not a JSON object.
/// [`Refusal::LargeSecret`] if a secret would be larger than Secrets Manager allows.
pub async fn plan(stack: &Stack, file: &ProvidersFile, replace: bool) -> Result<SecretsPlan, Error> {
    let names = &stack.names;
    let keys = stored::<WebhookConfig>(stack, &names.webhook_keys_secret, replace).await?;
    let accounts = stored::<AccountConfig>(stack, &names.dial_accounts_secret, replace).await?;
    let named: BTreeSet<String> = file.webhook_keys_document().into_iter().map(|(name, _)| name).collect();
    let webhook_keys = Half::new(keys, file.webhook_keys_document(), &named, replace);
    let dial_accounts = Half::new(accounts, file.dial_accounts_document(), &named, replace);
    for (secret, half) in [(WebhookConfig::NAME, &webhook_keys), (AccountConfig::NAME, &dial_accounts)] {
        let bytes = half.text().len();
        if bytes > SECRET_BYTES_MAX {
            return Err(Refusal::LargeSecret { secret, bytes, most: SECRET_BYTES_MAX }.into());
        }
    }
    let all: BTreeSet<&String> = webhook_keys.names().chain(dial_accounts.names()).collect();
    let change = |name: &&String| ProviderChange {
        provider: (*name).clone(),
        webhook_keys: webhook_keys.change(name, &named),
        dial_account: dial_accounts.change(name, &named),
    };
    let changes = all.iter().map(change).collect();
    let warnings = [webhook_keys.problems::<WebhookConfig>(), dial_accounts.problems::<AccountConfig>()].concat();
    let mut plan = SecretsPlan { changes, warnings, webhook_keys, dial_accounts };
    let rates = stack.dial_rates();
    for provider in file.dial_accounts().named() {
        if file.dial_accounts().config(provider).is_some() && rates.pacing(provider).is_none() {
            // The list of accounts keeps one that has lost its rate.
            let result = if provider.is_named() {
                "the API refuses its calls, or they wait if it had one before"
            } else {
                "its calls wait"
            };
            plan.warnings.push(format!("{provider} has an account, but no rate in DialRates: {result}"));
        }
    }
    for provider in file.outcome_providers() {
        if !stack.names.settings.outcome_providers.contains(&provider) {
            plan.warnings.push(format!(
                "{provider} reports an outcome, but OutcomeProviders does not name it: its calls are settled by their ending"
            ));
        }
    }
    Ok(plan)
}

/// Stores the secrets that change. Returns their names.
///
/// # Errors
/// A secret could not be written. The other one may have been: the same plan can be made and stored again.
pub async fn store(stack: &Stack, plan: &SecretsPlan) -> Result<Vec<&'static str>, Error> {
    let mut stored = Vec::new();
    for (name, secret, half) in [
        (WebhookConfig::NAME, &stack.names.webhook_keys_secret, &plan.webhook_keys),
        (AccountConfig::NAME, &stack.names.dial_accounts_secret, &plan.dial_accounts),
    ] {
        if half.has_changed() {
            stack.secrets.write(secret, half.text()).await?;
            stored.push(name);
        }
    }
    Ok(stored)
}

/// Entries of a secret now.
async fn stored<C: SecretHalf>(stack: &Stack, secret: &str, replace: bool) -> Result<Map<String, Value>, Error> {
    let text = stack.secrets.read(secret, SecretVersion::Current).await?;
    match serde_json::from_str(&text) {
        Ok(stored) => Ok(stored),
        Err(_) if replace => Ok(Map::new()),
        Err(_) => Err(Refusal::UnreadableSecret(C::NAME).into()),
    }
}

impl Half {
    fn new(stored: Map<String, Value>, file: Map<String, Value>, named: &BTreeSet<String>, replace: bool) -> Self {
        let is_kept = |name: &String| !replace && !named.contains(name);
        let kept = stored.iter().filter(|(name, _)| is_kept(name)).map(|(name, entry)| (name.clone(), entry.clone()));
        let wanted = kept.chain(file).collect();
        Self { stored, wanted }
    }

    fn has_changed(&self) -> bool {
        self.stored != self.wanted
    }

    /// Text of the secret after the change.
    fn text(&self) -> String {
        Value::from(self.wanted.clone()).to_string()
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        self.stored.keys().chain(self.wanted.keys())
    }

    fn change(&self, name: &str, named: &BTreeSet<String>) -> EntryChange {
        match (self.stored.get(name), self.wanted.get(name)) {
            (None, None) => EntryChange::Absent,
            (None, Some(_)) => EntryChange::Added,
            (Some(_), None) => EntryChange::Removed,
            (Some(_), Some(_)) if !named.contains(name) => EntryChange::Kept,
            (Some(stored), Some(wanted)) if stored == wanted => EntryChange::Unchanged,
            (Some(_), Some(_)) => EntryChange::Changed,
        }
    }

    /// Problems of the entries after the change. Those of the file have none.
    fn problems<C: SecretHalf>(&self) -> Vec<String> {
        let wanted = C::parse(&self.text());
        wanted.problems().iter().map(|problem| format!("kept in the {}: {problem}", C::NAME)).collect()
    }
}

/// Leaves out the entries, which contain keys.
impl std::fmt::Debug for Half {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Half").field("has_changed", &self.has_changed()).finish_non_exhaustive()
    }
}
