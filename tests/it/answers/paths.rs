//! Unusual paths and ids: encoded, empty, unknown, too long.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use switchhook_domain::Provider;
use switchhook_tests::{KEY, World};

use super::OK;

#[tokio::test(start_paused = true)]
async fn odd_paths_find_the_item_or_get_a_client_error() {
    let world = World::new();
    for id in ["a/b", "a b", "ä", "a%2Fb", "100%", "a\u{0}b", "a#b", "a\"<>\\^`{|}b"] {
        let event = json!({"event_id": id, "call_id": id, "type": "RINGING"});
        world.accept(Provider::Generic, &event.to_string()).await;
    }
    world.quiesce().await;
    for id in [
        "a/b",
        "a%2Fb",
        "a%20b",
        "a+b",
        "%C3%A4",
        "a%252Fb",
        "100%25",
        "100%",
        "a%23b",
        "a%22%3C%3E%5C%5E%60%7B%7C%7Db",
    ] {
        for path in
            [format!("/call?id={id}"), format!("/call/events?id={id}"), format!("/event/status?id=generic:{id}")]
        {
            assert_eq!(world.get(&path).await.0, OK, "{path}");
        }
    }
    assert_eq!(world.get("/call?id=a%252Fb").await.1["call_id"], "a%2Fb");
    assert_eq!(world.get("/call?id=a%2Fb").await.1["call_id"], "a/b");

    let long = "x".repeat(5_000);
    for path in [
        "/call?id=%00",
        "/call?id=%FF",
        "/call?id=a%20c",
        "/call?id=a%3Fb",
        "/call?id=%",
        "/call?id=%zz",
        "/call?id=/",
        "/call/?id=a%2Fb",
        "/call/../call?id=a%2Fb",
        "/calls/a",
        "/calls/a%2Fb/events",
        "/event/status?id=%20",
        "/event/status?id=%C3%A4",
        "/event/status?id=/",
        "/event/status?id=sweep:cursor",
        "/event/status?id=note:generic:a",
        "/event/status?id=chunk:0:a:b",
        "/event/status?id=unfolded:a",
        "/elsewhere",
        "/webhooks/retell",
        &format!("/call?id={long}"),
        &format!("/event/status?id={long}"),
    ] {
        let (code, answered) = world.get(path).await;
        assert_eq!(code, StatusCode::NOT_FOUND, "{path}: {answered}");
    }
    for path in
        ["/call", "/call?", "/call?id=", "/call?id=a&id=b", "/call?id=a&x=b", "/event/status", "/appointment?call=1"]
    {
        let (code, answered) = world.get(path).await;
        assert_eq!(
            (code, &answered["type"]),
            (StatusCode::BAD_REQUEST, &json!("urn:switchhook:problem:invalid_request")),
            "{path}"
        );
    }
    for path in ["/webhooks/%00", "/webhooks/a%20b", "/webhooks/%2Fretell", "/webhooks/retell%3Fa", "/webhooks/%C3%A4"]
    {
        let mut request = world.signed(Provider::Retell, KEY, "", b"{}", world.now());
        *request.uri_mut() = path.parse().unwrap();
        let (code, answered) = world.send(request).await;
        // The gateway cuts a path at a decoded question mark, so `retell%3Fa` reaches the provider `retell`.
        assert!(code == StatusCode::NOT_FOUND || path.contains("%3F"), "{path}: {code} {answered}");
        assert!(!code.is_server_error(), "{path}");
    }
}

/// Each of our own events has slashes in its id. In a path, an HTTP API would take each as the end of the id.
#[tokio::test(start_paused = true)]
async fn status_of_our_own_events_can_be_asked_for() {
    let world = World::new();
    let event = json!({"event_id": "e1", "call_id": "c/1", "type": "RINGING"});
    world.accept(Provider::Generic, &event.to_string()).await;
    world.wait(Duration::from_secs(2 * 60 * 60)).await;
    let (code, timeline) = world.get("/call/events?id=c%2F1").await;
    assert_eq!(code, OK, "{timeline}");
    let ids: Vec<&str> =
        timeline["events"].as_array().unwrap().iter().filter_map(|event| event["event_id"].as_str()).collect();
    let own: Vec<&str> = ids.into_iter().filter(|id| id.starts_with("switchhook:")).collect();
    assert!(own.iter().any(|id| id.contains('/')), "{timeline}");
    for id in own {
        // A person who copies an id from a timeline may not percent-encode its slashes.
        for id in [id.to_owned(), id.replace('/', "%2F")] {
            let (code, status) = world.get(&format!("/event/status?id={id}")).await;
            assert_eq!((code, &status["status"]), (OK, &json!("processed")), "{id}");
        }
    }
}
