//! Call events of each sample body.

mod bland;
mod daily;
mod elevenlabs;
mod livekit;
mod plivo;
mod signalwire;
mod vonage;

use std::fmt::Write;

use http::{HeaderMap, HeaderName, HeaderValue};
use insta::assert_snapshot;
use serde_json::json;
use switchhook_domain::{CallEvent, Provider, ProviderEvent, Timestamp};
use switchhook_providers::{
    Key, Reading, UnverifiedWebhook, VerifiedWebhook, read, samples, sign, verify, verifying_key,
};

const NOW: Timestamp = Timestamp::from_millis(1_760_962_600_000);

#[test]
fn retell_bodies_say() {
    assert_snapshot!(summary("retell/call_started"), @r"
    event retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70:call_started
    call_started
    appointment:appt_201
    retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70 call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70 appt_201 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:13:57.211Z
    in_progress 2025-10-20T12:13:57.211Z
    ");
    assert_snapshot!(summary("retell/call_ended"), @r"
    event retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70:call_ended
    call_ended
    appointment:appt_201
    retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70 call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70 appt_201 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:13:57.211Z
    in_progress implied 2025-10-20T12:13:57.211Z
    completed 2025-10-20T12:15:21.846Z
    ");
    assert_snapshot!(summary("retell/call_analyzed"), @r"
    event retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70:call_analyzed:845ceb549a05fa95
    call_analyzed
    appointment:appt_201
    retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70 call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70 appt_201 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:13:57.211Z
    in_progress implied 2025-10-20T12:13:57.211Z
    user_confirmed 2025-10-20T12:15:21.846Z
    completed implied 2025-10-20T12:15:21.846Z
    ");
    assert_snapshot!(summary("retell/call_analyzed_declined"), @r"
    event retell:call_a94c1e0f7b6d4c2e8f3a5b7d9c1e0f24:call_analyzed:6ac5da499d426392
    call_analyzed
    appointment:appt_202
    retell:call_a94c1e0f7b6d4c2e8f3a5b7d9c1e0f24 call_a94c1e0f7b6d4c2e8f3a5b7d9c1e0f24 appt_202 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:13:57.211Z
    in_progress implied 2025-10-20T12:13:57.211Z
    user_declined 2025-10-20T12:15:21.846Z
    completed implied 2025-10-20T12:15:21.846Z
    ");
    assert_snapshot!(summary("retell/call_ended_voicemail"), @r"
    event retell:call_c77e1f50a2b34c6d8e9f0a1b2c3d4e5f:call_ended
    call_ended
    appointment:appt_203
    retell:call_c77e1f50a2b34c6d8e9f0a1b2c3d4e5f call_c77e1f50a2b34c6d8e9f0a1b2c3d4e5f appt_203 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:13:57.211Z
    in_progress implied 2025-10-20T12:13:57.211Z
    voicemail_detected implied 2025-10-20T12:14:17.085Z
    completed 2025-10-20T12:14:17.085Z
    ");
    assert_snapshot!(summary("retell/call_analyzed_voicemail"), @r"
    event retell:call_c77e1f50a2b34c6d8e9f0a1b2c3d4e5f:call_analyzed:5a64aa4a43994d70
    call_analyzed
    appointment:appt_203
    retell:call_c77e1f50a2b34c6d8e9f0a1b2c3d4e5f call_c77e1f50a2b34c6d8e9f0a1b2c3d4e5f appt_203 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:13:57.211Z
    in_progress implied 2025-10-20T12:13:57.211Z
    voicemail_detected 2025-10-20T12:14:17.085Z
    completed implied 2025-10-20T12:14:17.085Z
    ");
    assert_snapshot!(summary("retell/call_ended_no_answer"), @r"
    event retell:call_1b9d6bcd4e5f4a3b8c7d0e9f8a7b6c5d:call_ended
    call_ended
    appointment:appt_204
    retell:call_1b9d6bcd4e5f4a3b8c7d0e9f8a7b6c5d call_1b9d6bcd4e5f4a3b8c7d0e9f8a7b6c5d appt_204 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:28.211Z
    no_answer 2025-10-20T12:14:28.211Z
    ");
    assert_snapshot!(summary("retell/call_analyzed_no_answer"), @r"
    event retell:call_1b9d6bcd4e5f4a3b8c7d0e9f8a7b6c5d:call_analyzed:8c31ea18c9c11e4c
    call_analyzed
    appointment:appt_204
    retell:call_1b9d6bcd4e5f4a3b8c7d0e9f8a7b6c5d call_1b9d6bcd4e5f4a3b8c7d0e9f8a7b6c5d appt_204 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:28.211Z
    no_answer implied 2025-10-20T12:14:28.211Z
    ");
    assert_snapshot!(summary("retell/call_ended_busy"), @r"
    event retell:call_7c9e6679f0a14b2c9d3e5f6a7b8c9d0e:call_ended
    call_ended
    appointment:appt_205
    retell:call_7c9e6679f0a14b2c9d3e5f6a7b8c9d0e call_7c9e6679f0a14b2c9d3e5f6a7b8c9d0e appt_205 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:28.211Z
    busy 2025-10-20T12:14:28.211Z
    ");
    assert_snapshot!(summary("retell/call_ended_failed"), @r"
    event retell:call_9f8e7d6c5b4a43928170f1e2d3c4b5a6:call_ended
    call_ended
    appointment:appt_206
    retell:call_9f8e7d6c5b4a43928170f1e2d3c4b5a6 call_9f8e7d6c5b4a43928170f1e2d3c4b5a6 appt_206 Outbound +442079460018 +447700900000
    failed 2025-10-20T12:14:28.211Z
    ");
    assert_snapshot!(summary("retell/transcript_updated"), @r"
    recorded retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70:transcript_updated:0195aaac95f6a5fe
    transcript_updated
    appointment:appt_201
    ");
    assert_snapshot!(summary("retell/call_inbound"), @r"
    recorded retell:sha256-2746c3b2f8c3910fafe6c85206aad1afb0d063c2136dbdcd1e6de99c6a48ab04
    call_inbound
    -
    ");
    assert_snapshot!(summary("retell/transfer_started"), @r"
    recorded retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70:transfer_started:ca7fad59a974e486
    transfer_started
    appointment:appt_201
    ");
}

#[test]
fn twilio_bodies_say() {
    assert_snapshot!(summary("twilio/initiated"), @r"
    event twilio:CA00000000000000000000000000000001:initiated:0
    initiated
    appointment:7
    twilio:CA00000000000000000000000000000001 CA00000000000000000000000000000001 7 Outbound +442079460018 +447700900000
    initiated 2025-10-20T12:13:55.000Z #0
    ");
    assert_snapshot!(summary("twilio/ringing"), @r"
    event twilio:CA00000000000000000000000000000001:ringing:1
    ringing
    appointment:7
    twilio:CA00000000000000000000000000000001 CA00000000000000000000000000000001 7 Outbound +442079460018 +447700900000
    ringing 2025-10-20T12:13:56.000Z #1
    ");
    assert_snapshot!(summary("twilio/in_progress"), @r"
    event twilio:CA00000000000000000000000000000001:in-progress:2
    in-progress
    appointment:7
    twilio:CA00000000000000000000000000000001 CA00000000000000000000000000000001 7 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:05.000Z #2
    in_progress 2025-10-20T12:14:05.000Z #2
    ");
    assert_snapshot!(summary("twilio/completed"), @r"
    event twilio:CA00000000000000000000000000000001:completed:3
    completed
    appointment:7
    twilio:CA00000000000000000000000000000001 CA00000000000000000000000000000001 7 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:47.000Z #3
    in_progress implied 2025-10-20T12:14:47.000Z #3
    completed 2025-10-20T12:14:47.000Z #3
    ");
    assert_snapshot!(summary("twilio/completed_json"), @r"
    event twilio:CA00000000000000000000000000000009:completed:3
    completed
    appointment:7
    twilio:CA00000000000000000000000000000009 CA00000000000000000000000000000009 7 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:47.000Z #3
    in_progress implied 2025-10-20T12:14:47.000Z #3
    completed 2025-10-20T12:14:47.000Z #3
    ");
    assert_snapshot!(summary("twilio/completed_voicemail"), @r"
    event twilio:CA00000000000000000000000000000002:completed:3
    completed
    appointment:7
    twilio:CA00000000000000000000000000000002 CA00000000000000000000000000000002 7 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:31.000Z #3
    in_progress implied 2025-10-20T12:14:31.000Z #3
    voicemail_detected implied 2025-10-20T12:14:31.000Z #3
    completed 2025-10-20T12:14:31.000Z #3
    ");
    assert_snapshot!(summary("twilio/busy"), @r"
    event twilio:CA00000000000000000000000000000003:busy:2
    busy
    appointment:7
    twilio:CA00000000000000000000000000000003 CA00000000000000000000000000000003 7 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:01.000Z #2
    busy 2025-10-20T12:14:01.000Z #2
    ");
    assert_snapshot!(summary("twilio/no_answer"), @r"
    event twilio:CA00000000000000000000000000000004:no-answer:2
    no-answer
    appointment:7
    twilio:CA00000000000000000000000000000004 CA00000000000000000000000000000004 7 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:56.000Z #2
    no_answer 2025-10-20T12:14:56.000Z #2
    ");
    assert_snapshot!(summary("twilio/failed"), @r"
    event twilio:CA00000000000000000000000000000005:failed:1
    failed
    appointment:7
    twilio:CA00000000000000000000000000000005 CA00000000000000000000000000000005 7 Outbound +442079460018 +447700900000
    failed 2025-10-20T12:13:57.000Z #1
    ");
    assert_snapshot!(summary("twilio/canceled"), @r"
    event twilio:CA00000000000000000000000000000006:canceled:2
    canceled
    appointment:7
    twilio:CA00000000000000000000000000000006 CA00000000000000000000000000000006 7 Outbound +442079460018 +447700900000
    canceled 2025-10-20T12:14:02.000Z #2
    ");
    assert_snapshot!(summary("twilio/amd_human"), @r"
    event twilio:CA00000000000000000000000000000001:amd:human
    amd
    appointment:7
    twilio:CA00000000000000000000000000000001 CA00000000000000000000000000000001 7 - - -
    ringing implied
    in_progress implied
    ");
    assert_snapshot!(summary("twilio/amd_machine"), @r"
    event twilio:CA00000000000000000000000000000002:amd:machine_end_beep
    amd
    appointment:7
    twilio:CA00000000000000000000000000000002 CA00000000000000000000000000000002 7 - - -
    ringing implied
    in_progress implied
    voicemail_detected
    ");
    assert_snapshot!(summary("twilio/child_leg"), @r"
    recorded twilio:CA00000000000000000000000000000007:completed:2
    completed
    appointment:7
    ");
    assert_snapshot!(summary("twilio/inbound_request"), @r"
    event twilio:CA00000000000000000000000000000008:ringing:-:7559885324a87d10
    ringing
    appointment:7
    twilio:CA00000000000000000000000000000008 CA00000000000000000000000000000008 7 Inbound +447700900000 +442079460018
    ringing
    ");
    assert_snapshot!(summary("twilio/recording"), @r"
    recorded twilio:CA00000000000000000000000000000001:unknown:-:879088cb14b828c3
    unknown
    appointment:7
    ");
}

#[test]
fn vapi_bodies_say() {
    assert_snapshot!(summary("vapi/status_queued"), @r"
    event vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:status-update:queued
    status-update:queued
    appointment:appt_301
    vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001 019a0c1e-4b7a-7d2e-9c3f-000000000001 appt_301 Outbound +442079460018 +447700900000
    initiated 2025-10-20T12:13:55.310Z
    ");
    assert_snapshot!(summary("vapi/status_ringing"), @r"
    event vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:status-update:ringing
    status-update:ringing
    appointment:appt_301
    vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001 019a0c1e-4b7a-7d2e-9c3f-000000000001 appt_301 Outbound +442079460018 +447700900000
    ringing 2025-10-20T12:13:56.710Z
    ");
    assert_snapshot!(summary("vapi/status_in_progress"), @r"
    event vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:status-update:in-progress
    status-update:in-progress
    appointment:appt_301
    vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001 019a0c1e-4b7a-7d2e-9c3f-000000000001 appt_301 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:04.430Z
    in_progress 2025-10-20T12:14:04.430Z
    ");
    assert_snapshot!(summary("vapi/transcript"), @r"
    recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:transcript:181a21364016d80e
    transcript
    appointment:appt_301
    ");
    assert_snapshot!(summary("vapi/status_forwarding"), @r"
    event vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:status-update:forwarding
    status-update:forwarding
    appointment:appt_301
    vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001 019a0c1e-4b7a-7d2e-9c3f-000000000001 appt_301 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:35.310Z
    in_progress implied 2025-10-20T12:14:35.310Z
    ");
    assert_snapshot!(summary("vapi/status_ended"), @r"
    event vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:status-update:ended
    status-update:ended
    appointment:appt_301
    vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001 019a0c1e-4b7a-7d2e-9c3f-000000000001 appt_301 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:47.610Z
    in_progress implied 2025-10-20T12:14:47.610Z
    completed 2025-10-20T12:14:47.610Z
    ");
    assert_snapshot!(summary("vapi/end_of_call_report"), @r"
    event vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001:end-of-call-report
    end-of-call-report
    appointment:appt_301
    vapi:019a0c1e-4b7a-7d2e-9c3f-000000000001 019a0c1e-4b7a-7d2e-9c3f-000000000001 appt_301 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:04.430Z
    in_progress implied 2025-10-20T12:14:04.430Z
    user_confirmed 2025-10-20T12:14:47.610Z
    completed implied 2025-10-20T12:14:47.610Z
    ");
    assert_snapshot!(summary("vapi/end_of_call_report_declined"), @r"
    event vapi:019a0c1e-4b7a-7d2e-9c3f-000000000002:end-of-call-report
    end-of-call-report
    appointment:appt_302
    vapi:019a0c1e-4b7a-7d2e-9c3f-000000000002 019a0c1e-4b7a-7d2e-9c3f-000000000002 appt_302 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:04.430Z
    in_progress implied 2025-10-20T12:14:04.430Z
    user_declined 2025-10-20T12:14:47.610Z
    completed implied 2025-10-20T12:14:47.610Z
    ");
    assert_snapshot!(summary("vapi/end_of_call_report_voicemail"), @r"
    event vapi:019a0c1e-4b7a-7d2e-9c3f-000000000003:end-of-call-report
    end-of-call-report
    appointment:appt_303
    vapi:019a0c1e-4b7a-7d2e-9c3f-000000000003 019a0c1e-4b7a-7d2e-9c3f-000000000003 appt_303 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:04.430Z
    in_progress implied 2025-10-20T12:14:04.430Z
    voicemail_detected implied 2025-10-20T12:14:19.200Z
    completed 2025-10-20T12:14:19.200Z
    ");
    assert_snapshot!(summary("vapi/end_of_call_report_no_answer"), @r"
    event vapi:019a0c1e-4b7a-7d2e-9c3f-000000000004:end-of-call-report
    end-of-call-report
    appointment:appt_304
    vapi:019a0c1e-4b7a-7d2e-9c3f-000000000004 019a0c1e-4b7a-7d2e-9c3f-000000000004 appt_304 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:35.000Z
    no_answer 2025-10-20T12:14:35.000Z
    ");
    assert_snapshot!(summary("vapi/end_of_call_report_busy"), @r"
    event vapi:019a0c1e-4b7a-7d2e-9c3f-000000000005:end-of-call-report
    end-of-call-report
    appointment:appt_305
    vapi:019a0c1e-4b7a-7d2e-9c3f-000000000005 019a0c1e-4b7a-7d2e-9c3f-000000000005 appt_305 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:35.000Z
    busy 2025-10-20T12:14:35.000Z
    ");
    assert_snapshot!(summary("vapi/end_of_call_report_misdialed"), @r"
    event vapi:019a0c1e-4b7a-7d2e-9c3f-000000000006:end-of-call-report
    end-of-call-report
    appointment:appt_306
    vapi:019a0c1e-4b7a-7d2e-9c3f-000000000006 019a0c1e-4b7a-7d2e-9c3f-000000000006 appt_306 Outbound +442079460018 +447700900000
    failed 2025-10-20T12:14:35.000Z permanent
    ");
    assert_snapshot!(summary("vapi/end_of_call_report_fault"), @r"
    event vapi:019a0c1e-4b7a-7d2e-9c3f-000000000007:end-of-call-report
    end-of-call-report
    appointment:appt_307
    vapi:019a0c1e-4b7a-7d2e-9c3f-000000000007 019a0c1e-4b7a-7d2e-9c3f-000000000007 appt_307 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:04.430Z
    in_progress implied 2025-10-20T12:14:04.430Z
    failed 2025-10-20T12:14:47.610Z
    ");
    assert_snapshot!(summary("vapi/end_of_call_report_inbound"), @r"
    event vapi:019a0c1e-4b7a-7d2e-9c3f-000000000008:end-of-call-report
    end-of-call-report
    appointment:appt_308
    vapi:019a0c1e-4b7a-7d2e-9c3f-000000000008 019a0c1e-4b7a-7d2e-9c3f-000000000008 appt_308 Inbound +447700900000 +442079460018
    ringing implied 2025-10-20T12:14:04.430Z
    in_progress implied 2025-10-20T12:14:04.430Z
    completed 2025-10-20T12:14:47.610Z
    ");
    assert_snapshot!(summary("vapi/assistant_request"), @r"
    recorded vapi:019a0c1e-4b7a-7d2e-9c3f-000000000009:assistant-request:7434adeb34b4ebd0
    assistant-request
    appointment:appt_309
    ");
}

#[test]
fn telnyx_bodies_say() {
    assert_snapshot!(summary("telnyx/initiated"), @r"
    event telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010001
    call.initiated
    appointment:appt_401
    telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p01 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p01 appt_401 Outbound +442079460018 +447700900000
    initiated 2025-10-20T12:13:55.127Z
    ");
    assert_snapshot!(summary("telnyx/answered"), @r"
    event telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010002
    call.answered
    appointment:appt_401
    telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p01 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p01 appt_401 - +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:05.502Z
    in_progress 2025-10-20T12:14:05.502Z
    ");
    assert_snapshot!(summary("telnyx/detection_human"), @r"
    event telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010003
    call.machine.detection.ended
    appointment:appt_401
    telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p01 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p01 appt_401 - +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:07.000Z
    in_progress implied 2025-10-20T12:14:07.000Z
    ");
    assert_snapshot!(summary("telnyx/bridged"), @r"
    recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010004
    call.bridged
    appointment:appt_401
    ");
    assert_snapshot!(summary("telnyx/hangup"), @r"
    event telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010009
    call.hangup
    appointment:appt_401
    telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p01 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p01 appt_401 - +442079460018 +447700900000
    completed 2025-10-20T12:14:47.224Z
    ");
    assert_snapshot!(summary("telnyx/recording_saved"), @r"
    recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010005
    call.recording.saved
    appointment:appt_401
    ");
    assert_snapshot!(summary("telnyx/detection_machine"), @r"
    event telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec020003
    call.machine.premium.detection.ended
    appointment:appt_402
    telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p02 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p02 appt_402 - +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:08.120Z
    in_progress implied 2025-10-20T12:14:08.120Z
    voicemail_detected 2025-10-20T12:14:08.120Z
    ");
    assert_snapshot!(summary("telnyx/greeting_beep"), @r"
    event telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec020004
    call.machine.premium.greeting.ended
    appointment:appt_402
    telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p02 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p02 appt_402 - +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:15.500Z
    in_progress implied 2025-10-20T12:14:15.500Z
    voicemail_detected 2025-10-20T12:14:15.500Z
    ");
    assert_snapshot!(summary("telnyx/hangup_busy"), @r"
    event telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec030009
    call.hangup
    appointment:appt_403
    telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p03 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p03 appt_403 - +442079460018 +447700900000
    ringing implied 2025-10-20T12:13:55.127Z
    busy 2025-10-20T12:14:01.000Z
    ");
    assert_snapshot!(summary("telnyx/hangup_rejected"), @r"
    event telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec040009
    call.hangup
    appointment:appt_404
    telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p04 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p04 appt_404 - +442079460018 +447700900000
    ringing implied 2025-10-20T12:13:55.127Z
    busy 2025-10-20T12:14:03.000Z
    ");
    assert_snapshot!(summary("telnyx/hangup_timeout"), @r"
    event telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec050009
    call.hangup
    appointment:appt_405
    telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p05 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p05 appt_405 - +442079460018 +447700900000
    ringing implied 2025-10-20T12:13:55.127Z
    no_answer 2025-10-20T12:14:25.000Z
    ");
    assert_snapshot!(summary("telnyx/hangup_canceled"), @r"
    event telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec060009
    call.hangup
    appointment:appt_406
    telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p06 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p06 appt_406 - +442079460018 +447700900000
    canceled 2025-10-20T12:14:02.000Z
    ");
    assert_snapshot!(summary("telnyx/hangup_not_found"), @r"
    event telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec070009
    call.hangup
    appointment:appt_407
    telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p07 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p07 appt_407 - +442079460018 +447700900000
    failed 2025-10-20T12:13:57.000Z permanent
    ");
    assert_snapshot!(summary("telnyx/hangup_unspecified"), @r"
    event telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec080009
    call.hangup
    appointment:appt_408
    telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p08 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p08 appt_408 - +442079460018 +447700900000
    failed 2025-10-20T12:13:57.000Z
    ");
    assert_snapshot!(summary("telnyx/initiated_incoming"), @r"
    event telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec090001
    call.initiated
    telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p09
    telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p09 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p09 - Inbound +447700900000 +442079460018
    initiated 2025-10-20T12:13:55.127Z
    ");
}

#[test]
fn generic_bodies_say() {
    assert_snapshot!(summary("generic/call_initiated"), @r"
    event generic:evt_8f1a20
    call.initiated
    appointment:appt_123
    generic:CAxxxx CAxxxx appt_123 Outbound +442079460018 +447700900000
    initiated 2025-10-20T12:13:55.000Z
    ");
    assert_snapshot!(summary("generic/ringing"), @r"
    event generic:evt_8f1a21
    call.ringing
    appointment:appt_123
    generic:CAxxxx CAxxxx appt_123 Outbound +442079460018 +447700900000
    ringing 2025-10-20T12:13:56.000Z
    ");
    assert_snapshot!(summary("generic/in_progress"), @r"
    event generic:evt_8f1a22
    call.in_progress
    appointment:appt_123
    generic:CAxxxx CAxxxx appt_123 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:01.000Z
    in_progress 2025-10-20T12:14:01.000Z
    ");
    assert_snapshot!(summary("generic/user_confirmed"), @r"
    event generic:evt_8f1a2c
    USER_CONFIRMED
    appointment:appt_123
    generic:CAxxxx CAxxxx appt_123 - +4420xxxxxxx +447700900000
    ringing implied
    in_progress implied
    user_confirmed 2025-10-20T12:14:05.000Z
    ");
    assert_snapshot!(summary("generic/user_declined"), @r"
    event generic:evt_8f1a2d
    user.declined
    appointment:appt_124
    generic:CAxxx2 CAxxx2 appt_124 Outbound +442079460018 +447700900000
    ringing implied
    in_progress implied
    user_declined 2025-10-20T12:14:05.000Z
    ");
    assert_snapshot!(summary("generic/voicemail_detected"), @r"
    event generic:evt_8f1a2e
    voicemail.detected
    appointment:appt_125
    generic:CAxxx3 CAxxx3 appt_125 Outbound +442079460018 +447700900000
    ringing implied
    in_progress implied
    voicemail_detected 2025-10-20T12:14:03.000Z
    ");
    assert_snapshot!(summary("generic/completed"), @r"
    event generic:evt_8f1a2f
    call.completed
    appointment:appt_123
    generic:CAxxxx CAxxxx appt_123 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:47.000Z
    completed 2025-10-20T12:14:47.000Z
    ");
    assert_snapshot!(summary("generic/failed"), @r"
    event generic:evt_8f1a30
    call.failed
    appointment:appt_126
    generic:CAxxx4 CAxxx4 appt_126 Outbound +442079460018 +447700900000
    failed 2025-10-20T12:13:57.000Z
    ");
    assert_snapshot!(summary("generic/busy"), @r"
    event generic:evt_8f1a31
    call.busy
    appointment:appt_127
    generic:CAxxx5 CAxxx5 appt_127 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:01.000Z
    busy 2025-10-20T12:14:01.000Z
    ");
    assert_snapshot!(summary("generic/no_answer"), @r"
    event generic:evt_8f1a32
    TIMEOUT
    appointment:appt_128
    generic:CAxxx6 CAxxx6 appt_128 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:56.000Z
    no_answer 2025-10-20T12:14:56.000Z
    ");
    assert_snapshot!(summary("generic/canceled"), @r"
    event generic:evt_8f1a33
    call.canceled
    appointment:appt_129
    generic:CAxxx7 CAxxx7 appt_129 Outbound +442079460018 +447700900000
    canceled 2025-10-20T12:14:02.000Z
    ");
    assert_snapshot!(summary("generic/retry_scheduled"), @r"
    event generic:evt_8f1a34
    RETRY_SCHEDULED
    appointment:appt_130
    generic:CAxxx8 CAxxx8 appt_130 Outbound +442079460018 +447700900000
    retry_scheduled 2025-10-20T12:15:00.000Z
    ");
    assert_snapshot!(summary("generic/unknown_type"), @r"
    recorded generic:sha256-4d0a2d8b13b14ac45f071f4ffcbe916816c2fe76869b2a3739711d984929a752
    payment_intent.succeeded
    -
    ");
}

#[test]
fn bodies_read_alike_from_the_wire_and_from_the_inbox() {
    for (name, _) in samples() {
        let webhook = verified(name);
        let again = VerifiedWebhook::from_inbox(
            webhook.provider(),
            webhook.query().to_owned(),
            webhook.body().to_vec(),
            webhook.key_index(),
        );
        assert_eq!(read(&webhook, NOW), read(&again, NOW), "{name}");
    }
}

#[test]
fn event_ids_of_bodies_are_distinct_and_fit_a_path() {
    let mut ids: Vec<String> =
        samples().iter().map(|(name, _)| read(&verified(name), NOW).event_id().to_string()).collect();
    assert!(ids.iter().all(|id| !id.contains(['/', '#', '?'])), "{ids:?}");
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

/// The sample, signed as its provider would sign it, for a callback URL with an appointment id.
pub(crate) fn verified(name: &str) -> VerifiedWebhook {
    let (_, body) = samples().iter().find(|(candidate, _)| *candidate == name).unwrap();
    let provider: Provider = name.split_once('/').unwrap().0.parse().unwrap();
    let url = "https://example.com/webhooks?appointment_id=7";
    let signed = sign(provider, &Key::new("key").unwrap(), url, body.as_bytes(), NOW);
    let headers: HeaderMap = signed
        .headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
        .collect();
    let query = signed.url.split_once('?').unwrap().1;
    let webhook = UnverifiedWebhook { headers: &headers, path: "/webhooks", query, body: body.as_bytes() };
    let document = json!({provider.as_str(): {
        "keys": [verifying_key(provider, &Key::new("key").unwrap())],
        "public_url": "https://example.com",
    }});
    let providers = crate::providers_file(&document.to_string()).unwrap();
    verify(provider, providers.webhook_keys().config(provider).unwrap(), &webhook, NOW).unwrap()
}

/// Reading of a sample as lines: event id, event type, call id, then ids, direction and numbers, then one line per call event.
fn summary(name: &str) -> String {
    match read(&verified(name), NOW) {
        Reading::Event(event) => event_summary(&event),
        Reading::Recorded { event_id, event_type, call_id } => {
            let call_id = call_id.map_or("-".to_owned(), |id| id.to_string());
            format!("recorded {event_id}\n{event_type}\n{call_id}")
        }
        Reading::Quarantined { event_id, error } => panic!("{event_id}: {error}"),
    }
}

fn event_summary(event: &ProviderEvent) -> String {
    let mut lines = format!("event {}\n{}\n{}", event.event_id, event.event_type, event.call_id);
    let attempt = event.attempt.as_ref().map_or("-", |key| key.as_str());
    let direction = event.direction.map_or("-".to_owned(), |direction| format!("{direction:?}"));
    let provider_call_id = event.provider_call_id.as_deref().unwrap_or("-");
    let appointment_id = event.appointment_id.as_deref().unwrap_or("-");
    let from = event.from.as_ref().map_or("-", |number| number.as_str());
    let to = event.to.as_ref().map_or("-", |number| number.as_str());
    write!(lines, "\n{attempt} {provider_call_id} {appointment_id} {direction} {from} {to}").unwrap();
    for CallEvent { kind, implied, occurred_at, sequence, permanent, never_dialled } in &event.call_events {
        let implied = if *implied { " implied" } else { "" };
        let at = occurred_at.map_or(String::new(), |at| format!(" {at}"));
        let sequence = sequence.map_or(String::new(), |sequence| format!(" #{sequence}"));
        let permanent = if *permanent { " permanent" } else { "" };
        let never_dialled = if *never_dialled { " never_dialled" } else { "" };
        write!(lines, "\n{kind}{implied}{at}{sequence}{permanent}{never_dialled}").unwrap();
    }
    lines
}
