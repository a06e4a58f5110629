//! Trace ids: they lead from a request to everything that it caused, in the log and in the domain events.

#![expect(clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use http::StatusCode;
use serde_json::{Value, json};
use switchhook_domain::Provider;
use switchhook_tests::{INACTIVITY_TIMEOUT, MINUTE, World, generic, text};

use crate::outbound::{create, send};

/// Trace id of the only line with this action.
fn trace_id_of(world: &World, action_taken: &str) -> String {
    let lines = world.logged(action_taken);
    assert_eq!(lines.len(), 1, "{action_taken}: {lines:?}");
    text(&lines[0]["trace_id"])
}

#[tokio::test(start_paused = true)]
async fn trace_id_of_a_webhook_is_in_each_line_and_in_each_domain_event_that_it_caused() {
    let world = World::new();
    let body = generic("c1", "e1", "RINGING", 0);
    world.post(Provider::Generic, &body).await;
    world.quiesce().await;
    let trace_id = trace_id_of(&world, "accepted");
    // A delivery that brings nothing new has a trace id of its own, and changes none.
    world.post(Provider::Generic, &body).await;
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 2).await;
    assert!(!trace_id.is_empty() && trace_id.len() <= 64, "{trace_id}");
    let ingress = world.logged("accepted").remove(0);
    assert_eq!(json!([ingress["call_id"], ingress["event_type"]]), json!(["c1", "RINGING"]));
    assert_eq!(text(&world.logged("applied")[0]["trace_id"]), trace_id);
    let events = world.domain_events();
    let (of_webhook, of_timeout): (Vec<&Value>, Vec<&Value>) =
        events.iter().partition(|event| event["source_event_id"] == "generic:e1");
    assert!(
        !of_webhook.is_empty() && of_webhook.iter().all(|event| event["trace_id"] == trace_id.as_str()),
        "{events:?}"
    );
    assert_eq!(world.logged("relayed")[0]["trace_ids"], json!([trace_id]));
    // The run of the reconciler that found the timeout is a request too.
    let run = world.logged("reconciled").into_iter().find(|line| line["timeouts"] == 1).unwrap();
    assert!(
        !of_timeout.is_empty() && of_timeout.iter().all(|event| event["trace_id"] == run["trace_id"]),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn trace_id_of_the_request_that_created_a_call_is_in_domain_events_without_a_source() {
    let world = World::new();
    let request = json!({
        "provider": "retell", "from": "+15550107001", "to": "+15550107002", "due_at": "2026-01-02T00:00:00Z",
    });
    let call_id = create(&world, &request).await;
    let (code, _) = send(&world, "POST", &format!("/call/cancel?id={call_id}"), None, &Value::Null).await;
    assert_eq!(code, StatusCode::OK);
    world.quiesce().await;
    let events = world.domain_events();
    assert_eq!(json!([events[0]["type"], events[0]["source_event_id"]]), json!(["call.canceled", null]));
    assert_eq!(text(&events[0]["trace_id"]), trace_id_of(&world, "created"));
}

#[tokio::test(start_paused = true)]
async fn event_that_only_came_too_early_is_unparked() {
    let world = World::new();
    for (id, event_type, second) in [("e1", "RINGING", 0), ("e3", "ENDED", 9), ("e2", "ANSWERED", 5)] {
        world.post(Provider::Generic, &generic("c1", id, event_type, second)).await;
        world.quiesce().await;
    }
    assert_eq!(world.logged("parked").len(), 1);
    // Each event is a batch of its own here, so its line comes just before the line with the metrics of its batch.
    let log = world.log_text();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_consumer: Vec<&Value> = lines.iter().filter(|line| line["function"] == "consumer").collect();
    let unparked = of_consumer.windows(2).filter(|two| two[1]["unparked"] == 1);
    assert_eq!(unparked.map(|two| text(&two[0]["event_id"])).collect::<Vec<_>>(), ["generic:e2"]);
}
