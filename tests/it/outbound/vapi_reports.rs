//! Reports of Vapi that say less than the lookup of the same call.

use http::StatusCode;
use serde_json::{Value, json};
use switchhook_domain::Provider;
use switchhook_local::fake::DeliveryFaults;
use switchhook_tests::{INACTIVITY_TIMEOUT, MINUTE, World};

use super::{all_accounts, call_request, call_state, create, wait_for_the_end};

/// A stack that lost all webhooks of a call at Vapi, and the call after its end. The second value is its id, the third the call as Vapi's API
/// shows it.
async fn unreported(behaviour: &str) -> (World, String, Value) {
    let world = World::with_secret(&all_accounts());
    let fake = world.cloud.fake();
    fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
    let mut request = call_request(behaviour);
    request["provider"] = json!("vapi");
    let call_id = create(&world, &request).await;
    world.wait(MINUTE * 4).await;
    let path = format!("/call/{}", fake.dials()[0].provider_call_id);
    let answer = fake.handle("GET", &path, Some("Bearer key"), b"");
    let shown: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(shown["status"], "ended", "{shown}");
    (world, call_id, shown)
}

#[tokio::test(start_paused = true)]
async fn decision_that_is_missing_in_an_early_report_is_found_by_the_lookup() {
    let (world, call_id, mut shown) = unreported("confirms").await;
    // Vapi may send the report before its analysis is ready.
    shown.as_object_mut().unwrap().remove("analysis");
    let report = json!({"message": {"type": "end-of-call-report", "call": shown}});
    world.accept(Provider::Vapi, &report.to_string()).await;
    world.wait(MINUTE).await;
    assert_eq!(call_state(&world, &call_id).await, "job COMPLETED, appointment Connected, attempts [completed]");
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 2).await;
    assert_eq!(call_state(&world, &call_id).await, "job COMPLETED, appointment Confirmed, attempts [completed]");
    assert_eq!(world.logged("drift_found").len(), 0);
}

/// The first of these updates ends the attempt without saying how, and the second is only recorded.
#[tokio::test(start_paused = true)]
async fn ending_that_a_status_update_without_times_leaves_open_is_found_by_the_lookup() {
    for reason in ["manually-canceled", "worker-shutdown"] {
        let (world, call_id, _) = unreported("fails,confirms").await;
        let provider_call_id = world.cloud.fake().dials()[0].provider_call_id.clone();
        let update = json!({"message": {
            "type": "status-update", "status": "ended", "endedReason": reason,
            "call": {"id": provider_call_id, "type": "outboundPhoneCall"},
        }});
        let (status, answer) = world.post(Provider::Vapi, &update.to_string()).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        // The report is lost. The lookup tells that nobody answered, so the person is called again.
        wait_for_the_end(&world, &call_id).await;
        assert_eq!(
            call_state(&world, &call_id).await,
            "job COMPLETED, appointment Confirmed, attempts [failed, completed]"
        );
        assert_eq!(world.cloud.fake().dials().len(), 2);
    }
}
