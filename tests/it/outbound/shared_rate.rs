//! Calls that share the places of a provider: the oldest comes first, whichever queue it waits in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use switchhook_aws::dynamodb::shard_of;
use switchhook_aws::shards::SHARDS_DEFAULT;
use switchhook_domain::{Provider, ProviderHealth};
use switchhook_local::{CloudOptions, DIAL_QUEUE};
use switchhook_tests::{MINUTE, World, dial_rates, options};

use super::HOUR;
use super::provider_health::{open, schedule};
use super::providers::all_accounts;
use crate::outbound_budget::wake_scheduler;

/// A stack that places one call a second with each of these providers. Its functions run only when a test invokes them.
fn stopped_world(providers: &[Provider]) -> World {
    let mut secret = all_accounts();
    for provider in Provider::ALL.into_iter().filter(|provider| !providers.contains(provider)) {
        secret[provider.as_str()].as_object_mut().map(|settings| settings.remove("dial"));
    }
    let dial_rates = dial_rates(&secret, "1");
    World::with_options(CloudOptions { dial_rates, dialers: 1_000, ..options(&secret) })
}

/// Number of calls with these ids that are claimed.
async fn claimed(world: &World, ids: &[String]) -> usize {
    let mut claimed = 0;
    for id in ids {
        claimed += usize::from(world.call(id).await.job.as_str() == "CLAIMED");
    }
    claimed
}

