//! The cost of a run of the reconciler depends on the calls that are due, and not on the size of the table.

use std::collections::BTreeMap;

use switchhook_aws::calls::WakeQueue;
use switchhook_aws::shards::{SHARDS_DEFAULT, shards_of_marks};
use switchhook_domain::Call;
use switchhook_tests::{INACTIVITY_TIMEOUT, MINUTE, World};

use super::{consume, generic_webhook, post, request_counts, reset_counters};
use crate::reconciled::store_copies;
use crate::traffic::twilio_call;

/// Pages of the index that a run reads to find new trouble: one per shard of the marks of three kinds.
const NOTICE_PAGES: u64 = 3 * shards_of_marks(SHARDS_DEFAULT);
/// Pages of the index that a run reads to find due calls: one per shard of each open wake queue.
const WAKE_PAGES: u64 = WakeQueue::OPEN.len() as u64 * SHARDS_DEFAULT;

#[tokio::test(start_paused = true)]
async fn sweep_costs_a_page_and_a_read_of_its_calls_for_each_shard() {
    let world = World::stopped();
    world.reconciler.run("test").await.unwrap();
    for number in 0..7 {
        for webhook in twilio_call(number, true) {
            post(&world, &webhook).await;
        }
    }
    for _ in 0..4 {
        consume(&world).await;
    }
    world.wait(MINUTE * 2).await;
    // The sweep reads two minutes. The second one holds all seven calls.
    let minutes = 2;
    reset_counters(&world);
    let report = world.reconciler.run("test").await.unwrap();
    assert_eq!((report.swept_minutes, report.requeued), (minutes, 0));
    let pages = WAKE_PAGES + minutes * SHARDS_DEFAULT + NOTICE_PAGES;
    let requests = world.requests();
    // One of the four shards has a single call, which is read alone.
    let reads = [("BatchGetItem", SHARDS_DEFAULT - 1), ("GetItem", 3 + 1)];
    let others = [("GetQueueAttributes", minutes + 1), ("PutItem", minutes), ("Query", pages)];
    assert_eq!(requests, request_counts(&[&reads[..], &others[..]].concat()));
    let capacity = world.capacity();
    let read_units = ["BatchGetItem", "GetItem"].map(|operation| capacity[operation].read_units);
    assert_eq!(read_units, [6.0 * 0.5, 3.0 + 0.5], "one unit per cursor, and half a unit for each call");
    assert!(capacity["Query"].read_units <= pages as f64 * 0.5 + 1.0, "{capacity:?}");
    assert_eq!(capacity["PutItem"].write_units, minutes as f64);
}

/// Runs the reconciler once. Returns its requests to AWS by operation.
async fn run_costs(world: &World) -> BTreeMap<String, u64> {
    reset_counters(world);
    world.reconciler.run("test").await.unwrap();
    world.requests()
}

#[tokio::test(start_paused = true)]
async fn reconciler_reads_what_is_due_and_not_what_is_stored() {
    let mut costs = Vec::new();
    for settled in [0, 200] {
        let world = World::stopped();
        world.reconciler.run("test").await.unwrap();
        for number in 0..settled {
            let call_id = format!("settled{number}");
            for event_type in ["RINGING", "NO_ANSWER"] {
                post(&world, &generic_webhook(&call_id, &format!("{call_id}-{event_type}"), event_type)).await;
            }
            consume(&world).await;
        }
        world.wait(MINUTE * 10).await;
        world.reconciler.run("test").await.unwrap();
        for number in 0..3 {
            post(&world, &generic_webhook(&format!("c{number}"), &format!("e{number}"), "RINGING")).await;
        }
        consume(&world).await;
        world.wait(INACTIVITY_TIMEOUT - MINUTE).await;
        world.reconciler.run("test").await.unwrap();
        world.wait(MINUTE).await;
        let due = run_costs(&world).await;
        world.wait(MINUTE).await;
        consume(&world).await;
        let idle = run_costs(&world).await;
        costs.push((due, idle));
    }
    assert_eq!(costs[0], costs[1]);
    let (pages, minute) = (WAKE_PAGES + SHARDS_DEFAULT + NOTICE_PAGES, 1);
    // For each due call, the reconciler reads the call, and writes its deadline into the inbox and the queue.
    let due = [
        ("GetItem", 3 + 3),
        ("GetQueueAttributes", minute + 1),
        ("PutItem", minute + 3),
        ("Query", pages),
        ("SendMessage", 3),
    ];
    let idle = [("GetItem", 3), ("GetQueueAttributes", minute + 1), ("PutItem", minute), ("Query", pages)];
    assert_eq!(costs[0], (request_counts(&due), request_counts(&idle)));
}

#[tokio::test(start_paused = true)]
async fn settled_call_costs_the_drift_check_half_a_unit() {
    let mut costs = Vec::new();
    for copies in [0, 20] {
        let world = World::stopped();
        for event_type in ["RINGING", "NO_ANSWER"] {
            post(&world, &generic_webhook("c", event_type, event_type)).await;
        }
        consume(&world).await;
        let settled = Call { wake_at: None, settled_at: Some(world.now()), ..world.call("c").await };
        store_copies(&world, &settled, "settled", copies).await;
        world.wait(MINUTE * 12).await;
        reset_counters(&world);
        let report = world.reconciler.check_drift("test").await.unwrap();
        costs.push((report.checked, world.requests()["GetItem"], world.capacity()["GetItem"].read_units));
    }
    let ((none, requests, units), (all, all_requests, all_units)) = (costs[0], costs[1]);
    assert_eq!((all - none, all_requests - requests, all_units - units), (20, 20, 10.0));
}
