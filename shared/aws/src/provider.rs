//! Requests to the providers' APIs.
//!
//! **A dial that may have reached the provider never counts as not sent.** A request is known to be unsent only if no
//! connection was ever made. Any later failure leaves it in doubt. This module sends no request twice.
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
use switchhook_domain::Provider;
use switchhook_providers::{ApiRequest, api_url};
use thiserror::Error;

use crate::config::Environment;
use crate::sdk::TLS_PROVIDER;

/// Time limit for making a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for a whole request. A provider that places a call answers in a second or two.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);
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

/// URL of each provider's API: the provider's own, unless the environment sets another.
#[derive(Clone, Debug, Default)]
pub struct ApiUrls(BTreeMap<Provider, String>);

impl ApiUrls {
    /// Reads `RETELL_API_URL` and so on. A missing or empty variable selects the provider's own URL.
    pub fn from_environment(environment: &mut Environment<impl Fn(&str) -> Option<String>>) -> Self {
        let with_api = Provider::ALL.into_iter().filter(|provider| api_url(*provider).is_some());
        let named = with_api.filter_map(|provider| {
            let name = format!("{}_API_URL", provider.as_str().to_uppercase());
            Some((provider, environment.optional(&name)?.trim_end_matches('/').to_owned()))
        });
        Self(named.collect())
    }

    /// Replaces the URL of one provider.
    #[must_use]
    pub fn with(mut self, provider: Provider, url: &str) -> Self {
        self.0.insert(provider, url.trim_end_matches('/').to_owned());
        self
    }

    fn of(&self, provider: Provider) -> Option<&str> {
        self.0.get(&provider).map(String::as_str).or_else(|| api_url(provider))
    }
}

/// Client of the providers' APIs.
#[derive(Clone, Debug)]
pub struct ProviderApi {
    connector: SharedHttpConnector,
    urls: ApiUrls,
}

impl ProviderApi {
    /// Client that connects over the network.
    #[must_use]
    pub fn new(urls: ApiUrls) -> Self {
        let connector = aws_smithy_http_client::Connector::builder()
            .connector_settings(
                aws_smithy_runtime_api::client::http::HttpConnectorSettings::builder()
                    .connect_timeout(CONNECT_TIMEOUT)
                    .build(),
            )
            .sleep_impl(aws_smithy_async::rt::sleep::TokioSleep::new())
            .tls_provider(TLS_PROVIDER)
            .build();
        Self::with_connector(SharedHttpConnector::new(connector), urls)
    }

    /// Client that sends its requests through a connector.
    #[must_use]
    pub const fn with_connector(connector: SharedHttpConnector, urls: ApiUrls) -> Self {
        Self { connector, urls }
    }

    /// Sends a request, once.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send(&self, provider: Provider, request: ApiRequest) -> Result<ApiResponse, SendError> {
        let Some(url) = self.urls.of(provider) else { return Err(SendError::NotSent("it has no API")) };
        let http = http_request(url, request)?;
        // One limit for connecting, sending and reading. The connector has a limit of its own for connecting alone.
        match tokio::time::timeout(REQUEST_TIMEOUT, self.exchange(http)).await {
            Ok(answer) => answer,
            Err(_) => Err(SendError::NoResponse("timed out")),
        }
    }

    async fn exchange(&self, request: HttpRequest) -> Result<ApiResponse, SendError> {
        let response = match self.connector.call(request).await {
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
}

fn http_request(url: &str, request: ApiRequest) -> Result<HttpRequest, SendError> {
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
mod tests {
    use super::*;

    fn request() -> ApiRequest {
        ApiRequest { method: http::Method::GET, path: "/v2/x".to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    #[tokio::test]
    async fn refused_connection_is_known_not_to_have_sent_anything() {
        // A port that was free a moment ago, so that nothing listens on it.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let api = ProviderApi::new(ApiUrls::default().with(Provider::Retell, &format!("http://127.0.0.1:{port}")));
        let answer = api.send(Provider::Retell, request()).await;
        assert_eq!(answer, Err(SendError::NotSent("never connected")));
    }

    #[tokio::test]
    async fn connection_that_breaks_leaves_it_in_doubt() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let api = ProviderApi::new(ApiUrls::default().with(Provider::Retell, &format!("http://127.0.0.1:{port}/")));
        let (answer, ()) = tokio::join!(api.send(Provider::Retell, request()), async {
            drop(listener.accept().await.unwrap());
            drop(listener);
        });
        assert!(matches!(answer, Err(SendError::NoResponse(_))), "{answer:?}");
    }

    #[test]
    fn provider_without_an_api_is_sent_nothing() {
        assert_eq!(ApiUrls::default().of(Provider::Generic), None);
        assert_eq!(ApiUrls::default().of(Provider::Retell), Some("https://api.retellai.com"));
    }
}
