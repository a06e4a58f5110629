//! Requests that are not authentic, or that come from a forbidden address.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Request, StatusCode};
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_domain::{EventId, Provider};
use switchhook_local::INBOX_TABLE;
use switchhook_operate::events::show;
use switchhook_tests::{KEY, OLD_KEY, World, generic, sample};

use super::{OK, answer, id_of, with_body, with_header, with_uri};
use crate::repair::stack_of;

pub(super) fn invalid_signature() -> (StatusCode, Value) {
    let message = "the signature does not match a key of this provider, or the timestamp is outside the allowed window";
    (StatusCode::UNAUTHORIZED, json!({"error": "invalid_signature", "message": message}))
}

fn unknown_provider() -> (StatusCode, Value) {
    let message = "no provider with this name is configured; check the URL, or add the provider to the stack's secret";
    (StatusCode::NOT_FOUND, json!({"error": "unknown_provider", "message": message}))
}

/// Makes a request invalid.
type Tamper = fn(&World, Request<Bytes>) -> Request<Bytes>;

fn without_header(mut request: Request<Bytes>, name: &'static str) -> Request<Bytes> {
    request.headers_mut().remove(name).unwrap();
    request
}

fn header(request: &Request<Bytes>, name: &str) -> String {
    request.headers()[name].to_str().unwrap().to_owned()
}

/// The same request, signed with a timestamp `seconds` away from now.
fn signed_at(world: &World, request: &Request<Bytes>, provider: Provider, seconds: i64) -> Request<Bytes> {
    let at = switchhook_domain::Timestamp::from_millis(world.now().as_millis() + seconds * 1_000);
    world.signed(provider, KEY, "", request.body(), at)
}

/// Header with a token of the algorithm `none`: `{"alg":"none"}` and `{}`.
const UNSIGNED_TOKEN: &str = "Bearer eyJhbGciOiJub25lIn0.e30.";

