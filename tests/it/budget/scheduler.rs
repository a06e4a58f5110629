//! The cost of a run of the scheduler that finds nothing. It depends on the providers that `DialRates` names.

use switchhook_aws::shards::Shards;
use switchhook_local::CloudOptions;
use switchhook_operate::cost::MEMORY_GB;
use switchhook_operate::scale::IDLE_STACK;
use switchhook_tests::{World, all_providers, options};

use super::dollars::dollars_of;
use super::{RUNS, price, reset_counters};
use crate::files::yaml;

#[tokio::test(start_paused = true)]
async fn scheduler_that_finds_nothing_costs_what_the_page_about_cost_says() {
    let template = yaml("template.yaml");
    let dial_rates = template["Parameters"]["DialRates"]["Default"].as_str().unwrap().parse().unwrap();
    let world =
        World::with_options(CloudOptions { dial_rates, index_shards: Shards::default(), ..options(&all_providers()) });
    reset_counters(&world);
    let report = world.cloud.scheduler().run("test").await.unwrap();
    assert_eq!((report.due, report.claimed), (0, 0));
    let requests = world.requests();
    let run = price::idle_run(requests.values().sum::<u64>() as f64, MEMORY_GB);
    let dollars = RUNS * (dollars_of(&world.capacity()) + run);
    let (item, on_page) = IDLE_STACK.into_iter().find(|(item, _)| item.starts_with("the scheduler")).unwrap();
    println!("{item}: {dollars:.4}, {requests:?}");
    assert_eq!(format!("{dollars:.2}"), format!("{on_page:.2}"), "{item}");
}
