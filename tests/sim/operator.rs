//! The operator of the stack, who repairs what the functions cannot repair alone.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use switchhook_aws::bus::Bus;
use switchhook_aws::inbox::AttentionKind;
use switchhook_aws::random::RandomIds;
use switchhook_aws::sdk;
use switchhook_domain::Timestamp;
use switchhook_local::EVENT_BUS;
use switchhook_operate::audit::Counts;
use switchhook_operate::dead_letters::{LetterFilter, plan_redrive};
use switchhook_operate::replay::{self, ReplayFilter, Selected};
use switchhook_operate::republish::republish_call;
use switchhook_operate::run::{RATE_DEFAULT, RunOptions, start};
use switchhook_operate::selection::calls_since;
use switchhook_operate::{Error, Stack};
use switchhook_tests::{World, stack_of};
use tokio::time::sleep;

use crate::calls::START;
use crate::plan::FaultKind;
use crate::sim::Sim;

/// Limit on the items of a plan, above all that a run of the simulator has.
const ITEMS_MAX: usize = 1_000;
/// Longest time in seconds that a repair may take.
const REPAIR_MAX: u64 = 30 * 60;

impl Sim {
    /// Repairs now and then while there are dead letters, if the plan has them: redrives all, or replays all events that are not folded. A repair
    /// that fails, or is killed, is made anew.
    pub(crate) async fn repair_dead_letters(self: Rc<Self>) {
        if !self.plan.has_fault(FaultKind::DeadLetters) {
            return;
        }
        let mut stack = stack_of(&self.world);
        stack.random_ids = RandomIds::seeded(self.plan.seed);
        loop {
            sleep(Duration::from_secs(self.random(60..600))).await;
            if !self.has_dead_letters().await {
                continue;
            }
            let (stack, replays) = (stack.clone(), self.random(0..3) == 0);
            let result = self.invoke(REPAIR_MAX, async move { repair(&stack, replays).await }).await;
            self.trace(&format!("repair by an operator, replays: {replays}, result: {result:?}"));
            self.state().result.repaired += result.and_then(Result::ok).map_or(0, |counts| counts.done as u64);
        }
    }

    /// True if a dead letter is in the queue, or on the list, that is not unreadable.
    pub(crate) async fn has_dead_letters(&self) -> bool {
        let marked = self.without_faults(self.world.attention(AttentionKind::DeadLettered)).await;
        !marked.is_empty() || !self.readable_dead_letters().is_empty()
    }

    /// Publishes the domain events of all calls again, as an operator does after the relay was down for too long.
    pub(crate) async fn republish_all(&self) {
        let World { inbox, calls, cloud, .. } = &self.world;
        let aws = sdk::with_timeouts_and_retries(&cloud.services().sdk_config());
        let bus = Bus::new(sdk::eventbridge(&aws), EVENT_BUS.to_owned());
        let since = Timestamp::from_millis(START);
        let found = calls_since(inbox, calls, since, self.world.now(), &mut |_, _| {}).await.unwrap();
        for call_id in found.keys() {
            let _ = republish_call(calls, &bus, call_id).await.unwrap();
        }
    }
}

/// Redrives all dead letters, or replays all events that are not folded. Returns the counts of the run.
async fn repair(stack: &Stack, replays: bool) -> Result<Counts, Error> {
    let plan = if replays {
        let (since, disposition) = (Some(Timestamp::from_millis(START)), Some(Selected::NotFolded));
        let filter = ReplayFilter { since, disposition, ..ReplayFilter::default() };
        replay::plan(stack, &filter, ITEMS_MAX, &mut |_, _| {}).await?
    } else {
        let all = LetterFilter { all: true, ..LetterFilter::default() };
        plan_redrive(stack, &all, ITEMS_MAX).await?
    };
    let (who, reason) = ("operator".to_owned(), "dead letters".to_owned());
    let options = RunOptions { who, reason, rate: RATE_DEFAULT, allow_ringing: true };
    let run = start(stack, &plan.id, plan.verb, options, &mut |_| ControlFlow::Continue(())).await?;
    Ok(run.counts)
}
