//! Bodies up to the limit are stored byte for byte, larger ones are refused.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_aws::inbox::BODY_BYTES_MAX;
use switchhook_domain::{EventId, Provider};
use switchhook_local::connector::Fault;
use switchhook_local::{EVENTS_QUEUE, INBOX_TABLE};
use switchhook_tests::{KEY, World, is_request_to};

use super::{OK, answer, event_of_size, id_of, storage_failure, with_header};
use crate::traffic::noise;

#[tokio::test(start_paused = true)]
async fn body_over_the_limit_is_refused_unread() {
    let world = World::stopped();
    let message = "the body is larger than the limit of 4194304 bytes";
    let too_large = (StatusCode::PAYLOAD_TOO_LARGE, json!({"error": "payload_too_large", "message": message}));
    let body = event_of_size(BODY_BYTES_MAX + 1);
    assert_eq!(world.post(Provider::Generic, &body).await, too_large);
    assert_eq!(world.post_signed(Provider::Generic, "other", "", body.as_bytes()).await, too_large);
    let binary = with_header(
        world.signed(Provider::Generic, KEY, "", body.as_bytes(), world.now()),
        "content-type",
        "application/octet-stream",
    );
    assert_eq!(world.send(binary).await, too_large, "the limit must apply to the body, not to its base64 form");
    assert_eq!(world.requests(), BTreeMap::new());
    assert_eq!(world.logged("rejected")[0]["cause"], "too_large");
}

#[tokio::test(start_paused = true)]
async fn body_of_the_largest_size_is_kept_byte_for_byte_and_folded() {
    let world = World::new();
    let body = event_of_size(BODY_BYTES_MAX);
    assert_eq!(body.len(), BODY_BYTES_MAX);
    let id = EventId::new("generic:large");
    assert_eq!(world.post(Provider::Generic, &body).await, answer("accepted", id.as_str()));
    world.quiesce().await;

    let item = world.item(INBOX_TABLE, id.as_str()).await;
    assert_eq!(item.get("body_chunks"), Some(&AttributeValue::N("11".to_owned())), "the body must be stored in chunks");
    let stored = world.inbox.get(&id).await.unwrap().unwrap();
    assert!(
        world.inbox.read_body(&stored).await.unwrap() == body.as_bytes(),
        "the stored body must be the same byte for byte"
    );
    assert_eq!(world.status(&id).await["status"], "processed");
    assert_eq!(world.post(Provider::Generic, &body).await, answer("already_processed", id.as_str()));
}

#[tokio::test(start_paused = true)]
async fn duplicate_of_a_large_body_writes_nothing() {
    let world = World::stopped();
    let post = async |body: &str| {
        drop(world.requests());
        let (code, answered) = world.post(Provider::Generic, body).await;
        assert_eq!(code, OK, "{answered}");
        (answered["status"].as_str().unwrap().to_owned(), world.requests())
    };
    let counted = |counts: &[(&str, u64)]| counts.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    let (first, other) = (event_of_size(1_000_000), event_of_size(1_000_001));
    let duplicate = || "already_processed".to_owned();
    let new: BTreeMap<String, u64> = counted(&[("GetItem", 1), ("PutItem", 1 + 3), ("SendMessage", 1)]);
    assert_eq!(
        post(&first).await,
        ("accepted".to_owned(), new),
        "one read of the id, and four writes: three chunks and the event"
    );
    let again = counted(&[("GetItem", 1 + 3), ("SendMessage", 1)]);
    assert_eq!(post(&first).await, (duplicate(), again), "the queued event must be read from the chunks");
    // The first conflicting body is stored, with its chunks. Later ones are not.
    assert_eq!(post(&other).await.1["PutItem"], 1 + 3);
    assert!(!post(&other).await.1.contains_key("PutItem"));
    let id = EventId::new("generic:large");
    let stored = world.inbox.get(&id).await.unwrap().unwrap();
    assert!(world.inbox.read_body(&stored).await.unwrap() == first.as_bytes(), "the first body must keep its chunks");
    assert!(world.inbox.get_conflict(&id).await.unwrap().unwrap().body == other.as_bytes());
}

/// Ingress dies before each write of the body and of the event in turn. The id must not be taken before the body is complete.
#[tokio::test(start_paused = true)]
async fn large_event_that_was_stored_in_part_is_accepted_when_it_is_repeated() {
    for done in 0..4 {
        let world = World::new();
        let (body, puts) = (event_of_size(1_000_000), AtomicU64::new(0));
        world.set_fault_hook(move |call| {
            let is_put = call.operation == "PutItem" && is_request_to(call, INBOX_TABLE);
            let is_last = is_put && puts.fetch_add(1, Ordering::Relaxed) == done;
            assert!(!is_last, "the function crashes here, as the test demands");
            None
        });
        assert_eq!(world.post(Provider::Generic, &body).await.0, StatusCode::INTERNAL_SERVER_ERROR);
        world.clear_faults();
        assert_eq!(world.post(Provider::Generic, &body).await, answer("accepted", "generic:large"), "{done} writes");
        world.quiesce().await;
        assert_eq!(world.status(&EventId::new("generic:large")).await["status"], "processed", "{done} writes");
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_of_the_largest_size_that_are_no_text_are_kept_too() {
    let world = World::new();
    let mut body: Vec<u8> = noise(BODY_BYTES_MAX).into_bytes();
    let mut last = 1_u8;
    for byte in &mut body {
        last = last.wrapping_mul(31).wrapping_add(*byte);
        *byte ^= last;
    }
    let (code, answered) = world.post_signed(Provider::Generic, KEY, "", &body).await;
    assert_eq!((code, &answered["status"]), (OK, &json!("quarantined")));
    let stored = world.inbox.get(&EventId::new(id_of(&answered))).await.unwrap().unwrap();
    assert!(world.inbox.read_body(&stored).await.unwrap() == body, "the stored body must be the same byte for byte");
    assert_eq!(world.dead_letters().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn chunked_event_that_never_reached_the_queue_is_queued_from_its_chunks() {
    let world = World::new();
    let body = event_of_size(2_000_000);
    world.inject_fault("SendMessage", EVENTS_QUEUE, 3, Fault::NotSent);
    assert_eq!(world.post(Provider::Generic, &body).await, storage_failure());
    assert_eq!(world.queued(), [] as [Value; 0]);

    assert_eq!(world.post(Provider::Generic, &body).await, answer("already_processed", "generic:large"));
    world.quiesce().await;
    assert_eq!(world.status(&EventId::new("generic:large")).await["status"], "processed");
    assert_eq!(world.published_types("c1"), ["call.initiated", "call.ringing", "call.in_progress"]);
}
