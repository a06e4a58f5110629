//! Meaning of Vapi's messages.

use std::collections::BTreeMap;

use insta::assert_snapshot;
use serde_json::{Value, json};
use switchhook_providers::{ReadError, Reading};

use super::{ids, kinds, vapi};

fn vapi_ended(reason: &str, started: bool) -> String {
    let started_at = started.then_some("2025-10-20T12:14:00Z");
    let call = json!({"id": "c", "startedAt": started_at, "endedAt": "2025-10-20T12:15:00Z"});
    kinds(&vapi(json!({"type": "end-of-call-report", "endedReason": reason, "call": call})))
}

/// Counts the meanings of all reasons in Vapi's own types, each with a start time and without.
#[test]
fn vapi_reasons_come_to_few_endings() {
    let mut counts = BTreeMap::<String, u32>::new();
    for reason in include_str!("../../../fixtures/vapi/ended_reasons.txt").lines() {
        *counts.entry(format!("{} | {}", vapi_ended(reason, true), vapi_ended(reason, false))).or_default() += 1;
    }
    assert_eq!(counts.values().sum::<u32>(), 604);
    let lines: Vec<String> = counts.iter().map(|(meaning, count)| format!("{count}: {meaning}")).collect();
    assert_snapshot!(lines.join("\n"), @r"
    1: canceled | canceled
    5: completed | completed
    7: completed | failed
    7: completed | failed^account
    1: completed | ~ringing busy
    2: completed | ~ringing no_answer
    5: failed | failed
    2: failed! | failed!
    6: failed^account | failed^account
    1: failed^capacity | failed^capacity
    14: failed^unclear | failed^unclear
    1: ~ringing busy | ~ringing busy
    1: ~ringing no_answer | ~ringing no_answer
    3: ~ringing ~in_progress completed | canceled
    17: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    529: ~ringing ~in_progress failed | failed
    1: ~ringing ~in_progress failed | failed^account
    1: ~ringing ~in_progress ~voicemail_detected completed | ~ringing ~in_progress ~voicemail_detected completed
    ");
}

#[test]
fn vapi_reasons_that_are_not_faults_say() {
    let reasons = include_str!("../../../fixtures/vapi/ended_reasons.txt").lines().chain(["a-reason-of-next-year", ""]);
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
    assistant-not-found: completed | failed^account
    assistant-not-valid: completed | failed^account
    assistant-request-failed: completed | failed^account
    assistant-request-returned-error: completed | failed^account
    assistant-request-returned-forwarding-phone-number: completed | completed
    assistant-request-returned-invalid-assistant: completed | failed^account
    assistant-request-returned-no-assistant: completed | failed^account
    assistant-request-returned-unspeakable-error: completed | failed^account
    assistant-said-end-call-phrase: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    call-deleted: ~ringing ~in_progress completed | canceled
    call-start-error-neither-assistant-nor-server-set: failed^unclear | failed^unclear
    call.ending.hook-executed-say: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    call.ending.hook-executed-transfer: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    call.forwarding.no-answer: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    call.forwarding.operator-busy: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    call.in-progress.sip-completed-call: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    call.in-progress.twilio-completed-call: ~ringing ~in_progress completed | ~ringing ~in_progress completed
    call.ringing.error-sip-inbound-call-failed-to-connect: failed | failed
    call.ringing.hook-executed-say: completed | completed
    call.ringing.hook-executed-transfer: completed | completed
    call.ringing.sip-inbound-caller-hungup-before-call-connect: canceled | canceled
    call.start.assistant-version-error-validation: failed^unclear | failed^unclear
    call.start.error-enterprise-feature-not-available-recording-consent: failed^account | failed^account
    call.start.error-fraud-check-failed: failed^unclear | failed^unclear
    call.start.error-get-assistant: failed^unclear | failed^unclear
    call.start.error-get-customer: failed^unclear | failed^unclear
    call.start.error-get-phone-number: failed^unclear | failed^unclear
    call.start.error-get-resources-validation: failed^unclear | failed^unclear
    call.start.error-get-transport: failed^unclear | failed^unclear
    call.start.error-subscription-concurrency-limit-reached: failed^capacity | failed^capacity
    call.start.error-subscription-frozen: failed^account | failed^account
    call.start.error-subscription-insufficient-credits: failed^account | failed^account
    call.start.error-subscription-upgrade-failed: failed^account | failed^account
    call.start.error-subscription-wallet-does-not-exist: failed^account | failed^account
    call.start.error-vapi-number-international: failed^unclear | failed^unclear
    call.start.error-vapi-number-outbound-daily-limit: failed^account | failed^account
    call.start.error-vapifault-database-error: failed^unclear | failed^unclear
    call.start.error-vapifault-get-org: failed^unclear | failed^unclear
    call.start.error-vapifault-get-subscription: failed^unclear | failed^unclear
    call.start.error-vapifault-worker-not-available: failed^unclear | failed^unclear
    call.start.squad-version-error-validation: failed^unclear | failed^unclear
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
    sip-outbound-carrier-released-call: ~ringing ~in_progress failed | failed
    sip-outbound-unallocated-number: failed! | failed!
    twilio-failed-to-connect-call: completed | failed
    twilio-reported-customer-misdialed: failed! | failed!
    voicemail: ~ringing ~in_progress ~voicemail_detected completed | ~ringing ~in_progress ~voicemail_detected completed
    vonage-completed: completed | completed
    vonage-disconnected: completed | completed
    vonage-failed-to-connect-call: completed | failed
    vonage-rejected: completed | ~ringing busy
    worker-shutdown: ~ringing ~in_progress failed | failed
    a-reason-of-next-year: completed | completed
    : completed | completed
    ");
}

#[test]
fn vapi_statuses_say() {
    let meaning = |status: &str| kinds(&vapi(json!({"type": "status-update", "status": status, "call": {"id": "c"}})));
    for (status, expected) in [
        ("scheduled", "recorded"),
        ("queued", "initiated"),
        ("ringing", "ringing"),
        ("in-progress", "~ringing in_progress"),
        ("forwarding", "~ringing ~in_progress"),
        // The call is over. Another webhook must say whether anybody answered.
        ("ended", "completed"),
        ("not-found", "recorded"),
        ("a status of next year", "recorded"),
        ("", "recorded"),
    ] {
        assert_eq!(meaning(status), expected, "{status}");
    }
    assert_eq!(
        kinds(&vapi(
            json!({"type": "status-update", "status": "ended", "endedReason": "customer-busy", "call": {"id": "c"}})
        )),
        "~ringing busy"
    );
    assert_eq!(kinds(&vapi(json!({"type": "end-of-call-report", "call": {"id": "c"}}))), "completed");
}

/// The status update repeats the call as it was created. Without a start time, it does not say that nobody answered: a
/// person whose `in-progress` was lost must not be called again.
#[test]
fn vapi_status_update_alone_does_not_say_that_a_fault_came_before_the_answer() {
    let sent: Value = serde_json::from_str(include_str!("../../../fixtures/vapi/status_ended.json")).unwrap();
    let meaning = |reason: &str, times: Value| {
        let mut message = sent["message"].clone();
        message["endedReason"] = reason.into();
        for (name, time) in times.as_object().unwrap() {
            message["call"][name] = time.clone();
        }
        kinds(&vapi(message))
    };
    let (start, end) = ("2025-10-20T12:14:00Z", "2025-10-20T12:15:00Z");
    for reason in include_str!("../../../fixtures/vapi/ended_reasons.txt").lines() {
        let (started, never_started) = (vapi_ended(reason, true), vapi_ended(reason, false));
        // A trunk may have rejected the dial, or a transfer in the conversation. A conversation may have been none.
        let alone = match started == never_started && started != "~ringing ~in_progress completed" {
            true => &never_started,
            // The bare `completed` of the others would outrank the failure in the report, or that nobody was dialled.
            false if started == "~ringing ~in_progress failed" || never_started == "failed^account" => "recorded",
            false => "completed",
        };
        assert_eq!(meaning(reason, json!({})), alone, "{reason}");
        assert_eq!(meaning(reason, json!({"startedAt": start})), started, "{reason}");
        // A lookup has the times of the whole call.
        assert_eq!(meaning(reason, json!({"endedAt": end})), never_started, "{reason}");
    }
    for (reason, alone) in [
        ("worker-shutdown", "recorded"),
        ("assistant-not-found", "recorded"),
        ("pipeline-error-openai-llm-failed", "recorded"),
        ("manually-canceled", "completed"),
    ] {
        assert_eq!(meaning(reason, json!({})), alone, "{reason}");
    }
}

/// A status update without times is only recorded, and must not take the event id of one with times, which decides.
#[test]
fn vapi_rejected_trunk_leaves_the_event_id_to_the_status_update_with_times() {
    let read = |end: Value| {
        let call = json!({"id": "c", "endedAt": end});
        let reason = "call.in-progress.error-providerfault-outbound-sip-407-proxy-authentication-required";
        vapi(json!({"type": "status-update", "status": "ended", "endedReason": reason, "call": call}))
    };
    let (alone, timed) = (read(json!(null)), read(json!("2025-10-20T12:15:00Z")));
    assert_eq!((kinds(&alone), kinds(&timed)), ("recorded".to_owned(), "failed^account".to_owned()));
    assert_ne!(alone.event_id(), timed.event_id());
    assert_eq!(timed.event_id().as_str(), "vapi:c:status-update:ended");
}

#[test]
fn vapi_analysis_tells_the_outcome() {
    let meaning = |reason: &str, data: Value| {
        let analysis = json!({"structuredData": data});
        kinds(&vapi(
            json!({"type": "end-of-call-report", "endedReason": reason, "analysis": analysis, "call": {"id": "c"}}),
        ))
    };
    let outcome = |outcome: &str| json!({"outcome": outcome});
    assert_eq!(meaning("customer-ended-call", outcome("confirmed")), "~ringing ~in_progress user_confirmed ~completed");
    assert_eq!(
        meaning("customer-ended-call", json!({"appointment_confirmed": false})),
        "~ringing ~in_progress user_declined ~completed"
    );
    assert_eq!(meaning("customer-ended-call", outcome("call back")), "~ringing ~in_progress completed");
    assert_eq!(meaning("customer-ended-call", json!(["confirmed"])), "~ringing ~in_progress completed");
    // A machine cannot confirm, and in a call without an answer nobody can decline.
    assert_eq!(meaning("voicemail", outcome("confirmed")), "~ringing ~in_progress ~voicemail_detected completed");
    assert_eq!(meaning("customer-did-not-answer", json!({"appointment_confirmed": false})), "~ringing no_answer");
    assert_eq!(meaning("a-reason-of-next-year", outcome("confirmed")), "user_confirmed ~completed");
}

#[test]
fn vapi_structured_outputs_tell_the_outcome() {
    let meaning = |outputs: Value, data: Value| {
        kinds(&vapi(json!({
            "type": "end-of-call-report",
            "endedReason": "customer-ended-call",
            "artifact": {"structuredOutputs": outputs},
            "analysis": {"structuredData": data},
            "call": {"id": "c"},
        })))
    };
    let (confirmed, declined) =
        ("~ringing ~in_progress user_confirmed ~completed", "~ringing ~in_progress user_declined ~completed");
    let none = "~ringing ~in_progress completed";
    let id = "2f6c0c1e-4b7a-4d2e-9c3f-000000000003";
    let output = |name: &str, result: Value| json!({id: {"name": name, "result": result}});
    assert_eq!(meaning(output("Appointment", json!({"outcome": "confirmed"})), json!(null)), confirmed);
    assert_eq!(meaning(output("outcome", json!("declined")), json!(null)), declined);
    assert_eq!(meaning(output("appointment_confirmed", json!(true)), json!(null)), confirmed);
    // A structured output wins over the older analysis.
    assert_eq!(meaning(output("outcome", json!("declined")), json!({"outcome": "confirmed"})), declined);
    assert_eq!(meaning(output("Sentiment", json!("good")), json!({"outcome": "confirmed"})), confirmed);
    assert_eq!(meaning(json!([]), json!(null)), none);
    assert_eq!(meaning(json!({"a": "odd", "b": {"name": 7}, "c": {"result": null}}), json!(null)), none);
    // The API shows them inside the call.
    let call = json!({"id": "c", "artifact": {"structuredOutputs": output("outcome", json!("confirmed"))}});
    let report = json!({"type": "end-of-call-report", "endedReason": "customer-ended-call", "call": call});
    assert_eq!(kinds(&vapi(report)), confirmed);
}

#[test]
fn vapi_call_that_ends_when_it_starts_was_not_answered() {
    let meaning = |reason: &str| {
        let at = "2025-10-20T12:14:00Z";
        kinds(&vapi(json!({"type": "end-of-call-report", "endedReason": reason, "startedAt": at, "endedAt": at,
            "analysis": {"structuredData": {"appointment_confirmed": false}}, "call": {"id": "c"}})))
    };
    for (reason, expected) in [
        ("customer-ended-call", "~ringing no_answer"),
        ("vonage-completed", "~ringing no_answer"),
        ("manually-canceled", "canceled"),
        ("pipeline-error-openai-llm-failed", "failed"),
        ("customer-busy", "~ringing busy"),
        ("voicemail", "~ringing ~in_progress ~voicemail_detected completed"),
    ] {
        assert_eq!(meaning(reason), expected, "{reason}");
    }
}

#[test]
fn vapi_sip_statuses_say() {
    let meaning = |status: &str| {
        let reason = format!("call.in-progress.error-providerfault-outbound-sip-{status}");
        kinds(&vapi(json!({"type": "end-of-call-report", "endedReason": reason, "call": {"id": "c"}})))
    };
    for (status, expected) in [
        ("404-not-found", "failed!"),
        ("407-proxy-authentication-required", "failed^account"),
        ("408-request-timeout", "~ringing no_answer"),
        ("480-temporarily-unavailable", "~ringing no_answer"),
        ("486-busy-here", "~ringing busy"),
        ("603-decline", "~ringing busy"),
        ("503-service-unavailable", "failed"),
        ("é", "failed"),
    ] {
        assert_eq!(meaning(status), expected, "{status}");
    }
}

/// The error at the start of a call comes before every dial. A trunk may also reject a transfer in the middle of a conversation.
#[test]
fn vapi_call_that_has_started_was_dialled_although_the_trunk_rejected_the_credentials() {
    let (start, end) = ("2025-10-20T12:14:00Z", "2025-10-20T12:15:00Z");
    let meaning = |reason: &str, started_at: Value| {
        let call = json!({"id": "c", "startedAt": started_at, "endedAt": end});
        kinds(&vapi(json!({"type": "end-of-call-report", "endedReason": reason, "call": call})))
    };
    for status in ["401-unauthorized", "407-proxy-authentication-required"] {
        let reason = format!("call.in-progress.error-providerfault-outbound-sip-{status}");
        assert_eq!(meaning(&reason, json!(start)), "~ringing ~in_progress failed", "{reason}");
        assert_eq!(meaning(&reason, json!(null)), "failed^account", "{reason}");
        assert_eq!(meaning(&reason, json!(end)), "failed^account", "{reason}");
    }
    for started_at in [json!(start), json!(null), json!(end)] {
        assert_eq!(meaning("call.start.error-subscription-frozen", started_at), "failed^account");
    }
}

/// The person answers and confirms, and then the transfer to the desk fails or the trunk drops the call. Vapi documents most of these reasons
/// for that, and the other SIP statuses may come the same way.
#[test]
fn vapi_transfer_that_failed_loses_no_decision_and_calls_nobody_again() {
    let (start, end) = ("2025-10-20T12:14:00Z", "2025-10-20T12:15:00Z");
    let sip = |status: &str| format!("call.in-progress.error-providerfault-outbound-sip-{status}");
    let reasons = [
        (sip("403-forbidden"), "failed"),
        (sip("404-not-found"), "failed!"),
        (sip("408-request-timeout"), "~ringing no_answer"),
        (sip("480-temporarily-unavailable"), "~ringing no_answer"),
        (sip("484-address-incomplete"), "failed!"),
        (sip("486-busy-here"), "~ringing busy"),
        (sip("503-service-unavailable"), "failed"),
        (sip("600-busy-everywhere"), "~ringing busy"),
        (sip("603-decline"), "~ringing busy"),
        (sip("604-does-not-exist-anywhere"), "failed!"),
        ("call.in-progress.error-providerfault-transport-never-connected".to_owned(), "failed"),
        ("call.in-progress.error-vapifault-transport-never-connected".to_owned(), "failed"),
        ("call.in-progress.error-vapifault-worker-not-available".to_owned(), "failed"),
        ("twilio-failed-to-connect-call".to_owned(), "failed"),
        ("vonage-failed-to-connect-call".to_owned(), "failed"),
        ("vonage-rejected".to_owned(), "~ringing busy"),
    ];
    for (reason, dial) in reasons {
        let report = |started_at: Value, outcome: Value| {
            let analysis = json!({"structuredData": {"outcome": outcome}});
            let call = json!({"id": "c", "startedAt": started_at, "endedAt": end});
            let report =
                json!({"type": "end-of-call-report", "endedReason": reason, "analysis": analysis, "call": call});
            kinds(&vapi(report))
        };
        assert_eq!(report(json!(start), json!("confirmed")), "user_confirmed ~completed", "{reason}");
        assert_eq!(report(json!(start), json!(null)), "completed", "{reason}");
        assert_eq!(report(json!(null), json!("confirmed")), dial, "{reason}");
        let update = json!({"type": "status-update", "status": "ended", "endedReason": reason, "call": {"id": "c"}});
        assert_eq!(kinds(&vapi(update)), "completed", "{reason}");
    }
}

/// Vapi documents these reasons for a phone that never rang, with a duration of zero or nearly zero. So its start is no answer.
#[test]
fn vapi_call_of_a_phone_that_never_rang_was_not_answered() {
    let meaning = |reason: &str, started_at: Value| {
        let call = json!({"id": "c", "startedAt": started_at, "endedAt": "2025-10-20T12:14:00.300Z"});
        kinds(&vapi(json!({"type": "end-of-call-report", "endedReason": reason, "call": call})))
    };
    for (reason, never_started) in [
        ("assistant-not-found", "failed^account"),
        ("assistant-not-valid", "failed^account"),
        ("assistant-request-failed", "failed^account"),
        ("assistant-request-returned-error", "failed^account"),
        ("assistant-request-returned-invalid-assistant", "failed^account"),
        ("assistant-request-returned-no-assistant", "failed^account"),
        ("assistant-request-returned-unspeakable-error", "failed^account"),
        ("call.in-progress.error-vapifault-transport-never-connected", "failed"),
        ("call.in-progress.error-vapifault-worker-not-available", "failed"),
    ] {
        assert_eq!(meaning(reason, json!("2025-10-20T12:14:00.000Z")), "completed", "{reason}");
        assert_eq!(meaning(reason, json!(null)), never_started, "{reason}");
    }
}

#[test]
fn vapi_belongs_to_the_call_in_its_metadata() {
    let of = |mut call: Value, assistant: Value| {
        call["type"] = "outboundPhoneCall".into();
        ids(vapi(json!({"type": "status-update", "status": "ringing", "call": call, "assistant": assistant})))
    };
    let some = |text: &str| Some(text.to_owned());
    let ours = json!({"switchhook_call_id": "x", "switchhook_attempt": "2", "appointment_id": "a"});
    let expected = ("x".to_owned(), some("2"), some("a"));
    assert_eq!(of(json!({"id": "c"}), json!(null)), ("vapi:c".to_owned(), some("vapi:c"), None));
    assert_eq!(of(json!({"id": "c", "assistantOverrides": {"metadata": ours}}), json!(null)), expected);
    assert_eq!(of(json!({"id": "c", "assistantOverrides": {"variableValues": ours}}), json!(null)), expected);
    assert_eq!(of(json!({"id": "c", "metadata": ours}), json!({"metadata": {"switchhook_call_id": "y"}})), expected);
    assert_eq!(of(json!({"id": "c"}), json!({"metadata": ours})), expected);
}

/// Vapi fills the variables from SIP headers, so the caller can choose them.
#[test]
fn variables_of_an_inbound_call_of_vapi_name_no_call_of_ours() {
    let ours = json!({"switchhook_call_id": "x", "appointment_id": "a"});
    let of = |overrides: Value| {
        let call = json!({"id": "c", "type": "inboundPhoneCall", "assistantOverrides": overrides});
        ids(vapi(json!({"type": "status-update", "status": "ringing", "call": call}))).0
    };
    assert_eq!(of(json!({"variableValues": ours})), "vapi:c");
    assert_eq!(of(json!({"metadata": {"appointment_id": "b"}, "variableValues": ours})), "appointment:b");
}

/// The page of a web call is with its visitor, who can choose the metadata and the variables.
#[test]
fn vapi_call_that_is_no_phone_call_names_no_call_of_ours() {
    let ours = json!({"switchhook_call_id": "x", "switchhook_attempt": "2", "appointment_id": "a"});
    for call_type in [json!("webCall"), json!("vapi.websocketCall"), json!("aTypeOfNextYear"), json!(null)] {
        let overrides = json!({"metadata": ours, "variableValues": ours});
        let call = json!({"id": "web-1", "type": call_type, "metadata": ours, "assistantOverrides": overrides});
        let reading = vapi(json!({"type": "end-of-call-report", "endedReason": "customer-ended-call", "call": call}));
        let derived = Some("vapi:web-1".to_owned());
        assert_eq!(ids(reading), ("vapi:web-1".to_owned(), derived, None), "{call_type}");
    }
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

/// Vapi may post the report before it has the structured outputs, and an output can be computed again.
#[test]
fn vapi_report_with_another_result_is_another_event() {
    let id = |more: Value| {
        let mut message = json!({"type": "end-of-call-report", "call": {"id": "c"}});
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        vapi(message).event_id().to_string()
    };
    let early = id(json!({}));
    assert_eq!(early, "vapi:c:end-of-call-report");
    let outputs = |outcome: &str| json!({"structuredOutputs": {"1": {"name": "outcome", "result": outcome}}});
    let analysis = |outcome: &str| json!({"summary": "", "structuredData": {"outcome": outcome}});
    let ids = [
        early.clone(),
        id(json!({"artifact": outputs("confirmed")})),
        id(json!({"artifact": outputs("declined")})),
        id(json!({"analysis": analysis("confirmed")})),
        id(json!({"analysis": analysis("declined")})),
        id(json!({"analysis": analysis("confirmed"), "artifact": outputs("confirmed")})),
    ];
    for (at, one) in ids.iter().enumerate() {
        assert!(ids.iter().skip(at + 1).all(|other| other != one), "{ids:?}");
    }
    // Nothing else changes the id: neither what a result cannot come from, nor where a result is, nor the order of its fields.
    let [_, confirmed, _, analysed, ..] = ids;
    for empty in [json!({"analysis": {}}), json!({"artifact": {"transcript": "", "structuredOutputs": {}}})] {
        assert_eq!(id(empty.clone()), early, "{empty}");
    }
    let mut artifact = outputs("confirmed");
    artifact["transcript"] = "AI: Hello.".into();
    assert_eq!(id(json!({"artifact": artifact, "analysis": {}, "cost": 0.1})), confirmed);
    assert_eq!(id(json!({"call": {"id": "c", "artifact": outputs("confirmed")}})), confirmed);
    assert_eq!(id(json!({"analysis": {"structuredData": {"outcome": "confirmed"}, "summary": ""}})), analysed);
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
