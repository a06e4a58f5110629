//! HTTP client that connects the real SDK clients to the local services, without a socket.
//!
//! An SDK client with this connector serialises, retries and parses exactly as it does against AWS. The handlers therefore
//! need no mock clients. Clients with a sender do not sign, because nobody here checks signatures.
//!
//! Tests inject faults here. **A fault does to a request only what the network or the service could do to it**, and the
//! client notices it in the same way.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;

use crate::bus::Bus;
use crate::dynamodb::DynamoDb;
use crate::fake::{CrashPoint, FakeProvider, ResponseFate};
use crate::response::ServiceResponse;
use crate::secrets_manager::SecretsManager;
use crate::sqs::Sqs;
use crate::sync::lock;

/// Time until a request without a response fails, if the client has no shorter timeout.
const NO_RESPONSE_MS_MAX: u64 = 30_000;
/// Content type of every response.
const JSON: &str = "application/x-amz-json-1.0";
/// Header from which the SDK derives the type of an SQS error.
const QUERY_ERROR: &str = "x-amzn-query-error";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    DynamoDb,
    Sqs,
    EventBridge,
    SecretsManager,
}

/// A request on its way to a service. Every retry is a separate request.
#[derive(Debug, Clone, Copy)]
pub struct RequestInfo<'a> {
    /// Sender, as named to [`Services::sdk_config_for`]. `None` if its configuration has no name.
    ///
    /// [`Services::sdk_config_for`]: crate::Services::sdk_config_for
    pub sender: Option<&'static str>,
    pub service: Service,
    /// Operation, for example `PutItem` or `SendMessage`.
    pub operation: &'a str,
    /// Number of the request at this connector, counted from 0.
    pub number: u64,
    /// JSON body. The SDK serialises maps in random order, so equal requests may have different bytes. A random
    /// decision that depends on these bytes cannot be repeated with the same seed.
    pub body: &'a [u8],
}

/// A fault that is injected into a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The service does not carry out the request, and responds with an error.
    ErrorBefore { status: u16, code: String },
    /// The service carries out the request, and then responds with an error.
    ErrorAfter { status: u16, code: String },
    /// The connection breaks before the request reaches the service.
    NotSent,
    /// The service carries out the request, and the connection breaks before the response arrives.
    ResponseLost,
    /// The request never reaches the service. The client waits for its own timeout, or for 30 seconds.
    Timeout,
    /// The request reaches the service late.
    Delay(Duration),
    /// The service carries out the request at once, but its response arrives late.
    ResponseDelay(Duration),
    /// The function that sends the request crashes.
    Crash(CrashPoint),
    /// DynamoDB answers the query from an index that lacks the writes of this time. The tables must have been prepared by
    /// [`DynamoDb::let_indexes_lag`].
    LaggingIndex(Duration),
    /// The service receives this body instead of the real one.
    ReplacedRequest(Vec<u8>),
    /// The request never reaches the service, and the client receives this body with status 200.
    FakedResponse { body: String },
}

