//! Calls that share the places of a provider: the oldest comes first, whichever queue it waits in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_aws::dynamodb::shard_of;
use switchhook_aws::shards::SHARDS_DEFAULT;
use switchhook_domain::{DialFailure, EventKind, MoveKind, Pace, Provider, ProviderHealth, Slowdown};
use switchhook_local::connector::Fault;
use switchhook_local::fake::{DeliveryFaults, Mode};
use switchhook_local::{CALLS_TABLE, CloudOptions, DIAL_QUEUE};
use switchhook_tests::{MINUTE, World, dial_rates, options};

use super::provider_health::{open, open_after, schedule};
use super::providers::all_accounts;
use super::{HOUR, call_request, create};
use crate::budget::reset_counters;
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

/// The rate has 116 free places. A booking that is made twice would leave 16 for the calls, and 100 empty.
#[tokio::test(start_paused = true)]
async fn booking_whose_answer_is_lost_is_made_once() {
    let world = stopped_world(&[Provider::Retell]);
    for number in 0..100 {
        schedule(&world, &format!("call-{number}"), &[Provider::Retell], Duration::ZERO).await;
    }
    world.inject_fault("PutItem", CALLS_TABLE, 1, Fault::ResponseLost);
    assert_eq!(world.cloud.schedule().await.unwrap().unwrap().claimed, 100);
    assert_eq!(world.calls.provider_health(Provider::Retell).await.unwrap().places_booked, 100);
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
    assert_eq!((lanes.len(), counts), (49, BTreeSet::from([10, 11])), "{lanes:?}");
}

/// A stack that places this many calls per second with Retell, and gets no webhooks. Its functions run only when a test invokes them.
fn stopped_with_retell(rate: &str) -> World {
    let secret = all_accounts();
    let dial_rates = format!("retell={rate}").parse().unwrap();
    let world = World::with_options(CloudOptions { dial_rates, dialers: 1_000, ..options(&secret) });
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    world
}

/// The same stack, running.
fn world_with_retell(rate: &str) -> World {
    let mut world = stopped_with_retell(rate);
    world.start();
    world
}

/// A call that is not tried again.
fn single_attempt() -> Value {
    let mut request = call_request("busy");
    request["retry"] = json!({"attempts_max": 1});
    request
}

/// Times of all requests to place a call, in milliseconds.
fn dialled_ms(world: &World) -> Vec<i64> {
    let mut times: Vec<i64> = world.cloud.fake().dials().iter().map(|dial| dial.started_ms).collect();
    times.sort_unstable();
    times
}

