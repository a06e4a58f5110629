//! Rows of calls are lost.

use std::time::Duration;

use http::StatusCode;
use insta::assert_snapshot;
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_aws::inbox::creation_id;
use switchhook_domain::{CallId, DIALS_RETENTION_MIN, Provider, StopReason};
use switchhook_local::connector::Fault;
use switchhook_local::fake::DeliveryFaults;
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_operate::plan::{Action, CallSummary};
use switchhook_operate::verify::{VerifyFilter, plan_repair, verify};
use switchhook_tests::{MINUTE, World, down, generic, is_request_to, text};
use tokio::time::Instant;

use super::{MAX, carry_out, dials, expire, found, keys, repair, ringing, stack, verified};
use crate::bookings::{self, HOUR_S};
use crate::outbound::{HOUR, call_request, call_state, create, get_call, send};

/// Folds the events of a call that another system made, in which the person has confirmed. The call of ours is not dialled then.
async fn confirm(world: &World, call_id: &str) {
    for (type_, second) in [("RINGING", 1), ("ANSWERED", 3), ("USER_CONFIRMED", 20), ("ENDED", 60)] {
        world.accept(Provider::Generic, &generic(call_id, type_, type_, second)).await;
    }
    world.wait(MINUTE * 8).await;
    assert_eq!((world.call(call_id).await.job.as_str(), dials(world).len()), ("COMPLETED", 0));
}

/// Creates a call with an idempotency key. Returns the status code and the id.
async fn create_with_key(world: &World, request: &Value) -> (StatusCode, String) {
    let (code, answer) = send(world, "POST", "/calls", Some("order-7"), request).await;
    (code, answer["call_id"].as_str().unwrap_or_default().to_owned())
}

async fn cancel(world: &World, call_id: &str) -> StatusCode {
    send(world, "POST", &format!("/call/cancel?id={call_id}"), None, &Value::Null).await.0
}

#[tokio::test(start_paused = true)]
async fn row_of_a_call_that_was_never_dialled_is_rebuilt_with_its_plan() {
    let world = World::new();
    let began = world.now();
    let mut request = call_request("busy,confirms");
    request["due_at"] = json!("2026-01-01T02:00:00Z");
    let call_id = create(&world, &request).await;
    let before = world.call(&call_id).await;
    world.wait(MINUTE * 5).await;
    world.delete_item(CALLS_TABLE, &call_id).await;
    let stack = stack(&world);
    let report = verified(&stack, began).await;
    assert_eq!(found(&report), "lost: 0 events, placed: true");
    let plan = plan_repair(&stack, &VerifyFilter::Since, &report, MAX).await.unwrap();
    // The plan counts a phone that will ring, and the operator must allow it.
    assert_eq!((plan.items.len(), plan.items[0].action, plan.phones), (1, Action::Rebuild, 1));
    carry_out(&stack, &plan).await;
    let after = world.call(&call_id).await;
    assert!(after.has_same_state(&before), "{after:?}\n{before:?}");
    assert_eq!(after.plan, before.plan);
    world.wait(MINUTE * 150).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [busy, completed]");
    assert_eq!(dials(&world)[&call_id], 2);
}

#[tokio::test(start_paused = true)]
async fn row_that_is_lost_during_a_dial_comes_back_with_its_plan_and_its_dial() {
    let world = World::new();
    let began = world.now();
    let call_id = create(&world, &call_request("busy,no_answer,confirms")).await;
    world.wait(Duration::from_secs(3)).await;
    assert_eq!(dials(&world)[&call_id], 1);
    world.delete_item(CALLS_TABLE, &call_id).await;
    // The webhooks of the dial make a row without a plan. Nothing would dial the call again.
    world.wait(MINUTE * 5).await;
    let call = world.call(&call_id).await;
    assert_eq!((call.plan.is_none(), call.job.as_str()), (true, "FAILED"));
    let stack = stack(&world);
    let report = found(&verified(&stack, began).await);
    assert!(report.starts_with("differs: forgotten_plan forgotten_dial"), "{report}");
    repair(&stack, began).await;
    world.wait(HOUR).await;
    assert_snapshot!(
        call_state(&world, &call_id).await,
        @"job COMPLETED, appointment Confirmed, attempts [busy, no_answer, completed]"
    );
    assert_eq!(dials(&world)[&call_id], 3);
    assert_eq!(found(&verified(&stack, began).await), "");
}

