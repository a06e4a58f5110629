//! Both tables are restored to an earlier time, so nobody knows which calls were dialled since.

use std::time::Duration;

use insta::assert_snapshot;
use serde_dynamo::AttributeValue;
use serde_json::json;
use switchhook_domain::{CallId, Provider, Timestamp};
use switchhook_local::connector::Fault;
use switchhook_local::fake::DeliveryFaults;
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_operate::copy::CopyFrom;
use switchhook_operate::recover::{plan_refill, plan_stop};
use switchhook_tests::{MINUTE, World};

use super::{Backup, MAX, back_up, carry_out, copy_tables, dials, found, lose, make_table, restore, stack, verified};
use crate::bookings;
use crate::outbound::{HOUR, call_request, call_state, create, get_call, send};

/// Calls that were created before the backup, and the backup.
struct Disaster {
    world: World,
    restored_to: Timestamp,
    due: String,
    retried: String,
    later: String,
}

/// Backs both tables up while one call is about to be dialled, one is in its first attempt, and one is due in three hours. Then plays them
/// on, loses everything since the backup, and leaves the functions stopped.
async fn disaster() -> Disaster {
    let mut world = World::new();
    let mut request = call_request("confirms");
    request["due_at"] = json!("2026-01-01T00:10:00Z");
    let due = create(&world, &request).await;
    request["due_at"] = json!("2026-01-01T03:00:00Z");
    let later = create(&world, &request).await;
    let retried = create(&world, &call_request("busy,no_answer,confirms")).await;
    world.wait(Duration::from_secs(2)).await;
    assert_eq!(world.call(&retried).await.job.as_str(), "IN_PROGRESS");
    let backups: [Backup; 2] = [back_up(&world, INBOX_TABLE).await, back_up(&world, CALLS_TABLE).await];
    let restored_to = world.now();
    world.wait(MINUTE * 80).await;
    assert_eq!((dials(&world)[&due], dials(&world)[&retried]), (1, 3));
    world.stop();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    for backup in &backups {
        restore(&world, backup).await;
    }
    world.cloud.services().sqs().purge(switchhook_local::EVENTS_QUEUE).unwrap();
    Disaster { world, restored_to, due, retried, later }
}

#[tokio::test(start_paused = true)]
async fn calls_whose_dials_are_unknown_end_and_say_so() {
    let Disaster { mut world, restored_to, due, retried, later } = disaster().await;
    let stack = stack(&world);
    let plan = plan_stop(&stack, restored_to, false, MAX).await.unwrap();
    assert_eq!((plan.items.len(), plan.phones), (3, 0));
    let run = carry_out(&stack, &plan).await;
    assert_eq!(run.result(), "3 done, 0 unchanged, 0 skipped");
    assert_eq!(plan_stop(&stack, restored_to, false, MAX).await.unwrap().items, []);
    let began = world.domain_events().len();
    world.start();
    world.wait(HOUR * 2).await;
    assert_eq!((dials(&world)[&due], dials(&world)[&retried], dials(&world).get(&later)), (1, 3, None));
    for call_id in [&due, &later] {
        assert_eq!(get_call(&world, call_id).await["job"]["stop_reason"], "dials_unknown");
        assert_eq!(call_state(&world, call_id).await, "job FAILED, appointment Failed, attempts []");
        let told = |event: &&serde_json::Value| event["call_id"] == **call_id && event["type"] == "call.exhausted";
        let events = world.domain_events();
        assert_eq!(events[began..].iter().find(told).unwrap()["reason"], "dials_unknown");
    }
    // The attempt that the backup knows is looked up, and the call is not tried again.
    assert_snapshot!(call_state(&world, &retried).await, @"job FAILED, appointment NoAnswer, attempts [busy]");
    assert_eq!(world.cloud.fake().duplicate_dials(), 0);
}

