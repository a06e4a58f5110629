//! Calls are placed at the second at which they are due, and no faster than their provider takes them.

use std::time::Duration;

use serde_json::json;
use switchhook_local::fake::DeliveryFaults;
use switchhook_tests::{MINUTE, World};

use super::{call_request, create};

/// Creates a call that is due after `delay`, and waits until it was dialled. Returns the milliseconds from the due time to the
/// dial request.
async fn lateness(world: &World, delay: Duration) -> i64 {
    let due_at = world.now().plus(delay);
    let mut request = call_request("confirms");
    if !delay.is_zero() {
        request["due_at"] = json!(due_at.to_string());
    }
    let call_id = create(world, &request).await;
    world.wait(delay + MINUTE * 2).await;
    let dials = world.cloud.fake().dials();
    let dial = dials.iter().find(|dial| dial.call_id == call_id).unwrap();
    dial.started_ms - due_at.as_millis()
}

#[tokio::test(start_paused = true)]
async fn call_is_dialled_at_the_second_at_which_it_is_due() {
    let world = World::new();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    // Due now: the stream of the table wakes the scheduler. Due within a minute: a message is delayed. Due later: the
    // schedule finds the call before it is due.
    for seconds in [0.0, 0.4, 7.3, 59.0, 61.0, 185.7, 3_700.0] {
        let late = lateness(&world, Duration::from_secs_f64(seconds)).await;
        println!("due after {seconds} s: dialled {late} ms later");
        assert!((0..=1_100).contains(&late), "due after {seconds} s, dialled {late} ms later");
    }
}

#[tokio::test(start_paused = true)]
async fn burst_of_calls_is_claimed_no_faster_than_it_is_dialled() {
    let world = World::with_dial_rate(1.0);
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    for _ in 0..500 {
        create(&world, &call_request("busy")).await;
    }
    let started = world.now();
    world.wait(Duration::from_secs(500 + 70)).await;
    assert_eq!(world.cloud.fake().dials().len(), 500);
    // Dialled all the time, and at the rate of the account. No claim expired before its call was dialled.
    let dials = world.cloud.fake().dials();
    let last = dials.iter().map(|dial| dial.started_ms).max().unwrap() - started.as_millis();
    assert!((490_000..=565_000).contains(&last), "{last}");
    assert_eq!(world.logged("claim_lost").len(), 0);
    assert_eq!(world.cloud.fake().duplicate_dials(), 0);
}
