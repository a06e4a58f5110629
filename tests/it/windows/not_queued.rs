//! Ingress stored an event, but crashed before it queued it. The provider's retry or the sweep queues the event.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use insta::assert_snapshot;
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_aws::calls::Alias;
use switchhook_aws::inbox::{AttentionKind, SweepCursor, minute_of};
use switchhook_domain::{AttemptKey, CallId, EventId, Provider};
use switchhook_local::{CALLS_TABLE, EVENTS_QUEUE, INBOX_TABLE};
use switchhook_tests::{INACTIVITY_TIMEOUT, INBOX_RETENTION, MINUTE, World, down, generic, text};

use super::{CRASHED, NOTHING, status};
use crate::traffic::noise;

#[tokio::test(start_paused = true)]
async fn event_that_was_stored_but_not_queued_is_queued_by_the_providers_retry() {
    let world = World::new();
    let body = generic("c1", "e1", "RINGING", 0);
    world.crash_at("SendMessage", EVENTS_QUEUE);
    assert_eq!(world.post(Provider::Generic, &body).await.0, CRASHED);
    world.clear_faults();
    world.quiesce().await;
    let id = EventId::new("generic:e1");
    assert_snapshot!(status(&world, &id, &["status", "attempts"]).await, @r"
    status: queued
    attempts: 0
    ");
    assert_eq!(
        (world.queued(), world.get("/call?id=c1").await.0),
        (vec![], StatusCode::NOT_FOUND),
        "the event must be stored and not queued"
    );

    let answered = world.post(Provider::Generic, &body).await;
    assert_eq!(answered, (StatusCode::OK, json!({"status": "already_processed", "event_id": id})));
    world.quiesce().await;
    assert_snapshot!(status(&world, &id, &["status", "disposition", "attempts"]).await, @r"
    status: processed
    disposition: applied
    attempts: 1
    ");
    assert_eq!(world.call("c1").await.version, 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_queued_again_is_what_was_stored_and_not_what_came() {
    let world = World::new();
    world.crash_at("SendMessage", EVENTS_QUEUE);
    assert_eq!(world.post(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await.0, CRASHED);
    world.clear_faults();

    let other = generic("c2", "e1", "ANSWERED", 0);
    assert_eq!(world.post(Provider::Generic, &other).await.1["status"], "already_processed");
    world.quiesce().await;
    assert_snapshot!(world.timeline(), @r"
    c1/1 call.initiated
    c1/2 call.ringing
    ");
}

#[tokio::test(start_paused = true)]
async fn event_that_was_stored_but_not_queued_is_found_by_the_sweep() {
    let world = World::new();
    // One event arrives at the start of a minute, one in the middle, and one at the end.
    for (number, second) in [(1, 0), (2, 30), (3, 59)] {
        let into_minute = Duration::from_millis(u64::try_from(world.now().as_millis()).unwrap() % 60_000);
        world.wait(MINUTE - into_minute + Duration::from_secs(second)).await;
        let (call_id, event_id) = (format!("c{number}"), format!("e{number}"));
        world.crash_at("SendMessage", EVENTS_QUEUE);
        assert_eq!(world.post(Provider::Generic, &generic(&call_id, &event_id, "RINGING", 0)).await.0, CRASHED);
        world.clear_faults();
        let crashed_at = world.now();

        let id = EventId::new(format!("generic:{event_id}"));
        while world.status(&id).await["status"] != "processed" {
            world.wait(Duration::from_secs(1)).await;
            assert!(
                world.now().millis_since(crashed_at) <= 185_000,
                "the sweep has not found the event of second {second} of its minute"
            );
        }
        assert_eq!(world.published_types(&call_id), ["call.initiated", "call.ringing"]);
    }
}

/// DynamoDB promises no time within which the index shows an event. Of all that finds such an event, only `verify` needs a person.
#[tokio::test(start_paused = true)]
async fn event_that_the_index_shows_after_the_sweep_is_found_by_verify() {
    let world = World::new();
    let began = world.now();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.wait(MINUTE).await;
    world.crash_at("SendMessage", EVENTS_QUEUE);
    assert_eq!(world.post(Provider::Generic, &generic("c1", "e2", "ANSWERED", 1)).await.0, CRASHED);
    world.clear_faults();
    // The sweep has passed the minute, as if the index had not had the event yet.
    let swept = world.inbox.sweep_cursor().await.unwrap().map(|cursor| cursor.minute);
    let passed = SweepCursor { minute: minute_of(world.now()), left: BTreeMap::new() };
    assert!(world.inbox.advance_sweep_cursor(swept, &passed).await.unwrap());
    world.wait(MINUTE * 10).await;
    let id = EventId::new("generic:e2");
    assert_eq!(world.status(&id).await["status"], "queued", "the sweep looks at no minute twice");
    let stack = crate::repair::stack_of(&world);
    crate::recovery::repair(&stack, began).await;
    world.wait(MINUTE * 3).await;
    assert_eq!(world.status(&id).await["status"], "processed");
    assert!(world.call("c1").await.contains_event(&id));
}

#[tokio::test(start_paused = true)]
async fn large_event_that_was_stored_but_not_queued_is_found_by_the_sweep() {
    let world = World::new();
    let body = json!({"event_id": "e1", "type": "RINGING", "call_id": "c1", "noise": noise(600_000)}).to_string();
    world.crash_at("SendMessage", EVENTS_QUEUE);
    assert_eq!(world.post(Provider::Generic, &body).await.0, CRASHED);
    world.clear_faults();
    assert!(world.item(INBOX_TABLE, "generic:e1").await.contains_key("body_chunks"));
    world.wait(MINUTE * 4).await;
    assert_snapshot!(status(&world, &EventId::new("generic:e1"), &["status"]).await, @"status: processed");
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
    // Events arrived in five minutes, and six minutes have passed.
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

    // A second run in the same minute has nothing to sweep.
    assert_eq!(world.reconciler.run("test").await.unwrap().swept_minutes, 1);
    assert_eq!(world.reconciler.run("test").await.unwrap().swept_minutes, 0);
}

#[tokio::test(start_paused = true)]
async fn first_sweep_of_all_looks_an_hour_back() {
    let world = World::stopped();
    for number in 0..2 {
        world.crash_at("SendMessage", EVENTS_QUEUE);
        let body = generic(&format!("c{number}"), &format!("e{number}"), "RINGING", 0);
        assert_eq!(world.post(Provider::Generic, &body).await.0, CRASHED);
        world.clear_faults();
        world.wait(MINUTE * 2).await;
    }
    // The first event came 62 minutes ago, and the sweep stays two minutes behind.
    world.wait(MINUTE * 58).await;
    let report = world.reconciler.run("test").await.unwrap();
    assert_eq!((report.swept_minutes, report.requeued), (60, 1));
    assert_eq!(world.queued()[0]["event"]["event_id"], "generic:e1");
}

#[tokio::test(start_paused = true)]
async fn sweep_catches_up_every_minute_that_it_missed() {
    let world = World::stopped();
    world.reconciler.run("test").await.unwrap();
    world.crash_at("SendMessage", EVENTS_QUEUE);
    for minute in 0..90_u64 {
        let body = generic(&format!("c{minute}"), &format!("e{minute}"), "RINGING", minute);
        assert_eq!(world.post(Provider::Generic, &body).await.0, CRASHED);
        world.wait(MINUTE).await;
    }
    world.clear_faults();
    world.wait(MINUTE * 2).await;
    let report = world.reconciler.run("test").await.unwrap();
    assert_eq!((report.swept_minutes, report.requeued, world.queued().len()), (92, 90, 90));
}

#[tokio::test(start_paused = true)]
async fn sweep_catches_up_after_a_long_outage_within_a_few_runs() {
    let world = World::stopped();
    world.reconciler.run("test").await.unwrap();
    world.crash_at("SendMessage", EVENTS_QUEUE);
    assert_eq!(world.post(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await.0, CRASHED);
    world.clear_faults();
    world.wait(MINUTE * 60 * 40).await;
    let mut requeued = 0;
    for _ in 0..2 {
        requeued += world.reconciler.run("test").await.unwrap().requeued;
        world.wait(MINUTE).await;
    }
    let swept_until = world.reconciler.run("test").await.unwrap().swept_until.unwrap();
    assert!(world.now().millis_since(swept_until) < 900_000, "{swept_until}");
    assert_eq!(requeued, 1);
}

#[tokio::test(start_paused = true)]
async fn sweep_leaves_out_the_time_before_the_retention() {
    let world = World::stopped();
    world.reconciler.run("test").await.unwrap();
    let retention = world.reconciler.inbox.retention();
    world.wait(retention * 12).await;
    let report = world.reconciler.run("test").await.unwrap();
    let swept = MINUTE * u32::try_from(report.swept_minutes).unwrap();
    let behind = world.now().millis_since(report.swept_until.unwrap());
    assert!(behind <= i64::try_from((retention - swept + MINUTE).as_millis()).unwrap(), "{behind} ms");
}

#[tokio::test(start_paused = true)]
async fn sweep_that_fails_in_a_minute_looks_at_it_again() {
    let world = World::stopped();
    world.reconciler.run("test").await.unwrap();
    world.crash_at("SendMessage", EVENTS_QUEUE);
    assert_eq!(world.post(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await.0, CRASHED);
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
    world.crash_at("SendMessage", EVENTS_QUEUE);
    assert_eq!(world.post(Provider::Generic, &generic("lost", "lost", "RINGING", 0)).await.0, CRASHED);
    world.clear_faults();
    for number in 0..1_001 {
        world.accept(Provider::Generic, &generic(&format!("c{number}"), &format!("e{number}"), "RINGING", 0)).await;
    }
    world.wait(MINUTE * 3).await;
    let report = world.reconciler.run("test").await.unwrap();
    assert_eq!(
        (report.swept_minutes, report.requeued, world.queued().len()),
        (0, 0, 1_001),
        "the sweep must add nothing to a long queue"
    );

    world.start();
    world.wait(MINUTE * 3).await;
    assert_snapshot!(status(&world, &EventId::new("generic:lost"), &["status"]).await, @"status: processed");
}

#[tokio::test(start_paused = true)]
async fn two_sweeps_at_once_queue_an_event_once() {
    let world = World::stopped();
    world.reconciler.run("test").await.unwrap();
    world.crash_at("SendMessage", EVENTS_QUEUE);
    assert_eq!(world.post(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await.0, CRASHED);
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
    world.crash_at("SendMessage", EVENTS_QUEUE);
    assert_eq!(world.post(Provider::Generic, &generic("lost", "e2", "RINGING", 0)).await.0, CRASHED);
    world.clear_faults();

    for _ in 0..10 {
        world.wait(MINUTE).await;
        drop(world.reconciler.run("test").await);
    }
    let queued: Vec<String> = world.queued().iter().map(|message| text(&message["event"]["call_id"])).collect();
    assert!(queued.contains(&"lost".to_owned()), "{queued:?}");
}

/// Only the consumer knows that it refuses such an event, and here it never gets the event, or got it while the call was a call. A mark would
/// stay as long as the event, and P1EventsNotFoldedAlarm would go on.
#[tokio::test(start_paused = true)]
async fn event_of_switchhook_whose_call_became_an_alias_is_refused_by_the_sweep() {
    for is_queued in [false, true] {
        let world = World::stopped();
        world.accept(Provider::Generic, &generic("stray", "e1", "RINGING", 0)).await;
        world.consume(&world.receive()).await;
        world.wait(INACTIVITY_TIMEOUT).await;
        if !is_queued {
            world.inject_fault("SendMessage", EVENTS_QUEUE, u64::MAX, down());
        }
        assert_eq!(world.reconciler.run("test").await.is_ok(), is_queued);
        world.clear_faults();
        let items = world.items(INBOX_TABLE).await;
        let mut ids = items.iter().map(|item| serde_dynamo::from_attribute_value(item["event_id"].clone()).unwrap());
        let deadline: String = ids.find(|id: &String| id.starts_with("switchhook:stray/")).unwrap();
        world.consume(&world.receive()).await;
        assert_eq!(world.call("stray").await.contains_event(&EventId::new(&deadline)), is_queued);
        let alias = Alias { call_id: CallId::new("ours"), attempt: AttemptKey::new("1") };
        drop(world.calls.write_alias(&CallId::new("stray"), &alias, INBOX_RETENTION, world.now()).await.unwrap());

        world.wait(MINUTE * 3).await;
        assert_eq!(world.reconciler.run("test").await.unwrap().requeued, 0);
        assert_eq!(world.attention(AttentionKind::Retrying).await, [], "queued: {is_queued}");
        let status = status(&world, &EventId::new(&deadline), &["status", "disposition"]).await;
        assert_eq!(status, "status: processed\ndisposition: refused", "queued: {is_queued}");
        // Only the webhook was adopted. The event of Switchhook describes the call that it was made for.
        let adopted = world.queued().into_iter().filter(|message| message["event"]["call_id"] == "ours");
        let adopted: Vec<String> = adopted.map(|message| text(&message["event"]["event_id"])).collect();
        assert_eq!(adopted, ["generic:e1"], "queued: {is_queued}");
    }
}
