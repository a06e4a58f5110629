//! Bookings that move, or end, before their call is placed, while it rings, or while people talk.

use std::time::Duration;

use serde_json::json;
use switchhook_aws::inbox::creation_id;
use switchhook_domain::{CallId, Job, StopReason};
use switchhook_local::INBOX_TABLE;
use switchhook_local::fake::DeliveryFaults;
use switchhook_tests::{MINUTE, World};

use super::{
    HOUR_S, MINUTE_S, at, calcom, call_id, canceled, created, moved, outcome, permutations, receive, secret,
    with_number,
};

/// A sender that keeps the id of a booking moves it away and back.
#[tokio::test(start_paused = true)]
async fn booking_that_comes_back_has_its_call_again() {
    let again = |second, starts| calcom("BOOKING_RESCHEDULED", "b1", second, starts);
    let bodies = [created("b1", 0, 5 * HOUR_S), again(10, 6 * HOUR_S), again(20, 5 * HOUR_S)];
    let mut calls = std::collections::BTreeSet::new();
    for order in permutations(&bodies) {
        let mut world = World::with_secret(&secret());
        receive(&world, &order).await;
        assert_eq!(outcome(&world, &["b1"]).await, ["b1: PENDING", "dials: 0"], "{order:?}");
        calls.insert(call_id(&world, "b1").await.unwrap());
        // In most orders, the call to the other time was created later.
        let (_, appointment) = world.get("/appointment?id=b1").await;
        assert_eq!(appointment["status"], "Pending", "{order:?}: {appointment}");
        world.skip(MINUTE * 235).await;
        world.wait(MINUTE * 10).await;
        let dials = world.cloud.fake().dials();
        assert!(!dials.is_empty() && dials.iter().all(|dial| Some(&dial.call_id) == calls.first()), "{dials:?}");
    }
    assert_eq!(calls.len(), 1);
}

/// The host confirms bookings. A request to move one ends it at once. Older versions of Cal.com name it in the request.
#[tokio::test(start_paused = true)]
async fn booking_whose_move_waits_for_the_host_is_not_called_about() {
    let requested = || {
        let mut body = calcom("BOOKING_REQUESTED", "b2", 10, 5 * HOUR_S);
        body["payload"]["rescheduleUid"] = json!("b1");
        body
    };
    for order in permutations(&[created("b1", 0, 3 * HOUR_S), requested()]) {
        let world = World::with_secret(&secret());
        receive(&world, &order).await;
        assert_eq!(outcome(&world, &["b1", "b2"]).await, ["b1: no call", "b2: no call", "dials: 0"], "{order:?}");
    }
    for order in permutations(&[created("b1", 0, 3 * HOUR_S), requested(), created("b2", 20, 5 * HOUR_S)]) {
        let world = World::with_secret(&secret());
        receive(&world, &order).await;
        assert_eq!(outcome(&world, &["b1", "b2"]).await, ["b1: no call", "b2: PENDING", "dials: 0"], "{order:?}");
    }
}

/// Today's Cal.com names the old booking nowhere if the host confirms bookings. So `docs/providers/bookings.md` says to forbid such moves.
#[tokio::test(start_paused = true)]
async fn call_for_a_booking_stays_if_no_webhook_says_that_it_was_moved() {
    let requested = calcom("BOOKING_REQUESTED", "b2", 10, 5 * HOUR_S);
    for order in permutations(&[created("b1", 0, 3 * HOUR_S), requested, created("b2", 20, 5 * HOUR_S)]) {
        let world = World::with_secret(&secret());
        receive(&world, &order).await;
        assert_eq!(outcome(&world, &["b1", "b2"]).await, ["b1: PENDING", "b2: PENDING", "dials: 0"], "{order:?}");
    }
}

