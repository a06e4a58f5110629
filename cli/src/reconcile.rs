//! `switchhook reconcile`: runs the reconciler now.

use std::io::{self, Write};

use clap::Args;
use serde_json::Value;
use switchhook_operate::Error;
use switchhook_operate::audit::{self, Counts, Direct, Subject};
use switchhook_operate::reconcile::Schedule;

use crate::error::CommandError;
use crate::reason::Reason;
use crate::stack_choice::StackChoice;

const EXAMPLES: &str = "\
Examples:
  switchhook reconcile
  switchhook reconcile --drift --stack switchhook

A run queues stored events that were never folded, looks silent calls up at their providers, returns expired claims, and reads the
providers' lists of calls. With --drift, it compares the calls that were settled recently with their stored events and with their
providers' reports, and has those that differ computed again.

Both runs happen on a schedule anyway, every minute and every hour. They may run at the same time, and change nothing that is
right. No run dials. The command writes audit records: who, why, what.

`unfolded ms` is the age of the oldest event that is not known to be folded. The sweep looks at an event two minutes after it arrived,
so about 120000 is normal. P1EventsNotFoldedAlarm fires above 300000.

Exit status: 0 if the run ended without an error, 2 if it failed or the stack could not be reached, 3 if the reason was refused.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Reconcile {
    /// Run the drift check, which compares settled calls with their providers' reports
    #[arg(long)]
    drift: bool,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    stack: StackChoice,
    /// Print one JSON object: names with numbers, and times in RFC 3339 format
    #[arg(long)]
    json: bool,
}

impl Reconcile {
    /// Returns true: a run that fails is an error.
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<bool, CommandError> {
        let connection = self.stack.connect()?;
        let (schedule, direct) =
            if self.drift { (Schedule::Drift, Direct::DriftCheck) } else { (Schedule::Reconciler, Direct::Reconcile) };
        let report = connection.block_on(async {
            let (stack, subject) = (&connection.stack, Subject { items: 1, ..Subject::default() });
            let begun = audit::begin(stack, direct, self.reason.as_deref(), subject).await?;
            let report = stack.run(schedule).await;
            let counts = match &report {
                Ok(_) => Counts { done: 1, ..Counts::default() },
                Err(Error::FunctionFailed { .. } | Error::Refused { status: 400..=499, .. }) => {
                    Counts { skipped: 1, ..Counts::default() }
                }
                // The answer was lost, so nobody knows whether the run was made.
                Err(_) => return report,
            };
            let finished = audit::finish(stack, begun, counts).await;
            let report = report?;
            finished.map(|()| report)
        })?;
        if self.json {
            writeln!(out, "{report}")?;
        } else {
            self.print(&report, out)?;
        }
        Ok(true)
    }

    fn print(&self, report: &Value, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", if self.drift { "the drift check has run" } else { "the reconciler has run" })?;
        let value_of = |value: &Value| match value {
            Value::Number(count) => Some(count.to_string()),
            Value::String(time) => Some(time.clone()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        let lines: Vec<(String, String)> = report
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.replace('_', " "), value_of(value)?)))
            .collect();
        let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        lines.iter().try_for_each(|(name, value)| writeln!(out, "  {name:<width$}  {value}"))
    }
}
