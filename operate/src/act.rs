//! Actions of a run that fold no event, and the end of a redrive: its dead letters and notices are deleted.

use switchhook_domain::EventId;

use crate::dead_letters;
use crate::error::Error;
use crate::forget;
use crate::plan::{Action, LeftAlone, Plan, PlanItem};
use crate::quarantine;
use crate::recover;
use crate::republish;
use crate::stack::Stack;

/// Carries out the actions that fold no event, in the order of the items. A repetition is safe. The run has deleted the messages of discarded
/// items already.
pub(crate) async fn act(stack: &Stack, plan: &Plan, items: &[PlanItem]) -> Result<Vec<LeftAlone>, Error> {
    let mut left = Vec::new();
    let is_same = |a: &PlanItem, b: &PlanItem| a.action == b.action || (a.action.forgets() && b.action.forgets());
    for same in items.chunk_by(is_same) {
        match same.first().map(|item| item.action) {
            Some(Action::DiscardDeadLetter) => dead_letters::clear_notes(stack, same).await?,
            Some(Action::DiscardQuarantined) => quarantine::clear_marks(stack, same).await?,
            Some(Action::Republish) => left.extend(republish::republish(stack, same).await?),
            Some(Action::Refill) => left.extend(recover::refill(stack, same).await?),
            Some(Action::DeleteRelayFailure) => republish::delete_failures(stack, same).await?,
            Some(
                Action::UnblockNumber
                | Action::ForgetCall
                | Action::EraseEvent
                | Action::EraseConflict
                | Action::EraseDeadLetter,
            ) => {
                left.extend(forget::carry_out(stack, plan, same).await?);
            }
            // These fold events.
            Some(Action::Replay | Action::Redrive | Action::Reprocess | Action::Refold)
            // The run does these itself.
            | Some(Action::Rebuild | Action::Stop | Action::CopyPart)
            | None => {}
        }
    }
    Ok(left)
}

/// Ends items whose events were queued, or were in their calls already: deletes their dead letters and notices.
pub(crate) async fn finish(stack: &Stack, items: Vec<PlanItem>) -> Result<Vec<LeftAlone>, Error> {
    let (redriven, reprocessed): (Vec<PlanItem>, Vec<PlanItem>) =
        items.into_iter().partition(|item| item.action == Action::Redrive);
    quarantine::finish_reprocess(stack, &reprocessed).await?;
    let left = dead_letters::finish_redrive(stack, redriven).await?;
    let reason = |item: &PlanItem| {
        let id = item.event_id.as_ref().map_or("-", EventId::as_str);
        format!("the event {id} is queued and was not folded in time, so its dead letter stays: redrive it again")
    };
    Ok(left.into_iter().map(|item| (item.clone(), reason(&item))).collect())
}
