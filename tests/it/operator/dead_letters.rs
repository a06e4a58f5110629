//! Dead letters are listed by cause, redriven, and discarded.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use switchhook_aws::inbox::{AttentionKind, SweepCursor, minute_of};
use switchhook_domain::{CallId, EventId, Provider};
use switchhook_local::connector::Fault;
use switchhook_local::queue::NewMessage;
use switchhook_local::{EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE, INBOX_TABLE};
use switchhook_operate::dead_letters::{
    DeadLetters, LISTED_DEFAULT, LetterFilter, LetterKind, find, list, plan_discard, plan_redrive,
};
use switchhook_operate::plan::{Action, Plan, Verb};
use switchhook_operate::quarantine::{self, QuarantineFilter};
use switchhook_operate::run::{self, Run, RunId, RunOptions, RunState};
use switchhook_operate::verify::{VerifyFilter, verify};
use switchhook_operate::{Error, Refusal, events};
use switchhook_tests::{World, down, generic, reads_calls_to_fold, text};
use tokio::sync::Notify;

use super::{MAX, carry_out, carry_out_in_two, options, stack};
use crate::repair::{consume_all, drop_messages, everything, plan_replay};

/// Time of a slow request: less than an attempt of the client may take.
const SLOW: Duration = Duration::from_millis(900);
/// Notices of a long queue.
const NOTICES: usize = 1_400;
const ALL: LetterFilter = LetterFilter { keys: Vec::new(), cause: None, origin: None, all: true };

/// A running stack with two dead letters of the calls `c1` and `c2`: the calls table was down for too long.
pub(crate) async fn with_dead_letters() -> World {
    let mut world = World::new();
    // The sweep finds both events missing, and its messages are dropped as repetitions.
    world.set_fault_hook(|call| reads_calls_to_fold(call).then(down));
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.accept(Provider::Generic, &generic("c2", "e2", "RINGING", 0)).await;
    world.wait_for_dead_letters(2).await;
    world.clear_faults();
    world
}

/// The refold of such a call is left alone. Without its dead letter, nobody would learn that the call is still wrong.
#[tokio::test(start_paused = true)]
async fn dead_letter_stays_if_the_refold_of_its_call_is_left_alone() {
    let world = with_dead_letters().await;
    let stack = stack(&world);
    // The events are folded after all, and this version reads one of them differently.
    carry_out(&stack, &plan_replay(&stack, &everything()).await).await;
    world.quiesce().await;
    world
        .alter_history("c1", |history| {
            for entry in history.iter_mut() {
                *entry = entry.replace("ringing", "in_progress");
            }
        })
        .await;
    let filter = LetterFilter { keys: vec!["generic:e1".to_owned()], ..LetterFilter::default() };
    let plan = plan_redrive(&stack, &filter, MAX).await.unwrap();
    let actions: Vec<Action> = plan.items.iter().map(|item| item.action).collect();
    assert_eq!(actions, [Action::Redrive, Action::Refold], "{plan:?}");
    world.accept(Provider::Generic, &generic("c1", "e3", "BUSY", 3)).await;
    world.quiesce().await;
    let letters = world.dead_letters().len();
    assert_eq!(carry_out(&stack, &plan).await.result(), "0 done, 0 unchanged, 2 skipped");
    assert_eq!(world.dead_letters().len(), letters);
}

async fn listed(world: &World) -> DeadLetters {
    list(&stack(world), LISTED_DEFAULT).await.unwrap()
}

/// Number of letters that only one of the two sources names.
fn differing(letters: &DeadLetters) -> usize {
    letters.iter().filter(|(_, letter)| letter.message_id.is_none() || !letter.in_index).count()
}

