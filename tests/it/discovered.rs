//! Discovery of calls that nobody reported: its limits, its cursor, failures in the middle of a list, and inbound calls.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::StatusCode;
use insta::assert_snapshot;
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_aws::inbox::{DiscoveryCursor, DriftCursor};
use switchhook_domain::{Call, CallId, Direction, EventId, PhoneNumber, Provider};
use switchhook_local::connector::{Fault, RequestInfo};
use switchhook_local::fake::{Behaviour, DeliveryFaults, Mode};
use switchhook_local::{CALLS_TABLE, CloudOptions, INBOX_TABLE, REPAIR_QUEUE};
use switchhook_reconciler::Report;
use switchhook_tests::{INACTIVITY_TIMEOUT, KEY, MINUTE, World, down, generic, is_request_to, options, text};

use crate::outbound::{HOUR, all_accounts, call_request, call_state, create};
use crate::reconciled::{
    consume_all, ended_without_our_ids, place_outside, post, slow_down, started, store_copies, store_overdue,
};

/// Calls of 63 pages of Retell's list. A run reads 60.
const CALLS: usize = 630;
/// Calls that a run reads.
const CALLS_OF_RUN: u64 = 600;

/// The accounts of all providers. The lists of these are read.
fn discovering_accounts(providers: &[Provider]) -> Value {
    let mut secret = all_accounts();
    for provider in providers {
        secret[provider.as_str()]["discover"] = true.into();
    }
    secret
}

/// A stack that reads the lists of these providers, and whose schedules do not run. Every webhook is lost.
fn discovering(providers: &[Provider]) -> World {
    let world = World::with_options(options(&discovering_accounts(providers)));
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    world
}

/// A stack after calls that another system placed with Retell ended. Returns it with their provider call ids.
async fn after_calls(count: usize) -> (World, Vec<String>) {
    let world = discovering(&[Provider::Retell]);
    let ids = (0..count).map(|_| place_outside(&world, "confirms")).collect();
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 5).await;
    (world, ids)
}

/// Runs the reconciler and its workers once in a minute, and folds the events that they queued. Returns the sum of their reports, and the
/// number of requests to the providers.
async fn run(world: &World) -> (Report, u64) {
    world.wait(MINUTE).await;
    let before = world.cloud.fake().requests();
    let report = world.reconcile().await;
    let requests = world.cloud.fake().requests() - before;
    assert_eq!((report.lookups, report.requests.sent), (requests, requests));
    consume_all(world).await;
    (report, requests)
}

/// Runs the reconciler and its worker once in a minute. The worker must fail, so that the alarm of failed invocations sees it.
async fn run_that_fails(world: &World) {
    world.wait(MINUTE).await;
    world.cloud.reconcile().await.unwrap().unwrap();
    let (event, receipt) = world.take_repairs().pop().unwrap();
    let error = world.reconciler.handle(json!(event), "test").await.unwrap_err();
    assert!(error.to_string().contains("list"), "{error}");
    world.cloud.services().sqs().delete(REPAIR_QUEUE, &receipt).unwrap();
}

/// Checks that each call is known, by one event.
async fn assert_known_once(world: &World, ids: &[String]) {
    for id in ids {
        let call_id = format!("retell:{id}");
        assert_eq!(call_state(world, &call_id).await, "job COMPLETED, appointment Confirmed, attempts [completed]");
        let call = world.call(&call_id).await;
        let events: BTreeSet<&EventId> = call.history.iter().map(|entry| &entry.source_event_id).collect();
        assert_eq!((events.len(), call.attempt_records.len()), (1, 1), "{call:?}");
    }
}

async fn cursor(world: &World) -> DiscoveryCursor {
    world.inbox.discovery_cursor(Provider::Retell).await.unwrap().unwrap()
}

/// True if the request stores an event of Retell.
fn is_put_of_event(call: &RequestInfo<'_>) -> bool {
    let is_put = call.operation == "PutItem" && is_request_to(call, INBOX_TABLE);
    is_put && String::from_utf8_lossy(call.body).contains("retell:call_")
}

// Limits

