//! Webhooks that are about no call: kept like any other, ordered by the thing that they are about, and published as
//! `webhook.received` with the same guarantees.

#![expect(clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use switchhook_domain::{CallId, EventId, Provider};
use switchhook_local::connector::Fault;
use switchhook_local::dynamodb::Count;
use switchhook_local::{CALLS_TABLE, EVENTS_QUEUE};
use switchhook_operate::verify::{Problem, VerifyFilter, verify};
use switchhook_tests::{KEY, MINUTE, World, all_providers, down, generic, options, reads_calls_to_fold, text};

use crate::budget::{request_counts, reset_counters};
use crate::configured;
use crate::operator::carry_out;
use crate::repair::stack_of;

const PAY: &str = "x-pay";
pub(crate) const KEY_OF_PAYMENT: &str = "entity:x-pay:pi_1";

fn entry() -> Value {
    json!({
        "keys": [KEY],
        "signature": {"scheme": "hmac", "header": "x-signature", "timestamp_header": "x-time"},
        "events": {
            "event_id": "/id",
            "type": "/type",
            "call_id": "/call",
            "time": "/created",
            "entity_id": "/payment/id",
            "data": {"amount": "/payment/amount", "paid": "/payment/paid", "note": "/payment/note"},
            "rules": [{"when": {"type": "call.ringing"}, "event": "ringing"}, {"event": "received"}],
        },
    })
}

/// A secret with all providers and this one.
pub(crate) fn secret() -> Value {
    let mut secret = all_providers();
    secret[PAY] = entry();
    secret
}

/// Webhook about the payment `pi_1`. `second` is the time of the event.
pub(crate) fn payment(id: &str, second: u32) -> Value {
    json!({
        "id": id, "type": "payment.changed", "created": 1_767_225_600 + second,
        "payment": {"id": "pi_1", "amount": 4500, "paid": true, "note": "é".repeat(200), "card": "4242"},
    })
}

fn signed(world: &World, body: &Value) -> Request<Bytes> {
    configured::signed(world, PAY, &entry(), body)
}

/// Posts a webhook. Returns the `status` of the answer.
pub(crate) async fn post(world: &World, body: &Value) -> String {
    let (code, answer) = world.send(signed(world, body)).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    text(&answer["status"])
}

pub(crate) fn received(world: &World) -> Vec<Value> {
    let events = world.domain_events().into_iter();
    events.filter(|event| event["type"] == "webhook.received").collect()
}

pub(crate) fn ids(events: &[Value]) -> Vec<String> {
    events.iter().map(|event| text(&event["event_id"])).collect()
}

pub(crate) async fn fate(world: &World, id: &str) -> Value {
    let status = world.status(&EventId::new(format!("{PAY}:{id}"))).await;
    json!([status["status"], status["disposition"], status["action"], status["call_id"]])
}

#[tokio::test(start_paused = true)]
async fn webhook_about_no_call_is_published() {
    let world = World::with_secret(&secret());
    assert_eq!(post(&world, &payment("e1", 5)).await, "accepted");
    world.quiesce().await;
    let [event] = <[Value; 1]>::try_from(received(&world)).unwrap();
    let data = json!({"amount": 4500, "paid": true, "note": "é".repeat(128)});
    for (name, value) in [
        ("id", json!("x-pay:e1/received")),
        ("provider", json!(PAY)),
        ("webhook_type", json!("payment.changed")),
        ("entity_id", json!("pi_1")),
        ("data", data),
        ("occurred_at", json!("2026-01-01T00:00:05.000Z")),
    ] {
        assert_eq!(event[name], value, "{event}");
    }
    assert_eq!(fate(&world, "e1").await, json!(["processed", "applied", ["webhook.received"], null]));
    // It is no call.
    assert_eq!(world.get(&format!("/call?id={KEY_OF_PAYMENT}")).await.0, StatusCode::NOT_FOUND);
    // An event of a call of the same provider is folded as before.
    let ring = json!({"id": "r1", "type": "call.ringing", "created": 1_767_225_600, "call": "c1"});
    assert_eq!(post(&world, &ring).await, "accepted");
    world.quiesce().await;
    assert_eq!(world.get("/call?id=x-pay:c1").await.1["lifecycle"], "ringing");
}

