//! The way from the real SDK clients to the local services: an HTTP client that opens no socket.
//!
//! A client that has it serialises, signs, retries and parses as it does against AWS; the request is answered within the
//! call. That is why nothing in the handlers stands in for a client, and it is also the one place where faults come in:
//! **what a fault hook does to a request is what the network or the service could have done to it**, and the client
//! finds out in the same way.

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

use crate::bus::Bus;
use crate::dynamodb::DynamoDb;
use crate::fake::{CrashPoint, FakeProvider};
use crate::response::ServiceResponse;
use crate::sqs::Sqs;
use crate::sync::lock;

/// How long a request without an answer is waited for, where its client has no timeout of its own.
const NO_RESPONSE_MS_MAX: u64 = 30_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    DynamoDb,
    Sqs,
    EventBridge,
}

/// A request, before it reaches its service. A retry is a request of its own.
#[derive(Debug, Clone, Copy)]
pub struct RequestInfo<'a> {
    pub service: Service,
    /// `PutItem`, `SendMessage`, …
    pub operation: &'a str,
    /// Counts the requests of this connector from 0.
    pub number: u64,
    /// JSON. The clients keep maps in no order, so equal requests may differ in the order of their members: what is to
    /// repeat with a seed must not be drawn from these bytes.
    pub body: &'a [u8],
}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The service refuses it, and does nothing.
    ErrorBefore { status: u16, code: String },
    /// The service does it, and then answers with an error.
    ErrorAfter { status: u16, code: String },
    /// The connection breaks before the service has it.
    NotSent,
    /// The service does it, and the connection breaks before the answer comes.
    ResponseLost,
    /// The service never has it and no answer comes: the client waits until its own timeout, or for 30 seconds.
    Timeout,
    /// It is done and answered, both late.
    Delay(Duration),
    /// It is done at once and answered late.
    ResponseDelay(Duration),
    /// The function that makes it dies.
    Crash(CrashPoint),
    /// The service gets this body in its place, and does that.
    ReplacedRequest(Vec<u8>),
    /// The service never has it, and this success is answered.
    FakedResponse { body: String },
}

