//! Calling windows: a call that is due outside its window waits for the opening, and holds up no other call.

use http::StatusCode;
use insta::assert_snapshot;
use serde_json::{Value, json};
use switchhook_tests::{MINUTE, World};

use super::{HOUR, call_request, call_state, create, get_call, send};

/// A world begins at midnight in London, which is nine o'clock in the morning in Tokyo.
const LONDON: &str = "2026-01-01T09:00:00.000Z";

fn within(zone: &str, opens: &str, closes: &str) -> Value {
    let mut request = call_request("confirms");
    request["window"] = json!({"time_zone": zone, "opens": opens, "closes": closes});
    request
}

#[tokio::test(start_paused = true)]
async fn sleeping_calls_hold_up_no_call_that_may_be_placed() {
    let world = World::with_dial_rate("1");
    let mut sleeping = Vec::new();
    for number in 0..600 {
        let mut request = within("Europe/London", "09:00", "18:00");
        request["appointment_id"] = json!(format!("night-{number}"));
        sleeping.push(create(&world, &request).await);
    }
    for number in 0..20 {
        let mut request = within("Asia/Tokyo", "08:00", "18:00");
        request["appointment_id"] = json!(format!("day-{number}"));
        create(&world, &request).await;
    }
    world.wait(MINUTE * 2).await;
    assert_eq!(world.cloud.fake().dials().len(), 20);
    for call_id in &sleeping {
        let call = get_call(&world, call_id).await;
        assert_eq!((&call["job"], &call["version"]), (&json!({"state": "PENDING", "due_at": LONDON}), &json!(1)));
    }
}

#[tokio::test(start_paused = true)]
async fn announced_due_time_lies_inside_the_window() {
    let world = World::new();
    let mut request = within("Europe/London", "00:30", "00:45");
    request["metadata"] = json!({"fake": "busy"});
    request["retry"] = json!({"attempts_max": 2, "delay_seconds": 86_400});
    let (_, created) = send(&world, "POST", "/calls", None, &request).await;
    assert_eq!(created["due_at"], "2026-01-01T00:30:00.000Z");
    world.wait(HOUR).await;
    // The delay is drawn from a whole day, and the window is open for a quarter of an hour.
    let due_at = json!("2026-01-02T00:30:00.000Z");
    let call = get_call(&world, created["call_id"].as_str().unwrap()).await;
    assert_eq!(call["job"], json!({"state": "PENDING", "due_at": due_at}));
    let events = world.cloud.bus().events_since(0);
    let announced = events.iter().find(|event| event.detail_type == "call.retry_scheduled").unwrap();
    assert_eq!(serde_json::from_str::<Value>(&announced.detail).unwrap()["due_at"], due_at);
}

#[tokio::test(start_paused = true)]
async fn trigger_outside_the_window_waits_for_its_opening() {
    let mut world = World::new();
    let call_id = create(&world, &within("Europe/London", "09:00", "18:00")).await;
    let (code, answer) = send(&world, "POST", &format!("/call/trigger?id={call_id}"), None, &Value::Null).await;
    assert_eq!((code, &answer["job"]), (StatusCode::ACCEPTED, &json!({"state": "PENDING", "due_at": LONDON})));
    world.wait(MINUTE * 2).await;
    assert_eq!(world.cloud.fake().dials(), []);
    assert_eq!(get_call(&world, &call_id).await["job"], json!({"state": "PENDING", "due_at": LONDON}));
    world.skip(HOUR * 8).await;
    world.wait(HOUR + MINUTE * 10).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
}
