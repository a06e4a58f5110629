//! Items that are kept for longer than the index of received events is read: forgetting finds them by their keys.

use std::collections::BTreeSet;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use switchhook_domain::Provider;
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_tests::{MINUTE, World};

use super::places::places;
use super::{NAME, NUMBER, about, calls, finished_call, plan_of_last_hour};
use crate::operator::{carry_out, stack};
use crate::outbound::{call_request, create, send};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Creates a call to our person that is due in 20 days.
async fn due_in_20_days(world: &World) -> String {
    let mut request = call_request("confirms");
    request["to"] = json!(NUMBER);
    request["metadata"]["customer"] = json!(NAME);
    request["due_at"] = json!("2026-01-21T00:00:00Z");
    create(world, &request).await
}

/// The record of the request is kept for longer than the index of received events is read.
#[tokio::test(start_paused = true)]
async fn record_of_an_old_request_is_erased() {
    let mut world = World::new();
    let id = due_in_20_days(&world).await;
    world.skip(DAY * 20).await;
    world.wait(MINUTE * 20).await;
    assert_eq!(world.call(&id).await.job.as_str(), "COMPLETED");
    world.skip(DAY * 15).await;
    let record = format!("{INBOX_TABLE} switchhook:{id}/created");
    assert!(places(&world).await.contains(&record), "{:#?}", places(&world).await);
    let plan = plan_of_last_hour(&world, calls(&[&id])).await;
    assert!(plan.items.iter().any(|item| item.name() == format!("switchhook:{id}/created")), "{plan:#?}");
    assert_eq!(carry_out(&stack(&world), &plan).await.counts.skipped, 0);
    assert_eq!(places(&world).await, BTreeSet::new());
}

#[tokio::test(start_paused = true)]
async fn record_of_the_request_is_erased_after_its_call_is_gone() {
    let mut world = World::new();
    let id = due_in_20_days(&world).await;
    let (code, answer) = send(&world, "POST", &format!("/call/cancel?id={id}"), None, &Value::Null).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    world.quiesce().await;
    world.skip(DAY * 35).await;
    world.delete_item(CALLS_TABLE, &id).await;
    assert_eq!(places(&world).await.len(), 1);
    let plan = plan_of_last_hour(&world, calls(&[&id])).await;
    assert_eq!(carry_out(&stack(&world), &plan).await.counts.skipped, 0);
    assert_eq!(places(&world).await, BTreeSet::new());
}

#[tokio::test(start_paused = true)]
async fn conflicting_body_is_deleted_after_its_event_is_gone() {
    let mut world = World::new();
    finished_call(&world, "c1").await;
    world.quiesce().await;
    world.skip(DAY * 29).await;
    let (_, answer) =
        world.post(Provider::Generic, &about("c1", "c1-ENDED", "ENDED", 61, "my hip is broken again")).await;
    assert_eq!(answer["status"], "already_processed", "{answer}");
    world.skip(DAY * 6).await;
    // DynamoDB has removed the event, and not yet the body that arrived later.
    world.delete_item(INBOX_TABLE, "generic:c1-ENDED").await;
    let conflict = format!("{INBOX_TABLE} conflict:generic:c1-ENDED");
    assert!(places(&world).await.contains(&conflict), "{:#?}", places(&world).await);
    let plan = plan_of_last_hour(&world, calls(&["c1"])).await;
    assert_eq!(carry_out(&stack(&world), &plan).await.counts.skipped, 0);
    assert_eq!(places(&world).await, BTreeSet::new());
}
