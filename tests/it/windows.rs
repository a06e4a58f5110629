//! The failure windows of a webhook's way: what closes each, with the fault that opens it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_aws::calls::{Calls, StoreOutcome};
use switchhook_aws::inbox::{NewEvent, minute_of};
use switchhook_domain::{ATTEMPT_EVENTS_MAX, EventId, EventKind, Policy, Provider, Timestamp};
use switchhook_local::connector::{Fault, Service};
use switchhook_local::queue::{NewMessage, ReceivedMessage};
use switchhook_local::{CALLS_TABLE, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE, INBOX_TABLE};
use switchhook_tests::{
    INACTIVITY_TIMEOUT, MAX_RECEIVE_COUNT, MINUTE, World, database_down, down, generic, is_request_to, sample, text,
};

use crate::traffic::noise;

const NOTHING: [Value; 0] = [];
const DIED: StatusCode = StatusCode::INTERNAL_SERVER_ERROR;
const HOUR: Duration = Duration::from_secs(60 * 60);

/// What `GET /events/{id}/status` says, in the order of the arguments.
async fn status(world: &World, event_id: &EventId, fields: &[&str]) -> Value {
    let status = world.status(event_id).await;
    fields.iter().map(|field| status[field].clone()).collect()
}

/// The ids and types of what was published, in order.
fn published_pairs(world: &World) -> Vec<(String, String)> {
    world.domain_events().iter().map(|event| (text(&event["id"]), text(&event["type"]))).collect()
}

fn pair(id: &str, event_type: &str) -> (String, String) {
    (id.to_owned(), event_type.to_owned())
}

/// The four facts of a call that is confirmed, in order.
fn call_events(call_id: &str) -> Vec<String> {
    [("CALL_STARTED", 0), ("RINGING", 1), ("ANSWERED", 3), ("ENDED", 60)]
        .into_iter()
        .map(|(kind, second)| generic(call_id, &format!("{call_id}-{kind}"), kind, second))
        .collect()
}

// Stored, but not queued

