//! The inbox is restored to an earlier time, or lost, and the calls table is intact.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_domain::{CallId, DIALS_RETENTION_MIN, Disposition, EventId, Provider, Timestamp};
use switchhook_local::INBOX_TABLE;
use switchhook_local::connector::Fault;
use switchhook_operate::plan::{Action, CallSummary, Plan};
use switchhook_operate::quarantine;
use switchhook_operate::recover::plan_refill;
use switchhook_tests::{INBOX_RETENTION, MINUTE, World, generic, is_request_to};
use tokio::time::Instant;

use super::{
    Backup, MAX, back_up, carry_out, dials, found, key_of, keys, lose, repair, restore, ringing, stack, states,
    verified,
};
use crate::bookings;
use crate::operator::quarantine::quarantined_by_older_version;
use crate::operator::reread;
use crate::outbound::{HOUR, call_request, create, send};
use crate::repair::{everything, plan_replay};

/// Creates calls of every kind, and waits until most of them have ended. Returns a backup of the inbox from the start.
async fn play(world: &World) -> Backup {
    world.accept(Provider::Generic, &generic("early", "e1", "RINGING", 0)).await;
    world.quiesce().await;
    let backup = back_up(world, INBOX_TABLE).await;
    for (type_, second) in [("RINGING", 1), ("ANSWERED", 3), ("USER_CONFIRMED", 20), ("ENDED", 60)] {
        world.accept(Provider::Generic, &generic("team", &format!("t-{type_}"), type_, second)).await;
    }
    for behaviour in ["confirms", "busy,confirms", "no_answer", "response_lost"] {
        create(world, &call_request(behaviour)).await;
    }
    let mut later = call_request("confirms");
    later["due_at"] = serde_json::json!("2026-01-01T04:00:00Z");
    create(world, &later).await;
    world.wait(MINUTE * 80).await;
    backup
}

#[tokio::test(start_paused = true)]
async fn plan_that_reached_its_limit_says_where_the_next_one_goes_on() {
    let world = World::new();
    let began = world.now();
    let backup = play(&world).await;
    restore(&world, &backup).await;
    let stack = stack(&world);
    let whole = plan_refill(&stack, began, MAX, &mut |_, _| {}).await.unwrap();
    assert!(whole.items.len() > 4 && whole.continue_at.is_none(), "{whole:?}");
    let calls = |plan: &Plan| plan.items.iter().filter_map(|item| item.call_id.clone()).collect::<BTreeSet<_>>();
    let (mut since, mut found) = (began, BTreeSet::new());
    loop {
        let plan = plan_refill(&stack, since, 2, &mut |_, _| {}).await.unwrap();
        found.extend(calls(&plan));
        assert_eq!(plan.capped, plan.continue_at.is_some());
        let Some(next) = plan.continue_at else { break };
        assert!(next > since, "the next plan goes on later");
        since = next;
    }
    assert_eq!(found, calls(&whole));
}

#[tokio::test(start_paused = true)]
async fn events_dials_and_creations_come_back_from_the_rows() {
    let world = World::new();
    let began = world.now();
    let backup = play(&world).await;
    let (before, rang) = (states(&world).await, dials(&world));
    let known: Vec<String> = keys(&world, INBOX_TABLE).await;
    restore(&world, &backup).await;
    let stack = stack(&world);
    assert!(found(&verified(&stack, began).await).contains("unknown_event"));

    let plan = plan_refill(&stack, began, MAX, &mut |_, _| {}).await.unwrap();
    assert!(plan.items.iter().all(|item| item.action == Action::Refill), "{plan:?}");
    assert_eq!(plan.phones, 0);
    let run = carry_out(&stack, &plan).await;
    assert_eq!((run.counts.done, run.counts.skipped), (plan.items.len(), 0));
    let now_known = keys(&world, INBOX_TABLE).await;
    for key in
        known.iter().filter(|key| key.contains("/created") || key.starts_with("dials:") || key.starts_with("generic:"))
    {
        assert!(now_known.contains(key), "{key}");
    }
    world.wait(MINUTE * 3).await;
    assert_eq!(found(&verified(&stack, began).await), "");
    // A drift check, which folds calls again from the inbox, finds nothing to repair.
    world.wait(MINUTE * 65).await;
    assert_eq!(world.logged("drift_found").len(), 0);
    assert_eq!((states(&world).await, dials(&world)), (before, rang));
    // The call that was to come is placed once.
    world.wait(HOUR * 2).await;
    assert!(dials(&world).values().all(|dials| *dials <= 3));
    assert_eq!(world.cloud.fake().duplicate_dials(), 0);
    assert_eq!(found(&verified(&stack, began).await), "");
}

