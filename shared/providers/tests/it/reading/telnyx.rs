//! Meaning of Telnyx's events.

use serde_json::json;
use switchhook_domain::Provider;
use switchhook_providers::{ReadError, Reading};

use super::{into_event, kinds, read_body, telnyx};

#[test]
fn telnyx_hangup_causes_say() {
    let meaning = |cause: &str, sip: &str| {
        let call = json!({"call_control_id": "v3:c", "hangup_cause": cause, "sip_hangup_cause": sip});
        kinds(&telnyx("call.hangup", call))
    };
    for (cause, expected) in [
        ("call_rejected", "~ringing busy"),
        ("user_busy", "~ringing busy"),
        ("timeout", "~ringing no_answer"),
        ("no_answer", "~ringing no_answer"),
        ("originator_cancel", "canceled"),
        ("not_found", "failed!"),
        // The call is over. `call.answered` must say whether anybody answered.
        ("normal_clearing", "completed"),
        ("time_limit", "completed"),
        ("unspecified", "completed"),
        ("a_cause_of_next_year", "completed"),
        ("", "completed"),
    ] {
        assert_eq!(meaning(cause, "unspecified"), expected, "{cause}");
    }
    // A SIP status from 400 to 699 means that the call was rejected, so nobody answered.
    for (sip, expected) in
        [("503", "failed"), ("400", "failed"), ("699", "failed"), ("200", "completed"), ("700", "completed")]
    {
        assert_eq!(meaning("unspecified", sip), expected, "{sip}");
        assert_eq!(meaning("user_busy", sip), "~ringing busy");
        assert_eq!(meaning("normal_clearing", sip), "completed");
    }
    // The network forbade the call.
    assert_eq!(meaning("call_rejected", "403"), "failed");
    assert_eq!(meaning("call_rejected", "603"), "~ringing busy");
}

#[test]
fn telnyx_detections_say() {
    let meaning = |event_type: &str, result: &str| {
        kinds(&telnyx(event_type, json!({"call_control_id": "v3:c", "result": result})))
    };
    let (answered, machine) = ("~ringing ~in_progress", "~ringing ~in_progress voicemail_detected");
    for (event_type, result, expected) in [
        ("call.machine.detection.ended", "human", answered),
        ("call.machine.detection.ended", "machine", machine),
        ("call.machine.detection.ended", "not_sure", answered),
        ("call.machine.greeting.ended", "beep_detected", machine),
        ("call.machine.greeting.ended", "ended", machine),
        ("call.machine.greeting.ended", "not_sure", answered),
        ("call.machine.premium.detection.ended", "human_residence", answered),
        ("call.machine.premium.detection.ended", "human_business", answered),
        ("call.machine.premium.detection.ended", "machine", machine),
        ("call.machine.premium.detection.ended", "silence", answered),
        ("call.machine.premium.detection.ended", "fax_detected", machine),
        ("call.machine.premium.greeting.ended", "beep_detected", machine),
        ("call.machine.premium.greeting.ended", "no_beep_detected", answered),
        ("call.machine.premium.greeting.ended", "prompt_ended", answered),
        ("call.machine.premium.call_screening.detected", "screening", answered),
        ("call.dtmf.received", "", "recorded"),
    ] {
        assert_eq!(meaning(event_type, result), expected, "{event_type} {result}");
    }
}

