//! Unusual paths: encoded, empty, unknown, too long.

use http::StatusCode;
use serde_json::json;
use switchhook_domain::Provider;
use switchhook_tests::{KEY, World};

use super::OK;

#[tokio::test(start_paused = true)]
async fn odd_paths_are_answered_and_cost_no_invocation() {
    let world = World::new();
    for id in ["a/b", "a b", "ä", "a%2Fb", "100%", "a\u{0}b", "a#b", "a\"<>\\^`{|}b"] {
        let event = json!({"event_id": id, "call_id": id, "type": "RINGING"});
        world.accept(Provider::Generic, &event.to_string()).await;
    }
    world.quiesce().await;
    for id in ["a/b", "a%2Fb", "a%20b", "%C3%A4", "a%252Fb", "100%25", "100%", "a%23b", "a%22%3C%3E%5C%5E%60%7B%7C%7Db"]
    {
        for path in [format!("/calls/{id}"), format!("/calls/{id}/events"), format!("/events/generic:{id}/status")] {
            assert_eq!(world.get(&path).await.0, OK, "{path}");
        }
    }
    // The API looks for an id as the gateway passes it on. If there is none, the API decodes the id once more.
    assert_eq!(world.get("/calls/a%252Fb").await.1["call_id"], "a%2Fb");
    assert_eq!(world.get("/calls/a%2Fb").await.1["call_id"], "a/b");

    let long = "x".repeat(5_000);
    for path in [
        "/calls/",
        "/calls/%00",
        "/calls/%FF",
        "/calls/a%20c",
        "/calls/a%3Fb",
        "/calls/%",
        "/calls/%zz",
        "/calls//",
        "/calls/../calls/a/b",
        "/events//status",
        "/events/%20/status",
        "/events/%C3%A4/status",
        "/events/%2F/status",
        "/events/sweep:cursor/status",
        "/events/note:generic:a/status",
        "/events/chunk:0:a:b/status",
        "/elsewhere",
        "/webhooks/retell",
        &format!("/calls/{long}"),
        &format!("/events/{long}/status"),
    ] {
        let (code, answered) = world.get(path).await;
        assert_eq!(code, StatusCode::NOT_FOUND, "{path}: {answered}");
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
