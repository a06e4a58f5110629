//! Nobody is dialled while an event of the call waits for its next try, or is a dead letter: it may tell that the person has answered.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_aws::inbox::AttentionKind;
use switchhook_domain::{CallId, EventId, Job, Provider};
use switchhook_local::CALLS_TABLE;
use switchhook_local::fake::DeliveryFaults;
use switchhook_operate::calls::{StuckKind, stuck};
use switchhook_operate::dead_letters::{LetterFilter, plan_discard};
use switchhook_operate::plan::Plan;
use switchhook_operate::replay::{ReplayFilter, Selected};
use switchhook_operate::run::{RunOptions, start};
use switchhook_operate::status::{self, Level};
use switchhook_operate::verify::{Problem, VerifyFilter, verify};
use switchhook_operate::{Error, Refusal};
use switchhook_tests::{MINUTE, World, down, generic, reads_calls_to_fold, text};

use super::{HOUR, call_request, create, get_call, send};
use crate::operator::{carry_out, options};
use crate::recovery::repair;
use crate::repair::{everything, of_call, plan_replay, stack_of};

/// Makes reads of the calls table fail until the switch is turned off: those of an alias, or all of the consumer's.
fn fail_reads(world: &World, alias: Option<&str>) -> Arc<AtomicBool> {
    let key = alias.map(|id| format!("\"call_id\":{{\"S\":\"{id}\"}}"));
    let fails = Arc::new(AtomicBool::new(true));
    let switch = fails.clone();
    world.set_fault_hook(move |call| {
        let is_read = ["GetItem", "BatchGetItem"].contains(&call.operation);
        let concerns = match &key {
            Some(key) => is_read && String::from_utf8_lossy(call.body).contains(key),
            None => reads_calls_to_fold(call),
        };
        (switch.load(Ordering::Relaxed) && concerns).then(down)
    });
    fails
}

/// Reasons of the moves of a call that end a claim.
async fn returned(world: &World, call_id: &str) -> Vec<String> {
    let call = world.call(call_id).await;
    let returned = call.moves.iter().filter(|one| one.kind.as_str() == "returned");
    returned.filter_map(|one| one.reason.clone()).collect()
}

/// Creates a call with an idempotency key, or repeats the request. Returns its id.
async fn create_with_key(world: &World, behaviour: &str) -> String {
    let mut request = call_request(behaviour);
    request["retry"] = json!({"attempts_max": 3, "delay_seconds": 60, "delay_max_seconds": 60});
    let (code, answer) = send(world, "POST", "/calls", Some("order-1"), &request).await;
    assert!(code.is_success(), "{answer}");
    text(&answer["call_id"])
}

/// A stack in which an attempt of a call was dialled. All webhooks of the fake provider are lost. Returns the provider's id of the attempt too.
async fn dialled(behaviour: &str) -> (World, String, String) {
    let world = World::new();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let call_id = create_with_key(&world, behaviour).await;
    world.wait_until(MINUTE, async || world.cloud.fake().dials().len() == 1).await;
    let provider_call_id = world.cloud.fake().dials()[0].provider_call_id.clone();
    (world, call_id, provider_call_id)
}

/// An event of the call that the consumer could not fold, and that was given up.
async fn dead_letter(world: &World, call_id: &str) -> EventId {
    let trouble = fail_reads(world, None);
    let id = world.accept(Provider::Generic, &generic(call_id, "e1", "RINGING", 0)).await;
    world.wait(MINUTE * 4).await;
    assert!(world.inbox.give_up(&id, world.now()).await.unwrap());
    trouble.store(false, Ordering::Relaxed);
    id
}

/// A webhook of Retell about an attempt of a call. Without a call, it has only the provider's id.
fn retell(event: &str, provider_call_id: &str, call_id: Option<&str>, call: Value) -> String {
    let mut body = json!({"event": event, "call": call});
    body["call"]["call_id"] = provider_call_id.into();
    if let Some(call_id) = call_id {
        body["call"]["metadata"] = json!({"switchhook_call_id": call_id, "switchhook_attempt": "1"});
    }
    body.to_string()
}

fn busy(provider_call_id: &str, call_id: &str) -> String {
    let ended = json!({"call_status": "not_connected", "disconnection_reason": "dial_busy"});
    retell("call_ended", provider_call_id, Some(call_id), ended)
}

