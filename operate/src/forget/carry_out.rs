//! Carries out the items that forget persons. A repetition is safe.

use std::collections::BTreeSet;

use switchhook_aws::calls::StoreOutcome;
use switchhook_aws::do_not_call::DoNotCallList;
use switchhook_aws::inbox::{creation_id, minute_of};
use switchhook_domain::{CallId, EventId, Timestamp};

use super::request::ids_of;
use super::search::received_in;
use crate::concurrent::concurrently;
use crate::dead_letters;
use crate::error::Error;
use crate::forecast::number_of;
use crate::plan::{Action, LeftAlone, Plan, PlanItem};
use crate::stack::Stack;

/// Tries of a write that loses the race against another writer.
const RACES_MAX: u32 = 20;
/// Minutes before the plan in which the search may have missed an event, because the index lags behind the table.
const LAG_MINUTES: i64 = 2;
/// Events that are erased at the same time.
const CONCURRENCY: usize = 8;

/// Result of forgetting a row.
enum ForgottenRow {
    Forgotten {
        at: Timestamp,
        events: BTreeSet<EventId>,
        ids: BTreeSet<CallId>,
    },
    /// There is no row.
    Gone,
    /// The call runs again.
    Running,
    /// Nothing is forgotten but the named events: their entity only loses the data of these, or they name no call.
    Remembered,
}

/// Carries out items that forget persons. Items of one call stand together, and the item of its row comes first.
pub(crate) async fn carry_out(stack: &Stack, plan: &Plan, items: &[PlanItem]) -> Result<Vec<LeftAlone>, Error> {
    // Dead letters first: without the row, a later plan would not find those that are hidden now.
    let letters = items.iter().filter(|item| item.action == Action::EraseDeadLetter).cloned().collect::<Vec<_>>();
    let mut left = dead_letters::delete(stack, &letters).await?;
    let hidden: Vec<PlanItem> = left.iter().map(|(item, _)| item.clone()).collect();
    let recent = received_since(stack, plan.made_at).await?;
    for of_call in items.chunk_by(|a, b| a.call_id.is_some() && a.call_id == b.call_id) {
        if of_call.iter().any(|item| hidden.contains(item)) {
            let rest = of_call.iter().filter(|item| !hidden.contains(item));
            left.extend(rest.map(|item| (item.clone(), "a dead letter of the call could not be deleted".to_owned())));
            continue;
        }
        let target = of_call.first().and_then(|item| item.call_id.as_ref());
        let row = match target {
            Some(key) if key.is_entity() => forget_entity(stack, key, of_call).await?,
            Some(call_id) => forget_row(stack, call_id, of_call).await?,
            // Nobody knows the call of such an event. If a later version reads it, its fold must not forget that call, which may go on.
            None => ForgottenRow::Remembered,
        };
        let is_alone = matches!(row, ForgottenRow::Remembered);
        let (at, mut events, ids) = match row {
            ForgottenRow::Forgotten { at, events, ids } => (at, events, ids),
            ForgottenRow::Gone | ForgottenRow::Remembered => (stack.now(), BTreeSet::new(), BTreeSet::new()),
            ForgottenRow::Running => {
                left.extend(of_call.iter().map(|item| (item.clone(), "the call is running again".to_owned())));
                continue;
            }
        };
        for id in &ids {
            stack.calls.erase_alias(id).await?;
        }
        // The index of received events no longer leads to the record of an old request.
        events.extend(target.filter(|target| !target.is_entity()).map(creation_id));
        events.extend(recent.iter().filter(|(call_id, _)| ids.contains(call_id)).map(|(_, id)| id.clone()));
        let planned = of_call.iter().filter(|item| item.action == Action::EraseEvent);
        let named: Vec<(&PlanItem, EventId)> =
            planned.filter_map(|item| Some((item, item.event_id.clone()?))).collect();
        for (_, id) in &named {
            events.remove(id);
        }
        let further = events.into_iter().map(|id| (None, id));
        let erased = named.into_iter().map(|(item, id)| (Some(item), id)).chain(further);
        let erased = erased.map(|(item, id)| erase(stack, item, id, at, is_alone));
        left.extend(concurrently(CONCURRENCY, erased).await?.into_iter().flatten());
        for item in of_call.iter().filter(|item| item.action == Action::EraseConflict) {
            let Some(id) = &item.event_id else { continue };
            left.extend(left_alone(Some(item), stack.inbox.erase_conflict(id).await)?);
        }
    }
    Ok(left)
}

