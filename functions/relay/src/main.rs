//! Wiring of the relay function: configuration, clients, run.

use aws_lambda_events::event::dynamodb::Event;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use switchhook_aws::bus::Bus;
use switchhook_aws::{config, sdk, telemetry};
use switchhook_relay::{Config, Relay};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let config = config::or_exit("relay", Config::from_environment(config::environment()));
    let aws = sdk::from_environment().await;
    let relay = Relay { bus: Bus::new(sdk::eventbridge(&aws), config.event_bus), clock: sdk::Clock::from_config(&aws) };
    relay.bus.warm_up().await;
    let relay = &relay;
    run(service_fn(move |event: LambdaEvent<Event>| async move { Ok::<_, Error>(relay.handle(event.payload).await) }))
        .await
}
