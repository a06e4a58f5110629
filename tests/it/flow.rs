//! One whole flow, from the webhooks of a call to its domain events.

use http::StatusCode;
use insta::assert_snapshot;
use serde_json::json;
use switchhook_domain::Provider;
use switchhook_tests::World;

#[tokio::test(start_paused = true)]
async fn retell_call_becomes_a_settled_call() {
    let world = World::new();
    let call = |event: &str, more: serde_json::Value| {
        let mut call = json!({
            "call_id": "call_1", "direction": "outbound", "from_number": "+15550100", "to_number": "+15550101",
            "start_timestamp": 1_767_225_600_000_i64, "metadata": {"appointment_id": "apt_1"},
        });
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"event": event, "call": call}).to_string()
    };
    let ended =
        json!({"call_status": "ended", "end_timestamp": 1_767_225_660_000_i64, "disconnection_reason": "user_hangup"});
    let mut analyzed = ended.clone();
    analyzed["call_analysis"] = json!({"in_voicemail": false, "custom_analysis_data": {"outcome": "confirmed"}});

    // The webhooks come out of order, and one comes twice.
    for (body, status) in [
        (call("call_ended", ended.clone()), "accepted"),
        (call("call_started", json!({"call_status": "ongoing"})), "accepted"),
        (call("call_ended", ended), "already_processed"),
        (call("call_analyzed", analyzed), "accepted"),
    ] {
        let (code, answer) = world.post(Provider::Retell, &body).await;
        assert_eq!((code, &answer["status"]), (StatusCode::OK, &json!(status)), "{answer}");
        world.quiesce().await;
    }

    let (code, call) = world.get("/call?id=appointment:apt_1").await;
    assert_eq!(code, StatusCode::OK, "{call}");
    assert_eq!(call["lifecycle"], "completed");
    assert_eq!(call["outcome"], "confirmed");
    assert_eq!(call["appointment_status"], "Confirmed");
    assert_eq!(call["job"]["state"], "COMPLETED");
    assert_eq!(call["settled"], true);
    assert_snapshot!(world.timeline(), @r"
    appointment:apt_1/1 call.initiated
    appointment:apt_1/2 call.ringing
    appointment:apt_1/3 call.in_progress
    appointment:apt_1/4 call.completed
    appointment:apt_1/5 appointment.dialing
    appointment:apt_1/6 appointment.connected
    appointment:apt_1/7 appointment.confirmed
    ");
}
