//! Bodies of Telnyx.

use insta::assert_snapshot;

use super::summaries;

#[test]
fn telnyx_bodies_say() {
    assert_snapshot!(summaries("telnyx"), @r"
    telnyx/initiated telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010001 call.initiated
      appointment:appt_401 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p01 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p01 appt_401 Outbound +442079460018 +447700900000
      initiated 2025-10-20T12:13:55.127Z
    telnyx/answered telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010002 call.answered
      appointment:appt_401 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p01 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p01 appt_401 - +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:05.502Z
      in_progress 2025-10-20T12:14:05.502Z
    telnyx/detection_human telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010003 call.machine.detection.ended
      appointment:appt_401 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p01 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p01 appt_401 - +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:07.000Z
      in_progress implied 2025-10-20T12:14:07.000Z
    telnyx/bridged recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010004 call.bridged appointment:appt_401
    telnyx/hangup telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010009 call.hangup
      appointment:appt_401 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p01 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p01 appt_401 - +442079460018 +447700900000
      completed 2025-10-20T12:14:47.224Z
    telnyx/recording_saved recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010005 call.recording.saved appointment:appt_401
    telnyx/detection_started recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec020002 call.machine.premium.detection.started appointment:appt_402
    telnyx/detection_machine telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec020003 call.machine.premium.detection.ended
      appointment:appt_402 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p02 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p02 appt_402 - +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:08.120Z
      in_progress implied 2025-10-20T12:14:08.120Z
      voicemail_detected 2025-10-20T12:14:08.120Z
    telnyx/greeting_beep telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec020004 call.machine.premium.greeting.ended
      appointment:appt_402 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p02 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p02 appt_402 - +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:15.500Z
      in_progress implied 2025-10-20T12:14:15.500Z
      voicemail_detected 2025-10-20T12:14:15.500Z
    telnyx/hangup_busy telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec030009 call.hangup
      appointment:appt_403 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p03 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p03 appt_403 - +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:55.127Z
      busy 2025-10-20T12:14:01.000Z
    telnyx/hangup_rejected telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec040009 call.hangup
      appointment:appt_404 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p04 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p04 appt_404 - +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:55.127Z
      busy 2025-10-20T12:14:03.000Z
    telnyx/hangup_timeout telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec050009 call.hangup
      appointment:appt_405 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p05 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p05 appt_405 - +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:55.127Z
      no_answer 2025-10-20T12:14:25.000Z
    telnyx/hangup_canceled telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec060009 call.hangup
      appointment:appt_406 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p06 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p06 appt_406 - +442079460018 +447700900000
      canceled 2025-10-20T12:14:02.000Z
    telnyx/hangup_not_found telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec070009 call.hangup
      appointment:appt_407 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p07 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p07 appt_407 - +442079460018 +447700900000
      failed 2025-10-20T12:13:57.000Z permanent
    telnyx/hangup_unspecified telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec080009 call.hangup
      appointment:appt_408 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p08 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p08 appt_408 - +442079460018 +447700900000
      failed 2025-10-20T12:13:57.000Z
    telnyx/initiated_incoming telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec090001 call.initiated
      telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p09 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p09 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p09 - Inbound +447700900000 +442079460018
      initiated 2025-10-20T12:13:55.127Z
    telnyx/detection_not_sure telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec100003 call.machine.detection.ended
      appointment:appt_410 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p10 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p10 appt_410 - +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:08.120Z
      in_progress implied 2025-10-20T12:14:08.120Z
    telnyx/detection_premium_human telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec110003 call.machine.premium.detection.ended
      appointment:appt_411 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p11 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p11 appt_411 - +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:08.120Z
      in_progress implied 2025-10-20T12:14:08.120Z
    telnyx/detection_fax telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec120003 call.machine.premium.detection.ended
      appointment:appt_412 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p12 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p12 appt_412 - +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:08.120Z
      in_progress implied 2025-10-20T12:14:08.120Z
      voicemail_detected 2025-10-20T12:14:08.120Z
    telnyx/greeting_ended telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec130004 call.machine.greeting.ended
      appointment:appt_413 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p13 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p13 appt_413 - +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:15.500Z
      in_progress implied 2025-10-20T12:14:15.500Z
      voicemail_detected 2025-10-20T12:14:15.500Z
    telnyx/greeting_not_sure telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec140004 call.machine.greeting.ended
      appointment:appt_414 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p14 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p14 appt_414 - +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:15.500Z
      in_progress implied 2025-10-20T12:14:15.500Z
    telnyx/greeting_no_beep telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec150004 call.machine.premium.greeting.ended
      appointment:appt_415 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p15 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p15 appt_415 - +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:15.500Z
      in_progress implied 2025-10-20T12:14:15.500Z
    telnyx/screening telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec160003 call.machine.premium.call_screening.detected
      appointment:appt_416 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p16 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p16 appt_416 - +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:08.120Z
      in_progress implied 2025-10-20T12:14:08.120Z
    telnyx/analyzed telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010020 call.analyzed
      appointment:appt_401 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p01 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p01 appt_401 - +442079460018 +447700900000
      ringing implied
      in_progress implied
      user_confirmed 2025-10-20T12:15:02.308Z
    telnyx/analyzed_declined telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec170020 call.analyzed
      appointment:appt_417 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p17 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p17 appt_417 - +442079460018 +447700900000
      ringing implied
      in_progress implied
      user_declined 2025-10-20T12:15:02.308Z
    telnyx/analyzed_undecided telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec180020 call.analyzed
      appointment:appt_418 telnyx:v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p18 v3:MdI91X4lWFEs7IgbBEOT9M4AigoY08M0WWZFISt1Yw2axZ_IiE4p18 appt_418 - +442079460018 +447700900000
      ringing implied
      in_progress implied
    telnyx/conversation_ended recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010010 call.conversation.ended appointment:appt_401
    telnyx/insights_generated recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010011 call.conversation_insights.generated appointment:appt_401
    telnyx/cost recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010012 call.cost appointment:appt_401
    telnyx/dtmf_received recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010013 call.dtmf.received appointment:appt_401
    telnyx/gather_ended recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010014 call.gather.ended appointment:appt_401
    telnyx/speak_started recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010015 call.speak.started appointment:appt_401
    telnyx/playback_ended recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010016 call.playback.ended appointment:appt_401
    telnyx/streaming_started recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010017 streaming.started appointment:appt_401
    telnyx/hold recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010018 call.hold appointment:appt_401
    telnyx/refer_started recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010019 call.refer.started appointment:appt_401
    telnyx/conversation_created recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010101 call.conversation.created appointment:appt_401
    telnyx/conversation_start_failed recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010102 call.conversation.start_failed appointment:appt_401
    telnyx/ai_gather_partial_results recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010103 call.ai_gather.partial_results appointment:appt_401
    telnyx/ai_gather_message_history_updated recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010104 call.ai_gather.message_history_updated appointment:appt_401
    telnyx/ai_gather_ended recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010105 call.ai_gather.ended appointment:appt_401
    telnyx/transcription recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010106 call.transcription appointment:appt_401
    telnyx/deepfake_detection_result recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010107 call.deepfake_detection.result appointment:appt_401
    telnyx/deepfake_detection_error recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010108 call.deepfake_detection.error appointment:appt_401
    telnyx/speak_ended recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010109 call.speak.ended appointment:appt_401
    telnyx/playback_started recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010110 call.playback.started appointment:appt_401
    telnyx/streaming_stopped recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010111 streaming.stopped appointment:appt_401
    telnyx/streaming_failed recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010112 streaming.failed appointment:appt_401
    telnyx/fork_started recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010113 call.fork.started appointment:appt_401
    telnyx/fork_stopped recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010114 call.fork.stopped appointment:appt_401
    telnyx/siprec_started recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010115 siprec.started appointment:appt_401
    telnyx/siprec_stopped recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010116 siprec.stopped appointment:appt_401
    telnyx/siprec_failed recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010117 siprec.failed appointment:appt_401
    telnyx/unhold recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010118 call.unhold appointment:appt_401
    telnyx/refer_completed recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010119 call.refer.completed appointment:appt_401
    telnyx/refer_failed recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010120 call.refer.failed appointment:appt_401
    telnyx/enqueued recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010121 call.enqueued appointment:appt_401
    telnyx/dequeued recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010122 call.dequeued appointment:appt_401
    telnyx/payment_progress recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010123 call.payment.progress appointment:appt_401
    telnyx/payment_completed recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010124 call.payment.completed appointment:appt_401
    telnyx/recording_error recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010125 call.recording.error appointment:appt_401
    telnyx/recording_transcription_saved recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010126 call.recording.transcription.saved appointment:appt_401
    telnyx/conference_created recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010127 conference.created appointment:appt_401
    telnyx/conference_participant_joined recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010128 conference.participant.joined appointment:appt_401
    telnyx/conference_floor_changed recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010129 conference.floor.changed appointment:appt_401
    telnyx/conference_participant_playback_started recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010130 conference.participant.playback.started appointment:appt_401
    telnyx/conference_participant_playback_ended recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010131 conference.participant.playback.ended appointment:appt_401
    telnyx/conference_participant_speak_started recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010132 conference.participant.speak.started appointment:appt_401
    telnyx/conference_participant_speak_ended recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010133 conference.participant.speak.ended appointment:appt_401
    telnyx/conference_playback_started recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010134 conference.playback.started -
    telnyx/conference_playback_ended recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010135 conference.playback.ended -
    telnyx/conference_speak_started recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010136 conference.speak.started -
    telnyx/conference_speak_ended recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010137 conference.speak.ended -
    telnyx/conference_participant_left recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010138 conference.participant.left appointment:appt_401
    telnyx/conference_ended recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010139 conference.ended appointment:appt_401
    telnyx/conference_recording_saved recorded telnyx:0ccc7b54-4df3-4bca-a65a-3da1ec010140 conference.recording.saved appointment:appt_401
    ");
}
