//! Authentic webhooks: accepted, seen before, or recorded.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use switchhook_domain::{EventId, Provider};
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_tests::{KEY, PUBLIC_URL, World, generic, sample};

use super::authenticity::invalid_signature;
use super::{OK, answer, id_of, provider_of, with_body, with_header};

/// Samples that are folded, each with its event id and call id. There is one for each form of Twilio's bodies. An empty
/// id is not checked.
pub(super) const FOLDED_SAMPLES: [(&str, &str, &str); 6] = [
    ("retell/call_started", "retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70:call_started", "appointment:appt_201"),
    ("twilio/ringing", "twilio:CA00000000000000000000000000000001:ringing:1", "appointment:apt_7"),
    ("twilio/completed_json", "twilio:CA00000000000000000000000000000009:completed:3", "appointment:apt_7"),
    ("twilio/amd_human", "twilio:CA00000000000000000000000000000001:amd:human", "appointment:apt_7"),
    ("twilio/completed_voicemail", "twilio:CA00000000000000000000000000000002:completed:3", "appointment:apt_7"),
    ("generic/user_confirmed", "", ""),
];

/// The query of a provider's webhook URL. Twilio and Plivo send no metadata, so the query of its callback URL names the
/// appointment.
fn query_of(provider: Provider) -> &'static str {
    match provider {
        Provider::Twilio | Provider::Plivo | Provider::SignalWire => "appointment_id=apt_7",
        Provider::Retell
        | Provider::Vapi
        | Provider::Telnyx
        | Provider::ElevenLabs
        | Provider::Vonage
        | Provider::LiveKit
        | Provider::Daily
        | Provider::Bland
        | Provider::Generic
        | Provider::Named(_) => "",
    }
}

pub(super) async fn post_sample(world: &World, name: &str) -> (StatusCode, Value) {
    let provider = provider_of(name);
    world.post_signed(provider, KEY, query_of(provider), sample(name).as_bytes()).await
}

