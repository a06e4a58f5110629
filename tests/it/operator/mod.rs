//! Repairs of single things by an operator: calls are verified, dead letters redriven, quarantined events read again, and domain
//! events published again. Each test provokes the failure first.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod dead_letters;
mod quarantine;
mod republish;
mod verify;

use std::ops::ControlFlow;
use std::time::Duration;

use switchhook_operate::Stack;
use switchhook_operate::plan::Plan;
use switchhook_operate::run::{self, RATE_DEFAULT, Run, RunId, RunOptions};

pub(crate) use crate::repair::stack_of as stack;

pub(crate) const HOUR: Duration = Duration::from_secs(60 * 60);
/// Limit on the items of a plan, above every plan of these tests.
pub(crate) const MAX: usize = 1_000;

fn options() -> RunOptions {
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
