//! Phones that could ring because of a run.

use std::collections::BTreeSet;

use switchhook_domain::{Call, CallId, EventId, Job};
use switchhook_providers::ids_of;

use crate::error::Error;
use crate::plan::{Action, Effect, PlanItem, Subject, due_at};
use crate::stack::Stack;

/// True if a phone could ring that would not have rung: the call becomes pending, or is due earlier. Or an event that holds the call is folded or
/// discarded by the run.
pub(super) async fn could_ring(
    stack: &Stack,
    before: Option<&Call>,
    after: Option<&Call>,
    (folded, discarded): (&BTreeSet<EventId>, &BTreeSet<EventId>),
) -> Result<bool, Error> {
    let is_due = match (before.and_then(due_at), after.and_then(due_at)) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(before), Some(after)) => after < before,
    };
    let (Some(before), Some(after), false) = (before, after, is_due) else { return Ok(is_due) };
    let ended = match after.job {
        Job::Pending { .. } | Job::Claimed { .. } => folded | discarded,
        // Its attempt may end, and then nothing holds the call because of a discarded event.
        Job::InProgress if after.plan.is_some() => discarded.clone(),
        Job::InProgress | Job::Completed | Job::Failed | Job::Missed | Job::Canceled => return Ok(false),
    };
    if ended.is_empty() {
        return Ok(false);
    }
    // The dialer holds the call because of these events.
    let unfolded = stack.inbox.unfolded_events(&ids_of(before)).await?;
    let holds = unfolded.iter().filter(|mark| mark.is_missing_in(before));
    Ok(holds.filter_map(|mark| mark.event_id.as_ref()).any(|id| ended.contains(id)))
}

/// Returns the effect of items on a call whose row this version cannot read. `None` if they discard none of its dead letters. Another version may
/// read the row, and dial the call.
pub(super) fn effect_without_row(call_id: Option<&CallId>, items: &[PlanItem]) -> Option<Effect> {
    let discards = items.iter().filter(|item| item.action == Action::DiscardDeadLetter).count();
    call_id.filter(|_| discards > 0).map(|call_id| Effect::ringing(call_id.clone(), Subject::Call, discards))
}
