//! Conversion of API Gateway's events into the requests that handlers receive.
//!
//! An HTTP API sends `rawPath` decoded, a function URL sends it unchanged. `lambda_http` builds a URI from the `Host`
//! header, the path and the query, and panics if the result is not a URI. **Path and query are therefore encoded
//! first**: no path can fail an invocation, and [`path_of`] returns exactly the path of the event.

use aws_lambda_events::event::apigw::ApiGatewayV2httpRequest;
use lambda_http::request::{LambdaRequest, RequestContext};
use lambda_http::tower::ServiceBuilder;
use lambda_http::{Adapter, Body, Error, LambdaEvent, Request, RequestExt, Response, service_fn};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use switchhook_domain::TraceId;

/// Characters that are encoded in a path. The percent sign is one of them, so that every path can be decoded again.
const NOT_IN_PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');
/// Characters that are encoded in a query, beside those that are not ASCII. A query arrives encoded, and providers sign
/// it, so nothing else may change.
const NOT_IN_QUERY: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>');

/// Longest path with its query, in bytes. The crate `http` refuses a URI of more than 65,534 bytes.
const URI_BYTES_MAX: usize = 65_000;

/// Trace id of a request: the id that API Gateway gave it, which its access log has too. `None` if there is none.
#[must_use]
pub fn trace_id_of(request: &Request) -> Option<TraceId> {
    match request.request_context_ref() {
        Some(RequestContext::ApiGatewayV2(context)) => TraceId::new(context.request_id.as_deref()?),
        // The crate's features compile in no other kind of context.
        Some(_) | None => None,
    }
}

/// Answers requests of API Gateway until Lambda ends the process.
///
/// # Errors
/// Errors of the Lambda runtime.
pub async fn serve<F, A>(handle: F) -> Result<(), Error>
where
    F: Fn(Request) -> A,
    A: Future<Output = Response<Body>> + Send,
{
    let handler = service_fn(move |request| {
        let answer = handle(request);
        async move { Ok::<_, Error>(answer.await) }
    });
    let encode = |event: LambdaEvent<LambdaRequest>| LambdaEvent { payload: encoded(event.payload), ..event };
    let service = ServiceBuilder::new().map_request(encode).service(Adapter::from(handler));
    lambda_http::lambda_runtime::run(service).await
}

/// Returns the request of an API Gateway event.
#[must_use]
pub fn request_from_event(event: LambdaRequest) -> Request {
    encoded(event).into()
}

/// Returns the path of the event: decoded from an HTTP API, encoded from a function URL.
#[must_use]
pub fn path_of(request: &Request) -> String {
    percent_decode_str(request.raw_http_path()).decode_utf8_lossy().into_owned()
}

fn encoded(event: LambdaRequest) -> LambdaRequest {
    match event {
        LambdaRequest::ApiGatewayV2(event) => LambdaRequest::ApiGatewayV2(encode(event)),
        // The crate's features compile in no other kind of event.
        other => other,
    }
}

fn encode(mut event: ApiGatewayV2httpRequest) -> ApiGatewayV2httpRequest {
    let path = event.raw_path.unwrap_or_default();
    let encoded = utf8_percent_encode(path.strip_prefix('/').unwrap_or(&path), NOT_IN_PATH);
    let (path, query) = (format!("/{encoded}"), event.raw_query_string.unwrap_or_default());
    let query = utf8_percent_encode(&query, NOT_IN_QUERY).to_string();
    // No path of the stack is that long, so such a request gets the answer to an unknown path.
    let is_too_long = path.len() + "?".len() + query.len() > URI_BYTES_MAX;
    let (path, query) = if is_too_long { ("/".to_owned(), String::new()) } else { (path, query) };
    event.raw_path = Some(path);
    event.raw_query_string = Some(query);
    // No handler needs the host. Without it the URI is the path and the query alone.
    event.headers.remove(http::header::HOST);
    event.request_context.domain_name = None;
    event
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(path: &str, query: &str, host: &str) -> Request {
        let event = json!({
            "version": "2.0", "routeKey": "$default", "rawPath": path, "rawQueryString": query,
            "headers": {"host": host}, "isBase64Encoded": false,
            "requestContext": {
                "accountId": "1", "apiId": "a", "domainName": host, "requestId": "r", "routeKey": "$default",
                "stage": "$default", "timeEpoch": 0, "time": "",
                "http": {"method": "GET", "path": path, "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1", "userAgent": ""},
            },
        });
        request_from_event(serde_json::from_value(event).unwrap())
    }

    #[test]
    fn every_path_comes_through_as_it_was() {
        let all: String = (0..=0x17f).filter_map(char::from_u32).collect();
        let paths = [
            "/",
            "/calls/a b",
            "/webhooks/\0",
            "/events/ä/status",
            "//",
            "/calls/%2F%zz%",
            "/a?b#c",
            "/../x",
            "/:99999",
        ];
        for path in paths.into_iter().chain([format!("/{all}").as_str()]) {
            let request = request(path, "", "example.com");
            assert_eq!(path_of(&request), path);
            assert_eq!(request.uri().query(), None, "{path}");
        }
        for path in ["", "calls"] {
            assert_eq!(path_of(&request(path, "", "example.com")), format!("/{path}"), "a path begins with a slash");
        }
        let long = format!("/{}", "a".repeat(70_000));
        for (path, query) in [(long.as_str(), ""), ("/calls", &long[1..])] {
            let request = request(path, query, "example.com");
            assert_eq!(request.uri().to_string(), "/", "a URI that is too long fails no invocation");
        }
    }

    #[test]
    fn query_is_handed_on_as_it_was_sent() {
        for query in ["a=1&b=%20+x", "a=%2F%zz%", "x={a:[1]}|^`", "?"] {
            assert_eq!(request("/a", query, "example.com").uri().query(), Some(query));
        }
        assert_eq!(
            request("/a", "a=b c\té#<>\"", "example.com").uri().query(),
            Some("a=b%20c%09%C3%A9%23%3C%3E%22"),
            "no query holds these"
        );
    }

    #[test]
    fn host_decides_nothing() {
        for host in ["", "a b", "[", "example.com:99999", "x/y?z#"] {
            assert_eq!(path_of(&request("/calls/c1", "a=1", host)), "/calls/c1", "{host}");
        }
    }
}