#[tokio::test(start_paused = true)]
async fn request_that_is_not_authentic_is_refused_alike_whatever_was_wrong_and_costs_nothing() {
    let cases: [(Provider, &str, Tamper, &str); 68] = [
        (Provider::Retell, "missing", |_, r| without_header(r, "x-retell-signature"), "bad_signature"),
        (Provider::Retell, "empty", |_, r| with_header(r, "x-retell-signature", ""), "bad_signature"),
        (Provider::Retell, "garbage", |_, r| with_header(r, "x-retell-signature", "garbage"), "bad_signature"),
        (
            Provider::Retell,
            "digest cut short",
            |_, r| {
                let mut value = header(&r, "x-retell-signature");
                value.pop();
                with_header(r, "x-retell-signature", &value)
            },
            "bad_signature",
        ),
        (
            Provider::Retell,
            "other time",
            |w, r| {
                let value = header(&r, "x-retell-signature");
                let (_, digest) = value.split_once(",d=").unwrap();
                with_header(r, "x-retell-signature", &format!("v={},d={digest}", w.now().as_millis() + 1))
            },
            "bad_signature",
        ),
        (
            Provider::Retell,
            "other key",
            |w, r| w.signed(Provider::Retell, "other", "", r.body(), w.now()),
            "bad_signature",
        ),
        (Provider::Retell, "flipped bit", |_, r| flipped(r), "bad_signature"),
        (Provider::Retell, "no body", |_, r| with_body(r, b""), "bad_signature"),
        (Provider::Retell, "old", |w, r| signed_at(w, &r, Provider::Retell, -301), "stale_timestamp"),
        (Provider::Retell, "of the future", |w, r| signed_at(w, &r, Provider::Retell, 301), "stale_timestamp"),
        (Provider::Twilio, "missing", |_, r| without_header(r, "x-twilio-signature"), "bad_signature"),
        (Provider::Twilio, "garbage", |_, r| with_header(r, "x-twilio-signature", "garbage!"), "bad_signature"),
        (
            Provider::Twilio,
            "other key",
            |w, r| w.signed(Provider::Twilio, OLD_KEY, "", r.body(), w.now()),
            "bad_signature",
        ),
        (Provider::Twilio, "flipped bit", |_, r| flipped(r), "bad_signature"),
        (Provider::Twilio, "no body", |_, r| with_body(r, b""), "bad_signature"),
        (Provider::Twilio, "other query", |_, r| with_uri(r, "/webhooks/twilio?appointment_id=8"), "bad_signature"),
        (Provider::ElevenLabs, "missing signature", |_, r| without_header(r, "elevenlabs-signature"), "bad_signature"),
        (Provider::ElevenLabs, "garbage", |_, r| with_header(r, "elevenlabs-signature", "t=1,v0=00"), "bad_signature"),
        (Provider::ElevenLabs, "flipped bit", |_, r| flipped(r), "bad_signature"),
        (Provider::ElevenLabs, "old", |w, r| signed_at(w, &r, Provider::ElevenLabs, -2701), "stale_timestamp"),
        (Provider::ElevenLabs, "of the future", |w, r| signed_at(w, &r, Provider::ElevenLabs, 2701), "stale_timestamp"),
        (Provider::Plivo, "missing", |_, r| without_header(r, "x-plivo-signature-v3"), "bad_signature"),
        (Provider::Plivo, "missing nonce", |_, r| without_header(r, "x-plivo-signature-v3-nonce"), "bad_signature"),
        (Provider::Plivo, "garbage", |_, r| with_header(r, "x-plivo-signature-v3", "garbage!"), "bad_signature"),
        (Provider::Plivo, "other nonce", |_, r| with_header(r, "x-plivo-signature-v3-nonce", "1"), "bad_signature"),
        (Provider::Plivo, "flipped bit", |_, r| flipped(r), "bad_signature"),
        (Provider::Plivo, "other query", |_, r| with_uri(r, "/webhooks/plivo?appointment_id=8"), "bad_signature"),
        (Provider::Vonage, "missing", |_, r| without_header(r, "authorization"), "bad_signature"),
        (Provider::Vonage, "garbage", |_, r| with_header(r, "authorization", "Bearer garbage"), "bad_signature"),
        (Provider::Vonage, "no scheme", |_, r| with_header(r, "authorization", "garbage"), "bad_signature"),
        (Provider::Vonage, "no algorithm", |_, r| with_header(r, "authorization", UNSIGNED_TOKEN), "bad_signature"),
        (Provider::Vonage, "flipped bit", |_, r| flipped(r), "bad_signature"),
        (Provider::Vonage, "old", |w, r| signed_at(w, &r, Provider::Vonage, -301), "stale_timestamp"),
        (Provider::Vonage, "of the future", |w, r| signed_at(w, &r, Provider::Vonage, 301), "stale_timestamp"),
        (Provider::LiveKit, "missing", |_, r| without_header(r, "authorization"), "bad_signature"),
        (Provider::LiveKit, "garbage", |_, r| with_header(r, "authorization", "garbage"), "bad_signature"),
        (Provider::LiveKit, "with a scheme", |_, r| with_header(r, "authorization", UNSIGNED_TOKEN), "bad_signature"),
        (Provider::LiveKit, "flipped bit", |_, r| flipped(r), "bad_signature"),
        (Provider::LiveKit, "old", |w, r| signed_at(w, &r, Provider::LiveKit, -601), "stale_timestamp"),
        (Provider::LiveKit, "of the future", |w, r| signed_at(w, &r, Provider::LiveKit, 301), "stale_timestamp"),
        (Provider::Daily, "missing signature", |_, r| without_header(r, "x-webhook-signature"), "bad_signature"),
        (Provider::Daily, "missing time", |_, r| without_header(r, "x-webhook-timestamp"), "bad_signature"),
        (Provider::Daily, "garbage", |_, r| with_header(r, "x-webhook-signature", "garbage!"), "bad_signature"),
        (Provider::Daily, "garbled time", |_, r| with_header(r, "x-webhook-timestamp", "now"), "bad_signature"),
        (Provider::Daily, "other time", |_, r| with_header(r, "x-webhook-timestamp", "1767225601"), "bad_signature"),
        (Provider::Daily, "flipped bit", |_, r| flipped(r), "bad_signature"),
        (Provider::Daily, "old", |w, r| signed_at(w, &r, Provider::Daily, -4801), "stale_timestamp"),
        (Provider::Daily, "of the future", |w, r| signed_at(w, &r, Provider::Daily, 4801), "stale_timestamp"),
        (Provider::Bland, "missing", |_, r| without_header(r, "x-webhook-signature"), "bad_signature"),
        (Provider::Bland, "garbage", |_, r| with_header(r, "x-webhook-signature", "garbage"), "bad_signature"),
        (
            Provider::Bland,
            "other key",
            |w, r| w.signed(Provider::Bland, OLD_KEY, "", r.body(), w.now()),
            "bad_signature",
        ),
        (Provider::Bland, "flipped bit", |_, r| flipped(r), "bad_signature"),
        (Provider::Bland, "no body", |_, r| with_body(r, b""), "bad_signature"),
        (Provider::SignalWire, "missing", |_, r| without_header(r, "x-signalwire-signature"), "bad_signature"),
        (Provider::SignalWire, "garbage", |_, r| with_header(r, "x-signalwire-signature", "garbage!"), "bad_signature"),
        (
            Provider::SignalWire,
            "as JSON",
            |_, r| with_header(r, "x-signalwire-signature", &"00".repeat(20)),
            "bad_signature",
        ),
        (Provider::SignalWire, "flipped bit", |_, r| flipped(r), "bad_signature"),
        (
            Provider::SignalWire,
            "other query",
            |_, r| with_uri(r, "/webhooks/signalwire?appointment_id=8"),
            "bad_signature",
        ),
        (Provider::Generic, "missing signature", |_, r| without_header(r, "x-webhook-signature"), "bad_signature"),
        (Provider::Generic, "missing time", |_, r| without_header(r, "x-webhook-timestamp"), "bad_signature"),
        (Provider::Generic, "garbage", |_, r| with_header(r, "x-webhook-signature", "sha256=00"), "bad_signature"),
        (Provider::Generic, "garbled time", |_, r| with_header(r, "x-webhook-timestamp", "now"), "bad_signature"),
        (Provider::Generic, "other time", |_, r| with_header(r, "x-webhook-timestamp", "1767225601"), "bad_signature"),
        (
            Provider::Generic,
            "other key",
            |w, r| w.signed(Provider::Generic, OLD_KEY, "", r.body(), w.now()),
            "bad_signature",
        ),
        (Provider::Generic, "flipped bit", |_, r| flipped(r), "bad_signature"),
        (Provider::Generic, "no body", |_, r| with_body(r, b""), "bad_signature"),
        (Provider::Generic, "old", |w, r| signed_at(w, &r, Provider::Generic, -301), "stale_timestamp"),
        (Provider::Generic, "of the future", |w, r| signed_at(w, &r, Provider::Generic, 301), "stale_timestamp"),
    ];
    let world = World::stopped();
    let count = cases.len();
    for (provider, what, tamper, cause) in cases {
        let body = match provider {
            Provider::Retell => sample("retell/call_ended"),
            Provider::Vapi => sample("vapi/end_of_call_report"),
            Provider::Telnyx => sample("telnyx/hangup"),
            Provider::ElevenLabs => sample("elevenlabs/post_call_transcription"),
            Provider::Twilio => sample("twilio/completed"),
            Provider::Plivo => sample("plivo/hangup"),
            Provider::Vonage => sample("vonage/completed"),
            Provider::LiveKit => sample("livekit/participant_left"),
            Provider::Daily => sample("daily/dialout_stopped"),
            Provider::Bland => sample("bland/post_call"),
            Provider::SignalWire => sample("signalwire/completed"),
            Provider::Generic | Provider::Named(_) => sample("generic/user_confirmed"),
        };
        let request = world.signed(provider, KEY, "", body.as_bytes(), world.now());
        let tampered = tamper(&world, request);
        assert_eq!(world.send(tampered).await, invalid_signature(), "{provider}, {what}");
        let lines = world.logged("rejected");
        let line = lines.last().unwrap();
        assert_eq!(
            json!([line["provider"], line["cause"], line["rejected"]]),
            json!([provider, cause, 1]),
            "{provider}, {what}: {line}"
        );
    }
    assert_eq!(world.requests(), BTreeMap::new(), "no request may reach AWS");
    assert_eq!(world.logged("rejected").len(), count);
}

