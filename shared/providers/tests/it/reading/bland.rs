//! Meaning of Bland's webhooks.

use serde_json::{Value, json};
use switchhook_domain::{CallId, Direction, Timestamp};
use switchhook_providers::Reading;

use super::{bland, ids, into_event, kinds};

fn call(more: Value) -> Reading {
    let mut call = json!({
        "call_id": "b1", "completed": true, "inbound": false, "created_at": "2025-10-20T12:13:00.104213+00:00",
    });
    call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    bland(call)
}

const ANSWERED: &str = "~ringing ~in_progress completed";
const CUT_OFF: &str = "~ringing ~in_progress failed";

#[test]
fn bland_calls_end_as_their_fields_say() {
    for (fields, expected) in [
        (json!({"answered_by": "human"}), ANSWERED),
        (json!({"answered_by": "human", "status": "completed", "queue_status": "complete"}), ANSWERED),
        (json!({"answered_by": "human", "queue_status": "complete_error"}), ANSWERED),
        (json!({"answered_by": "human", "queue_status": "call_error"}), CUT_OFF),
        (json!({"answered_by": "human", "status": "failed"}), CUT_OFF),
        // A person who has answered is not called again, whatever the carrier says.
        (json!({"answered_by": "human", "status": "no-answer", "call_length": 0}), ANSWERED),
        (json!({"answered_by": "voicemail"}), "~ringing ~in_progress ~voicemail_detected completed"),
        (
            json!({"answered_by": "voicemail", "status": "failed"}),
            "~ringing ~in_progress ~voicemail_detected completed",
        ),
        (json!({"answered_by": "no-answer"}), "~ringing no_answer"),
        (json!({"answered_by": "no-answer", "status": "completed", "call_length": 0.5}), "~ringing no_answer"),
        (json!({"answered_by": "no-answer", "status": "busy"}), "~ringing busy"),
        (json!({"answered_by": "no-answer", "status": "failed", "call_length": 0}), "failed"),
        (json!({"answered_by": "unknown", "status": "completed", "call_length": 0.2}), ANSWERED),
        (json!({"answered_by": "unknown", "status": "completed", "call_length": "0.2"}), ANSWERED),
        (json!({"answered_by": "unknown", "status": "completed", "call_length": 0}), "completed"),
        (json!({"answered_by": "unknown", "queue_status": "complete", "call_length": 1}), "completed"),
        (
            json!({"answered_by": "unknown", "status": "completed", "queue_status": "call_error", "call_length": 1}),
            "completed",
        ),
        (json!({"status": "completed", "call_ended_by": "USER", "call_length": 1.3}), ANSWERED),
        (json!({"status": "completed", "call_ended_by": "USER", "call_length": 0}), "completed"),
        (json!({"status": "completed", "call_ended_by": "ASSISTANT", "call_length": 1.3}), ANSWERED),
        (json!({"status": "unknown", "call_length": 1.3, "completed": true}), "completed"),
        (json!({"status": "busy"}), "~ringing busy"),
        (json!({"status": "no-answer"}), "~ringing no_answer"),
        (json!({"status": "canceled"}), "canceled"),
        (json!({"status": "canceled", "call_length": 0.3}), "completed"),
        (json!({"status": "failed", "call_length": 0}), "failed"),
        (json!({"completed": false, "status": "failed", "call_length": 0}), "failed"),
        (json!({"status": "failed", "call_length": 0.3}), "completed"),
        // Somebody may have answered before it failed.
        (json!({"status": "failed"}), "completed"),
        (json!({"status": "failed", "call_length": null}), "completed"),
        (json!({"status": "failed", "call_length": 0, "queue_status": "call_error"}), "completed"),
        (json!({"status": "failed", "call_length": 0, "answered_by": "unknown"}), "completed"),
        (json!({"status": "failed", "call_length": 0, "answered_by": "new"}), "completed"),
        // Nobody who hangs up has not answered.
        (
            json!({"answered_by": "no-answer", "status": "completed", "call_length": 0.5, "call_ended_by": "USER"}),
            ANSWERED,
        ),
        (json!({"queue_status": "pre_queue_error"}), "failed"),
        (json!({"completed": false, "queue_status": "queue_error"}), "failed"),
        // The phone may have rung.
        (json!({"completed": false, "queue_status": "call_error"}), "completed"),
        (json!({"queue_status": "complete_error"}), "completed"),
        // Nothing says whether anybody answered.
        (json!({}), "completed"),
        (json!({"answered_by": null, "status": "completed"}), "completed"),
        // A person or a machine answered, says Bland.
        (json!({"answered_by": null, "status": "completed", "call_length": 1.3}), ANSWERED),
        (json!({"answered_by": "new", "status": "new", "queue_status": "new"}), "completed"),
        // Bland's agent has answered.
        (json!({"inbound": true}), ANSWERED),
        (json!({"inbound": true, "status": "failed"}), CUT_OFF),
    ] {
        assert_eq!(kinds(&call(fields.clone())), expected, "{fields}");
    }
}

