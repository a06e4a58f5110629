//! The number of shards grows while the stack runs. Nothing that was filed before is lost from sight.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use switchhook_aws::calls::WakeQueue;
use switchhook_aws::inbox::{AttentionKind, BY_ATTENTION};
use switchhook_domain::{CallId, EventId, Provider};
use switchhook_local::connector::Fault;
use switchhook_local::{CloudOptions, EVENTS_QUEUE, INBOX_TABLE};
use switchhook_reconciler::limits::RUN_MAX;
use switchhook_tests::{
    INACTIVITY_TIMEOUT, MINUTE, World, all_providers, down, generic, options, reads_calls_to_fold, text,
};

const CALLS: usize = 20;

/// Ten minutes after the start of the tests' time there are seven shards instead of two.
fn world() -> World {
    let index_shards = "2,2026-01-01T00:10:00Z=7".parse().unwrap();
    let mut world = World::with_options(CloudOptions { index_shards, ..options(&all_providers()) });
    world.start();
    world
}

fn ids(epoch: &str) -> BTreeSet<String> {
    (0..CALLS).map(|number| format!("{epoch}-{number}")).collect()
}

async fn listed(world: &World, query: &str) -> BTreeSet<String> {
    let (_, page) = world.get(&format!("/calls?limit=100&{query}")).await;
    page["calls"].as_array().unwrap().iter().map(|call| text(&call["call_id"])).collect()
}

/// Wake keys of the rows, without the queue.
async fn shards(world: &World, ids: &BTreeSet<String>) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    for id in ids {
        let item = world.item(switchhook_local::CALLS_TABLE, id).await;
        let key = text(&json!(item)["wake_key"]["S"]);
        found.insert(key.rsplit_once('#').unwrap().1.parse().unwrap());
    }
    found
}

