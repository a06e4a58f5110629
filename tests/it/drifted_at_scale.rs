//! The drift check with much to do. Each settled call is looked at once, whatever other providers do.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use serde_json::{Value, json};
use switchhook_aws::shards::SHARDS_DEFAULT;
use switchhook_domain::{Call, Job, Provider, Timestamp};
use switchhook_local::fake::{DeliveryFaults, Mode};
use switchhook_local::{CloudOptions, DIAL_ACCOUNTS_SECRET};
use switchhook_tests::{KEY, MINUTE, World, all_providers, generic, options};

use crate::budget::reset_counters;
use crate::outbound::{HOUR, all_accounts};
use crate::reconciled::{consume_all, place_outside, store_copies};
use crate::repaired_at_scale::{REQUESTS, begun, next_minute};
use crate::traffic::twilio_call;

/// Requests to one provider in a minute that the drift check may send.
const FOR_DRIFT: u64 = REQUESTS * 40 / 100;

/// Stores copies of a call that are settled since `settled_at`.
async fn store_settled(world: &World, call: &Call, name: &str, count: usize, settled_at: Timestamp) {
    let settled = Call { wake_at: None, settled_at: Some(settled_at), ..call.clone() };
    store_copies(world, &settled, name, count).await;
}

/// A settled call whose job differs from what its events give.
async fn altered(world: &World) -> Call {
    world.accept(Provider::Generic, &generic("c", "e1", "RINGING", 0)).await;
    world.accept(Provider::Generic, &generic("c", "e2", "BUSY", 1)).await;
    consume_all(world).await;
    Call { job: Job::Completed, ..world.call("c").await }
}

#[tokio::test(start_paused = true)]
async fn drifted_call_is_found_behind_many_fresh_endings() {
    let world = World::stopped();
    let altered = altered(&world).await;
    let right = world.call("c").await;
    store_settled(&world, &altered, "drifted", 1, world.now()).await;
    world.wait(MINUTE * 20).await;
    store_settled(&world, &right, "fresh", 200, world.now()).await;
    let report = world.cloud.check_drift().await.unwrap().unwrap();
    assert_eq!((report.drifted, report.checked), (1, 2), "the fresh ones are left to the next check: {report:?}");
}

#[tokio::test(start_paused = true)]
async fn each_settled_call_is_looked_at_once() {
    const CALLS: usize = 700;
    let world = World::stopped();
    let altered = altered(&world).await;
    let right = world.call("c").await;
    let mut checked = 0;
    for hour in 0..3 {
        store_settled(&world, &right, &format!("right{hour}-"), CALLS, world.now()).await;
        store_settled(&world, &altered, &format!("altered{hour}-"), 10, world.now()).await;
        world.wait(HOUR).await;
        let report = world.cloud.check_drift().await.unwrap().unwrap();
        assert_eq!((report.drifted, report.skipped_ms), (10, 0), "{report:?}");
        checked += report.checked;
    }
    assert_eq!(checked as usize, 1 + 3 * (CALLS + 10), "each call once, and the first one");
    assert_eq!(world.cloud.check_drift().await.unwrap().unwrap().checked, 0);
}

#[tokio::test(start_paused = true)]
async fn drift_check_that_has_no_requests_left_goes_on_in_the_next_minutes() {
    const CALLS: u64 = FOR_DRIFT + 150;
    let world = World::stopped();
    let call = begun(&world, "p").await;
    store_settled(&world, &call, "settled", CALLS as usize, world.now()).await;
    world.wait(MINUTE * 13).await;
    let first = world.cloud.check_drift().await.unwrap().unwrap();
    assert_eq!((first.lookups, first.budget_used_up), (FOR_DRIFT, 1), "{first:?}");
    for _ in 0..4 {
        next_minute(&world).await;
    }
    let runs = world.logged("drift_run");
    let checked: u64 = runs.iter().map(|run| run["drift_checked"].as_u64().unwrap_or(0)).sum();
    // The call that is open was looked at too, by the first check.
    assert_eq!(checked, CALLS + 1, "{runs:?}");
    assert!(runs.len() > 1 && runs.len() <= 5, "{runs:?}");
    next_minute(&world).await;
    assert_eq!(world.logged("drift_run").len(), runs.len(), "a check that is done is not repeated");
}

