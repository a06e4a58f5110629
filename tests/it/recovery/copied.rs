//! Copies of tables: planned, limited, audited, at a rate, and resumed.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_dynamo::AttributeValue;
use switchhook_local::CALLS_TABLE;
use switchhook_operate::copy::{self, CopyFrom};
use switchhook_operate::plan::{Plan, Verb};
use switchhook_operate::run::{self, RunId, RunOptions, RunState};
use switchhook_operate::{Error, Refusal, Stack, audit};
use switchhook_tests::{Item, World};

use super::{MAX, keys, make_table, stack};
use crate::operator::carry_out_killed;

const RESTORED: &str = "calls-restored";

/// Restores a table with this many rows. One more has expired.
async fn restored(world: &World, rows: usize) -> CopyFrom {
    let id = |id: String| ("call_id", AttributeValue::S(id));
    make_table(world, RESTORED, "call_id", Vec::new()).await;
    let row = Item::from([("row".to_owned(), AttributeValue::S("x".to_owned()))]);
    world.store_copies(RESTORED, &row, (0..rows).map(|n| vec![id(format!("generic:call-{n}"))]));
    let long_ago = ("expires_at", AttributeValue::N("1".to_owned()));
    world.store_copies(RESTORED, &row, [vec![id("generic:expired".to_owned()), long_ago]]);
    CopyFrom { inbox: None, calls: Some(RESTORED.to_owned()) }
}

async fn planned(stack: &Stack, from: &CopyFrom) -> Plan {
    copy::plan(stack, from, 5_000, &|_| {}).await.unwrap()
}

