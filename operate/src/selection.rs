//! Which calls a command is about: those that something happened to since a time.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use switchhook_aws::Error;
use switchhook_aws::calls::{Calls, Loaded, TimeRange, WakeQueue};
use switchhook_aws::inbox::{Inbox, ReceivedEvent, creation_id, minute_of};
use switchhook_domain::{Call, CallId, ENTITY_PREFIX, EventId, Provider, Timestamp};
use switchhook_providers::{appointment_call_id, bounded, derived_call_id, entity_key};

use crate::error::Refusal;
use crate::stack::Stack;

/// Minutes of the inbox that are read at the same time.
const CONCURRENCY: usize = 8;

/// Time after its settlement in which the change of a call is found by its row. Late analyses and repeated webhooks arrive within it. One row is
/// read for each call that was settled in this time, so it is not longer.
const LATE: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// Open calls whose rows are in memory at the same time.
const LOADED_MAX: usize = 1_000;

/// Time by which the `date` of a response of AWS may be behind: it has whole seconds.
const DATE_STEP: Duration = Duration::from_secs(1);

/// Reason why a call is selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// Foldable events that the call received in the period, with the time of each.
    pub events: Vec<(Timestamp, EventId)>,
    /// Time of the last of these events, or of the call's settlement if that is later. A selection since any time up to this one has
    /// the call too.
    pub last_at: Timestamp,
}

impl Selected {
    /// Returns the time of the first of the events, or of the settlement if there is none. A selection since this time has all of them.
    #[must_use]
    pub fn first_at(&self) -> Timestamp {
        self.events.iter().map(|(at, _)| *at).min().unwrap_or(self.last_at)
    }
}

/// Calls that something happened to in a period.
pub type SelectedCalls = BTreeMap<CallId, Selected>;

/// Returns the id of a call, or the key of an entity, that a user wrote. An entity is written as `entity:`, its provider, `:` and its id in the
/// webhooks. A long id is stored as its hash, so this function leads from one to the other, and the result is not too long for a key.
pub fn call_or_entity(text: impl AsRef<str>) -> CallId {
    let text = text.as_ref();
    let entity = text.strip_prefix(ENTITY_PREFIX).and_then(|rest| rest.split_once(':'));
    let entity = entity.and_then(|(provider, id)| Some((provider.parse::<Provider>().ok()?, id)));
    entity.map_or_else(|| call_of(text), |(provider, id)| entity_key(provider, id))
}

/// Returns the id of the call that a text names, as it is stored.
pub(crate) fn call_of(text: &str) -> CallId {
    let prefix = text.split_once(':').map(|(prefix, id)| (prefix, prefix.parse::<Provider>(), id));
    match prefix {
        Some((_, Ok(provider), id)) => CallId::new(derived_call_id(provider, id)),
        Some(("appointment", Err(_), id)) => appointment_call_id(id),
        Some((_, Err(_), _)) | None => CallId::new(bounded("", text)),
    }
}

/// Progress of a search: the number of minutes that are read, and of all minutes.
pub type Progress<'a> = &'a mut (dyn FnMut(u64, u64) + Send);

/// Refuses a time that is later than now. Nothing has happened since then, so a check would find nothing wrong. The clock of the stack counts,
/// because the clock of this machine may be ahead.
///
/// # Errors
/// [`Refusal::FutureTime`].
pub(crate) async fn refuse_future(stack: &Stack, since: Timestamp) -> Result<(), Refusal> {
    let now = stack.read_clock().await;
    if since > now.plus(DATE_STEP) { Err(Refusal::FutureTime { since, now }) } else { Ok(()) }
}

/// Refuses a span of time that ends before it begins. Nothing lies in it, so a search would find nothing.
///
/// # Errors
/// [`Refusal::EmptySpan`].
pub fn refuse_empty_span(since: Timestamp, until: Timestamp) -> Result<(), Refusal> {
    if since > until { Err(Refusal::EmptySpan { since, until }) } else { Ok(()) }
}

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
) -> Result<SelectedCalls, Error> {
    let mut found = received_since(inbox, since, now, progress).await?;
    for shard in calls.wake_shards() {
        let mut settled = calls.settled_pages(shard, since);
        while let Some(page) = settled.next().await? {
            for (call_id, settled_at) in page.items {
                select(&mut found, call_id, settled_at);
            }
        }
    }
    Ok(found)
}

/// Returns the calls of [`calls_since`], and those that were settled in the days before `since` and written since then. A late event writes a
/// settled call, and so does the forgetting of its person. So such a call is found even if the inbox has lost the event. A call whose row cannot be read is among them.
///
/// # Errors
/// The errors of the tables.
pub(crate) async fn changed_since(
    inbox: &Inbox,
    calls: &Calls,
    since: Timestamp,
    now: Timestamp,
    progress: Progress<'_>,
) -> Result<SelectedCalls, Error> {
    let mut found = calls_since(inbox, calls, since, now, progress).await?;
    for shard in calls.wake_shards() {
        let mut settled = calls.settled_pages(shard, since.minus(LATE));
        while let Some(page) = settled.next().await? {
            let earlier: BTreeMap<CallId, Timestamp> = page.items.into_iter().filter(|(_, at)| *at < since).collect();
            let Loaded { calls: rows, unreadable } =
                calls.load(earlier.keys().cloned().collect::<Vec<CallId>>()).await?;
            let written = rows.into_iter().map(|call| (written_at(&call), call.call_id)).filter(|(at, _)| *at >= since);
            for (at, call_id) in written.chain(unreadable.into_iter().map(|(call_id, _)| (since, call_id))) {
                // A selection since a later time looks for calls that were settled later.
                let found_until = earlier.get(&call_id).map_or(since, |settled_at| settled_at.plus(LATE));
                let selected = Selected { events: Vec::new(), last_at: at.min(found_until) };
                found.entry(call_id).or_insert(selected);
            }
        }
    }
    Ok(found)
}

