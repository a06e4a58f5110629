//! Meaning of Retell's events.

use insta::assert_snapshot;
use serde_json::{Value, json};
use switchhook_domain::{CallEvent, Direction, EventKind, Provider, Timestamp};

use super::{ids, into_event, kinds, read_body, retell};

pub(crate) const REASONS: [&str; 41] = [
    "user_hangup",
    "agent_hangup",
    "user_requested_dnc",
    "user_requested_callback",
    "call_transfer",
    "voicemail_reached",
    "ivr_reached",
    "inactivity",
    "max_duration_reached",
    "concurrency_limit_reached",
    "no_concurrency_fallback",
    "no_valid_payment",
    "credit_exhausted",
    "budget_reached",
    "scam_detected",
    "dial_busy",
    "dial_failed",
    "dial_no_answer",
    "invalid_destination",
    "telephony_provider_permission_denied",
    "telephony_provider_unavailable",
    "sip_routing_error",
    "marked_as_spam",
    "network_blocked",
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

/// One line per reason: for a connected call, for one that was not connected, and for one without any other field.
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
    user_requested_dnc: ~ringing ~in_progress ~user_declined completed | ~ringing ~in_progress ~user_declined completed | ~ringing ~in_progress ~user_declined completed
    user_requested_callback: ~ringing ~in_progress completed | failed | ~ringing ~in_progress completed
    call_transfer: ~ringing ~in_progress completed | failed | ~ringing ~in_progress completed
    voicemail_reached: ~ringing ~in_progress ~voicemail_detected completed | ~ringing ~in_progress ~voicemail_detected completed | ~ringing ~in_progress ~voicemail_detected completed
    ivr_reached: ~ringing ~in_progress completed | failed | ~ringing ~in_progress completed
    inactivity: ~ringing ~in_progress completed | failed | ~ringing ~in_progress completed
    max_duration_reached: ~ringing ~in_progress completed | failed | ~ringing ~in_progress completed
    concurrency_limit_reached: failed^capacity | failed^capacity | failed^capacity
    no_concurrency_fallback: failed^capacity | failed^capacity | failed^capacity
    no_valid_payment: ~ringing ~in_progress failed | failed^account | failed^account
    credit_exhausted: ~ringing ~in_progress failed | failed^account | failed^account
    budget_reached: ~ringing ~in_progress failed | failed^account | failed^account
    scam_detected: ~ringing ~in_progress failed | failed^unclear | failed^unclear
    dial_busy: ~ringing busy | ~ringing busy | ~ringing busy
    dial_failed: failed | failed | failed
    dial_no_answer: ~ringing no_answer | ~ringing no_answer | ~ringing no_answer
    invalid_destination: failed! | failed! | failed!
    telephony_provider_permission_denied: failed^account | failed^account | failed^account
    telephony_provider_unavailable: failed | failed | failed
    sip_routing_error: failed | failed | failed
    marked_as_spam: ~ringing ~in_progress failed | failed | failed
    network_blocked: failed | failed | failed
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
            let mut ended = into_event(retell("call_ended", call.clone())).call_events;
            for call_event in &mut ended {
                call_event.implied = true;
            }
            assert_eq!(into_event(retell("call_analyzed", call)).call_events, ended, "{reason}");
        }
    }
}

#[test]
fn retell_person_who_asks_not_to_be_called_declines_and_is_blocked() {
    let call = |reason: &str| {
        json!({
            "call_id": "c",
            "disconnection_reason": reason,
            "call_analysis": {"in_voicemail": true, "custom_analysis_data": {"outcome": "confirmed"}},
        })
    };
    for event in ["call_ended", "call_analyzed"] {
        let reading = retell(event, call("user_requested_dnc"));
        assert!(kinds(&reading).contains("~user_declined"), "{event}: {}", kinds(&reading));
        assert!(!kinds(&reading).contains("confirmed") && !kinds(&reading).contains("voicemail"));
        assert!(into_event(reading).block_number);
        assert!(!into_event(retell(event, call("user_hangup"))).block_number);
    }
}

#[test]
fn retell_analysis_does_not_end_a_call_that_may_not_be_over() {
    assert_eq!(kinds(&retell("call_analyzed", json!({"call_id": "c"}))), "recorded");
    assert_eq!(kinds(&retell("call_analyzed", json!({"call_id": "c", "call_status": "ongoing"}))), "recorded");
    assert_eq!(kinds(&retell("call_analyzed", json!({"call_id": "c", "call_status": "ended"}))), "~completed");
}

