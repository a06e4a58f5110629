//! The cost of everyday work is the same, however many calls and events are stored.
//!
//! `SWITCHHOOK_GROWTH_CALLS=1000,100000` compares these numbers of calls instead, and prints what the work costs.

use std::collections::BTreeMap;

use http::StatusCode;
use serde_dynamo::AttributeValue;
use serde_json::Value;
use switchhook_aws::calls::WakeQueue;
use switchhook_aws::dynamodb::shard_of;
use switchhook_aws::inbox::minute_of;
use switchhook_aws::shards::SHARDS_DEFAULT;
use switchhook_domain::{Call, Timestamp};
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_tests::{INACTIVITY_TIMEOUT, MINUTE, World, text};

use super::{consume, generic_webhook, post, reset_counters};
use crate::outbound::HOUR;
use crate::reconciled;

/// Numbers of stored calls that every run of the tests compares.
const SIZES: &str = "1000,10000";
/// Copies that are stored in one transaction.
const CHUNK: u64 = 10_000;
/// Age of the youngest stored call and event. No sweep and no drift check looks back so far.
const AGE_MS: i64 = 24 * 60 * 60 * 1_000;
/// Calls that become due, and calls that the drift check must look at.
const FRESH: u64 = 5;

/// Requests to AWS by operation, and DynamoDB's units, with those of the indexes.
#[derive(Debug, PartialEq)]
struct Cost {
    requests: BTreeMap<String, u64>,
    read_units: f64,
    write_units: f64,
}

impl Cost {
    /// Cost since the last reset.
    fn of(world: &World) -> Self {
        let (mut read_units, mut write_units) = (0.0, 0.0);
        let requests = world.requests();
        for count in world.capacity().values() {
            read_units += count.read_units;
            write_units += count.write_units + count.index_write_units;
        }
        Self { requests, read_units, write_units }
    }
}

#[tokio::test(start_paused = true)]
async fn work_costs_the_same_however_much_is_stored() {
    let sizes = std::env::var("SWITCHHOOK_GROWTH_CALLS");
    let mut all: Vec<Vec<(&str, Cost)>> = Vec::new();
    for size in sizes.as_deref().unwrap_or(SIZES).split(',') {
        let costs = costs_with(size.trim().parse().unwrap()).await;
        if sizes.is_ok() {
            for (work, Cost { requests, read_units, write_units }) in &costs {
                let requests: Vec<String> = requests.iter().map(|(name, count)| format!("{count} {name}")).collect();
                println!("| {size} | {work} | {} | {read_units} | {write_units} |", requests.join(", "));
            }
        }
        all.push(costs);
    }
    for (smaller, larger) in all.iter().zip(all.iter().skip(1)) {
        assert_eq!(smaller, larger);
    }
}

/// Stores this many calls and events, and returns what each kind of work costs then.
async fn costs_with(calls: u64) -> Vec<(&'static str, Cost)> {
    let world = World::stopped();
    world.reconciler.run("test").await.unwrap();
    world.cloud.check_drift().await.unwrap().unwrap();
    reconciled::post(&world, &reconciled::started("p", &Value::Null, world.now())).await;
    for event_type in ["RINGING", "NO_ANSWER"] {
        post(&world, &generic_webhook("seed", &format!("seed-{event_type}"), event_type)).await;
    }
    reconciled::consume_all(&world).await;
    world.relay().await;
    store(&world, calls).await;
    let mut costs = Vec::new();

    for (work, event_type) in [("first webhook of a call", "RINGING"), ("second webhook of a call", "NO_ANSWER")] {
        reset_counters(&world);
        post(&world, &generic_webhook("new", &format!("new-{event_type}"), event_type)).await;
        consume(&world).await;
        world.relay().await;
        costs.push((work, Cost::of(&world)));
    }

    reset_counters(&world);
    let (status, page) = world.get("/calls?limit=25").await;
    assert_eq!((status, page["calls"].as_array().map(Vec::len)), (StatusCode::OK, Some(25)), "{page}");
    costs.push(("first page of the list of calls", Cost::of(&world)));
    let cursor: String = form_urlencoded::byte_serialize(text(&page["cursor"]).as_bytes()).collect();
    let (status, page) = world.get(&format!("/calls?limit=25&cursor={cursor}")).await;
    assert_eq!((status, page["calls"].as_array().map(Vec::len)), (StatusCode::OK, Some(25)), "{page}");
    costs.push(("second page", Cost::of(&world)));

    let settled = Call { wake_at: None, settled_at: Some(world.now()), ..world.call("retell:p").await };
    reconciled::store_copies(&world, &settled, "settled", usize::try_from(FRESH).unwrap()).await;
    world.wait(HOUR).await;
    reset_counters(&world);
    let report = world.cloud.check_drift().await.unwrap().unwrap();
    assert!(report.checked >= FRESH, "{report:?}");
    costs.push(("drift check of five settled calls and more", Cost::of(&world)));

    for number in 0..FRESH {
        post(&world, &generic_webhook(&format!("due{number}"), &format!("due{number}"), "RINGING")).await;
    }
    reconciled::consume_all(&world).await;
    world.wait(INACTIVITY_TIMEOUT - MINUTE).await;
    world.reconciler.run("test").await.unwrap();
    world.wait(MINUTE).await;
    reset_counters(&world);
    let report = world.reconciler.run("test").await.unwrap();
    assert!(report.woken >= FRESH, "{report:?}");
    costs.push(("reconciler run that wakes five calls", Cost::of(&world)));

    reconciled::consume_all(&world).await;
    world.wait(MINUTE).await;
    world.reconciler.run("test").await.unwrap();
    world.wait(MINUTE).await;
    reset_counters(&world);
    world.reconciler.run("test").await.unwrap();
    costs.push(("reconciler run that sweeps five events and finds nothing to repair", Cost::of(&world)));
    costs
}

/// Stores copies of a settled call, and as many copies of an event. Their ids have the same length, so all have one size.
async fn store(world: &World, calls: u64) {
    let call = world.item(CALLS_TABLE, "seed").await;
    let event = world.item(INBOX_TABLE, "generic:seed-NO_ANSWER").await;
    let youngest = world.now().as_millis() - AGE_MS;
    let id = |n: u64| format!("old-{n:09}");
    let time = |n: u64| youngest - 7 * i64::try_from(n).unwrap();
    let string = |text: String| AttributeValue::S(text);
    let number = |number: i64| AttributeValue::N(number.to_string());
    for first in (0..calls).step_by(usize::try_from(CHUNK).unwrap()) {
        let numbers = first..calls.min(first + CHUNK);
        let copy = |n: u64| {
            let wake_key = WakeQueue::Settled.key(shard_of(&id(n), SHARDS_DEFAULT));
            vec![("call_id", string(id(n))), ("wake_key", string(wake_key)), ("wake_at", number(time(n)))]
        };
        world.store_copies(CALLS_TABLE, &call, numbers.clone().map(copy));
        let copy = |n: u64| {
            let minute = minute_of(Timestamp::from_millis(time(n)));
            let bucket = format!("{minute}#{}", shard_of(&id(n), SHARDS_DEFAULT));
            vec![
                ("event_id", string(format!("generic:{}", id(n)))),
                ("call_id", string(id(n))),
                ("received_at", number(time(n))),
                ("received_bucket", string(bucket)),
            ]
        };
        world.store_copies(INBOX_TABLE, &event, numbers.map(copy));
    }
}
