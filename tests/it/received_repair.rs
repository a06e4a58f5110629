//! Repairs of webhooks that are about no call: published again, verified, replayed, swept, and copied.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use switchhook_domain::{CallId, Disposition, ENTITY_EVENTS_MAX, EventId};
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_operate::Stack;
use switchhook_operate::dead_letters::{LetterFilter, plan_redrive};
use switchhook_operate::plan::{NAMED_MAX, Plan};
use switchhook_operate::replay::{self, ReplayFilter, Selected};
use switchhook_operate::republish::{self, RepublishFilter, failures};
use switchhook_operate::verify::{Problem, VerifyFilter, VerifyReport, plan_repair, verify};
use switchhook_tests::{MINUTE, World, down, options, text};

use crate::operator::{HOUR, MAX, carry_out};
use crate::received::{KEY_OF_PAYMENT, fate, ids, payment, post, received, secret};
use crate::recovery::{back_up, restore};
use crate::repair::stack_of;

/// Stores webhooks about one payment, each at its second.
async fn store(world: &World, events: &[(&str, u32)]) {
    for (id, second) in events {
        post(world, &payment(id, *second)).await;
        world.quiesce().await;
    }
}

/// Publishes again what a filter selects. Returns the published ids, and the items that were left alone, with the reasons.
async fn republished(world: &World, filter: &RepublishFilter) -> (Vec<String>, Vec<String>) {
    let stack = stack_of(world);
    let before = received(world).len();
    let plan = republish::plan(&stack, filter, MAX, &mut |_, _| {}).await.unwrap();
    let mut left: Vec<String> = plan.skipped.iter().map(|one| format!("{}: {}", one.item, one.reason)).collect();
    if !plan.items.is_empty() {
        let run = carry_out(&stack, &plan).await;
        left.extend(run.skipped.iter().map(|one| format!("{}: {}", one.item, one.reason)));
    }
    (ids(&received(world)[before..]), left)
}

fn entity() -> CallId {
    CallId::new(KEY_OF_PAYMENT)
}

#[tokio::test(start_paused = true)]
async fn events_that_the_relay_gave_up_are_published() {
    let mut world = World::with_secret(&secret());
    store(&world, &[("e0", 1)]).await;
    world.skip(HOUR * 7).await;
    // The bus is down for longer than the relay retries a record. Each write replaces what the one before announced.
    world.cloud.bus().fail_entries(Some(Arc::new(|_| Some("ThrottlingException".to_owned()))));
    store(&world, &[("e1", 10), ("e3", 30), ("e2", 20), ("e4", 40)]).await;
    world.skip(HOUR * 22).await;
    world.wait(HOUR).await;
    world.clear_faults();
    world.quiesce().await;
    let stack = stack_of(&world);
    assert!(!failures(&stack).await.unwrap().is_empty());
    let (published, left) = republished(&world, &RepublishFilter::Failed(None)).await;
    // A stale event was never announced.
    assert_eq!(published, ["x-pay:e1", "x-pay:e3", "x-pay:e4"]);
    assert_eq!(left, Vec::<String>::new());
    assert!(failures(&stack).await.unwrap().is_empty());
}

