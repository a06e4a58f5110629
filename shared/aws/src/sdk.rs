//! How the SDK clients are set up: the same way in Lambda and in the local cloud.

use std::env;
use std::time::Duration;

use aws_config::environment::{EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider};
use aws_config::meta::region::ProvideRegion;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_async::time::SharedTimeSource;
use aws_smithy_http_client::tls::Provider as TlsProvider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use switchhook_domain::Timestamp;

/// All attempts of one operation together. Three of them must fit into the consumer's 10 s: read, write, back off.
const OPERATION_TIMEOUT: Duration = Duration::from_millis(2_500);
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(1_000);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1_000);
/// The SDK's own first backoff is a whole second, an eternity to a provider that waits for its answer.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const ATTEMPTS_MAX: u32 = 3;
/// TLS for the SDK and for providers' APIs.
pub(crate) const TLS_PROVIDER: TlsProvider = TlsProvider::Rustls(CryptoMode::Ring);

/// The SDK's defaults of one date: an update of the SDK changes none of them.
#[must_use]
pub fn behavior_version() -> BehaviorVersion {
    BehaviorVersion::v2026_01_12()
}

/// The configuration of a Lambda function: region, credentials and endpoint from its environment, and nowhere else.
///
/// What the SDK would look through by default (profiles, roles of a container or a machine, single sign-on) does not exist
/// in a function, and is a tenth of its binary.
pub async fn from_environment() -> SdkConfig {
    let mut config = SdkConfig::builder()
        .behavior_version(behavior_version())
        .http_client(https_client())
        .region(EnvironmentVariableRegionProvider::new().region().await)
        .credentials_provider(SharedCredentialsProvider::new(EnvironmentVariableCredentialsProvider::new()));
    // The runtimes that stand in for Lambda set it, some of them to nothing.
    if let Some(url) = env::var("AWS_ENDPOINT_URL").ok().filter(|url| !url.is_empty()) {
        config = config.endpoint_url(url);
    }
    with_timeouts_and_retries(&config.build())
}

/// The configuration of an operator's tool: what the AWS tools on the same machine would use.
pub async fn from_profile() -> SdkConfig {
    with_timeouts_and_retries(&aws_config::defaults(behavior_version()).http_client(https_client()).load().await)
}

/// The HTTP client of the SDK, with the TLS provider that [`crate::provider`] uses for providers' APIs.
fn https_client() -> SharedHttpClient {
    aws_smithy_http_client::Builder::new().tls_provider(TLS_PROVIDER).build_https()
}

/// The same configuration with our timeouts and retries.
#[must_use]
pub fn with_timeouts_and_retries(config: &SdkConfig) -> SdkConfig {
    let timeouts = TimeoutConfig::builder()
        .operation_timeout(OPERATION_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT)
        .build();
    let retries = RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX).with_initial_backoff(BACKOFF_FIRST);
    config.to_builder().timeout_config(timeouts).retry_config(retries).build()
}

/// The clock of the SDK, which is ours too: one time source decides everything, so that a test can.
#[derive(Clone, Debug)]
pub struct Clock(SharedTimeSource);

impl Clock {
    #[must_use]
    pub fn from_config(config: &SdkConfig) -> Self {
        Self(config.time_source().unwrap_or_default())
    }

    #[must_use]
    pub fn now(&self) -> Timestamp {
        let since = self.0.now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

// Retries are paid for from a quota, and what is not given one of its own shares one with every client of the service in
// the process: the outage of one local stack would take the retries of another. The clones of a client share theirs.
const RETRY_PARTITION: &str = "switchhook";

/// A DynamoDB client.
#[must_use]
pub fn dynamodb(config: &SdkConfig) -> aws_sdk_dynamodb::Client {
    use aws_sdk_dynamodb::config::retry::RetryPartition;
    let partition = RetryPartition::custom(RETRY_PARTITION).build();
    let config = aws_sdk_dynamodb::config::Builder::from(config).retry_partition(partition).build();
    aws_sdk_dynamodb::Client::from_conf(config)
}

/// An SQS client.
#[must_use]
pub fn sqs(config: &SdkConfig) -> aws_sdk_sqs::Client {
    use aws_sdk_sqs::config::retry::RetryPartition;
    let partition = RetryPartition::custom(RETRY_PARTITION).build();
    let config = aws_sdk_sqs::config::Builder::from(config).retry_partition(partition).build();
    aws_sdk_sqs::Client::from_conf(config)
}

/// An EventBridge client.
#[must_use]
pub fn eventbridge(config: &SdkConfig) -> aws_sdk_eventbridge::Client {
    use aws_sdk_eventbridge::config::retry::RetryPartition;
    let partition = RetryPartition::custom(RETRY_PARTITION).build();
    let config = aws_sdk_eventbridge::config::Builder::from(config).retry_partition(partition).build();
    aws_sdk_eventbridge::Client::from_conf(config)
}
