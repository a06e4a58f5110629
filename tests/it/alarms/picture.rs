//! Data for the picture of the dashboard in the documentation: an hour of mixed traffic with an outage, in virtual time.

use std::time::Duration;

use serde_json::{Value, json};
use switchhook_domain::Provider;
use switchhook_local::connector::Fault;
use switchhook_local::metrics::answer;
use switchhook_tests::{KEY, MINUTE, World, generic};

use super::ordinary_call;
use crate::outbound::{HOUR, create};
use crate::traffic::twilio_call;

/// File with the requests that `tools/draw_dashboard.py` makes. Each is answered in the file of [`ANSWERS`].
const REQUESTS: &str = "SWITCHHOOK_DASHBOARD_REQUESTS";
const ANSWERS: &str = "SWITCHHOOK_DASHBOARD_ANSWERS";

/// Behaviours of the people called, in turn.
const BEHAVIOURS: [&str; 8] = [
    "confirms",
    "declines",
    "busy,confirms",
    "no_answer,voicemail",
    "confirms",
    "silent",
    "response_lost",
    "fails,busy",
];

#[tokio::test(start_paused = true)]
#[ignore = "draws no conclusion: tools/draw_dashboard.py runs it for its data"]
async fn data_of_the_dashboard() {
    let requests = std::fs::read_to_string(std::env::var(REQUESTS).unwrap()).unwrap();
    let world = World::new();
    // Services answer within some milliseconds, and now and then take longer.
    world.set_fault_hook(|call| {
        let slow = if call.number % 97 == 0 { 120 } else { 0 };
        Some(Fault::Delay(Duration::from_millis(3 + call.number % 13 + slow)))
    });
    let start = world.now();
    for minute in 0..70_u64 {
        // The provider that places calls is down for eight minutes.
        world.cloud.fake().set_down((40..48).contains(&minute));
        for turn in 0..4 + minute % 3 {
            let number = minute * 10 + turn;
            ordinary_call(&world, number).await;
            if turn % 2 == 0 {
                let behaviour = BEHAVIOURS[usize::try_from(number).unwrap() / 2 % BEHAVIOURS.len()];
                let call = json!({
                    "provider": "retell", "from": "+15550100", "to": format!("+1555{number:07}"),
                    "appointment_id": format!("apt_{number}"), "metadata": {"fake": behaviour},
                });
                create(&world, &call).await;
            }
            if turn == 1 {
                for webhook in twilio_call(number, true) {
                    world.post_signed(webhook.provider, KEY, &webhook.query, webhook.body.as_bytes()).await;
                }
            }
            if turn == 3 {
                // A generic sender repeats each webhook.
                let body = generic(&format!("c{number}"), &format!("e{number}"), "RINGING", minute * 60);
                world.post(Provider::Generic, &body).await;
                world.post(Provider::Generic, &body).await;
            }
        }
        if minute % 20 == 15 {
            world.post_signed(Provider::Generic, "another key", "", b"{}").await;
        }
        if minute == 55 {
            world.post(Provider::Generic, "{not JSON").await;
        }
        let next = start.plus(MINUTE * u32::try_from(minute + 1).unwrap());
        world.wait(Duration::from_millis(next.millis_since(world.now()).try_into().unwrap_or_default())).await;
    }
    let metrics = world.cloud.metrics();
    for line in world.log_text().lines() {
        metrics.record_line(line);
    }
    let (from, to) = (world.now().minus(HOUR).as_millis(), world.now().as_millis());
    let answered = |mut request: Value| {
        // The alarms look further back than the graphs.
        let since = if request["alarms"].is_array() { start.as_millis() } else { from };
        request["from_ms"] = json!(since);
        request["to_ms"] = json!(to);
        answer(metrics, &serde_json::from_value(request).unwrap()).unwrap()
    };
    let requests: Vec<Value> = serde_json::from_str(&requests).unwrap();
    let answers: Vec<Value> = requests.into_iter().map(answered).collect();
    let answers = json!({"span": [from - from % 60_000, to - to % 60_000], "answers": answers});
    std::fs::write(std::env::var(ANSWERS).unwrap(), answers.to_string()).unwrap();
}
