//! The guard before the API of `switchhook dev`: it refuses requests that a web page of another site could send.
//!
//! The API asks for no credentials, so any page that is open in a browser on this machine could call it. **A request must be sent
//! to a name of this machine, must not come from another site, and its body must be JSON.** A page of another site cannot send
//! such a request: a browser first asks a server whether another site may send it JSON, and this server never agrees.
//!
//! Webhooks are the exception. Tunnels post them under their own names, and providers also post forms. Their signature
//! protects them.

use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, ORIGIN, TRANSFER_ENCODING};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::json;
use switchhook_operate::web;

use super::response::json_response;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Start of the paths that lead to ingress, the function that verifies signatures.
const WEBHOOKS: &str = "/webhooks/";

/// Reason to refuse a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    /// It was sent to a name that is not this machine's, or by a page of another site.
    Foreign,
    /// Its content type is not JSON.
    NotJson,
}

/// Refuses requests that a page of another site could have sent, or that were sent to a name that is not this machine's.
pub(super) async fn check(request: Request, next: Next) -> Response {
    if request.uri().path().starts_with(WEBHOOKS) {
        return next.run(request).await;
    }
    let (status, text, check) = match judge(request.headers()) {
        Ok(()) => return next.run(request).await,
        Err(Refused::Foreign) => (
            StatusCode::FORBIDDEN,
            "this request names another host or comes from another site: use localhost or 127.0.0.1",
            "its host or its site is not of this machine",
        ),
        Err(Refused::NotJson) => (
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body must be JSON: send the header content-type: application/json",
            "its content type is not JSON",
        ),
    };
    tracing::warn!(target: "switchhook_dev", "{}", web::refusal_line(&request, check));
    json_response(status, &json!({"message": text}))
}

fn judge(headers: &HeaderMap) -> Result<(), Refused> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(HOST).ok_or(Refused::Foreign)?;
    let is_loopback = host.parse::<Authority>().is_ok_and(|authority| web::is_loopback_host(authority.host()));
    let is_own = text(ORIGIN).is_none_or(|origin| origin.strip_prefix("http://") == Some(host));
    // Only browsers send this header, and no page can change it.
    let is_own_site = matches!(text(SEC_FETCH_SITE), None | Some("same-origin" | "none"));
    if !is_loopback || !is_own || !is_own_site {
        return Err(Refused::Foreign);
    }
    let has_body = text(CONTENT_LENGTH).is_some_and(|length| length != "0") || headers.contains_key(TRANSFER_ENCODING);
    if has_body && !text(CONTENT_TYPE).is_some_and(is_json) { Err(Refused::NotJson) } else { Ok(()) }
}

/// True for JSON, and for the JSON types of the AWS protocols. An HTML form cannot send any of these types.
fn is_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media_type == "application/json" || media_type.starts_with("application/x-amz-json-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "127.0.0.1:8787";

    fn judged(sent: &[(HeaderName, &str)]) -> Result<(), Refused> {
        judge(&sent.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect())
    }

    #[test]
    fn only_this_machine_may_send_requests() {
        for host in [HERE, "localhost:8787", "localhost", "[::1]:8787", "switchhook.localhost:1"] {
            let from = |origin: &str| judged(&[(HOST, host), (ORIGIN, origin)]);
            assert_eq!(judged(&[(HOST, host)]), Ok(()), "{host}");
            assert_eq!(from(&format!("http://{host}")), Ok(()), "{host}");
            for origin in ["https://example.com", "null", "http://127.0.0.1:9999", ""] {
                assert_eq!(from(origin), Err(Refused::Foreign), "{host} {origin}");
            }
        }
        for host in ["example.com", "127.0.0.1.example.com", "user@127.0.0.1@example.com", "10.0.0.1:8787", ""] {
            assert_eq!(judged(&[(HOST, host)]), Err(Refused::Foreign), "{host}");
        }
        assert_eq!(judged(&[]), Err(Refused::Foreign));
    }

    #[test]
    fn browser_names_the_site_of_a_page() {
        for (site, expected) in [
            ("none", Ok(())),
            ("same-origin", Ok(())),
            ("cross-site", Err(Refused::Foreign)),
            // Another local server.
            ("same-site", Err(Refused::Foreign)),
            ("", Err(Refused::Foreign)),
        ] {
            assert_eq!(judged(&[(HOST, HERE), (SEC_FETCH_SITE, site)]), expected, "{site}");
        }
    }

    #[test]
    fn body_must_be_json() {
        let with = |content_type: &str| judged(&[(HOST, HERE), (CONTENT_LENGTH, "2"), (CONTENT_TYPE, content_type)]);
        for content_type in ["application/json", "Application/JSON; charset=utf-8", "application/x-amz-json-1.0"] {
            assert_eq!(with(content_type), Ok(()), "{content_type}");
        }
        for content_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""] {
            assert_eq!(with(content_type), Err(Refused::NotJson), "{content_type}");
        }
        assert_eq!(judged(&[(HOST, HERE), (CONTENT_LENGTH, "2")]), Err(Refused::NotJson));
        assert_eq!(judged(&[(HOST, HERE), (TRANSFER_ENCODING, "chunked")]), Err(Refused::NotJson));
        assert_eq!(judged(&[(HOST, HERE), (CONTENT_LENGTH, "0")]), Ok(()));
    }
}