/// Telnyx's API reference shows these events without a `call_control_id`. Without an attempt of ours, such an event would count for every
/// earlier attempt of its call.
#[test]
fn telnyx_machine_event_that_names_no_attempt_is_recorded() {
    for (event_type, result, folded) in [
        ("call.machine.greeting.ended", "ended", "~ringing ~in_progress voicemail_detected"),
        ("call.machine.premium.call_screening.detected", "screening", "~ringing ~in_progress"),
    ] {
        let read = |call_control_id: Option<&str>, state: &str| {
            let payload = json!({
                "call_control_id": call_control_id,
                "connection_id": "7267xxxxxxxxxxxxxx",
                "call_leg_id": "428c31b6-7af4-4bcb-b7f5-5013ef9657c1",
                "call_session_id": "428c31b6-7af4-4bcb-b7f5-5013ef9657c1",
                "client_state": state,
                "from": "+35319605860",
                "to": "+35319605860",
                "result": result,
            });
            telnyx(event_type, payload)
        };
        let call_id = |reading: &Reading| reading.call_id().map(ToString::to_string);
        // Telnyx's own example, and {"appointment_id":"apt_1"}.
        let (theirs, of_appointment) = ("aGF2ZSBhIG5pY2UgZGF5ID1d", "eyJhcHBvaW50bWVudF9pZCI6ImFwdF8xIn0=");
        for (state, expected) in [(theirs, None), (of_appointment, Some("appointment:apt_1"))] {
            let reading = read(None, state);
            assert_eq!(kinds(&reading), "recorded", "{event_type} {state}");
            assert_eq!(call_id(&reading).as_deref(), expected, "{event_type}");
            assert_eq!(kinds(&read(Some("v3:c"), state)), folded, "{event_type} {state}");
        }
        // {"switchhook_call_id":"x","switchhook_attempt":"2"}
        let ours = read(None, "eyJzd2l0Y2hob29rX2NhbGxfaWQiOiJ4Iiwic3dpdGNoaG9va19hdHRlbXB0IjoiMiJ9");
        assert_eq!(kinds(&ours), folded, "{event_type}");
        assert_eq!(into_event(ours).attempt.unwrap().as_str(), "2", "{event_type}");
    }
}

#[test]
fn telnyx_analysis_tells_the_outcome() {
    let meaning = |result: &str| {
        let insights =
            json!([{"status": "completed", "conversation_insights": [{"insight_id": "i", "result": result}]}]);
        let call = json!({"call_control_id": "v3:c", "duration_sec": 42, "conversation_insights": insights});
        kinds(&telnyx("call.analyzed", call))
    };
    assert_eq!(meaning(r#"{"outcome": "confirmed"}"#), "~ringing ~in_progress user_confirmed");
    assert_eq!(meaning(r#"{"appointment_confirmed": false}"#), "~ringing ~in_progress user_declined");
    assert_eq!(meaning("The person was friendly."), "~ringing ~in_progress");
    assert_eq!(kinds(&telnyx("call.analyzed", json!({"call_control_id": "v3:c"}))), "recorded");
}

#[test]
fn telnyx_delivery_is_not_the_event() {
    let id = |attempt: u32| {
        let body = json!({
            "data": {"event_type": "call.answered", "id": "e1", "payload": {"call_control_id": "v3:c"}},
            "meta": {"attempt": attempt},
        });
        read_body(Provider::Telnyx, "", body.to_string().as_bytes()).event_id().to_string()
    };
    assert_eq!((id(1).as_str(), id(2).as_str()), ("telnyx:e1", "telnyx:e1"));
}

#[test]
fn telnyx_belongs_to_the_call_in_its_client_state() {
    let of = |state: &str| {
        let event = into_event(telnyx("call.answered", json!({"call_control_id": "v3:c", "client_state": state})));
        (event.call_id.to_string(), event.attempt.unwrap().to_string(), event.provider_call_id.unwrap())
    };
    let theirs = ("telnyx:v3:c".to_owned(), "telnyx:v3:c".to_owned(), "v3:c".to_owned());
    // {"switchhook_call_id":"x","switchhook_attempt":"2"}
    let ours = "eyJzd2l0Y2hob29rX2NhbGxfaWQiOiJ4Iiwic3dpdGNoaG9va19hdHRlbXB0IjoiMiJ9";
    assert_eq!(of(ours), ("x".to_owned(), "2".to_owned(), "v3:c".to_owned()));
    // An empty text, no base64, and base64 of something other than an object.
    for state in ["", "{}", "aGF2ZSBhIG5pY2UgZGF5ID1d", "WyJ4Il0="] {
        assert_eq!(of(state), theirs, "{state}");
    }
}

#[test]
fn telnyx_events_that_name_no_type_or_call_are_quarantined() {
    for (data, expected) in [
        (json!({"id": "e1"}), ReadError::MissingEventType),
        (json!(null), ReadError::MissingEventType),
        (json!({"id": "e1", "event_type": "call.hangup"}), ReadError::MissingCallId),
    ] {
        let reading = read_body(Provider::Telnyx, "", json!({"data": data}).to_string().as_bytes());
        let Reading::Quarantined { error, .. } = reading else { panic!("{data}") };
        assert_eq!(error, expected, "{data}");
    }
}
