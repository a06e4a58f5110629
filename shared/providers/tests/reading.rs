//! What the less usual events mean, and what becomes of those that mean nothing.

#![expect(clippy::panic, reason = "a test that cannot go on fails")]

use insta::assert_snapshot;
use serde_json::{Value, json};
use switchhook_domain::{
    AttemptKey, CallEvent, CallId, Direction, EventId, EventKind, Origin, PhoneNumber, Provider, ProviderEvent,
    Timestamp,
};
use switchhook_providers::{ID_BYTES_MAX, ReadError, Reading, VerifiedWebhook, read};

const RECEIVED_AT: Timestamp = Timestamp::from_millis(1_760_962_600_000);

fn read_body(provider: Provider, query: &str, body: &[u8]) -> Reading {
    read(&VerifiedWebhook::from_inbox(provider, query.to_owned(), body.to_vec(), 0), RECEIVED_AT)
}

fn retell(event: &str, call: Value) -> Reading {
    read_body(Provider::Retell, "", json!({"event": event, "call": call}).to_string().as_bytes())
}

fn twilio(query: &str, form: &str) -> Reading {
    read_body(Provider::Twilio, query, form.as_bytes())
}

fn generic(body: Value) -> Reading {
    read_body(Provider::Generic, "", body.to_string().as_bytes())
}

fn folded(reading: Reading) -> ProviderEvent {
    match reading {
        Reading::Event(event) => event,
        Reading::Recorded { .. } | Reading::Quarantined { .. } => panic!("{reading:?}"),
    }
}

/// The kinds in order, implied ones marked by `~`, a failure that lasts by `!`; or what became of the event instead.
fn kinds(reading: &Reading) -> String {
    match reading {
        Reading::Event(event) => {
            let kinds: Vec<String> = event
                .call_events
                .iter()
                .map(|event| {
                    let implied = if event.implied { "~" } else { "" };
                    let permanent = if event.permanent { "!" } else { "" };
                    format!("{implied}{}{permanent}", event.kind)
                })
                .collect();
            kinds.join(" ")
        }
        Reading::Recorded { .. } => "recorded".to_owned(),
        Reading::Quarantined { error, .. } => error.to_string(),
    }
}

fn ids(reading: Reading) -> (String, Option<String>, Option<String>) {
    let event = folded(reading);
    (event.call_id.to_string(), event.attempt.map(|key| key.to_string()), event.appointment_id)
}

const REASONS: [&str; 36] = [
    "user_hangup",
    "agent_hangup",
    "call_transfer",
    "voicemail_reached",
    "ivr_reached",
    "inactivity",
    "max_duration_reached",
    "concurrency_limit_reached",
    "no_concurrency_fallback",
    "no_valid_payment",
    "scam_detected",
    "dial_busy",
    "dial_failed",
    "dial_no_answer",
    "invalid_destination",
    "telephony_provider_permission_denied",
    "telephony_provider_unavailable",
    "sip_routing_error",
    "marked_as_spam",
    "user_declined",
    "error_llm_websocket_open",
    "error_llm_websocket_lost_connection",
    "error_llm_websocket_runtime",
    "error_llm_websocket_corrupt_payload",
    "error_no_audio_received",
    "error_asr",
    "error_retell",
    "error_unknown",
    "error_user_not_joined",
    "registered_call_timeout",
    "transfer_bridged",
    "transfer_cancelled",
    "manual_stopped",
    "call_take_over",
    "a_reason_of_next_year",
    "",
];

/// Each reason under a call that was connected, one that was not, and one that says nothing else.
fn endings() -> String {
    let lines: Vec<String> = REASONS
        .iter()
        .map(|reason| {
            let [connected, not_connected, bare] = [
                json!({
                    "call_id": "c",
                    "disconnection_reason": reason,
                    "call_status": "ended",
                    "start_timestamp": 1,
                    "end_timestamp": 2,
                }),
                json!({"call_id": "c", "disconnection_reason": reason, "call_status": "not_connected"}),
                json!({"call_id": "c", "disconnection_reason": reason}),
            ]
            .map(|call| kinds(&retell("call_ended", call)));
            format!("{reason}: {connected} | {not_connected} | {bare}")
        })
        .collect();
    lines.join("\n")
}

