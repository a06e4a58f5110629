//! Forgets persons: erases their data from calls, entities, events and dead letters.
//!
//! **A forgotten call keeps its state, its history and its announcements.** What describes the person is erased: numbers,
//! metadata, bodies, headers, error texts. The row then says that the person was forgotten. So the consumer erases each late
//! event, and a repair gives the same state as before.
//!
//! **No plan, run or audit record holds a phone number.** A plan for a number lists the calls and the events that were found by it.
//!
//! An entity is forgotten whole if it is named by its key. A webhook that is only found by its body is erased alone, because its
//! entity may be about other persons too.
//!
//! The row is forgotten first. From then on, no write brings the person back, so a run that stops half-way is simply
//! resumed.

mod carry_out;
mod request;
mod search;
mod words;

use std::collections::BTreeSet;

use serde_json::json;
use switchhook_domain::{CallId, EventId};

use crate::dead_letters;
use crate::dials::is_blocked;
use crate::draft::Draft;
use crate::error::{Error, Refusal};
use crate::forecast::number_of;
use crate::plan::{Action, NotFound, Plan, PlanItem, Verb};
use crate::selection::{self, Progress};
use crate::stack::Stack;

pub(crate) use carry_out::carry_out;
pub use request::{ForgetFilter, ForgetRequest};

use search::{Target, Targets, spellings};

/// Number of unreadable events that a warning names.
const WARNED_MAX: usize = 5;

/// Plans to forget persons. Reads every minute of the inbox, or those since the first of the calls was created if Switchhook placed them all.
/// Calls `progress` after each minute.
///
/// # Errors
/// [`Refusal::EmptyFilter`], [`Refusal::FutureTime`], [`Refusal::TooManyItems`] if a single call has more items than the plan may have, and the
/// errors of the tables and of the queue.
pub async fn plan(
    stack: &Stack,
    request: &ForgetRequest,
    items_max: usize,
    progress: Progress<'_>,
) -> Result<Plan, Error> {
    if let Some(since) = request.since {
        selection::refuse_future(stack, since).await?;
    }
    let mut targets = Targets::find(stack, &request.filter).await?;
    let bodies = targets.search_inbox(stack, request, progress).await?;
    let letters = dead_letters::list(stack, items_max.saturating_add(1)).await?;
    targets.add_letters(stack, &letters).await?;
    let examined = targets.examined();
    // An appointment may have webhooks about no call, and no call.
    let has_ids = matches!(request.filter, ForgetFilter::Calls(_));
    let (mut groups, mut not_found): (Vec<Vec<PlanItem>>, _) = (Vec::new(), Vec::new());
    for target in targets.iter() {
        let letters: Vec<&dead_letters::DeadLetter> =
            letters.iter().map(|(_, letter)| letter).filter(|letter| target.has_letter(letter)).collect();
        let items = items_of(target, &letters, request.also_do_not_call);
        if !items.is_empty() {
            groups.push(items);
        } else if has_ids && target.is_unknown() {
            not_found.push(unknown(&target.call_id));
        }
    }
    // Events that name no call are a group each.
    for (entity, event_id) in bodies.found {
        let of_event = letters.iter().map(|(_, letter)| letter);
        let of_event = of_event.filter(|letter| letter.event_id.as_ref() == Some(&event_id));
        let erased = dead_letters::merged(of_event.map(|letter| of_letter(letter, entity.clone())));
        let mut items = vec![PlanItem::of_event(Action::EraseEvent, event_id, entity)];
        items.extend(erased);
        groups.push(items);
    }
    let conflicts = bodies.conflicts.into_iter();
    groups.extend(conflicts.map(|event_id| vec![PlanItem::of_event(Action::EraseConflict, event_id, None)]));
    let all: usize = groups.iter().map(Vec::len).sum();
    let unblocks = groups.iter().flatten().any(|item| item.action == Action::UnblockNumber);
    let mut items: Vec<PlanItem> = Vec::new();
    for group in groups {
        // A call is forgotten as a whole.
        if items.len() + group.len() > items_max {
            if items.is_empty() {
                return Err(Refusal::TooManyItems { asked: group.len(), most: items_max }.into());
            }
            break;
        }
        items.extend(group);
    }
    let capped = items.len() < all || letters.not_received > 0;
    let filter = json!({ "forget": request.filter.to_json(), "also_do_not_call": request.also_do_not_call });
    let draft = Draft { verb: Verb::Forget, filter, items, capped, continue_at: None, examined, not_found };
    let mut plan = draft.work_out(stack).await?;
    plan.warnings.extend(unread_warning(&bodies.unreadable));
    if plan.found() == 0 {
        plan.warnings.extend(country_warning(&request.filter).map(str::to_owned));
    }
    if request.also_do_not_call && !unblocks {
        plan.warnings.extend(blocked_warning(stack, &request.filter).await?.map(str::to_owned));
    }
    plan.store(stack).await?;
    Ok(plan)
}

