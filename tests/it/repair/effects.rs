//! The effects in a plan, and the refusals.

use std::ops::ControlFlow;
use std::time::Duration;

use switchhook_domain::{Disposition, EventId, Provider};
use switchhook_operate::plan::Verb;
use switchhook_operate::replay::{self, ReplayFilter, Selected};
use switchhook_operate::run::{self, RunOptions};
use switchhook_operate::{Error, Refusal};
use switchhook_tests::{MINUTE, World, generic};

use super::{carry_out, consume_all, everything, of_call, options, plan_replay, post_folded, post_unqueued, stack_of};
use crate::outbound::{call_request, create};

fn refusal(error: Error) -> Refusal {
    let Error::Refusal(refusal) = error else { panic!("not refused, but: {error}") };
    refusal
}

#[tokio::test(start_paused = true)]
async fn plan_needs_a_call_or_a_time() {
    let world = World::stopped();
    let stack = stack_of(&world);
    let of_provider = ReplayFilter { provider: Some(Provider::Retell), ..ReplayFilter::default() };
    for filter in [ReplayFilter::default(), of_provider] {
        let refused = replay::plan(&stack, &filter, 10, &mut |_, _| {}).await.unwrap_err();
        assert!(matches!(refusal(refused), Refusal::EmptyFilter(_)));
    }
    let refused = replay::plan(&stack, &everything(), 1_000_000, &mut |_, _| {}).await.unwrap_err();
    assert!(matches!(refusal(refused), Refusal::TooManyItems { most: 100_000, .. }));
}

#[tokio::test(start_paused = true)]
async fn plan_takes_the_first_items_and_says_where_the_next_goes_on() {
    let world = World::stopped();
    let stack = stack_of(&world);
    for n in 0..30 {
        post_unqueued(&world, &format!("c{n}"), &format!("e{n}"), "RINGING", n).await;
        world.wait(Duration::from_secs(10)).await;
    }
    let plan = replay::plan(&stack, &everything(), 20, &mut |_, _| {}).await.unwrap();
    assert_eq!((plan.items.len(), plan.capped, plan.calls), (20, true, 20));
    let rest = ReplayFilter { since: plan.continue_at, ..ReplayFilter::default() };
    let rest = plan_replay(&stack, &rest).await;
    assert_eq!((rest.items.len(), rest.capped, rest.continue_at), (10, false, None));
    let all: std::collections::BTreeSet<&str> = plan.items.iter().chain(&rest.items).map(|item| item.name()).collect();
    assert_eq!(all.len(), 30);
}

#[tokio::test(start_paused = true)]
async fn plan_names_only_what_it_would_change() {
    let world = World::stopped();
    let stack = stack_of(&world);
    post_folded(&world, "c1", "e1", "RINGING", 0).await;
    post_unqueued(&world, "c1", "e2", "ANSWERED", 5).await;
    post_folded(&world, "c2", "e3", "RINGING", 0).await;
    let plan = plan_replay(&stack, &everything()).await;
    assert_eq!(plan.items.iter().map(|item| item.name()).collect::<Vec<_>>(), ["generic:e2"]);
    assert_eq!((plan.unaffected, plan.calls, plan.phones), (2, 1, 0));
    let effect = &plan.effects[0];
    let before = effect.before.as_ref().unwrap();
    let after = effect.after.as_ref().unwrap();
    assert_eq!((before.lifecycle.as_str(), after.lifecycle.as_str()), ("ringing", "in_progress"));
    assert_eq!(effect.announces, ["call.in_progress"]);
    assert!(plan.cost.dollars > 0.0 && plan.cost.requests > 0);
}