#[tokio::test(start_paused = true)]
async fn list_of_more_pages_than_a_run_may_read_is_continued_by_the_next_run() {
    let (world, ids) = after_calls(CALLS).await;
    let mut runs = Vec::new();
    for _ in 0..4 {
        let (report, requests) = run(&world).await;
        runs.push((requests, report.discovered));
        world.wait(MINUTE).await;
    }
    assert_eq!(runs, [(60, CALLS_OF_RUN), (3, 30), (0, 0), (0, 0)]);
    assert_known_once(&world, &ids).await;
    assert_eq!(cursor(&world).await.page, None);

    // The next period overlaps this one. Its pages cost reads, and no call is stored again.
    world.wait(HOUR).await;
    let (report, requests) = run(&world).await;
    assert_eq!((requests, report.discovered), (60, 0));
    let (report, requests) = run(&world).await;
    assert_eq!((requests, report.discovered), (3, 0));
    assert_known_once(&world, &ids).await;
}

#[tokio::test(start_paused = true)]
async fn run_asks_about_a_limited_number_of_calls_that_a_list_only_names() {
    const NAMED: usize = 250;
    let world = discovering(&[Provider::Bland]);
    for number in 0..NAMED {
        let metadata = json!({"fake": "confirms", "appointment_id": number.to_string()});
        let request = json!({"phone_number": "+447700900123", "metadata": metadata}).to_string();
        let answer = world.cloud.fake().handle("POST", "/v1/calls", Some("key"), request.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 5).await;
    let mut runs = Vec::new();
    for _ in 0..4 {
        let (report, requests) = run(&world).await;
        runs.push((requests, report.discovered));
        world.wait(MINUTE).await;
    }
    // A page of Bland's list has 100 calls, and each is asked about.
    assert_eq!(runs, [(101, 100), (101, 100), (51, 50), (0, 0)]);
    for number in 0..NAMED {
        let state = call_state(&world, &format!("appointment:{number}")).await;
        assert_eq!(state, "job COMPLETED, appointment Confirmed, attempts [completed]", "{number}");
    }
}

/// Bland has a new status, so nobody can tell how most of the calls ended.
#[tokio::test(start_paused = true)]
async fn calls_that_nobody_can_read_keep_no_call_of_a_later_page_from_being_found() {
    const UNREADABLE: usize = 100;
    let world = discovering(&[Provider::Bland]);
    let fake = world.cloud.fake();
    let place = |appointment_id: &str| {
        let metadata = json!({"fake": "confirms", "appointment_id": appointment_id});
        let request = json!({"phone_number": "+447700900123", "metadata": metadata}).to_string();
        let answer = fake.handle("POST", "/v1/calls", Some("key"), request.as_bytes());
        text(&serde_json::from_str::<Value>(&answer.body).unwrap()["call_id"])
    };
    // The list begins with the newest call.
    place("readable");
    world.wait(MINUTE).await;
    for number in 0..UNREADABLE {
        fake.change_field(&place(&number.to_string()), "status", "unheard-of");
    }
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 5).await;
    fake.set_answer_time(Provider::Bland, Duration::from_secs(1));
    let mut asked = 0;
    for _ in 0..5 {
        asked += run(&world).await.1;
    }
    let state = call_state(&world, "appointment:readable").await;
    assert_eq!(state, "job COMPLETED, appointment Confirmed, attempts [completed]", "{asked} requests");
    assert!((UNREADABLE..UNREADABLE + 20).contains(&(asked as usize)), "each call is asked about once: {asked}");
}

/// Each read of a call takes 300 ms, so a page of ten known calls takes some seconds.
#[tokio::test(start_paused = true)]
async fn long_list_of_one_provider_keeps_no_list_of_another_from_being_read() {
    let world = discovering(&[Provider::Retell, Provider::Twilio]);
    for _ in 0..300 {
        place_outside(&world, "confirms");
    }
    let twilio =
        world.cloud.fake().receive_call(Provider::Twilio, "+447700900123", "+442079460018", Behaviour::Confirms);
    world.post(Provider::Retell, "{not JSON").await;
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 5).await;
    world.set_fault_hook(|call| {
        let is_read = call.operation == "GetItem" && is_request_to(call, CALLS_TABLE);
        is_read.then_some(Fault::Delay(Duration::from_millis(300)))
    });
    let first = world.cloud.reconcile().await.unwrap().unwrap();
    assert_eq!((first.notices, first.lookups), (1, 0), "{first:?}");
    let workers = world.repair().await;
    world.clear_faults();
    consume_all(&world).await;
    let discovered: u64 = workers.iter().map(|worker| worker.discovered).sum();
    assert!(workers.len() == 2 && (10..200).contains(&discovered), "{workers:?}");
    assert_eq!(world.call(&format!("twilio:{twilio}")).await.attempt_records.len(), 1);
    assert!(cursor(&world).await.page.is_some());
}

