//! Configuration of the SDK clients, the same in Lambda and in the local cloud.

use std::env;
use std::sync::OnceLock;
use std::time::Duration;

pub use aws_config::SdkConfig;
use aws_config::environment::{EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider};
use aws_config::meta::region::ProvideRegion;
use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_dynamodb::config::retry::{RetryPartition, TokenBucket};
use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_async::time::SharedTimeSource;
use aws_smithy_http_client::tls::Provider as TlsProvider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::{
    HttpConnectorSettings, SharedHttpClient, SharedHttpConnector, http_client_fn,
};
use switchhook_domain::Timestamp;

/// Time limit for all attempts of one operation. The consumer's 10 s must hold three operations: read, write and delay. It
/// reads the calls of a batch together before, for half a second at most.
const OPERATION_TIMEOUT: Duration = Duration::from_millis(2_500);
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(1_000);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1_000);
/// First backoff between attempts. The SDK's own is one second, too long for a provider that waits for its answer.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const ATTEMPTS_MAX: u32 = 3;

/// The same limits for a tool, which has slower lines than a function, and may first have to fetch credentials.
const TOOL_OPERATION_TIMEOUT: Duration = Duration::from_secs(15);
const TOOL_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
const TOOL_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Limits of [`Patience::Long`]. An attempt may read a page of 1 MB, or a hundred rows. The longest backoff lets many requests at the same time share the few
/// that a provisioned table allows. They are enough because the requests of a search wait for each other in order: one that was refused often
/// is soon alone.
const PATIENT_OPERATION_TIMEOUT: Duration = Duration::from_secs(300);
const PATIENT_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);
const PATIENT_BACKOFF_MAX: Duration = Duration::from_secs(20);
const PATIENT_ATTEMPTS_MAX: u32 = 15;
/// Tokens for the retries of a client with [`Patience::Long`]. The SDK's own 500 allow a hundred retries, which a search at a provisioned
/// table uses up in seconds.
const PATIENT_RETRY_TOKENS: usize = 100_000_000;
/// TLS for the SDK and for providers' APIs.
pub(crate) const TLS_PROVIDER: TlsProvider = TlsProvider::Rustls(CryptoMode::Ring);

/// Returns the version of the SDK's defaults. It is fixed, so that an update of the SDK does not change them.
#[must_use]
pub fn behavior_version() -> BehaviorVersion {
    BehaviorVersion::v2026_01_12()
}

/// Returns the configuration of a Lambda function. Region, credentials and endpoint come from its environment alone.
///
/// The SDK's default chain also looks for profiles, for roles of a container or a machine, and for single sign-on. A
/// function has none of them, and the code for them would be a tenth of its binary.
pub async fn from_environment() -> SdkConfig {
    let mut config = SdkConfig::builder()
        .behavior_version(behavior_version())
        .http_client(https_client(CONNECT_TIMEOUT))
        .region(EnvironmentVariableRegionProvider::new().region().await)
        .credentials_provider(SharedCredentialsProvider::new(EnvironmentVariableCredentialsProvider::new()));
    // Local runtimes that replace Lambda set the variable, some of them to an empty text.
    if let Some(url) = env::var("AWS_ENDPOINT_URL").ok().filter(|url| !url.is_empty()) {
        config = config.endpoint_url(url);
    }
    with_timeouts_and_retries(&config.build())
}

/// Time that a tool gives a request to AWS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Some seconds: somebody waits for the answer.
    Short,
    /// Some minutes. A search or a run sends many thousands of requests, and a search keeps nothing if one of them fails. So a table that
    /// refuses requests must slow it down, and not end it.
    Long,
}

/// Returns the configuration of an operator's tool. It finds region and credentials as the AWS CLI on the same machine
/// does, unless the region is given. It does not know the profiles of `aws login`.
pub async fn from_profile(region: Option<String>, patience: Patience) -> SdkConfig {
    let mut config = aws_config::defaults(behavior_version()).http_client(https_client(TOOL_CONNECT_TIMEOUT));
    if let Some(region) = region {
        config = config.region(Region::new(region));
    }
    with_patience(&config.load().await, patience)
}