#[tokio::test(start_paused = true)]
async fn calls_of_both_epochs_are_listed_and_woken() {
    let world = world();
    let (before, after) = (ids("before"), ids("after"));
    for id in &before {
        world.accept(Provider::Generic, &generic(id, &format!("{id}-e"), "ANSWERED", 0)).await;
    }
    world.quiesce().await;
    assert_eq!(shards(&world, &before).await, (0..2).collect());
    world.wait(MINUTE * 10).await;
    for id in &after {
        world.accept(Provider::Generic, &generic(id, &format!("{id}-e"), "ANSWERED", 0)).await;
    }
    world.quiesce().await;
    assert_eq!(shards(&world, &after).await, (0..7).collect(), "20 ids are in all of seven shards");
    let all = before.union(&after).cloned().collect();
    assert_eq!(listed(&world, "job=IN_PROGRESS").await, all);
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 2).await;
    assert_eq!(listed(&world, "job=IN_PROGRESS").await, BTreeSet::new(), "every call was woken at its deadline");
    let open = WakeQueue::all(&BTreeSet::new()).into_iter().filter(|queue| *queue != WakeQueue::Settled);
    for queue in open {
        assert!(world.calls.wake_shards().eq(0..7), "{queue}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_of_both_epochs_are_swept() {
    let world = world();
    for (epoch, pause) in [("before", Duration::ZERO), ("after", MINUTE * 10)] {
        world.wait(pause).await;
        world.crash_at("SendMessage", EVENTS_QUEUE);
        for id in ids(epoch) {
            world.post(Provider::Generic, &generic(&id, &format!("{id}-e"), "ANSWERED", 0)).await;
        }
        world.clear_faults();
        world.wait(MINUTE * 4).await;
        for id in ids(epoch) {
            assert_eq!(world.status(&EventId::new(format!("generic:{id}-e"))).await["status"], "processed", "{id}");
        }
    }
}

/// The marks of events in trouble have half as many shards as the calls.
#[tokio::test(start_paused = true)]
async fn marks_of_both_epochs_are_found_and_told() {
    let world = world();
    let quarantine = async |number: usize| {
        let (_, answer) = world.post(Provider::Generic, &format!("not JSON {number}")).await;
        text(&answer["event_id"])
    };
    let mut shards = Vec::new();
    for numbers in [0..CALLS, CALLS..2 * CALLS] {
        let mut of_epoch = BTreeSet::new();
        for number in numbers {
            let item = world.item(INBOX_TABLE, &quarantine(number).await).await;
            of_epoch.insert(text(&json!(item)["attention"]["S"]));
        }
        shards.push(of_epoch.len());
        world.wait(MINUTE * 11).await;
    }
    assert_eq!(shards, [1, 4]);
    assert_eq!(world.attention(AttentionKind::Quarantined).await.len(), 2 * CALLS);
    let notices = world.domain_events().into_iter().filter(|event| event["type"] == "operator.attention");
    let counted: u64 = notices.filter_map(|notice| notice["count"].as_u64()).sum();
    assert_eq!(counted, 2 * CALLS as u64);
}

/// Nothing can be folded in either epoch. The marks of both tell it, and the folds that follow remove them.
#[tokio::test(start_paused = true)]
async fn marks_of_failed_folds_of_both_epochs_are_found_and_removed() {
    let world = world();
    world.set_fault_hook(|call| reads_calls_to_fold(call).then(down));
    for (epoch, pause) in [("before", MINUTE * 10), ("after", MINUTE)] {
        for id in ids(epoch) {
            world.accept(Provider::Generic, &generic(&id, &format!("{id}-e"), "ANSWERED", 0)).await;
        }
        world.wait(pause).await;
    }
    let marked = world.attention(AttentionKind::Retrying).await;
    assert_eq!(marked.len(), 2 * CALLS);
    let mut keys = BTreeSet::new();
    for mark in &marked {
        keys.insert(text(&json!(world.item(INBOX_TABLE, &mark.item_key).await)["attention"]["S"]));
    }
    assert_eq!(keys.len(), 4, "one shard before, and four after");
    let oldest = world.logged("reconciled").iter().filter_map(|run| run["unfolded_ms"].as_u64()).max();
    assert!(oldest.is_some_and(|age| age >= 9 * 60_000), "{oldest:?}");
    world.clear_faults();
    world.wait(MINUTE * 40).await;
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
}

#[tokio::test(start_paused = true)]
async fn call_is_refolded_from_events_of_both_epochs() {
    let world = world();
    let began = world.now();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.wait(MINUTE * 10).await;
    world.accept(Provider::Generic, &generic("c1", "e2", "ANSWERED", 1)).await;
    world.quiesce().await;
    let whole = world.call("c1").await;
    let ids = ["generic:e1", "generic:e2"].map(EventId::new);
    assert!(ids.iter().all(|id| whole.contains_event(id)));
    // The queue drops an event that it accepted in the last five minutes.
    world.wait(MINUTE * 6).await;
    world.calls.remove(&CallId::new("c1")).await.unwrap();
    let stack = crate::repair::stack_of(&world);
    crate::recovery::repair(&stack, began).await;
    world.wait(MINUTE).await;
    let found = world.call("c1").await;
    assert!(ids.iter().all(|id| found.contains_event(id)), "{:?}", found.history);
}

/// No mark of any shard can be read, and each read takes as long as the SDK waits. The alarm stays.
#[tokio::test(start_paused = true)]
async fn run_ends_in_time_although_the_marks_of_many_shards_cannot_be_read() {
    let index_shards = "64".parse().unwrap();
    let world = World::with_options(CloudOptions { index_shards, ..options(&all_providers()) });
    world.set_fault_hook(|call| {
        let reads_marks = call.operation == "Query" && String::from_utf8_lossy(call.body).contains(BY_ATTENTION);
        reads_marks.then_some(Fault::Timeout)
    });
    assert_eq!(world.inbox.attention_shards(), 0..32);
    let started = world.now();
    assert!(world.cloud.reconcile().await.unwrap().is_err(), "the run reports the error");
    let spent = Duration::from_millis(world.now().millis_since(started).unsigned_abs());
    assert!(spent < RUN_MAX, "a run of {spent:?}");
    let unfolded: Vec<_> =
        world.log_text().lines().filter_map(|line| Some(line.split_once("\"unfolded_ms\":")?.1.to_owned())).collect();
    assert!(unfolded[0].starts_with("300001"), "{unfolded:?}");
}
