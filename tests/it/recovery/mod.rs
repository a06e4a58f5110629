//! Disasters of `docs/recovery.md`, each played on the local cloud: what happens by itself, what the operator does, and what holds
//! afterwards.
//!
//! In all of them, **no call is dialled again that was dialled before**, whatever the row of the call says.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test that cannot go on fails")]

mod both_restored;
mod calls_restored;
mod copied;
mod do_not_call;
mod inbox_restored;
mod queues_lost;
mod row_lost;
mod stack_redeployed;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_dynamo::AttributeValue;
use switchhook_domain::{Provider, Timestamp};
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_operate::Stack;
use switchhook_operate::copy::{self, CopyFrom};
use switchhook_operate::plan::Plan;
use switchhook_operate::run::{self, RATE_DEFAULT, Run, RunOptions};
use switchhook_operate::verify::{Problem, VerifyFilter, VerifyReport, plan_repair, verify};
use switchhook_tests::{Item, MINUTE, World, generic};

pub(crate) use crate::repair::stack_of as stack;

const MAX: usize = 1_000;

/// Content of a table at one time.
pub(crate) struct Backup {
    table: &'static str,
    items: Vec<Item>,
}

pub(crate) async fn back_up(world: &World, table: &'static str) -> Backup {
    Backup { table, items: world.items(table).await }
}

/// Empties a table, restores its backup into a new table, and copies that one, as `switchhook recover copy` does.
pub(crate) async fn restore(world: &World, backup: &Backup) {
    static RESTORED: AtomicU64 = AtomicU64::new(0);
    lose(world, backup.table).await;
    let restored = format!("{}-restored-{}", backup.table, RESTORED.fetch_add(1, Ordering::Relaxed));
    make_table(world, &restored, key_name(backup.table), backup.items.clone()).await;
    let is_inbox = backup.table == INBOX_TABLE;
    let from = CopyFrom { inbox: is_inbox.then(|| restored.clone()), calls: (!is_inbox).then_some(restored) };
    copy_tables(&stack(world), &from).await;
}

/// Copies tables, as `switchhook recover copy --yes` does, in no time.
pub(crate) async fn copy_tables(stack: &Stack, from: &CopyFrom) -> Run {
    let plan = copy::plan(stack, from, MAX, &|_| {}).await.unwrap();
    let (who, reason) = ("tester".to_owned(), "a disaster".to_owned());
    let options = RunOptions { who, reason, rate: u32::MAX, allow_ringing: false };
    run::start(stack, &plan.id, plan.verb, options, &mut |_| ControlFlow::Continue(())).await.unwrap()
}

/// Makes a table beside those of the stack, with these items.
async fn make_table(world: &World, table: &str, key: &str, items: Vec<Item>) {
    world.cloud.services().dynamodb().make_table(table, key).unwrap();
    for item in items {
        world.put_item(table, item).await;
    }
}

/// A stack with calls that ring, `c0` and so on. Each has one event.
async fn ringing(calls: u32) -> World {
    let world = World::new();
    for n in 0..calls {
        world.accept(Provider::Generic, &generic(&format!("c{n}"), &format!("e{n}"), "RINGING", 0)).await;
    }
    world.wait(MINUTE * 3).await;
    world
}

/// Deletes all items of a table.
pub(crate) async fn lose(world: &World, table: &str) {
    for item in world.items(table).await {
        world.delete_item(table, &key_of(table, &item)).await;
    }
}

/// Deletes the items of a table that have expired, as DynamoDB does.
async fn expire(world: &World, table: &str) {
    let now = world.now().as_millis() / 1_000;
    for item in world.items(table).await {
        if let Some(AttributeValue::N(at)) = item.get("expires_at")
            && at.parse::<i64>().unwrap() <= now
        {
            world.delete_item(table, &key_of(table, &item)).await;
        }
    }
}

fn key_name(table: &str) -> &'static str {
    if table == INBOX_TABLE { "event_id" } else { "call_id" }
}

fn key_of(table: &str, item: &Item) -> String {
    let name = key_name(table);
    let AttributeValue::S(key) = &item[name] else { panic!("a key is {:?}", item[name]) };
    key.clone()
}

/// Keys of the items of a table.
async fn keys(world: &World, table: &str) -> Vec<String> {
    world.items(table).await.iter().map(|item| key_of(table, item)).collect()
}

/// Number of phones that rang for each call.
fn dials(world: &World) -> BTreeMap<String, usize> {
    let mut dials = BTreeMap::new();
    for dial in world.cloud.fake().dials() {
        *dials.entry(dial.call_id).or_default() += 1;
    }
    dials
}

async fn verified(stack: &Stack, since: Timestamp) -> VerifyReport {
    verify(stack, &VerifyFilter::Since, since, &mut |_, _| {}).await.unwrap()
}

/// Repairs what differs, as `switchhook verify --since TIME --repair --yes` does.
pub(crate) async fn repair(stack: &Stack, since: Timestamp) -> Plan {
    let report = verified(stack, since).await;
    let plan = plan_repair(stack, &VerifyFilter::Since, &report, MAX).await.unwrap();
    carry_out(stack, &plan).await;
    plan
}

/// Runs a plan to its end. Phones may ring: the test counts them.
async fn carry_out(stack: &Stack, plan: &Plan) -> Run {
    let (who, reason) = ("tester".to_owned(), "a disaster".to_owned());
    let options = RunOptions { who, reason, rate: RATE_DEFAULT, allow_ringing: true };
    run::start(stack, &plan.id, plan.verb, options, &mut |_| ControlFlow::Continue(())).await.unwrap()
}

/// Names of the differences that were found, one line for each call.
fn found(report: &VerifyReport) -> String {
    let line = |problem: &Problem| match problem {
        Problem::Different { differences, .. } => {
            let names: Vec<&str> = differences.iter().map(|difference| difference.name).collect();
            format!("differs: {}", names.join(" "))
        }
        Problem::Lost { events, is_placed } => format!("lost: {} events, placed: {is_placed}", events.len()),
        Problem::Unknown | Problem::Unreadable { .. } | Problem::TooManyEvents | Problem::TooFarBack => {
            format!("{problem:?}")
        }
    };
    report.findings.iter().map(|finding| line(&finding.problem)).collect::<Vec<_>>().join("\n")
}

/// State of every call, by its id.
async fn states(world: &World) -> BTreeMap<String, String> {
    let mut states = BTreeMap::new();
    for key in keys(world, CALLS_TABLE).await {
        if key.starts_with("call-") {
            let state = crate::outbound::call_state(world, &key).await;
            states.insert(key, state);
        }
    }
    states
}