#[test]
fn retell_ending_without_a_reason_goes_by_the_status() {
    let meaning = |call: Value| kinds(&retell("call_ended", call));
    let call = |status: &str| json!({"call_id": "c", "call_status": status});
    let connected = |status: &str| json!({"call_id": "c", "call_status": status, "start_timestamp": 1});
    assert_eq!(meaning(connected("ended")), "~ringing ~in_progress completed");
    assert_eq!(meaning(connected("error")), "~ringing ~in_progress failed");
    assert_eq!(meaning(connected("not_connected")), "failed");
    assert_eq!(meaning(connected("ongoing")), "~ringing ~in_progress completed");
    assert_eq!(meaning(call("error")), "failed");
    assert_eq!(meaning(call("not_connected")), "failed");
    // The call is over. Another webhook must say whether anybody answered.
    assert_eq!(meaning(call("ended")), "completed");
    assert_eq!(meaning(call("a status of next year")), "completed");
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
    let call_event =
        |kind, implied, millis| CallEvent { implied, ..CallEvent::new(kind, Some(Timestamp::from_millis(millis))) };
    assert_eq!(
        into_event(retell("call_ended", call)).call_events,
        [
            call_event(EventKind::Ringing, true, 1_714_608_475_945),
            call_event(EventKind::InProgress, true, 1_714_608_475_945),
            call_event(EventKind::VoicemailDetected, true, 1_714_608_491_736),
            call_event(EventKind::Completed, false, 1_714_608_491_736),
        ]
    );
}

#[test]
fn retell_analysis_tells_the_outcome() {
    let meaning = |analysis: Value| {
        kinds(&retell(
            "call_analyzed",
            json!({"call_id": "c", "disconnection_reason": "user_hangup", "call_analysis": analysis}),
        ))
    };
    let custom = |data: Value| meaning(json!({"custom_analysis_data": data}));
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
    assert_eq!(custom(json!({"outcome": "call back", "appointment_confirmed": false})), neither);
    assert_eq!(custom(json!({"outcome": " ", "appointment_confirmed": false})), declined);
    assert_eq!(custom(json!(["confirmed"])), neither);
    assert_eq!(meaning(json!({"call_successful": true})), neither);
    assert_eq!(meaning(json!("confirmed")), neither);
    assert_eq!(meaning(json!(null)), neither);
}

