//! Bodies of the generic provider.

use insta::assert_snapshot;

use super::summaries;

#[test]
fn generic_bodies_say() {
    assert_snapshot!(summaries("generic"), @r"
    generic/call_initiated generic:evt_8f1a20 call.initiated
      appointment:appt_123 generic:CAxxxx CAxxxx appt_123 Outbound +442079460018 +447700900000
      initiated 2025-10-20T12:13:55.000Z
    generic/ringing generic:evt_8f1a21 call.ringing
      appointment:appt_123 generic:CAxxxx CAxxxx appt_123 Outbound +442079460018 +447700900000
      ringing 2025-10-20T12:13:56.000Z
    generic/in_progress generic:evt_8f1a22 call.in_progress
      appointment:appt_123 generic:CAxxxx CAxxxx appt_123 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:01.000Z
      in_progress 2025-10-20T12:14:01.000Z
    generic/user_confirmed generic:evt_8f1a2c USER_CONFIRMED
      appointment:appt_123 generic:CAxxxx CAxxxx appt_123 - +4420xxxxxxx +447700900000
      ringing implied
      in_progress implied
      user_confirmed 2025-10-20T12:14:05.000Z
    generic/user_declined generic:evt_8f1a2d user.declined
      appointment:appt_124 generic:CAxxx2 CAxxx2 appt_124 Outbound +442079460018 +447700900000
      ringing implied
      in_progress implied
      user_declined 2025-10-20T12:14:05.000Z
    generic/voicemail_detected generic:evt_8f1a2e voicemail.detected
      appointment:appt_125 generic:CAxxx3 CAxxx3 appt_125 Outbound +442079460018 +447700900000
      ringing implied
      in_progress implied
      voicemail_detected 2025-10-20T12:14:03.000Z
    generic/completed generic:evt_8f1a2f call.completed
      appointment:appt_123 generic:CAxxxx CAxxxx appt_123 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:47.000Z
      completed 2025-10-20T12:14:47.000Z
    generic/failed generic:evt_8f1a30 call.failed
      appointment:appt_126 generic:CAxxx4 CAxxx4 appt_126 Outbound +442079460018 +447700900000
      failed 2025-10-20T12:13:57.000Z
    generic/busy generic:evt_8f1a31 call.busy
      appointment:appt_127 generic:CAxxx5 CAxxx5 appt_127 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:01.000Z
      busy 2025-10-20T12:14:01.000Z
    generic/no_answer generic:evt_8f1a32 TIMEOUT
      appointment:appt_128 generic:CAxxx6 CAxxx6 appt_128 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:56.000Z
      no_answer 2025-10-20T12:14:56.000Z
    generic/canceled generic:evt_8f1a33 call.canceled
      appointment:appt_129 generic:CAxxx7 CAxxx7 appt_129 Outbound +442079460018 +447700900000
      canceled 2025-10-20T12:14:02.000Z
    generic/retry_scheduled generic:evt_8f1a34 RETRY_SCHEDULED
      appointment:appt_130 generic:CAxxx8 CAxxx8 appt_130 Outbound +442079460018 +447700900000
      retry_scheduled 2025-10-20T12:15:00.000Z
    generic/unknown_type recorded generic:sha256-4d0a2d8b13b14ac45f071f4ffcbe916816c2fe76869b2a3739711d984929a752 payment_intent.succeeded - unknown=event_type
    ");
}
