//! Bodies of Twilio.

use insta::assert_snapshot;

use super::summaries;

#[test]
fn twilio_bodies_say() {
    assert_snapshot!(summaries("twilio"), @r"
    twilio/initiated
    event twilio:CA00000000000000000000000000000001:initiated:0
    initiated
    appointment:7
    twilio:CA00000000000000000000000000000001 CA00000000000000000000000000000001 7 Outbound +442079460018 +447700900000
    initiated 2025-10-20T12:13:55.000Z #0

    twilio/ringing
    event twilio:CA00000000000000000000000000000001:ringing:1
    ringing
    appointment:7
    twilio:CA00000000000000000000000000000001 CA00000000000000000000000000000001 7 Outbound +442079460018 +447700900000
    ringing 2025-10-20T12:13:56.000Z #1

    twilio/in_progress
    event twilio:CA00000000000000000000000000000001:in-progress:2
    in-progress
    appointment:7
    twilio:CA00000000000000000000000000000001 CA00000000000000000000000000000001 7 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:05.000Z #2
    in_progress 2025-10-20T12:14:05.000Z #2

    twilio/completed
    event twilio:CA00000000000000000000000000000001:completed:3
    completed
    appointment:7
    twilio:CA00000000000000000000000000000001 CA00000000000000000000000000000001 7 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:47.000Z #3
    in_progress implied 2025-10-20T12:14:47.000Z #3
    completed 2025-10-20T12:14:47.000Z #3

    twilio/completed_json
    event twilio:CA00000000000000000000000000000009:completed:3
    completed
    appointment:7
    twilio:CA00000000000000000000000000000009 CA00000000000000000000000000000009 7 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:47.000Z #3
    in_progress implied 2025-10-20T12:14:47.000Z #3
    completed 2025-10-20T12:14:47.000Z #3

    twilio/completed_voicemail
    event twilio:CA00000000000000000000000000000002:completed:3
    completed
    appointment:7
    twilio:CA00000000000000000000000000000002 CA00000000000000000000000000000002 7 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:31.000Z #3
    in_progress implied 2025-10-20T12:14:31.000Z #3
    voicemail_detected implied 2025-10-20T12:14:31.000Z #3
    completed 2025-10-20T12:14:31.000Z #3

    twilio/busy
    event twilio:CA00000000000000000000000000000003:busy:2
    busy
    appointment:7
    twilio:CA00000000000000000000000000000003 CA00000000000000000000000000000003 7 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:01.000Z #2
    busy 2025-10-20T12:14:01.000Z #2

    twilio/no_answer
    event twilio:CA00000000000000000000000000000004:no-answer:2
    no-answer
    appointment:7
    twilio:CA00000000000000000000000000000004 CA00000000000000000000000000000004 7 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:56.000Z #2
    no_answer 2025-10-20T12:14:56.000Z #2

    twilio/failed
    event twilio:CA00000000000000000000000000000005:failed:1
    failed
    appointment:7
    twilio:CA00000000000000000000000000000005 CA00000000000000000000000000000005 7 Outbound +442079460018 +447700900000
    failed 2025-10-20T12:13:57.000Z #1

    twilio/canceled
    event twilio:CA00000000000000000000000000000006:canceled:2
    canceled
    appointment:7
    twilio:CA00000000000000000000000000000006 CA00000000000000000000000000000006 7 Outbound +442079460018 +447700900000
    canceled 2025-10-20T12:14:02.000Z #2

    twilio/amd_human
    event twilio:CA00000000000000000000000000000001:amd:human
    amd
    appointment:7
    twilio:CA00000000000000000000000000000001 CA00000000000000000000000000000001 7 - - -
    ringing implied
    in_progress implied

    twilio/amd_machine
    event twilio:CA00000000000000000000000000000002:amd:machine_end_beep
    amd
    appointment:7
    twilio:CA00000000000000000000000000000002 CA00000000000000000000000000000002 7 - - -
    ringing implied
    in_progress implied
    voicemail_detected

    twilio/child_leg
    recorded twilio:CA00000000000000000000000000000007:completed:2
    completed
    appointment:7

    twilio/inbound_request
    event twilio:CA00000000000000000000000000000008:ringing:-:69acc5c102e425a8
    ringing
    appointment:7
    twilio:CA00000000000000000000000000000008 CA00000000000000000000000000000008 7 Inbound +447700900000 +442079460018
    ringing

    twilio/recording
    recorded twilio:CA00000000000000000000000000000001:unknown:-:14a7ea8a396ed74e
    unknown
    appointment:7

    twilio/queued
    event twilio:CA00000000000000000000000000000010:queued:0
    queued
    appointment:7
    twilio:CA00000000000000000000000000000010 CA00000000000000000000000000000010 7 Outbound +442079460018 +447700900000
    initiated 2025-10-20T12:13:55.000Z #0
    ");
}