#[tokio::test(start_paused = true)]
async fn status_of_a_webhook_about_no_call_counts_its_tries() {
    let world = World::with_options(options(&secret()));
    post(&world, &payment("e1", 5)).await;
    let (stack, id) = (stack_of(&world), EventId::new(format!("{PAY}:e1")));
    let tries = || async {
        let status = world.status(&id).await;
        let line = switchhook_operate::events::status(&stack, &id).await.unwrap().unwrap();
        assert_eq!(line.attempts, status["attempts"], "{status}");
        json!([status["status"], status["attempts"], status["next_retry_at"]])
    };
    assert_eq!(tries().await, json!(["queued", 0, null]));
    world.inject_fault("PutItem", CALLS_TABLE, 1, down());
    assert_eq!(world.consume(&world.receive()).await, 0);
    let retrying = tries().await;
    assert_eq!((&retrying[0], &retrying[1], retrying[2].is_string()), (&json!("retrying"), &json!(1), true));
    world.wait(MINUTE).await;
    assert_eq!(world.consume(&world.receive()).await, 1);
    assert_eq!(tries().await, json!(["processed", 2, null]));
}

#[tokio::test(start_paused = true)]
async fn events_of_one_thing_are_published_in_the_order_of_their_times() {
    let world = World::with_secret(&secret());
    for (id, second, status) in
        [("e2", 20, "accepted"), ("e1", 10, "accepted"), ("e2", 20, "already_processed"), ("e3", 30, "accepted")]
    {
        assert_eq!(post(&world, &payment(id, second)).await, status, "{id}");
        world.quiesce().await;
    }
    assert_eq!(ids(&received(&world)), ["x-pay:e2", "x-pay:e3"]);
    assert_eq!(fate(&world, "e1").await, json!(["processed", "stale", [], null]));
    assert_eq!(fate(&world, "e2").await, json!(["processed", "applied", ["webhook.received"], null]));
    // A webhook without an id of its thing is never older than another.
    for (id, second) in [("n2", 20), ("n1", 10)] {
        let mut body = payment(id, second);
        body["payment"].as_object_mut().unwrap().remove("id");
        assert_eq!(post(&world, &body).await, "accepted");
        world.quiesce().await;
    }
    assert_eq!(ids(&received(&world)), ["x-pay:e2", "x-pay:e3", "x-pay:n2", "x-pay:n1"]);
    assert_eq!(received(&world)[3]["entity_id"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn batch_is_published_in_order_by_one_write() {
    let world = World::with_options(options(&secret()));
    for (id, second) in [("e3", 30), ("e1", 10), ("e2", 20)] {
        post(&world, &payment(id, second)).await;
    }
    let messages = world.receive();
    assert_eq!(messages.len(), 3);
    reset_counters(&world);
    assert_eq!(world.consume(&messages).await, 3);
    assert_eq!(world.requests(), request_counts(&[("GetItem", 1), ("PutItem", 1)]));
    world.relay().await;
    assert_eq!(ids(&received(&world)), ["x-pay:e1", "x-pay:e2", "x-pay:e3"]);
}

#[tokio::test(start_paused = true)]
async fn webhook_costs_no_more_than_one_of_a_call() {
    let world = World::with_options(options(&secret()));
    let mut costs = Vec::new();
    let ring = generic("c1", "g1", "RINGING", 0);
    for is_of_call in [true, false] {
        reset_counters(&world);
        if is_of_call {
            world.accept(Provider::Generic, &ring).await;
        } else {
            post(&world, &payment("e1", 10)).await;
        }
        let messages = world.receive();
        world.consume(&messages).await;
        world.relay().await;
        let capacity = world.capacity();
        let units = |of: fn(&Count) -> f64| capacity.values().map(of).sum::<f64>();
        let units =
            [units(|count| count.read_units), units(|count| count.write_units), units(|count| count.index_write_units)];
        costs.push((world.requests(), units));
    }
    let (of_call, of_entity) = (&costs[0], &costs[1]);
    assert_eq!(of_entity.0, of_call.0);
    assert!(of_entity.1.iter().zip(&of_call.1).all(|(own, other)| own <= other), "{costs:?}");
}

#[tokio::test(start_paused = true)]
async fn consumer_that_dies_after_its_write_publishes_nothing_twice() {
    let world = World::with_options(options(&secret()));
    post(&world, &payment("e1", 10)).await;
    // The write is committed, and the messages come again.
    let messages = world.receive();
    world.invoke_consumer(&messages).await;
    world.invoke_consumer(&messages).await;
    assert_eq!(world.consume(&messages).await, 1);
    world.relay().await;
    assert_eq!(ids(&received(&world)), ["x-pay:e1"]);
    let duplicates = world.logged("duplicate");
    assert_eq!(duplicates.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn concurrent_consumers_lose_no_event() {
    let world = World::with_options(options(&secret()));
    // The events have the same time, so each is to be published, whichever consumer comes first.
    for id in ["e1", "e2", "e3"] {
        post(&world, &payment(id, 10)).await;
    }
    let messages = world.receive();
    assert_eq!(messages.len(), 3);
    // The message of e2 is in the hands of both, and both read the row before one of them writes it.
    world.inject_fault("PutItem", CALLS_TABLE, 1, Fault::Delay(Duration::from_millis(300)));
    reset_counters(&world);
    let (one, two) = tokio::join!(world.invoke_consumer(&messages[..2]), world.invoke_consumer(&messages[1..]));
    assert_eq!((one.len(), two.len()), (2, 2));
    assert_eq!(world.requests(), request_counts(&[("GetItem", 3), ("PutItem", 3)]), "one must lose the race");
    world.consume(&messages).await;
    world.relay().await;
    let mut published = ids(&received(&world));
    published.sort();
    assert_eq!(published, ["x-pay:e1", "x-pay:e2", "x-pay:e3"]);
}

#[tokio::test(start_paused = true)]
async fn eleventh_event_of_an_entity_costs_as_much_as_the_second() {
    let world = World::with_options(options(&secret()));
    let mut costs = Vec::new();
    for second in 1..=11 {
        reset_counters(&world);
        post(&world, &payment(&format!("evt_1PqR5sT7uVwXyZ{second:02}"), second)).await;
        world.consume(&world.receive()).await;
        world.relay().await;
        let capacity = world.capacity();
        let units = |of: fn(&Count) -> f64| capacity.values().map(of).sum::<f64>();
        costs.push((world.requests(), [units(|count| count.read_units), units(|count| count.write_units)]));
    }
    assert_eq!(costs[10], costs[1]);
}

#[tokio::test(start_paused = true)]
async fn sweep_queues_what_never_reached_the_queue_and_nothing_else() {
    let world = World::with_secret(&secret());
    assert_eq!(post(&world, &payment("e2", 20)).await, "accepted");
    assert_eq!(post(&world, &payment("e1", 10)).await, "accepted");
    world.crash_at("SendMessage", EVENTS_QUEUE);
    assert_eq!(world.send(signed(&world, &payment("e3", 30))).await.0, StatusCode::INTERNAL_SERVER_ERROR);
    world.clear_faults();
    world.wait(MINUTE * 5).await;
    assert_eq!(ids(&received(&world)), ["x-pay:e2", "x-pay:e3"]);
    let requeued: u64 = world.logged("reconciled").iter().filter_map(|line| line["requeued"].as_u64()).sum();
    assert_eq!(requeued, 1, "{:?}", world.logged("reconciled"));
}

#[tokio::test(start_paused = true)]
async fn lost_row_is_found_and_rebuilt() {
    let world = World::with_secret(&secret());
    for (id, second) in [("e1", 10), ("e2", 20)] {
        post(&world, &payment(id, second)).await;
    }
    world.wait(MINUTE * 5).await;
    let stack = stack_of(&world);
    let since = stack.now().minus(MINUTE * 30);
    let verified = || async { verify(&stack, &VerifyFilter::Since, since, &mut |_, _| {}).await.unwrap() };
    let report = verified().await;
    assert!(report.is_clean() && report.matching == 1, "{report:?}");
    world.delete_item(CALLS_TABLE, KEY_OF_PAYMENT).await;
    let report = verified().await;
    let [finding] = report.findings.as_slice() else { panic!("{report:?}") };
    assert_eq!(finding.call_id, CallId::new(KEY_OF_PAYMENT));
    let Problem::Lost { events, .. } = &finding.problem else { panic!("{report:?}") };
    assert_eq!(events.len(), 2);
    let plan = switchhook_operate::verify::plan_repair(&stack, &VerifyFilter::Since, &report, 100).await.unwrap();
    carry_out(&stack, &plan).await;
    world.quiesce().await;
    assert!(verified().await.is_clean());
    let published: BTreeSet<String> = received(&world).iter().map(|event| text(&event["id"])).collect();
    assert_eq!(published, BTreeSet::from(["x-pay:e1/received".to_owned(), "x-pay:e2/received".to_owned()]));
}

/// Events of calls wait in the inbox. Those of an entity keep their order: a newer one that overtook an older one would make it stale, and nobody would hear
/// of it.
#[tokio::test(start_paused = true)]
async fn failing_webhook_about_no_call_is_overtaken_by_none() {
    let world = World::with_secret(&secret());
    world.set_fault_hook(|call| reads_calls_to_fold(call).then(down));
    assert_eq!(post(&world, &payment("e1", 5)).await, "accepted");
    world.wait(MINUTE * 6).await;
    assert!(!world.inbox.get_note(&EventId::new("x-pay:e1")).await.unwrap().unwrap().waits);
    world.clear_faults();
    assert_eq!(post(&world, &payment("e2", 6)).await, "accepted");
    world.wait(MINUTE * 15).await;
    assert_eq!(ids(&received(&world)), ["x-pay:e1", "x-pay:e2"]);
}