#[test]
fn retell_call_ended_by_reason() {
    assert_snapshot!(endings(), @r"
    user_hangup: ~ringing ~in_progress completed | failed | ~ringing ~in_progress completed
    agent_hangup: ~ringing ~in_progress completed | failed | ~ringing ~in_progress completed
    call_transfer: ~ringing ~in_progress completed | failed | ~ringing ~in_progress completed
    voicemail_reached: ~ringing ~in_progress ~voicemail_detected completed | ~ringing ~in_progress ~voicemail_detected completed | ~ringing ~in_progress ~voicemail_detected completed
    ivr_reached: ~ringing ~in_progress completed | failed | ~ringing ~in_progress completed
    inactivity: ~ringing ~in_progress completed | failed | ~ringing ~in_progress completed
    max_duration_reached: ~ringing ~in_progress completed | failed | ~ringing ~in_progress completed
    concurrency_limit_reached: failed | failed | failed
    no_concurrency_fallback: failed | failed | failed
    no_valid_payment: ~ringing ~in_progress failed | failed | failed
    scam_detected: ~ringing ~in_progress failed | failed | failed
    dial_busy: ~ringing busy | ~ringing busy | ~ringing busy
    dial_failed: failed | failed | failed
    dial_no_answer: ~ringing no_answer | ~ringing no_answer | ~ringing no_answer
    invalid_destination: failed! | failed! | failed!
    telephony_provider_permission_denied: failed! | failed! | failed!
    telephony_provider_unavailable: failed | failed | failed
    sip_routing_error: failed | failed | failed
    marked_as_spam: ~ringing ~in_progress failed | failed | failed
    user_declined: ~ringing busy | ~ringing busy | ~ringing busy
    error_llm_websocket_open: ~ringing ~in_progress failed | failed | failed
    error_llm_websocket_lost_connection: ~ringing ~in_progress failed | failed | failed
    error_llm_websocket_runtime: ~ringing ~in_progress failed | failed | failed
    error_llm_websocket_corrupt_payload: ~ringing ~in_progress failed | failed | failed
    error_no_audio_received: ~ringing ~in_progress failed | failed | failed
    error_asr: ~ringing ~in_progress failed | failed | failed
    error_retell: ~ringing ~in_progress failed | failed | failed
    error_unknown: ~ringing ~in_progress failed | failed | failed
    error_user_not_joined: failed | failed | failed
    registered_call_timeout: failed | failed | failed
    transfer_bridged: ~ringing ~in_progress completed | failed | ~ringing ~in_progress completed
    transfer_cancelled: ~ringing ~in_progress completed | failed | ~ringing ~in_progress completed
    manual_stopped: ~ringing ~in_progress completed | canceled | ~ringing ~in_progress completed
    call_take_over: ~ringing ~in_progress completed | failed | ~ringing ~in_progress completed
    a_reason_of_next_year: ~ringing ~in_progress completed | failed | completed
    : ~ringing ~in_progress completed | failed | completed
    ");
}

#[test]
fn retell_call_analyzed_implies_what_call_ended_says() {
    for reason in REASONS {
        for status in ["ended", "not_connected"] {
            let call = json!({
                "call_id": "c",
                "call_status": status,
                "disconnection_reason": reason,
                "start_timestamp": 1,
                "end_timestamp": 2,
            });
            let mut ended = folded(retell("call_ended", call.clone())).call_events;
            for fact in &mut ended {
                fact.implied = true;
            }
            assert_eq!(folded(retell("call_analyzed", call)).call_events, ended, "{reason}");
        }
    }
}

#[test]
fn retell_analysis_does_not_end_a_call_that_may_not_be_over() {
    assert_eq!(kinds(&retell("call_analyzed", json!({"call_id": "c"}))), "recorded");
    assert_eq!(kinds(&retell("call_analyzed", json!({"call_id": "c", "call_status": "ongoing"}))), "recorded");
}

#[test]
fn retell_ending_without_a_reason_goes_by_the_status() {
    let said = |call: Value| kinds(&retell("call_ended", call));
    let call = |status: &str| json!({"call_id": "c", "call_status": status});
    let connected = |status: &str| json!({"call_id": "c", "call_status": status, "start_timestamp": 1});
    assert_eq!(said(connected("ended")), "~ringing ~in_progress completed");
    assert_eq!(said(connected("error")), "~ringing ~in_progress failed");
    assert_eq!(said(connected("not_connected")), "failed");
    assert_eq!(said(connected("ongoing")), "~ringing ~in_progress completed");
    assert_eq!(said(call("error")), "failed");
    assert_eq!(said(call("not_connected")), "failed");
    // Over, but answered or not: for another report to say.
    assert_eq!(said(call("ended")), "completed");
    assert_eq!(said(call("a status of next year")), "completed");
}

#[test]
fn retell_times_are_those_of_the_call() {
    let call = json!({
        "call_id": "c",
        "call_status": "ended",
        "disconnection_reason": "voicemail_reached",
        "start_timestamp": 1_714_608_475_945_i64,
        "end_timestamp": 1_714_608_491_736_i64,
    });
    let fact = |kind, implied, millis| CallEvent {
        kind,
        implied,
        occurred_at: Some(Timestamp::from_millis(millis)),
        sequence: None,
        permanent: false,
    };
    assert_eq!(
        folded(retell("call_ended", call)).call_events,
        [
            fact(EventKind::Ringing, true, 1_714_608_475_945),
            fact(EventKind::InProgress, true, 1_714_608_475_945),
            fact(EventKind::VoicemailDetected, true, 1_714_608_491_736),
            fact(EventKind::Completed, false, 1_714_608_491_736),
        ]
    );
}

#[test]
fn retell_analysis_tells_the_outcome() {
    let said = |analysis: Value| {
        kinds(&retell(
            "call_analyzed",
            json!({"call_id": "c", "disconnection_reason": "user_hangup", "call_analysis": analysis}),
        ))
    };
    let custom = |data: Value| said(json!({"custom_analysis_data": data}));
    let confirmed = "~ringing ~in_progress user_confirmed ~completed";
    let declined = "~ringing ~in_progress user_declined ~completed";
    let neither = "~ringing ~in_progress ~completed";

    assert_eq!(custom(json!({"outcome": "confirmed"})), confirmed);
    assert_eq!(custom(json!({"outcome": " Confirmed"})), confirmed);
    assert_eq!(custom(json!({"outcome": "DECLINED"})), declined);
    assert_eq!(custom(json!({"appointment_confirmed": true})), confirmed);
    assert_eq!(custom(json!({"appointment_confirmed": "false"})), declined);
    assert_eq!(custom(json!({"outcome": "declined", "appointment_confirmed": true})), declined);
    assert_eq!(custom(json!({"outcome": "call back", "appointment_confirmed": null})), neither);
    assert_eq!(custom(json!(["confirmed"])), neither);
    assert_eq!(said(json!({"call_successful": true})), neither);
    assert_eq!(said(json!("confirmed")), neither);
    assert_eq!(said(json!(null)), neither);
}

#[test]
fn retell_machine_cannot_confirm() {
    let call = |reason: &str, in_voicemail: bool| {
        json!({
            "call_id": "c",
            "disconnection_reason": reason,
            "call_analysis": {"in_voicemail": in_voicemail, "custom_analysis_data": {"outcome": "confirmed"}},
        })
    };
    assert_eq!(
        kinds(&retell("call_analyzed", call("user_hangup", true))),
        "~ringing ~in_progress voicemail_detected ~completed"
    );
    // The call reached a voicemail and somebody confirmed, says Retell; so do we.
    assert_eq!(
        kinds(&retell("call_analyzed", call("voicemail_reached", false))),
        "~ringing ~in_progress ~voicemail_detected user_confirmed ~completed"
    );
}

#[test]
fn retell_nobody_declines_in_a_call_that_nobody_answered() {
    let call = json!({
        "call_id": "c",
        "call_status": "not_connected",
        "disconnection_reason": "dial_no_answer",
        "call_analysis": {"custom_analysis_data": {"appointment_confirmed": false}},
    });
    assert_eq!(kinds(&retell("call_analyzed", call)), "~ringing ~no_answer");
}

#[test]
fn retell_analysis_alone_is_enough_and_nothing_is_recorded() {
    let outcome = json!({"call_id": "c", "call_analysis": {"custom_analysis_data": {"outcome": "confirmed"}}});
    assert_eq!(kinds(&retell("call_analyzed", outcome)), "user_confirmed");
    let nothing = json!({"call_id": "c", "call_analysis": {"call_summary": "hm"}});
    assert_eq!(kinds(&retell("call_analyzed", nothing)), "recorded");
}

#[test]
fn retell_event_ids_repeat_only_for_the_same_event() {
    let id = |event: &str, call: Value| retell(event, call).event_id().to_string();
    assert_eq!(id("call_started", json!({"call_id": "c", "start_timestamp": 1})), "retell:c:call_started");
    assert_eq!(id("call_ended", json!({"call_id": "c", "duration_ms": 1})), "retell:c:call_ended");
    assert_eq!(id("call_analyzed", json!({"call_id": "c"})), "retell:c:call_analyzed");

    let analysis = |json: &str| {
        let body = format!(r#"{{"event":"call_analyzed","call":{{"call_id":"c","call_analysis":{json}}}}}"#);
        read_body(Provider::Retell, "", body.as_bytes()).event_id().to_string()
    };
    let first = analysis(r#"{"in_voicemail":false,"call_summary":"a"}"#);
    assert_eq!(first, "retell:c:call_analyzed:3314bd2b5ebb203d");
    assert_eq!(first, analysis(r#"{ "call_summary":"a", "in_voicemail":false}"#));
    assert_ne!(first, analysis(r#"{"call_summary":"b","in_voicemail":false}"#));

    let update = |transcript: &str| id("transcript_updated", json!({"call_id": "c", "transcript": transcript}));
    assert_eq!(update("Hello"), "retell:c:transcript_updated:b55b79e2fbf1c053");
    assert_ne!(update("Hello"), update("Hello you"));
}

#[test]
fn retell_call_may_be_named_data() {
    let body = json!({"event": "call_started", "data": {"call_id": "c", "direction": "inbound"}}).to_string();
    let event = folded(read_body(Provider::Retell, "", body.as_bytes()));
    assert_eq!((event.call_id.as_str(), event.direction), ("retell:c", Some(Direction::Inbound)));
}

#[test]
fn retell_belongs_to_the_call_in_its_metadata() {
    let of = |call: Value| ids(retell("call_started", call));
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(of(json!({"call_id": "c"})), ("retell:c".to_owned(), some("c"), None));
    assert_eq!(
        of(json!({"call_id": "c", "metadata": {"appointment_id": 42}})),
        ("appointment:42".to_owned(), some("c"), some("42"))
    );
    assert_eq!(
        of(
            json!({"call_id": "c", "metadata": {"switchhook_call_id": "x", "switchhook_attempt": 2, "appointment_id": "a"}})
        ),
        ("x".to_owned(), some("2"), some("a"))
    );
    assert_eq!(
        of(json!({
            "call_id": "c",
            "metadata": {"appointment_id": "a", "switchhook_call_id": ""},
            "retell_llm_dynamic_variables": {"switchhook_call_id": "x", "appointment_id": "b"},
        })),
        ("x".to_owned(), some("c"), some("a"))
    );
    assert_eq!(
        of(json!({"call_id": "c", "collected_dynamic_variables": {"appointment_id": "heard"}, "metadata": "odd"})),
        ("retell:c".to_owned(), some("c"), None)
    );
    assert_eq!(of(json!({"metadata": {"switchhook_call_id": "x"}})), ("x".to_owned(), None, None));
}

#[test]
fn unsigned_query_decides_nothing() {
    let body = json!({"event": "call_started", "call": {"call_id": "c"}}).to_string();
    let reading = read_body(Provider::Retell, "switchhook_call_id=x&appointment_id=a", body.as_bytes());
    assert_eq!(ids(reading), ("retell:c".to_owned(), Some("c".to_owned()), None));
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
fn twilio_statuses_say() {
    let said = |form: &str| kinds(&twilio("", &format!("CallSid=CA1&{form}")));
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
        assert_eq!(said(form), expected, "{form}");
    }
}

#[test]
fn twilio_facts_carry_its_time_and_counter() {
    let facts = |form: &str| {
        let event = folded(twilio("", &format!("CallSid=CA1&{form}")));
        event.call_events.iter().map(|fact| (fact.occurred_at, fact.sequence)).collect::<Vec<_>>()
    };
    let at = Some(Timestamp::from_millis(1_651_933_810_000));
    assert_eq!(
        facts("CallStatus=in-progress&Timestamp=Sat%2C+07+May+2022+14%3A30%3A10+%2B0000&SequenceNumber=2"),
        [(at, Some(2)), (at, Some(2))]
    );
    // A wrong day of the week does not make a wrong time.
    assert_eq!(
        facts("CallStatus=ringing&Timestamp=Mon%2C+07+May+2022+14%3A30%3A10+%2B0000&SequenceNumber=x"),
        [(at, None)]
    );
    assert_eq!(facts("CallStatus=ringing&Timestamp=2022-05-07"), [(None, None)]);
    assert_eq!(facts("AnsweredBy=human"), [(None, None), (None, None)]);
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
    // Two requests for instructions in one call are two events, each of which may be delivered twice.
    let request = |digits: &str| id(&format!("CallSid=CA1&CallStatus=in-progress&Digits={digits}"));
    assert_eq!(request("1"), "twilio:CA1:in-progress:-:b24fe8b4941d6c0d");
    assert_eq!(request("1"), request("1"));
    assert_ne!(request("1"), request("2"));
}

#[test]
fn twilio_belongs_to_the_call_in_the_signed_query() {
    let of = |query: &str| ids(twilio(query, "CallSid=CA1&CallStatus=ringing&switchhook_call_id=unasked"));
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(of(""), ("twilio:CA1".to_owned(), some("CA1"), None));
    assert_eq!(of("appointment_id=a%201"), ("appointment:a 1".to_owned(), some("CA1"), some("a 1")));
    assert_eq!(
        of("switchhook_call_id=x&switchhook_attempt=2&appointment_id=a"),
        ("x".to_owned(), some("2"), some("a"))
    );
    assert_eq!(of("switchhook_call_id=&appointment_id="), ("twilio:CA1".to_owned(), some("CA1"), None));
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
    let event = folded(read_body(Provider::Twilio, "bodySHA256=00", body.to_string().as_bytes()));
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

#[test]
fn generic_tutorial_event_is_read() {
    let body = r#"{"event_id":"evt_8f1a2c","appointment_id":"appt_123","type":"USER_CONFIRMED","occurred_at":"2025-10-20T12:14:05Z","call":{"sid":"CAxxxx","to":"+447700900000","from":"+4420xxxxxxx"},"meta":{"attempt":2}}"#;
    assert_eq!(
        read_body(Provider::Generic, "", body.as_bytes()),
        Reading::Event(ProviderEvent {
            event_id: EventId::new("generic:evt_8f1a2c"),
            origin: Origin::Provider(Provider::Generic),
            event_type: "USER_CONFIRMED".to_owned(),
            call_id: CallId::new("appointment:appt_123"),
            attempt: Some(AttemptKey::new("CAxxxx")),
            provider_call_id: Some("CAxxxx".to_owned()),
            appointment_id: Some("appt_123".to_owned()),
            direction: None,
            from: Some(PhoneNumber::new("+4420xxxxxxx")),
            to: Some(PhoneNumber::new("+447700900000")),
            received_at: RECEIVED_AT,
            call_events: vec![CallEvent {
                kind: EventKind::UserConfirmed,
                implied: false,
                occurred_at: Some(Timestamp::from_millis(1_760_962_445_000)),
                sequence: None,
                permanent: false,
            }],
        })
    );
}

#[test]
fn generic_names_mean_the_same_in_both_spellings() {
    for (lower, upper, expected) in [
        ("call.initiated", "CALL_STARTED", "initiated"),
        ("call.ringing", "RINGING", "ringing"),
        ("call.in_progress", "ANSWERED", "in_progress"),
        ("call.completed", "ENDED", "completed"),
        ("call.failed", "FAILED", "failed"),
        ("call.busy", "BUSY", "busy"),
        ("call.no_answer", "NO_ANSWER", "no_answer"),
        ("call.no_answer", "TIMEOUT", "no_answer"),
        ("call.canceled", "CANCELED", "canceled"),
        ("voicemail.detected", "VOICEMAIL_DETECTED", "voicemail_detected"),
        ("user.confirmed", "USER_CONFIRMED", "user_confirmed"),
        ("user.declined", "USER_DECLINED", "user_declined"),
        ("retry.scheduled", "RETRY_SCHEDULED", "retry_scheduled"),
    ] {
        assert_eq!(kinds(&generic(json!({"event_type": lower, "call_id": "c"}))), expected);
        assert_eq!(kinds(&generic(json!({"type": upper, "call_id": "c"}))), expected);
    }
    // The longer field name counts where both are there.
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
        ("x".to_owned(), some("s"), some("7"))
    );
    assert_eq!(
        of(json!({"call": {"sid": "s"}, "meta": {"switchhook_call_id": "x", "switchhook_attempt": 2}})),
        ("x".to_owned(), some("2"), None)
    );
    assert_eq!(
        of(json!({"data": {"appointment_id": "a"}, "meta": {"appointment_id": ""}})),
        ("appointment:a".to_owned(), None, some("a"))
    );
    assert_eq!(of(json!({"call": {"sid": "s"}})), ("generic:s".to_owned(), some("s"), None));
}

#[test]
fn generic_time_that_cannot_be_read_is_no_time() {
    let at = |body: Value| {
        let mut body = body;
        body["type"] = json!("RINGING");
        body["call_id"] = json!("c");
        folded(generic(body)).call_events[0].occurred_at
    };
    let noon = Some(Timestamp::from_millis(1_760_961_600_000));
    assert_eq!(at(json!({"occurred_at": "2025-10-20T12:00:00Z"})), noon);
    assert_eq!(at(json!({"created_at": "2025-10-20T14:00:00+02:00"})), noon);
    assert_eq!(at(json!({"occurred_at": "soon", "created_at": "2025-10-20T12:00:00Z"})), noon);
    assert_eq!(at(json!({"occurred_at": "soon"})), None);
    assert_eq!(at(json!({"occurred_at": 1_760_961_600})), None);
}

#[test]
fn foreign_ids_are_bounded() {
    let long = "x".repeat(ID_BYTES_MAX);
    let event = folded(generic(json!({
        "event_id": long,
        "type": "RINGING",
        "call_id": "a\u{0}b",
        "appointment_id": long.clone() + "x",
        "call": {"sid": "s\n"},
    })));
    for id in [
        event.event_id.as_str().strip_prefix("generic:").unwrap(),
        event.call_id.as_str(),
        event.attempt.as_ref().unwrap().as_str(),
        event.provider_call_id.as_deref().unwrap(),
        event.appointment_id.as_deref().unwrap(),
    ] {
        assert!(id.starts_with("sha256-") && id.len() == 71, "{id}");
    }
    // A foreign id may hold anything else.
    let event = folded(generic(json!({"event_id": "a/b?c#d é", "type": "RINGING", "call_id": "c"})));
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

fn vapi(message: Value) -> Reading {
    read_body(Provider::Vapi, "", json!({"message": message}).to_string().as_bytes())
}

fn vapi_ended(reason: &str, started: bool) -> String {
    let started_at = started.then_some("2025-10-20T12:14:00Z");
    let call = json!({"id": "c", "startedAt": started_at, "endedAt": "2025-10-20T12:15:00Z"});
    kinds(&vapi(json!({"type": "end-of-call-report", "endedReason": reason, "call": call})))
}

/// Every reason that Vapi's own types name, by what a report of it says with a start time and without.
#[test]
fn vapi_reasons_come_to_few_endings() {
    let mut counts = std::collections::BTreeMap::<String, u32>::new();
    for reason in include_str!("../fixtures/vapi/ended_reasons.txt").lines() {
        *counts.entry(format!("{} | {}", vapi_ended(reason, true), vapi_ended(reason, false))).or_default() += 1;
    }
    assert_eq!(counts.values().sum::<u32>(), 571);
    let lines: Vec<String> = counts.iter().map(|(said, count)| format!("{count}: {said}")).collect();
    assert_snapshot!(lines.join("\n"), @r"
    1: canceled | canceled
    5: completed | completed
    31: failed | failed
    2: failed! | failed!
    2: ~ringing busy | ~ringing busy
    1: ~ringing no_answer | ~ringing no_answer
    3: ~ringing ~in_progress completed | canceled
    16: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    509: ~ringing ~in_progress failed | failed
    1: ~ringing ~in_progress ~voicemail_detected completed | ~ringing ~in_progress ~voicemail_detected completed
    ");
}

#[test]
fn vapi_reasons_that_are_not_faults_say() {
    let reasons = include_str!("../fixtures/vapi/ended_reasons.txt").lines().chain(["a-reason-of-next-year", ""]);
    let lines: Vec<String> = reasons
        .filter(|reason| !reason.starts_with("pipeline-error-") && !reason.starts_with("call.in-progress.error-"))
        .map(|reason| format!("{reason}: {} | {}", vapi_ended(reason, true), vapi_ended(reason, false)))
        .collect();
    assert_snapshot!(lines.join("\n"), @r"
    assistant-ended-call: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    assistant-ended-call-after-message-spoken: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    assistant-ended-call-with-hangup-task: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    assistant-forwarded-call: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    assistant-join-timed-out: ~ringing ~in_progress failed | failed
    assistant-not-found: ~ringing ~in_progress failed | failed
    assistant-not-valid: ~ringing ~in_progress failed | failed
    assistant-request-failed: ~ringing ~in_progress failed | failed
    assistant-request-returned-error: ~ringing ~in_progress failed | failed
    assistant-request-returned-forwarding-phone-number: completed | completed
    assistant-request-returned-invalid-assistant: ~ringing ~in_progress failed | failed
    assistant-request-returned-no-assistant: ~ringing ~in_progress failed | failed
    assistant-request-returned-unspeakable-error: ~ringing ~in_progress failed | failed
    assistant-said-end-call-phrase: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    call-deleted: ~ringing ~in_progress completed | canceled
    call-start-error-neither-assistant-nor-server-set: failed | failed
    call.ending.hook-executed-say: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    call.ending.hook-executed-transfer: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    call.forwarding.operator-busy: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    call.in-progress.sip-completed-call: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    call.in-progress.twilio-completed-call: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    call.ringing.error-sip-inbound-call-failed-to-connect: failed | failed
    call.ringing.hook-executed-say: completed | completed
    call.ringing.hook-executed-transfer: completed | completed
    call.ringing.sip-inbound-caller-hungup-before-call-connect: canceled | canceled
    call.start.error-enterprise-feature-not-available-recording-consent: failed | failed
    call.start.error-fraud-check-failed: failed | failed
    call.start.error-get-assistant: failed | failed
    call.start.error-get-customer: failed | failed
    call.start.error-get-phone-number: failed | failed
    call.start.error-get-resources-validation: failed | failed
    call.start.error-get-transport: failed | failed
    call.start.error-subscription-concurrency-limit-reached: failed | failed
    call.start.error-subscription-frozen: failed | failed
    call.start.error-subscription-insufficient-credits: failed | failed
    call.start.error-subscription-upgrade-failed: failed | failed
    call.start.error-subscription-wallet-does-not-exist: failed | failed
    call.start.error-vapi-number-international: failed! | failed!
    call.start.error-vapi-number-outbound-daily-limit: failed | failed
    call.start.error-vapifault-database-error: failed | failed
    call.start.error-vapifault-get-org: failed | failed
    call.start.error-vapifault-get-subscription: failed | failed
    customer-busy: ~ringing busy | ~ringing busy
    customer-did-not-answer: ~ringing no_answer | ~ringing no_answer
    customer-did-not-give-microphone-permission: failed | failed
    customer-ended-call: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    customer-ended-call-after-warm-transfer-attempt: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    customer-ended-call-before-warm-transfer: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    customer-ended-call-during-transfer: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    exceeded-max-duration: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    manually-canceled: ~ringing ~in_progress completed | canceled
    phone-call-provider-bypass-enabled-but-no-call-received: failed | failed
    phone-call-provider-closed-websocket: ~ringing ~in_progress failed | failed
    scheduled-call-deleted: ~ringing ~in_progress completed | canceled
    silence-timed-out: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    twilio-failed-to-connect-call: failed | failed
    twilio-reported-customer-misdialed: failed! | failed!
    voicemail: ~ringing ~in_progress ~voicemail_detected completed | ~ringing ~in_progress ~voicemail_detected completed
    vonage-completed: completed | completed
    vonage-disconnected: completed | completed
    vonage-failed-to-connect-call: failed | failed
    vonage-rejected: ~ringing busy | ~ringing busy
    worker-shutdown: ~ringing ~in_progress failed | failed
    a-reason-of-next-year: completed | completed
    : completed | completed
    ");
}

#[test]
fn vapi_statuses_say() {
    let said = |status: &str| kinds(&vapi(json!({"type": "status-update", "status": status, "call": {"id": "c"}})));
    for (status, expected) in [
        ("scheduled", "recorded"),
        ("queued", "initiated"),
        ("ringing", "ringing"),
        ("in-progress", "~ringing in_progress"),
        ("forwarding", "~ringing ~in_progress"),
        // Over, but answered or not: for another report to say.
        ("ended", "completed"),
        ("not-found", "recorded"),
        ("a status of next year", "recorded"),
        ("", "recorded"),
    ] {
        assert_eq!(said(status), expected, "{status}");
    }
    assert_eq!(
        kinds(&vapi(
            json!({"type": "status-update", "status": "ended", "endedReason": "customer-busy", "call": {"id": "c"}})
        )),
        "~ringing busy"
    );
    assert_eq!(kinds(&vapi(json!({"type": "end-of-call-report", "call": {"id": "c"}}))), "completed");
}

#[test]
fn vapi_analysis_tells_the_outcome() {
    let said = |reason: &str, data: Value| {
        let analysis = json!({"structuredData": data});
        kinds(&vapi(
            json!({"type": "end-of-call-report", "endedReason": reason, "analysis": analysis, "call": {"id": "c"}}),
        ))
    };
    let outcome = |outcome: &str| json!({"outcome": outcome});
    assert_eq!(said("customer-ended-call", outcome("confirmed")), "~ringing ~in_progress user_confirmed ~completed");
    assert_eq!(
        said("customer-ended-call", json!({"appointment_confirmed": false})),
        "~ringing ~in_progress user_declined ~completed"
    );
    assert_eq!(said("customer-ended-call", outcome("call back")), "~ringing ~in_progress completed");
    assert_eq!(said("customer-ended-call", json!(["confirmed"])), "~ringing ~in_progress completed");
    // A machine cannot confirm, and nobody declines in a call that nobody answered.
    assert_eq!(said("voicemail", outcome("confirmed")), "~ringing ~in_progress ~voicemail_detected completed");
    assert_eq!(said("customer-did-not-answer", json!({"appointment_confirmed": false})), "~ringing no_answer");
    assert_eq!(said("a-reason-of-next-year", outcome("confirmed")), "user_confirmed ~completed");
}

#[test]
fn vapi_belongs_to_the_call_in_its_metadata() {
    let of = |call: Value, assistant: Value| {
        ids(vapi(json!({"type": "status-update", "status": "ringing", "call": call, "assistant": assistant})))
    };
    let some = |text: &str| Some(text.to_owned());
    let ours = json!({"switchhook_call_id": "x", "switchhook_attempt": "2", "appointment_id": "a"});
    let expected = ("x".to_owned(), some("2"), some("a"));
    assert_eq!(of(json!({"id": "c"}), json!(null)), ("vapi:c".to_owned(), some("c"), None));
    assert_eq!(of(json!({"id": "c", "assistantOverrides": {"metadata": ours}}), json!(null)), expected);
    assert_eq!(of(json!({"id": "c", "assistantOverrides": {"variableValues": ours}}), json!(null)), expected);
    assert_eq!(of(json!({"id": "c", "metadata": ours}), json!({"metadata": {"switchhook_call_id": "y"}})), expected);
    assert_eq!(of(json!({"id": "c"}), json!({"metadata": ours})), expected);
}

#[test]
fn vapi_event_ids_repeat_only_for_the_same_event() {
    let id = |message: Value| vapi(message).event_id().to_string();
    let update = |status: &str, at: i64| {
        id(json!({"type": "status-update", "status": status, "timestamp": at, "call": {"id": "c"}}))
    };
    assert_eq!(update("ringing", 1), "vapi:c:status-update:ringing");
    assert_eq!(update("ringing", 1), update("ringing", 2));
    assert_eq!(id(json!({"type": "end-of-call-report", "call": {"id": "c"}})), "vapi:c:end-of-call-report");
    let transcript = |text: &str| id(json!({"type": "transcript", "transcript": text, "call": {"id": "c"}}));
    assert_ne!(transcript("Hello"), transcript("Hello you"));
    assert_eq!(transcript("Hello"), transcript("Hello"));
    assert!(id(json!({"type": "status-update", "status": "ringing"})).starts_with("vapi:sha256-"));
}

#[test]
fn vapi_messages_that_name_no_type_or_call_are_quarantined() {
    for (message, expected) in [
        (json!({}), ReadError::MissingEventType),
        (json!(["status-update"]), ReadError::MissingEventType),
        (json!({"type": "end-of-call-report"}), ReadError::MissingCallId),
        (json!({"type": "status-update", "status": "ringing", "call": {"id": ""}}), ReadError::MissingCallId),
    ] {
        let Reading::Quarantined { error, .. } = vapi(message.clone()) else { panic!("{message}") };
        assert_eq!(error, expected, "{message}");
    }
}

fn telnyx(event_type: &str, payload: Value) -> Reading {
    let body = json!({"data": {"event_type": event_type, "id": "e1", "payload": payload}, "meta": {"attempt": 1}});
    read_body(Provider::Telnyx, "", body.to_string().as_bytes())
}

#[test]
fn telnyx_hangup_causes_say() {
    let said = |cause: &str, sip: &str| {
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
        // Over, but answered or not: for `call.answered` to say.
        ("normal_clearing", "completed"),
        ("time_limit", "completed"),
        ("unspecified", "completed"),
        ("a_cause_of_next_year", "completed"),
        ("", "completed"),
    ] {
        assert_eq!(said(cause, "unspecified"), expected, "{cause}");
    }
    // Who refuses a call with a SIP status has not answered it.
    for (sip, expected) in
        [("503", "failed"), ("400", "failed"), ("699", "failed"), ("200", "completed"), ("700", "completed")]
    {
        assert_eq!(said("unspecified", sip), expected, "{sip}");
        assert_eq!(said("user_busy", sip), "~ringing busy");
        assert_eq!(said("normal_clearing", sip), "completed");
    }
}

#[test]
fn telnyx_detections_say() {
    let said = |event_type: &str, result: &str| {
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
        ("call.dtmf.received", "", "recorded"),
    ] {
        assert_eq!(said(event_type, result), expected, "{event_type} {result}");
    }
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
        let event = folded(telnyx("call.answered", json!({"call_control_id": "v3:c", "client_state": state})));
        (event.call_id.to_string(), event.attempt.unwrap().to_string(), event.provider_call_id.unwrap())
    };
    let theirs = ("telnyx:v3:c".to_owned(), "v3:c".to_owned(), "v3:c".to_owned());
    // {"switchhook_call_id":"x","switchhook_attempt":"2"}
    let ours = "eyJzd2l0Y2hob29rX2NhbGxfaWQiOiJ4Iiwic3dpdGNoaG9va19hdHRlbXB0IjoiMiJ9";
    assert_eq!(of(ours), ("x".to_owned(), "2".to_owned(), "v3:c".to_owned()));
    // Nothing, not base64, and base64 of what is no object.
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
