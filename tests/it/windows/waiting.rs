//! An event fails for minutes. It waits in the inbox, so that it keeps no other event from the consumer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_aws::calls::Alias;
use switchhook_aws::inbox::AttentionKind;
use switchhook_aws::queue::{RepairKind, RepairWork};
use switchhook_domain::{AttemptKey, CallId, EventId, Provider, ProviderEvent, Timestamp};
use switchhook_local::connector::{Fault, RequestInfo};
use switchhook_local::{EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE, INBOX_TABLE};
use switchhook_operate::dead_letters::{LetterFilter, plan_discard, plan_redrive};
use switchhook_tests::{INBOX_RETENTION, MINUTE, World, down, generic, is_request_to, reads_calls_to_fold, text};

use super::{HOUR, NOTHING, call_events};
use crate::operator::carry_out;
use crate::repair::stack_of;

/// Refuses the consumer's reads of this call.
fn unreadable(call_id: &str) -> impl Fn(&RequestInfo<'_>) -> Option<Fault> + Send + Sync + 'static {
    let key = format!("\"call_id\":{{\"S\":\"{call_id}\"}}");
    move |call| (reads_calls_to_fold(call) && String::from_utf8_lossy(call.body).contains(&key)).then(down)
}

/// Minutes from the first failure to each failure of the event, rounded.
fn minutes_of_tries(world: &World) -> Vec<i64> {
    let at = |line: &Value| Timestamp::parse_rfc3339(line["timestamp"].as_str().unwrap()).unwrap();
    let tries: Vec<Timestamp> = world.logged("retried").iter().map(at).collect();
    tries.iter().map(|try_at| (try_at.millis_since(tries[0]) + 30_000) / 60_000).collect()
}

/// Messages of the events queue, delivered or not.
fn messages(world: &World) -> usize {
    world.cloud.services().sqs().depth(EVENTS_QUEUE).unwrap().total()
}

/// Delivers the messages of the queue now and after three minutes. The sweep has passed them by then, as it has in a stack that runs.
async fn fail_until_events_wait(world: &World) {
    world.consume(&world.receive()).await;
    world.wait(MINUTE * 3).await;
    world.reconcile().await;
    world.consume(&world.receive()).await;
    assert_eq!(messages(world), 0);
}

/// A stopped stack in which the event `generic:e1` of the call `c1` waits.
async fn with_waiting_event() -> (World, EventId) {
    let world = World::stopped();
    world.set_fault_hook(unreadable("c1"));
    let id = world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    fail_until_events_wait(&world).await;
    (world, id)
}

/// Lets the events that wait fail at the last age, and has them given up. The stack stands still in between.
async fn fail_until_events_are_given_up(world: &World) {
    world.wait(MINUTE * 118).await;
    world.reconcile().await;
    world.wait(Duration::from_secs(1)).await;
    world.consume(&world.receive()).await;
    assert_eq!(messages(world), 0);
    world.wait(MINUTE * 5).await;
    world.reconcile().await;
}

/// Ends the trouble of the call `c1`. Expects that the event is folded at its next age.
async fn fold_at_the_next_age(world: &World, id: &EventId) {
    world.clear_faults();
    world.wait(MINUTE * 5).await;
    world.reconcile().await;
    world.consume(&world.receive()).await;
    assert!(world.call("c1").await.contains_event(id));
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
}

#[tokio::test(start_paused = true)]
async fn failing_event_leaves_the_queue_after_minutes_and_is_folded_once_it_can_be() {
    let world = World::new();
    world.set_fault_hook(unreadable("c1"));
    let id = world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.wait(MINUTE).await;
    assert_eq!(messages(&world), 1, "the queue delivers a message that fails for a short time");
    world.wait(MINUTE * 3).await;
    assert_eq!(messages(&world), 0);
    let failed = world.logged("retried").len();
    let status = world.status(&id).await;
    assert_eq!(
        json!([status["status"], status["attempts"], status["error"]]),
        json!(["retrying", failed, "could not read the call"])
    );
    let next = Timestamp::parse_rfc3339(&text(&status["next_retry_at"])).unwrap();
    let pause_ms = next.millis_since(world.now());
    assert!((0..=60_000).contains(&pause_ms), "the next try comes five minutes after the first: {pause_ms} ms");

    world.wait(MINUTE * 2).await;
    assert_eq!(
        world.logged("retried").len(),
        failed + 1,
        "a message that the reconciler sent leaves the queue at its first failure"
    );
    assert_eq!(messages(&world), 0);
    world.clear_faults();
    world.wait(MINUTE * 5).await;
    assert_eq!(world.call("c1").await.history.len(), 1);
    assert_eq!(world.status(&id).await["attempts"], failed + 2, "the try that succeeded counts too");
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
    assert_eq!(world.dead_letters(), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn failing_events_of_many_calls_leave_the_queue_to_the_others() {
    let world = World::new();
    world.set_fault_hook(|call| {
        let is_failing = String::from_utf8_lossy(call.body).contains("\"call_id\":{\"S\":\"failing");
        (reads_calls_to_fold(call) && is_failing).then(down)
    });
    for number in 0..200 {
        world
            .accept(Provider::Generic, &generic(&format!("failing{number}"), &format!("f{number}"), "RINGING", 0))
            .await;
    }
    world.wait(MINUTE * 4 + MINUTE / 2).await;
    assert_eq!(messages(&world), 0);
    assert_eq!(world.attention(AttentionKind::Retrying).await.len(), 200);
    world.accept(Provider::Generic, &generic("healthy", "h", "RINGING", 0)).await;
    world.quiesce().await;
    assert_eq!(world.call("healthy").await.version, 1);
}

#[tokio::test(start_paused = true)]
async fn event_is_tried_for_two_hours_and_then_put_aside() {
    let mut world = World::new();
    world.set_fault_hook(unreadable("c1"));
    let id = world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.wait(MINUTE * 128).await;
    let tries = minutes_of_tries(&world);
    let of_queue = tries.iter().filter(|minutes| **minutes < 5).count();
    assert!((5..=8).contains(&of_queue) && tries[..of_queue].iter().all(|minutes| *minutes <= 3), "{tries:?}");
    // The schedule runs once a minute, so a try comes up to a minute after its age.
    let ages = [5, 10, 20, 30, 45, 60, 75, 90, 105, 120];
    let late: Vec<i64> = tries[of_queue..].iter().zip(ages).map(|(minutes, age)| minutes - age).collect();
    assert!(late.len() == 10 && late.iter().all(|late| (0..=1).contains(late)), "{tries:?}");
    assert_eq!(world.dead_letters().len(), 1);
    assert_eq!(world.dead_letters()[0]["event"]["event_id"], "generic:e1");
    let given_up = world.logged("given_up");
    assert_eq!(
        json!([given_up.len(), given_up[0]["event_id"], given_up[0]["cause"], given_up[0]["retry_count"]]),
        json!([1, "generic:e1", "read_call", tries.len()])
    );
    assert_eq!(world.status(&id).await["status"], "dead_lettered");
    let marks = world.attention(AttentionKind::DeadLettered).await;
    assert_eq!((marks.len(), marks[0].cause.as_deref()), (1, Some("read_call")));
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);

    // A redriven dead letter has all its tries again.
    let sqs = world.cloud.services().sqs();
    assert_eq!(sqs.redrive(EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE).unwrap(), 1);
    world.wait(MINUTE * 4).await;
    assert_eq!(world.dead_letters(), NOTHING);
    assert!(world.logged("retried").len() >= tries.len() + 5);
    world.clear_faults();
    world.wait(MINUTE * 7).await;
    assert!(world.call("c1").await.contains_event(&id));
    assert_eq!(world.attention(AttentionKind::DeadLettered).await, []);
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
    world.stop();
}

#[tokio::test(start_paused = true)]
async fn later_events_of_the_call_are_folded_while_one_waits() {
    let world = World::stopped();
    let is_first_failing = Arc::new(AtomicBool::new(true));
    let first = world.accept(Provider::Generic, &call_events("c1")[0]).await;
    let fails = is_first_failing.clone();
    world.set_fault_hook(move |call| (reads_calls_to_fold(call) && fails.load(Ordering::Relaxed)).then(down));
    fail_until_events_wait(&world).await;
    is_first_failing.store(false, Ordering::Relaxed);
    for body in &call_events("c1")[1..] {
        world.accept(Provider::Generic, body).await;
    }
    assert_eq!(world.consume(&world.receive()).await, 3);
    assert!(!world.call("c1").await.contains_event(&first));
    world.wait(MINUTE * 3).await;
    world.reconcile().await;
    assert_eq!(world.consume(&world.receive()).await, 1);
    let call = world.call("c1").await;
    assert!(call.contains_event(&first), "the event that waited is folded too");
    assert_eq!(call.attempts()[0].lifecycle_label(), "completed");
}

#[tokio::test(start_paused = true)]
async fn event_stays_in_the_queue_while_the_inbox_does_not_hold_it_or_cannot_be_written() {
    let world = World::new();
    world.set_fault_hook(unreadable("c1"));
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.delete_item(INBOX_TABLE, "generic:e1").await;
    world.wait(MINUTE * 10).await;
    assert_eq!(messages(&world), 1);
    world.clear_faults();
    world.wait(MINUTE * 15).await;
    assert!(world.call("c1").await.contains_event(&EventId::new("generic:e1")));

    let fails = unreadable("c2");
    world.set_fault_hook(move |call| {
        let writes_notes = call.operation == "PutItem" && is_request_to(call, INBOX_TABLE);
        let of_note = String::from_utf8_lossy(call.body).contains("note:");
        fails(call).or_else(|| (writes_notes && of_note).then(down))
    });
    world.accept(Provider::Generic, &generic("c2", "e2", "RINGING", 0)).await;
    world.wait(MINUTE * 10).await;
    assert_eq!(messages(&world), 1, "without its note, nobody would send the event again");
    // The pauses grow as they do for a message that cannot wait. So the queue delivers it for more than an hour.
    world.wait(HOUR).await;
    assert_eq!((messages(&world), world.dead_letters()), (1, vec![]));
    world.clear_faults();
    world.wait(MINUTE * 15).await;
    assert!(world.call("c2").await.contains_event(&EventId::new("generic:e2")));
}

/// A consumer that crashes returns its whole batch to the queue. So one message must not become many.
#[tokio::test(start_paused = true)]
async fn event_that_crashes_the_consumer_is_not_sent_a_second_time() {
    let world = World::new();
    world.set_fault_hook(|call| {
        assert!(!reads_calls_to_fold(call), "the consumer crashes here, as the test demands");
        None
    });
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.wait(MINUTE * 12).await;
    assert!(!world.attention(AttentionKind::Retrying).await.is_empty(), "the sweep has marked the event");
    assert_eq!(messages(&world), 1);
    assert!(!world.log_text().contains("\"retried\":"), "no worker must send it");
}

#[tokio::test(start_paused = true)]
async fn runs_that_were_missed_send_what_was_due_meanwhile_and_none_sends_it_twice() {
    let (world, _) = with_waiting_event().await;
    // The event reaches two ages meanwhile, of five and ten minutes.
    world.wait(MINUTE * 10).await;
    world.reconcile().await;
    assert_eq!(world.queued().len(), 1);
    world.wait(Duration::from_secs(1)).await;
    world.reconcile().await;
    assert_eq!(world.queued().len(), 1);
    assert_eq!(world.consume(&world.receive()).await, 1, "it fails again, and waits");
    world.wait(MINUTE * 4).await;
    world.reconcile().await;
    assert_eq!(world.queued(), NOTHING, "the next age is that of 20 minutes");
    world.wait(MINUTE * 4).await;
    world.reconcile().await;
    assert_eq!(world.queued().len(), 1);
}

/// The schedules or the consumer stood still for hours. Events that were tried only in the first minutes are tried once more.
#[tokio::test(start_paused = true)]
async fn event_that_was_not_tried_at_the_last_age_is_tried_before_it_is_given_up() {
    let world = World::stopped();
    world.set_fault_hook(|call| reads_calls_to_fold(call).then(down));
    for call_id in ["c1", "c2"] {
        world.accept(Provider::Generic, &generic(call_id, call_id, "RINGING", 0)).await;
    }
    fail_until_events_wait(&world).await;
    world.wait(HOUR * 3).await;
    world.reconcile().await;
    assert_eq!((world.queued().len(), world.dead_letters().len()), (2, 0));
    // No consumer runs. A run sends no second message until the next pause.
    world.wait(MINUTE).await;
    world.reconcile().await;
    assert_eq!(world.queued().len(), 2);
    world.set_fault_hook(unreadable("c1"));
    world.consume(&world.receive()).await;
    assert!(world.load("c2").await.is_some());
    world.wait(MINUTE).await;
    world.reconcile().await;
    assert_eq!(world.dead_letters().iter().map(|letter| text(&letter["event"]["call_id"])).collect::<Vec<_>>(), ["c1"]);
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
}

#[tokio::test(start_paused = true)]
async fn each_event_that_waits_comes_to_an_end_even_if_no_consumer_tries_it() {
    let (world, id) = with_waiting_event().await;
    let mut sent = 0;
    for _ in 0..5 * 60 {
        world.wait(MINUTE).await;
        world.reconcile().await;
        sent = world.queued().len();
    }
    // At ten ages, and then every 15 minutes.
    assert!((19..=24).contains(&sent), "{sent}");
    assert_eq!(world.dead_letters(), NOTHING);
    world.wait(HOUR).await;
    world.reconcile().await;
    assert_eq!(world.dead_letters().len(), 1);
    assert_eq!(world.status(&id).await["status"], "dead_lettered");
    world.wait(MINUTE).await;
    world.reconcile().await;
    assert_eq!(world.dead_letters().len(), 1);
}

/// One event that cannot be read must not keep the others of its shard waiting.
#[tokio::test(start_paused = true)]
async fn event_that_cannot_be_read_hides_no_other() {
    let world = World::stopped();
    world.set_fault_hook(|call| reads_calls_to_fold(call).then(down));
    for number in 0..8 {
        world.accept(Provider::Generic, &generic(&format!("c{number}"), &format!("e{number}"), "RINGING", 0)).await;
    }
    fail_until_events_wait(&world).await;
    let mut item = world.item(INBOX_TABLE, "generic:e3").await;
    item.insert("body".to_owned(), AttributeValue::S("nonsense".to_owned()));
    world.put_item(INBOX_TABLE, item).await;
    world.clear_faults();
    world.wait(MINUTE * 3).await;
    world.reconcile().await;
    let sent: Vec<EventId> =
        world.queued().iter().map(|message| EventId::new(text(&message["event"]["event_id"]))).collect();
    assert_eq!(sent.len(), 7, "{sent:?}");
    assert!(!world.logged("not_requeued").is_empty());
    world.wait(Duration::from_secs(1)).await;
    assert_eq!(world.consume(&world.receive()).await, 7);

    // It comes to an end too, in the list of dead letters. There is nothing to send. The alarm tells of it for hours before.
    world.wait(MINUTE * 125).await;
    assert!(world.reconcile().await.unfolded_ms > 125 * 60_000);
    assert_eq!(world.attention(AttentionKind::DeadLettered).await, []);
    world.wait(HOUR * 4).await;
    world.reconcile().await;
    assert_eq!(world.dead_letters(), NOTHING);
    let marks = world.attention(AttentionKind::DeadLettered).await;
    assert_eq!(marks.iter().map(|mark| mark.event_id.as_ref().unwrap().as_str()).collect::<Vec<_>>(), ["generic:e3"]);
    // The deadlines of the other calls may wait in the queue, because no consumer runs.
    let retrying = world.attention(AttentionKind::Retrying).await;
    assert!(retrying.iter().all(|mark| mark.event_id.as_ref().unwrap().as_str() != "generic:e3"), "{retrying:?}");
}

/// The fold of a waiting event may lose its chance to remove the mark. Such an event is no dead letter.
#[tokio::test(start_paused = true)]
async fn folded_event_whose_mark_stayed_is_not_given_up() {
    let (world, id) = with_waiting_event().await;
    world.clear_faults();
    let event = world.inbox.get_normalized(&id).await.unwrap().unwrap();
    world.wait(MINUTE * 3).await;
    world.queue.send(&event, "test").await.unwrap();
    world.inject_fault("UpdateItem", INBOX_TABLE, u64::MAX, down());
    world.consume(&world.receive()).await;
    assert!(world.call("c1").await.contains_event(&id));
    assert_eq!(world.attention(AttentionKind::Retrying).await.len(), 1);
    // Only the worker looks at the mark, so that the test is about it.
    world.wait(HOUR * 3).await;
    let until = world.now();
    world.clear_faults();
    let work = RepairWork::first(RepairKind::Retry { after: until.minus(MINUTE) }, 0, until, until.plus(MINUTE));
    let works: Vec<RepairWork> =
        world.inbox.attention_shards().map(|shard| RepairWork { shard, ..work.clone() }).collect();
    world.reconciler.repair_queue.send_repairs(&works).await.unwrap();
    world.repair().await;
    assert_eq!(world.dead_letters(), NOTHING);
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
}

/// A worker dies after it has sent the message, and before it has written the mark.
#[tokio::test(start_paused = true)]
async fn event_is_given_up_again_if_the_first_time_was_not_noted() {
    for pause in [MINUTE, MINUTE * 7] {
        let (world, _) = with_waiting_event().await;
        world.wait(MINUTE * 118).await;
        world.reconcile().await;
        world.wait(Duration::from_secs(1)).await;
        world.consume(&world.receive()).await;
        world.wait(MINUTE * 5).await;
        world.inject_fault("UpdateItem", INBOX_TABLE, u64::MAX, down());
        assert!(world.reconcile().await.failed > 0);
        assert_eq!(world.dead_letters().len(), 1);
        assert_eq!(world.attention(AttentionKind::DeadLettered).await, []);
        world.clear_faults();
        world.wait(pause).await;
        world.reconcile().await;
        assert_eq!(world.attention(AttentionKind::DeadLettered).await.len(), 1);
        // SQS drops the second message for five minutes only. A redrive counts two dead letters of an event as one.
        assert_eq!(world.dead_letters().len(), if pause == MINUTE { 1 } else { 2 });
    }
}

/// The message of a dead letter stays while its event is tried again. Neither that message nor another dead letter may end the tries.
#[tokio::test(start_paused = true)]
async fn event_that_was_redriven_too_early_has_all_its_tries_again() {
    let (world, id) = with_waiting_event().await;
    fail_until_events_are_given_up(&world).await;
    assert_eq!(world.dead_letters().len(), 1);
    let stack = stack_of(&world);
    let filter = LetterFilter { keys: vec![id.to_string()], ..LetterFilter::default() };
    let redrive = plan_redrive(&stack, &filter, 10).await.unwrap();
    let (run, ()) = tokio::join!(carry_out(&stack, &redrive), async {
        for _ in 0..10 {
            world.wait(MINUTE / 2).await;
            world.consume(&world.receive()).await;
        }
    });
    assert_eq!(run.counts.skipped, 1, "{run:?}");
    assert_eq!(messages(&world), 0, "the event waits in the inbox again");
    assert_eq!(world.dead_letters().len(), 1, "its dead letter stays");

    let quarantined = world.post(Provider::Generic, "not JSON").await;
    world.reconcile().await;
    assert_eq!(world.dead_letters().len(), 2, "{quarantined:?}");
    assert_eq!(world.attention(AttentionKind::Retrying).await.len(), 1);
    let discard = plan_discard(&stack, &filter, 10).await.unwrap();
    carry_out(&stack, &discard).await;
    assert_eq!(world.dead_letters().len(), 1);
    assert_eq!(world.attention(AttentionKind::Retrying).await.len(), 1, "nobody else would send the event");
    fold_at_the_next_age(&world, &id).await;
}

/// A young message of a call that has failed for minutes is not hidden for as long as the old one would be.
#[tokio::test(start_paused = true)]
async fn young_message_behind_one_that_waits_comes_back_soon() {
    let world = World::stopped();
    world.set_fault_hook(unreadable("c1"));
    world.accept(Provider::Generic, &call_events("c1")[0]).await;
    for _ in 0..6 {
        world.consume(&world.receive()).await;
        world.wait(MINUTE + MINUTE / 6).await;
    }
    assert_eq!(messages(&world), 0);
    world.accept(Provider::Generic, &call_events("c1")[1]).await;
    let event = world.inbox.get_normalized(&EventId::new("generic:c1-CALL_STARTED")).await.unwrap().unwrap();
    world.queue.send(&event, "test").await.unwrap();
    assert_eq!(world.consume(&world.receive()).await, 1, "the old event waits again");
    world.wait(Duration::from_secs(3)).await;
    assert_eq!(world.receive().len(), 1);
}

/// A consumer fails to fold an event, and is slow. Meanwhile another one fails too, notes that the event waits, and deletes the message.
#[tokio::test(start_paused = true)]
async fn note_that_comes_late_does_not_end_the_tries_of_an_event_that_waits() {
    let (world, id) = with_waiting_event().await;
    let event = world.inbox.get_normalized(&id).await.unwrap().unwrap();
    world.wait(MINUTE * 3).await;
    world.queue.send(&event, "test").await.unwrap();
    let batch = world.receive();
    assert_eq!(world.consume(&batch).await, 1);
    assert_eq!(messages(&world), 0);
    let fails = unreadable("c1");
    world.set_fault_hook(move |call| {
        let reads_note = call.operation == "GetItem" && String::from_utf8_lossy(call.body).contains("note:");
        fails(call).or_else(|| reads_note.then(down))
    });
    assert_eq!(world.invoke_consumer(&batch).await, []);
    fold_at_the_next_age(&world, &id).await;
}

/// The message of a dead letter stays if its event was redriven too early. Once the event is folded, it is no trouble.
#[tokio::test(start_paused = true)]
async fn dead_letter_of_a_folded_event_is_not_listed_again() {
    let (world, id) = with_waiting_event().await;
    fail_until_events_are_given_up(&world).await;
    let event = world.inbox.get_normalized(&id).await.unwrap().unwrap();
    world.wait(MINUTE).await;
    world.queue.send(&event, "test").await.unwrap();
    assert_eq!(world.consume(&world.receive()).await, 0);
    world.clear_faults();
    world.wait(MINUTE).await;
    assert_eq!(world.consume(&world.receive()).await, 1);
    assert!(world.call("c1").await.contains_event(&id));
    assert_eq!(world.post(Provider::Generic, "not JSON").await.0, 200);
    world.wait(MINUTE).await;
    assert_eq!(world.reconcile().await.dead_letters_marked, 0);
    assert_eq!(world.dead_letters().len(), 2);
    assert_eq!(world.attention(AttentionKind::DeadLettered).await, []);
}

/// A lookup may find an event that the inbox has under another call, and send it to the call that lacks it. The stored event names the other one.
#[tokio::test(start_paused = true)]
async fn adopted_event_stays_in_the_queue_because_the_inbox_has_it_for_another_call() {
    let world = World::stopped();
    let id = world.accept(Provider::Generic, &generic("c2", "e1", "RINGING", 0)).await;
    world.consume(&world.receive()).await;
    let event = world.inbox.get_normalized(&id).await.unwrap().unwrap();
    world.set_fault_hook(unreadable("c1"));
    world.wait(MINUTE * 6).await;
    let adopted = ProviderEvent { call_id: CallId::new("c1"), ..event };
    world.queue.send(&adopted, "test").await.unwrap();
    for _ in 0..3 {
        assert_eq!(world.consume(&world.receive()).await, 0);
        world.wait(MINUTE * 3).await;
    }
    assert_eq!(messages(&world), 1);
    world.clear_faults();
    assert_eq!(world.consume(&world.receive()).await, 1);
    assert!(world.call("c1").await.contains_event(&id));
}

/// The marks of one shard cannot be read. Those of the others are worked on, and so are its own once they can be read.
#[tokio::test(start_paused = true)]
async fn shard_that_cannot_be_read_hides_no_other() {
    let world = World::stopped();
    world.set_fault_hook(|call| reads_calls_to_fold(call).then(down));
    for number in 0..20 {
        world.accept(Provider::Generic, &generic(&format!("c{number}"), &format!("e{number}"), "RINGING", 0)).await;
    }
    for _ in 0..2 {
        world.consume(&world.receive()).await;
    }
    world.wait(MINUTE * 3).await;
    world.reconcile().await;
    for _ in 0..2 {
        world.consume(&world.receive()).await;
    }
    assert_eq!(messages(&world), 0);
    let reads_shard = |call: &RequestInfo<'_>| String::from_utf8_lossy(call.body).contains("\"retrying#0\"");
    world.set_fault_hook(move |call| reads_shard(call).then(down));
    world.wait(MINUTE * 3).await;
    let run = world.cloud.reconcile().await.unwrap();
    assert!(run.is_err(), "the run reports the error");
    assert!(world.log_text().contains("\"unfolded_ms\":"), "the alarm must not end");
    world.clear_faults();
    world.repair().await;
    assert_eq!(world.queued().len(), 20);

    // A single error is no trouble.
    world.inject_fault("Query", INBOX_TABLE, 1, down());
    assert!(world.cloud.reconcile().await.unwrap().is_ok());
}

/// The webhook never reached the queue, and its call became an alias. The sweep sends the event to the call that it belongs to now.
#[tokio::test(start_paused = true)]
async fn event_that_the_sweep_adopted_waits_like_others() {
    let world = World::stopped();
    let id = world.accept(Provider::Generic, &generic("theirs", "e1", "RINGING", 0)).await;
    for message in world.receive() {
        world.cloud.services().sqs().delete(EVENTS_QUEUE, &message.receipt_handle).unwrap();
    }
    let alias = Alias { call_id: CallId::new("ours"), attempt: AttemptKey::new("1") };
    drop(world.calls.write_alias(&CallId::new("theirs"), &alias, INBOX_RETENTION, world.now()).await.unwrap());
    world.set_fault_hook(unreadable("ours"));
    world.wait(MINUTE * 3).await;
    world.reconcile().await;
    assert_eq!(world.queued()[0]["event"]["call_id"], "ours");
    assert_eq!(world.consume(&world.receive()).await, 0);
    world.wait(MINUTE * 3).await;
    assert_eq!(world.consume(&world.receive()).await, 1);
    assert_eq!(messages(&world), 0, "the event waits");
    world.clear_faults();
    world.wait(MINUTE * 3).await;
    world.reconcile().await;
    assert_eq!(world.consume(&world.receive()).await, 1);
    assert!(world.call("ours").await.contains_event(&id));
}

/// The dialer must know of an event that waits. So one that cannot be listed for it keeps its message.
#[tokio::test(start_paused = true)]
async fn event_that_cannot_be_listed_under_its_call_stays_in_the_queue() {
    let world = World::stopped();
    let reads_c1 = unreadable("c1");
    world.set_fault_hook(move |call| {
        let lists = call.operation == "UpdateItem" && String::from_utf8_lossy(call.body).contains("\"unfolded:c1\"");
        reads_c1(call).or_else(|| lists.then(down))
    });
    let id = world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    for _ in 0..3 {
        assert_eq!(world.consume(&world.receive()).await, 0);
        world.wait(MINUTE * 3).await;
    }
    assert_eq!(messages(&world), 1);
    world.set_fault_hook(unreadable("c1"));
    assert_eq!(world.consume(&world.receive()).await, 1);
    assert_eq!((messages(&world), world.inbox.get_note(&id).await.unwrap().unwrap().waits), (0, true));
    assert_eq!(world.inbox.unfolded_events(&[CallId::new("c1")].into()).await.unwrap()[0].event_id, Some(id));
}

/// An earlier version runs again, which would only record the event. The event was stored to be folded, so its wait does not end.
#[tokio::test(start_paused = true)]
async fn event_that_this_version_would_only_record_keeps_its_wait() {
    let (world, id) = with_waiting_event().await;
    let mut other = world.item(INBOX_TABLE, id.as_str()).await;
    drop(world.post(Provider::Generic, &generic("c2", "e2", "SOMETHING_NEW", 0)).await);
    let recorded = world.item(INBOX_TABLE, "generic:e2").await;
    assert_eq!(recorded["disposition"], AttributeValue::S("recorded".to_owned()));
    for name in ["body", "body_hash", "dictionary"] {
        other.extend(recorded.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    world.put_item(INBOX_TABLE, other).await;
    assert_eq!(world.inbox.get_normalized(&id).await.unwrap(), None);
    world.wait(HOUR * 5).await;
    world.reconcile().await;
    let note = world.inbox.get_note(&id).await.unwrap().unwrap();
    assert!(note.waits && world.attention(AttentionKind::Retrying).await.len() == 1);
    world.wait(HOUR * 2).await;
    world.reconcile().await;
    assert_eq!(world.attention(AttentionKind::DeadLettered).await.len(), 1);
}