/// The webhook that the person answered waits, because the alias of its attempt cannot be read. A later webhook says that the line is busy.
#[tokio::test(start_paused = true)]
async fn call_whose_answer_waits_under_its_alias_is_not_dialled_again() {
    let (world, call_id, provider_call_id) = dialled("busy,confirms").await;
    let trouble = fail_reads(&world, Some(&format!("retell:{provider_call_id}")));
    let started_at = world.now().as_millis();
    let started = json!({"call_status": "ongoing", "start_timestamp": started_at});
    let answer = world.accept(Provider::Retell, &retell("call_started", &provider_call_id, None, started)).await;
    world.wait(MINUTE * 4).await;
    assert!(world.inbox.get_note(&answer).await.unwrap().unwrap().waits);
    world.accept(Provider::Retell, &busy(&provider_call_id, &call_id)).await;
    world.wait(MINUTE * 2).await;
    let call = get_call(&world, &call_id).await;
    assert_eq!((&call["job"]["state"], &call["attempts"][0]["lifecycle"]), (&json!("PENDING"), &json!("busy")));
    world.wait(MINUTE * 6).await;
    assert_eq!(returned(&world, &call_id).await, ["events_unfolded", "events_unfolded"]);
    assert_eq!(world.logged("dial_held").len(), 2);
    assert_eq!(world.logged("unfolded_event_found")[0]["event_id"], answer.as_str());

    trouble.store(false, Ordering::Relaxed);
    world.wait(MINUTE * 10).await;
    let call = get_call(&world, &call_id).await;
    assert_eq!(call["attempts"][0]["lifecycle"], "busy", "a line that became busy in a call that was answered");
    assert_eq!(world.call(&call_id).await.job, Job::Failed);
    assert_eq!(world.cloud.fake().dials().len(), 1);
}