/// Adds the open calls that were written since a time. A booking that comes back resumes its call, for example, and no event names that call. A
/// call whose row cannot be read is added too.
///
/// # Errors
/// The errors of the tables.
pub(crate) async fn add_open_written_since(
    calls: &Calls,
    since: Timestamp,
    found: &mut SelectedCalls,
) -> Result<(), Error> {
    let mut open = open_calls(calls).await?;
    open.retain(|call_id| !found.contains_key(call_id));
    for ids in open.chunks(LOADED_MAX) {
        let Loaded { calls: rows, unreadable } = calls.load(ids.to_vec()).await?;
        let written = rows.into_iter().map(|call| (written_at(&call), call.call_id)).filter(|(at, _)| *at >= since);
        for (at, call_id) in written.chain(unreadable.into_iter().map(|(call_id, _)| (since, call_id))) {
            select(found, call_id, at);
        }
    }
    Ok(())
}

/// Returns the time of the last write that changed a call or forgot its person.
pub(crate) fn written_at(call: &Call) -> Timestamp {
    call.forgotten_at.map_or(call.updated_at, |forgotten_at| forgotten_at.max(call.updated_at))
}

/// Returns the calls that received an event from `since` to `now`, by the ids that the events name.
pub(crate) async fn received_since(
    inbox: &Inbox,
    since: Timestamp,
    now: Timestamp,
    progress: Progress<'_>,
) -> Result<SelectedCalls, Error> {
    let minutes = minute_of(since)..=minute_of(now);
    let all = minutes.clone().count() as u64;
    let mut read = stream::iter(minutes).map(|minute| received_in(inbox, minute)).buffered(CONCURRENCY);
    let mut found = SelectedCalls::new();
    let mut done = 0;
    while let Some(events) = read.next().await {
        for event in events?.into_iter().filter(|event| event.received_at >= since) {
            if let Some(call_id) = event.call_id {
                let selected = select(&mut found, call_id, event.received_at);
                selected.events.push((event.received_at, event.event_id));
            }
        }
        done += 1;
        progress(done, all);
    }
    Ok(found)
}

fn select(found: &mut SelectedCalls, call_id: CallId, at: Timestamp) -> &mut Selected {
    let selected = found.entry(call_id).or_insert_with(|| Selected { events: Vec::new(), last_at: at });
    selected.last_at = selected.last_at.max(at);
    selected
}

/// Keeps the first `most` calls or events by their times. Returns the time at which the next selection goes on, if some are left
/// out: each of them has this time or a later one.
pub(crate) fn earliest<T: Ord>(found: &mut Vec<(Timestamp, T)>, most: usize) -> Option<Timestamp> {
    found.sort();
    let next = found.get(most).map(|(at, _)| *at);
    found.truncate(most);
    next
}

/// Returns the open calls: those that wait to be placed, and those that the reconciler watches.
pub(crate) async fn open_calls(calls: &Calls) -> Result<Vec<CallId>, Error> {
    let mut found = Vec::new();
    for queue in [calls.pending_queues().await?.as_slice(), &WakeQueue::OPEN].concat() {
        for shard in calls.wake_shards() {
            let range = TimeRange::UpTo(Timestamp::from_millis(i64::MAX));
            let mut pages = calls.wake_queue_pages(queue, shard, range, None);
            while let Some(page) = pages.next().await? {
                found.extend(page.items);
            }
        }
    }
    Ok(found)
}

async fn received_in(inbox: &Inbox, minute: i64) -> Result<Vec<ReceivedEvent>, Error> {
    let mut found = Vec::new();
    for shard in inbox.received_shards(minute) {
        let mut pages = inbox.received_pages(minute, shard);
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

#[cfg(test)]
mod tests {
    use switchhook_aws::dynamodb::KEY_BYTES_MAX;

    use super::*;

    #[test]
    fn id_that_is_too_long_for_a_key_leads_to_the_stored_one() {
        let long = "a".repeat(KEY_BYTES_MAX + 1);
        for prefix in ["", "retell:", "appointment:", "entity:x-acme:"] {
            let id = call_or_entity(format!("{prefix}{long}"));
            assert!(id.as_str().starts_with(&format!("{prefix}sha256-")) && id.as_str().len() < 100, "{id}");
        }
        assert_eq!(call_or_entity("retell:c1").as_str(), "retell:c1");
    }

    #[test]
    fn calls_that_are_left_out_are_not_before_the_time_at_which_the_next_selection_goes_on() {
        let call = |id: &str, at: i64| (Timestamp::from_millis(at), CallId::new(id));
        let mut calls = vec![call("b", 3), call("c", 1), call("a", 2)];
        assert_eq!(earliest(&mut calls, 2), Some(Timestamp::from_millis(3)));
        assert_eq!(calls, [call("c", 1), call("a", 2)]);
        assert_eq!(earliest(&mut calls, 2), None);
    }
}
