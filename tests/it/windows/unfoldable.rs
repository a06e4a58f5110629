//! An event can never be folded: the call is full, or its row cannot be read.

use insta::{allow_duplicates, assert_snapshot};
use serde_dynamo::AttributeValue;
use serde_json::json;
use switchhook_domain::{ATTEMPT_EVENTS_MAX, EventId, Provider};
use switchhook_local::CALLS_TABLE;
use switchhook_tests::{INACTIVITY_TIMEOUT, MINUTE, World, generic, text};

use super::{NOTHING, status};

#[tokio::test(start_paused = true)]
async fn row_that_can_never_be_read_holds_up_no_other() {
    let world = World::new();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.quiesce().await;
    let published = world.published_types("c1");
    let mut garbled = world.item(CALLS_TABLE, "c1").await;
    garbled.insert("job".to_owned(), AttributeValue::S("GARBLED".to_owned()));
    garbled.insert("outbox_start".to_owned(), AttributeValue::N("2".to_owned()));
    world.put_item(CALLS_TABLE, garbled).await;
    world.accept(Provider::Generic, &generic("c2", "e2", "RINGING", 0)).await;
    world.quiesce().await;
    assert_eq!(world.published_types("c2").len(), 2, "the other call must be published at once");
    assert_eq!(world.published_types("c1"), published);
    let skipped = world.logged("record_skipped");
    let line = json!([skipped[0]["call_id"], skipped[0]["cause"], skipped[0]["level"], skipped.len()]);
    assert_eq!(line, json!(["c1", "decode_call", "ERROR", 1]));
    assert_eq!(world.logged("relay_failed"), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn call_takes_as_many_events_as_it_holds_and_still_settles() {
    let world = World::new();
    let most = u64::try_from(ATTEMPT_EVENTS_MAX).unwrap();
    for number in 0..most + 3 {
        let body = generic("c1", &format!("e{number}"), "RINGING", number);
        world.accept(Provider::Generic, &body).await;
        world.quiesce().await;
    }
    let call = world.call("c1").await;
    assert_eq!(call.history.len(), ATTEMPT_EVENTS_MAX);
    let quarantined = world.logged("quarantined");
    let ids: Vec<String> = quarantined.iter().map(|line| text(&line["event_id"])).collect();
    assert_eq!(ids, ["generic:e64", "generic:e65", "generic:e66"]);
    assert!(quarantined.iter().all(|line| line["level"] == "ERROR" && line["function"] == "consumer"));
    for id in ids {
        let shown = status(&world, &EventId::new(id), &["status", "disposition", "error", "next_retry_at"]).await;
        allow_duplicates! {
            assert_snapshot!(shown, @r"
            status: quarantined
            disposition: quarantined
            error: the call has reached its limit of events
            next_retry_at: null
            ");
        }
    }
    assert_eq!((world.queued(), world.dead_letters()), (vec![], vec![]));

    world.wait(INACTIVITY_TIMEOUT + MINUTE * 3).await;
    let (_, shown) = world.get("/call?id=c1").await;
    assert_eq!(json!([shown["lifecycle"], shown["settled"]]), json!(["inconclusive", true]));
    assert_eq!(
        world.call("c1").await.history.len(),
        ATTEMPT_EVENTS_MAX + 1,
        "a deadline must be folded even beyond the limit"
    );
}
