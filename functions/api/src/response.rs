//! Answers and errors of requests, and their HTTP responses. Status and body are chosen here alone.

use http::header::{ALLOW, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode};
use lambda_http::{Body, Response};
use serde_json::{Value, json};
use switchhook_aws::Error;
use switchhook_aws::problem::{Problem, ProblemKind};
use switchhook_domain::{Call, CallId, EventId};

use crate::view::CallView;

/// Answer to a successful request, and its fields in the log.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// Body as JSON. `None` if the response has no body.
    pub(crate) body: Option<Value>,
    pub(crate) headers: Vec<(HeaderName, String)>,
    pub(crate) action_taken: &'static str,
    /// Id for the log. Set only after a row with this id was found: the id in a request can be any text.
    pub(crate) call_id: Option<CallId>,
    pub(crate) event_id: Option<EventId>,
}

/// Error of a request.
#[derive(Debug)]
pub(crate) enum RequestError {
    Problem(Problem),
    /// The path has other methods, listed as in the header `Allow`.
    MethodNotAllowed(String),
    Storage(Error),
    /// Storage failure of a request with `allow_duplicate` and without a key. It may have created its call, and a repetition would
    /// create another one.
    StorageOfDuplicate(Error),
    /// The system gave no random bytes for the id of a new call.
    RandomId(Error),
    /// The request could not be hashed, because it cannot be written as JSON.
    Hash(serde_json::Error),
}

impl Answer {
    pub(crate) fn ok(action_taken: &'static str, body: Value) -> Self {
        Self {
            status: StatusCode::OK,
            body: Some(body),
            headers: Vec::new(),
            action_taken,
            call_id: None,
            event_id: None,
        }
    }

    pub(crate) fn empty(action_taken: &'static str) -> Self {
        Self { status: StatusCode::NO_CONTENT, body: None, ..Self::ok(action_taken, Value::Null) }
    }

    pub(crate) fn with_call(action_taken: &'static str, call: &Call) -> Self {
        Self { call_id: Some(call.call_id.clone()), ..Self::ok(action_taken, json!(CallView::of(call))) }
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let body = self.body.as_ref().map_or(Body::Empty, |body| Body::Text(body.to_string()));
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        if self.body.is_some() {
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        insert(response.headers_mut(), self.headers);
        response
    }
}

impl RequestError {
    pub(crate) fn not_found(detail: &str) -> Self {
        Self::Problem(Problem::new(ProblemKind::NotFound, detail))
    }

    pub(crate) fn unknown_id() -> Self {
        Self::not_found(
            "there is nothing with this id; check it, and percent-encode the characters that a query cannot hold",
        )
    }

    /// Returns the error for a request whose repetition creates another call.
    pub(crate) fn of_duplicate(self) -> Self {
        match self {
            Self::Storage(error) => Self::StorageOfDuplicate(error),
            Self::Problem(_)
            | Self::MethodNotAllowed(_)
            | Self::StorageOfDuplicate(_)
            | Self::RandomId(_)
            | Self::Hash(_) => self,
        }
    }

    pub(crate) const fn kind(&self) -> ProblemKind {
        match self {
            Self::Problem(problem) => problem.kind,
            Self::MethodNotAllowed(_) => ProblemKind::MethodNotAllowed,
            Self::Storage(_) | Self::StorageOfDuplicate(_) => ProblemKind::StorageFailure,
            Self::RandomId(_) | Self::Hash(_) => ProblemKind::InternalError,
        }
    }

    /// Cause for the log. `None` if the client's request is the cause.
    pub(crate) fn cause(&self) -> Option<String> {
        match self {
            Self::Problem(_) | Self::MethodNotAllowed(_) => None,
            Self::Storage(error) | Self::StorageOfDuplicate(error) | Self::RandomId(error) => Some(error.with_causes()),
            Self::Hash(error) => Some(error.to_string()),
        }
    }

    /// Problem for the client, with the headers of its response.
    pub(crate) fn into_problem(self) -> (Problem, Vec<(HeaderName, String)>) {
        match self {
            Self::Problem(problem) => (problem, Vec::new()),
            Self::MethodNotAllowed(methods) => {
                let detail = format!("this path has only {methods}");
                (Problem::new(ProblemKind::MethodNotAllowed, detail), vec![(ALLOW, methods)])
            }
            Self::Storage(Error::CreatedTooLongAgo) => {
                let detail = "the row of the call was lost, or was never written, and the call was created too long ago for a request to \
                              bring it back; after an operator has run `switchhook verify --repair` with a --since before its creation, \
                              send the request again";
                (Problem::new(ProblemKind::StorageFailure, detail), Vec::new())
            }
            Self::Storage(_) => (Problem::storage_failure(), Vec::new()),
            Self::StorageOfDuplicate(_) => {
                let detail = "the tables could not be read or written, and the call may have been created; look for it first, because \
                              this request with allow_duplicate creates another call each time";
                (Problem::new(ProblemKind::StorageFailure, detail), Vec::new())
            }
            Self::RandomId(_) | Self::Hash(_) => {
                (Problem::new(ProblemKind::InternalError, "nothing was written; send the request again"), Vec::new())
            }
        }
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let (problem, headers) = self.into_problem();
        let mut response = problem.into_response().map(Body::Text);
        insert(response.headers_mut(), headers);
        response
    }
}

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        Self::Storage(error)
    }
}

fn insert(headers: &mut HeaderMap, more: Vec<(HeaderName, String)>) {
    // Values are ASCII: ids that the API made, and names of methods. Any other value would be dropped.
    headers.extend(more.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::try_from(value).ok()?))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_that_is_not_allowed_is_told_with_those_that_are() {
        let response = RequestError::MethodNotAllowed("PUT, DELETE".to_owned()).into_response();
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(response.headers()[ALLOW], "PUT, DELETE");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
    }

    #[test]
    fn empty_answer_claims_no_type() {
        let response = Answer::empty("number_blocked").into_response();
        assert_eq!((response.status(), response.body().is_empty()), (StatusCode::NO_CONTENT, true));
        assert!(response.headers().is_empty());
    }
}