/// The row of one stopped call is lost, and the row of another is restored once more, to a time before the stop.
#[tokio::test(start_paused = true)]
async fn stopped_call_whose_row_is_lost_later_is_not_dialled() {
    let Disaster { mut world, restored_to, due, later, .. } = disaster().await;
    let stack = stack(&world);
    let row = world.item(CALLS_TABLE, &later).await;
    carry_out(&stack, &plan_stop(&stack, restored_to, false, MAX).await.unwrap()).await;
    world.delete_item(CALLS_TABLE, &due).await;
    world.put_item(CALLS_TABLE, row).await;
    let since = restored_to.minus(HOUR);
    let report = found(&verified(&stack, since).await);
    assert!(report.contains("lost: 0 events, placed: true") && report.contains("forgotten_cancellation"), "{report}");
    super::repair(&stack, since).await;
    world.start();
    world.wait(HOUR * 2).await;
    for call_id in [&due, &later] {
        assert_eq!(get_call(&world, call_id).await["job"]["stop_reason"], "dials_unknown");
    }
    assert_eq!((dials(&world)[&due], dials(&world).get(&later)), (1, None));
}

/// The booking comes back after the stop. The row of its call was restored to a time at which the booking had called it off.
#[tokio::test(start_paused = true)]
async fn stopped_call_of_a_booking_that_comes_back_is_not_dialled() {
    let mut world = World::with_secret(&bookings::secret());
    let move_to = |second, hours| bookings::calcom("BOOKING_RESCHEDULED", "b1", second, hours * bookings::HOUR_S);
    bookings::receive(&world, &[bookings::created("b1", 0, 5 * bookings::HOUR_S)]).await;
    let id = bookings::call_id(&world, "b1").await.unwrap();
    bookings::receive(&world, &[move_to(10, 6)]).await;
    let row = world.item(CALLS_TABLE, &id).await;
    let stack = stack(&world);
    carry_out(&stack, &plan_stop(&stack, world.now(), false, MAX).await.unwrap()).await;
    assert_eq!(get_call(&world, &id).await["job"]["stop_reason"], "canceled_by_user");
    world.put_item(CALLS_TABLE, row).await;
    bookings::receive(&world, &[move_to(20, 5)]).await;
    world.skip(MINUTE * 230).await;
    world.wait(MINUTE * 20).await;
    assert_eq!(dials(&world).get(&id), None);
    assert_eq!(get_call(&world, &id).await["job"]["stop_reason"], "canceled_by_user");
}

/// A newer version wrote the row. Once it runs again, it would dial the call.
#[tokio::test(start_paused = true)]
async fn call_whose_row_cannot_be_read_is_named() {
    let Disaster { world, restored_to, due, .. } = disaster().await;
    let mut newer = world.item(CALLS_TABLE, &due).await;
    newer.insert("schema_version".to_owned(), AttributeValue::N("99".to_owned()));
    world.put_item(CALLS_TABLE, newer).await;
    let stack = stack(&world);
    let plan = plan_stop(&stack, restored_to, false, MAX).await.unwrap();
    assert_eq!((plan.items.len(), plan.skipped_count, plan.examined), (2, 1, 3), "{plan:?}");
    assert_eq!(plan.skipped[0].call_id, Some(CallId::new(due.as_str())));
    assert!(plan.skipped[0].reason.contains("newer than this program"), "{plan:?}");
    // It does not take the place of a call that can be stopped.
    let plan = plan_stop(&stack, restored_to, false, 2).await.unwrap();
    assert_eq!((plan.items.len(), plan.capped), (2, true));
    let plan = plan_refill(&stack, restored_to, MAX, &mut |_, _| {}).await.unwrap();
    assert!(plan.skipped.iter().any(|skipped| skipped.call_id == Some(CallId::new(due.as_str()))), "{plan:?}");
}

/// The client repeats the write, which then meets its own row.
#[tokio::test(start_paused = true)]
async fn call_is_counted_as_stopped_if_the_answer_to_the_write_was_lost() {
    let Disaster { world, restored_to, .. } = disaster().await;
    let stack = stack(&world);
    let plan = plan_stop(&stack, restored_to, false, MAX).await.unwrap();
    world.inject_fault("PutItem", CALLS_TABLE, 1, Fault::ResponseLost);
    let run = carry_out(&stack, &plan).await;
    world.clear_faults();
    assert_eq!(run.result(), "3 done, 0 unchanged, 0 skipped");
}

