//! Publishing the domain events of calls again: for what the stream forgot before it was relayed, and for a subscriber that lost
//! what it had.
//!
//! **They are the same events**, derived from the log of each call by the same function: the same ids, the same content. Who takes
//! each id once does not notice.

use std::collections::BTreeSet;

use switchhook_aws::Error;
use switchhook_aws::bus::{BATCH_MAX, Bus};
use switchhook_aws::calls::{Calls, TimeRange, WAKE_SHARDS, WakeQueue};
use switchhook_aws::inbox::{Inbox, RECEIVED_SHARDS, minute_of};
use switchhook_domain::{Call, CallId, DomainEvent, Timestamp};

/// What was published again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepublishReport {
    pub calls: u64,
    pub events: u64,
}

/// Publishes the domain events of a call again. An id that leads to a call counts as that call's; nothing is known of others.
///
/// # Errors
/// Those of the table and the bus; doing it again is safe.
pub async fn republish_call(calls: &Calls, bus: &Bus, call_id: &CallId) -> Result<RepublishReport, Error> {
    match calls.resolve(call_id).await?.call {
        Some(call) => Ok(RepublishReport { calls: 1, events: publish(bus, &call).await? }),
        None => Ok(RepublishReport::default()),
    }
}

/// The calls of which anything was received since then, up to `now`, and those that were settled since: by the indexes, a
/// request for each minute and shard. `progress` is told how many minutes are done, of how many.
///
/// # Errors
/// Those of the tables.
pub async fn calls_since(
    inbox: &Inbox,
    table: &Calls,
    since: Timestamp,
    now: Timestamp,
    mut progress: impl FnMut(u64, u64),
) -> Result<BTreeSet<CallId>, Error> {
    let minutes = minute_of(since)..=minute_of(now);
    let all = minutes.clone().count() as u64;
    let mut calls = BTreeSet::new();
    // A call that was canceled, say, or whose number may not be called, may never have been heard of.
    for shard in 0..WAKE_SHARDS {
        let mut start = None;
        loop {
            let (settled, next) =
                table.wake_queue_page(WakeQueue::Settled, shard, TimeRange::Since(since), None, start).await?;
            calls.extend(settled);
            start = next;
            if start.is_none() {
                break;
            }
        }
    }
    for (done, minute) in (1..).zip(minutes) {
        for shard in 0..RECEIVED_SHARDS {
            let mut start = None;
            loop {
                let (received, next) = inbox.received_page(minute, shard, start).await?;
                calls.extend(received.into_iter().filter_map(|one| one.call_id));
                start = next;
                if start.is_none() {
                    break;
                }
            }
        }
        progress(done, all);
    }
    Ok(calls)
}

async fn publish(bus: &Bus, call: &Call) -> Result<u64, Error> {
    let events: Vec<DomainEvent> = call.domain_events_from(1);
    for some in events.chunks(BATCH_MAX) {
        if let Some((_, reason)) = bus.publish(some).await?.into_iter().next() {
            return Err(Error::PublishRefused(reason));
        }
    }
    Ok(events.len() as u64)
}
