//! `switchhook replay`: folds stored events again.

use std::io::Write;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use switchhook_domain::{Disposition, Provider, Timestamp};
use switchhook_operate::plan::Verb;
use switchhook_operate::replay::{self, ReplayFilter, Selected};
use switchhook_operate::selection::call_or_entity;

use crate::change::{Change, Ended};
use crate::error::CommandError;
use crate::provider_name;
use crate::since::{self, Since};

const EXAMPLES: &str = "\
Examples:
  switchhook replay --call appointment:appt_201
  switchhook replay --since 2h --provider retell
  switchhook replay --since 2026-11-20T09:00:00Z --until 2026-11-20T10:00:00Z --disposition not_folded
  switchhook replay --plan p-7f3a90c1d2e4 --yes --reason 'ticket 812: events lost in the outage'

The first three print a plan: each call before and after, the domain events, and how many phones could ring. The last one carries
a plan out. With --yes, the first three do both.

What a replay of an event does depends on the event:
  It is not in its call                       it is queued and folded
  It is in its call, and is read alike        nothing: it is not queued
  It is in its call, and is read differently  the call is folded again from all its events
  It was recorded or quarantined, and this    it is folded like any other event
    version of the tool can read it
  It now belongs to another call              it is skipped and named

A webhook of a provider whose name begins with x- that was recorded or quarantined is read by the entry that the stack's secret has
for it now. A webhook without a decision gets the one that the rule of its provider finds now. Both are stored with the event.

Events of one call may be replayed in any order and any number of times: the state stays the same. Use a tool of the version that
runs on the stack, because the plan reads the events with the rules of this tool.

An interrupted run goes on with `switchhook run resume`. Ctrl-C stops it at the end of a page.

Exit status: 0 if the plan was printed or carried out, 1 if there is nothing to do, the call was not found, the run was stopped or left
an event alone, or its plan had reached its limit, 2 if the stack could not be reached, 3 if the replay was refused.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Replay {
    /// Events of the call with this id, which `switchhook timeline` finds by an appointment or an event
    #[arg(long, value_name = "CALL", value_parser = NonEmptyStringValueParser::new(), conflicts_with = "plan")]
    call: Option<String>,
    /// Events received since this time: a duration such as 2h, or a time in RFC 3339 format
    #[arg(long, value_name = "TIME", value_parser = since::parse, conflicts_with = "plan")]
    since: Option<Since>,
    /// Events received until this time
    #[arg(long, value_name = "TIME", value_parser = since::parse, conflicts_with = "plan")]
    until: Option<Since>,
    /// Events of this provider
    #[arg(long, value_name = "PROVIDER", value_parser = provider_name::provider, conflicts_with = "plan")]
    provider: Option<Provider>,
    /// Events of this type, in the provider's words: call_ended
    #[arg(long = "type", value_name = "TYPE", conflicts_with = "plan")]
    event_type: Option<String>,
    /// Events with this disposition: applied, parked, refused, stale, recorded, quarantined, or not_folded for events that are in
    /// no call, or whose booking lacks its call, and whose dead letter nobody has discarded
    #[arg(long, value_name = "DISPOSITION", value_parser = selected, conflicts_with = "plan")]
    disposition: Option<Selected>,
    #[command(flatten)]
    change: Change,
}

impl Replay {
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<Ended, CommandError> {
        self.change.carry_out(
            Verb::Replay,
            async |stack, max, progress| replay::plan(stack, &self.filter(stack.now()), max, progress).await,
            out,
            errors,
        )
    }

    fn filter(&self, now: Timestamp) -> ReplayFilter {
        ReplayFilter {
            call: self.call.as_ref().map(call_or_entity),
            since: self.since.map(|time| time.at(now)),
            until: self.until.map(|time| time.at(now)),
            provider: self.provider,
            event_type: self.event_type.clone(),
            disposition: self.disposition,
        }
    }
}

fn selected(text: &str) -> Result<Selected, String> {
    let names = ["applied", "parked", "refused", "stale", "recorded", "quarantined", "not_folded"];
    if text == "not_folded" {
        return Ok(Selected::NotFolded);
    }
    let known = Disposition::ALL.into_iter().filter(|one| names.contains(&one.as_str()));
    let found = known.into_iter().find(|one| one.as_str() == text).map(Selected::As);
    found.ok_or_else(|| format!("the dispositions are {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dispositions_are_selected_by_name() {
        assert_eq!(selected("not_folded"), Ok(Selected::NotFolded));
        assert_eq!(selected("recorded"), Ok(Selected::As(Disposition::Recorded)));
        // A duplicate is not stored.
        assert!(selected("duplicate").unwrap_err().contains("not_folded"));
    }
}
