//! Webhooks that are recorded or quarantined, and limits that hold for every provider.

use serde_json::json;
use switchhook_domain::{EventId, Provider};
use switchhook_providers::{ID_BYTES_MAX, ReadError, Reading};

use super::{generic, ids, into_event, kinds, read_body, retell, twilio};

#[test]
fn unsigned_query_decides_nothing() {
    let body = json!({"event": "call_started", "call": {"call_id": "c"}}).to_string();
    let reading = read_body(Provider::Retell, "switchhook_call_id=x&appointment_id=a", body.as_bytes());
    assert_eq!(ids(reading), ("retell:c".to_owned(), Some("retell:c".to_owned()), None));
}

#[test]
fn unknown_type_wins_over_a_missing_call_id() {
    let body = br#"{"event":"chat_ended","chat":{"chat_id":"x"}}"#;
    let Reading::Recorded { event_id, event_type, call_id } = read_body(Provider::Retell, "", body) else {
        panic!("recorded");
    };
    assert!(event_id.as_str().starts_with("retell:sha256-"));
    assert_eq!((event_type.as_str(), call_id), ("chat_ended", None));

    let stripe = json!({"id": "evt_1", "object": "event", "type": "payment_intent.succeeded", "created": 1_760_962_445, "data": {"object": {}}});
    assert_eq!(kinds(&generic(stripe)), "recorded");
    assert_eq!(kinds(&twilio("", "")), "recorded");
    assert_eq!(kinds(&twilio("", "CallStatus=on-hold")), "recorded");
}

#[test]
fn known_type_without_a_call_is_quarantined() {
    for reading in [
        retell("call_ended", json!({"call_id": ""})),
        retell("call_analyzed", json!(null)),
        twilio("", "CallStatus=completed"),
        twilio("", "AnsweredBy=human&CallSid="),
        generic(json!({"event_id": "evt_1", "type": "RINGING"})),
    ] {
        let Reading::Quarantined { event_id, error } = reading else { panic!("{reading:?}") };
        assert_eq!(error, ReadError::MissingCallId);
        assert!(event_id.as_str().contains(":sha256-"), "{event_id}");
    }
}

/// The signatures of these providers do not cover the order of the parameters.
#[test]
fn quarantined_form_in_another_order_is_the_same_event() {
    for provider in [Provider::Twilio, Provider::SignalWire, Provider::Plivo] {
        let id = |form: &str| {
            let reading = read_body(provider, "", form.as_bytes());
            let Reading::Quarantined { event_id, .. } = reading else { panic!("{reading:?}") };
            event_id
        };
        assert_eq!(id("CallStatus=ringing&From=a"), id("From=a&CallStatus=ringing"), "{provider}");
        assert_ne!(id("CallStatus=ringing&From=a"), id("CallStatus=ringing&From=b"), "{provider}");
    }
}

#[test]
fn unreadable_bodies_are_quarantined_under_the_hash_of_the_body() {
    let deep = format!(r#"{{"event":"call_analyzed","call":{{"call_id":"c","call_analysis":{}"#, "[".repeat(100_000));
    for (body, expected) in [
        (b"not json".as_slice(), ReadError::InvalidJson { line: 1, column: 2 }),
        (b"", ReadError::InvalidJson { line: 1, column: 0 }),
        (b"{\"event\":\"\xff\"}", ReadError::InvalidUtf8),
        (b"[{\"event\":\"call_ended\"}]", ReadError::NotAnObject),
        (b"\"call_ended\"", ReadError::NotAnObject),
        (b"{}", ReadError::MissingEventType),
        (b"{\"event\":\"\",\"type\":\" \"}", ReadError::MissingEventType),
        (
            b"{\"event\":\"a\",\"type\":\"a\",\"event\":\"b\",\"type\":\"b\"}",
            ReadError::RepeatedField { line: 1, column: 31 },
        ),
        (deep.as_bytes(), ReadError::InvalidJson { line: 1, column: 189 }),
    ] {
        let Reading::Quarantined { event_id, error } = read_body(Provider::Retell, "", body) else {
            panic!("{}", String::from_utf8_lossy(body));
        };
        assert_eq!(error, expected);
        assert!(event_id.as_str().starts_with("retell:sha256-"), "{event_id}");
    }
    let reading = read_body(Provider::Generic, "", b"");
    let event_id = EventId::new("generic:sha256-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    let error = ReadError::InvalidJson { line: 1, column: 0 };
    assert_eq!(reading, Reading::Quarantined { event_id, error });
    let json = read_body(Provider::Twilio, "bodySHA256=00", b"CallSid=CA1&CallStatus=ringing");
    assert_eq!(kinds(&json), "the body is not JSON at line 1, column 1");
}

#[test]
fn foreign_ids_are_bounded() {
    let long = "x".repeat(ID_BYTES_MAX);
    let event = into_event(generic(json!({
        "event_id": long,
        "type": "RINGING",
        "call_id": "a\u{0}b",
        "appointment_id": long.clone() + "x",
        "call": {"sid": "s\n"},
    })));
    for id in [
        event.event_id.as_str().strip_prefix("generic:").unwrap(),
        event.call_id.as_str(),
        event.attempt.as_ref().unwrap().as_str().strip_prefix("generic:").unwrap(),
        event.provider_call_id.as_deref().unwrap(),
        event.appointment_id.as_deref().unwrap(),
    ] {
        assert!(id.starts_with("sha256-") && id.len() == 71, "{id}");
    }
    // Every other character of a foreign id is kept.
    let event = into_event(generic(json!({"event_id": "a/b?c#d é", "type": "RINGING", "call_id": "c"})));
    assert_eq!(event.event_id.as_str(), "generic:a/b?c#d é");
}

#[test]
fn reading_shows_no_phone_number() {
    let call = json!({"call_id": "c", "from_number": "+4420SECRET", "to_number": "+4477SECRET"});
    assert!(!format!("{:?}", retell("call_started", call)).contains("SECRET"));
    let broken = br#"{"event":"call_started","call":{"from_number":"+4420SECRET","#;
    let repeated = br#"{"event":"+4420SECRET","event":"+4420SECRET"}"#;
    for body in [broken.as_slice(), repeated, b"\"+4420SECRET\""] {
        let reading = read_body(Provider::Retell, "", body);
        assert!(!format!("{reading:?} {}", kinds(&reading)).contains("SECRET"));
    }
}