#[test]
fn bland_webhooks_of_a_call_that_goes_on_are_stored() {
    for fields in [
        json!({"completed": false}),
        json!({"completed": false, "queue_status": "complete"}),
        json!({"completed": false, "status": "in-progress", "answered_by": "human"}),
        json!({"completed": null, "queue_status": "started"}),
        json!({"completed": null, "status": "new"}),
    ] {
        assert_eq!(kinds(&call(fields.clone())), "recorded", "{fields}");
    }
    assert_eq!(kinds(&bland(json!({"call_id": "b1", "category": "call", "message": "ringing"}))), "recorded");
    assert_eq!(kinds(&bland(json!({"call_id": "b1"}))), "the event names no type");
    assert_eq!(kinds(&bland(json!({"completed": true, "answered_by": "human"}))), "the event names no call");
}

/// Bland's agent briefs a colleague in a call of its own, which may have the metadata of the call that is transferred.
#[test]
fn bland_call_to_a_colleague_changes_nothing() {
    let metadata = json!({"switchhook_call_id": "call-9", "switchhook_attempt": "1"});
    let to_colleague = |flag: Value| {
        call(json!({"call_id": "b2", "answered_by": "voicemail", "is_proxy_agent_call": flag, "metadata": metadata}))
    };
    for flag in [json!(true), json!("true")] {
        let reading = to_colleague(flag);
        let Reading::Recorded { event_id, event_type, call_id } = reading else { panic!("{reading:?}") };
        assert!(event_id.as_str().starts_with("bland:b2:post_call:"), "{event_id}");
        assert_eq!((event_type.as_str(), call_id), ("post_call", Some(CallId::new("call-9"))));
    }
    for flag in [json!(false), json!(null), json!("unheard-of")] {
        let expected = "~ringing ~in_progress ~voicemail_detected completed";
        assert_eq!(kinds(&to_colleague(flag.clone())), expected, "{flag}");
    }
    let own = call(json!({"answered_by": "human", "is_proxy_agent_call": false}));
    assert_eq!(own, call(json!({"answered_by": "human"})));
}

#[test]
fn bland_second_webhook_of_a_call_is_stored() {
    let metadata = json!({"switchhook_call_id": "call-9", "switchhook_attempt": "1"});
    for name in ["citations", "post_transfer_transcript", "live_translation_transcript", "multiple"] {
        let second = |citations: Value| {
            bland(json!({"event_type": name, "call_id": "b1", "citations": citations, "metadata": metadata}))
        };
        let reading = second(json!([]));
        assert_ne!(reading.event_id(), second(json!([1])).event_id());
        let Reading::Recorded { event_id, event_type, call_id } = reading else { panic!("{reading:?}") };
        assert!(event_id.as_str().starts_with(&format!("bland:b1:{name}:")), "{event_id}");
        assert_eq!((event_type.as_str(), call_id), (name, Some(CallId::new("call-9"))));
    }
    // One that shows the call says how it ended.
    assert_eq!(kinds(&call(json!({"event_type": "multiple", "answered_by": "human"}))), ANSWERED);
    assert_eq!(kinds(&bland(json!({"event_type": "citations", "call_id": "b1", "status": "busy"}))), "~ringing busy");
    for event_type in [json!(" "), json!(null), json!(["citations"])] {
        let body = json!({"event_type": event_type, "call_id": "b1", "citations": []});
        assert_eq!(kinds(&bland(body)), "the event names no type", "{event_type}");
    }
}

