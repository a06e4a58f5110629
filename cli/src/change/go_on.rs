//! The advice to an operator whose run was stopped by an error, or whose plan reached its limit.

use std::io::{self, Write};

use switchhook_operate::plan::Plan;
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

/// Stage of a plan that is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Planned,
    CarriedOut,
}

/// Prints how the next plan goes on, if this one reached its limit.
pub(super) fn print_next_plan(plan: &Plan, stage: Stage, out: &mut impl Write) -> io::Result<()> {
    if !plan.capped {
        return Ok(());
    }
    write!(out, "More may match: the plan has reached its limit, or a queue did not give out all its messages.")?;
    match (plan.continue_at, stage) {
        (Some(at), _) => writeln!(out, " The next plan goes on with --since {at}."),
        (None, _) if plan.items.is_empty() => writeln!(
            out,
            " Nothing of it can be processed: name other items, or raise --max. Of one call, a queue gives out ten messages at a time."
        ),
        (None, Stage::Planned) => writeln!(out, " Carry it out and repeat the command, or raise --max."),
        (None, Stage::CarriedOut) => writeln!(out, " Repeat the command, or raise --max."),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::json;

    use super::*;

    #[test]
    fn plan_that_reached_its_limit_says_how_the_next_one_goes_on() {
        let plan = |items: usize, capped: bool| -> Plan {
            serde_json::from_value(json!({
                "id": "p-1", "verb": "republish", "made_at": "2026-11-22T15:58:04Z", "valid_until": "2026-11-22T16:13:04Z",
                "filter": null, "items": vec![json!({"action": "republish", "call_id": "c1"}); items], "capped": capped,
                "examined": 0, "unaffected": 0, "skipped": [], "skipped_count": 0, "effects": [], "calls": 0, "phones": 0,
                "corrections": 0, "domain_events": 0,
                "cost": {"requests": 0, "read_units": 0, "write_units": 0, "dollars": 0.0},
            }))
            .unwrap()
        };
        let printed = |plan: &Plan, stage| {
            let mut out = Vec::new();
            print_next_plan(plan, stage, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(printed(&plan(2, false), Stage::CarriedOut), "");
        let continue_at = Some(switchhook_domain::Timestamp::from_millis(1_000));
        let limited = Plan { continue_at, ..plan(2, true) };
        let texts = [
            printed(&limited, Stage::CarriedOut),
            printed(&plan(2, true), Stage::Planned),
            printed(&plan(2, true), Stage::CarriedOut),
            printed(&plan(0, true), Stage::Planned),
        ];
        assert_snapshot!(texts.concat(), @"
        More may match: the plan has reached its limit, or a queue did not give out all its messages. The next plan goes on with --since 1970-01-01T00:00:01.000Z.
        More may match: the plan has reached its limit, or a queue did not give out all its messages. Carry it out and repeat the command, or raise --max.
        More may match: the plan has reached its limit, or a queue did not give out all its messages. Repeat the command, or raise --max.
        More may match: the plan has reached its limit, or a queue did not give out all its messages. Nothing of it can be processed: name other items, or raise --max. Of one call, a queue gives out ten messages at a time.
        ");
    }

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
