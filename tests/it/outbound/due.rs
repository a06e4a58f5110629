//! Calls are placed at the second at which they are due, and no faster than their provider takes them.

use std::time::Duration;

use serde_json::{Value, json};
use switchhook_aws::dynamodb::shard_of;
use switchhook_domain::{Provider, ProviderHealth};
use switchhook_local::DUE_QUEUE;
use switchhook_local::fake::{DeliveryFaults, Mode};
use switchhook_tests::{MINUTE, World, down};

use super::provider_health::{open, schedule};
use super::{HOUR, call_request, create, send};

/// Creates a call that is due after `delay`, and waits until it was dialled. Returns the milliseconds from the due time to the
/// dial request, which the log of the dialer must show.
async fn lateness(world: &World, delay: Duration) -> i64 {
    let due_at = world.now().plus(delay);
    let mut request = call_request("confirms");
    if !delay.is_zero() {
        request["due_at"] = json!(due_at.to_string());
    }
    let call_id = create(world, &request).await;
    world.wait(delay + MINUTE * 2).await;
    let dials = world.cloud.fake().dials();
    let dial = dials.iter().find(|dial| dial.call_id == call_id).unwrap();
    let late = dial.started_ms - due_at.as_millis();
    assert_eq!(due_to_request(world, &call_id), [json!(late)]);
    late
}

