//! Meaning of ElevenLabs' events.

use insta::assert_snapshot;
use serde_json::{Value, json};
use switchhook_domain::{Direction, PhoneNumber, Provider, Timestamp};
use switchhook_providers::{ReadError, Reading};

use super::{ids, into_event, kinds, read_body};

fn elevenlabs(event_type: &str, data: Value) -> Reading {
    let body = json!({"type": event_type, "event_timestamp": 1_760_962_525, "data": data});
    read_body(Provider::ElevenLabs, "", body.to_string().as_bytes())
}

fn transcription(data: Value) -> Reading {
    let mut whole = json!({"conversation_id": "c"});
    whole.as_object_mut().unwrap().extend(data.as_object().unwrap().clone());
    elevenlabs("post_call_transcription", whole)
}

/// Call events of a conversation with this result of the phone call, this status and this length.
fn ended(call_result: Option<&str>, status: &str, seconds: Option<u32>) -> String {
    let metadata = json!({"call_duration_secs": seconds, "phone_call": {"call_result": call_result}});
    kinds(&transcription(json!({"status": status, "metadata": metadata})))
}

#[test]
fn conversation_that_is_no_call_changes_nothing() {
    let of = |metadata: Value| {
        let mut whole = json!({"start_time_unix_secs": 1_760_962_400, "call_duration_secs": 40});
        whole.as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        kinds(&transcription(json!({"status": "done", "metadata": whole})))
    };
    let source = |source: &str| of(json!({"conversation_initiation_source": source, "text_only": false}));
    assert_eq!(of(json!({"text_only": true, "conversation_initiation_source": "js_sdk"})), "recorded");
    for text in
        ["widget", "twilio_sms", "slack_integration", "zendesk_integration", "template_preview", "subagent_tool"]
    {
        assert_eq!(source(text), "recorded", "{text}");
    }
    let call = "~ringing ~in_progress completed";
    for voice in ["twilio", "sip_trunk", "js_sdk", "whatsapp", "unknown", "a_source_of_next_year"] {
        assert_eq!(source(voice), call, "{voice}");
    }
    assert_eq!(of(json!({})), call);
    // A phone call is one wherever it began.
    let phone_call = json!({"call_result": "answered", "direction": "inbound"});
    assert_eq!(of(json!({"conversation_initiation_source": "widget", "phone_call": phone_call})), call);
}