#[tokio::test(start_paused = true)]
async fn row_that_is_lost_after_the_call_is_rebuilt_and_dials_nobody() {
    let world = World::new();
    let began = world.now();
    let call_id = create(&world, &call_request("no_answer,voicemail")).await;
    world.wait(MINUTE * 30).await;
    let before = world.call(&call_id).await;
    world.delete_item(CALLS_TABLE, &call_id).await;
    let stack = stack(&world);
    repair(&stack, began).await;
    world.quiesce().await;
    let after = world.call(&call_id).await;
    assert_eq!((CallSummary::new(&after), &after.plan), (CallSummary::new(&before), &before.plan));
    world.wait(HOUR).await;
    assert_eq!(dials(&world)[&call_id], 2);
    assert_eq!(found(&verified(&stack, began).await), "");
}

/// `InboxRetentionDays` was lowered after the call was created, so the inbox forgets the dial first.
#[tokio::test(start_paused = true)]
async fn call_whose_dial_the_inbox_may_have_forgotten_is_not_dialled_again() {
    let mut world = World::new();
    let call_id = create(&world, &call_request("confirms")).await;
    let creation = creation_id(&CallId::new(call_id.as_str()));
    let mut item = world.item(INBOX_TABLE, creation.as_str()).await;
    let end = world.now().plus(Duration::from_secs(400 * 24 * 60 * 60)).as_millis() / 1_000;
    item.insert("expires_at".to_owned(), AttributeValue::N(end.to_string()));
    world.put_item(INBOX_TABLE, item).await;
    world.wait(HOUR).await;
    assert_eq!((world.call(&call_id).await.job.as_str(), dials(&world)[&call_id]), ("COMPLETED", 1));
    world.stop();
    world.wait(DIALS_RETENTION_MIN).await;
    expire(&world, INBOX_TABLE).await;
    world.delete_item(CALLS_TABLE, &call_id).await;
    let (stack, filter) = (stack(&world), VerifyFilter::Calls(vec![CallId::new(call_id.as_str())]));
    let report = verify(&stack, &filter, world.now().minus(HOUR), &mut |_, _| {}).await.unwrap();
    assert_eq!(found(&report), "lost: 0 events, placed: true");
    let plan = plan_repair(&stack, &filter, &report, MAX).await.unwrap();
    assert_eq!((plan.items[0].action, plan.phones), (Action::Rebuild, 0));
    carry_out(&stack, &plan).await;
    let call = world.call(&call_id).await;
    assert_eq!((call.job.as_str(), call.stop_reason), ("FAILED", Some(StopReason::DialsUnknown)));
}

/// The person has confirmed in a call of another system. The run is killed after it has made the row, which is due, and before it queues the events.
#[tokio::test(start_paused = true)]
async fn rebuilt_call_is_not_dialled_before_its_events_are_folded() {
    let world = World::new();
    let began = world.now();
    let mut request = call_request("confirms");
    request["due_at"] = json!("2026-01-01T00:10:00Z");
    let call_id = create(&world, &request).await;
    for (type_, second) in [("RINGING", 1), ("ANSWERED", 3), ("USER_CONFIRMED", 20), ("ENDED", 60)] {
        world.accept(Provider::Generic, &generic(&call_id, type_, type_, second)).await;
    }
    world.wait(MINUTE * 15).await;
    assert_eq!((world.call(&call_id).await.job.as_str(), dials(&world).len()), ("COMPLETED", 0));
    world.delete_item(CALLS_TABLE, &call_id).await;
    let stack = stack(&world);
    let report = verified(&stack, began).await;
    let plan = plan_repair(&stack, &VerifyFilter::Since, &report, MAX).await.unwrap();
    assert_eq!((plan.items.len(), plan.phones), (5, 0));
    world.set_fault_hook(|call| {
        let is_killed = call.operation == "SendMessageBatch" && call.sender == Some("operator");
        assert!(!is_killed, "the run is killed here, as the test demands");
        None
    });
    let (killed_stack, killed_plan) = (stack.clone(), plan.clone());
    let killed = tokio::spawn(async move { carry_out(&killed_stack, &killed_plan).await }).await;
    assert!(killed.is_err());
    world.clear_faults();
    world.wait(HOUR).await;
    let call = world.call(&call_id).await;
    assert!(call.plan.is_some() && call.history.is_empty(), "{call:?}");
    assert_eq!(dials(&world).len(), 0);
    repair(&stack, began).await;
    world.wait(HOUR).await;
    assert_eq!((world.call(&call_id).await.job.as_str(), dials(&world).len()), ("COMPLETED", 0));
    assert_eq!(found(&verified(&stack, began).await), "");
}

