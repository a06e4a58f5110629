//! The index `by_party`: calls are found by the other person's number.

use switchhook_aws::calls::StoreOutcome;
use switchhook_domain::{Direction, EventKind, PhoneNumber, ProviderEvent, Timestamp};
use switchhook_local::{CALLS_TABLE, CloudOptions};
use switchhook_tests::{World, all_providers, options};

use super::{folded, provider_event, store};
use crate::outbound::{call_request, create};

async fn found(world: &World, number: &str) -> Vec<String> {
    let mut pages = world.calls.by_party(&PhoneNumber::new(number));
    let mut calls = Vec::new();
    while let Some(page) = pages.next().await.unwrap() {
        calls.extend(page.items.iter().map(ToString::to_string));
    }
    calls
}

/// An event of a call between our number and `number`.
fn event(call_id: &str, direction: Option<Direction>, number: &str, second: u64) -> ProviderEvent {
    let (ours, theirs) = (Some(PhoneNumber::new("+15550100")), Some(PhoneNumber::new(number)));
    let is_inbound = direction == Some(Direction::Inbound);
    let (from, to) = if is_inbound { (theirs, ours) } else { (ours, theirs) };
    ProviderEvent { direction, from, to, ..provider_event(call_id, call_id, EventKind::Ringing, second) }
}

#[tokio::test(start_paused = true)]
async fn calls_to_and_from_a_number_are_found_in_any_notation_the_latest_first() {
    let world = World::stopped();
    for (second, event) in [
        event("c1", Some(Direction::Outbound), "+1 (415) 555-0123", 1),
        event("c2", Some(Direction::Inbound), "+14155550123", 2),
        event("c3", Some(Direction::Outbound), "+14155550124", 3),
        event("c4", None, "+14155550123", 4),
        event("c5", Some(Direction::Inbound), "", 5),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(store(&world, &folded(None, &[event], second as u64)).await, StoreOutcome::Committed);
    }
    for notation in ["+14155550123", "+1 415 555 0123"] {
        assert_eq!(found(&world, notation).await, ["c2", "c1"]);
    }
    assert_eq!(found(&world, "+14155550124").await, ["c3"]);
    assert_eq!(found(&world, "+15550100").await, [] as [&str; 0], "our own number is no party");
    assert!(!world.item(CALLS_TABLE, "c4").await.contains_key("party"), "the direction is not known");
}

#[tokio::test(start_paused = true)]
async fn number_costs_one_index_write_per_call_and_none_per_event() {
    let world = World::stopped();
    let index_writes = || world.capacity().values().map(|count| count.index_write_units).sum::<f64>();
    index_writes();
    let first = folded(None, &[event("c1", Some(Direction::Outbound), "+14155550123", 0)], 1);
    assert_eq!(store(&world, &first).await, StoreOutcome::Committed);
    assert_eq!(index_writes(), 2.0, "one for the wake-up time and one for the number");
    let second = folded(Some(&first), &[provider_event("c1", "e2", EventKind::InProgress, 2)], 3);
    assert_eq!(store(&world, &second).await, StoreOutcome::Committed);
    assert_eq!(index_writes(), 0.0);
}

#[tokio::test(start_paused = true)]
async fn without_the_index_no_row_names_its_party() {
    let world = World::with_options(CloudOptions { index_numbers: false, ..options(&all_providers()) });
    let call_id = create(&world, &call_request("confirms")).await;
    assert!(!world.item(CALLS_TABLE, &call_id).await.contains_key("party"));
    assert_eq!(found(&world, "+15550199").await, [] as [&str; 0]);
    // The next write after the index was switched on adds the number.
    let call = world.call(&call_id).await;
    let canceled = call.cancel(&super::POLICY, Timestamp::from_millis(0)).unwrap().call;
    assert_eq!(store(&world, &canceled).await, StoreOutcome::Committed);
    assert_eq!(found(&world, call.to.unwrap().as_str()).await, [call_id]);
}
