//! What the reconciler finds out, and how far it goes for it: whatever it is told, no call is lost to it; whatever there is to do,
//! its runs end by themselves.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use serde_json::{Value, json};
use switchhook_aws::calls::Alias;
use switchhook_domain::{AttemptKey, CallId, EventId, Provider, Timestamp};

use switchhook_local::CALLS_TABLE;
use switchhook_tests::World;

use crate::outbound::{create, order};

fn started(provider_call_id: &str, metadata: &Value, at: Timestamp) -> String {
    let call = json!({
        "call_id": provider_call_id, "call_status": "ongoing", "start_timestamp": at.as_millis(), "metadata": metadata,
    });
    json!({"event": "call_started", "call": call}).to_string()
}

async fn post(world: &World, body: &str) -> EventId {
    world.accept(Provider::Retell, body).await
}

/// Has a consumer take all that waits. Returns how much that was.
async fn consume_all(world: &World) -> usize {
    let mut all = 0;
    loop {
        let received = world.receive();
        if received.is_empty() {
            return all;
        }
        all += received.len();
        assert_eq!(world.consume(&received).await, received.len());
    }
}

// A provider that says that a call lives

#[tokio::test(start_paused = true)]
async fn no_call_becomes_an_alias_of_itself_and_none_of_ours_becomes_one() {
    let world = World::still();
    post(&world, &started("p1", &Value::Null, world.now())).await;
    consume_all(&world).await;
    let ours = create(&world, &order("confirms")).await;
    for (from, to) in [("retell:p1", "retell:p1"), (ours.as_str(), "retell:p1")] {
        let before = world.item(CALLS_TABLE, from).await;
        let alias = Alias { call_id: CallId::new(to), attempt: AttemptKey::new("1") };
        let stray = world.calls.put_alias(&CallId::new(from), &alias, world.now()).await.unwrap();
        assert_eq!((stray.len(), world.item(CALLS_TABLE, from).await), (0, before), "{from} to {to}");
        assert!(world.load(from).await.is_some(), "{from} to {to}");
    }
    // What an alias is for: a call that nobody of us placed becomes part of one that we did. Again and again.
    for _ in 0..2 {
        let alias = Alias { call_id: CallId::new(&ours), attempt: AttemptKey::new("1") };
        let stray = world.calls.put_alias(&CallId::new("retell:p1"), &alias, world.now()).await.unwrap();
        assert_eq!(stray.len(), 1);
        assert!(world.load("retell:p1").await.is_none());
    }
}
