//! A queue is lost with everything in it: purged, or deleted and made anew.

use insta::assert_snapshot;
use serde_json::json;
use switchhook_domain::{Disposition, Provider};
use switchhook_local::{
    CALLS_TABLE, DIAL_QUEUE, DUE_QUEUE, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE, RELAY_FAILURES_QUEUE,
};
use switchhook_operate::replay::{self, ReplayFilter, Selected};
use switchhook_operate::republish::{self, RepublishFilter};
use switchhook_tests::{MINUTE, World, generic};

use super::{MAX, carry_out, dials, found, repair, stack, verified};
use crate::outbound::{call_request, call_state, create};

/// Posts the webhooks of a call that rang, was answered and ended.
async fn post_call(world: &World, id: &str) {
    for (type_, second) in [("RINGING", 1), ("ANSWERED", 3), ("USER_CONFIRMED", 20), ("ENDED", 60)] {
        world.accept(Provider::Generic, &generic(id, &format!("{id}-{type_}"), type_, second)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn events_of_a_lost_queue_are_folded_again_from_the_inbox() {
    let mut world = World::new();
    let began = world.now();
    world.accept(Provider::Generic, &generic("c1", "c1-first", "RINGING", 0)).await;
    world.wait(MINUTE * 3).await;
    // The consumer is down, and then its queue is lost. SQS remembers the messages, so the sweep cannot queue them again.
    world.stop();
    post_call(&world, "c1").await;
    post_call(&world, "c2").await;
    assert_eq!(world.cloud.services().sqs().purge(EVENTS_QUEUE).unwrap(), 8);
    world.start();
    world.wait(MINUTE * 10).await;
    assert!(world.load("c2").await.is_none());
    let stack = stack(&world);
    let report = found(&verified(&stack, began).await);
    assert!(
        report.starts_with("differs: missing_event") && report.ends_with("lost: 4 events, placed: false"),
        "{report}"
    );
    repair(&stack, began).await;
    world.wait(MINUTE * 3).await;
    assert_eq!(found(&verified(&stack, began).await), "");
    for call in ["c1", "c2"] {
        assert_eq!(world.call(call).await.job.as_str(), "COMPLETED");
    }
}

#[tokio::test(start_paused = true)]
async fn claims_of_a_lost_dial_queue_expire_and_each_call_is_dialled_once() {
    let mut world = World::stopped();
    let call_id = create(&world, &call_request("confirms")).await;
    assert_eq!(world.cloud.schedule().await.unwrap().unwrap().claimed, 1);
    assert_eq!(world.cloud.services().sqs().purge(DIAL_QUEUE).unwrap(), 1);
    world.start();
    world.wait(MINUTE * 20).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    assert_eq!(dials(&world)[&call_id], 1);
}

#[tokio::test(start_paused = true)]
async fn schedule_finds_the_calls_of_a_lost_queue_of_due_calls() {
    let world = World::new();
    let mut soon = call_request("confirms");
    soon["due_at"] = json!("2026-01-01T00:00:40Z");
    let call_id = create(&world, &soon).await;
    world.quiesce().await;
    assert_eq!(world.cloud.services().sqs().purge(DUE_QUEUE).unwrap(), 1);
    world.wait(MINUTE * 5).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    assert_eq!(dials(&world)[&call_id], 1);
}

#[tokio::test(start_paused = true)]
async fn events_of_lost_dead_letters_are_replayed_from_the_inbox() {
    let mut world = World::new();
    let began = world.now();
    world.inject_fault("PutItem", CALLS_TABLE, u64::MAX, switchhook_tests::down());
    post_call(&world, "c1").await;
    world.wait_for_dead_letters(4).await;
    assert!(world.cloud.services().sqs().purge(EVENTS_DEAD_LETTER_QUEUE).unwrap() >= 4);
    world.clear_faults();
    let stack = stack(&world);
    let filter = ReplayFilter { since: Some(began), disposition: Some(Selected::NotFolded), ..ReplayFilter::default() };
    let plan = replay::plan(&stack, &filter, MAX, &mut |_, _| {}).await.unwrap();
    assert_eq!(plan.items.len(), 4);
    carry_out(&stack, &plan).await;
    world.quiesce().await;
    let call = world.call("c1").await;
    assert_eq!(call.job.as_str(), "COMPLETED");
    assert!(call.history.iter().any(|entry| entry.disposition == Disposition::Applied));
}

#[tokio::test(start_paused = true)]
async fn domain_events_of_a_lost_failures_queue_are_published_again() {
    let mut world = World::new();
    let began = world.now();
    post_call(&world, "c1").await;
    world.wait(MINUTE * 3).await;
    let published = world.published_types("c1");
    // The relay was down until the stream forgot the record, and its failures queue is lost too.
    world.stop();
    world.accept(Provider::Generic, &generic("c2", "c2-RINGING", "RINGING", 1)).await;
    crate::repair::consume_all(&world).await;
    let stream = world.cloud.services().dynamodb().stream();
    stream.next_batch(usize::MAX).last().inspect(|last| stream.trim(last.sequence()).unwrap());
    world.cloud.services().sqs().purge(RELAY_FAILURES_QUEUE).unwrap();
    world.start();
    world.wait(MINUTE * 3).await;
    assert_eq!(world.published_types("c2"), [""; 0]);
    let stack = stack(&world);
    let plan = republish::plan(&stack, &RepublishFilter::Since(began), MAX, &mut |_, _| {}).await.unwrap();
    carry_out(&stack, &plan).await;
    assert!(!world.published_types("c2").is_empty());
    assert_eq!(world.published_types("c1").len(), 2 * published.len());
    assert_eq!(verified(&stack, began).await.findings, []);
}
