//! Values that a vendor added to its lists: they are read as far as possible, and noted by the name of their field.

use serde_json::{Value, json};
use switchhook_domain::Provider;
use switchhook_providers::{ReadNotes, VerifiedWebhook, read_with_notes};

use super::RECEIVED_AT;

fn notes(provider: Provider, body: &str) -> ReadNotes {
    read_with_notes(&VerifiedWebhook::from_inbox(provider, String::new(), body.as_bytes().to_vec(), 0), RECEIVED_AT).1
}

#[test]
fn question_before_a_dial_of_a_campaign_is_known() {
    let message = json!({"message": {"type": "campaign.predial", "campaignId": "c1"}}).to_string();
    assert_eq!(notes(Provider::Vapi, &message), ReadNotes::default());
}

#[test]
fn unknown_values_are_noted_by_the_name_of_their_field() {
    let retell = |call: Value| notes(Provider::Retell, &json!({"event": "call_ended", "call": call}).to_string());
    let vapi = |message: Value| notes(Provider::Vapi, &json!({"message": message}).to_string());
    let telnyx = |event_type: &str, payload: Value| {
        let data = json!({"event_type": event_type, "id": "e", "payload": payload});
        notes(Provider::Telnyx, &json!({"data": data}).to_string())
    };
    let generic = |word: &str| notes(Provider::Generic, &json!({"event_type": word, "call_id": "c"}).to_string());
    let twilio = |form: &str| notes(Provider::Twilio, form);
    let plivo = |form: &str| notes(Provider::Plivo, form);
    let vonage = |event: Value| notes(Provider::Vonage, &event.to_string());
    let livekit = |event: &str, participant: Value| {
        notes(Provider::LiveKit, &json!({"event": event, "participant": participant}).to_string())
    };
    let sip = |status: &str, reason: &str| {
        let attributes = json!({"sip.callID": "c", "sip.callStatus": status});
        json!({"kind": "SIP", "attributes": attributes, "disconnectReason": reason})
    };
    let daily = |event_type: &str| notes(Provider::Daily, &json!({"type": event_type, "id": "e"}).to_string());
    let bland = |call: Value| notes(Provider::Bland, &call.to_string());
    let signalwire = |form: &str| notes(Provider::SignalWire, form);
    let elevenlabs = |event_type: &str, data: Value| {
        notes(Provider::ElevenLabs, &json!({"type": event_type, "data": data}).to_string())
    };
    let conversation = |status: &str, result: &str| {
        let metadata = json!({"phone_call": {"call_result": result}});
        let data = json!({"conversation_id": "c", "status": status, "metadata": metadata});
        elevenlabs("post_call_transcription", data)
    };
    let initiation =
        |reason: &str| elevenlabs("call_initiation_failure", json!({"conversation_id": "c", "failure_reason": reason}));
    let report = |reason: &str| vapi(json!({"type": "end-of-call-report", "endedReason": reason, "call": {"id": "c"}}));
    let status = |status: &str| vapi(json!({"type": "status-update", "status": status, "call": {"id": "c"}}));
    let hangup = |cause: &str| telnyx("call.hangup", json!({"call_control_id": "c", "hangup_cause": cause}));
    let detection =
        |result: &str| telnyx("call.machine.detection.ended", json!({"call_control_id": "c", "result": result}));
    let event_of_retell =
        |event: &str| notes(Provider::Retell, &json!({"event": event, "call": {"call_id": "c"}}).to_string());
    let message = |message_type: &str| vapi(json!({"type": message_type, "call": {"id": "c"}}));
    let event_of_telnyx = |event_type: &str| telnyx(event_type, json!({"call_control_id": "c"}));
    let type_of_elevenlabs = |event_type: &str| elevenlabs(event_type, json!({"conversation_id": "c"}));
    for (notes, expected) in [
        (event_of_retell("new"), Some("event")),
        (event_of_retell("call_new"), Some("event")),
        (event_of_retell("transfer_bridged"), None),
        (event_of_retell("chat_analyzed"), None),
        (event_of_retell("call_inbound"), None),
        (message("new"), Some("type")),
        (message("call.new"), Some("type")),
        (message("transcript[transcriptType=\"final\"]"), None),
        (message("speech-update"), None),
        (message("assistant-request"), None),
        (message("session.new"), None),
        (event_of_telnyx("call.new"), Some("event_type")),
        (event_of_telnyx("call.machine.new"), Some("event_type")),
        (event_of_telnyx("call.bridgednew"), Some("event_type")),
        (event_of_telnyx("message.received"), Some("event_type")),
        (event_of_telnyx("call.bridged"), None),
        (event_of_telnyx("call.recording.new"), None),
        (event_of_telnyx("streaming.started"), None),
        (type_of_elevenlabs("answering_machine_detection"), Some("type")),
        (type_of_elevenlabs("post_call_audio"), None),
        (type_of_elevenlabs("voice_removed"), None),
        (retell(json!({"call_id": "c", "disconnection_reason": "new"})), Some("disconnection_reason")),
        (retell(json!({"call_id": "c", "call_status": "new"})), Some("call_status")),
        (retell(json!({"call_id": "c", "disconnection_reason": "user_hangup", "call_status": "ended"})), None),
        (retell(json!({"call_id": "c", "disconnection_reason": ""})), None),
        (report("new"), Some("endedReason")),
        (report("vonage-completed"), None),
        (report("pipeline-error-new"), None),
        (status("new"), Some("status")),
        (status("not-found"), None),
        (hangup("new"), Some("hangup_cause")),
        (hangup("unspecified"), None),
        (detection("new"), Some("result")),
        (detection("not_sure"), None),
        (twilio("CallSid=CA1&CallStatus=new"), Some("CallStatus")),
        (twilio("CallSid=CA1&AnsweredBy=new"), Some("AnsweredBy")),
        (twilio("CallSid=CA1&AnsweredBy=unknown"), None),
        (plivo("CallUUID=c&CallStatus=new"), Some("CallStatus")),
        (plivo("CallUUID=c&CallStatus=cancel"), None),
        (plivo("CallUUID=c&Event=RecordStop"), None),
        (vonage(json!({"uuid": "c", "status": "new"})), Some("status")),
        (vonage(json!({"uuid": "c", "status": "record"})), None),
        (vonage(json!({"uuid": "c", "event": "new"})), None),
        (livekit("new", Value::Null), Some("event")),
        (livekit("room_started", Value::Null), None),
        (livekit("participant_joined", json!({"kind": "NEW"})), Some("kind")),
        (livekit("participant_joined", json!({"kind": "AGENT"})), None),
        (livekit("participant_joined", json!({})), None),
        (livekit("participant_joined", sip("new", "")), Some("sip.callStatus")),
        (livekit("participant_joined", sip("dialing", "")), None),
        (livekit("participant_left", sip("hangup", "NEW")), Some("disconnectReason")),
        (livekit("participant_left", sip("hangup", "ROOM_CLOSED")), None),
        (daily("dialout.new"), Some("type")),
        (daily("new"), Some("type")),
        (daily("dialout.warning"), None),
        (daily("recording.new"), None),
        (daily("dialin.ready"), None),
        (bland(json!({"call_id": "c", "completed": true, "status": "new"})), Some("status")),
        (bland(json!({"call_id": "c", "completed": true, "queue_status": "paused"})), Some("queue_status")),
        (bland(json!({"call_id": "c", "completed": true, "answered_by": "new"})), Some("answered_by")),
        (bland(json!({"call_id": "c", "completed": true, "answered_by": null, "status": "completed"})), None),
        (bland(json!({"call_id": "c", "category": "new", "message": "x"})), None),
        (signalwire("CallSid=s1&CallStatus=new"), Some("CallStatus")),
        (signalwire("CallSid=s1&AnsweredBy=new"), Some("AnsweredBy")),
        (signalwire(r#"{"event_type":"new"}"#), None),
        (conversation("done", "new"), Some("call_result")),
        (conversation("new", "answered"), Some("status")),
        (conversation("done", "answered"), None),
        (initiation("new"), Some("failure_reason")),
        (initiation("unknown"), None),
        (generic("NEW"), Some("event_type")),
        (generic("ANSWERED"), None),
        (generic("call.in_progress"), None),
    ] {
        assert_eq!(notes, ReadNotes { unknown_value: expected, ..ReadNotes::default() });
    }
}

#[test]
fn every_known_reason_is_known() {
    for reason in include_str!("../../../fixtures/vapi/ended_reasons.txt").lines() {
        let message = json!({"type": "end-of-call-report", "endedReason": reason, "call": {"id": "c"}});
        assert_eq!(notes(Provider::Vapi, &json!({"message": message}).to_string()), ReadNotes::default(), "{reason}");
    }
}
