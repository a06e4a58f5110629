//! The advice to an operator whose run was stopped by an error.

use std::io::{self, Write};

use switchhook_operate::run::{Run, RunId, RunState};
use switchhook_operate::{Error, ErrorKind};

/// Prints what helps against the error that stopped a run, and the command that goes on with the run. `stored` is the run as it was read
/// afterwards, which may have failed for the same reason.
pub(super) fn print_how_to_go_on(
    options: &str,
    id: &RunId,
    error: &Error,
    stored: Result<Option<Run>, Error>,
    errors: &mut impl Write,
) -> io::Result<()> {
    let explanation = error.explanation();
    match explanation.kind {
        ErrorKind::Expired | ErrorKind::Denied => writeln!(errors, "{explanation}.")?,
        ErrorKind::Throttled | ErrorKind::Unreachable | ErrorKind::Other => {}
    }
    match stored {
        Ok(Some(run @ Run { state: RunState::Unfinished, position, items, .. })) => {
            writeln!(errors, "The run {id} stopped after {position} of {items} items.")?;
            print_resume(options, &run, errors)
        }
        Ok(Some(Run { state: RunState::Finished, .. }) | None) => Ok(()),
        Err(_) => {
            writeln!(errors, "The state of the run {id} could not be read. If it was started, go on with it:")?;
            writeln!(errors, "  switchhook run resume {id} {options}")
        }
    }
}

/// Prints the command that goes on with a run, and until when.
pub(super) fn print_resume(options: &str, run: &Run, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "To go on, until {}, when its plan is removed:", run.resumable_until())?;
    writeln!(out, "  switchhook run resume {} {options}", run.id)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn run_that_cannot_be_read_with_expired_credentials_is_named() {
        let expired = || Error::Refused {
            service: "SQS",
            operation: "SendMessage".to_owned(),
            status: 400,
            code: "ExpiredTokenException".to_owned(),
            message: "The security token included in the request is expired".to_owned(),
        };
        let mut out = Vec::new();
        let id = RunId::new("r-7f3a90c1d2e4");
        print_how_to_go_on("--stack prod --region eu-west-1", &id, &expired(), Err(expired()), &mut out).unwrap();
        assert_snapshot!(String::from_utf8(out).unwrap(), @"
        your AWS credentials are missing, expired or not known: renew them, for example with `aws sso login`; if they come from environment variables, start this command again.
        The state of the run r-7f3a90c1d2e4 could not be read. If it was started, go on with it:
          switchhook run resume r-7f3a90c1d2e4 --stack prod --region eu-west-1
        ");
    }
}
