//! The story of a call in doubt says when the doubt began, when the next lookup is, and when the doubt ends. The reconciler does as the
//! story says.

use std::time::Duration;

use switchhook_domain::{CallId, Timestamp};
use switchhook_local::fake::{DeliveryFaults, Mode};
use switchhook_operate::calls::{EXAMINED_MAX, StuckKind, stuck};
use switchhook_operate::timeline::{Doubt, Story, find_by_id, story};
use switchhook_tests::{MINUTE, World};

use super::stack;
use crate::outbound::{HOUR, call_request, create};

/// Time in which the reconciler comes to a lookup that is due, and its finding is folded.
const NEXT_RUN: Duration = Duration::from_secs(6 * 60);

/// Story of a call now, or as it was known at `as_of`.
async fn told(world: &World, call_id: &str, as_of: Option<Timestamp>) -> Story {
    let found = find_by_id(&stack(world), &CallId::new(call_id)).await.unwrap().unwrap();
    story(&found, &stack(world).policy(), world.now(), as_of).unwrap()
}

/// A call whose dial got no answer.
async fn unanswered(world: &World) -> String {
    let fake = world.cloud.fake();
    fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
    fake.set_mode(Mode::Unresponsive);
    create(world, &call_request("confirms")).await
}

async fn wait_until(world: &World, at: Timestamp) {
    world.wait(time_to(world, at)).await;
}

fn time_to(world: &World, at: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(at.millis_since(world.now())).unwrap_or_default())
}

/// Waits like [`wait_until`], and [skips](World::skip) the time between two lookups of the call.
async fn skip_until(world: &mut World, call_id: &str, at: Timestamp) {
    while world.now() < at {
        let next_lookup_at = only(&told(world, call_id, None).await).next_lookup_at;
        let quiet = time_to(world, next_lookup_at.map_or(at, |next| next.min(at)).minus(MINUTE));
        world.skip(quiet).await;
        world.wait((MINUTE * 3).min(time_to(world, at))).await;
    }
}

fn only(told: &Story) -> &Doubt {
    let [doubt] = told.doubts.as_slice() else { panic!("{told:?}") };
    assert!(told.in_short.contains("dial 1 has been in doubt since 2026-01-01 00:0"), "{}", told.in_short);
    doubt
}

#[tokio::test(start_paused = true)]
async fn doubt_is_named_before_the_reconciler_comes_to_it_and_ends_when_it_says() {
    let mut world = World::new();
    let call_id = unanswered(&world).await;
    world.wait(MINUTE * 2).await;
    let early = told(&world, &call_id, None).await;
    let Doubt { since, next_lookup_at, ends_with_answer_by, ends_by, .. } = only(&early).clone();
    assert!(early.call.attempts[0].dialled_at == Some(since.to_string()), "{early:?}");
    assert!(next_lookup_at.is_some_and(|at| at > world.now() && at < ends_with_answer_by), "{early:?}");
    assert!(early.in_short.contains("The reconciler looks for the call at the provider, next at 2026-01-01 00:"));

    wait_until(&world, ends_with_answer_by.plus(NEXT_RUN)).await;
    let late = told(&world, &call_id, None).await;
    assert_eq!(only(&late).ends_by, ends_by);
    assert!(late.in_short.contains("The doubt ends when the provider answers, and by 2026-01-02 00:1"), "{late:?}");
    skip_until(&mut world, &call_id, ends_by.minus(MINUTE)).await;
    only(&told(&world, &call_id, None).await);
    wait_until(&world, ends_by.plus(NEXT_RUN)).await;
    let over = told(&world, &call_id, None).await;
    assert_eq!((over.doubts.as_slice(), over.call.lifecycle), (&[][..], Some("inconclusive")));
    assert!(
        over.in_short.contains("The result of dial 1 was in doubt until an event settled it."),
        "{}",
        over.in_short
    );
    let before = told(&world, &call_id, Some(since.plus(HOUR))).await;
    assert_eq!((only(&before).since, only(&before).next_lookup_at), (since, None));
}

#[tokio::test(start_paused = true)]
async fn doubt_ends_in_time_if_the_provider_answers() {
    let world = World::new();
    let call_id = unanswered(&world).await;
    world.wait(MINUTE * 2).await;
    world.cloud.fake().set_mode(Mode::Normal);
    let ends_with_answer_by = only(&told(&world, &call_id, None).await).ends_with_answer_by;
    wait_until(&world, ends_with_answer_by.plus(MINUTE)).await;
    assert_eq!(told(&world, &call_id, None).await.doubts, []);
}

#[tokio::test(start_paused = true)]
async fn dial_whose_answer_is_on_its_way_is_not_in_doubt() {
    let world = World::new();
    let call_id = unanswered(&world).await;
    let dialled = async || world.load(&call_id).await.is_some_and(|call| !call.in_doubt().is_empty());
    while !dialled().await {
        world.wait(Duration::from_secs(1)).await;
    }
    let first = told(&world, &call_id, None).await;
    assert_eq!((first.doubts.as_slice(), first.in_short.as_str()), (&[][..], "Dialled."));
}

/// In an outage calls wait in masses, and they need nobody.
#[tokio::test(start_paused = true)]
async fn call_in_doubt_is_shown_beside_as_many_overdue_calls_as_are_examined() {
    let mut world = World::new();
    let in_doubt = unanswered(&world).await;
    world.wait(MINUTE * 2).await;
    world.stop();
    for _ in 0..EXAMINED_MAX {
        create(&world, &call_request("confirms")).await;
    }
    world.wait(MINUTE).await;
    let report = stuck(&stack(&world), MINUTE).await.unwrap();
    let overdue = report.calls.iter().filter(|call| call.kind == StuckKind::Overdue).count();
    assert!(report.more && overdue > EXAMINED_MAX / 2 && report.examined <= EXAMINED_MAX, "{overdue} overdue");
    let doubts: Vec<&str> =
        report.calls.iter().filter(|call| call.kind == StuckKind::InDoubt).map(|call| call.call_id.as_str()).collect();
    assert_eq!(doubts, [in_doubt]);
}
