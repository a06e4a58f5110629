//! API Gateway: routes, and requests as events of an HTTP API.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use crate::stack::ACCOUNT;

/// Function that serves a route.
#[derive(Clone, Copy)]
pub(super) enum Route {
    Ingress,
    Scheduler,
    Api,
}

impl Route {
    /// Returns the function that serves a request. `None` if the gateway has no such route.
    pub(super) fn find(method: &Method, path: &str) -> Option<Self> {
        if let Some(rest) = path.strip_prefix("/webhooks/") {
            let provider = rest.strip_suffix("/inbound").unwrap_or(rest);
            let is_webhook = method == Method::POST && !provider.is_empty() && !provider.contains('/');
            return is_webhook.then_some(Self::Ingress);
        }
        if method == Method::POST && path.starts_with("/calls/") && path.ends_with("/trigger") {
            return Some(Self::Scheduler);
        }
        let is_api = path == "/calls"
            || ["/calls/", "/appointments/", "/events/", "/do-not-call/"].iter().any(|start| path.starts_with(start));
        is_api.then_some(Self::Api)
    }
}

/// Returns the request as an event of an HTTP API, payload format 2.0.
pub(super) fn http_api_event(request: &Request<Bytes>, id: u64) -> Value {
    let query = request.uri().query().unwrap_or_default();
    // An HTTP API decodes the path, and cuts it at a question mark that was percent-encoded.
    let path = percent_decode_str(request.uri().path()).decode_utf8_lossy();
    let path = path.split('?').next().unwrap_or_default();
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = header(http::header::CONTENT_TYPE);
    // A gateway passes text on as it is, and everything else in base64.
    let textual = ["text/", "application/json", "application/javascript", "application/xml"];
    let text = textual.iter().any(|kind| content_type.starts_with(kind)).then(|| std::str::from_utf8(request.body()));
    let (body, encoded) = match text {
        Some(Ok(text)) => (text.to_owned(), false),
        Some(Err(_)) | None => (BASE64.encode(request.body()), true),
    };
    json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": joined_headers(request.headers()),
        "requestContext": {
            "accountId": ACCOUNT,
            "apiId": "local",
            "domainName": "localhost",
            "http": {
                "method": request.method().as_str(),
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "127.0.0.1",
                "userAgent": header(http::header::USER_AGENT),
            },
            "requestId": format!("local-{id}"),
            "routeKey": "$default",
            "stage": "$default",
            "timeEpoch": 0,
        },
        "body": body,
        "isBase64Encoded": encoded,
    })
}

/// Headers as a gateway passes them on: names in lower case, several values of one name joined by commas.
fn joined_headers(headers: &HeaderMap) -> Map<String, Value> {
    headers
        .keys()
        .map(|name| {
            let values: Vec<_> = headers
                .get_all(name)
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
                .collect();
            (name.as_str().to_owned(), Value::String(values.join(",")))
        })
        .collect()
}

/// Response of the gateway itself, when no function answers.
pub(super) fn gateway_error(status: StatusCode, message: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(json!({"message": message}).to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}
