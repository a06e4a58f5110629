//! Answers and refusals, and the HTTP responses that they become.

use http::header::{ALLOW, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode};
use lambda_http::{Body, Response};
use serde_json::{Value, json};
use switchhook_aws::Error;
use switchhook_aws::problem::{Problem, ProblemKind};
use switchhook_domain::{Call, CallId, EventId};

use crate::view::CallView;

/// What a request was answered, and what is told of it in the log.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// None: the status says it all.
    pub(crate) body: Option<Value>,
    pub(crate) headers: Vec<(HeaderName, String)>,
    pub(crate) action_taken: &'static str,
    /// Ids are logged where something was found under them: before, they are whatever somebody wrote into a path.
    pub(crate) call_id: Option<CallId>,
    pub(crate) event_id: Option<EventId>,
}

/// Why a request was not answered as it was meant to be.
#[derive(Debug)]
pub(crate) enum Refusal {
    Problem(Problem),
    Methods(String),
    Storage(Error),
    /// The system has no random number.
    NoId(getrandom::Error),
    /// What was asked for cannot be written as JSON.
    NoHash(serde_json::Error),
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

    pub(crate) fn of_call(action_taken: &'static str, call: &Call) -> Self {
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

impl Refusal {
    pub(crate) fn not_found(detail: &str) -> Self {
        Self::Problem(Problem::new(ProblemKind::NotFound, detail))
    }

    pub(crate) fn unknown_id() -> Self {
        Self::not_found(
            "nothing is known under this id; one with characters that a path cannot hold must be percent-encoded",
        )
    }

    pub(crate) const fn kind(&self) -> ProblemKind {
        match self {
            Self::Problem(problem) => problem.kind,
            Self::Methods(_) => ProblemKind::MethodNotAllowed,
            Self::Storage(_) => ProblemKind::StorageFailure,
            Self::NoId(_) | Self::NoHash(_) => ProblemKind::InternalError,
        }
    }

    /// For the log alone.
    pub(crate) fn cause(&self) -> Option<String> {
        match self {
            Self::Problem(_) | Self::Methods(_) => None,
            Self::Storage(error) => Some(error.with_causes()),
            Self::NoId(error) => Some(error.to_string()),
            Self::NoHash(error) => Some(error.to_string()),
        }
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let (problem, headers) = match self {
            Self::Problem(problem) => (problem, Vec::new()),
            Self::Methods(methods) => {
                let detail = format!("the path has {methods}");
                (Problem::new(ProblemKind::MethodNotAllowed, detail), vec![(ALLOW, methods)])
            }
            Self::Storage(_) => (Problem::storage_failure(), Vec::new()),
            Self::NoId(_) | Self::NoHash(_) => {
                (Problem::new(ProblemKind::InternalError, "nothing was written; ask again"), Vec::new())
            }
        };
        let mut response = problem.into_response().map(Body::Text);
        insert(response.headers_mut(), headers);
        response
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Storage(error)
    }
}

fn insert(headers: &mut HeaderMap, more: Vec<(HeaderName, String)>) {
    // Ids and methods of ours are all ASCII; a header that is not would be left out.
    headers.extend(more.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::try_from(value).ok()?))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_that_is_not_allowed_is_told_with_those_that_are() {
        let response = Refusal::Methods("PUT, DELETE".to_owned()).into_response();
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
