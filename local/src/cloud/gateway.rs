//! API Gateway: routes, and requests as events of an HTTP API.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use switchhook_api::{OTHER_ROUTES, ROUTES};

use crate::stack::ACCOUNT;

/// Function that serves a route.
#[derive(Clone, Copy)]
pub(super) enum Route {
    Ingress,
    Scheduler,
    Api,
}

impl Route {
    /// Name of the function.
    pub(super) const fn function(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Scheduler => "scheduler",
            Self::Api => "api",
        }
    }

    /// Returns the function that serves a request. `None` if the gateway has no such route.
    ///
    /// This is the strictest reading of the documentation of HTTP APIs: the path is decoded before a route is matched, and a
    /// path parameter is one segment. A method that a path of the API does not have also leads to the API, which names the methods that it has.
    pub(super) fn find(method: &Method, encoded_path: &str) -> Option<Self> {
        let path = decoded_path(encoded_path);
        if let Some(rest) = path.strip_prefix("/webhooks/") {
            let provider = rest.strip_suffix("/inbound").unwrap_or(rest);
            let is_webhook = method == Method::POST && !provider.is_empty() && !provider.contains('/');
            return is_webhook.then_some(Self::Ingress);
        }
        if OTHER_ROUTES.contains(&(method.as_str(), path.as_str())) {
            return Some(Self::Scheduler);
        }
        let mut paths = ROUTES.iter().map(|(_, known, _)| *known).chain(OTHER_ROUTES.map(|(_, known)| known));
        paths.any(|known| known == path).then_some(Self::Api)
    }
}

/// The path as an HTTP API matches it and hands it on: decoded once, and cut at a question mark that was percent-encoded.
fn decoded_path(path: &str) -> String {
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    decoded.split('?').next().unwrap_or_default().to_owned()
}

/// Returns the request as an event of an HTTP API, payload format 2.0.
pub(super) fn http_api_event(request: &Request<Bytes>, id: u64) -> Value {
    let query = request.uri().query().unwrap_or_default();
    let path = decoded_path(request.uri().path());
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
            // It is as long as an id of API Gateway, so that rows and log lines have their real size.
            "requestId": format!("local-{id:010}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateway_matches_the_decoded_path_segment_by_segment() {
        let served = |method: Method, path: &str| {
            Route::find(&method, path).map(|route| match route {
                Route::Ingress => "ingress",
                Route::Scheduler => "scheduler",
                Route::Api => "api",
            })
        };
        for (method, path, _) in ROUTES {
            assert_eq!(served(method.parse().unwrap(), path), Some("api"), "{method} {path}");
        }
        assert_eq!(served(Method::POST, "/call/trigger"), Some("scheduler"));
        assert_eq!(served(Method::GET, "/call/trigger"), Some("api"), "it answers 405");
        assert_eq!(served(Method::GET, "/%63all%2Fevents"), Some("api"), "decoded before it is matched");
        assert_eq!(served(Method::GET, "/call%3Fid=c1"), Some("api"), "cut at the question mark");
        for path in ["/webhooks/retell", "/webhooks/retell/inbound", "/webhooks/%72etell", "/webhooks/retell%2Finbound"]
        {
            assert_eq!(served(Method::POST, path), Some("ingress"), "{path}");
        }
        for path in [
            "/",
            "/call/",
            "/call/c1",
            "/calls/c1",
            "//call",
            "/call/events/",
            "/call/events%2F",
            "/events/e1/status",
            "/do-not-call/%2B15550100",
            "/webhooks/",
            "/webhooks/a/b",
            "/webhooks/a%2Fb",
            "/webhooks//inbound",
        ] {
            assert_eq!(served(Method::POST, path), None, "{path}");
        }
    }
}
