//! Wiring of the reconciler function: configuration, clients, run.

use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::Value;
use switchhook_aws::bus::Bus;
use switchhook_aws::calls::Calls;
use switchhook_aws::inbox::Inbox;
use switchhook_aws::provider::ProviderApi;
use switchhook_aws::queue::Queue;
use switchhook_aws::secret::DialAccounts;
use switchhook_aws::{config, sdk, telemetry};
use switchhook_reconciler::{Config, Reconciler};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let config = config::or_exit("reconciler", Config::from_environment(config::environment()));
    let aws = sdk::from_environment().await;
    let dynamodb = sdk::dynamodb(&aws);
    let reconciler = Reconciler {
        inbox: Inbox::new(dynamodb.clone(), config.inbox_table, config.inbox_retention).shards(config.shards.clone()),
        calls: Calls::new(dynamodb, config.calls_table, config.call_retention)
            .shards(config.shards)
            .index_numbers(config.index_numbers),
        queue: Queue::new(sdk::sqs(&aws), config.queue_url),
        dlq: Queue::new(sdk::sqs(&aws), config.dlq_url),
        repair_queue: Queue::new(sdk::sqs(&aws), config.repair_queue_url),
        bus: Bus::new(sdk::eventbridge(&aws), config.event_bus),
        dial_accounts: DialAccounts::new(&aws, config.dial_accounts_secret_id),
        api: ProviderApi::new(config.api_urls),
        policy: config.policy,
        clock: sdk::Clock::from_config(&aws),
    };
    let now = reconciler.clock.now();
    tokio::join!(reconciler.dial_accounts.warm_up(now), reconciler.calls.warm_up(), reconciler.queue.warm_up());
    let reconciler = &reconciler;
    run(service_fn(move |event: LambdaEvent<Value>| async move {
        reconciler.handle(event.payload, &event.context.request_id).await
    }))
    .await
}