/// Returns the configuration of an operator's tool for the services of a local stack, which answer at this URL. They
/// accept any credentials.
#[must_use]
pub fn from_url(url: &str, region: &str) -> SdkConfig {
    let credentials = Credentials::new("local", "local", None, None, "switchhook-local");
    let config = SdkConfig::builder()
        .behavior_version(behavior_version())
        .http_client(https_client(CONNECT_TIMEOUT))
        .region(Region::new(region.to_owned()))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url(url);
    with_timeouts_and_retries(&config.build())
}

/// HTTP client of the SDK, with the TLS provider that [`crate::provider`] uses for providers' APIs.
///
/// All SDK clients share one connector, which is made with the first of them. The SDK's own client would make another one for
/// each SDK client, only to validate it. Each connector decodes every certificate of the system.
fn https_client(connect_timeout: Duration) -> SharedHttpClient {
    let connector = OnceLock::new();
    http_client_fn(move |_, _| {
        let new = || {
            let settings = HttpConnectorSettings::builder().connect_timeout(connect_timeout).build();
            let builder = aws_smithy_http_client::Connector::builder().connector_settings(settings);
            SharedHttpConnector::new(builder.sleep_impl(TokioSleep::new()).tls_provider(TLS_PROVIDER).build())
        };
        connector.get_or_init(new).clone()
    })
}

/// Returns the same configuration with Switchhook's timeouts and retries.
#[must_use]
pub fn with_timeouts_and_retries(config: &SdkConfig) -> SdkConfig {
    let timeouts = TimeoutConfig::builder()
        .operation_timeout(OPERATION_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT)
        .build();
    let retries = RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX).with_initial_backoff(BACKOFF_FIRST);
    with_limits(config, timeouts, retries)
}

/// Returns the same configuration with the timeouts and retries of a tool.
#[must_use]
pub fn with_patience(config: &SdkConfig, patience: Patience) -> SdkConfig {
    let retries = RetryConfig::standard().with_initial_backoff(BACKOFF_FIRST);
    let (operation, attempt, retries) = match patience {
        Patience::Short => (TOOL_OPERATION_TIMEOUT, TOOL_ATTEMPT_TIMEOUT, retries.with_max_attempts(ATTEMPTS_MAX)),
        Patience::Long => {
            let retries = retries.with_max_attempts(PATIENT_ATTEMPTS_MAX).with_max_backoff(PATIENT_BACKOFF_MAX);
            (PATIENT_OPERATION_TIMEOUT, PATIENT_ATTEMPT_TIMEOUT, retries)
        }
    };
    let timeouts = TimeoutConfig::builder()
        .operation_timeout(operation)
        .operation_attempt_timeout(attempt)
        .connect_timeout(TOOL_CONNECT_TIMEOUT);
    with_limits(config, timeouts.build(), retries)
}

fn with_limits(config: &SdkConfig, timeouts: TimeoutConfig, retries: RetryConfig) -> SdkConfig {
    let builder = config.to_builder().timeout_config(timeouts).retry_config(retries);
    // An attempt has a limit of its own, so the SDK need not watch for a stalled stream.
    builder.stalled_stream_protection(StalledStreamProtectionConfig::disabled()).build()
}

/// Clock of the SDK, which every function uses, so that a test can set the time of both.
#[derive(Clone, Debug)]
pub struct Clock(SharedTimeSource);

impl Clock {
    #[must_use]
    pub fn from_config(config: &SdkConfig) -> Self {
        Self::from_source(config.time_source())
    }

    /// Clock of a client. `None` is the clock of the system.
    pub(crate) fn from_source(source: Option<SharedTimeSource>) -> Self {
        Self(source.unwrap_or_default())
    }

