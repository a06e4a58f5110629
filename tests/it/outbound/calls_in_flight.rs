//! Limits on the calls that a provider has at the same time: those of the configuration, and those that a provider sets by a refusal.

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use switchhook_aws::calls::StoreOutcome;
use switchhook_aws::shards::Shards;
use switchhook_domain::{Call, CallId, NewCall, PhoneNumber, Provider};
use switchhook_local::CloudOptions;
use switchhook_local::fake::{Dial, Mode, RequestResult};
use switchhook_tests::{MINUTE, World, dial_rates, options};

use super::provider_health::{plan, policy, schedule};
use super::providers::all_accounts;
use super::{HOUR, call_request, create, send, wait_for_all};
use crate::outbound_budget::wake_scheduler;

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
        wait_for_all(&world, HOUR, &created).await;
        assert_all_completed(&world, &created).await;
        let dials = world.cloud.fake().dials();
        assert_eq!(most_at_once(&dials), 10, "{provider}");
        let (least, taken) = seconds(&dials, 10);
        assert!(taken < least * 3 / 2, "{provider}: {taken} s, and {least} s would do");
    }
}

/// Calls that were created this number of milliseconds later than another one, or more, and were dialled before it by more than this time.
fn overtakers(dials: &[Dial], created: &BTreeMap<String, i64>, ms: i64) -> Vec<String> {
    let is_overtaken_by = |later: &Dial| {
        let created_ms = created[&later.call_id];
        dials.iter().any(|dial| created[&dial.call_id] + ms <= created_ms && later.started_ms + ms < dial.started_ms)
    };
    dials.iter().filter(|dial| is_overtaken_by(dial)).map(|dial| dial.call_id.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_created_later_take_no_place_from_those_that_wait() {
    for provider in [Provider::Retell, Provider::Twilio] {
        let world = world_with_rate("5/4");
        let mut created = BTreeMap::new();
        for _ in 0..30 {
            created.insert(create(&world, &request(provider)).await, world.now().as_millis());
        }
        for number in 0..40 {
            world.wait(Duration::from_secs(17)).await;
            let call_id = create(&world, &request(provider)).await;
            // Each second one is created to be called later, and triggered.
            if number % 2 == 0 {
                let mut later = request(provider);
                later["due_at"] = json!("2026-01-03T00:00:00Z");
                let call_id = create(&world, &later).await;
                created.insert(call_id.clone(), world.now().as_millis());
                send(&world, "POST", &format!("/call/trigger?id={call_id}"), None, &Value::Null).await;
            }
            created.insert(call_id, world.now().as_millis());
        }
        let ids: Vec<String> = created.keys().cloned().collect();
        wait_for_all(&world, HOUR * 3, &ids).await;
        assert_all_completed(&world, &ids).await;
        let overtakers = overtakers(&world.cloud.fake().dials(), &created, 10_000);
        assert!(overtakers.is_empty(), "{provider}: {} of {}", overtakers.len(), created.len());
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

/// A call to a busy number, which ends soon, and is not tried again.
fn short_request(provider: Provider) -> Value {
    let mut request = request(provider);
    request["metadata"] = json!({"fake": "busy"});
    request
}

/// The calls come right after a run of the schedule.
#[tokio::test(start_paused = true)]
async fn places_that_become_free_are_used_before_the_next_run() {
    let world = world_with_rate("5/10");
    world.wait(MINUTE + Duration::from_secs(2)).await;
    for _ in 0..40 {
        create(&world, &short_request(Provider::Twilio)).await;
    }
    world.wait(Duration::from_secs(45)).await;
    let dials = world.cloud.fake().dials();
    assert!(dials.len() >= 25, "{} dials", dials.len());
    assert!(most_at_once(&dials) <= 10);
}

/// A run of the schedule finds no free place, and calls that are due soon after those in flight have ended.
#[tokio::test(start_paused = true)]
async fn calls_in_flight_during_a_run_delay_none_that_is_due_later() {
    let world = world_with_rate("5/8");
    let due_at = world.now().plus(MINUTE + Duration::from_secs(20));
    let mut later = short_request(Provider::Twilio);
    later["due_at"] = json!(due_at.to_string());
    for _ in 0..16 {
        create(&world, &later).await;
    }
    world.wait(Duration::from_secs(57)).await;
    for _ in 0..8 {
        create(&world, &short_request(Provider::Twilio)).await;
    }
    // Before the next run of the schedule.
    world.wait(MINUTE).await;
    let dials = world.cloud.fake().dials();
    let in_time = dials.iter().filter(|dial| (0..=5_000).contains(&(dial.started_ms - due_at.as_millis()))).count();
    assert_eq!((in_time, dials.len()), (8, 24));
    assert!(most_at_once(&dials) <= 8);
}

/// The provider has no free place, and calls are due. Calls of the next minute are only named in messages.
#[tokio::test(start_paused = true)]
async fn run_without_a_free_place_has_the_calls_of_the_next_minute_delivered() {
    let secret = all_accounts();
    let dial_rates = "twilio=5/1".parse().unwrap();
    let world = World::with_options(CloudOptions { dial_rates, dialers: 1_000, ..options(&secret) });
    store_open_calls(&world, 1).await;
    for number in 0..400 {
        let delay = if number < 200 { Duration::ZERO } else { Duration::from_secs(30) };
        schedule(&world, &format!("call-{number}"), &[Provider::Twilio], delay).await;
    }
    world.wait(Duration::from_secs(1)).await;
    drop(world.requests());
    let report = world.cloud.schedule().await.unwrap().unwrap();
    assert_eq!((report.claimed, report.delayed), (0, 200), "{report:?}");
    assert!(world.requests()["GetItem"] <= 10);
}

/// A report right after a run of the schedule, that there are too many calls, pauses the provider for seconds, and returns the claimed calls.
#[tokio::test(start_paused = true)]
async fn calls_are_placed_again_when_a_pause_ends() {
    let world = world_with_rate("5");
    for _ in 0..100 {
        create(&world, &short_request(Provider::Retell)).await;
    }
    world.wait(Duration::from_secs(6)).await;
    world.cloud.fake().set_mode_for(Mode::OverCapacity, Duration::from_millis(300));
    world.wait(Duration::from_secs(10)).await;
    let before = world.cloud.fake().dials().len();
    world.wait(Duration::from_secs(30)).await;
    let dials = world.cloud.fake().dials().len() - before;
    assert!(before >= 20 && dials >= 20, "{before} dials, and then {dials}");
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
        wait_for_all(&world, MINUTE * 90, &created).await;
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

/// Stores calls that Twilio has in flight.
async fn store_open_calls(world: &World, calls: usize) {
    let (now, lease) = (world.now(), Duration::from_secs(300));
    for number in 0..calls {
        let call_id = CallId::new(format!("open-{number}"));
        // Nobody is woken for it, because it is due later and claimed by hand.
        let plan = plan(world, &[Provider::Twilio], HOUR);
        let (from, to) = (PhoneNumber::new("+15550100"), PhoneNumber::new("+15550101"));
        let new = Call::schedule(NewCall { call_id, from, to, appointment_id: None, plan }, &policy(), now);
        let claimed = new.call.claim("token", Provider::Twilio, lease, true, &policy(), now).unwrap();
        let dialled = claimed.call.start_dial("token", "dial", Provider::Twilio, &policy(), now).unwrap().transition;
        for transition in [new, claimed, dialled] {
            assert_eq!(world.calls.store(&transition).await.unwrap(), StoreOutcome::Committed);
        }
    }
}

/// Each created call invokes the scheduler, and a count reads the entries of all open calls.
#[tokio::test(start_paused = true)]
async fn calls_that_are_woken_within_seconds_share_one_count() {
    for (limit, claimed) in [(20, 6), (2, 2)] {
        let secret = all_accounts();
        let dial_rates = format!("retell=1/{limit},twilio=1").parse().unwrap();
        let index_shards = Shards::default();
        let world = World::with_options(CloudOptions { dial_rates, dialers: 1_000, index_shards, ..options(&secret) });
        store_open_calls(&world, 2_000).await;
        let mut units = Vec::new();
        let mut claims = 0;
        for _ in 0..6 {
            create(&world, &request(Provider::Retell)).await;
            drop(world.capacity());
            claims += wake_scheduler(&world).await.claimed;
            units.push(world.capacity().get("Query").map_or(0.0, |count| count.read_units));
            world.wait(Duration::from_millis(200)).await;
        }
        println!("{units:?} read units");
        assert_eq!(claims, claimed, "at most {limit} calls at the same time");
        assert!(units[0] > 20.0 && units[1..].iter().all(|units| *units == 0.0), "{units:?} read units");
        // Six seconds later, the calls are counted again.
        world.wait(Duration::from_secs(6)).await;
        create(&world, &request(Provider::Retell)).await;
        drop(world.capacity());
        wake_scheduler(&world).await;
        assert!(world.capacity()["Query"].read_units > 20.0);
    }
}
