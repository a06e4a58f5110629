//! Requests to AWS services that have no SDK client here: a client of each would cost minutes of compile time, and few of
//! their operations are needed.
//!
//! A request is signed with the operator's credentials. The variable `AWS_ENDPOINT_URL` leads all of them to another
//! endpoint, as it leads the SDK clients.

mod cloudformation;
mod cloudwatch;
mod eventbridge;
mod lambda;
mod scheduler;
mod secrets_manager;
mod sns;
mod sqs;
mod sts;
mod xml;

use std::time::Duration;

use http::{Method, Request};
use serde_json::Value;
use switchhook_aws::ledger::{Ledger, Usage};
use switchhook_aws::sdk::{self, SdkConfig};
use switchhook_aws::sign;

#[cfg(test)]
pub(crate) use self::cloudformation::description;
pub(crate) use self::cloudformation::{Resource, StackDescription};
pub(crate) use self::cloudwatch::METRIC_DATA;
pub use self::cloudwatch::{Alarm, AlarmState, MetricQuery, Series};
pub(crate) use self::eventbridge::Rule;
pub(crate) use self::lambda::{Concurrency, EventSource, FunctionState, ProvisionedPollers};
pub(crate) use self::sns::Topic;

use crate::error::Error;
use crate::web::{self, Response, WebError};

/// Service, by the name of its endpoint, which is also its name in a signature.
#[derive(Clone, Copy, Debug)]
enum Service {
    CloudFormation,
    CloudWatch,
    EventBridge,
    Lambda,
    Scheduler,
    SecretsManager,
    Sns,
    Sqs,
    Sts,
}

/// Client of those services in one region.
#[derive(Clone, Debug)]
pub(crate) struct AwsServices {
    config: SdkConfig,
    region: String,
    pub(crate) ledger: Ledger,
}

impl Service {
    const fn name(self) -> &'static str {
        match self {
            Self::CloudFormation => "cloudformation",
            Self::CloudWatch => "monitoring",
            Self::EventBridge => "events",
            Self::Lambda => "lambda",
            Self::Scheduler => "scheduler",
            Self::SecretsManager => "secretsmanager",
            Self::Sns => "sns",
            Self::Sqs => "sqs",
            Self::Sts => "sts",
        }
    }

    /// Content type of a request of the JSON protocol, which has two versions.
    const fn json_type(self) -> &'static str {
        match self {
            Self::CloudWatch | Self::Sqs => "application/x-amz-json-1.0",
            Self::CloudFormation
            | Self::EventBridge
            | Self::Lambda
            | Self::Scheduler
            | Self::SecretsManager
            | Self::Sns
            | Self::Sts => "application/x-amz-json-1.1",
        }
    }
}

impl AwsServices {
    /// Makes a client with the credentials and the region of the configuration.
    ///
    /// # Errors
    /// [`Error::NoRegion`].
    pub(crate) fn new(config: &SdkConfig) -> Result<Self, Error> {
        let region = config.region().ok_or(Error::NoRegion)?.to_string();
        Ok(Self { config: config.clone(), region, ledger: Ledger::default() })
    }

    pub(crate) const fn config(&self) -> &SdkConfig {
        &self.config
    }

    pub(crate) fn region(&self) -> &str {
        &self.region
    }

    /// Sends a request of the query protocol, and returns the XML of its response.
    async fn query(&self, service: Service, parameters: &[(&str, &str)]) -> Result<String, Error> {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        let headers = [("content-type", "application/x-www-form-urlencoded; charset=utf-8")];
        let operation = parameters.iter().find(|(name, _)| *name == "Action").map_or("", |(_, operation)| operation);
        let response = self.send(service, operation, "/", &headers, body, web::TIMEOUT).await?;
        Ok(response.body)
    }

    /// Sends a request of the JSON protocol, and returns the JSON of its response.
    async fn json(&self, service: Service, prefix: &str, operation: &str, body: &Value) -> Result<Value, Error> {
        let target = format!("{prefix}.{operation}");
        let headers = [("content-type", service.json_type()), ("x-amz-target", target.as_str())];
        let response = self.send(service, operation, "/", &headers, body.to_string(), web::TIMEOUT).await?;
        parsed(service, &response)
    }

