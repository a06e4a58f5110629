//! Meaning of Daily's events.

use serde_json::{Value, json};
use switchhook_domain::{Direction, PhoneNumber, Timestamp};
use switchhook_providers::Reading;

use super::{daily, ids, into_event, kinds};

fn event(event_type: &str, more: Value) -> Reading {
    let mut payload = json!({"session_id": "s1", "room": "r", "timestamp": 1_760_962_443});
    payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    daily(json!({"version": "1.0.0", "type": event_type, "id": "e1", "payload": payload, "event_ts": 1_760_962_444.5}))
}

#[test]
fn daily_types_say() {
    for (event_type, expected) in [
        ("dialout.connected", "ringing"),
        ("dialout.answered", "~ringing in_progress"),
        // It proves no answer: Daily documents no event that says why nobody answered.
        ("dialout.stopped", "completed"),
        ("dialout.error", "failed"),
        ("dialout.warning", "recorded"),
        ("dialout.new", "recorded"),
        ("dialin.ready", "recorded"),
        ("dialin.connected", "~ringing in_progress"),
        ("dialin.stopped", "completed"),
        ("dialin.error", "failed"),
        ("dialin.warning", "recorded"),
        ("meeting.ended", "recorded"),
        ("participant.left", "recorded"),
        ("waiting-participant.joined", "recorded"),
        ("recording.error", "recorded"),
        ("Dialout.answered", "recorded"),
    ] {
        assert_eq!(kinds(&event(event_type, json!({}))), expected, "{event_type}");
    }
    for (body, expected) in [
        (json!({}), "the event names no type"),
        (json!({"id": "e1", "payload": {"session_id": "s1"}}), "the event names no type"),
        (json!({"type": "dialout.answered", "id": "e1"}), "the event names no call"),
        (json!({"type": "dialout.answered", "id": "e1", "payload": ["s1"]}), "the event names no call"),
    ] {
        assert_eq!(kinds(&daily(body.clone())), expected, "{body}");
    }
}

#[test]
fn body_that_tries_a_url_is_recorded() {
    let Reading::Recorded { event_id, event_type, call_id } = daily(json!({"test": "test"})) else { panic!() };
    assert_eq!((event_type.as_str(), call_id), ("test", None));
    // Daily sends the same body when a webhook is activated again.
    assert_eq!(event_id, *daily(json!({"test": "test"})).event_id());
    // The test of a URL has no type. An event that has one is read by its type.
    assert_eq!(kinds(&daily(json!({"test": "test", "type": "dialout.answered"}))), "the event names no call");
}

#[test]
fn session_is_the_call_and_a_user_id_may_name_the_appointment() {
    let of = |user_id: Value| ids(event("dialout.answered", json!({"user_id": user_id})));
    let own = || ("daily:s1".to_owned(), Some("daily:s1".to_owned()), None);
    assert_eq!(
        of(json!("appointment:apt_7")),
        ("appointment:apt_7".to_owned(), Some("daily:s1".to_owned()), Some("apt_7".to_owned()))
    );
    // Any other user id names a participant, who may have many calls.
    for user_id in [json!("apt_7"), json!("appointment:"), json!("appointment: "), json!("Appointment:7"), json!(null)]
    {
        assert_eq!(of(user_id.clone()), own(), "{user_id}");
    }
    // Somebody who calls in chooses a name and SIP headers. None of them moves the call.
    let headers =
        json!({"user_id": "", "sip_headers": {"switchhook_call_id": "call-1"}, "switchhook_call_id": "call-1"});
    assert_eq!(ids(event("dialin.connected", headers)), own());
}

#[test]
fn failure_without_a_session_is_about_no_call() {
    for event_type in ["dialout.error", "dialin.error"] {
        let payload =
            json!({"room": "r", "user_id": "appointment:apt_7", "error_msg": "x", "timestamp": 1_760_962_443});
        let reading = daily(json!({"type": event_type, "id": "e1", "payload": payload}));
        let Reading::Recorded { call_id, .. } = reading else { panic!("{reading:?}") };
        assert_eq!(call_id, None);
    }
}

#[test]
fn numbers_and_times_are_read() {
    let shown = |reading: Reading| {
        let event = into_event(reading);
        let number = |number: Option<PhoneNumber>| number.map(|number| number.as_str().to_owned());
        let at = event.call_events.last().and_then(|event| event.occurred_at).map(Timestamp::as_millis);
        (event.direction.unwrap(), number(event.from), number(event.to), at)
    };
    let text = |text: &str| Some(text.to_owned());
    let at = Some(1_760_962_443_000);
    let numbers = json!({"origin": "+442079460018", "destination": "+447700900000", "caller_id": "id-of-a-number"});
    assert_eq!(
        shown(event("dialout.answered", numbers)),
        (Direction::Outbound, text("+442079460018"), text("+447700900000"), at)
    );
    // The caller id is Daily's id of a number, and not the number.
    assert_eq!(
        shown(event(
            "dialout.answered",
            json!({"destination": "sip:a@example.com", "caller_id": "id", "timestamp": "1760962443"})
        )),
        (Direction::Outbound, None, text("sip:a@example.com"), at)
    );
    let inbound = json!({"sip_from": "sip:b@example.com", "destination": "x"});
    assert_eq!(shown(event("dialin.connected", inbound)), (Direction::Inbound, text("sip:b@example.com"), None, at));
    for timestamp in [json!(null), json!("soon"), json!(-1), json!(1_760_962_443.5), json!(1_760_962_443_000_u64)] {
        let shown = shown(event("dialout.answered", json!({"timestamp": timestamp})));
        assert_eq!(shown.3, None, "{timestamp}");
    }
}

#[test]
fn event_id_is_dailys_own_with_the_type() {
    let id = |body: Value| daily(body).event_id().to_string();
    let payload = json!({"session_id": "s1", "timestamp": "1760962443"});
    assert_eq!(
        id(json!({"type": "dialout.answered", "id": "2868-dial-out-ans-s1", "payload": payload, "event_ts": 1.5})),
        "daily:2868-dial-out-ans-s1:dialout.answered"
    );
    // Without an id, session, type and time identify the event. The time of the delivery does not count.
    for event_ts in [1.5, 2.5] {
        assert_eq!(
            id(json!({"type": "dialout.answered", "payload": payload, "event_ts": event_ts})),
            "daily:s1:dialout.answered:1760962443"
        );
    }
    assert!(id(json!({"type": "dialout.answered", "payload": {"session_id": "s1"}})).starts_with("daily:sha256-"));
}
