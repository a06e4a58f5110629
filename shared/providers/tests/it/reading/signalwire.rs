//! Meaning of SignalWire's webhooks.

use switchhook_domain::{Direction, Provider, ProviderEvent};
use switchhook_providers::{Reading, is_question};

use super::{ids, into_event, kinds, read_body};
use crate::samples::verified;

fn callback(query: &str, form: &str) -> Reading {
    read_body(Provider::SignalWire, query, form.as_bytes())
}

/// The forms that Twilio posts mean the same at SignalWire.
#[test]
fn signalwire_callbacks_mean_what_they_mean_at_twilio() {
    for form in [
        "CallSid=c&CallStatus=queued",
        "CallSid=c&CallStatus=initiated&SequenceNumber=0",
        "CallSid=c&CallStatus=ringing&SequenceNumber=1",
        "CallSid=c&CallStatus=answered&SequenceNumber=2",
        "CallSid=c&CallStatus=in-progress&SequenceNumber=2",
        "CallSid=c&CallStatus=completed&SequenceNumber=3&AnsweredBy=machine_start",
        "CallSid=c&CallStatus=busy&SequenceNumber=2",
        "CallSid=c&CallStatus=no-answer",
        "CallSid=c&CallStatus=failed",
        "CallSid=c&CallStatus=canceled",
        "CallSid=c&AnsweredBy=human",
        "CallSid=c&AnsweredBy=machine_end_beep",
        "CallSid=c&CallStatus=new",
        "CallSid=c&ParentCallSid=p&CallStatus=completed",
        "CallStatus=completed",
        "",
    ] {
        let twilio = read_body(Provider::Twilio, "switchhook_call_id=1&switchhook_attempt=2", form.as_bytes());
        let signalwire = callback("switchhook_call_id=1&switchhook_attempt=2", form);
        assert_eq!(kinds(&signalwire), kinds(&twilio), "{form}");
        let id = signalwire.event_id().as_str().replacen("signalwire:", "twilio:", 1);
        assert_eq!(id, twilio.event_id().as_str(), "{form}");
    }
}

/// The webhook of a number shows neither a direction nor a sequence number, and its time is the one at which the call was created.
#[test]
fn signalwire_number_reports_its_inbound_calls() {
    let form = "CallSid=s1&AccountSid=a&From=%2B447700900000&To=%2B442079460018&Timestamp=Mon%2C+20+Oct+2025+12%3A14%3A07+%2B0000";
    let times = |event: &ProviderEvent| -> Vec<String> {
        let times = event.call_events.iter().map(|event| format!("{} {}", event.kind, event.occurred_at.unwrap()));
        times.collect()
    };
    let completed = into_event(callback("", &format!("{form}&CallStatus=completed&CallDuration=40&AudioInMos=4.5")));
    assert_eq!(completed.direction, Some(Direction::Inbound));
    assert_eq!(
        times(&completed),
        [
            "ringing 2025-10-20T12:14:07.000Z",
            "in_progress 2025-10-20T12:14:07.000Z",
            "completed 2025-10-20T12:14:47.000Z"
        ]
    );
    let failed = into_event(callback("", &format!("{form}&CallStatus=failed&CallDuration=0&AudioInMos=")));
    assert_eq!(failed.direction, Some(Direction::Inbound));
    assert_eq!(times(&failed), ["failed 2025-10-20T12:14:07.000Z"]);
    // A caller who hung up while it rang is reported as completed too, so nothing says that anybody answered.
    let unclear = into_event(callback("", &format!("{form}&CallStatus=completed&CallDuration=0&AudioInMos=")));
    assert_eq!(unclear.direction, Some(Direction::Inbound));
    assert_eq!(times(&unclear), ["completed 2025-10-20T12:14:07.000Z"]);

    // Each of these is another callback.
    for other in [
        "CallStatus=completed&SequenceNumber=3",
        "CallStatus=completed&CallbackSource=call-progress-events",
        "CallStatus=busy",
        "CallStatus=completed&Direction=outbound-api",
    ] {
        let event = into_event(callback("", &format!("{form}&{other}&CallDuration=40")));
        assert_ne!(event.direction, Some(Direction::Inbound), "{other}");
        assert!(times(&event).iter().all(|time| time.ends_with("12:14:07.000Z")), "{other}");
    }
    let twilio = read_body(Provider::Twilio, "", format!("{form}&CallStatus=completed&CallDuration=40").as_bytes());
    assert_eq!(into_event(twilio).direction, None);
    // An answer of the API has no account.
    let record = form.replace("AccountSid=a&", "");
    let record = callback("", &format!("{record}&CallStatus=completed"));
    assert_eq!(kinds(&record), "~ringing ~in_progress completed");
    assert_eq!(into_event(record).direction, None);
}

#[test]
fn signalwire_call_is_known_by_the_signed_query_or_by_its_sid() {
    let some = |text: &str| Some(text.to_owned());
    let ours =
        callback("switchhook_call_id=call-1&switchhook_attempt=2&appointment_id=7", "CallSid=s1&CallStatus=ringing");
    assert_eq!(ids(ours), ("call-1".to_owned(), some("2"), some("7")));
    let theirs = callback("", "CallSid=s1&CallStatus=ringing&switchhook_call_id=unasked");
    assert_eq!(ids(theirs), ("signalwire:s1".to_owned(), some("signalwire:s1"), None));
}

/// One key signs SWML's JSON and the callbacks of cXML. What a caller says must not become a callback.
#[test]
fn signalwire_json_of_swml_changes_no_call() {
    for body in [
        r#"{"event_type":"calling.call.state","params":{"call_id":"c","call_state":"ended"}}"#,
        r#" {"event_type":"calling.call.state"}"#,
        r#"{"said":"&CallSid=c&CallStatus=completed&"}"#,
        r#"{"CallSid":"c","CallStatus":"completed"}"#,
    ] {
        let Reading::Recorded { event_id, event_type, call_id } = callback("switchhook_call_id=1", body) else {
            panic!("{body}")
        };
        assert!(event_id.as_str().starts_with("signalwire:sha256-"), "{event_id}");
        assert!(["calling.call.state", "unknown"].contains(&event_type.as_str()), "{event_type}");
        assert_eq!(call_id, None, "{body}");
    }
    assert_eq!(kinds(&callback("", r#"{"a":1"#)), "the body is not JSON at line 1, column 6");
    // A callback of cXML may be JSON too. Then the signed query has the hash of the body.
    let json = r#"{"CallSid":"c","CallStatus":"completed"}"#;
    assert_eq!(kinds(&callback("bodySHA256=00", json)), "~ringing ~in_progress completed");
}

#[test]
fn signalwire_asks_no_questions() {
    let webhook = verified("signalwire/ringing");
    assert!(!is_question(&webhook, &switchhook_providers::read(&webhook, super::RECEIVED_AT)));
}
