//! `switchhook quarantine`: lists webhooks that could not be read, reads them again, and discards them.

use std::io::{self, Write};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use switchhook_domain::{EventId, Origin, Provider, Timestamp};
use switchhook_operate::age;
use switchhook_operate::plan::Verb;
use switchhook_operate::quarantine::{self, LISTED_DEFAULT, QuarantineFilter, Quarantined, QuarantinedBy};

use crate::change::{Change, Ended};
use crate::error::CommandError;
use crate::provider_name;
use crate::stack_choice::StackChoice;
use crate::words::{counted, print_json};

const EXAMPLES: &str = "\
Examples:
  switchhook quarantine list
  switchhook quarantine reprocess --provider retell
  switchhook quarantine reprocess --all --yes --reason 'this version reads the new format'
  switchhook quarantine discard generic:sha256-6e1f0c… --yes --reason 'sent by a test of the vendor'

A quarantined event is an authentic webhook that could not be read, or an event for which its call has no room. It is stored, and
not folded.";

const LIST_HELP: &str = "\
`switchhook event show` shows an event of the list. The plan of `switchhook quarantine reprocess` says whether this version can read it.

Exit status: 0 if there are quarantined events, 1 if there is none, 2 if the stack could not be read.";

const REPROCESS_HELP: &str = "\
The stored body is read again by the rules of this version, or by the entry that the stack's secret has now for a provider whose name
begins with x-. An event that can be read is folded as if it had just been accepted, under the id that it always had. The plan says why
another one cannot be read. A plan that reaches its limit holds the earliest events.

Exit status: 0 if done or planned, 1 if nothing is selected, an id was not found, the run left an event alone, or its plan had reached its
limit, 2 if the command could not be carried out, 3 if it was refused.";

const DISCARD_HELP: &str = "\
Takes the events off the list, and deletes their notices from the dead-letter queue. The events stay in the inbox.

Exit status: 0 if done or planned, 1 if nothing is selected, an id was not found, a notice did not come, or the plan of the run had
reached its limit, 2 if the command could not be carried out, 3 if it was refused.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Quarantine {
    #[command(subcommand)]
    verb: QuarantineVerb,
}

#[derive(Debug, Subcommand)]
enum QuarantineVerb {
    /// List quarantined events
    List(List),
    /// Read quarantined events again, and fold those that can be read now
    #[command(after_help = REPROCESS_HELP)]
    Reprocess(Selection),
    /// Take quarantined events off the list; they stay in the inbox
    #[command(after_help = DISCARD_HELP)]
    Discard(Selection),
}

#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
struct List {
    /// Largest number of events
    #[arg(long, value_name = "N", default_value_t = LISTED_DEFAULT)]
    max: usize,
    #[command(flatten)]
    stack: StackChoice,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Selection {
    /// Ids of events
    #[arg(value_name = "EVENT", value_parser = NonEmptyStringValueParser::new(), conflicts_with = "plan")]
    events: Vec<String>,
    /// Select the webhooks of this provider
    #[arg(long, value_name = "NAME", value_parser = provider_name::provider, conflicts_with = "plan")]
    provider: Option<Provider>,
    /// Select events whose cause contains this text
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new(), conflicts_with = "plan")]
    cause: Option<String>,
    /// Select all quarantined events
    #[arg(long, conflicts_with = "plan")]
    all: bool,
    #[command(flatten)]
    change: Change,
}

impl Quarantine {
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<Ended, CommandError> {
        match &self.verb {
            QuarantineVerb::List(list) => list.run(out),
            QuarantineVerb::Reprocess(selection) => selection.change.carry_out(
                Verb::Reprocess,
                async |stack, max, _| quarantine::plan_reprocess(stack, &selection.filter(), max).await,
                out,
                errors,
            ),
            QuarantineVerb::Discard(selection) => selection.change.carry_out(
                Verb::DiscardQuarantined,
                async |stack, max, _| quarantine::plan_discard(stack, &selection.filter(), max).await,
                out,
                errors,
            ),
        }
    }
}

impl Selection {
    fn filter(&self) -> QuarantineFilter {
        QuarantineFilter {
            event_ids: self.events.iter().map(EventId::new).collect(),
            origin: self.provider.map(Origin::Provider),
            cause: self.cause.clone(),
            all: self.all,
        }
    }
}

impl List {
    fn run(&self, out: &mut impl Write) -> Result<Ended, CommandError> {
        let connection = self.stack.connect()?;
        let events = connection.block_on(quarantine::list(&connection.stack, self.max))?;
        if self.json {
            print_json(&events, out)?;
        } else {
            print(&events, self.max, connection.stack.now(), out)?;
        }
        Ok(if events.is_empty() { Ended::NotFound } else { Ended::Found })
    }
}

fn print(events: &[Quarantined], max: usize, now: Timestamp, out: &mut impl Write) -> io::Result<()> {
    for event in events {
        let age = age(now.millis_since(event.quarantined_at));
        let cause = event.cause.as_deref().unwrap_or("-");
        writeln!(out, "{age:>8}  {:<8}  {cause:<24}  {}", by(event.by), event.event_id)?;
    }
    let more = if events.len() >= max { ", and perhaps more: raise --max" } else { "" };
    writeln!(out, "{}{more}", counted(events.len(), "quarantined event"))
}

const fn by(by: QuarantinedBy) -> &'static str {
    match by {
        QuarantinedBy::Ingress => "ingress",
        QuarantinedBy::Consumer => "consumer",
    }
}