#[test]
fn retell_half_of_a_character_hides_nothing() {
    let body = |summary: &str| {
        let analysis = format!(r#"{{"call_summary":"{summary}","custom_analysis_data":{{"outcome":"confirmed"}}}}"#);
        format!(
            r#"{{"event":"call_analyzed","call":{{"call_id":"c","disconnection_reason":"user_hangup","call_analysis":{analysis}}}}}"#
        )
    };
    let reading = |summary: &str| read_body(Provider::Retell, "", body(summary).as_bytes());
    for half in [r"ok \ud83d", r"\uDE00", r"\ud83d\ud83d\ude00", r"\\\uD83D\u0041"] {
        assert_eq!(kinds(&reading(half)), "~ringing ~in_progress user_confirmed ~completed", "{half}");
    }
    // A lookup returns the same analysis, so its event has the same id.
    assert_eq!(reading(r"ok \ud83d").event_id(), reading("ok \u{fffd}").event_id());
    assert_ne!(reading(r"ok \ud83d").event_id(), reading(r"ok \\ud83d").event_id());
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
    // Retell reports both a voicemail and a confirmation. We keep both.
    assert_eq!(
        kinds(&retell("call_analyzed", call("voicemail_reached", false))),
        "~ringing ~in_progress ~voicemail_detected user_confirmed ~completed"
    );
}

/// A boolean of the analysis is false if nobody said anything. So a mailbox would seem to decline.
#[test]
fn retell_mailbox_decides_nothing() {
    let meaning = |in_voicemail: Value, data: Value| {
        let analysis = json!({"in_voicemail": in_voicemail, "custom_analysis_data": data});
        let call = json!({"call_id": "c", "disconnection_reason": "voicemail_reached", "call_analysis": analysis});
        kinds(&retell("call_analyzed", call))
    };
    let voicemail = "~ringing ~in_progress ~voicemail_detected ~completed";
    for in_voicemail in [json!(null), json!(false)] {
        assert_eq!(meaning(in_voicemail.clone(), json!({"appointment_confirmed": false})), voicemail);
        assert_eq!(meaning(in_voicemail, json!({"outcome": "declined"})), voicemail);
    }
    // Only an analysis that says that no machine answered can have heard a confirmation.
    assert_eq!(meaning(json!(null), json!({"outcome": "confirmed"})), voicemail);
}

/// A phone menu is a machine too. No analysis calls it a mailbox.
#[test]
fn retell_phone_menu_declines_nothing() {
    let meaning = |in_voicemail: Value, data: Value| {
        let analysis = json!({"in_voicemail": in_voicemail, "custom_analysis_data": data});
        let call = json!({"call_id": "c", "disconnection_reason": "ivr_reached", "call_analysis": analysis});
        kinds(&retell("call_analyzed", call))
    };
    let connected = "~ringing ~in_progress ~completed";
    for in_voicemail in [json!(null), json!(false)] {
        assert_eq!(meaning(in_voicemail.clone(), json!({"appointment_confirmed": false})), connected);
        assert_eq!(meaning(in_voicemail, json!({"outcome": "declined"})), connected);
    }
    // A person may have answered after the menu.
    let confirmed = "~ringing ~in_progress user_confirmed ~completed";
    assert_eq!(meaning(json!(false), json!({"outcome": "confirmed"})), confirmed);
    assert_eq!(meaning(json!(null), json!({"outcome": "confirmed"})), connected);
}

#[test]
fn retell_no_mailbox_is_reached_in_a_call_that_nobody_answered() {
    for (reason, status) in
        [("dial_no_answer", "ended"), ("a_reason_of_next_year", "not_connected"), ("no_valid_payment", "not_connected")]
    {
        let call = |analysis: Value| {
            let call = json!({
                "call_id": "c", "call_status": status, "disconnection_reason": reason, "call_analysis": analysis,
            });
            kinds(&retell("call_analyzed", call))
        };
        let of_machine = call(json!({"in_voicemail": true}));
        assert_eq!(of_machine, call(json!({"in_voicemail": false})), "{reason}");
        assert!(!of_machine.contains("voicemail"), "{reason}: {of_machine}");
    }
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
    let event = into_event(read_body(Provider::Retell, "", body.as_bytes()));
    assert_eq!((event.call_id.as_str(), event.direction), ("retell:c", Some(Direction::Inbound)));
}

#[test]
fn retell_belongs_to_the_call_in_its_metadata() {
    let of = |call: Value| ids(retell("call_started", call));
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(of(json!({"call_id": "c"})), ("retell:c".to_owned(), some("retell:c"), None));
    assert_eq!(
        of(json!({"call_id": "c", "metadata": {"appointment_id": 42}})),
        ("appointment:42".to_owned(), some("retell:c"), some("42"))
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
        ("x".to_owned(), some("retell:c"), some("a"))
    );
    assert_eq!(
        of(json!({"call_id": "c", "collected_dynamic_variables": {"appointment_id": "heard"}, "metadata": "odd"})),
        ("retell:c".to_owned(), some("retell:c"), None)
    );
    assert_eq!(of(json!({"metadata": {"switchhook_call_id": "x"}})), ("x".to_owned(), None, None));
}

/// Retell fills the variables from SIP headers, so the caller can choose them.
#[test]
fn variables_of_an_inbound_call_of_retell_name_no_call_of_ours() {
    let of = |call: Value| {
        let mut whole = json!({"call_id": "c", "direction": "inbound"});
        whole.as_object_mut().unwrap().extend(call.as_object().unwrap().clone());
        ids(retell("call_started", whole)).0
    };
    let ours = json!({"switchhook_call_id": "x", "appointment_id": "a"});
    assert_eq!(of(json!({"retell_llm_dynamic_variables": ours})), "retell:c");
    let metadata = json!({"appointment_id": "b"});
    assert_eq!(of(json!({"metadata": metadata, "retell_llm_dynamic_variables": ours})), "appointment:b");
}

/// The page of a web call is with its visitor, who may have chosen the metadata and the variables.
#[test]
fn retell_call_that_is_no_phone_call_names_no_call_of_ours() {
    let ours = json!({"switchhook_call_id": "x", "switchhook_attempt": "2", "appointment_id": "a"});
    for call_type in ["web_call", "a_type_of_next_year"] {
        let call = json!({
            "call_id": "web-1", "call_type": call_type, "metadata": ours, "retell_llm_dynamic_variables": ours,
        });
        let derived = Some("retell:web-1".to_owned());
        assert_eq!(ids(retell("call_ended", call)), ("retell:web-1".to_owned(), derived, None), "{call_type}");
    }
}
