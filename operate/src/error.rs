//! Errors of operations on a stack.

use switchhook_aws::sign::SignError;

use crate::web::WebError;

/// One variant for each operation that can fail.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Aws(#[from] switchhook_aws::Error),
    #[error(transparent)]
    Web(#[from] WebError),
    #[error("{0} is not the URL of a running `switchhook dev`; name a deployed stack with --stack")]
    NotDev(String),
    #[error("could not wait for a request")]
    Wait(#[source] tokio::task::JoinError),
    #[error(transparent)]
    Sign(#[from] SignError),
    #[error("no AWS region: name it with --region, or set AWS_REGION")]
    NoRegion,
    #[error("{service} refused {operation} with status {status}: {code}: {message}")]
    Refused { service: &'static str, operation: String, status: u16, code: String, message: String },
    #[error("the answer of {service} could not be read")]
    Unreadable { service: &'static str },
    #[error("the function {function} failed: {message}")]
    FunctionFailed { function: String, message: String },
    #[error(
        "the outputs of the stack {stack} lack {}: it is not a Switchhook stack, or an older one, which must be deployed \
         again",
        missing.join(", ")
    )]
    MissingOutputs { stack: String, missing: Vec<&'static str> },
}
