//! Walk through the index of received events, the latest first.
//!
//! **The number of queries of a walk is bounded**, however long nothing has arrived.

use std::collections::{BTreeSet, VecDeque};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;
use switchhook_aws::inbox::{ReceivedEvent, minute_of};
use switchhook_domain::{CallId, Timestamp};

use crate::concurrent::CONCURRENCY;
use crate::error::Error;
use crate::stack::Stack;

/// Limit on the queries of a walk. They cost half a read unit each if they find nothing.
pub(crate) const QUERIES_MAX: usize = 240;
/// Largest number of events that one query of a walk returns.
const BUCKET_LIMIT: i32 = 100;
const MINUTE_MS: i64 = 60_000;

/// Events of one minute before a time, the latest first, and the time down to which they are complete.
pub(crate) struct Minute {
    pub(crate) events: Vec<ReceivedEvent>,
    pub(crate) complete_since: Timestamp,
}

/// Number of events that arrived in one minute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MinuteCount {
    /// Start of the minute.
    pub minute: String,
    pub events: usize,
    /// True if more events arrived than were counted.
    pub more: bool,
}

/// Events that a walk finds, and perhaps others.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    All,
    /// The events of these calls, which are in one shard of each minute.
    Calls(Vec<CallId>),
}

impl Scope {
    /// Shards of a minute that hold the events.
    fn shards(&self, stack: &Stack, minute: i64) -> BTreeSet<u64> {
        match self {
            Self::All => stack.inbox.received_shards(minute).collect(),
            Self::Calls(ids) => ids.iter().map(|id| stack.inbox.shard_of_call(id, minute)).collect(),
        }
    }

    /// Number of queries that the current minute takes. An earlier one may take another number.
    pub(crate) fn queries_of_minute(&self, stack: &Stack) -> usize {
        self.shards(stack, minute_of(stack.now())).len()
    }
}

/// Walk from one time back to another.
pub(crate) struct Walk<'a> {
    stack: &'a Stack,
    scope: Scope,
    since: Timestamp,
    /// Time down to which the walk has come. All events from it on were returned.
    pub(crate) until: Timestamp,
    /// Number of queries so far.
    pub(crate) queries: usize,
    /// Minutes so far, the latest first.
    pub(crate) minutes: Vec<MinuteCount>,
    /// Minutes that were read and not returned, the latest first. They are before the minute of `until`.
    ahead: VecDeque<Minute>,
}

impl<'a> Walk<'a> {
    pub(crate) const fn new(stack: &'a Stack, scope: Scope, since: Timestamp, until: Timestamp) -> Self {
        Self { stack, scope, since, until, queries: 0, minutes: Vec::new(), ahead: VecDeque::new() }
    }

    /// Returns the next events, which may be none. They are of one minute, and no event between two of them is missing. `None`
    /// at the end, and when no query is left.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<ReceivedEvent>>, Error> {
        if self.ahead.is_empty() {
            self.ahead = self.read_ahead(usize::MAX).await?.into();
        } else if !is_start_of_minute(self.until) {
            // The rest of a busy minute comes before the minutes that were read with it.
            match self.read_ahead(1).await?.pop() {
                Some(rest) => self.ahead.push_front(rest),
                None => return Ok(None),
            }
        }
        let Some(Minute { mut events, complete_since }) = self.ahead.pop_front() else { return Ok(None) };
        self.until = complete_since;
        events.retain(|event| event.received_at >= self.since);
        Ok(Some(events))
    }

    /// Reads the minutes before `until`, at most so many, and counts their events. Returns none at the end, and if no query is
    /// left.
    async fn read_ahead(&mut self, minutes_max: usize) -> Result<Vec<Minute>, Error> {
        let of_minute = self.scope.queries_of_minute(self.stack).max(1);
        let left = QUERIES_MAX.saturating_sub(self.queries).min(CONCURRENCY.max(of_minute)) / of_minute;
        if self.until <= self.since || left == 0 {
            return Ok(Vec::new());
        }
        let newest = minute_of(Timestamp::from_millis(self.until.as_millis() - 1));
        let minutes = (minute_of(self.since)..=newest).rev().take(left.min(minutes_max));
        let (stack, scope, until) = (self.stack, &self.scope, self.until);
        let read: Vec<Minute> = stream::iter(minutes)
            .map(|minute| read_minute(stack, minute, scope, until, BUCKET_LIMIT))
            .buffered(CONCURRENCY)
            .try_collect()
            .await?;
        self.queries += read.len() * of_minute;
        for (minute, found) in (minute_of(self.since)..=newest).rev().zip(&read) {
            let minute = Timestamp::from_millis(minute * MINUTE_MS).to_string();
            match self.minutes.iter_mut().find(|known| known.minute == minute) {
                Some(known) => {
                    known.events += found.events.len();
                    known.more = !is_start_of_minute(found.complete_since);
                }
                None => self.minutes.push(MinuteCount {
                    minute,
                    events: found.events.len(),
                    more: !is_start_of_minute(found.complete_since),
                }),
            }
        }
        Ok(read)
    }
}

/// Returns the length of the first chunk of events that are sorted by time: `size`, and the further ones of the same millisecond.
/// So the time of the last event tells where the next chunk begins.
pub(crate) fn chunk_len(events: &[ReceivedEvent], size: usize) -> usize {
    let last = events.get(..size).and_then(|chunk| chunk.last());
    last.map_or(events.len(), |last| events.iter().take_while(|event| event.received_at >= last.received_at).count())
}

const fn is_start_of_minute(time: Timestamp) -> bool {
    time.as_millis() % MINUTE_MS == 0
}

/// Reads the events of one minute before `until`, the latest first: at most `limit` of each shard.
pub(crate) async fn read_minute(
    stack: &Stack,
    minute: i64,
    scope: &Scope,
    until: Timestamp,
    limit: i32,
) -> Result<Minute, Error> {
    let mut complete_since = Timestamp::from_millis(minute * MINUTE_MS);
    let mut events = Vec::new();
    for shard in scope.shards(stack, minute) {
        let (found, has_more) = stack.inbox.received_before(minute, shard, until, limit).await?;
        if let (true, Some(last)) = (has_more, found.last()) {
            // Other events of the same millisecond may follow on the next page, unless all of this page are of that one.
            let after = Timestamp::from_millis(last.received_at.as_millis() + 1);
            complete_since = complete_since.max(if after < until { after } else { last.received_at });
        }
        events.extend(found);
    }
    events.retain(|event| event.received_at >= complete_since);
    events.sort_by(|a, b| (b.received_at, &b.event_id).cmp(&(a.received_at, &a.event_id)));
    Ok(Minute { events, complete_since })
}

#[cfg(test)]
mod tests {
    use switchhook_domain::EventId;

    use super::*;

    #[test]
    fn chunk_ends_between_two_milliseconds() {
        let events: Vec<ReceivedEvent> = [9, 8, 8, 8, 7]
            .map(|at| ReceivedEvent {
                event_id: EventId::new("generic:e"),
                call_id: None,
                received_at: Timestamp::from_millis(at),
                decided: false,
            })
            .into();
        assert_eq!([1, 2, 3, 4, 5, 6].map(|size| chunk_len(&events, size)), [1, 4, 4, 4, 5, 5]);
    }
}