fn send_to_dlq(world: &World, body: &str, group: &str) {
    let message = NewMessage {
        body: body.to_owned(),
        group: Some(group.to_owned()),
        deduplication_id: Some(format!("{group}-{}", body.len())),
        ..NewMessage::default()
    };
    world.cloud.services().sqs().send(EVENTS_DEAD_LETTER_QUEUE, message).unwrap();
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_listed_by_cause_and_stay_visible() {
    let world = with_dead_letters().await;
    send_to_dlq(&world, "{\"nonsense\":true}", "g");
    world.post(Provider::Generic, "not JSON").await;
    for _ in 0..2 {
        let letters = listed(&world).await;
        assert_eq!((letters.in_queue, letters.not_received), (4, 0));
        let kinds: Vec<(usize, LetterKind)> =
            letters.causes.iter().map(|cause| (cause.letters.len(), cause.letters[0].kind)).collect();
        assert_eq!(kinds[0], (2, LetterKind::Event), "{letters:#?}");
        assert!(kinds.contains(&(1, LetterKind::QuarantineNotice)) && kinds.contains(&(1, LetterKind::Unreadable)));
        assert_eq!(letters.causes[0].cause, "could not read the call");
        let tries = letters.causes[0].letters[0].tries;
        assert!(tries.is_some_and(|tries| (14..=19).contains(&tries)), "{tries:?}");
        assert_eq!(differing(&letters), 0, "{letters:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn redrive_folds_the_events_and_then_deletes_their_dead_letters() {
    let world = with_dead_letters().await;
    world.post(Provider::Generic, "not JSON").await;
    let stack = stack(&world);
    let plan = plan_redrive(&stack, &ALL, MAX).await.unwrap();
    assert_eq!((plan.items.len(), plan.effects.len()), (2, 2), "{plan:?}");
    assert_eq!(plan.effects[0].after.as_ref().unwrap().lifecycle, "ringing");
    let run = carry_out_in_two(&stack, &plan).await;
    assert_eq!(run.result(), "2 done, 0 unchanged, 0 skipped");
    for call in ["c1", "c2"] {
        assert_eq!(world.call(call).await.history.len(), 1);
    }
    assert_eq!(world.dead_letters().len(), 1, "the notice stays");
    let left = listed(&world).await;
    assert_eq!(left.iter().map(|(_, letter)| letter.kind).collect::<Vec<_>>(), [LetterKind::QuarantineNotice]);
    let nothing = plan_redrive(&stack, &ALL, MAX).await.unwrap();
    assert!(nothing.items.is_empty(), "{nothing:?}");
}

#[tokio::test(start_paused = true)]
async fn dead_letter_stays_until_its_event_is_folded() {
    let mut world = with_dead_letters().await;
    world.stop();
    let stack = stack(&world);
    let filter = LetterFilter { keys: vec!["generic:e1".to_owned()], ..LetterFilter::default() };
    let plan = plan_redrive(&stack, &filter, MAX).await.unwrap();
    let run = carry_out(&stack, &plan).await;
    assert_eq!((run.counts.skipped, world.dead_letters().len()), (1, 2), "{run:?}");
    assert!(run.skipped[0].reason.contains("could not be folded yet"), "{run:?}");

    // The event was queued. Another redrive finds it folded, and deletes the dead letter.
    world.start();
    world.quiesce().await;
    assert_eq!(world.call("c1").await.history.len(), 1);
    let plan = plan_redrive(&stack, &filter, MAX).await.unwrap();
    carry_out(&stack, &plan).await;
    assert_eq!(world.dead_letters().len(), 1);
}

/// Returns the body of the only dead letter of `generic:e1`.
fn first_letter(world: &World) -> String {
    let letters = world.dead_letters().into_iter().map(|letter| letter.to_string());
    let first: Vec<String> = letters.filter(|body| body.contains("generic:e1")).collect();
    assert_eq!(first.len(), 1);
    first[0].clone()
}

/// The sweep queued the event again, and the consumer gave it up once more.
fn give_up_again(world: &World) {
    send_to_dlq(world, &first_letter(world), "c1-again");
}

/// The event is replayed after the discard, and every consumer crashes before it can write a note. Nothing else queues the event.
#[tokio::test(start_paused = true)]
async fn discarded_event_that_becomes_a_dead_letter_again_is_marked_and_holds_its_call() {
    let mut world = with_dead_letters().await;
    world.stop();
    let first = first_letter(&world);
    let plan = plan_all(Verb::DiscardDeadLetters, &world).await;
    assert_eq!(carry_out(&stack(&world), &plan).await.result(), "2 done, 0 unchanged, 0 skipped");
    assert_eq!(world.reconciler.run("test").await.unwrap().dead_letters_marked, 0);
    let unfolded = async || world.inbox.unfolded_events(&[CallId::new("c1")].into()).await.unwrap();
    assert_eq!(unfolded().await, []);
    // The sweep was late, and comes to the events only now.
    let cursor = world.inbox.sweep_cursor().await.unwrap().unwrap();
    let received_at = world.inbox.get(&EventId::new("generic:e1")).await.unwrap().unwrap().received_at;
    let late = SweepCursor { minute: minute_of(received_at) - 1, left: BTreeMap::new() };
    assert!(world.inbox.advance_sweep_cursor(Some(cursor.minute), &late).await.unwrap());
    assert_eq!(world.reconciler.run("test").await.unwrap().requeued, 0);

    send_to_dlq(&world, &first, "c1-again");
    assert_eq!(world.reconciler.run("test").await.unwrap().dead_letters_marked, 1);
    let marks = unfolded().await;
    assert_eq!((marks.len(), marks[0].kind), (1, AttentionKind::DeadLettered));
    assert_eq!(marks, world.attention(AttentionKind::DeadLettered).await);
    // It has its mark, so it is not marked again.
    send_to_dlq(&world, &format!("{first} "), "c1-again");
    assert_eq!(world.reconciler.run("test").await.unwrap().dead_letters_marked, 0);
    assert_eq!(unfolded().await, marks);
}

/// Every consumer crashed before it could write a note, and the reconciler has not marked the event yet.
#[tokio::test(start_paused = true)]
async fn event_of_a_discarded_dead_letter_without_a_note_is_missing_nowhere() {
    let mut world = with_dead_letters().await;
    world.stop();
    let began = world.now();
    let id = world.accept(Provider::Generic, &generic("c1", "e3", "BUSY", 3)).await;
    drop_messages(&world);
    send_to_dlq(&world, &first_letter(&world).replace("generic:e1", "generic:e3"), "c1-again");
    let stack = stack(&world);
    let filter = LetterFilter { keys: vec![id.to_string()], ..LetterFilter::default() };
    let plan = plan_discard(&stack, &filter, MAX).await.unwrap();
    assert_eq!(carry_out(&stack, &plan).await.result(), "1 done, 0 unchanged, 0 skipped");
    world.wait(Duration::from_secs(10 * 60)).await;
    let report = verify(&stack, &VerifyFilter::Since, began, &mut |_, _| {}).await.unwrap();
    assert!(report.findings.is_empty(), "{report:?}");
    // A note that never expires could not be read.
    assert!(world.inbox.get_note(&id).await.unwrap().is_some());
    assert_eq!(world.status(&id).await["status"], "discarded");
    assert_eq!(events::status(&stack, &id).await.unwrap().unwrap().status, "discarded");
}

/// Its call has it then, and would lose it with its row.
#[tokio::test(start_paused = true)]
async fn event_that_is_folded_while_its_dead_letter_is_discarded_is_not_marked() {
    let mut world = with_dead_letters().await;
    world.stop();
    let id = world.accept(Provider::Generic, &generic("c1", "e3", "BUSY", 3)).await;
    send_to_dlq(&world, &first_letter(&world).replace("generic:e1", "generic:e3"), "c1-again");
    let stack = stack(&world);
    let filter = LetterFilter { keys: vec![id.to_string()], ..LetterFilter::default() };
    let plan = plan_discard(&stack, &filter, MAX).await.unwrap();
    let is_marking = Arc::new(Notify::new());
    let marking = is_marking.clone();
    world.set_fault_hook(move |call| {
        let is_mark = String::from_utf8_lossy(call.body).contains("SET discarded_at");
        is_mark.then(|| {
            marking.notify_one();
            Fault::Delay(SLOW)
        })
    });
    let fold = async {
        is_marking.notified().await;
        consume_all(&world).await;
    };
    let (run, ()) = tokio::join!(carry_out(&stack, &plan), fold);
    assert_eq!(run.result(), "1 done, 0 unchanged, 0 skipped");
    assert!(world.call("c1").await.contains_event(&id));
    assert!(world.inbox.discarded(&[id]).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn two_dead_letters_of_one_event_are_one_item_and_stay_until_it_is_folded() {
    let mut world = with_dead_letters().await;
    give_up_again(&world);
    world.stop();
    let stack = stack(&world);
    let filter = LetterFilter { keys: vec!["generic:e1".to_owned()], ..LetterFilter::default() };
    let plan = plan_redrive(&stack, &filter, MAX).await.unwrap();
    let run = carry_out(&stack, &plan).await;
    assert_eq!((run.result().as_str(), world.dead_letters().len()), ("0 done, 0 unchanged, 1 skipped", 3));
}

#[tokio::test(start_paused = true)]
async fn both_dead_letters_of_one_event_are_deleted() {
    for verb in [Verb::Redrive, Verb::DiscardDeadLetters] {
        let world = with_dead_letters().await;
        give_up_again(&world);
        let plan = plan_all(verb, &world).await;
        assert_eq!(plan.items.len(), 2, "{plan:?}");
        assert_eq!(carry_out(&stack(&world), &plan).await.result(), "2 done, 0 unchanged, 0 skipped");
        assert!(world.dead_letters().is_empty(), "{verb:?}");
    }
}

/// The queue gives out ten messages of the call at a time, so two are behind them.
#[tokio::test(start_paused = true)]
async fn named_dead_letters_of_one_call_are_deleted_with_those_behind_them() {
    let world = with_dead_letters().await;
    let letters = world.dead_letters().into_iter().map(|letter| letter.to_string());
    let first = letters.into_iter().find(|body| body.contains("generic:e1")).unwrap();
    let ids: Vec<String> = (3..=8).map(|number| format!("generic:e{number}")).collect();
    for (time, id) in ["once", "twice"].iter().flat_map(|time| ids.iter().map(move |id| (time, id))) {
        let message = NewMessage {
            body: first.replace("generic:e1", id),
            group: Some("c1-again".to_owned()),
            deduplication_id: Some(format!("{id}-{time}")),
            ..NewMessage::default()
        };
        world.cloud.services().sqs().send(EVENTS_DEAD_LETTER_QUEUE, message).unwrap();
    }
    let stack = stack(&world);
    let filter = LetterFilter { keys: ids, ..LetterFilter::default() };
    let plan = plan_discard(&stack, &filter, MAX).await.unwrap();
    assert_eq!(carry_out(&stack, &plan).await.result(), "6 done, 0 unchanged, 0 skipped");
    assert_eq!(world.dead_letters().len(), 2, "those of the two other calls");
}

/// The other message expired, or another operator deleted it.
#[tokio::test(start_paused = true)]
async fn run_does_not_wait_for_one_of_two_dead_letters_that_is_gone() {
    let world = with_dead_letters().await;
    give_up_again(&world);
    let plan = plan_all(Verb::DiscardDeadLetters, &world).await;
    let sqs = world.cloud.services().sqs();
    let received = sqs.receive(EVENTS_DEAD_LETTER_QUEUE, 10, Some(1_000)).unwrap();
    let last = received.iter().rfind(|received| received.message.body.contains("generic:e1")).unwrap();
    let _ = sqs.delete(EVENTS_DEAD_LETTER_QUEUE, &last.receipt_handle).unwrap();
    world.wait(Duration::from_secs(2)).await;
    let began = world.now();
    assert_eq!(carry_out(&stack(&world), &plan).await.result(), "2 done, 0 unchanged, 0 skipped");
    assert!(world.now().millis_since(began) < 10_000 && world.dead_letters().is_empty());
}

/// Hides all dead letters, as another reader does.
fn hide(world: &World, time: Duration) {
    let milliseconds = u64::try_from(time.as_millis()).unwrap();
    let hidden = world.cloud.services().sqs().receive(EVENTS_DEAD_LETTER_QUEUE, 10, Some(milliseconds)).unwrap();
    assert_eq!(hidden.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn run_waits_for_dead_letters_that_another_reader_hides() {
    let world = with_dead_letters().await;
    let stack = stack(&world);
    let plan = plan_redrive(&stack, &ALL, MAX).await.unwrap();
    hide(&world, Duration::from_secs(10));
    assert_eq!(carry_out(&stack, &plan).await.result(), "2 done, 0 unchanged, 0 skipped");
    assert_eq!(world.dead_letters().len(), 0);
}

async fn plan_all(verb: Verb, world: &World) -> Plan {
    let stack = stack(world);
    if verb == Verb::Redrive {
        plan_redrive(&stack, &ALL, MAX).await.unwrap()
    } else {
        plan_discard(&stack, &ALL, MAX).await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn hidden_dead_letters_are_left_alone_and_named() {
    for verb in [Verb::Redrive, Verb::DiscardDeadLetters] {
        let world = with_dead_letters().await;
        let stack = stack(&world);
        let plan = plan_all(verb, &world).await;
        hide(&world, Duration::from_secs(300));
        let run = carry_out(&stack, &plan).await;
        assert_eq!(run.result(), "0 done, 0 unchanged, 2 skipped");
        assert!(run.skipped[0].reason.contains("another reader hides it"), "{run:?}");
        let left = listed(&world).await;
        assert_eq!(left.in_queue, 2);
        // The consumer has folded the events that were sent again. The others stay on the list.
        assert_eq!(left.iter().count(), if verb == Verb::Redrive { 0 } else { 2 });

        world.wait(Duration::from_secs(300)).await;
        assert_eq!(world.dead_letters().len(), 2);
        let run = carry_out(&stack, &plan_all(verb, &world).await).await;
        assert_eq!((run.counts.skipped, world.dead_letters().len()), (0, 0), "{run:?}");
        assert_eq!(listed(&world).await.iter().count(), 0);
        let is_folded = world.load("c1").await.is_some_and(|call| call.contains_event(&EventId::new("generic:e1")));
        assert_eq!(is_folded, verb == Verb::Redrive);
    }
}

/// The run died after it had deleted the messages. The queue still holds messages that it cannot receive.
#[tokio::test(start_paused = true)]
async fn discard_that_was_killed_ends_beside_a_call_with_many_dead_letters() {
    let world = with_dead_letters().await;
    let stack = stack(&world);
    let plan = plan_all(Verb::DiscardDeadLetters, &world).await;
    let sqs = world.cloud.services().sqs();
    for message in sqs.receive(EVENTS_DEAD_LETTER_QUEUE, 10, None).unwrap() {
        let _ = sqs.delete(EVENTS_DEAD_LETTER_QUEUE, &message.receipt_handle).unwrap();
    }
    for number in 0..15 {
        send_to_dlq(&world, &format!("{{{}}}", " ".repeat(number)), "another-call");
    }
    let run = carry_out(&stack, &plan).await;
    assert_eq!((run.state, run.counts.skipped), (RunState::Finished, 2), "{run:?}");
    let again =
        LetterFilter { keys: vec!["generic:e1".to_owned(), "generic:e2".to_owned()], ..LetterFilter::default() };
    let run = carry_out(&stack, &plan_discard(&stack, &again, MAX).await.unwrap()).await;
    assert_eq!(run.result(), "2 done, 0 unchanged, 0 skipped");
    let left = listed(&world).await;
    assert!(left.iter().all(|(_, letter)| letter.event_id.is_none()), "{left:#?}");
}

#[tokio::test(start_paused = true)]
async fn event_that_the_inbox_lost_is_redriven_from_its_message() {
    let world = with_dead_letters().await;
    world.delete_item(INBOX_TABLE, "generic:e1").await;
    let stack = stack(&world);
    let plan = plan_redrive(&stack, &ALL, MAX).await.unwrap();
    assert_eq!((plan.items.len(), plan.skipped_count), (2, 0), "{plan:?}");
    carry_out(&stack, &plan).await;
    assert_eq!(world.call("c1").await.history.len(), 1);
    assert_eq!(world.dead_letters().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn dead_letter_whose_message_is_gone_is_redriven_from_the_inbox() {
    let world = with_dead_letters().await;
    let sqs = world.cloud.services().sqs();
    for message in sqs.receive(EVENTS_DEAD_LETTER_QUEUE, 10, None).unwrap() {
        let _ = sqs.delete(EVENTS_DEAD_LETTER_QUEUE, &message.receipt_handle).unwrap();
    }
    let letters = listed(&world).await;
    assert_eq!((letters.in_queue, differing(&letters)), (0, 2), "{letters:#?}");
    let stack = stack(&world);
    carry_out(&stack, &plan_redrive(&stack, &ALL, MAX).await.unwrap()).await;
    assert_eq!(world.call("c2").await.history.len(), 1);
    assert_eq!(listed(&world).await.iter().count(), 0, "they need no attention any more");
}

/// A queue hands out ten messages of one call at a time. The others of that call look like hidden ones.
#[tokio::test(start_paused = true)]
async fn run_does_not_wait_for_the_message_of_a_dead_letter_that_had_none() {
    for verb in [Verb::Redrive, Verb::DiscardDeadLetters] {
        let world = with_dead_letters().await;
        let sqs = world.cloud.services().sqs();
        for message in sqs.receive(EVENTS_DEAD_LETTER_QUEUE, 10, None).unwrap() {
            let _ = sqs.delete(EVENTS_DEAD_LETTER_QUEUE, &message.receipt_handle).unwrap();
        }
        for number in 0..15 {
            send_to_dlq(&world, &format!("{{{}}}", " ".repeat(number)), "another-call");
        }
        let stack = stack(&world);
        let filter = LetterFilter { keys: vec!["generic:e1".to_owned()], ..LetterFilter::default() };
        let plan = if verb == Verb::Redrive {
            plan_redrive(&stack, &filter, MAX).await.unwrap()
        } else {
            plan_discard(&stack, &filter, MAX).await.unwrap()
        };
        assert_eq!(carry_out(&stack, &plan).await.result(), "1 done, 0 unchanged, 0 skipped");
        assert_eq!(world.dead_letters().len(), 15);
        let left = listed(&world).await;
        assert!(left.iter().all(|(_, letter)| letter.key != "generic:e1"), "{left:#?}");
    }
}

/// A stack whose dead-letter queue holds more notices than ten a request, one request after another, read in two minutes. Returns the id of
/// the last notice's event.
async fn with_many_notices() -> (World, EventId) {
    let world = World::stopped();
    for number in 0..NOTICES {
        world.post(Provider::Generic, &format!("not JSON {number}")).await;
    }
    let (_, answer) = world.post(Provider::Generic, "the last one").await;
    world.set_fault_hook(|call| (call.operation == "ReceiveMessage").then_some(Fault::Delay(SLOW)));
    (world, EventId::new(text(&answer["event_id"])))
}

#[tokio::test(start_paused = true)]
async fn search_of_a_long_queue_ends() {
    let (world, last) = with_many_notices().await;
    let stack = stack(&world);
    let letters = find(&stack, &["generic:nobody".to_owned()]).await.unwrap();
    assert_eq!((letters.iter().count(), letters.not_received), (0, 0));
    let all = list(&stack, usize::MAX).await.unwrap();
    assert_eq!((all.iter().count(), all.not_received), (NOTICES + 1, 0));
    let found = find(&stack, &[last.to_string()]).await.unwrap();
    assert_eq!(found.iter().map(|(_, letter)| letter.key.as_str()).collect::<Vec<_>>(), [last.as_str()]);
    let depth = world.cloud.services().sqs().depth(EVENTS_DEAD_LETTER_QUEUE).unwrap();
    assert_eq!((depth.visible, depth.in_flight), (NOTICES + 1, 0), "all are shown again");
}

#[tokio::test(start_paused = true)]
async fn run_that_was_interrupted_goes_on_for_a_day_at_most() {
    let mut world = with_dead_letters().await;
    let stack = stack(&world);
    let plan = plan_all(Verb::DiscardDeadLetters, &world).await;
    let slow = RunOptions { rate: 1, ..options() };
    let stopped = run::start(&stack, &plan.id, plan.verb, slow, &mut |_| ControlFlow::Break(())).await.unwrap();
    assert!(stopped.position < stopped.items, "{stopped:?}");
    world.skip(Duration::from_secs(25 * 60 * 60)).await;
    let late = run::resume(&stack, &RunId::of_plan(&plan.id), "tester", &mut |_| ControlFlow::Continue(())).await;
    assert!(matches!(late, Err(Error::Refusal(Refusal::UnknownPlan(_)))), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn notices_of_a_long_queue_are_deleted() {
    let (world, last) = with_many_notices().await;
    let stack = stack(&world);
    let only = QuarantineFilter { event_ids: vec![last], ..QuarantineFilter::default() };
    let plan = quarantine::plan_discard(&stack, &only, MAX).await.unwrap();
    assert_eq!(carry_out(&stack, &plan).await.result(), "1 done, 0 unchanged, 0 skipped");
    assert_eq!(world.dead_letters().len(), NOTICES);
    let all = QuarantineFilter { all: true, ..QuarantineFilter::default() };
    let plan = quarantine::plan_discard(&stack, &all, NOTICES).await.unwrap();
    assert_eq!((plan.items.len(), plan.capped), (NOTICES, false));
    let mut positions = Vec::new();
    let mut stop_once = |run: &Run| {
        positions.push(run.position);
        if positions.len() == 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    run::start(&stack, &plan.id, Verb::DiscardQuarantined, options(), &mut stop_once).await.unwrap();
    assert_eq!(world.dead_letters().len(), 400, "an operator can stop a discard");
    run::resume(&stack, &RunId::of_plan(&plan.id), "tester", &mut stop_once).await.unwrap();
    assert_eq!(positions, [1_000, NOTICES]);
    assert!(world.dead_letters().is_empty());
}

#[tokio::test(start_paused = true)]
async fn discard_deletes_the_message_and_keeps_the_event() {
    let world = with_dead_letters().await;
    send_to_dlq(&world, "{\"nonsense\":true}", "g");
    world.post(Provider::Generic, "not JSON").await;
    let stack = stack(&world);
    let none = plan_discard(&stack, &LetterFilter::default(), MAX).await;
    assert!(matches!(none, Err(Error::Refusal(Refusal::EmptyFilter(_)))), "{none:?}");
    let plan = plan_discard(&stack, &ALL, MAX).await.unwrap();
    assert_eq!(plan.items.len(), 3, "{plan:?}");
    let run = carry_out(&stack, &plan).await;
    assert_eq!(run.result(), "3 done, 0 unchanged, 0 skipped");
    assert_eq!(world.dead_letters().len(), 1, "`quarantine` removes the notice");
    assert!(world.inbox.get(&EventId::new("generic:e1")).await.unwrap().is_some());
    assert_eq!(listed(&world).await.iter().filter(|(_, letter)| letter.kind == LetterKind::Event).count(), 0);
    assert!(world.queued().is_empty(), "{EVENTS_QUEUE} must be empty");
}
