//! The cost of a run of the scheduler that finds nothing. It depends on the providers that `DialRates` names.

use switchhook_aws::shards::Shards;
use switchhook_local::CloudOptions;
use switchhook_operate::cost::MEMORY_GB;
use switchhook_operate::scale::IDLE_STACK;
use switchhook_providers::DialRates;
use switchhook_tests::{MINUTE, World, all_providers, options};

use super::dollars::dollars_of;
use super::{RUNS, price, reset_counters};
use crate::files::{read, yaml};

/// Price of a month of runs that find nothing, in a stack with these rates. A run of every tenth minute does more than the others.
async fn idle_month(dial_rates: DialRates) -> f64 {
    let world =
        World::with_options(CloudOptions { dial_rates, index_shards: Shards::default(), ..options(&all_providers()) });
    let mut dollars = 0.0;
    for _ in 0..10 {
        reset_counters(&world);
        let report = world.cloud.scheduler().run("test").await.unwrap();
        assert_eq!((report.due, report.claimed), (0, 0));
        let requests = world.requests();
        dollars += dollars_of(&world.capacity()) + price::idle_run(requests.values().sum::<u64>() as f64, MEMORY_GB);
        world.wait(MINUTE).await;
    }
    RUNS / 10.0 * dollars
}

#[tokio::test(start_paused = true)]
async fn scheduler_that_finds_nothing_costs_what_the_page_about_cost_says() {
    let template = yaml("template.yaml");
    let all = idle_month(template["Parameters"]["DialRates"]["Default"].as_str().unwrap().parse().unwrap()).await;
    let (item, on_page) = IDLE_STACK.into_iter().find(|(item, _)| item.starts_with("the scheduler")).unwrap();
    println!("{item}: {all:.4}");
    assert_eq!(format!("{all:.2}"), format!("{on_page:.2}"), "{item}");

    let one = idle_month("retell=1".parse().unwrap()).await;
    let saved = format!("takes {:.1} cents off for each of the others", 100.0 * (all - one) / 9.0);
    assert!(read("docs/cost.md").contains(&saved), "docs/cost.md must say: {saved}");
}
