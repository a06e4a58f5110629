//! Requests to the providers' APIs.
//!
//! **A dial that may have reached the provider never counts as not sent.** A request is known to be unsent only if no
//! connection was ever made. Any later failure leaves it in doubt. Such a dial is sent once more if the provider has an
//! idempotency key. To other providers each dial gets a new connection: an idle connection that the provider closed
//! would leave the dial in doubt.
//!
//! The HTTP client is the SDK's. It uses the same TLS as every other connection, and tests replace both by one
//! connector.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{HttpConnector, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use switchhook_domain::{PhoneNumber, Provider, Timestamp};
use switchhook_providers::{ApiRequest, ApiUrl, DialAnswer, api_url, read_dial_answer, repeats_safely_for};
use thiserror::Error;

use crate::config::Environment;
use crate::sdk::{Clock, TLS_PROVIDER};

/// Time limit for making a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time after which an idle connection is not used again. Load balancers often close one after 60 seconds, and a request that is sent on a
/// closed connection gets no answer. It is shorter than the pause between two runs of the reconciler.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for a whole request. A provider that places a call answers in a second or two.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);
/// Time from a dial in doubt to its repetition. A provider that just failed gets a moment.
const REPEAT_PAUSE: Duration = Duration::from_millis(500);
/// Time limit for the repetition of a dial.
const REPEAT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time that [`ProviderApi::dial`] takes.
pub const DIAL_TIME_MAX: Duration = Duration::from_millis(8_000 + 500 + 5_000);
/// Longest response that is read, in bytes. A call with its transcript has some hundred KB.
const RESPONSE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Response of a provider's API. `Debug` hides the body.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiResponse {
    pub status: u16,
    /// Value of the `Retry-After` header. `None` if the provider sent none.
    pub retry_after: Option<String>,
    pub body: Vec<u8>,
}

impl fmt::Debug for ApiResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiResponse").field("status", &self.status).finish_non_exhaustive()
    }
}

/// Reason why there is no response. The texts name no URL, because a URL may contain a phone number.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// The provider never received the request.
    #[error("no connection to the provider: {0}")]
    NotSent(&'static str),
    /// The provider may have acted on it.
    #[error("no response from the provider: {0}")]
    NoResponse(&'static str),
}

/// Base URLs of the providers' APIs that the environment sets. Without one, the provider or the account has its own.
#[derive(Clone, Debug, Default)]
pub struct ApiUrls(BTreeMap<Provider, String>);

impl ApiUrls {
    /// Reads `PROVIDER_API_URL`, the URL of all providers. Without it, or if it is empty, the provider or the account has its own.
    pub fn from_environment(environment: &mut Environment<impl Fn(&str) -> Option<String>>) -> Self {
        let Some(url) = environment.optional("PROVIDER_API_URL") else { return Self::default() };
        Provider::ALL.into_iter().fold(Self::default(), |urls, provider| urls.with(provider, &url))
    }

    /// Replaces the URL of one provider, and of its further accounts.
    #[must_use]
    pub fn with(mut self, provider: Provider, url: &str) -> Self {
        self.0.insert(provider, url.trim_end_matches('/').to_owned());
        self
    }

    /// Base URL for a request. `None` if the provider has no API, or if the request lacks the URL of its account.
    fn of<'a>(&'a self, provider: Provider, request: &'a ApiRequest) -> Option<&'a str> {
        let url = match api_url(provider)? {
            ApiUrl::Fixed(url) => Some(url),
            ApiUrl::OfRegion(urls) => request.base_url.as_deref().or(urls.first().copied()),
            ApiUrl::OfAccount => request.base_url.as_deref(),
        };
        self.0.get(&provider).or_else(|| self.0.get(&provider.vendor())).map(String::as_str).or(url)
    }
}

/// Client of the providers' APIs.
#[derive(Clone, Debug)]
pub struct ProviderApi {
    connector: SharedHttpConnector,
    /// Connector that makes a new connection for each request.
    unpooled_connector: SharedHttpConnector,
    urls: ApiUrls,
}

impl ProviderApi {
    /// Client that connects over the network.
    #[must_use]
    pub fn new(urls: ApiUrls) -> Self {
        let builder = || {
            aws_smithy_http_client::Connector::builder()
                .connector_settings(
                    aws_smithy_runtime_api::client::http::HttpConnectorSettings::builder()
                        .connect_timeout(CONNECT_TIMEOUT)
                        .build(),
                )
                .sleep_impl(aws_smithy_async::rt::sleep::TokioSleep::new())
                .tls_provider(TLS_PROVIDER)
        };
        let connector = SharedHttpConnector::new(builder().pool_idle_timeout(IDLE_TIMEOUT).build());
        let unpooled_connector = SharedHttpConnector::new(builder().pool_max_idle_per_host(0).build());
        Self { connector, unpooled_connector, urls }
    }

    /// Client that sends its requests through a connector.
    #[must_use]
    pub fn with_connector(connector: SharedHttpConnector, urls: ApiUrls) -> Self {
        Self { unpooled_connector: connector.clone(), connector, urls }
    }

    /// Sends a request that calls `to`, and reads the answer. A login by token contains the time of the clock.
    ///
    /// If the answer leaves the dial in doubt and the provider has an idempotency key, the identical request is sent
    /// once more. Only an accepted call ends the doubt: a refusal of the second request says nothing about the first.
    ///
    /// The request is not sent again if the clock says that more than [`DIAL_TIME_MAX`] has passed. The machine was suspended, or a
    /// user of the local stack has skipped time. In the meantime the call may have been looked for, not found, and dialled again.
    ///
    /// # Errors
    /// [`SendError::NotSent`] if nothing was dialled. [`SendError::NoResponse`] if the dial is in doubt.
    pub async fn dial(
        &self,
        provider: Provider,
        to: &PhoneNumber,
        request: ApiRequest,
        clock: &Clock,
    ) -> Result<DialAnswer, SendError> {
        let asked_at = clock.now();
        let request = authorized(request, asked_at)?;
        let repeats_for = repeats_safely_for(provider);
        let connector = if repeats_for.is_some() { &self.connector } else { &self.unpooled_connector };
        let first = self.send_dial(connector, provider, to, request.clone(), REQUEST_TIMEOUT).await;
        let is_in_doubt = matches!(first, Ok(DialAnswer::InDoubt) | Err(SendError::NoResponse(_)));
        let can_repeat = repeats_for.is_some_and(|limit| limit > DIAL_TIME_MAX);
        if !is_in_doubt || !can_repeat {
            return first;
        }
        tokio::time::sleep(REPEAT_PAUSE).await;
        if clock.now() > asked_at.plus(DIAL_TIME_MAX) {
            return first;
        }
        match self.send_dial(connector, provider, to, request, REPEAT_TIMEOUT).await {
            Ok(accepted @ DialAnswer::Accepted { .. }) => Ok(accepted),
            Ok(
                DialAnswer::Rejected { .. }
                | DialAnswer::AccountProblem { .. }
                | DialAnswer::NumberOrAccountProblem { .. }
                | DialAnswer::CallingNumberProblem { .. }
                | DialAnswer::Busy { .. }
                | DialAnswer::TooManyCalls { .. }
                | DialAnswer::NotDialled { .. }
                | DialAnswer::InDoubt,
            )
            | Err(SendError::NotSent(_) | SendError::NoResponse(_)) => first,
        }
    }

    async fn send_dial(
        &self,
        connector: &SharedHttpConnector,
        provider: Provider,
        to: &PhoneNumber,
        request: ApiRequest,
        timeout: Duration,
    ) -> Result<DialAnswer, SendError> {
        let response = self.send_through(connector, provider, request, timeout).await?;
        Ok(read_dial_answer(provider, to, response.status, response.retry_after.as_deref(), &response.body))
    }

    /// Sends a request, once. `now` is the time that a login by token contains.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send(
        &self,
        provider: Provider,
        request: ApiRequest,
        now: Timestamp,
    ) -> Result<ApiResponse, SendError> {
        self.send_through(&self.connector, provider, authorized(request, now)?, REQUEST_TIMEOUT).await
    }

    async fn send_through(
        &self,
        connector: &SharedHttpConnector,
        provider: Provider,
        request: ApiRequest,
        timeout: Duration,
    ) -> Result<ApiResponse, SendError> {
        let url = self.urls.of(provider, &request).ok_or(SendError::NotSent("it has no API"))?.to_owned();
        let http = http_request(&url, request)?;
        // One limit for connecting, sending and reading. The connector has a limit of its own for connecting alone.
        match tokio::time::timeout(timeout, exchange(connector, http)).await {
            Ok(answer) => answer,
            Err(_) => Err(SendError::NoResponse("timed out")),
        }
    }
}