#[tokio::test(start_paused = true)]
async fn new_event_is_accepted_stored_queued_and_folded() {
    for (name, event_id, call_id) in FOLDED_SAMPLES {
        let mut world = World::stopped();
        let (code, body) = post_sample(&world, name).await;
        let event_id = if event_id.is_empty() { body["event_id"].as_str().unwrap() } else { event_id };
        assert_eq!((code, body.clone()), answer("accepted", event_id), "{name}");
        assert_eq!(world.queued().len(), 1, "{name}");

        world.start();
        world.quiesce().await;
        let status = world.status(&EventId::new(event_id)).await;
        assert_eq!((&status["status"], &status["attempts"]), (&json!("processed"), &json!(1)), "{name}: {status}");
        if !call_id.is_empty() {
            assert_eq!(status["call_id"], call_id, "{name}");
        }
        assert_eq!(world.queued().len(), 0, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_sample_is_accepted_or_recorded() {
    let recorded = [
        "retell/transcript_updated",
        "retell/call_inbound",
        "retell/chat_inbound",
        "retell/transfer_started",
        "retell/transfer_bridged",
        "retell/transfer_cancelled",
        "retell/transfer_ended",
        "retell/chat_started",
        "retell/chat_ended",
        "retell/chat_analyzed",
        "twilio/child_leg",
        "twilio/recording",
        "vapi/transcript",
        "vapi/assistant_request",
        "vapi/status_scheduled",
        "vapi/status_not_found",
        "vapi/status_deletion_failed",
        "vapi/assistant_started",
        "vapi/assistant_speech",
        "vapi/speech_update",
        "vapi/conversation_update",
        "vapi/model_output",
        "vapi/voice_input",
        "vapi/voice_request",
        "vapi/user_interrupted",
        "vapi/language_change_detected",
        "vapi/endpointing_request",
        "vapi/knowledge_base_request",
        "vapi/tool_calls",
        "vapi/function_call",
        "vapi/transfer_destination_request",
        "vapi/handoff_destination_request",
        "vapi/transfer_update",
        "vapi/phone_call_control",
        "vapi/hang",
        "vapi/call_deleted",
        "vapi/call_delete_failed",
        "vapi/chat_created",
        "vapi/chat_deleted",
        "vapi/session_created",
        "vapi/session_updated",
        "vapi/session_deleted",
        "telnyx/bridged",
        "telnyx/recording_saved",
        "telnyx/detection_started",
        "telnyx/conversation_ended",
        "telnyx/insights_generated",
        "telnyx/cost",
        "telnyx/dtmf_received",
        "telnyx/gather_ended",
        "telnyx/speak_started",
        "telnyx/playback_ended",
        "telnyx/streaming_started",
        "telnyx/hold",
        "telnyx/refer_started",
        "telnyx/conversation_created",
        "telnyx/conversation_start_failed",
        "telnyx/ai_gather_partial_results",
        "telnyx/ai_gather_message_history_updated",
        "telnyx/ai_gather_ended",
        "telnyx/transcription",
        "telnyx/deepfake_detection_result",
        "telnyx/deepfake_detection_error",
        "telnyx/speak_ended",
        "telnyx/playback_started",
        "telnyx/streaming_stopped",
        "telnyx/streaming_failed",
        "telnyx/fork_started",
        "telnyx/fork_stopped",
        "telnyx/siprec_started",
        "telnyx/siprec_stopped",
        "telnyx/siprec_failed",
        "telnyx/unhold",
        "telnyx/refer_completed",
        "telnyx/refer_failed",
        "telnyx/enqueued",
        "telnyx/dequeued",
        "telnyx/payment_progress",
        "telnyx/payment_completed",
        "telnyx/recording_error",
        "telnyx/recording_transcription_saved",
        "telnyx/conference_created",
        "telnyx/conference_participant_joined",
        "telnyx/conference_floor_changed",
        "telnyx/conference_participant_playback_started",
        "telnyx/conference_participant_playback_ended",
        "telnyx/conference_participant_speak_started",
        "telnyx/conference_participant_speak_ended",
        "telnyx/conference_playback_started",
        "telnyx/conference_playback_ended",
        "telnyx/conference_speak_started",
        "telnyx/conference_speak_ended",
        "telnyx/conference_participant_left",
        "telnyx/conference_ended",
        "telnyx/conference_recording_saved",
        "elevenlabs/post_call_audio",
        "elevenlabs/voice_removal_notice",
        "elevenlabs/voice_removal_notice_withdrawn",
        "elevenlabs/voice_removed",
        "plivo/other_leg",
        "plivo/record_stop",
        "vonage/transfer",
        "vonage/record",
        "vonage/disconnected",
        "vonage/input",
        "vonage/error",
        "livekit/room_started",
        "livekit/track_published",
        "livekit/participant_joined_agent",
        "livekit/room_finished",
        "livekit/track_unpublished",
        "livekit/egress_started",
        "livekit/egress_updated",
        "livekit/egress_ended",
        "livekit/ingress_started",
        "livekit/ingress_ended",
        "livekit/agent_job_pending",
        "livekit/agent_job_started",
        "livekit/agent_job_ended",
        "daily/dialout_warning",
        "daily/dialin_ready",
        "daily/dialin_warning",
        "daily/meeting_started",
        "daily/participant_joined",
        "daily/recording_ready",
        "daily/test",
        "daily/calltransfer_triggered",
        "daily/calltransfer_answered",
        "daily/meeting_ended",
        "daily/participant_left",
        "daily/waiting_participant_joined",
        "daily/waiting_participant_left",
        "daily/recording_started",
        "daily/recording_error",
        "daily/transcript_started",
        "daily/transcript_ready",
        "daily/transcript_error",
        "daily/streaming_started",
        "daily/streaming_updated",
        "daily/streaming_ended",
        "daily/streaming_warning",
        "daily/streaming_error",
        "daily/batch_processor_finished",
        "daily/batch_processor_error",
        "bland/call_event",
        "bland/queue_event",
        "bland/latency_event",
        "bland/tool_event",
        "bland/dynamic_data_event",
        "bland/webhook_event",
        "signalwire/child_leg",
        "signalwire/swml_call_state",
        "generic/unknown_type",
    ];
    for (name, _) in switchhook_providers::samples() {
        let world = World::new();
        let (code, body) = post_sample(&world, name).await;
        let status = if recorded.contains(name) { "recorded" } else { "accepted" };
        assert_eq!((code, &body["status"]), (OK, &json!(status)), "{name}: {body}");
    }
}

#[tokio::test(start_paused = true)]
async fn event_seen_before_changes_nothing() {
    for (name, ..) in FOLDED_SAMPLES {
        let world = World::new();
        let (_, first) = post_sample(&world, name).await;
        world.quiesce().await;
        let before =
            (world.items(CALLS_TABLE).await, world.domain_events(), world.item(INBOX_TABLE, &id_of(&first)).await);

        // The webhook is repeated at once, and after the deduplication window of SQS.
        for pause in [1, 301] {
            world.wait(Duration::from_secs(pause)).await;
            assert_eq!(post_sample(&world, name).await, answer("already_processed", &id_of(&first)), "{name}");
            world.quiesce().await;
            let after =
                (world.items(CALLS_TABLE).await, world.domain_events(), world.item(INBOX_TABLE, &id_of(&first)).await);
            assert_eq!(after, before, "{name} after {pause} s");
        }
        assert_eq!((world.queued(), world.dead_letters()), (vec![], vec![]));
    }
}

#[tokio::test(start_paused = true)]
async fn event_of_an_unknown_type_is_recorded_even_without_a_call() {
    let stripe = json!({
        "id": "evt_3Nv", "object": "event", "api_version": "2024-06-20", "created": 1_767_225_600,
        "type": "payment_intent.succeeded", "livemode": false, "pending_webhooks": 1,
        "data": {"object": {"id": "pi_3Nv", "object": "payment_intent", "amount": 2000, "currency": "usd",
                 "status": "succeeded", "metadata": {"order_id": "6735"}}},
        "request": {"id": null, "idempotency_key": "k"},
    });
    let cases = [
        (Provider::Generic, "", stripe.to_string()),
        (Provider::Generic, "", json!({"event_id": "e1", "type": "call.transferred", "call_id": "c1"}).to_string()),
        (Provider::Retell, "", json!({"event": "chat_started"}).to_string()),
        (Provider::Twilio, "", "CallSid=CA1&CallStatus=levitating".to_owned()),
        // A form may have no fields. Then there is no event type that Switchhook folds.
        (Provider::Twilio, "", String::new()),
    ];
    for (provider, query, body) in cases {
        let world = World::new();
        let (code, answered) = world.post_signed(provider, KEY, query, body.as_bytes()).await;
        assert_eq!((code, &answered["status"]), (OK, &json!("recorded")), "{body}: {answered}");
        let id = EventId::new(id_of(&answered));
        let again = world.post_signed(provider, KEY, query, body.as_bytes()).await;
        assert_eq!(again, answer("already_processed", id.as_str()), "{body}");

        world.wait(Duration::from_secs(600)).await;
        let status = world.status(&id).await;
        assert_eq!(
            json!([status["status"], status["disposition"], status["attempts"]]),
            json!(["recorded", "recorded", 0]),
            "{body}"
        );
        let stored = world.inbox.get(&id).await.unwrap().unwrap();
        assert_eq!(world.inbox.read_body(&stored).await.unwrap(), body.as_bytes());
        assert_eq!((world.queued(), world.dead_letters()), (vec![], vec![]), "{body}");
        assert_eq!(world.items(CALLS_TABLE).await, [], "{body}");
        assert_eq!(world.logged("recorded").len(), 1, "{body}: one log line must count it");
    }
}

#[tokio::test(start_paused = true)]
async fn confirmation_that_tutorials_show_is_folded_at_once() {
    let body = concat!(
        r#"{"event_id":"evt_8f1a2c","appointment_id":"appt_123","type":"USER_CONFIRMED","#,
        r#""occurred_at":"2025-10-20T12:14:05Z","#,
        r#""call":{"sid":"CAxxxx","to":"+447700900000","from":"+4420xxxxxxx"},"meta":{"attempt":2}}"#,
    );
    let world = World::new();
    assert_eq!(world.post(Provider::Generic, body).await, answer("accepted", "generic:evt_8f1a2c"));
    world.quiesce().await;

    let shown = |call: &Value| json!([call["appointment_status"], call["outcome"], call["lifecycle"], call["settled"]]);
    let (_, call) = world.get("/call?id=appointment:appt_123").await;
    assert_eq!(shown(&call), json!(["Confirmed", "confirmed", "in_progress", false]));
    assert_eq!(call["attempts"][0]["provider_call_id"], "CAxxxx");
    let (_, timeline) = world.get("/call/events?id=appointment:appt_123").await;
    let mut events = timeline["events"].as_array().unwrap().iter();
    assert!(events.all(|event| event["disposition"] == "applied"), "{timeline}");

    world.wait(Duration::from_secs(17 * 60)).await;
    let (_, call) = world.get("/call?id=appointment:appt_123").await;
    assert_eq!(shown(&call), json!(["Confirmed", "confirmed", "completed", true]));
    assert_eq!(call["job"]["state"], "COMPLETED");
    assert!(world.published_types("appointment:appt_123").contains(&"appointment.confirmed".to_owned()));
    let status = world.status(&EventId::new("generic:evt_8f1a2c")).await;
    assert_eq!(json!([status["status"], status["disposition"]]), json!(["processed", "applied"]));
}

#[tokio::test(start_paused = true)]
async fn content_type_decides_nothing() {
    let types = [
        None,
        Some(""),
        Some("text/plain"),
        Some("application/json"),
        Some("application/json; charset=utf-16"),
        Some("application/x-www-form-urlencoded"),
        Some("multipart/form-data"),
        Some("application/octet-stream"),
        Some("nonsense"),
    ];
    for name in ["retell/call_ended", "twilio/completed", "twilio/completed_json", "generic/user_confirmed"] {
        let mut answers = Vec::new();
        for content_type in types {
            let world = World::new();
            let mut request = world.signed(provider_of(name), KEY, "", sample(name).as_bytes(), world.now());
            request.headers_mut().remove(CONTENT_TYPE);
            if let Some(content_type) = content_type {
                request = with_header(request, "content-type", content_type);
            }
            let (code, answered) = world.send(request).await;
            assert_eq!((code, &answered["status"]), (OK, &json!("accepted")), "{name} as {content_type:?}");
            let stored = world.inbox.get(&EventId::new(id_of(&answered))).await.unwrap();
            let body = world.inbox.read_body(&stored.unwrap()).await.unwrap();
            assert_eq!(String::from_utf8(body).unwrap(), sample(name), "{name} as {content_type:?}");
            answers.push(answered);
        }
        answers.dedup();
        assert_eq!(answers.len(), 1, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn twilio_says_in_its_query_what_a_body_is() {
    let world = World::new();
    let body = sample("twilio/completed_json").as_bytes();
    let request = world.signed(Provider::Twilio, KEY, "appointment_id=7", body, world.now());
    assert!(request.uri().query().unwrap().contains("bodySHA256="));

    // The URL is still the signed one, but its query holds the hash of the old body.
    let mut other = body.to_vec();
    other.push(b' ');
    assert_eq!(world.send(with_body(request.clone(), &other)).await, invalid_signature());
    let (code, answered) = world.send(request).await;
    assert_eq!((code, &answered["status"]), (OK, &json!("accepted")));
    world.quiesce().await;
    assert_eq!(world.status(&EventId::new(id_of(&answered))).await["call_id"], "appointment:7");
    assert!(PUBLIC_URL.starts_with("https://"));
}

#[tokio::test(start_paused = true)]
async fn doubtful_part_of_a_webhook_is_counted_in_its_line() {
    let unsigned = json!({"keys": [KEY], "signature": {"mode": "shared_secret"}});
    let secret = json!({"vapi": unsigned, "retell": {"keys": [KEY]}, "generic": {"keys": [KEY]}});
    let world = World::with_secret(&secret);
    let body = Bytes::from(sample("vapi/end_of_call_report"));
    let request = Request::post("/webhooks/vapi").header(CONTENT_TYPE, "application/json").header("x-vapi-secret", KEY);
    assert_eq!(world.send(request.body(body).unwrap()).await.0, OK);
    assert_eq!(world.post(Provider::Generic, &generic("retell:call_1", "e1", "RINGING", 0)).await.0, OK);
    let mut ended: Value = serde_json::from_str(sample("retell/call_ended")).unwrap();
    ended["call"]["disconnection_reason"] = json!("a_reason_of_next_year");
    assert_eq!(world.post(Provider::Retell, &ended.to_string()).await.0, OK);

    let lines = world.logged("accepted");
    let counts = ["unsigned", "reserved_call_id", "unknown_value"];
    let counted = |line: &Value| counts.map(|name| line[name] == 1);
    let counted: Vec<[bool; 3]> = lines.iter().map(counted).collect();
    assert_eq!(counted, [[true, false, false], [false, true, false], [false, false, true]], "{lines:?}");
}
