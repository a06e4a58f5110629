//! Wiring of the consumer function: configuration, clients, run.

use aws_lambda_events::event::sqs::SqsEvent;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use switchhook_aws::bus::Bus;
use switchhook_aws::calls::Calls;
use switchhook_aws::inbox::Inbox;
use switchhook_aws::queue::Queue;
use switchhook_aws::{config, sdk, telemetry};
use switchhook_consumer::{Config, Consumer};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let config = config::or_exit("consumer", Config::from_environment(config::environment()));
    let aws = sdk::from_environment().await;
    let dynamodb = sdk::dynamodb(&aws);
    let consumer = Consumer {
        inbox: Inbox::new(dynamodb.clone(), config.inbox_table, config.inbox_retention).shards(config.shards.clone()),
        calls: Calls::new(dynamodb, config.calls_table, config.call_retention)
            .shards(config.shards)
            .index_numbers(config.index_numbers),
        queue: Queue::new(sdk::sqs(&aws), config.queue_url),
        bus: Bus::new(sdk::eventbridge(&aws), config.event_bus),
        policy: config.policy,
        defaults: config.defaults,
        max_receive_count: config.max_receive_count,
        block_on_request: config.block_on_request,
        clock: sdk::Clock::from_config(&aws),
    };
    tokio::join!(consumer.calls.warm_up(), consumer.queue.warm_up());
    let consumer = &consumer;
    run(service_fn(
        move |event: LambdaEvent<SqsEvent>| async move { Ok::<_, Error>(consumer.handle(event.payload).await) },
    ))
    .await
}
