//! Requests to AWS services that have no SDK client here: a client of each would cost minutes of compile time, and few of
//! their operations are needed.
//!
//! A request is signed with the operator's credentials. The variable `AWS_ENDPOINT_URL` leads all of them to another
//! endpoint, as it leads the SDK clients.

mod cloudformation;
mod cloudwatch;
mod lambda;
mod sts;
mod xml;

use std::time::Duration;

use http::{Method, Request};
use serde_json::Value;
use switchhook_aws::sdk::SdkConfig;
use switchhook_aws::sign;

pub(crate) use self::cloudformation::StackDescription;
pub use self::cloudwatch::{Alarm, AlarmState, MetricQuery, Series};

use crate::error::Error;
use crate::web::{self, Response, WebError};

/// Service, by the name of its endpoint, which is also its name in a signature.
#[derive(Clone, Copy, Debug)]
enum Service {
    CloudFormation,
    CloudWatch,
    Lambda,
    Sts,
}

/// Client of those services in one region.
#[derive(Clone, Debug)]
pub(crate) struct AwsServices {
    config: SdkConfig,
    region: String,
}

impl Service {
    const fn name(self) -> &'static str {
        match self {
            Self::CloudFormation => "cloudformation",
            Self::CloudWatch => "monitoring",
            Self::Lambda => "lambda",
            Self::Sts => "sts",
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
        Ok(Self { config: config.clone(), region })
    }

    pub(crate) fn region(&self) -> &str {
        &self.region
    }

    /// Sends a request of the query protocol, and returns the XML of its response.
    async fn query(&self, service: Service, parameters: &[(&str, &str)]) -> Result<String, Error> {
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(parameters);
        let headers = [("content-type", "application/x-www-form-urlencoded; charset=utf-8")];
        let operation = parameters.iter().find(|(name, _)| *name == "Action").map_or("", |(_, operation)| operation);
        let response = self.send(service, operation, "/", &headers, body.finish(), web::TIMEOUT).await?;
        Ok(response.body)
    }

    /// Sends a request of the JSON protocol, and returns the JSON of its response.
    async fn json(&self, service: Service, prefix: &str, operation: &str, body: &Value) -> Result<Value, Error> {
        let target = format!("{prefix}.{operation}");
        let headers = [("content-type", "application/x-amz-json-1.0"), ("x-amz-target", target.as_str())];
        let response = self.send(service, operation, "/", &headers, body.to_string(), web::TIMEOUT).await?;
        serde_json::from_str(&response.body).map_err(|_| Error::Unreadable { service: service.name() })
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
        let mut request = request.map_err(|source| WebError::Request { url, source })?;
        sign::sign_for(&mut request, &self.config, service.name(), &self.region).await?;
        let response = web::send_in_background(request, timeout).await?;
        if (200..300).contains(&response.status) {
            return Ok(response);
        }
        let (code, message) = refusal(&response.body);
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

/// Returns the code and the message of an error, from the XML or the JSON of a response.
fn refusal(body: &str) -> (String, String) {
    if let Ok(error) = serde_json::from_str::<Value>(body) {
        let text = |names: [&str; 3]| {
            let value = names.iter().find_map(|name| error.get(name)?.as_str());
            value.unwrap_or_default().to_owned()
        };
        let code = text(["__type", "code", "Code"]);
        let code = code.rsplit('#').next().unwrap_or_default().to_owned();
        return (code, text(["message", "Message", "errorMessage"]));
    }
    let text = |name| xml::first_text(body, name).unwrap_or_default();
    (text("Code"), text("Message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_is_read_from_both_protocols() {
        let xml = "<ErrorResponse xmlns=\"http://cloudformation.amazonaws.com/doc/2010-05-15/\"><Error><Type>Sender</Type>\
                   <Code>ValidationError</Code><Message>Stack with id x does not exist</Message></Error></ErrorResponse>";
        assert_eq!(refusal(xml), ("ValidationError".to_owned(), "Stack with id x does not exist".to_owned()));
        let json = r#"{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"not authorized"}"#;
        assert_eq!(refusal(json), ("AccessDeniedException".to_owned(), "not authorized".to_owned()));
        assert_eq!(refusal("<html>"), (String::new(), String::new()));
    }
}
