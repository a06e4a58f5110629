//! Cursors of the drift check.

use switchhook_domain::{CallId, Timestamp};

use super::item::{DriftItem, drift_key};
use super::table::Inbox;
use crate::calls::{WakeEntry, WakeQueue};
use crate::error::Error;

/// Progress of the drift check in one shard of the calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftCursor {
    /// Settled calls up to this time were looked at, those of the very time only up to `settled_call`.
    pub settled_until: Timestamp,
    /// The last settled call that was looked at. `None` if no call of the time `settled_until` was.
    pub settled_call: Option<CallId>,
    /// Time up to which settled calls are to be looked at.
    pub target: Timestamp,
    /// The last open call that was looked at, and its wake queue. `None` if the next check begins with the first open call.
    pub open: Option<(WakeQueue, WakeEntry)>,
}

impl DriftCursor {
    /// Cursor before the first check: settled calls since this time are to be looked at.
    #[must_use]
    pub const fn starting_at(settled_until: Timestamp) -> Self {
        Self { settled_until, settled_call: None, target: settled_until, open: None }
    }

    /// True if settled calls are left to be looked at.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.settled_until < self.target
    }
}

impl Inbox {
    /// Reads the progress of the drift check in a shard. `None` before the first check.
    ///
    /// # Errors
    /// [`Error::ReadInbox`], [`Error::DecodeInbox`].
    pub async fn drift_cursor(&self, shard: u64) -> Result<Option<DriftCursor>, Error> {
        let Some(item) = self.get_item(&drift_key(shard)).await? else { return Ok(None) };
        let item: DriftItem =
            serde_dynamo::from_item(item).map_err(|_| Error::DecodeInbox("the cursor of the drift check"))?;
        let open = item.open_queue.zip(item.open_call).zip(item.open_wake_at);
        // An unknown queue belongs to another version. The walk then begins anew.
        let open = open.and_then(|((queue, call_id), wake_at)| {
            let queue = WakeQueue::OPEN.into_iter().find(|known| known.to_string() == queue)?;
            Some((queue, WakeEntry { call_id, wake_at }))
        });
        Ok(Some(DriftCursor {
            settled_until: item.settled_until,
            settled_call: item.settled_call,
            target: item.target,
            open,
        }))
    }

    /// Stores the progress of the drift check in a shard. Two checks at the same time at worst look at the same calls twice.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn set_drift_cursor(&self, shard: u64, cursor: &DriftCursor) -> Result<(), Error> {
        let DriftCursor { settled_until, settled_call, target, open } = cursor.clone();
        let (open_queue, open_entry) = open.unzip();
        self.put_item(&DriftItem {
            event_id: drift_key(shard),
            settled_until,
            settled_call,
            target,
            open_queue: open_queue.map(|queue| queue.to_string()),
            open_wake_at: open_entry.as_ref().map(|entry| entry.wake_at),
            open_call: open_entry.map(|entry| entry.call_id),
        })
        .await
    }
}
