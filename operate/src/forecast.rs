//! Forecasts: the real row of a call, folded with the planned events as the consumer would fold them.
//!
//! **A plan and a run ask the same function.** So a run can tell whether its effect is still the planned one. The state after it
//! is exact, because a state is a function of the set of events. The domain events are those of one batch. If the
//! consumer gets the events of a call in several batches, the call may also announce an ending and correct it at once.

mod do_not_call;
mod entity;
mod phones;

use std::collections::BTreeMap;

use switchhook_aws::calls::{Alias, Resolved};
use switchhook_aws::inbox::{Reread, StoredEvent, is_kept_without_event};
use switchhook_domain::{
    AttemptKey, Call, CallEvent, CallId, EventId, EventKind, Fold, FoldOutcome, Origin, ProviderEvent, Timestamp,
    Transition, fold, refold,
};

use crate::concurrent::concurrently;
use crate::error::Error;
use crate::plan::{Action, CallSummary, Effect, PlanId, PlanItem, Subject};
use crate::reread::ReadAnew;
use crate::stack::Stack;

pub(crate) use do_not_call::number_of;
pub(crate) use entity::NOT_FOLDED;
use phones::{could_ring, effect_without_row};

/// Concurrent reads of the events of one call.
const CONCURRENCY: usize = 8;

/// Next step for one item.
#[derive(Debug)]
pub(crate) enum Step {
    /// Queue the event, after it was made foldable if ingress had decided not to fold it.
    Send {
        event: Box<ProviderEvent>,
        /// `None` if the inbox no longer holds the event: it comes from the message of a dead letter.
        stored: Option<Box<StoredEvent>>,
    },
    /// Store the next row of the call. The steps after it start from that row.
    Store(Box<Transition>),
    /// Store and queue the event that asks for a refold.
    Refold(Box<ProviderEvent>),
    /// An action that changes no call.
    Act,
    /// Nothing is left to do: the event is in its call.
    Unchanged,
    /// The event is in its call, and a restored inbox has lost the meaning that it has there. The meaning is stored, and the row stays: a refold
    /// would take out what the inbox lacks.
    Mend(Box<(ProviderEvent, StoredEvent)>),
    /// The event is in its call, but it is read differently now. Only a refold changes that. Holds the event as it is read now, if the
    /// entry of its provider finds a decision that must be stored before the refold.
    ReadsDifferently(Option<Box<(ProviderEvent, StoredEvent)>>),
    Skip(String),
}

impl Step {
    /// True if a run has something to do.
    pub(crate) const fn is_changing(&self) -> bool {
        !matches!(self, Self::Unchanged | Self::ReadsDifferently(None) | Self::Skip(_))
    }

    /// Event in its call whose meaning must be stored before a refold.
    fn decided(&self) -> Option<&ProviderEvent> {
        match self {
            Self::Mend(read) | Self::ReadsDifferently(Some(read)) => Some(&read.0),
            Self::ReadsDifferently(None)
            | Self::Send { .. }
            | Self::Store(_)
            | Self::Refold(_)
            | Self::Act
            | Self::Unchanged
            | Self::Skip(_) => None,
        }
    }
}

/// Effect of the items of one call, and the step for each.
#[derive(Debug)]
pub(crate) struct Forecast {
    /// `None` if no item changes anything, or the items belong to no call.
    pub(crate) effect: Option<Effect>,
    /// One step for each item, in the same order.
    pub(crate) steps: Vec<Step>,
}

/// Stored event, and what this version reads from it.
enum Found {
    Gone,
    Unreadable(String),
    Event(Box<StoredEvent>, Reread),
}

