//! Storing and queueing an event, and giving stored events to another call.

use switchhook_domain::{CallId, EventId, Origin, ProviderEvent, Timestamp};

use super::event::{PutOutcome, StoredEvent};
use super::new_event::NewEvent;
use super::table::Inbox;
use crate::calls::{Alias, AliasOutcome, Calls};
use crate::error::Error;
use crate::queue::Queue;

/// Stores an event and queues it. An event that is stored already is queued again from the inbox.
///
/// # Errors
/// Any error that kept the event from being stored or queued. The caller may safely try again.
pub async fn submit(
    inbox: &Inbox,
    queue: &Queue,
    new_event: &NewEvent,
    event: &ProviderEvent,
) -> Result<PutOutcome, Error> {
    let outcome = inbox.put(new_event).await?;
    match &outcome {
        PutOutcome::Stored => queue.send(event, &new_event.trace_id).await?,
        PutOutcome::Duplicate { stored, same_content: true } if stored.lacks_reading() => {
            let event = ProviderEvent { received_at: stored.received_at, ..event.clone() };
            if inbox.adopt_reading(stored, &event).await? {
                queue.send(&event, &stored.trace_id).await?;
            } else if let Some(stored) = inbox.get(&stored.event_id).await? {
                resend(inbox, queue, &stored).await?;
            }
        }
        PutOutcome::Duplicate { stored, .. } => resend(inbox, queue, stored).await?,
    }
    Ok(outcome)
}

/// Queues a stored event again. Does nothing if ingress decided that the event is not to be folded.
///
/// # Errors
/// [`Error::ReadInbox`], [`Error::DecodeInbox`], [`Error::Send`].
pub async fn resend(inbox: &Inbox, queue: &Queue, stored: &StoredEvent) -> Result<(), Error> {
    match inbox.renormalize(stored).await? {
        Some(event) => queue.send(&event, &stored.trace_id).await,
        None => Ok(()),
    }
}

/// Queues stored events for the call and the attempt that an alias leads to, whatever call they name themselves. The
/// new messages belong to that call's message group, so the queue does not drop them as duplicates of the first ones.
///
/// # Errors
/// The same as [`resend`].
pub async fn adopt(
    inbox: &Inbox,
    queue: &Queue,
    events: impl IntoIterator<Item = EventId>,
    alias: &Alias,
) -> Result<(), Error> {
    for id in events {
        let Some(stored) = inbox.get(&id).await? else { continue };
        let Some(mut event) = inbox.renormalize(&stored).await? else { continue };
        // An event that Switchhook made describes the call that it was made for, so it cannot move to another.
        if event.origin == Origin::Switchhook {
            continue;
        }
        event.call_id = alias.call_id.clone();
        event.attempt = Some(alias.attempt.clone());
        queue.send(&event, &stored.trace_id).await?;
    }
    Ok(())
}

/// Writes an alias under `from`, and [adopts](adopt) `event` and the events of the call that was stored under `from`. Returns false if
/// the alias was [refused](AliasOutcome::Refused). Then no event is adopted.
///
/// # Errors
/// The same as [`Calls::write_alias`] and [`adopt`]. The caller may safely try again.
pub async fn write_alias_and_adopt(
    calls: &Calls,
    inbox: &Inbox,
    queue: &Queue,
    from: &CallId,
    alias: &Alias,
    event: Option<&EventId>,
    now: Timestamp,
) -> Result<bool, Error> {
    let AliasOutcome::Leads { orphaned_events } = calls.write_alias(from, alias, now).await? else { return Ok(false) };
    let is_orphaned = !orphaned_events.is_empty();
    adopt(inbox, queue, orphaned_events.into_iter().chain(event.cloned()), alias).await?;
    if is_orphaned {
        calls.finish_adoption(from).await?;
    }
    Ok(true)
}