#[test]
fn result_of_the_phone_call_counts_first_then_status_and_length() {
    let results = [
        Some("answered"),
        Some("voicemail"),
        Some("busy"),
        Some("no_answer"),
        Some("failed"),
        Some("a_word_of_next_year"),
        None,
    ];
    let mut lines = Vec::new();
    for result in results {
        for status in ["done", "failed", "processing", "a-word-of-next-year"] {
            let of = |seconds| ended(result, status, seconds);
            let name = result.unwrap_or("-");
            lines.push(format!("{name} {status}: {} | {} | {}", of(Some(9)), of(Some(0)), of(None)));
        }
    }
    assert_snapshot!(lines.join("\n"), @r"
    answered done: ~ringing ~in_progress completed | ~ringing ~in_progress completed | ~ringing ~in_progress completed
    answered failed: ~ringing ~in_progress failed | ~ringing ~in_progress failed | ~ringing ~in_progress failed
    answered processing: ~ringing ~in_progress completed | ~ringing ~in_progress completed | ~ringing ~in_progress completed
    answered a-word-of-next-year: ~ringing ~in_progress completed | ~ringing ~in_progress completed | ~ringing ~in_progress completed
    voicemail done: ~ringing ~in_progress ~voicemail_detected completed | ~ringing ~in_progress ~voicemail_detected completed | ~ringing ~in_progress ~voicemail_detected completed
    voicemail failed: ~ringing ~in_progress ~voicemail_detected completed | ~ringing ~in_progress ~voicemail_detected completed | ~ringing ~in_progress ~voicemail_detected completed
    voicemail processing: ~ringing ~in_progress ~voicemail_detected completed | ~ringing ~in_progress ~voicemail_detected completed | ~ringing ~in_progress ~voicemail_detected completed
    voicemail a-word-of-next-year: ~ringing ~in_progress ~voicemail_detected completed | ~ringing ~in_progress ~voicemail_detected completed | ~ringing ~in_progress ~voicemail_detected completed
    busy done: ~ringing busy | ~ringing busy | ~ringing busy
    busy failed: ~ringing busy | ~ringing busy | ~ringing busy
    busy processing: ~ringing busy | ~ringing busy | ~ringing busy
    busy a-word-of-next-year: ~ringing busy | ~ringing busy | ~ringing busy
    no_answer done: ~ringing no_answer | ~ringing no_answer | ~ringing no_answer
    no_answer failed: ~ringing no_answer | ~ringing no_answer | ~ringing no_answer
    no_answer processing: ~ringing no_answer | ~ringing no_answer | ~ringing no_answer
    no_answer a-word-of-next-year: ~ringing no_answer | ~ringing no_answer | ~ringing no_answer
    failed done: ~ringing ~in_progress failed | failed | failed
    failed failed: ~ringing ~in_progress failed | failed | failed
    failed processing: ~ringing ~in_progress failed | failed | failed
    failed a-word-of-next-year: ~ringing ~in_progress failed | failed | failed
    a_word_of_next_year done: ~ringing ~in_progress completed | completed | completed
    a_word_of_next_year failed: ~ringing ~in_progress failed | completed | completed
    a_word_of_next_year processing: completed | completed | completed
    a_word_of_next_year a-word-of-next-year: completed | completed | completed
    - done: ~ringing ~in_progress completed | completed | completed
    - failed: ~ringing ~in_progress failed | failed | completed
    - processing: completed | completed | completed
    - a-word-of-next-year: completed | completed | completed
    ");
}

/// The agent's own tool found the voicemail. The carrier knows only that something answered, and the analysis that nobody confirmed.
#[test]
fn machine_that_the_agent_found_out_declines_nothing() {
    let of = |call_result: Option<&str>, used: Value| {
        let features = json!({"voicemail_detection": {"enabled": true, "used": used}});
        let phone_call = json!({"call_result": call_result});
        let metadata = json!({"call_duration_secs": 20, "phone_call": phone_call, "features_usage": features});
        let analysis = json!({"data_collection_results": {"appointment_confirmed": {"value": false}}});
        kinds(&transcription(json!({"status": "done", "metadata": metadata, "analysis": analysis})))
    };
    let voicemail = "~ringing ~in_progress ~voicemail_detected completed";
    let declined = "~ringing ~in_progress user_declined ~completed";
    for result in [None, Some("answered"), Some("voicemail"), Some("a_word_of_next_year")] {
        assert_eq!(of(result, json!(true)), voicemail, "{result:?}");
    }
    for used in [json!(false), json!(null), json!({"odd": 1})] {
        assert_eq!(of(None, used.clone()), declined, "{used}");
    }
    // Nobody answered.
    assert_eq!(of(Some("busy"), json!(true)), "~ringing busy");
}

/// ElevenLabs sends `call_initiation_failure` for a call that nobody answered, so a transcription in a webhook is no such call.
#[test]
fn call_that_never_became_a_conversation_is_told_by_its_record_alone() {
    let data = |phone_call: Value| {
        let metadata = json!({"call_duration_secs": 0, "phone_call": phone_call});
        json!({"conversation_id": "c", "status": "failed", "metadata": metadata})
    };
    let record = |data: Value| {
        let body = json!({"type": "post_call_transcription", "looked_up": true, "data": data});
        kinds(&read_body(Provider::ElevenLabs, "", body.to_string().as_bytes()))
    };
    assert_eq!(record(data(json!({}))), "~ringing no_answer");
    assert_eq!(kinds(&transcription(data(json!({})))), "failed");
    for odd in [json!(1_760_962_525.5), Value::Null] {
        let body = json!({"type": "post_call_transcription", "event_timestamp": odd, "data": data(json!({}))});
        assert_eq!(kinds(&read_body(Provider::ElevenLabs, "", body.to_string().as_bytes())), "failed", "{odd}");
    }
    assert_eq!(record(data(json!({"call_result": "busy"}))), "~ringing busy");
    assert_eq!(record(data(Value::Null)), "failed");
}

#[test]
fn reason_of_a_call_that_never_began_says() {
    let failure = |reason: Value| {
        kinds(&elevenlabs("call_initiation_failure", json!({"conversation_id": "c", "failure_reason": reason})))
    };
    let reasons = ["busy", "no-answer", "unknown", "a-word-of-next-year", ""];
    let lines = reasons.map(|reason| format!("{reason}: {}", failure(json!(reason))));
    assert_snapshot!(lines.join("\n"), @r"
    busy: ~ringing busy
    no-answer: ~ringing no_answer
    unknown: failed
    a-word-of-next-year: failed
    : failed
    ");
}

#[test]
fn decision_is_one_of_the_collected_values() {
    let decided = |result: &str, results: Value| {
        let metadata = json!({"call_duration_secs": 9, "phone_call": {"call_result": result}});
        let analysis = json!({"data_collection_results": results});
        kinds(&transcription(json!({"status": "done", "metadata": metadata, "analysis": analysis})))
    };
    let value = |value: Value| json!({"value": value, "rationale": "confirmed"});
    let cases = [
        ("answered", json!({"outcome": value(json!("Confirmed "))})),
        ("answered", json!({"outcome": value(json!("declined"))})),
        ("answered", json!({"appointment_confirmed": value(json!(true))})),
        ("answered", json!({"appointment_confirmed": value(json!(false))})),
        ("answered", json!({"outcome": value(json!("declined")), "appointment_confirmed": value(json!(true))})),
        ("answered", json!({"outcome": value(json!("confused"))})),
        ("answered", json!({"outcome": value(Value::Null)})),
        ("answered", json!({"outcome": "confirmed"})),
        ("answered", json!([])),
        // A machine cannot confirm, and neither can a person who did not answer.
        ("voicemail", json!({"outcome": value(json!("confirmed"))})),
        ("no_answer", json!({"outcome": value(json!("confirmed"))})),
        ("a_word_of_next_year", json!({"outcome": value(json!("confirmed"))})),
    ];
    let lines = cases.map(|(result, results)| format!("{result} {results}: {}", decided(result, results.clone())));
    assert_snapshot!(lines.join("\n"), @r#"
    answered {"outcome":{"rationale":"confirmed","value":"Confirmed "}}: ~ringing ~in_progress user_confirmed ~completed
    answered {"outcome":{"rationale":"confirmed","value":"declined"}}: ~ringing ~in_progress user_declined ~completed
    answered {"appointment_confirmed":{"rationale":"confirmed","value":true}}: ~ringing ~in_progress user_confirmed ~completed
    answered {"appointment_confirmed":{"rationale":"confirmed","value":false}}: ~ringing ~in_progress user_declined ~completed
    answered {"appointment_confirmed":{"rationale":"confirmed","value":true},"outcome":{"rationale":"confirmed","value":"declined"}}: ~ringing ~in_progress user_declined ~completed
    answered {"outcome":{"rationale":"confirmed","value":"confused"}}: ~ringing ~in_progress completed
    answered {"outcome":{"rationale":"confirmed","value":null}}: ~ringing ~in_progress completed
    answered {"outcome":"confirmed"}: ~ringing ~in_progress completed
    answered []: ~ringing ~in_progress completed
    voicemail {"outcome":{"rationale":"confirmed","value":"confirmed"}}: ~ringing ~in_progress ~voicemail_detected completed
    no_answer {"outcome":{"rationale":"confirmed","value":"confirmed"}}: ~ringing no_answer
    a_word_of_next_year {"outcome":{"rationale":"confirmed","value":"confirmed"}}: ~ringing ~in_progress user_confirmed ~completed
    "#);
}

#[test]
fn decision_proves_an_answer_that_nothing_else_proves() {
    let analysis = json!({"data_collection_results": {"outcome": {"value": "confirmed"}}});
    assert_eq!(kinds(&transcription(json!({"analysis": analysis}))), "user_confirmed ~completed");
}

#[test]
fn analysis_is_part_of_the_event_id_and_the_time_of_the_webhook_is_not() {
    let id = |analysis: Value, at: u64| {
        let data = json!({"conversation_id": "c", "status": "done", "analysis": analysis});
        let body = json!({"type": "post_call_transcription", "event_timestamp": at, "data": data}).to_string();
        read_body(Provider::ElevenLabs, "", body.as_bytes()).event_id().to_string()
    };
    let analysed = id(json!({"a": 1, "b": 2}), 1);
    assert!(analysed.starts_with("elevenlabs:c:post_call_transcription:"), "{analysed}");
    assert_eq!(id(json!({"b": 2, "a": 1}), 2), analysed);
    assert_ne!(id(json!({"b": 2, "a": 3}), 1), analysed);
    assert_eq!(id(Value::Null, 1), "elevenlabs:c:post_call_transcription");
}

#[test]
fn call_is_the_one_that_the_variables_name() {
    let with = |variables: Value| {
        let data = json!({"dynamic_variables": variables});
        let metadata = json!({"phone_call": {"call_result": "answered"}});
        ids(transcription(json!({"status": "done", "metadata": metadata, "conversation_initiation_client_data": data})))
    };
    let owned = |text: &str| text.to_owned();
    let ours = json!({"switchhook_call_id": "call-1", "switchhook_attempt": "2", "appointment_id": "apt_1"});
    assert_eq!(with(ours), (owned("call-1"), Some(owned("2")), Some(owned("apt_1"))));
    let theirs = (owned("appointment:apt_1"), Some(owned("elevenlabs:c")), Some(owned("apt_1")));
    assert_eq!(with(json!({"appointment_id": "apt_1"})), theirs);
    // `call_initiation_failure` repeats no variables by its documentation: the alias of the dial leads to the call.
    let failure = elevenlabs("call_initiation_failure", json!({"conversation_id": "c", "failure_reason": "busy"}));
    assert_eq!(ids(failure), (owned("elevenlabs:c"), Some(owned("elevenlabs:c")), None));
}

/// The page of such a conversation is with its visitor, who can choose the variables and the source.
#[test]
fn conversation_that_is_no_phone_call_names_no_call_of_ours() {
    let ours = json!({"switchhook_call_id": "x", "switchhook_attempt": "2", "appointment_id": "a"});
    let client_data = json!({"dynamic_variables": ours});
    for metadata in [
        json!(null),
        json!({"conversation_initiation_source": "js_sdk"}),
        json!({"conversation_initiation_source": "twilio", "phone_call": null}),
    ] {
        let data = json!({"status": "done", "metadata": metadata, "conversation_initiation_client_data": client_data});
        let derived = Some("elevenlabs:c".to_owned());
        assert_eq!(ids(transcription(data)), ("elevenlabs:c".to_owned(), derived, None), "{metadata}");
    }
    // Only a phone call fails to start.
    let data = json!({"conversation_id": "c", "conversation_initiation_client_data": client_data});
    assert_eq!(ids(elevenlabs("call_initiation_failure", data)).0, "x");
}

#[test]
fn numbers_depend_on_the_direction() {
    let numbers = |direction: &str| {
        let call = json!({"direction": direction, "agent_number": "+1", "external_number": "+2"});
        let event = into_event(transcription(json!({"status": "done", "metadata": {"phone_call": call}})));
        let text = |number: Option<PhoneNumber>| number.map(|number| number.as_str().to_owned());
        (event.direction, text(event.from), text(event.to))
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(numbers("outbound"), (Some(Direction::Outbound), text("+1"), text("+2")));
    assert_eq!(numbers("inbound"), (Some(Direction::Inbound), text("+2"), text("+1")));
    assert_eq!(numbers("sideways"), (None, None, None));
}

#[test]
fn end_is_the_start_and_the_length_or_the_time_of_the_webhook() {
    let ended_at = |metadata: Value| {
        let event = into_event(transcription(json!({"status": "done", "metadata": metadata})));
        event.call_events.last().unwrap().occurred_at
    };
    let at = |seconds: i64| Some(Timestamp::from_millis(seconds * 1000));
    let start = 1_760_962_437;
    assert_eq!(ended_at(json!({"start_time_unix_secs": start, "call_duration_secs": 84})), at(start + 84));
    for metadata in [json!({"call_duration_secs": 84}), json!({"start_time_unix_secs": start}), json!(null)] {
        assert_eq!(ended_at(metadata), at(1_760_962_525));
    }
    // Numbers that do not fit are no times.
    let far = json!({"start_time_unix_secs": i64::MAX, "call_duration_secs": i64::MAX});
    assert_eq!(ended_at(far), at(1_760_962_525));
}

#[test]
fn other_types_are_recorded_and_a_known_one_needs_a_conversation() {
    for event_type in ["post_call_audio", "answering_machine_detection", "unredacted_transcript"] {
        let reading = elevenlabs(event_type, json!({"conversation_id": "c", "status": "done"}));
        let Reading::Recorded { event_id, event_type: recorded, call_id } = reading else { panic!("{reading:?}") };
        assert_eq!((recorded.as_str(), call_id.unwrap().as_str()), (event_type, "elevenlabs:c"));
        assert!(event_id.as_str().starts_with(&format!("elevenlabs:c:{event_type}:")), "{event_id}");
    }
    for data in [json!(null), json!({}), json!({"conversation_id": " "}), json!([])] {
        let reading = elevenlabs("post_call_transcription", data);
        assert_eq!(kinds(&reading), ReadError::MissingCallId.to_string());
    }
}
