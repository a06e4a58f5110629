//! Bookings whose calls do not agree with them, because the consumer failed in between: every repair finds them and finishes them.

use std::ops::ControlFlow;

use serde_json::Value;
use switchhook_domain::{EventId, Job, StopReason, Timestamp};
use switchhook_local::{CALLS_TABLE, EVENTS_DEAD_LETTER_QUEUE, INBOX_TABLE};
use switchhook_operate::Stack;
use switchhook_operate::dead_letters::{LetterFilter, plan_redrive};
use switchhook_operate::events::{self, Filter};
use switchhook_operate::plan::Plan;
use switchhook_operate::replay::{ReplayFilter, Selected};
use switchhook_operate::run::{self, Run, RunOptions};
use switchhook_operate::verify::{Problem, VerifyFilter, VerifyReport, plan_repair, verify};
use switchhook_tests::{World, down, is_request_to};

use super::{everything, options, plan_replay};
use crate::bookings::{CALCOM, booking, call_id, canceled, created, receive, secret};
use crate::operator::{MAX, stack};

const ALL: LetterFilter = LetterFilter { keys: Vec::new(), cause: None, origin: None, all: true };
/// Id of the event that books `b1`.
const CREATED: &str = "x-calcom:b1:BOOKING_CREATED:2026-01-01T00%3A00%3A00.000Z";
/// Start of the appointment, in seconds after the start of the test. It is long after the last receive of a message.
const STARTS: i64 = 48 * 3_600;

/// Posts a webhook, and lets each of these requests about the call of a booking fail until its event is a dead letter.
async fn dead_letter(world: &mut World, body: &Value, operation: &'static str, table: &'static str, key: &'static str) {
    world.set_fault_hook(move |call| {
        let is_of_call = String::from_utf8_lossy(call.body).contains(&format!("{{\"S\":\"{key}"));
        let is_consumer = call.sender == Some("consumer") && call.operation == operation;
        (is_consumer && is_of_call && is_request_to(call, table)).then(down)
    });
    receive(world, std::slice::from_ref(body)).await;
    world.wait_for_dead_letters(1).await;
    world.clear_faults();
    assert_eq!(world.dead_letters().len(), 1);
    assert!(!booking(world, CALCOM, "b1").await.booking.unwrap().calls_agree);
}

/// A stack in which the call of a booking could not be created.
async fn without_call() -> World {
    let mut world = World::with_secret(&secret());
    dead_letter(&mut world, &created("b1", 0, STARTS), "PutItem", INBOX_TABLE, "switchhook:booking-").await;
    assert_eq!(world.load(&call_id(&world, "b1").await.unwrap()).await, None);
    world
}

/// Carries a plan out that may make phones ring.
async fn carry_out(stack: &Stack, plan: &Plan) -> Run {
    let options = RunOptions { allow_ringing: true, ..options() };
    run::start(stack, &plan.id, plan.verb, options, &mut |_| ControlFlow::Continue(())).await.unwrap()
}

/// Checks that the call of the booking is there, and waits.
async fn assert_scheduled(world: &World) {
    let row = booking(world, CALCOM, "b1").await.booking.unwrap();
    assert!(row.calls_agree, "{row:?}");
    assert_eq!(world.call(row.call_id.unwrap().as_str()).await.job.as_str(), "PENDING");
}