/// Each read of a settled call takes 900 ms, so a worker has no time for all that the drift check left over.
#[tokio::test(start_paused = true)]
async fn long_drift_check_keeps_no_list_from_being_read_and_operators_are_told_of_trouble_all_the_same() {
    let index_shards = "1".parse().unwrap();
    let secret = discovering_accounts(&[Provider::Retell]);
    let world = World::with_options(CloudOptions { index_shards, ..options(&secret) });
    world.accept(Provider::Generic, &generic("c", "e", "RINGING", 0)).await;
    consume_all(&world).await;
    let settled = Call { wake_at: None, settled_at: Some(world.now()), ..world.call("c").await };
    store_copies(&world, &settled, "settled", 1_000).await;
    let mut cursor = DriftCursor::starting_at(world.now());
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let ids: Vec<String> = (0..20).map(|_| place_outside(&world, "confirms")).collect();
    world.post(Provider::Retell, "{not JSON").await;
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 5).await;
    cursor.settled.target = world.now();
    world.inbox.set_drift_cursor(0, &cursor).await.unwrap();
    world.set_fault_hook(|call| {
        let is_read = call.operation == "GetItem" && is_request_to(call, CALLS_TABLE);
        let is_settled = String::from_utf8_lossy(call.body).contains("settled");
        (is_read && is_settled).then_some(Fault::Delay(Duration::from_millis(900)))
    });
    let began = world.now();
    let report = world.reconcile().await;
    assert!(world.now().millis_since(began) < 60_000, "the next run of the schedule would meet the workers");
    world.clear_faults();
    consume_all(&world).await;
    assert_eq!((report.notices, report.discovered, report.discovery_postponed), (1, 20, 0), "{report:?}");
    assert_known_once(&world, &ids).await;
    // The first worker of the drift check has handed the rest to a second one.
    let runs = world.logged("drift_run");
    assert_eq!((runs.len(), &runs[1]["budget_used_up"]), (2, &json!(1)), "{runs:?}");
    let checked: u64 = runs.iter().map(|run| run["drift_checked"].as_u64().unwrap()).sum();
    assert!((200..1_000).contains(&checked), "{runs:?}");
}

/// There are so many calls that are due that they take all the time of a run.
#[tokio::test(start_paused = true)]
async fn list_is_read_although_a_run_has_no_time_for_all_calls_that_are_due() {
    let world = discovering(&[Provider::Retell]);
    store_overdue(&world).await;
    let ids: Vec<String> = (0..5).map(|_| place_outside(&world, "confirms")).collect();
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 5).await;
    slow_down(&world);
    let run = world.cloud.reconcile().await.unwrap().unwrap();
    assert_eq!(run.budget_used_up, 1, "{run:?}");
    world.clear_faults();
    let workers = world.repair().await;
    assert_eq!(workers.iter().map(|worker| worker.discovered).sum::<u64>(), 5, "{workers:?}");
    consume_all(&world).await;
    assert_known_once(&world, &ids).await;
}

#[tokio::test(start_paused = true)]
async fn list_for_which_no_worker_had_time_is_counted_and_read_in_the_next_minute() {
    let (world, _) = after_calls(1).await;
    let run = world.cloud.reconcile().await.unwrap().unwrap();
    assert_eq!((run.lists_handed_on, run.lookups, run.discovery_postponed), (1, 0, 0), "{run:?}");
    // All workers are busy for a minute.
    world.wait(MINUTE).await;
    let [late] = world.repair().await[..] else { panic!("there was one message") };
    assert_eq!((late.discovery_postponed, late.lookups), (1, 0), "{late:?}");
    let counted = world.logged("list_worked").into_iter().filter(|line| line["discovery_postponed"] == 1);
    assert_eq!(counted.count(), 1);
    let next = world.reconcile().await;
    assert_eq!((next.discovery_postponed, next.lookups, next.discovered), (0, 1, 1), "{next:?}");
}

