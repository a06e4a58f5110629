//! Accounts that this process has read from the list of accounts.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use switchhook_domain::Provider;

#[derive(Clone, Debug, Default)]
pub(super) struct KnownAccounts(Arc<Mutex<BTreeSet<Provider>>>);

impl KnownAccounts {
    /// Returns the first of these further accounts that is not known to be listed.
    pub(super) fn first_other(&self, providers: &[Provider]) -> Option<Provider> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        providers.iter().copied().find(|provider| provider.is_named() && !known.contains(provider))
    }

    pub(super) fn extend(&self, accounts: BTreeSet<Provider>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(accounts);
    }
}
