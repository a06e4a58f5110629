//! Repair with much to do. Urgent work comes first, requests to a provider are limited, and the cost grows with the calls that are due.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use serde_json::Value;
use switchhook_aws::inbox::minute_of;
use switchhook_aws::shards::SHARDS_DEFAULT;
use switchhook_domain::{Call, Job, Provider, Timestamp};
use switchhook_local::connector::Fault;
use switchhook_local::fake::{DeliveryFaults, Mode};
use switchhook_local::{CALLS_TABLE, CloudOptions, REPAIR_QUEUE};
use switchhook_reconciler::Report;
use switchhook_tests::{INACTIVITY_TIMEOUT, KEY, MINUTE, World, all_providers, generic, is_request_to, options};

use crate::budget::reset_counters;
use crate::outbound::{HOUR, all_accounts, call_request, create};
use crate::reconciled::{consume_all, post, slow_down, started, store_copies, store_overdue};
use crate::traffic::twilio_call;

/// Requests to one provider in a minute, and the shares of endings and of the drift check.
const REQUESTS: u64 = 1_200;
const FOR_ENDINGS: u64 = REQUESTS * 80 / 100;
const FOR_DRIFT: u64 = REQUESTS * 40 / 100;
/// Requests that a run or a worker takes from the budget at once.
const GRANT: u64 = 20;

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

/// Lets a minute pass, and runs the reconciler and its workers.
async fn next_minute(world: &World) -> Report {
    world.wait(MINUTE).await;
    world.reconcile().await
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
    // Besides, a run reads one page of each shard to see that no requests are left, and a worker reads another.
    assert!(woken <= CALLS + 2 * 2 * SHARDS_DEFAULT * 100, "{woken}");
}

#[tokio::test(start_paused = true)]
async fn second_run_of_a_minute_does_not_read_the_backlog_again() {
    let world = World::stopped();
    let call = begun(&world, "p").await;
    store_copies(&world, &call, "retell:p", FOR_ENDINGS as usize + 1_600).await;
    world.wait(INACTIVITY_TIMEOUT * 3).await;
    let first = next_minute(&world).await;
    // Less than one grant may be left, because workers take and give back requests at the same time.
    assert!(first.lookups > FOR_ENDINGS - GRANT && first.lookups <= FOR_ENDINGS, "{first:?}");
    assert_eq!(first.budget_used_up, 1);
    consume_all(&world).await;
    reset_counters(&world);
    let second = world.reconcile().await;
    assert_eq!((second.lookups, second.deadlines_passed, second.budget_used_up), (0, 0, 1));
    assert!(
        second.woken > 0 && second.woken <= SHARDS_DEFAULT * 100,
        "one page of a shard, and not 1,600 calls: {second:?}"
    );
    assert!(world.requests()["GetItem"] <= SHARDS_DEFAULT * 100 + 4);
}