/// Largest number of times within this number of milliseconds.
fn most_within(times: &[i64], ms: i64) -> usize {
    times.iter().map(|from| times.iter().filter(|time| (*from..*from + ms).contains(time)).count()).max().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_due_together_are_dialled_one_after_the_other_at_the_rate() {
    let world = world_with_retell("3");
    let due_at = world.now().plus(Duration::from_secs(200));
    for _ in 0..40 {
        let mut request = single_attempt();
        request["due_at"] = json!(due_at.to_string());
        create(&world, &request).await;
    }
    world.wait(Duration::from_secs(200) + Duration::from_secs(20)).await;
    let times = dialled_ms(&world);
    assert_eq!(times.len(), 40);
    assert!(most_within(&times, 1_000) <= 4, "{times:?}");
    assert!(times[39] - times[0] < 15_000, "{times:?}");
}

/// A provider that has answered 429 once gets half as many requests, and no bursts of them.
#[tokio::test(start_paused = true)]
async fn lowered_rate_is_kept_by_the_dialers() {
    for (rate, thousandths, per_10_s, least) in [("5", 500, 27, 100), ("5", 100, 7, 70), ("0.5", 500, 4, 36)] {
        let world = world_with_retell(rate);
        let slow = |health: &ProviderHealth| {
            let slowdown = Some(Slowdown { rate: thousandths, since: world.now() });
            Some((ProviderHealth { slowdown, ..health.clone() }, ()))
        };
        world.calls.change_provider_health(Provider::Retell, slow).await.unwrap();
        for _ in 0..100 {
            create(&world, &single_attempt()).await;
        }
        world.wait(MINUTE * 3).await;
        let times = dialled_ms(&world);
        let most = most_within(&times, 10_000);
        assert!(most <= per_10_s, "{rate} at {thousandths}: {most} in ten seconds");
        // The lowered rate is used, too.
        assert!(times.len() >= least, "{rate} at {thousandths}: {} dials", times.len());
    }
}

/// Claims that were queued while no dialer ran have places whose times are long past. Each lane has one of them at once, and then keeps its
/// rate.
#[tokio::test(start_paused = true)]
async fn claims_that_are_late_keep_the_rate_of_the_lanes() {
    let mut world = stopped_with_retell("5");
    for number in 0..100 {
        schedule(&world, &format!("call-{number}"), &[Provider::Retell], Duration::ZERO).await;
    }
    assert_eq!(world.cloud.schedule().await.unwrap().unwrap().claimed, 100);
    world.wait(MINUTE).await;
    world.start();
    world.wait(MINUTE).await;
    let times = dialled_ms(&world);
    assert_eq!(times.len(), 100);
    assert!(most_within(&times, 2_500) <= 13, "{times:?}");
    assert!(times[99] - times[0] < 25_000, "{times:?}");
}

/// One answer 429 voids all claims, which may be thousands.
#[tokio::test(start_paused = true)]
async fn void_claims_are_returned_without_a_read_of_the_health_for_each() {
    let world = stopped_with_retell("100");
    for number in 0..100 {
        schedule(&world, &format!("call-{number}"), &[Provider::Retell], Duration::ZERO).await;
    }
    assert_eq!(world.cloud.schedule().await.unwrap().unwrap().claimed, 100);
    world.wait(Duration::from_secs(1)).await;
    let slow = |health: &ProviderHealth| {
        let slowdown = Some(Slowdown { rate: 500, since: world.now() });
        Some((ProviderHealth { slowdown, ..health.clone() }, ()))
    };
    world.calls.change_provider_health(Provider::Retell, slow).await.unwrap();
    reset_counters(&world);
    let mut returned = 0;
    while returned < 100 {
        let claims = world.take_claims();
        returned += claims.records.len();
        world.cloud.dialer().handle(claims).await;
    }
    assert_eq!((world.cloud.fake().requests(), world.requests()["GetItem"]), (0, 100 + 1), "each reads its call");
}

/// Each answer takes three times as long as a lane has for a dial. The claims come later and later, and would wait for a dialer until they
/// expire.
#[tokio::test(start_paused = true)]
async fn lane_of_a_slow_provider_returns_claims_before_they_expire() {
    const CALLS: usize = 80;
    let world = world_with_retell("0.4");
    world.cloud.fake().set_answer_time(Provider::Retell, Duration::from_millis(7_500));
    let mut ids = Vec::new();
    for _ in 0..CALLS {
        ids.push(create(&world, &single_attempt()).await);
    }
    world.wait(MINUTE * 14).await;
    assert_eq!(dialled_ms(&world).len(), CALLS);
    let mut returned = 0;
    for id in &ids {
        let call = world.call(id).await;
        assert!(call.history.iter().all(|entry| entry.event.kind != EventKind::ClaimExpired), "{call:#?}");
        let last = |kind: MoveKind| call.moves.iter().rfind(|one| one.kind == kind).unwrap().at;
        let waited_ms = last(MoveKind::Dialled).millis_since(last(MoveKind::Claimed));
        assert!(waited_ms < 210_000, "{call:#?}");
        returned += call.moves.iter().filter(|one| one.reason.as_deref() == Some("dialers_late")).count();
    }
    assert!(returned > CALLS / 2, "{returned}");
}

/// Places whose claims were lost, or were called off. The lanes do not stand still until the time of the claims that come after them.
#[tokio::test(start_paused = true)]
async fn lanes_work_at_their_rate_although_places_are_empty() {
    let world = world_with_retell("1");
    let pace =
        Pace { interval: Duration::from_secs(1), ahead: MINUTE, calls_max: None, in_flight: None, is_in_turn: true };
    let empty = |health: &ProviderHealth| Some((health.book(60, &pace, world.now())?.0, ()));
    world.calls.change_provider_health(Provider::Retell, empty).await.unwrap();
    for _ in 0..300 {
        create(&world, &single_attempt()).await;
    }
    world.wait(MINUTE * 5).await;
    let times = dialled_ms(&world);
    assert!(times.len() >= 200, "{} dials", times.len());
    assert!(most_within(&times, 10_000) <= 13, "{times:?}");
}

/// The refusals of an outage end the claims of the next two minutes, but not the places that were booked for them.
#[tokio::test(start_paused = true)]
async fn calls_are_placed_again_at_the_full_rate_after_an_outage() {
    let world = world_with_retell("1");
    for _ in 0..300 {
        create(&world, &single_attempt()).await;
    }
    world.wait(Duration::from_secs(10)).await;
    world.cloud.fake().set_mode(Mode::OutOfCredit);
    world.wait(Duration::from_secs(15)).await;
    world.cloud.fake().set_mode(Mode::Normal);
    let before = dialled_ms(&world).len();
    world.wait(MINUTE * 6).await;
    let dials = dialled_ms(&world).len() - before;
    assert!(dials >= 200, "{dials} dials");
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

/// A later version wrote the health of a third provider, which the calls do not name, or name before the one that takes them.
#[tokio::test(start_paused = true)]
async fn provider_whose_health_cannot_be_read_keeps_no_call_from_the_next_one() {
    let world = stopped_world(&[Provider::Retell, Provider::Telnyx, Provider::Bland]);
    open(&world, Provider::Retell, MINUTE * 15).await;
    open(&world, Provider::Bland, MINUTE * 15).await;
    let mut later = world.item(CALLS_TABLE, "provider-health:bland").await;
    later.insert("schema_version".to_owned(), AttributeValue::N("2".to_owned()));
    world.put_item(CALLS_TABLE, later).await;
    schedule(&world, "unnamed", &[Provider::Retell, Provider::Telnyx], Duration::ZERO).await;
    schedule(&world, "between", &[Provider::Retell, Provider::Bland, Provider::Telnyx], Duration::ZERO).await;
    schedule(&world, "first", &[Provider::Bland, Provider::Telnyx], Duration::ZERO).await;
    // The alarm of failed runs must see it.
    let error = world.cloud.schedule().await.unwrap().unwrap_err();
    assert!(error.to_string().contains("schema version 2"), "{error}");
    for id in ["unnamed", "between", "first"] {
        assert_eq!(world.call(id).await.job.as_str(), "CLAIMED", "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn provider_whose_health_cannot_be_read_is_not_read_again_for_each_call() {
    const CALLS: usize = 40;
    let world = stopped_world(&[Provider::Retell, Provider::Bland]);
    open(&world, Provider::Bland, MINUTE * 15).await;
    let mut later = world.item(CALLS_TABLE, "provider-health:bland").await;
    later.insert("schema_version".to_owned(), AttributeValue::N("2".to_owned()));
    world.put_item(CALLS_TABLE, later).await;
    for number in 0..CALLS {
        schedule(&world, &format!("c{number}"), &[Provider::Bland, Provider::Retell], Duration::ZERO).await;
    }
    reset_counters(&world);
    world.cloud.schedule().await.unwrap().unwrap_err();
    // Each call is read once, and with its claim the do-not-call list.
    let reads = world.requests()["GetItem"];
    assert!(reads < 2 * CALLS as u64 + 20, "{reads}");
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

/// The first provider of the calls gets none, for whatever reason. Nobody else would find out that the second one works again.
#[tokio::test(start_paused = true)]
async fn second_provider_of_the_calls_gets_its_probe() {
    for is_first_configured in [false, true] {
        let configured: &[_] =
            if is_first_configured { &[Provider::Retell, Provider::Vapi] } else { &[Provider::Vapi] };
        let world = stopped_world(configured);
        open(&world, Provider::Vapi, Duration::from_secs(30)).await;
        if is_first_configured {
            open(&world, Provider::Retell, MINUTE * 15).await;
        }
        for number in 0..5 {
            schedule(&world, &format!("call-{number}"), &[Provider::Retell, Provider::Vapi], Duration::ZERO).await;
        }
        let report = world.cloud.schedule().await.unwrap().unwrap();
        assert_eq!((report.claimed, report.unconfigured), (0, 0));
        world.wait(MINUTE).await;
        let report = world.cloud.schedule().await.unwrap().unwrap();
        assert_eq!((report.claimed, report.unconfigured), (1, 0));
    }
}

/// A stack in which calls name Retell, which is paused for another 20 seconds, and Vapi, whose probe is due since ten.
async fn with_a_paused_first_provider(configured: &[Provider], calls: usize) -> World {
    let world = stopped_world(configured);
    open_after(&world, Provider::Vapi, Duration::from_secs(30), DialFailure::UnclearAnswer).await;
    let paused_until = Some(world.now().plus(MINUTE));
    let pause = |health: &ProviderHealth| Some((ProviderHealth { paused_until, ..health.clone() }, ()));
    world.calls.change_provider_health(Provider::Retell, pause).await.unwrap();
    for number in 0..calls {
        schedule(&world, &format!("call-{number}"), &[Provider::Retell, Provider::Vapi], Duration::ZERO).await;
    }
    world.wait(Duration::from_secs(40)).await;
    assert!(world.calls.provider_health(Provider::Vapi).await.unwrap().needs_probe(world.now()));
    world
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_the_end_of_a_pause_are_not_read() {
    let world = with_a_paused_first_provider(&[Provider::Retell, Provider::Vapi], 250).await;
    drop(world.requests());
    assert_eq!(world.cloud.schedule().await.unwrap().unwrap().claimed, 0);
    let reads = world.requests()["GetItem"];
    assert!(reads <= 20, "{reads} reads");
}

/// The first provider takes calls again within seconds. A probe of one that gives no clear answers may be in doubt for hours.
#[tokio::test(start_paused = true)]
async fn call_of_a_provider_that_is_only_paused_is_no_probe_of_the_second_one() {
    for configured in [&[Provider::Retell, Provider::Vapi][..], &[Provider::Retell, Provider::Vapi, Provider::Telnyx]] {
        let world = with_a_paused_first_provider(configured, 1).await;
        assert_eq!(world.cloud.schedule().await.unwrap().unwrap().claimed, 0, "{configured:?}");
        world.wait(MINUTE).await;
        assert_eq!(world.cloud.schedule().await.unwrap().unwrap().claimed, 1, "{configured:?}");
        let claim = &world.take_claims().records[0];
        assert!(claim.body.as_ref().unwrap().contains("\"provider\":\"retell\""), "{claim:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_of_which_no_provider_has_a_rate_are_reported_every_ten_minutes() {
    for (configured, pair_is_read) in [(&[Provider::Retell][..], true), (&[], false)] {
        let world = stopped_world(configured);
        schedule(&world, "one", &[Provider::Vapi, Provider::Telnyx], Duration::ZERO).await;
        schedule(&world, "two", &[Provider::Plivo], Duration::ZERO).await;
        let mut reported = Vec::new();
        for _ in 0..=20 {
            let report = world.cloud.schedule().await.unwrap().unwrap();
            assert_eq!(report.claimed, 0, "{configured:?}");
            reported.push(report.unconfigured);
            world.wait(MINUTE).await;
        }
        // A provider with a free place could take the call of two providers, so each run reads it.
        let between = u64::from(pair_is_read);
        let expected: Vec<u64> = (0..=20).map(|minute| if minute % 10 == 0 { 2 } else { between }).collect();
        assert_eq!(reported, expected, "{configured:?}");
    }
}

/// The oldest call of the queue waits for Retell, which is unavailable. It must not hide those that nobody can place.
#[tokio::test(start_paused = true)]
async fn call_without_a_rate_is_reported_beside_calls_that_wait_for_a_place() {
    let world = stopped_world(&[Provider::Retell]);
    open(&world, Provider::Retell, MINUTE * 15).await;
    schedule(&world, "two", &[Provider::Vapi, Provider::Retell], Duration::ZERO).await;
    for number in 0..20 {
        schedule(&world, &format!("call-{number}"), &[Provider::Vapi, Provider::Telnyx], Duration::ZERO).await;
    }
    let report = world.cloud.schedule().await.unwrap().unwrap();
    assert_eq!((report.claimed, report.unconfigured), (0, 1));
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
