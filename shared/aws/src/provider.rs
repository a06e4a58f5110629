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
use crate::sdk::TLS_PROVIDER;

/// Time limit for making a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
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
    /// Reads `RETELL_API_URL` and so on. A missing or empty variable selects the URL of the provider or of the account.
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

    /// Base URL for a request. `None` if the provider has no API, or if the request lacks the URL of its account.
    fn of<'a>(&'a self, provider: Provider, request: &'a ApiRequest) -> Option<&'a str> {
        let url = match api_url(provider)? {
            ApiUrl::Fixed(url) => Some(url),
            ApiUrl::OfRegion(urls) => request.base_url.as_deref().or(urls.first().copied()),
            ApiUrl::OfAccount => request.base_url.as_deref(),
        };
        self.0.get(&provider).map(String::as_str).or(url)
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
        let connector = SharedHttpConnector::new(builder().build());
        let unpooled_connector = SharedHttpConnector::new(builder().pool_max_idle_per_host(0).build());
        Self { connector, unpooled_connector, urls }
    }

    /// Client that sends its requests through a connector.
    #[must_use]
    pub fn with_connector(connector: SharedHttpConnector, urls: ApiUrls) -> Self {
        Self { unpooled_connector: connector.clone(), connector, urls }
    }

    /// Sends a request that calls `to`, and reads the answer. `now` is the time that a login by token contains.
    ///
    /// If the answer leaves the dial in doubt and the provider has an idempotency key, the identical request is sent
    /// once more. Only an accepted call ends the doubt: a refusal of the second request says nothing about the first.
    ///
    /// # Errors
    /// [`SendError::NotSent`] if nothing was dialled. [`SendError::NoResponse`] if the dial is in doubt.
    pub async fn dial(
        &self,
        provider: Provider,
        to: &PhoneNumber,
        request: ApiRequest,
        now: Timestamp,
    ) -> Result<DialAnswer, SendError> {
        let request = authorized(request, now)?;
        let repeats_for = repeats_safely_for(provider);
        let connector = if repeats_for.is_some() { &self.connector } else { &self.unpooled_connector };
        let first = self.send_dial(connector, provider, to, request.clone(), REQUEST_TIMEOUT).await;
        let is_in_doubt = matches!(first, Ok(DialAnswer::InDoubt) | Err(SendError::NoResponse(_)));
        let can_repeat = repeats_for.is_some_and(|limit| limit > DIAL_TIME_MAX);
        if !is_in_doubt || !can_repeat {
            return first;
        }
        tokio::time::sleep(REPEAT_PAUSE).await;
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
pub(crate) mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_760_962_600_000);

    fn number() -> PhoneNumber {
        PhoneNumber::new("+15550199")
    }

    fn request() -> ApiRequest {
        ApiRequest {
            method: http::Method::GET,
            base_url: None,
            path: "/v2/x".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            token_login: None,
        }
    }

    #[tokio::test]
    async fn refused_connection_is_known_not_to_have_sent_anything() {
        // A port that was free a moment ago, so that nothing listens on it.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let api = ProviderApi::new(ApiUrls::default().with(Provider::Retell, &format!("http://127.0.0.1:{port}")));
        let answer = api.send(Provider::Retell, request(), NOW).await;
        assert_eq!(answer, Err(SendError::NotSent("never connected")));
    }

    #[tokio::test]
    async fn connection_that_breaks_leaves_it_in_doubt() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let api = ProviderApi::new(ApiUrls::default().with(Provider::Retell, &format!("http://127.0.0.1:{port}/")));
        let (answer, ()) = tokio::join!(api.send(Provider::Retell, request(), NOW), async {
            drop(listener.accept().await.unwrap());
            drop(listener);
        });
        assert!(matches!(answer, Err(SendError::NoResponse(_))), "{answer:?}");
    }

    /// Requests that a server has read, each with its head and its body.
    pub(crate) type Requests = std::sync::Arc<std::sync::Mutex<Vec<Vec<u8>>>>;

    /// Server whose connections each carry one request: it closes a connection `idle` after its response, and sends the
    /// next of `responses` to each request. Returns its address and the requests that it read.
    pub(crate) async fn serve(idle: Duration, responses: &'static [&'static str]) -> (String, Requests) {
        use tokio::io::AsyncWriteExt;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Requests::default();
        let read = requests.clone();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let read = read.clone();
                tokio::spawn(async move {
                    let Some(request) = read_request(&mut stream).await else { return };
                    let number = {
                        let mut read = read.lock().unwrap();
                        read.push(request);
                        read.len() - 1
                    };
                    let response = responses.get(number).or(responses.last()).unwrap();
                    stream.write_all(response.as_bytes()).await.unwrap();
                    // A client that sends the next request on this connection gets no answer: the bytes arrive, and the
                    // connection is closed.
                    tokio::time::sleep(idle).await;
                });
            }
        });
        (address, requests)
    }

    /// Reads one request to its end. `None` if the client closes the connection before.
    async fn read_request(stream: &mut tokio::net::TcpStream) -> Option<Vec<u8>> {
        use tokio::io::AsyncReadExt;
        let mut request = Vec::new();
        loop {
            if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                return None;
            }
            let text = String::from_utf8_lossy(&request).to_lowercase();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some(request);
            }
        }
    }

    const ACCEPTED: &str = "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: 27\r\n\r\n{\"sid\":\"c1\",\"call_id\":\"c1\"}";
    const ERROR: &str = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
    const REFUSED: &str = "HTTP/1.1 402 Payment Required\r\ncontent-length: 0\r\n\r\n";
    const LOST: &str = "";

    fn dial() -> ApiRequest {
        ApiRequest {
            method: http::Method::POST,
            base_url: None,
            path: "/".to_owned(),
            headers: Vec::new(),
            body: b"{}".to_vec(),
            token_login: None,
        }
    }

    #[tokio::test]
    async fn idle_connection_that_the_provider_closes_leaves_no_dial_in_doubt() {
        // Twilio has no idempotency key. The server still has the first connection open when the second dial is sent, and
        // closes it without an answer.
        let (address, requests) = serve(Duration::from_millis(200), &[ACCEPTED]).await;
        let api = ProviderApi::new(ApiUrls::default().with(Provider::Twilio, &address));
        for _ in 0..3 {
            let answer = api.dial(Provider::Twilio, &number(), dial(), NOW).await;
            assert_eq!(answer, Ok(DialAnswer::Accepted { provider_call_id: "c1".to_owned() }));
        }
        assert_eq!(requests.lock().unwrap().len(), 3);
    }

    #[tokio::test]
    async fn dial_in_doubt_is_repeated_once_where_that_is_safe() {
        let accepted = || Ok(DialAnswer::Accepted { provider_call_id: "c1".to_owned() });
        for (responses, expected) in [
            (&[ERROR, ACCEPTED][..], accepted()),
            (&[LOST, ACCEPTED][..], accepted()),
            (&[ERROR, ERROR, ACCEPTED][..], Ok(DialAnswer::InDoubt)),
            // A refusal of the second request says nothing about the first.
            (&[ERROR, REFUSED][..], Ok(DialAnswer::InDoubt)),
            (&[REFUSED, ACCEPTED][..], Ok(DialAnswer::AccountProblem { reason: "payment_required" })),
        ] {
            let (address, requests) = serve(Duration::ZERO, responses).await;
            let api = ProviderApi::new(ApiUrls::default().with(Provider::Retell, &address));
            assert_eq!(api.dial(Provider::Retell, &number(), dial(), NOW).await, expected, "{responses:?}");
            assert!(requests.lock().unwrap().len() <= 2);
        }
        // Vapi would place a second call.
        let (address, requests) = serve(Duration::ZERO, &[ERROR, ACCEPTED]).await;
        let api = ProviderApi::new(ApiUrls::default().with(Provider::Vapi, &address));
        assert_eq!(api.dial(Provider::Vapi, &number(), dial(), NOW).await, Ok(DialAnswer::InDoubt));
        assert_eq!(requests.lock().unwrap().len(), 1);
    }

    /// The token is made when the request is sent, so it contains that time.
    #[tokio::test]
    async fn login_by_token_becomes_a_header() {
        const FOUND: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        let pem = include_str!("../../providers/fixtures/vonage/private_key.pem").replace('\n', "\\n");
        let accounts = format!(
            r#"{{"vonage": {{"keys": ["a key of the tests, as long as it must be"], "dial": {{
                "application_id": "a", "private_key": "{pem}", "answer_url": "https://app.example.com"}}}}}}"#
        );
        let file = switchhook_providers::ProvidersFile::from_json(&accounts).unwrap();
        let config = file.dial_accounts().config(Provider::Vonage).unwrap();
        let (call_id, attempt) = (switchhook_domain::CallId::new("c"), switchhook_domain::AttemptKey::new("1"));
        let lookup = switchhook_providers::Lookup {
            call_id: &call_id,
            attempt: &attempt,
            provider_call_id: Some("v1"),
            dialled_at: None,
            from: None,
            to: None,
        };
        let search = switchhook_providers::CallSearch::start(Provider::Vonage, config, lookup).unwrap();
        let (address, requests) = serve(Duration::ZERO, &[FOUND]).await;
        for now in [NOW, Timestamp::from_millis(NOW.as_millis() + 60_000)] {
            let api = ProviderApi::new(ApiUrls::default().with(Provider::Vonage, &address));
            api.send(Provider::Vonage, search.request().clone(), now).await.unwrap();
        }
        let requests = requests.lock().unwrap();
        let tokens: Vec<String> = requests
            .iter()
            .map(|request| {
                let request = String::from_utf8_lossy(request);
                let mut lines = request.lines();
                lines.find_map(|line| line.strip_prefix("authorization: Bearer ")).unwrap().to_owned()
            })
            .collect();
        assert!(tokens.len() == 2 && tokens[0] != tokens[1]);
    }

    /// Each provider with an idempotency key gets the same bytes again, so the key is the same.
    #[tokio::test]
    async fn repeated_dial_is_the_same_request() {
        const TAKEN: &str =
            "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{\"call_id\":\"c1\",\"data\":{\"call_control_id\":\"c1\"}}  ";
        let accounts = r#"{
            "retell": {"keys": ["a key of the tests, as long as it must be"], "dial": {"api_key": "an API key of the tests"}},
            "telnyx": {"keys": ["11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="],
                "dial": {"api_key": "an API key of the tests", "connection_id": "7"}}
        }"#;
        let file = switchhook_providers::ProvidersFile::from_json(accounts).unwrap();
        let accounts = file.dial_accounts();
        let (call_id, attempt) = (switchhook_domain::CallId::new("c"), switchhook_domain::AttemptKey::new("1"));
        let from = switchhook_domain::PhoneNumber::new("+15550100");
        let request = switchhook_providers::DialRequest {
            call_id: &call_id,
            attempt: &attempt,
            is_last_attempt: false,
            from: &from,
            to: &number(),
            appointment_id: None,
            metadata: &std::collections::BTreeMap::new(),
            dial_key: "the-key-of-this-dial",
        };
        for (provider, name) in [(Provider::Retell, "idempotency_key"), (Provider::Telnyx, "command_id")] {
            let config = accounts.config(provider).unwrap();
            let request = switchhook_providers::dial_api_request(provider, config, &request).unwrap();
            for responses in [&[ERROR, TAKEN][..], &[LOST, TAKEN]] {
                let (address, requests) = serve(Duration::ZERO, responses).await;
                let api = ProviderApi::new(ApiUrls::default().with(provider, &address));
                let answer = api.dial(provider, &number(), request.clone(), NOW).await;
                assert_eq!(answer, Ok(DialAnswer::Accepted { provider_call_id: "c1".to_owned() }), "{provider}");
                let requests = requests.lock().unwrap();
                assert_eq!((requests.len(), &requests[0]), (2, &requests[1]), "{provider}");
                let key = format!("\"{name}\":\"the-key-of-this-dial\"");
                assert!(String::from_utf8_lossy(&requests[0]).contains(&key), "{provider}");
            }
        }
    }

    #[test]
    fn request_goes_to_the_url_of_its_provider_or_of_its_account() {
        let of_account = ApiRequest { base_url: Some("https://name.example.com".to_owned()), ..request() };
        assert_eq!(ApiUrls::default().of(Provider::Generic, &of_account), None);
        assert_eq!(ApiUrls::default().of(Provider::Retell, &request()), Some("https://api.retellai.com"));
        // Each account of LiveKit has a URL of its own.
        assert_eq!(ApiUrls::default().of(Provider::LiveKit, &of_account), Some("https://name.example.com"));
        assert_eq!(ApiUrls::default().of(Provider::LiveKit, &request()), None);
        for provider in [Provider::Retell, Provider::LiveKit] {
            let replaced = ApiUrls::default().with(provider, "http://127.0.0.1:1/");
            assert_eq!(replaced.of(provider, &of_account), Some("http://127.0.0.1:1"));
        }
    }
}
