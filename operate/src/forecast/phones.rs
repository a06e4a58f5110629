//! Phones that could ring because of a run.

use switchhook_domain::{Call, Job};
use switchhook_providers::ids_of;

use crate::error::Error;
use crate::plan::due_at;
use crate::stack::Stack;

/// True if a phone could ring that would not have rung: the call becomes pending, is due earlier, or is no longer held. `ends_trouble` is true if
/// the run folds or discards events of the call.
pub(super) async fn could_ring(
    stack: &Stack,
    before: Option<&Call>,
    after: Option<&Call>,
    ends_trouble: bool,
) -> Result<bool, Error> {
    let is_due = match (before.and_then(due_at), after.and_then(due_at)) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(before), Some(after)) => after < before,
    };
    let could_be_dialled = after.is_some_and(|call| matches!(call.job, Job::Pending { .. } | Job::Claimed { .. }));
    match before {
        Some(before) if !is_due && ends_trouble && could_be_dialled => is_held(stack, before).await,
        Some(_) | None => Ok(is_due),
    }
}

/// True if the dialer would not dial the call, because an event that it lacks is retried, waits, or is a dead letter.
async fn is_held(stack: &Stack, call: &Call) -> Result<bool, Error> {
    let unfolded = stack.inbox.unfolded_events(&ids_of(call)).await?;
    Ok(unfolded.iter().any(|mark| mark.is_missing_in(call)))
}
