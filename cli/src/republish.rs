//! `switchhook republish`: publishes the domain events of calls again, with the same ids.

use std::io::Write;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use switchhook_domain::Timestamp;
use switchhook_operate::plan::Verb;
use switchhook_operate::republish::{self, RepublishFilter};
use switchhook_operate::selection::call_or_entity;

use crate::change::{Change, Ended};
use crate::error::CommandError;
use crate::since::{self, Since};

const EXAMPLES: &str = "\
Examples:
  switchhook republish --call appointment:appt_201
  switchhook republish --since 2h --stack switchhook
  switchhook republish --failed --yes --reason 'the event bus is up again'
  switchhook republish --failed --since 2026-11-20T09:00:00Z

The domain events are derived again from the stored calls, with the same ids and the same content. Subscribers recognise events
that they already have by the id. No stored data changes, and the command can be repeated. A call whose row cannot be read is named,
and the others are published.

Webhooks that are about no call are selected with the calls. With --call, the key of an entity, such as entity:x-acme:pay_1, selects
the webhooks that its row remembers: ten, as a rule. Use --since for earlier ones.

--since selects the calls that received an event or were settled since that time, and the open calls that were written since then. --failed
reads the messages of the relay's failures queue, selects the calls that were written since the first failure, and deletes the messages at the end of the run. They
stay if a row cannot be read, or if the run left a call alone. --failed does not find a call that was settled more than three days earlier, and whose last event waited in the queue for more than six hours, as
after a redrive: use --call for those. If more calls were written than a plan holds (--max), it prints the --since with which --failed
goes on. A plan with --since leaves the messages in the queue.

Exit status: 0 if done or planned, 1 if there is nothing to publish, the run left something alone, or its plan had reached its limit, 2 if
not all events could be published, 3 if it was refused.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Republish {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    change: Change,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true, args = ["plan"])]
struct Selection {
    /// Id of a call; can be repeated
    #[arg(
        long = "call",
        value_name = "CALL",
        value_parser = NonEmptyStringValueParser::new(),
        conflicts_with_all = ["since", "failed", "plan"]
    )]
    calls: Vec<String>,
    /// All calls with changes since this time: a duration such as 2h, or a time in RFC 3339 format
    #[arg(long, value_name = "TIME", value_parser = since::parse, conflicts_with = "plan")]
    since: Option<Since>,
    /// All calls whose domain events the relay gave up on; with --since, those that were written since that time
    #[arg(long, conflicts_with = "plan")]
    failed: bool,
}

impl Republish {
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<Ended, CommandError> {
        self.change.carry_out(
            Verb::Republish,
            async |stack, max, progress| {
                republish::plan(stack, &self.selection.filter(stack.now()), max, progress).await
            },
            out,
            errors,
        )
    }
}

impl Selection {
    fn filter(&self, now: Timestamp) -> RepublishFilter {
        let since = self.since.map(|since| since.at(now));
        match (self.failed, since) {
            (true, since) => RepublishFilter::Failed(since),
            (false, Some(since)) => RepublishFilter::Since(since),
            (false, None) => RepublishFilter::Calls(self.calls.iter().map(call_or_entity).collect()),
        }
    }
}
