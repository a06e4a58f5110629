//! `switchhook dlq`: lists dead letters, sends their events again, and discards them.

use std::io::{self, Write};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use switchhook_operate::age;
use switchhook_operate::dead_letters::{self, DeadLetter, DeadLetters, LISTED_DEFAULT, LetterFilter, LetterKind};
use switchhook_operate::plan::Verb;

use crate::change::{Change, Ended};
use crate::error::CommandError;
use crate::stack_choice::StackChoice;
use crate::words::{counted, print_json};

const EXAMPLES: &str = "\
Examples:
  switchhook dlq list
  switchhook dlq redrive --all
  switchhook dlq redrive --all --yes --reason 'ticket 812: the table was throttled'
  switchhook dlq discard 7b3c6f7e-0000-0000-0000-000000000001 --yes --reason 'a test message of ours'

A dead letter is an event that could not be folded within two hours, or a notice that a webhook could not be read.
`switchhook quarantine` handles those notices: a redrive and a discard leave them alone. Fix the cause before a redrive: `dlq list`
groups the dead letters by their error, and the log of the consumer has it too.";

const LIST_HELP: &str = "\
The messages are received and shown again at once. The column `where` compares the queue with the list of events that need
attention. `both` and `queue` are right. `queue only`: the consumer could not write its note, or the event was folded since, and then a
redrive deletes the message. `list only`: the message was deleted or has expired; a redrive sends the event again from the inbox.

Exit status: 0 if there are dead letters, 1 if there is none, 2 if the stack could not be read.";

const REDRIVE_HELP: &str = "\
The events are sent again from the inbox. An event that the inbox no longer holds is sent from its message. A dead letter is
deleted once its event is in the call, or is refused there for good. It stays if this version reads the event differently, and the
call was not folded again. An event that fails again comes back here. The order in which events are folded does not change the result.

Exit status: 0 if done or planned, 1 if nothing is selected, an id was not found, the run left an event alone (for example because it was
not folded in time), or its plan had reached its limit, 2 if the command could not be carried out, 3 if it was refused.";

const DISCARD_HELP: &str = "\
Deletes the messages. The events stay in the inbox, but nothing folds them, also if the row of their call is lost and made again. Only
`switchhook replay` still can, without --disposition not_folded. While an event is a dead letter, nobody dials its call. A discard ends that,
so its plan counts the phones that could ring, and the run needs --allow-ringing if there are any.

Exit status: 0 if done or planned, 1 if nothing is selected, an id was not found, a message did not come, or the plan of the run had
reached its limit, 2 if the command could not be carried out, 3 if it was refused.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Dlq {
    #[command(subcommand)]
    verb: DlqVerb,
}

#[derive(Debug, Subcommand)]
enum DlqVerb {
    /// List dead letters by cause
    List(List),
    /// Send the events of dead letters again
    #[command(after_help = REDRIVE_HELP)]
    Redrive(Selection),
    /// Delete dead letters; their events stay in the inbox
    #[command(after_help = DISCARD_HELP)]
    Discard(Selection),
}

#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
struct List {
    /// Largest number of messages to receive
    #[arg(long, value_name = "N", default_value_t = LISTED_DEFAULT)]
    max: usize,
    #[command(flatten)]
    stack: StackChoice,
    /// Print one JSON object: {"causes": […], "in_queue": …, "not_received": …}
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Selection {
    /// Ids of events or messages
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new(), conflicts_with = "plan")]
    keys: Vec<String>,
    /// Select dead letters whose cause contains this text
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new(), conflicts_with = "plan")]
    cause: Option<String>,
    /// Select all dead letters
    #[arg(long, conflicts_with = "plan")]
    all: bool,
    #[command(flatten)]
    change: Change,
}

