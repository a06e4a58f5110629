//! The events of one call, read from the inbox.
//!
//! **The number of reads is limited, and "too many" is a value, not an error.** The index finds events by the minute in which
//! they arrived, whatever their call. So a busy minute has many pages for the few events of one call.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::stream::{self, StreamExt};
use switchhook_domain::{
    AttemptKey, AttemptState, Call, CallId, EventId, EventKind, HistoryEntry, ProviderEvent, Timestamp,
};
use switchhook_providers::DEDUPE_RETENTION;

use super::event::StoredEvent;
use super::item::EventItem;
use super::sweep::{ReceivedEvent, minute_of};
use super::table::Inbox;
use crate::error::Error;

/// Minutes before the start of an attempt, and before the receipt of its first event, whose events are read.
pub const BEFORE_MINUTES: i64 = 2;
/// Minutes after the last event of an attempt whose events are read.
pub const AFTER_MINUTES: i64 = 15;
/// Limit on the minutes of all attempts together.
const MINUTES_MAX: usize = 120;
/// Limit on the index pages of all those minutes together. A page holds up to 1 MB and costs up to 128 read units.
pub const PAGES_MAX: u64 = 160;
/// Concurrent reads.
const CONCURRENCY: usize = 8;
/// Events this close to the end of the inbox's retention may be deleted already.
const RETENTION_MARGIN: Duration = Duration::from_secs(24 * 60 * 60);

/// True if an event that was received at this time may be deleted already.
///
/// **The present retention of the inbox does not tell whether it is.** It may have been shorter when the event was stored. So the least retention
/// counts: otherwise a refold after a longer one was set would erase the histories of old calls.
#[must_use]
pub fn may_be_deleted(received_at: Timestamp, now: Timestamp) -> bool {
    received_at < now.minus(DEDUPE_RETENTION).plus(RETENTION_MARGIN)
}

/// True if a refold must keep an entry of the history although the inbox does not hold its event. The event may be deleted
/// already, or it only reports a disagreement, or it was erased and cannot be read again.
#[must_use]
pub fn is_kept_without_event(call: &Call, entry: &HistoryEntry, now: Timestamp) -> bool {
    let is_report = entry.event.kind == EventKind::DriftFound;
    may_be_deleted(entry.received_at, now) || is_report || call.forgotten_at.is_some()
}

/// Returns the time at which the first event of an attempt may have arrived: the start of the attempt, or the first receipt that the row
/// knows. The clock of a sender may be ahead. A dial is by our clock.
#[must_use]
pub fn first_receipt(call: &Call, attempt: &AttemptState) -> Timestamp {
    let record = call.attempt_records.get(attempt.index);
    if record.is_some_and(|record| record.dialled_at.is_some()) {
        return attempt.started_at;
    }
    let is_of_attempt =
        |entry: &&HistoryEntry| entry.attempt_index.map_or(attempt.number == 1, |index| index == attempt.index);
    let received = call.history.iter().filter(is_of_attempt).map(|entry| entry.received_at);
    received.fold(attempt.started_at, Timestamp::min)
}

impl Inbox {
    /// Reads two sets of events: those that the row of a call names, and those that arrived for the call around the time of its
    /// attempts. The second set contains events that the row lacks. Leaves out `drift_found` events, and events of the second set that are
    /// [discarded](Inbox::discard). `None` if there are too many to read.
    ///
    /// # Errors
    /// [`Error::ReadInbox`], [`Error::ListInbox`], [`Error::DecodeInbox`], [`Error::NewerSchema`].
    pub async fn events_of_call(&self, call: &Call, now: Timestamp) -> Result<Option<Vec<ProviderEvent>>, Error> {
        self.events_of_call_until(call, Timestamp::from_millis(i64::MAX), now).await
    }