/// Nobody repairs anything. The call is due two minutes after its row has come back.
#[tokio::test(start_paused = true)]
async fn call_that_a_repeated_request_brings_back_is_not_dialled_before_its_events_are_folded() {
    let world = World::new();
    let began = world.now();
    let mut request = call_request("confirms");
    request["due_at"] = json!("2026-01-01T00:10:00Z");
    let (_, call_id) = create_with_key(&world, &request).await;
    confirm(&world, &call_id).await;
    world.delete_item(CALLS_TABLE, &call_id).await;
    assert_eq!(create_with_key(&world, &request).await, (StatusCode::OK, call_id.clone()));
    assert_eq!(world.call(&call_id).await.job.as_str(), "PENDING");
    world.wait(HOUR).await;
    assert_eq!((world.call(&call_id).await.job.as_str(), dials(&world).len()), ("COMPLETED", 0));
    assert_eq!(found(&verified(&stack(&world), began).await), "");
}

/// The index has too many minutes since the creation to find the events of the call at once.
#[tokio::test(start_paused = true)]
async fn row_of_an_old_call_comes_back_by_a_repair_only() {
    let world = World::new();
    let began = world.now();
    let mut request = call_request("confirms");
    request["due_at"] = json!("2026-01-01T12:00:00Z");
    let (_, call_id) = create_with_key(&world, &request).await;
    confirm(&world, &call_id).await;
    world.wait(HOUR * 11).await;
    world.delete_item(CALLS_TABLE, &call_id).await;
    let (code, problem) = send(&world, "POST", "/calls", Some("order-7"), &request).await;
    let detail = problem["detail"].as_str().unwrap();
    assert!(code == StatusCode::INTERNAL_SERVER_ERROR && detail.contains("switchhook verify --repair"), "{problem}");
    let causes: Vec<String> = world.logged("storage_failure").iter().map(|line| line["error"].to_string()).collect();
    let names_both = |cause: &String| cause.contains("never written") && cause.contains("switchhook verify --repair");
    assert!(causes.iter().any(names_both), "{causes:?}");
    world.wait(HOUR * 2).await;
    assert_eq!(dials(&world).len(), 0);
    repair(&stack(&world), began).await;
    world.wait(MINUTE * 10).await;
    assert_eq!((world.call(&call_id).await.job.as_str(), dials(&world).len()), ("COMPLETED", 0));
    assert_eq!(create_with_key(&world, &request).await, (StatusCode::OK, call_id));
}