#[test]
fn bland_decisions_are_those_of_a_person_who_answered() {
    const CONFIRMED: &str = "~ringing ~in_progress user_confirmed ~completed";
    const DECLINED: &str = "~ringing ~in_progress user_declined ~completed";
    for (fields, expected) in [
        (json!({"answered_by": "human", "analysis": {"outcome": "confirmed"}}), CONFIRMED),
        (json!({"answered_by": "human", "analysis": {"appointment_confirmed": false}}), DECLINED),
        (json!({"answered_by": "human", "disposition_tag": "Declined"}), DECLINED),
        (
            json!({"answered_by": "human", "analysis": {"outcome": "confirmed"}, "disposition_tag": "declined"}),
            CONFIRMED,
        ),
        (json!({"answered_by": "human", "analysis": "confirmed", "disposition_tag": "no_outcome"}), ANSWERED),
        (json!({"answered_by": "human", "variables": {"outcome": "confirmed"}}), ANSWERED),
        (
            json!({"answered_by": "voicemail", "disposition_tag": "confirmed"}),
            "~ringing ~in_progress ~voicemail_detected completed",
        ),
        (json!({"answered_by": "no-answer", "disposition_tag": "declined"}), "~ringing no_answer"),
        // Somebody decided, although nothing says who answered.
        (json!({"answered_by": null, "disposition_tag": "confirmed"}), "user_confirmed ~completed"),
        // The analysis of an empty transcript.
        (json!({"call_length": 0, "analysis": {"appointment_confirmed": false}}), "completed"),
    ] {
        assert_eq!(kinds(&call(fields.clone())), expected, "{fields}");
    }
}

#[test]
fn bland_times_are_those_of_the_call() {
    let times = |fields: Value| {
        let event = into_event(call(fields));
        event.call_events.iter().map(|event| event.occurred_at).collect::<Vec<_>>()
    };
    let at = |seconds: i64| Some(Timestamp::from_millis(1_760_962_400_000 + seconds * 1000));
    let human = |more: Value| {
        let mut fields = json!({"answered_by": "human", "started_at": "2025-10-20T12:13:20+00:00"});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        times(fields)
    };
    assert_eq!(human(json!({"call_length": 0.75})), [at(0), at(0), at(45)]);
    // `end_at` is the time at which Bland would have ended the call.
    assert_eq!(human(json!({"end_at": "2025-10-20T12:43:20.000Z"})), [at(0), at(0), None]);
    for length in [json!(-1), json!(1e300), json!("soon"), json!([1])] {
        assert_eq!(human(json!({"call_length": length})), [at(0), at(0), None], "{length}");
    }
    assert_eq!(times(json!({"answered_by": "no-answer"})), [None, None]);
}

#[test]
fn bland_event_ids_repeat_only_for_the_same_meaning() {
    let id = |fields: Value| call(fields).event_id().to_string();
    let sent = json!({"answered_by": "human", "analysis": null, "price": 0.1, "recording_url": "a"});
    let again = json!({"answered_by": "human", "analysis": null, "price": 0.2, "recording_url": "b"});
    assert_eq!(id(sent.clone()), id(again));
    assert!(id(sent.clone()).starts_with("bland:b1:post_call:"));
    // An analysis that was made later, or anew, is another event.
    let confirmed = json!({"answered_by": "human", "analysis": {"outcome": "confirmed", "x": 1}});
    let reordered = json!({"answered_by": "human", "analysis": {"x": 1, "outcome": "confirmed"}});
    assert_ne!(id(sent), id(confirmed.clone()));
    assert_eq!(id(confirmed.clone()), id(reordered));
    // An answer of the API is another event than the webhook about the same call.
    let record = json!({"answered_by": "human", "analysis": {"outcome": "confirmed", "x": 1}, "event": "call_record"});
    assert_eq!(id(record), id(confirmed).replace("post_call", "call_record"));
    let message =
        |text: &str| bland(json!({"call_id": "b1", "category": "call", "message": text})).event_id().to_string();
    assert_ne!(message("a"), message("b"));
    assert_eq!(message("a"), message("a"));
    assert!(message("a").starts_with("bland:b1:call:"));
}

#[test]
fn bland_call_is_known_by_its_metadata_alone() {
    let some = |text: &str| Some(text.to_owned());
    let ours = json!({"switchhook_call_id": "call-1", "switchhook_attempt": "2", "appointment_id": "7"});
    let told = json!({"switchhook_call_id": "unasked", "appointment_id": "unasked"});
    let reading = call(json!({"answered_by": "human", "metadata": ours, "variables": told}));
    assert_eq!(ids(reading), ("call-1".to_owned(), some("2"), some("7")));
    let told = json!({"switchhook_call_id": "unasked", "appointment_id": "unasked"});
    let reading = call(json!({"answered_by": "human", "variables": told, "request_data": told}));
    assert_eq!(ids(reading), ("bland:b1".to_owned(), some("bland:b1"), None));
}

#[test]
fn bland_numbers_and_direction_are_kept() {
    let fields = json!({"inbound": true, "from": "+447700900123", "to": "5551234567"});
    let event = into_event(call(fields));
    assert_eq!(event.direction, Some(Direction::Inbound));
    assert_eq!(event.from.unwrap().as_str(), "+447700900123");
    assert_eq!(event.to.unwrap().as_str(), "5551234567");
}
