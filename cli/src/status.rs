//! `switchhook status`: answers three questions about a stack, with their evidence.

use std::io::{self, Write};

use clap::Args;
use serde_json::json;
use switchhook_operate::status::{Level, Question, Status as StackStatus, Subject, status};

use crate::error::CommandError;
use crate::stack_choice::StackChoice;

const EXAMPLES: &str = "\
Examples:
  switchhook status
  switchhook status --stack switchhook --region eu-west-1
  switchhook status --json

Three questions, each answered by its worst line:
  Healthy?  alarms, rejected webhooks, latency, schedules, circuits of providers
  Backlog?  queues with the age of their oldest message, calls that are due, wake-ups that are overdue, the sweep
  Poison?   dead letters, webhooks that could not be read, events that fail, drift

  OK       nothing to do
  Watch    nothing is lost; look at it today
  Act      something is being lost or stands still; act now
  Unknown  it could not be read, so it may be anything

The limits are those of the alarms. A line that is not OK has advice, a command, and the section of infra/runbook.md.
Counts stop at 1,000. A deployed stack needs permission to read its tables, queues, alarms and metrics.

Exit status: 0 if all answers are OK, 1 if something needs a look, 2 if the stack could not be reached.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Status {
    #[command(flatten)]
    stack: StackChoice,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Status {
    /// Returns true if all answers are OK.
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<bool, CommandError> {
        let connection = self.stack.connect()?;
        let status = connection.block_on(status(&connection.stack));
        if self.json {
            writeln!(out, "{:#}", json!(status))?;
        } else {
            print(&status, out)?;
        }
        Ok(status.is_fine())
    }
}

fn print(status: &StackStatus, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{} in {}, {}", status.stack, status.region, status.at)?;
    status.questions.iter().try_for_each(|question| print_question(question, out))
}

fn print_question(question: &Question, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\n{:<10}{}", question.question, question.answer.as_str())?;
    let width = question.evidence.iter().map(|line| line.name.len()).max().unwrap_or_default();
    for line in &question.evidence {
        let mark = match line.level {
            Level::Ok => ' ',
            Level::Watch => '~',
            Level::Unknown => '?',
            Level::Act => '!',
        };
        let first: Vec<&str> = line.first.iter().map(Subject::id).collect();
        let named = if first.is_empty() { String::new() } else { format!(": {}", first.join(", ")) };
        writeln!(out, "{mark} {:<width$}  {}{named}", line.name, line.text)?;
        if let Some(advice) = &line.advice {
            writeln!(out, "  {:width$}  → {}: {}", "", advice.text, advice.command)?;
            if let Some(section) = &advice.runbook {
                writeln!(out, "  {:width$}    infra/runbook.md, section {section}", "")?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use switchhook_domain::Timestamp;
    use switchhook_operate::status::{Advice, Evidence};

    use super::*;

    #[test]
    fn status_is_readable() {
        let line = |name, level, text: &str, advice| Evidence {
            name,
            level,
            text: text.to_owned(),
            error: None,
            first: Vec::new(),
            advice,
        };
        let advice = Advice {
            text: "events could not be processed",
            runbook: Some("P1DeadLettersAlarm".to_owned()),
            command: "switchhook dlq list",
        };
        let question = |question, answer, evidence| Question { question, answer, evidence };
        let status = StackStatus {
            stack: "switchhook".to_owned(),
            region: "eu-west-1".to_owned(),
            at: Timestamp::from_millis(1_760_961_600_000),
            questions: [
                question("Healthy?", Level::Ok, vec![line("answer p99", Level::Ok, "38 ms", None)]),
                question("Backlog?", Level::Unknown, vec![line("due calls", Level::Unknown, "not authorized", None)]),
                question(
                    "Poison?",
                    Level::Act,
                    vec![
                        Evidence {
                            first: vec![Subject::Event("retell:call_1:call_ended".to_owned())],
                            ..line("dead letters", Level::Act, "2", Some(advice))
                        },
                        line("drift", Level::Ok, "0 in the last day", None),
                    ],
                ),
            ],
            traffic: None,
        };
        let mut out = Vec::new();
        print(&status, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }
}
