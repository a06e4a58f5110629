//! Further accounts of one provider, side by side: each has its own keys, limits and health, and its calls are its own.

use http::StatusCode;
use serde_json::{Value, json};
use switchhook_aws::inbox::AttentionKind;
use switchhook_domain::Provider;
use switchhook_local::fake::{DeliveryFaults, Dial, Mode};
use switchhook_local::{CALLS_TABLE, CloudOptions};
use switchhook_operate::calls::stuck;
use switchhook_operate::events;
use switchhook_tests::{KEY, MINUTE, World, down, options, text};

use super::provider_health::provider_events;
use super::providers::{ACCOUNT_KEY, BUSY, PROVIDERS, account_of, confirmed_at, place, two_accounts_each};
use super::{HOUR, call_request, create, get_call, send, wait_for_all};
use crate::bookings;
use crate::recovery::repair;
use crate::repair::stack_of;

fn retell_eu() -> Provider {
    account_of(Provider::Retell)
}

/// A stack that dials at these rates.
async fn world_with_rates(rates: &str) -> World {
    let secret = two_accounts_each();
    let dial_rates = rates.parse().unwrap();
    let mut world = World::with_options(CloudOptions { dial_rates, dialers: 1_000, ..options(&secret) });
    world.start();
    // A run lists the accounts.
    world.cloud.schedule().await.unwrap().unwrap();
    world
}

fn request(providers: &[Provider]) -> Value {
    with_providers(&json!(providers))
}

/// A request with this list of providers.
fn with_providers(providers: &Value) -> Value {
    let mut request = call_request("busy");
    request.as_object_mut().unwrap().remove("provider");
    request["providers"] = providers.clone();
    request["retry"] = json!({"attempts_max": 1});
    request
}

fn dials_of(world: &World, provider: Provider) -> Vec<Dial> {
    world.cloud.fake().dials().into_iter().filter(|dial| dial.provider == provider).collect()
}

/// Largest number of calls that rang or talked at the same time.
fn most_at_once(dials: &[Dial]) -> usize {
    let at = |ms: i64| dials.iter().filter(|dial| dial.started_ms <= ms && ms < dial.ended_ms).count();
    dials.iter().map(|dial| at(dial.started_ms)).max().unwrap_or_default()
}

/// Calls per minute, from the first to the last.
fn per_minute(dials: &[Dial]) -> f64 {
    let times: Vec<i64> = dials.iter().map(|dial| dial.started_ms).collect();
    let span = times.iter().max().unwrap() - times.iter().min().unwrap();
    (times.len() - 1) as f64 * 60_000.0 / span as f64
}

#[tokio::test(start_paused = true)]
async fn calls_of_an_account_come_out_as_those_of_its_provider() {
    for provider in PROVIDERS {
        let states = place(account_of(provider), ["confirms", "busy"], DeliveryFaults::NONE).await;
        assert_eq!(states, [confirmed_at(provider), BUSY], "{provider}");
    }
}

