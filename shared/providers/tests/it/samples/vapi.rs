//! Bodies of Vapi.

use insta::assert_snapshot;

use super::summaries;

#[test]
fn vapi_bodies_say() {
    assert_snapshot!(summaries("vapi"), @r"
    vapi/status_queued vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:status-update:queued status-update:queued
      appointment:appt_301 vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001 019a0c1e-4b7a-7d2e-9c3f-000000000001 appt_301 Outbound +442079460018 +447700900000
      initiated 2025-10-20T12:13:55.310Z
    vapi/status_ringing vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:status-update:ringing status-update:ringing
      appointment:appt_301 vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001 019a0c1e-4b7a-7d2e-9c3f-000000000001 appt_301 Outbound +442079460018 +447700900000
      ringing 2025-10-20T12:13:56.710Z
    vapi/status_in_progress vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:status-update:in-progress status-update:in-progress
      appointment:appt_301 vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001 019a0c1e-4b7a-7d2e-9c3f-000000000001 appt_301 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:04.430Z
      in_progress 2025-10-20T12:14:04.430Z
    vapi/transcript recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:transcript:181a21364016d80e transcript appointment:appt_301
    vapi/status_forwarding vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:status-update:forwarding status-update:forwarding
      appointment:appt_301 vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001 019a0c1e-4b7a-7d2e-9c3f-000000000001 appt_301 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:35.310Z
      in_progress implied 2025-10-20T12:14:35.310Z
    vapi/status_ended vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:status-update:ended status-update:ended
      appointment:appt_301 vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001 019a0c1e-4b7a-7d2e-9c3f-000000000001 appt_301 Outbound +442079460018 +447700900000
      completed 2025-10-20T12:14:47.610Z
    vapi/end_of_call_report vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:end-of-call-report:94f8384e90beb5a3 end-of-call-report
      appointment:appt_301 vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001 019a0c1e-4b7a-7d2e-9c3f-000000000001 appt_301 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:04.430Z
      in_progress implied 2025-10-20T12:14:04.430Z
      user_confirmed 2025-10-20T12:14:47.610Z
      completed implied 2025-10-20T12:14:47.610Z
    vapi/end_of_call_report_declined vapi:019a0c1e-4b7a-7d2e-9c3f-000000000002:end-of-call-report:8a1c1a53ae129999 end-of-call-report
      appointment:appt_302 vapi:019a0c1e-4b7a-7d2e-9c3f-000000000002 019a0c1e-4b7a-7d2e-9c3f-000000000002 appt_302 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:04.430Z
      in_progress implied 2025-10-20T12:14:04.430Z
      user_declined 2025-10-20T12:14:47.610Z
      completed implied 2025-10-20T12:14:47.610Z
    vapi/end_of_call_report_voicemail vapi:019a0c1e-4b7a-7d2e-9c3f-000000000003:end-of-call-report:de3cd5a23dd62d91 end-of-call-report
      appointment:appt_303 vapi:019a0c1e-4b7a-7d2e-9c3f-000000000003 019a0c1e-4b7a-7d2e-9c3f-000000000003 appt_303 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:04.430Z
      in_progress implied 2025-10-20T12:14:04.430Z
      voicemail_detected implied 2025-10-20T12:14:19.200Z
      completed 2025-10-20T12:14:19.200Z
    vapi/end_of_call_report_no_answer vapi:019a0c1e-4b7a-7d2e-9c3f-000000000004:end-of-call-report end-of-call-report
      appointment:appt_304 vapi:019a0c1e-4b7a-7d2e-9c3f-000000000004 019a0c1e-4b7a-7d2e-9c3f-000000000004 appt_304 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:35.000Z
      no_answer 2025-10-20T12:14:35.000Z
    vapi/end_of_call_report_busy vapi:019a0c1e-4b7a-7d2e-9c3f-000000000005:end-of-call-report end-of-call-report
      appointment:appt_305 vapi:019a0c1e-4b7a-7d2e-9c3f-000000000005 019a0c1e-4b7a-7d2e-9c3f-000000000005 appt_305 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:35.000Z
      busy 2025-10-20T12:14:35.000Z
    vapi/end_of_call_report_misdialed vapi:019a0c1e-4b7a-7d2e-9c3f-000000000006:end-of-call-report end-of-call-report
      appointment:appt_306 vapi:019a0c1e-4b7a-7d2e-9c3f-000000000006 019a0c1e-4b7a-7d2e-9c3f-000000000006 appt_306 Outbound +442079460018 +447700900000
      failed 2025-10-20T12:14:35.000Z permanent
    vapi/end_of_call_report_fault vapi:019a0c1e-4b7a-7d2e-9c3f-000000000007:end-of-call-report end-of-call-report
      appointment:appt_307 vapi:019a0c1e-4b7a-7d2e-9c3f-000000000007 019a0c1e-4b7a-7d2e-9c3f-000000000007 appt_307 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:04.430Z
      in_progress implied 2025-10-20T12:14:04.430Z
      failed 2025-10-20T12:14:47.610Z
    vapi/end_of_call_report_inbound vapi:019a0c1e-4b7a-7d2e-9c3f-000000000008:end-of-call-report:b9d16532c9100e0e end-of-call-report
      appointment:appt_308 vapi:019a0c1e-4b7a-7d2e-9c3f-000000000008 019a0c1e-4b7a-7d2e-9c3f-000000000008 appt_308 Inbound +447700900000 +442079460018
      ringing implied 2025-10-20T12:14:04.430Z
      in_progress implied 2025-10-20T12:14:04.430Z
      completed 2025-10-20T12:14:47.610Z
    vapi/assistant_request recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000009:assistant-request:7434adeb34b4ebd0 assistant-request appointment:appt_309
    vapi/status_scheduled recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000010:status-update:f777071d0c605850 status-update:scheduled appointment:appt_301
    vapi/status_not_found recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000011:status-update:aa7c28eb8654e658 status-update:not-found appointment:appt_301
    vapi/status_deletion_failed recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000011:status-update:121dd976b3aa933a status-update:deletion-failed appointment:appt_301
    vapi/assistant_started recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:assistant.started:5d9d0fae324fce1e assistant.started appointment:appt_301
    vapi/assistant_speech recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:assistant.speechStarted:b7653cb80d2f47fa assistant.speechStarted appointment:appt_301
    vapi/speech_update recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:speech-update:990e7d69a040f3ab speech-update appointment:appt_301
    vapi/conversation_update recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:conversation-update:0f91c6990e38bcac conversation-update appointment:appt_301
    vapi/model_output recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:model-output:41181ea168ce99b1 model-output appointment:appt_301
    vapi/voice_input recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:voice-input:6e330aa404ed6627 voice-input appointment:appt_301
    vapi/voice_request recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:voice-request:cd5de169a7dbe202 voice-request appointment:appt_301
    vapi/user_interrupted recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:user-interrupted:a0006e2468a5a3bc user-interrupted appointment:appt_301
    vapi/language_change_detected recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:language-change-detected:5b5afae668190320 language-change-detected appointment:appt_301
    vapi/endpointing_request recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:call.endpointing.request:9342d5e46256fced call.endpointing.request appointment:appt_301
    vapi/knowledge_base_request recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:knowledge-base-request:e68417645ad4ff98 knowledge-base-request appointment:appt_301
    vapi/tool_calls recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:tool-calls:93b6e248042041df tool-calls appointment:appt_301
    vapi/function_call recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:function-call:ab5aca49614bb50b function-call appointment:appt_301
    vapi/transfer_destination_request recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:transfer-destination-request:0ca2ea2385d49374 transfer-destination-request appointment:appt_301
    vapi/handoff_destination_request recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:handoff-destination-request:2703e0e6315d73ee handoff-destination-request appointment:appt_301
    vapi/transfer_update recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:transfer-update:9de94aae00eb28ba transfer-update appointment:appt_301
    vapi/phone_call_control recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:phone-call-control:417ebc611792ee6e phone-call-control appointment:appt_301
    vapi/hang recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:hang:ca1b237692baa2fe hang appointment:appt_301
    vapi/call_deleted recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:call.deleted:b0eda7350e85e5a6 call.deleted appointment:appt_301
    vapi/call_delete_failed recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:call.delete.failed:a088f2c0d4825609 call.delete.failed appointment:appt_301
    vapi/chat_created recorded vapi:sha256-6fd2c7880aca31694a1c8e8d6a3a0fa0ddc7ab5ae354b2a4bc021eea8b928f93 chat.created -
    vapi/chat_deleted recorded vapi:sha256-37207b059fcd470e00d0661a998c6098036b42130cbc3a3ea879b7ce1f466e63 chat.deleted -
    vapi/session_created recorded vapi:sha256-d42322c83b0dd8b600a718856768424929141888fb2f7be780902ea8db5bbb56 session.created -
    vapi/session_updated recorded vapi:sha256-ba90b562798fb1ddbdb4916c0db59506f114ea9538c4bd2c2769d50a10555c80 session.updated -
    vapi/session_deleted recorded vapi:sha256-398256a14528a4dfaa1f41d3ab56d3262a77d89957f4ba5ad62490193167d2fa session.deleted -
    ");
}
