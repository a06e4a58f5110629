//! Wiring of the reconciler function: configuration, clients, run.

use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::Value;
use switchhook_aws::calls::Calls;
use switchhook_aws::inbox::Inbox;
use switchhook_aws::queue::Queue;
use switchhook_aws::{config, sdk, telemetry};
use switchhook_domain::Policy;
use switchhook_reconciler::{Config, Reconciler};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let config = Config::from_environment(config::environment())?;
    let aws = sdk::from_environment().await;
    let dynamodb = sdk::dynamodb(&aws);
    let reconciler = Reconciler {
        inbox: Inbox::new(dynamodb.clone(), config.inbox_table, config.inbox_retention),
        calls: Calls::new(dynamodb, config.calls_table),
        queue: Queue::new(sdk::sqs(&aws), config.queue_url),
        policy: Policy { patience: config.patience },
        clock: sdk::Clock::of(&aws),
    };
    tokio::join!(reconciler.calls.warm(), reconciler.queue.warm());
    let reconciler = &reconciler;
    // It takes no input: the schedule, a test and an operator start the same run.
    run(service_fn(move |event: LambdaEvent<Value>| async move {
        reconciler.run(&event.context.request_id).await.map(|_| ()).map_err(Error::from)
    }))
    .await
}
