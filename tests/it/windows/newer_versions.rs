//! A newer version of Switchhook wrote a message or a row, and after a rollback an older version reads it.

use http::StatusCode;
use insta::assert_snapshot;
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_aws::inbox::AttentionKind;
use switchhook_domain::{EventId, Job, Provider};
use switchhook_local::connector::Fault;
use switchhook_local::queue::NewMessage;
use switchhook_local::{CALLS_TABLE, DIAL_QUEUE, EVENTS_QUEUE, INBOX_TABLE};
use switchhook_tests::{INACTIVITY_TIMEOUT, MINUTE, World, generic};

use super::{NOTHING, status};
use crate::bookings::{HOUR_S, call_id, canceled, created, receive, secret};
use crate::outbound::{call_request, call_state, create};
use crate::reconciled::consume_all;
use crate::repair::drop_messages;

#[tokio::test(start_paused = true)]
async fn row_of_a_later_version_is_published_by_the_later_program() {
    let world = World::new();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.quiesce().await;
    let current = world.item(CALLS_TABLE, "c1").await;
    let mut later = current.clone();
    later.insert("schema_version".to_owned(), AttributeValue::N("2".to_owned()));
    later.insert("outbox_start".to_owned(), AttributeValue::N("2".to_owned()));
    world.put_item(CALLS_TABLE, later).await;
    world.accept(Provider::Generic, &generic("c2", "e2", "RINGING", 0)).await;
    world.wait(MINUTE).await;
    assert_eq!(world.published_types("c2"), [""; 0], "the record must wait");
    assert!(world.logged("relay_failed").len() > 1 && world.logged("record_skipped").is_empty());
    assert_eq!(world.logged("relay_failed")[0]["cause"], "newer_schema");
}

#[tokio::test(start_paused = true)]
async fn message_of_a_later_version_is_tried_again_and_not_dropped() {
    let world = World::new();
    let message = |schema_version: u32| {
        let body = json!({"schema_version": schema_version, "trace_id": "t", "later": {"event": "unknown to us"}});
        NewMessage {
            body: body.to_string(),
            group: Some("c1".to_owned()),
            deduplication_id: Some("later".to_owned()),
            ..NewMessage::default()
        }
    };
    world.cloud.services().sqs().send(EVENTS_QUEUE, message(2)).unwrap();
    world.wait(MINUTE).await;
    let tried = world.logged("retried");
    assert!(tried.len() > 1);
    assert!(tried.iter().all(|line| line["cause"] == "newer_schema"));
    assert_eq!((world.queued().len(), world.dead_letters()), (1, vec![]));
}

#[tokio::test(start_paused = true)]
async fn row_of_a_later_version_is_left_to_the_later_program() {
    let world = World::new();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.quiesce().await;
    let current = world.item(CALLS_TABLE, "c1").await;
    let mut later = current.clone();
    later.insert("schema_version".to_owned(), AttributeValue::N("2".to_owned()));
    later.insert("job".to_owned(), AttributeValue::S("A NEWER STATE".to_owned()));
    world.put_item(CALLS_TABLE, later.clone()).await;

    let id = world.accept(Provider::Generic, &generic("c1", "e2", "ANSWERED", 3)).await;
    world.wait(MINUTE * 4).await;
    assert_eq!(world.item(CALLS_TABLE, "c1").await, later, "the older version must not change the row");
    let error = "schema version 2 is newer than this program supports; a newer program must process it";
    assert_eq!(status_without_call(&world, &id).await, json!(["c1", error]), "the error must be noted");
    assert!(!world.attention(AttentionKind::Retrying).await.is_empty(), "the event must wait");
    assert_eq!(world.dead_letters(), NOTHING);

    // The newer version is deployed again.
    world.put_item(CALLS_TABLE, current).await;
    world.wait(MINUTE * 15).await;
    assert_snapshot!(status(&world, &id, &["status"]).await, @"status: processed");
}

/// The call id of an event, and the error in its note. The API cannot show them, because it cannot read the call.
async fn status_without_call(world: &World, id: &EventId) -> Value {
    let stored = world.inbox.get(id).await.unwrap().unwrap();
    let note = world.inbox.get_note(id).await.unwrap().unwrap();
    json!([stored.call_id, note.error])
}

