//! HTTP client for the API of a local or deployed stack.

use http::{Method, Request, Uri};
use serde_json::Value;
use switchhook_aws::sign::{self, SignError};
use switchhook_operate::Stack;
use switchhook_operate::web::{self, WebError};

#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error(transparent)]
    Web(#[from] WebError),
    #[error(transparent)]
    Sign(#[from] SignError),
}

/// API of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Api {
    /// Base URL, as it is named.
    pub(crate) url: String,
    /// Region of the stack, for which requests are signed. `None` if only the URL is known.
    pub(crate) region: Option<String>,
}

impl Api {
    pub(crate) fn of(stack: &Stack) -> Self {
        match &stack.local {
            Some(url) => Self { url: url.clone(), region: None },
            None => Self { url: stack.names.api_url.clone(), region: Some(stack.names.region.clone()) },
        }
    }

    /// Base URL without a slash at its end.
    pub(crate) fn base(&self) -> &str {
        self.url.trim_end_matches('/')
    }

    /// Sends a GET request.
    pub(crate) fn get(&self, path: &str) -> Result<Response, ClientError> {
        self.send(Method::GET, path, [], Vec::new())
    }

    /// Sends a request. A body is JSON. The API of a deployed stack requires a SigV4 signature, so requests to other machines are signed.
    pub(crate) fn send<'a>(
        &self,
        method: Method,
        path: &str,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
        body: Vec<u8>,
    ) -> Result<Response, ClientError> {
        base_url(&self.url)?;
        let url = format!("{}{path}", self.base());
        let mut request = Request::builder().method(method).uri(&url);
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let mut request = request.body(body).map_err(|source| WebError::Request { url, source })?;
        if !web::is_loopback(request.uri()) {
            sign::sign(&mut request, self.region.as_deref())?;
        }
        send(request)
    }
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

/// Reads a URL for clap.
pub(crate) fn url(text: &str) -> Result<String, String> {
    web::base_url(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
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
