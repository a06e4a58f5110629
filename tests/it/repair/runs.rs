//! Runs: one per plan, audited, at a rate.

use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::Value;
use switchhook_local::INBOX_TABLE;
use switchhook_operate::audit::{self, Direct};
use switchhook_operate::plan::Verb;
use switchhook_operate::run::{self, RunOptions, RunState};
use switchhook_operate::{Error, Refusal};
use switchhook_tests::{World, down, text};

use super::{carry_out, consume_all, everything, options, plan_replay, post_unqueued, stack_of};

/// The actions of the published `operator.action` events, with the number of done items.
pub(super) fn actions(world: &World) -> Vec<(String, u64)> {
    let events = world.domain_events().into_iter().filter(|event| event["type"] == "operator.action");
    events.map(|event: Value| (text(&event["action"]), event["done"].as_u64().unwrap())).collect()
}

#[tokio::test(start_paused = true)]
async fn plan_is_run_once_and_the_second_run_is_told_the_result() {
    let world = World::stopped();
    let stack = stack_of(&world);
    post_unqueued(&world, "c1", "e1", "RINGING", 0).await;
    let plan = plan_replay(&stack, &everything()).await;
    let (one, two) = tokio::join!(carry_out(&stack, &plan), carry_out(&stack, &plan));
    let (done, refused) = if one.is_ok() { (one, two) } else { (two, one) };
    assert_eq!(done.unwrap().counts.done, 1);
    assert!(matches!(refused, Err(Error::Refusal(Refusal::Started(_) | Refusal::Finished { .. }))), "{refused:?}");
    let again = carry_out(&stack, &plan).await;
    let Err(Error::Refusal(Refusal::Finished { run, result })) = again else { panic!("{again:?}") };
    assert_eq!(result, "1 done, 0 unchanged, 0 skipped");
    let resumed = run::resume(&stack, &run::RunId::new(run), "bob", &mut |_| ControlFlow::Continue(())).await;
    assert!(matches!(resumed, Err(Error::Refusal(Refusal::Finished { .. }))), "{resumed:?}");
    consume_all(&world).await;
    assert_eq!(world.call("c1").await.history.len(), 1);
    assert_eq!(actions(&world), [("started".to_owned(), 0), ("finished".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_done_without_an_audit_record() {
    let world = World::stopped();
    let stack = stack_of(&world);
    post_unqueued(&world, "c1", "e1", "RINGING", 0).await;
    let plan = plan_replay(&stack, &everything()).await;
    world.set_fault_hook(|call| {
        let writes_audit = call.operation == "PutItem" && String::from_utf8_lossy(call.body).contains("audit:");
        writes_audit.then(down)
    });
    assert!(matches!(carry_out(&stack, &plan).await, Err(Error::Aws(_))));
    assert_eq!((world.queued().len(), actions(&world)), (0, Vec::new()));
    world.clear_faults();
    let id = run::RunId::of_plan(&plan.id);
    let run = run::resume(&stack, &id, "bob", &mut |_| ControlFlow::Continue(())).await.unwrap();
    assert_eq!((run.counts.done, run.state, run.who.as_str()), (1, RunState::Finished, "bob"));
    assert_eq!(actions(&world), [("resumed".to_owned(), 0), ("finished".to_owned(), 1)]);
    let records = world.items(INBOX_TABLE).await;
    let key = |item: &switchhook_tests::Item| format!("{:?}", item["event_id"]);
    assert_eq!(records.iter().filter(|item| key(item).contains("audit:")).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn run_of_the_last_day_is_listed_behind_any_number_of_other_changes() {
    let world = World::stopped();
    let stack = stack_of(&world);
    post_unqueued(&world, "c1", "e1", "RINGING", 0).await;
    let plan = plan_replay(&stack, &everything()).await;
    let run = carry_out(&stack, &plan).await.unwrap();
    for _ in 0..250 {
        world.wait(Duration::from_secs(60)).await;
        let subject = audit::Subject { call_id: Some("c2".to_owned()), ..audit::Subject::default() };
        let begun = audit::begin(&stack, Direct::CancelCall, None, subject).await.unwrap();
        audit::finish(&stack, begun, audit::Counts::default()).await.unwrap();
    }
    let listed = run::list(&stack, 20).await.unwrap();
    assert_eq!(listed, [run]);
}

#[tokio::test(start_paused = true)]
async fn run_keeps_its_rate() {
    let world = World::stopped();
    let stack = stack_of(&world);
    for n in 0..40 {
        post_unqueued(&world, &format!("c{n}"), &format!("e{n}"), "RINGING", 0).await;
    }
    let plan = plan_replay(&stack, &everything()).await;
    let started = world.now();
    let options = RunOptions { rate: 10, ..options() };
    run::start(&stack, &plan.id, Verb::Replay, options, &mut |_| ControlFlow::Continue(())).await.unwrap();
    // The last page waits for nothing.
    assert_eq!(world.now().millis_since(started), 3_000);
}
