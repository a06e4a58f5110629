//! Replay of events that are in their call, and of events that ingress did not let in.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde_dynamo::AttributeValue;
use serde_json::json;
use switchhook_domain::{CallId, EventId, Provider};
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_operate::events::{self, Filter, Tail, TailItem};
use switchhook_operate::plan::{Action, EFFECTS_MAX, PlanItem, Verb};
use switchhook_operate::replay::{ReplayFilter, Selected};
use switchhook_operate::run::{self, RunOptions};
use switchhook_operate::search::search;
use switchhook_tests::{MINUTE, World};

use super::effects::with_lost_ending_behind;
use super::{
    carry_out, consume_all, everything, generic, of_call, options, plan_replay, post_folded, post_unqueued, stack_of,
    summary,
};
use crate::outbound::{call_request, create};

#[tokio::test(start_paused = true)]
async fn event_that_is_in_its_call_is_not_queued_again() {
    let world = World::stopped();
    let stack = stack_of(&world);
    post_folded(&world, "c1", "e1", "RINGING", 0).await;
    post_folded(&world, "c1", "e2", "BUSY", 5).await;
    let plan = plan_replay(&stack, &everything()).await;
    assert_eq!((plan.items.len(), plan.unaffected, plan.calls), (0, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn replay_within_five_minutes_of_the_first_sending_is_not_dropped() {
    let world = World::stopped();
    let stack = stack_of(&world);
    // SQS has accepted the event, and nobody has folded it.
    post_unqueued(&world, "c1", "e1", "RINGING", 0).await;
    let plan = plan_replay(&stack, &everything()).await;
    assert_eq!(carry_out(&stack, &plan).await.unwrap().counts.done, 1);
    consume_all(&world).await;
    assert_eq!(world.call("c1").await.history.len(), 1);
}

/// Gives a stored event the disposition that an earlier version of the program could have decided.
async fn decide(world: &World, event_id: &str, disposition: &str) {
    let mut item = world.item(INBOX_TABLE, event_id).await;
    item.insert("disposition".to_owned(), AttributeValue::S(disposition.to_owned()));
    world.put_item(INBOX_TABLE, item).await;
}

#[tokio::test(start_paused = true)]
async fn recorded_event_that_this_version_folds_is_folded() {
    let world = World::stopped();
    let stack = stack_of(&world);
    post_folded(&world, "c1", "e1", "RINGING", 0).await;
    for (event_id, second, disposition) in [("e2", 5, "recorded"), ("e3", 9, "quarantined")] {
        let event_type = if second == 5 { "ANSWERED" } else { "ENDED" };
        post_unqueued(&world, "c1", event_id, event_type, second).await;
        decide(&world, &format!("generic:{event_id}"), disposition).await;
    }
    let plan = plan_replay(&stack, &of_call("c1")).await;
    assert_eq!((plan.items.len(), plan.unaffected), (2, 1));
    let after = plan.effects[0].after.clone();
    assert_eq!(after.as_ref().unwrap().lifecycle, "completed");
    assert_eq!(carry_out(&stack, &plan).await.unwrap().counts.done, 2);
    consume_all(&world).await;
    assert_eq!(summary(&world, &CallId::new("c1")).await, after);
    assert!(!world.item(INBOX_TABLE, "generic:e2").await.contains_key("disposition"), "a refold must find it too");
    assert_eq!(plan_replay(&stack, &everything()).await.items.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn call_whose_events_are_read_differently_is_folded_again() {
    let world = World::stopped();
    let stack = stack_of(&world);
    post_folded(&world, "c1", "e1", "RINGING", 0).await;
    post_folded(&world, "c1", "e2", "BUSY", 5).await;
    post_unqueued(&world, "c1", "e3", "RINGING", 7).await;
    // An earlier version read the ending as another one.
    let busy = |history: &mut Vec<String>| {
        for entry in history.iter_mut().filter(|entry| entry.contains("busy")) {
            *entry = entry.replace("busy", "no_answer");
        }
    };
    world.alter_history("c1", busy).await;
    let plan = plan_replay(&stack, &of_call("c1")).await;
    let actions: Vec<Action> = plan.items.iter().map(|item| item.action).collect();
    assert_eq!(actions, [Action::Replay, Action::Refold]);
    let effect = &plan.effects[0];
    assert_eq!(effect.after.as_ref().unwrap().lifecycle, "busy");
    assert!(effect.announces.contains(&"call.drift_repaired".to_owned()), "{:?}", effect.announces);
    let before = world.call("c1").await.announcements.len();
    assert_eq!(carry_out(&stack, &plan).await.unwrap().counts.done, 2);
    consume_all(&world).await;
    let call = world.call("c1").await;
    assert_eq!(summary(&world, &call.call_id).await, effect.after);
    let types: Vec<String> = call.domain_events_from(before + 1).into_iter().map(|event| event.event_type).collect();
    assert_eq!(types, effect.announces);
    assert_eq!(plan_replay(&stack, &everything()).await.items.len(), 0, "nothing is left to do");
}

/// Posts and folds the only events of as many calls as a plan works out.
async fn fill_a_plan(world: &World) {
    for n in 0..EFFECTS_MAX {
        world.accept(Provider::Generic, &generic(&format!("f{n}"), &format!("f{n}"), "BUSY", 0)).await;
    }
    consume_all(world).await;
    // The next events are received in a later minute, so a plan takes them last.
    world.wait(MINUTE).await;
}

#[tokio::test(start_paused = true)]
async fn call_behind_the_first_ones_of_a_plan_is_folded_again_too() {
    let world = World::stopped();
    let stack = stack_of(&world);
    fill_a_plan(&world).await;
    post_folded(&world, "c1", "e1", "BUSY", 5).await;
    let busy = |history: &mut Vec<String>| {
        for entry in history.iter_mut() {
            *entry = entry.replace("busy", "no_answer");
        }
    };
    world.alter_history("c1", busy).await;
    let plan = plan_replay(&stack, &everything()).await;
    assert_eq!((plan.effects.len(), plan.items.len()), (0, 1), "the plan does not work this call out");
    let run = carry_out(&stack, &plan).await.unwrap();
    assert_eq!((run.counts.done, run.counts.unchanged), (1, 0));
    consume_all(&world).await;
    assert_eq!(summary(&world, &CallId::new("c1")).await.unwrap().lifecycle, "busy");
}

#[tokio::test(start_paused = true)]
async fn phone_behind_the_first_calls_of_a_plan_does_not_ring_uncounted() {
    let (world, call_id) = with_lost_ending_behind(fill_a_plan).await;
    let stack = stack_of(&world);
    let plan = plan_replay(&stack, &everything()).await;
    assert_eq!(plan.phones, 0, "the plan does not work this call out");
    let allowed = RunOptions { allow_ringing: true, ..options() };
    let run = run::start(&stack, &plan.id, Verb::Replay, allowed, &mut |_| ControlFlow::Continue(())).await.unwrap();
    assert!(run.skipped[0].reason.contains("did not count it"), "{:?}", run.skipped);
    consume_all(&world).await;
    assert_eq!(world.call(&call_id).await.job.as_str(), "IN_PROGRESS");
}

/// A call that was created long before its attempt. The provider also reports the attempt under its own id.
#[tokio::test(start_paused = true)]
async fn event_of_a_late_attempt_is_found_under_each_id_of_the_call() {
    let mut world = World::new();
    let mut request = call_request("busy");
    request["due_at"] = json!(world.now().plus(MINUTE * 15 * 60).to_string());
    let call_id = create(&world, &request).await;
    world.skip(MINUTE * 15 * 60).await;
    world.wait(MINUTE * 5).await;
    world.stop();
    let call = world.call(&call_id).await;
    let attempt = call.attempt_records[0].clone();
    let provider_call_id = attempt.provider_call_id.unwrap();
    let derived = format!("{}:{provider_call_id}", attempt.provider.unwrap());
    let mut expected: BTreeSet<EventId> = call.history.iter().map(|entry| entry.source_event_id.clone()).collect();
    for (event_id, id) in [("lost-1", &call_id), ("lost-2", &derived)] {
        expected.insert(post_unqueued(&world, id, event_id, "RINGING", 0).await);
    }
    let stack = stack_of(&world);
    let plan = plan_replay(&stack, &of_call(&call_id)).await;
    assert_eq!((plan.examined, plan.capped), (expected.len(), false), "{plan:?}");
}

#[tokio::test(start_paused = true)]
async fn events_without_a_row_make_the_row_again() {
    let world = World::stopped();
    let stack = stack_of(&world);
    for (event_id, event_type, second) in [("e1", "RINGING", 0), ("e2", "ANSWERED", 5), ("e3", "ENDED", 9)] {
        post_unqueued(&world, "c1", event_id, event_type, second).await;
    }
    let plan = plan_replay(&stack, &everything()).await;
    assert_eq!((plan.effects[0].before.clone(), plan.effects[0].items), (None, 3));
    carry_out(&stack, &plan).await.unwrap();
    consume_all(&world).await;
    assert_eq!(summary(&world, &CallId::new("c1")).await, plan.effects[0].after);
}

/// A rollback is under way: a newer version has written one row.
#[tokio::test(start_paused = true)]
async fn row_that_cannot_be_read_hides_no_event_of_another_call() {
    let world = World::stopped();
    let stack = stack_of(&world);
    for call_id in ["c1", "c2"] {
        post_folded(&world, call_id, &format!("{call_id}-a"), "RINGING", 0).await;
        post_unqueued(&world, call_id, &format!("{call_id}-b"), "BUSY", 5).await;
    }
    let mut row = world.item(CALLS_TABLE, "c1").await;
    row.insert("schema_version".to_owned(), AttributeValue::N("99".to_owned()));
    world.put_item(CALLS_TABLE, row).await;

    let not_folded = ReplayFilter { disposition: Some(Selected::NotFolded), ..everything() };
    let plan = plan_replay(&stack, &not_folded).await;
    let items: Vec<&str> = plan.items.iter().map(PlanItem::name).collect();
    let skipped: BTreeSet<&str> = plan.skipped.iter().map(|skipped| skipped.item.as_str()).collect();
    assert_eq!((items, skipped), (vec!["generic:c2-b"], BTreeSet::from(["generic:c1-a", "generic:c1-b"])));
    assert!(plan.skipped.iter().all(|skipped| skipped.call_id == Some(CallId::new("c1"))), "{plan:#?}");

    let lines = Tail::new(everything().since.unwrap()).poll(&stack).await.unwrap();
    assert_eq!(lines.iter().filter(|line| matches!(line, TailItem::Event(_))).count(), 4, "{lines:#?}");

    let (since, until) = (everything().since.unwrap(), world.now().plus(MINUTE));
    let call = Some(CallId::new("c1"));
    let of_call = Filter { status: None, provider: None, event_type: None, call, since, until, limit: 20 };
    let page = events::list(&stack, &of_call).await.unwrap();
    let listed: BTreeSet<(&str, &str)> = page.events.iter().map(|line| (line.event_id.as_str(), line.status)).collect();
    assert_eq!(listed, BTreeSet::from([("generic:c1-a", "unknown"), ("generic:c1-b", "unknown")]), "{page:#?}");
    assert_eq!(search(&stack, "c1").await.unwrap().unreadable, [CallId::new("c1")]);
}