/// Returns what `items`, which belong to the call `call_id`, would do now. Items without a call change none.
pub(crate) async fn forecast(
    stack: &Stack,
    plan: &PlanId,
    call_id: Option<&CallId>,
    items: &[PlanItem],
    now: Timestamp,
) -> Result<Forecast, Error> {
    if let Some(key) = call_id.filter(|id| id.is_entity()) {
        return entity::forecast(stack, key, items, now).await;
    }
    let stored = match read_row(stack, call_id).await {
        Ok(row) => row,
        Err(error) if error.is_unreadable() => {
            // A discard does not need the row.
            let is_discard = |item: &PlanItem| item.action == Action::DiscardDeadLetter;
            let step = |item| if is_discard(item) { Step::Act } else { Step::Skip(error.to_string()) };
            let steps = items.iter().map(step).collect();
            return Ok(Forecast { effect: effect_without_row(call_id, items), steps });
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(reason) = objection(items, stored.as_ref()) {
        return Ok(Forecast { effect: None, steps: items.iter().map(|_| Step::Skip(reason.clone())).collect() });
    }
    let found = items.iter().map(|item| async move {
        let Some(event_id) = item.event_id.as_ref().filter(|_| sends_event(item.action)) else { return Ok(None) };
        find(stack, event_id).await.map(Some)
    });
    let found = concurrently(CONCURRENCY, found).await?;
    let next = match items.iter().find(|item| matches!(item.action, Action::Rebuild | Action::Stop)) {
        Some(item) => match next_row(stack, stored.as_ref(), call_id, item.action, now).await {
            Ok(next) => next,
            // Without what the inbox records of it, the call would become another one.
            Err(error) if error.is_unreadable() => {
                let steps = items.iter().map(|_| Step::Skip(error.to_string())).collect();
                return Ok(Forecast { effect: None, steps });
            }
            Err(error) => return Err(error.into()),
        },
        None => None,
    };
    let row = next.as_ref().map(|next| next.call.clone()).or_else(|| stored.clone());
    let target = row.as_ref().map(|row| &row.call_id).or(call_id);
    let mut aliases = BTreeMap::new();
    let mut steps = Vec::new();
    for (item, found) in items.iter().zip(found) {
        let step = match (item.action, found) {
            (_, Some(Found::Gone)) => match &item.message {
                // The message of a dead letter carries its event.
                Some(event) => {
                    let reread = Reread::Foldable(event.clone());
                    step_of_event(stack, row.as_ref(), target, item, None, reread, &mut aliases).await?
                }
                None => gone(item),
            },
            (_, Some(Found::Unreadable(error))) => Step::Skip(error),
            (_, Some(Found::Event(stored, reread))) => {
                step_of_event(stack, row.as_ref(), target, item, Some(stored), reread, &mut aliases).await?
            }
            (Action::Refold, None) => step_of_refold(row.as_ref(), plan, now),
            (Action::Rebuild | Action::Stop, None) => {
                next.clone().map_or(Step::Unchanged, |next| Step::Store(Box::new(next)))
            }
            (Action::Republish, None) if row.is_none() => Step::Skip("the call does not exist".to_owned()),
            (Action::Replay | Action::Reprocess, None) => Step::Skip("the item names no event".to_owned()),
            (Action::UnblockNumber, None) => {
                do_not_call::objection(stack, row.as_ref()).await?.map_or(Step::Act, Step::Skip)
            }
            (
                Action::Redrive
                | Action::DiscardDeadLetter
                | Action::DiscardQuarantined
                | Action::Republish
                | Action::DeleteRelayFailure
                | Action::CopyPart
                | Action::Refill
                | Action::ForgetCall
                | Action::EraseEvent
                | Action::EraseConflict
                | Action::EraseDeadLetter,
                None,
            ) => Step::Act,
        };
        steps.push(step);
    }
    let effect = match target {
        Some(target) => {
            let rows = (stored.as_ref(), row.as_ref());
            fold_steps(stack, rows, target, (items, &mut steps), now).await?
        }
        None => None,
    };
    Ok(Forecast { effect, steps })
}

/// Returns the step for an event that the inbox no longer holds.
fn gone(item: &PlanItem) -> Step {
    Step::Skip(if item.has_message() {
        "the inbox no longer holds the event, and its dead letter could not be received: another reader may hide it, so plan again"
            .to_owned()
    } else {
        "the inbox no longer holds the event".to_owned()
    })
}

/// Returns the reason why the items of a call cannot be carried out. `None` if they can, or do not forget the call.
fn objection(items: &[PlanItem], row: Option<&Call>) -> Option<String> {
    let forgets = items.iter().any(|item| item.action.forgets());
    let call = row.filter(|call| forgets && !call.has_ended())?;
    Some(format!("the call has not ended, its job is {}: cancel it, or wait until it has ended", call.job.as_str()))
}

/// True if the action queues the event of its item.
pub(crate) const fn sends_event(action: Action) -> bool {
    match action {
        Action::Replay | Action::Redrive | Action::Reprocess => true,
        Action::DiscardDeadLetter
        | Action::DiscardQuarantined
        | Action::Republish
        | Action::DeleteRelayFailure
        | Action::Refold
        | Action::Rebuild
        | Action::Stop
        | Action::CopyPart
        | Action::Refill
        | Action::UnblockNumber
        | Action::ForgetCall
        | Action::EraseEvent
        | Action::EraseConflict
        | Action::EraseDeadLetter => false,
    }
}

async fn read_row(stack: &Stack, call_id: Option<&CallId>) -> Result<Option<Call>, switchhook_aws::Error> {
    let Some(call_id) = call_id else { return Ok(None) };
    let Resolved { call, .. } = stack.calls.resolve(call_id).await?;
    Ok(call)
}

/// Returns the row that an action on a placed call writes. `None` if it writes none.
async fn next_row(
    stack: &Stack,
    row: Option<&Call>,
    call_id: Option<&CallId>,
    action: Action,
    now: Timestamp,
) -> Result<Option<Transition>, switchhook_aws::Error> {
    let policy = &stack.policy();
    match (action, row.map(|row| &row.call_id).or(call_id)) {
        (Action::Stop, _) => Ok(row.and_then(|row| row.stop_unknown(policy, now))),
        (_, None) => Ok(None),
        (_, Some(call_id)) => rebuild(stack, row, call_id, now).await,
    }
}

/// Returns the row of a placed call with everything that the inbox records of it. `None` if the row lacks nothing.
pub(crate) async fn rebuild(
    stack: &Stack,
    row: Option<&Call>,
    call_id: &CallId,
    now: Timestamp,
) -> Result<Option<Transition>, switchhook_aws::Error> {
    let creation = match row {
        Some(row) if row.plan.is_some() => None,
        Some(_) | None => stack.inbox.creation(call_id).await?,
    };
    if creation.is_none() && row.is_none_or(|row| row.plan.is_none()) {
        return Ok(None);
    }
    let records = stack.inbox.dial_records(call_id).await?;
    Ok(Call::rebuild(row, creation.as_ref(), &records, &stack.policy(), now))
}

async fn find(stack: &Stack, event_id: &EventId) -> Result<Found, Error> {
    let found = async {
        let Some(stored) = stack.inbox.get(event_id).await? else { return Ok(Found::Gone) };
        Ok::<_, switchhook_aws::Error>(match stack.read_anew(&stored).await? {
            ReadAnew::Read(reread) => Found::Event(Box::new(stored), reread),
            ReadAnew::NoEntry(reason) => Found::Unreadable(reason),
        })
    };
    match found.await {
        Ok(found) => Ok(found),
        Err(error) if error.is_unreadable() => Ok(Found::Unreadable(error.to_string())),
        Err(error) => Err(Error::Aws(error)),
    }
}

async fn step_of_event(
    stack: &Stack,
    row: Option<&Call>,
    target: Option<&CallId>,
    item: &PlanItem,
    stored: Option<Box<StoredEvent>>,
    reread: Reread,
    aliases: &mut BTreeMap<CallId, Option<Alias>>,
) -> Result<Step, Error> {
    let is_in_row = row.zip(item.event_id.as_ref()).is_some_and(|(row, id)| row.contains_event(id));
    let mut event = match reread {
        Reread::Foldable(event) => event,
        Reread::Erased if is_in_row => return Ok(Step::Unchanged),
        Reread::Recorded | Reread::Quarantined(_) if is_in_row => return Ok(Step::ReadsDifferently(None)),
        Reread::Recorded if item.action == Action::Reprocess => {
            return Ok(Step::Skip(match item.event_id.as_ref().and_then(EventId::origin) {
                Some(Origin::Provider(provider)) if provider.is_configured() => {
                    format!("no rule of the entry of {provider} applies to the event")
                }
                Some(_) | None => "this version reads the event, and folds no event of its type".to_owned(),
            }));
        }
        Reread::Recorded => return Ok(Step::Unchanged),
        Reread::Erased => return Ok(Step::Skip("the event is erased: its person was forgotten".to_owned())),
        Reread::Quarantined(error) => return Ok(Step::Skip(format!("the event is not readable: {error}"))),
    };
    let Some(target) = target else {
        return Ok(Step::Skip("the call of the event is not known yet: plan again".to_owned()));
    };
    let read = event.clone();
    if event.call_id != *target {
        if !aliases.contains_key(&event.call_id) {
            let alias = stack.calls.resolve(&event.call_id).await?.alias;
            aliases.insert(event.call_id.clone(), alias);
        }
        match aliases.get(&event.call_id).and_then(Option::as_ref) {
            Some(alias) if alias.call_id == *target && event.origin == Origin::Switchhook => {
                return Ok(Step::Skip("the event describes a call that was merged into another".to_owned()));
            }
            Some(alias) if alias.call_id == *target => {
                event.call_id = alias.call_id.clone();
                event.attempt = Some(alias.attempt.clone());
            }
            Some(_) | None => return Ok(Step::Skip(format!("the event belongs to the call {}", event.call_id))),
        }
    }
    if let Some(row) = row.filter(|_| is_in_row) {
        // A restored inbox may have lost the meaning that the row holds.
        let anew = match stored {
            Some(stored) if stored.disposition.is_some() || stack.is_read_anew(&stored, &read).await? => {
                Some(Box::new((*read, *stored)))
            }
            Some(_) | None => None,
        };
        return Ok(match anew {
            None if reads_alike(row, &event) => Step::Unchanged,
            Some(anew) if reads_alike(row, &event) => Step::Mend(anew),
            anew => Step::ReadsDifferently(anew),
        });
    }
    Ok(match row {
        Some(_) if is_drift_event(&event) => Step::Refold(event),
        Some(_) | None => Step::Send { event, stored },
    })
}

/// True if the event reports drift, and so asks for a refold of its call.
fn is_drift_event(event: &ProviderEvent) -> bool {
    event.call_events.iter().all(|event| event.kind == EventKind::DriftFound)
}

fn step_of_refold(row: Option<&Call>, plan: &PlanId, now: Timestamp) -> Step {
    let Some(row) = row else { return Step::Skip("the call does not exist".to_owned()) };
    // The id of the plan makes the event unique, so that an operator can ask for a refold again.
    let drift = row.drift_found_event(plan.as_str(), now);
    if row.contains_event(&drift.event_id) { Step::Unchanged } else { Step::Refold(Box::new(drift)) }
}

/// True if the row holds the event as this version reads it.
fn reads_alike(row: &Call, event: &ProviderEvent) -> bool {
    let entries = || row.history.iter().filter(|entry| entry.source_event_id == event.event_id);
    let held: Vec<&CallEvent> = entries().map(|entry| &entry.event).collect();
    let is_same_attempt = |index: Option<usize>| match (index, &event.attempt) {
        (None, None) => true,
        (Some(index), Some(key)) => row.attempt_records.get(index).is_some_and(|record| {
            record.key.as_ref().map(AttemptKey::as_str) == Some(key.as_str())
                || (record.provider_call_id.is_some() && record.provider_call_id == event.provider_call_id)
        }),
        (Some(_), None) => false,
        // Events that concern the call ignore the attempt that they name.
        (None, Some(_)) => entries().all(|entry| entry.attempt_index.is_none()),
    };
    let names_more = (row.appointment_id.is_none() && event.appointment_id.is_some())
        || (row.from.is_none() && event.from.is_some())
        || (row.to.is_none() && event.to.is_some());
    held == event.call_events.iter().collect::<Vec<_>>()
        && entries().all(|entry| is_same_attempt(entry.attempt_index))
        && !names_more
}

/// Folds the events of the steps into the second of the two rows, which the steps start from. The first one is stored now. A step whose event the fold does not take becomes [`Step::Unchanged`] or
/// [`Step::Skip`].
async fn fold_steps(
    stack: &Stack,
    (before, row): (Option<&Call>, Option<&Call>),
    target: &CallId,
    (items, steps): (&[PlanItem], &mut [Step]),
    now: Timestamp,
) -> Result<Option<Effect>, Error> {
    let policy = &stack.policy();
    let mut sent: Vec<ProviderEvent> = Vec::new();
    let mut places = Vec::new();
    for (place, step) in steps.iter().enumerate() {
        if let Step::Send { event, .. } = step {
            sent.push((**event).clone());
            places.push(place);
        }
    }
    let Fold { transition, outcomes } = fold(row, &sent, policy, now);
    let mut blocks_number = false;
    for ((place, outcome), event) in places.into_iter().zip(outcomes).zip(&sent) {
        let replaced = match outcome {
            FoldOutcome::Folded => {
                blocks_number |= event.block_number;
                continue;
            }
            FoldOutcome::Duplicate => Step::Unchanged,
            FoldOutcome::Refused => {
                Step::Skip("Switchhook itself made the event, and its call does not exist".to_owned())
            }
            FoldOutcome::Quarantined => Step::Skip("the call has no room for the event".to_owned()),
        };
        if let Some(step) = steps.get_mut(place) {
            *step = replaced;
        }
    }
    let decided: Vec<ProviderEvent> = steps.iter().filter_map(Step::decided).cloned().collect();
    let mut after = transition.map(|transition| transition.call).or_else(|| row.cloned());
    let mut skipped_refold = None;
    for step in steps.iter_mut() {
        let (Step::Refold(drift), Some(call)) = (&*step, &after) else { continue };
        let read = match stack.inbox.events_of_call(call, now).await {
            Ok(events) => events.ok_or_else(|| "the call has too many events to fold it again".to_owned()),
            Err(error) if error.is_unreadable() => Err(error.to_string()),
            Err(error) => return Err(error.into()),
        };
        let mut events = match read {
            Ok(events) => events,
            Err(reason) => {
                *step = Step::Skip(reason.clone());
                skipped_refold = Some(reason);
                continue;
            }
        };
        events.retain(|event| !decided.iter().any(|new| new.event_id == event.event_id));
        events.extend(
            sent.iter()
                .chain(&decided)
                .filter(|new| !events.iter().any(|one| one.event_id == new.event_id))
                .cloned()
                .collect::<Vec<_>>(),
        );
        let is_kept = |entry: &_| is_kept_without_event(call, entry, now);
        if let Some(transition) = refold(call, &events, is_kept, drift, policy, now).transition {
            after = Some(transition.call);
        }
    }
    if let Some(reason) = skipped_refold {
        leave_as_stored(steps, &reason);
    }
    let is_republished = items.iter().any(|item| item.action == Action::Republish);
    let discarded = items.iter().filter(|item| item.action == Action::DiscardDeadLetter);
    let discarded = discarded.filter_map(|item| item.event_id.clone()).collect();
    let folded = sent.iter().map(|event| event.event_id.clone()).collect();
    let announced = if is_republished { 0 } else { before.map_or(0, |row| row.announcements.len()) };
    let events = after.as_ref().map(|after| after.domain_events_from(announced + 1)).unwrap_or_default();
    let changing = steps.iter().filter(|step| step.is_changing()).count();
    let could_ring = could_ring(stack, before, after.as_ref(), (&folded, &discarded)).await?;
    Ok((changing > 0).then(|| Effect {
        call_id: target.clone(),
        about: Subject::Call,
        items: changing,
        before: before.map(CallSummary::new),
        after: after.as_ref().map(CallSummary::new),
        corrections: events.iter().filter(|event| event.corrects.is_some() && !is_republished).count(),
        announces: events.into_iter().map(|event| event.event_type).collect(),
        could_ring,
        blocks_number,
    }))
}

/// Skips the events that are read differently now, because their call is not folded again. Otherwise a run would store a decision that
/// the row of the call does not have. It would also delete the dead letter of an event that its call has in another meaning.
fn leave_as_stored(steps: &mut [Step], reason: &str) {
    for step in steps {
        match step {
            Step::ReadsDifferently(_) => *step = Step::Skip(reason.to_owned()),
            Step::Send { .. }
            | Step::Store(_)
            | Step::Refold(_)
            | Step::Act
            | Step::Mend(_)
            | Step::Unchanged
            | Step::Skip(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise the dead letter of such an event would be deleted as finished.
    #[test]
    fn event_that_is_read_differently_is_skipped_if_its_call_is_not_folded_again() {
        let mut steps = [Step::ReadsDifferently(None), Step::Unchanged];
        leave_as_stored(&mut steps, "too many events");
        assert!(matches!(&steps[0], Step::Skip(reason) if reason == "too many events"));
        assert!(matches!(&steps[1], Step::Unchanged));
    }
}
