//! Wiring of the reconciler function: configuration, clients, run.

use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::{Value, json};
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
        calls: Calls::new(dynamodb, config.calls_table).shards(config.shards),
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
    // The repair queue sends records. Otherwise the input only selects the drift check or the usual run. Schedules, tests and
    // operators start the same two.
    run(service_fn(move |event: LambdaEvent<Value>| async move {
        let trace_id = &event.context.request_id;
        if event.payload.get("Records").is_some() {
            let report = reconciler.work(serde_json::from_value(event.payload)?, trace_id).await;
            // An alarm watches the invocations that fail. Other errors of workers are met by the scheduled runs too, which return them.
            return match report.failed_alone {
                0 => Ok(Value::Null),
                _ => Err("a provider's list or the drift check failed: the log says why".into()),
            };
        }
        if event.payload.get("run").and_then(Value::as_str) == Some("drift") {
            return reconciler.check_drift(trace_id).await.map(|report| json!(report)).map_err(Error::from);
        }
        reconciler.run(trace_id).await.map(|report| json!(report)).map_err(Error::from)
    }))
    .await
}