async fn verified(stack: &Stack) -> VerifyReport {
    verify(stack, &VerifyFilter::Since, everything().since.unwrap(), &mut |_, _| {}).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn redrive_creates_the_call_of_a_booking_and_counts_its_phone() {
    let world = without_call().await;
    let stack = stack(&world);
    let plan = plan_redrive(&stack, &ALL, MAX).await.unwrap();
    assert_eq!((plan.items.len(), plan.phones), (1, 1), "{plan:?}");
    assert_eq!(carry_out(&stack, &plan).await.result(), "1 done, 0 unchanged, 0 skipped");
    assert_scheduled(&world).await;
    assert_eq!(world.dead_letters().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn redrive_of_a_cancellation_calls_its_call_off() {
    let mut world = World::with_secret(&secret());
    receive(&world, &[created("b1", 0, STARTS)]).await;
    let id = call_id(&world, "b1").await.unwrap();
    dead_letter(&mut world, &canceled("b1", 10), "GetItem", CALLS_TABLE, "booking-").await;
    assert_eq!(world.call(&id).await.job.as_str(), "PENDING");
    let stack = stack(&world);
    let plan = plan_redrive(&stack, &ALL, MAX).await.unwrap();
    assert_eq!((plan.items.len(), plan.phones), (1, 0), "{plan:?}");
    assert_eq!(carry_out(&stack, &plan).await.result(), "1 done, 0 unchanged, 0 skipped");
    let call = world.call(&id).await;
    assert_eq!((call.job, call.stop_reason), (Job::Canceled, Some(StopReason::BookingChanged)));
    assert_eq!(world.dead_letters().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn replay_and_verify_create_the_call_of_a_booking() {
    for is_replayed in [true, false] {
        let world = without_call().await;
        let stack = stack(&world);
        let report = verified(&stack).await;
        let [finding] = report.findings.as_slice() else { panic!("{report:?}") };
        let Problem::Different { differences, .. } = &finding.problem else { panic!("{report:?}") };
        assert_eq!(differences.iter().map(|one| one.name).collect::<Vec<_>>(), ["calls_of_booking"]);
        let plan = if is_replayed {
            plan_replay(&stack, &everything()).await
        } else {
            plan_repair(&stack, &VerifyFilter::Since, &report, MAX).await.unwrap()
        };
        assert_eq!((plan.items.len(), plan.phones), (1, 1), "{plan:?}");
        assert_eq!(carry_out(&stack, &plan).await.result(), "1 done, 0 unchanged, 0 skipped");
        world.quiesce().await;
        assert_scheduled(&world).await;
        assert!(verified(&stack).await.is_clean(), "{:?}", verified(&stack).await);
        assert_eq!(plan_replay(&stack, &everything()).await.items.len(), 0);
    }
}

/// The row has the event, and the call that the event is about is missing. The queue of the dead letters is lost too.
#[tokio::test(start_paused = true)]
async fn event_whose_call_is_missing_is_listed_as_a_dead_letter_and_replayed_as_not_folded() {
    let world = without_call().await;
    assert!(world.cloud.services().sqs().purge(EVENTS_DEAD_LETTER_QUEUE).unwrap() >= 1);
    let stack = stack(&world);
    let dead_letters = async || -> Vec<String> {
        let filter = Filter {
            status: Some("dead_lettered".to_owned()),
            provider: None,
            event_type: None,
            call: None,
            since: everything().since.unwrap(),
            until: Timestamp::MAX,
            limit: 10,
        };
        let page = events::list(&stack, &filter).await.unwrap();
        page.events.into_iter().map(|line| line.event_id).collect()
    };
    let status = async || world.status(&EventId::new(CREATED)).await["status"].clone();
    assert_eq!((dead_letters().await, status().await), (vec![CREATED.to_owned()], "dead_lettered".into()));

    let not_folded = ReplayFilter { disposition: Some(Selected::NotFolded), ..everything() };
    let plan = plan_replay(&stack, &not_folded).await;
    assert_eq!((plan.items.len(), plan.phones), (1, 1), "{plan:?}");
    assert_eq!(carry_out(&stack, &plan).await.result(), "1 done, 0 unchanged, 0 skipped");
    world.quiesce().await;
    assert_scheduled(&world).await;
    // Its note still tells of the failed tries.
    assert_eq!((dead_letters().await, status().await), (Vec::new(), "processed".into()));
    assert_eq!(plan_replay(&stack, &not_folded).await.items.len(), 0);
}

/// The consumer makes the calls agree whatever event of the booking it gets.
#[tokio::test(start_paused = true)]
async fn plan_to_replay_an_older_event_counts_the_phone_of_the_booking() {
    let mut world = without_call().await;
    world.inject_fault("GetItem", CALLS_TABLE, u64::MAX, down());
    receive(&world, &[canceled("b1", -60)]).await;
    // The consumer would try again.
    world.stop();
    world.clear_faults();
    let filter = ReplayFilter { event_type: Some("BOOKING_CANCELLED".to_owned()), ..everything() };
    let plan = plan_replay(&stack(&world), &filter).await;
    assert_eq!((plan.items.len(), plan.phones), (1, 1), "{plan:?}");
}

#[tokio::test(start_paused = true)]
async fn booking_that_the_inbox_lost_gets_its_call_from_its_dead_letter() {
    let world = without_call().await;
    world.delete_item(INBOX_TABLE, CREATED).await;
    let stack = stack(&world);
    let plan = plan_redrive(&stack, &ALL, MAX).await.unwrap();
    assert_eq!((plan.items.len(), plan.phones), (1, 1), "{plan:?}");
    assert_eq!(carry_out(&stack, &plan).await.result(), "1 done, 0 unchanged, 0 skipped");
    assert_scheduled(&world).await;
    assert_eq!(world.dead_letters().len(), 0);
}

/// The request of the call is recorded and its row is not there, so a repair would build the row again.
#[tokio::test(start_paused = true)]
async fn call_without_a_row_stays_called_off_when_it_is_rebuilt() {
    let mut world = World::with_secret(&secret());
    world.set_fault_hook(|call| {
        let body: Value = serde_json::from_slice(call.body).unwrap_or_default();
        let is_row = body["Item"]["call_id"]["S"].as_str().is_some_and(|id| id.starts_with("booking-"));
        (call.operation == "PutItem" && is_row && is_request_to(call, CALLS_TABLE)).then(down)
    });
    receive(&world, &[created("b1", 0, STARTS)]).await;
    // Its event becomes a dead letter, so the cancellation is folded next.
    world.wait_for_dead_letters(1).await;
    world.clear_faults();
    assert_eq!(world.dead_letters().len(), 1);
    let id = call_id(&world, "b1").await.unwrap();
    receive(&world, &[canceled("b1", 10)]).await;
    assert_eq!(world.load(&id).await, None);
    let stack = stack(&world);
    let plan = plan_repair(&stack, &VerifyFilter::Since, &verified(&stack).await, MAX).await.unwrap();
    assert_eq!((plan.items.len(), plan.phones), (1, 0), "{plan:?}");
    carry_out(&stack, &plan).await;
    world.quiesce().await;
    let call = world.call(&id).await;
    assert_eq!((call.job, call.stop_reason), (Job::Canceled, Some(StopReason::BookingChanged)));
}
