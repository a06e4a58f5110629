//! Limits on the calls that a provider has at the same time: those of the configuration, and those that a provider sets by a refusal.

use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::{Value, json};
use switchhook_domain::Provider;
use switchhook_local::CloudOptions;
use switchhook_local::fake::{Dial, RequestResult};
use switchhook_tests::{MINUTE, World, dial_rates, options};

use super::providers::all_accounts;
use super::{HOUR, call_request, create, send};

/// A stack that places calls with every provider at this rate.
fn world_with_rate(rate: &str) -> World {
    let secret = all_accounts();
    let dial_rates = dial_rates(&secret, rate);
    let mut world = World::with_options(CloudOptions { dial_rates, dialers: 1_000, ..options(&secret) });
    world.start();
    world
}

fn request(provider: Provider) -> Value {
    let mut request = call_request("declines");
    request["provider"] = json!(provider);
    request["retry"] = json!({"attempts_max": 1});
    request
}

/// Largest number of calls that rang or talked at the same time.
fn most_at_once(dials: &[Dial]) -> usize {
    let at = |ms: i64| dials.iter().filter(|dial| dial.started_ms <= ms && ms < dial.ended_ms).count();
    dials.iter().map(|dial| at(dial.started_ms)).max().unwrap_or_default()
}

/// Seconds for which `places` calls at the same time would have kept all the dials busy, and those that it took.
fn seconds(dials: &[Dial], places: i64) -> (i64, i64) {
    let work: i64 = dials.iter().map(|dial| dial.ended_ms - dial.started_ms).sum();
    let first = dials.iter().map(|dial| dial.started_ms).min().unwrap_or_default();
    let last = dials.iter().map(|dial| dial.ended_ms).max().unwrap_or_default();
    (work / places / 1_000, (last - first) / 1_000)
}

async fn assert_all_completed(world: &World, created: &[String]) {
    for call_id in created {
        let call = world.call(call_id).await;
        assert_eq!((call.job.as_str(), call.attempts().len()), ("COMPLETED", 1), "{call_id}");
    }
    assert_eq!((world.cloud.fake().dials().len(), world.cloud.fake().duplicate_dials()), (created.len(), 0));
}

#[tokio::test(start_paused = true)]
async fn provider_never_has_more_calls_than_configured_and_its_places_are_used() {
    for provider in [Provider::Retell, Provider::Twilio] {
        let world = world_with_rate("5/10");
        let mut created = Vec::new();
        for _ in 0..120 {
            created.push(create(&world, &request(provider)).await);
        }
        world.wait(HOUR).await;
        assert_all_completed(&world, &created).await;
        let dials = world.cloud.fake().dials();
        assert_eq!(most_at_once(&dials), 10, "{provider}");
        let (least, taken) = seconds(&dials, 10);
        assert!(taken < least * 3 / 2, "{provider}: {taken} s, and {least} s would do");
    }
}

#[tokio::test(start_paused = true)]
async fn triggered_calls_wait_for_a_free_place() {
    let world = world_with_rate("5/10");
    let mut created = Vec::new();
    for _ in 0..40 {
        let mut later = request(Provider::Retell);
        later["due_at"] = json!("2026-01-03T00:00:00Z");
        created.push(create(&world, &later).await);
    }
    let mut answers: BTreeMap<u16, usize> = BTreeMap::new();
    for call_id in &created {
        let (code, answer) = send(&world, "POST", &format!("/call/trigger?id={call_id}"), None, &Value::Null).await;
        let state = if code == StatusCode::OK { "CLAIMED" } else { "PENDING" };
        assert_eq!(answer["job"]["state"], state, "{answer}");
        *answers.entry(code.as_u16()).or_default() += 1;
    }
    // A claim of the last ten seconds may be counted twice, because the index may lag. So fewer may be claimed at once.
    assert!(answers[&200] <= 10 && answers[&200] + answers[&202] == 40, "{answers:?}");
    world.wait(MINUTE * 30).await;
    assert_all_completed(&world, &created).await;
    assert_eq!(most_at_once(&world.cloud.fake().dials()), 10);
}

#[tokio::test(start_paused = true)]
async fn refusals_teach_the_number_of_calls_that_a_provider_takes() {
    for provider in [Provider::Retell, Provider::Twilio] {
        let world = world_with_rate("5");
        world.cloud.fake().set_capacity(provider, 10);
        world.cloud.fake().start_recording();
        let mut created = Vec::new();
        for _ in 0..120 {
            created.push(create(&world, &request(provider)).await);
        }
        world.wait(MINUTE * 90).await;
        assert_all_completed(&world, &created).await;
        let dials = world.cloud.fake().dials();
        // Retell accepts surplus calls and reports them seconds later. Meanwhile further calls are placed.
        let requests = world.cloud.fake().api_records();
        let is_dial = |result| matches!(result, RequestResult::Accepted | RequestResult::RateLimited);
        let refused = requests.iter().filter(|request| is_dial(request.result)).count() - dials.len();
        assert!((1..=40).contains(&refused), "{provider}: {refused} refused");
        let (least, taken) = seconds(&dials, 10);
        assert!(taken < least * 3, "{provider}: {taken} s, and {least} s would do");
    }
}
