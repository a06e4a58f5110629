//! Publishes the domain events of calls again. This helps after the stream dropped records that were never relayed, and when
//! a subscriber lost its data.
//!
//! **The events are the same**: the same function derives them from the announcements in the row, with the same ids and the
//! same content. A subscriber that handles each id once does not notice the repetition.

use std::collections::BTreeSet;

use switchhook_aws::Error;
use switchhook_aws::bus::{BATCH_MAX, Bus, OutboxEvent};
use switchhook_aws::calls::{Calls, TimeRange, WAKE_SHARDS, WakeQueue};
use switchhook_aws::inbox::{Inbox, RECEIVED_SHARDS, minute_of};
use switchhook_domain::{Call, CallId, Timestamp};

/// Numbers of calls and events that were published again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepublishReport {
    pub calls: u64,
    pub events: u64,
}

/// Publishes the domain events of a call again. The id may be the derived id of an attempt, such as `retell:call_1`. The report
/// is empty if there is no such call.
///
/// # Errors
/// Returns the error of the table or the bus. A repetition is safe.
pub async fn republish_call(calls: &Calls, bus: &Bus, call_id: &CallId) -> Result<RepublishReport, Error> {
    match calls.resolve(call_id).await?.call {
        Some(call) => Ok(RepublishReport { calls: 1, events: publish(bus, &call).await? }),
        None => Ok(RepublishReport::default()),
    }
}

/// Returns the calls that received an event from `since` to `now`, and those that were settled since then.
///
/// It reads the indexes, with at least one request per minute and shard. After each minute it calls `progress` with the number
/// of minutes that are done, and the number of all minutes.
///
/// # Errors
/// Returns the error of the tables.
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
    // Some calls never receive an event: a canceled call, for example, or a call to a blocked number.
    for shard in 0..WAKE_SHARDS {
        let mut settled = table.wake_queue_pages(WakeQueue::Settled, shard, TimeRange::Since(since), None, None);
        while let Some(page) = settled.next().await? {
            calls.extend(page.items);
        }
    }
    for (done, minute) in (1..).zip(minutes) {
        for shard in 0..RECEIVED_SHARDS {
            let mut received = inbox.received_pages(minute, shard, None);
            while let Some(page) = received.next().await? {
                calls.extend(page.items.into_iter().filter_map(|event| event.call_id));
            }
        }
        progress(done, all);
    }
    Ok(calls)
}

async fn publish(bus: &Bus, call: &Call) -> Result<u64, Error> {
    let events: Vec<OutboxEvent> = call.domain_events_from(1).into_iter().map(OutboxEvent::from).collect();
    for chunk in events.chunks(BATCH_MAX) {
        if let Some((_, reason)) = bus.publish(chunk).await?.into_iter().next() {
            return Err(Error::PublishRefused(reason));
        }
    }
    Ok(events.len() as u64)
}