/// The request with the token that some providers want.
fn authorized(request: ApiRequest, now: Timestamp) -> Result<ApiRequest, SendError> {
    request.authorized(now).ok_or(SendError::NotSent("no token can be made"))
}

pub(crate) async fn exchange(connector: &SharedHttpConnector, request: HttpRequest) -> Result<ApiResponse, SendError> {
    let response = match connector.call(request).await {
        Ok(response) => response,
        Err(error) if never_connected(&error) => return Err(SendError::NotSent("never connected")),
        Err(error) if error.is_timeout() => return Err(SendError::NoResponse("timed out")),
        Err(_) => return Err(SendError::NoResponse("connection lost")),
    };
    let status = response.status().as_u16();
    let retry_after = response.headers().get("retry-after").map(str::to_owned);
    let mut frames = ByteStream::new(response.into_body());
    let mut body = Vec::new();
    while let Some(frame) = frames.next().await {
        body.extend_from_slice(&frame.map_err(|_| SendError::NoResponse("connection lost"))?);
        if body.len() > RESPONSE_BYTES_MAX {
            return Err(SendError::NoResponse("response too large"));
        }
    }
    Ok(ApiResponse { status, retry_after, body })
}

pub(crate) fn http_request(url: &str, request: ApiRequest) -> Result<HttpRequest, SendError> {
    let malformed = |_| SendError::NotSent("the request is malformed");
    let mut http = HttpRequest::new(SdkBody::from(request.body));
    http.set_method(request.method.as_str()).map_err(|_| SendError::NotSent("the request is malformed"))?;
    http.set_uri(format!("{url}{}", request.path)).map_err(malformed)?;
    for (name, value) in request.headers {
        http.headers_mut().try_insert(name, value).map_err(|_| SendError::NotSent("the request is malformed"))?;
    }
    Ok(http)
}

/// True if the error, or one of its causes, says that no connection was ever made.
fn never_connected(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<hyper_util::client::legacy::Error>().is_some_and(|error| error.is_connect()) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
pub(crate) mod tests;
