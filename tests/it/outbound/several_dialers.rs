//! Dialers that run at the same time. On AWS each is a process that reads the health of a provider for itself.

use std::time::Duration;

use switchhook_aws::calls::HealthCache;
use switchhook_aws::secret::DialAccounts;
use switchhook_dialer::Dialer;
use switchhook_domain::{CallId, Provider};
use switchhook_local::CloudOptions;
use switchhook_local::fake::{DeliveryFaults, Mode};
use switchhook_tests::{World, all_providers, dial_rates, options};

use super::{call_request, create};

/// A dialer of this stack with a cache of its own.
fn dialer_of(world: &World) -> Dialer {
    let shared = world.cloud.dialer();
    Dialer {
        inbox: shared.inbox.clone(),
        calls: shared.calls.clone(),
        queue: shared.queue.clone(),
        dial_accounts: DialAccounts::fixed(options(&all_providers()).providers.dial_accounts().clone()),
        api: shared.api.clone(),
        health: HealthCache::default(),
        policy: shared.policy,
        random_ids: shared.random_ids.clone(),
        clock: shared.clock.clone(),
    }
}

/// Lets a dialer dial one call within a tenth of a second, while the provider answers in this way.
async fn dial(world: &World, dialer: &Dialer, mode: Mode) {
    world.cloud.fake().set_mode(mode);
    let call_id = CallId::new(create(world, &call_request("confirms")).await);
    world.cloud.scheduler().trigger(&call_id, "test").await.unwrap();
    // After the dial it only waits until its lane may dial again.
    let handled = dialer.handle(world.take_claims());
    assert!(tokio::time::timeout(Duration::from_millis(100), handled).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn success_of_each_dialer_clears_the_failures_of_the_others() {
    let secret = all_providers();
    let dial_rates = dial_rates(&secret, "100");
    let world = World::with_options(CloudOptions { dial_rates, dialers: 1_000, ..options(&secret) });
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let [one, two, three] = [(); 3].map(|()| dialer_of(&world));
    // Each trusts for three seconds that no dial has failed.
    for dialer in [&one, &two, &three] {
        dial(&world, dialer, Mode::Normal).await;
    }
    dial(&world, &one, Mode::OutOfCredit).await;
    dial(&world, &two, Mode::Normal).await;
    dial(&world, &one, Mode::OutOfCredit).await;
    dial(&world, &three, Mode::Normal).await;
    dial(&world, &one, Mode::OutOfCredit).await;
    let health = async || world.calls.provider_health(Provider::Retell).await.unwrap();
    assert!(!health().await.is_open(), "{:?}", health().await);

    dial(&world, &two, Mode::OutOfCredit).await;
    dial(&world, &three, Mode::OutOfCredit).await;
    assert!(health().await.is_open(), "three failures in a row");
}
