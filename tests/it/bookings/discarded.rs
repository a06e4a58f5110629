//! Bookings whose event becomes a dead letter that an operator discards.

use std::collections::BTreeMap;

use serde_json::Value;
use switchhook_aws::inbox::{SweepCursor, minute_of};
use switchhook_domain::EventId;
use switchhook_local::INBOX_TABLE;
use switchhook_operate::dead_letters::{LetterFilter, plan_discard};
use switchhook_operate::verify::{VerifyFilter, verify};
use switchhook_tests::{World, down, is_request_to};

use super::{HOUR_S, created, post, secret};
use crate::operator::{MAX, carry_out, stack};

/// The row of the booking is written, and the request for its call cannot be recorded. So the row does not agree with its calls.
#[tokio::test(start_paused = true)]
async fn discarded_event_of_a_booking_schedules_no_call() {
    let mut world = World::with_secret(&secret());
    let began = world.now();
    world.set_fault_hook(|call| {
        let body: Value = serde_json::from_slice(call.body).unwrap_or_default();
        let is_creation = body["Item"]["event_id"]["S"].as_str().is_some_and(|id| id.ends_with("/created"));
        (call.operation == "PutItem" && is_request_to(call, INBOX_TABLE) && is_creation).then(down)
    });
    post(&world, &created("b1", 0, 60 * HOUR_S)).await;
    world.wait_for_dead_letters(1).await;
    world.clear_faults();
    world.stop();
    let stack = stack(&world);
    let all = LetterFilter { all: true, ..LetterFilter::default() };
    let plan = plan_discard(&stack, &all, MAX).await.unwrap();
    assert_eq!(carry_out(&stack, &plan).await.result(), "1 done, 0 unchanged, 0 skipped");
    let id = EventId::new("x-calcom:b1:BOOKING_CREATED:2026-01-01T00%3A00%3A00.000Z");
    assert_eq!(world.status(&id).await["status"], "discarded");
    // The sweep was late, and comes to the event only now.
    let cursor = world.inbox.sweep_cursor().await.unwrap().unwrap();
    let late = SweepCursor { minute: minute_of(began) - 1, left: BTreeMap::new() };
    assert!(world.inbox.advance_sweep_cursor(Some(cursor.minute), &late).await.unwrap());
    assert_eq!(world.reconciler.run("test").await.unwrap().requeued, 0);
    // So a repair would do nothing either.
    let report = verify(&stack, &VerifyFilter::Since, began, &mut |_, _| {}).await.unwrap();
    assert!(report.findings.is_empty(), "{report:?}");
}
