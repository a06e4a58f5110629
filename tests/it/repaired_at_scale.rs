//! Repair with much to do. Urgent work comes first, requests to a provider are limited, and the cost grows with the calls that are due.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use serde_json::Value;
use switchhook_aws::shards::SHARDS_DEFAULT;
use switchhook_domain::{Call, Job, Provider, Timestamp};
use switchhook_local::fake::DeliveryFaults;
use switchhook_tests::{INACTIVITY_TIMEOUT, MINUTE, World, generic};

use crate::budget::reset_counters;
use crate::outbound::{HOUR, call_request, create};
use crate::reconciled::{consume_all, post, started, store_copies};

/// Requests to one provider in a minute, and the shares of endings and of the drift check.
const REQUESTS: u64 = 1_200;
const FOR_ENDINGS: u64 = REQUESTS * 80 / 100;
const FOR_DRIFT: u64 = REQUESTS * 40 / 100;

/// A call that has begun, as others placed it.
async fn begun(world: &World, provider_call_id: &str) -> Call {
    post(world, &started(provider_call_id, &Value::Null, world.now())).await;
    consume_all(world).await;
    world.call(&format!("retell:{provider_call_id}")).await
}

/// Stores copies of a call that are settled since `settled_at`.
async fn store_settled(world: &World, call: &Call, name: &str, count: usize, settled_at: Timestamp) {
    let settled = Call { wake_at: None, settled_at: Some(settled_at), ..call.clone() };
    store_copies(world, &settled, name, count).await;
}