/// Its first delivery failed, which has an alarm of its own.
#[tokio::test(start_paused = true)]
async fn second_delivery_of_a_list_does_not_count_as_postponed() {
    let (world, _) = after_calls(1).await;
    world.cloud.reconcile().await.unwrap().unwrap();
    let (mut event, _) = world.take_repairs().pop().unwrap();
    event.records[0].attributes.insert("ApproximateReceiveCount".to_owned(), "2".to_owned());
    world.wait(MINUTE).await;
    let report = world.reconciler.work(event, "test").await;
    assert_eq!((report.discovery_postponed, report.lookups), (0, 0), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn time_that_no_period_covers_is_reported_once() {
    let (world, _) = after_calls(1).await;
    assert_eq!(run(&world).await.0.discovery_skipped_ms, 0);
    world.wait(HOUR * 19).await;
    assert_eq!(run(&world).await.0.discovery_skipped_ms, 0);

    // Nobody reads the list for two days. Then the calls of its last 20 hours are read.
    let forgotten = place_outside(&world, "confirms");
    world.wait(HOUR * 28).await;
    let known = place_outside(&world, "confirms");
    world.wait(HOUR * 20).await;
    world.cloud.fake().set_down(true);
    assert_eq!(run(&world).await.0.discovery_skipped_ms, 0, "no period has begun");
    world.cloud.fake().set_down(false);
    let (report, _) = run(&world).await;
    assert_eq!((report.discovered, report.discovery_skipped_ms / HOUR.as_millis() as u64), (1, 28));
    let lines = world.logged("list_worked");
    let skipped: Vec<_> = lines.iter().filter(|line| line.get("discovery_skipped_ms").is_some()).collect();
    assert_eq!(skipped.len(), 1, "{skipped:?}");
    world.wait(HOUR).await;
    assert_eq!(run(&world).await.0.discovery_skipped_ms, 0);
    assert_known_once(&world, &[known]).await;
    assert!(world.calls.get_call(&CallId::new(format!("retell:{forgotten}"))).await.unwrap().is_none());
}

// Failures in the middle

#[tokio::test(start_paused = true)]
async fn page_that_cannot_be_read_is_read_by_a_later_run() {
    let (world, ids) = after_calls(CALLS).await;
    let fake = world.cloud.fake();
    // The first page fails, so no period has begun.
    fake.set_down(true);
    let (report, requests) = run(&world).await;
    assert_eq!((requests, report.discovered, report.requests.failed), (1, 0, 1));
    assert_eq!(world.logged("not_discovered").len(), 1);
    assert_eq!(world.inbox.discovery_cursor(Provider::Retell).await.unwrap(), None);
    fake.set_down(false);
    world.wait(MINUTE).await;
    assert_eq!(run(&world).await.0.discovered, CALLS_OF_RUN);

    // The 61st page fails for two hours, and the cursor stays at it.
    fake.set_down(true);
    let before = cursor(&world).await;
    assert!(before.page.is_some());
    for _ in 0..2 {
        world.wait(HOUR).await;
        let (report, requests) = run(&world).await;
        assert_eq!((requests, report.discovered, report.requests.failed), (1, 0, 1));
        assert_eq!(cursor(&world).await.page, before.page);
    }
    fake.set_down(false);
    assert_eq!(run(&world).await.0.discovered, 30);
    assert_known_once(&world, &ids).await;
    let after = cursor(&world).await;
    assert_eq!((after.from, after.until, after.page), (before.from, before.until, None));
}

#[tokio::test(start_paused = true)]
async fn run_that_fails_in_the_middle_of_a_page_loses_no_call_of_it() {
    let (world, ids) = after_calls(25).await;
    // Five calls of the second page are stored.
    let stored = AtomicUsize::new(0);
    world
        .set_fault_hook(move |call| (is_put_of_event(call) && stored.fetch_add(1, Ordering::Relaxed) >= 15).then(down));
    let page = async || world.inbox.discovery_cursor(Provider::Retell).await.unwrap().map(|cursor| cursor.page);
    run_that_fails(&world).await;
    let second_page = page().await;
    assert!(matches!(second_page, Some(Some(_))), "{second_page:?}");
    world.clear_faults();
    // The events that were stored are queued.
    assert_eq!(consume_all(&world).await, 15);
    let (report, requests) = run(&world).await;
    assert_eq!((requests, report.discovered), (2, 10));
    assert_eq!(page().await, Some(None));
    assert_known_once(&world, &ids).await;
}

/// A later version wrote the row of one call, and the stored event of another one.
#[tokio::test(start_paused = true)]
async fn call_that_cannot_be_read_keeps_no_call_behind_it_from_being_found() {
    let (world, ids) = after_calls(25).await;
    let (row, event_id) = (format!("retell:{}", ids[0]), post(&world, &ended_without_our_ids(&world, &ids[1])).await);
    post(&world, &started(&ids[0], &Value::Null, world.now())).await;
    consume_all(&world).await;
    world.delete_item(CALLS_TABLE, &format!("retell:{}", ids[1])).await;
    for (table, key) in [(CALLS_TABLE, row.as_str()), (INBOX_TABLE, event_id.as_str())] {
        let mut later = world.item(table, key).await;
        later.insert("schema_version".to_owned(), AttributeValue::N("999".to_owned()));
        world.put_item(table, later).await;
    }
    assert_eq!(run(&world).await.0.discovered, 23);
    assert_known_once(&world, &ids[2..]).await;
    assert_eq!(world.logged("not_requeued").len(), 1);
}

/// A page of Telnyx' list has all webhooks of a call. Each in turn cannot be stored.
#[tokio::test(start_paused = true)]
async fn call_whose_events_are_stored_in_part_gets_its_answer_and_its_ending() {
    for failing in ["call.answered", "call.initiated", "call.hangup"] {
        let world = discovering(&[Provider::Telnyx]);
        let id =
            world.cloud.fake().receive_call(Provider::Telnyx, "+447700900123", "+442079460018", Behaviour::Confirms);
        world.wait(INACTIVITY_TIMEOUT + MINUTE * 5).await;
        world.set_fault_hook(move |call| {
            let has_type = String::from_utf8_lossy(call.body).contains(&format!("\"{failing}\""));
            (call.operation == "PutItem" && is_request_to(call, INBOX_TABLE) && has_type).then(down)
        });
        run_that_fails(&world).await;
        world.clear_faults();
        consume_all(&world).await;
        for _ in 0..4 {
            world.wait(INACTIVITY_TIMEOUT + MINUTE).await;
            run(&world).await;
        }
        let state = call_state(&world, &format!("telnyx:{id}")).await;
        assert_eq!(state, "job COMPLETED, appointment Connected, attempts [completed]", "{failing}");
    }
}

#[tokio::test(start_paused = true)]
async fn known_call_is_read_once_for_all_of_its_events() {
    let world = discovering(&[Provider::Telnyx]);
    let fake = world.cloud.fake();
    let id = fake.receive_call(Provider::Telnyx, "+447700900123", "+442079460018", Behaviour::Voicemail);
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 5).await;
    assert_eq!(run(&world).await.0.discovered, 1);
    let call = world.call(&format!("telnyx:{id}")).await;
    let events: BTreeSet<&EventId> = call.history.iter().map(|entry| &entry.source_event_id).collect();
    assert_eq!(events.len(), 3, "{call:?}");

    world.wait(HOUR + MINUTE).await;
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    world.set_fault_hook(move |call| {
        let is_read = call.operation == "GetItem" && String::from_utf8_lossy(call.body).contains(&id);
        counted.fetch_add(usize::from(is_read), Ordering::Relaxed);
        None
    });
    assert_eq!(run(&world).await.0.discovered, 0);
    // If each of the three events asked, it would be more.
    assert_eq!(reads.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn next_page_that_stays_unreadable_keeps_no_later_call_from_being_found() {
    let (world, ids) = after_calls(CALLS).await;
    let fake = world.cloud.fake();
    assert_eq!(run(&world).await.0.discovered, CALLS_OF_RUN);
    let before = cursor(&world).await;
    // The provider does not answer, and later answers with an error.
    fake.set_mode(Mode::Unresponsive);
    let (report, requests) = run(&world).await;
    assert_eq!((requests, report.requests.failed, world.logged("not_discovered").len()), (1, 1, 1));
    fake.set_down(true);
    world.wait(HOUR * 3 - MINUTE * 2).await;
    assert_eq!(run(&world).await.1, 1);
    assert_eq!(cursor(&world).await.page, before.page, "the page may be read later");
    world.wait(MINUTE).await;
    assert_eq!(run(&world).await.1, 1);
    let given_up = cursor(&world).await;
    assert_eq!((given_up.from, given_up.until, given_up.page), (before.from, before.until, None));
    assert!(world.logged("list_worked").iter().all(|line| line.get("discovery_skipped_ms").is_none()));

    // The next period begins so early that it has the calls of the page.
    fake.set_down(false);
    let later = place_outside(&world, "confirms");
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 5).await;
    let mut discovered = Vec::new();
    for _ in 0..3 {
        let (report, requests) = run(&world).await;
        discovered.push((requests, report.discovered));
    }
    assert_eq!(discovered, [(60, 0), (4, 31), (0, 0)]);
    assert_eq!(cursor(&world).await.from, before.until.minus(HOUR * 3));
    assert_known_once(&world, &ids).await;
    assert_known_once(&world, &[later]).await;
}

#[tokio::test(start_paused = true)]
async fn rest_of_a_long_period_that_is_given_up_is_reported_as_left_out() {
    let (world, _) = after_calls(1).await;
    assert_eq!(run(&world).await.0.discovered, 1);
    // Nobody reads the list for fifteen hours. Its next pages cannot be read at all.
    let before = cursor(&world).await;
    for _ in 0..CALLS {
        place_outside(&world, "confirms");
    }
    world.wait(HOUR * 15).await;
    let (report, _) = run(&world).await;
    assert!(report.discovery_skipped_ms == 0 && cursor(&world).await.page.is_some(), "{report:?}");
    world.cloud.fake().set_down(true);
    assert_eq!(run(&world).await.0.discovery_skipped_ms, 0, "the page may be read later");
    world.wait(HOUR * 3 + MINUTE).await;
    let report = run(&world).await.0;
    let given_up = cursor(&world).await;
    assert_eq!((given_up.from, given_up.page.as_ref()), (before.until.minus(HOUR * 3), None));
    // The next period begins three hours before the end of this one.
    let skipped_ms = given_up.until.millis_since(given_up.from) - HOUR.as_millis() as i64 * 3;
    assert_eq!((report.discovery_skipped_ms as i64, skipped_ms / HOUR.as_millis() as i64), (skipped_ms, 15));
    assert_eq!(run(&world).await.0.discovery_skipped_ms, 0, "it is reported once");
}

/// A period may have so many pages that the last ones are read hours after its end.
#[tokio::test(start_paused = true)]
async fn page_of_an_old_period_is_not_given_up_when_it_fails_once() {
    let (world, ids) = after_calls(CALLS).await;
    let fake = world.cloud.fake();
    assert_eq!(run(&world).await.0.discovered, CALLS_OF_RUN);
    let before = cursor(&world).await;
    world.wait(HOUR * 4).await;
    fake.set_down(true);
    assert_eq!(run(&world).await.1, 1);
    assert_eq!(cursor(&world).await.page, before.page);
    assert!(cursor(&world).await.unreadable_since.is_some());
    fake.set_down(false);
    world.wait(MINUTE).await;
    // The page is read, and its calls cannot be stored. That is no failure of the page.
    world.set_fault_hook(|call| is_put_of_event(call).then(down));
    run_that_fails(&world).await;
    world.clear_faults();
    assert_eq!((cursor(&world).await.page, cursor(&world).await.unreadable_since), (before.page, None));
    let (report, requests) = run(&world).await;
    assert_eq!((requests, report.discovered), (3, 30));
    assert_known_once(&world, &ids).await;
    assert_eq!(cursor(&world).await.unreadable_since, None);
}

// Inbound calls

#[tokio::test(start_paused = true)]
async fn inbound_calls_that_nobody_reported_are_discovered_once() {
    const PROVIDERS: [Provider; 4] = [Provider::Retell, Provider::Twilio, Provider::Vapi, Provider::Telnyx];
    let (caller, ours) = ("+447700900123", "+442079460018");
    let world = discovering(&PROVIDERS);
    let fake = world.cloud.fake();
    let behaviours = [Behaviour::Confirms, Behaviour::NoAnswer, Behaviour::Busy, Behaviour::Fails];
    let mut calls: BTreeMap<String, (Provider, Behaviour)> = BTreeMap::new();
    for provider in PROVIDERS {
        for behaviour in behaviours {
            let id = fake.receive_call(provider, caller, ours, behaviour);
            calls.insert(format!("{provider}:{id}"), (provider, behaviour));
        }
    }
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 5).await;
    run(&world).await;
    // Nothing is stored again while the periods overlap.
    for _ in 0..4 {
        world.wait(HOUR + MINUTE).await;
        assert_eq!(run(&world).await.0.discovered, 0);
    }
    let mut states: BTreeMap<(Provider, Behaviour), String> = BTreeMap::new();
    for (call_id, course) in &calls {
        let Some(call) = world.load(call_id).await else {
            // Retell lists no call that nobody answered.
            assert_eq!(course.0, Provider::Retell);
            assert_ne!(course.1, Behaviour::Confirms);
            continue;
        };
        assert_eq!(call.direction, Some(Direction::Inbound), "{call_id}");
        assert_eq!(call.from.as_ref().map(PhoneNumber::as_str), Some(caller), "{call_id}");
        assert_eq!(call.to.as_ref().map(PhoneNumber::as_str), Some(ours), "{call_id}");
        states.insert(*course, call_state(&world, call_id).await);
    }
    let lines =
        states.iter().map(|((provider, behaviour), state)| format!("{provider} {}: {state}", behaviour.as_str()));
    assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r"
    retell confirms: job COMPLETED, appointment Confirmed, attempts [completed]
    twilio confirms: job COMPLETED, appointment Connected, attempts [completed]
    twilio busy: job MISSED, appointment NoAnswer, attempts [busy]
    twilio no_answer: job MISSED, appointment NoAnswer, attempts [no_answer]
    twilio fails: job MISSED, appointment NoAnswer, attempts [failed]
    vapi confirms: job COMPLETED, appointment Confirmed, attempts [completed]
    vapi busy: job MISSED, appointment NoAnswer, attempts [busy]
    vapi no_answer: job MISSED, appointment NoAnswer, attempts [no_answer]
    vapi fails: job MISSED, appointment NoAnswer, attempts [failed]
    telnyx confirms: job COMPLETED, appointment Connected, attempts [completed]
    telnyx busy: job MISSED, appointment NoAnswer, attempts [busy]
    telnyx no_answer: job MISSED, appointment NoAnswer, attempts [no_answer]
    telnyx fails: job MISSED, appointment NoAnswer, attempts [failed]
    ");
    for (call_id, course) in calls.iter().filter(|(_, course)| states.contains_key(course)) {
        let call = world.call(call_id).await;
        let events: BTreeSet<&EventId> = call
            .history
            .iter()
            .map(|entry| &entry.source_event_id)
            .filter(|id| !id.as_str().starts_with("switchhook:"))
            .collect();
        // The list of Telnyx has all webhooks of a call. The others have one record of it.
        let expected = match course {
            (Provider::Telnyx, Behaviour::Confirms) => 3,
            (Provider::Telnyx, _) => 2,
            (_, _) => 1,
        };
        assert_eq!((events.len(), call.attempt_records.len()), (expected, 1), "{course:?} {call:?}");
    }
}

/// The callbacks of these providers have our ids in their query, and their lists have none.
#[tokio::test(start_paused = true)]
async fn call_that_a_callback_reported_under_our_ids_is_not_discovered() {
    for provider in [Provider::Twilio, Provider::SignalWire] {
        let world = discovering(&[provider]);
        let receive = |from| world.cloud.fake().receive_call(provider, from, "+442079460018", Behaviour::Confirms);
        let (reported, unreported) = (receive("+447700900123"), receive("+447700900124"));
        let body = format!(
            "CallSid={reported}&CallStatus=completed&CallbackSource=call-progress-events&SequenceNumber=1&Direction=outbound-api"
        );
        let (status, answer) = world.post_signed(provider, KEY, "appointment_id=apt_1", body.as_bytes()).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        consume_all(&world).await;
        world.wait(INACTIVITY_TIMEOUT + MINUTE * 5).await;
        run(&world).await;
        assert!(world.load(&format!("{provider}:{unreported}")).await.is_some());
        assert!(world.load(&format!("{provider}:{reported}")).await.is_none());
        assert_eq!(world.call("appointment:apt_1").await.attempt_records.len(), 1);
    }
}

// Values that Switchhook does not know

/// The log lines of the reconciler about unknown values. Each has the action, the field and the call.
fn unknown_values(world: &World) -> Vec<(String, String, String)> {
    let lines = ["asked_again_later", "read_without_it"].into_iter().flat_map(|action| world.logged(action));
    let lines = lines.filter(|line| line["function"] == "reconciler" && line["unknown_value"] == 1);
    lines.map(|line| (text(&line["action_taken"]), text(&line["unknown_field"]), text(&line["call_id"]))).collect()
}

fn noted(action_taken: &str, field: &str, call_id: &str) -> (String, String, String) {
    (action_taken.to_owned(), field.to_owned(), call_id.to_owned())
}

#[tokio::test(start_paused = true)]
async fn unknown_values_of_a_list_are_counted_and_no_call_is_lost() {
    let (world, ids) = after_calls(3).await;
    let fake = world.cloud.fake();
    fake.change_field(&ids[0], "call_status", "paused");
    fake.change_field(&ids[1], "disconnection_reason", "new_reason");
    assert_eq!(run(&world).await.0.discovered, 2);
    let known = format!("retell:{}", ids[1]);
    assert_eq!(
        unknown_values(&world),
        [noted("asked_again_later", "call_status", ""), noted("read_without_it", "disconnection_reason", &known)]
    );
    assert_known_once(&world, &ids[1..]).await;
    assert!(world.load(&format!("retell:{}", ids[0])).await.is_none());

    // The next period has the call again. The other one is known, and is not counted again.
    fake.change_field(&ids[0], "call_status", "ended");
    world.wait(HOUR + MINUTE).await;
    assert_eq!(run(&world).await.0.discovered, 1);
    assert_eq!(unknown_values(&world).len(), 2);
    assert_known_once(&world, &ids).await;
}

#[tokio::test(start_paused = true)]
async fn unknown_values_of_a_lookup_are_counted_and_the_call_ends_all_the_same() {
    let world = World::new();
    let fake = world.cloud.fake();
    fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE * 3).await;
    let id = fake.dials()[0].provider_call_id.clone();
    fake.change_field(&id, "call_status", "paused");
    world.wait(INACTIVITY_TIMEOUT).await;
    let asked = noted("asked_again_later", "call_status", &call_id);
    let before = unknown_values(&world);
    assert!(!before.is_empty() && before.iter().all(|line| *line == asked), "{before:?}");
    assert_snapshot!(call_state(&world, &call_id).await, @"job IN_PROGRESS, appointment Dialing, attempts [initiated]");

    fake.change_field(&id, "call_status", "ended");
    fake.change_field(&id, "disconnection_reason", "new_reason");
    world.wait(INACTIVITY_TIMEOUT).await;
    let after = unknown_values(&world);
    assert!(after.contains(&noted("read_without_it", "disconnection_reason", &call_id)), "{after:?}");
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
}

