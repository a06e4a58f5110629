//! Error of the commands that read or change a stack.

use std::io;

use switchhook_domain::JobState;
use switchhook_operate::{Error, Refusal};

use crate::client::ClientError;
use crate::import::RowsError;
use crate::stack_choice::StackChoiceError;

/// Error of a command that reads or changes a stack.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(transparent)]
    Stack(#[from] StackChoiceError),
    #[error(transparent)]
    Operate(#[from] Error),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("refused")]
    Refused(#[from] Refusal),
    #[error("the stack could not be reached")]
    NotReached,
    #[error("{url} did not return a call, but {answer}")]
    NoCall { url: String, answer: String },
    #[error("there is no job state {name:?}; they are: {}", JobState::ALL.map(JobState::as_str).join(", "))]
    UnknownJob { name: String },
    #[error("--metadata names {name:?} twice: give each name one value")]
    RepeatedMetadata { name: String },
    #[error(transparent)]
    Rows(#[from] RowsError),
    #[error("{done} of {rows} rows are done; run the same command again for the others")]
    Interrupted {
        done: usize,
        rows: usize,
        #[source]
        source: Box<BatchError>,
    },
    #[error("the value of --number is no phone number and no SIP address: it has no digit")]
    NotANumber,
    #[error("standard input has more than one line, and a command forgets one number: run it once for each of them")]
    SeveralNumbers,
    #[error("could not read {what}")]
    Read {
        what: String,
        #[source]
        source: io::Error,
    },
    #[error("could not print the result")]
    Print(#[from] io::Error),
}

/// Reason why an import ended at a batch.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BatchError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the stack answered {0}")]
    Answer(String),
}