/// The booking is moved and moved back, so its event rebuilds the row.
#[tokio::test(start_paused = true)]
async fn call_that_a_booking_brings_back_is_not_dialled_before_its_events_are_folded() {
    let world = World::with_secret(&bookings::secret());
    // The call is due ten minutes after the start of the test.
    let starts = HOUR_S + 10 * 60;
    bookings::receive(&world, &[bookings::created("b1", 0, starts)]).await;
    let call_id = bookings::call_id(&world, "b1").await.unwrap();
    confirm(&world, &call_id).await;
    world.delete_item(CALLS_TABLE, &call_id).await;
    let moved = |second, starts| bookings::calcom("BOOKING_RESCHEDULED", "b1", second, starts);
    bookings::receive(&world, &[moved(30, starts + HOUR_S), moved(40, starts)]).await;
    assert_eq!(bookings::call_id(&world, "b1").await.as_ref(), Some(&call_id));
    assert_eq!(world.call(&call_id).await.job.as_str(), "PENDING");
    world.wait(HOUR).await;
    assert_eq!((world.call(&call_id).await.job.as_str(), dials(&world).len()), ("COMPLETED", 0));
}

#[tokio::test(start_paused = true)]
async fn call_whose_row_is_lost_can_be_canceled() {
    let world = World::new();
    let mut request = call_request("confirms");
    request["due_at"] = json!("2026-01-01T01:00:00Z");
    let (_, call_id) = create_with_key(&world, &request).await;
    world.wait(MINUTE).await;
    world.delete_item(CALLS_TABLE, &call_id).await;
    assert_eq!(cancel(&world, &call_id).await, StatusCode::OK);
    // The row is lost again, and the request is repeated.
    world.delete_item(CALLS_TABLE, &call_id).await;
    assert_eq!(create_with_key(&world, &request).await, (StatusCode::OK, call_id.clone()));
    world.wait(HOUR * 2).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job CANCELED, appointment Canceled, attempts []");
    assert_eq!(dials(&world).len(), 0);
    for unknown in ["call-unknown", &"0".repeat(2_048)] {
        assert_eq!(cancel(&world, unknown).await, StatusCode::NOT_FOUND, "{} bytes", unknown.len());
    }
}

/// An attempt may be under way. It goes on, and no further one follows.
#[tokio::test(start_paused = true)]
async fn dialled_call_whose_row_is_lost_can_be_canceled() {
    let in_an_hour = Some("2026-01-01T01:00:00Z");
    for (behaviour, due_at, lost_after, other_system, end) in [
        ("no_answer,no_answer", None, MINUTE * 30, false, ("CANCELED", 2)),
        ("no_answer,confirms", None, Duration::from_secs(3), false, ("CANCELED", 1)),
        ("confirms", in_an_hour, MINUTE, true, ("CANCELED", 0)),
    ] {
        let world = World::new();
        let mut request = call_request(behaviour);
        request["retry"] = json!({"attempts_max": 2, "delay_seconds": 60, "delay_max_seconds": 60});
        if let Some(due_at) = due_at {
            request["due_at"] = json!(due_at);
        }
        let call_id = create(&world, &request).await;
        world.wait(lost_after).await;
        if other_system {
            lose_plan(&world, &call_id, "RINGING").await;
        } else {
            world.delete_item(CALLS_TABLE, &call_id).await;
        }
        assert_eq!(cancel(&world, &call_id).await, StatusCode::ACCEPTED, "{behaviour}");
        assert!(world.call(&call_id).await.plan.is_some(), "{behaviour}");
        if other_system {
            world.accept(Provider::Generic, &generic(&call_id, "ended", "NO_ANSWER", 120)).await;
        }
        world.wait(HOUR * 2).await;
        let call = world.call(&call_id).await;
        let records = world.inbox.dial_records(&CallId::new(call_id.as_str())).await.unwrap();
        let reason = Some(StopReason::CanceledByUser);
        assert_eq!((call.stop_reason, records.canceled), (reason, reason), "{behaviour}");
        let dials = dials(&world).get(&call_id).copied().unwrap_or_default();
        assert_eq!((call.job.as_str(), dials), end, "{behaviour}");
    }
}

/// The client takes the answer 409 as "nothing was changed".
#[tokio::test(start_paused = true)]
async fn refused_cancellation_of_a_lost_row_cancels_nothing() {
    let world = World::new();
    let mut request = call_request("confirms");
    request["due_at"] = json!("2026-01-01T01:00:00Z");
    let call_id = create(&world, &request).await;
    world.wait(MINUTE).await;
    lose_plan(&world, &call_id, "USER_CONFIRMED").await;
    assert_eq!(cancel(&world, &call_id).await, StatusCode::CONFLICT);
    let call = world.call(&call_id).await;
    let records = world.inbox.dial_records(&CallId::new(call_id.as_str())).await.unwrap();
    assert_eq!((call.plan.is_some(), call.stop_reason, records.canceled), (true, None, None));
}

