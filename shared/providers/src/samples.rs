//! Sample bodies of webhooks.

macro_rules! sample {
    ($name:literal, $extension:literal) => {
        ($name, include_str!(concat!("../fixtures/", $name, ".", $extension)))
    };
}

const SAMPLES: &[(&str, &str)] = &[
    sample!("retell/call_started", "json"),
    sample!("retell/call_ended", "json"),
    sample!("retell/call_analyzed", "json"),
    sample!("retell/call_analyzed_declined", "json"),
    sample!("retell/call_ended_voicemail", "json"),
    sample!("retell/call_analyzed_voicemail", "json"),
    sample!("retell/call_ended_no_answer", "json"),
    sample!("retell/call_analyzed_no_answer", "json"),
    sample!("retell/call_ended_busy", "json"),
    sample!("retell/call_ended_failed", "json"),
    sample!("retell/transcript_updated", "json"),
    sample!("retell/call_inbound", "json"),
    sample!("retell/transfer_started", "json"),
    sample!("twilio/initiated", "form"),
    sample!("twilio/ringing", "form"),
    sample!("twilio/in_progress", "form"),
    sample!("twilio/completed", "form"),
    sample!("twilio/completed_json", "json"),
    sample!("twilio/completed_voicemail", "form"),
    sample!("twilio/busy", "form"),
    sample!("twilio/no_answer", "form"),
    sample!("twilio/failed", "form"),
    sample!("twilio/canceled", "form"),
    sample!("twilio/amd_human", "form"),
    sample!("twilio/amd_machine", "form"),
    sample!("twilio/child_leg", "form"),
    sample!("twilio/inbound_request", "form"),
    sample!("twilio/recording", "form"),
    sample!("vapi/status_queued", "json"),
    sample!("vapi/status_ringing", "json"),
    sample!("vapi/status_in_progress", "json"),
    sample!("vapi/transcript", "json"),
    sample!("vapi/status_forwarding", "json"),
    sample!("vapi/status_ended", "json"),
    sample!("vapi/end_of_call_report", "json"),
    sample!("vapi/end_of_call_report_declined", "json"),
    sample!("vapi/end_of_call_report_voicemail", "json"),
    sample!("vapi/end_of_call_report_no_answer", "json"),
    sample!("vapi/end_of_call_report_busy", "json"),
    sample!("vapi/end_of_call_report_misdialed", "json"),
    sample!("vapi/end_of_call_report_fault", "json"),
    sample!("vapi/end_of_call_report_inbound", "json"),
    sample!("vapi/assistant_request", "json"),
    sample!("telnyx/initiated", "json"),
    sample!("telnyx/answered", "json"),
    sample!("telnyx/detection_human", "json"),
    sample!("telnyx/bridged", "json"),
    sample!("telnyx/hangup", "json"),
    sample!("telnyx/recording_saved", "json"),
    sample!("telnyx/detection_machine", "json"),
    sample!("telnyx/greeting_beep", "json"),
    sample!("telnyx/hangup_busy", "json"),
    sample!("telnyx/hangup_rejected", "json"),
    sample!("telnyx/hangup_timeout", "json"),
    sample!("telnyx/hangup_canceled", "json"),
    sample!("telnyx/hangup_not_found", "json"),
    sample!("telnyx/hangup_unspecified", "json"),
    sample!("telnyx/initiated_incoming", "json"),
    sample!("elevenlabs/post_call_transcription", "json"),
    sample!("elevenlabs/post_call_audio", "json"),
    sample!("elevenlabs/post_call_transcription_declined", "json"),
    sample!("elevenlabs/post_call_transcription_voicemail", "json"),
    sample!("elevenlabs/post_call_transcription_no_answer", "json"),
    sample!("elevenlabs/post_call_transcription_busy", "json"),
    sample!("elevenlabs/post_call_transcription_failed", "json"),
    sample!("elevenlabs/post_call_transcription_cut_off", "json"),
    sample!("elevenlabs/post_call_transcription_inbound", "json"),
    sample!("elevenlabs/call_initiation_failure_busy", "json"),
    sample!("elevenlabs/call_initiation_failure_no_answer", "json"),
    sample!("elevenlabs/call_initiation_failure_unknown", "json"),
    sample!("plivo/ring", "form"),
    sample!("plivo/start_app", "form"),
    sample!("plivo/machine_detection_human", "form"),
    sample!("plivo/hangup", "form"),
    sample!("plivo/machine_detection_machine", "form"),
    sample!("plivo/hangup_busy", "form"),
    sample!("plivo/hangup_no_answer", "form"),
    sample!("plivo/hangup_failed", "form"),
    sample!("plivo/hangup_timeout", "form"),
    sample!("plivo/hangup_cancel", "form"),
    sample!("plivo/hangup_inbound", "form"),
    sample!("plivo/other_leg", "form"),
    sample!("plivo/record_stop", "form"),
    sample!("vonage/started", "json"),
    sample!("vonage/ringing", "json"),
    sample!("vonage/answered", "json"),
    sample!("vonage/human", "json"),
    sample!("vonage/transfer", "json"),
    sample!("vonage/record", "json"),
    sample!("vonage/completed", "json"),
    sample!("vonage/machine", "json"),
    sample!("vonage/busy", "json"),
    sample!("vonage/completed_busy", "json"),
    sample!("vonage/unanswered", "json"),
    sample!("vonage/timeout", "json"),
    sample!("vonage/rejected", "json"),
    sample!("vonage/rejected_invalid_number", "json"),
    sample!("vonage/failed", "json"),
    sample!("vonage/cancelled", "json"),
    sample!("vonage/disconnected", "json"),
    sample!("vonage/input", "json"),
    sample!("vonage/started_inbound", "json"),
    sample!("vonage/completed_inbound", "json"),
    sample!("livekit/room_started", "json"),
    sample!("livekit/participant_joined", "json"),
    sample!("livekit/track_published", "json"),
    sample!("livekit/participant_joined_agent", "json"),
    sample!("livekit/participant_left", "json"),
    sample!("livekit/room_finished", "json"),
    sample!("livekit/participant_joined_active", "json"),
    sample!("livekit/participant_left_room_deleted", "json"),
    sample!("livekit/participant_left_rejected", "json"),
    sample!("livekit/participant_left_unavailable", "json"),
    sample!("livekit/participant_left_trunk_failure", "json"),
    sample!("livekit/participant_left_media_failure", "json"),
    sample!("livekit/participant_left_unclear", "json"),
    sample!("livekit/participant_left_migration", "json"),
    sample!("livekit/participant_connection_aborted", "json"),
    sample!("livekit/participant_joined_inbound", "json"),
    sample!("livekit/participant_left_inbound", "json"),
    sample!("daily/dialout_connected", "json"),
    sample!("daily/dialout_answered", "json"),
    sample!("daily/dialout_stopped", "json"),
    sample!("daily/dialout_warning", "json"),
    sample!("daily/dialout_error", "json"),
    sample!("daily/dialout_sip_answered", "json"),
    sample!("daily/dialin_ready", "json"),
    sample!("daily/dialin_connected", "json"),
    sample!("daily/dialin_stopped", "json"),
    sample!("daily/dialin_warning", "json"),
    sample!("daily/dialin_error", "json"),
    sample!("daily/meeting_started", "json"),
    sample!("daily/participant_joined", "json"),
    sample!("daily/recording_ready", "json"),
    sample!("daily/test", "json"),
    sample!("bland/post_call", "json"),
    sample!("bland/call_event", "json"),
    sample!("bland/post_call_declined", "json"),
    sample!("bland/post_call_voicemail", "json"),
    sample!("bland/post_call_no_answer", "json"),
    sample!("bland/post_call_busy", "json"),
    sample!("bland/post_call_failed", "json"),
    sample!("bland/post_call_queue_error", "json"),
    sample!("bland/post_call_cut_off", "json"),
    sample!("bland/post_call_webhook_error", "json"),
    sample!("bland/post_call_unclear", "json"),
    sample!("bland/post_call_inbound", "json"),
    sample!("signalwire/initiated", "form"),
    sample!("signalwire/ringing", "form"),
    sample!("signalwire/in_progress", "form"),
    sample!("signalwire/amd_human", "form"),
    sample!("signalwire/completed", "form"),
    sample!("signalwire/amd_machine", "form"),
    sample!("signalwire/completed_voicemail", "form"),
    sample!("signalwire/busy", "form"),
    sample!("signalwire/no_answer", "form"),
    sample!("signalwire/failed", "form"),
    sample!("signalwire/canceled", "form"),
    sample!("signalwire/child_leg", "form"),
    sample!("signalwire/completed_inbound", "form"),
    sample!("signalwire/swml_call_state", "json"),
    sample!("generic/call_initiated", "json"),
    sample!("generic/ringing", "json"),
    sample!("generic/in_progress", "json"),
    sample!("generic/user_confirmed", "json"),
    sample!("generic/user_declined", "json"),
    sample!("generic/voicemail_detected", "json"),
    sample!("generic/completed", "json"),
    sample!("generic/failed", "json"),
    sample!("generic/busy", "json"),
    sample!("generic/no_answer", "json"),
    sample!("generic/canceled", "json"),
    sample!("generic/retry_scheduled", "json"),
    sample!("generic/unknown_type", "json"),
];

/// Names and bodies of realistic webhooks. A name is, for example, `retell/call_ended`. They are grouped by provider,
/// in the order in which they arrive during a call.
///
/// A body of Twilio, Plivo or SignalWire is a form, except `twilio/completed_json` and `signalwire/swml_call_state`. Numbers, names and ids are invented. Each group contains
/// one call that is confirmed and, under other ids, calls that end in other ways.
#[must_use]
pub const fn samples() -> &'static [(&'static str, &'static str)] {
    SAMPLES
}

#[cfg(test)]
mod tests {
    use switchhook_domain::Provider;

    use super::*;

    #[test]
    fn every_sample_is_named_after_its_provider() {
        for (name, body) in samples() {
            let (provider, _) = name.split_once('/').unwrap();
            assert!(provider.parse::<Provider>().is_ok(), "{name}");
            assert!(!body.is_empty(), "{name}");
        }
    }

    #[test]
    fn forms_end_without_a_line_end() {
        // A line end would become part of the last value.
        for (name, body) in samples() {
            assert!(body.starts_with('{') || !body.ends_with('\n'), "{name}");
        }
    }
}
