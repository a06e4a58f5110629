//! The refold: folds a call again from its events in the inbox.
//!
//! **The number of reads is limited, and "too many" is a value, not an error.** The index finds events by the minute in which
//! they arrived, whatever their call. So a busy minute has many pages for the few events of one call. If they cannot be read
//! in time, the row stays as it is and the message is deleted. The next drift check reports the same call again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use switchhook_aws::Error;
use switchhook_aws::dynamodb::shard_of;
use switchhook_aws::inbox::{Inbox, RECEIVED_SHARDS, minute_of};
use switchhook_domain::{Call, EventId, EventKind, Fold, Policy, ProviderEvent, Timestamp, refold};

/// Minutes before the start of an attempt whose events are read.
const BEFORE_MINUTES: i64 = 2;
/// Minutes after the last event of an attempt whose events are read.
const AFTER_MINUTES: i64 = 15;
/// Limit on the minutes of all attempts together.
const MINUTES_MAX: usize = 120;
/// Limit on the index pages of all those minutes together. A page holds up to 1 MB and costs up to 128 read units.
const PAGES_MAX: u64 = 160;
/// Concurrent reads.
const CONCURRENCY: usize = 8;
/// Time from the start of the invocation to the last read, for all calls of the batch. The rest of the function's 10 s is
/// for the write, and for handling a failure.
const READ_MAX: Duration = Duration::from_secs(3);
/// Events this close to the end of the inbox's retention may be deleted already.
const RETENTION_MARGIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads the events of a call from the inbox, and folds them.
#[derive(Debug)]
pub(crate) struct Refolder<'a> {
    inbox: &'a Inbox,
    inbox_retention: Duration,
    policy: &'a Policy,
}

/// True if the event reports drift, and so asks for a refold of its call.
pub(crate) fn is_drift_event(event: &ProviderEvent) -> bool {
    event.call_events.iter().all(|event| event.kind == EventKind::DriftFound)
}

impl<'a> Refolder<'a> {
    pub(crate) const fn new(inbox: &'a Inbox, inbox_retention: Duration, policy: &'a Policy) -> Self {
        Self { inbox, inbox_retention, policy }
    }

    /// Folds a call again from its events in the inbox. `None` if there are too many to read in the time that is left of the
    /// invocation, which started at `invoked_at`.
    pub(crate) async fn refold(
        &self,
        call: &Call,
        drift: &ProviderEvent,
        invoked_at: Timestamp,
        now: Timestamp,
    ) -> Result<Option<Fold>, Error> {
        let spent = Duration::from_millis(now.millis_since(invoked_at).unsigned_abs());
        let read = tokio::time::timeout(READ_MAX.saturating_sub(spent), self.read_events(call, drift, now)).await;
        // If the time is up, the refold is skipped without an error.
        let Some(mut events) = read.unwrap_or(Ok(None))? else { return Ok(None) };
        events.retain(|event| !is_drift_event(event));
        let deleted_before = now.minus(self.inbox_retention).plus(RETENTION_MARGIN);
        Ok(Some(refold(
            call,
            &events,
            |entry| entry.received_at < deleted_before || entry.event.kind == EventKind::DriftFound,
            drift,
            self.policy,
            now,
        )))
    }

    /// Reads two sets of events: those that the row names, and those that arrived for the call around the time of its attempts.
    /// The second set contains events that the row lacks. `None` if it is spread over too many pages.
    async fn read_events(
        &self,
        call: &Call,
        drift: &ProviderEvent,
        now: Timestamp,
    ) -> Result<Option<Vec<ProviderEvent>>, Error> {
        let known: BTreeSet<EventId> = call.history.iter().map(|entry| entry.source_event_id.clone()).collect();
        let mut events = self.read_by_key(known.clone()).await?;
        let mut minutes = BTreeSet::new();
        for attempt in call.attempts().iter().rev() {
            let first = minute_of(attempt.started_at) - BEFORE_MINUTES;
            let last = minute_of(attempt.last_event_at).min(minute_of(now)) + AFTER_MINUTES;
            minutes.extend((first..=last).take(MINUTES_MAX.saturating_sub(minutes.len())));
        }
        let pages = &AtomicU64::new(0);
        let found: Vec<Result<Option<Vec<EventId>>, Error>> = stream::iter(minutes)
            .map(|minute| self.ids_received_in(minute, call, pages))
            .buffered(CONCURRENCY)
            .collect()
            .await;
        let mut missing = BTreeSet::new();
        for ids in found {
            let Some(ids) = ids? else { return Ok(None) };
            missing.extend(ids.into_iter().filter(|id| !known.contains(id) && *id != drift.event_id));
        }
        events.extend(self.read_by_key(missing).await?);
        Ok(Some(events))
    }

    /// Ids of the foldable events that arrived for a call in one minute. `None` if `pages` has reached its limit.
    async fn ids_received_in(
        &self,
        minute: i64,
        call: &Call,
        pages: &AtomicU64,
    ) -> Result<Option<Vec<EventId>>, Error> {
        // All events of a call are in one shard of their minute.
        let shard = shard_of(call.call_id.as_str(), RECEIVED_SHARDS);
        let mut ids = Vec::new();
        let mut index = self.inbox.received_pages(minute, shard, None);
        loop {
            if pages.fetch_add(1, Ordering::Relaxed) >= PAGES_MAX {
                return Ok(None);
            }
            let Some(page) = index.next().await? else { return Ok(Some(ids)) };
            let own = page.items.into_iter().filter(|one| one.call_id.as_ref() == Some(&call.call_id) && !one.decided);
            ids.extend(own.map(|one| one.event_id));
            if page.next.is_none() {
                return Ok(Some(ids));
            }
        }
    }

    async fn read_by_key(&self, ids: BTreeSet<EventId>) -> Result<Vec<ProviderEvent>, Error> {
        let read: Vec<Result<Option<ProviderEvent>, Error>> = stream::iter(ids)
            .map(|id| async move { self.inbox.get_normalized(&id).await })
            .buffered(CONCURRENCY)
            .collect()
            .await;
        read.into_iter().filter_map(Result::transpose).collect()
    }
}
