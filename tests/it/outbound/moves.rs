//! The moves in the row of a placed call: what workers did with it.

use serde_json::json;
use switchhook_domain::CallId;
use switchhook_local::fake::{DeliveryFaults, Mode};
use switchhook_tests::{MINUTE, World};

use super::{call_request, create, send};

/// The moves in the row of a call, one text per move.
async fn moves(world: &World, call_id: &str) -> Vec<String> {
    let call = world.load(call_id).await.unwrap();
    let shown = |one: &switchhook_domain::Move| {
        let reason = one.reason.as_ref().map_or_else(String::new, |reason| format!(" {reason}"));
        format!("{}{reason}", one.kind.as_str())
    };
    call.moves.iter().map(shown).collect()
}

#[tokio::test(start_paused = true)]
async fn row_tells_what_workers_did_until_the_call_ended() {
    let world = World::new();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    let call_id = create(&world, &call_request("busy,confirms")).await;
    world.wait(MINUTE * 60).await;
    assert_eq!(moves(&world, &call_id).await, ["claimed", "dialled", "claimed", "dialled"]);
    let (_, shown) = world.get(&format!("/call?id={call_id}")).await;
    assert_eq!((shown["job"]["state"].as_str(), shown.get("moves")), (Some("COMPLETED"), None), "for operators only");
}

#[tokio::test(start_paused = true)]
async fn dial_that_the_provider_refused_or_that_the_window_delayed_has_its_reason() {
    let world = World::new();
    world.cloud.fake().set_mode(Mode::OutOfCredit);
    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE / 2).await;
    let all = moves(&world, &call_id).await;
    assert_eq!(all[..2], ["claimed", "dialled"]);
    assert!(all[2].starts_with("withdrawn "), "{all:?}");
    world.cloud.fake().set_mode(Mode::Normal);

    let mut later = call_request("confirms");
    later["due_at"] = json!("2026-01-02T00:00:00Z");
    let call_id = create(&world, &later).await;
    send(&world, "POST", &format!("/call/cancel?id={call_id}"), None, &json!(null)).await;
    assert_eq!(moves(&world, &call_id).await, ["canceled"]);
}

#[tokio::test(start_paused = true)]
async fn dial_without_an_event_is_doubted_once_in_a_write_that_happens_anyway() {
    let world = World::stopped();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let call_id = CallId::new(create(&world, &call_request("no_response")).await);
    world.cloud.scheduler().trigger(&call_id, "test").await.unwrap();
    world.cloud.dialer().handle(world.take_claims()).await;
    assert_eq!(moves(&world, call_id.as_str()).await, ["triggered", "dialled"]);
    world.cloud.fake().set_mode(Mode::Down);
    for _ in 0..2 {
        world.wait(MINUTE * 6).await;
        drop(world.requests());
        world.reconciler.run("test").await.unwrap();
        assert_eq!(moves(&world, call_id.as_str()).await, ["triggered", "dialled", "doubted"]);
        // One takes requests from the budget, one gives back those that were not sent, and one moves the wake-up time. One marks the event
        // that the sweep queues again, because nobody folds here.
        let requests = world.requests();
        assert!(requests["UpdateItem"] <= 4, "{requests:?}");
    }
}
