//! Bodies of LiveKit.

use insta::assert_snapshot;

use super::summaries;

#[test]
fn livekit_bodies_say() {
    assert_snapshot!(summaries("livekit"), @r"
    livekit/room_started recorded livekit:EV_f11Zr8tMg3Uq room_started -
    livekit/participant_joined livekit:EV_f12Zr8tMg3Uq participant_joined
      appointment:apt_701 livekit:SCL_b1Tf5mRk8Vx2 SCL_b1Tf5mRk8Vx2 apt_701 Outbound +442079460018 +447700900000
      initiated 2025-10-20T12:13:56.000Z
    livekit/track_published recorded livekit:EV_f13Zr8tMg3Uq track_published appointment:apt_701
    livekit/participant_joined_agent recorded livekit:EV_f14Zr8tMg3Uq participant_joined -
    livekit/participant_left livekit:EV_f15Zr8tMg3Uq participant_left
      appointment:apt_701 livekit:SCL_b1Tf5mRk8Vx2 SCL_b1Tf5mRk8Vx2 apt_701 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:56.404Z
      in_progress implied 2025-10-20T12:13:56.404Z
      completed 2025-10-20T12:15:21.000Z
    livekit/room_finished recorded livekit:EV_f16Zr8tMg3Uq room_finished -
    livekit/participant_joined_active livekit:EV_f21Zr8tMg3Uq participant_joined
      appointment:apt_702 livekit:SCL_b2Tf5mRk8Vx2 SCL_b2Tf5mRk8Vx2 apt_702 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:14:05.000Z
      in_progress 2025-10-20T12:14:05.000Z
    livekit/participant_left_room_deleted livekit:EV_f22Zr8tMg3Uq participant_left
      appointment:apt_702 livekit:SCL_b2Tf5mRk8Vx2 SCL_b2Tf5mRk8Vx2 apt_702 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:56.404Z
      in_progress implied 2025-10-20T12:13:56.404Z
      completed 2025-10-20T12:14:56.000Z
    livekit/participant_left_rejected livekit:EV_f30Zr8tMg3Uq participant_left
      appointment:apt_703 livekit:SCL_b3Tf5mRk8Vx2 SCL_b3Tf5mRk8Vx2 apt_703 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:56.404Z
      busy 2025-10-20T12:14:03.000Z
    livekit/participant_left_unavailable livekit:EV_f40Zr8tMg3Uq participant_left
      appointment:apt_704 livekit:SCL_b4Tf5mRk8Vx2 SCL_b4Tf5mRk8Vx2 apt_704 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:56.404Z
      no_answer 2025-10-20T12:14:27.000Z
    livekit/participant_left_trunk_failure livekit:EV_f50Zr8tMg3Uq participant_left
      appointment:apt_705 livekit:SCL_b5Tf5mRk8Vx2 SCL_b5Tf5mRk8Vx2 apt_705 Outbound +442079460018 +447700900000
      failed 2025-10-20T12:13:59.000Z
    livekit/participant_left_media_failure livekit:EV_f60Zr8tMg3Uq participant_left
      appointment:apt_706 livekit:SCL_b6Tf5mRk8Vx2 SCL_b6Tf5mRk8Vx2 apt_706 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:56.404Z
      in_progress implied 2025-10-20T12:13:56.404Z
      failed 2025-10-20T12:14:36.000Z
    livekit/participant_left_unclear livekit:EV_f70Zr8tMg3Uq participant_left
      appointment:apt_707 livekit:SCL_b7Tf5mRk8Vx2 SCL_b7Tf5mRk8Vx2 apt_707 Outbound +442079460018 +447700900000
      completed 2025-10-20T12:14:00.000Z
    livekit/participant_left_migration livekit:EV_f80Zr8tMg3Uq participant_left
      appointment:apt_708 livekit:SCL_b8Tf5mRk8Vx2 SCL_b8Tf5mRk8Vx2 apt_708 Outbound +442079460018 +447700900000
      ringing implied 2025-10-20T12:13:56.404Z
      in_progress 2025-10-20T12:13:56.404Z
    livekit/participant_connection_aborted livekit:EV_f90Zr8tMg3Uq participant_connection_aborted
      appointment:apt_709 livekit:SCL_b9Tf5mRk8Vx2 SCL_b9Tf5mRk8Vx2 apt_709 Outbound +442079460018 +447700900000
      completed 2025-10-20T12:14:11.000Z
    livekit/participant_joined_inbound livekit:EV_f101Zr8tMg3Uq participant_joined
      livekit:SCL_b10Tf5mRk8Vx2 livekit:SCL_b10Tf5mRk8Vx2 SCL_b10Tf5mRk8Vx2 - Inbound +447700900123 +442079460018
      ringing 2025-10-20T12:13:56.000Z
    livekit/participant_left_inbound livekit:EV_f102Zr8tMg3Uq participant_left
      livekit:SCL_b10Tf5mRk8Vx2 livekit:SCL_b10Tf5mRk8Vx2 SCL_b10Tf5mRk8Vx2 - Inbound +447700900123 +442079460018
      completed 2025-10-20T12:14:46.000Z
    livekit/track_unpublished recorded livekit:EV_f18Zr8tMg3Uq track_unpublished appointment:apt_701
    livekit/egress_started recorded livekit:EV_g11Zr8tMg3Uq egress_started -
    livekit/egress_updated recorded livekit:EV_g12Zr8tMg3Uq egress_updated -
    livekit/egress_ended recorded livekit:EV_g13Zr8tMg3Uq egress_ended -
    livekit/ingress_started recorded livekit:EV_j11Zr8tMg3Uq ingress_started -
    livekit/ingress_ended recorded livekit:EV_j12Zr8tMg3Uq ingress_ended -
    livekit/agent_job_pending recorded livekit:EV_k10Zr8tMg3Uq agent_job_pending -
    livekit/agent_job_started recorded livekit:EV_k11Zr8tMg3Uq agent_job_started -
    livekit/agent_job_ended recorded livekit:EV_k12Zr8tMg3Uq agent_job_ended -
    ");
}
