//! Sample bodies of webhooks.

macro_rules! samples {
    ($($provider:ident: $($name:ident.$extension:ident)+;)+) => {
        &[$($((
            concat!(stringify!($provider), "/", stringify!($name)),
            include_str!(concat!("../fixtures/", stringify!($provider), "/", stringify!($name), ".", stringify!($extension))),
        )),+),+]
    };
}

const SAMPLES: &[(&str, &str)] = samples! {
    retell: call_started.json call_ended.json call_analyzed.json call_analyzed_declined.json call_ended_voicemail.json
        call_analyzed_voicemail.json call_ended_no_answer.json call_analyzed_no_answer.json call_ended_busy.json
        call_ended_failed.json transcript_updated.json call_inbound.json chat_inbound.json transfer_started.json
        transfer_bridged.json transfer_cancelled.json transfer_ended.json chat_started.json chat_ended.json
        chat_analyzed.json;
    twilio: initiated.form ringing.form in_progress.form completed.form completed_json.json completed_voicemail.form
        busy.form no_answer.form failed.form canceled.form amd_human.form amd_machine.form child_leg.form
        inbound_request.form recording.form queued.form;
    vapi: status_queued.json status_ringing.json status_in_progress.json transcript.json status_forwarding.json
        status_ended.json end_of_call_report.json end_of_call_report_declined.json end_of_call_report_voicemail.json
        end_of_call_report_no_answer.json end_of_call_report_busy.json end_of_call_report_misdialed.json
        end_of_call_report_fault.json end_of_call_report_inbound.json assistant_request.json status_scheduled.json
        status_not_found.json status_deletion_failed.json assistant_started.json assistant_speech.json
        speech_update.json conversation_update.json model_output.json voice_input.json voice_request.json
        user_interrupted.json language_change_detected.json endpointing_request.json knowledge_base_request.json
        tool_calls.json function_call.json transfer_destination_request.json handoff_destination_request.json
        transfer_update.json phone_call_control.json hang.json call_deleted.json call_delete_failed.json
        chat_created.json chat_deleted.json session_created.json session_updated.json session_deleted.json;
    telnyx: initiated.json answered.json detection_human.json bridged.json hangup.json recording_saved.json
        detection_started.json detection_machine.json greeting_beep.json hangup_busy.json hangup_rejected.json
        hangup_timeout.json hangup_canceled.json hangup_not_found.json hangup_unspecified.json initiated_incoming.json
        detection_not_sure.json detection_premium_human.json detection_fax.json greeting_ended.json
        greeting_not_sure.json greeting_no_beep.json screening.json analyzed.json analyzed_declined.json
        analyzed_undecided.json conversation_ended.json insights_generated.json cost.json dtmf_received.json
        gather_ended.json speak_started.json playback_ended.json streaming_started.json hold.json refer_started.json
        conversation_created.json conversation_start_failed.json ai_gather_partial_results.json
        ai_gather_message_history_updated.json ai_gather_ended.json transcription.json deepfake_detection_result.json
        deepfake_detection_error.json speak_ended.json playback_started.json streaming_stopped.json
        streaming_failed.json fork_started.json fork_stopped.json siprec_started.json siprec_stopped.json
        siprec_failed.json unhold.json refer_completed.json refer_failed.json enqueued.json dequeued.json
        payment_progress.json payment_completed.json recording_error.json recording_transcription_saved.json
        conference_created.json conference_participant_joined.json conference_floor_changed.json
        conference_participant_playback_started.json conference_participant_playback_ended.json
        conference_participant_speak_started.json conference_participant_speak_ended.json
        conference_playback_started.json conference_playback_ended.json conference_speak_started.json
        conference_speak_ended.json conference_participant_left.json conference_ended.json
        conference_recording_saved.json;
    elevenlabs: post_call_transcription.json post_call_audio.json voice_removal_notice.json
        voice_removal_notice_withdrawn.json voice_removed.json post_call_transcription_declined.json
        post_call_transcription_voicemail.json post_call_transcription_no_answer.json post_call_transcription_busy.json
        post_call_transcription_failed.json post_call_transcription_cut_off.json post_call_transcription_inbound.json
        call_initiation_failure_busy.json call_initiation_failure_no_answer.json call_initiation_failure_unknown.json;
    plivo: ring.form start_app.form machine_detection_human.form hangup.form machine_detection_machine.form
        hangup_busy.form hangup_no_answer.form hangup_failed.form hangup_timeout.form hangup_cancel.form
        hangup_inbound.form other_leg.form record_stop.form;
    vonage: started.json ringing.json answered.json human.json transfer.json record.json completed.json machine.json
        busy.json completed_busy.json unanswered.json timeout.json rejected.json rejected_invalid_number.json
        failed.json cancelled.json disconnected.json input.json started_inbound.json completed_inbound.json error.json;
    livekit: room_started.json participant_joined.json track_published.json participant_joined_agent.json
        participant_left.json room_finished.json participant_joined_active.json participant_left_room_deleted.json
        participant_left_rejected.json participant_left_unavailable.json participant_left_trunk_failure.json
        participant_left_media_failure.json participant_left_unclear.json participant_left_migration.json
        participant_connection_aborted.json participant_joined_inbound.json participant_left_inbound.json
        track_unpublished.json egress_started.json egress_updated.json egress_ended.json ingress_started.json
        ingress_ended.json agent_job_pending.json agent_job_started.json agent_job_ended.json;
    daily: dialout_connected.json dialout_answered.json dialout_stopped.json dialout_warning.json dialout_error.json
        dialout_sip_answered.json dialin_ready.json dialin_connected.json dialin_stopped.json dialin_warning.json
        dialin_error.json meeting_started.json participant_joined.json recording_ready.json test.json
        calltransfer_triggered.json calltransfer_answered.json meeting_ended.json participant_left.json
        waiting_participant_joined.json waiting_participant_left.json recording_started.json recording_error.json
        transcript_started.json transcript_ready.json transcript_error.json streaming_started.json
        streaming_updated.json streaming_ended.json streaming_warning.json streaming_error.json
        batch_processor_finished.json batch_processor_error.json;
    bland: post_call.json call_event.json queue_event.json latency_event.json tool_event.json dynamic_data_event.json
        webhook_event.json post_call_declined.json post_call_voicemail.json post_call_no_answer.json post_call_busy.json
        post_call_failed.json post_call_queue_error.json post_call_cut_off.json post_call_webhook_error.json
        post_call_unclear.json post_call_inbound.json;
    signalwire: initiated.form ringing.form in_progress.form amd_human.form completed.form amd_machine.form
        completed_voicemail.form busy.form no_answer.form failed.form canceled.form child_leg.form
        completed_inbound.form queued.form swml_call_state.json;
    generic: call_initiated.json ringing.json in_progress.json user_confirmed.json user_declined.json
        voicemail_detected.json completed.json failed.json busy.json no_answer.json canceled.json retry_scheduled.json
        unknown_type.json;
};

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
