//! `switchhook run`: lists runs, and goes on with one that was interrupted.

use std::io::{self, Write};

use clap::builder::{NonEmptyStringValueParser, RangedU64ValueParser};
use clap::{Args, Subcommand};
use serde_json::json;
use switchhook_operate::run::{self, RunId, RunState};

use crate::change::{self, Ended};
use crate::error::CommandError;
use crate::stack_choice::StackChoice;
use crate::words::visible;

const LIST_HELP: &str = "\
Examples:
  switchhook run list

Lists the latest runs: state, position, result, who and why. A run that is `unfinished` is being carried out, or was interrupted; if
it does not move any more, go on with `switchhook run resume`. The list has every run of the last day, up to --max.

Exit status: 0 if there are runs, 1 if there is none, 2 if the stack could not be reached.";

const RESUME_HELP: &str = "\
Examples:
  switchhook run resume r-7f3a90c1d2e4

A run stores its position after each page of items, so it goes on from any machine. Items that were processed already are checked
and left alone. If another process still carries the run out, that process stops. The rate and the reason are those of the
start. A plan is kept for a day, so a run that was interrupted can be resumed for that time.

Exit status: 0 if the run is finished, 1 if it was stopped again or left an item alone, or if its plan had reached its limit, 2 if the
stack could not be reached, 3 if there is no such run or it is finished already.";

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(subcommand)]
    verb: RunVerb,
}

#[derive(Debug, Subcommand)]
enum RunVerb {
    /// List the latest runs
    List(List),
    /// Go on with a run that was interrupted
    Resume(Resume),
}

#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
struct List {
    /// Largest number of runs
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    max: usize,
    #[command(flatten)]
    stack: StackChoice,
    /// Print one JSON object: {"runs": […]}
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = RESUME_HELP)]
struct Resume {
    /// Id of the run, such as r-7f3a90c1d2e4
    #[arg(value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
    id: String,
    #[command(flatten)]
    stack: StackChoice,
    /// Print one JSON object: {"plan": …, "run": …}
    #[arg(long)]
    json: bool,
}

impl Run {
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<Ended, CommandError> {
        match &self.verb {
            RunVerb::List(list) => list.run(out),
            RunVerb::Resume(resume) => {
                let connection = resume.stack.connect_patiently()?;
                change::resume(&connection, &RunId::new(&resume.id), resume.json, out, errors)
            }
        }
    }
}

impl List {
    fn run(&self, out: &mut impl Write) -> Result<Ended, CommandError> {
        let connection = self.stack.connect()?;
        let runs = connection.block_on(run::list(&connection.stack, self.max))?;
        if self.json {
            writeln!(out, "{:#}", json!({"runs": runs}))?;
        } else {
            print(&runs, out)?;
        }
        Ok(if runs.is_empty() { Ended::NotFound } else { Ended::Found })
    }
}

fn print(runs: &[run::Run], out: &mut impl Write) -> io::Result<()> {
    if runs.is_empty() {
        return writeln!(out, "No run was found: no operator has carried a repair out in the last day.");
    }
    for run in runs {
        let state = match run.state {
            RunState::Finished => "finished",
            RunState::Unfinished => "unfinished",
        };
        let run::Run { id, verb, position, items, updated_at, who, reason, .. } = run;
        let (command, who, reason) = (verb.command(), visible(who), visible(reason));
        writeln!(out, "{updated_at}  {id}  {state:<10}  {command}, {position} of {items} items  {who}: {reason}")?;
        writeln!(out, "    {}", run.result())?;
    }
    Ok(())
}
