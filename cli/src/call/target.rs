//! Stack that a subcommand of `call` talks to, and how its answer is printed.

use std::io::{self, Write};

use clap::Args;
use http::Method;
use serde_json::Value;
use switchhook_domain::JobState;

use crate::client::{self, ClientError, Response};
use crate::import::ImportError;
use crate::stack_choice::{StackChoice, StackChoiceError};

#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Stack(#[from] StackChoiceError),
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error(transparent)]
    Operate(#[from] switchhook_operate::Error),
    #[error("there is no job state {name:?}; they are: {}", JobState::ALL.map(JobState::as_str).join(", "))]
    UnknownJob { name: String },
    #[error("could not print the response")]
    Print(#[source] io::Error),
}

#[derive(Debug, Args)]
pub(super) struct Target {
    #[command(flatten)]
    pub(super) stack: StackChoice,
    /// Print the response as it is, as one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

impl Target {
    pub(super) fn send<'a>(
        &self,
        method: Method,
        path: &str,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
        body: Vec<u8>,
    ) -> Result<Response, CallError> {
        Ok(client::send_to_stack(&self.stack.api_url()?, method, path, headers, body)?)
    }

    /// Prints the response. Returns true if its status is 2xx.
    pub(super) fn print<O: Write>(
        &self,
        answer: &Response,
        out: &mut O,
        errors: &mut impl Write,
        print_result: impl FnOnce(&Value, &mut O) -> io::Result<()>,
    ) -> Result<bool, CallError> {
        let success = (200..300).contains(&answer.status);
        let printed = match (success, self.json) {
            (_, true) => writeln!(out, "{}", answer.body),
            (true, false) => print_result(&answer.json(), out),
            (false, false) => writeln!(errors, "switchhook: {}", answer.error_text()),
        };
        printed.map_err(CallError::Print)?;
        Ok(success)
    }
}