    #[must_use]
    pub fn now(&self) -> Timestamp {
        let since = self.0.now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

// The SDK limits retries by a quota, which all clients of a service in the process share by default. With its own
// partition, a client shares its quota only with its clones. The outage of one local stack then takes no retries from
// another.
const RETRY_PARTITION: &str = "switchhook";

fn retry_partition(config: &SdkConfig) -> RetryPartition {
    let partition = RetryPartition::custom(RETRY_PARTITION);
    match config.retry_config() {
        Some(retries) if retries.max_attempts() > ATTEMPTS_MAX => {
            partition.token_bucket(TokenBucket::new(PATIENT_RETRY_TOKENS)).build()
        }
        Some(_) | None => partition.build(),
    }
}

/// True if the clients of this configuration do not sign their requests: it has no credentials. Only the local cloud makes such a
/// configuration. Its clients reach it in the same process, and it checks no signatures.
fn is_unsigned(config: &SdkConfig) -> bool {
    config.credentials_provider().is_none()
}

/// Makes a DynamoDB client.
#[must_use]
pub fn dynamodb(config: &SdkConfig) -> aws_sdk_dynamodb::Client {
    let mut builder = aws_sdk_dynamodb::config::Builder::from(config).retry_partition(retry_partition(config));
    if is_unsigned(config) {
        builder.set_allow_no_auth();
    }
    aws_sdk_dynamodb::Client::from_conf(builder.build())
}

/// Makes an SQS client.
#[must_use]
pub fn sqs(config: &SdkConfig) -> aws_sdk_sqs::Client {
    let mut builder = aws_sdk_sqs::config::Builder::from(config).retry_partition(retry_partition(config));
    if is_unsigned(config) {
        builder.set_allow_no_auth();
    }
    aws_sdk_sqs::Client::from_conf(builder.build())
}

/// Makes an EventBridge client.
#[must_use]
pub fn eventbridge(config: &SdkConfig) -> aws_sdk_eventbridge::Client {
    let mut builder = aws_sdk_eventbridge::config::Builder::from(config).retry_partition(retry_partition(config));
    if is_unsigned(config) {
        builder.set_allow_no_auth();
    }
    aws_sdk_eventbridge::Client::from_conf(builder.build())
}

/// Makes a Secrets Manager client.
#[must_use]
pub(crate) fn secretsmanager(config: &SdkConfig) -> aws_sdk_secretsmanager::Client {
    let mut builder = aws_sdk_secretsmanager::config::Builder::from(config);
    if is_unsigned(config) {
        builder.set_allow_no_auth();
    }
    aws_sdk_secretsmanager::Client::from_conf(builder.build())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn configuration_of_a_function_signs() {
        assert!(!is_unsigned(&from_environment().await), "even if the environment has no credentials");
        assert!(!is_unsigned(&from_url("http://localhost", "eu-west-1")));
    }

    /// Record type "handshake" and version 3.1, with which every TLS client begins.
    const CLIENT_HELLO: [u8; 3] = [0x16, 0x03, 0x01];

    #[tokio::test]
    async fn sdk_client_starts_a_tls_handshake() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let mut first_bytes = [0; 3];
            listener.accept().unwrap().0.read_exact(&mut first_bytes).unwrap();
            first_bytes
        });
        let credentials = Credentials::new("AKIDEXAMPLE", "a secret", None, None, "test");
        let config = SdkConfig::builder()
            .behavior_version(behavior_version())
            .http_client(https_client(CONNECT_TIMEOUT))
            .region(Region::new("eu-west-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .retry_config(RetryConfig::disabled())
            .endpoint_url(url)
            .build();
        // Without a crypto provider the client would panic here.
        assert!(dynamodb(&config).list_tables().send().await.is_err(), "the server closes the connection");
        assert_eq!(server.join().unwrap(), CLIENT_HELLO);
    }
}