#[tokio::test(start_paused = true)]
async fn lookups_and_drift_checks_ask_the_account_that_dialled() {
    for provider in [Provider::Retell, Provider::Twilio, Provider::Bland] {
        let states = place(account_of(provider), ["response_lost"], DeliveryFaults::ALL_LOST).await;
        assert_eq!(states, [confirmed_at(provider)], "{provider}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_account_keeps_its_own_limits() {
    let world = world_with_rates("retell=1/20,retell-eu=0.2/2").await;
    let mut created = Vec::new();
    for _ in 0..30 {
        for provider in [Provider::Retell, retell_eu()] {
            created.push(create(&world, &request(&[provider])).await);
        }
    }
    wait_for_all(&world, HOUR, &created).await;
    let (own, further) = (dials_of(&world, Provider::Retell), dials_of(&world, retell_eu()));
    assert_eq!((own.len(), further.len(), world.cloud.fake().duplicate_dials()), (30, 30, 0));
    assert!(most_at_once(&further) <= 2, "{}", most_at_once(&further));
    let (fast, slow) = (per_minute(&own), per_minute(&further));
    assert!((50.0..=61.0).contains(&fast) && (6.0..=12.1).contains(&slow), "{fast} and {slow} calls per minute");
}

#[tokio::test(start_paused = true)]
async fn trouble_of_one_account_stops_no_other() {
    let world = world_with_rates("retell=5,retell-eu=5").await;
    world.cloud.fake().set_mode_of(retell_eu(), Mode::OutOfCredit);
    let mut created = Vec::new();
    for _ in 0..20 {
        created.push(create(&world, &request(&[retell_eu(), Provider::Retell])).await);
    }
    let alone = create(&world, &request(&[retell_eu()])).await;
    wait_for_all(&world, HOUR, &created).await;
    assert_eq!((dials_of(&world, retell_eu()).len(), dials_of(&world, Provider::Retell).len()), (0, 20));
    assert_eq!(provider_events(&world), ["provider.unavailable"]);
    let event = world.domain_events().into_iter().find(|event| event["type"] == "provider.unavailable").unwrap();
    assert_eq!(event["provider"], "retell-eu");
    assert_eq!(get_call(&world, &alone).await["job"]["state"], "PENDING");
    world.cloud.fake().set_mode_of(retell_eu(), Mode::Normal);
    wait_for_all(&world, HOUR, &[alone]).await;
}

#[tokio::test(start_paused = true)]
async fn webhook_is_verified_by_the_keys_of_its_account_alone() {
    let world = world_with_rates("").await;
    let body = json!({"event": "call_started", "call": {"call_id": "c1", "call_type": "phone_call"}}).to_string();
    let post = async |provider, key| world.post_signed(provider, key, "", body.as_bytes()).await.0;
    assert_eq!(post(retell_eu(), KEY).await, StatusCode::UNAUTHORIZED);
    assert_eq!(post(Provider::Retell, ACCOUNT_KEY).await, StatusCode::UNAUTHORIZED);
    assert_eq!(
        post("retell-us".parse().unwrap(), KEY).await,
        StatusCode::NOT_FOUND,
        "an account that nobody configured"
    );
    assert!(post(retell_eu(), ACCOUNT_KEY).await.is_success());
    assert!(post(Provider::Retell, KEY).await.is_success());
    world.quiesce().await;
    for provider in [Provider::Retell, retell_eu()] {
        let call = get_call(&world, &format!("{provider}:c1")).await;
        assert_eq!(call["attempts"][0]["provider"], json!(provider), "the same id at two accounts is two calls");
    }
}

#[tokio::test(start_paused = true)]
async fn account_that_never_had_a_rate_is_refused_by_name() {
    let world = world_with_rates("retell=1,twilio-eu=1").await;
    for providers in [json!(["retell-eu"]), json!(["retell", "retell-eu"])] {
        let (code, answer) = send(&world, "POST", "/calls", None, &with_providers(&providers)).await;
        assert_eq!(code, StatusCode::BAD_REQUEST);
        let message = text(&answer["errors"][0]["message"]);
        assert!(message.starts_with("names the account retell-eu, which has no rate: "), "{message}");
        assert!(message.contains("the parameter DialRates") && message.contains("--dial-rates"), "{message}");
    }
    let (_, answer) = send(&world, "POST", "/calls", None, &with_providers(&json!(["retel"]))).await;
    let message = text(&answer["errors"][0]["message"]);
    assert!(message.ends_with("signalwire, or an account such as twilio-eu"), "{message}");
    assert_eq!(world.calls.accounts().await.unwrap(), [account_of(Provider::Twilio)].into());
}

/// An account that has left `DialRates` while calls waited for it.
#[tokio::test(start_paused = true)]
async fn calls_of_an_account_that_lost_its_rate_are_seen_and_counted() {
    let world = world_with_rates("retell=1").await;
    world.calls.list_accounts(&[retell_eu()].into()).await.unwrap();
    let alone = create(&world, &request(&[retell_eu()])).await;
    create(&world, &request(&[retell_eu(), Provider::Retell])).await;
    let mut counted = 0;
    for _ in 0..=10 {
        counted = world.cloud.schedule().await.unwrap().unwrap().unconfigured.max(counted);
        world.wait(MINUTE).await;
    }
    assert_eq!(counted, 1);
    assert_eq!(dials_of(&world, Provider::Retell).len(), 1, "another provider of the call takes it");
    let (code, page) = world.get("/calls?job=PENDING").await;
    assert_eq!(code, StatusCode::OK);
    let listed: Vec<&str> =
        page["calls"].as_array().unwrap().iter().filter_map(|call| call["call_id"].as_str()).collect();
    assert_eq!(listed, [alone.as_str()]);
    let stuck = stuck(&stack_of(&world), MINUTE).await.unwrap();
    assert_eq!(stuck.calls.iter().map(|call| call.call_id.as_str()).collect::<Vec<_>>(), [alone.as_str()]);
}

/// A run knows the accounts that have a rate without the list. It reports the error, because calls may wait for others.
#[tokio::test(start_paused = true)]
async fn list_that_cannot_be_read_keeps_no_call_of_an_account_with_a_rate() {
    let world = world_with_rates("retell=1,retell-eu=1").await;
    for provider in [Provider::Retell, retell_eu()] {
        let mut later = request(&[provider]);
        later["due_at"] = json!(world.now().plus(MINUTE * 5).to_string());
        create(&world, &later).await;
    }
    world.set_fault_hook(|call| {
        let is_of_list = String::from_utf8_lossy(call.body).contains("accounts\"}");
        (call.operation == "GetItem" && call.sender == Some("scheduler") && is_of_list).then(down)
    });
    world.wait(MINUTE * 7).await;
    for provider in [Provider::Retell, retell_eu()] {
        assert_eq!(dials_of(&world, provider).len(), 1, "{provider}");
    }
    assert!(world.cloud.schedule().await.unwrap().is_err());
}

/// Accounts cost one write when they get their rate, and each process that creates calls for them one read.
#[tokio::test(start_paused = true)]
async fn list_of_accounts_costs_next_to_nothing() {
    let mut world = world_with_rates("retell-eu=1").await;
    world.wait(MINUTE * 3).await;
    world.stop();
    let count = |operation: &str| world.requests().get(operation).copied().unwrap_or(0);
    assert_eq!(count("UpdateItem"), 1);
    let reads = async |providers: &[Provider]| {
        let before = count("GetItem");
        assert_eq!(world.calls.unlisted_account(providers).await.unwrap(), None);
        count("GetItem") - before
    };
    assert_eq!(reads(&[Provider::Retell]).await, 0);
    assert_eq!(reads(&[Provider::Retell, retell_eu()]).await, 1);
    assert_eq!(reads(&[retell_eu()]).await, 0);
}

/// The list and the rows are items of the same table.
#[tokio::test(start_paused = true)]
async fn account_of_a_call_that_is_rebuilt_is_listed_again() {
    let mut world = world_with_rates("retell-eu=1").await;
    let began = world.now();
    let mut request = request(&[retell_eu()]);
    request["due_at"] = json!("2026-01-02T00:00:00Z");
    let call_id = create(&world, &request).await;
    world.wait(MINUTE * 5).await;
    world.stop();
    world.delete_item(CALLS_TABLE, &call_id).await;
    world.delete_item(CALLS_TABLE, "provider-health:accounts").await;
    repair(&stack_of(&world), began).await;
    assert!(world.call(&call_id).await.plan.is_some());
    assert_eq!(world.calls.accounts().await.unwrap(), [retell_eu()].into());
}

/// A booking rule may name an account before it has a rate. Nothing of the booking is lost meanwhile.
#[tokio::test(start_paused = true)]
async fn booking_for_an_account_without_a_rate_is_tried_again_until_it_has_one() {
    let mut secret = bookings::secret();
    secret["x-calcom"]["events"]["booked_call"]["providers"] = json!([retell_eu()]);
    let world = World::with_secret(&secret);
    bookings::receive(&world, &[bookings::created("b1", 0, 5 * bookings::HOUR_S)]).await;
    world.wait(MINUTE * 4).await;
    let call_id = bookings::call_id(&world, "b1").await.unwrap();
    assert!(world.load(&call_id).await.is_none());
    let waiting = world.attention(AttentionKind::Retrying).await;
    assert_eq!(waiting.iter().map(|mark| mark.cause.as_deref()).collect::<Vec<_>>(), [Some("unlisted_account")]);
    let event_id = waiting[0].event_id.clone().unwrap();
    let status = async || {
        let of_tool = events::status(&stack_of(&world), &event_id).await.unwrap().unwrap().status;
        (of_tool, world.status(&event_id).await["status"].clone())
    };
    assert_eq!(status().await, ("retrying", json!("retrying")));
    world.calls.list_accounts(&[retell_eu()].into()).await.unwrap();
    world.wait(MINUTE * 12).await;
    assert_eq!(world.call(&call_id).await.plan.unwrap().providers, [retell_eu()]);
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
    assert_eq!(status().await, ("applied", json!("processed")), "although the note has its failed tries");
}
