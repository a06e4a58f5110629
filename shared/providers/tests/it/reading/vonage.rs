//! Meaning of Vonage's events.

use serde_json::{Value, json};
use switchhook_domain::{Direction, Timestamp};
use switchhook_providers::Reading;

use super::{ids, into_event, kinds, read_body, vonage};

fn event(more: Value) -> Reading {
    let mut event = json!({"uuid": "v1", "timestamp": "2025-10-20T12:13:20.000Z"});
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    vonage(event)
}

#[test]
fn vonage_statuses_say() {
    for (fields, expected) in [
        (json!({"status": "started"}), "initiated"),
        (json!({"status": "ringing"}), "ringing"),
        (json!({"status": "answered"}), "~ringing in_progress"),
        (json!({"status": "human"}), "~ringing ~in_progress"),
        (json!({"status": "machine"}), "~ringing ~in_progress voicemail_detected"),
        (json!({"status": "machine", "sub_state": "beep_start"}), "~ringing ~in_progress voicemail_detected"),
        (json!({"status": "busy"}), "~ringing busy"),
        (json!({"status": "cancelled"}), "canceled"),
        (json!({"status": "unanswered", "detail": "timeout"}), "~ringing no_answer"),
        (json!({"status": "unanswered", "detail": "unavailable"}), "~ringing no_answer"),
        (json!({"status": "timeout"}), "~ringing no_answer"),
        (json!({"status": "rejected"}), "~ringing busy"),
        (json!({"status": "rejected", "detail": "restricted"}), "failed"),
        (json!({"status": "rejected", "detail": "declined"}), "~ringing busy"),
        (json!({"status": "rejected", "detail": "invalid_number"}), "failed!"),
        (json!({"status": "failed", "detail": "cannot_route"}), "failed"),
        (json!({"status": "failed", "detail": "number_out_of_service"}), "failed!"),
        (json!({"status": "failed", "detail": "number_out_of_service", "duration": "0"}), "failed!"),
        (
            json!({"status": "failed", "detail": "number_out_of_service", "duration": "3"}),
            "~ringing ~in_progress failed",
        ),
        (json!({"status": "failed", "duration": "3"}), "~ringing ~in_progress failed"),
        (json!({"status": "completed", "duration": "78"}), "~ringing ~in_progress completed"),
        (json!({"status": "completed", "duration": 78}), "~ringing ~in_progress completed"),
        // It proves no answer: Vonage sends it after every ending.
        (json!({"status": "completed", "duration": "0", "start_time": null}), "completed"),
        (json!({"status": "completed"}), "completed"),
        (json!({"status": "disconnected"}), "recorded"),
        (json!({"status": "record"}), "recorded"),
        (json!({"status": "input"}), "recorded"),
        (json!({"status": "transfer"}), "recorded"),
        (json!({"status": "error", "reason": "x"}), "recorded"),
        (json!({"status": "Completed"}), "recorded"),
        (json!({"event": "new"}), "recorded"),
        (json!({}), "the event names no type"),
    ] {
        assert_eq!(kinds(&event(fields.clone())), expected, "{fields}");
    }
    assert_eq!(kinds(&vonage(json!({"status": "ringing"}))), "the event names no call");
    assert_eq!(kinds(&vonage(json!({"call_uuid": "v1", "status": "human"}))), "~ringing ~in_progress");
}

/// Vonage gives these events neither a status nor a name.
#[test]
fn vonage_event_without_a_name_is_known_by_its_fields() {
    let name = |body: Value| {
        let reading = vonage(body);
        let Reading::Recorded { event_type, call_id, .. } = reading else { panic!("{reading:?}") };
        (event_type.to_string(), call_id.map(|id| id.to_string()))
    };
    let of_call = |name: &str| (name.to_owned(), Some("vonage:v1".to_owned()));
    let conversation = "CON-00000000-0000-4000-8000-000000000001";
    let transfer = json!({"conversation_uuid_from": conversation, "conversation_uuid_to": "CON-2", "uuid": "v1"});
    assert_eq!(name(transfer), of_call("transfer"));
    for input in [
        json!({"dtmf": "42", "timed_out": true}),
        json!({"dtmf": "", "timed_out": true}),
        json!({"dtmf": {"digits": null, "timed_out": true}}),
        json!({"speech": {"results": [{"text": "yes", "confidence": "0.9"}]}, "dtmf": null}),
        json!({"speech": {"error": {"reason": "ERR1"}}}),
    ] {
        let mut body = json!({"uuid": "v1", "conversation_uuid": conversation});
        body.as_object_mut().unwrap().extend(input.as_object().unwrap().clone());
        assert_eq!(name(body), of_call("input"), "{input}");
    }
    let record = json!({"recording_url": "https://api.nexmo.com/v1/files/1", "conversation_uuid": conversation});
    assert_eq!(name(record), ("record".to_owned(), None));
    assert_eq!(name(json!({"reason": "x", "conversation_uuid": conversation})), ("error".to_owned(), None));
    // A status or a name says more than the fields.
    assert_eq!(kinds(&event(json!({"status": "ringing", "recording_url": "x", "dtmf": "1"}))), "ringing");
    assert_eq!(name(json!({"event": "new", "uuid": "v1", "dtmf": "1"})), of_call("new"));
}