/// Decides about every request; None lets it through.
pub type FaultHook = Arc<dyn Fn(&RequestInfo<'_>) -> Option<Fault> + Send + Sync>;

/// Requests by service and operation, those with a fault included.
pub type Requests = BTreeMap<(Service, String), u64>;

#[derive(Clone)]
pub struct Connector(Arc<Inner>);

struct Inner {
    dynamodb: Arc<DynamoDb>,
    sqs: Arc<Sqs>,
    bus: Arc<Bus>,
    fault: Mutex<Option<FaultHook>>,
    ledger: Mutex<Ledger>,
}

#[derive(Default)]
struct Ledger {
    next_number: u64,
    requests: Requests,
}

impl Connector {
    pub(crate) fn new(dynamodb: Arc<DynamoDb>, sqs: Arc<Sqs>, bus: Arc<Bus>) -> Self {
        Self(Arc::new(Inner { dynamodb, sqs, bus, fault: Mutex::default(), ledger: Mutex::default() }))
    }

    /// Asks `hook` about every request from now on.
    pub fn set_fault_hook(&self, hook: Option<FaultHook>) {
        *lock(&self.0.fault) = hook;
    }

    /// What was requested since the start or the last reset.
    pub fn requests(&self) -> Requests {
        lock(&self.0.ledger).requests.clone()
    }

    pub fn reset_requests(&self) {
        lock(&self.0.ledger).requests.clear();
    }
}

impl Inner {
    async fn respond(&self, mut request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        // Read to its end as a connection would, or the client takes the upload for stalled while it waits.
        let body = ByteStream::new(request.take_body()).collect().await;
        let body = body.map_err(|error| ConnectorError::user(error.into()))?.into_bytes();
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let (service, operation) =
            route(target).ok_or_else(|| ConnectorError::user("no local service has this target".into()))?;

        let call = RequestInfo { service, operation, number: self.count(service, operation), body: &body };
        let hook = lock(&self.fault).clone();
        let fault = hook.and_then(|hook| hook(&call));
        match fault {
            None => http_response(self.dispatch(&call).await),
            Some(Fault::ErrorBefore { status, code }) => {
                http_response(ServiceResponse::error(status, &code, "injected fault"))
            }
            Some(Fault::ErrorAfter { status, code }) => {
                self.dispatch(&call).await;
                http_response(ServiceResponse::error(status, &code, "injected fault"))
            }
            Some(Fault::NotSent) => Err(ConnectorError::io("injected fault: connection refused".into())),
            Some(Fault::ResponseLost) => {
                self.dispatch(&call).await;
                Err(ConnectorError::io("injected fault: connection reset".into()))
            }
            Some(Fault::Timeout) => {
                tokio::time::sleep(Duration::from_millis(NO_RESPONSE_MS_MAX)).await;
                Err(ConnectorError::timeout("injected fault: no answer".into()))
            }
            Some(Fault::Delay(delay)) => {
                tokio::time::sleep(delay).await;
                http_response(self.dispatch(&call).await)
            }
            Some(Fault::ResponseDelay(delay)) => {
                let answer = self.dispatch(&call).await;
                tokio::time::sleep(delay).await;
                http_response(answer)
            }
            Some(Fault::Crash(point)) => {
                if point == CrashPoint::BeforeResponse {
                    self.dispatch(&call).await;
                }
                crash()
            }
            Some(Fault::ReplacedRequest(body)) => {
                http_response(self.dispatch(&RequestInfo { body: &body, ..call }).await)
            }
            Some(Fault::FakedResponse { body }) => {
                http_response(ServiceResponse { status: 200, body, query_error: None })
            }
        }
    }

    async fn dispatch(&self, call: &RequestInfo<'_>) -> ServiceResponse {
        match call.service {
            Service::DynamoDb => self.dynamodb.handle(call.operation, call.body),
            Service::Sqs => self.sqs.handle(call.operation, call.body).await,
            Service::EventBridge => self.bus.handle(call.operation, call.body),
        }
    }

    fn count(&self, service: Service, operation: &str) -> u64 {
        let mut ledger = lock(&self.ledger);
        let number = ledger.next_number;
        ledger.next_number += 1;
        *ledger.requests.entry((service, operation.to_owned())).or_default() += 1;
        number
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let inner = self.0.clone();
        HttpConnectorFuture::new(async move { inner.respond(request).await })
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

/// Ends the function that makes the request: its invocation is a task of its own. Nothing is printed, nobody made a mistake.
fn crash() -> ! {
    std::panic::resume_unwind(Box::new("the function dies here, by intent"))
}

fn route(target: &str) -> Option<(Service, &str)> {
    let (service, operation) = target.split_once('.')?;
    let service = match service {
        "DynamoDB_20120810" => Service::DynamoDb,
        "AmazonSQS" => Service::Sqs,
        "AWSEvents" => Service::EventBridge,
        _ => return None,
    };
    Some((service, operation))
}

fn http_response(answer: ServiceResponse) -> Result<HttpResponse, ConnectorError> {
    let status = StatusCode::try_from(answer.status).map_err(|error| ConnectorError::user(error.into()))?;
    let mut response = HttpResponse::new(status, SdkBody::from(answer.body));
    response.headers_mut().insert("content-type", "application/x-amz-json-1.0");
    if let Some(error) = answer.query_error {
        response
            .headers_mut()
            .try_insert("x-amzn-query-error", error)
            .map_err(|error| ConnectorError::user(error.into()))?;
    }
    Ok(response)
}

/// The way from the functions to the fake provider's API: every provider's requests end there.
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
            let answer = fake.handle(request.method(), path, request.headers().get("authorization"), &body);
            if fake.crashes_at(CrashPoint::BeforeResponse) {
                crash();
            }
            if answer.lost {
                return Err(ConnectorError::io("the connection broke before the answer came".into()));
            }
            let status = StatusCode::try_from(answer.status).map_err(|error| ConnectorError::user(error.into()))?;
            Ok(HttpResponse::new(status, SdkBody::from(answer.body)))
        })
    }
}