/// The provider takes a dial, and has no such call later. The event that it took the dial waits, and the finding comes first.
#[tokio::test(start_paused = true)]
async fn dial_whose_acceptance_waits_is_not_made_again_although_the_provider_has_forgotten_it() {
    let world = World::new();
    let trouble = fail_reads(&world, None);
    let call_id = create(&world, &call_request("forgotten,confirms")).await;
    world.wait(MINUTE * 32).await;
    assert_eq!(world.call(&call_id).await.in_doubt().len(), 1, "the row lacks the acceptance");
    let waits = world.attention(AttentionKind::Retrying).await;
    let types: Vec<String> = waits.iter().map(|mark| text(&json!(mark.event_type))).collect();
    assert!(types.contains(&"dial_accepted".to_owned()) && types.contains(&"dial_not_found".to_owned()), "{types:?}");
    trouble.store(false, Ordering::Relaxed);
    let is_pending = async || matches!(world.call(&call_id).await.job, Job::Pending { .. });
    world.wait_until(MINUTE * 15, is_pending).await;
    world.wait(HOUR).await;
    assert_eq!(returned(&world, &call_id).await.first().map(String::as_str), Some("events_unfolded"));
    assert_eq!(world.cloud.fake().dials().len(), 1);
    world.wait_until(HOUR * 6, async || world.call(&call_id).await.settled_at.is_some()).await;
    assert_eq!(get_call(&world, &call_id).await["attempts"][0]["outcome"], "inconclusive");
    assert_eq!(world.cloud.fake().dials().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn call_with_a_dead_letter_is_dialled_again_once_an_operator_has_discarded_it() {
    let (world, call_id, provider_call_id) = dialled("busy,confirms").await;
    let id = dead_letter(&world, &call_id).await;
    assert_eq!(world.status(&id).await["status"], "dead_lettered");
    world.accept(Provider::Retell, &busy(&provider_call_id, &call_id)).await;
    world.wait(MINUTE * 8).await;
    assert_eq!(returned(&world, &call_id).await, ["events_unfolded", "events_unfolded"]);
    let stack = stack_of(&world);
    let filter = LetterFilter { keys: vec![id.to_string()], ..LetterFilter::default() };
    let plan = plan_discard(&stack, &filter, 10).await.unwrap();
    assert_eq!((plan.phones, plan.calls, plan.effects[0].items), (1, 1, 1));
    assert_eq!(plan.effects[0].before, plan.effects[0].after);
    let refused = start(&stack, &plan.id, plan.verb, options(), &mut |_| ControlFlow::Continue(())).await;
    assert!(matches!(refused, Err(Error::Refusal(Refusal::CouldRing(1)))), "{refused:?}");
    // The call is due later than when the plan was made.
    world.wait(MINUTE * 8).await;
    let allowed = RunOptions { allow_ringing: true, ..options() };
    let run = start(&stack, &plan.id, plan.verb, allowed, &mut |_| ControlFlow::Continue(())).await.unwrap();
    assert_eq!(run.result(), "1 done, 0 unchanged, 0 skipped");
    world.wait(MINUTE * 30).await;
    assert_eq!(world.cloud.fake().dials().len(), 2);
    assert_eq!(world.cloud.fake().dials()[1].call_id, call_id);
    assert!(world.inbox.unfolded_events(&[CallId::new(call_id)].into()).await.unwrap().is_empty());
}

/// Nothing in the queue tells of the dead letter: its message has expired.
#[tokio::test(start_paused = true)]
async fn held_call_and_a_dead_letter_without_a_message_are_named_until_the_discard() {
    let (world, call_id, provider_call_id) = dialled("busy,confirms").await;
    let id = dead_letter(&world, &call_id).await;
    assert!(world.dead_letters().is_empty());
    let stack = stack_of(&world);
    let held = async || {
        let mut calls = stuck(&stack, HOUR * 24).await.unwrap().calls;
        calls.retain(|call| call.kind == StuckKind::Held);
        calls
    };
    assert_eq!(held().await, [], "its attempt goes on");
    world.accept(Provider::Retell, &busy(&provider_call_id, &call_id)).await;
    world.wait(MINUTE * 8).await;
    let calls = held().await;
    assert_eq!(calls.len(), 1, "{calls:?}");
    let call = &calls[0];
    assert_eq!(call.call_id.as_str(), call_id);
    assert!(call.why.contains(id.as_str()) && call.next.ends_with("switchhook dlq list"), "{call:?}");
    let dead_letters = async || {
        let [_, _, poison] = status::status(&stack).await.questions;
        let line = poison.evidence.into_iter().find(|line| line.name == "dead letters").unwrap();
        (line.level, line.text)
    };
    assert_eq!(dead_letters().await, (Level::Act, "1 listed, 0 in the queue".to_owned()));

    let filter = LetterFilter { keys: vec![id.to_string()], ..LetterFilter::default() };
    let plan = plan_discard(&stack, &filter, 10).await.unwrap();
    let allowed = RunOptions { allow_ringing: true, ..options() };
    drop(start(&stack, &plan.id, plan.verb, allowed, &mut |_| ControlFlow::Continue(())).await.unwrap());
    assert_eq!((held().await, dead_letters().await), (Vec::new(), (Level::Ok, "0".to_owned())));
}

/// The row of the call is lost after the discard. Then somebody replays the event, and the row is lost again.
#[tokio::test(start_paused = true)]
async fn discarded_event_comes_back_only_by_a_replay() {
    let (world, call_id, _) = dialled("busy,confirms").await;
    let id = dead_letter(&world, &call_id).await;
    let (stack, began) = (stack_of(&world), everything().since.unwrap());
    let carry_out = async |plan: &Plan| {
        let allowed = RunOptions { allow_ringing: true, ..options() };
        drop(start(&stack, &plan.id, plan.verb, allowed, &mut |_| ControlFlow::Continue(())).await.unwrap());
    };
    let filter = LetterFilter { keys: vec![id.to_string()], ..LetterFilter::default() };
    carry_out(&plan_discard(&stack, &filter, 10).await.unwrap()).await;
    let report = verify(&stack, &VerifyFilter::Since, began, &mut |_, _| {}).await.unwrap();
    let misses = |problem: &Problem| matches!(problem, Problem::Different { missing, .. } if missing.contains(&id));
    assert!(!report.findings.iter().any(|finding| misses(&finding.problem)), "{report:?}");

    let comes_back = async || {
        world.delete_item(CALLS_TABLE, &call_id).await;
        repair(&stack, began).await;
        world.wait(MINUTE * 10).await;
        world.call(&call_id).await.contains_event(&id)
    };
    assert!(!comes_back().await);
    // A repeated request brings the row back too.
    world.delete_item(CALLS_TABLE, &call_id).await;
    assert_eq!(create_with_key(&world, "busy,confirms").await, call_id);
    world.wait(MINUTE * 10).await;
    assert!(!world.call(&call_id).await.contains_event(&id));
    let not_folded = ReplayFilter { disposition: Some(Selected::NotFolded), ..everything() };
    let plan = plan_replay(&stack, &not_folded).await;
    assert!(plan.items.iter().all(|item| item.event_id.as_ref() != Some(&id)), "{plan:?}");
    carry_out(&plan_replay(&stack, &of_call(&call_id)).await).await;
    world.wait(MINUTE).await;
    assert!(world.call(&call_id).await.contains_event(&id));
    assert!(comes_back().await, "its fold has ended the discard");
}

/// The attempt goes on when its dead letter is discarded. If the attempt ends, nothing holds the call any more.
#[tokio::test(start_paused = true)]
async fn discard_of_an_event_of_an_attempt_that_goes_on_counts_its_phone() {
    let (world, call_id, _) = dialled("busy,confirms").await;
    let id = dead_letter(&world, &call_id).await;
    let stack = stack_of(&world);
    let filter = LetterFilter { keys: vec![id.to_string()], ..LetterFilter::default() };
    let plan = plan_discard(&stack, &filter, 10).await.unwrap();
    assert_eq!(world.call(&call_id).await.job, Job::InProgress);
    assert_eq!((plan.phones, plan.calls), (1, 1));
}

/// The call has the event of the dead letter when the plan is made, so nothing holds it. Then its row loses the event.
#[tokio::test(start_paused = true)]
async fn discard_frees_no_call_whose_phone_its_plan_did_not_count() {
    let (world, call_id, provider_call_id) = dialled("busy,confirms").await;
    let ended = world.accept(Provider::Retell, &busy(&provider_call_id, &call_id)).await;
    let event = world.inbox.get_normalized(&ended).await.unwrap().unwrap();
    world.wait_until(MINUTE, async || matches!(world.call(&call_id).await.job, Job::Pending { .. })).await;
    let (stack, filter) = (stack_of(&world), LetterFilter { all: true, ..LetterFilter::default() });
    // The call has the event, so its dead letter does not hold it.
    assert!(world.inbox.mark_dead_letter(&event, "test", world.now()).await.unwrap());
    let plan = plan_discard(&stack, &filter, 10).await.unwrap();
    assert_eq!((plan.phones, plan.calls, plan.items.len()), (0, 1, 1));
    let mut row = world.item(CALLS_TABLE, &call_id).await;
    row.insert("history".to_owned(), AttributeValue::L(Vec::new()));
    world.put_item(CALLS_TABLE, row).await;
    let run = carry_out(&stack, &plan).await;
    assert_eq!(run.skipped[0].reason, "its phone could ring, and the plan did not count it: plan again");
    assert_eq!(world.status(&ended).await["status"], "dead_lettered");
    assert_eq!(plan_discard(&stack, &filter, 10).await.unwrap().phones, 1);
}

/// Another version of the dialer may read the row.
#[tokio::test(start_paused = true)]
async fn discard_of_an_event_of_a_row_that_cannot_be_read_counts_its_phone() {
    let (world, call_id, provider_call_id) = dialled("busy,confirms").await;
    let ended = world.accept(Provider::Retell, &busy(&provider_call_id, &call_id)).await;
    let event = world.inbox.get_normalized(&ended).await.unwrap().unwrap();
    assert!(world.inbox.mark_dead_letter(&event, "test", world.now()).await.unwrap());
    let mut row = world.item(CALLS_TABLE, &call_id).await;
    row.insert("schema_version".to_owned(), AttributeValue::N("999".to_owned()));
    world.put_item(CALLS_TABLE, row).await;
    let (stack, filter) = (stack_of(&world), LetterFilter { all: true, ..LetterFilter::default() });
    let plan = plan_discard(&stack, &filter, 10).await.unwrap();
    assert_eq!((plan.phones, plan.items.len(), plan.skipped_count), (1, 1, 0));
    let allowed = RunOptions { allow_ringing: true, ..options() };
    let run = start(&stack, &plan.id, plan.verb, allowed, &mut |_| ControlFlow::Continue(())).await.unwrap();
    assert_eq!(run.result(), "1 done, 0 unchanged, 0 skipped");
}

/// A refold, or a consumer that was slow to note its failure, leaves the dead letter of an event that its call has.
#[tokio::test(start_paused = true)]
async fn call_that_has_the_event_of_its_dead_letter_is_dialled_again() {
    let (world, call_id, provider_call_id) = dialled("busy,confirms").await;
    let ended = world.accept(Provider::Retell, &busy(&provider_call_id, &call_id)).await;
    let event = world.inbox.get_normalized(&ended).await.unwrap().unwrap();
    assert!(world.inbox.mark_dead_letter(&event, "test", world.now()).await.unwrap());
    world.wait(MINUTE * 2).await;
    assert_eq!(world.inbox.unfolded_events(&[CallId::new(&call_id)].into()).await.unwrap()[0].event_id, Some(ended));
    assert_eq!(world.cloud.fake().dials().len(), 2);
    assert_eq!(returned(&world, &call_id).await, Vec::<String>::new());
}

/// A dead letter holds the call for a whole day: claims come less and less often, and the call can still be canceled.
#[tokio::test(start_paused = true)]
async fn held_call_is_claimed_seldom_and_can_be_canceled() {
    let (world, call_id, provider_call_id) = dialled("busy,confirms").await;
    dead_letter(&world, &call_id).await;
    world.accept(Provider::Retell, &busy(&provider_call_id, &call_id)).await;
    world.wait(HOUR * 24).await;
    let held = world.logged("dial_held").len();
    assert!((24..=30).contains(&held), "{held} claims in a day");
    let (code, answer) = send(&world, "POST", &format!("/call/cancel?id={call_id}"), None, &Value::Null).await;
    assert!(code.is_success(), "{answer}");
    assert_eq!(world.call(&call_id).await.job, Job::Canceled);
    assert_eq!(world.cloud.fake().dials().len(), 1);
}
