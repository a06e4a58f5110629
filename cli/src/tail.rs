//! `switchhook tail`: follows new events and domain events.

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use switchhook_operate::events::{Tail as Position, TailItem};

use crate::duration;
use crate::error::CommandError;
use crate::event::{print_line, print_unreadable};
use crate::serving::stop_signal;
use crate::since::{self, Since};
use crate::stack_choice::{Connection, StackChoice};

const EXAMPLES: &str = "\
Examples:
  switchhook tail
  switchhook tail --stack prod-eu --every 5s
  switchhook tail --json | jq .

Prints each event when it arrives, again when its status changes, and the domain events of its call. Nothing can be listened to on
a deployed stack, so what has arrived since is read every few seconds. A read covers about a day, and less with many shards or
events. A line names the time of what was left out: `switchhook event list` shows it. Domain events that a worker caused appear with the next event
of their call.

Exit status: 0 after Ctrl-C or SIGTERM, 2 if the stack could not be reached.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Tail {
    #[command(flatten)]
    stack: StackChoice,
    /// Time between two reads
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration::parse)]
    every: Duration,
    /// Start with the events that arrived since this time
    #[arg(long, value_name = "TIME", value_parser = since::parse)]
    since: Option<Since>,
    /// Stop after this time
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    stop_after: Option<Duration>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl Tail {
    /// Follows the stack until Ctrl-C.
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<bool, CommandError> {
        let connection = self.stack.connect()?;
        connection.block_on(self.follow(&connection, out))?;
        Ok(true)
    }

    async fn follow(&self, connection: &Connection, out: &mut impl Write) -> Result<(), CommandError> {
        let stack = &connection.stack;
        let now = stack.read_clock().await;
        let mut position = Position::new(self.since.map_or(now, |since| since.at(now)));
        let stop = stop_signal()?;
        let timeout = tokio::time::sleep(self.stop_after.unwrap_or(Duration::MAX));
        tokio::pin!(stop, timeout);
        loop {
            for item in position.poll(stack).await? {
                self.print(&item, out)?;
            }
            out.flush()?;
            tokio::select! {
                () = &mut stop => return Ok(()),
                () = &mut timeout => return Ok(()),
                () = tokio::time::sleep(self.every) => {}
            }
        }
    }

    fn print(&self, item: &TailItem, out: &mut impl Write) -> io::Result<()> {
        if self.json {
            return writeln!(out, "{}", serde_json::to_string(item)?);
        }
        match item {
            TailItem::Event(line) => print_line(line, out)?,
            TailItem::Unreadable(event) => print_unreadable(event, out)?,
            TailItem::DomainEvent { at, id, event_type, call_id: _ } => writeln!(out, "{at}  → {event_type}  {id}")?,
            TailItem::Skipped { since, until } => {
                writeln!(
                    out,
                    "the events that arrived between {since} and {until} were not read: `switchhook event list` shows them"
                )?;
            }
        }
        Ok(())
    }
}
