//! Bodies of SignalWire.

use insta::assert_snapshot;

use super::summaries;

#[test]
fn signalwire_bodies_say() {
    assert_snapshot!(summaries("signalwire"), @r"
    signalwire/initiated signalwire:00000000-0000-4000-8000-000000000001:initiated:0 initiated
      appointment:7 signalwire:00000000-0000-4000-8000-000000000001 00000000-0000-4000-8000-000000000001 7 Outbound +442079460018 +447700900000
      initiated 2025-10-20T12:13:55.000Z #0
    signalwire/ringing signalwire:00000000-0000-4000-8000-000000000001:ringing:1 ringing
      appointment:7 signalwire:00000000-0000-4000-8000-000000000001 00000000-0000-4000-8000-000000000001 7 Outbound +442079460018 +447700900000
      ringing 2025-10-20T12:13:56.000Z #1
    signalwire/in_progress signalwire:00000000-0000-4000-8000-000000000001:in-progress:2 in-progress
      appointment:7 signalwire:00000000-0000-4000-8000-000000000001 00000000-0000-4000-8000-000000000001 7 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:03.000Z #2
      in_progress 2025-10-20T12:14:03.000Z #2
    signalwire/amd_human signalwire:00000000-0000-4000-8000-000000000001:amd:human amd
      appointment:7 signalwire:00000000-0000-4000-8000-000000000001 00000000-0000-4000-8000-000000000001 7 - - -
      ringing implied
      in_progress implied
    signalwire/completed signalwire:00000000-0000-4000-8000-000000000001:completed:3 completed
      appointment:7 signalwire:00000000-0000-4000-8000-000000000001 00000000-0000-4000-8000-000000000001 7 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:47.000Z #3
      in_progress implied 2025-10-20T12:14:47.000Z #3
      completed 2025-10-20T12:14:47.000Z #3
    signalwire/amd_machine signalwire:00000000-0000-4000-8000-000000000002:amd:machine_start amd
      appointment:7 signalwire:00000000-0000-4000-8000-000000000002 00000000-0000-4000-8000-000000000002 7 - - -
      ringing implied
      in_progress implied
      voicemail_detected
    signalwire/completed_voicemail signalwire:00000000-0000-4000-8000-000000000002:completed:3 completed
      appointment:7 signalwire:00000000-0000-4000-8000-000000000002 00000000-0000-4000-8000-000000000002 7 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:20.000Z #3
      in_progress implied 2025-10-20T12:14:20.000Z #3
      voicemail_detected implied 2025-10-20T12:14:20.000Z #3
      completed 2025-10-20T12:14:20.000Z #3
    signalwire/busy signalwire:00000000-0000-4000-8000-000000000003:busy:2 busy
      appointment:7 signalwire:00000000-0000-4000-8000-000000000003 00000000-0000-4000-8000-000000000003 7 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:05.000Z #2
      busy 2025-10-20T12:14:05.000Z #2
    signalwire/no_answer signalwire:00000000-0000-4000-8000-000000000004:no-answer:2 no-answer
      appointment:7 signalwire:00000000-0000-4000-8000-000000000004 00000000-0000-4000-8000-000000000004 7 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:40.000Z #2
      no_answer 2025-10-20T12:14:40.000Z #2
    signalwire/failed signalwire:00000000-0000-4000-8000-000000000005:failed:1 failed
      appointment:7 signalwire:00000000-0000-4000-8000-000000000005 00000000-0000-4000-8000-000000000005 7 Outbound +442079460018 +447700900000
      failed 2025-10-20T12:13:58.000Z #1
    signalwire/canceled signalwire:00000000-0000-4000-8000-000000000006:canceled:2 canceled
      appointment:7 signalwire:00000000-0000-4000-8000-000000000006 00000000-0000-4000-8000-000000000006 7 Outbound +442079460018 +447700900000
      canceled 2025-10-20T12:14:02.000Z #2
    signalwire/child_leg recorded signalwire:00000000-0000-4000-8000-000000000007:completed:2 completed appointment:7
    signalwire/completed_inbound signalwire:00000000-0000-4000-8000-000000000008:completed:-:d24b4c47c5fd6807 completed
      appointment:7 signalwire:00000000-0000-4000-8000-000000000008 00000000-0000-4000-8000-000000000008 7 Inbound +447700900000 +442079460018
      ringing implied 2025-10-20T12:14:07.000Z
      in_progress implied 2025-10-20T12:14:07.000Z
      completed 2025-10-20T12:14:47.000Z
    signalwire/queued signalwire:00000000-0000-4000-8000-000000000010:queued:0 queued
      appointment:7 signalwire:00000000-0000-4000-8000-000000000010 00000000-0000-4000-8000-000000000010 7 Outbound +442079460018 +447700900000
      initiated 2025-10-20T12:13:55.000Z #0
    signalwire/swml_call_state recorded signalwire:sha256-402c94334a0584105969e151e7242b074deb7fdd6dc7afdfdc2667543b65f4d9 unknown appointment:7
    ");
}
