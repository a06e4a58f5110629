//! Repairs of single things by an operator: calls are verified, dead letters redriven, quarantined events read again, and domain
//! events published again. Each test provokes the failure first.

#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub(crate) mod dead_letters;
mod in_doubt;
mod known_at;
mod ledger;
pub(crate) mod quarantine;
mod republish;
pub(crate) mod reread;
mod status;
mod verify;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use switchhook_operate::plan::Plan;
use switchhook_operate::run::{self, RATE_DEFAULT, Run, RunId, RunOptions};
use switchhook_operate::{Error, Refusal, Stack};
use switchhook_tests::World;

pub(crate) use crate::repair::stack_of as stack;

pub(crate) const HOUR: Duration = Duration::from_secs(60 * 60);
/// Limit on the items of a plan, above every plan of these tests.
pub(crate) const MAX: usize = 1_000;

pub(crate) fn options() -> RunOptions {
    let (who, reason) = ("tester".to_owned(), "a test".to_owned());
    RunOptions { who, reason, rate: RATE_DEFAULT, allow_ringing: false }
}

/// Runs a plan to its end.
pub(crate) async fn carry_out(stack: &Stack, plan: &Plan) -> Run {
    run::start(stack, &plan.id, plan.verb, options(), &mut |_| ControlFlow::Continue(())).await.unwrap()
}

/// Runs a plan in pages of one item, is stopped after the first page, and goes on as another process would.
pub(crate) async fn carry_out_in_two(stack: &Stack, plan: &Plan) -> Run {
    let slow = RunOptions { rate: 1, ..options() };
    let stopped = run::start(stack, &plan.id, plan.verb, slow, &mut |_| ControlFlow::Break(())).await.unwrap();
    assert!(stopped.position > 0 && stopped.position < stopped.items, "{stopped:?}");
    let id = RunId::of_plan(&plan.id);
    run::resume(stack, &id, "another tester", &mut |_| ControlFlow::Continue(())).await.unwrap()
}

/// Runs a plan in a process that is killed at the request after the first `requests`. Then another process goes on. Returns the run,
/// and true if the first process was killed. Calls `between` after the first process has ended.
pub(crate) async fn carry_out_killed(
    world: &World,
    plan: &Plan,
    requests: u64,
    between: impl AsyncFnOnce(),
) -> (Run, bool) {
    let stack = stack(world);
    let left = AtomicU64::new(requests);
    world.set_fault_hook(move |_| {
        let more = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        assert!(more.is_ok(), "the run is killed here, as the test demands");
        None
    });
    let (killed_stack, killed_plan) = (stack.clone(), plan.clone());
    let first = tokio::spawn(async move { carry_out(&killed_stack, &killed_plan).await }).await;
    world.clear_faults();
    between().await;
    if let Ok(run) = first {
        return (run, false);
    }
    let id = RunId::of_plan(&plan.id);
    let run = match run::resume(&stack, &id, "another tester", &mut |_| ControlFlow::Continue(())).await {
        Ok(run) => run,
        // It was killed before it was stored, or after its last write.
        Err(Error::Refusal(Refusal::UnknownRun(_))) => carry_out(&stack, plan).await,
        Err(Error::Refusal(Refusal::Finished { .. })) => run::get(&stack, &id).await.unwrap().unwrap(),
        Err(other) => panic!("{other}"),
    };
    (run, true)
}
