//! Wiring of the scheduler function: configuration, clients, run.

use lambda_http::request::LambdaRequest;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::{Value, json};
use switchhook_aws::calls::Calls;
use switchhook_aws::http::request_from_event;
use switchhook_aws::queue::Queue;
use switchhook_aws::random::RandomIds;
use switchhook_aws::{config, sdk, telemetry};
use switchhook_scheduler::{Config, Scheduler};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let config = config::or_exit("scheduler", Config::from_environment(config::environment()));
    let aws = sdk::from_environment().await;
    let scheduler = Scheduler {
        calls: Calls::new(sdk::dynamodb(&aws), config.calls_table, config.call_retention)
            .shards(config.shards)
            .index_numbers(config.index_numbers),
        queue: Queue::new(sdk::sqs(&aws), config.dial_queue_url),
        due_queue: Queue::new(sdk::sqs(&aws), config.due_queue_url),
        policy: config.policy,
        dial_rates: config.dial_rates,
        dialers: config.dialers,
        random_ids: RandomIds::from_system(),
        clock: sdk::Clock::from_config(&aws),
    };
    tokio::join!(scheduler.calls.warm_up(), scheduler.queue.warm_up());
    let scheduler = &scheduler;
    run(service_fn(move |event: LambdaEvent<Value>| async move {
        let trace_id = &event.context.request_id;
        // A stream or a queue sends records, and API Gateway a route. The schedule sends neither.
        match event.payload.pointer("/Records/0/eventSource").and_then(Value::as_str) {
            Some("aws:dynamodb") => {
                scheduler.claim_written(serde_json::from_value(event.payload)?, trace_id).await;
                return Ok(Value::Null);
            }
            Some(_) => {
                scheduler.claim_delayed(serde_json::from_value(event.payload)?, trace_id).await;
                return Ok(Value::Null);
            }
            None => {}
        }
        if event.payload.get("routeKey").is_none() {
            return scheduler.run(trace_id).await.map(|report| json!(report)).map_err(Error::from);
        }
        let request = serde_json::from_value::<LambdaRequest>(event.payload)?;
        let response = scheduler.handle(request_from_event(request)).await;
        let content_type = response.headers().get("content-type").and_then(|value| value.to_str().ok());
        Ok(json!({
            "statusCode": response.status().as_u16(),
            "headers": {"content-type": content_type},
            "body": String::from_utf8_lossy(response.body()),
            "isBase64Encoded": false,
        }))
    }))
    .await
}
