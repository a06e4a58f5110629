//! Requests through the proxy in front of the HTTP API, and past it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use switchhook_domain::Provider;
use switchhook_local::{CloudOptions, WEBHOOK_KEYS_SECRET};
use switchhook_providers::{Key, sign};
use switchhook_tests::{KEY, PUBLIC_URL, World, generic, options, sample};

use super::{OK, answer, with_header, with_uri};

const EDGE_KEY: &str = "0123456789abcdef0123456789abcdef";
const NEXT_EDGE_KEY: &str = "next-6789abcdef0123456789abcdef-";
const EDGE_KEY_HEADER: &str = "x-switchhook-edge-key";
const VIEWER_ADDRESS: &str = "x-switchhook-viewer-address";

fn keys_with_edge(allowed: Option<&str>) -> Value {
    let mut keys = json!({"edge": {"keys": [NEXT_EDGE_KEY, EDGE_KEY]}, "generic": {"keys": [KEY]}});
    if let Some(allowed) = allowed {
        keys["generic"]["allowed_sources"] = json!([allowed]);
    }
    keys
}

/// A genuine webhook of the generic provider.
fn webhook(world: &World, event_id: &str) -> Request<Bytes> {
    world.signed(Provider::Generic, KEY, "", generic("c1", event_id, "ANSWERED", 0).as_bytes(), world.now())
}

fn bypassed() -> (StatusCode, Value) {
    let message = "webhooks are accepted only through the proxy in front of this stack; check the URL";
    (StatusCode::FORBIDDEN, json!({"error": "edge_bypassed", "message": message}))
}

fn forbidden_source() -> (StatusCode, Value) {
    let message = "the source address is not on the provider's allow-list";
    (StatusCode::FORBIDDEN, json!({"error": "forbidden", "message": message}))
}

#[tokio::test(start_paused = true)]
async fn without_an_edge_key_no_header_about_the_address_is_trusted() {
    let world = World::with_secret(&json!({"generic": {"keys": [KEY], "allowed_sources": ["10.0.0.0/8"]}}));
    // The local gateway reports 127.0.0.1 as the source.
    for name in [VIEWER_ADDRESS, "cloudfront-viewer-address", "x-forwarded-for", "forwarded", "x-real-ip"] {
        let request = with_header(webhook(&world, "e1"), EDGE_KEY_HEADER, EDGE_KEY);
        let address = if name == "forwarded" { "for=10.1.2.3" } else { "10.1.2.3" };
        assert_eq!(world.send(with_header(request, name, address)).await, forbidden_source(), "{name}");
    }
    let world = World::with_secret(&json!({"generic": {"keys": [KEY], "allowed_sources": ["127.0.0.1"]}}));
    let request = with_header(webhook(&world, "e1"), VIEWER_ADDRESS, "10.1.2.3");
    assert_eq!(world.send(request).await, answer("accepted", "generic:e1"));
}

