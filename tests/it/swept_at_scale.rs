//! The sweep of minutes in which much arrived. It keeps up, and loses nothing, whatever happens to its workers.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use switchhook_aws::inbox::BY_RECEIVED;
use switchhook_domain::{Provider, Timestamp};
use switchhook_local::connector::Fault;
use switchhook_local::{CALLS_TABLE, CloudOptions, EVENTS_QUEUE, REPAIR_QUEUE};
use switchhook_reconciler::Report;
use switchhook_reconciler::limits::{QUEUE_DEPTH_PER_SHARD, SWEEP_PAGE};
use switchhook_tests::{MINUTE, World, all_providers, generic, is_request_to, options, text};

use crate::budget::reset_counters;

/// Events of a page in most of these tests.
const SMALL_PAGE: usize = 10;

/// A stack with these shards, which has swept everything so far.
async fn swept_stack(index_shards: &str) -> World {
    let index_shards = index_shards.parse().unwrap();
    let world = World::with_options(CloudOptions { index_shards, ..options(&all_providers()) });
    world.reconciler.run("first").await.unwrap();
    world
}

/// Delays each read of calls, and lets the sweep read pages of this size.
fn read_slowly(world: &World, read: Duration, page: usize) {
    world.set_fault_hook(move |call| {
        if ["GetItem", "BatchGetItem"].contains(&call.operation) && is_request_to(call, CALLS_TABLE) {
            return Some(Fault::Delay(read));
        }
        let mut body: Value = serde_json::from_slice(call.body).unwrap();
        let is_sweep = body["IndexName"] == BY_RECEIVED && body["Limit"] == json!(SWEEP_PAGE);
        body["Limit"] = json!(page);
        is_sweep.then(|| Fault::ReplacedRequest(body.to_string().into_bytes()))
    });
}

const FAST: Duration = Duration::from_millis(1);
const HALF_A_SECOND: Duration = Duration::from_millis(500);
/// Time in which a worker reads one small page, and not two.
const ONE_PAGE_OF_SLOW_CALLS: Duration = Duration::from_millis(700);

/// Receives events that are not folded, each of another call. The sweep reads these calls.
async fn receive(world: &World, name: &str, count: usize) {
    for number in 0..count {
        let body = generic(&format!("{name}-{number}"), &format!("{name}-{number}"), "NOTED", 0);
        let (code, answer) = world.post(Provider::Generic, &body).await;
        assert_eq!((code, &answer["status"]), (StatusCode::OK, &json!("recorded")), "{answer}");
    }
}

/// Receives events that are stored and not queued, each of another call.
async fn lose(world: &World, name: &str, count: usize) {
    world.crash_at("SendMessage", EVENTS_QUEUE);
    for number in 0..count {
        let body = generic(&format!("{name}-{number}"), &format!("{name}-{number}"), "RINGING", 0);
        assert_eq!(world.post(Provider::Generic, &body).await.0, StatusCode::INTERNAL_SERVER_ERROR);
    }
    world.clear_faults();
}

/// Ids of the calls whose events are in the events queue.
fn queued(world: &World) -> Vec<String> {
    let mut calls: Vec<String> = world.queued().iter().map(|message| text(&message["event"]["call_id"])).collect();
    calls.sort();
    calls
}

fn names(name: &str, count: usize) -> Vec<String> {
    let mut names: Vec<String> = (0..count).map(|number| format!("{name}-{number}")).collect();
    names.sort();
    names
}

async fn run(world: &World) -> Report {
    world.reconciler.run("test").await.unwrap()
}

/// Number of messages of the repair queue, those in flight included.
fn handed_on(world: &World) -> usize {
    world.cloud.services().sqs().messages(REPAIR_QUEUE).unwrap().len()
}

/// Time until which the stored cursor says that all shards are swept.
async fn swept_until(world: &World) -> Timestamp {
    let cursor = world.inbox.sweep_cursor().await.unwrap().unwrap();
    Timestamp::from_millis((cursor.swept_minute() + 1) * 60_000)
}

#[tokio::test(start_paused = true)]
async fn sweep_keeps_up_with_minutes_that_one_run_cannot_read() {
    // A run leaves a minute with more than a page to a worker.
    const EVENTS: usize = 1_200;
    let world = swept_stack("1").await;
    for minute in 0..3 {
        receive(&world, &format!("m{minute}"), EVENTS).await;
        world.wait(MINUTE).await;
    }
    read_slowly(&world, HALF_A_SECOND, SWEEP_PAGE as usize);
    for _ in 0..4 {
        let began = world.now();
        run(&world).await;
        drop(world.repair().await);
        let took = world.now().millis_since(began);
        assert!(took < 60_000, "the next run of the schedule would meet the workers: {took} ms");
        world.wait(MINUTE.saturating_sub(Duration::from_millis(took.unsigned_abs()))).await;
    }
    let lag = world.now().millis_since(swept_until(&world).await);
    assert!(lag <= 4 * 60_000, "{lag} ms behind");
}

