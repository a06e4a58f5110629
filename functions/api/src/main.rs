//! Wiring of the api function: configuration, clients, run.

use lambda_http::{Error, run, service_fn};
use switchhook_api::{Api, Config, NO_RETENTION};
use switchhook_aws::calls::Calls;
use switchhook_aws::inbox::Inbox;
use switchhook_aws::{config, sdk, telemetry};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let config = Config::from_environment(config::environment())?;
    let aws = sdk::from_environment().await;
    let dynamodb = sdk::dynamodb(&aws);
    let api = Api {
        inbox: Inbox::new(dynamodb.clone(), config.inbox_table, NO_RETENTION),
        calls: Calls::new(dynamodb, config.calls_table),
        clock: sdk::Clock::of(&aws),
    };
    api.calls.warm().await;
    let api = &api;
    run(service_fn(move |request| async move { Ok::<_, Error>(api.handle(request).await) })).await
}