#[tokio::test(start_paused = true)]
async fn stuck_calls_are_counted_although_a_run_has_no_time_for_all_that_is_due() {
    let world = World::stopped();
    store_overdue(&world).await;
    while minute_of(world.now()) % 10 != 0 {
        world.wait(MINUTE).await;
    }
    slow_down(&world);
    let report = world.reconciler.run("test").await.unwrap();
    // The call and its 600 copies.
    assert_eq!((report.budget_used_up, report.stuck_dialing), (1, Some(601)), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn stuck_call_is_counted_behind_many_conversations() {
    let world = World::stopped();
    world.accept(Provider::Generic, &generic("answered", "e1", "ANSWERED", 0)).await;
    consume_all(&world).await;
    let conversation = world.call("answered").await;
    store_copies(&world, &conversation, "answered-", 600).await;
    world.wait(MINUTE).await;
    world.accept(Provider::Generic, &generic("ringing", "e2", "RINGING", 0)).await;
    consume_all(&world).await;
    world.wait(MINUTE * 11).await;
    while minute_of(world.now()) % 10 != 0 {
        world.wait(MINUTE).await;
    }
    // The conversations have been silent for longer, so they come first in their shards.
    let report = world.reconciler.run("test").await.unwrap();
    assert_eq!(report.stuck_dialing, Some(1), "{report:?}");
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

// Workers

/// A stack with one shard, in which so many attempts have been silent for so long that the reconciler ends them.
async fn overdue_in_one_shard(calls: usize) -> World {
    let index_shards = "1".parse().unwrap();
    let world = World::with_options(CloudOptions { index_shards, ..options(&all_providers()) });
    let call = begun(&world, "p").await;
    store_copies(&world, &call, "retell:p", calls - 1).await;
    world.wait(INACTIVITY_TIMEOUT * 3).await;
    world
}

/// Delays each read of a call by a second, so that a page of 100 calls takes seven.
fn slow_reads(world: &World) {
    world.set_fault_hook(|call| {
        let is_read = call.operation == "GetItem" && is_request_to(call, CALLS_TABLE);
        is_read.then_some(Fault::Delay(Duration::from_secs(1)))
    });
}

/// Number of messages of the repair queue, those in flight included.
fn handed_on(world: &World) -> usize {
    world.cloud.services().sqs().messages(REPAIR_QUEUE).unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn many_overdue_calls_of_one_shard_are_worked_by_several_invocations_within_a_minute() {
    const CALLS: usize = 650;
    let world = overdue_in_one_shard(CALLS).await;
    slow_reads(&world);
    let began = world.now();
    let first = world.cloud.reconcile().await.unwrap().unwrap();
    assert_eq!((first.woken, first.lookups, first.handed_on), (100, 100, 1), "{first:?}");
    let workers = world.repair().await;
    assert!(workers.len() > 1, "one worker cannot do this in its time: {workers:?}");
    assert!(world.now().millis_since(began) < 60_000, "the next run of the schedule would meet the workers");
    assert!(workers.iter().all(|worker| worker.failed == 0 && worker.budget_used_up == 0), "{workers:?}");
    // Each call was looked at and ended by one of them.
    let all = [first].into_iter().chain(workers);
    let sums = all.fold([0; 2], |[lookups, timeouts], one| [lookups + one.lookups, timeouts + one.timeouts]);
    assert_eq!(sums, [CALLS as u64; 2]);
    assert_eq!(handed_on(&world), 0);
}

#[tokio::test(start_paused = true)]
async fn calls_that_the_workers_of_a_minute_leave_over_are_found_by_the_next_run() {
    const CALLS: u64 = 900;
    let world = overdue_in_one_shard(CALLS as usize).await;
    let mut timeouts = 0;
    for minute in 1..=2 {
        slow_reads(&world);
        let began = world.now();
        let report = world.reconcile().await;
        assert!(world.now().millis_since(began) < 60_000);
        timeouts += report.timeouts;
        assert_eq!(report.budget_used_up, u64::from(timeouts < CALLS), "minute {minute}: {report:?}");
        world.clear_faults();
        consume_all(&world).await;
        world.wait(MINUTE).await;
    }
    assert_eq!(timeouts, CALLS);
}

#[tokio::test(start_paused = true)]
async fn shard_has_one_worker_at_a_time_and_a_killed_worker_loses_nothing() {
    const CALLS: u64 = 400;
    let world = overdue_in_one_shard(CALLS as usize).await;
    let first = world.cloud.reconcile().await.unwrap().unwrap();
    // A second run in the same minute adds no message.
    world.cloud.reconcile().await.unwrap().unwrap();
    assert_eq!((first.handed_on, handed_on(&world)), (1, 1));
    consume_all(&world).await;
    world.wait(Duration::from_secs(30)).await;
    // This worker never ends its work.
    let killed = world.take_repairs();
    assert_eq!(killed.len(), 1);
    world.wait(Duration::from_secs(30)).await;
    let second = world.cloud.reconcile().await.unwrap().unwrap();
    assert_eq!((second.timeouts, second.handed_on), (100, 1), "{second:?}");
    assert!(world.take_repairs().is_empty(), "the shard is still with the worker that was killed");
    consume_all(&world).await;
    // The message is delivered again, too late to be of use. Then the shard is free.
    world.wait(Duration::from_secs(31)).await;
    let (event, receipt) = world.take_repairs().pop().unwrap();
    let late = world.reconciler.work(event, "late").await;
    assert_eq!((late.woken, late.handed_on), (0, 0), "{late:?}");
    world.cloud.services().sqs().delete(REPAIR_QUEUE, &receipt).unwrap();
    let left: u64 = world.repair().await.iter().map(|worker| worker.timeouts).sum();
    assert_eq!(first.timeouts + second.timeouts + left, CALLS);
}

#[tokio::test(start_paused = true)]
async fn shard_with_less_than_a_page_of_due_calls_costs_no_message() {
    // DynamoDB does not tell whether more follows after a full page.
    for (calls, messages) in [(1, 0), (99, 0), (100, 1)] {
        let world = overdue_in_one_shard(calls).await;
        reset_counters(&world);
        world.cloud.reconcile().await.unwrap().unwrap();
        let sent = world.requests().get("SendMessageBatch").copied().unwrap_or_default();
        assert_eq!((sent, handed_on(&world)), (messages, messages as usize), "{calls} calls");
        consume_all(&world).await;
        drop(world.repair().await);
        // Now nothing is due.
        reset_counters(&world);
        next_minute(&world).await;
        assert!(!world.requests().contains_key("SendMessageBatch"));
        assert_eq!(handed_on(&world), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn calls_are_worked_although_the_repair_queue_fails() {
    let world = overdue_in_one_shard(150).await;
    world.inject_fault("SendMessageBatch", REPAIR_QUEUE, u64::MAX, switchhook_tests::down());
    world.cloud.reconcile().await.unwrap().unwrap_err();
    world.clear_faults();
    assert_eq!(handed_on(&world), 0);
    consume_all(&world).await;
    let second = next_minute(&world).await;
    assert_eq!((second.timeouts, second.failed), (50, 0), "the first page was worked: {second:?}");
}

#[tokio::test(start_paused = true)]
async fn requests_that_a_worker_does_not_send_are_left_to_others() {
    let world = overdue_in_one_shard(1).await;
    assert_eq!(world.cloud.reconcile().await.unwrap().unwrap().lookups, 1);
    let mut taken = 1;
    while world.inbox.take_lookups(Provider::Retell, world.now(), 1, REQUESTS as u32).await.unwrap() {
        taken += 1;
    }
    assert_eq!(taken, REQUESTS);
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
    world.cloud.fake().set_mode(Mode::Down);
    let report = world.cloud.check_drift().await.unwrap().unwrap();
    assert!(report.lookups < 30 && report.checked < 30, "a provider that keeps failing is left alone: {report:?}");
    world.cloud.fake().set_mode(Mode::Normal);
    // The provider is left alone until the next hourly check.
    next_minute(&world).await;
    assert_eq!(world.logged("drift_run").len(), 1);
    world.cloud.check_drift().await.unwrap().unwrap();
    let checked: u64 = world.logged("drift_run").iter().map(|run| run["drift_checked"].as_u64().unwrap_or(0)).sum();
    assert!(checked >= 100, "{checked} calls were looked at");
}

/// A stack with an open call at each of two providers. The second call is Twilio's.
async fn with_two_providers() -> (World, [Call; 2]) {
    let world = World::with_options(options(&all_accounts()));
    let retell = begun(&world, "p").await;
    let webhook = twilio_call(0, false).swap_remove(0);
    world.post_signed(Provider::Twilio, KEY, &webhook.query, webhook.body.as_bytes()).await;
    consume_all(&world).await;
    let (_, id) = webhook.body.split_once("&CallSid=").unwrap();
    let twilio = world.call(&format!("twilio:{}", id.split('&').next().unwrap())).await;
    (world, [retell, twilio])
}

/// Requests to a provider so far, and those among them that it did not answer.
fn asked(world: &World, provider: Provider) -> [u64; 2] {
    let lines = world.logged("provider_asked");
    let lines = lines.iter().filter(|line| line["provider"] == provider.as_str());
    lines.fold([0, 0], |[sent, failed], line| {
        let count = |name: &str| line.get(name).and_then(Value::as_u64).unwrap_or(0);
        [sent + count("provider_requests"), failed + count("provider_request_failed")]
    })
}

/// Lets each shard have its turn in the runs of the minutes.
async fn next_minutes(world: &World) {
    for _ in 0..SHARDS_DEFAULT {
        next_minute(world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn provider_that_fails_keeps_the_drift_check_from_no_call_of_another() {
    const CALLS: u64 = 300;
    let (world, [retell, twilio]) = with_two_providers().await;
    let settled_at = |ms| world.now().minus(MINUTE * 11).plus(Duration::from_millis(ms));
    for number in 0..CALLS {
        store_settled(&world, &retell, &format!("retell{number}-"), 1, settled_at(2 * number)).await;
        store_settled(&world, &twilio, &format!("twilio{number}-"), 1, settled_at(2 * number + 1)).await;
    }
    world.cloud.fake().set_mode_of(Provider::Retell, Mode::Down);
    let report = world.cloud.check_drift().await.unwrap().unwrap();
    // The call that is open was looked at too.
    assert_eq!(asked(&world, Provider::Twilio), [CALLS + 1, 0], "{report:?}");
    let failed = asked(&world, Provider::Retell);
    assert!(failed[0] == failed[1] && failed[0] < 20, "a provider that keeps failing is left alone: {failed:?}");
    // Its calls wait for the next hourly check, and are looked at then. No call of the other provider is looked at again.
    world.cloud.fake().set_mode_of(Provider::Retell, Mode::Normal);
    next_minutes(&world).await;
    assert_eq!((asked(&world, Provider::Retell), world.logged("drift_run").len()), (failed, 1));
    world.cloud.check_drift().await.unwrap().unwrap();
    // Each check looks at the open calls too.
    assert_eq!(asked(&world, Provider::Retell), [failed[0] + CALLS + 1, failed[1]]);
    assert_eq!(asked(&world, Provider::Twilio), [CALLS + 2, 0]);
    let runs = world.logged("drift_run").len();
    next_minutes(&world).await;
    assert_eq!(world.logged("drift_run").len(), runs, "a check that is done is not repeated");
}

/// The calls of the slow provider come in turns with those of the other, and all before them.
#[tokio::test(start_paused = true)]
async fn provider_that_answers_slowly_keeps_the_drift_check_from_no_call_of_another() {
    const CALLS: u64 = 300;
    for (answer_s, twilio_after) in [(2, 1), (7, 2 * CALLS)] {
        let (world, [retell, twilio]) = with_two_providers().await;
        let settled_at = |ms| world.now().minus(MINUTE * 11).plus(Duration::from_millis(ms));
        for number in 0..CALLS {
            store_settled(&world, &retell, &format!("retell{number}-"), 1, settled_at(2 * number)).await;
            let at = settled_at(2 * number + twilio_after);
            store_settled(&world, &twilio, &format!("twilio{number}-"), 1, at).await;
        }
        world.cloud.fake().set_answer_time(Provider::Retell, Duration::from_secs(answer_s));
        let report = world.cloud.check_drift().await.unwrap().unwrap();
        // The call that is open was looked at too.
        assert_eq!(asked(&world, Provider::Twilio), [CALLS + 1, 0], "{answer_s} s: {report:?}");
        for _ in 0..3 {
            next_minutes(&world).await;
        }
        let (slow, runs) = (asked(&world, Provider::Retell), world.logged("drift_run").len());
        // The calls that are asked about when the time of a worker ends are asked about again, eight in each of the four shards.
        assert!(slow[0] > CALLS && slow[0] < CALLS + 8 * (runs as u64 + 3), "{answer_s} s: {slow:?} in {runs} runs");
        next_minutes(&world).await;
        assert_eq!(world.logged("drift_run").len(), runs, "a check that is done is not repeated");
    }
}

#[tokio::test(start_paused = true)]
async fn provider_without_requests_left_keeps_the_drift_check_from_no_call_of_another() {
    const BUSY: u64 = FOR_DRIFT + 150;
    const QUIET: u64 = 50;
    let (world, [retell, twilio]) = with_two_providers().await;
    let settled_at = world.now().minus(MINUTE * 11);
    store_settled(&world, &retell, "busy", BUSY as usize, settled_at).await;
    store_settled(&world, &twilio, "quiet", QUIET as usize, settled_at.plus(Duration::from_millis(1))).await;
    reset_counters(&world);
    let first = world.cloud.check_drift().await.unwrap().unwrap();
    assert_eq!(asked(&world, Provider::Retell), [FOR_DRIFT, 0], "{first:?}");
    assert_eq!(asked(&world, Provider::Twilio), [QUIET + 1, 0], "{first:?}");
    next_minutes(&world).await;
    assert_eq!(asked(&world, Provider::Retell), [BUSY + 1, 0]);
    assert_eq!(asked(&world, Provider::Twilio), [QUIET + 1, 0]);
    let runs = world.logged("drift_run");
    let checked: u64 = runs.iter().map(|run| run["drift_checked"].as_u64().unwrap_or(0)).sum();
    assert_eq!(checked, BUSY + QUIET + 2, "{runs:?}");
    // A call is read once, and once more if its provider could not be asked then. The rest are cursors.
    assert!(world.requests()["GetItem"] < 2 * (BUSY + QUIET), "{:?}", world.requests());
    next_minutes(&world).await;
    assert_eq!(world.logged("drift_run").len(), runs.len(), "a check that is done is not repeated");
}

#[tokio::test(start_paused = true)]
async fn provider_that_fails_for_many_hours_loses_the_oldest_calls_and_no_other_provider_loses_any() {
    const HOURS: u64 = 9;
    const CALLS: u64 = 20;
    let (world, [retell, twilio]) = with_two_providers().await;
    world.cloud.check_drift().await.unwrap().unwrap();
    let before = asked(&world, Provider::Retell);
    world.cloud.fake().set_mode_of(Provider::Retell, Mode::Unauthorized);
    let mut skipped_ms = 0;
    for hour in 0..HOURS {
        store_settled(&world, &retell, &format!("retell{hour}-"), CALLS as usize, world.now()).await;
        store_settled(&world, &twilio, &format!("twilio{hour}-"), CALLS as usize, world.now()).await;
        world.wait(HOUR).await;
        skipped_ms += world.cloud.check_drift().await.unwrap().unwrap().skipped_ms;
    }
    // Each check looks at the open call too.
    assert_eq!(asked(&world, Provider::Twilio), [HOURS * CALLS + HOURS + 1, 0]);
    assert!(skipped_ms / SHARDS_DEFAULT > HOUR.as_millis() as u64, "{skipped_ms}");
    let failed = asked(&world, Provider::Retell);
    world.cloud.fake().set_mode_of(Provider::Retell, Mode::Normal);
    world.cloud.check_drift().await.unwrap().unwrap();
    let looked_at = asked(&world, Provider::Retell)[0] - failed[0];
    assert!((5 * CALLS..=6 * CALLS + 1).contains(&looked_at), "the calls of six hours, and the open one: {looked_at}");
    assert_eq!(failed[0] - failed[1], before[0] - before[1]);
}

/// Stores open calls that wake up much later.
async fn store_open(world: &World, call: &Call, name: &str, count: usize) {
    let open = Call { wake_at: Some(world.now().plus(HOUR * 20)), ..call.clone() };
    store_copies(world, &open, name, count).await;
}

#[tokio::test(start_paused = true)]
async fn open_calls_are_looked_at_in_turn_whatever_the_number_of_shards() {
    const CALLS: u64 = 1_000;
    const OPEN: u64 = 400;
    for shards in ["1", "4", "16", "99"] {
        let index_shards = shards.parse().unwrap();
        let world = World::with_options(CloudOptions { index_shards, ..options(&all_providers()) });
        let call = begun(&world, "p").await;
        store_open(&world, &call, "open", CALLS as usize).await;
        let mut checked = 0;
        for check in 1..=4 {
            reset_counters(&world);
            let report = world.cloud.check_drift().await.unwrap().unwrap();
            assert!(report.checked <= OPEN && report.lookups == report.checked, "{shards} shards: {report:?}");
            // The cursors and the budget are read too.
            let reads = world.requests()["GetItem"] - shards.parse::<u64>().unwrap();
            assert!(reads <= report.checked + 10, "{shards} shards: {reads} reads, {report:?}");
            checked += report.checked;
            assert!(check < 4 || checked > CALLS, "{shards} shards: {checked} calls are looked at in {check} checks");
            world.wait(HOUR).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn open_calls_of_a_provider_are_looked_at_while_another_fails() {
    const CALLS: u64 = 300;
    let (world, [retell, twilio]) = with_two_providers().await;
    store_open(&world, &retell, "retell", CALLS as usize).await;
    store_open(&world, &twilio, "twilio", CALLS as usize).await;
    world.cloud.fake().set_mode_of(Provider::Retell, Mode::Down);
    for _ in 0..2 {
        world.cloud.check_drift().await.unwrap().unwrap();
        world.wait(HOUR).await;
    }
    let [sent, failed] = asked(&world, Provider::Twilio);
    assert!(sent > CALLS && failed == 0, "{sent} requests for {CALLS} calls");
}
