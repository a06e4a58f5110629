//! HTTP client for the API of a local or deployed stack.

use http::{Method, Request, Uri};
use serde_json::Value;
use switchhook_aws::sign::{self, SignError};
use switchhook_operate::web::{self, WebError};

#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error(transparent)]
    Web(#[from] WebError),
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
    Ok(web::base_url(text)?)
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
    let request = request.body(body).map_err(|source| WebError::Request { url, source })?;
    send_to_api(request)
}

/// Sends a request to the API of a stack. The API of a deployed stack requires a SigV4 signature, so requests to other
/// machines are signed.
pub(crate) fn send_to_api(mut request: Request<Vec<u8>>) -> Result<Response, ClientError> {
    if !web::is_loopback(request.uri()) {
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

/// Sends the request and returns the response, whatever its status.
pub(crate) fn send(request: Request<Vec<u8>>) -> Result<Response, ClientError> {
    let web::Response { status, body, headers: _ } = web::send(request)?;
    Ok(Response { status, body })
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
}