/// Erases one event. An event that the plan does not name has no item.
/// `is_alone` is true if neither the entity of the event nor its call is forgotten.
async fn erase(
    stack: &Stack,
    item: Option<&PlanItem>,
    id: EventId,
    at: Timestamp,
    is_alone: bool,
) -> Result<Option<LeftAlone>, Error> {
    let erased = if is_alone { stack.inbox.erase_alone(&id, at).await } else { stack.inbox.erase(&id, at).await };
    left_alone(item, erased.map(drop))
}

/// Leaves an item alone if the stored event, or its conflicting body, cannot be read.
fn left_alone(item: Option<&PlanItem>, erased: Result<(), switchhook_aws::Error>) -> Result<Option<LeftAlone>, Error> {
    match erased {
        Ok(()) => Ok(None),
        Err(error) if error.is_unreadable() => Ok(item.map(|item| (item.clone(), error.to_string()))),
        Err(error) => Err(error.into()),
    }
}

/// Takes the number off the do-not-call list, if an item asks for that, and forgets the row.
async fn forget_row(stack: &Stack, call_id: &CallId, items: &[PlanItem]) -> Result<ForgottenRow, Error> {
    for _ in 0..RACES_MAX {
        let Some(call) = stack.calls.get_call(call_id).await? else { return Ok(ForgottenRow::Gone) };
        let events = call.history.iter().map(|entry| entry.source_event_id.clone()).collect();
        let ids = ids_of(&call);
        if let Some(at) = call.forgotten_at {
            return Ok(ForgottenRow::Forgotten { at, events, ids });
        }
        let now = stack.now();
        let Some(forgotten) = call.forget(now) else { return Ok(ForgottenRow::Running) };
        let unblocks = items.iter().any(|item| item.action == Action::UnblockNumber);
        if let Some(number) = number_of(&call).filter(|_| unblocks) {
            DoNotCallList::new(&stack.calls, &stack.inbox).erase(&number).await?;
        }
        match stack.calls.store(&forgotten).await? {
            StoreOutcome::Committed => return Ok(ForgottenRow::Forgotten { at: now, events, ids }),
            StoreOutcome::LostRace => {}
        }
    }
    Err(switchhook_aws::Error::Contended(RACES_MAX).into())
}

/// Forgets an entity, if an item asks for that. If not, erases the data of the named events from its row.
async fn forget_entity(stack: &Stack, key: &CallId, items: &[PlanItem]) -> Result<ForgottenRow, Error> {
    let is_whole = items.iter().any(|item| item.action == Action::ForgetCall);
    let named: BTreeSet<EventId> = items.iter().filter_map(|item| item.event_id.clone()).collect();
    for _ in 0..RACES_MAX {
        let Some(entity) = stack.calls.entity(key).await? else {
            return Ok(if is_whole { ForgottenRow::Gone } else { ForgottenRow::Remembered });
        };
        let now = stack.now();
        let next = match (is_whole, entity.forgotten_at) {
            (true, Some(at)) => {
                let events = entity.latest.into_iter().map(|position| position.event_id).collect();
                return Ok(ForgottenRow::Forgotten { at, events, ids: BTreeSet::from([key.clone()]) });
            }
            (true, None) => entity.forget(now),
            (false, _) => match entity.erase_events(&named) {
                Some(next) => next,
                None => return Ok(ForgottenRow::Remembered),
            },
        };
        match stack.calls.store_entity(&next, now, stack.inbox_retention()).await? {
            // The next round finds the row as it is now.
            StoreOutcome::Committed | StoreOutcome::LostRace => {}
        }
    }
    Err(switchhook_aws::Error::Contended(RACES_MAX).into())
}

/// Returns the events that arrived since the plan was made, with the calls that they name.
async fn received_since(stack: &Stack, made_at: Timestamp) -> Result<Vec<(CallId, EventId)>, Error> {
    let mut found = Vec::new();
    for minute in minute_of(made_at) - LAG_MINUTES..=minute_of(stack.now()) {
        let events = received_in(stack, minute).await?.into_iter();
        found.extend(events.filter_map(|event| Some((event.call_id?, event.event_id))));
    }
    Ok(found)
}
