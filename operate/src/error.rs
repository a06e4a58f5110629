//! Errors of operations on a stack.

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
    #[error("deployed stacks cannot be reached yet: {0}")]
    Deployed(String),
}
