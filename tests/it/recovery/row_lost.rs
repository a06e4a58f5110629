//! Rows of calls are lost.

use std::time::Duration;

use http::StatusCode;
use insta::assert_snapshot;
use serde_json::{Value, json};
use switchhook_domain::{Provider, StopReason};
use switchhook_local::connector::Fault;
use switchhook_local::fake::DeliveryFaults;
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_operate::plan::{Action, CallSummary};
use switchhook_operate::verify::{VerifyFilter, plan_repair};
use switchhook_tests::{MINUTE, World, down, generic, is_request_to};
use tokio::time::Instant;

use super::{MAX, carry_out, dials, found, repair, ringing, stack, verified};
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
    assert_eq!(create_with_key(&world, &request).await.0, StatusCode::INTERNAL_SERVER_ERROR);
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
    let cancel = async |id: &str| send(&world, "POST", &format!("/call/cancel?id={id}"), None, &Value::Null).await.0;
    let mut request = call_request("confirms");
    request["due_at"] = json!("2026-01-01T01:00:00Z");
    let (_, call_id) = create_with_key(&world, &request).await;
    world.wait(MINUTE).await;
    world.delete_item(CALLS_TABLE, &call_id).await;
    assert_eq!(cancel(&call_id).await, StatusCode::OK);
    // The row is lost again, and the request is repeated.
    world.delete_item(CALLS_TABLE, &call_id).await;
    assert_eq!(create_with_key(&world, &request).await, (StatusCode::OK, call_id.clone()));
    world.wait(HOUR * 2).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job CANCELED, appointment Canceled, attempts []");
    assert_eq!(dials(&world).len(), 0);
    for unknown in ["call-unknown", &"0".repeat(2_048)] {
        assert_eq!(cancel(unknown).await, StatusCode::NOT_FOUND, "{} bytes", unknown.len());
    }
}

/// The row is lost. A webhook of another system makes one without a plan.
async fn lose_plan(world: &World, call_id: &str) {
    world.delete_item(CALLS_TABLE, call_id).await;
    world.accept(Provider::Generic, &generic(call_id, "late", "RINGING", 90)).await;
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
    lose_plan(&world, &call_id).await;
    send(&world, "POST", &format!("/call/cancel?id={call_id}"), None, &Value::Null).await;
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
    lose_plan(&world, &call_id).await;
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