/// The metric `due_to_request_ms` of each dial of a call. `null` for a dial without it.
fn due_to_request(world: &World, call_id: &str) -> Vec<Value> {
    let dials = world.logged("dialled").into_iter().filter(|line| line["call_id"] == call_id);
    dials.map(|line| line["due_to_request_ms"].clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn call_is_dialled_at_the_second_at_which_it_is_due() {
    let world = World::new();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    // Due now: the stream of the table wakes the scheduler. Due within a minute: a message is delayed. Due later: the
    // schedule finds the call before it is due.
    for seconds in [0.0, 0.4, 7.3, 59.0, 61.0, 185.7, 3_700.0] {
        let late = lateness(&world, Duration::from_secs_f64(seconds)).await;
        println!("due after {seconds} s: dialled {late} ms later");
        assert!((0..=1_100).contains(&late), "due after {seconds} s, dialled {late} ms later");
    }
}

/// A run of the schedule finds the provider paused, or its circuit open. Seconds later the provider takes calls again.
#[tokio::test(start_paused = true)]
async fn provider_that_takes_no_call_during_a_run_delays_none_that_is_due_later() {
    for is_paused in [true, false] {
        let world = World::new();
        world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
        let due_at = world.now().plus(Duration::from_secs(90));
        schedule(&world, "later", &[Provider::Retell], Duration::from_secs(90)).await;
        world.wait(Duration::from_secs(58)).await;
        if is_paused {
            let paused_until = Some(world.now().plus(Duration::from_secs(5)));
            let pause = |health: &ProviderHealth| Some((ProviderHealth { paused_until, ..health.clone() }, ()));
            world.calls.change_provider_health(Provider::Retell, pause).await.unwrap();
        } else {
            open(&world, Provider::Retell, HOUR).await;
            world.wait(Duration::from_secs(5)).await;
            let close = |_: &ProviderHealth| Some((ProviderHealth::new(Provider::Retell), ()));
            world.calls.change_provider_health(Provider::Retell, close).await.unwrap();
        }
        world.wait(MINUTE * 2).await;
        let dials = world.cloud.fake().dials();
        let late = dials[0].started_ms - due_at.as_millis();
        assert!((0..=1_100).contains(&late), "paused: {is_paused}, dialled {late} ms later");
    }
}

/// Calls that are not woken one by one, because they were due before the pause.
#[tokio::test(start_paused = true)]
async fn run_during_a_pause_looks_at_the_provider_when_the_pause_ends() {
    let mut world = World::stopped();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    schedule(&world, "waits", &[Provider::Retell], Duration::ZERO).await;
    let records = world.cloud.services().dynamodb().stream().take_due(10);
    let paused_until = Some(world.now().plus(MINUTE + Duration::from_secs(5)));
    let pause = |health: &ProviderHealth| Some((ProviderHealth { paused_until, ..health.clone() }, ()));
    world.calls.change_provider_health(Provider::Retell, pause).await.unwrap();
    world.start();
    world.wait(MINUTE + Duration::from_secs(10)).await;
    assert_eq!((records.len(), world.cloud.fake().dials().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn time_from_due_to_request_is_that_of_each_retry_and_of_no_call_triggered_before() {
    let world = World::new();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    let retried = create(&world, &call_request("busy,confirms")).await;
    let mut later = call_request("confirms");
    later["due_at"] = json!(world.now().plus(HOUR).to_string());
    let triggered = create(&world, &later).await;
    let path = format!("/call/trigger?id={triggered}");
    assert_eq!(send(&world, "POST", &path, None, &Value::Null).await.0.as_u16(), 200);
    world.wait(HOUR * 2).await;
    let times = due_to_request(&world, &retried);
    assert!(times.len() == 2 && times.iter().all(|time| time.as_u64().is_some_and(|ms| ms <= 1_100)), "{times:?}");
    assert_eq!(due_to_request(&world, &triggered), [Value::Null]);
    // The provider is a dimension of the metric.
    let line = &world.logged("dialled")[0];
    let directives = line["_aws"]["CloudWatchMetrics"].as_array().unwrap();
    let by_provider =
        directives.iter().find(|one| one["Dimensions"] == json!([["stack", "function", "provider"]])).unwrap();
    assert!(by_provider["Metrics"].to_string().contains("due_to_request_ms"), "{by_provider}");
}

/// A provider that does not answer gets the request of a claim a second time. The metric measures the time of the first request.
#[tokio::test(start_paused = true)]
async fn time_from_due_to_request_is_that_of_the_first_request_of_a_claim() {
    let world = World::new();
    world.cloud.fake().set_mode(Mode::Unresponsive);
    create(&world, &call_request("confirms")).await;
    world.wait(MINUTE).await;
    let lines = world.logged("dial_in_doubt");
    assert_eq!((lines.len(), world.cloud.fake().requests()), (1, 2));
    let time = |name: &str| lines[0][name].as_u64().unwrap_or(u64::MAX);
    assert!(time("due_to_request_ms") <= 1_100 && time("provider_request_ms") >= 13_000, "{}", lines[0]);
}

#[tokio::test(start_paused = true)]
async fn burst_of_calls_is_claimed_no_faster_than_it_is_dialled() {
    let world = World::with_dial_rate("1");
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    for _ in 0..500 {
        create(&world, &call_request("confirms")).await;
    }
    let started = world.now();
    // Chance divides the calls among the lanes, so the last lane ends later than the others.
    world.wait(Duration::from_secs(500 + 100)).await;
    assert_eq!(world.cloud.fake().dials().len(), 500);
    // Dialled all the time, and at the rate of the account. No claim expired before its call was dialled.
    let dials = world.cloud.fake().dials();
    let last = dials.iter().map(|dial| dial.started_ms).max().unwrap() - started.as_millis();
    assert!((490_000..=595_000).contains(&last), "{last}");
    assert_eq!(world.logged("claim_lost").len(), 0);
    assert_eq!(world.cloud.fake().duplicate_dials(), 0);
}

/// A run reads the due calls of each shard. Those that are due soon go to a queue, which may refuse them.
#[tokio::test(start_paused = true)]
async fn queue_of_due_calls_that_is_down_hides_no_shard() {
    let mut world = World::new();
    world.stop();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    let shards = world.calls.wake_shards();
    for shard in shards.clone() {
        let in_shard = |name: &str| {
            let ids = (0..1_000).map(|n| format!("{name}-{n}"));
            ids.into_iter().find(|id| shard_of(id, shards.end) == shard).unwrap()
        };
        schedule(&world, &in_shard("due"), &[Provider::Retell], Duration::ZERO).await;
        schedule(&world, &in_shard("soon"), &[Provider::Retell], Duration::from_secs(30)).await;
    }
    world.inject_fault("SendMessageBatch", DUE_QUEUE, u64::MAX, down());
    world.cloud.schedule().await.unwrap().unwrap_err();
    world.clear_faults();
    assert_eq!(world.take_claims().records.len() as u64, shards.end);
}