/// A plan names only the first of them. The relay never had their domain events.
#[tokio::test(start_paused = true)]
async fn messages_of_the_relay_are_deleted_however_many_events_are_not_folded() {
    let mut world = World::with_secret(&secret());
    world.cloud.bus().fail_entries(Some(Arc::new(|_| Some("ThrottlingException".to_owned()))));
    store(&world, &[("e0", 1)]).await;
    world.skip(HOUR * 22).await;
    world.wait(HOUR).await;
    world.clear_faults();
    world.quiesce().await;
    world.stop();
    for second in 10..=10 + u32::try_from(NAMED_MAX).unwrap() {
        post(&world, &payment(&format!("e{second}"), second)).await;
    }
    let stack = stack_of(&world);
    assert!(!failures(&stack).await.unwrap().is_empty());
    let plan = republish::plan(&stack, &RepublishFilter::Failed(None), MAX, &mut |_, _| {}).await.unwrap();
    assert_eq!(
        (plan.skipped_count, plan.not_folded_count, plan.skipped.len()),
        (NAMED_MAX + 1, NAMED_MAX + 1, NAMED_MAX)
    );
    carry_out(&stack, &plan).await;
    assert!(failures(&stack).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn events_of_one_entity_are_published_again_as_before() {
    let world = World::with_secret(&secret());
    let began = world.now();
    store(&world, &[("e1", 10), ("e3", 30), ("e2", 20)]).await;
    let before = received(&world);
    for filter in [RepublishFilter::Calls(vec![entity()]), RepublishFilter::Since(began)] {
        let (published, left) = republished(&world, &filter).await;
        assert_eq!((published, left), (vec!["x-pay:e1".to_owned(), "x-pay:e3".to_owned()], Vec::new()));
        let all = received(&world);
        assert_eq!(all[all.len() - 2..], before, "the content is the same");
    }
    // The row still holds the last event if the inbox has lost it. An earlier event is named.
    for id in ["x-pay:e1", "x-pay:e3"] {
        world.delete_item(INBOX_TABLE, id).await;
    }
    let (published, left) = republished(&world, &RepublishFilter::Calls(vec![entity()])).await;
    assert_eq!(published, ["x-pay:e3"]);
    assert_eq!(left, ["x-pay:e1: the inbox no longer holds the event"]);
    let nobody = RepublishFilter::Calls(vec![CallId::new("entity:x-pay:nobody")]);
    let (_, left) = republished(&world, &nobody).await;
    assert_eq!(left, ["entity:x-pay:nobody: the entity does not exist"]);
}

#[tokio::test(start_paused = true)]
async fn events_older_than_the_memory_of_the_entity_are_published_again() {
    let world = World::with_secret(&secret());
    let began = world.now();
    let count = u32::try_from(ENTITY_EVENTS_MAX).unwrap() + 3;
    for second in 0..count {
        store(&world, &[(format!("e{second:02}").as_str(), second)]).await;
    }
    let (published, left) = republished(&world, &RepublishFilter::Since(began)).await;
    assert_eq!((published.len(), left), (count as usize, Vec::new()));
    let stack = stack_of(&world);
    // A plan that has no room for all says where the next one goes on.
    let filter = RepublishFilter::Since(began);
    let plan = republish::plan(&stack, &filter, 5, &mut |_, _| {}).await.unwrap();
    assert!(plan.capped && plan.items.len() == 5, "{plan:?}");
}

async fn verified(stack: &Stack, filter: &VerifyFilter) -> VerifyReport {
    verify(stack, filter, stack.now().minus(HOUR), &mut |_, _| {}).await.unwrap()
}

async fn repaired(stack: &Stack, filter: &VerifyFilter, report: &VerifyReport) -> Plan {
    let plan = plan_repair(stack, filter, report, MAX).await.unwrap();
    carry_out(stack, &plan).await;
    plan
}

/// Names of the differences of the only finding.
fn differences(report: &VerifyReport) -> Vec<&'static str> {
    let [finding] = report.findings.as_slice() else { panic!("{report:?}") };
    let Problem::Different { differences, .. } = &finding.problem else { panic!("{report:?}") };
    differences.iter().map(|difference| difference.name).collect()
}

#[tokio::test(start_paused = true)]
async fn entity_is_verified_by_its_key() {
    let world = World::with_secret(&secret());
    store(&world, &[("e1", 10)]).await;
    let old = world.item(CALLS_TABLE, KEY_OF_PAYMENT).await;
    store(&world, &[("e3", 30), ("e2", 20)]).await;
    world.wait(MINUTE * 5).await;
    let stack = stack_of(&world);
    let named = VerifyFilter::Calls(vec![entity()]);
    let report = verified(&stack, &named).await;
    assert!(report.is_clean() && report.matching == 1, "{report:?}");
    // The row is restored to an earlier time: it lacks both later events.
    world.put_item(CALLS_TABLE, old).await;
    let report = verified(&stack, &named).await;
    assert_eq!(differences(&report), ["missing_event", "missing_event"]);
    repaired(&stack, &named, &report).await;
    world.quiesce().await;
    assert!(verified(&stack, &named).await.is_clean());
    assert_eq!(fate(&world, "e3").await, json!(["processed", "applied", ["webhook.received"], null]));
    // The row is lost.
    world.delete_item(CALLS_TABLE, KEY_OF_PAYMENT).await;
    let report = verified(&stack, &named).await;
    assert!(matches!(report.findings[0].problem, Problem::Lost { ref events, .. } if events.len() == 3), "{report:?}");
    repaired(&stack, &named, &report).await;
    world.quiesce().await;
    assert!(verified(&stack, &named).await.is_clean());
    // The latest event of the row is none of the inbox.
    world.delete_item(INBOX_TABLE, "x-pay:e3").await;
    let report = verified(&stack, &named).await;
    assert_eq!(differences(&report), ["unknown_event"]);
    assert!(!report.is_repairable());
    let unknown = VerifyFilter::Calls(vec![CallId::new("entity:x-pay:nobody")]);
    let report = verified(&stack, &unknown).await;
    assert!(matches!(report.findings[0].problem, Problem::Unknown), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn many_events_of_one_time_are_published_once() {
    let world = World::with_secret(&secret());
    let names: Vec<String> = (0..15).map(|index| format!("t{index:02}")).collect();
    for name in &names {
        store(&world, &[(name.as_str(), 10)]).await;
    }
    world.wait(MINUTE * 5).await;
    assert_eq!(received(&world).len(), names.len());
    let stack = stack_of(&world);
    assert!(verified(&stack, &VerifyFilter::Since).await.is_clean());
    // An operator queues all of them again, and finds nothing to do.
    let filter = ReplayFilter { call: Some(entity()), since: Some(stack.now().minus(HOUR)), ..ReplayFilter::default() };
    let plan = replay::plan(&stack, &filter, MAX, &mut |_, _| {}).await.unwrap();
    assert_eq!((plan.items.len(), plan.unaffected), (0, names.len()));
    for name in &names {
        assert_eq!(post(&world, &payment(name, 10)).await, "already_processed");
    }
    world.quiesce().await;
    assert_eq!(received(&world).len(), names.len());
}

#[tokio::test(start_paused = true)]
async fn event_that_its_entity_no_longer_remembers_is_processed() {
    let world = World::with_secret(&secret());
    let count = u32::try_from(ENTITY_EVENTS_MAX).unwrap() + 1;
    for second in 0..count {
        store(&world, &[(format!("e{second:02}").as_str(), second)]).await;
    }
    assert_eq!(fate(&world, "e00").await, json!(["processed", null, [], null]));
    assert_eq!(fate(&world, "e01").await, json!(["processed", "applied", ["webhook.received"], null]));
    let stack = stack_of(&world);
    let line = switchhook_operate::events::status(&stack, &EventId::new("x-pay:e00")).await.unwrap().unwrap();
    assert_eq!(line.status, "processed");
    for selected in [Selected::NotFolded, Selected::As(Disposition::Stale)] {
        let since = Some(stack.now().minus(HOUR));
        let filter = ReplayFilter { since, disposition: Some(selected), ..ReplayFilter::default() };
        let plan = replay::plan(&stack, &filter, MAX, &mut |_, _| {}).await.unwrap();
        assert_eq!((plan.items.len(), plan.unaffected), (0, 0), "{plan:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sweep_reads_the_stale_events_of_an_entity_at_once() {
    let world = World::with_options(options(&secret()));
    post(&world, &payment("new", 60)).await;
    world.consume(&world.receive()).await;
    for index in 0..7 {
        post(&world, &payment(&format!("old{index}"), index)).await;
    }
    world.consume(&world.receive()).await;
    world.wait(MINUTE * 4).await;
    drop(world.requests());
    let report = world.reconciler.run("test").await.unwrap();
    assert_eq!(report.requeued, 0);
    assert_eq!(world.requests().get("BatchGetItem"), Some(&1));
}

#[tokio::test(start_paused = true)]
async fn trouble_with_an_entity_is_not_called_trouble_with_a_call() {
    let world = World::with_secret(&secret());
    world.inject_fault("PutItem", CALLS_TABLE, u64::MAX, down());
    post(&world, &payment("e1", 10)).await;
    world.wait(MINUTE * 34).await;
    let notices: Vec<Value> =
        world.domain_events().into_iter().filter(|event| event["type"] == "operator.attention").collect();
    let event = json!({"event_id": "x-pay:e1", "call_id": null, "entity": KEY_OF_PAYMENT, "cause": "write_entity"});
    assert_eq!(notices[0]["events"], json!([event]));
    world.clear_faults();
    world.wait(MINUTE * 20).await;
    let applied = &world.logged("applied")[0];
    assert_eq!(json!([applied["entity"], applied["call_id"]]), json!([KEY_OF_PAYMENT, null]));
    // The line of the relay names entities apart from calls.
    world.cloud.bus().fail_entries(Some(Arc::new(|_| Some("ThrottlingException".to_owned()))));
    store(&world, &[("e2", 20)]).await;
    world.wait(MINUTE).await;
    let failed = &world.logged("relay_failed")[0];
    assert_eq!(json!([failed["entities"], failed["call_ids"]]), json!([[KEY_OF_PAYMENT], null]));
}

#[tokio::test(start_paused = true)]
async fn dead_letter_of_an_entity_is_redriven_and_deleted() {
    let mut world = World::with_secret(&secret());
    world.inject_fault("PutItem", CALLS_TABLE, u64::MAX, down());
    post(&world, &payment("e1", 10)).await;
    world.wait_for_dead_letters(1).await;
    world.clear_faults();
    assert_eq!(world.dead_letters().len(), 1);
    let stack = stack_of(&world);
    let filter = LetterFilter { all: true, ..LetterFilter::default() };
    let plan = plan_redrive(&stack, &filter, MAX).await.unwrap();
    let run = carry_out(&stack, &plan).await;
    assert_eq!((run.counts.done, run.counts.skipped), (1, 0), "{run:?}");
    assert_eq!(ids(&received(&world)), ["x-pay:e1"]);
    assert_eq!(world.dead_letters(), Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn copied_entity_announces_nothing_and_keeps_its_order() {
    let world = World::with_secret(&secret());
    store(&world, &[("e2", 20)]).await;
    let before = world.item(CALLS_TABLE, KEY_OF_PAYMENT).await;
    let backup = back_up(&world, CALLS_TABLE).await;
    restore(&world, &backup).await;
    world.wait(MINUTE).await;
    let mut copied = world.item(CALLS_TABLE, KEY_OF_PAYMENT).await;
    assert_eq!(copied.get("outbox_start"), None);
    copied.insert("outbox_start".to_owned(), before["outbox_start"].clone());
    assert_eq!(copied, before);
    assert_eq!(ids(&received(&world)), ["x-pay:e2"]);
    store(&world, &[("e1", 10), ("e3", 30)]).await;
    assert_eq!(ids(&received(&world)), ["x-pay:e2", "x-pay:e3"]);
    // It can be published again although its copy announced nothing.
    let (published, left) = republished(&world, &RepublishFilter::Calls(vec![entity()])).await;
    assert_eq!((published, left), (vec!["x-pay:e2".to_owned(), "x-pay:e3".to_owned()], Vec::new()));
    let all: BTreeSet<String> = received(&world).iter().map(|event| text(&event["id"])).collect();
    assert_eq!(all.len(), 2);
}