#[tokio::test(start_paused = true)]
async fn with_an_edge_key_a_genuine_webhook_without_it_is_refused_and_costs_nothing() {
    let world = World::with_secret(&keys_with_edge(None));
    let wrong = EDGE_KEY.to_uppercase();
    let both = format!("{NEXT_EDGE_KEY},{EDGE_KEY}");
    for key in [None, Some(""), Some("wrong"), Some(wrong.as_str()), Some(both.as_str())] {
        let mut request = with_header(webhook(&world, "e1"), VIEWER_ADDRESS, "198.51.100.7");
        if let Some(key) = key {
            request = with_header(request, EDGE_KEY_HEADER, key);
        }
        // Also at an address that no provider has, so that nobody learns which providers are configured.
        for path in ["/webhooks/generic", "/webhooks/generic/inbound", "/webhooks/retell", "/webhooks/unknown"] {
            assert_eq!(world.send(with_uri(request.clone(), path)).await, bypassed(), "{key:?} {path}");
        }
    }
    assert_eq!(world.requests(), BTreeMap::new(), "no request may reach AWS");
    let lines = world.logged("rejected");
    assert_eq!(lines.len(), 20);
    assert!(lines.iter().all(|line| line["cause"] == "edge_bypassed"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn both_edge_keys_are_accepted_during_a_rotation_and_neither_is_logged() {
    let world = World::with_secret(&keys_with_edge(None));
    for (key, event_id) in [(EDGE_KEY, "e1"), (NEXT_EDGE_KEY, "e2")] {
        let request = with_header(webhook(&world, event_id), EDGE_KEY_HEADER, key);
        assert_eq!(world.send(request).await, answer("accepted", &format!("generic:{event_id}")));
    }
    let forged = world.signed(Provider::Generic, "other", "", b"{}", world.now());
    let (code, _) = world.send(with_header(forged, EDGE_KEY_HEADER, EDGE_KEY)).await;
    assert_eq!(code, StatusCode::UNAUTHORIZED, "the edge key replaces no signature");
    world.quiesce().await;
    let log = world.log_text();
    assert!(log.contains("accepted") && !log.contains(EDGE_KEY) && !log.contains(NEXT_EDGE_KEY));
}

#[tokio::test(start_paused = true)]
async fn allow_list_sees_the_address_that_the_edge_reports() {
    for (allowed, address, is_allowed) in [
        ("198.51.100.0/24", Some("198.51.100.7"), true),
        ("198.51.100.0/24", Some("192.0.2.7"), false),
        ("2001:db8::/32", Some("2001:db8::7"), true),
        ("198.51.100.0/24", Some("::ffff:198.51.100.7"), true),
        // The address of the edge itself says nothing about the sender.
        ("127.0.0.1", Some("198.51.100.7"), false),
        ("127.0.0.1", None, false),
        ("198.51.100.0/24", Some("198.51.100.7, 192.0.2.7"), false),
        ("198.51.100.0/24", Some("198.51.100.7:443"), false),
    ] {
        let world = World::with_secret(&keys_with_edge(Some(allowed)));
        let mut request = with_header(webhook(&world, "e1"), EDGE_KEY_HEADER, EDGE_KEY);
        if let Some(address) = address {
            request = with_header(request, VIEWER_ADDRESS, address);
        }
        let expected = if is_allowed { answer("accepted", "generic:e1") } else { forbidden_source() };
        assert_eq!(world.send(request).await, expected, "{allowed} {address:?}");
    }
}

/// Twilio signs the URL that it called, which is the URL of the edge. The stack never sees it.
#[tokio::test(start_paused = true)]
async fn twilio_signs_the_url_of_the_edge() {
    let twilio = json!({"keys": [KEY], "public_url": PUBLIC_URL});
    let world = World::with_secret(&json!({"edge": {"keys": [EDGE_KEY]}, "twilio": twilio}));
    let key = Key::new(KEY).unwrap();
    let body = sample("twilio/completed").as_bytes();
    let post = |called: &str| {
        let url = format!("{called}/webhooks/twilio?appointment_id=apt_1");
        let signed = sign(Provider::Twilio, &key, &url, body, world.now());
        let path = signed.url.strip_prefix(called).unwrap();
        // The edge replaces the host by the one of the API.
        let mut request =
            Request::post(path).header("host", "switchhook.example.com").header(EDGE_KEY_HEADER, EDGE_KEY);
        for (name, value) in &signed.headers {
            request = request.header(*name, value);
        }
        request.header("content-type", signed.content_type).body(Bytes::from_static(body)).unwrap()
    };
    let (code, answered) = world.send(post(PUBLIC_URL)).await;
    assert_eq!((code, &answered["status"]), (OK, &json!("accepted")), "{answered}");
    let (code, _) = world.send(post("https://switchhook.example.com")).await;
    assert_eq!(code, StatusCode::UNAUTHORIZED);
}

/// A running stack that reads this text as the webhook keys.
fn reading(texts: &[&str]) -> World {
    let mut world = World::with_options(CloudOptions { reads_secrets: true, ..options(&keys_with_edge(None)) });
    world.start();
    for text in texts {
        put(&world, text);
    }
    world
}

fn put(world: &World, text: &str) {
    world.cloud.services().secrets_manager().put(WEBHOOK_KEYS_SECRET, text);
}

fn through_the_edge(world: &World, event_id: &str) -> Request<Bytes> {
    with_header(webhook(world, event_id), EDGE_KEY_HEADER, EDGE_KEY)
}

fn broken_edge() -> String {
    json!({"edge": {"keys": ["short"]}, "generic": {"keys": [KEY]}}).to_string()
}

#[tokio::test(start_paused = true)]
async fn running_function_keeps_the_edge_keys_that_a_typo_breaks() {
    let world = reading(&[]);
    assert_eq!(world.send(through_the_edge(&world, "e1")).await, answer("accepted", "generic:e1"));
    for text in [broken_edge().as_str(), "{"] {
        put(&world, text);
        world.wait(Duration::from_secs(301)).await;
        assert_eq!(
            world.send(through_the_edge(&world, "e1")).await,
            answer("already_processed", "generic:e1"),
            "{text}"
        );
        assert_eq!(world.send(webhook(&world, "e2")).await, bypassed(), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn broken_entry_of_the_edge_refuses_for_now_and_never_opens_the_stack() {
    // A function that starts knows no older entry, because both versions are broken.
    let world = reading(&[&broken_edge(), &broken_edge()]);
    for request in [through_the_edge(&world, "e1"), webhook(&world, "e1")] {
        let (code, answered) = world.send(request).await;
        assert_eq!((code, &answered["error"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("edge_disabled")));
    }
    assert_eq!(world.logged("edge_disabled").len(), 2);
    put(&world, &keys_with_edge(None).to_string());
    world.wait(Duration::from_secs(31)).await;
    assert_eq!(world.send(through_the_edge(&world, "e1")).await, answer("accepted", "generic:e1"));
    assert_eq!(world.send(webhook(&world, "e2")).await, bypassed());
}
