//! `switchhook timeline`: tells the story of a call.

mod text;

use std::io::{self, Write};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use switchhook_domain::Timestamp;
use switchhook_operate::Stack;
use switchhook_operate::search::find;
use switchhook_operate::timeline::{FoundCall, story};

use crate::error::CommandError;
use crate::since::{self, Since};
use crate::stack_choice::StackChoice;
use crate::words::print_json;

const EXAMPLES: &str = "\
Examples:
  switchhook timeline call-5e2c4b1f9a3d4c7e8b6a5d4c3b2a196e
  switchhook timeline appt_201
  switchhook timeline +447700900123 --stack prod-eu
  switchhook timeline retell:call_5d0b8f6e --as-of 2026-11-20T09:00:00Z
  switchhook timeline appt_201 --json

CALL may be the id of the call, the id of one of its events, its appointment, or the other person's phone number. It may also be the
provider's id of an attempt that Switchhook dialled, for 30 days after the dial and then for the retention of the inbox. Of several
calls, the latest is shown, and the others are named.

Events stand in the order in which Switchhook learned of them. After each write of the call's row stands the state that followed,
as Switchhook knew it then. --as-of shows what it knew at an earlier time.

Exit status: 0 if the call was found, 1 if it was not, 2 if the stack could not be reached.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Timeline {
    /// Call: its id, the provider's id of a call that Switchhook dialled, an event's id, an appointment or a phone number
    #[arg(value_name = "CALL", value_parser = NonEmptyStringValueParser::new())]
    call: String,
    #[command(flatten)]
    stack: StackChoice,
    /// Show the state as Switchhook knew it at this time: a time ago such as 2h, or a time in RFC 3339 format
    #[arg(long, value_name = "TIME", value_parser = since::parse)]
    as_of: Option<Since>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Timeline {
    /// Returns true if the call was found.
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, CommandError> {
        let connection = self.stack.connect()?;
        let stack = &connection.stack;
        let found = connection.block_on(find(stack, &self.call))?;
        let as_of = self.as_of.map(|time| time.at(stack.now()));
        let Some(found) = found else {
            writeln!(
                errors,
                "switchhook: no call is found by {:?} in the stack {}. It was looked for as the id of a call, a provider's \
                 call id, the id of an event, an appointment and a phone number.",
                self.call, stack.names.stack
            )?;
            return Ok(false);
        };
        Ok(self.print(stack, &found, as_of, out, errors)?)
    }

    fn print(
        &self,
        stack: &Stack,
        found: &FoundCall,
        as_of: Option<Timestamp>,
        out: &mut impl Write,
        errors: &mut impl Write,
    ) -> io::Result<bool> {
        match story(found, &stack.policy(), stack.now(), as_of) {
            Some(story) if self.json => {
                print_json(&story, out)?;
                Ok(true)
            }
            Some(story) => {
                text::print(&story, out)?;
                Ok(true)
            }
            None => {
                let call_id = &found.call.call_id;
                let since = found.call.created_at;
                writeln!(errors, "switchhook: the call {call_id} was not known then: it is known since {since}")?;
                Ok(false)
            }
        }
    }
}
