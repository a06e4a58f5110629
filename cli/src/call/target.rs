//! Stack that a subcommand of `call` talks to, and how its answer is printed.

use std::io::{self, Write};

use clap::Args;
use http::Method;
use serde_json::Value;
use switchhook_operate::audit::{self, Begun, Counts, Direct, Subject};

use crate::client::Response;
use crate::error::CommandError;
use crate::stack_choice::{Connection, StackChoice};

#[derive(Debug, Args)]
pub(super) struct Target {
    #[command(flatten)]
    pub(super) stack: StackChoice,
    /// Print the response as it is, as one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Change of a call whose result is not in the audit records yet.
#[must_use = "the result of the change is to be recorded"]
pub(super) struct Unrecorded {
    connection: Connection,
    begun: Begun,
}

impl Unrecorded {
    /// Records the result, before anything is printed: the reader of the output may have ended. `call_id` names the call that the request
    /// created. A server error is not recorded as a result, because the change may have been made.
    pub(super) fn record(
        self,
        answer: &Response,
        is_repetition: bool,
        call_id: Option<&str>,
    ) -> Result<(), CommandError> {
        let Self { connection, begun } = self;
        if answer.status >= 500 {
            return Ok(());
        }
        let counts = match (is_success(answer), is_repetition) {
            (true, false) => Counts { done: 1, ..Counts::default() },
            (true, true) => Counts { unchanged: 1, ..Counts::default() },
            (false, _) => Counts { skipped: 1, ..Counts::default() },
        };
        let begun = match call_id {
            Some(call_id) => begun.with_call(call_id),
            None => begun,
        };
        Ok(connection.block_on(audit::finish(&connection.stack, begun, counts))?)
    }
}

fn is_success(answer: &Response) -> bool {
    (200..300).contains(&answer.status)
}

impl Target {
    /// Sends a request that changes something, after an audit record was written.
    pub(super) fn change<'a>(
        &self,
        (direct, reason): (Direct, Option<&str>),
        call_id: Option<&str>,
        path: &str,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
        body: Vec<u8>,
    ) -> Result<(Response, Unrecorded), CommandError> {
        let connection = self.stack.connect()?;
        let subject = Subject { call_id: call_id.map(str::to_owned), about: None, items: 1 };
        let begun = connection.block_on(audit::begin(&connection.stack, direct, reason, subject))?;
        let answer = connection.api().send(Method::POST, path, headers, body)?;
        Ok((answer, Unrecorded { connection, begun }))
    }

    pub(super) fn send<'a>(
        &self,
        method: Method,
        path: &str,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
        body: Vec<u8>,
    ) -> Result<Response, CommandError> {
        Ok(self.stack.api()?.send(method, path, headers, body)?)
    }

    /// Prints the response. Returns true if its status is 2xx.
    pub(super) fn print<O: Write>(
        &self,
        answer: &Response,
        out: &mut O,
        errors: &mut impl Write,
        print_result: impl FnOnce(&Value, &mut O) -> io::Result<()>,
    ) -> Result<bool, CommandError> {
        let success = is_success(answer);
        let printed = match (success, self.json) {
            (_, true) => writeln!(out, "{}", answer.body),
            (true, false) => print_result(&answer.json(), out),
            (false, false) => writeln!(errors, "switchhook: {}", answer.error_text()),
        };
        printed?;
        Ok(success)
    }
}