/// While the events of the lost row are looked for, a webhook of another system tells that the person has confirmed.
#[tokio::test(start_paused = true)]
async fn cancellation_of_a_lost_row_that_comes_after_a_webhook_cancels_nothing() {
    let world = World::new();
    let mut request = call_request("confirms");
    request["due_at"] = json!("2026-01-01T02:00:00Z");
    let call_id = create(&world, &request).await;
    world.wait(MINUTE).await;
    world.delete_item(CALLS_TABLE, &call_id).await;
    let slow = Fault::Delay(Duration::from_millis(900));
    world.set_fault_hook(move |call| (call.operation == "Query" && call.sender == Some("api")).then(|| slow.clone()));
    let webhook = async {
        world.wait(Duration::from_millis(100)).await;
        world.accept(Provider::Generic, &generic(&call_id, "late", "USER_CONFIRMED", 90)).await;
    };
    let (code, ()) = tokio::join!(cancel(&world, &call_id), webhook);
    assert_eq!(code, StatusCode::CONFLICT);
    let call = world.call(&call_id).await;
    let records = world.inbox.dial_records(&CallId::new(call_id.as_str())).await.unwrap();
    assert_eq!((call.plan.is_some(), call.stop_reason, records.canceled), (true, None, None));
}

/// The row is lost. A webhook of this type, from another system, makes one without a plan.
async fn lose_plan(world: &World, call_id: &str, type_: &str) {
    world.delete_item(CALLS_TABLE, call_id).await;
    world.accept(Provider::Generic, &generic(call_id, "late", type_, 90)).await;
    world.quiesce().await;
    assert!(world.call(call_id).await.plan.is_none());
}

#[tokio::test(start_paused = true)]
async fn call_whose_row_lacks_its_plan_can_be_canceled() {
    let world = World::new();
    let began = world.now();
    let mut request = call_request("confirms");
    request["due_at"] = json!("2026-01-01T01:00:00Z");
    let call_id = create(&world, &request).await;
    world.wait(MINUTE).await;
    lose_plan(&world, &call_id, "NO_ANSWER").await;
    assert_eq!(cancel(&world, &call_id).await, StatusCode::OK);
    repair(&stack(&world), began).await;
    world.wait(HOUR * 3).await;
    let call = world.call(&call_id).await;
    assert_eq!((call.stop_reason, dials(&world).len()), (Some(StopReason::CanceledByUser), 0), "{call:?}");
    assert!(call.plan.is_some(), "{call:?}");
}

/// The row of the call lacks its plan while the booking is canceled.
#[tokio::test(start_paused = true)]
async fn call_whose_row_lacks_its_plan_is_called_off_with_its_booking() {
    let world = World::with_secret(&bookings::secret());
    let began = world.now();
    bookings::receive(&world, &[bookings::created("b1", 0, 3 * HOUR_S)]).await;
    let call_id = bookings::call_id(&world, "b1").await.unwrap();
    world.wait(MINUTE).await;
    lose_plan(&world, &call_id, "RINGING").await;
    bookings::receive(&world, &[bookings::canceled("b1", 120)]).await;
    repair(&stack(&world), began).await;
    world.wait(HOUR * 4).await;
    let call = world.call(&call_id).await;
    assert_eq!((call.stop_reason, dials(&world).len()), (Some(StopReason::BookingChanged), 0), "{call:?}");
}