#[tokio::test(start_paused = true)]
async fn first_drift_check_looks_at_calls_of_hours_before() {
    let world = World::stopped();
    let altered = altered(&world).await;
    store_settled(&world, &altered, "old", 1, world.now()).await;
    world.wait(HOUR * 3).await;
    assert_eq!(world.cloud.check_drift().await.unwrap().unwrap().drifted, 1);
}

#[tokio::test(start_paused = true)]
async fn drift_check_that_is_hours_behind_leaves_out_the_oldest_calls_and_says_so() {
    let world = World::stopped();
    let altered = altered(&world).await;
    assert_eq!(world.cloud.check_drift().await.unwrap().unwrap().skipped_ms, 0, "the first check skips nothing");
    store_settled(&world, &altered, "old", 1, world.now()).await;
    world.wait(HOUR * 7).await;
    store_settled(&world, &altered, "new", 1, world.now()).await;
    world.wait(HOUR).await;
    let report = world.cloud.check_drift().await.unwrap().unwrap();
    assert_eq!(report.drifted, 1, "{report:?}");
    // The last check ended ten minutes before it began, eight hours ago. Calls of the last six hours are looked at.
    let skipped = HOUR * 2 + MINUTE * 10;
    let skipped_ms = Duration::from_millis(report.skipped_ms / SHARDS_DEFAULT);
    assert!(skipped_ms > skipped - MINUTE && skipped_ms < skipped + MINUTE, "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn drift_check_of_a_failing_provider_waits_for_it() {
    let world = World::stopped();
    let call = begun(&world, "p").await;
    store_settled(&world, &call, "settled", 100, world.now()).await;
    world.wait(MINUTE * 13).await;
    world.cloud.fake().set_mode(Mode::Down);
    let report = world.cloud.check_drift().await.unwrap().unwrap();
    assert!(report.lookups < 30 && report.checked < 30, "a provider that keeps failing is left alone: {report:?}");
    world.cloud.fake().set_mode(Mode::Normal);
    // The provider is left alone until the next hourly check.
    next_minute(&world).await;
    assert_eq!(world.logged("drift_run").len(), 1);
    world.cloud.check_drift().await.unwrap().unwrap();
    let checked: u64 = world.logged("drift_run").iter().map(|run| run["drift_checked"].as_u64().unwrap_or(0)).sum();
    assert!(checked >= 100, "{checked} calls were looked at");
}

/// A stack with an open call at each of two providers. The second call is Twilio's.
async fn with_two_providers() -> (World, [Call; 2]) {
    two_providers_of(options(&all_accounts())).await
}

/// The same, with these options.
async fn two_providers_of(options: CloudOptions) -> (World, [Call; 2]) {
    let world = World::with_options(options);
    let retell = begun(&world, "p").await;
    let webhook = twilio_call(0, false).swap_remove(0);
    world.post_signed(Provider::Twilio, KEY, &webhook.query, webhook.body.as_bytes()).await;
    consume_all(&world).await;
    let (_, id) = webhook.body.split_once("&CallSid=").unwrap();
    let twilio = world.call(&format!("twilio:{}", id.split('&').next().unwrap())).await;
    (world, [retell, twilio])
}

/// Requests to a provider so far, and those among them that it did not answer.
fn asked(world: &World, provider: Provider) -> [u64; 2] {
    let lines = world.logged("provider_asked");
    let lines = lines.iter().filter(|line| line["provider"] == provider.as_str());
    lines.fold([0, 0], |[sent, failed], line| {
        let count = |name: &str| line.get(name).and_then(Value::as_u64).unwrap_or(0);
        [sent + count("provider_requests"), failed + count("provider_request_failed")]
    })
}

/// Lets each shard have its turn in the runs of the minutes.
async fn next_minutes(world: &World) {
    for _ in 0..SHARDS_DEFAULT {
        next_minute(world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn provider_that_fails_keeps_the_drift_check_from_no_call_of_another() {
    const CALLS: u64 = 300;
    let (world, [retell, twilio]) = with_two_providers().await;
    let settled_at = |ms| world.now().minus(MINUTE * 11).plus(Duration::from_millis(ms));
    for number in 0..CALLS {
        store_settled(&world, &retell, &format!("retell{number}-"), 1, settled_at(2 * number)).await;
        store_settled(&world, &twilio, &format!("twilio{number}-"), 1, settled_at(2 * number + 1)).await;
    }
    world.cloud.fake().set_mode_of(Provider::Retell, Mode::Down);
    let report = world.cloud.check_drift().await.unwrap().unwrap();
    // The call that is open was looked at too.
    assert_eq!(asked(&world, Provider::Twilio), [CALLS + 1, 0], "{report:?}");
    let failed = asked(&world, Provider::Retell);
    assert!(failed[0] == failed[1] && failed[0] < 20, "a provider that keeps failing is left alone: {failed:?}");
    // Its calls wait for the next hourly check, and are looked at then. No call of the other provider is looked at again.
    world.cloud.fake().set_mode_of(Provider::Retell, Mode::Normal);
    next_minutes(&world).await;
    assert_eq!((asked(&world, Provider::Retell), world.logged("drift_run").len()), (failed, 1));
    world.cloud.check_drift().await.unwrap().unwrap();
    // Each check looks at the open calls too.
    assert_eq!(asked(&world, Provider::Retell), [failed[0] + CALLS + 1, failed[1]]);
    assert_eq!(asked(&world, Provider::Twilio), [CALLS + 2, 0]);
    let runs = world.logged("drift_run").len();
    next_minutes(&world).await;
    assert_eq!(world.logged("drift_run").len(), runs, "a check that is done is not repeated");
}

/// The calls of the slow provider come in turns with those of the other, and all before them.
#[tokio::test(start_paused = true)]
async fn provider_that_answers_slowly_keeps_the_drift_check_from_no_call_of_another() {
    const CALLS: u64 = 300;
    for (answer_s, twilio_after) in [(2, 1), (7, 2 * CALLS)] {
        let (world, [retell, twilio]) = with_two_providers().await;
        let settled_at = |ms| world.now().minus(MINUTE * 11).plus(Duration::from_millis(ms));
        for number in 0..CALLS {
            store_settled(&world, &retell, &format!("retell{number}-"), 1, settled_at(2 * number)).await;
            let at = settled_at(2 * number + twilio_after);
            store_settled(&world, &twilio, &format!("twilio{number}-"), 1, at).await;
        }
        world.cloud.fake().set_answer_time(Provider::Retell, Duration::from_secs(answer_s));
        let report = world.cloud.check_drift().await.unwrap().unwrap();
        // The call that is open was looked at too.
        assert_eq!(asked(&world, Provider::Twilio), [CALLS + 1, 0], "{answer_s} s: {report:?}");
        for _ in 0..3 {
            next_minutes(&world).await;
        }
        let (slow, runs) = (asked(&world, Provider::Retell), world.logged("drift_run").len());
        // The calls that are asked about when the time of a worker ends are asked about again, eight in each of the four shards.
        assert!(slow[0] > CALLS && slow[0] < CALLS + 8 * (runs as u64 + 3), "{answer_s} s: {slow:?} in {runs} runs");
        next_minutes(&world).await;
        assert_eq!(world.logged("drift_run").len(), runs, "a check that is done is not repeated");
    }
}

#[tokio::test(start_paused = true)]
async fn provider_without_requests_left_keeps_the_drift_check_from_no_call_of_another() {
    const BUSY: u64 = FOR_DRIFT + 150;
    const QUIET: u64 = 50;
    let (world, [retell, twilio]) = with_two_providers().await;
    let settled_at = world.now().minus(MINUTE * 11);
    store_settled(&world, &retell, "busy", BUSY as usize, settled_at).await;
    store_settled(&world, &twilio, "quiet", QUIET as usize, settled_at.plus(Duration::from_millis(1))).await;
    reset_counters(&world);
    let first = world.cloud.check_drift().await.unwrap().unwrap();
    assert_eq!(asked(&world, Provider::Retell), [FOR_DRIFT, 0], "{first:?}");
    assert_eq!(asked(&world, Provider::Twilio), [QUIET + 1, 0], "{first:?}");
    next_minutes(&world).await;
    assert_eq!(asked(&world, Provider::Retell), [BUSY + 1, 0]);
    assert_eq!(asked(&world, Provider::Twilio), [QUIET + 1, 0]);
    let runs = world.logged("drift_run");
    let checked: u64 = runs.iter().map(|run| run["drift_checked"].as_u64().unwrap_or(0)).sum();
    assert_eq!(checked, BUSY + QUIET + 2, "{runs:?}");
    // A call is read once, and once more if its provider could not be asked then. The rest are cursors.
    assert!(world.requests()["GetItem"] < 2 * (BUSY + QUIET), "{:?}", world.requests());
    next_minutes(&world).await;
    assert_eq!(world.logged("drift_run").len(), runs.len(), "a check that is done is not repeated");
}

#[tokio::test(start_paused = true)]
async fn provider_that_fails_for_many_hours_loses_the_oldest_calls_and_no_other_provider_loses_any() {
    const HOURS: u64 = 9;
    const CALLS: u64 = 20;
    let (world, [retell, twilio]) = with_two_providers().await;
    world.cloud.check_drift().await.unwrap().unwrap();
    let before = asked(&world, Provider::Retell);
    world.cloud.fake().set_mode_of(Provider::Retell, Mode::Unauthorized);
    let mut skipped_ms = 0;
    for hour in 0..HOURS {
        store_settled(&world, &retell, &format!("retell{hour}-"), CALLS as usize, world.now()).await;
        store_settled(&world, &twilio, &format!("twilio{hour}-"), CALLS as usize, world.now()).await;
        world.wait(HOUR).await;
        skipped_ms += world.cloud.check_drift().await.unwrap().unwrap().skipped_ms;
    }
    // Each check looks at the open call too.
    assert_eq!(asked(&world, Provider::Twilio), [HOURS * CALLS + HOURS + 1, 0]);
    assert!(skipped_ms / SHARDS_DEFAULT > HOUR.as_millis() as u64, "{skipped_ms}");
    let failed = asked(&world, Provider::Retell);
    world.cloud.fake().set_mode_of(Provider::Retell, Mode::Normal);
    world.cloud.check_drift().await.unwrap().unwrap();
    let looked_at = asked(&world, Provider::Retell)[0] - failed[0];
    assert!((5 * CALLS..=6 * CALLS + 1).contains(&looked_at), "the calls of six hours, and the open one: {looked_at}");
    assert_eq!(failed[0] - failed[1], before[0] - before[1]);
}

/// Stores the dial accounts with another entry of Retell, or without one. The version before has the same, so that nothing bridges it.
fn put_account_of_retell(world: &World, entry: Option<Value>) {
    let mut accounts = options(&all_accounts()).providers.dial_accounts_document();
    accounts.remove("retell");
    accounts.extend(entry.map(|entry| ("retell".to_owned(), entry)));
    for _ in 0..2 {
        world.cloud.services().secrets_manager().put(DIAL_ACCOUNTS_SECRET, &Value::from(accounts.clone()).to_string());
    }
}

/// Entries of Retell without which it cannot be asked: a wrong one, and none.
fn no_account() -> [Option<Value>; 2] {
    [Some(json!({"dial": {}})), None]
}

#[tokio::test(start_paused = true)]
async fn settled_calls_of_a_provider_without_an_account_are_looked_at_once_it_has_one() {
    const CALLS: u64 = 150;
    for entry in no_account() {
        let reading = CloudOptions { reads_secrets: true, ..options(&all_accounts()) };
        let (world, [retell, twilio]) = two_providers_of(reading).await;
        put_account_of_retell(&world, entry.clone());
        let settled_at = world.now().minus(MINUTE * 11);
        store_settled(&world, &retell, "retell", CALLS as usize, settled_at).await;
        store_settled(&world, &twilio, "twilio", CALLS as usize, settled_at.plus(Duration::from_millis(1))).await;
        let report = world.cloud.check_drift().await.unwrap().unwrap();
        // Each check looks at the open calls too.
        assert_eq!(asked(&world, Provider::Twilio), [CALLS + 1, 0], "{entry:?}: {report:?}");
        assert_eq!((asked(&world, Provider::Retell), report.checked), ([0, 0], CALLS + 1), "{entry:?}");
        next_minutes(&world).await;
        assert_eq!(world.logged("drift_run").len(), 1, "{entry:?}: the provider is left alone until the next check");

        let account = options(&all_accounts()).providers.dial_accounts_document()["retell"].clone();
        put_account_of_retell(&world, Some(account));
        world.wait(MINUTE * 6).await;
        world.cloud.check_drift().await.unwrap().unwrap();
        assert_eq!(asked(&world, Provider::Retell), [CALLS + 1, 0], "{entry:?}");
        assert_eq!(asked(&world, Provider::Twilio), [CALLS + 2, 0], "{entry:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn provider_without_an_account_for_many_hours_loses_the_oldest_calls_and_no_other_provider_loses_any() {
    const HOURS: u64 = 9;
    const CALLS: u64 = 20;
    for entry in no_account() {
        let reading = CloudOptions { reads_secrets: true, ..options(&all_accounts()) };
        let (world, [retell, twilio]) = two_providers_of(reading).await;
        put_account_of_retell(&world, entry.clone());
        let mut skipped_ms = 0;
        for hour in 0..HOURS {
            store_settled(&world, &retell, &format!("retell{hour}-"), CALLS as usize, world.now()).await;
            store_settled(&world, &twilio, &format!("twilio{hour}-"), CALLS as usize, world.now()).await;
            world.wait(HOUR).await;
            skipped_ms += world.cloud.check_drift().await.unwrap().unwrap().skipped_ms;
        }
        assert_eq!(asked(&world, Provider::Twilio), [HOURS * CALLS + HOURS, 0], "{entry:?}");
        // Nobody expects that a provider is asked which the accounts do not name.
        assert_eq!(skipped_ms / SHARDS_DEFAULT > HOUR.as_millis() as u64, entry.is_some(), "{entry:?}: {skipped_ms}");
        let account = options(&all_accounts()).providers.dial_accounts_document()["retell"].clone();
        put_account_of_retell(&world, Some(account));
        world.wait(MINUTE * 6).await;
        world.cloud.check_drift().await.unwrap().unwrap();
        let [looked_at, failed] = asked(&world, Provider::Retell);
        assert!((5 * CALLS..=6 * CALLS + 1).contains(&looked_at) && failed == 0, "{entry:?}: {looked_at}");
    }
}

/// Stores many settled calls, this time after they began. Retell gives a useful answer about all but one. Returns the provider's id of that
/// call, which is still open too.
async fn settled_with_one_unanswered(world: &World, age: Duration) -> String {
    const CALLS: usize = 50;
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let call = begun(world, "p").await;
    let provider_call_id = place_outside(world, "declines");
    let unheard = begun(world, &provider_call_id).await;
    world.wait(age).await;
    let settled_at = world.now().minus(MINUTE * 11);
    store_settled(world, &unheard, "unheard", 1, settled_at).await;
    store_settled(world, &call, "settled", CALLS, settled_at.plus(Duration::from_millis(1))).await;
    world.cloud.fake().change_field(&provider_call_id, "call_id", "another");
    provider_call_id
}

#[tokio::test(start_paused = true)]
async fn settled_call_without_an_answer_among_others_with_one_is_asked_about_once_more() {
    let world = World::stopped();
    let provider_call_id = settled_with_one_unanswered(&world, MINUTE * 13).await;
    let first = world.cloud.check_drift().await.unwrap().unwrap();
    assert_eq!((first.drifted, first.requests.failed), (0, 2), "the settled call and the open one: {first:?}");
    world.cloud.fake().change_field(&provider_call_id, "call_id", &provider_call_id);
    next_minutes(&world).await;
    let runs = world.logged("drift_run");
    let drifted: u64 = runs.iter().map(|run| run["drifted"].as_u64().unwrap_or(0)).sum();
    assert_eq!(drifted, 1, "{runs:?}");
    next_minutes(&world).await;
    assert_eq!(world.logged("drift_run").len(), runs.len(), "a check that is done is not repeated");
}

#[tokio::test(start_paused = true)]
async fn settled_call_that_never_gets_an_answer_is_asked_about_twice() {
    let world = World::stopped();
    settled_with_one_unanswered(&world, Duration::ZERO).await;
    world.cloud.check_drift().await.unwrap().unwrap();
    next_minutes(&world).await;
    next_minutes(&world).await;
    // The open call was asked about once, and is not overdue yet.
    assert_eq!(asked(&world, Provider::Retell)[1], 3);
}

/// Stores open calls that wake up much later.
async fn store_open(world: &World, call: &Call, name: &str, count: usize) {
    let open = Call { wake_at: Some(world.now().plus(HOUR * 20)), ..call.clone() };
    store_copies(world, &open, name, count).await;
}

#[tokio::test(start_paused = true)]
async fn open_calls_are_looked_at_in_turn_whatever_the_number_of_shards() {
    const CALLS: u64 = 1_000;
    const OPEN: u64 = 400;
    for shards in ["1", "4", "16", "99"] {
        let index_shards = shards.parse().unwrap();
        let world = World::with_options(CloudOptions { index_shards, ..options(&all_providers()) });
        let call = begun(&world, "p").await;
        store_open(&world, &call, "open", CALLS as usize).await;
        let mut checked = 0;
        for check in 1..=4 {
            reset_counters(&world);
            let report = world.cloud.check_drift().await.unwrap().unwrap();
            assert!(report.checked <= OPEN && report.lookups == report.checked, "{shards} shards: {report:?}");
            // The cursors and the budget are read too.
            let reads = world.requests()["GetItem"] - shards.parse::<u64>().unwrap();
            assert!(reads <= report.checked + 10, "{shards} shards: {reads} reads, {report:?}");
            checked += report.checked;
            assert!(check < 4 || checked > CALLS, "{shards} shards: {checked} calls are looked at in {check} checks");
            world.wait(HOUR).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn open_calls_of_a_provider_are_looked_at_while_another_fails() {
    const CALLS: u64 = 300;
    let (world, [retell, twilio]) = with_two_providers().await;
    store_open(&world, &retell, "retell", CALLS as usize).await;
    store_open(&world, &twilio, "twilio", CALLS as usize).await;
    world.cloud.fake().set_mode_of(Provider::Retell, Mode::Down);
    for _ in 0..2 {
        world.cloud.check_drift().await.unwrap().unwrap();
        world.wait(HOUR).await;
    }
    let [sent, failed] = asked(&world, Provider::Twilio);
    assert!(sent > CALLS && failed == 0, "{sent} requests for {CALLS} calls");
}