fn options(rate: u32) -> RunOptions {
    RunOptions { who: "tester".to_owned(), reason: "ticket 812".to_owned(), rate, allow_ringing: false }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> Refusal {
    let Err(Error::Refusal(refusal)) = result else { panic!("{result:?}") };
    refusal
}

#[tokio::test(start_paused = true)]
async fn plan_counts_samples_and_copies_nothing() {
    let world = World::stopped();
    let stack = stack(&world);
    let from = restored(&world, 1_200).await;
    let plan = planned(&stack, &from).await;
    let [table] = plan.tables.as_slice() else { panic!("{plan:?}") };
    assert_eq!((table.items, table.parts, table.from.as_str()), (1_201, 3, RESTORED));
    assert_eq!((plan.items.len(), plan.steps(), plan.calls, plan.phones), (3, 1_201, 0, 0));
    assert!(table.sample.len() == 3 && table.sample.iter().all(|key| key.starts_with("generic:")), "{table:?}");
    assert!(
        plan.cost.requests > 1_201 && plan.cost.write_units >= 3 * 1_201 && plan.cost.dollars > 0.0,
        "{:?}",
        plan.cost
    );
    assert_eq!(keys(&world, CALLS_TABLE).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn table_that_does_not_exist_is_named() {
    let world = World::stopped();
    // No table can have the second name.
    for name in ["calls-retsored", "calls restored"] {
        let from = CopyFrom { inbox: None, calls: Some(name.to_owned()) };
        let refused = refusal(copy::plan(&stack(&world), &from, MAX, &|_| {}).await);
        assert_eq!(refused, Refusal::UnknownTable(name.to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn count_is_shown_while_it_goes_on() {
    let world = World::stopped();
    let from = restored(&world, 1_200).await;
    let (items, pages) = (AtomicU64::new(0), AtomicU64::new(0));
    let counted = |more| {
        items.fetch_add(more, Ordering::Relaxed);
        pages.fetch_add(1, Ordering::Relaxed);
    };
    copy::plan(&stack(&world), &from, 5_000, &counted).await.unwrap();
    assert_eq!(items.into_inner(), 1_201);
    assert!(pages.into_inner() > 1, "it is shown only at the end");
}

#[tokio::test(start_paused = true)]
async fn plan_names_no_phone_number() {
    let world = World::stopped();
    let key = AttributeValue::S("do-not-call:+447700900123".to_owned());
    make_table(&world, RESTORED, "call_id", vec![Item::from([("call_id".to_owned(), key)])]).await;
    let from = CopyFrom { inbox: None, calls: Some(RESTORED.to_owned()) };
    let plan = planned(&stack(&world), &from).await;
    assert_eq!(plan.tables[0].sample, ["do-not-call:***"]);
}

#[tokio::test(start_paused = true)]
async fn run_copies_at_its_rate_and_is_audited() {
    let world = World::stopped();
    let stack = stack(&world);
    let from = restored(&world, 1_200).await;
    let there = Item::from([("call_id".to_owned(), AttributeValue::S("generic:call-7".to_owned()))]);
    world.put_item(CALLS_TABLE, there.clone()).await;
    let plan = planned(&stack, &from).await;
    let started = world.now();
    let run = run::start(&stack, &plan.id, Verb::Copy, options(100), &mut |_| ControlFlow::Continue(())).await.unwrap();
    assert_eq!(
        (run.state, run.counts.done, run.counts.unchanged, run.counts.skipped),
        (RunState::Finished, 1_199, 2, 0)
    );
    // The last page of the last part waits for nothing.
    let seconds = world.now().millis_since(started) / 1_000;
    assert!((10..=13).contains(&seconds), "{seconds} s");
    assert_eq!(keys(&world, CALLS_TABLE).await.len(), 1_200);
    assert!(world.items(CALLS_TABLE).await.contains(&there), "an item that was there stays");
    let records = audit::list(&stack, 10).await.unwrap();
    let moments: Vec<(&str, usize)> = records.iter().map(|one| (one.verb.as_str(), one.counts.done)).collect();
    assert_eq!(moments, [("copy", 1_199), ("copy", 0)]);
}

#[tokio::test(start_paused = true)]
async fn stopped_copy_goes_on_at_the_part_that_it_had_reached() {
    let world = World::stopped();
    let stack = stack(&world);
    let from = restored(&world, 1_200).await;
    let plan = planned(&stack, &from).await;
    let stopped =
        run::start(&stack, &plan.id, Verb::Copy, options(1_000), &mut |_| ControlFlow::Break(())).await.unwrap();
    assert_eq!((stopped.state, stopped.position), (RunState::Unfinished, 1));
    let id = RunId::of_plan(&plan.id);
    let run = run::resume(&stack, &id, "another tester", &mut |_| ControlFlow::Continue(())).await.unwrap();
    assert_eq!((run.state, run.counts.done, run.counts.unchanged), (RunState::Finished, 1_200, 1));
    assert_eq!(keys(&world, CALLS_TABLE).await.len(), 1_200);
}

/// Only the record of the result is left then.
#[tokio::test(start_paused = true)]
async fn copy_that_is_stopped_in_its_last_page_is_finished() {
    let world = World::stopped();
    let stack = stack(&world);
    let plan = planned(&stack, &restored(&world, 6).await).await;
    let run = run::start(&stack, &plan.id, Verb::Copy, options(50), &mut |_| ControlFlow::Break(())).await.unwrap();
    assert_eq!((run.state, run.position, run.items), (RunState::Finished, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn copy_that_is_killed_at_any_request_copies_everything() {
    let mut requests = 0;
    loop {
        let world = World::stopped();
        let stack = stack(&world);
        let from = restored(&world, 6).await;
        let plan = planned(&stack, &from).await;
        let (run, was_killed) = carry_out_killed(&world, &plan, requests, async || {}).await;
        assert_eq!((run.state, run.counts.skipped), (RunState::Finished, 0), "after {requests} requests");
        let copied: BTreeSet<String> = keys(&world, CALLS_TABLE).await.into_iter().collect();
        assert_eq!(copied, (0..6).map(|n| format!("generic:call-{n}")).collect(), "after {requests} requests");
        if !was_killed {
            break;
        }
        requests += 1;
    }
    assert!(requests > 8, "a run sends only {requests} requests");
}

#[tokio::test(start_paused = true)]
async fn tables_that_must_not_be_copied_are_refused() {
    let world = World::stopped();
    let stack = stack(&world);
    let from = restored(&world, 4).await;
    let itself = CopyFrom { inbox: None, calls: Some(CALLS_TABLE.to_owned()) };
    assert!(matches!(refusal(copy::plan(&stack, &itself, MAX, &|_| {}).await), Refusal::SameTable(_)));
    let nothing = CopyFrom::default();
    assert!(matches!(refusal(copy::plan(&stack, &nothing, MAX, &|_| {}).await), Refusal::EmptyFilter(_)));
    make_table(&world, "inbox-restored", "event_id", Vec::new()).await;
    let inbox = Some("inbox-restored".to_owned());
    let swapped = CopyFrom { inbox: from.calls.clone(), calls: inbox.clone() };
    let refused = refusal(copy::plan(&stack, &swapped, MAX, &|_| {}).await);
    assert_eq!(refused, Refusal::OtherKey { table: RESTORED.to_owned(), key: "event_id" });
    let events_as_calls = CopyFrom { inbox: None, calls: inbox };
    let refused = refusal(copy::plan(&stack, &events_as_calls, MAX, &|_| {}).await);
    assert_eq!(refused, Refusal::OtherKey { table: "inbox-restored".to_owned(), key: "call_id" });
    let large = refusal(copy::plan(&stack, &from, 4, &|_| {}).await);
    assert_eq!(large, Refusal::LargeTable { table: RESTORED.to_owned(), most: 4 });
    let plan = planned(&stack, &from).await;
    let unexplained = RunOptions { reason: String::new(), ..options(50) };
    let refused = run::start(&stack, &plan.id, Verb::Copy, unexplained, &mut |_| ControlFlow::Continue(())).await;
    assert!(matches!(refusal(refused), Refusal::NoReason));
}
