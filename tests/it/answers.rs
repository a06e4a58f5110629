//! What `POST /webhooks/{provider}` answers, and what is true when it has.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Request, StatusCode};
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_aws::inbox::BODY_BYTES_MAX;
use switchhook_domain::{EventId, Provider};
use switchhook_local::connector::Fault;
use switchhook_local::{CALLS_TABLE, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE, INBOX_TABLE};
use switchhook_tests::{KEY, OLD_KEY, PUBLIC_URL, World, database_down, down, generic, sample};

use crate::traffic::noise;

const OK: StatusCode = StatusCode::OK;

fn answer(status: &str, event_id: &str) -> (StatusCode, Value) {
    (OK, json!({"status": status, "event_id": event_id}))
}

fn storage_failure() -> (StatusCode, Value) {
    let message = "the event could not be kept; send it again, that is safe";
    (StatusCode::INTERNAL_SERVER_ERROR, json!({"error": "storage_failure", "message": message}))
}

fn invalid_signature() -> (StatusCode, Value) {
    let message = "the request is not signed with a key of this provider, or not within its window of time";
    (StatusCode::UNAUTHORIZED, json!({"error": "invalid_signature", "message": message}))
}

fn unknown_provider() -> (StatusCode, Value) {
    let message = "no provider of this name is configured; add it to the secret of the stack";
    (StatusCode::NOT_FOUND, json!({"error": "unknown_provider", "message": message}))
}

fn provider_of(name: &str) -> Provider {
    name.split_once('/').unwrap().0.parse().unwrap()
}

fn id_of(answered: &Value) -> String {
    answered["event_id"].as_str().unwrap().to_owned()
}

/// One of each provider, and of each form in which Twilio posts.
const FOLDED_SAMPLES: [(&str, &str, &str); 6] = [
    ("retell/call_started", "retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70:call_started", "appointment:appt_201"),
    ("twilio/ringing", "twilio:CA00000000000000000000000000000001:ringing:1", "appointment:apt_7"),
    ("twilio/completed_json", "twilio:CA00000000000000000000000000000009:completed:3", "appointment:apt_7"),
    ("twilio/amd_human", "twilio:CA00000000000000000000000000000001:amd:human", "appointment:apt_7"),
    ("twilio/completed_voicemail", "twilio:CA00000000000000000000000000000002:completed:3", "appointment:apt_7"),
    ("generic/user_confirmed", "", ""),
];

/// Twilio has no metadata: what it is to echo stands in the query of the callback.
fn query_of(provider: Provider) -> &'static str {
    match provider {
        Provider::Twilio => "appointment_id=apt_7",
        Provider::Retell | Provider::Vapi | Provider::Telnyx | Provider::Generic => "",
    }
}

async fn post_sample(world: &World, name: &str) -> (StatusCode, Value) {
    let provider = provider_of(name);
    world.post_signed(provider, KEY, query_of(provider), sample(name).as_bytes()).await
}