/// The same request with one bit of its body flipped.
fn flipped(request: Request<Bytes>) -> Request<Bytes> {
    let mut body = request.body().to_vec();
    let middle = body.len() / 2;
    body[middle] ^= 1;
    with_body(request, &body)
}

#[tokio::test(start_paused = true)]
async fn signature_is_good_for_exactly_its_window() {
    for provider in [Provider::Retell, Provider::Generic] {
        for seconds in [-300, 300] {
            let world = World::new();
            let body = generic("c1", "e1", "ANSWERED", 0);
            let body = if provider == Provider::Generic { body.as_str() } else { sample("retell/call_started") };
            let request = world.signed(provider, KEY, "", body.as_bytes(), world.now());
            let (code, answered) = world.send(signed_at(&world, &request, provider, seconds)).await;
            assert_eq!((code, &answered["status"]), (OK, &json!("accepted")), "{provider} {seconds}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn second_key_is_good_too_and_its_number_is_the_same_everywhere() {
    for (key, index, number) in [(KEY, "0", 1), (OLD_KEY, "1", 2)] {
        let world = World::new();
        let body = sample("retell/call_started");
        let (code, answered) = world.post_signed(Provider::Retell, key, "", body.as_bytes()).await;
        assert_eq!((code, &answered["status"]), (OK, &json!("accepted")));
        let item = world.item(INBOX_TABLE, &id_of(&answered)).await;
        assert_eq!(item.get("key_index"), Some(&AttributeValue::N(index.to_owned())));
        let [line] = world.logged("accepted").try_into().unwrap();
        assert_eq!((&line["key_number"], &line[format!("key_{number}")]), (&json!(number), &json!(1)), "{line}");
        let path = show(&stack_of(&world), &EventId::new(id_of(&answered))).await.unwrap().unwrap();
        assert_eq!(path.key_number, Some(number));
    }
}

#[tokio::test(start_paused = true)]
async fn provider_that_is_unknown_or_not_configured_is_not_found() {
    let world = World::with_secret(&json!({"retell": {"keys": [KEY]}}));
    let body = sample("twilio/completed");
    for path in ["/webhooks/twilio", "/webhooks/generic", "/webhooks/vapi", "/webhooks/Retell"] {
        let request = with_uri(world.signed(Provider::Twilio, KEY, "", body.as_bytes(), world.now()), path);
        assert_eq!(world.send(request).await, unknown_provider(), "{path}");
    }
    assert_eq!(world.requests(), BTreeMap::new());
    let causes: Vec<Value> = world.logged("rejected").into_iter().map(|line| line["cause"].clone()).collect();
    assert_eq!(causes, vec![json!("unknown_provider"); 4]);
}

#[tokio::test(start_paused = true)]
async fn source_that_is_not_on_the_allow_list_is_forbidden_before_anything_is_looked_at() {
    let secret = |net: &str| json!({"generic": {"keys": [KEY], "allowed_sources": [net]}});
    let body = generic("c1", "e1", "ANSWERED", 0);

    let world = World::with_secret(&secret("10.0.0.0/8"));
    let message = "the source address is not on the provider's allow-list";
    let forbidden = (StatusCode::FORBIDDEN, json!({"error": "forbidden", "message": message}));
    assert_eq!(world.post(Provider::Generic, &body).await, forbidden);
    assert_eq!(world.post_signed(Provider::Generic, "other", "", body.as_bytes()).await, forbidden);
    assert_eq!(world.requests(), BTreeMap::new());
    assert_eq!(world.logged("rejected")[0]["cause"], "forbidden_source");

    let world = World::with_secret(&secret("127.0.0.0/8"));
    assert_eq!(world.post(Provider::Generic, &body).await, answer("accepted", "generic:e1"));
}