/// Cal.com cancels a series of bookings with a webhook about one of them. So `docs/providers/bookings.md` says to use no event types that
/// recur.
#[tokio::test(start_paused = true)]
async fn calls_for_the_other_bookings_of_a_canceled_series_stay() {
    let mut series_canceled = canceled("b1", 10);
    series_canceled["payload"]["recurringEvent"] = json!({"freq": 2, "count": 2, "interval": 1});
    for order in permutations(&[created("b1", 0, 3 * HOUR_S), created("b2", 0, 5 * HOUR_S), series_canceled]) {
        let world = World::with_secret(&secret());
        receive(&world, &order).await;
        assert_eq!(outcome(&world, &["b1", "b2"]).await, ["b1: no call", "b2: PENDING", "dials: 0"], "{order:?}");
    }
}

/// The calling window may have put the call off for longer than the inbox keeps its creation.
#[tokio::test(start_paused = true)]
async fn booking_that_comes_back_is_called_after_the_record_of_its_call_expired() {
    let mut world = World::with_secret(&secret());
    let again = |second, starts| calcom("BOOKING_RESCHEDULED", "b1", second, starts);
    receive(&world, &[created("b1", 0, 5 * HOUR_S)]).await;
    let id = call_id(&world, "b1").await.unwrap();
    world.delete_item(INBOX_TABLE, creation_id(&CallId::new(&id)).as_str()).await;
    receive(&world, &[again(10, 6 * HOUR_S), again(20, 5 * HOUR_S)]).await;
    assert_eq!(call_id(&world, "b1").await.as_ref(), Some(&id));
    world.skip(MINUTE * 235).await;
    world.wait(MINUTE * 10).await;
    let dials = world.cloud.fake().dials();
    assert!(!dials.is_empty() && dials.iter().all(|dial| dial.call_id == id), "{dials:?}");
}

/// The appointment lives on, so nothing says that it is over. The calls say that they are canceled, and that one waits again.
#[tokio::test(start_paused = true)]
async fn booking_that_moves_away_and_back_publishes_nothing_about_its_appointment() {
    let world = World::with_secret(&secret());
    let again = |second, starts| calcom("BOOKING_RESCHEDULED", "b1", second, starts);
    let mut ids = Vec::new();
    for body in [created("b1", 0, 5 * HOUR_S), again(10, 6 * HOUR_S), again(20, 5 * HOUR_S)] {
        receive(&world, &[body]).await;
        ids.push(call_id(&world, "b1").await.unwrap());
    }
    world.wait(MINUTE).await;
    assert_eq!(ids[0], ids[2]);
    assert_eq!(world.published_types(&ids[0]), ["call.canceled", "call.retry_scheduled"]);
    assert_eq!(world.published_types(&ids[1]), ["call.canceled"]);
    let resumed = world.domain_events().into_iter().find(|event| event["type"] == "call.retry_scheduled").unwrap();
    assert_eq!((&resumed["corrects"], &resumed["due_at"]), (&json!(format!("{}/1", ids[0])), &json!(at(4 * HOUR_S))));
}

/// Waits until the provider has placed the call and the phone rings. Retell reports nothing before the answer.
async fn wait_for_ring(world: &World, call_id: &str) {
    for _ in 0..600 {
        if world.call(call_id).await.attempts().iter().any(|attempt| !attempt.has_ended()) {
            return world.wait(Duration::from_secs(1)).await;
        }
        world.wait(Duration::from_millis(500)).await;
    }
    panic!("the call is not placed");
}

#[tokio::test(start_paused = true)]
async fn booking_moved_while_its_call_rings() {
    let mut world = World::with_secret(&secret());
    // Nobody answers this number.
    let number = json!("+14155550104");
    receive(&world, &[with_number(created("b1", 0, HOUR_S), &number)]).await;
    let first = call_id(&world, "b1").await.unwrap();
    wait_for_ring(&world, &first).await;
    receive(&world, &[with_number(moved("b1", "b2", 30, 5 * HOUR_S), &number)]).await;
    // The phone goes on ringing.
    let call = world.call(&first).await;
    assert_eq!((call.job, call.stop_reason), (Job::InProgress, Some(StopReason::BookingChanged)));
    let second = call_id(&world, "b2").await.unwrap();
    assert_eq!(world.call(&second).await.job.as_str(), "PENDING");
    world.wait(MINUTE * 30).await;
    // Nobody answered, and nobody is called again about the old time.
    let call = world.call(&first).await;
    assert_eq!((call.job.as_str(), call.attempts().len()), ("CANCELED", 1));
    let published = world.published_types(&first);
    let is_published = |name: &str| published.iter().any(|published| published == name);
    assert!(is_published("call.canceled") && !is_published("call.retry_scheduled"), "{published:?}");
    assert_eq!(world.cloud.fake().dials().len(), 1);
    world.skip(MINUTE * 205).await;
    world.wait(MINUTE * 10).await;
    assert!(!world.call(&second).await.attempts().is_empty());
}