impl Dlq {
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<Ended, CommandError> {
        match &self.verb {
            DlqVerb::List(list) => list.run(out),
            DlqVerb::Redrive(selection) => selection.change.carry_out(
                Verb::Redrive,
                async |stack, max, _| dead_letters::plan_redrive(stack, &selection.filter(), max).await,
                out,
                errors,
            ),
            DlqVerb::Discard(selection) => selection.change.carry_out(
                Verb::DiscardDeadLetters,
                async |stack, max, _| dead_letters::plan_discard(stack, &selection.filter(), max).await,
                out,
                errors,
            ),
        }
    }
}

impl Selection {
    fn filter(&self) -> LetterFilter {
        LetterFilter { keys: self.keys.clone(), cause: self.cause.clone(), origin: None, all: self.all }
    }
}

impl List {
    fn run(&self, out: &mut impl Write) -> Result<Ended, CommandError> {
        let connection = self.stack.connect()?;
        let letters = connection.block_on(dead_letters::list(&connection.stack, self.max))?;
        if self.json {
            print_json(&letters, out)?;
        } else {
            print(&letters, connection.stack.now(), out)?;
        }
        Ok(if letters.iter().next().is_some() { Ended::Found } else { Ended::NotFound })
    }
}

fn print(letters: &DeadLetters, now: switchhook_domain::Timestamp, out: &mut impl Write) -> io::Result<()> {
    if letters.iter().next().is_some() {
        writeln!(out, "  {:<10}  {:>8}  {:>8}  {:<12}  {:<28}  id", "kind", "age", "tries", "where", "call")?;
    }
    for group in &letters.causes {
        writeln!(out, "{}: {}", counted(group.letters.len(), "dead letter"), group.cause)?;
        for letter in &group.letters {
            let call = letter.call_id.as_ref().map_or("-", |id| id.as_str());
            let tries = letter.tries.map_or_else(|| "-".to_owned(), |count| count.to_string());
            let age = age(now.millis_since(letter.dead_lettered_at));
            writeln!(
                out,
                "  {:<10}  {age:>8}  {tries:>8}  {:<12}  {call:<28}  {}",
                kind(letter.kind),
                place(letter, letters.not_received > 0),
                letter.key
            )?;
        }
    }
    let all = letters.iter().count();
    write!(out, "{}, {} in the queue", counted(all, "dead letter"), counted(letters.in_queue, "message"))?;
    match letters.not_received {
        0 => writeln!(out),
        more => writeln!(out, "; {more} not received, behind others of their call or beyond --max"),
    }
}

const fn kind(kind: LetterKind) -> &'static str {
    match kind {
        LetterKind::Event => "event",
        LetterKind::QuarantineNotice => "quarantine",
        LetterKind::Unreadable => "unreadable",
    }
}

/// Returns where a dead letter was found. If messages of the queue were not received, one of them may be its own.
fn place(letter: &DeadLetter, some_not_received: bool) -> &'static str {
    match (&letter.message_id, letter.in_index) {
        // A message that is no event of Switchhook's is never in the list.
        (Some(_), _) if letter.kind == LetterKind::Unreadable => "queue",
        (Some(_), true) => "both",
        (Some(_), false) => "queue only",
        (None, _) if some_not_received => "not received",
        (None, _) => "list only",
    }
}

#[cfg(test)]
mod tests {
    use switchhook_domain::Timestamp;

    use super::*;

    /// Three dead letters. Two were received because of `--max 2`.
    #[test]
    fn letter_whose_message_was_not_received_is_not_missing_in_the_queue() {
        let letter = |message_id: Option<&str>| DeadLetter {
            kind: LetterKind::Event,
            key: "retell:c:call_ended".to_owned(),
            message_id: message_id.map(str::to_owned),
            event_id: None,
            call_id: None,
            origin: None,
            event_type: None,
            tries: None,
            error: None,
            dead_lettered_at: Timestamp::from_millis(0),
            in_index: true,
            index_cause: None,
            event: None,
        };
        assert_eq!([place(&letter(Some("m")), true), place(&letter(None), true)], ["both", "not received"]);
        assert_eq!(place(&letter(None), false), "list only");
    }
}
