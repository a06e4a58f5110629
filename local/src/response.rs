//! What the three services have in common on the wire: a JSON body, a status, an error code.

use serde::Serialize;
use serde_json::json;

/// The answer of a service, before it becomes an HTTP response.
#[derive(Debug)]
pub(crate) struct ServiceResponse {
    pub(crate) status: u16,
    pub(crate) body: String,
    /// `x-amzn-query-error`: the code and the fault by which SQS errors are told apart.
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
        let message = format!("the local cloud does not do {operation}");
        Self::error(400, "UnknownOperationException", &message)
    }
}