#[tokio::test(start_paused = true)]
async fn call_whose_stored_event_cannot_be_read_is_left_alone_and_the_others_are_refilled() {
    let world = World::new();
    let began = world.now();
    let backup = play(&world).await;
    restore(&world, &backup).await;
    let mut newer = world.item(INBOX_TABLE, "generic:e1").await;
    newer.insert("schema_version".to_owned(), AttributeValue::N("99".to_owned()));
    world.put_item(INBOX_TABLE, newer).await;
    let stack = stack(&world);
    // The first event of the call was received before the operator's time.
    let plan = plan_refill(&stack, began.minus(HOUR), MAX, &mut |_, _| {}).await.unwrap();
    let run = carry_out(&stack, &plan).await;
    assert_eq!((run.counts.done, run.counts.skipped), (plan.items.len() - 1, 1), "{run:?}");
    assert_eq!(run.skipped[0].call_id, Some(CallId::new("early")));
    assert!(run.skipped[0].reason.contains("newer than this program"), "{run:?}");
    let inbox = world.items(INBOX_TABLE).await;
    let held = world.call("early").await.history.into_iter().map(|entry| entry.source_event_id);
    let lost: Vec<EventId> =
        held.filter(|id| inbox.iter().all(|item| item["event_id"] != AttributeValue::S(id.to_string()))).collect();
    assert_eq!(lost, [], "the other events of the call are refilled");
    let report = found(&verified(&stack, began).await);
    assert!(report.contains("Unreadable") && !report.contains("unknown_event"), "{report}");
}

/// A stack that gave three events their meaning after the backup of its inbox, and whose inbox is restored. Returns the time of the
/// backup.
async fn with_lost_meanings() -> (World, Timestamp) {
    let world = reread::world(&reread::secret(Some(reread::entry()), Some(reread::wrong_rule())));
    let hangup = reread::body("e2", "hangup");
    reread::post(&world, &reread::entry(), &reread::body("e1", "ring")).await;
    assert_eq!(reread::post(&world, &reread::entry(), &hangup).await.1, "recorded");
    quarantined_by_older_version(&world, "c2", Disposition::Quarantined).await;
    world.accept(Provider::Retell, reread::ANALYZED).await;
    world.quiesce().await;
    let backup = back_up(&world, INBOX_TABLE).await;
    world.wait(MINUTE).await;
    let since = world.now();
    reread::put(&world, &reread::secret(Some(reread::better()), Some(reread::right_rule("yes", "no"))));
    let stack = stack(&world);
    carry_out(&stack, &plan_replay(&stack, &everything()).await).await;
    world.wait(MINUTE * 3).await;
    assert_eq!(found(&verified(&stack, since.minus(HOUR)).await), "");
    restore(&world, &backup).await;
    // No index names the third call: ingress knew none for its event.
    let lost = found(&verified(&stack, since.minus(HOUR)).await);
    assert_eq!((lost.matches("unknown_event").count(), lost.matches("wrong_event").count()), (1, 1), "{lost}");
    (world, since)
}

#[tokio::test(start_paused = true)]
async fn meanings_that_events_got_after_the_backup_come_back_by_a_refill() {
    let (world, since) = with_lost_meanings().await;
    let stack = stack(&world);
    let plan = plan_refill(&stack, since, MAX, &mut |_, _| {}).await.unwrap();
    let run = carry_out(&stack, &plan).await;
    assert_eq!((run.counts.done, run.counts.skipped), (3, 0), "{run:?}");
    let report = verified(&stack, since.minus(HOUR)).await;
    assert_eq!((report.matching, found(&report)), (3, String::new()));
    assert!(quarantine::list(&stack, MAX).await.unwrap().is_empty(), "they need no attention");
}

#[tokio::test(start_paused = true)]
async fn event_that_does_not_get_its_meaning_back_is_named() {
    let (world, since) = with_lost_meanings().await;
    reread::put(&world, &reread::secret(None, Some(reread::right_rule("yes", "no"))));
    let stack = stack(&world);
    let plan = plan_refill(&stack, since, MAX, &mut |_, _| {}).await.unwrap();
    let run = carry_out(&stack, &plan).await;
    assert_eq!((run.counts.done, run.counts.skipped), (2, 1), "{run:?}");
    assert_eq!(run.skipped[0].call_id, Some(CallId::new("x-acme:c1")));
    assert!(run.skipped[0].reason.contains("e2"), "{run:?}");
}

