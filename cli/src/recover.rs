//! `switchhook recover`: copies restored tables, refills an inbox that lost events, and ends calls whose dials are forgotten.

use std::io::Write;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use switchhook_domain::Timestamp;
use switchhook_operate::copy::{self, CopyFrom};
use switchhook_operate::plan::Verb;
use switchhook_operate::{Error, Refusal, Stack, recover};

use crate::change::{Change, Ended};
use crate::error::CommandError;
use crate::since::{self, Since};

const EXAMPLES: &str = "\
Examples:
  switchhook recover copy --inbox-from inbox-restored --calls-from calls-restored --stack switchhook
  switchhook recover inbox --since 2026-11-20T09:00:00Z
  switchhook recover stop --since 2026-11-20T09:00:00Z --yes --reason 'ticket 812'

docs/recovery.md says which of these a disaster needs, and in which order. `switchhook verify --since TIME --repair` does the rest.";

const COPY_EXAMPLES: &str = "\
Examples:
  switchhook recover copy --calls-from calls-restored --stack switchhook
  switchhook recover copy --inbox-from inbox-restored --calls-from calls-restored --rate 1000 --yes --reason 'ticket 812'

DynamoDB restores a backup into a new table. This command copies its items into the table of the stack. An item that the stack has
already stays as it is, so the command can be repeated. The inbox is copied first: it knows which calls were dialled.

The plan reads each table once and counts its items. The items of the plan are parts of tables, of about 500 items each. --rate counts
the items of the tables. A run that was interrupted goes on at the part that it had reached. Items that were there already, or have
expired, count as unchanged.

Exit status: 0 if done or planned, 1 if the tables are empty, 2 if it could not be done, 3 if it was refused.";

/// Default limit on the items of a table that is copied.
const COPIED_MAX: &str = "10000000";
const COPIED_HELP: &str = "Largest number of items in a table; a larger one is refused";

const INBOX_EXAMPLES: &str = "\
Examples:
  switchhook recover inbox --since 2026-11-20T09:00:00Z
  switchhook recover inbox --since 6h --yes --reason 'the inbox was restored'

Use it after the inbox was restored to an earlier time, and the calls were not. The row of a call holds its events in short form.
They are written into the inbox, with the request that created the call and its dials. The bodies of the webhooks are lost.

Exit status: 0 if done or planned, 1 if there is nothing to do, the run left a call alone, or its plan had reached its limit, 2 if it could
not be done, 3 if it was refused.";

const STOP_EXAMPLES: &str = "\
Examples:
  switchhook recover stop --since 2026-11-20T09:00:00Z
  switchhook recover stop --since 6h --keep-not-due --yes --reason 'both tables were restored'

Use it after both tables were restored, before the dialer runs again. Nobody knows which calls were dialled since TIME, the later of
the two times. So every call that was created before, and could be dialled, ends as FAILED with the reason dials_unknown, and the
domain event call.exhausted says so. A call that its booking had called off stays canceled. What the provider still reports is folded.
Create a call again if the person is to be called.

A call that is not due yet was dialled only if somebody triggered it by hand. --keep-not-due keeps such calls.

Exit status: 0 if done or planned, 1 if there is nothing to do, the run left a call alone, or its plan had reached its limit, 2 if it could
not be done, 3 if it was refused.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Recover {
    #[command(subcommand)]
    verb: RecoverVerb,
}

#[derive(Debug, Subcommand)]
enum RecoverVerb {
    /// Copy the items of restored tables into the tables of the stack
    Copy(CopyTables),
    /// Write lost events into the inbox, from the rows of the calls
    Inbox(Refill),
    /// End the calls that may have been dialled, if no record tells
    Stop(Stop),
}

#[derive(Debug, Args)]
#[command(after_help = COPY_EXAMPLES, mut_arg("max", |max| max.default_value(COPIED_MAX).help(COPIED_HELP)))]
struct CopyTables {
    /// Restored table with events
    #[arg(long, value_name = "TABLE", value_parser = NonEmptyStringValueParser::new(), conflicts_with = "plan")]
    inbox_from: Option<String>,
    /// Restored table with calls
    #[arg(
        long,
        value_name = "TABLE",
        value_parser = NonEmptyStringValueParser::new(),
        required_unless_present_any = ["inbox_from", "plan"],
        conflicts_with = "plan"
    )]
    calls_from: Option<String>,
    #[command(flatten)]
    change: Change,
}

#[derive(Debug, Args)]
#[command(after_help = INBOX_EXAMPLES)]
struct Refill {
    /// Time to which the inbox was restored: a duration such as 2h, or a time in RFC 3339 format
    #[arg(long, value_name = "TIME", value_parser = since::parse, required_unless_present = "plan", conflicts_with = "plan")]
    since: Option<Since>,
    #[command(flatten)]
    change: Change,
}

#[derive(Debug, Args)]
#[command(after_help = STOP_EXAMPLES)]
struct Stop {
    /// Time since which dials may be forgotten: a duration such as 2h, or a time in RFC 3339 format
    #[arg(long, value_name = "TIME", value_parser = since::parse, required_unless_present = "plan", conflicts_with = "plan")]
    since: Option<Since>,
    /// Keep calls that are not due yet
    #[arg(long, conflicts_with = "plan")]
    keep_not_due: bool,
    #[command(flatten)]
    change: Change,
}

impl Recover {
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<Ended, CommandError> {
        match &self.verb {
            RecoverVerb::Copy(copy) => copy.run(out, errors),
            RecoverVerb::Inbox(refill) => refill.run(out, errors),
            RecoverVerb::Stop(stop) => stop.run(out, errors),
        }
    }
}

impl CopyTables {
    fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<Ended, CommandError> {
        let from = CopyFrom { inbox: self.inbox_from.clone(), calls: self.calls_from.clone() };
        let connection = self.change.connect()?;
        if self.change.names_plan() {
            return self.change.carry_out_named(&connection, Verb::Copy, out, errors);
        }
        let max = self.change.max();
        let plan = self
            .change
            .count(&connection, "items counted", async |stack, counted| copy::plan(stack, &from, max, counted).await);
        self.change.carry_out_made(&connection, Verb::Copy, plan, out, errors)
    }
}

impl Refill {
    fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<Ended, CommandError> {
        self.change.carry_out(
            Verb::Refill,
            async |stack, max, progress| recover::plan_refill(stack, at(self.since, stack)?, max, progress).await,
            out,
            errors,
        )
    }
}

impl Stop {
    fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<Ended, CommandError> {
        self.change.carry_out(
            Verb::Stop,
            async |stack, max, _| recover::plan_stop(stack, at(self.since, stack)?, self.keep_not_due, max).await,
            out,
            errors,
        )
    }
}

/// Returns the time of `--since`, which only a command with `--plan` can leave out.
fn at(since: Option<Since>, stack: &Stack) -> Result<Timestamp, Error> {
    let since = since.ok_or(Refusal::EmptyFilter("give --since"))?;
    Ok(since.at(stack.now()))
}