#[tokio::test(start_paused = true)]
async fn inbox_item_of_a_later_version_is_not_acknowledged_by_this_one() {
    let world = World::new();
    let body = generic("c1", "e1", "RINGING", 0);
    let id = world.accept(Provider::Generic, &body).await;
    let mut item = world.item(INBOX_TABLE, id.as_str()).await;
    item.insert("schema_version".to_owned(), AttributeValue::N("2".to_owned()));
    world.put_item(INBOX_TABLE, item).await;
    assert_eq!(world.post(Provider::Generic, &body).await.0, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(world.logged("storage_failure")[0]["cause"], "newer_schema");
}

/// A refold is a repair that can be asked for again. The webhooks behind it need nothing of the inbox.
#[tokio::test(start_paused = true)]
async fn inbox_item_of_a_later_version_stops_a_refold_and_no_webhook_behind_it() {
    let world = World::stopped();
    let id = world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    consume_all(&world).await;
    world.alter_text("c1", "job", "FAILED").await;
    assert_eq!(world.reconciler.check_drift("test").await.unwrap().drifted, 1);
    let behind = world.accept(Provider::Generic, &generic("c1", "e2", "ANSWERED", 3)).await;
    let received = world.receive();
    // An error that may pass keeps the refold in the queue.
    world.inject_fault("GetItem", INBOX_TABLE, u64::MAX, Fault::NotSent);
    assert_eq!((received.len(), world.invoke_consumer(&received).await.len()), (2, 0));
    world.clear_faults();

    let mut later = world.item(INBOX_TABLE, id.as_str()).await;
    later.insert("schema_version".to_owned(), AttributeValue::N("2".to_owned()));
    world.put_item(INBOX_TABLE, later).await;
    assert_eq!(world.consume(&received).await, 2, "both messages must be deleted");
    assert!(world.call("c1").await.contains_event(&behind));
    let lines = world.logged("refold_unreadable");
    assert_eq!(lines.len(), 1);
    assert_eq!(json!([lines[0]["call_id"], lines[0]["cause"]]), json!(["c1", "newer_schema"]));
    let drift = EventId::new(lines[0]["event_id"].as_str().unwrap());
    let note = world.inbox.get_note(&drift).await.unwrap().unwrap();
    assert_eq!(note.cause.as_deref(), Some("refold_unreadable"));
}

#[tokio::test(start_paused = true)]
async fn booking_of_a_later_version_is_left_to_the_later_program() {
    let world = World::with_secret(&secret());
    receive(&world, &[created("b1", 0, 5 * HOUR_S)]).await;
    let call_id = call_id(&world, "b1").await.unwrap();
    let key = "entity:x-calcom:b1";
    let current = world.item(CALLS_TABLE, key).await;
    let mut later = current.clone();
    later.insert("schema_version".to_owned(), AttributeValue::N("2".to_owned()));
    later.insert("later".to_owned(), AttributeValue::S("unknown to us".to_owned()));
    world.put_item(CALLS_TABLE, later.clone()).await;

    receive(&world, &[canceled("b1", 10)]).await;
    world.wait(MINUTE * 4).await;
    assert_eq!(world.item(CALLS_TABLE, key).await, later, "the older version must not change the row");
    assert!(world.logged("retried").iter().all(|line| line["cause"] == "newer_schema"));
    assert!(!world.attention(AttentionKind::Retrying).await.is_empty(), "the event must wait");
    assert_eq!(world.dead_letters(), NOTHING);

    // The newer version is deployed again.
    world.put_item(CALLS_TABLE, current).await;
    world.wait(MINUTE * 15).await;
    assert_eq!(world.call(&call_id).await.job, Job::Canceled);
}

#[tokio::test(start_paused = true)]
async fn health_of_a_later_version_is_left_to_the_later_program() {
    let world = World::new();
    create(&world, &call_request("confirms")).await;
    world.wait(MINUTE * 2).await;
    let key = "provider-health:retell";
    let current = world.item(CALLS_TABLE, key).await;
    let mut later = current.clone();
    later.insert("schema_version".to_owned(), AttributeValue::N("2".to_owned()));
    later.insert("later".to_owned(), AttributeValue::S("unknown to us".to_owned()));
    world.put_item(CALLS_TABLE, later.clone()).await;

    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE * 4).await;
    assert_eq!(world.item(CALLS_TABLE, key).await, later, "the older version must not change the row");
    assert_snapshot!(call_state(&world, &call_id).await, @"job PENDING, appointment Pending, attempts []");

    // The newer version is deployed again.
    world.put_item(CALLS_TABLE, current).await;
    world.wait(MINUTE * 15).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
}

/// Its claim ends before the newer version is deployed again, and the reconciler returns the call.
#[tokio::test(start_paused = true)]
async fn claim_of_a_later_version_does_not_block_its_lane() {
    let mut world = World::stopped();
    let call_id = create(&world, &call_request("confirms")).await;
    world.cloud.schedule().await.unwrap().unwrap();
    let claims = world.take_claims();
    assert_eq!(claims.records.len(), 1);
    let claim = &claims.records[0];
    let current = claim.body.clone().unwrap();
    let mut later: Value = serde_json::from_str(&current).unwrap();
    assert_eq!(later["schema_version"], 1);
    later["schema_version"] = json!(2);
    for (body, id) in [(later.to_string(), "later"), (current, "current")] {
        let (group, deduplication_id) = (claim.attributes.get("MessageGroupId").cloned(), Some(id.to_owned()));
        let message = NewMessage { body, group, deduplication_id, ..NewMessage::default() };
        world.cloud.services().sqs().send(DIAL_QUEUE, message).unwrap();
    }
    world.start();
    world.wait(MINUTE).await;
    let failed = world.logged("dial_failed");
    assert_eq!((failed.len(), &failed[0]["cause"]), (1, &json!("newer_schema")));
    let dials: Vec<_> = world.cloud.fake().dials().into_iter().map(|dial| dial.call_id).collect();
    assert_eq!(dials, [call_id]);
}

/// Each run makes the same finding, with the same id.
#[tokio::test(start_paused = true)]
async fn finding_of_a_later_version_ends_its_call_all_the_same() {
    let world = World::stopped();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    consume_all(&world).await;
    world.wait(INACTIVITY_TIMEOUT + MINUTE).await;
    assert_eq!(world.reconciler.run("one").await.unwrap().timeouts, 1);
    let finding = world.queued()[0]["event"]["event_id"].as_str().unwrap().to_owned();
    drop_messages(&world);
    let mut later = world.item(INBOX_TABLE, &finding).await;
    later.insert("schema_version".to_owned(), AttributeValue::N("2".to_owned()));
    world.put_item(INBOX_TABLE, later).await;

    world.wait(MINUTE * 10).await;
    world.reconciler.run("two").await.unwrap();
    consume_all(&world).await;
    assert!(world.call("c1").await.is_settled());
}
