//! Responses of the local services: a status, a JSON body and an error code.

use serde::Serialize;
use serde_json::json;

/// Response of a service, before it becomes an HTTP response.
#[derive(Debug)]
pub(crate) struct ServiceResponse {
    pub(crate) status: u16,
    pub(crate) body: String,
    /// Value of the header `x-amzn-query-error`: error code and fault, from which the SDK derives the type of an SQS
    /// error.
    pub(crate) query_error: Option<String>,
}

impl ServiceResponse {
    pub(crate) fn ok(body: &impl Serialize) -> Self {
        match serde_json::to_string(body) {
            Ok(body) => Self { status: 200, body, query_error: None },
            Err(error) => Self::error(500, "InternalFailure", &error.to_string()),
        }
    }

    pub(crate) fn error(status: u16, code: &str, message: &str) -> Self {
        let body = json!({ "__type": code, "message": message }).to_string();
        Self { status, body, query_error: None }
    }

    pub(crate) fn unknown_operation(operation: &str) -> Self {
        let message = format!("the local cloud does not support {operation}");
        Self::error(400, "UnknownOperationException", &message)
    }
}