    /// Reads the events of [`Inbox::events_of_call`], except those that the row lacks and that arrived in a minute after `until`.
    ///
    /// # Errors
    /// The same as [`Inbox::events_of_call`].
    pub async fn events_of_call_until(
        &self,
        call: &Call,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Option<Vec<ProviderEvent>>, Error> {
        let Some(missing) = self.missing_ids(call, &call.attempts(), until, now).await? else { return Ok(None) };
        let known = call.history.iter().map(|entry| entry.source_event_id.clone());
        let mut events = self.read_by_id(known.filter(|id| !call.is_drift_found_id(id)).collect()).await?;
        events.extend(self.read_by_id(missing.into_iter().collect()).await?);
        Ok(Some(events))
    }

    /// Returns the ids of the foldable events that arrived for a call around the time of one attempt, and that its row lacks. Leaves out those of
    /// `drift_found` events, and of events that are [discarded](Inbox::discard). `None` if they are spread over too many pages of the index.
    ///
    /// # Errors
    /// [`Error::ListInbox`], [`Error::ReadInbox`].
    pub async fn missing_events(
        &self,
        call: &Call,
        attempt: &AttemptKey,
        now: Timestamp,
    ) -> Result<Option<Vec<EventId>>, Error> {
        let key_of = |one: &AttemptState| call.attempt_records.get(one.index).and_then(|record| record.key.as_ref());
        let mut attempts = call.attempts();
        attempts.retain(|one| key_of(one) == Some(attempt));
        self.missing_ids(call, &attempts, Timestamp::from_millis(i64::MAX), now).await
    }

    async fn missing_ids(
        &self,
        call: &Call,
        attempts: &[AttemptState],
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Option<Vec<EventId>>, Error> {
        let mut minutes = BTreeSet::new();
        for attempt in attempts.iter().rev() {
            let first = minute_of(first_receipt(call, attempt)) - BEFORE_MINUTES;
            let last = minute_of(attempt.last_event_at).min(minute_of(now)) + AFTER_MINUTES;
            let of_attempt = first..=last.min(minute_of(until));
            // The sender's clock tells when the attempt started, and the events may arrive hours later. So minutes in the middle are left out.
            let room = MINUTES_MAX.saturating_sub(minutes.len());
            minutes.extend(of_attempt.clone().take(room.div_ceil(2)));
            minutes.extend(of_attempt.rev().take(room / 2));
        }
        let Some(mut ids) = self.ids_received_in(minutes, &call.call_id, PAGES_MAX).await? else { return Ok(None) };
        ids.retain(|id| !call.contains_event(id) && !call.is_drift_found_id(id));
        let discarded = self.discarded(&ids).await?;
        ids.retain(|id| !discarded.contains(id));
        Ok(Some(ids))
    }

    /// Returns the ids of the foldable events that arrived for a call in these minutes. `None` if they are spread over more
    /// than `pages_max` pages of the index. Each minute has at least one page, so nothing is read for more minutes than that.
    ///
    /// # Errors
    /// [`Error::ListInbox`].
    pub async fn ids_received_in(
        &self,
        minutes: impl IntoIterator<Item = i64>,
        call_id: &CallId,
        pages_max: u64,
    ) -> Result<Option<Vec<EventId>>, Error> {
        let minutes = minutes.into_iter();
        if u64::try_from(minutes.size_hint().0).is_ok_and(|pages_min| pages_min > pages_max) {
            return Ok(None);
        }
        let pages = &AtomicU64::new(0);
        let found: Vec<Result<Option<Vec<EventId>>, Error>> = stream::iter(minutes)
            .map(|minute| self.ids_received_in_minute(minute, call_id, pages, pages_max))
            .buffered(CONCURRENCY)
            .collect()
            .await;
        let mut all = Vec::new();
        for ids in found {
            let Some(ids) = ids? else { return Ok(None) };
            all.extend(ids);
        }
        Ok(Some(all))
    }

    async fn ids_received_in_minute(
        &self,
        minute: i64,
        call_id: &CallId,
        pages: &AtomicU64,
        pages_max: u64,
    ) -> Result<Option<Vec<EventId>>, Error> {
        // All events of a call are in one shard of their minute.
        let shard = self.shard_of_call(call_id, minute);
        let mut ids = Vec::new();
        let mut index = self.received_pages(minute, shard);
        loop {
            if pages.fetch_add(1, Ordering::Relaxed) >= pages_max {
                return Ok(None);
            }
            let Some(page) = index.next().await? else { return Ok(Some(ids)) };
            let is_own = |one: &ReceivedEvent| one.call_id.as_ref() == Some(call_id) && !one.decided;
            ids.extend(page.items.into_iter().filter(is_own).map(|one| one.event_id));
            if page.next.is_none() {
                return Ok(Some(ids));
            }
        }
    }

    /// Reads up to [`READ_AT_ONCE_MAX`](super::READ_AT_ONCE_MAX) events by one request. Leaves out those that the inbox does not hold. An event that cannot be
    /// read is an error of its own.
    ///
    /// # Errors
    /// [`Error::ReadInbox`].
    pub async fn read_at_once(&self, ids: &[EventId]) -> Result<Vec<(EventId, Result<StoredEvent, Error>)>, Error> {
        let keys: Vec<String> = ids.iter().map(EventId::to_string).collect();
        let mut read = Vec::new();
        for item in self.read_items(&keys).await? {
            let Some(AttributeValue::S(id)) = item.get("event_id") else { continue };
            let id = EventId::new(id);
            read.push((id, EventItem::parse(item).and_then(StoredEvent::decode)));
        }
        Ok(read)
    }

    /// Reads events by their ids, as [`Inbox::get_normalized`] does. Leaves out those that the inbox does not hold.
    ///
    /// # Errors
    /// The same as [`Inbox::get_normalized`].
    pub async fn read_by_id(&self, ids: BTreeSet<EventId>) -> Result<Vec<ProviderEvent>, Error> {
        let read: Vec<Result<Option<ProviderEvent>, Error>> = stream::iter(ids)
            .map(|id| async move { self.get_normalized(&id).await })
            .buffered(CONCURRENCY)
            .collect()
            .await;
        read.into_iter().filter_map(Result::transpose).collect()
    }
}
