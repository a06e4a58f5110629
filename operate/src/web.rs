//! HTTP requests to a stack's API, to a local stack, and to AWS services that have no client here.

use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request, Uri};
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::mask::Masker;

/// Usual timeout of a request. A stack answers in milliseconds, but a slow network takes longer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
/// Largest response body. The timeline of a call with the maximum number of events has about 300 KB.
const RESPONSE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Largest part of a path or a host that is logged, in characters.
const LOGGED_MAX: usize = 100;

/// Reason why a request got no response.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    #[error("{0:?} is not a URL: it must look like http://127.0.0.1:8787 or https://example.com")]
    BadUrl(String),
    #[error("could not build a request to {url}")]
    Request {
        url: String,
        #[source]
        source: http::Error,
    },
    #[error("no answer from {url}: check that the stack is running and the URL is right")]
    NoAnswer {
        url: String,
        #[source]
        source: Box<ureq::Error>,
    },
    #[error("could not wait for the answer")]
    Wait(#[source] tokio::task::JoinError),
}

/// The response to a request.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

/// Parses a URL, ignoring a slash at its end.
///
/// # Errors
/// [`WebError::BadUrl`] if the text is not an absolute http or https URL.
pub fn base_url(text: &str) -> Result<Uri, WebError> {
    let bad = || WebError::BadUrl(text.to_owned());
    let uri: Uri = text.trim_end_matches('/').parse().map_err(|_| bad())?;
    let is_web = uri.scheme_str().is_some_and(|scheme| scheme == "http" || scheme == "https");
    if is_web && uri.host().is_some_and(|host| !host.is_empty()) { Ok(uri) } else { Err(bad()) }
}

/// True if the address belongs to this machine.
#[must_use]
pub fn is_loopback(uri: &Uri) -> bool {
    uri.host().is_some_and(is_loopback_host)
}

/// True if the name of a host, without a port, leads to this machine.
#[must_use]
pub fn is_loopback_host(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "[::1]") || host.ends_with(".localhost")
}

/// Returns the log line about a refused request. Its path and host are cut and masked, because a sender can write anything there.
#[must_use]
pub fn refusal_line<B>(request: &Request<B>, check: &str) -> String {
    let mut masker = Masker::new();
    let mut shown = |text: &str| masker.text(&text.chars().take(LOGGED_MAX).collect::<String>());
    let host = request.headers().get(http::header::HOST).map(|host| host.to_str().unwrap_or_default());
    let (path, host) = (shown(request.uri().path()), shown(host.unwrap_or_default()));
    format!("refused {} {path:?} by the host {host:?}: {check}", request.method())
}

/// Sends the request and returns the response, whatever its status. Blocks until the response is complete.
///
/// # Errors
/// [`WebError::NoAnswer`].
pub fn send(request: Request<Vec<u8>>) -> Result<Response, WebError> {
    send_within(request, TIMEOUT)
}

/// Does the same as [`send`], with another timeout.
fn send_within(request: Request<Vec<u8>>, timeout: Duration) -> Result<Response, WebError> {
    let url = request.uri().to_string();
    let failed = |source| WebError::NoAnswer { url: url.clone(), source: Box::new(source) };
    let agent = agent_for(request.uri(), timeout);
    let mut response = agent.run(request).map_err(failed)?;
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let body = response.body_mut().with_config().limit(RESPONSE_BYTES_MAX).lossy_utf8(true).read_to_string();
    Ok(Response { status, headers, body: body.map_err(failed)? })
}

/// Does the same as [`send`], on a thread of the runtime for blocking work.
pub(crate) async fn send_in_background(request: Request<Vec<u8>>, timeout: Duration) -> Result<Response, WebError> {
    tokio::task::spawn_blocking(move || send_within(request, timeout)).await.map_err(WebError::Wait)?
}

/// Reads a response line by line, and returns those lines that are wanted. Ends after the line that is the last one, or when
/// the response ends or the time is up.
pub(crate) async fn lines_until(
    request: Request<Vec<u8>>,
    timeout: Duration,
    is_wanted: impl Fn(&str) -> bool + Send + 'static,
    is_last: impl Fn(&str) -> bool + Send + 'static,
) -> Result<Vec<String>, WebError> {
    let read = tokio::task::spawn_blocking(move || {
        let url = request.uri().to_string();
        let response = agent_for(request.uri(), timeout).run(request);
        let response = response.map_err(|source| WebError::NoAnswer { url, source: Box::new(source) })?;
        let mut wanted = Vec::new();
        // An error means that the time is up.
        for line in BufReader::new(response.into_body().into_reader()).lines().map_while(Result::ok) {
            let is_end = is_last(&line);
            if is_end || is_wanted(&line) {
                wanted.push(line);
            }
            if is_end {
                break;
            }
        }
        Ok(wanted)
    });
    read.await.map_err(WebError::Wait)?
}

/// Builds a request without a body.
pub(crate) fn request(method: http::Method, url: &str) -> Result<Request<Vec<u8>>, WebError> {
    let request = Request::builder().method(method).uri(url).body(Vec::new());
    request.map_err(|source| WebError::Request { url: url.to_owned(), source })
}

fn agent_for(uri: &Uri, timeout: Duration) -> Agent {
    let mut config = Agent::config_builder().timeout_global(Some(timeout)).http_status_as_error(false).max_redirects(0);
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
    fn only_web_addresses_are_taken() {
        assert_eq!(base_url("http://127.0.0.1:8787/").unwrap().to_string(), "http://127.0.0.1:8787/");
        assert!(base_url("https://example.com/prod").is_ok());
        for bad in ["", "127.0.0.1:8787", "ftp://example.com", "http://", "/calls", "http://a b"] {
            assert!(base_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn refusal_is_told_with_its_path_its_host_and_its_check() {
        let line = |path: &str, host: &str| {
            let request = Request::post(path).header("host", host).body(()).unwrap();
            refusal_line(&request, "foreign host")
        };
        let expected = r#"refused POST "/calls" by the host "evil.example:1": foreign host"#;
        assert_eq!(line("/calls?to=+447700900123", "evil.example:1"), expected);
        let long = line(&format!("/{}", "x".repeat(9_000)), "h");
        assert!(long.len() < 200, "{long}");
        assert!(!line("/calls/+447700900123", "h").contains("447700900123"));
    }

    #[test]
    fn names_of_this_machine_are_known() {
        for host in ["localhost", "127.0.0.1", "[::1]", "switchhook.localhost"] {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in ["example.com", "localhost.example.com", "127.0.0.1.example.com", "10.0.0.1", ""] {
            assert!(!is_loopback_host(host), "{host}");
        }
    }
}
