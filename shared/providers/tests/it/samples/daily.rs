//! Bodies of Daily.

use insta::assert_snapshot;

use super::summaries;

#[test]
fn daily_bodies_say() {
    assert_snapshot!(summaries("daily"), @r"
    daily/dialout_connected daily:2868-dial-out-con-7d208e2a-520b-4a8d-a2c9-000000000001:dialout.connected dialout.connected
      appointment:apt_129 daily:7d208e2a-520b-4a8d-a2c9-000000000001 7d208e2a-520b-4a8d-a2c9-000000000001 apt_129 Outbound +442079460018 +447700900000
      ringing 2025-10-20T12:13:56.000Z
    daily/dialout_answered daily:2868-dial-out-ans-7d208e2a-520b-4a8d-a2c9-000000000001:dialout.answered dialout.answered
      appointment:apt_129 daily:7d208e2a-520b-4a8d-a2c9-000000000001 7d208e2a-520b-4a8d-a2c9-000000000001 apt_129 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:03.000Z
      in_progress 2025-10-20T12:14:03.000Z
    daily/dialout_stopped daily:2868-dial-out-stop-7d208e2a-520b-4a8d-a2c9-000000000001:dialout.stopped dialout.stopped
      appointment:apt_129 daily:7d208e2a-520b-4a8d-a2c9-000000000001 7d208e2a-520b-4a8d-a2c9-000000000001 apt_129 Outbound +442079460018 +447700900000
      completed 2025-10-20T12:15:21.000Z
    daily/dialout_warning recorded daily:2868-dial-out-warn-7d208e2a-520b-4a8d-a2c9-000000000001:dialout.warning dialout.warning appointment:apt_129
    daily/dialout_error daily:2868-dial-out-err-7d208e2a-520b-4a8d-a2c9-000000000002:dialout.error dialout.error
      daily:7d208e2a-520b-4a8d-a2c9-000000000002 daily:7d208e2a-520b-4a8d-a2c9-000000000002 7d208e2a-520b-4a8d-a2c9-000000000002 - Outbound - -
      failed 2025-10-20T12:13:58.000Z
    daily/dialout_sip_answered daily:2868-dial-out-ans-7d208e2a-520b-4a8d-a2c9-000000000003:dialout.answered dialout.answered
      daily:7d208e2a-520b-4a8d-a2c9-000000000003 daily:7d208e2a-520b-4a8d-a2c9-000000000003 7d208e2a-520b-4a8d-a2c9-000000000003 - Outbound sip:clinic.0@daily.example.com sip:desk@clinic.example.com
      ringing implied 2025-10-20T12:14:05.000Z
      in_progress 2025-10-20T12:14:05.000Z
    daily/dialin_ready recorded daily:2868-dial-in-ready-04b89420-cf8b-4ea5-a428-000000000001:dialin.ready dialin.ready -
    daily/dialin_connected daily:2868-dial-in-con-7d208e2a-520b-4a8d-a2c9-000000000004:dialin.connected dialin.connected
      daily:7d208e2a-520b-4a8d-a2c9-000000000004 daily:7d208e2a-520b-4a8d-a2c9-000000000004 7d208e2a-520b-4a8d-a2c9-000000000004 - Inbound sip:+447700900000@sip.example.com -
      ringing implied 2025-10-20T12:13:59.000Z
      in_progress 2025-10-20T12:13:59.000Z
    daily/dialin_stopped daily:2868-dial-in-stop-7d208e2a-520b-4a8d-a2c9-000000000004:dialin.stopped dialin.stopped
      daily:7d208e2a-520b-4a8d-a2c9-000000000004 daily:7d208e2a-520b-4a8d-a2c9-000000000004 7d208e2a-520b-4a8d-a2c9-000000000004 - Inbound sip:+447700900000@sip.example.com -
      completed 2025-10-20T12:14:59.000Z
    daily/dialin_warning recorded daily:2868-dial-in-warn-7d208e2a-520b-4a8d-a2c9-000000000004:dialin.warning dialin.warning daily:7d208e2a-520b-4a8d-a2c9-000000000004
    daily/dialin_error daily:2868-dial-in-err-7d208e2a-520b-4a8d-a2c9-000000000005:dialin.error dialin.error
      daily:7d208e2a-520b-4a8d-a2c9-000000000005 daily:7d208e2a-520b-4a8d-a2c9-000000000005 7d208e2a-520b-4a8d-a2c9-000000000005 - Inbound - -
      failed 2025-10-20T12:13:59.000Z
    daily/meeting_started recorded daily:mtg-st-16e9701a-93e0-4933-83c9-000000000001-1760962430:meeting.started meeting.started -
    daily/participant_joined recorded daily:ptcpt-join-7d208e2a-520b-4a8d-a2c9-000000000001-1760962443961:participant.joined participant.joined -
    daily/recording_ready recorded daily:rec-rtd-c3df927c-f738-4471-a2b7-000000000001-1760962525:recording.ready-to-download recording.ready-to-download -
    daily/test recorded daily:sha256-94ea41e5e599be73597da3cc6c346ef9466e8e1d7b2f8fe80e433d88d1f11c91 test -
    daily/calltransfer_triggered recorded daily:3602-call-transfer-trig-7d208e2a-520b-4a8d-a2c9-0000000000011760962474:calltransfer.triggered calltransfer.triggered daily:7d208e2a-520b-4a8d-a2c9-000000000001
    daily/calltransfer_answered recorded daily:3602-call-transfer-ans-7d208e2a-520b-4a8d-a2c9-0000000000011760962480:calltransfer.answered calltransfer.answered daily:7d208e2a-520b-4a8d-a2c9-000000000001
    daily/meeting_ended recorded daily:mtg-end-16e9701a-93e0-4933-83c9-000000000001-1760962540:meeting.ended meeting.ended -
    daily/participant_left recorded daily:ptcpt-left-7d208e2a-520b-4a8d-a2c9-000000000001-1760962521961:participant.left participant.left -
    daily/waiting_participant_joined recorded daily:wtg-ptcpt-join-7d208e2a-520b-4a8d-a2c9-000000000009-1760962441200:waiting-participant.joined waiting-participant.joined -
    daily/waiting_participant_left recorded daily:wtg-ptcpt-left-7d208e2a-520b-4a8d-a2c9-000000000009-1760962445300:waiting-participant.left waiting-participant.left -
    daily/recording_started recorded daily:rec-str-b3f1c0de-5a52-4c4e-93c7-000000000001-1760962443:recording.started recording.started -
    daily/recording_error recorded daily:rec-err-b3f1c0de-5a52-4c4e-93c7-000000000001-1760962443:recording.error recording.error -
    daily/transcript_started recorded daily:trs-str-0b6f0f6e-43d1-4a7e-9a53-000000000001-1760962443:transcript.started transcript.started -
    daily/transcript_ready recorded daily:trs-rtd-0b6f0f6e-43d1-4a7e-9a53-000000000001-1760962525:transcript.ready-to-download transcript.ready-to-download -
    daily/transcript_error recorded daily:trs-err-0b6f0f6e-43d1-4a7e-9a53-000000000001-1760962444:transcript.error transcript.error -
    daily/streaming_started recorded daily:stm-sta-b3f1c0de-5a52-4c4e-93c7-000000000001-1760962443:streaming.started streaming.started -
    daily/streaming_updated recorded daily:stm-upd-b3f1c0de-5a52-4c4e-93c7-000000000001-1760962450:streaming.updated streaming.updated -
    daily/streaming_ended recorded daily:stm-end-b3f1c0de-5a52-4c4e-93c7-000000000001-1760962520:streaming.ended streaming.ended -
    daily/streaming_warning recorded daily:stm-wrn-b3f1c0de-5a52-4c4e-93c7-000000000001-1760962459:streaming.warning streaming.warning -
    daily/streaming_error recorded daily:stm-err-b3f1c0de-5a52-4c4e-93c7-000000000001-1760962460:streaming.error streaming.error -
    daily/batch_processor_finished recorded daily:77b1cb9e-cd79-43cd-bad6-000000000001:batch-processor.job-finished batch-processor.job-finished -
    daily/batch_processor_error recorded daily:77b1cb9e-cd79-43cd-bad6-000000000002:batch-processor.error batch-processor.error -
    ");
}
