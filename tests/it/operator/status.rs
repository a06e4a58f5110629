//! The answers of `switchhook status` over time.

use switchhook_domain::Provider;
use switchhook_operate::status;
use switchhook_tests::{World, generic};

use super::{HOUR, stack};

/// Returns the text of the line about conflicting bodies.
async fn conflicts(world: &World) -> String {
    let [_, _, poison] = status::status(&stack(world)).await.questions;
    poison.evidence.into_iter().find(|line| line.name == "conflicting bodies").unwrap().text
}

/// Nobody can take such a mark away, and it is kept as long as the event.
#[tokio::test(start_paused = true)]
async fn conflicting_body_counts_for_a_day() {
    let world = World::stopped();
    world.post(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.post(Provider::Generic, &generic("c1", "e1", "ANSWERED", 5)).await;
    assert_eq!(conflicts(&world).await, "1 in the last day");
    world.wait(HOUR * 25).await;
    assert_eq!(conflicts(&world).await, "0 in the last day");
}
