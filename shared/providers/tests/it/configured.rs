//! Providers that are described by configuration alone: the examples that people copy, and the published test vectors.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use switchhook_domain::{BookingReport, Provider, ProviderEvent, Timestamp};
use switchhook_providers::{
    ProvidersFile, Reading, UnverifiedWebhook, VerifiedWebhook, VerifyError, WebhookConfig, read_as_configured,
    replaced_booking, sign_as_configured, verify,
};

const NOW: Timestamp = Timestamp::from_millis(1_767_225_660_000);

fn folder() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/providers")
}

/// Provider of the example, and its file.
fn example(name: &str) -> (Provider, ProvidersFile) {
    let text = std::fs::read_to_string(folder().join(format!("{name}.json"))).unwrap();
    let file = ProvidersFile::from_json(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    (format!("x-{name}").parse().unwrap(), file)
}

fn headers(pairs: &[(impl AsRef<str>, impl AsRef<str>)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        let name = HeaderName::from_bytes(name.as_ref().as_bytes()).unwrap();
        map.append(name, HeaderValue::from_str(value.as_ref()).unwrap());
    }
    map
}

fn verified_at(
    provider: Provider,
    config: &WebhookConfig,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Result<VerifiedWebhook, VerifyError> {
    verify(provider, config, &UnverifiedWebhook { headers, path: "/webhooks", query: "", body }, now)
}

/// Reads a body as the provider would have signed it.
fn read(provider: Provider, config: &WebhookConfig, body: &[u8]) -> Reading {
    let signed = sign_as_configured(provider, config, "https://example.com", body, NOW).unwrap();
    let webhook = verified_at(provider, config, &headers(&signed.headers), body, NOW).unwrap();
    read_as_configured(config, &webhook, NOW).0
}

fn shown(reading: &Reading) -> String {
    match reading {
        Reading::Event(event @ ProviderEvent { event_id, call_id, entity: Some(report), event_type, .. }) => {
            let at = report.occurred_at.map_or_else(|| "-".to_owned(), |at| at.to_string());
            let data = serde_json::to_string(&report.data).unwrap();
            let booking = match event.booking.as_deref() {
                None => String::new(),
                Some(BookingReport::Canceled { .. }) => ", over".to_owned(),
                Some(BookingReport::Booked(booked)) => {
                    let starts_at = booked.starts_at.map_or_else(|| "-".to_owned(), |at| at.to_string());
                    let to = event.to.as_ref().map_or("-", |to| to.as_str());
                    format!(", booked {starts_at} for {to}")
                }
            };
            let replaced = replaced_booking(event);
            let has_data = |event: &ProviderEvent| event.entity.as_ref().is_some_and(|report| !report.data.is_empty());
            assert!(!replaced.as_ref().is_some_and(has_data), "values of the body stay in the event that was received");
            let replaced = replaced
                .map_or_else(String::new, |replaced| format!(", and {} of {}", replaced.event_id, replaced.call_id));
            format!("{event_id} of {call_id}: received {event_type} {at} {data}{booking}{replaced}")
        }
        Reading::Event(ProviderEvent { event_id, call_id, attempt, call_events, .. }) => {
            let kinds: Vec<String> = call_events
                .iter()
                .map(|event| {
                    let at = event.occurred_at.map_or_else(|| "-".to_owned(), |at| at.to_string());
                    format!("{}{} {at}", if event.implied { "implied " } else { "" }, event.kind.as_str())
                })
                .collect();
            let attempt = attempt.as_ref().map_or("-", |attempt| attempt.as_str());
            format!("{event_id} of {call_id}, attempt {attempt}: {}", kinds.join(", "))
        }
        Reading::Recorded { event_type, call_id, .. } => {
            format!("recorded {event_type} of {}", call_id.as_ref().map_or("-", |id| id.as_str()))
        }
        Reading::Quarantined { error, .. } => format!("quarantined: {error}"),
    }
}

#[test]
fn examples_read_their_payloads() {
    let mut lines = Vec::new();
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    for name in names {
        let (provider, file) = example(&name);
        let config = file.webhook_keys().config(provider).unwrap();
        let mut payloads: Vec<_> =
            std::fs::read_dir(folder().join(&name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        payloads.sort();
        assert!(!payloads.is_empty(), "{name} has no payload");
        for path in payloads {
            let body = std::fs::read(&path).unwrap();
            let payload = path.file_stem().unwrap().to_str().unwrap();
            lines.push(format!("{name}/{payload}: {}", shown(&read(provider, config, &body))));
        }
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    calcom/cancelled: x-calcom:kUa2:BOOKING_CANCELLED:2026-01-03T08%3A00%3A00.000Z of entity:x-calcom:kUa2: received BOOKING_CANCELLED 2026-01-03T08:00:00.000Z {"starts_at":"2026-01-06T15:00:00Z","status":"CANCELLED"}, over
    calcom/created: x-calcom:kUa1:BOOKING_CREATED:2026-01-01T00%3A01%3A00.250Z of entity:x-calcom:kUa1: received BOOKING_CREATED 2026-01-01T00:01:00.250Z {"starts_at":"2026-01-05T15:00:00Z","status":"ACCEPTED"}, booked 2026-01-05T15:00:00.000Z for +14155550123
    calcom/created_after_payment: x-calcom:kUa3:BOOKING_CREATED:2026-01-01T00%3A02%3A00.250Z of entity:x-calcom:kUa3: received BOOKING_CREATED 2026-01-01T00:02:00.250Z {"starts_at":"2026-01-05T15:00:00Z","status":"ACCEPTED"}, booked 2026-01-05T15:00:00.000Z for +14155550123
    calcom/requested: x-calcom:kUa2:BOOKING_REQUESTED:2026-01-02T08%3A00%3A00.000Z of entity:x-calcom:kUa2: received BOOKING_REQUESTED 2026-01-02T08:00:00.000Z {"starts_at":"2026-01-06T15:00:00Z","status":"PENDING"}, over
    calcom/rescheduled: x-calcom:kUa2:BOOKING_RESCHEDULED:2026-01-02T08%3A00%3A00.000Z of entity:x-calcom:kUa2: received BOOKING_RESCHEDULED 2026-01-02T08:00:00.000Z {"starts_at":"2026-01-06T15:00:00Z","status":"ACCEPTED"}, booked 2026-01-06T15:00:00.000Z for +14155550123, and x-calcom:kUa2:BOOKING_RESCHEDULED:2026-01-02T08%3A00%3A00.000Z/replaced/97a8e3a366166eec of entity:x-calcom:kUa1
    calcom/series_cancelled: x-calcom:kUa4:BOOKING_CANCELLED:2026-01-03T08%3A00%3A00.000Z of entity:x-calcom:kUa4: received BOOKING_CANCELLED 2026-01-03T08:00:00.000Z {"starts_at":"2026-01-06T15:00:00Z","status":"CANCELLED"}, over
    calendly/created: x-calendly:https%3A//api.calendly.com/scheduled_events/E1/invitees/I1:invitee.created of entity:x-calendly:https://api.calendly.com/scheduled_events/E1/invitees/I1: received invitee.created 2026-01-01T00:01:00.000Z {"rescheduled":false,"starts_at":"2026-01-05T15:00:00.000000Z"}, booked 2026-01-05T15:00:00.000Z for +14155550123
    calendly/rescheduled_canceled: x-calendly:https%3A//api.calendly.com/scheduled_events/E1/invitees/I1:invitee.canceled of entity:x-calendly:https://api.calendly.com/scheduled_events/E1/invitees/I1: received invitee.canceled 2026-01-02T08:00:00.000Z {"rescheduled":true,"starts_at":"2026-01-05T15:00:00.000000Z"}, over
    calendly/rescheduled_created: x-calendly:https%3A//api.calendly.com/scheduled_events/E2/invitees/I2:invitee.created of entity:x-calendly:https://api.calendly.com/scheduled_events/E2/invitees/I2: received invitee.created 2026-01-02T08:00:00.000Z {"rescheduled":false,"starts_at":"2026-01-06T15:00:00.000000Z"}, booked 2026-01-06T15:00:00.000Z for +14155550123
    elevenlabs/confirmed: x-elevenlabs:conv_1:post_call_transcription of appointment:apt_1, attempt x-elevenlabs:conv_1: implied ringing -, implied in_progress -, user_confirmed 2026-01-01T00:01:00.000Z, implied completed 2026-01-01T00:01:00.000Z
    elevenlabs/no_answer: x-elevenlabs:conv_2:call_initiation_failure of appointment:apt_2, attempt x-elevenlabs:conv_2: implied ringing 2026-01-01T00:01:00.000Z, no_answer 2026-01-01T00:01:00.000Z
    elevenlabs/voicemail: x-elevenlabs:conv_4:post_call_transcription of appointment:apt_4, attempt x-elevenlabs:conv_4: implied ringing -, implied in_progress -, voicemail_detected 2026-01-01T00:01:00.000Z, implied completed 2026-01-01T00:01:00.000Z
    elevenlabs/web_confirmed: recorded post_call_transcription of appointment:apt_1
    github/closed: x-github:sha256-181d8d3aeeadba7a8ae12888c244d888b4be98519dd531b42b3df5403c1fe40b of entity:x-github:I_1: received webhook 2026-01-01T00:02:00.000Z {"action":"closed","number":7,"repository":"example/appointments"}
    github/declined: x-github:I_2:labeled:declined:2026-01-01T00%3A01%3A00Z of appointment:I_2, attempt -: user_declined 2026-01-01T00:01:00.000Z
    github/labeled: x-github:I_1:labeled:confirmed:2026-01-01T00%3A01%3A00Z of appointment:I_1, attempt -: user_confirmed 2026-01-01T00:01:00.000Z
    github/ping: x-github:sha256-d1f77fcd5bbf47d39203d344ac8e68b2e2973f65a4c741b558e80d6330a6e5b3 of entity:event:x-github:sha256-d1f77fcd5bbf47d39203d344ac8e68b2e2973f65a4c741b558e80d6330a6e5b3: received webhook - {"repository":"example/appointments"}
    github/pull_request: x-github:sha256-696beb2d16879abf6a88afae0ba0d906d97771dd8b900deecf55bbf91c2b9dfe of entity:event:x-github:sha256-696beb2d16879abf6a88afae0ba0d906d97771dd8b900deecf55bbf91c2b9dfe: received webhook - {"action":"labeled","repository":"example/appointments"}
    github/push: x-github:sha256-b29e7efef7fffe7acd74bfc7f51688b9b4b08a400aa8793b4ce17db407ad63b9 of entity:event:x-github:sha256-b29e7efef7fffe7acd74bfc7f51688b9b4b08a400aa8793b4ce17db407ad63b9: received webhook - {"repository":"example/appointments"}
    openai/incoming: x-openai:msg_22536980f89c1e5d393763b179d3dba095fcc5fa69f73d4277cb0670b4b9e7c1 of entity:x-openai:rtc_1: received realtime.call.incoming 2026-01-01T00:01:00.000Z {"call_id":"rtc_1"}
    openai/live: x-openai:msg_d14ca0107440d178103126bbf7d4ee39da6972b6e12490193ab178042adf5867 of entity:event:x-openai:msg_d14ca0107440d178103126bbf7d4ee39da6972b6e12490193ab178042adf5867: received live.transport.incoming 2026-01-01T00:01:00.000Z {"session_id":"live_1"}
    openai/other: recorded response.completed of -
    shopify/paid: x-shopify:gid%3A//shopify/Order/820982911946154508:2026-01-01T01%3A01%3A00+01%3A00 of appointment:#1001, attempt -: user_confirmed 2026-01-01T00:01:00.000Z
    shopify/voided: x-shopify:gid%3A//shopify/Order/820982911946154509:2026-01-01T01%3A02%3A00+01%3A00 of appointment:#1002, attempt -: user_declined 2026-01-01T00:02:00.000Z
    stripe/other: x-stripe:evt_2 of entity:x-stripe:cus_1: received customer.created 2026-01-01T00:01:00.000Z {}
    stripe/paid: x-stripe:evt_1 of appointment:apt_5, attempt -: user_confirmed 2026-01-01T00:01:00.000Z
    stripe/paid_without_appointment: x-stripe:evt_4 of entity:x-stripe:cs_2: received checkout.session.completed 2026-01-01T00:01:00.000Z {"currency":"eur","status":"complete"}
    stripe/payment: x-stripe:evt_3 of entity:x-stripe:pi_1: received payment_intent.succeeded 2026-01-01T00:01:00.000Z {"amount":4500,"currency":"eur","status":"succeeded"}
    svix/other: x-svix:msg_d92e5030443449cd2524b34be1765faeb893fc3c91eb8542e2c495e893ac1989 of entity:x-svix:inv_1: received invoice.created 2026-01-01T00:00:00.000Z {"status":"open"}
    svix/paid: x-svix:msg_0c9c9b52c37cdb4f46dd8af3e389a14165b4ad1b3b08d94b02b679ee79ee94d5 of appointment:apt_6, attempt -: user_confirmed 2026-01-01T00:01:00.000Z
    "#);
}

/// Entry with every value of a call that has no id of the provider.
fn entry_of_a_call() -> Value {
    json!({
        "keys": ["a key of the tests, as long as it must be"],
        "signature": {"scheme": "hmac", "header": "x-sig"},
        "allowed_sources": ["203.0.113.7", "2001:db8::/32"],
        "events": {
            "event_id": "/id", "appointment_id": "/apt", "attempt": "/try", "time": "/at", "sequence": "/seq",
            "from": "/our/number", "to": "/their/numbers/0", "rules": [{"when": {"/id": "e1"}, "event": "completed"}],
        },
    })
}

fn config_of(entry: &Value) -> WebhookConfig {
    let file = ProvidersFile::from_json(&json!({"x-a": entry}).to_string()).unwrap_or_else(|error| panic!("{error}"));
    file.webhook_keys().config(a()).unwrap().clone()
}

/// Values that the entry finds in a body: the attempt, the numbers, and the time and the sequence of each call event.
fn values(entry: &Value, body: &Value) -> Value {
    let reading = read(a(), &config_of(entry), body.to_string().as_bytes());
    let Reading::Event(event) = reading else { panic!("{reading:?}") };
    let number = |number: Option<&switchhook_domain::PhoneNumber>| number.map(|number| number.as_str().to_owned());
    let of_each = |value: fn(&switchhook_domain::CallEvent) -> Value| {
        let values: Vec<Value> = event.call_events.iter().map(value).collect();
        assert_eq!(values.len(), 2, "it implies that the phone rang");
        assert_eq!(values[0], values[1]);
        values[0].clone()
    };
    json!({
        "attempt": event.attempt.as_ref().map(|attempt| attempt.as_str()),
        "from": number(event.from.as_ref()),
        "to": number(event.to.as_ref()),
        "time": of_each(|event| json!(event.occurred_at.map(Timestamp::as_millis))),
        "sequence": of_each(|event| json!(event.sequence)),
    })
}

#[test]
fn each_pointer_of_a_call_finds_its_value() {
    let body = json!({
        "id": "e1", "apt": "apt_1", "try": 3, "at": "2026-01-01T00:00:30Z", "seq": 7,
        "our": {"number": "+15550100"}, "their": {"numbers": ["+15550101", "+15550102"]},
    });
    let found = json!({
        "attempt": "x-a#3", "from": "+15550100", "to": "+15550101", "time": 1_767_225_630_000_i64, "sequence": 7,
    });
    assert_eq!(values(&entry_of_a_call(), &body), found);
    for field in ["attempt", "from", "to", "time", "sequence"] {
        let mut entry = entry_of_a_call();
        entry["events"].as_object_mut().unwrap().remove(field).unwrap();
        let mut without = found.clone();
        without[field] = Value::Null;
        assert_eq!(values(&entry, &body), without, "without {field}");
    }
}

#[test]
fn sequence_and_attempt_are_whole_numbers() {
    let value_of = |field: &str, value: Value| {
        let mut body = json!({"id": "e1", "apt": "apt_1"});
        body[field] = value;
        let found = values(&entry_of_a_call(), &body);
        (found["sequence"].clone(), found["attempt"].clone())
    };
    for (value, sequence) in [
        (json!(0), json!(0)),
        (json!("12"), json!(12)),
        (json!(4_294_967_295_u32), json!(4_294_967_295_u32)),
        (json!(4_294_967_296_u64), Value::Null),
        (json!(-1), Value::Null),
        (json!(1.5), Value::Null),
        (json!("one"), Value::Null),
        (json!(true), Value::Null),
    ] {
        assert_eq!(value_of("seq", value.clone()), (sequence, Value::Null), "{value}");
    }
    assert_eq!(value_of("try", json!("2")), (Value::Null, json!("x-a#2")));
    assert_eq!(value_of("try", json!("second")), (Value::Null, Value::Null));
}

/// The provider's id of a call tells its attempts apart. The number counts only without it.
#[test]
fn call_id_comes_before_the_number_of_the_attempt() {
    let mut entry = entry_of_a_call();
    entry["events"]["call_id"] = json!("/call");
    let body = json!({"id": "e1", "apt": "apt_1", "try": 3, "call": "c1"});
    assert_eq!(values(&entry, &body)["attempt"], "x-a:c1");
}

#[test]
fn entry_names_the_addresses_that_may_post() {
    let allows = |entry: &Value, address: &str| config_of(entry).allows(address.parse().unwrap());
    let entry = entry_of_a_call();
    for (address, is_allowed) in
        [("203.0.113.7", true), ("203.0.113.8", false), ("2001:db8::1", true), ("2001:db9::1", false)]
    {
        assert_eq!(allows(&entry, address), is_allowed, "{address}");
    }
    let mut open = entry_of_a_call();
    open.as_object_mut().unwrap().remove("allowed_sources").unwrap();
    assert!(allows(&open, "203.0.113.8"));
}

/// Configuration of the provider `x-a` with this signature. Its events have no meaning.
fn configured(keys: &[&str], signature: &Value) -> ProvidersFile {
    let entry = json!({"keys": keys, "signature": signature, "events": {"event_id": "/id"}});
    crate::providers_file(&json!({"x-a": entry}).to_string()).unwrap_or_else(|error| panic!("{error}"))
}

fn a() -> Provider {
    "x-a".parse().unwrap()
}

/// Vector of the tests of the package `standardwebhooks` for Rust.
#[test]
fn second_vector_of_standard_webhooks_verifies() {
    let file = configured(&["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"], &json!({"scheme": "standard_webhooks"}));
    let config = file.webhook_keys().config(a()).unwrap();
    let body = br#"{"email":"test@example.com","username":"test_user"}"#;
    let all = [
        ("webhook-id", "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk"),
        ("webhook-timestamp", "1649367553"),
        ("webhook-signature", "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="),
    ];
    assert!(verified_at(a(), config, &headers(&all), body, Timestamp::from_millis(1_649_367_553_000)).is_ok());
    // The packages accept a key with and without padding.
    let configured =
        |key: &str| configured(&[key], &json!({"scheme": "standard_webhooks"})).webhook_keys().config(a()).is_some();
    assert!(["whsec_MDEyMzQ1Njc4OWFiY2RlZjA=", "whsec_MDEyMzQ1Njc4OWFiY2RlZjA"].into_iter().all(configured));
}

#[test]
fn vector_of_standard_webhooks_verifies() {
    let file = configured(&["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], &json!({"scheme": "standard_webhooks"}));
    let config = file.webhook_keys().config(a()).unwrap();
    let body = br#"{"test": 2432232314}"#;
    let signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    let now = Timestamp::from_millis(1_614_265_330_000);
    let check = |id: &str, signature: &str| {
        let all = [("webhook-id", id), ("webhook-timestamp", "1614265330"), ("webhook-signature", signature)];
        verified_at(a(), config, &headers(&all), body, now)
    };
    let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    let webhook = check(id, signature).unwrap();
    // The signed id is the id of the event, because the body has none.
    let (reading, _) = read_as_configured(config, &webhook, now);
    assert_eq!(reading.event_id().as_str(), format!("x-a:{id}"));
    // Signatures of other versions and of other keys may stand beside it.
    let other = BASE64_STANDARD.encode([7; 32]);
    for list in [format!("v1a,{other} {signature}"), format!("v1,{other} {signature}"), format!("{signature} v2,x")] {
        assert!(check(id, &list).is_ok(), "{list}");
    }
    assert_eq!(check("msg_other", signature), Err(VerifyError::WrongSignature));
    assert_eq!(check(id, &format!("v1,{other}")), Err(VerifyError::WrongSignature));
    assert_eq!(check(id, "v1a,x"), Err(VerifyError::MalformedSignature));
    let too_many = [signature; 9].join(" ");
    assert_eq!(check(id, &too_many), Err(VerifyError::MalformedSignature));
}

#[test]
fn vector_of_github_verifies() {
    let signature = json!({"scheme": "hmac", "header": "X-Hub-Signature-256", "prefix": "sha256="});
    let file = configured(&["It's a Secret to Everybody"], &signature);
    let config = file.webhook_keys().config(a()).unwrap();
    let value = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let check = |value: &str, body: &str| {
        verified_at(a(), config, &headers(&[("x-hub-signature-256", value)]), body.as_bytes(), NOW).map(|_| ())
    };
    assert_eq!(check(value, "Hello, World!"), Ok(()));
    assert_eq!(check(value, "Hello, World?"), Err(VerifyError::WrongSignature));
    assert_eq!(check(&value.replace("sha256=", ""), "Hello, World!"), Err(VerifyError::MalformedSignature));
}

/// The vectors of octokit/webhooks-methods.js, and one made by the code of stripe-node.
#[test]
fn examples_verify_what_the_vendors_sign() {
    let github = "sha256=4864d2759938a15468b5df9ade20bf161da9b4f737ea61794142f3484236bda3";
    let stripe = "t=1767225600,v1=4a942ef9477fb7b15b98664cf7ff2c2543984c1fa6bdf3520b48dcb25bcd1fe4";
    for (name, key, header, value, body) in [
        ("github", "mysecret", "x-hub-signature-256", github, r#"{"foo":"bar"}"#),
        ("stripe", "whsec_test", "stripe-signature", stripe, "{}"),
    ] {
        let text = std::fs::read_to_string(folder().join(format!("{name}.json"))).unwrap();
        let example: Value = serde_json::from_str(&text).unwrap();
        let file = configured(&[key], &example[format!("x-{name}")]["signature"]);
        let config = file.webhook_keys().config(a()).unwrap();
        let check =
            |body: &str| verified_at(a(), config, &headers(&[(header, value)]), body.as_bytes(), NOW).map(|_| ());
        assert_eq!(check(body), Ok(()), "{name}");
        assert_eq!(check(&format!("{body} ")), Err(VerifyError::WrongSignature), "{name}");
    }
}

#[test]
fn fields_of_a_header_may_be_separated_by_a_space() {
    let body = br#"{"id":"e1"}"#;
    let signature = json!({"scheme": "hmac", "header": "x-sig", "timestamp_field": "t", "signature_field": "v1"});
    let file = configured(&["key"], &signature);
    let config = file.webhook_keys().config(a()).unwrap();
    let signed = sign_as_configured(a(), config, "https://example.com", body, NOW).unwrap();
    let [(name, value)] = signed.headers.as_slice() else { panic!("{:?}", signed.headers) };
    let with = |value: &str| verified_at(a(), config, &headers(&[(name.as_str(), value)]), body, NOW).is_ok();
    assert!(with(value) && with(&value.replace(',', ", ")) && with(&format!("{value}, v0=old")));
    assert!(!with(&value.replace("v1=", "v1 =")) && !with(&value.replace(',', ";")));
}

#[test]
fn shared_secret_must_be_asked_for() {
    let file = configured(&["other", "secret"], &json!({"scheme": "shared_secret", "header": "Authorization"}));
    let config = file.webhook_keys().config(a()).unwrap();
    let check =
        |pairs: &[(&str, &str)]| verified_at(a(), config, &headers(pairs), b"{}", NOW).map(|one| one.key_index());
    assert!(config.is_unsigned());
    assert_eq!(check(&[("authorization", "Bearer secret")]), Ok(1));
    assert_eq!(check(&[("authorization", "Bearer Secret")]), Err(VerifyError::WrongSignature));
    assert_eq!(
        check(&[("authorization", "Bearer secret"), ("authorization", "Bearer secret")]),
        Err(VerifyError::MalformedSignature)
    );
    assert_eq!(check(&[]), Err(VerifyError::MissingSignature));
}

mod random {
    use super::*;

    proptest::proptest! {
        #![proptest_config(switchhook_random::config(256, None))]

        #[test]
        fn no_body_panics(body in ".{0,200}", at in "[0-9eE.+-]{0,30}", kind in "confirmed|end|[a-z]{0,5}") {
            let bodies = [body.clone(), format!(r#"{{"id":{body:?},"at":{at},"kind":"{kind}"}}"#), format!(r#"{{"at":"{at}","kind":["{kind}"]}}"#)];
            let entry = json!({
                "keys": ["key"], "signature": {"scheme": "hmac", "header": "x-sig"},
                "events": {"event_id": ["/id", "/kind"], "type": "/kind", "call_id": "/id", "time": "/at", "sequence": "/at",
                           "attempt": "/at", "rules": [{"when": {"/kind/0": "end"}, "event": "completed"},
                                                       {"when": {"type": "end"}, "has": ["/id"], "event": "busy"}]},
            });
            let file = crate::providers_file(&json!({"x-a": entry}).to_string()).unwrap();
            let config = file.webhook_keys().config(a()).unwrap();
            for body in bodies {
                let reading = read(a(), config, body.as_bytes());
                proptest::prop_assert!(reading.event_id().as_str().starts_with("x-a:"));
            }
        }
    }
}

/// A provider that renames the field of the call's id would go unnoticed otherwise. And nobody is called because of a webhook about a call.
#[test]
fn first_rule_that_applies_decides_also_if_the_webhook_names_no_call() {
    let rule = |event: &str| json!({"when": {"type": "end"}, "event": event});
    let shown_by = |rules: &[Value], body: &Value| {
        let entry = json!({
            "keys": ["a key of the tests, as long as it must be"],
            "signature": {"scheme": "hmac", "header": "x-sig"},
            "events": {
                "event_id": "/id", "type": "/kind", "call_id": "/call", "entity_id": "/booking", "to": "/phone",
                "time": "/at", "starts_at": "/start", "rules": rules,
                "booked_call": {"providers": ["retell"], "from": "+14155550100", "before_minutes": 60},
            },
        });
        shown(&read(a(), &config_of(&entry), body.to_string().as_bytes()))
    };
    let body = json!({
        "id": "e1", "kind": "end", "booking": "b1", "phone": "+14155550123", "at": "2026-01-01T00:00:00Z",
        "start": "2026-01-05T15:00:00Z",
    });
    let with_call = |call: &Value| {
        let mut body = body.clone();
        body["call"] = call.clone();
        body
    };
    let later_rules = [rule("booked"), json!({"event": "received"})];
    let rules = [&[rule("completed")][..], &later_rules].concat();
    assert_eq!(shown_by(&rules, &body), "quarantined: the event names no call");
    let event = shown_by(&rules, &with_call(&json!("c1")));
    assert!(event.contains("of x-a:c1, attempt x-a:c1: implied ringing"), "{event}");

    // The rule applies only to webhooks that have an id of a call.
    let mut of_call = rule("completed");
    of_call["has"] = json!(["type", "/call"]);
    let rules = [&[of_call][..], &later_rules].concat();
    let without_id = [json!(null), json!(" "), json!(true), json!(7.5), json!(["c1"])].map(|call| with_call(&call));
    for body in [&[body.clone()][..], &without_id].concat() {
        let event = shown_by(&rules, &body);
        assert!(event.contains("booked 2026-01-05"), "{body}: {event}");
    }
    for call in [json!("c1"), json!(7)] {
        let event = shown_by(&rules, &with_call(&call));
        assert!(event.contains("completed"), "{call}: {event}");
    }
    let booked = json!({"when": {"type": "booked"}, "event": "booked"});
    let received = |place: &str| shown_by(&[json!({"has": [place], "event": "received"}), booked.clone()], &body);
    assert!(received("/booking").contains("received end"), "{}", received("/booking"));
    assert_eq!(received("/call"), "recorded end of entity:x-a:b1");
}

/// Everything that a webhook's sender writes is bounded in the event, because the event must fit into a message.
#[test]
fn id_of_the_replaced_booking_is_bounded() {
    let (provider, file) = example("calcom");
    let config = file.webhook_keys().config(provider).unwrap();
    let path = folder().join("calcom/rescheduled.json");
    let mut body: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    body["payload"]["rescheduleUid"] = json!("k".repeat(100_000));
    let Reading::Event(event) = read(provider, config, body.to_string().as_bytes()) else { panic!("no event") };
    let Some(BookingReport::Booked(booked)) = event.booking.as_deref() else { panic!("{event:?}") };
    assert!(
        booked.replaces.as_ref().is_some_and(|id| id.len() < 300),
        "{:?}",
        booked.replaces.as_ref().map(String::len)
    );
    assert!(replaced_booking(&event).is_some());
}
