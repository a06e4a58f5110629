//! Cursors of the drift check.

use std::collections::BTreeMap;
use std::time::Duration;

use switchhook_domain::{CallId, Provider, Timestamp};

use super::item::{DriftItem, DriftWalkItem, drift_key};
use super::table::Inbox;
use crate::calls::{WakeEntry, WakeQueue};
use crate::error::Error;

/// Progress of the drift check in one shard of the calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftCursor {
    /// Walk through the settled calls of all providers, except those in `behind`.
    pub settled: DriftWalk,
    /// Providers that could not be asked when that walk came to their calls, or were slow. Each has a walk of its own from there on, until
    /// it has [caught up](Self::join).
    pub behind: BTreeMap<Provider, DriftWalk>,
    /// The last open call that was looked at, and its wake queue. `None` if the next check begins with the first open call.
    pub open: Option<(WakeQueue, WakeEntry)>,
}

/// Progress of a walk through the settled calls of a shard, in the order in which they were settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftWalk {
    /// Settled calls up to this time were looked at, those of the very time only up to `settled_call`.
    pub settled_until: Timestamp,
    /// The last settled call that was looked at. `None` if no call of the time `settled_until` was.
    pub settled_call: Option<CallId>,
    /// Time up to which settled calls are to be looked at.
    pub target: Timestamp,
}

impl DriftCursor {
    /// Cursor before the first check: settled calls since this time are to be looked at.
    #[must_use]
    pub const fn starting_at(settled_until: Timestamp) -> Self {
        let settled = DriftWalk { settled_until, settled_call: None, target: settled_until };
        Self { settled, behind: BTreeMap::new(), open: None }
    }

    /// Moves the target of every walk to this time, if it is before.
    pub fn set_target(&mut self, target: Timestamp) {
        for walk in self.behind.values_mut().chain([&mut self.settled]) {
            walk.target = walk.target.max(target);
        }
    }

    /// Returns the walks that have settled calls left: a provider for its own walk, `None` for the walk of all others.
    #[must_use]
    pub fn walks_left(&self) -> Vec<Option<Provider>> {
        let walks = [(None, &self.settled)].into_iter();
        let walks = walks.chain(self.behind.iter().map(|(provider, walk)| (Some(*provider), walk)));
        walks.filter(|(_, walk)| walk.settled_until < walk.target).map(|(provider, _)| provider).collect()
    }

    /// Returns the walk of a provider or of all others, and the last time whose calls it has to look at now. `None` if there is no such
    /// time: the provider is not behind, or its walk has caught up.
    #[must_use]
    pub fn walk(&self, provider: Option<Provider>) -> Option<(DriftWalk, Timestamp)> {
        let (walk, until) = match provider {
            None => (&self.settled, self.settled.target),
            Some(provider) => {
                let walk = self.behind.get(&provider)?;
                (walk, walk.target.min(self.looked_at_until()))
            }
        };
        (walk.settled_until <= until).then(|| (walk.clone(), until))
    }

    /// Stores the progress of a walk.
    pub fn set_walk(&mut self, provider: Option<Provider>, walk: DriftWalk) {
        match provider {
            None => self.settled = walk,
            Some(provider) => drop(self.behind.insert(provider, walk)),
        }
    }

    /// Gives the calls of each provider whose walk has caught up back to the walk of all others. Only this walk may do so, and only
    /// between two pages: while it reads a page, it passes over the calls of the providers that were behind before.
    pub fn join(&mut self) {
        let looked_at_until = self.looked_at_until();
        self.behind.retain(|_, walk| walk.settled_until <= looked_at_until);
    }

    /// Latest time of a call at which the walk of all others may have looked.
    fn looked_at_until(&self) -> Timestamp {
        let DriftWalk { settled_until, settled_call, target: _ } = &self.settled;
        if settled_call.is_some() { *settled_until } else { settled_until.minus(Duration::from_millis(1)) }
    }
}

impl DriftWalk {
    /// Moves the walk behind a settled call, or to the first call of this time.
    pub fn go_to(&mut self, settled_until: Timestamp, settled_call: Option<CallId>) {
        (self.settled_until, self.settled_call) = (settled_until, settled_call);
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
        let walk = |item: DriftWalkItem| {
            let DriftWalkItem { settled_until, settled_call, target } = item;
            DriftWalk { settled_until, settled_call, target }
        };
        let behind = item.behind.into_iter().filter_map(|(name, item)| Some((name.parse().ok()?, walk(item))));
        Ok(Some(DriftCursor { settled: walk(item.settled), behind: behind.collect(), open }))
    }

    /// Stores the progress of the drift check in a shard. Two checks at the same time at worst look at the same calls twice.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn set_drift_cursor(&self, shard: u64, cursor: &DriftCursor) -> Result<(), Error> {
        let DriftCursor { settled, behind, open } = cursor.clone();
        let (open_queue, open_entry) = open.unzip();
        let walk = |walk: DriftWalk| {
            let DriftWalk { settled_until, settled_call, target } = walk;
            DriftWalkItem { settled_until, settled_call, target }
        };
        self.put_item(&DriftItem {
            event_id: drift_key(shard),
            settled: walk(settled),
            behind: behind.into_iter().map(|(provider, of)| (provider.to_string(), walk(of))).collect(),
            open_queue: open_queue.map(|queue| queue.to_string()),
            open_wake_at: open_entry.as_ref().map(|entry| entry.wake_at),
            open_call: open_entry.map(|entry| entry.call_id),
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While the walk of all others reads a page, it passes over the calls of the providers that were behind before.
    #[test]
    fn provider_that_has_caught_up_stays_behind_until_the_walk_of_all_others_takes_it_back() {
        let at = Timestamp::from_millis;
        let walk_at = |ms| DriftWalk { settled_until: at(ms), settled_call: None, target: at(100) };
        let own = Some(Provider::Retell);
        let mut cursor = DriftCursor::starting_at(at(10));
        cursor.set_target(at(100));
        cursor.set_walk(own, walk_at(5));
        // The others have looked at all calls before 10.
        assert_eq!(cursor.walk(own), Some((walk_at(5), at(9))));
        cursor.set_walk(own, walk_at(10));
        assert_eq!((cursor.walk(own), cursor.walks_left()), (None, vec![None, own]));
        // The others read the next page, without this provider's calls.
        cursor.set_walk(None, walk_at(50));
        cursor.join();
        assert_eq!(cursor.walk(own), Some((walk_at(10), at(49))), "its calls from 10 to 49 are left");
        cursor.set_walk(own, walk_at(50));
        cursor.join();
        assert_eq!((cursor.behind.len(), cursor.walks_left()), (0, vec![None]));
    }
}
