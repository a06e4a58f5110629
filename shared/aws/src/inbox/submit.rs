//! Storing and queueing an event, and giving stored events to another call.

use switchhook_domain::{CallId, EventId, Origin, ProviderEvent, Timestamp};
use switchhook_providers::replaced_booking;

use super::event::{PutOutcome, StoredEvent, body_hash};
use super::new_event::NewEvent;
use super::table::Inbox;
use crate::calls::{Alias, AliasOutcome, Calls};
use crate::error::Error;
use crate::queue::Queue;

/// Stores an event and queues it. An event that is stored already is queued again from the inbox.
///
/// A booking that replaces another one comes with a second event, which calls the other one off. The second event is stored first and
/// queued first, so that a caller that dies between schedules no call too many. Before that, the inbox is read: it may hold the booking
/// without that meaning, for example because the booking was recorded and then erased. Then there is no second event.
///
/// # Errors
/// Any error that kept the event from being stored or queued. The caller may safely try again.
pub async fn submit(
    inbox: &Inbox,
    queue: &Queue,
    new_event: &NewEvent,
    event: &ProviderEvent,
) -> Result<PutOutcome, Error> {
    let second = match NewEvent::of_replaced_booking(event, new_event.key_index, &new_event.trace_id) {
        Some((new_second, second)) if will_replace(inbox, new_event, &second).await? => {
            Some((inbox.put(&new_second).await?, second))
        }
        Some(_) | None => None,
    };
    let outcome = inbox.put(new_event).await?;
    let kept = match &outcome {
        PutOutcome::Stored => Some((event.clone(), new_event.trace_id.as_str())),
        PutOutcome::Duplicate { stored, same_content } => {
            let is_adopted = *same_content && stored.lacks_reading();
            let kept =
                if is_adopted { adopt_reading(inbox, stored, event).await? } else { inbox.renormalize(stored).await? };
            kept.map(|event| (event, stored.trace_id.as_str()))
        }
    };
    let Some((kept, trace_id)) = kept else { return Ok(outcome) };
    match second {
        Some((second_outcome, second)) if replaces(&kept, &second) => match second_outcome {
            PutOutcome::Stored => queue.send(&second, trace_id).await?,
            PutOutcome::Duplicate { stored, .. } => resend(inbox, queue, &stored).await?,
        },
        Some(_) | None => {}
    }
    queue.send(&kept, trace_id).await?;
    Ok(outcome)
}

/// True if the inbox holds the event as one that replaces the booking of `second`, or if [`submit`] is going to store it so.
async fn will_replace(inbox: &Inbox, new_event: &NewEvent, second: &ProviderEvent) -> Result<bool, Error> {
    let Some(stored) = inbox.get(&new_event.event_id).await? else { return Ok(true) };
    if stored.lacks_reading() {
        return inbox.has_same_content(&stored, new_event, &body_hash(&new_event.body)).await;
    }
    Ok(inbox.renormalize(&stored).await?.is_some_and(|kept| replaces(&kept, second)))
}

/// True if `second` is the event that calls off the booking which `event` replaces.
#[must_use]
pub fn replaces(event: &ProviderEvent, second: &ProviderEvent) -> bool {
    replaced_booking(event).is_some_and(|expected| expected.event_id == second.event_id)
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
async fn resend(inbox: &Inbox, queue: &Queue, stored: &StoredEvent) -> Result<(), Error> {
    match inbox.renormalize(stored).await? {
        Some(event) => queue.send(&event, &stored.trace_id).await,
        None => Ok(()),
    }
}

/// Queues stored events for the call and the attempt that an alias leads to, whatever call they name themselves. The
/// new messages belong to that call's message group, so the queue does not drop them as duplicates of the first ones.
///
/// Returns the events that [cannot be read](Error::is_unreadable), with their errors. The others are queued all the same.
///
/// # Errors
/// [`Error::ReadInbox`], [`Error::Send`].
pub async fn adopt(
    inbox: &Inbox,
    queue: &Queue,
    events: impl IntoIterator<Item = EventId>,
    alias: &Alias,
) -> Result<Vec<(EventId, Error)>, Error> {
    let mut unreadable = Vec::new();
    for id in events {
        let (stored, mut event) = match read(inbox, &id).await {
            Ok(Some(read)) => read,
            Ok(None) => continue,
            Err(error) if error.is_unreadable() => {
                unreadable.push((id, error));
                continue;
            }
            Err(error) => return Err(error),
        };
        // An event that Switchhook made describes the call that it was made for, so it cannot move to another.
        if event.origin == Origin::Switchhook {
            continue;
        }
        event.call_id = alias.call_id.clone();
        event.attempt = Some(alias.attempt.clone());
        queue.send(&event, &stored.trace_id).await?;
    }
    Ok(unreadable)
}

/// Reads a stored event, and its meaning. `None` if the inbox does not hold it, or if it is not to be folded.
async fn read(inbox: &Inbox, id: &EventId) -> Result<Option<(StoredEvent, ProviderEvent)>, Error> {
    let Some(stored) = inbox.get(id).await? else { return Ok(None) };
    Ok(inbox.renormalize(&stored).await?.map(|event| (stored, event)))
}

/// Writes an alias under `from`, and [adopts](adopt) `event` and the events of the call that was stored under `from`. Returns false if
/// the alias was [refused](AliasOutcome::Refused). Then no event is adopted.
///
/// If one of the events cannot be read, the adoption is not finished. So the alias wakes the reconciler, which logs these events and finishes it.
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
    let outcome = calls.write_alias(from, alias, inbox.retention(), now).await?;
    let AliasOutcome::Leads { orphaned_events } = outcome else { return Ok(false) };
    let is_orphaned = !orphaned_events.is_empty();
    let unreadable = adopt(inbox, queue, orphaned_events.into_iter().chain(event.cloned()), alias).await?;
    if is_orphaned && unreadable.is_empty() {
        calls.finish_adoption(from).await?;
    }
    Ok(true)
}
