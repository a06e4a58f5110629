//! The further accounts that calls may name, in one item of the calls table.
//!
//! **Wake queues are named by provider, and the names of further accounts are not in the code.** So code that reads all wake queues reads
//! this list first, and code that creates a call looks the account up here. The scheduler lists each account that has a rate. An account
//! stays listed when it has lost its rate, because calls may still wait for it.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use switchhook_domain::{PROVIDER_HEALTH_PREFIX, Provider};

use super::table::Calls;
use super::wake_queue::WakeQueue;
use crate::dynamodb::{Item, text};
use crate::error::{Error, Source};

/// Key of the list, after the prefix of the providers' health. No provider has this name.
const KEY: &str = "accounts";
/// Attribute with the names.
const NAMES: &str = "names";

impl Calls {
    /// Returns the listed accounts, by one eventually consistent read.
    ///
    /// # Errors
    /// [`Error::ListCalls`].
    pub async fn accounts(&self) -> Result<BTreeSet<Provider>, Error> {
        let request = self.client.get_item().table_name(&self.table).key("call_id", list_key());
        let answer = request.send().await.map_err(|error| Error::ListCalls(Box::new(error)))?;
        let names = answer.item.and_then(|mut item| item.remove(NAMES));
        let names = names.as_ref().and_then(|names| names.as_ss().ok());
        // A name that cannot be read belongs to another version.
        Ok(names.into_iter().flatten().filter_map(|name| name.parse().ok()).collect())
    }

    /// Returns the first of these providers that is an account and not listed. A process does not read the list again for an
    /// account that it found there.
    ///
    /// # Errors
    /// [`Error::ListCalls`].
    pub async fn unlisted_account(&self, providers: &[Provider]) -> Result<Option<Provider>, Error> {
        if self.known_accounts.first_other(providers).is_some() {
            self.known_accounts.extend(self.accounts().await?);
        }
        Ok(self.known_accounts.first_other(providers))
    }

    /// Adds accounts to the list.
    ///
    /// # Errors
    /// [`Error::WriteCall`].
    pub async fn list_accounts(&self, accounts: &BTreeSet<Provider>) -> Result<(), Error> {
        let names = AttributeValue::Ss(accounts.iter().map(ToString::to_string).collect());
        add(&self.client, &self.table, names).await.map_err(Error::WriteCall)
    }

    /// Returns the wake queues of pending calls, with those of the [accounts](Self::accounts).
    ///
    /// # Errors
    /// [`Error::ListCalls`].
    pub async fn pending_queues(&self) -> Result<Vec<WakeQueue>, Error> {
        Ok(WakeQueue::pending(&self.accounts().await?))
    }
}

/// Returns the names in an item of the calls table, if it is the list.
pub(crate) fn names_in(item: &Item) -> Option<&AttributeValue> {
    (item.get("call_id") == Some(&list_key())).then(|| item.get(NAMES))?
}

/// Adds names to the list in a calls table.
pub(crate) async fn add(client: &Client, table: &str, names: AttributeValue) -> Result<(), Source> {
    let request = client.update_item().table_name(table).key("call_id", list_key());
    let request = request.update_expression("ADD #names :names").expression_attribute_names("#names", NAMES);
    request.expression_attribute_values(":names", names).send().await.map(drop).map_err(Into::into)
}

fn list_key() -> AttributeValue {
    text(&format!("{PROVIDER_HEALTH_PREFIX}{KEY}"))
}
