//! Wiring of the api function: configuration, clients, run.

use lambda_http::Error;
use switchhook_api::{Api, Config};
use switchhook_aws::calls::Calls;
use switchhook_aws::inbox::Inbox;
use switchhook_aws::random::RandomIds;
use switchhook_aws::{config, http, sdk, telemetry};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let config = config::or_exit("api", Config::from_environment(config::environment()));
    let aws = sdk::from_environment().await;
    let dynamodb = sdk::dynamodb(&aws);
    let api = Api {
        inbox: Inbox::new(dynamodb.clone(), config.inbox_table, config.inbox_retention).shards(config.shards.clone()),
        calls: Calls::new(dynamodb, config.calls_table, config.call_retention)
            .shards(config.shards)
            .index_numbers(config.index_numbers),
        policy: config.policy,
        defaults: config.defaults,
        random_ids: RandomIds::from_system(),
        clock: sdk::Clock::from_config(&aws),
    };
    api.calls.warm_up().await;
    let api = &api;
    http::serve(move |request| api.handle(request)).await
}