fn unknown(id: &CallId) -> NotFound {
    let kind = if id.is_entity() { "entity" } else { "call" };
    let reason = format!(
        "no {kind} with this id is stored, and no webhook of it since the time that was searched: check the id. If the row \
         has expired, --since TIME searches the inbox for its webhooks"
    );
    NotFound { id: id.to_string(), reason }
}

/// Returns a warning about the events whose body could not be searched. `None` if there are none.
fn unread_warning(ids: &BTreeSet<EventId>) -> Option<String> {
    let named: Vec<&str> = ids.iter().take(WARNED_MAX).map(EventId::as_str).collect();
    let more = if ids.len() > named.len() { ", and more" } else { "" };
    (!ids.is_empty()).then(|| {
        let (number, named) = (ids.len(), named.join(", "));
        format!("webhooks that cannot be read were not searched for the person ({number}): {named}{more}")
    })
}

/// Returns a warning if the number that was named may lack its country code. Calls have their numbers with it.
fn country_warning(filter: &ForgetFilter) -> Option<&'static str> {
    let ForgetFilter::Number(number) = filter else { return None };
    let text = number.as_str();
    let has_code = text.contains(['+', ':', '@']) || text.trim_start().starts_with("00");
    (!has_code).then_some("the number has no plus sign: if it lacks its country code, name it with both")
}

/// Returns a warning if the number that was named is on the do-not-call list. The plan cannot take it off, because no call has it, and the
/// plan holds no number.
async fn blocked_warning(stack: &Stack, filter: &ForgetFilter) -> Result<Option<&'static str>, Error> {
    let ForgetFilter::Number(number) = filter else { return Ok(None) };
    for number in spellings(number) {
        if is_blocked(stack, &number).await? {
            return Ok(Some(
                "the number stays on the do-not-call list, because no stored call has it: DELETE /do-not-call takes it off",
            ));
        }
    }
    Ok(None)
}

/// Returns the items that forget a call or an entity. Empty if nothing is left to do.
fn items_of(target: &Target, letters: &[&dead_letters::DeadLetter], also_do_not_call: bool) -> Vec<PlanItem> {
    let call_id = &target.call_id;
    let is_forgotten = !target.is_unreadable
        && target.row.as_ref().is_none_or(|call| call.forgotten_at.is_some())
        && target.entity.as_ref().is_none_or(|entity| entity.forgotten_at.is_some());
    let mut items: Vec<PlanItem> = Vec::new();
    if let Some(call) = &target.row {
        if also_do_not_call && number_of(call).is_some() {
            items.push(PlanItem::of_call(Action::UnblockNumber, call_id.clone()));
        }
        items.push(PlanItem::of_call(Action::ForgetCall, call_id.clone()));
    }
    // The events of an entity whose row was lost forget it again when they rebuild the row.
    let is_entity = call_id.is_entity() && (target.entity.is_some() || !target.events.is_empty());
    // The forecast skips the items of a row that cannot be read.
    if is_entity || target.is_unreadable {
        items.push(PlanItem::of_call(Action::ForgetCall, call_id.clone()));
    }
    let events = target.events.iter();
    items.extend(events.map(|id| PlanItem::of_event(Action::EraseEvent, id.clone(), Some(call_id.clone()))));
    let conflicts = target.conflicts.iter();
    items.extend(conflicts.map(|id| PlanItem::of_event(Action::EraseConflict, id.clone(), Some(call_id.clone()))));
    items.extend(dead_letters::merged(letters.iter().map(|letter| of_letter(letter, Some(call_id.clone())))));
    let has_data = !is_forgotten || items.iter().any(|item| item.action != Action::ForgetCall);
    if has_data { items } else { Vec::new() }
}

fn of_letter(letter: &dead_letters::DeadLetter, call_id: Option<CallId>) -> PlanItem {
    PlanItem {
        event_id: letter.event_id.clone(),
        call_id,
        messages: usize::from(letter.message_id.is_some()),
        ..PlanItem::of_key(Action::EraseDeadLetter, letter.key.clone())
    }
}
