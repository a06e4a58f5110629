//! Events that are folded, and whose mark cannot be removed then.

use switchhook_aws::inbox::AttentionKind;
use switchhook_domain::Provider;
use switchhook_local::{CALLS_TABLE, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE, INBOX_TABLE};
use switchhook_tests::{MINUTE, World, down, generic};

/// Accepts an event whose fold fails `failures` times. Each failure writes its mark.
async fn fail_to_fold(world: &World, failures: u64) {
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    for _ in 0..failures {
        world.inject_fault("PutItem", CALLS_TABLE, 1, down());
        assert_eq!(world.consume(&world.receive()).await, 0);
        world.wait(MINUTE * 30).await;
    }
    world.clear_faults();
}

/// Trouble with the index of marks must not send messages round that are done. Each round would write the mark again.
#[tokio::test(start_paused = true)]
async fn folded_event_whose_mark_cannot_be_removed_is_not_tried_again() {
    let world = World::stopped();
    fail_to_fold(&world, 1).await;
    let marked = world.attention(AttentionKind::Retrying).await;
    assert_eq!(marked.len(), 1);

    world.inject_fault("UpdateItem", INBOX_TABLE, u64::MAX, down());
    assert_eq!(world.consume(&world.receive()).await, 1);
    assert_eq!(world.call("c1").await.version, 1);
    assert_eq!(world.attention(AttentionKind::Retrying).await, marked);
    let logged = world.logged("mark_not_removed");
    assert_eq!(
        (logged.len(), &logged[0]["event_id"], &logged[0]["cause"]),
        (1, &"generic:e1".into(), &"write_inbox".into())
    );

    world.clear_faults();
    world.reconciler.run("test").await.unwrap();
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
}

/// Only the consumer removes the mark of a dead letter, so the message must come back to it.
#[tokio::test(start_paused = true)]
async fn mark_of_a_redriven_dead_letter_is_removed_by_the_next_try() {
    let world = World::stopped();
    fail_to_fold(&world, 1).await;
    world.inject_fault("PutItem", CALLS_TABLE, 1, down());
    assert_eq!(world.consume(&world.receive()).await, 1, "the event waits in the inbox");
    world.wait(MINUTE * 60 * 6).await;
    world.reconcile().await;
    assert_eq!(world.receive(), []);
    assert_eq!(world.attention(AttentionKind::DeadLettered).await.len(), 1);
    assert_eq!(world.cloud.services().sqs().redrive(EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE).unwrap(), 1);

    world.inject_fault("UpdateItem", INBOX_TABLE, 1, down());
    assert_eq!(world.consume(&world.receive()).await, 0);
    assert_eq!(world.call("c1").await.version, 1);
    world.wait(MINUTE).await;
    assert_eq!(world.consume(&world.receive()).await, 1);
    assert_eq!(world.attention(AttentionKind::DeadLettered).await, []);
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
}
