//! Actions of a run that fold no event, and the end of a redrive: its dead letters and notices are deleted.

use switchhook_aws::calls::StoreOutcome;
use switchhook_domain::Transition;

use crate::dead_letters;
use crate::error::Error;
use crate::forget;
use crate::plan::{Action, LeftAlone, Plan, PlanItem};
use crate::quarantine;
use crate::recover;
use crate::republish;
use crate::stack::Stack;

/// Stores the next row of a call, for this action. Returns false if the call changed at the same time. Lists the accounts of its plan first. If
/// the table was lost, so was their list. Then no list of calls would show a call that waits for an account.
pub(crate) async fn store_row(stack: &Stack, action: Action, transition: &Transition) -> Result<bool, Error> {
    if action == Action::Stop {
        // A process that is killed after it leaves a call that cannot be dialled. The other way round, a lost row would come back as one that can.
        recover::record_stop(stack, &transition.call).await?;
    }
    if let Some(plan) = &transition.call.plan
        && stack.calls.unlisted_account(&plan.providers).await?.is_some()
    {
        let accounts = plan.providers.iter().copied().filter(|provider| provider.is_named());
        stack.calls.list_accounts(&accounts.collect()).await?;
    }
    match stack.calls.store(transition).await? {
        StoreOutcome::Committed => Ok(true),
        // If the response to this write was lost, the SDK has repeated it, and the stored row is this one.
        StoreOutcome::LostRace => {
            Ok(stack.calls.get_call(&transition.call.call_id).await?.as_ref() == Some(&transition.call))
        }
    }
}

/// Carries out the actions that fold no event, in the order of the items. A repetition is safe. Returns the items that it left alone.
pub(crate) async fn act(stack: &Stack, plan: &Plan, items: &[PlanItem]) -> Result<Vec<LeftAlone>, Error> {
    let mut left = Vec::new();
    let is_same = |a: &PlanItem, b: &PlanItem| a.action == b.action || (a.action.forgets() && b.action.forgets());
    for same in items.chunk_by(is_same) {
        match same.first().map(|item| item.action) {
            Some(Action::DiscardDeadLetter) => left.extend(dead_letters::discard(stack, same).await?),
            Some(Action::DiscardQuarantined) => left.extend(quarantine::take_off(stack, same).await?),
            Some(Action::Republish) => left.extend(republish::republish(stack, same).await?),
            Some(Action::Refill) => left.extend(recover::refill(stack, same).await?),
            Some(Action::DeleteRelayFailure) => left.extend(republish::delete_failures(stack, same).await?),
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

/// Ends items whose events were queued, or were in their calls already: deletes their dead letters and notices. Returns the items that it
/// left alone.
pub(crate) async fn finish(stack: &Stack, items: Vec<PlanItem>) -> Result<Vec<LeftAlone>, Error> {
    let (redriven, reprocessed): (Vec<PlanItem>, Vec<PlanItem>) =
        items.into_iter().partition(|item| item.action == Action::Redrive);
    let mut left = quarantine::take_off(stack, &reprocessed).await?;
    left.extend(dead_letters::finish_redrive(stack, redriven).await?);
    Ok(left)
}