#[test]
fn vonage_times_are_those_of_the_call() {
    let times = |fields: Value| {
        let event = into_event(event(fields));
        event.call_events.iter().map(|event| event.occurred_at).collect::<Vec<_>>()
    };
    let at = |seconds: i64| Some(Timestamp::from_millis(1_760_962_400_000 + seconds * 1000));
    let ended = json!({"status": "completed", "duration": "5", "start_time": "2025-10-20T12:13:10.000Z", "end_time": "2025-10-20T12:13:15.000Z"});
    assert_eq!(times(ended), [at(-10), at(-10), at(-5)]);
    // Without an offset, a time counts as UTC.
    let record = json!({"status": "completed", "duration": "5", "start_time": "2025-10-20 12:13:10", "end_time": "2025-10-20 12:13:15"});
    assert_eq!(times(record), [at(-10), at(-10), at(-5)]);
    assert_eq!(times(json!({"status": "busy"})), [at(0), at(0)]);
    assert_eq!(times(json!({"status": "ringing", "timestamp": "soon"})), [None]);
}

#[test]
fn vonage_event_ids_repeat_only_for_the_same_event() {
    let id = |fields: Value| event(fields).event_id().to_string();
    assert_eq!(id(json!({"status": "ringing"})), "vonage:v1:ringing:2025-10-20T12:13:20.000Z");
    assert_eq!(id(json!({"status": "ringing", "rate": "0.1"})), "vonage:v1:ringing:2025-10-20T12:13:20.000Z");
    // Two results of answering-machine detection are two events.
    let machine = |timestamp: &str| id(json!({"status": "machine", "timestamp": timestamp}));
    assert_ne!(machine("2025-10-20T12:13:20.000Z"), machine("2025-10-20T12:13:25.000Z"));
    assert_ne!(id(json!({"status": "ringing", "timestamp": null})), id(json!({"status": "ringing", "timestamp": 0.5})));
    // Two recordings may end at the same time.
    let recording = |name: &str| id(json!({"status": "record", "recording_uuid": name}));
    assert_ne!(recording("1"), recording("2"));
    assert_eq!(recording("1"), recording("1"));
    // A record of the API is another event than the webhook about the same ending.
    let record = json!({"status": "completed", "event": "call_record", "timestamp": null});
    assert_eq!(id(record), "vonage:v1:completed:call_record");
}

#[test]
fn vonage_call_is_known_by_its_uuid_alone() {
    let some = |text: &str| Some(text.to_owned());
    let body = json!({"uuid": "v1", "status": "ringing", "switchhook_call_id": "unasked", "appointment_id": "unasked"});
    let reading = read_body(
        switchhook_domain::Provider::Vonage,
        "switchhook_call_id=unsigned&switchhook_attempt=2&appointment_id=unsigned",
        body.to_string().as_bytes(),
    );
    assert_eq!(ids(reading), ("vonage:v1".to_owned(), some("vonage:v1"), None));
}

#[test]
fn vonage_numbers_get_their_plus() {
    let event = into_event(event(
        json!({"status": "ringing", "direction": "inbound", "from": "447700900123", "to": "442079460018"}),
    ));
    assert_eq!(event.direction, Some(Direction::Inbound));
    assert_eq!(event.from.unwrap().as_str(), "+447700900123");
    assert_eq!(event.to.unwrap().as_str(), "+442079460018");
}
