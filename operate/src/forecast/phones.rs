//! Phones that could ring because of a run.

use std::collections::BTreeSet;

use switchhook_domain::{Call, EventId, Job};
use switchhook_providers::ids_of;

use crate::error::Error;
use crate::plan::due_at;
use crate::stack::Stack;

/// True if a phone could ring that would not have rung: the call becomes pending, is due earlier, or is no longer held because of an event
/// that the run folds or discards.
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
