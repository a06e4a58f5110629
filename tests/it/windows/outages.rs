//! A service is down for an hour, or refuses single requests.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use switchhook_aws::calls::StoreOutcome;
use switchhook_domain::{EventKind, Provider};
use switchhook_local::connector::{Fault, Service};
use switchhook_tests::{MINUTE, World, database_down, down, generic, text};

use super::{HOUR, NOTHING, call_events, published_ids};

/// A stack whose DynamoDB was down for an hour, while the events of this number of calls waited in the queue.
async fn hour_without_database(calls: u32) -> World {
    let mut world = World::stopped();
    // The sweep has run before, as in any stack that is older than a minute.
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
        let provider_events = call.history.iter().filter(|entry| entry.event.kind != EventKind::DeadlinePassed).count();
        assert_eq!((provider_events, call.attempts()[0].lifecycle_label()), (6, "completed"), "{call_id}");
        let of_lifecycle = |event: &String| event != "call.inconclusive" && event != "call.outcome";
        let lifecycle: Vec<String> = world.published_types(&call_id).into_iter().filter(of_lifecycle).collect();
        assert_eq!(lifecycle, ["call.initiated", "call.ringing", "call.in_progress", "call.completed"]);
    }
}

#[tokio::test(start_paused = true)]
async fn database_that_is_down_for_an_hour_leaves_the_dead_letter_queue_empty() {
    // Retry delays are random for each call. With 200 calls, rare long delays occur too.
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
        let ids: Vec<String> =
            published_ids(&world).into_iter().filter(|id| id.starts_with(&format!("{call_id}/"))).collect();
        let expected: Vec<String> = (1..=ids.len()).map(|n| format!("{call_id}/{n}")).collect();
        assert_eq!(ids, expected, "each domain event must be published once and in order");
        let call = world.call(&call_id).await;
        let derived: Vec<Value> = call.domain_events_from(1).iter().map(|event| json!(event)).collect();
        let published: Vec<Value> =
            world.domain_events().into_iter().filter(|event| event["call_id"] == call_id.as_str()).collect();
        assert_eq!(published, derived, "published events must have the content that the row gives");
    }
    let failures = world.cloud.services().sqs().depth(switchhook_local::RELAY_FAILURES_QUEUE).unwrap();
    assert_eq!(failures.total(), 0);
    let failed = world.logged("relay_failed");
    assert!(failed.iter().all(|line| line["cause"] == "publish"));
    let named = failed.iter().map(|line| line["call_ids"].as_array().unwrap().len());
    assert_eq!((named.clone().min(), named.max()), (Some(1), Some(10)), "a line names the first calls");
    assert_eq!(failed[0]["call_ids"][0], "c0");
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
    assert_eq!(refusals.load(Ordering::Relaxed), 6, "EventBridge must refuse the event five times, and then accept it");
    assert_eq!(world.logged("relay_failed")[0]["cause"], "publish_refused");

    let call = world.call("c1").await;
    let mut by_id: std::collections::BTreeMap<String, Vec<Value>> = std::collections::BTreeMap::new();
    for event in world.domain_events() {
        by_id.entry(text(&event["id"])).or_default().push(event);
    }
    let derived = call.domain_events_from(1);
    assert_eq!(by_id.len(), derived.len(), "every domain event must be published at least once");
    for event in derived {
        assert!(
            by_id[&event.id].iter().all(|published| *published == json!(event)),
            "all events with one id must have the same content"
        );
    }
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
    let published = world.timeline();
    // Two more writes of the row follow. A new wake-up time leaves the outbox of the previous write in it, and a stale
    // event empties the outbox.
    let call = world.call("c1").await;
    assert_eq!(world.calls.set_wake_at(&call, world.now()).await.unwrap(), StoreOutcome::Committed);
    world.accept(Provider::Generic, &generic("c1", "late", "RINGING", 2)).await;
    let received = world.receive();
    world.consume(&received).await;
    assert_eq!(world.cloud.services().dynamodb().stream().len(), 2);
    world.relay().await;
    assert_eq!(world.timeline(), published);
}

#[tokio::test(start_paused = true)]
async fn relay_of_a_slow_bus_ends_in_time_and_publishes_nothing_again_but_one_record() {
    let world = World::stopped();
    for number in 0..60 {
        world.accept(Provider::Generic, &generic(&format!("c{number}"), &format!("e{number}"), "RINGING", 1)).await;
    }
    while world.consume(&world.receive()).await > 0 {}
    // The first attempt of each request gets no answer within its limit of a second, and the second one a late answer.
    let attempts = AtomicU64::new(0);
    world.set_fault_hook(move |call| {
        let is_first = || attempts.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
        let late = Fault::ResponseDelay(Duration::from_millis(900));
        (call.service == Service::EventBridge).then(|| if is_first() { Fault::Timeout } else { late })
    });
    let began = tokio::time::Instant::now();
    world.relay().await;
    assert!(began.elapsed() < Duration::from_secs(30), "Lambda would have ended the run: {:?}", began.elapsed());
    let published = world.domain_events().len();
    assert!((100..120).contains(&published), "{published}");
    assert_eq!(world.logged("relay_failed").len(), 1);
    world.relay().await;
    let ids: Vec<String> = world.domain_events().iter().map(|event| text(&event["id"])).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 120);
    assert!(ids.len() <= 122, "{} events were published", ids.len());
}
