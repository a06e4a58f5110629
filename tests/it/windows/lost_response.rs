//! A request was carried out, but its response was lost.

use http::StatusCode;
use insta::{allow_duplicates, assert_snapshot};
use serde_json::json;
use switchhook_domain::Provider;
use switchhook_local::connector::Fault;
use switchhook_local::{CALLS_TABLE, EVENTS_QUEUE, INBOX_TABLE};
use switchhook_tests::{MINUTE, World, generic};

use super::{NOTHING, call_events};
use crate::outbound::{call_request, send};

#[tokio::test(start_paused = true)]
async fn queued_event_whose_answer_was_lost_is_folded_once() {
    let world = World::new();
    world.inject_fault("SendMessage", EVENTS_QUEUE, u64::MAX, Fault::ResponseLost);
    let body = generic("c1", "e1", "RINGING", 0);
    assert_eq!(world.post(Provider::Generic, &body).await.0, StatusCode::INTERNAL_SERVER_ERROR);
    world.clear_faults();
    assert_eq!(world.post(Provider::Generic, &body).await.1["status"], "already_processed");
    world.quiesce().await;
    assert_eq!(world.call("c1").await.version, 1);
    assert_snapshot!(world.timeline(), @r"
    c1/1 call.initiated
    c1/2 call.ringing
    ");
}

#[tokio::test(start_paused = true)]
async fn stored_event_whose_answer_was_lost_is_accepted_and_folded_once() {
    let world = World::new();
    world.inject_fault("PutItem", INBOX_TABLE, 1, Fault::ResponseLost);
    let (code, answered) = world.post(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    // The SDK repeats the write, and DynamoDB refuses it because the id is taken. Ingress cannot know that its own
    // first write took the id.
    assert_eq!((code, &answered["status"]), (StatusCode::OK, &json!("already_processed")));
    world.quiesce().await;
    assert_eq!(world.call("c1").await.version, 1);
    assert_eq!(
        world.logged("duplicate").len(),
        1,
        "ingress must log the duplicate, and the consumer must get the event once"
    );
}

#[tokio::test(start_paused = true)]
async fn call_whose_record_or_row_was_written_without_an_answer_is_created_and_not_repeated() {
    for table in [INBOX_TABLE, CALLS_TABLE] {
        let world = World::new();
        world.inject_fault("PutItem", table, 1, Fault::ResponseLost);
        let mut request = call_request("confirms");
        request["due_at"] = json!(world.now().plus(MINUTE * 60).to_string());
        let (code, answer) = send(&world, "POST", "/calls", Some("key"), &request).await;
        assert_eq!(code, StatusCode::CREATED, "{table}: {answer}");
        let (code, again) = send(&world, "POST", "/calls", Some("key"), &request).await;
        assert_eq!((code, &again["call_id"]), (StatusCode::OK, &answer["call_id"]), "{table}: {again}");
    }
}

#[tokio::test(start_paused = true)]
async fn write_whose_answer_was_lost_is_found_and_published_once() {
    for lost in [Fault::ResponseLost, Fault::ErrorAfter { status: 500, code: "InternalServerError".to_owned() }] {
        let world = World::new();
        for body in call_events("c1").iter().take(3) {
            world.accept(Provider::Generic, body).await;
            world.quiesce().await;
        }
        let before = world.call("c1").await;

        world.inject_fault("PutItem", CALLS_TABLE, 1, lost.clone());
        drop(world.requests());
        world.accept(Provider::Generic, &call_events("c1")[3]).await;
        world.quiesce().await;

        let call = world.call("c1").await;
        assert_eq!(call.version, before.version + 1, "{lost:?}: the call must be written once");
        let requests = world.requests();
        assert_eq!(
            requests["PutItem"],
            1 + 2,
            "{lost:?}: the event, the write whose response is lost, and its retry by the SDK"
        );
        // The write whose response was lost made the last event.
        allow_duplicates! {
            assert_snapshot!(world.timeline(), @r"
            c1/1 call.initiated
            c1/2 call.ringing
            c1/3 call.in_progress
            c1/4 call.completed
            ");
        }
        assert_eq!(world.logged("retried"), NOTHING, "{lost:?}: the message must not fail");
        assert_eq!((world.queued(), world.dead_letters()), (vec![], vec![]));
    }
}

#[tokio::test(start_paused = true)]
async fn write_whose_every_answer_was_lost_is_found_by_the_redelivery() {
    let world = World::new();
    world.inject_fault("PutItem", CALLS_TABLE, 3, Fault::ResponseLost);
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.wait(MINUTE).await;
    let call = world.call("c1").await;
    assert_eq!((call.version, call.history.len()), (1, 1));
    assert_snapshot!(world.timeline(), @r"
    c1/1 call.initiated
    c1/2 call.ringing
    ");
    assert_eq!((world.queued(), world.dead_letters()), (vec![], vec![]));
}
