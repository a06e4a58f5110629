//! Random calls and events: the effect that a plan shows is the effect of its run.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use switchhook_domain::Call;
use switchhook_operate::plan::{CallSummary, Plan};
use switchhook_tests::{KEY, World};

use super::{carry_out, consume_all, drop_messages, everything, plan_replay, stack_of};
use crate::traffic::{Webhook, retell_call, twilio_call};

/// Most webhooks of a case. The consumer gets as many messages in one batch, so that it announces as the plan does.
const WEBHOOKS_MAX: usize = 10;

/// Webhooks of some calls, and for each whether it was folded when it arrived. The others never reached the queue.
fn any_webhooks() -> impl Strategy<Value = Vec<(Webhook, bool)>> {
    let calls = proptest::collection::vec((any::<bool>(), any::<bool>()), 1..4);
    calls.prop_flat_map(|calls| {
        let numbered = calls.into_iter().zip(0..);
        let webhooks: Vec<Webhook> = numbered
            .flat_map(|((retell, answered), n)| if retell { retell_call(n, 2, 1) } else { twilio_call(n, answered) })
            .take(WEBHOOKS_MAX)
            .collect();
        let count = webhooks.len();
        (Just(webhooks).prop_shuffle(), proptest::collection::vec(any::<bool>(), count))
            .prop_map(|(webhooks, folded)| webhooks.into_iter().zip(folded).collect())
    })
}

async fn check(webhooks: Vec<(Webhook, bool)>) -> (usize, usize) {
    let world = World::stopped();
    let stack = stack_of(&world);
    for (webhook, is_folded) in &webhooks {
        world.post_signed(webhook.provider, KEY, &webhook.query, webhook.body.as_bytes()).await;
        if *is_folded { consume_all(&world).await } else { drop_messages(&world) }
    }
    let plan: Plan = plan_replay(&stack, &everything()).await;
    let mut before = Vec::new();
    for effect in &plan.effects {
        let row = world.load(effect.call_id.as_str()).await;
        assert_eq!(row.as_ref().map(CallSummary::new), effect.before);
        before.push(row.map_or(0, |row| row.announcements.len()));
    }
    if plan.items.is_empty() {
        return (0, 0);
    }
    let run = carry_out(&stack, &plan).await.unwrap();
    assert_eq!((run.counts.done, run.counts.unchanged, run.counts.skipped), (plan.items.len(), 0, 0));
    consume_all(&world).await;
    let mut announced = 0;
    for (effect, before) in plan.effects.iter().zip(before) {
        let row: Call = world.call(effect.call_id.as_str()).await;
        assert_eq!(Some(CallSummary::new(&row)), effect.after, "{}", effect.call_id);
        let events = row.domain_events_from(before + 1);
        assert_eq!(events.iter().filter(|event| event.corrects.is_some()).count(), effect.corrections);
        assert_eq!(events.into_iter().map(|event| event.event_type).collect::<Vec<_>>(), effect.announces);
        announced += effect.announces.len();
    }
    assert_eq!(plan.domain_events, announced);
    assert_eq!(plan_replay(&stack, &everything()).await.items.len(), 0, "nothing is left to do");
    (plan.items.len(), announced)
}

#[test]
fn run_has_exactly_the_planned_effect() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let mut runner = TestRunner::new(switchhook_random::config(40, None));
    let totals = std::cell::Cell::new((0, 0));
    let outcome = runner.run(&any_webhooks(), |webhooks| {
        let (items, announced) = runtime.block_on(check(webhooks));
        let (all_items, all_announced) = totals.get();
        totals.set((all_items + items, all_announced + announced));
        Ok(())
    });
    outcome.unwrap();
    assert!(totals.get().0 > 40 && totals.get().1 > 40, "few events were replayed: {:?}", totals.get());
}