#[tokio::test(start_paused = true)]
async fn meanings_that_events_got_after_the_backup_come_back_by_a_replay() {
    let (world, since) = with_lost_meanings().await;
    // The row of this call holds an event that the restored inbox has never seen. A refold would take it out.
    let late = world.accept(Provider::Generic, &generic("c2", "late", "RINGING", 0)).await;
    world.wait(MINUTE).await;
    world.delete_item(INBOX_TABLE, late.as_str()).await;
    let calls = ["x-acme:c1", "c2", "retell:p1"];
    let mut before = Vec::new();
    for id in calls {
        before.push(CallSummary::new(&world.call(id).await));
    }
    let stack = stack(&world);
    let run = carry_out(&stack, &plan_replay(&stack, &everything()).await).await;
    assert_eq!((run.counts.done, run.counts.skipped), (3, 0), "{run:?}");
    world.wait(MINUTE * 3).await;
    assert!(world.call("c2").await.contains_event(&late), "the call was folded again");
    carry_out(&stack, &plan_refill(&stack, since, MAX, &mut |_, _| {}).await.unwrap()).await;
    let report = verified(&stack, since.minus(HOUR)).await;
    assert_eq!((report.matching, found(&report)), (3, String::new()));
    assert!(quarantine::list(&stack, MAX).await.unwrap().is_empty(), "they need no attention");
    for (id, before) in calls.into_iter().zip(before) {
        assert_eq!(CallSummary::new(&world.call(id).await), before);
    }
}

#[tokio::test(start_paused = true)]
async fn refilled_items_are_kept_no_longer_than_other_items_of_the_inbox() {
    let world = World::new();
    let began = world.now();
    let backup = play(&world).await;
    restore(&world, &backup).await;
    let stack = stack(&world);
    let plan = plan_refill(&stack, began, MAX, &mut |_, _| {}).await.unwrap();
    carry_out(&stack, &plan).await;
    // The last of the calls is due in less than three hours.
    let latest = |retention| world.now().plus(retention).plus(HOUR * 3).as_millis() / 1_000;
    let mut kinds = BTreeSet::new();
    for item in world.items(INBOX_TABLE).await {
        let key = key_of(INBOX_TABLE, &item);
        if ["plan:", "run:", "audit:", "sweep:"].iter().any(|prefix| key.starts_with(prefix)) {
            continue;
        }
        let Some(AttributeValue::N(expires_at)) = item.get("expires_at") else { panic!("{item:?}") };
        let retention = if key.starts_with("dials:") { DIALS_RETENTION_MIN } else { INBOX_RETENTION };
        assert!(expires_at.parse::<i64>().unwrap() <= latest(retention), "{key} expires at {expires_at}");
        kinds.insert(if key.ends_with("/created") { "creation" } else { key.split(':').next().unwrap() }.to_owned());
    }
    assert_eq!(kinds, BTreeSet::from(["creation", "dials", "generic", "retell", "switchhook"].map(str::to_owned)));
}

/// The row may be restored to a time before the cancellation as long as the call can become due.
#[tokio::test(start_paused = true)]
async fn record_of_a_cancellation_is_kept_as_long_as_the_one_that_was_lost() {
    let world = World::new();
    let began = world.now();
    let backup = back_up(&world, INBOX_TABLE).await;
    let mut request = call_request("confirms");
    request["due_at"] = json!(began.plus(HOUR * 24 * 60).to_string());
    let id = create(&world, &request).await;
    send(&world, "POST", &format!("/call/cancel?id={id}"), None, &Value::Null).await;
    world.wait(MINUTE * 3).await;
    let record = async || world.item(INBOX_TABLE, &format!("dials:{id}")).await["expires_at"].clone();
    let first = record().await;
    restore(&world, &backup).await;
    world.wait(MINUTE * 3).await;
    let stack = stack(&world);
    carry_out(&stack, &plan_refill(&stack, began, MAX, &mut |_, _| {}).await.unwrap()).await;
    assert_eq!(record().await, first);
}

/// No index names such a call once the inbox has lost the event: it was settled before.
#[tokio::test(start_paused = true)]
async fn late_event_of_a_call_that_was_settled_before_the_backup_comes_back() {
    let world = World::new();
    for (type_, second) in [("RINGING", 1), ("ANSWERED", 3), ("ENDED", 60)] {
        world.accept(Provider::Generic, &generic("team", &format!("t-{type_}"), type_, second)).await;
    }
    world.wait(HOUR * 3).await;
    let settled_at = world.call("team").await.settled_at.unwrap();
    let backup = back_up(&world, INBOX_TABLE).await;
    let since = world.now();
    world.wait(MINUTE).await;
    world.accept(Provider::Generic, &generic("team", "t-late", "USER_CONFIRMED", 70)).await;
    world.quiesce().await;
    let before = world.call("team").await;
    assert!(before.updated_at > since && before.settled_at == Some(settled_at), "{before:?}");
    restore(&world, &backup).await;
    world.wait(MINUTE * 3).await;
    let stack = stack(&world);

    let plan = plan_refill(&stack, since, MAX, &mut |_, _| {}).await.unwrap();
    assert_eq!(plan.items.iter().filter_map(|item| item.call_id.as_ref()).count(), 1, "{plan:?}");
    carry_out(&stack, &plan).await;
    assert!(keys(&world, INBOX_TABLE).await.contains(&"generic:t-late".to_owned()));
    let report = verified(&stack, since).await;
    assert_eq!((report.matching, found(&report)), (1, String::new()));
}

