//! `GET /event/status?id={event_id}` shows where an event is, also after failures.

use std::time::Duration;

use http::StatusCode;
use insta::assert_snapshot;
use serde_json::json;
use switchhook_aws::calls::Calls;
use switchhook_aws::inbox::NewEvent;
use switchhook_domain::{Policy, Provider, ProviderSet, Timestamp};
use switchhook_local::{CALLS_TABLE, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE};
use switchhook_tests::{INACTIVITY_TIMEOUT, MINUTE, World, down, generic};

use super::status;

#[tokio::test(start_paused = true)]
async fn status_of_an_event_tells_where_it_is() {
    let mut world = World::stopped();
    let id = world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    let received_at = world.now();
    let queued = json!({
        "event_id": "generic:e1", "call_id": "c1", "provider": "generic", "type": "RINGING", "status": "queued",
        "disposition": null, "received_at": received_at.to_string(), "processed_at": null, "duration_ms": null,
        "attempts": 0, "error": null, "next_retry_at": null, "action": [],
    });
    assert_eq!(world.status(&id).await, queued);

    world.inject_fault("PutItem", CALLS_TABLE, 2, down());
    for attempts in 1..=2 {
        let received = world.receive();
        assert_eq!(world.consume(&received).await, 0);
        let retrying = world.status(&id).await;
        let next = Timestamp::parse_rfc3339(retrying["next_retry_at"].as_str().unwrap()).unwrap();
        let pause = Duration::from_millis(u64::try_from(next.millis_since(world.now())).unwrap());
        assert!(pause <= Duration::from_secs(4), "{pause:?}");
        let mut expected = queued.clone();
        expected["status"] = json!("retrying");
        expected["attempts"] = json!(attempts);
        expected["error"] = json!("could not write the call");
        expected["next_retry_at"] = retrying["next_retry_at"].clone();
        assert_eq!(retrying, expected);
        assert_eq!(world.receive(), [], "the message must not be visible before its time");
        world.wait(pause).await;
    }

    world.start();
    world.quiesce().await;
    let status = world.status(&id).await;
    let processed_at = Timestamp::parse_rfc3339(status["processed_at"].as_str().unwrap()).unwrap();
    let processed = json!({
        "event_id": "generic:e1", "call_id": "c1", "provider": "generic", "type": "RINGING", "status": "processed",
        "disposition": "applied", "received_at": received_at.to_string(), "processed_at": processed_at.to_string(),
        "duration_ms": processed_at.millis_since(received_at), "attempts": 3, "error": "could not write the call",
        "next_retry_at": null, "action": ["call.initiated", "call.ringing"],
    });
    assert_eq!(status, processed);
}

#[tokio::test(start_paused = true)]
async fn status_of_a_dead_letter_says_so_until_it_is_redriven() {
    let mut world = World::new();
    world.inject_fault("PutItem", CALLS_TABLE, u64::MAX, down());
    let id = world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.wait_for_dead_letters(1).await;
    assert_eq!(world.dead_letters().len(), 1);
    assert_snapshot!(status(&world, &id, &["status", "disposition", "error", "next_retry_at"]).await, @r"
    status: dead_lettered
    disposition: null
    error: could not write the call
    next_retry_at: null
    ");
    let attempts = world.status(&id).await["attempts"].as_u64().unwrap();
    assert_eq!(attempts, world.logged("retried").len() as u64);
    world.clear_faults();
    assert_eq!(world.cloud.services().sqs().redrive(EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE).unwrap(), 1);
    world.quiesce().await;
    assert_snapshot!(status(&world, &id, &["status", "disposition"]).await, @r"
    status: processed
    disposition: applied
    ");
    assert_eq!(world.status(&id).await["attempts"], attempts + 1);
}

#[tokio::test(start_paused = true)]
async fn unknown_event_and_unknown_call_are_not_found() {
    let world = World::new();
    for path in ["/event/status?id=generic:none", "/call?id=none", "/call/events?id=none", "/calls/", "/event/status/"]
    {
        assert_eq!(world.get(path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn status_of_what_the_reconciler_learned_can_be_asked_for() {
    let world = World::new();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 2).await;
    let call = world.call("c1").await;
    let deadline = call.history.last().unwrap();
    let fields = ["provider", "type", "status", "disposition", "action"];
    assert_snapshot!(status(&world, &deadline.source_event_id, &fields).await, @r#"
    provider: switchhook
    type: deadline_passed
    status: processed
    disposition: applied
    action: ["call.inconclusive","call.outcome"]
    "#);
    // A deadline can be stored like any other event. So if it were not queued, the sweep would find it.
    let policy = Policy { inactivity_timeout: INACTIVITY_TIMEOUT, outcome_providers: ProviderSet::ALL };
    assert!(call.deadline_passed_events(&policy, world.now()).is_empty(), "the deadline must be found once");
    let event = deadline_event(&world.calls, "c1").await;
    assert!(NewEvent::from_switchhook(&event, "t").is_ok());
}

/// Derives the deadline event of a call a second time, from the call without that event.
async fn deadline_event(calls: &Calls, call_id: &str) -> switchhook_domain::ProviderEvent {
    let mut call = calls.get_call(&switchhook_domain::CallId::new(call_id)).await.unwrap().unwrap();
    call.history.pop();
    let policy = Policy { inactivity_timeout: Duration::ZERO, outcome_providers: ProviderSet::ALL };
    call.deadline_passed_events(&policy, Timestamp::MAX).remove(0)
}
