//! A call that its provider refuses, perhaps because of its number, or does not make. Twilio blocks the number in these tests.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use switchhook_domain::Provider;
use switchhook_local::fake::{Behaviour, DeliveryFaults, Dial, Mode};
use switchhook_tests::{MINUTE, World};

use super::provider_health::{open, provider_events, schedule};
use super::providers::all_accounts;
use super::{HOUR, call_request, call_state, create, send};

/// A stack whose call to this number Twilio refuses.
fn world_that_blocks(number: &str, secret: &Value) -> World {
    let world = World::with_secret(secret);
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    world.cloud.fake().block_number(number);
    world
}

#[tokio::test(start_paused = true)]
async fn call_whose_other_provider_is_unavailable_is_refused_with_pauses() {
    for vapi_is_configured in [true, false] {
        let mut secret = all_accounts();
        if !vapi_is_configured {
            secret["vapi"].as_object_mut().map(|settings| settings.remove("dial"));
        }
        let world = world_that_blocks("+15550100", &secret);
        if vapi_is_configured {
            open(&world, Provider::Vapi, MINUTE * 15).await;
        }
        schedule(&world, "both", &[Provider::Vapi, Provider::Twilio], Duration::ZERO).await;
        world.wait(MINUTE * 10).await;
        let requests = world.cloud.fake().requests();
        println!("{requests} requests");
        assert!((4..=8).contains(&requests), "{requests} requests in ten minutes");
        // The other provider takes the call as soon as it is available.
        if vapi_is_configured {
            world.wait(MINUTE * 20).await;
            assert_eq!(provider_events(&world), ["provider.unavailable", "provider.available"]);
            assert_eq!(world.cloud.fake().dials().len(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn next_provider_is_asked_at_once_if_the_first_accepts_a_call_and_dials_nobody() {
    for first in [Provider::Vapi, Provider::Retell] {
        let world = World::with_secret(&all_accounts());
        world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
        world.cloud.fake().set_mode_of(first, Mode::OverCapacity);
        schedule(&world, "both", &[first, Provider::Twilio], Duration::ZERO).await;
        world.wait(Duration::from_secs(25)).await;
        let call = world.call("both").await;
        let asked: Vec<_> = call.attempt_records.iter().filter_map(|record| record.provider).collect();
        assert_eq!((asked, call.attempts().len()), (vec![first, Provider::Twilio], 1));
    }
}

#[tokio::test(start_paused = true)]
async fn call_that_was_triggered_before_its_due_time_is_refused_with_pauses() {
    let world = world_that_blocks("+15550199", &all_accounts());
    let mut request = call_request("confirms");
    request["provider"] = json!("twilio");
    request["due_at"] = json!(world.now().plus(HOUR * 24).to_string());
    let call_id = create(&world, &request).await;
    let (code, answer) = send(&world, "POST", &format!("/call/trigger?id={call_id}"), None, &Value::Null).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    world.wait(HOUR * 3).await;
    let requests = world.cloud.fake().requests();
    assert!((8..=12).contains(&requests), "{requests} requests in three hours");
}

/// A call over Twilio that is placed from nine to six, on a clock that shows midnight when a world begins.
fn request_with_window() -> Value {
    let mut request = call_request("confirms");
    request["provider"] = json!("twilio");
    request["window"] = json!({"time_zone": "Europe/London", "opens": "09:00", "closes": "18:00"});
    request
}

/// The call was created nine hours before anybody could be asked to place it.
#[tokio::test(start_paused = true)]
async fn pauses_after_refusals_begin_short_although_the_call_has_waited_for_its_window() {
    let mut world = world_that_blocks("+15550199", &all_accounts());
    create(&world, &request_with_window()).await;
    world.skip(HOUR * 9 - MINUTE * 5).await;
    world.wait(MINUTE * 6).await;
    let requests = world.cloud.fake().requests();
    assert!((1..=3).contains(&requests), "{requests} requests in the first minute");
    world.cloud.fake().unblock_number("+15550199");
    world.wait(MINUTE * 4).await;
    assert_eq!(world.cloud.fake().dials().len(), 1);
}

/// Nobody is asked while the window is closed.
#[tokio::test(start_paused = true)]
async fn pauses_after_refusals_do_not_grow_overnight() {
    let mut world = world_that_blocks("+15550199", &all_accounts());
    world.skip(HOUR * 18 - MINUTE * 2).await;
    create(&world, &request_with_window()).await;
    world.wait(MINUTE * 5).await;
    let evening = world.cloud.fake().requests();
    assert!((1..=3).contains(&evening), "{evening} requests in the evening");
    world.skip(HOUR * 15 - MINUTE * 8).await;
    world.wait(MINUTE * 6).await;
    assert!(world.cloud.fake().requests() > evening, "the call is tried at nine");
    world.cloud.fake().unblock_number("+15550199");
    world.wait(MINUTE * 9).await;
    assert_eq!(world.cloud.fake().dials().len(), 1);
}

/// The person confirms by text message, because no call comes. The report of that names no attempt.
#[tokio::test(start_paused = true)]
async fn person_who_confirmed_is_not_dialled_after_a_dial_that_was_not_made() {
    for behaviour in ["over_capacity,confirms", "forgotten,confirms"] {
        let world = World::new();
        let call_id = create(&world, &call_request(behaviour)).await;
        world.wait(Duration::from_secs(20)).await;
        assert!(world.cloud.fake().requests() > 0);
        let wish = json!({"event_id": "wish", "type": "USER_CONFIRMED", "call_id": call_id}).to_string();
        world.accept(Provider::Generic, &wish).await;
        world.wait(HOUR).await;
        let dials = world.cloud.fake().dials();
        let was_not_made = |dial: &Dial| matches!(dial.behaviour, Behaviour::OverCapacity | Behaviour::Forgotten);
        assert!(dials.len() <= 1 && dials.iter().all(was_not_made), "{behaviour}: {dials:?}");
        let state = call_state(&world, &call_id).await;
        assert_eq!(state, "job COMPLETED, appointment Confirmed, attempts [completed]", "{behaviour}");
        let types = world.published_types(&call_id);
        assert_eq!(types.iter().filter(|name| *name == "appointment.confirmed").count(), 1, "{types:?}");
    }
}
