//! Meaning of generic events.

use serde_json::{Value, json};
use switchhook_domain::{
    AttemptKey, CallEvent, CallId, EventId, EventKind, Origin, PhoneNumber, Provider, ProviderEvent, Timestamp,
};
use switchhook_providers::Reading;

use super::{RECEIVED_AT, generic, ids, into_event, kinds, read_body};

fn call_event(kind: EventKind, implied: bool, millis: Option<i64>) -> CallEvent {
    CallEvent { implied, ..CallEvent::new(kind, millis.map(Timestamp::from_millis)) }
}

#[test]
fn generic_tutorial_event_is_read() {
    let body = r#"{"event_id":"evt_8f1a2c","appointment_id":"appt_123","type":"USER_CONFIRMED","occurred_at":"2025-10-20T12:14:05Z","call":{"sid":"CAxxxx","to":"+447700900000","from":"+4420xxxxxxx"},"meta":{"attempt":2}}"#;
    assert_eq!(
        read_body(Provider::Generic, "", body.as_bytes()),
        Reading::Event(ProviderEvent {
            attempt: Some(AttemptKey::new("generic:CAxxxx")),
            provider_call_id: Some("CAxxxx".to_owned()),
            appointment_id: Some("appt_123".to_owned()),
            from: Some(PhoneNumber::new("+4420xxxxxxx")),
            to: Some(PhoneNumber::new("+447700900000")),
            call_events: vec![
                call_event(EventKind::Ringing, true, None),
                call_event(EventKind::InProgress, true, None),
                call_event(EventKind::UserConfirmed, false, Some(1_760_962_445_000)),
            ],
            ..ProviderEvent::new(
                EventId::new("generic:evt_8f1a2c"),
                Origin::Provider(Provider::Generic),
                "USER_CONFIRMED",
                CallId::new("appointment:appt_123"),
                RECEIVED_AT,
            )
        })
    );
}

#[test]
fn generic_names_mean_the_same_in_both_spellings() {
    for (lower, upper, expected) in [
        ("call.initiated", "CALL_STARTED", "initiated"),
        ("call.ringing", "RINGING", "ringing"),
        ("call.in_progress", "ANSWERED", "~ringing in_progress"),
        ("call.completed", "ENDED", "~ringing completed"),
        ("call.failed", "FAILED", "failed"),
        ("call.busy", "BUSY", "~ringing busy"),
        ("call.no_answer", "NO_ANSWER", "~ringing no_answer"),
        ("call.no_answer", "TIMEOUT", "~ringing no_answer"),
        ("call.canceled", "CANCELED", "canceled"),
        ("voicemail.detected", "VOICEMAIL_DETECTED", "~ringing ~in_progress voicemail_detected"),
        ("user.confirmed", "USER_CONFIRMED", "~ringing ~in_progress user_confirmed"),
        ("user.declined", "USER_DECLINED", "~ringing ~in_progress user_declined"),
        ("retry.scheduled", "RETRY_SCHEDULED", "retry_scheduled"),
    ] {
        assert_eq!(kinds(&generic(json!({"event_type": lower, "call_id": "c"}))), expected);
        assert_eq!(kinds(&generic(json!({"type": upper, "call_id": "c"}))), expected);
    }
    // If both fields are present, `event_type` wins.
    assert_eq!(kinds(&generic(json!({"event_type": "RINGING", "type": "BUSY", "call_id": "c"}))), "ringing");
}

#[test]
fn generic_belongs_to_the_call_it_names() {
    let of = |mut body: Value| {
        body["type"] = json!("RINGING");
        ids(generic(body))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(of(json!({"call_id": "x"})), ("x".to_owned(), None, None));
    assert_eq!(
        of(json!({"call_id": "x", "appointment_id": 7, "call": {"sid": "s"}})),
        ("x".to_owned(), some("generic:s"), some("7"))
    );
    assert_eq!(
        of(json!({"call": {"sid": "s"}, "meta": {"switchhook_call_id": "x", "switchhook_attempt": 2}})),
        ("x".to_owned(), some("2"), None)
    );
    assert_eq!(
        of(json!({"data": {"appointment_id": "a"}, "meta": {"appointment_id": ""}})),
        ("appointment:a".to_owned(), None, some("a"))
    );
    assert_eq!(of(json!({"call": {"sid": "s"}})), ("generic:s".to_owned(), some("generic:s"), None));
}

#[test]
fn generic_time_that_cannot_be_read_is_no_time() {
    let at = |body: Value| {
        let mut body = body;
        body["type"] = json!("RINGING");
        body["call_id"] = json!("c");
        into_event(generic(body)).call_events[0].occurred_at
    };
    let noon = Some(Timestamp::from_millis(1_760_961_600_000));
    assert_eq!(at(json!({"occurred_at": "2025-10-20T12:00:00Z"})), noon);
    assert_eq!(at(json!({"created_at": "2025-10-20T14:00:00+02:00"})), noon);
    assert_eq!(at(json!({"occurred_at": "soon", "created_at": "2025-10-20T12:00:00Z"})), noon);
    assert_eq!(at(json!({"occurred_at": "soon"})), None);
    assert_eq!(at(json!({"occurred_at": 1_760_961_600})), None);
}
