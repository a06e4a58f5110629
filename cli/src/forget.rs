//! `switchhook forget`: erases a person's data.

use std::io::{self, Write};

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args};
use switchhook_domain::PhoneNumber;
use switchhook_operate::forget::{self, ForgetFilter, ForgetRequest};
use switchhook_operate::plan::Verb;
use switchhook_operate::selection::call_or_entity;

use crate::change::{Change, Ended};
use crate::error::CommandError;
use crate::since::{self, Since};

/// Value of `--number` for a number on standard input.
const STANDARD_INPUT: &str = "-";

const JSON_HELP: &str = "Print JSON: the plan, or {\"plan\": …, \"run\": …}";

const EXAMPLES: &str = "\
Examples:
  switchhook forget --call appointment:appt_201
  switchhook forget --number +447700900123 --yes --reason 'ticket 812'
  echo +447700900123 | switchhook forget --number - --also-do-not-call
  switchhook forget --appointment appt_201 --yes --reason 'ticket 812'
  switchhook forget --plan p-7f3a90c1d2e4 --yes --reason 'ticket 812'

The first and the third print a plan. The last one carries a plan out. With --yes, the others do both.

The key of an entity, such as entity:x-acme:pay_1, is a CALL too: all its webhooks are erased, and later ones when they arrive. The
key of a booking stands for its call too. With --appointment, webhooks about no call are erased if their body holds the id of the
appointment. They may be older than the calls, so add --since 30d, or as many days as InboxRetentionDays.

What is erased: the numbers and the metadata in the calls' rows; body, query and headers of their stored events; conflicting
bodies; errors in notes; dead letters. What stays: states, times, ids, domain events that were published. A forgotten call can
still be shown, verified and replayed. An event that arrives later is erased when it is folded, or within a few minutes. Switchhook
never dials a forgotten call again.

A call that is waiting or under way is skipped: cancel it, or wait until it has ended. A number on the do-not-call list stays there,
because the person asked not to be called. --also-do-not-call takes it off, unless a call that has not ended has the number.

What no command can erase: the provider's own records, backups and exports of the tables, the stream of the calls table (24 hours),
and what subscribers stored. docs/privacy.md has the list. A reason that may hold a phone number is refused.

Exit status: 0 if the plan was printed or carried out, 1 if there is nothing to do, the run was stopped or left something alone, or its
plan had reached its limit, 2 if the stack could not be reached, 3 if it was refused.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    group(ArgGroup::new("selected").args(["calls", "number", "appointment", "plan"]).required(true).multiple(true)),
    mut_arg("json", |json| json.help(JSON_HELP))
)]
pub(crate) struct Forget {
    /// Forget the person of this call; may be repeated
    #[arg(
        long = "call",
        value_name = "CALL",
        value_parser = NonEmptyStringValueParser::new(),
        conflicts_with_all = ["number", "appointment", "plan"]
    )]
    calls: Vec<String>,
    /// Forget the person with this number, such as +447700900123; `-` reads one number from standard input
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, conflicts_with_all = ["appointment", "plan"])]
    number: Option<String>,
    /// Forget the persons of all calls of this appointment
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new(), conflicts_with = "plan")]
    appointment: Option<String>,
    /// Also take the person's number off the do-not-call list
    #[arg(long, conflicts_with = "plan")]
    also_do_not_call: bool,
    /// Search only events received since this time, not all that may be about the calls
    #[arg(long, value_name = "TIME", value_parser = since::parse, conflicts_with = "plan")]
    since: Option<Since>,
    #[command(flatten)]
    change: Change,
}

impl Forget {
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<Ended, CommandError> {
        let filter = self.filter()?;
        self.change.carry_out(
            Verb::Forget,
            async |stack, max, progress| {
                let since = self.since.map(|time| time.at(stack.now()));
                let request = ForgetRequest { filter, since, also_do_not_call: self.also_do_not_call };
                forget::plan(stack, &request, max, progress).await
            },
            out,
            errors,
        )
    }

    fn filter(&self) -> Result<ForgetFilter, CommandError> {
        Ok(match (&self.number, &self.appointment) {
            (Some(number), _) if number == STANDARD_INPUT => {
                let text = io::read_to_string(io::stdin()).map_err(|source| CommandError::Read {
                    what: "the number from standard input".to_owned(),
                    source,
                })?;
                ForgetFilter::Number(number_of(only_line(&text)?)?)
            }
            (Some(number), _) => ForgetFilter::Number(number_of(number)?),
            (None, Some(appointment)) => ForgetFilter::Appointment(appointment.clone()),
            (None, None) => ForgetFilter::Calls(self.calls.iter().map(call_or_entity).collect()),
        })
    }
}

/// Returns the one line of a text that is not blank. More lines are refused: they name more persons, and the plan shows no number, so nobody would
/// see who is left out.
fn only_line(text: &str) -> Result<&str, CommandError> {
    let mut lines = text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    if lines.next().is_none() { Ok(first) } else { Err(CommandError::SeveralNumbers) }
}

/// Returns the number or the address that a text names. A text that no call can have is refused, before a search of the whole inbox.
fn number_of(text: &str) -> Result<PhoneNumber, CommandError> {
    let is_address = text.split_once(':').is_some_and(|(scheme, address)| !scheme.is_empty() && !address.is_empty());
    let is_number = text.bytes().any(|byte| byte.is_ascii_digit());
    if is_number || is_address { Ok(PhoneNumber::new(text)) } else { Err(CommandError::NotANumber) }
}
