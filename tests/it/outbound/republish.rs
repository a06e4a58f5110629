//! Domain events are published again, with the same ids.

use serde_json::{Value, json};
use switchhook_domain::CallId;
use switchhook_relay::{calls_since, republish_call};
use switchhook_tests::{MINUTE, World};

use super::{HOUR, call_request, create, send};

#[tokio::test(start_paused = true)]
async fn republish_derives_the_same_events_with_the_same_ids() {
    let world = World::new();
    let began = world.now();
    let retried = create(&world, &call_request("busy,confirms")).await;
    world.wait(MINUTE * 5).await;
    let mut later = call_request("confirms");
    later["due_at"] = json!("2026-01-02T00:00:00Z");
    let canceled = create(&world, &later).await;
    send(&world, "POST", &format!("/call/cancel?id={canceled}"), None, &Value::Null).await;
    world.wait(HOUR * 2).await;

    let bus = switchhook_aws::bus::Bus::new(
        switchhook_aws::sdk::eventbridge(&switchhook_aws::sdk::with_timeouts_and_retries(
            &world.cloud.services().sdk_config(),
        )),
        "switchhook".to_owned(),
    );
    let first: Vec<String> = world.cloud.bus().events_since(0).into_iter().map(|event| event.detail).collect();
    let mut minutes = 0;
    let since = calls_since(&world.inbox, &world.calls, began, world.now(), |done, all| {
        minutes = done;
        assert!(done <= all);
    });
    let since = since.await.unwrap();
    assert_eq!(
        since.iter().map(CallId::as_str).collect::<std::collections::BTreeSet<_>>(),
        [canceled.as_str(), &retried].into()
    );
    assert!(minutes > 120);
    let mut events = 0;
    for call_id in &since {
        events += republish_call(&world.calls, &bus, call_id).await.unwrap().events;
    }
    let again: Vec<String> = world.cloud.bus().events_since(0).into_iter().map(|event| event.detail).collect();
    assert_eq!(events, first.len() as u64);
    let (mut once, mut twice) = (first.clone(), again[first.len()..].to_vec());
    once.sort();
    twice.sort();
    assert_eq!(once, twice);
    let nobody = republish_call(&world.calls, &bus, &CallId::new("nobody")).await.unwrap();
    assert_eq!((nobody.calls, nobody.events), (0, 0));
}