#[tokio::test(start_paused = true)]
async fn report_that_comes_later_is_folded_into_the_stopped_call() {
    let Disaster { mut world, restored_to, due, .. } = disaster().await;
    let stack = stack(&world);
    let plan = plan_stop(&stack, restored_to, false, MAX).await.unwrap();
    carry_out(&stack, &plan).await;
    world.start();
    world.wait(MINUTE * 5).await;
    let dial = world.cloud.fake().dials().into_iter().find(|dial| dial.call_id == due).unwrap();
    let body = json!({"event": "call_ended", "call": {
        "call_id": dial.provider_call_id, "call_status": "ended", "disconnection_reason": "user_hangup",
        "metadata": {"switchhook_call_id": due, "switchhook_attempt": "1"},
        "start_timestamp": dial.started_ms, "end_timestamp": dial.ended_ms,
    }});
    world.accept(Provider::Retell, &body.to_string()).await;
    world.wait(HOUR).await;
    let call = get_call(&world, &due).await;
    assert_eq!(call["attempts"][0]["lifecycle"], "completed", "{call}");
    assert_eq!(call["job"]["state"], "COMPLETED");
    assert_eq!(dials(&world)[&due], 1);
}

#[tokio::test(start_paused = true)]
async fn call_that_is_not_due_yet_can_be_kept() {
    let Disaster { mut world, restored_to, due, retried, later } = disaster().await;
    let stack = stack(&world);
    let stopped_at = world.now();
    let plan = plan_stop(&stack, restored_to, true, MAX).await.unwrap();
    assert_eq!(plan.items.len(), 2);
    carry_out(&stack, &plan).await;
    // The second stop of the page needs the option too.
    assert_eq!(plan_stop(&stack, stopped_at, false, MAX).await.unwrap().items.len(), 1);
    assert_eq!(plan_stop(&stack, stopped_at, true, MAX).await.unwrap().items, []);
    // A call that was created after the disaster is not stopped.
    let new = create(&world, &call_request("confirms")).await;
    assert_eq!(plan_stop(&stack, restored_to, true, MAX).await.unwrap().items, []);
    world.start();
    world.wait(HOUR * 2).await;
    let all = dials(&world);
    assert_eq!((all[&due], all[&retried], all[&later], all[&new]), (1, 3, 1, 1));
    assert_snapshot!(call_state(&world, &later).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
}

#[tokio::test(start_paused = true)]
async fn inbox_that_is_newer_than_the_calls_stops_only_what_it_does_not_know() {
    // The calls are restored to the start, and the inbox to a time after the dial. The operator names the later time.
    let mut world = World::new();
    let mut request = call_request("confirms");
    request["due_at"] = json!("2026-01-01T00:10:00Z");
    let call_id = create(&world, &request).await;
    let calls = back_up(&world, CALLS_TABLE).await;
    world.wait(HOUR).await;
    let inbox = back_up(&world, INBOX_TABLE).await;
    let restored_to = world.now();
    world.wait(HOUR).await;
    world.stop();
    restore(&world, &calls).await;
    restore(&world, &inbox).await;
    let stack = stack(&world);
    super::repair(&stack, restored_to.minus(HOUR * 2)).await;
    crate::repair::consume_all(&world).await;
    carry_out(&stack, &plan_stop(&stack, restored_to, false, MAX).await.unwrap()).await;
    world.start();
    world.wait(MINUTE * 70).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    assert_eq!(dials(&world)[&call_id], 1);
}

/// A repeated webhook makes a row before the consumer is stopped. The row has no plan, and the copy leaves it as it is.
#[tokio::test(start_paused = true)]
async fn call_whose_row_a_webhook_made_before_the_copy_is_stopped_too() {
    let mut world = World::new();
    let mut request = call_request("busy,confirms");
    request["due_at"] = json!("2026-01-01T00:10:00Z");
    let call_id = create(&world, &request).await;
    let inbox = back_up(&world, INBOX_TABLE).await;
    let calls = back_up(&world, CALLS_TABLE).await;
    let restored_to = world.now();
    while dials(&world).is_empty() {
        world.wait(Duration::from_secs(1)).await;
    }
    world.stop();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    lose(&world, CALLS_TABLE).await;
    restore(&world, &inbox).await;
    world.cloud.services().sqs().purge(switchhook_local::EVENTS_QUEUE).unwrap();
    let body = json!({"event": "call_ended", "call": {
        "call_id": world.cloud.fake().dials()[0].provider_call_id, "call_status": "not_connected",
        "disconnection_reason": "dial_busy",
        "metadata": {"switchhook_call_id": call_id, "switchhook_attempt": "1"},
    }});
    world.accept(Provider::Retell, &body.to_string()).await;
    crate::repair::consume_all(&world).await;
    let stack = stack(&world);
    make_table(&world, "calls-restored", "call_id", calls.items).await;
    copy_tables(&stack, &CopyFrom { inbox: None, calls: Some("calls-restored".to_owned()) }).await;
    assert!(world.call(&call_id).await.plan.is_none(), "the copy leaves the row as it is");
    assert_eq!(plan_stop(&stack, restored_to, false, MAX).await.unwrap().items, []);
    // The third step of the page.
    world.wait(MINUTE * 3).await;
    super::repair(&stack, restored_to).await;
    crate::repair::consume_all(&world).await;
    carry_out(&stack, &plan_stop(&stack, restored_to, false, MAX).await.unwrap()).await;
    world.start();
    world.wait(HOUR * 2).await;
    assert_eq!(get_call(&world, &call_id).await["job"]["stop_reason"], "dials_unknown");
    assert_eq!(dials(&world)[&call_id], 1);
}

/// Sends a request with an idempotency key. Returns the id of its call.
async fn order(world: &World) -> String {
    let (_, answer) = send(world, "POST", "/calls", Some("order-7"), &call_request("confirms")).await;
    answer["call_id"].as_str().unwrap().to_owned()
}

/// The client repeats a request whose call was dialled after the backups. While neither table has the call, the request creates it once more. So
/// the page has the API stopped until the tables are copied, and stops the calls that were created before that.
#[tokio::test(start_paused = true)]
async fn call_that_a_repeated_request_creates_before_the_copy_is_stopped_with_the_time_of_the_first_step() {
    for (is_repeated_early, is_stopped_twice, rang) in [(false, false, 1), (true, true, 1), (true, false, 2)] {
        let mut world = World::stopped();
        let call_id = order(&world).await;
        let (inbox, calls) = (back_up(&world, INBOX_TABLE).await, back_up(&world, CALLS_TABLE).await);
        let restored_to = world.now();
        world.start();
        world.wait(HOUR).await;
        assert_eq!(dials(&world)[&call_id], 1);
        world.stop();
        world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
        lose(&world, INBOX_TABLE).await;
        lose(&world, CALLS_TABLE).await;
        if is_repeated_early {
            assert_eq!(order(&world).await, call_id);
        }
        let stopped_at = world.now();
        make_table(&world, "inbox-restored", "event_id", inbox.items).await;
        make_table(&world, "calls-restored", "call_id", calls.items).await;
        let stack = stack(&world);
        let (inbox, calls) = (Some("inbox-restored".to_owned()), Some("calls-restored".to_owned()));
        copy_tables(&stack, &CopyFrom { inbox, calls }).await;
        // The API answers again.
        assert_eq!(order(&world).await, call_id);
        carry_out(&stack, &plan_stop(&stack, restored_to, false, MAX).await.unwrap()).await;
        if is_stopped_twice {
            carry_out(&stack, &plan_stop(&stack, stopped_at, false, MAX).await.unwrap()).await;
        }
        world.start();
        world.wait(HOUR * 2).await;
        let reason = get_call(&world, &call_id).await["job"]["stop_reason"].clone();
        assert_eq!((dials(&world)[&call_id], reason == "dials_unknown"), (rang, rang == 1));
    }
}
