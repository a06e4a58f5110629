//! Bodies of ElevenLabs.

use insta::assert_snapshot;

use super::summaries;

#[test]
fn elevenlabs_bodies_say() {
    assert_snapshot!(summaries("elevenlabs"), @r"
    elevenlabs/post_call_transcription elevenlabs:conv_0000000000000001:post_call_transcription:579233bd4766e9d0 post_call_transcription
      appointment:appt_501 elevenlabs:conv_0000000000000001 conv_0000000000000001 appt_501 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:57.000Z
      in_progress implied 2025-10-20T12:13:57.000Z
      user_confirmed 2025-10-20T12:15:21.000Z
      completed implied 2025-10-20T12:15:21.000Z
    elevenlabs/post_call_audio recorded elevenlabs:conv_0000000000000001:post_call_audio:2173bd7e92164d43 post_call_audio elevenlabs:conv_0000000000000001
    elevenlabs/voice_removal_notice recorded elevenlabs:sha256-fa6246fd0d97f5f14da1dbe92d9da251591d0179c82c3c8009c85a4359a114d9 voice_removal_notice -
    elevenlabs/voice_removal_notice_withdrawn recorded elevenlabs:sha256-e2dcbf63fa738412b6542efd347e9cd5b5a2069f9aa36b4361e75fbb5a041ecf voice_removal_notice_withdrawn -
    elevenlabs/voice_removed recorded elevenlabs:sha256-d1f9934e3f9f0127dcfdee1ae9f2c20fb1b7e2ecfaa55af05f3e1856d0c9db7b voice_removed -
    elevenlabs/post_call_transcription_declined elevenlabs:conv_0000000000000002:post_call_transcription:c577645a29640835 post_call_transcription
      appointment:appt_502 elevenlabs:conv_0000000000000002 conv_0000000000000002 appt_502 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:57.000Z
      in_progress implied 2025-10-20T12:13:57.000Z
      user_declined 2025-10-20T12:14:58.000Z
      completed implied 2025-10-20T12:14:58.000Z
    elevenlabs/post_call_transcription_voicemail elevenlabs:conv_0000000000000003:post_call_transcription:98504bd7e75d4441 post_call_transcription
      appointment:appt_503 elevenlabs:conv_0000000000000003 conv_0000000000000003 appt_503 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:57.000Z
      in_progress implied 2025-10-20T12:13:57.000Z
      voicemail_detected implied 2025-10-20T12:14:17.000Z
      completed 2025-10-20T12:14:17.000Z
    elevenlabs/post_call_transcription_no_answer elevenlabs:conv_0000000000000004:post_call_transcription:98504bd7e75d4441 post_call_transcription
      appointment:appt_504 elevenlabs:conv_0000000000000004 conv_0000000000000004 appt_504 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:57.000Z
      no_answer 2025-10-20T12:13:57.000Z
    elevenlabs/post_call_transcription_busy elevenlabs:conv_0000000000000005:post_call_transcription:98504bd7e75d4441 post_call_transcription
      appointment:appt_505 elevenlabs:conv_0000000000000005 conv_0000000000000005 appt_505 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:57.000Z
      busy 2025-10-20T12:13:57.000Z
    elevenlabs/post_call_transcription_failed elevenlabs:conv_0000000000000006:post_call_transcription:98504bd7e75d4441 post_call_transcription
      appointment:appt_506 elevenlabs:conv_0000000000000006 conv_0000000000000006 appt_506 Outbound +442079460018 +447700900000
      failed 2025-10-20T12:13:57.000Z
    elevenlabs/post_call_transcription_cut_off elevenlabs:conv_0000000000000007:post_call_transcription:bb3c0439e0ebae9c post_call_transcription
      appointment:appt_507 elevenlabs:conv_0000000000000007 conv_0000000000000007 appt_507 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:57.000Z
      in_progress implied 2025-10-20T12:13:57.000Z
      failed 2025-10-20T12:14:30.000Z
    elevenlabs/post_call_transcription_inbound elevenlabs:conv_0000000000000008:post_call_transcription:58697f92a6ec9484 post_call_transcription
      elevenlabs:conv_0000000000000008 elevenlabs:conv_0000000000000008 conv_0000000000000008 - Inbound +447700900000 +442079460018
      ringing implied 2025-10-20T12:13:57.000Z
      in_progress implied 2025-10-20T12:13:57.000Z
      completed 2025-10-20T12:14:44.000Z
    elevenlabs/call_initiation_failure_busy elevenlabs:conv_0000000000000009:call_initiation_failure call_initiation_failure
      elevenlabs:conv_0000000000000009 elevenlabs:conv_0000000000000009 conv_0000000000000009 - - - -
      ringing implied 2025-10-20T12:14:20.000Z
      busy 2025-10-20T12:14:20.000Z
    elevenlabs/call_initiation_failure_no_answer elevenlabs:conv_0000000000000010:call_initiation_failure call_initiation_failure
      elevenlabs:conv_0000000000000010 elevenlabs:conv_0000000000000010 conv_0000000000000010 - - - -
      ringing implied 2025-10-20T12:14:20.000Z
      no_answer 2025-10-20T12:14:20.000Z
    elevenlabs/call_initiation_failure_unknown elevenlabs:conv_0000000000000011:call_initiation_failure call_initiation_failure
      elevenlabs:conv_0000000000000011 elevenlabs:conv_0000000000000011 conv_0000000000000011 - - - -
      failed 2025-10-20T12:14:20.000Z
    ");
}
