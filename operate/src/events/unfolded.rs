//! The events of a call that are not in its history: recorded, quarantined, or not processed yet.
//!
//! **Nothing lists them by their call**, so they are looked for where the call's events arrive: minute by minute, in the shards
//! of its ids. The number of queries is bounded, and a page says which span it examined.

use std::time::Duration;

use serde::Serialize;
use switchhook_aws::inbox::creation_id;
use switchhook_domain::{Call, CallId, EntityFate, EventId, Timestamp};
use switchhook_providers::ids_of;

use super::{EventLine, Fate, Fates, UnreadableEvent};
use crate::error::Error;
use crate::received::{QUERIES_MAX, Scope, Walk};
use crate::stack::Stack;

/// Number of events after which a page ends.
const EVENTS_MAX: usize = 50;
/// Time before the first write of a call in which its events may have arrived.
const BEFORE: Duration = Duration::from_secs(2 * 60);
/// Time after the last write of a call that the first page examines.
const AFTER: Duration = Duration::from_secs(15 * 60);
const MINUTE: Duration = Duration::from_secs(60);

/// Page of the events of a call that are not in its history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnfoldedPage {
    /// The latest first.
    pub events: Vec<EventLine>,
    /// Events that this program cannot read.
    pub unreadable: Vec<UnreadableEvent>,
    pub examined_since: String,
    pub examined_until: String,
    /// Number of queries of the index.
    pub queries: usize,
    /// `until` of the page of earlier events. `None` if the call was not known before.
    pub earlier_until: Option<String>,
    /// `until` of the page of later events. `None` if this page reaches the present.
    pub later_until: Option<String>,
}

/// Looks for events of a call that arrived before `until` and are not in its history. Without `until`, it examines the time up to
/// 15 minutes after the last write of the call's row.
///
/// # Errors
/// A read failed.
pub async fn unfolded(stack: &Stack, call: &Call, until: Option<Timestamp>) -> Result<UnfoldedPage, Error> {
    let ids = ids_of(call);
    let scope = Scope::Calls(ids.iter().cloned().collect());
    let arrived = call.history.iter().map(|entry| entry.received_at).min();
    let since = arrived.map_or(call.created_at, |at| at.min(call.created_at)).minus(BEFORE);
    // An event of this millisecond is in the past too.
    let end = stack.now().plus(Duration::from_millis(1));
    let until = until.unwrap_or_else(|| call.updated_at.plus(AFTER)).min(end).max(since);
    let minutes = u32::try_from(QUERIES_MAX / scope.queries_of_minute(stack).max(1)).unwrap_or(1);
    let mut walk = Walk::new(stack, scope, since, until);
    let mut found: Vec<EventId> = Vec::new();
    while found.len() < EVENTS_MAX
        && let Some(events) = walk.next().await?
    {
        let is_own = |id: &Option<CallId>| id.as_ref().is_some_and(|id| ids.contains(id));
        // The record of the request that created the call is no event that is folded.
        let is_creation = |id: &EventId| *id == creation_id(&call.call_id);
        let events = events.into_iter().filter(|event| {
            is_own(&event.call_id) && !call.contains_event(&event.event_id) && !is_creation(&event.event_id)
        });
        found.extend(events.map(|event| event.event_id));
    }
    let Fates { found, unreadable } = Fates::read(&found, |id| fate(stack, call, id)).await?;
    Ok(UnfoldedPage {
        events: found.iter().map(Fate::line).collect(),
        unreadable,
        examined_since: walk.until.max(since).to_string(),
        examined_until: until.to_string(),
        queries: walk.queries,
        earlier_until: (walk.until > since).then(|| walk.until.to_string()),
        later_until: (until < end).then(|| until.plus(MINUTE * minutes).min(end).to_string()),
    })
}

/// Reads what became of an event. The call is known, so it is not read again.
async fn fate(stack: &Stack, call: &Call, id: &EventId) -> Result<Option<Fate>, Error> {
    let Some(stored) = stack.inbox.get(id).await? else { return Ok(None) };
    let note = if stored.disposition.is_some() { None } else { stack.inbox.get_note(id).await? };
    Ok(Some(Fate {
        stored,
        note: note.unwrap_or_default(),
        call: Some(call.clone()),
        call_error: None,
        in_entity: EntityFate::NotFolded,
    }))
}