#[tokio::test(start_paused = true)]
async fn event_that_was_stored_but_not_queued_is_queued_by_the_providers_retry() {
    let world = World::new();
    let body = generic("c1", "e1", "RINGING", 0);
    world.die_at("SendMessage", EVENTS_QUEUE);
    assert_eq!(world.post(Provider::Generic, &body).await.0, DIED);
    world.clear_faults();
    world.quiesce().await;
    let id = EventId::new("generic:e1");
    assert_eq!(status(&world, &id, &["status", "attempts"]).await, json!(["queued", 0]), "stored");
    assert_eq!((world.queued(), world.get("/calls/c1").await.0), (vec![], StatusCode::NOT_FOUND), "and no more");

    let answered = world.post(Provider::Generic, &body).await;
    assert_eq!(answered, (StatusCode::OK, json!({"status": "already_processed", "event_id": id})));
    world.quiesce().await;
    assert_eq!(status(&world, &id, &["status", "disposition", "attempts"]).await, json!(["processed", "applied", 1]));
    assert_eq!(world.call("c1").await.version, 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_queued_again_is_what_was_stored_and_not_what_came() {
    let world = World::new();
    world.die_at("SendMessage", EVENTS_QUEUE);
    assert_eq!(world.post(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await.0, DIED);
    world.clear_faults();

    let other = generic("c2", "e1", "ANSWERED", 0);
    assert_eq!(world.post(Provider::Generic, &other).await.1["status"], "already_processed");
    world.quiesce().await;
    assert_eq!(world.published_types("c1"), ["call.initiated", "call.ringing", "appointment.dialing"]);
    assert_eq!(world.published_types("c2"), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn event_that_was_stored_but_not_queued_is_found_by_the_sweep() {
    let world = World::new();
    // Wherever in its minute it comes.
    for (number, second) in [(1, 0), (2, 30), (3, 59)] {
        let into_minute = Duration::from_millis(u64::try_from(world.now().as_millis()).unwrap() % 60_000);
        world.wait(MINUTE - into_minute + Duration::from_secs(second)).await;
        let (call_id, event_id) = (format!("c{number}"), format!("e{number}"));
        world.die_at("SendMessage", EVENTS_QUEUE);
        assert_eq!(world.post(Provider::Generic, &generic(&call_id, &event_id, "RINGING", 0)).await.0, DIED);
        world.clear_faults();
        let died_at = world.now();

        let id = EventId::new(format!("generic:{event_id}"));
        while world.status(&id).await["status"] != "processed" {
            world.wait(Duration::from_secs(1)).await;
            assert!(world.now().millis_since(died_at) <= 185_000, "{second} s into its minute: not found yet");
        }
        assert_eq!(world.published_types(&call_id), ["call.initiated", "call.ringing", "appointment.dialing"]);
    }
}

#[tokio::test(start_paused = true)]
async fn large_event_that_was_stored_but_not_queued_is_found_by_the_sweep() {
    let world = World::new();
    let body = json!({"event_id": "e1", "type": "RINGING", "call_id": "c1", "noise": noise(600_000)}).to_string();
    world.die_at("SendMessage", EVENTS_QUEUE);
    assert_eq!(world.post(Provider::Generic, &body).await.0, DIED);
    world.clear_faults();
    assert!(world.item(INBOX_TABLE, "generic:e1").await.contains_key("body_chunks"));
    world.wait(MINUTE * 4).await;
    assert_eq!(status(&world, &EventId::new("generic:e1"), &["status"]).await, json!(["processed"]));
}

#[tokio::test(start_paused = true)]
async fn sweep_looks_at_each_minute_once_and_queues_nothing_that_arrived() {
    let world = World::stopped();
    for second in 0..10_u64 {
        world.accept(Provider::Generic, &generic("c1", &format!("e{second}"), "RINGING", second)).await;
        let received = world.receive();
        assert_eq!(world.consume(&received).await, 1);
        world.wait(Duration::from_secs(30)).await;
    }
    // Five minutes hold events; six have passed.
    world.wait(MINUTE).await;
    let last_minute = minute_of(world.now()) - 2;
    let mut reports = Vec::new();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let minutes = Arc::new(std::sync::Mutex::new(Vec::new()));
        let hook = minutes.clone();
        world.set_fault_hook(move |call| {
            let body: Value = serde_json::from_slice(call.body).unwrap();
            if call.operation == "Query" && body["IndexName"] == "by_received" {
                let bucket = text(&body["ExpressionAttributeValues"][":bucket"]["S"]);
                hook.lock().unwrap().push(bucket.split_once('#').unwrap().0.parse::<i64>().unwrap());
            }
            None
        });
        reports.push(world.reconciler.run("test").await.unwrap());
        let mut minutes = minutes.lock().unwrap().clone();
        minutes.dedup();
        seen.push(minutes);
        world.wait(MINUTE).await;
    }
    let first: Vec<i64> = (last_minute - 59..=last_minute).collect();
    assert_eq!(seen, [first, vec![last_minute + 1], vec![last_minute + 2], vec![last_minute + 3]]);
    let requeued: Vec<(u64, u64)> = reports.iter().map(|report| (report.swept_minutes, report.requeued)).collect();
    assert_eq!(requeued, [(60, 0), (1, 0), (1, 0), (1, 0)]);
    assert_eq!(world.queued(), NOTHING);

    // A second run in the same minute finds nothing to look at.
    assert_eq!(world.reconciler.run("test").await.unwrap().swept_minutes, 1);
    assert_eq!(world.reconciler.run("test").await.unwrap().swept_minutes, 0);
}

#[tokio::test(start_paused = true)]
async fn first_sweep_of_all_looks_an_hour_back() {
    let world = World::stopped();
    for number in 0..2 {
        world.die_at("SendMessage", EVENTS_QUEUE);
        let body = generic(&format!("c{number}"), &format!("e{number}"), "RINGING", 0);
        assert_eq!(world.post(Provider::Generic, &body).await.0, DIED);
        world.clear_faults();
        world.wait(MINUTE * 2).await;
    }
    // The first came 62 minutes before, and the sweep stays two minutes behind.
    world.wait(MINUTE * 58).await;
    let report = world.reconciler.run("test").await.unwrap();
    assert_eq!((report.swept_minutes, report.requeued), (60, 1));
    assert_eq!(world.queued()[0]["event"]["event_id"], "generic:e1");
}

#[tokio::test(start_paused = true)]
async fn sweep_catches_up_every_minute_that_it_missed() {
    let world = World::stopped();
    world.reconciler.run("test").await.unwrap();
    world.die_at("SendMessage", EVENTS_QUEUE);
    for minute in 0..90_u64 {
        let body = generic(&format!("c{minute}"), &format!("e{minute}"), "RINGING", minute);
        assert_eq!(world.post(Provider::Generic, &body).await.0, DIED);
        world.wait(MINUTE).await;
    }
    world.clear_faults();
    world.wait(MINUTE * 2).await;
    let first = world.reconciler.run("test").await.unwrap();
    let second = world.reconciler.run("test").await.unwrap();
    assert_eq!((first.swept_minutes, second.swept_minutes), (60, 92 - 60));
    assert_eq!(first.requeued + second.requeued, 90);
    assert_eq!(world.queued().len(), 90);
}

#[tokio::test(start_paused = true)]
async fn sweep_that_fails_in_a_minute_looks_at_it_again() {
    let world = World::stopped();
    world.reconciler.run("test").await.unwrap();
    world.die_at("SendMessage", EVENTS_QUEUE);
    assert_eq!(world.post(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await.0, DIED);
    world.wait(MINUTE * 2).await;

    world.inject_fault("SendMessage", EVENTS_QUEUE, u64::MAX, down());
    assert!(world.reconciler.run("test").await.is_err());
    assert_eq!(world.logged("reconcile_failed")[0]["cause"], "send");
    assert_eq!(world.queued(), NOTHING);

    world.clear_faults();
    let report = world.reconciler.run("test").await.unwrap();
    assert_eq!((report.swept_minutes, report.requeued, world.queued().len()), (1, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn sweep_pauses_while_too_much_waits() {
    let mut world = World::stopped();
    world.reconciler.run("test").await.unwrap();
    world.die_at("SendMessage", EVENTS_QUEUE);
    assert_eq!(world.post(Provider::Generic, &generic("lost", "lost", "RINGING", 0)).await.0, DIED);
    world.clear_faults();
    for number in 0..1_001 {
        world.accept(Provider::Generic, &generic(&format!("c{number}"), &format!("e{number}"), "RINGING", 0)).await;
    }
    world.wait(MINUTE * 3).await;
    let report = world.reconciler.run("test").await.unwrap();
    assert_eq!((report.swept_minutes, report.requeued, world.queued().len()), (0, 0, 1_001), "it would only add to it");

    world.start();
    world.wait(MINUTE * 3).await;
    assert_eq!(status(&world, &EventId::new("generic:lost"), &["status"]).await, json!(["processed"]));
}

#[tokio::test(start_paused = true)]
async fn two_sweeps_at_once_queue_an_event_once() {
    let world = World::stopped();
    world.reconciler.run("test").await.unwrap();
    world.die_at("SendMessage", EVENTS_QUEUE);
    assert_eq!(world.post(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await.0, DIED);
    world.clear_faults();
    world.wait(MINUTE * 3).await;
    let (one, two) = tokio::join!(world.reconciler.run("one"), world.reconciler.run("two"));
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(world.queued().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn call_that_cannot_be_read_does_not_keep_the_sweep_from_others() {
    let world = World::stopped();
    world.reconciler.run("test").await.unwrap();
    world.accept(Provider::Generic, &generic("later", "e1", "RINGING", 0)).await;
    let received = world.receive();
    world.consume(&received).await;
    let mut row = world.item(CALLS_TABLE, "later").await;
    row.insert("schema_version".to_owned(), AttributeValue::N("2".to_owned()));
    world.put_item(CALLS_TABLE, row).await;
    world.wait(MINUTE).await;
    world.die_at("SendMessage", EVENTS_QUEUE);
    assert_eq!(world.post(Provider::Generic, &generic("lost", "e2", "RINGING", 0)).await.0, DIED);
    world.clear_faults();

    for _ in 0..10 {
        world.wait(MINUTE).await;
        drop(world.reconciler.run("test").await);
    }
    let queued: Vec<String> = world.queued().iter().map(|message| text(&message["event"]["call_id"])).collect();
    assert!(queued.contains(&"lost".to_owned()), "{queued:?}");
}

// Queued, but the answer was lost

#[tokio::test(start_paused = true)]
async fn queued_event_whose_answer_was_lost_is_folded_once() {
    let world = World::new();
    world.inject_fault("SendMessage", EVENTS_QUEUE, u64::MAX, Fault::ResponseLost);
    let body = generic("c1", "e1", "RINGING", 0);
    assert_eq!(world.post(Provider::Generic, &body).await.0, StatusCode::INTERNAL_SERVER_ERROR);
    world.clear_faults();
    assert_eq!(world.post(Provider::Generic, &body).await.1["status"], "already_processed");
    world.quiesce().await;
    assert_eq!(world.call("c1").await.version, 1);
    assert_eq!(
        published_pairs(&world),
        [pair("c1/1", "call.initiated"), pair("c1/2", "call.ringing"), pair("c1/3", "appointment.dialing"),]
    );
}

#[tokio::test(start_paused = true)]
async fn stored_event_whose_answer_was_lost_is_accepted_and_folded_once() {
    let world = World::new();
    world.inject_fault("PutItem", INBOX_TABLE, 1, Fault::ResponseLost);
    let (code, answered) = world.post(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    // The client tries again by itself and finds its own write, which it cannot tell from somebody else's.
    assert_eq!((code, &answered["status"]), (StatusCode::OK, &json!("already_processed")));
    world.quiesce().await;
    assert_eq!(world.call("c1").await.version, 1);
    assert_eq!(world.logged("duplicate").len(), 1, "ingress says so, and the consumer saw it once");
}

// The consumer

#[tokio::test(start_paused = true)]
async fn consumer_that_died_after_its_write_writes_nothing_when_the_messages_come_again() {
    let world = World::stopped();
    for body in call_events("c1") {
        world.accept(Provider::Generic, &body).await;
    }
    let received = world.receive();
    assert_eq!(world.invoke_consumer(&received).await.len(), 4, "all could be deleted, and none is");
    let written = world.call("c1").await;

    world.wait(MINUTE).await;
    let again = world.receive();
    assert_eq!(again.len(), 4);
    drop(world.requests());
    assert_eq!(world.consume(&again).await, 4);
    assert_eq!(world.requests(), [("GetItem".to_owned(), 1)].into());
    assert_eq!(world.call("c1").await, written);
    assert_eq!(world.logged("duplicate").len(), 4);

    world.relay().await;
    let ids: Vec<String> = published_pairs(&world).into_iter().map(|(id, _)| id).collect();
    let expected: Vec<String> = (1..=6).map(|n| format!("c1/{n}")).collect();
    assert_eq!(ids, expected, "each once");
}

#[tokio::test(start_paused = true)]
async fn of_two_consumers_on_one_call_the_loser_folds_again() {
    let world = World::stopped();
    let bodies = call_events("c1");
    // The visibility of the first two ends while their consumer is still at work: both hold messages of one call.
    world.accept(Provider::Generic, &bodies[0]).await;
    world.accept(Provider::Generic, &bodies[1]).await;
    let first = world.receive();
    world.wait(MINUTE).await;
    world.accept(Provider::Generic, &bodies[2]).await;
    world.accept(Provider::Generic, &bodies[3]).await;
    let second = world.receive();
    assert_eq!((first.len(), second.len()), (2, 4));

    // Both read before either writes.
    world.inject_fault("PutItem", CALLS_TABLE, 1, Fault::Delay(Duration::from_millis(300)));
    drop(world.requests());
    let (slow, fast) = tokio::join!(world.invoke_consumer(&first), world.invoke_consumer(&second));
    assert_eq!((slow.len(), fast.len()), (2, 4));
    assert_eq!(
        world.requests(),
        [("GetItem".to_owned(), 3), ("PutItem".to_owned(), 2)].into(),
        "the loser read again, and had nothing left to write"
    );
    let call = world.call("c1").await;
    assert_eq!((call.version, call.history.len()), (1, 4));
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
        // Both read before either writes.
        world.inject_fault("PutItem", CALLS_TABLE, 1, Fault::Delay(Duration::from_millis(300)));
        let (slow, fast) = tokio::join!(world.invoke_consumer(first), world.invoke_consumer(second));
        assert_eq!((slow.len(), fast.len()), (2, 2), "exists: {exists}");
        world.clear_faults();

        let call = world.call("c1").await;
        let before = u64::from(exists);
        assert_eq!((call.version, call.history.len()), (2 + before, 4 + usize::from(exists)), "exists: {exists}");
        assert_eq!(call.attempts()[0].lifecycle_label(), "completed");
        world.relay().await;
        let ids: Vec<String> = published_pairs(&world).into_iter().map(|(id, _)| id).collect();
        let expected: Vec<String> = (1..=call.announcements.len()).map(|n| format!("c1/{n}")).collect();
        assert_eq!(ids, expected, "each domain event once, in order; exists: {exists}");
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
    assert_eq!(
        status(&world, &id, &["status", "attempts", "error"]).await,
        json!(["retrying", 1, "other writers changed the call 5 times while this one tried"])
    );
}

#[tokio::test(start_paused = true)]
async fn write_whose_answer_was_lost_is_found_and_published_once() {
    for lost in [Fault::ResponseLost, Fault::ErrorAfter { status: 500, code: "InternalServerError".to_owned() }] {
        let world = World::new();
        for body in call_events("c1").iter().take(3) {
            world.accept(Provider::Generic, body).await;
            world.quiesce().await;
        }
        let before = world.call("c1").await;
        let published = published_pairs(&world);

        world.inject_fault("PutItem", CALLS_TABLE, 1, lost.clone());
        drop(world.requests());
        world.accept(Provider::Generic, &call_events("c1")[3]).await;
        world.quiesce().await;

        let call = world.call("c1").await;
        assert_eq!(call.version, before.version + 1, "{lost:?}: written once");
        let requests = world.requests();
        assert_eq!(requests["PutItem"], 1 + 2, "{lost:?}: the inbox's, the lost one, and the client's own retry");
        let news: Vec<(String, String)> = published_pairs(&world).split_off(published.len());
        assert_eq!(news, [pair(&format!("c1/{}", published.len() + 1), "call.completed")], "{lost:?}");
        assert_eq!(world.logged("retried"), NOTHING, "{lost:?}: a success");
        assert_eq!((world.queued(), world.dead_letters()), (vec![], vec![]));
    }
}

#[tokio::test(start_paused = true)]
async fn write_whose_every_answer_was_lost_is_found_by_the_redelivery() {
    let world = World::new();
    world.inject_fault("PutItem", CALLS_TABLE, 3, Fault::ResponseLost);
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.wait(MINUTE).await;
    let call = world.call("c1").await;
    assert_eq!((call.version, call.history.len()), (1, 1));
    assert_eq!(published_pairs(&world).len(), 3);
    assert_eq!((world.queued(), world.dead_letters()), (vec![], vec![]));
}

// Poison, and the tail of a call

/// A message that no version of ours has sent.
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
    let world = World::new();
    poison(&world, "c1");
    for number in 0..30 {
        world.accept(Provider::Generic, &generic(&format!("other{number}"), &format!("e{number}"), "RINGING", 0)).await;
    }
    world.quiesce().await;
    for number in 0..30 {
        assert_eq!(world.call(&format!("other{number}")).await.version, 1);
    }

    world.wait(HOUR * 6).await;
    assert_eq!(world.queued(), NOTHING);
    assert_eq!(world.dead_letters(), [json!({"schema_version": 1, "nonsense": true})]);
    let tries: Vec<Value> = world.logged("retried");
    let counts: Vec<u64> = tries.iter().map(|line| line["retry_count"].as_u64().unwrap()).collect();
    let all: Vec<u64> = (1..u64::from(MAX_RECEIVE_COUNT)).collect();
    assert_eq!(counts, all, "each receive is a try");
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
    // The database fails for this call alone.
    world.set_fault_hook(|call| {
        let of_c1 = String::from_utf8_lossy(call.body).contains("\"call_id\":{\"S\":\"c1\"}");
        (call.service == Service::DynamoDb && call.operation == "GetItem" && of_c1).then(down)
    });
    let received = world.receive();
    assert_eq!(received.len(), 5);
    assert_eq!(world.consume(&received).await, 1, "the other call's");
    assert_eq!(world.call("c2").await.version, 1);

    world.clear_faults();
    let failed = world.logged("retried");
    let ids: Vec<String> = failed.iter().map(|line| text(&line["event_id"])).collect();
    assert_eq!(ids, ["generic:c1-CALL_STARTED", "generic:c1-RINGING", "generic:c1-ANSWERED", "generic:c1-ENDED"]);
    for id in ids {
        let fields = &["status", "attempts", "error"];
        let noted = status(&world, &EventId::new(id), fields).await;
        assert_eq!(noted, json!(["retrying", 1, "could not read the call"]));
    }
    // They come back together and in order, and not one by one as each pause ends.
    world.wait(Duration::from_secs(2)).await;
    let again: Vec<String> = world.receive().iter().map(message_event).collect();
    assert_eq!(again, ["generic:c1-CALL_STARTED", "generic:c1-RINGING", "generic:c1-ANSWERED", "generic:c1-ENDED"]);
}

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
    assert_eq!(again.len(), 2, "the poison and what is behind it");
    assert_eq!(message_event(&again[1]), "generic:c1-ANSWERED");
}

#[tokio::test(start_paused = true)]
async fn panic_costs_one_invocation_and_no_event() {
    let world = World::new();
    world.die_at("GetItem", CALLS_TABLE);
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
        let read = call.operation == "GetItem" && is_request_to(call, CALLS_TABLE);
        (read || call.operation == "ChangeMessageVisibilityBatch").then(down)
    });
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.wait(Duration::from_secs(10)).await;
    world.clear_faults();
    assert_eq!(world.logged("backoff_failed").len(), 1);
    world.wait(MINUTE).await;
    assert_eq!(world.call("c1").await.version, 1);
}

// Outages

/// A stack whose database was down for an hour while the events of so many calls waited.
async fn hour_without_database(calls: u32) -> World {
    let mut world = World::stopped();
    // Not the first minute of the stack: the sweep has begun.
    world.reconciler.run("test").await.unwrap();
    for number in 0..calls {
        for body in call_events(&format!("c{number}")) {
            world.accept(Provider::Generic, &body).await;
        }
    }
    world.set_fault_hook(database_down);
    world.start();
    world.wait(HOUR).await;
    world.clear_faults();
    world.wait(HOUR).await;
    world
}

#[tokio::test(start_paused = true)]
async fn database_that_is_down_for_an_hour_costs_no_event() {
    let world = hour_without_database(20).await;
    assert_eq!(world.queued(), NOTHING);
    for number in 0..20 {
        let call_id = format!("c{number}");
        let call = world.call(&call_id).await;
        let told = call.history.iter().filter(|entry| entry.event.kind != EventKind::DeadlinePassed).count();
        assert_eq!((told, call.attempts()[0].lifecycle_label()), (4, "completed"), "{call_id}");
        let of_lifecycle = |event: &String| event.starts_with("call.") && event != "call.inconclusive";
        let lifecycle: Vec<String> = world.published_types(&call_id).into_iter().filter(of_lifecycle).collect();
        assert_eq!(lifecycle, ["call.initiated", "call.ringing", "call.in_progress", "call.completed"]);
    }
}

#[tokio::test(start_paused = true)]
async fn database_that_is_down_for_an_hour_leaves_the_dead_letter_queue_empty() {
    // Each call is a draw of its own: enough of them to see a rare one.
    let world = hour_without_database(200).await;
    assert_eq!(world.dead_letters(), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn bus_that_is_down_for_an_hour_costs_no_domain_event_and_no_order() {
    let world = World::new();
    world.set_fault_hook(|call| (call.service == Service::EventBridge).then(down));
    for number in 0..40 {
        for body in call_events(&format!("c{number}")) {
            world.accept(Provider::Generic, &body).await;
        }
        world.wait(MINUTE).await;
    }
    assert_eq!(world.domain_events(), NOTHING);
    world.wait(MINUTE * 20).await;
    world.clear_faults();
    world.wait(MINUTE * 3).await;

    for number in 0..40 {
        let call_id = format!("c{number}");
        let ids: Vec<String> = published_pairs(&world)
            .into_iter()
            .map(|(id, _)| id)
            .filter(|id| id.starts_with(&format!("{call_id}/")))
            .collect();
        let expected: Vec<String> = (1..=ids.len()).map(|n| format!("{call_id}/{n}")).collect();
        assert_eq!(ids, expected, "each once and in order");
        let call = world.call(&call_id).await;
        let derived: Vec<Value> = call.domain_events_from(1).iter().map(|event| json!(event)).collect();
        let published: Vec<Value> =
            world.domain_events().into_iter().filter(|event| event["call_id"] == call_id.as_str()).collect();
        assert_eq!(published, derived, "with the content that the row says");
    }
    let failures = world.cloud.services().sqs().depth(switchhook_local::RELAY_FAILURES_QUEUE).unwrap();
    assert_eq!(failures.total(), 0);
    assert!(world.logged("relay_failed").iter().all(|line| line["cause"] == "publish"));
}

#[tokio::test(start_paused = true)]
async fn domain_event_that_the_bus_refuses_by_itself_is_sent_again() {
    let world = World::new();
    let refusals = Arc::new(AtomicU64::new(0));
    let count = refusals.clone();
    world.cloud.bus().fail_entries(Some(Arc::new(move |event| {
        let hit = event.detail_type == "call.ringing" && count.fetch_add(1, Ordering::Relaxed) < 5;
        hit.then(|| "ThrottlingException".to_owned())
    })));
    for body in call_events("c1") {
        world.accept(Provider::Generic, &body).await;
    }
    world.wait(MINUTE).await;
    assert_eq!(refusals.load(Ordering::Relaxed), 6, "refused five times, taken once");
    assert_eq!(world.logged("relay_failed")[0]["cause"], "publish_refused");

    let call = world.call("c1").await;
    let mut by_id: std::collections::BTreeMap<String, Vec<Value>> = std::collections::BTreeMap::new();
    for event in world.domain_events() {
        by_id.entry(text(&event["id"])).or_default().push(event);
    }
    let derived = call.domain_events_from(1);
    assert_eq!(by_id.len(), derived.len(), "every one, at least once");
    for event in derived {
        assert!(by_id[&event.id].iter().all(|published| *published == json!(event)), "one content for each id");
    }
}

#[tokio::test(start_paused = true)]
async fn row_that_can_never_be_read_holds_up_no_other() {
    let world = World::new();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.quiesce().await;
    let published = world.published_types("c1");
    let mut garbled = world.item(CALLS_TABLE, "c1").await;
    garbled.insert("job".to_owned(), AttributeValue::S("GARBLED".to_owned()));
    garbled.insert("outbox_start".to_owned(), AttributeValue::N("2".to_owned()));
    world.put_item(CALLS_TABLE, garbled).await;
    world.accept(Provider::Generic, &generic("c2", "e2", "RINGING", 0)).await;
    world.quiesce().await;
    assert_eq!(world.published_types("c2").len(), 3, "at once");
    assert_eq!(world.published_types("c1"), published);
    let skipped = world.logged("record_skipped");
    let said = json!([skipped[0]["call_id"], skipped[0]["cause"], skipped[0]["level"], skipped.len()]);
    assert_eq!(said, json!(["c1", "decode_call", "ERROR", 1]));
    assert_eq!(world.logged("relay_failed"), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn row_of_a_later_version_is_published_by_the_later_program() {
    let world = World::new();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.quiesce().await;
    let ours = world.item(CALLS_TABLE, "c1").await;
    let mut later = ours.clone();
    later.insert("schema_version".to_owned(), AttributeValue::N("2".to_owned()));
    later.insert("outbox_start".to_owned(), AttributeValue::N("2".to_owned()));
    world.put_item(CALLS_TABLE, later).await;
    world.accept(Provider::Generic, &generic("c2", "e2", "RINGING", 0)).await;
    world.wait(MINUTE).await;
    assert_eq!(world.published_types("c2"), [""; 0], "it waits");
    assert!(world.logged("relay_failed").len() > 1 && world.logged("record_skipped").is_empty());
    assert_eq!(world.logged("relay_failed")[0]["cause"], "newer_schema");
}

#[tokio::test(start_paused = true)]
async fn write_that_announces_nothing_publishes_nothing_again() {
    let world = World::stopped();
    for body in call_events("c1") {
        world.accept(Provider::Generic, &body).await;
        let received = world.receive();
        world.consume(&received).await;
        world.relay().await;
    }
    let published = published_pairs(&world);
    // A move of the waking time leaves the outbox as the announcing write left it; an older event, which is stale, empties
    // it. Both write the row.
    let call = world.call("c1").await;
    assert_eq!(world.calls.set_wake_at(&call, world.now()).await.unwrap(), StoreOutcome::Committed);
    world.accept(Provider::Generic, &generic("c1", "late", "RINGING", 2)).await;
    let received = world.receive();
    world.consume(&received).await;
    assert_eq!(world.cloud.services().dynamodb().stream().len(), 2);
    world.relay().await;
    assert_eq!(published_pairs(&world), published);
}

// Deadlines

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
    assert_eq!((one.unwrap().deadlines_passed, two.unwrap().deadlines_passed), (1, 1), "both find it");
    assert_eq!(world.queued().len(), 1, "and queue one");
    // Also when SQS has forgotten the first.
    world.wait(Duration::from_secs(301)).await;
    assert_eq!(world.reconciler.run("three").await.unwrap().deadlines_passed, 1);
    assert_eq!(world.queued().len(), 2);
    let received = world.receive();
    assert_eq!(world.consume(&received).await, 2);

    let call = world.call("c1").await;
    assert_eq!((call.history.len(), call.is_settled()), (2, true));
    world.relay().await;
    let types: Vec<String> = published_pairs(&world).into_iter().map(|(_, event_type)| event_type).collect();
    assert_eq!(
        types,
        ["call.initiated", "call.ringing", "appointment.dialing", "call.inconclusive", "appointment.inconclusive"]
    );
    assert_eq!(world.reconciler.run("four").await.unwrap().woken, 0, "it sleeps for good");
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
    assert_eq!(deadlines.count(), 1, "stored");

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
    assert_eq!(world.get("/calls/c1").await.1["lifecycle"], "inconclusive");
    world.accept(Provider::Generic, &generic("c1", "e2", "NO_ANSWER", 30)).await;
    world.quiesce().await;
    let (_, call) = world.get("/calls/c1").await;
    assert_eq!(json!([call["lifecycle"], call["outcome"], call["settled"]]), json!(["no_answer", "no_answer", true]));
    let corrections: Vec<Value> = world
        .domain_events()
        .into_iter()
        .filter(|event| event.get("corrects").is_some())
        .map(|event| json!([event["type"], event["corrects"]]))
        .collect();
    let expected = [
        json!(["call.no_answer", "c1/4"]),
        json!(["call.corrected", "c1/4"]),
        json!(["appointment.no_answer", "c1/5"]),
    ];
    assert_eq!(corrections, expected);
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

// What can never be folded

#[tokio::test(start_paused = true)]
async fn call_takes_as_many_events_as_it_holds_and_still_settles() {
    let world = World::new();
    let most = u64::try_from(ATTEMPT_EVENTS_MAX).unwrap();
    for number in 0..most + 3 {
        let body = generic("c1", &format!("e{number}"), "RINGING", number);
        world.accept(Provider::Generic, &body).await;
        world.quiesce().await;
    }
    let call = world.call("c1").await;
    assert_eq!(call.history.len(), ATTEMPT_EVENTS_MAX);
    let quarantined = world.logged("quarantined");
    let ids: Vec<String> = quarantined.iter().map(|line| text(&line["event_id"])).collect();
    assert_eq!(ids, ["generic:e64", "generic:e65", "generic:e66"]);
    assert!(quarantined.iter().all(|line| line["level"] == "ERROR" && line["stage"] == "consumer"));
    for id in ids {
        assert_eq!(
            status(&world, &EventId::new(id), &["status", "disposition", "error", "next_retry_at"]).await,
            json!(["quarantined", "quarantined", "the call holds as many events as it can", null])
        );
    }
    assert_eq!((world.queued(), world.dead_letters()), (vec![], vec![]));

    world.wait(INACTIVITY_TIMEOUT + MINUTE * 3).await;
    let (_, shown) = world.get("/calls/c1").await;
    assert_eq!(json!([shown["lifecycle"], shown["settled"]]), json!(["inconclusive", true]));
    assert_eq!(world.call("c1").await.history.len(), ATTEMPT_EVENTS_MAX + 1, "and the deadline");
}

#[tokio::test(start_paused = true)]
async fn claim_of_another_provider_is_refused_and_noted() {
    let world = World::new();
    world.accept(Provider::Retell, sample("retell/call_started")).await;
    world.quiesce().await;
    let before = world.call("appointment:appt_201").await;
    assert_eq!(before.provider, Provider::Retell);

    let claim = json!({"event_id": "e1", "type": "FAILED", "appointment_id": "appt_201"}).to_string();
    let id = world.accept(Provider::Generic, &claim).await;
    world.quiesce().await;
    assert_eq!(world.call("appointment:appt_201").await, before);
    assert_eq!(
        status(&world, &id, &["status", "disposition", "error", "action"]).await,
        json!(["processed", "refused", "the call belongs to another provider", []])
    );
    assert_eq!(world.logged("fold_refused").len(), 1);
    // The sweep finds it in no history; that changes nothing, and ends.
    world.wait(MINUTE * 10).await;
    assert_eq!((world.queued(), world.dead_letters()), (vec![], vec![]));
    assert_eq!(status(&world, &id, &["status", "disposition"]).await, json!(["processed", "refused"]));
}

// Versions

#[tokio::test(start_paused = true)]
async fn message_of_a_later_version_is_tried_again_and_not_dropped() {
    let world = World::new();
    let message = |schema_version: u32| {
        let body = json!({"schema_version": schema_version, "trace_id": "t", "later": {"event": "unknown to us"}});
        NewMessage {
            body: body.to_string(),
            group: Some("c1".to_owned()),
            deduplication_id: Some("later".to_owned()),
            ..NewMessage::default()
        }
    };
    world.cloud.services().sqs().send(EVENTS_QUEUE, message(2)).unwrap();
    world.wait(MINUTE).await;
    let tried = world.logged("retried");
    assert!(tried.len() > 1);
    assert!(tried.iter().all(|line| line["cause"] == "newer_schema"));
    assert_eq!((world.queued().len(), world.dead_letters()), (1, vec![]));
}

#[tokio::test(start_paused = true)]
async fn row_of_a_later_version_is_left_to_the_later_program() {
    let world = World::new();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.quiesce().await;
    let ours = world.item(CALLS_TABLE, "c1").await;
    let mut later = ours.clone();
    later.insert("schema_version".to_owned(), AttributeValue::N("2".to_owned()));
    later.insert("job".to_owned(), AttributeValue::S("A STATE OF LATER".to_owned()));
    world.put_item(CALLS_TABLE, later.clone()).await;

    let id = world.accept(Provider::Generic, &generic("c1", "e2", "ANSWERED", 3)).await;
    world.wait(MINUTE * 4).await;
    assert_eq!(world.item(CALLS_TABLE, "c1").await, later, "untouched");
    let error = "schema version 2 is newer than this program: it waits for the newer one";
    assert_eq!(status_without_call(&world, &id).await, json!(["c1", error]), "noted");
    assert_eq!((world.queued().len(), world.dead_letters()), (1, vec![]), "waits");

    // The rollback of the rollback.
    world.put_item(CALLS_TABLE, ours).await;
    world.wait(MINUTE * 15).await;
    assert_eq!(status(&world, &id, &["status"]).await, json!(["processed"]));
}

/// What is noted of an event whose call cannot be read.
async fn status_without_call(world: &World, id: &EventId) -> Value {
    let stored = world.inbox.get(id).await.unwrap().unwrap();
    let note = world.inbox.get_note(id).await.unwrap().unwrap();
    json!([stored.call_id, note.error])
}

#[tokio::test(start_paused = true)]
async fn inbox_item_of_a_later_version_is_not_acknowledged_by_this_one() {
    let world = World::new();
    let body = generic("c1", "e1", "RINGING", 0);
    let id = world.accept(Provider::Generic, &body).await;
    let mut item = world.item(INBOX_TABLE, id.as_str()).await;
    item.insert("schema_version".to_owned(), AttributeValue::N("2".to_owned()));
    world.put_item(INBOX_TABLE, item).await;
    assert_eq!(world.post(Provider::Generic, &body).await.0, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(world.logged("storage_failure")[0]["cause"], "newer_schema");
}

// The status of an event

#[tokio::test(start_paused = true)]
async fn status_of_an_event_tells_where_it_is() {
    let mut world = World::stopped();
    let id = world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    let received_at = world.now();
    let queued = json!({
        "event_id": "generic:e1", "call_id": "c1", "provider": "generic", "type": "RINGING", "status": "queued",
        "disposition": null, "received_at": received_at.to_string(), "processed_at": null, "duration_ms": null,
        "attempts": 0, "error": null, "next_retry_at": null, "action": [],
    });
    assert_eq!(world.status(&id).await, queued);

    world.inject_fault("PutItem", CALLS_TABLE, 2, down());
    for attempts in 1..=2 {
        let received = world.receive();
        assert_eq!(world.consume(&received).await, 0);
        let retrying = world.status(&id).await;
        let next = Timestamp::parse_rfc3339(retrying["next_retry_at"].as_str().unwrap()).unwrap();
        let pause = Duration::from_millis(u64::try_from(next.millis_since(world.now())).unwrap());
        assert!(pause <= Duration::from_secs(4), "{pause:?}");
        let mut expected = queued.clone();
        expected["status"] = json!("retrying");
        expected["attempts"] = json!(attempts);
        expected["error"] = json!("could not write the call");
        expected["next_retry_at"] = retrying["next_retry_at"].clone();
        assert_eq!(retrying, expected);
        assert_eq!(world.receive(), [], "not before");
        world.wait(pause).await;
    }

    world.start();
    world.quiesce().await;
    let status = world.status(&id).await;
    let processed_at = Timestamp::parse_rfc3339(status["processed_at"].as_str().unwrap()).unwrap();
    let processed = json!({
        "event_id": "generic:e1", "call_id": "c1", "provider": "generic", "type": "RINGING", "status": "processed",
        "disposition": "applied", "received_at": received_at.to_string(), "processed_at": processed_at.to_string(),
        "duration_ms": processed_at.millis_since(received_at), "attempts": 3, "error": "could not write the call",
        "next_retry_at": null, "action": ["call.initiated", "call.ringing", "appointment.dialing"],
    });
    assert_eq!(status, processed);
}

#[tokio::test(start_paused = true)]
async fn status_of_a_dead_letter_says_so_until_it_is_redriven() {
    let world = World::new();
    world.inject_fault("PutItem", CALLS_TABLE, u64::MAX, down());
    let id = world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.wait(HOUR * 6).await;
    assert_eq!(world.dead_letters().len(), 1);
    assert_eq!(
        status(&world, &id, &["status", "disposition", "attempts", "error", "next_retry_at"]).await,
        json!(["dead_lettered", null, MAX_RECEIVE_COUNT, "could not write the call", null])
    );
    world.clear_faults();
    assert_eq!(world.cloud.services().sqs().redrive(EVENTS_DEAD_LETTER_QUEUE, None).unwrap(), 1);
    world.quiesce().await;
    assert_eq!(
        status(&world, &id, &["status", "disposition", "attempts"]).await,
        json!(["processed", "applied", MAX_RECEIVE_COUNT + 1])
    );
}

#[tokio::test(start_paused = true)]
async fn unknown_event_and_unknown_call_are_not_found() {
    let world = World::new();
    for path in ["/events/generic:none/status", "/calls/none", "/calls/none/events", "/calls/", "/events//status"] {
        assert_eq!(world.get(path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn status_of_what_the_reconciler_learned_can_be_asked_for() {
    let world = World::new();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 2).await;
    let call = world.call("c1").await;
    let deadline = call.history.last().unwrap();
    assert_eq!(
        status(&world, &deadline.source_event_id, &["provider", "type", "status", "disposition", "action"]).await,
        json!([
            "switchhook",
            "deadline_passed",
            "processed",
            "applied",
            ["call.inconclusive", "appointment.inconclusive"]
        ])
    );
    // It is an event like any other: stored, and found by the sweep if it had been lost.
    let policy = Policy { inactivity_timeout: INACTIVITY_TIMEOUT };
    assert!(call.deadline_passed_events(&policy, world.now()).is_empty(), "once");
    let event = deadline_event(&world.calls, "c1").await;
    assert!(NewEvent::from_switchhook(&event, "t").is_ok());
}

async fn deadline_event(calls: &Calls, call_id: &str) -> switchhook_domain::ProviderEvent {
    let mut call = calls.get_call(&switchhook_domain::CallId::new(call_id)).await.unwrap().unwrap();
    call.history.pop();
    let policy = Policy { inactivity_timeout: Duration::ZERO };
    call.deadline_passed_events(&policy, Timestamp::MAX).remove(0)
}
