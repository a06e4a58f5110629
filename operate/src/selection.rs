//! Which calls a command is about: those that something happened to since a time.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};
use switchhook_aws::Error;
use switchhook_aws::calls::{Calls, TimeRange, WAKE_SHARDS, WakeQueue};
use switchhook_aws::inbox::{Inbox, RECEIVED_SHARDS, ReceivedEvent, creation_id, minute_of};
use switchhook_domain::{CallId, EventId, Timestamp};

/// Minutes of the inbox that are read at the same time.
const CONCURRENCY: usize = 8;

/// Calls, each with the foldable events that it received in a period.
pub type CallEvents = BTreeMap<CallId, Vec<EventId>>;

/// Progress of a search: the number of minutes that are read, and of all minutes.
pub type Progress<'a> = &'a mut (dyn FnMut(u64, u64) + Send);

/// Returns the calls that were created or received an event from `since` to `now`, and those that were settled since then. Some
/// calls never receive an event: a canceled call, for example, or a call to a blocked number.
///
/// It reads the indexes, with at least one request per minute and shard.
///
/// # Errors
/// The errors of the tables.
pub async fn calls_since(
    inbox: &Inbox,
    calls: &Calls,
    since: Timestamp,
    now: Timestamp,
    progress: Progress<'_>,
) -> Result<CallEvents, Error> {
    let mut found = received_since(inbox, since, now, progress).await?;
    for shard in 0..WAKE_SHARDS {
        let mut settled = calls.wake_queue_pages(WakeQueue::Settled, shard, TimeRange::Since(since), None, None);
        while let Some(page) = settled.next().await? {
            for call_id in page.items {
                found.entry(call_id).or_default();
            }
        }
    }
    Ok(found)
}

/// Returns the calls that received an event from `since` to `now`, by the ids that the events name.
pub(crate) async fn received_since(
    inbox: &Inbox,
    since: Timestamp,
    now: Timestamp,
    progress: Progress<'_>,
) -> Result<CallEvents, Error> {
    let minutes = minute_of(since)..=minute_of(now);
    let all = minutes.clone().count() as u64;
    let mut read = stream::iter(minutes).map(|minute| received_in(inbox, minute)).buffered(CONCURRENCY);
    let mut found = CallEvents::new();
    let mut done = 0;
    while let Some(events) = read.next().await {
        for event in events?.into_iter().filter(|event| event.received_at >= since) {
            if let Some(call_id) = event.call_id {
                found.entry(call_id).or_default().push(event.event_id);
            }
        }
        done += 1;
        progress(done, all);
    }
    Ok(found)
}

/// Returns the open calls: those that wait to be placed, and those that the reconciler watches.
pub(crate) async fn open_calls(calls: &Calls) -> Result<Vec<CallId>, Error> {
    let mut found = Vec::new();
    for queue in WakeQueue::all().filter(|queue| *queue != WakeQueue::Settled) {
        for shard in 0..WAKE_SHARDS {
            let range = TimeRange::UpTo(Timestamp::from_millis(i64::MAX));
            let mut pages = calls.wake_queue_pages(queue, shard, range, None, None);
            while let Some(page) = pages.next().await? {
                found.extend(page.items);
            }
        }
    }
    Ok(found)
}

async fn received_in(inbox: &Inbox, minute: i64) -> Result<Vec<ReceivedEvent>, Error> {
    let mut found = Vec::new();
    for shard in 0..RECEIVED_SHARDS {
        let mut pages = inbox.received_pages(minute, shard, None);
        while let Some(page) = pages.next().await? {
            found.extend(page.items.into_iter().filter(|event| !event.decided || is_creation(event)));
        }
    }
    Ok(found)
}

/// True if this is the record of the request that created a call.
fn is_creation(event: &ReceivedEvent) -> bool {
    event.call_id.as_ref().is_some_and(|call_id| creation_id(call_id) == event.event_id)
}
