//! Webhooks that name no call, and are found by the ids and numbers in their bodies.

use std::collections::BTreeSet;

use serde_dynamo::AttributeValue;
use serde_json::json;
use switchhook_domain::{EventId, Provider};
use switchhook_local::INBOX_TABLE;
use switchhook_tests::{World, generic, text};

use super::places::places;
use super::{NUMBER, about, calls, number, plan_of_last_hour, stored};
use crate::operator::{carry_out, stack};

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
