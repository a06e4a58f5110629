//! Wiring of the ingress function: configuration, clients, run.

use lambda_http::{Error, run, service_fn};
use switchhook_aws::inbox::Inbox;
use switchhook_aws::queue::Queue;
use switchhook_aws::{config, sdk, secret, telemetry};
use switchhook_ingress::{Config, Ingress};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let config = Config::from_environment(config::environment())?;
    let aws = sdk::from_environment().await;
    let dynamodb = sdk::dynamodb(&aws);
    let sqs = sdk::sqs(&aws);
    let ingress = Ingress {
        providers: secret::providers(&aws, &config.providers_secret_id).await?,
        inbox: Inbox::new(dynamodb, config.inbox_table, config.inbox_retention),
        queue: Queue::new(sqs.clone(), config.queue_url),
        dlq: Queue::new(sqs, config.dlq_url),
        clock: sdk::Clock::of(&aws),
    };
    tokio::join!(ingress.inbox.warm(), ingress.queue.warm());
    let ingress = &ingress;
    run(service_fn(move |request| async move { Ok::<_, Error>(ingress.handle(request).await) })).await
}
