//! Cursor of the discovery of calls that nobody reported.

use switchhook_domain::{Provider, Timestamp};

use super::item::{DiscoveryItem, discovery_key};
use super::table::Inbox;
use crate::error::Error;

/// Progress of reading a provider's list of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryCursor {
    /// Start of the period that is being read, or was read last.
    pub from: Timestamp,
    pub until: Timestamp,
    /// Next page of the list. `None` if the period was read to its end, or is at its first page.
    pub page: Option<String>,
    /// Number of calls of that page which the list only names, and which were handled before the time was over.
    pub handled: u64,
    /// Time since which the next page cannot be read. `None` if it was not tried, or could be read.
    pub unreadable_since: Option<Timestamp>,
}

impl DiscoveryCursor {
    /// True if the period is not read to its end.
    #[must_use]
    pub const fn is_in_progress(&self) -> bool {
        self.page.is_some() || self.handled > 0
    }
}

impl Inbox {
    /// Reads the progress of discovery at a provider. `None` before the first reading.
    ///
    /// # Errors
    /// [`Error::ReadInbox`], [`Error::DecodeInbox`].
    pub async fn discovery_cursor(&self, provider: Provider) -> Result<Option<DiscoveryCursor>, Error> {
        let Some(item) = self.get_item(&discovery_key(provider)).await? else { return Ok(None) };
        let unreadable = |_| Error::DecodeInbox("the cursor of discovery");
        let item: DiscoveryItem = serde_dynamo::from_item(item).map_err(unreadable)?;
        let DiscoveryItem { event_id: _, from, until, page, handled, unreadable_since } = item;
        Ok(Some(DiscoveryCursor { from, until, page, handled, unreadable_since }))
    }

    /// Stores the progress of discovery at a provider. Two runs at the same time at worst read the same page twice.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn set_discovery_cursor(&self, provider: Provider, cursor: &DiscoveryCursor) -> Result<(), Error> {
        let DiscoveryCursor { from, until, page, handled, unreadable_since } = cursor.clone();
        let event_id = discovery_key(provider);
        self.put_item(&DiscoveryItem { event_id, from, until, page, handled, unreadable_since }).await
    }
}
