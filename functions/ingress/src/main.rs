//! Wiring of the ingress function: configuration, clients, run.

use lambda_http::Error;
use switchhook_aws::bus::Bus;
use switchhook_aws::inbox::Inbox;
use switchhook_aws::question::AnswerClient;
use switchhook_aws::queue::Queue;
use switchhook_aws::secret::WebhookKeys;
use switchhook_aws::{config, http, sdk, telemetry};
use switchhook_ingress::{Config, Ingress};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let config = config::or_exit("ingress", Config::from_environment(config::environment()));
    let aws = sdk::from_environment().await;
    let dynamodb = sdk::dynamodb(&aws);
    let sqs = sdk::sqs(&aws);
    let ingress = Ingress {
        webhook_keys: WebhookKeys::new(&aws, config.webhook_keys_secret_id),
        inbox: Inbox::new(dynamodb, config.inbox_table, config.inbox_retention).shards(config.shards),
        queue: Queue::new(sqs.clone(), config.queue_url),
        dlq: Queue::new(sqs, config.dlq_url),
        bus: Bus::new(sdk::eventbridge(&aws), config.event_bus),
        answers: AnswerClient::default(),
        clock: sdk::Clock::from_config(&aws),
    };
    let now = ingress.clock.now();
    tokio::join!(ingress.webhook_keys.warm_up(now), ingress.inbox.warm_up(), ingress.queue.warm_up());
    let ingress = &ingress;
    http::serve(move |request| ingress.handle(request)).await
}