/// Lets a minute pass, and runs the reconciler as its schedule does.
async fn next_minute(world: &World) -> switchhook_reconciler::Report {
    world.wait(MINUTE).await;
    world.cloud.reconcile().await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn overdue_calls_are_settled_within_minutes_and_each_is_read_once() {
    const CALLS: u64 = 2_000;
    let world = World::stopped();
    let call = begun(&world, "p").await;
    store_copies(&world, &call, "retell:p", CALLS as usize - 1).await;
    // It is now so late that the reconciler no longer waits for a provider that cannot answer.
    world.wait(INACTIVITY_TIMEOUT * 3).await;
    reset_counters(&world);
    let (mut deadlines, mut runs, mut woken, mut sent) = (0, 0, 0, 0);
    while deadlines < CALLS && runs < 4 {
        let report = next_minute(&world).await;
        assert!(report.lookups <= FOR_ENDINGS, "{report:?}");
        (deadlines, woken) = (deadlines + report.deadlines_passed, woken + report.woken);
        runs += 1;
        let requests = world.requests();
        sent += ["GetItem", "PutItem", "UpdateItem", "Query", "SendMessage"].map(|of| requests[of]).iter().sum::<u64>();
        consume_all(&world).await;
        reset_counters(&world);
    }
    assert_eq!((deadlines, runs), (CALLS, 3));
    // A call is read, and its deadline stored and queued. Its events are swept later, and the sweep reads the call.
    assert!(sent < CALLS * 5, "{sent} requests");
    // Besides, a run reads one page of each shard to see that no requests are left.
    assert!(woken <= CALLS + 2 * SHARDS_DEFAULT * 100, "{woken}");
}

#[tokio::test(start_paused = true)]
async fn second_run_of_a_minute_does_not_read_the_backlog_again() {
    let world = World::stopped();
    let call = begun(&world, "p").await;
    store_copies(&world, &call, "retell:p", FOR_ENDINGS as usize + 1_600).await;
    world.wait(INACTIVITY_TIMEOUT * 3).await;
    let first = next_minute(&world).await;
    assert_eq!((first.lookups, first.budget_used_up), (FOR_ENDINGS, 1));
    consume_all(&world).await;
    reset_counters(&world);
    let second = world.cloud.reconcile().await.unwrap().unwrap();
    assert_eq!((second.lookups, second.deadlines_passed, second.budget_used_up), (0, 0, 1));
    assert!(
        second.woken > 0 && second.woken <= SHARDS_DEFAULT * 100,
        "one page of a shard, and not 1,600 calls: {second:?}"
    );
    assert!(world.requests()["GetItem"] <= SHARDS_DEFAULT * 100 + 4);
}

#[tokio::test(start_paused = true)]
async fn dial_in_doubt_is_looked_up_before_many_routine_questions() {
    let world = World::stopped();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let routine = begun(&world, "p").await;
    store_copies(&world, &routine, "retell:p", 1_600).await;
    world.wait(INACTIVITY_TIMEOUT - MINUTE * 3).await;
    let call_id = create(&world, &call_request("response_lost")).await;
    world.cloud.schedule().await.unwrap().unwrap();
    world.cloud.dialer().handle(world.take_claims()).await;
    assert_eq!(world.call(&call_id).await.in_doubt().len(), 1);
    // The claim's lease ends after five minutes.
    world.wait(MINUTE * 5).await;
    let report = next_minute(&world).await;
    assert_eq!((report.doubts, report.budget_used_up), (1, 1), "{report:?}");
    consume_all(&world).await;
    assert_eq!(world.call(&call_id).await.in_doubt().len(), 0, "the doubt must end in the first minute");
}

#[tokio::test(start_paused = true)]
async fn less_urgent_work_leaves_requests_to_more_urgent_work() {
    let world = World::stopped();
    let take = async |ceiling| world.inbox.take_lookups(Provider::Retell, world.now(), 20, ceiling).await.unwrap();
    let mut taken = Vec::new();
    for ceiling in [480, 720, 960, 1_200] {
        let mut count = 0;
        while take(ceiling).await {
            count += 20;
        }
        taken.push(count);
    }
    assert_eq!(taken, [480, 240, 240, 240]);
    assert!(!take(480).await);
    assert!(world.inbox.take_lookups(Provider::Vapi, world.now(), 20, 20).await.unwrap(), "each provider has its own");
    assert!(!world.inbox.take_lookups(Provider::Vapi, world.now(), 20, 10).await.unwrap());
    world.wait(MINUTE).await;
    assert!(take(480).await, "the next minute has a budget of its own");
}

// The drift check

/// A settled call whose job differs from what its events give.
async fn altered(world: &World) -> Call {
    world.accept(Provider::Generic, &generic("c", "e1", "RINGING", 0)).await;
    world.accept(Provider::Generic, &generic("c", "e2", "BUSY", 1)).await;
    consume_all(world).await;
    Call { job: Job::Completed, ..world.call("c").await }
}

#[tokio::test(start_paused = true)]
async fn drifted_call_is_found_behind_many_fresh_endings() {
    let world = World::stopped();
    let altered = altered(&world).await;
    let right = world.call("c").await;
    store_settled(&world, &altered, "drifted", 1, world.now()).await;
    world.wait(MINUTE * 20).await;
    store_settled(&world, &right, "fresh", 200, world.now()).await;
    let report = world.cloud.check_drift().await.unwrap().unwrap();
    assert_eq!((report.drifted, report.checked), (1, 2), "the fresh ones are left to the next check: {report:?}");
}

#[tokio::test(start_paused = true)]
async fn each_settled_call_is_looked_at_once() {
    const CALLS: usize = 700;
    let world = World::stopped();
    let altered = altered(&world).await;
    let right = world.call("c").await;
    let mut checked = 0;
    for hour in 0..3 {
        store_settled(&world, &right, &format!("right{hour}-"), CALLS, world.now()).await;
        store_settled(&world, &altered, &format!("altered{hour}-"), 10, world.now()).await;
        world.wait(HOUR).await;
        let report = world.cloud.check_drift().await.unwrap().unwrap();
        assert_eq!((report.drifted, report.skipped_ms), (10, 0), "{report:?}");
        checked += report.checked;
    }
    assert_eq!(checked as usize, 1 + 3 * (CALLS + 10), "each call once, and the first one");
    assert_eq!(world.cloud.check_drift().await.unwrap().unwrap().checked, 0);
}

#[tokio::test(start_paused = true)]
async fn drift_check_that_has_no_requests_left_goes_on_in_the_next_minutes() {
    const CALLS: u64 = FOR_DRIFT + 150;
    let world = World::stopped();
    let call = begun(&world, "p").await;
    store_settled(&world, &call, "settled", CALLS as usize, world.now()).await;
    world.wait(MINUTE * 13).await;
    let first = world.cloud.check_drift().await.unwrap().unwrap();
    assert_eq!((first.lookups, first.budget_used_up), (FOR_DRIFT, 1), "{first:?}");
    for _ in 0..4 {
        next_minute(&world).await;
    }
    let runs = world.logged("drift_run");
    let checked: u64 = runs.iter().map(|run| run["drift_checked"].as_u64().unwrap_or(0)).sum();
    // The call that is open was looked at too, by the first check.
    assert_eq!(checked, CALLS + 1, "{runs:?}");
    assert!(runs.len() > 1 && runs.len() <= 5, "{runs:?}");
    next_minute(&world).await;
    assert_eq!(world.logged("drift_run").len(), runs.len(), "a check that is done is not repeated");
}

#[tokio::test(start_paused = true)]
async fn drift_check_that_is_hours_behind_leaves_out_the_oldest_calls_and_says_so() {
    let world = World::stopped();
    let altered = altered(&world).await;
    assert_eq!(world.cloud.check_drift().await.unwrap().unwrap().skipped_ms, 0, "the first check skips nothing");
    store_settled(&world, &altered, "old", 1, world.now()).await;
    world.wait(HOUR * 7).await;
    store_settled(&world, &altered, "new", 1, world.now()).await;
    world.wait(HOUR).await;
    let report = world.cloud.check_drift().await.unwrap().unwrap();
    assert_eq!(report.drifted, 1, "{report:?}");
    // The last check ended ten minutes before it began, eight hours ago. Calls of the last six hours are looked at.
    let skipped = HOUR * 2 + MINUTE * 10;
    let skipped_ms = Duration::from_millis(report.skipped_ms / SHARDS_DEFAULT);
    assert!(skipped_ms > skipped - MINUTE && skipped_ms < skipped + MINUTE, "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn drift_check_of_a_failing_provider_waits_for_it() {
    let world = World::stopped();
    let call = begun(&world, "p").await;
    store_settled(&world, &call, "settled", 100, world.now()).await;
    world.wait(MINUTE * 13).await;
    world.cloud.fake().set_mode(switchhook_local::fake::Mode::Down);
    let report = world.cloud.check_drift().await.unwrap().unwrap();
    assert!(report.lookups < 30 && report.checked < 30, "a provider that keeps failing is left alone: {report:?}");
    world.cloud.fake().set_mode(switchhook_local::fake::Mode::Normal);
    // The provider is left alone until the next hourly check.
    next_minute(&world).await;
    assert_eq!(world.logged("drift_run").len(), 1);
    world.cloud.check_drift().await.unwrap().unwrap();
    let checked: u64 = world.logged("drift_run").iter().map(|run| run["drift_checked"].as_u64().unwrap_or(0)).sum();
    assert!(checked >= 100, "{checked} calls were looked at");
}

#[tokio::test(start_paused = true)]
async fn open_calls_are_looked_at_in_turn() {
    const CALLS: usize = 1_000;
    let world = World::stopped();
    world.accept(Provider::Generic, &generic("c", "e1", "RINGING", 0)).await;
    consume_all(&world).await;
    let call = world.call("c").await;
    let call = Call { wake_at: Some(world.now().plus(HOUR * 20)), ..call };
    store_copies(&world, &call, "open", CALLS).await;
    let mut checked = 0;
    for check in 0..4 {
        let report = world.cloud.check_drift().await.unwrap().unwrap();
        assert!(report.checked <= 100 * SHARDS_DEFAULT, "{report:?}");
        checked += report.checked;
        assert!(check < 3 || checked > CALLS as u64, "{checked} calls are looked at in {check} checks");
        world.wait(HOUR).await;
    }
}
