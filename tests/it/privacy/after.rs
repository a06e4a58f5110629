//! A forgotten call is a call like any other: its state stays, and every repair works on it.

use std::collections::BTreeSet;

use serde_json::Value;
use switchhook_domain::{CallId, Provider};
use switchhook_local::CALLS_TABLE;
use switchhook_operate::plan::Plan;
use switchhook_operate::republish::republish_call;
use switchhook_operate::verify::{Problem, VerifyFilter, VerifyReport, plan_repair, verify};
use switchhook_tests::{MINUTE, World};

use super::places::places;
use super::{MAX, RETELL_CALL, finished_call, forget_calls, retell};
use crate::operator::{HOUR, carry_out, stack};
use crate::outbound::get_call;
use crate::repair::{everything, plan_replay};

async fn seeded() -> World {
    let world = World::new();
    finished_call(&world, "c1").await;
    for name in ["call_started", "call_ended", "call_analyzed"] {
        world.accept(Provider::Retell, &retell(name)).await;
    }
    world.wait(MINUTE * 5).await;
    world
}

async fn verified(world: &World) -> VerifyReport {
    let stack = stack(world);
    let since = stack.now().minus(HOUR);
    verify(&stack, &VerifyFilter::Since, since, &mut |_, _| {}).await.unwrap()
}

async fn repair_plan(world: &World, report: &VerifyReport) -> Plan {
    plan_repair(&stack(world), &VerifyFilter::Since, report, MAX).await.unwrap()
}

/// The view of a call in the API, without the fields that every write of the row changes.
async fn shown(world: &World, id: &str) -> Value {
    let mut call = get_call(world, id).await;
    for name in ["version", "updated_at", "forgotten_at"] {
        call.as_object_mut().unwrap().remove(name);
    }
    call
}

#[tokio::test(start_paused = true)]
async fn state_stays_and_every_check_agrees() {
    let world = seeded().await;
    let before = (shown(&world, "c1").await, shown(&world, RETELL_CALL).await);
    let announced = world.domain_events().len();
    forget_calls(&world, &["c1", RETELL_CALL]).await;
    world.quiesce().await;
    assert_eq!((shown(&world, "c1").await, shown(&world, RETELL_CALL).await), before);
    assert!(get_call(&world, "c1").await["forgotten_at"].is_string());

    let report = verified(&world).await;
    assert!(report.is_clean() && report.matching == 2, "{report:?}");
    let replay = plan_replay(&stack(&world), &everything()).await;
    assert_eq!((replay.items.len(), replay.skipped_count), (0, 0), "{replay:?}");
    // The sweep and the drift check find nothing to do, for hours.
    world.wait(HOUR * 7).await;
    let actions = world.domain_events().into_iter().filter(|event| event["type"] != "operator.action");
    assert_eq!(actions.count(), announced);
    assert_eq!((shown(&world, "c1").await, shown(&world, RETELL_CALL).await), before);
    let published = republish_call(&world.calls, &stack(&world).bus, &CallId::new("c1")).await.unwrap();
    assert!(published.is_some_and(|count| count > 0));
    assert_eq!(places(&world).await, BTreeSet::new());
}

#[tokio::test(start_paused = true)]
async fn refold_gives_the_same_state() {
    let world = seeded().await;
    forget_calls(&world, &["c1"]).await;
    let before = shown(&world, "c1").await;
    world.alter_text("c1", "job", "FAILED").await;
    let report = verified(&world).await;
    assert_eq!(report.findings.len(), 1, "{report:?}");
    carry_out(&stack(&world), &repair_plan(&world, &report).await).await;
    world.quiesce().await;
    assert_eq!(shown(&world, "c1").await, before);
    assert!(verified(&world).await.is_clean());
    assert!(!places(&world).await.iter().any(|place| place.contains("c1")));
}

#[tokio::test(start_paused = true)]
async fn lost_row_is_rebuilt_from_erased_events_and_stays_forgotten() {
    let world = seeded().await;
    forget_calls(&world, &["c1"]).await;
    let before = shown(&world, "c1").await;
    world.delete_item(CALLS_TABLE, "c1").await;
    let report = verified(&world).await;
    assert!(matches!(report.findings[0].problem, Problem::Lost { .. }), "{report:?}");
    carry_out(&stack(&world), &repair_plan(&world, &report).await).await;
    world.quiesce().await;
    let rebuilt = shown(&world, "c1").await;
    assert_eq!((&rebuilt["job"], &rebuilt["outcome"]), (&before["job"], &before["outcome"]));
    assert!(world.call("c1").await.forgotten_at.is_some());
    assert!(!places(&world).await.iter().any(|place| place.contains("c1")));
}

#[tokio::test(start_paused = true)]
async fn row_restored_from_a_backup_is_forgotten_again() {
    let world = seeded().await;
    let backup = world.item(CALLS_TABLE, "c1").await;
    forget_calls(&world, &["c1"]).await;
    world.put_item(CALLS_TABLE, backup).await;
    let report = verified(&world).await;
    let Problem::Different { differences, .. } = &report.findings[0].problem else { panic!("{report:?}") };
    assert_eq!(differences.iter().map(|one| one.name).collect::<Vec<_>>(), ["not_forgotten"]);
    carry_out(&stack(&world), &repair_plan(&world, &report).await).await;
    world.quiesce().await;
    assert!(world.call("c1").await.forgotten_at.is_some());
    assert!(verified(&world).await.is_clean());
    assert!(!places(&world).await.iter().any(|place| place.contains("c1")));
}