#[tokio::test(start_paused = true)]
async fn new_event_is_accepted_stored_queued_and_folded() {
    for (name, event_id, call_id) in FOLDED_SAMPLES {
        let mut world = World::stopped();
        let (code, body) = post_sample(&world, name).await;
        let event_id = if event_id.is_empty() { body["event_id"].as_str().unwrap() } else { event_id };
        assert_eq!((code, body.clone()), answer("accepted", event_id), "{name}");
        assert_eq!(world.queued().len(), 1, "{name}");

        world.start();
        world.quiesce().await;
        let status = world.status(&EventId::new(event_id)).await;
        assert_eq!((&status["status"], &status["attempts"]), (&json!("processed"), &json!(1)), "{name}: {status}");
        if !call_id.is_empty() {
            assert_eq!(status["call_id"], call_id, "{name}");
        }
        assert_eq!(world.queued().len(), 0, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_sample_is_accepted_or_recorded() {
    let recorded = [
        "retell/transcript_updated",
        "retell/transfer_started",
        "twilio/child_leg",
        "twilio/recording",
        "vapi/transcript",
        "vapi/assistant_request",
        "telnyx/bridged",
        "telnyx/recording_saved",
        "generic/unknown_type",
    ];
    for (name, _) in switchhook_providers::samples() {
        let world = World::new();
        let (code, body) = post_sample(&world, name).await;
        let status = if recorded.contains(name) { "recorded" } else { "accepted" };
        assert_eq!((code, &body["status"]), (OK, &json!(status)), "{name}: {body}");
    }
}

#[tokio::test(start_paused = true)]
async fn event_seen_before_changes_nothing() {
    for (name, ..) in FOLDED_SAMPLES {
        let world = World::new();
        let (_, first) = post_sample(&world, name).await;
        world.quiesce().await;
        let before =
            (world.items(CALLS_TABLE).await, world.domain_events(), world.item(INBOX_TABLE, &id_of(&first)).await);

        // At once, and after SQS has forgotten the first.
        for pause in [1, 301] {
            world.wait(Duration::from_secs(pause)).await;
            assert_eq!(post_sample(&world, name).await, answer("already_processed", &id_of(&first)), "{name}");
            world.quiesce().await;
            let after =
                (world.items(CALLS_TABLE).await, world.domain_events(), world.item(INBOX_TABLE, &id_of(&first)).await);
            assert_eq!(after, before, "{name} after {pause} s");
        }
        assert_eq!((world.queued(), world.dead_letters()), (vec![], vec![]));
    }
}

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

    assert_eq!(world.item(INBOX_TABLE, id).await, stored, "the first body stands");
    assert_eq!(world.call("c1").await, call);
    let event = world.inbox.get(&EventId::new(id)).await.unwrap().unwrap();
    assert_eq!(world.inbox.read_body(&event).await.unwrap(), first.as_bytes());

    let mut beside = Vec::new();
    for item in world.items(INBOX_TABLE).await {
        if let (Some(AttributeValue::S(key)), Some(AttributeValue::B(body))) = (item.get("event_id"), item.get("body"))
            && key.starts_with("conflict:")
        {
            beside.push((key.clone(), body.clone()));
        }
    }
    let compressed_second = compressed(&second).await;
    assert_eq!(beside, [(format!("conflict:{id}"), compressed_second)], "one, and the first to conflict");

    let counted: Vec<Value> = world
        .logged("duplicate")
        .into_iter()
        .map(|line| json!([line["cause"], line["conflicting_body"], line["event_id"]]))
        .collect();
    assert_eq!(counted, vec![json!(["conflicting_body", 1, id]); 3]);
    // It moves no call: also not a call that the other body names.
    let elsewhere = generic("c2", "e1", "ANSWERED", 0);
    assert_eq!(world.post(Provider::Generic, &elsewhere).await, answer("already_processed", id));
    world.quiesce().await;
    assert_eq!(world.get("/calls/c2").await.0, StatusCode::NOT_FOUND);
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
        assert_eq!(world.items(INBOX_TABLE).await.len(), items, "{provider}: nothing is kept beside it");
        assert_eq!(world.logged("duplicate")[0]["cause"], Value::Null, "{provider}");
        let stored = world.inbox.get(&EventId::new(id_of(&answered))).await.unwrap().unwrap();
        assert!(world.inbox.read_body(&stored).await.unwrap() == first.as_bytes(), "{provider}: the first bytes stand");
    }
}

/// The same JSON without the spaces.
fn compact(json: &str) -> String {
    serde_json::from_str::<Value>(json).unwrap().to_string()
}

/// A body as the inbox keeps it.
async fn compressed(body: &str) -> Vec<u8> {
    let world = World::new();
    let (_, answered) = world.post(Provider::Generic, body).await;
    let mut item = world.item(INBOX_TABLE, &id_of(&answered)).await;
    let Some(AttributeValue::B(body)) = item.remove("body") else { return Vec::new() };
    body
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_kept_and_reported_once() {
    let no_call_id = json!({"event_id": "e1", "type": "ANSWERED"}).to_string();
    let no_retell_id = json!({"event": "call_ended", "call": {"call_status": "ended"}}).to_string();
    let cases: [(Provider, &str, &[u8], &str); 9] = [
        (Provider::Retell, "invalid JSON", b"{\"event\":\"call_ended\",", "the body is not JSON at line 1, column 22"),
        (Provider::Generic, "invalid JSON", b"hello", "the body is not JSON at line 1, column 1"),
        (Provider::Retell, "invalid UTF-8", b"{\"event\":\"\xff\xfe\"}", "the body is not UTF-8"),
        (Provider::Generic, "invalid UTF-8", b"\xc3\x28", "the body is not UTF-8"),
        (Provider::Retell, "no call id", no_retell_id.as_bytes(), "the event names no call"),
        (Provider::Generic, "no call id", no_call_id.as_bytes(), "the event names no call"),
        (Provider::Twilio, "no call id", b"CallStatus=ringing&SequenceNumber=1", "the event names no call"),
        (Provider::Retell, "empty", b"", "the body is not JSON at line 1, column 0"),
        (Provider::Generic, "empty", b"", "the body is not JSON at line 1, column 0"),
    ];
    for (provider, what, body, reason) in cases {
        let world = World::new();
        let case = format!("{provider}, {what}");
        let (code, answered) = world.post_signed(provider, KEY, "", body).await;
        assert_eq!((code, &answered["status"]), (OK, &json!("quarantined")), "{case}: {answered}");
        let id = EventId::new(id_of(&answered));

        let notices: Vec<Value> = world.dead_letters();
        assert_eq!(notices.len(), 1, "{case}");
        let said = json!([notices[0]["quarantined"], notices[0]["reason"], notices[0]["schema_version"]]);
        assert_eq!(said, json!([id, reason, 1]), "{case}");
        let stored = world.inbox.get(&id).await.unwrap().unwrap();
        assert_eq!(world.inbox.read_body(&stored).await.unwrap(), body, "{case}: raw");
        assert_eq!(world.queued(), [] as [Value; 0], "{case}");

        let again = world.post_signed(provider, KEY, "", body).await;
        assert_eq!(again, answer("already_processed", id.as_str()), "{case}");
        // Nothing, the sweep of the next minutes included, makes more of it.
        world.wait(Duration::from_secs(600)).await;
        assert_eq!(world.dead_letters().len(), 1, "{case}");
        let status = world.status(&id).await;
        assert_eq!(
            json!([status["status"], status["disposition"], status["attempts"], status["processed_at"]]),
            json!(["quarantined", "quarantined", 0, null]),
            "{case}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn event_of_an_unknown_type_is_recorded_even_without_a_call() {
    let stripe = json!({
        "id": "evt_3Nv", "object": "event", "api_version": "2024-06-20", "created": 1_767_225_600,
        "type": "payment_intent.succeeded", "livemode": false, "pending_webhooks": 1,
        "data": {"object": {"id": "pi_3Nv", "object": "payment_intent", "amount": 2000, "currency": "usd",
                 "status": "succeeded", "metadata": {"order_id": "6735"}}},
        "request": {"id": null, "idempotency_key": "k"},
    });
    let cases = [
        (Provider::Generic, "", stripe.to_string()),
        (Provider::Generic, "", json!({"event_id": "e1", "type": "call.transferred", "call_id": "c1"}).to_string()),
        (Provider::Retell, "", json!({"event": "chat_started"}).to_string()),
        (Provider::Twilio, "", "CallSid=CA1&CallStatus=levitating".to_owned()),
        // A form may have no fields: then it says nothing, which is nothing that we fold.
        (Provider::Twilio, "", String::new()),
    ];
    for (provider, query, body) in cases {
        let world = World::new();
        let (code, answered) = world.post_signed(provider, KEY, query, body.as_bytes()).await;
        assert_eq!((code, &answered["status"]), (OK, &json!("recorded")), "{body}: {answered}");
        let id = EventId::new(id_of(&answered));
        let again = world.post_signed(provider, KEY, query, body.as_bytes()).await;
        assert_eq!(again, answer("already_processed", id.as_str()), "{body}");

        world.wait(Duration::from_secs(600)).await;
        let status = world.status(&id).await;
        assert_eq!(
            json!([status["status"], status["disposition"], status["attempts"]]),
            json!(["recorded", "recorded", 0]),
            "{body}"
        );
        let stored = world.inbox.get(&id).await.unwrap().unwrap();
        assert_eq!(world.inbox.read_body(&stored).await.unwrap(), body.as_bytes());
        assert_eq!((world.queued(), world.dead_letters()), (vec![], vec![]), "{body}");
        assert_eq!(world.items(CALLS_TABLE).await, [], "{body}");
        assert_eq!(world.logged("recorded").len(), 1, "{body}: counted");
    }
}

#[tokio::test(start_paused = true)]
async fn confirmation_that_tutorials_show_is_folded_and_believed_when_patience_ends() {
    let body = concat!(
        r#"{"event_id":"evt_8f1a2c","appointment_id":"appt_123","type":"USER_CONFIRMED","#,
        r#""occurred_at":"2025-10-20T12:14:05Z","#,
        r#""call":{"sid":"CAxxxx","to":"+447700900000","from":"+4420xxxxxxx"},"meta":{"attempt":2}}"#,
    );
    let world = World::new();
    assert_eq!(world.post(Provider::Generic, body).await, answer("accepted", "generic:evt_8f1a2c"));
    world.quiesce().await;

    let shown = |call: &Value| json!([call["appointment_status"], call["outcome"], call["lifecycle"], call["settled"]]);
    let (_, call) = world.get("/calls/appointment:appt_123").await;
    assert_eq!(shown(&call), json!(["Dialing", "dialing", "initiated", false]), "it waits for an answer");
    assert_eq!(call["attempts"][0]["provider_call_id"], "CAxxxx");
    let (_, timeline) = world.get("/calls/appointment:appt_123/events").await;
    assert_eq!(timeline["events"][0]["disposition"], "parked");

    world.wait(Duration::from_secs(17 * 60)).await;
    let (_, call) = world.get("/calls/appointment:appt_123").await;
    assert_eq!(shown(&call), json!(["Confirmed", "confirmed", "inconclusive", true]));
    assert_eq!(call["job"]["state"], "COMPLETED");
    assert!(world.published_types("appointment:appt_123").contains(&"appointment.confirmed".to_owned()));
    let status = world.status(&EventId::new("generic:evt_8f1a2c")).await;
    assert_eq!(json!([status["status"], status["disposition"]]), json!(["processed", "applied"]));
}

type Tamper = fn(&World, Request<Bytes>) -> Request<Bytes>;

fn with_header(mut request: Request<Bytes>, name: &'static str, value: &str) -> Request<Bytes> {
    request.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    request
}

fn without_header(mut request: Request<Bytes>, name: &'static str) -> Request<Bytes> {
    request.headers_mut().remove(name).unwrap();
    request
}

fn header(request: &Request<Bytes>, name: &str) -> String {
    request.headers()[name].to_str().unwrap().to_owned()
}

fn with_body(request: Request<Bytes>, body: &[u8]) -> Request<Bytes> {
    request.map(|_| Bytes::copy_from_slice(body))
}

/// Nothing changed but the signature, which is good for `seconds` away from now.
fn signed_at(world: &World, request: &Request<Bytes>, provider: Provider, seconds: i64) -> Request<Bytes> {
    let at = switchhook_domain::Timestamp::from_millis(world.now().as_millis() + seconds * 1_000);
    world.signed(provider, KEY, "", request.body(), at)
}

#[tokio::test(start_paused = true)]
async fn request_that_is_not_authentic_is_refused_alike_whatever_was_wrong_and_costs_nothing() {
    let cases: [(Provider, &str, Tamper, &str); 26] = [
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
    for (provider, what, tamper, cause) in cases {
        let body = match provider {
            Provider::Retell => sample("retell/call_ended"),
            Provider::Vapi => sample("vapi/end_of_call_report"),
            Provider::Telnyx => sample("telnyx/hangup"),
            Provider::Twilio => sample("twilio/completed"),
            Provider::Generic => sample("generic/user_confirmed"),
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
    assert_eq!(world.requests(), BTreeMap::new(), "no call to AWS");
    assert_eq!(world.logged("rejected").len(), 26);
}

/// One bit of the body is another.
fn flipped(request: Request<Bytes>) -> Request<Bytes> {
    let mut body = request.body().to_vec();
    let middle = body.len() / 2;
    body[middle] ^= 1;
    with_body(request, &body)
}

fn with_uri(mut request: Request<Bytes>, uri: &str) -> Request<Bytes> {
    *request.uri_mut() = uri.parse().unwrap();
    request
}

#[tokio::test(start_paused = true)]
async fn no_bit_of_a_body_can_be_flipped() {
    let world = World::stopped();
    for name in ["retell/call_ended_no_answer", "twilio/completed", "twilio/completed_json", "generic/user_confirmed"] {
        let request = world.signed(provider_of(name), KEY, "", sample(name).as_bytes(), world.now());
        for index in 0..request.body().len() {
            let mut body = request.body().to_vec();
            body[index] ^= 1 << (index % 8);
            // In a form `%2B` and `%2b` are the same plus.
            let same = provider_of(name) == Provider::Twilio && body.eq_ignore_ascii_case(request.body());
            if !same {
                let flipped = with_body(request.clone(), &body);
                assert_eq!(world.send(flipped).await.0, StatusCode::UNAUTHORIZED, "{name}, byte {index}");
            }
        }
    }
    assert_eq!(world.requests(), BTreeMap::new());
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
async fn second_key_is_good_too_and_which_one_it_was_is_kept() {
    for (key, index) in [(KEY, "0"), (OLD_KEY, "1")] {
        let world = World::new();
        let body = sample("retell/call_started");
        let (code, answered) = world.post_signed(Provider::Retell, key, "", body.as_bytes()).await;
        assert_eq!((code, &answered["status"]), (OK, &json!("accepted")));
        let item = world.item(INBOX_TABLE, &id_of(&answered)).await;
        assert_eq!(item.get("key_index"), Some(&AttributeValue::N(index.to_owned())));
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
    let message = "this address is not on the provider's allow-list";
    let forbidden = (StatusCode::FORBIDDEN, json!({"error": "forbidden", "message": message}));
    assert_eq!(world.post(Provider::Generic, &body).await, forbidden);
    assert_eq!(world.post_signed(Provider::Generic, "other", "", body.as_bytes()).await, forbidden);
    assert_eq!(world.requests(), BTreeMap::new());
    assert_eq!(world.logged("rejected")[0]["cause"], "forbidden_source");

    let world = World::with_secret(&secret("127.0.0.0/8"));
    assert_eq!(world.post(Provider::Generic, &body).await, answer("accepted", "generic:e1"));
}

/// A generic event of exactly so many bytes.
fn event_of_size(bytes: usize) -> String {
    let frame = json!({"event_id": "large", "type": "ANSWERED", "call_id": "c1", "noise": ""}).to_string();
    frame.replace("\"noise\":\"\"", &format!("\"noise\":\"{}\"", noise(bytes - frame.len())))
}

#[tokio::test(start_paused = true)]
async fn body_over_the_limit_is_refused_unread() {
    let world = World::stopped();
    let message = "the body is larger than 4194304 bytes";
    let too_large = (StatusCode::PAYLOAD_TOO_LARGE, json!({"error": "payload_too_large", "message": message}));
    let body = event_of_size(BODY_BYTES_MAX + 1);
    assert_eq!(world.post(Provider::Generic, &body).await, too_large);
    assert_eq!(world.post_signed(Provider::Generic, "other", "", body.as_bytes()).await, too_large);
    let text_plain = with_header(
        world.signed(Provider::Generic, KEY, "", body.as_bytes(), world.now()),
        "content-type",
        "application/octet-stream",
    );
    assert_eq!(world.send(text_plain).await, too_large, "the limit is of the body, not of its base64");
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
    assert_eq!(item.get("body_chunks"), Some(&AttributeValue::N("11".to_owned())), "in chunks");
    let stored = world.inbox.get(&id).await.unwrap().unwrap();
    assert!(world.inbox.read_body(&stored).await.unwrap() == body.as_bytes(), "byte for byte");
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
    let taken = || "already_processed".to_owned();
    let new: BTreeMap<String, u64> = counted(&[("GetItem", 1), ("PutItem", 1 + 3), ("SendMessage", 1)]);
    assert_eq!(post(&first).await, ("accepted".to_owned(), new), "a look at the id, three chunks, the event");
    let again = counted(&[("GetItem", 1 + 3), ("SendMessage", 1)]);
    assert_eq!(post(&first).await, (taken(), again), "what is queued is read from the chunks");
    // The first conflict is kept, with its chunks; the next one is not.
    assert_eq!(post(&other).await.1["PutItem"], 1 + 3);
    assert!(!post(&other).await.1.contains_key("PutItem"));
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
    assert!(world.inbox.read_body(&stored).await.unwrap() == body, "byte for byte");
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
    assert_eq!(world.published_types("c1"), ["call.initiated", "appointment.dialing", "appointment.connected"]);
}

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
    // What stands in the path is looked for as the gateway gives it, before it is taken for encoded.
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
        assert!(code == StatusCode::NOT_FOUND || path.contains("%3F"), "{path}: {code} {answered}");
        assert!(!code.is_server_error(), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn content_type_decides_nothing() {
    let types = [
        None,
        Some(""),
        Some("text/plain"),
        Some("application/json"),
        Some("application/json; charset=utf-16"),
        Some("application/x-www-form-urlencoded"),
        Some("multipart/form-data"),
        Some("application/octet-stream"),
        Some("nonsense"),
    ];
    for name in ["retell/call_ended", "twilio/completed", "twilio/completed_json", "generic/user_confirmed"] {
        let mut answers = Vec::new();
        for content_type in types {
            let world = World::new();
            let mut request = world.signed(provider_of(name), KEY, "", sample(name).as_bytes(), world.now());
            request.headers_mut().remove(CONTENT_TYPE);
            if let Some(content_type) = content_type {
                request = with_header(request, "content-type", content_type);
            }
            let (code, answered) = world.send(request).await;
            assert_eq!((code, &answered["status"]), (OK, &json!("accepted")), "{name} as {content_type:?}");
            let stored = world.inbox.get(&EventId::new(id_of(&answered))).await.unwrap();
            let body = world.inbox.read_body(&stored.unwrap()).await.unwrap();
            assert_eq!(String::from_utf8(body).unwrap(), sample(name), "{name} as {content_type:?}");
            answers.push(answered);
        }
        answers.dedup();
        assert_eq!(answers.len(), 1, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn twilio_says_in_its_query_what_a_body_is() {
    let world = World::new();
    let body = sample("twilio/completed_json").as_bytes();
    let request = world.signed(Provider::Twilio, KEY, "appointment_id=7", body, world.now());
    assert!(request.uri().query().unwrap().contains("bodySHA256="));

    // With the hash of another body the URL is as it was signed, and the body is not.
    let mut other = body.to_vec();
    other.push(b' ');
    assert_eq!(world.send(with_body(request.clone(), &other)).await, invalid_signature());
    let (code, answered) = world.send(request).await;
    assert_eq!((code, &answered["status"]), (OK, &json!("accepted")));
    world.quiesce().await;
    assert_eq!(world.status(&EventId::new(id_of(&answered))).await["call_id"], "appointment:7");
    assert!(PUBLIC_URL.starts_with("https://"));
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_down_nothing_is_acknowledged() {
    for (name, ..) in FOLDED_SAMPLES {
        let world = World::new();
        world.set_fault_hook(database_down);
        assert_eq!(post_sample(&world, name).await, storage_failure(), "{name}");
        assert_eq!(world.queued(), [] as [Value; 0], "{name}");
        world.clear_faults();
        assert_eq!(world.items(INBOX_TABLE).await, [], "{name}");

        let (code, answered) = post_sample(&world, name).await;
        assert_eq!((code, &answered["status"]), (OK, &json!("accepted")), "{name}");
        world.quiesce().await;
        let status = world.status(&EventId::new(id_of(&answered))).await;
        assert_eq!(status["status"], "processed", "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_queue_is_down_nothing_is_acknowledged_and_the_retry_is_folded() {
    for (name, ..) in FOLDED_SAMPLES {
        let world = World::new();
        world.inject_fault("SendMessage", EVENTS_QUEUE, u64::MAX, down());
        assert_eq!(post_sample(&world, name).await, storage_failure(), "{name}");
        assert_eq!(post_sample(&world, name).await, storage_failure(), "{name}: a retry is not believed either");
        world.quiesce().await;
        assert_eq!(world.items(CALLS_TABLE).await, [], "{name}");

        world.clear_faults();
        let (code, answered) = post_sample(&world, name).await;
        assert_eq!((code, &answered["status"]), (OK, &json!("already_processed")), "{name}");
        world.quiesce().await;
        let status = world.status(&EventId::new(id_of(&answered))).await;
        assert_eq!(status["status"], "processed", "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_not_acknowledged_before_it_was_reported() {
    let world = World::new();
    world.inject_fault("SendMessage", EVENTS_DEAD_LETTER_QUEUE, 3, Fault::NotSent);
    assert_eq!(world.post(Provider::Generic, "hello").await, storage_failure());
    assert_eq!(world.dead_letters(), [] as [Value; 0]);
    let (code, answered) = world.post(Provider::Generic, "hello").await;
    assert_eq!((code, &answered["status"]), (OK, &json!("already_processed")));
    assert_eq!(world.dead_letters().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn conflict_is_not_acknowledged_before_it_was_kept() {
    let world = World::new();
    world.accept(Provider::Generic, &generic("c1", "e1", "ANSWERED", 0)).await;
    let other = generic("c1", "e1", "FAILED", 0);
    let refused_first = std::sync::atomic::AtomicU64::new(0);
    // The second write of the request is the one that keeps the conflict.
    world.set_fault_hook(move |call| {
        let puts = call.operation == "PutItem"
            && call.body.windows(9).any(|bytes| bytes == b"conflict:")
            && refused_first.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 3;
        puts.then_some(Fault::NotSent)
    });
    assert_eq!(world.post(Provider::Generic, &other).await, storage_failure());
    assert_eq!(world.post(Provider::Generic, &other).await, answer("already_processed", "generic:e1"));
    assert_eq!(world.item(INBOX_TABLE, "conflict:generic:e1").await.len(), 6);
}