#[tokio::test(start_paused = true)]
async fn older_call_with_several_providers_comes_before_a_campaign() {
    let world = stopped_world(&[Provider::Retell, Provider::Vapi]);
    schedule(&world, "older", &[Provider::Retell, Provider::Vapi], Duration::ZERO).await;
    world.wait(Duration::from_secs(1)).await;
    for number in 0..800 {
        schedule(&world, &format!("campaign-{number}"), &[Provider::Retell], Duration::ZERO).await;
    }
    world.wait(Duration::from_secs(1)).await;
    let report = world.cloud.schedule().await.unwrap().unwrap();
    assert_eq!((report.claimed, world.call("older").await.job.as_str()), (116, "CLAIMED"));
    // No run of the next ten claims more than the rate.
    for _ in 0..10 {
        world.wait(MINUTE).await;
        let report = world.cloud.schedule().await.unwrap().unwrap();
        assert!(report.claimed <= 59, "{report:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_oldest_calls_of_all_shards_come_first() {
    let world = stopped_world(&[Provider::Retell]);
    let mut ids = Vec::new();
    for number in 0..300 {
        let id = format!("call-{number}");
        schedule(&world, &id, &[Provider::Retell], Duration::ZERO).await;
        ids.push(id);
        world.wait(Duration::from_millis(10)).await;
    }
    world.cloud.schedule().await.unwrap().unwrap();
    let (first, others) = ids.split_at(116);
    assert_eq!((claimed(&world, first).await, claimed(&world, others).await), (116, 0));
}

/// A lane dials one call after the other. If some had more claims than others, their claims would wait longer, and expire at last.
#[tokio::test(start_paused = true)]
async fn claims_are_spread_evenly_over_the_lanes() {
    let secret = all_accounts();
    let options = CloudOptions { dial_rates: dial_rates(&secret, "20"), dialers: 1_000, ..options(&secret) };
    let world = World::with_options(options);
    for number in 0..505 {
        schedule(&world, &format!("call-{number}"), &[Provider::Retell], Duration::ZERO).await;
        // Some are woken one by one, and the others claimed by a run.
        if number < 105 {
            wake_scheduler(&world).await;
        }
    }
    let report = world.cloud.schedule().await.unwrap().unwrap();
    assert_eq!(report.claimed, 400);
    let mut lanes: BTreeMap<String, usize> = BTreeMap::new();
    for message in world.cloud.services().sqs().messages(DIAL_QUEUE).unwrap() {
        *lanes.entry(message.group.unwrap()).or_default() += 1;
    }
    let counts: BTreeSet<usize> = lanes.values().copied().collect();
    assert_eq!((lanes.len(), counts), (50, BTreeSet::from([10, 11])), "{lanes:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_of_an_unavailable_provider_share_the_places_of_the_next_one() {
    let world = stopped_world(&[Provider::Retell, Provider::Vapi]);
    open(&world, Provider::Retell, MINUTE * 15).await;
    let (mut both, mut alone) = (Vec::new(), Vec::new());
    for number in 0..200 {
        let (first, second) = (format!("both-{number}"), format!("alone-{number}"));
        schedule(&world, &first, &[Provider::Retell, Provider::Vapi], Duration::ZERO).await;
        schedule(&world, &second, &[Provider::Vapi], Duration::ZERO).await;
        both.push(first);
        alone.push(second);
        world.wait(Duration::from_millis(10)).await;
    }
    let report = world.cloud.schedule().await.unwrap().unwrap();
    let (both, alone) = (claimed(&world, &both).await, claimed(&world, &alone).await);
    assert_eq!((report.claimed, both, alone), (116, 58, 58));
}

#[tokio::test(start_paused = true)]
async fn calls_that_find_no_provider_block_none_behind_them() {
    let world = stopped_world(&[Provider::Retell, Provider::Twilio, Provider::Vapi]);
    open(&world, Provider::Retell, MINUTE * 15).await;
    open(&world, Provider::Twilio, MINUTE * 15).await;
    let ids = (0..).map(|number| format!("call-{number}"));
    let mut ids = ids.filter(|id| shard_of(id, SHARDS_DEFAULT) == 0);
    for id in ids.by_ref().take(320) {
        schedule(&world, &id, &[Provider::Retell, Provider::Twilio], Duration::ZERO).await;
    }
    world.wait(Duration::from_secs(1)).await;
    let last = ids.next().unwrap();
    schedule(&world, &last, &[Provider::Retell, Provider::Vapi], Duration::ZERO).await;
    let report = world.cloud.schedule().await.unwrap().unwrap();
    assert_eq!((report.claimed, world.call(&last).await.job.as_str()), (1, "CLAIMED"));
}

#[tokio::test(start_paused = true)]
async fn calls_whose_first_provider_has_no_rate_go_to_the_next_one_from_every_shard() {
    let world = stopped_world(&[Provider::Vapi]);
    for number in 0..40 {
        schedule(&world, &format!("call-{number}"), &[Provider::Retell, Provider::Vapi], Duration::ZERO).await;
    }
    let report = world.cloud.schedule().await.unwrap().unwrap();
    assert_eq!((report.claimed, report.unconfigured), (40, 0));
}

#[tokio::test(start_paused = true)]
async fn one_call_whose_first_provider_has_no_rate_is_found_in_whichever_shard_it_waits() {
    let world = stopped_world(&[Provider::Vapi]);
    for shard in 0..SHARDS_DEFAULT {
        let id = (0..).map(|number| format!("call-{number}")).find(|id| shard_of(id, SHARDS_DEFAULT) == shard).unwrap();
        schedule(&world, &id, &[Provider::Retell, Provider::Vapi], Duration::ZERO).await;
        let report = world.cloud.schedule().await.unwrap().unwrap();
        assert_eq!(report.claimed, 1, "shard {shard}");
    }
}

/// Two runs at the same time see the same free places. The one that comes too late must not read all that waits.
#[tokio::test(start_paused = true)]
async fn run_that_comes_too_late_for_the_places_reads_little() {
    let world = stopped_world(&[Provider::Retell]);
    for number in 0..1_500 {
        schedule(&world, &format!("call-{number}"), &[Provider::Retell], Duration::ZERO).await;
    }
    drop(world.requests());
    let (one, two) = (world.cloud.scheduler(), world.cloud.scheduler());
    let (one, two) = tokio::join!(one.run("one"), two.run("two"));
    let claimed = one.unwrap().claimed + two.unwrap().claimed;
    let reads = world.requests()["GetItem"];
    println!("{claimed} claimed, {reads} reads");
    assert!(claimed >= 100 && reads <= 600, "{claimed} claimed, {reads} reads");
}

/// The rate of the provider is used up for a long time. The run still shows how long its calls have waited.
#[tokio::test(start_paused = true)]
async fn run_without_a_free_place_shows_how_long_calls_wait() {
    let world = stopped_world(&[Provider::Retell]);
    schedule(&world, "one", &[Provider::Retell], Duration::ZERO).await;
    schedule(&world, "two", &[Provider::Retell, Provider::Vapi], Duration::ZERO).await;
    let booked_until = Some(world.now().plus(HOUR));
    let book = |health: &ProviderHealth| Some((ProviderHealth { booked_until, ..health.clone() }, ()));
    world.calls.change_provider_health(Provider::Retell, book).await.unwrap();
    world.wait(MINUTE * 5).await;
    let report = world.cloud.schedule().await.unwrap().unwrap();
    assert_eq!(report.claimed, 0);
    assert!(report.due_overdue_ms.is_some_and(|ms| ms >= 300_000), "{report:?}");
}
