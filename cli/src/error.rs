//! Error of the commands that read or change a stack.

use std::io;

use switchhook_operate::{Error, Refusal};

use crate::stack_choice::StackChoiceError;

/// Error of a command that has no errors of its own.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(transparent)]
    Stack(#[from] StackChoiceError),
    #[error(transparent)]
    Operate(#[from] Error),
    #[error("refused")]
    Refused(#[from] Refusal),
    #[error("the stack could not be reached")]
    NotReached,
    #[error("could not print the result")]
    Print(#[from] io::Error),
}
