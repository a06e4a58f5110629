//! Repair with much to do. Urgent work comes first, requests to a provider are limited, and the cost grows with the calls that are due.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use serde_dynamo::AttributeValue;
use serde_json::Value;
use switchhook_aws::inbox::minute_of;
use switchhook_aws::shards::SHARDS_DEFAULT;
use switchhook_domain::{Call, Provider};
use switchhook_local::connector::Fault;
use switchhook_local::fake::{DeliveryFaults, Mode};
use switchhook_local::{CALLS_TABLE, CloudOptions, INBOX_TABLE, REPAIR_QUEUE};
use switchhook_reconciler::Report;
use switchhook_tests::{INACTIVITY_TIMEOUT, MINUTE, World, all_providers, generic, is_request_to, options};

use crate::budget::reset_counters;
use crate::outbound::{all_accounts, call_request, create};
use crate::reconciled::{consume_all, place_outside, post, slow_down, started, store_copies, store_overdue};

/// Requests to one provider in a minute, and the share of endings.
pub(crate) const REQUESTS: u64 = 1_200;
const FOR_ENDINGS: u64 = REQUESTS * 80 / 100;
/// Requests that a run or a worker takes from the budget at once.
const GRANT: u64 = 20;

/// A call that has begun, as others placed it.
pub(crate) async fn begun(world: &World, provider_call_id: &str) -> Call {
    post(world, &started(provider_call_id, &Value::Null, world.now())).await;
    consume_all(world).await;
    world.call(&format!("retell:{provider_call_id}")).await
}

/// Lets a minute pass, and runs the reconciler and its workers.
pub(crate) async fn next_minute(world: &World) -> Report {
    world.wait(MINUTE).await;
    world.reconcile().await
}

