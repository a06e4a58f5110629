//! No event of a call arrives any more. Its inactivity timeout ends, and a deadline settles the call.

use std::time::Duration;

use insta::assert_snapshot;
use serde_dynamo::AttributeValue;
use serde_json::json;
use switchhook_aws::calls::StoreOutcome;
use switchhook_domain::{EventId, Provider};
use switchhook_local::connector::Fault;
use switchhook_local::{EVENTS_QUEUE, INBOX_TABLE};
use switchhook_tests::{INACTIVITY_TIMEOUT, MINUTE, World, generic};

use super::NOTHING;

/// Makes the call `c1`, and waits until its inactivity timeout has ended. Returns the id of its only event.
async fn silent_call(world: &World) -> EventId {
    let id = world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    let received = world.receive();
    world.consume(&received).await;
    world.wait(INACTIVITY_TIMEOUT).await;
    id
}

#[tokio::test(start_paused = true)]
async fn schedule_that_fires_twice_makes_one_deadline_of_it() {
    let world = World::stopped();
    silent_call(&world).await;
    let (one, two) = tokio::join!(world.reconciler.run("one"), world.reconciler.run("two"));
    assert_eq!(
        (one.unwrap().deadlines_passed, two.unwrap().deadlines_passed),
        (1, 1),
        "both runs must find the deadline"
    );
    assert_eq!(world.queued().len(), 1, "SQS must drop the duplicate");
    // The deduplication window of SQS ends, and the deadline is queued a second time.
    world.wait(Duration::from_secs(301)).await;
    assert_eq!(world.reconciler.run("three").await.unwrap().deadlines_passed, 1);
    assert_eq!(world.queued().len(), 2);
    let received = world.receive();
    assert_eq!(world.consume(&received).await, 2);

    let call = world.call("c1").await;
    assert_eq!((call.history.len(), call.is_settled()), (2, true));
    world.relay().await;
    assert_snapshot!(world.timeline(), @r"
    operator.attention/retrying/0-1767226500000-1 operator.attention
    c1/1 call.initiated
    c1/2 call.ringing
    c1/3 call.inconclusive
    c1/4 call.outcome
    ");
    assert_eq!(world.reconciler.run("four").await.unwrap().woken, 0, "a settled call must never be woken");
}

#[tokio::test(start_paused = true)]
async fn deadline_that_was_stored_but_not_queued_is_finished_by_the_next_run() {
    let world = World::stopped();
    silent_call(&world).await;
    world.inject_fault("SendMessage", EVENTS_QUEUE, 3, Fault::NotSent);
    assert!(world.reconciler.run("one").await.is_err());
    assert_eq!(world.queued(), NOTHING);
    let stored = world.items(INBOX_TABLE).await;
    let deadlines =
        stored.iter().filter(|item| item.get("type") == Some(&AttributeValue::S("deadline_passed".to_owned())));
    assert_eq!(deadlines.count(), 1, "the deadline must be stored");

    world.wait(MINUTE).await;
    let report = world.reconciler.run("two").await.unwrap();
    assert_eq!((report.woken, report.deadlines_passed, report.failed), (1, 1, 0));
    let received = world.receive();
    assert_eq!(world.consume(&received).await, 1);
    assert!(world.call("c1").await.is_settled());
}

#[tokio::test(start_paused = true)]
async fn call_that_is_heard_of_again_gets_its_patience_anew() {
    let world = World::stopped();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    let received = world.receive();
    world.consume(&received).await;
    world.wait(INACTIVITY_TIMEOUT / 2).await;
    world.accept(Provider::Generic, &generic("c1", "e2", "ANSWERED", 3)).await;
    let received = world.receive();
    world.consume(&received).await;
    world.wait(INACTIVITY_TIMEOUT / 2).await;

    let report = world.reconciler.run("one").await.unwrap();
    assert_eq!((report.woken, report.deadlines_passed, report.rescheduled), (1, 0, 1));
    assert_eq!(world.call("c1").await.wake_at, Some(world.now().plus(INACTIVITY_TIMEOUT / 2)));
    world.wait(INACTIVITY_TIMEOUT / 2).await;
    assert_eq!(world.reconciler.run("two").await.unwrap().deadlines_passed, 1);
}

#[tokio::test(start_paused = true)]
async fn ending_that_comes_after_the_deadline_corrects_it() {
    let world = World::new();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 2).await;
    assert_eq!(world.get("/call?id=c1").await.1["lifecycle"], "inconclusive");
    world.accept(Provider::Generic, &generic("c1", "e2", "NO_ANSWER", 30)).await;
    world.quiesce().await;
    let (_, call) = world.get("/call?id=c1").await;
    assert_eq!(json!([call["lifecycle"], call["outcome"], call["settled"]]), json!(["no_answer", "no_answer", true]));
    assert_snapshot!(world.timeline(), @r"
    c1/1 call.initiated
    c1/2 call.ringing
    c1/3 call.inconclusive
    c1/4 call.outcome
    c1/5 call.no_answer corrects c1/3
    c1/6 call.corrected corrects c1/3
    c1/7 call.outcome corrects c1/4
    ");
}

#[tokio::test(start_paused = true)]
async fn waking_time_moves_only_if_the_call_has_not_changed() {
    let world = World::stopped();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    let received = world.receive();
    world.consume(&received).await;
    let read = world.call("c1").await;
    world.accept(Provider::Generic, &generic("c1", "e2", "ANSWERED", 3)).await;
    let received = world.receive();
    world.consume(&received).await;
    assert_eq!(world.calls.set_wake_at(&read, world.now()).await.unwrap(), StoreOutcome::LostRace);
    assert!(world.call("c1").await.wake_at.is_some());
}