#[tokio::test(start_paused = true)]
async fn repeated_request_brings_a_lost_row_back_and_dials_nobody_again() {
    // All webhooks are lost, so that only the inbox knows the dial.
    for (wait, is_dialled) in [(0, false), (3, true), (1_800, true)] {
        let world = World::new();
        world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
        let mut request = call_request("confirms");
        if !is_dialled {
            request["due_at"] = json!("2026-01-01T01:00:00Z");
        }
        let (code, call_id) = create_with_key(&world, &request).await;
        assert_eq!(code, StatusCode::CREATED);
        world.wait(Duration::from_secs(wait)).await;
        assert_eq!(dials(&world).contains_key(&call_id), is_dialled, "after {wait} s");
        world.delete_item(CALLS_TABLE, &call_id).await;
        let repeated = create_with_key(&world, &request).await;
        assert_eq!(repeated, (StatusCode::OK, call_id.clone()), "after {wait} s");
        world.wait(MINUTE * 80).await;
        let state = call_state(&world, &call_id).await;
        assert_eq!(state, "job COMPLETED, appointment Confirmed, attempts [completed]", "after {wait} s");
        assert_eq!(dials(&world)[&call_id], 1, "after {wait} s");
        let created_at = get_call(&world, &call_id).await["created_at"].clone();
        assert_eq!(created_at, "2026-01-01T00:00:00.000Z", "the time of the first request");
    }
}

/// While the events of the lost row are looked for, a webhook of another system makes a row without a plan.
#[tokio::test(start_paused = true)]
async fn repeated_request_that_loses_its_race_to_a_webhook_makes_no_second_call() {
    for key in [None, Some("order-7")] {
        let world = World::new();
        let mut request = call_request("confirms");
        request["due_at"] = json!("2026-01-01T02:00:00Z");
        request["allow_duplicate"] = json!(false);
        let post = async || send(&world, "POST", "/calls", key, &request).await;
        let call_id = text(&post().await.1["call_id"]);
        world.wait(MINUTE).await;
        world.delete_item(CALLS_TABLE, &call_id).await;
        let slow = Fault::Delay(Duration::from_millis(900));
        world.set_fault_hook(move |call| {
            (call.operation == "Query" && call.sender == Some("api")).then(|| slow.clone())
        });
        let webhook = async {
            world.wait(Duration::from_millis(100)).await;
            world.accept(Provider::Generic, &generic(&call_id, "late", "NO_ANSWER", 90)).await;
        };
        let ((code, answer), ()) = tokio::join!(post(), webhook);
        assert_eq!((code, text(&answer["call_id"])), (StatusCode::OK, call_id.clone()), "{answer}");
        let calls = keys(&world, CALLS_TABLE).await.into_iter().filter(|key| key.starts_with("call-")).count();
        assert_eq!(calls, 1, "key {key:?}");
        let call = world.call(&call_id).await;
        assert!(call.plan.is_some() && !call.history.is_empty(), "{call:?}");
    }
}

/// To find the events of one call, 481 pages are read. The function has no time to read those of all calls.
#[tokio::test(start_paused = true)]
async fn batch_brings_some_lost_rows_back_each_time_that_it_is_sent() {
    const ROWS: u64 = 8;
    let world = World::stopped();
    let entry = |n: u64| {
        let mut entry = call_request("confirms");
        entry["idempotency_key"] = json!(format!("row-{n}"));
        entry
    };
    let batch = json!({"calls": (0..ROWS).map(entry).collect::<Value>()});
    let post = async || send(&world, "POST", "/calls/batch", None, &batch).await.1;
    let created = post().await;
    assert_eq!(created["created"], ROWS, "{created}");
    world.wait(HOUR * 8).await;
    for result in created["results"].as_array().unwrap() {
        world.delete_item(CALLS_TABLE, &text(&result["call"]["call_id"])).await;
    }
    let slow = Fault::Delay(Duration::from_millis(20));
    world.set_fault_hook(move |call| (call.operation == "Query").then(|| slow.clone()));
    let mut back = 0;
    while back < ROWS {
        drop(world.requests());
        let answer = post().await;
        let queries = world.requests()["Query"];
        assert!(queries < 4 * 481, "{queries} queries");
        let repeated = answer["repeated"].as_u64().unwrap();
        assert!(repeated > back, "{answer}");
        back = repeated;
    }
}