#[tokio::test(start_paused = true)]
async fn overdue_calls_are_settled_within_minutes_and_each_is_read_once() {
    const CALLS: u64 = 2_000;
    let world = World::stopped();
    let call = begun(&world, "p").await;
    store_copies(&world, &call, "retell:p", CALLS as usize - 1).await;
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

/// Calls that others placed and that ended long ago. No webhook reported how, and nobody has looked at them since.
async fn ended_unheard(calls: usize) -> (World, Vec<String>) {
    let world = World::stopped();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let mut call_ids = Vec::new();
    for _ in 0..calls {
        let provider_call_id = place_outside(&world, "confirms");
        call_ids.push(begun(&world, &provider_call_id).await.call_id.to_string());
    }
    world.wait(INACTIVITY_TIMEOUT * 3).await;
    (world, call_ids)
}

#[tokio::test(start_paused = true)]
async fn provider_that_fails_for_a_moment_ends_no_call_that_is_first_looked_at_late() {
    const CALLS: u64 = 60;
    let (world, call_ids) = ended_unheard(CALLS as usize).await;
    world.cloud.fake().set_mode(Mode::Down);
    for minute in 1..=5 {
        let report = next_minute(&world).await;
        assert_eq!((report.timeouts, consume_all(&world).await), (0, 0), "minute {minute}: {report:?}");
    }
    world.cloud.fake().set_mode(Mode::Normal);
    let mut answered = 0;
    for _ in 0..8 {
        answered += next_minute(&world).await.lookup_events;
        consume_all(&world).await;
    }
    assert_eq!(answered, CALLS);
    for call_id in call_ids {
        assert_eq!(world.call(&call_id).await.job.as_str(), "COMPLETED", "{call_id}");
    }
}

#[tokio::test(start_paused = true)]
async fn provider_that_fails_for_a_second_timeout_keeps_no_call_open_for_longer() {
    const CALLS: u64 = 60;
    let (world, _) = ended_unheard(CALLS as usize).await;
    world.cloud.fake().set_mode(Mode::Down);
    let (first_look, mut timeouts) = (world.now(), Vec::new());
    while timeouts.len() < CALLS as usize && world.now() < first_look.plus(INACTIVITY_TIMEOUT * 3) {
        let report = next_minute(&world).await;
        let asked_for = Duration::from_millis(world.now().millis_since(first_look).unsigned_abs());
        timeouts.extend((0..report.timeouts).map(|_| asked_for));
        consume_all(&world).await;
    }
    assert_eq!(timeouts.len(), CALLS as usize);
    // The provider is asked every five minutes at last.
    let expected = INACTIVITY_TIMEOUT..INACTIVITY_TIMEOUT + MINUTE * 12;
    assert!(timeouts.iter().all(|asked_for| expected.contains(asked_for)), "{timeouts:?}");
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
async fn stuck_calls_are_counted_beside_a_row_of_a_later_version() {
    let world = World::stopped();
    for name in ["stuck", "later"] {
        world.accept(Provider::Generic, &generic(name, name, "RINGING", 0)).await;
    }
    consume_all(&world).await;
    let mut later = world.item(CALLS_TABLE, "later").await;
    later.insert("schema_version".to_owned(), AttributeValue::N("999".to_owned()));
    world.put_item(CALLS_TABLE, later).await;
    world.wait(MINUTE * 11).await;
    while minute_of(world.now()) % 10 != 0 {
        world.wait(MINUTE).await;
    }
    // The later row may be due too, which is an error.
    drop(world.reconciler.run("test").await);
    let runs = [world.logged("reconciled"), world.logged("reconcile_failed")].concat();
    assert!(runs.iter().any(|run| run["stuck_dialing"] == 1), "{runs:?}");
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
async fn provider_that_answers_slowly_keeps_no_less_urgent_call_of_another_waiting() {
    let world = World::stopped();
    for event_type in ["RINGING", "ANSWERED", "ENDED"] {
        world.accept(Provider::Generic, &generic("c", event_type, event_type, 0)).await;
    }
    let slow = begun(&world, "p").await;
    store_copies(&world, &slow, "retell:p", 300).await;
    world.cloud.fake().set_answer_time(Provider::Retell, Duration::from_secs(6));
    world.wait(INACTIVITY_TIMEOUT).await;
    assert!(world.call("c").await.settled_at.is_none(), "its outcome is awaited");
    for _ in 0..2 {
        next_minute(&world).await;
        consume_all(&world).await;
    }
    assert!(world.call("c").await.settled_at.is_some(), "300 other calls were due");
}

/// No shard has a page of due calls, so none has a worker.
#[tokio::test(start_paused = true)]
async fn slow_provider_keeps_few_calls_of_another_waiting_on_many_shards() {
    const CALLS: usize = 1_800;
    let index_shards = "32".parse().unwrap();
    let world = World::with_options(CloudOptions { index_shards, ..options(&all_providers()) });
    world.accept(Provider::Generic, &generic("ringing", "overdue", "RINGING", 0)).await;
    let slow = begun(&world, "p").await;
    store_copies(&world, &slow, "retell:p", 200).await;
    store_copies(&world, &world.call("ringing").await, "ringing-", CALLS).await;
    world.cloud.fake().set_answer_time(Provider::Retell, Duration::from_secs(5));
    world.wait(INACTIVITY_TIMEOUT * 3).await;
    for _ in 0..3 {
        next_minute(&world).await;
        consume_all(&world).await;
    }
    let mut open = 0;
    for number in 0..CALLS {
        open += usize::from(world.call(&format!("ringing-{number}")).await.settled_at.is_none());
    }
    assert_eq!(open, 0);
}

#[tokio::test(start_paused = true)]
async fn questions_about_accepted_dials_of_a_slow_provider_keep_no_doubt_of_another_waiting() {
    let index_shards = "1".parse().unwrap();
    let world = World::with_options(CloudOptions { index_shards, ..options(&all_accounts()) });
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let dial = async |provider: &str, behaviour: &str| {
        let mut request = call_request(behaviour);
        request["provider"] = provider.into();
        let call_id = create(&world, &request).await;
        world.cloud.schedule().await.unwrap().unwrap();
        world.cloud.dialer().handle(world.take_claims()).await;
        consume_all(&world).await;
        world.call(&call_id).await
    };
    let accepted = dial("retell", "confirms").await;
    assert_eq!(accepted.unreported_dials().len(), 1);
    store_copies(&world, &accepted, "accepted-", 700).await;
    let doubt = dial("vapi", "response_lost").await;
    assert_eq!(doubt.in_doubt().len(), 1);
    world.cloud.fake().set_answer_time(Provider::Retell, Duration::from_secs(5));
    world.wait(MINUTE * 5).await;
    for _ in 0..2 {
        next_minute(&world).await;
        consume_all(&world).await;
    }
    assert_eq!(world.call(doubt.call_id.as_str()).await.in_doubt().len(), 0);
}

/// The doubt takes more requests at once than it sends.
#[tokio::test(start_paused = true)]
async fn less_urgent_work_does_not_spend_the_requests_that_a_doubt_took() {
    let world = World::stopped();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let routine = begun(&world, "p").await;
    store_copies(&world, &routine, "retell:p", 30).await;
    world.wait(INACTIVITY_TIMEOUT - MINUTE * 3).await;
    let call_id = create(&world, &call_request("response_lost")).await;
    world.cloud.schedule().await.unwrap().unwrap();
    world.cloud.dialer().handle(world.take_claims()).await;
    world.wait(MINUTE * 6).await;
    // Other workers have used the share of endings in this minute.
    while world.inbox.take_lookups(Provider::Retell, world.now(), GRANT as u32, FOR_ENDINGS as u32).await.unwrap() {}
    let report = world.reconcile().await;
    consume_all(&world).await;
    assert_eq!(world.call(&call_id).await.in_doubt().len(), 0, "{report:?}");
    assert_eq!((report.doubts, report.deadlines_passed), (1, 0), "{report:?}");
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

/// The counter of an earlier minute may be gone when a worker gives requests of it back.
#[tokio::test(start_paused = true)]
async fn requests_that_are_given_back_add_nothing_to_the_budget_of_a_minute() {
    let world = World::stopped();
    let (inbox, now) = (&world.inbox, world.now());
    let give_back = async |count| inbox.return_lookups(Provider::Retell, minute_of(now), count).await.unwrap();
    let take = async |count| inbox.take_lookups(Provider::Retell, now, count, 20).await.unwrap();
    give_back(5).await;
    assert!(take(20).await);
    assert!(!take(5).await);
    give_back(5).await;
    assert!(take(5).await);
    give_back(21).await;
    assert!(!take(1).await);
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

/// Some runs take 18 s before they send their messages, and the next one a second. Then both send them in the same minute of the clock.
#[tokio::test(start_paused = true)]
async fn run_that_is_faster_than_the_one_before_has_workers_too() {
    let world = overdue_in_one_shard(650).await;
    let of_minute = world.now().as_millis().rem_euclid(60_000).unsigned_abs();
    world.wait(Duration::from_millis(60_000 - of_minute + 45_000)).await;
    let started = world.now();
    // The sweep has not run yet, so it reads many minutes.
    world.inject_fault("Query", INBOX_TABLE, u64::MAX, Fault::Delay(Duration::from_millis(500)));
    let slow = world.cloud.reconcile().await.unwrap().unwrap();
    assert_eq!((slow.handed_on, handed_on(&world)), (1, 1));
    assert!(world.now().millis_since(started) >= 15_000, "the messages were not sent in the next minute of the clock");
    world.clear_faults();
    // Its worker is done.
    for (_, receipt) in world.take_repairs() {
        world.cloud.services().sqs().delete(REPAIR_QUEUE, &receipt).unwrap();
    }
    world.wait(MINUTE - Duration::from_millis(world.now().millis_since(started).unsigned_abs())).await;
    let fast = world.cloud.reconcile().await.unwrap().unwrap();
    assert_eq!((fast.handed_on, handed_on(&world)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn shard_has_one_worker_at_a_time_and_a_killed_worker_loses_nothing() {
    const CALLS: u64 = 400;
    let world = overdue_in_one_shard(CALLS as usize).await;
    let first = world.cloud.reconcile().await.unwrap().unwrap();
    // The same run, which the schedule delivers twice, adds no message.
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
