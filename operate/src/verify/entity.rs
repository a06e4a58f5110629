//! Verifies entities: compares the row of an entity with the events that the inbox holds of it.

use std::collections::BTreeSet;

use switchhook_aws::inbox::minute_of;
use switchhook_domain::{CallId, Entity, EntityPosition, EventId, ProviderEvent, Timestamp};

use super::{ARRIVAL_MARGIN, Finding, NamedDifference, PAGES_MAX, Problem};
use crate::error::Error;
use crate::stack::Stack;

/// Compares the row of an entity with its events: those that are named, and those that arrived in the period. Events that may
/// still be on their way are left out. `None` if nothing differs.
pub(super) async fn verify(
    stack: &Stack,
    key: CallId,
    named: Vec<EventId>,
    period: Option<(Timestamp, Timestamp)>,
) -> Result<Option<Finding>, Error> {
    match problem(stack, &key, named, period).await {
        Ok(problem) => Ok(problem.map(|problem| Finding { call_id: key, problem })),
        Err(Error::Aws(error)) if error.is_unreadable() => {
            Ok(Some(Finding { call_id: key, problem: Problem::Unreadable { error: error.to_string() } }))
        }
        Err(error) => Err(error),
    }
}

async fn problem(
    stack: &Stack,
    key: &CallId,
    named: Vec<EventId>,
    period: Option<(Timestamp, Timestamp)>,
) -> Result<Option<Problem>, Error> {
    let entity = stack.calls.entity(key).await?;
    let mut ids: BTreeSet<EventId> = named.into_iter().collect();
    if let Some((since, until)) = period {
        let minutes = minute_of(since)..=minute_of(until);
        let Some(found) = stack.inbox.ids_received_in(minutes, key, PAGES_MAX).await? else {
            return Ok(Some(Problem::TooFarBack));
        };
        ids.extend(found);
    }
    let is_searched_in_vain = period.is_some() && ids.is_empty();
    let latest = entity.as_ref().and_then(|entity| entity.latest.last());
    ids.extend(latest.map(|latest| latest.event_id.clone()));
    // The row lacks nothing of an event that an operator has discarded. It may hold it all the same: of a booking, its call may be missing.
    let discarded = stack.inbox.discarded(&ids.iter().cloned().collect::<Vec<_>>()).await?;
    let is_wanted = |event: &&ProviderEvent| !discarded.contains(&event.event_id);
    let mut events = stack.inbox.read_by_id(ids).await?;
    let arrived_until = stack.now().minus(ARRIVAL_MARGIN);
    events.retain(|event| {
        event.received_at < arrived_until || latest.is_some_and(|latest| latest.event_id == event.event_id)
    });
    let Some(entity) = entity else {
        if is_searched_in_vain {
            return Ok(Some(Problem::Unknown));
        }
        let events: Vec<EventId> = events.iter().filter(is_wanted).map(|event| event.event_id.clone()).collect();
        return Ok((!events.is_empty()).then_some(Problem::Lost { events, is_placed: false }));
    };
    let (mut differences, mut missing) = (Vec::new(), Vec::new());
    for event in events.iter().filter(is_wanted) {
        let Some(difference) = difference(&entity, event) else { continue };
        differences.push(difference);
        missing.push(event.event_id.clone());
    }
    differences.extend(difference_of_latest(&entity, &events));
    Ok((!differences.is_empty()).then_some(Problem::Different { differences, missing, is_forgetful: false }))
}

/// Returns what the row lacks of an event: the event itself, the call that a booking schedules, or its erasure. A fold of the event mends
/// all of them.
fn difference(entity: &Entity, event: &ProviderEvent) -> Option<NamedDifference> {
    let id = &event.event_id;
    if !EntityPosition::of(event).is_some_and(|position| entity.includes(&position)) {
        let text = format!("the inbox holds the event {id}, received at {}, and the row does not", event.received_at);
        return Some(NamedDifference { name: "missing_event", text });
    }
    if !entity.includes_event(event) {
        let text = format!("the event {id} is folded, and the calls of its booking do not agree with the row");
        return Some(NamedDifference { name: "calls_of_booking", text });
    }
    let is_erased = event.entity.as_ref().is_some_and(|report| report.data.is_empty());
    let has_data = entity.announced.iter().any(|known| known.event_id == *id && !known.report.data.is_empty());
    let is_remembered = event.forgotten_at.is_some() && entity.forgotten_at.is_none();
    (is_remembered || (is_erased && has_data)).then(|| NamedDifference {
        name: "not_forgotten",
        text: format!("the event {id} was erased in the inbox, and the row still holds data of it or of its entity"),
    })
}

/// Returns the difference between the latest event of the row and the inbox. An event that is later in the inbox is missing in the
/// row, so only the other direction is left.
fn difference_of_latest(entity: &Entity, events: &[ProviderEvent]) -> Option<NamedDifference> {
    let latest = entity.latest.last()?;
    let stored = events.iter().find(|event| event.event_id == latest.event_id);
    let (name, text) = match stored.map(EntityPosition::of) {
        Some(position) if position.as_ref() == Some(latest) => return None,
        Some(_) => ("wrong_event", "and the inbox holds it with another time or counter"),
        None => ("unknown_event", "and the inbox does not hold it"),
    };
    let text = format!("the latest event of the row is {}, {text}", latest.event_id);
    Some(NamedDifference { name, text })
}
