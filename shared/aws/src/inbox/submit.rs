//! Storing and queueing an event, and giving stored events to another call.

use switchhook_domain::{CallId, EventId, Origin, ProviderEvent, Timestamp};
use switchhook_providers::replaced_booking;

use super::event::{PutOutcome, StoredEvent};
use super::new_event::NewEvent;
use super::table::Inbox;
use crate::calls::{Alias, AliasOutcome, Calls};
use crate::error::Error;
use crate::queue::Queue;

/// Stores an event and queues it. An event that is stored already is queued again from the inbox.
///
/// A booking that replaces another one comes with a second event, which calls the other one off. It is stored first and queued first, so
/// that a caller that dies between schedules no call too many. If the booking turns out to be stored without that meaning, for example
/// because its person was forgotten, the second event is removed again.
///
/// # Errors
/// Any error that kept the event from being stored or queued. The caller may safely try again.
pub async fn submit(
    inbox: &Inbox,
    queue: &Queue,
    new_event: &NewEvent,
    event: &ProviderEvent,
) -> Result<PutOutcome, Error> {
    let replaced = NewEvent::of_replaced_booking(event, new_event.key_index, &new_event.trace_id);
    let replaced_outcome = match &replaced {
        Some((new_event, _)) => Some(inbox.put(new_event).await?),
        None => None,
    };
    let outcome = inbox.put(new_event).await?;
    let stored = match &outcome {
        PutOutcome::Stored => Some((event.clone(), new_event.trace_id.as_str())),
        PutOutcome::Duplicate { stored, same_content } => {
            let is_adopted = *same_content && stored.lacks_reading();
            let kept =
                if is_adopted { adopt_reading(inbox, stored, event).await? } else { inbox.renormalize(stored).await? };
            kept.map(|event| (event, stored.trace_id.as_str()))
        }
    };
    if let (Some((_, replaced)), Some(replaced_outcome)) = (&replaced, &replaced_outcome) {
        let kept = stored.as_ref().and_then(|(event, _)| replaced_booking(event));
        match replaced_outcome {
            PutOutcome::Stored if kept.as_ref().is_some_and(|kept| kept.call_id == replaced.call_id) => {
                queue.send(replaced, &new_event.trace_id).await?;
            }
            PutOutcome::Stored => inbox.remove(&replaced.event_id).await?,
            PutOutcome::Duplicate { stored, .. } if kept.is_some() => resend(inbox, queue, stored).await?,
            PutOutcome::Duplicate { .. } => {}
        }
    }
    if let Some((event, trace_id)) = stored {
        queue.send(&event, trace_id).await?;
    }
    Ok(outcome)
}

/// Stores the meaning of an event that had none when it was stored. Returns the event as it is stored then: another writer may have been
/// faster.
async fn adopt_reading(
    inbox: &Inbox,
    stored: &StoredEvent,
    event: &ProviderEvent,
) -> Result<Option<ProviderEvent>, Error> {
    let event = ProviderEvent { received_at: stored.received_at, ..event.clone() };
    if inbox.adopt_reading(stored, &event).await? {
        return Ok(Some(event));
    }
    match inbox.get(&stored.event_id).await? {
        Some(stored) => inbox.renormalize(&stored).await,
        None => Ok(None),
    }
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