#[tokio::test(start_paused = true)]
async fn filter_selects_by_provider_type_and_disposition() {
    let world = World::stopped();
    let stack = stack_of(&world);
    post_folded(&world, "c1", "e1", "RINGING", 0).await;
    post_unqueued(&world, "c1", "e2", "ANSWERED", 5).await;
    post_unqueued(&world, "c2", "e3", "RINGING", 0).await;
    let (_, answer) = world.post(Provider::Generic, "{").await;
    assert_eq!(answer["status"], "quarantined");
    let examine = async |filter: ReplayFilter| {
        let plan = replay::plan(&stack, &filter, 10, &mut |_, _| {}).await.unwrap();
        (plan.items.len(), plan.unaffected, plan.skipped_count)
    };
    assert_eq!(examine(everything()).await, (2, 1, 1));
    assert_eq!(examine(ReplayFilter { provider: Some(Provider::Twilio), ..everything() }).await, (0, 0, 0));
    assert_eq!(examine(ReplayFilter { event_type: Some("RINGING".to_owned()), ..everything() }).await, (1, 1, 0));
    let not_folded = ReplayFilter { disposition: Some(Selected::NotFolded), ..everything() };
    assert_eq!(examine(not_folded).await, (2, 0, 0));
    let applied = ReplayFilter { disposition: Some(Selected::As(Disposition::Applied)), ..everything() };
    assert_eq!(examine(applied).await, (0, 1, 0));
    let quarantined = ReplayFilter { disposition: Some(Selected::As(Disposition::Quarantined)), ..everything() };
    assert_eq!(examine(quarantined).await, (0, 0, 1));
    assert_eq!(examine(of_call("c1")).await, (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn run_needs_a_fresh_plan_of_its_own_command_and_a_reason() {
    let world = World::stopped();
    let stack = stack_of(&world);
    post_unqueued(&world, "c1", "e1", "RINGING", 0).await;
    let plan = plan_replay(&stack, &everything()).await;
    let start = async |verb, options| {
        let started = run::start(&stack, &plan.id, verb, options, &mut |_| ControlFlow::Continue(())).await;
        refusal(started.unwrap_err())
    };
    let no_reason = RunOptions { reason: " ".to_owned(), ..options() };
    assert_eq!(start(Verb::Replay, no_reason).await, Refusal::NoReason);
    assert!(matches!(start(Verb::Redrive, options()).await, Refusal::OtherCommand { made_by: "replay", .. }));
    world.wait(MINUTE * 16).await;
    assert_eq!(start(Verb::Replay, options()).await, Refusal::Expired(plan.id.to_string()));
    world.wait(MINUTE * 60 * 24).await;
    assert_eq!(world.queued().len(), 0, "nothing was done");
}

/// A stopped stack and a call whose phone was busy. Nobody has folded that, so the call is not to be retried yet.
pub(crate) async fn with_lost_ending() -> (World, String) {
    with_lost_ending_behind(async |_| {}).await
}

/// The same, after something else has happened.
pub(crate) async fn with_lost_ending_behind(before: impl AsyncFnOnce(&World)) -> (World, String) {
    let world = World::stopped();
    before(&world).await;
    world.cloud.fake().set_delivery_faults(switchhook_local::fake::DeliveryFaults::ALL_LOST);
    let call_id = create(&world, &call_request("busy,confirms")).await;
    world.cloud.schedule().await.unwrap().unwrap();
    world.cloud.dialer().handle(world.take_claims()).await;
    consume_all(&world).await;
    // The reconciler stores the ending that the provider reports, and cannot queue it.
    world.wait(MINUTE * 16).await;
    world.set_fault_hook(|call| {
        let is_send =
            call.operation == "SendMessage" && switchhook_tests::is_request_to(call, switchhook_local::EVENTS_QUEUE);
        is_send.then(switchhook_tests::down)
    });
    drop(world.cloud.reconcile().await);
    world.clear_faults();
    (world, call_id)
}

#[tokio::test(start_paused = true)]
async fn phone_rings_only_if_the_operator_allows_it() {
    let (world, call_id) = with_lost_ending().await;
    let stack = stack_of(&world);
    let plan = plan_replay(&stack, &of_call(&call_id)).await;
    assert_eq!(plan.phones, 1, "{plan:?}");
    let after = plan.effects[0].after.clone().unwrap();
    assert_eq!(after.job, "PENDING");
    let refused = carry_out(&stack, &plan).await.unwrap_err();
    assert_eq!(refusal(refused), Refusal::CouldRing(1));
    let allowed = RunOptions { allow_ringing: true, ..options() };
    let run = run::start(&stack, &plan.id, Verb::Replay, allowed, &mut |_| ControlFlow::Continue(())).await.unwrap();
    assert_eq!(run.counts.skipped, 0);
    consume_all(&world).await;
    assert_eq!(super::summary(&world, &plan.effects[0].call_id).await, Some(after));
}

#[tokio::test(start_paused = true)]
async fn item_of_a_changed_call_is_skipped_and_named() {
    let world = World::stopped();
    let stack = stack_of(&world);
    post_folded(&world, "c1", "e1", "RINGING", 0).await;
    post_unqueued(&world, "c1", "e2", "ANSWERED", 5).await;
    post_unqueued(&world, "c2", "e3", "RINGING", 0).await;
    let plan = plan_replay(&stack, &everything()).await;
    // The ending arrives between the plan and the run.
    world.accept(Provider::Generic, &generic("c1", "e4", "BUSY", 9)).await;
    consume_all(&world).await;
    let run = carry_out(&stack, &plan).await.unwrap();
    assert_eq!((run.counts.done, run.counts.skipped), (1, 1));
    assert_eq!(run.skipped[0].item, "generic:e2");
    assert!(run.skipped[0].reason.contains("has changed since the plan"), "{}", run.skipped[0].reason);
    consume_all(&world).await;
    assert!(!world.call("c1").await.contains_event(&EventId::new("generic:e2")));
}