/// Each account has a list, a cursor and a kind of repair work of its own.
#[tokio::test(start_paused = true)]
async fn list_of_a_further_account_is_read_beside_that_of_its_vendor() {
    let account: Provider = "retell-eu".parse().unwrap();
    let mut secret = discovering_accounts(&[Provider::Retell]);
    secret[account.as_str()] = secret["retell"].clone();
    let world = World::with_options(options(&secret));
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let vendors = place_outside(&world, "confirms");
    let request = json!({"from_number": "+15550100", "to_number": "+15550198", "metadata": {"fake": "confirms"}});
    let path = format!("/accounts/{account}/v2/create-phone-call");
    let answer = world.cloud.fake().handle("POST", &path, Some("Bearer key"), request.to_string().as_bytes());
    let accounts = text(&serde_json::from_str::<Value>(&answer.body).unwrap()["call_id"]);
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 5).await;
    assert_eq!(run(&world).await.0.discovered, 2);
    for call_id in [format!("retell:{vendors}"), format!("{account}:{accounts}")] {
        assert_eq!(
            call_state(&world, &call_id).await,
            "job COMPLETED, appointment Confirmed, attempts [completed]",
            "{call_id}"
        );
    }
    assert!(world.load(&format!("retell:{accounts}")).await.is_none());
    assert!(world.inbox.discovery_cursor(account).await.unwrap().is_some());
}
