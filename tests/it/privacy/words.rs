//! Webhooks that name no call, and are found by the ids and numbers in their bodies. Rows and webhooks that cannot be read.

use std::collections::BTreeSet;

use serde_dynamo::AttributeValue;
use serde_json::json;
use switchhook_domain::{CallId, EventId, Provider};
use switchhook_local::INBOX_TABLE;
use switchhook_operate::quarantine::{QuarantineFilter, plan_reprocess};
use switchhook_tests::{World, generic, text};

use super::places::places;
use super::{MAX, NUMBER, about, calls, finished_call, number, plan_of_last_hour, stored};
use crate::operator::{carry_out, stack};
use crate::repair::{consume_all, drop_messages};

/// Posts a webhook that cannot be read, and names no call. Returns its id.
async fn unreadable(world: &World, note: &str) -> EventId {
    let body = json!({"event": "call_ended", "call": {"note": note}}).to_string();
    let (_, answer) = world.post(Provider::Retell, &body).await;
    assert_eq!(answer["status"], "quarantined", "{answer}");
    EventId::new(text(&answer["event_id"]))
}

#[tokio::test(start_paused = true)]
async fn webhook_with_a_longer_id_or_number_stays() {
    let digits = NUMBER.trim_start_matches('+');
    for (filter, named, longer) in [
        (calls(&["call_10"]), "a note on call_10.".to_owned(), "a note on call_101.".to_owned()),
        (number(), format!("call {digits}!"), format!("order {digits}4")),
    ] {
        let world = World::stopped();
        let (named, longer) = (unreadable(&world, &named).await, unreadable(&world, &longer).await);
        let plan = plan_of_last_hour(&world, filter).await;
        let events: Vec<&EventId> = plan.items.iter().filter_map(|item| item.event_id.as_ref()).collect();
        assert!(events.iter().all(|event| **event == named) && !events.is_empty(), "{plan:#?}");
        carry_out(&stack(&world), &plan).await;
        assert!(stored(&world, named.as_str()).await.is_erased());
        assert!(!stored(&world, longer.as_str()).await.is_erased());
    }
}

/// The sender used one event id twice. The second body names our person, and a call that nothing else names. So the call has no row.
#[tokio::test(start_paused = true)]
async fn person_who_is_only_in_a_conflicting_body_is_found() {
    for first_type in ["RINGING", "SOMETHING_ELSE"] {
        let world = World::stopped();
        world.post(Provider::Generic, &generic("d", "twice", first_type, 3)).await;
        let (_, answer) = world.post(Provider::Generic, &about("e", "twice", "RINGING", 4, "my hip is broken")).await;
        assert_eq!(answer["status"], "already_processed", "{answer}");
        assert_eq!(places(&world).await, BTreeSet::from([format!("{INBOX_TABLE} conflict:generic:twice")]));
        let plan = plan_of_last_hour(&world, number()).await;
        assert_eq!(plan.items.len(), 1, "{plan:#?}");
        carry_out(&stack(&world), &plan).await;
        assert_eq!(places(&world).await, BTreeSet::new());
        assert!(!stored(&world, "generic:twice").await.is_erased());
    }
}

/// The body of another person's webhook cannot be read any more.
#[tokio::test(start_paused = true)]
async fn stored_webhook_that_cannot_be_read_stops_no_plan() {
    for (name, value) in
        [("schema_version", AttributeValue::N("99".to_owned())), ("body", AttributeValue::B(vec![1, 2, 3]))]
    {
        let world = World::stopped();
        let named = unreadable(&world, "a note on call_10").await;
        let other = unreadable(&world, "nothing").await;
        let mut item = world.item(INBOX_TABLE, other.as_str()).await;
        item.insert(name.to_owned(), value);
        world.put_item(INBOX_TABLE, item).await;
        let plan = plan_of_last_hour(&world, calls(&["call_10"])).await;
        assert!(plan.items.iter().all(|item| item.event_id.as_ref() == Some(&named)), "{plan:#?}");
        let [warning] = plan.warnings.as_slice() else { panic!("{plan:#?}") };
        assert!(warning.contains(other.as_str()), "{warning}");
        carry_out(&stack(&world), &plan).await;
        assert!(stored(&world, named.as_str()).await.is_erased());
    }
}

/// The row of one of the person's calls cannot be read any more.
#[tokio::test(start_paused = true)]
async fn row_that_cannot_be_read_is_skipped_and_stops_no_plan() {
    let world = World::stopped();
    for id in ["c1", "c2"] {
        finished_call(&world, id).await;
    }
    consume_all(&world).await;
    world.alter_text("c1", "job", "LOST").await;
    let plan = plan_of_last_hour(&world, number()).await;
    let skipped = plan.skipped.iter().find(|skipped| skipped.item == "c1").unwrap_or_else(|| panic!("{plan:#?}"));
    assert!(skipped.reason.contains("could not read"), "{plan:#?}");
    assert!(plan.items.iter().all(|item| item.call_id == Some(CallId::new("c2"))), "{plan:#?}");
    assert_eq!(carry_out(&stack(&world), &plan).await.counts.skipped, 0);
    assert!(world.call("c2").await.forgotten_at.is_some());
    assert!(places(&world).await.iter().all(|place| place.contains("c1")), "{:#?}", places(&world).await);
}

/// An older version could not read the webhook, and stored it without its call. That call goes on, and this version can read the webhook.
#[tokio::test(start_paused = true)]
async fn webhook_that_is_read_after_it_was_erased_forgets_no_call() {
    let mut world = World::stopped();
    world.accept(Provider::Generic, &generic("live", "ringing", "RINGING", 1)).await;
    consume_all(&world).await;
    let answered = world.accept(Provider::Generic, &about("live", "answered", "ANSWERED", 3, "my hip is broken")).await;
    drop_messages(&world);
    let mut item = world.item(INBOX_TABLE, answered.as_str()).await;
    item.remove("call_id");
    item.insert("disposition".to_owned(), AttributeValue::S("quarantined".to_owned()));
    world.put_item(INBOX_TABLE, item).await;
    let stack = stack(&world);
    let plan = plan_of_last_hour(&world, number()).await;
    assert_eq!(plan.items.len(), 1, "{plan:#?}");
    carry_out(&stack, &plan).await;
    assert!(stored(&world, answered.as_str()).await.is_erased());

    world.start();
    let only = QuarantineFilter { event_ids: vec![answered.clone()], ..QuarantineFilter::default() };
    let plan = plan_reprocess(&stack, &only, MAX).await.unwrap();
    assert_eq!(carry_out(&stack, &plan).await.result(), "1 done, 0 unchanged, 0 skipped");
    world.quiesce().await;
    let call = world.call("live").await;
    assert!(call.contains_event(&answered) && call.forgotten_at.is_none(), "{call:?}");
}
