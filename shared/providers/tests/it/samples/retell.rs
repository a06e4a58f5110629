//! Bodies of Retell.

use insta::assert_snapshot;

use super::summaries;

#[test]
fn retell_bodies_say() {
    assert_snapshot!(summaries("retell"), @r"
    retell/call_started retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70:call_started call_started
      appointment:appt_201 retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70 call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70 appt_201 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:57.211Z
      in_progress 2025-10-20T12:13:57.211Z
    retell/call_ended retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70:call_ended call_ended
      appointment:appt_201 retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70 call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70 appt_201 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:57.211Z
      in_progress implied 2025-10-20T12:13:57.211Z
      completed 2025-10-20T12:15:21.846Z
    retell/call_analyzed retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70:call_analyzed:845ceb549a05fa95 call_analyzed
      appointment:appt_201 retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70 call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70 appt_201 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:57.211Z
      in_progress implied 2025-10-20T12:13:57.211Z
      user_confirmed 2025-10-20T12:15:21.846Z
      completed implied 2025-10-20T12:15:21.846Z
    retell/call_analyzed_declined retell:call_a94c1e0f7b6d4c2e8f3a5b7d9c1e0f24:call_analyzed:6ac5da499d426392 call_analyzed
      appointment:appt_202 retell:call_a94c1e0f7b6d4c2e8f3a5b7d9c1e0f24 call_a94c1e0f7b6d4c2e8f3a5b7d9c1e0f24 appt_202 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:57.211Z
      in_progress implied 2025-10-20T12:13:57.211Z
      user_declined 2025-10-20T12:15:21.846Z
      completed implied 2025-10-20T12:15:21.846Z
    retell/call_ended_voicemail retell:call_c77e1f50a2b34c6d8e9f0a1b2c3d4e5f:call_ended call_ended
      appointment:appt_203 retell:call_c77e1f50a2b34c6d8e9f0a1b2c3d4e5f call_c77e1f50a2b34c6d8e9f0a1b2c3d4e5f appt_203 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:57.211Z
      in_progress implied 2025-10-20T12:13:57.211Z
      voicemail_detected implied 2025-10-20T12:14:17.085Z
      completed 2025-10-20T12:14:17.085Z
    retell/call_analyzed_voicemail retell:call_c77e1f50a2b34c6d8e9f0a1b2c3d4e5f:call_analyzed:5a64aa4a43994d70 call_analyzed
      appointment:appt_203 retell:call_c77e1f50a2b34c6d8e9f0a1b2c3d4e5f call_c77e1f50a2b34c6d8e9f0a1b2c3d4e5f appt_203 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:57.211Z
      in_progress implied 2025-10-20T12:13:57.211Z
      voicemail_detected 2025-10-20T12:14:17.085Z
      completed implied 2025-10-20T12:14:17.085Z
    retell/call_ended_no_answer retell:call_1b9d6bcd4e5f4a3b8c7d0e9f8a7b6c5d:call_ended call_ended
      appointment:appt_204 retell:call_1b9d6bcd4e5f4a3b8c7d0e9f8a7b6c5d call_1b9d6bcd4e5f4a3b8c7d0e9f8a7b6c5d appt_204 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:28.211Z
      no_answer 2025-10-20T12:14:28.211Z
    retell/call_analyzed_no_answer retell:call_1b9d6bcd4e5f4a3b8c7d0e9f8a7b6c5d:call_analyzed:8c31ea18c9c11e4c call_analyzed
      appointment:appt_204 retell:call_1b9d6bcd4e5f4a3b8c7d0e9f8a7b6c5d call_1b9d6bcd4e5f4a3b8c7d0e9f8a7b6c5d appt_204 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:28.211Z
      no_answer implied 2025-10-20T12:14:28.211Z
    retell/call_ended_busy retell:call_7c9e6679f0a14b2c9d3e5f6a7b8c9d0e:call_ended call_ended
      appointment:appt_205 retell:call_7c9e6679f0a14b2c9d3e5f6a7b8c9d0e call_7c9e6679f0a14b2c9d3e5f6a7b8c9d0e appt_205 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:28.211Z
      busy 2025-10-20T12:14:28.211Z
    retell/call_ended_failed retell:call_9f8e7d6c5b4a43928170f1e2d3c4b5a6:call_ended call_ended
      appointment:appt_206 retell:call_9f8e7d6c5b4a43928170f1e2d3c4b5a6 call_9f8e7d6c5b4a43928170f1e2d3c4b5a6 appt_206 Outbound +442079460018 +447700900000
      failed 2025-10-20T12:14:28.211Z
    retell/transcript_updated recorded retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70:transcript_updated:0195aaac95f6a5fe transcript_updated appointment:appt_201
    retell/call_inbound recorded retell:sha256-2746c3b2f8c3910fafe6c85206aad1afb0d063c2136dbdcd1e6de99c6a48ab04 call_inbound -
    retell/chat_inbound recorded retell:sha256-eeeeda6f4714667d41c79aea05a9d7eef47ca518d76bb58bcb4f1f482e6b3121 chat_inbound -
    retell/transfer_started recorded retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70:transfer_started:ca7fad59a974e486 transfer_started appointment:appt_201
    retell/transfer_bridged recorded retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70:transfer_bridged:e9337dc99f572e22 transfer_bridged appointment:appt_201
    retell/transfer_cancelled recorded retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70:transfer_cancelled:9fc1c17bb3d92270 transfer_cancelled appointment:appt_201
    retell/transfer_ended recorded retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70:transfer_ended:eb6fe8ccc087b8bf transfer_ended appointment:appt_201
    retell/chat_started recorded retell:sha256-61c1cea78fbe47af91af6d72a2c7361959d5c86aecb344c9a1bafcb3dd7f62ca chat_started -
    retell/chat_ended recorded retell:sha256-57489cb30cdd559a5ef5e137ae5d1b5f441c322db42e77fa74b8c76190c766db chat_ended -
    retell/chat_analyzed recorded retell:sha256-86a5abc5cab58f686e996be6351ee7df073b3fd537134a5630005f713b4e6f48 chat_analyzed -
    ");
}
