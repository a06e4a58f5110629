//! Folding a call again from what the inbox holds of it.
//!
//! **What it may read is bounded, and too much is a value.** The index by which events are found files all that a minute brought,
//! whatever call it is of, so that a busy minute is many pages for one call's few events. What is not read in time leaves the row
//! as it is: it was wrong before, the message is done with, and the next drift run says so again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use switchhook_aws::Error;
use switchhook_aws::calls::shard_of;
use switchhook_aws::inbox::{RECEIVED_SHARDS, minute_of};
use switchhook_aws::queue::Message;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{Call, EventId, EventKind, Fold, ProviderEvent, Timestamp, refold};

use crate::{Consumer, is_drift};

/// Minutes around the attempts of a call in which its events are looked for.
const BEFORE_MINUTES: i64 = 2;
const AFTER_MINUTES: i64 = 15;
/// And no more than this many.
const MINUTES_MAX: usize = 120;
/// Pages of the index, of all those minutes together. A page is up to 1 MB, and as much as 128 read units.
const PAGES_MAX: u64 = 160;
/// Reads at once.
const CONCURRENCY: usize = 8;
/// From the start of the invocation until the events are read, those of all calls in the batch: what is left of the function's
/// 10 s is for the write, and for the failure's own path.
const READ_MAX: Duration = Duration::from_secs(3);
/// What is younger than the inbox's retention by less than this may have been removed there already.
const SLACK: Duration = Duration::from_secs(24 * 60 * 60);

impl Consumer {
    /// Folds a call from what the inbox holds of it; none if that is too much to be read by now.
    pub(crate) async fn refold_call(
        &self,
        call: &Call,
        drift: &ProviderEvent,
        began: Timestamp,
        now: Timestamp,
    ) -> Result<Option<Fold>, Error> {
        let spent = Duration::from_millis(now.millis_since(began).unsigned_abs());
        let read = tokio::time::timeout(READ_MAX.saturating_sub(spent), self.events_of(call, drift, now)).await;
        // Time that is up is no error.
        let Some(mut events) = read.unwrap_or(Ok(None))? else { return Ok(None) };
        events.retain(|event| !is_drift(event));
        let held_until = now.minus(self.inbox_retention).plus(SLACK);
        Ok(Some(refold(
            call,
            &events,
            |entry| entry.received_at < held_until || entry.event.kind == EventKind::DriftFound,
            drift,
            &self.policy,
            now,
        )))
    }

    /// What is to be folded of a call: what its row names, by its keys; and what the row may lack, which came for it in the minutes
    /// around its attempts. None if that would be too many pages.
    async fn events_of(
        &self,
        call: &Call,
        drift: &ProviderEvent,
        now: Timestamp,
    ) -> Result<Option<Vec<ProviderEvent>>, Error> {
        let known: BTreeSet<EventId> = call.history.iter().map(|entry| entry.source_event_id.clone()).collect();
        let mut events = self.read(known.clone()).await?;
        let mut minutes = BTreeSet::new();
        for attempt in call.attempts().iter().rev() {
            let first = minute_of(attempt.started_at) - BEFORE_MINUTES;
            let last = minute_of(attempt.last_event_at).min(minute_of(now)) + AFTER_MINUTES;
            minutes.extend((first..=last).take(MINUTES_MAX.saturating_sub(minutes.len())));
        }
        let pages = &AtomicU64::new(0);
        let found: Vec<Result<Option<Vec<EventId>>, Error>> = stream::iter(minutes)
            .map(|minute| self.received_of(call, minute, pages))
            .buffered(CONCURRENCY)
            .collect()
            .await;
        let mut lacking = BTreeSet::new();
        for ids in found {
            let Some(ids) = ids? else { return Ok(None) };
            lacking.extend(ids.into_iter().filter(|id| !known.contains(id) && *id != drift.event_id));
        }
        events.extend(self.read(lacking).await?);
        Ok(Some(events))
    }

    /// What came for a call in a minute and is to be folded; none if there are no pages left to look at.
    async fn received_of(&self, call: &Call, minute: i64, pages: &AtomicU64) -> Result<Option<Vec<EventId>>, Error> {
        // What a minute brought of a call stands in one shard.
        let shard = shard_of(call.call_id.as_str(), RECEIVED_SHARDS);
        let mut ids = Vec::new();
        let mut start = None;
        loop {
            if pages.fetch_add(1, Ordering::Relaxed) >= PAGES_MAX {
                return Ok(None);
            }
            let (received, next) = self.inbox.received_page(minute, shard, start).await?;
            let own = received.into_iter().filter(|one| one.call_id.as_ref() == Some(&call.call_id) && !one.decided);
            ids.extend(own.map(|one| one.event_id));
            start = next;
            if start.is_none() {
                return Ok(Some(ids));
            }
        }
    }

    async fn read(&self, ids: BTreeSet<EventId>) -> Result<Vec<ProviderEvent>, Error> {
        let read: Vec<Result<Option<ProviderEvent>, Error>> = stream::iter(ids)
            .map(|id| async move { self.inbox.get_normalized(&id).await })
            .buffered(CONCURRENCY)
            .collect()
            .await;
        read.into_iter().filter_map(Result::transpose).collect()
    }

    pub(crate) fn log_refold_too_long(&self, message: &Message, started: Timestamp) {
        let now = self.clock.now();
        let event = &message.event;
        let decision = Decision {
            stage: "consumer",
            message: "call not folded again",
            action_taken: "refold_too_long",
            event_id: Some(event.event_id.as_str()),
            call_id: Some(event.call_id.as_str()),
            duration_ms: Some(now.millis_since(started)),
            trace_id: Some(&message.trace_id),
            counts: vec![("received", 1)],
            ..Decision::default()
        };
        decision.log(now, true);
    }
}
