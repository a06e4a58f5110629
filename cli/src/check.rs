//! `switchhook check`: walks the whole path of a deployment with one signed webhook, and removes its traces.

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use switchhook_operate::check::{self, CheckId, Options, Report, Step};

use crate::client::url;
use crate::duration;
use crate::error::CommandError;
use crate::stack_choice::{StackChoice, runtime};

const EXAMPLES: &str = "\
Examples:
  switchhook check --stack switchhook
  switchhook check --stack switchhook --webhook-url https://calls.example.com
  switchhook check --json

Run it after a deployment. It looks at the parts of the stack: its status, functions, the account's concurrency, event sources,
schedules, alarms and their topic, subscribers. Then it signs a webhook with the stack's key of the generic provider, posts it,
and follows it: stored in the inbox, folded into a call, shown by the API, published on the event bus. At the end it removes the
call, the event, and the rule and the queue with which it listened. Subscribers of a stack in use see the domain events of that
call, whose id begins with `check-`.

  ok       the step passed
  note     the stack works, and you should know something
  FAILED   below it stands what to do
  skipped  an earlier step failed

It needs the permissions of an administrator, or those that docs/first-deployment.md lists. Nobody is dialled.

Exit status: 0 if no step failed, 1 if one failed, 2 if the stack could not be reached.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Check {
    #[command(flatten)]
    stack: StackChoice,
    /// URL that providers post to, if it is not the output ApiUrl: a custom domain, or CloudFront
    #[arg(long, value_name = "URL", value_parser = url)]
    webhook_url: Option<String>,
    /// Time limit of each wait
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration::parse)]
    timeout: Duration,
    /// Only remove what an earlier check left behind, by its id
    #[arg(long, value_name = "CHECK", conflicts_with_all = ["webhook_url", "timeout"])]
    clean_up: Option<CheckId>,
    /// Print one JSON object: {"check_id": …, "reached": …, "passed": …, "steps": […]}
    #[arg(long)]
    json: bool,
}

impl Check {
    /// Returns true if no step failed.
    pub(crate) fn run(&self, out: &mut (impl Write + Send)) -> Result<bool, CommandError> {
        let address = self.stack.address()?;
        let runtime = runtime()?;
        let mut printed = Ok(());
        let mut listener = |step: &Step| {
            if !self.json && printed.is_ok() {
                printed = print(step, out);
            }
        };
        let report = runtime.block_on(async {
            match &self.clean_up {
                Some(id) => check::clean_up(&address, id, &mut listener).await,
                None => {
                    let options = Options { webhook_url: self.webhook_url.clone(), timeout: self.timeout };
                    let stopped = async { drop(tokio::signal::ctrl_c().await) };
                    check::check(&address, &options, stopped, &mut listener).await
                }
            }
        })?;
        printed?;
        if self.json {
            writeln!(out, "{:#}", json!(report))?;
        } else {
            print_end(&report, self.clean_up.is_some(), out)?;
        }
        if report.reached { Ok(report.passed) } else { Err(CommandError::NotReached) }
    }
}

fn print(step: &Step, out: &mut impl Write) -> io::Result<()> {
    let Step { step, finding } = step;
    writeln!(out, "{:<7}  {step:<13}  {}", finding.result.as_str(), finding.text)?;
    // Not wrapped, because advice ends with a command to paste.
    if let Some(advice) = &finding.advice {
        writeln!(out, "{:24}→ {advice}", "")?;
    }
    out.flush()
}

fn print_end(report: &Report, is_clean_up: bool, out: &mut impl Write) -> io::Result<()> {
    let end = match (is_clean_up, report.passed) {
        (false, true) => "the stack works",
        (false, false) => "the stack does not pass the check",
        (true, true) => "no trace of it is left",
        (true, false) => "its traces are not all removed",
    };
    writeln!(out, "{}: {end}", report.check_id)
}
