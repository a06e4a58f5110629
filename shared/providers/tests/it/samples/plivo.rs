//! Bodies of Plivo.

use insta::assert_snapshot;

use super::summaries;

#[test]
fn plivo_bodies_say() {
    assert_snapshot!(summaries("plivo"), @r"
    plivo/ring plivo:00000000-0000-4000-8000-000000000001:Ring:ringing ringing
      appointment:7 plivo:00000000-0000-4000-8000-000000000001 00000000-0000-4000-8000-000000000001 7 Outbound +442079460018 +447700900000
      ringing 2025-10-20T12:13:57.238Z
    plivo/start_app plivo:00000000-0000-4000-8000-000000000001:StartApp:in-progress in-progress
      appointment:7 plivo:00000000-0000-4000-8000-000000000001 00000000-0000-4000-8000-000000000001 7 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:03.104Z
      in_progress 2025-10-20T12:14:03.104Z
    plivo/machine_detection_human plivo:00000000-0000-4000-8000-000000000001:MachineDetection:human MachineDetection
      appointment:7 plivo:00000000-0000-4000-8000-000000000001 00000000-0000-4000-8000-000000000001 7 Outbound +442079460018 +447700900000
      ringing implied
      in_progress implied
    plivo/hangup plivo:00000000-0000-4000-8000-000000000001:Hangup:completed completed
      appointment:7 plivo:00000000-0000-4000-8000-000000000001 00000000-0000-4000-8000-000000000001 7 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:03.000Z
      in_progress implied 2025-10-20T12:14:03.000Z
      completed 2025-10-20T12:15:21.000Z
    plivo/machine_detection_machine plivo:00000000-0000-4000-8000-000000000002:MachineDetection:machine MachineDetection
      appointment:7 plivo:00000000-0000-4000-8000-000000000002 00000000-0000-4000-8000-000000000002 7 Outbound +442079460018 +447700900000
      ringing implied
      in_progress implied
      voicemail_detected
    plivo/hangup_busy plivo:00000000-0000-4000-8000-000000000003:Hangup:busy busy
      appointment:7 plivo:00000000-0000-4000-8000-000000000003 00000000-0000-4000-8000-000000000003 7 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:55.000Z
      busy 2025-10-20T12:15:21.000Z
    plivo/hangup_no_answer plivo:00000000-0000-4000-8000-000000000004:Hangup:no-answer no-answer
      appointment:7 plivo:00000000-0000-4000-8000-000000000004 00000000-0000-4000-8000-000000000004 7 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:55.000Z
      no_answer 2025-10-20T12:15:21.000Z
    plivo/hangup_failed plivo:00000000-0000-4000-8000-000000000005:Hangup:failed failed
      appointment:7 plivo:00000000-0000-4000-8000-000000000005 00000000-0000-4000-8000-000000000005 7 Outbound +442079460018 +447700900000
      failed 2025-10-20T12:15:21.000Z permanent
    plivo/hangup_timeout plivo:00000000-0000-4000-8000-000000000006:Hangup:timeout timeout
      appointment:7 plivo:00000000-0000-4000-8000-000000000006 00000000-0000-4000-8000-000000000006 7 Outbound +442079460018 +447700900000
      failed 2025-10-20T12:15:21.000Z
    plivo/hangup_cancel plivo:00000000-0000-4000-8000-000000000007:Hangup:cancel cancel
      appointment:7 plivo:00000000-0000-4000-8000-000000000007 00000000-0000-4000-8000-000000000007 7 Outbound +442079460018 +447700900000
      canceled 2025-10-20T12:15:21.000Z
    plivo/hangup_inbound plivo:00000000-0000-4000-8000-000000000008:Hangup:completed completed
      appointment:7 plivo:00000000-0000-4000-8000-000000000008 00000000-0000-4000-8000-000000000008 7 Inbound +447700900000 +442079460018
      ringing implied 2025-10-20T12:14:03.000Z
      in_progress implied 2025-10-20T12:14:03.000Z
      completed 2025-10-20T12:15:21.000Z
    plivo/other_leg recorded plivo:00000000-0000-4000-8000-000000000009:Hangup:completed:4a49482f0f1f1954 completed appointment:7
    plivo/record_stop recorded plivo:00000000-0000-4000-8000-000000000001:RecordStop:-:0cddbdf6dce258e2 RecordStop appointment:7
    ");
}
