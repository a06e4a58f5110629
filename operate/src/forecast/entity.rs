//! Forecasts for events that are about an entity. Only a booking has an effect: it schedules a call, so that a phone could ring.

use switchhook_aws::inbox::Reread;
use switchhook_domain::{
    BookingReport, CallId, Disposition, Entity, EntityFate, EntityPosition, ProviderEvent, Timestamp, fold_entity,
};

use super::{CONCURRENCY, Forecast, Found, Step, find, gone, sends_event};
use crate::concurrent::concurrently;
use crate::error::Error;
use crate::plan::{Action, Effect, PlanItem, Subject};
use crate::stack::Stack;

/// Reason why the domain event of an event is not published again: nothing has published it yet.
pub(crate) const NOT_FOLDED: &str = "the event is not folded yet: replay it, which publishes it";

/// Returns what `items`, which belong to the entity `key`, would do now.
pub(super) async fn forecast(
    stack: &Stack,
    key: &CallId,
    items: &[PlanItem],
    now: Timestamp,
) -> Result<Forecast, Error> {
    let entity = match stack.calls.entity(key).await {
        Ok(entity) => entity,
        Err(error) if error.is_unreadable() => {
            return Ok(Forecast { effect: None, steps: items.iter().map(|_| Step::Skip(error.to_string())).collect() });
        }
        Err(error) => return Err(error.into()),
    };
    let found = items.iter().map(|item| async move {
        let is_read = sends_event(item.action) || item.action == Action::Republish;
        let Some(event_id) = item.event_id.as_ref().filter(|_| is_read) else { return Ok(None) };
        find(stack, event_id).await.map(Some)
    });
    let found = concurrently(CONCURRENCY, found).await?;
    let entity = entity.as_ref();
    let steps = items.iter().zip(found).map(|(item, found)| match (item.action, found) {
        (_, Some(Found::Unreadable(error))) => Step::Skip(error),
        (Action::Republish, None) => Step::Skip("the entity does not exist".to_owned()),
        (Action::Republish, Some(found)) => step_of_republish(entity, item, found),
        (_, Some(found)) => step_of_event(entity, key, item, found),
        (action, None) if sends_event(action) => Step::Skip("the item names no event".to_owned()),
        (_, None) => Step::Act,
    });
    let steps: Vec<Step> = steps.collect();
    Ok(Forecast { effect: effect_of_booking(entity, key, &steps, now), steps })
}

/// Returns the effect of steps after which the consumer schedules the call of a booking, because its appointment is to come. `None` if it
/// schedules none.
fn effect_of_booking(entity: Option<&Entity>, key: &CallId, steps: &[Step], now: Timestamp) -> Option<Effect> {
    let sent = |step: &Step| match step {
        Step::Send { event, .. } => Some((**event).clone()),
        Step::Store(_)
        | Step::Refold(_)
        | Step::Act
        | Step::Mend(_)
        | Step::Unchanged
        | Step::ReadsDifferently(_)
        | Step::Skip(_) => None,
    };
    let sent: Vec<ProviderEvent> = steps.iter().filter_map(sent).collect();
    let is_to_come = |starts_at: Option<Timestamp>| starts_at.is_some_and(|at| at > now);
    let schedules = |event: &ProviderEvent| match event.booking.as_deref() {
        Some(BookingReport::Booked(booked)) => is_to_come(booked.starts_at),
        Some(BookingReport::Canceled { .. }) | None => false,
    };
    // Whatever event of a booking the consumer gets, it makes the calls agree with the row.
    let after = fold_entity(entity, key, &sent).next.or_else(|| entity.cloned());
    let booking = after.and_then(|entity| entity.booking).filter(|_| !sent.is_empty());
    let lacks_call = booking
        .is_some_and(|booking| !booking.calls_agree && booking.call_id.is_some() && is_to_come(booking.starts_at));
    let changing = steps.iter().filter(|step| step.is_changing()).count();
    (lacks_call || sent.iter().any(schedules)).then(|| Effect::ringing(key.clone(), Subject::Booking, changing))
}

fn step_of_republish(entity: Option<&Entity>, item: &PlanItem, found: Found) -> Step {
    let event = match found {
        Found::Event(_, Reread::Foldable(event)) => event,
        Found::Event(..) | Found::Gone | Found::Unreadable(_) => {
            let announced = entity.iter().flat_map(|entity| &entity.announced);
            let is_in_row = announced.map(|event| Some(&event.event_id)).any(|id| id == item.event_id.as_ref());
            return if is_in_row { Step::Act } else { gone(item) };
        }
    };
    let fate = entity.zip(EntityPosition::of(&event)).map(|(entity, position)| entity.fate(&position));
    match fate {
        Some(EntityFate::Folded(Some(Disposition::Stale)) | EntityFate::CallsDisagree(Some(Disposition::Stale))) => {
            Step::Unchanged
        }
        Some(EntityFate::Folded(_) | EntityFate::CallsDisagree(_)) => Step::Act,
        Some(EntityFate::NotFolded) | None => Step::Skip(NOT_FOLDED.to_owned()),
    }
}

/// Returns the step that folds an event. An event that would change nothing is not queued. The event of a booking is queued too if the
/// booking's calls do not agree with it yet.
fn step_of_event(entity: Option<&Entity>, key: &CallId, item: &PlanItem, found: Found) -> Step {
    let (event, stored): (Box<ProviderEvent>, _) = match (found, &item.message) {
        (Found::Event(stored, Reread::Foldable(event)), _) => (event, Some(stored)),
        (Found::Gone, Some(event)) => (event.clone(), None),
        (Found::Gone, None) => return gone(item),
        (Found::Event(_, Reread::Recorded | Reread::Erased), _) => return Step::Unchanged,
        (Found::Event(_, Reread::Quarantined(error)), _) => {
            return Step::Skip(format!("the event is not readable: {error}"));
        }
        (Found::Unreadable(error), _) => return Step::Skip(error),
    };
    if event.call_id != *key {
        return Step::Skip(format!("the event belongs to {}", event.call_id));
    }
    let is_new = fold_entity(entity, key, std::slice::from_ref(&event)).next.is_some();
    let is_open = entity.is_some_and(|entity| !entity.includes_event(&event));
    if is_new || is_open { Step::Send { event, stored } } else { Step::Unchanged }
}
