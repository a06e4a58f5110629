//! Conditions on writes of the calls table: which writes succeed, and which lose a race.

use switchhook_aws::Error;
use switchhook_aws::calls::StoreOutcome;
use switchhook_domain::{Call, EventKind, ProviderEvent};
use switchhook_local::CALLS_TABLE;
use switchhook_local::connector::Fault;
use switchhook_tests::World;

use super::{folded, provider_event, store, unannounced};
use crate::traffic::at;

#[tokio::test(start_paused = true)]
async fn first_write_of_a_call_needs_its_place_to_be_free() {
    let world = World::stopped();
    let ours = folded(None, &[provider_event("c1", "e1", EventKind::Ringing, 0)], 1);
    let theirs = folded(None, &[provider_event("c1", "e2", EventKind::InProgress, 0)], 1);
    assert_eq!(store(&world, &ours).await, StoreOutcome::Committed);
    assert_eq!(store(&world, &theirs).await, StoreOutcome::LostRace);
    assert_eq!(store(&world, &ours).await, StoreOutcome::LostRace, "a repeated first write must lose too");
    assert_eq!(world.call("c1").await, ours);
}

#[tokio::test(start_paused = true)]
async fn further_write_needs_the_version_that_was_read() {
    let world = World::stopped();
    let first = folded(None, &[provider_event("c1", "e1", EventKind::Ringing, 0)], 1);
    let ours = folded(Some(&first), &[provider_event("c1", "e2", EventKind::InProgress, 2)], 3);
    let theirs = folded(Some(&first), &[provider_event("c1", "e3", EventKind::Busy, 2)], 3);
    assert_eq!(store(&world, &ours).await, StoreOutcome::LostRace, "there is no row yet");
    assert_eq!(world.items(CALLS_TABLE).await, []);
    assert_eq!(store(&world, &first).await, StoreOutcome::Committed);
    assert_eq!(store(&world, &ours).await, StoreOutcome::Committed);
    assert_eq!(store(&world, &theirs).await, StoreOutcome::LostRace);
    assert_eq!(world.call("c1").await, ours);
    let again = folded(Some(&ours), &theirs_events(&theirs), 4);
    assert_eq!(
        store(&world, &again).await,
        StoreOutcome::Committed,
        "the write must succeed after the call was read again"
    );
    assert_eq!(world.call("c1").await.version, 3);
}

/// The last event of their call, once more.
fn theirs_events(call: &Call) -> Vec<ProviderEvent> {
    let entry = call.history.last().unwrap();
    vec![provider_event(call.call_id.as_str(), entry.source_event_id.as_str(), entry.event.kind, 2)]
}

#[tokio::test(start_paused = true)]
async fn waking_time_of_a_call_moves_under_the_version_that_was_read() {
    let world = World::stopped();
    let call = folded(None, &[provider_event("c1", "e1", EventKind::Ringing, 0)], 1);
    assert_eq!(
        world.calls.set_wake_at(&call, at(98)).await.unwrap(),
        StoreOutcome::LostRace,
        "a new wake-up time must not create a row"
    );
    assert_eq!(world.items(CALLS_TABLE).await, []);

    assert_eq!(store(&world, &call).await, StoreOutcome::Committed);
    assert_eq!(world.calls.set_wake_at(&call, at(99)).await.unwrap(), StoreOutcome::Committed);
    let moved = Call { version: 2, wake_at: Some(at(99)), ..call.clone() };
    assert_eq!(world.call("c1").await, moved, "only the version and the wake-up time may change");
    assert_eq!(world.calls.set_wake_at(&call, at(100)).await.unwrap(), StoreOutcome::LostRace);
    let moved = Call { unanswered_since: Some(at(100)), ..moved };
    assert_eq!(world.calls.set_wake_at(&moved, at(101)).await.unwrap(), StoreOutcome::Committed);
    let moved = Call { version: 3, wake_at: Some(at(101)), ..moved };
    assert_eq!(world.call("c1").await, moved, "it is remembered since when the provider has not answered");
}

#[tokio::test(start_paused = true)]
async fn failure_of_the_database_is_no_lost_race() {
    let world = World::stopped();
    let call = folded(None, &[provider_event("c1", "e1", EventKind::Ringing, 0)], 1);
    for code in ["ThrottlingException", "InternalServerError", "TransactionConflictException", "ValidationException"] {
        let fault = Fault::ErrorBefore { status: 400, code: code.to_owned() };
        world.inject_fault("PutItem", CALLS_TABLE, 3, fault);
        let written = world.calls.store(&unannounced(&call)).await;
        assert!(matches!(written, Err(Error::WriteCall(_))), "{code}: {written:?}");
    }
    world.clear_faults();
    assert_eq!(world.items(CALLS_TABLE).await, []);
}

#[tokio::test(start_paused = true)]
async fn outage_of_one_stack_takes_no_retries_from_another() {
    let (down, up) = (World::stopped(), World::stopped());
    let call = folded(None, &[provider_event("c1", "e1", EventKind::Ringing, 0)], 1);
    let fault = || Fault::ErrorBefore { status: 500, code: "InternalServerError".to_owned() };
    down.inject_fault("PutItem", CALLS_TABLE, u64::MAX, fault());
    for _ in 0..200 {
        assert!(down.calls.store(&unannounced(&call)).await.is_err());
    }
    let requests = down.requests()["PutItem"];
    assert!(requests < 3 * 200, "the first stack must have used up its own retry quota, but sent {requests} requests");
    up.inject_fault("PutItem", CALLS_TABLE, 2, fault());
    assert_eq!(store(&up, &call).await, StoreOutcome::Committed, "the third try must succeed");
}

#[tokio::test(start_paused = true)]
async fn database_that_is_throttled_for_a_moment_is_asked_again() {
    let world = World::stopped();
    let call = folded(None, &[provider_event("c1", "e1", EventKind::Ringing, 0)], 1);
    let fault = Fault::ErrorBefore { status: 400, code: "ThrottlingException".to_owned() };
    world.inject_fault("PutItem", CALLS_TABLE, 2, fault);
    let before = world.now();
    assert_eq!(store(&world, &call).await, StoreOutcome::Committed);
    assert!(world.now().millis_since(before) < 500, "the retries must be quick");
}
