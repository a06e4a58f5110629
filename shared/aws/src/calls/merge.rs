//! Merge of the shards of several wake queues into one order.
//!
//! **The order is total, so one entry tells the place in every shard.** Entries are ordered by time, then by shard, and within a
//! shard as the index has them. Example: a page ended with an entry of shard 3 at noon. The next page begins after noon in the
//! shards before shard 3, and at noon in the shards after it.

use std::cmp::Reverse;
use std::collections::VecDeque;

use futures_util::{StreamExt, TryStreamExt, stream};
use switchhook_domain::Timestamp;

use super::index::WakeEntry;
use super::position::Position;
use super::table::Calls;
use super::wake_queue::WakeQueue;
use crate::error::Error;

/// Shards read at the same time.
const CONCURRENCY: usize = 16;

/// Order of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    EarliestFirst,
    LatestFirst,
}

/// Shards that are read in one order.
#[derive(Debug)]
pub struct Merge<'a> {
    calls: &'a Calls,
    order: Order,
    shards: Vec<Shard>,
    /// Entries of one shard that are read at once.
    page: i32,
}

/// One shard, with the entries that were read ahead.
#[derive(Debug)]
struct Shard {
    queue: WakeQueue,
    number: u64,
    from: Timestamp,
    to: Timestamp,
    ahead: VecDeque<WakeEntry>,
    /// Entry after which the next page begins.
    after: Option<WakeEntry>,
    has_more: bool,
}

impl<'a> Merge<'a> {
    /// Prepares the entries of these queues that follow `start`. `until` is the latest time of a queue's entries.
    #[must_use]
    pub fn new(
        calls: &'a Calls,
        queues: &[WakeQueue],
        order: Order,
        until: impl Fn(WakeQueue) -> Timestamp,
        start: Option<&Position>,
        page: i32,
    ) -> Self {
        let all = queues.iter().flat_map(|queue| calls.wake_shards().map(|number| (*queue, number)));
        let start = start.and_then(|start| {
            let index = all.clone().position(|shard| shard == (start.queue, start.shard))?;
            Some((index, start))
        });
        let shards = all.enumerate().map(|(index, (queue, number))| {
            let (mut from, mut to, mut after) = (Timestamp::MIN, until(queue), None);
            if let Some((start_index, start)) = start {
                let at = start.entry.wake_at.as_millis();
                let is_passed = i64::from(index < start_index);
                match order {
                    Order::EarliestFirst => from = Timestamp::from_millis(at.saturating_add(is_passed)),
                    Order::LatestFirst => to = Timestamp::from_millis(at.saturating_sub(is_passed)),
                }
                after = (index == start_index).then(|| start.entry.clone());
            }
            Shard { queue, number, from, to, ahead: VecDeque::new(), after, has_more: from <= to }
        });
        Self { calls, order, shards: shards.collect(), page }
    }

    /// Returns the next entry. `None` at the end.
    ///
    /// # Errors
    /// [`Error::ListCalls`].
    pub async fn next(&mut self) -> Result<Option<Position>, Error> {
        self.read_ahead().await?;
        let Some(index) = self.first() else { return Ok(None) };
        let shard = self.shards.get_mut(index);
        Ok(shard.and_then(|shard| {
            let entry = shard.ahead.pop_front()?;
            Some(Position { queue: shard.queue, shard: shard.number, entry })
        }))
    }

    /// True if no entry is left.
    ///
    /// # Errors
    /// [`Error::ListCalls`].
    pub async fn is_at_end(&mut self) -> Result<bool, Error> {
        self.read_ahead().await?;
        Ok(self.first().is_none())
    }

    /// Reads a page of each shard that has no entry read ahead.
    async fn read_ahead(&mut self) -> Result<(), Error> {
        let (calls, order, page) = (self.calls, self.order, self.page);
        let empty = self.shards.iter_mut().filter(|shard| shard.ahead.is_empty() && shard.has_more);
        let reads: Vec<_> = empty.map(|shard| shard.read(calls, order, page)).collect();
        stream::iter(reads).buffer_unordered(CONCURRENCY).try_collect().await
    }

    /// Index of the shard with the next entry.
    fn first(&self) -> Option<usize> {
        let heads = self.shards.iter().enumerate().filter_map(|(index, shard)| {
            let entry = shard.ahead.front()?;
            Some((entry.wake_at, index))
        });
        let first = match self.order {
            Order::EarliestFirst => heads.min(),
            Order::LatestFirst => heads.max_by_key(|(wake_at, index)| (*wake_at, Reverse(*index))),
        };
        first.map(|(_, index)| index)
    }
}

impl Shard {
    async fn read(&mut self, calls: &Calls, order: Order, page: i32) -> Result<(), Error> {
        let latest_first = order == Order::LatestFirst;
        let range = self.from..=self.to;
        let (entries, has_more) =
            calls.wake_entries(self.queue, self.number, range, latest_first, page, self.after.as_ref()).await?;
        self.after = entries.last().cloned().or(self.after.take());
        self.has_more = has_more;
        self.ahead.extend(entries);
        Ok(())
    }
}
