//! `switchhook stuck`: lists calls that do not move, with the reason and the next step.

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use switchhook_operate::calls::{StuckKind, StuckReport, stuck};

use crate::duration;
use crate::error::CommandError;
use crate::stack_choice::StackChoice;

const EXAMPLES: &str = "\
Examples:
  switchhook stuck
  switchhook stuck --for 2h --stack switchhook
  switchhook stuck --json

A call is listed if one of these is true:
  in doubt  it was dialled, the provider's answer was lost and no event has arrived
  claimed   a dialer holds it for longer than --for, or beyond the lease, and has not dialled it
  overdue   it has been due for longer than --for
  held      it was due, and an event of it is a dead letter, which may tell that the person has answered
  dialling  it was dialled, and nobody answered for longer than --for
  silent    no event has arrived for longer than --for, and its ending or its outcome is missing

Each line says what happens next without your help, and when. Only a held call needs your help. `late` means that this time has
passed: then look at `switchhook status`. At most 1,000 open calls are examined, and the latest 1,000 dead letters.
`switchhook call list --tab stuck` pages through all open calls, and does not show which are held.

Exit status: 0 if no call is stuck, 1 if some are or if there are more open calls, 2 if the stack could not be read.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Stuck {
    /// Time for which nothing has moved
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = duration::parse)]
    limit: Duration,
    #[command(flatten)]
    stack: StackChoice,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Stuck {
    /// Returns true if every open call was examined, and none is stuck.
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<bool, CommandError> {
        let connection = self.stack.connect()?;
        let report = connection.block_on(stuck(&connection.stack, self.limit))?;
        if self.json {
            writeln!(out, "{:#}", json!(report))?;
        } else {
            print(&report, out)?;
        }
        Ok(is_clean(&report))
    }
}

/// True if every open call was examined, and none is stuck.
const fn is_clean(report: &StuckReport) -> bool {
    report.calls.is_empty() && report.unreadable.is_empty() && !report.more
}

fn print(report: &StuckReport, out: &mut impl Write) -> io::Result<()> {
    for call in &report.calls {
        let provider = call.provider.as_ref().map_or("-", |provider| provider.as_str());
        let appointment = call.appointment_id.as_deref().unwrap_or("-");
        writeln!(
            out,
            "{}  {}, job {}, {provider}, appointment {appointment}",
            call.call_id,
            call.kind.as_str(),
            call.job
        )?;
        writeln!(out, "  why   {}", call.why)?;
        // The due time of an overdue call has passed, and is in `why`.
        let at = call.next_at.filter(|_| call.kind != StuckKind::Overdue);
        let at = at.map_or_else(String::new, |at| format!(", at {at}"));
        let late = if call.late { " (late)" } else { "" };
        writeln!(out, "  next  {}{at}{late}", call.next)?;
    }
    for id in &report.unreadable {
        writeln!(
            out,
            "{id} could not be read: `switchhook verify {id}` says why, and P2RunErrorsAlarm in the runbook what to do"
        )?;
    }
    if is_clean(report) {
        writeln!(out, "no call is stuck; {} open or overdue calls were examined", report.examined)?;
    } else if report.calls.is_empty() && report.unreadable.is_empty() {
        writeln!(out, "no call among the {} that were examined is stuck", report.examined)?;
    }
    if report.more {
        let examined = report.examined;
        writeln!(
            out,
            "there are more open calls than the {examined} that were examined: `switchhook call list --tab stuck` pages through all"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use switchhook_domain::{CallId, Provider, Timestamp};
    use switchhook_operate::calls::StuckCall;

    use super::*;

    #[test]
    fn stuck_calls_are_readable() {
        let at = Timestamp::from_millis(1_760_961_600_000);
        let call = StuckCall {
            call_id: CallId::new("call-1"),
            kind: StuckKind::InDoubt,
            provider: Some(Provider::Retell),
            job: "IN_PROGRESS",
            appointment_id: None,
            since: at,
            why: "the answer was lost".to_owned(),
            next: "the reconciler asks the provider",
            next_at: Some(at),
            late: true,
        };
        let printed = |report: &StuckReport| {
            let mut out = Vec::new();
            print(report, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let report = StuckReport { calls: vec![call], examined: 1_000, more: true, ..StuckReport::default() };
        assert_eq!(
            printed(&report),
            "call-1  in doubt, job IN_PROGRESS, retell, appointment -\n  why   the answer was lost\n  next  the reconciler asks \
             the provider, at 2025-10-20T12:00:00.000Z (late)\nthere are more open calls than the 1000 that were \
             examined: `switchhook call list --tab stuck` pages through all\n"
        );
        let overdue = StuckCall { kind: StuckKind::Overdue, ..report.calls[0].clone() };
        let report = StuckReport { calls: vec![overdue], examined: 1, ..StuckReport::default() };
        assert!(
            printed(&report).ends_with("  next  the reconciler asks the provider (late)\n"),
            "{}",
            printed(&report)
        );
        assert_eq!(printed(&StuckReport::default()), "no call is stuck; 0 open or overdue calls were examined\n");
        let unreadable = StuckReport { unreadable: vec![CallId::new("call-2")], ..StuckReport::default() };
        assert_eq!(
            printed(&unreadable),
            "call-2 could not be read: `switchhook verify call-2` says why, and P2RunErrorsAlarm in the runbook what to do\n"
        );
    }

    #[test]
    fn calls_that_were_not_examined_are_not_called_unstuck() {
        let report = StuckReport { examined: 1_000, more: true, ..StuckReport::default() };
        let mut out = Vec::new();
        print(&report, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "no call among the 1000 that were examined is stuck\nthere are more open calls than the 1000 that were examined: \
             `switchhook call list --tab stuck` pages through all\n"
        );
        assert!(!is_clean(&report));
        assert!(is_clean(&StuckReport { more: false, ..report }));
    }
}
