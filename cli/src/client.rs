//! HTTP client for a local or deployed stack.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Uri};
use serde_json::Value;
use switchhook_aws::sign::{self, SignError};
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Timeout of a request. A stack answers in milliseconds, but a slow network takes longer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Largest response body. The timeline of a call with the maximum number of events has about 300 KB.
const RESPONSE_BYTES_MAX: u64 = 8 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("{0:?} is not a URL: it must look like http://127.0.0.1:8787 or https://example.com")]
    BadUrl(String),
    #[error("could not build a request to {url}")]
    Request {
        url: String,
        #[source]
        source: http::Error,
    },
    #[error("no answer from {url}: check that the stack is running and the URL is right")]
    Send {
        url: String,
        #[source]
        source: Box<ureq::Error>,
    },
    #[error(transparent)]
    Sign(#[from] SignError),
}

/// The response to a request.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Parses a URL, ignoring a slash at its end.
///
/// # Errors
/// The text is not an absolute http or https URL.
pub(crate) fn base_url(text: &str) -> Result<Uri, ClientError> {
    let bad = || ClientError::BadUrl(text.to_owned());
    let uri: Uri = text.trim_end_matches('/').parse().map_err(|_| bad())?;
    let is_web = uri.scheme_str().is_some_and(|scheme| scheme == "http" || scheme == "https");
    if is_web && uri.host().is_some_and(|host| !host.is_empty()) { Ok(uri) } else { Err(bad()) }
}

/// Sends a request to the stack at this URL. A body is JSON.
pub(crate) fn send_to_stack<'a>(
    to: &str,
    method: Method,
    path: &str,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    body: Vec<u8>,
) -> Result<Response, ClientError> {
    base_url(to)?;
    let url = format!("{}{path}", to.trim_end_matches('/'));
    let mut request = Request::builder().method(method).uri(&url);
    if !body.is_empty() {
        request = request.header("content-type", "application/json");
    }
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(body).map_err(|source| ClientError::Request { url, source })?;
    send_to_api(request)
}

/// Sends a request to the API of a stack. The API of a deployed stack requires a SigV4 signature, so requests to other
/// machines are signed.
pub(crate) fn send_to_api(mut request: Request<Vec<u8>>) -> Result<Response, ClientError> {
    if !is_loopback(request.uri()) {
        sign::sign(&mut request)?;
    }
    send(request)
}

impl Response {
    /// The body as JSON. `Null` if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// Text of an error response for the user: status, title and detail, then one line per invalid field.
    pub(crate) fn error_text(&self) -> String {
        let problem = self.json();
        let field = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let detail =
            field(&problem, "detail").or_else(|| field(&problem, "message")).unwrap_or_else(|| self.body.clone());
        let title = field(&problem, "title").map(|title| format!(" {title}:")).unwrap_or_default();
        let mut text = format!("{}{title} {detail}", self.status);
        for error in problem.get("errors").and_then(Value::as_array).into_iter().flatten() {
            let (name, message) = (field(error, "field"), field(error, "message"));
            text.push_str(&format!("\n  {}: {}", name.unwrap_or_default(), message.unwrap_or_default()));
        }
        text
    }
}

/// True if the address belongs to this machine.
pub(crate) fn is_loopback(uri: &Uri) -> bool {
    matches!(uri.host(), Some("localhost" | "127.0.0.1" | "[::1]"))
}

/// Sends the request and returns the response, whatever its status.
pub(crate) fn send(request: Request<Vec<u8>>) -> Result<Response, ClientError> {
    let url = request.uri().to_string();
    let failed = |source| ClientError::Send { url: url.clone(), source: Box::new(source) };
    let agent = agent_for(request.uri());
    let mut response = agent.run(request).map_err(failed)?;
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(RESPONSE_BYTES_MAX).lossy_utf8(true).read_to_string();
    Ok(Response { status, body: body.map_err(failed)? })
}

fn agent_for(uri: &Uri) -> Agent {
    let mut config = Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false).max_redirects(0);
    if uri.scheme_str() == Some("https") {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let found = rustls_native_certs::load_native_certs().certs;
        let roots: Vec<Certificate<'static>> =
            found.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(roots)))
            .unversioned_rustls_crypto_provider(provider);
        config = config.tls_config(tls.build());
    }
    // A proxy on another machine cannot reach an address of this machine.
    if is_loopback(uri) {
        config = config.proxy(None);
    }
    config.build().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_tells_every_field_that_is_wrong() {
        let body = r#"{"type":"urn:x","title":"The request is not valid","status":400,"detail":"2 fields are not valid",
            "errors":[{"field":"to","message":"is missing"},{"field":"retry.attempts_max","message":"is no number"}]}"#;
        let error_text = |status, body: &str| Response { status, body: body.to_owned() }.error_text();
        assert_eq!(
            error_text(400, body),
            "400 The request is not valid: 2 fields are not valid\n  to: is missing\n  retry.attempts_max: is no number"
        );
        assert_eq!(error_text(403, r#"{"message":"Forbidden"}"#), "403 Forbidden");
        assert_eq!(error_text(502, "<html>"), "502 <html>");
    }

    #[test]
    fn only_web_addresses_are_taken() {
        assert_eq!(base_url("http://127.0.0.1:8787/").unwrap().to_string(), "http://127.0.0.1:8787/");
        assert!(base_url("https://example.com/prod").is_ok());
        for bad in ["", "127.0.0.1:8787", "ftp://example.com", "http://", "/calls", "http://a b"] {
            assert!(base_url(bad).is_err(), "{bad}");
        }
    }
}
