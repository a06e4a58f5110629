//! Meaning of Twilio's callbacks.

use serde_json::json;
use switchhook_domain::{CallId, Direction, EventId, Provider, Timestamp};
use switchhook_providers::Reading;

use super::{ids, into_event, kinds, read_body, twilio};

#[test]
fn twilio_statuses_say() {
    let meaning = |form: &str| kinds(&twilio("", &format!("CallSid=CA1&{form}")));
    for (form, expected) in [
        ("CallStatus=queued", "initiated"),
        ("CallStatus=initiated", "initiated"),
        ("CallStatus=ringing", "ringing"),
        ("CallStatus=in-progress", "~ringing in_progress"),
        ("CallStatus=answered", "~ringing in_progress"),
        ("CallStatus=completed", "~ringing ~in_progress completed"),
        ("CallStatus=busy", "~ringing busy"),
        ("CallStatus=busy&SipResponseCode=200", "~ringing busy"),
        ("CallStatus=no-answer", "~ringing no_answer"),
        ("CallStatus=failed", "failed"),
        ("CallStatus=canceled", "canceled"),
        ("CallStatus=Completed", "recorded"),
        ("CallStatus=completed&ParentCallSid=CA0", "recorded"),
        ("CallStatus=completed&ParentCallSid=", "~ringing ~in_progress completed"),
        ("CallStatus=completed&AnsweredBy=human", "~ringing ~in_progress completed"),
        ("CallStatus=completed&AnsweredBy=fax", "~ringing ~in_progress ~voicemail_detected completed"),
        ("CallStatus=in-progress&AnsweredBy=machine_start", "~ringing in_progress ~voicemail_detected"),
        ("CallStatus=failed&AnsweredBy=machine_start", "~ringing ~in_progress ~voicemail_detected failed"),
        ("AnsweredBy=human", "~ringing ~in_progress"),
        ("AnsweredBy=unknown", "~ringing ~in_progress"),
        ("AnsweredBy=machine_end_other", "~ringing ~in_progress voicemail_detected"),
        ("RecordingStatus=completed", "recorded"),
    ] {
        assert_eq!(meaning(form), expected, "{form}");
    }
}

#[test]
fn twilio_facts_carry_its_time_and_counter() {
    let times = |form: &str| {
        let event = into_event(twilio("", &format!("CallSid=CA1&{form}")));
        event.call_events.iter().map(|event| (event.occurred_at, event.sequence)).collect::<Vec<_>>()
    };
    let at = Some(Timestamp::from_millis(1_651_933_810_000));
    assert_eq!(
        times("CallStatus=in-progress&Timestamp=Sat%2C+07+May+2022+14%3A30%3A10+%2B0000&SequenceNumber=2"),
        [(at, Some(2)), (at, Some(2))]
    );
    // A wrong day of the week does not invalidate the time.
    assert_eq!(
        times("CallStatus=ringing&Timestamp=Mon%2C+07+May+2022+14%3A30%3A10+%2B0000&SequenceNumber=x"),
        [(at, None)]
    );
    assert_eq!(times("CallStatus=ringing&Timestamp=2022-05-07"), [(None, None)]);
    assert_eq!(times("AnsweredBy=human"), [(None, None), (None, None)]);
}

#[test]
fn twilio_event_ids_repeat_only_for_the_same_event() {
    let id = |form: &str| twilio("", form).event_id().to_string();
    assert_eq!(id("CallSid=CA1&CallStatus=ringing&SequenceNumber=1"), "twilio:CA1:ringing:1");
    assert_eq!(
        id("CallSid=CA1&CallStatus=ringing&SequenceNumber=1&CallbackSource=call-progress-events"),
        "twilio:CA1:ringing:1"
    );
    assert_eq!(
        id("CallSid=CA1&CallStatus=completed&SequenceNumber=1&CallbackSource=call-cost-events"),
        "twilio:CA1:completed:1:call-cost-events"
    );
    assert_eq!(id("CallSid=CA1&AnsweredBy=machine_start&MachineDetectionDuration=1"), "twilio:CA1:amd:machine_start");
    // Two TwiML requests of one call are two events, and each may be delivered twice.
    let request = |digits: &str| id(&format!("CallSid=CA1&CallStatus=in-progress&Digits={digits}"));
    assert_eq!(request("1"), "twilio:CA1:in-progress:-:b24fe8b4941d6c0d");
    assert_eq!(request("1"), request("1"));
    assert_ne!(request("1"), request("2"));
    // The signature covers neither the order nor the encoding, so a form that somebody shuffled is the same event.
    assert_eq!(id("Digits=1&CallStatus=in%2Dprogress&CallSid=CA1"), request("1"));
    assert_eq!(id("b=1&a=2"), id("a=2&b=1"));
}

#[test]
fn twilio_belongs_to_the_call_in_the_signed_query() {
    let of = |query: &str| ids(twilio(query, "CallSid=CA1&CallStatus=ringing&switchhook_call_id=unasked"));
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(of(""), ("twilio:CA1".to_owned(), some("twilio:CA1"), None));
    assert_eq!(of("appointment_id=a%201"), ("appointment:a 1".to_owned(), some("twilio:CA1"), some("a 1")));
    assert_eq!(
        of("switchhook_call_id=x&switchhook_attempt=2&appointment_id=a"),
        ("x".to_owned(), some("2"), some("a"))
    );
    assert_eq!(of("switchhook_call_id=&appointment_id="), ("twilio:CA1".to_owned(), some("twilio:CA1"), None));
}

#[test]
fn twilio_other_leg_is_filed_with_its_call() {
    let reading = twilio("", "CallSid=CA2&ParentCallSid=CA1&CallStatus=completed&SequenceNumber=0");
    assert_eq!(
        reading,
        Reading::Recorded {
            event_id: EventId::new("twilio:CA2:completed:0"),
            event_type: "completed".to_owned(),
            call_id: Some(CallId::new("twilio:CA1")),
        }
    );
}

#[test]
fn twilio_json_has_the_same_names() {
    let body = json!({"CallSid": "CA1", "CallStatus": "completed", "SequenceNumber": 3, "Direction": "outbound-dial"});
    let event = into_event(read_body(Provider::Twilio, "bodySHA256=00", body.to_string().as_bytes()));
    assert_eq!(event.event_id.as_str(), "twilio:CA1:completed:3");
    assert_eq!(event.direction, Some(Direction::Outbound));
}

#[test]
fn twilio_repeated_parameter_counts_once_whatever_the_order() {
    let id = |form: &str| twilio("", form).event_id().to_string();
    let first = id("CallSid=CA1&CallStatus=ringing&CallStatus=busy&SequenceNumber=1");
    assert_eq!(first, id("CallSid=CA1&CallStatus=busy&CallStatus=ringing&SequenceNumber=1"));
    assert_eq!(first, "twilio:CA1:busy:1");
}
