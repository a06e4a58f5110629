//! A message fails, once or always. Later messages of its call wait, and other calls go on.

use std::time::Duration;

use insta::{allow_duplicates, assert_snapshot};
use serde_json::{Value, json};
use switchhook_domain::{EventId, Provider, Timestamp};
use switchhook_local::queue::{NewMessage, ReceivedMessage};
use switchhook_local::{CALLS_TABLE, EVENTS_QUEUE};
use switchhook_tests::{MAX_RECEIVE_COUNT, MINUTE, World, down, generic, reads_calls_to_fold, text};

use super::{HOUR, NOTHING, call_events, status};

/// Queues a message of a call that no version of Switchhook can read.
fn poison(world: &World, group: &str) {
    let message = NewMessage {
        body: "{\"schema_version\":1,\"nonsense\":true}".to_owned(),
        group: Some(group.to_owned()),
        deduplication_id: Some(format!("poison-{group}")),
        ..NewMessage::default()
    };
    world.cloud.services().sqs().send(EVENTS_QUEUE, message).unwrap();
}

#[tokio::test(start_paused = true)]
async fn poison_is_tried_with_growing_pauses_and_then_put_aside_while_other_calls_go_on() {
    let mut world = World::new();
    poison(&world, "c1");
    for number in 0..30 {
        world.accept(Provider::Generic, &generic(&format!("other{number}"), &format!("e{number}"), "RINGING", 0)).await;
    }
    world.quiesce().await;
    for number in 0..30 {
        assert_eq!(world.call(&format!("other{number}")).await.version, 1);
    }

    world.wait_for_dead_letters(1).await;
    assert_eq!(world.queued(), NOTHING);
    assert_eq!(world.dead_letters(), [json!({"schema_version": 1, "nonsense": true})]);
    let tries: Vec<Value> = world.logged("retried");
    let counts: Vec<u64> = tries.iter().map(|line| line["retry_count"].as_u64().unwrap()).collect();
    let all: Vec<u64> = (1..u64::from(MAX_RECEIVE_COUNT)).collect();
    assert_eq!(counts, all, "each receive must be one try");
    let last = world.logged("dead_lettered");
    assert_eq!(
        json!([last.len(), last[0]["retry_count"], last[0]["cause"], last[0]["level"]]),
        json!([1, 20, "decode_message", "ERROR"])
    );
    let at = |line: &Value| Timestamp::parse_rfc3339(line["timestamp"].as_str().unwrap()).unwrap();
    for (index, two) in tries.windows(2).enumerate() {
        let pause_ms = at(&two[1]).millis_since(at(&two[0]));
        let cap_ms = (2_000_i64 << index.min(20)).min(900_000);
        assert!((1_000..=cap_ms + 1_000).contains(&pause_ms), "pause {index}: {pause_ms} ms, cap {cap_ms} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_are_not_the_same_for_all() {
    let world = World::new();
    for number in 0..20 {
        poison(&world, &format!("c{number}"));
    }
    world.wait(HOUR / 2).await;
    let times: std::collections::BTreeSet<String> = world
        .logged("retried")
        .into_iter()
        .filter(|line| line["retry_count"] == 9)
        .map(|line| text(&line["timestamp"]))
        .collect();
    assert!(times.len() > 10, "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn tail_of_a_call_waits_with_a_message_that_fails_and_keeps_its_order() {
    let world = World::stopped();
    let bodies = call_events("c1");
    for body in &bodies {
        world.accept(Provider::Generic, body).await;
    }
    world.accept(Provider::Generic, &generic("c2", "other", "RINGING", 0)).await;
    // Reads of this call fail.
    world.set_fault_hook(|call| {
        let of_c1 = String::from_utf8_lossy(call.body).contains("\"call_id\":{\"S\":\"c1\"}");
        (reads_calls_to_fold(call) && of_c1).then(down)
    });
    let received = world.receive();
    assert_eq!(received.len(), 5);
    assert_eq!(world.consume(&received).await, 1, "only the message of the other call succeeds");
    assert_eq!(world.call("c2").await.version, 1);

    world.clear_faults();
    let failed = world.logged("retried");
    let ids: Vec<String> = failed.iter().map(|line| text(&line["event_id"])).collect();
    assert_eq!(ids, ["generic:c1-CALL_STARTED", "generic:c1-RINGING", "generic:c1-ANSWERED", "generic:c1-ENDED"]);
    for id in ids {
        let shown = status(&world, &EventId::new(id), &["status", "attempts", "error"]).await;
        allow_duplicates! {
            assert_snapshot!(shown, @r"
            status: retrying
            attempts: 1
            error: could not read the call
            ");
        }
    }
    // The messages become visible together and in order, not one by one.
    world.wait(Duration::from_secs(2)).await;
    let again: Vec<String> = world.receive().iter().map(message_event).collect();
    assert_eq!(again, ["generic:c1-CALL_STARTED", "generic:c1-RINGING", "generic:c1-ANSWERED", "generic:c1-ENDED"]);
}

/// The event id in a message.
fn message_event(received: &ReceivedMessage) -> String {
    let body: Value = serde_json::from_str(&received.message.body).unwrap();
    text(&body["event"]["event_id"])
}

#[tokio::test(start_paused = true)]
async fn events_before_poison_of_the_same_call_are_folded_and_those_behind_wait() {
    let world = World::stopped();
    let bodies = call_events("c1");
    world.accept(Provider::Generic, &bodies[0]).await;
    world.accept(Provider::Generic, &bodies[1]).await;
    poison(&world, "c1");
    world.accept(Provider::Generic, &bodies[2]).await;
    let received = world.receive();
    assert_eq!(received.len(), 4);
    assert_eq!(world.consume(&received).await, 2);
    assert_eq!(world.call("c1").await.history.len(), 2);

    world.wait(Duration::from_secs(2)).await;
    let again = world.receive();
    assert_eq!(again.len(), 2, "the unreadable message and the one behind it");
    assert_eq!(message_event(&again[1]), "generic:c1-ANSWERED");
}

#[tokio::test(start_paused = true)]
async fn panic_costs_one_invocation_and_no_event() {
    let world = World::new();
    world.crash_at("GetItem", CALLS_TABLE);
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.wait(Duration::from_secs(10)).await;
    world.clear_faults();
    assert_eq!(world.queued().len(), 1);
    world.wait(MINUTE).await;
    assert_eq!(world.call("c1").await.version, 1);
}

#[tokio::test(start_paused = true)]
async fn messages_whose_pause_could_not_be_set_come_back_when_the_queues_own_timeout_ends() {
    let world = World::new();
    world.set_fault_hook(|call| {
        (reads_calls_to_fold(call) || call.operation == "ChangeMessageVisibilityBatch").then(down)
    });
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.wait(Duration::from_secs(10)).await;
    world.clear_faults();
    assert_eq!(world.logged("backoff_failed").len(), 1);
    world.wait(MINUTE).await;
    assert_eq!(world.call("c1").await.version, 1);
}
