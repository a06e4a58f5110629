//! Wiring of the dialer function: configuration, clients, run.

use aws_lambda_events::event::sqs::SqsEvent;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use switchhook_aws::calls::{Calls, HealthCache};
use switchhook_aws::inbox::Inbox;
use switchhook_aws::provider::ProviderApi;
use switchhook_aws::queue::Queue;
use switchhook_aws::random::RandomIds;
use switchhook_aws::secret::DialAccounts;
use switchhook_aws::{config, sdk, telemetry};
use switchhook_dialer::{Config, Dialer};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let config = config::or_exit("dialer", Config::from_environment(config::environment()));
    let aws = sdk::from_environment().await;
    let dynamodb = sdk::dynamodb(&aws);
    let dialer = Dialer {
        inbox: Inbox::new(dynamodb.clone(), config.inbox_table, config.inbox_retention).shards(config.shards.clone()),
        calls: Calls::new(dynamodb, config.calls_table, config.call_retention)
            .shards(config.shards)
            .index_numbers(config.index_numbers),
        queue: Queue::new(sdk::sqs(&aws), config.queue_url),
        dial_accounts: DialAccounts::new(&aws, config.dial_accounts_secret_id),
        api: ProviderApi::new(config.api_urls),
        health: HealthCache::default(),
        policy: config.policy,
        random_ids: RandomIds::from_system(),
        clock: sdk::Clock::from_config(&aws),
    };
    let now = dialer.clock.now();
    tokio::join!(dialer.dial_accounts.warm_up(now), dialer.calls.warm_up(), dialer.queue.warm_up());
    let dialer = &dialer;
    run(service_fn(move |event: LambdaEvent<SqsEvent>| async move {
        dialer.handle(event.payload).await;
        Ok::<_, Error>(())
    }))
    .await
}
