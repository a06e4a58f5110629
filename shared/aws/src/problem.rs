//! Error responses of the API, in the format of RFC 9457 (problem details).
//!
//! **Programs read `type`, which never changes. People read `detail`.** Neither repeats a value from the request: a
//! rejected value may be a phone number.

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

/// First part of every `type`.
const TYPE_PREFIX: &str = "urn:switchhook:problem:";

/// Kind of an error response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    InvalidJson,
    InvalidRequest,
    NotFound,
    MethodNotAllowed,
    /// The idempotency key was used before, for a different request.
    IdempotencyKeyReused,
    /// The same request created a call before, and the person of that call was forgotten.
    CallForgotten,
    /// The call is no longer PENDING.
    NotPending,
    /// Another system placed the call.
    NotPlacedBySwitchhook,
    PayloadTooLarge,
    StorageFailure,
    InternalError,
}

impl ProblemKind {
    pub const ALL: [Self; 11] = [
        Self::InvalidJson,
        Self::InvalidRequest,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::IdempotencyKeyReused,
        Self::CallForgotten,
        Self::NotPending,
        Self::NotPlacedBySwitchhook,
        Self::PayloadTooLarge,
        Self::StorageFailure,
        Self::InternalError,
    ];

    /// Last part of `type`, and name of the metric.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::InvalidJson => "invalid_json",
            Self::InvalidRequest => "invalid_request",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::IdempotencyKeyReused => "idempotency_key_reused",
            Self::CallForgotten => "call_forgotten",
            Self::NotPending => "not_pending",
            Self::NotPlacedBySwitchhook => "not_placed_by_switchhook",
            Self::PayloadTooLarge => "payload_too_large",
            Self::StorageFailure => "storage_failure",
            Self::InternalError => "internal_error",
        }
    }

    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::InvalidJson => "The body is not JSON",
            Self::InvalidRequest => "The request is not valid",
            Self::NotFound => "Not found",
            Self::MethodNotAllowed => "The path does not have this method",
            Self::IdempotencyKeyReused => "The idempotency key is taken",
            Self::CallForgotten => "The person of the call was forgotten",
            Self::NotPending => "The call is not pending",
            Self::NotPlacedBySwitchhook => "Switchhook did not place the call",
            Self::PayloadTooLarge => "The body is too large",
            Self::StorageFailure => "The tables could not be read or written",
            Self::InternalError => "Internal error",
        }
    }

    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::InvalidJson | Self::InvalidRequest => StatusCode::BAD_REQUEST,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::IdempotencyKeyReused | Self::CallForgotten | Self::NotPending | Self::NotPlacedBySwitchhook => {
                StatusCode::CONFLICT
            }
            Self::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::StorageFailure | Self::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// Error in one field of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// Path of the field in the body, for example `window.opens`, or name of a header or parameter.
    pub field: String,
    pub message: String,
}

impl FieldError {
    #[must_use]
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// One error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub kind: ProblemKind,
    /// Explanation of this error, for people.
    pub detail: String,
    /// Errors of single fields. Empty if the error is not about fields.
    pub errors: Vec<FieldError>,
}

impl Problem {
    #[must_use]
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), errors: Vec::new() }
    }

    /// Response to a request with invalid fields.
    #[must_use]
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        let fields = if errors.len() == 1 { "field is" } else { "fields are" };
        let detail = format!("{} {fields} not valid", errors.len());
        Self { kind: ProblemKind::InvalidRequest, detail, errors }
    }

    /// Response if a table could not be read or written. The cause is only in the log.
    #[must_use]
    pub fn storage_failure() -> Self {
        Self::new(ProblemKind::StorageFailure, "the tables could not be read or written; send the request again")
    }

    /// Returns the body.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let mut body = serde_json::json!({
            "type": format!("{TYPE_PREFIX}{}", self.kind.code()),
            "title": self.kind.title(),
            "status": self.kind.status().as_u16(),
            "detail": self.detail,
        });
        if let Some(body) = body.as_object_mut().filter(|_| !self.errors.is_empty()) {
            body.insert("errors".to_owned(), serde_json::json!(self.errors));
        }
        body
    }

    /// Returns the whole response.
    #[must_use]
    pub fn into_response(self) -> Response<String> {
        let mut response = Response::new(self.to_json().to_string());
        *response.status_mut() = self.kind.status();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn problem_names_every_field_that_is_wrong() {
        let errors = vec![FieldError::new("to", "is missing"), FieldError::new("window.opens", "is no time")];
        let response = Problem::invalid(errors).into_response();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        let body: Value = serde_json::from_str(response.body()).unwrap();
        let expected = json!({
            "type": "urn:switchhook:problem:invalid_request",
            "title": "The request is not valid",
            "status": 400,
            "detail": "2 fields are not valid",
            "errors": [
                {"field": "to", "message": "is missing"},
                {"field": "window.opens", "message": "is no time"},
            ],
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn problem_without_fields_has_no_list_of_them() {
        let body = Problem::storage_failure().to_json();
        assert_eq!(body["status"], 500);
        assert_eq!(body.get("errors"), None);
    }

    #[test]
    fn kinds_differ_in_their_words() {
        let words: std::collections::BTreeSet<&str> = ProblemKind::ALL.iter().map(|kind| kind.code()).collect();
        assert_eq!(words.len(), ProblemKind::ALL.len());
    }
}