/// Function that chooses the fault for a request. `None` lets the request pass.
pub type FaultHook = Arc<dyn Fn(&RequestInfo<'_>) -> Option<Fault> + Send + Sync>;

/// Function that sees every request as it was sent, before any fault.
pub type Observer = Arc<dyn Fn(&RequestInfo<'_>) + Send + Sync>;

/// Number of requests by service and operation, including those with a fault.
pub type Requests = BTreeMap<(Service, String), u64>;

#[derive(Clone)]
pub struct Connector {
    inner: Arc<Inner>,
    sender: Option<&'static str>,
}

struct Inner {
    dynamodb: Arc<DynamoDb>,
    sqs: Arc<Sqs>,
    bus: Arc<Bus>,
    secrets_manager: Arc<SecretsManager>,
    fault: Mutex<Option<FaultHook>>,
    observer: Mutex<Option<Observer>>,
    counters: Mutex<Counters>,
}

#[derive(Default)]
struct Counters {
    next_number: u64,
    requests: Requests,
}

impl Connector {
    pub(crate) fn new(
        dynamodb: Arc<DynamoDb>,
        sqs: Arc<Sqs>,
        bus: Arc<Bus>,
        secrets_manager: Arc<SecretsManager>,
    ) -> Self {
        let (fault, observer, counters) = (Mutex::default(), Mutex::default(), Mutex::default());
        let inner = Inner { dynamodb, sqs, bus, secrets_manager, fault, observer, counters };
        Self { inner: Arc::new(inner), sender: None }
    }

    /// Returns a connector to the same services, whose requests name this sender.
    pub(crate) fn with_sender(&self, sender: &'static str) -> Self {
        Self { inner: self.inner.clone(), sender: Some(sender) }
    }

    /// Answers a request that arrived over a socket, as it answers the SDK clients of this process. `target` is the value
    /// of the header `X-Amz-Target`.
    ///
    /// # Errors
    /// No local service has this target, or an injected fault breaks the connection.
    pub async fn handle(&self, target: &str, body: &[u8]) -> Result<Response<Bytes>, ConnectorError> {
        let answer = self.inner.answer(self.sender, target, body).await?;
        let mut response = Response::builder().status(answer.status).header(CONTENT_TYPE, JSON);
        if let Some(error) = answer.query_error {
            response = response.header(QUERY_ERROR, error);
        }
        response.body(answer.body.into()).map_err(|error| ConnectorError::user(error.into()))
    }

    /// Calls `hook` for every request from now on. `None` removes the hook.
    pub fn set_fault_hook(&self, hook: Option<FaultHook>) {
        *lock(&self.inner.fault) = hook;
    }

    /// Calls `observer` for every request from now on. `None` removes the observer.
    pub fn set_observer(&self, observer: Option<Observer>) {
        *lock(&self.inner.observer) = observer;
    }

    /// Number of requests since the start or the last reset.
    pub fn requests(&self) -> Requests {
        lock(&self.inner.counters).requests.clone()
    }

    pub fn reset_requests(&self) {
        lock(&self.inner.counters).requests.clear();
    }
}

impl Inner {
    async fn respond(
        &self,
        sender: Option<&'static str>,
        mut request: HttpRequest,
    ) -> Result<HttpResponse, ConnectorError> {
        // Reads the whole body, as a real connection does. Otherwise the SDK detects a stalled upload while it waits.
        let body = ByteStream::new(request.take_body()).collect().await;
        let body = body.map_err(|error| ConnectorError::user(error.into()))?.into_bytes();
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        http_response(self.answer(sender, target, &body).await?)
    }

    /// Carries out a request, with the fault that the hook chooses.
    async fn answer(
        &self,
        sender: Option<&'static str>,
        target: &str,
        body: &[u8],
    ) -> Result<ServiceResponse, ConnectorError> {
        let (service, operation) =
            route(target).ok_or_else(|| ConnectorError::user("no local service has this target".into()))?;

        let info = RequestInfo { sender, service, operation, number: self.count(service, operation), body };
        let observer = lock(&self.observer).clone();
        if let Some(observer) = observer {
            observer(&info);
        }
        let hook = lock(&self.fault).clone();
        let fault = hook.and_then(|hook| hook(&info));
        match fault {
            None => Ok(self.dispatch(&info).await),
            Some(Fault::ErrorBefore { status, code }) => Ok(ServiceResponse::error(status, &code, "injected fault")),
            Some(Fault::ErrorAfter { status, code }) => {
                self.dispatch(&info).await;
                Ok(ServiceResponse::error(status, &code, "injected fault"))
            }
            Some(Fault::NotSent) => Err(ConnectorError::io("injected fault: connection refused".into())),
            Some(Fault::ResponseLost) => {
                self.dispatch(&info).await;
                Err(ConnectorError::io("injected fault: connection reset".into()))
            }
            Some(Fault::Timeout) => {
                tokio::time::sleep(Duration::from_millis(NO_RESPONSE_MS_MAX)).await;
                Err(ConnectorError::timeout("injected fault: no response".into()))
            }
            Some(Fault::Delay(delay)) => {
                tokio::time::sleep(delay).await;
                Ok(self.dispatch(&info).await)
            }
            Some(Fault::ResponseDelay(delay)) => {
                let response = self.dispatch(&info).await;
                tokio::time::sleep(delay).await;
                Ok(response)
            }
            Some(Fault::Crash(point)) => {
                if point == CrashPoint::BeforeResponse {
                    self.dispatch(&info).await;
                }
                crash()
            }
            Some(Fault::LaggingIndex(lag)) => Ok(self.dynamodb.handle_lagging(body, lag)),
            Some(Fault::ReplacedRequest(body)) => Ok(self.dispatch(&RequestInfo { body: &body, ..info }).await),
            Some(Fault::FakedResponse { body }) => Ok(ServiceResponse { status: 200, body, query_error: None }),
        }
    }

    async fn dispatch(&self, info: &RequestInfo<'_>) -> ServiceResponse {
        match info.service {
            Service::DynamoDb => self.dynamodb.handle(info.operation, info.body),
            Service::Sqs => self.sqs.handle(info.operation, info.body).await,
            Service::EventBridge => self.bus.handle(info.operation, info.body),
            Service::SecretsManager => self.secrets_manager.handle(info.operation, info.body),
        }
    }

    fn count(&self, service: Service, operation: &str) -> u64 {
        let mut counters = lock(&self.counters);
        let number = counters.next_number;
        counters.next_number += 1;
        *counters.requests.entry((service, operation.to_owned())).or_default() += 1;
        number
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let Self { inner, sender } = self.clone();
        HttpConnectorFuture::new(async move { inner.respond(sender, request).await })
    }
}

impl HttpClient for Connector {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("requests", &self.requests()).finish_non_exhaustive()
    }
}

/// Crashes the function that sends the request. Every invocation is a task of its own, so only that invocation ends.
/// `resume_unwind` prints nothing: the crash is intended.
fn crash() -> ! {
    std::panic::resume_unwind(Box::new("injected crash"))
}

fn route(target: &str) -> Option<(Service, &str)> {
    let (service, operation) = target.split_once('.')?;
    let service = match service {
        "DynamoDB_20120810" => Service::DynamoDb,
        "AmazonSQS" => Service::Sqs,
        "AWSEvents" => Service::EventBridge,
        "secretsmanager" => Service::SecretsManager,
        _ => return None,
    };
    Some((service, operation))
}

fn http_response(service_response: ServiceResponse) -> Result<HttpResponse, ConnectorError> {
    let status = StatusCode::try_from(service_response.status).map_err(|error| ConnectorError::user(error.into()))?;
    let mut response = HttpResponse::new(status, SdkBody::from(service_response.body));
    response.headers_mut().insert("content-type", JSON);
    if let Some(error) = service_response.query_error {
        response.headers_mut().try_insert(QUERY_ERROR, error).map_err(|error| ConnectorError::user(error.into()))?;
    }
    Ok(response)
}

/// Connector from the functions to the fake provider, which answers the requests to all providers.
#[derive(Debug, Clone)]
pub(crate) struct FakeProviderConnector(pub(crate) Arc<FakeProvider>);

impl HttpConnector for FakeProviderConnector {
    fn call(&self, mut request: HttpRequest) -> HttpConnectorFuture {
        let fake = self.0.clone();
        HttpConnectorFuture::new(async move {
            let body = ByteStream::new(request.take_body()).collect().await;
            let body = body.map_err(|error| ConnectorError::user(error.into()))?.into_bytes();
            let uri: http::Uri = request.uri().parse().map_err(|_| ConnectorError::user("not a URL".into()))?;
            let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
            if fake.crashes_at(CrashPoint::BeforeRequest) {
                crash();
            }
            let login = request.headers().get(FakeProvider::login_header(path));
            let response = fake.handle(request.method(), path, login, &body);
            if let Some(time) = fake.answer_time(path, login) {
                tokio::time::sleep(time).await;
            }
            if fake.crashes_at(CrashPoint::BeforeResponse) {
                crash();
            }
            match response.fate {
                ResponseFate::Arrives => {}
                ResponseFate::Lost => {
                    return Err(ConnectorError::io("the connection broke before the response arrived".into()));
                }
                ResponseFate::NeverSent => {
                    tokio::time::sleep(Duration::from_millis(NO_RESPONSE_MS_MAX)).await;
                    return Err(ConnectorError::timeout("no response".into()));
                }
            }
            let status = StatusCode::try_from(response.status).map_err(|error| ConnectorError::user(error.into()))?;
            let mut answer = HttpResponse::new(status, SdkBody::from(response.body));
            if let Some(seconds) = response.retry_after {
                answer.headers_mut().insert("retry-after", seconds.to_string());
            }
            Ok(answer)
        })
    }
}