/// The booking was moved away before the backup, and back after it. The inbox says again that its call is called off.
#[tokio::test(start_paused = true)]
async fn call_of_a_booking_that_came_back_is_dialled() {
    let mut world = World::with_secret(&bookings::secret());
    let move_to = |second, hours| bookings::calcom("BOOKING_RESCHEDULED", "b1", second, hours * bookings::HOUR_S);
    bookings::receive(&world, &[bookings::created("b1", 0, 5 * bookings::HOUR_S), move_to(10, 6)]).await;
    let backup = back_up(&world, INBOX_TABLE).await;
    let since = world.now();
    bookings::receive(&world, &[move_to(20, 5)]).await;
    let id = bookings::call_id(&world, "b1").await.unwrap();
    restore(&world, &backup).await;
    let stack = stack(&world);
    let plan = plan_refill(&stack, since.minus(HOUR), MAX, &mut |_, _| {}).await.unwrap();
    carry_out(&stack, &plan).await;
    world.wait(MINUTE * 3).await;
    let report = found(&verified(&stack, since).await);
    assert!(!report.contains("forgotten_cancellation"), "{report}");
    world.skip(MINUTE * 230).await;
    world.wait(MINUTE * 10).await;
    assert_eq!(dials(&world).get(&id), Some(&1));
}

#[tokio::test(start_paused = true)]
async fn webhooks_that_come_again_change_nothing() {
    let world = World::new();
    let backup = play(&world).await;
    let before = world.call("team").await;
    restore(&world, &backup).await;
    // The provider repeats a webhook. The inbox takes it for a new one, and the call knows it.
    world.accept(Provider::Generic, &generic("team", "t-ENDED", "ENDED", 60)).await;
    world.quiesce().await;
    let after = world.call("team").await;
    assert!(after.has_same_state(&before) && after.version == before.version);
}

#[tokio::test(start_paused = true)]
async fn refilled_event_is_read_like_the_webhook_and_replaced_by_none() {
    let world = World::new();
    let began = world.now();
    let backup = play(&world).await;
    restore(&world, &backup).await;
    let stack = stack(&world);
    let plan = plan_refill(&stack, began, MAX, &mut |_, _| {}).await.unwrap();
    carry_out(&stack, &plan).await;
    // A repetition of the webhook is a duplicate again, and no contradiction, although its body differs from the refilled one.
    let (_, answer) = world.post(Provider::Generic, &generic("team", "t-ENDED", "ENDED", 60)).await;
    assert_eq!(answer["status"], "already_processed");
    assert_eq!(world.logged("duplicate").iter().filter(|line| line["cause"] == "conflicting_body").count(), 0);
    // A row that is lost now is rebuilt from the refilled events.
    let before = world.call("team").await;
    world.delete_item(switchhook_local::CALLS_TABLE, "team").await;
    world.wait(MINUTE * 3).await;
    repair(&stack, began).await;
    world.quiesce().await;
    let after = world.call("team").await;
    assert_eq!((after.job, after.history.len()), (before.job, before.history.len()));
}

#[tokio::test(start_paused = true)]
async fn rows_of_a_page_are_written_into_the_inbox_at_the_same_time() {
    const ROWS: u32 = 40;
    const SLOW: Duration = Duration::from_millis(20);
    let world = ringing(ROWS).await;
    let began = world.now().minus(HOUR);
    lose(&world, INBOX_TABLE).await;
    let stack = stack(&world);
    let plan = plan_refill(&stack, began, MAX, &mut |_, _| {}).await.unwrap();
    world.set_fault_hook(|call| {
        let is_event = String::from_utf8_lossy(call.body).contains("\"generic:e");
        let is_put = call.operation == "PutItem" && is_request_to(call, INBOX_TABLE);
        (is_put && is_event).then_some(Fault::Delay(SLOW))
    });
    let started = Instant::now();
    let run = carry_out(&stack, &plan).await;
    assert_eq!((run.counts.done, run.counts.skipped), (ROWS as usize, 0));
    let elapsed = started.elapsed();
    assert!(elapsed >= SLOW && elapsed < SLOW * ROWS / 4, "{elapsed:?}");
}
