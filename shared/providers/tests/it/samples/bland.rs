//! Bodies of Bland.

use insta::assert_snapshot;
use switchhook_providers::samples;

use super::summary;

#[test]
fn bland_bodies_say() {
    let names = samples().iter().map(|(name, _)| *name).filter(|name| name.starts_with("bland/"));
    let summaries: Vec<String> = names.map(|name| format!("{name}\n{}", summary(name).trim_end())).collect();
    assert_snapshot!(summaries.join("\n\n"), @r"
    bland/post_call
    event bland:00000000-0000-4000-8000-000000000001:post_call:fffa5c6b988f1ad2
    post_call
    call-1
    1 00000000-0000-4000-8000-000000000001 appt_1 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:03.000Z
    in_progress implied 2025-10-20T12:14:03.000Z
    user_confirmed 2025-10-20T12:15:21.000Z
    completed implied 2025-10-20T12:15:21.000Z

    bland/call_event
    recorded bland:00000000-0000-4000-8000-000000000001:call:1727e898ac4646b4
    call
    bland:00000000-0000-4000-8000-000000000001

    bland/queue_event
    recorded bland:00000000-0000-4000-8000-000000000001:queue:0c17968bb8da6589
    queue
    bland:00000000-0000-4000-8000-000000000001

    bland/latency_event
    recorded bland:00000000-0000-4000-8000-000000000001:latency:11879bf4d6f1fbd1
    latency
    bland:00000000-0000-4000-8000-000000000001

    bland/tool_event
    recorded bland:00000000-0000-4000-8000-000000000001:tool:aefac1d03148a555
    tool
    bland:00000000-0000-4000-8000-000000000001

    bland/dynamic_data_event
    recorded bland:00000000-0000-4000-8000-000000000001:dynamic_data:03321d1815d39ad0
    dynamic_data
    bland:00000000-0000-4000-8000-000000000001

    bland/webhook_event
    recorded bland:00000000-0000-4000-8000-000000000001:webhook:70bc3213a410c507
    webhook
    bland:00000000-0000-4000-8000-000000000001

    bland/post_call_declined
    event bland:00000000-0000-4000-8000-000000000002:post_call:c79f0eef4edb1b88
    post_call
    appointment:appt_2
    bland:00000000-0000-4000-8000-000000000002 00000000-0000-4000-8000-000000000002 appt_2 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:03.000Z
    in_progress implied 2025-10-20T12:14:03.000Z
    user_declined 2025-10-20T12:15:21.000Z
    completed implied 2025-10-20T12:15:21.000Z

    bland/post_call_voicemail
    event bland:00000000-0000-4000-8000-000000000003:post_call:6db51502026c272d
    post_call
    appointment:appt_3
    bland:00000000-0000-4000-8000-000000000003 00000000-0000-4000-8000-000000000003 appt_3 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:03.000Z
    in_progress implied 2025-10-20T12:14:03.000Z
    voicemail_detected implied 2025-10-20T12:14:27.000Z
    completed 2025-10-20T12:14:27.000Z

    bland/post_call_no_answer
    event bland:00000000-0000-4000-8000-000000000004:post_call:b83664e3f6180ae9
    post_call
    appointment:appt_4
    bland:00000000-0000-4000-8000-000000000004 00000000-0000-4000-8000-000000000004 appt_4 Outbound +442079460018 +447700900000
    ringing implied
    no_answer

    bland/post_call_busy
    event bland:00000000-0000-4000-8000-000000000005:post_call:1d3b4ddd975cca85
    post_call
    appointment:appt_5
    bland:00000000-0000-4000-8000-000000000005 00000000-0000-4000-8000-000000000005 appt_5 Outbound +442079460018 +447700900000
    ringing implied
    busy

    bland/post_call_failed
    event bland:00000000-0000-4000-8000-000000000006:post_call:993fac0e86e73965
    post_call
    appointment:appt_6
    bland:00000000-0000-4000-8000-000000000006 00000000-0000-4000-8000-000000000006 appt_6 Outbound +442079460018 +447700900000
    failed

    bland/post_call_queue_error
    event bland:00000000-0000-4000-8000-000000000007:post_call:cc3236867b78c4c7
    post_call
    appointment:appt_7
    bland:00000000-0000-4000-8000-000000000007 00000000-0000-4000-8000-000000000007 appt_7 Outbound +442079460018 +447700900000
    failed

    bland/post_call_cut_off
    event bland:00000000-0000-4000-8000-000000000008:post_call:6ae6063d7cce1d49
    post_call
    appointment:appt_8
    bland:00000000-0000-4000-8000-000000000008 00000000-0000-4000-8000-000000000008 appt_8 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:03.000Z
    in_progress implied 2025-10-20T12:14:03.000Z
    failed 2025-10-20T12:15:21.000Z

    bland/post_call_webhook_error
    event bland:00000000-0000-4000-8000-000000000009:post_call:b09f17b8788b3345
    post_call
    appointment:appt_9
    bland:00000000-0000-4000-8000-000000000009 00000000-0000-4000-8000-000000000009 appt_9 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:03.000Z
    in_progress implied 2025-10-20T12:14:03.000Z
    completed 2025-10-20T12:15:21.000Z

    bland/post_call_unclear
    event bland:00000000-0000-4000-8000-000000000010:post_call:c726a8b3f2a9f6e1
    post_call
    appointment:appt_10
    bland:00000000-0000-4000-8000-000000000010 00000000-0000-4000-8000-000000000010 appt_10 Outbound +442079460018 +447700900000
    ringing implied 2025-10-20T12:14:03.000Z
    in_progress implied 2025-10-20T12:14:03.000Z
    completed 2025-10-20T12:15:21.000Z

    bland/post_call_inbound
    event bland:00000000-0000-4000-8000-000000000011:post_call:678cee8bbf9b3f89
    post_call
    bland:00000000-0000-4000-8000-000000000011
    bland:00000000-0000-4000-8000-000000000011 00000000-0000-4000-8000-000000000011 - Inbound +447700900000 +442079460018
    ringing implied 2025-10-20T12:14:03.000Z
    in_progress implied 2025-10-20T12:14:03.000Z
    completed 2025-10-20T12:15:21.000Z
    ");
}