#[tokio::test(start_paused = true)]
async fn creation_that_stopped_before_the_row_was_written_is_finished_by_the_repeated_request() {
    let world = World::new();
    let request = call_request("confirms");
    world.set_fault_hook(|call| (call.operation == "PutItem" && is_request_to(call, CALLS_TABLE)).then(down));
    assert_eq!(create_with_key(&world, &request).await.0, StatusCode::INTERNAL_SERVER_ERROR);
    world.clear_faults();
    world.wait(MINUTE * 10).await;
    assert_eq!(dials(&world).len(), 0, "a request that failed places no call by itself");
    let (code, call_id) = create_with_key(&world, &request).await;
    assert_eq!(code, StatusCode::OK);
    let (code, _) = create_with_key(&world, &call_request("declines")).await;
    assert_eq!(code, StatusCode::CONFLICT, "the key belongs to the first request");
    world.wait(MINUTE * 10).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    assert_eq!(dials(&world)[&call_id], 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_dialled_that_the_inbox_cannot_record() {
    let world = World::new();
    world.set_fault_hook(|call| (call.operation == "UpdateItem" && is_request_to(call, INBOX_TABLE)).then(down));
    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE * 10).await;
    assert_eq!(dials(&world).len(), 0);
    assert!(!world.logged("dial_failed").is_empty());
    world.clear_faults();
    world.wait(MINUTE * 10).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    assert_eq!(dials(&world)[&call_id], 1);
}

#[tokio::test(start_paused = true)]
async fn many_lost_rows_are_looked_up_at_the_same_time() {
    const ROWS: u32 = 40;
    const SLOW: Duration = Duration::from_millis(20);
    let world = ringing(ROWS).await;
    let began = world.now().minus(HOUR);
    for n in 0..ROWS {
        world.delete_item(CALLS_TABLE, &format!("c{n}")).await;
    }
    world.set_fault_hook(|call| {
        (call.operation == "GetItem" && is_request_to(call, INBOX_TABLE)).then_some(Fault::Delay(SLOW))
    });
    let started = Instant::now();
    let report = verified(&stack(&world), began).await;
    assert_eq!(report.findings.len(), ROWS as usize);
    // The event of each call is read, and then the record of its creation.
    let one_by_one = SLOW * 2 * ROWS;
    let elapsed = started.elapsed();
    assert!(elapsed > SLOW && elapsed < one_by_one / 4, "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn repair_that_reached_its_limit_goes_on_with_the_next_calls() {
    let world = World::new();
    let began = world.now();
    // Each call gets its last event after all have got their first one.
    for (type_, second) in [("RINGING", 1), ("ENDED", 60)] {
        for id in ["e", "d", "c", "b", "a"] {
            world.accept(Provider::Generic, &generic(id, &format!("{id}-{type_}"), type_, second)).await;
            world.wait(Duration::from_secs(2)).await;
        }
    }
    world.wait(MINUTE * 3).await;
    let before = CallSummary::new(&world.call("a").await);
    for id in ["a", "b", "c", "d", "e"] {
        world.delete_item(CALLS_TABLE, id).await;
    }
    let stack = stack(&world);
    let (mut since, mut planned) = (began, Vec::new());
    loop {
        let report = verified(&stack, since).await;
        let plan = plan_repair(&stack, &VerifyFilter::Since, &report, 5).await.unwrap();
        let calls: Vec<&str> = plan.items.iter().map(|item| item.call_id.as_ref().unwrap().as_str()).collect();
        planned.push(calls.join(" "));
        assert_eq!(plan.capped, plan.continue_at.is_some());
        carry_out(&stack, &plan).await;
        world.quiesce().await;
        let Some(next) = plan.continue_at else { break };
        assert!(next > since, "the next plan goes on later");
        since = next;
    }
    assert_eq!(planned, ["e e d d", "c c b b", "a a"], "a plan has all events of its calls");
    assert_eq!(CallSummary::new(&world.call("a").await), before);
    assert_eq!(found(&verified(&stack, began).await), "");
}