    /// Sends a GET request of a REST protocol, and returns the JSON of its response.
    async fn get(&self, service: Service, operation: &str, path: &str) -> Result<Value, Error> {
        let request = web::request(Method::GET, &format!("{}{path}", self.endpoint(service)))?;
        let response = self.exchange(service, operation, request, web::TIMEOUT).await?;
        parsed(service, &response)
    }

    /// Sends a POST request, and returns a response of status 2xx.
    async fn send(
        &self,
        service: Service,
        operation: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
        timeout: Duration,
    ) -> Result<Response, Error> {
        let url = format!("{}{path}", self.endpoint(service));
        let mut request = Request::builder().method(Method::POST).uri(&url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into_bytes());
        let request = request.map_err(|source| WebError::Request { url, source })?;
        self.exchange(service, operation, request, timeout).await
    }

    /// Signs and sends a request, and returns a response of status 2xx.
    async fn exchange(
        &self,
        service: Service,
        operation: &str,
        mut request: Request<Vec<u8>>,
        timeout: Duration,
    ) -> Result<Response, Error> {
        self.ledger.record(service.name(), operation, Usage { requests: 1, ..Usage::default() });
        sign::sign_for(&mut request, &self.config, service.name(), &self.region).await?;
        let response = web::send_in_background(request, timeout).await?;
        let date = response.headers.get("date").and_then(|date| date.to_str().ok());
        self.ledger.note_date(date, sdk::Clock::from_config(&self.config).now());
        if (200..300).contains(&response.status) {
            return Ok(response);
        }
        let (code, message) = refusal(&response);
        let (service, operation, status) = (service.name(), operation.to_owned(), response.status);
        Err(Error::Refused { service, operation, status, code, message })
    }

    fn endpoint(&self, service: Service) -> String {
        match self.config.endpoint_url() {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => {
                let suffix = if self.region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
                format!("https://{}.{}.{suffix}", service.name(), self.region)
            }
        }
    }
}

/// Returns the JSON of a response. An empty response is `null`.
fn parsed(service: Service, response: &Response) -> Result<Value, Error> {
    if response.body.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(&response.body).map_err(|_| Error::Unreadable { service: service.name() })
}

/// Returns the code and the message of an error, from the XML or the JSON of a response. REST services send the code in a
/// header.
fn refusal(response: &Response) -> (String, String) {
    let body = response.body.as_str();
    if let Ok(error) = serde_json::from_str::<Value>(body) {
        let text = |names: [&str; 3]| {
            let value = names.iter().find_map(|name| error.get(name)?.as_str());
            value.unwrap_or_default().to_owned()
        };
        let header = response.headers.get("x-amzn-errortype").and_then(|code| code.to_str().ok());
        let code = header.map_or_else(|| text(["__type", "code", "Code"]), str::to_owned);
        // `com.example#Code` in a body, `Code:http://example.com/` in a header.
        let code = code.rsplit('#').next().unwrap_or_default().split(':').next().unwrap_or_default().to_owned();
        return (code, text(["message", "Message", "errorMessage"]));
    }
    let text = |name| xml::first_text(body, name).unwrap_or_default();
    (text("Code"), text("Message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &str) -> (String, String) {
        super::refusal(&Response { status: 400, headers: http::HeaderMap::new(), body: body.to_owned() })
    }

    #[test]
    fn error_is_read_from_both_protocols() {
        let xml = "<ErrorResponse xmlns=\"http://cloudformation.amazonaws.com/doc/2010-05-15/\"><Error><Type>Sender</Type>\
                   <Code>ValidationError</Code><Message>Stack with id x does not exist</Message></Error></ErrorResponse>";
        assert_eq!(refusal(xml), ("ValidationError".to_owned(), "Stack with id x does not exist".to_owned()));
        let json = r#"{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"not authorized"}"#;
        assert_eq!(refusal(json), ("AccessDeniedException".to_owned(), "not authorized".to_owned()));
        assert_eq!(refusal("<html>"), (String::new(), String::new()));
    }

    #[test]
    fn code_of_a_rest_service_is_in_a_header() {
        let mut headers = http::HeaderMap::new();
        headers.insert("x-amzn-errortype", "ResourceNotFoundException:http://internal/".parse().unwrap());
        let body = r#"{"Type":"User","Message":"Function not found"}"#.to_owned();
        let response = Response { status: 404, headers, body };
        let expected = ("ResourceNotFoundException".to_owned(), "Function not found".to_owned());
        assert_eq!(super::refusal(&response), expected);
    }
}
