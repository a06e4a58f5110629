//! Webhooks whose event id is known, but whose body differs from the stored one.

use http::StatusCode;
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_domain::{EventId, Provider};
use switchhook_local::INBOX_TABLE;
use switchhook_local::connector::Fault;
use switchhook_tests::{World, generic, sample};

use super::{answer, event_of_size, id_of, storage_failure};

#[tokio::test(start_paused = true)]
async fn other_body_under_a_known_id_is_kept_beside_the_first_and_counted() {
    let world = World::new();
    let id = "generic:e1";
    let first = generic("c1", "e1", "ANSWERED", 0);
    let second = generic("c1", "e1", "FAILED", 0);
    let third = generic("c1", "e1", "BUSY", 0);
    assert_eq!(world.post(Provider::Generic, &first).await, answer("accepted", id));
    world.quiesce().await;
    let stored = world.item(INBOX_TABLE, id).await;
    let call = world.call("c1").await;

    for other in [&second, &second, &third] {
        assert_eq!(world.post(Provider::Generic, other).await, answer("already_processed", id));
        world.quiesce().await;
    }

    assert_eq!(world.item(INBOX_TABLE, id).await, stored, "the first body must stay");
    assert_eq!(world.call("c1").await, call);
    let event = world.inbox.get(&EventId::new(id)).await.unwrap().unwrap();
    assert_eq!(world.inbox.read_body(&event).await.unwrap(), first.as_bytes());

    let mut conflicts = Vec::new();
    for item in world.items(INBOX_TABLE).await {
        if let (Some(AttributeValue::S(key)), Some(AttributeValue::B(body))) = (item.get("event_id"), item.get("body"))
            && key.starts_with("conflict:")
        {
            conflicts.push((key.clone(), body.clone()));
        }
    }
    let compressed_second = compressed(&second).await;
    assert_eq!(conflicts, [(format!("conflict:{id}"), compressed_second)], "only the first conflicting body is stored");

    let counted: Vec<Value> = world
        .logged("duplicate")
        .into_iter()
        .map(|line| json!([line["cause"], line["conflicting_body"], line["event_id"]]))
        .collect();
    assert_eq!(counted, vec![json!(["conflicting_body", 1, id]); 3]);
    // A conflicting body changes no call, even if it names another call.
    let elsewhere = generic("c2", "e1", "ANSWERED", 0);
    assert_eq!(world.post(Provider::Generic, &elsewhere).await, answer("already_processed", id));
    world.quiesce().await;
    assert_eq!(world.get("/call?id=c2").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn same_report_in_other_bytes_is_no_conflict() {
    let json = "{\"CallSid\":\"CA1\",\"CallStatus\":\"ringing\",\"SequenceNumber\":\"1\"}";
    let cases = [
        (Provider::Generic, sample("generic/ringing").to_owned(), compact(sample("generic/ringing"))),
        (Provider::Retell, sample("retell/call_ended").to_owned(), compact(sample("retell/call_ended"))),
        (Provider::Generic, event_of_size(1_000_000), format!("{}\n", event_of_size(1_000_000))),
        (Provider::Twilio, json.to_owned(), format!(" {json}")),
        (
            Provider::Twilio,
            "CallSid=CA1&CallStatus=ringing&SequenceNumber=1".to_owned(),
            "SequenceNumber=1&CallStatus=ringing&CallSid=CA1".to_owned(),
        ),
    ];
    for (provider, first, anew) in cases {
        assert_ne!(first, anew);
        let world = World::new();
        let (_, answered) = world.post(provider, &first).await;
        let items = world.items(INBOX_TABLE).await.len();
        assert_eq!(world.post(provider, &anew).await, answer("already_processed", &id_of(&answered)), "{provider}");
        assert_eq!(world.items(INBOX_TABLE).await.len(), items, "{provider}: no second body may be stored");
        assert_eq!(world.logged("duplicate")[0]["cause"], Value::Null, "{provider}");
        let stored = world.inbox.get(&EventId::new(id_of(&answered))).await.unwrap().unwrap();
        assert!(
            world.inbox.read_body(&stored).await.unwrap() == first.as_bytes(),
            "{provider}: the first bytes must stay"
        );
    }
}

/// The same JSON without white space.
fn compact(json: &str) -> String {
    serde_json::from_str::<Value>(json).unwrap().to_string()
}

/// A body in the compressed form in which the inbox stores it.
async fn compressed(body: &str) -> Vec<u8> {
    let world = World::new();
    let (_, answered) = world.post(Provider::Generic, body).await;
    let mut item = world.item(INBOX_TABLE, &id_of(&answered)).await;
    let Some(AttributeValue::B(body)) = item.remove("body") else { return Vec::new() };
    body
}

#[tokio::test(start_paused = true)]
async fn conflict_is_not_acknowledged_before_it_was_kept() {
    let world = World::new();
    world.accept(Provider::Generic, &generic("c1", "e1", "ANSWERED", 0)).await;
    let other = generic("c1", "e1", "FAILED", 0);
    let refused_puts = std::sync::atomic::AtomicU64::new(0);
    // The second write of a webhook with a known id stores the conflicting body. It fails three times.
    world.set_fault_hook(move |call| {
        let is_refused = call.operation == "PutItem"
            && call.body.windows(9).any(|bytes| bytes == b"conflict:")
            && refused_puts.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 3;
        is_refused.then_some(Fault::NotSent)
    });
    assert_eq!(world.post(Provider::Generic, &other).await, storage_failure());
    assert_eq!(world.post(Provider::Generic, &other).await, answer("already_processed", "generic:e1"));
    assert_eq!(world.item(INBOX_TABLE, "conflict:generic:e1").await.len(), 12);
}