/// The new start is near too, so its call is due at once.
#[tokio::test(start_paused = true)]
async fn booking_moved_while_its_call_rings_rings_no_second_time() {
    for keeps_id in [true, false] {
        let world = World::with_secret(&secret());
        world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
        let number = json!("+14155550104");
        let body = |body| with_number(body, &number);
        receive(&world, &[body(created("b1", 0, 40 * MINUTE_S))]).await;
        let first = call_id(&world, "b1").await.unwrap();
        wait_for_ring(&world, &first).await;
        let mut new_id = "b1";
        if keeps_id {
            // It is moved away, and to another start.
            for (second, starts) in [(30, 50 * MINUTE_S), (31, 30 * MINUTE_S)] {
                receive(&world, &[body(calcom("BOOKING_RESCHEDULED", "b1", second, starts))]).await;
            }
        } else {
            new_id = "b2";
            receive(&world, &[body(moved("b1", "b2", 30, 30 * MINUTE_S))]).await;
        }
        assert_eq!(world.call(&first).await.job.as_str(), "IN_PROGRESS");
        let second = call_id(&world, new_id).await.unwrap();
        world.wait(MINUTE * 9).await;
        assert_eq!(world.cloud.fake().dials().len(), 1);
        world.wait(MINUTE * 3).await;
        assert_eq!(world.call(&first).await.job.as_str(), "CANCELED");
        let dials = world.cloud.fake().dials();
        assert!(dials.len() > 1 && dials[1..].iter().all(|dial| dial.call_id == second), "{dials:?}");
    }
}

/// It is moved away and back while the call for the other start rings.
#[tokio::test(start_paused = true)]
async fn call_that_is_resumed_waits_for_another_one_that_rings() {
    let world = World::with_secret(&secret());
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    let number = json!("+14155550104");
    let move_to = |second, starts| with_number(calcom("BOOKING_RESCHEDULED", "b1", second, starts), &number);
    receive(&world, &[with_number(created("b1", 0, 61 * MINUTE_S), &number), move_to(1, 40 * MINUTE_S)]).await;
    let other = call_id(&world, "b1").await.unwrap();
    wait_for_ring(&world, &other).await;
    receive(&world, &[move_to(2, 61 * MINUTE_S)]).await;
    let resumed = call_id(&world, "b1").await.unwrap();
    assert_eq!(world.call(&other).await.job.as_str(), "IN_PROGRESS");
    world.wait(MINUTE * 9).await;
    assert_eq!(world.cloud.fake().dials().len(), 1);
    world.wait(MINUTE * 3).await;
    assert_eq!(world.cloud.fake().dials().get(1).map(|dial| dial.call_id.clone()), Some(resumed));
}

#[tokio::test(start_paused = true)]
async fn conversation_goes_on_when_its_booking_is_canceled() {
    let world = World::with_secret(&secret());
    // The person confirms.
    let number = json!("+14155550100");
    receive(&world, &[with_number(created("b1", 0, HOUR_S), &number)]).await;
    let id = call_id(&world, "b1").await.unwrap();
    wait_for_ring(&world, &id).await;
    receive(&world, &[canceled("b1", 30)]).await;
    world.wait(MINUTE * 10).await;
    let call = world.call(&id).await;
    assert_eq!((call.job.as_str(), call.attempts().len()), ("COMPLETED", 1));
}