#[tokio::test(start_paused = true)]
async fn shard_with_less_than_a_page_of_events_costs_no_message() {
    let page = SWEEP_PAGE as usize;
    // DynamoDB does not tell whether more follows after a full page.
    for (events, messages) in [(page - 1, 0), (page, 1)] {
        let world = swept_stack("1").await;
        receive(&world, "c", events).await;
        world.wait(MINUTE * 3).await;
        reset_counters(&world);
        let report = run(&world).await;
        assert_eq!((report.handed_on, handed_on(&world)), (messages, messages as usize), "{events} events");
        assert_eq!(world.requests().get("SendMessageBatch").copied().unwrap_or(0), messages);
        let lag = world.now().millis_since(report.swept_until.unwrap());
        assert_eq!(lag >= 3 * 60_000, messages > 0, "a minute counts as swept when all its shards are: {lag} ms");
        drop(world.repair().await);
        // Now nothing is left.
        world.wait(MINUTE).await;
        reset_counters(&world);
        assert_eq!(run(&world).await.handed_on, 0);
        assert!(!world.requests().contains_key("SendMessageBatch"));
        assert!(world.inbox.sweep_cursor().await.unwrap().unwrap().left.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn lost_message_is_sent_again_by_the_next_run() {
    let world = swept_stack("1").await;
    lose(&world, "lost", 30).await;
    world.wait(MINUTE * 3).await;
    read_slowly(&world, FAST, SMALL_PAGE);
    assert_eq!(run(&world).await.handed_on, 1);
    for (_, receipt) in world.take_repairs() {
        world.cloud.services().sqs().delete(REPAIR_QUEUE, &receipt).unwrap();
    }
    assert!(queued(&world).is_empty());
    world.wait(MINUTE).await;
    assert_eq!(run(&world).await.handed_on, 1);
    drop(world.repair().await);
    assert_eq!(queued(&world), names("lost", 30));
}

#[tokio::test(start_paused = true)]
async fn message_that_the_queue_refused_is_sent_again_by_the_next_run() {
    let world = swept_stack("1").await;
    lose(&world, "lost", 30).await;
    world.wait(MINUTE * 3).await;
    world.set_fault_hook(|call| {
        let mut body: Value = serde_json::from_slice(call.body).unwrap();
        let is_sweep = body["IndexName"] == BY_RECEIVED && body["Limit"] == json!(SWEEP_PAGE);
        body["Limit"] = json!(SMALL_PAGE);
        let page = is_sweep.then(|| Fault::ReplacedRequest(body.to_string().into_bytes()));
        page.or_else(|| is_request_to(call, REPAIR_QUEUE).then(switchhook_tests::down))
    });
    world.reconciler.run("test").await.unwrap_err();
    world.wait(MINUTE).await;
    read_slowly(&world, FAST, SMALL_PAGE);
    assert_eq!(run(&world).await.handed_on, 1);
    drop(world.repair().await);
    assert_eq!(queued(&world), names("lost", 30));
}

#[tokio::test(start_paused = true)]
async fn killed_worker_loses_nothing_and_the_next_one_goes_on_after_its_last_page() {
    let world = swept_stack("1").await;
    lose(&world, "lost", 30).await;
    world.wait(MINUTE * 3).await;
    read_slowly(&world, HALF_A_SECOND, SMALL_PAGE);
    run(&world).await;
    let (event, _) = world.take_repairs().pop().unwrap();
    // The worker is killed in its second page.
    let killed = tokio::time::timeout(ONE_PAGE_OF_SLOW_CALLS, world.reconciler.work(event, "killed")).await;
    assert!(killed.is_err());
    assert_eq!(queued(&world).len(), SMALL_PAGE);
    world.wait(MINUTE).await;
    run(&world).await;
    // The message is delivered again, too late to be of use. After it comes the message of the second run.
    reset_counters(&world);
    let workers = world.repair().await;
    assert_eq!(workers.len(), 2, "{workers:?}");
    assert_eq!(workers.iter().map(|worker| worker.requeued).sum::<u64>(), 20, "{workers:?}");
    assert_eq!(queued(&world), names("lost", 30));
    assert!(swept_until(&world).await > world.now().minus(MINUTE * 4));
}

#[tokio::test(start_paused = true)]
async fn message_that_is_delivered_twice_is_worked_once() {
    let world = swept_stack("1").await;
    lose(&world, "lost", 30).await;
    world.wait(MINUTE * 3).await;
    read_slowly(&world, FAST, SMALL_PAGE);
    // Two runs at once leave the shard to one worker.
    let (one, two) = tokio::join!(world.reconciler.run("one"), world.reconciler.run("two"));
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(handed_on(&world), 1);
    let (event, _) = world.take_repairs().pop().unwrap();
    assert_eq!(world.reconciler.work(event.clone(), "first").await.requeued, 30);
    reset_counters(&world);
    let again = world.reconciler.work(event, "second").await;
    assert_eq!((again.requeued, again.failed, again.handed_on), (0, 0, 0), "{again:?}");
    assert!(!world.requests().contains_key("Query"), "the cursor says that the shard is swept");
    assert_eq!(queued(&world), names("lost", 30));
}

#[tokio::test(start_paused = true)]
async fn two_workers_of_one_shard_at_the_same_time_lose_nothing() {
    let world = swept_stack("1").await;
    lose(&world, "lost", 45).await;
    world.wait(MINUTE * 3).await;
    read_slowly(&world, HALF_A_SECOND, SMALL_PAGE);
    run(&world).await;
    let (event, receipt) = world.take_repairs().pop().unwrap();
    let late = async {
        tokio::time::sleep(ONE_PAGE_OF_SLOW_CALLS).await;
        world.reconciler.work(event.clone(), "late").await
    };
    tokio::join!(world.reconciler.work(event.clone(), "early"), late);
    world.cloud.services().sqs().delete(REPAIR_QUEUE, &receipt).unwrap();
    world.wait(MINUTE).await;
    run(&world).await;
    drop(world.repair().await);
    assert_eq!(queued(&world), names("lost", 45));
    assert_eq!(handed_on(&world), 0);
}

#[tokio::test(start_paused = true)]
async fn shard_that_falls_behind_is_swept_minute_by_minute_up_to_the_others() {
    let world = swept_stack("2").await;
    for minute in 0..5 {
        lose(&world, &format!("m{minute}"), 30).await;
        world.wait(MINUTE).await;
    }
    world.wait(MINUTE * 2).await;
    read_slowly(&world, FAST, SMALL_PAGE);
    // In each of these minutes both shards have more than a page. The messages of three runs are lost.
    let mut behind = Vec::new();
    for _ in 0..3 {
        assert_eq!(run(&world).await.handed_on, 2);
        for (_, receipt) in world.take_repairs() {
            world.cloud.services().sqs().delete(REPAIR_QUEUE, &receipt).unwrap();
        }
        behind.push(world.now().millis_since(swept_until(&world).await));
        world.wait(MINUTE).await;
    }
    assert!(behind.is_sorted() && behind[2] > behind[0], "the lag must show: {behind:?}");
    run(&world).await;
    drop(world.repair().await);
    let mut lost: Vec<String> = (0..5).flat_map(|minute| names(&format!("m{minute}"), 30)).collect();
    lost.sort();
    assert_eq!(queued(&world), lost);
    assert!(world.now().millis_since(swept_until(&world).await) < 3 * 60_000);
}

#[tokio::test(start_paused = true)]
async fn shard_of_an_earlier_epoch_that_was_left_is_swept() {
    // From the fourth minute on there is one shard instead of four, and later there are two.
    let world = swept_stack("4,2026-01-01T00:04:00Z=1,2026-01-01T00:06:00Z=2").await;
    for minute in 0..8 {
        lose(&world, &format!("m{minute}"), 20).await;
        world.wait(MINUTE).await;
    }
    world.wait(MINUTE * 2).await;
    read_slowly(&world, FAST, 2);
    run(&world).await;
    drop(world.repair().await);
    let mut lost: Vec<String> = (0..8).flat_map(|minute| names(&format!("m{minute}"), 20)).collect();
    lost.sort();
    assert_eq!(queued(&world), lost);
    world.wait(MINUTE).await;
    assert_eq!(run(&world).await.handed_on, 0, "no shard is behind");
    assert!(world.inbox.sweep_cursor().await.unwrap().unwrap().left.is_empty());
}

#[tokio::test(start_paused = true)]
async fn worker_pauses_while_too_much_waits_and_goes_on_where_it_was() {
    let lost = QUEUE_DEPTH_PER_SHARD as usize + 50;
    let world = swept_stack("1").await;
    lose(&world, "lost", lost).await;
    world.wait(MINUTE * 3).await;
    read_slowly(&world, FAST, SMALL_PAGE);
    run(&world).await;
    let first: u64 = world.repair().await.iter().map(|worker| worker.requeued).sum();
    assert_eq!(first, QUEUE_DEPTH_PER_SHARD + SMALL_PAGE as u64, "the sweep must add nothing to a long queue");
    world.clear_faults();
    crate::reconciled::consume_all(&world).await;
    read_slowly(&world, FAST, SMALL_PAGE);
    world.wait(MINUTE).await;
    run(&world).await;
    let second: u64 = world.repair().await.iter().map(|worker| worker.requeued).sum();
    assert_eq!(first + second, lost as u64);
    assert!(world.now().millis_since(swept_until(&world).await) < 3 * 60_000);
}

#[tokio::test(start_paused = true)]
async fn run_that_fails_hands_on_the_shards_that_earlier_runs_left() {
    let world = swept_stack("1").await;
    lose(&world, "lost", 30).await;
    world.wait(MINUTE * 3).await;
    read_slowly(&world, FAST, SMALL_PAGE);
    run(&world).await;
    for (_, receipt) in world.take_repairs() {
        world.cloud.services().sqs().delete(REPAIR_QUEUE, &receipt).unwrap();
    }
    world.wait(MINUTE).await;
    world.inject_fault("GetQueueAttributes", EVENTS_QUEUE, u64::MAX, switchhook_tests::down());
    world.reconciler.run("test").await.unwrap_err();
    read_slowly(&world, FAST, SMALL_PAGE);
    drop(world.repair().await);
    assert_eq!(queued(&world), names("lost", 30));
}
