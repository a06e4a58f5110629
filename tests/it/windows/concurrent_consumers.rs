//! A consumer crashes or is slow, so that two consumers hold messages of one call.

use std::time::Duration;

use insta::assert_snapshot;
use switchhook_domain::{EventId, Provider};
use switchhook_local::CALLS_TABLE;
use switchhook_local::connector::Fault;
use switchhook_tests::{MINUTE, World, generic};

use super::{call_events, published_ids, status};

#[tokio::test(start_paused = true)]
async fn consumer_that_died_after_its_write_writes_nothing_when_the_messages_come_again() {
    let world = World::stopped();
    for body in call_events("c1") {
        world.accept(Provider::Generic, &body).await;
    }
    let received = world.receive();
    assert_eq!(
        world.invoke_consumer(&received).await.len(),
        4,
        "all messages must succeed, although the test deletes none"
    );
    let written = world.call("c1").await;

    world.wait(MINUTE).await;
    let again = world.receive();
    assert_eq!(again.len(), 4);
    drop(world.requests());
    assert_eq!(world.consume(&again).await, 4);
    // Each message came twice, so a note on it would be taken out of the index of what needs attention.
    assert_eq!(world.requests(), [("GetItem".to_owned(), 1), ("UpdateItem".to_owned(), 4)].into());
    assert_eq!(world.call("c1").await, written);
    assert_eq!(world.logged("duplicate").len(), 4);

    world.relay().await;
    let ids: Vec<String> = published_ids(&world);
    let expected: Vec<String> = (1..=4).map(|n| format!("c1/{n}")).collect();
    assert_eq!(ids, expected, "each domain event must be published once");
}

#[tokio::test(start_paused = true)]
async fn of_two_consumers_on_one_call_the_loser_folds_again() {
    let world = World::stopped();
    let bodies = call_events("c1");
    // The visibility timeout of the first two messages ends while their consumer is still at work. So two consumers
    // hold messages of one call.
    world.accept(Provider::Generic, &bodies[0]).await;
    world.accept(Provider::Generic, &bodies[1]).await;
    let first = world.receive();
    world.wait(MINUTE).await;
    world.accept(Provider::Generic, &bodies[2]).await;
    world.accept(Provider::Generic, &bodies[3]).await;
    let second = world.receive();
    assert_eq!((first.len(), second.len()), (2, 4));

    // Both read the call before one of them writes it.
    world.inject_fault("PutItem", CALLS_TABLE, 1, Fault::Delay(Duration::from_millis(300)));
    drop(world.requests());
    let (slow, fast) = tokio::join!(world.invoke_consumer(&first), world.invoke_consumer(&second));
    assert_eq!((slow.len(), fast.len()), (2, 4));
    assert_eq!(
        world.requests(),
        [("GetItem".to_owned(), 3), ("PutItem".to_owned(), 2), ("UpdateItem".to_owned(), 4)].into(),
        "the loser must read the call again, and must not write it; two messages came twice, each a minute late, and may have marks"
    );
    let call = world.call("c1").await;
    assert_eq!((call.version, call.history.len()), (1, 6));
}

#[tokio::test(start_paused = true)]
async fn of_two_consumers_with_different_events_of_one_call_neither_overwrites_the_other() {
    for exists in [false, true] {
        let world = World::stopped();
        if exists {
            world.accept(Provider::Generic, &generic("c1", "before", "CALL_STARTED", 0)).await;
            let received = world.receive();
            world.consume(&received).await;
        }
        for body in call_events("c1") {
            world.accept(Provider::Generic, &body).await;
        }
        let all = world.receive();
        let (first, second) = all.split_at(2);
        // Both read the call before one of them writes it.
        world.inject_fault("PutItem", CALLS_TABLE, 1, Fault::Delay(Duration::from_millis(300)));
        let (slow, fast) = tokio::join!(world.invoke_consumer(first), world.invoke_consumer(second));
        assert_eq!((slow.len(), fast.len()), (2, 2), "exists: {exists}");
        world.clear_faults();

        let call = world.call("c1").await;
        let before = u64::from(exists);
        assert_eq!((call.version, call.history.len()), (2 + before, 6 + usize::from(exists)), "exists: {exists}");
        assert_eq!(call.attempts()[0].lifecycle_label(), "completed");
        world.relay().await;
        let ids: Vec<String> = published_ids(&world);
        let expected: Vec<String> = (1..=call.announcements.len()).map(|n| format!("c1/{n}")).collect();
        assert_eq!(ids, expected, "each domain event must be published once, in order; exists: {exists}");
    }
}

#[tokio::test(start_paused = true)]
async fn call_that_others_keep_changing_is_left_to_the_queue() {
    let world = World::stopped();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.inject_fault(
        "PutItem",
        CALLS_TABLE,
        u64::MAX,
        Fault::ErrorBefore { status: 400, code: "ConditionalCheckFailedException".to_owned() },
    );
    let received = world.receive();
    assert_eq!(world.invoke_consumer(&received).await, []);
    assert_eq!(world.logged("retried")[0]["cause"], "contended");
    let id = EventId::new("generic:e1");
    assert_snapshot!(status(&world, &id, &["status", "attempts", "error"]).await, @r"
    status: retrying
    attempts: 1
    error: other writers changed the call during each of 5 attempts to write it
    ");
}
