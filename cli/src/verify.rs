//! `switchhook verify`: folds calls again from their events in the inbox, and compares the result with their rows.

use std::io::{self, Write};

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args};
use switchhook_operate::plan::Verb;
use switchhook_operate::selection::call_or_entity;
use switchhook_operate::verify::{self, Finding, Problem, SEARCHED_DEFAULT, VerifyFilter, VerifyReport};

use crate::change::{Change, Ended, refused};
use crate::error::CommandError;
use crate::since::{self, Since};
use crate::words::{counted, print_json, visible};

const JSON_HELP: &str =
    "Print one JSON object: {\"matching\": …, \"findings\": […]}, or the plan or the run of a repair";

const EXAMPLES: &str = "\
Examples:
  switchhook verify appointment:appt_201
  switchhook verify --appointment appt_201 --stack switchhook
  switchhook verify --since 24h
  switchhook verify --since 24h --repair
  switchhook verify --since 24h --repair --yes --reason 'ticket 812'

The events of each call are read from the inbox and folded again. The row must have the same state, history and announcements.
With --since alone, every call is verified that received an event or was settled since then. So a row that was lost is found too:
its events name the call. With a CALL, --since is the time from which the events of a call without a row are searched. Events that
arrived in the last two minutes may still be on their way, so neither a missing event nor a lost row is found by them alone. Events
that the row of a CALL lacks are looked for in the hour before and after each time that the row knows, and among those that failed.

A CALL may be the key of an entity, such as entity:x-acme:pay_1. Its row must include all its webhooks that arrived since --since, and
the inbox must hold the latest one that the row names.

--repair plans to fold each differing row again, and to queue the events of each lost row, which rebuilds it. A call that
Switchhook places first gets back what the inbox records of it: the request that created it, its dials, and its cancellation. A dial
that comes back is in doubt until its provider is asked, so nobody is dialled twice. A rebuilt call publishes its domain events
again, with ids from 1 on, which subscribers know. With --since alone, a plan that reaches its limit (--max) has the calls that changed
first, and prints the --since with which the next repair goes on.

Exit status: 0 if all calls match, 1 if a call differs, is lost or does not exist, or if none has changed since then, 2 if the
command could not be carried out, 3 if it was refused. With --repair: 0 if planned or repaired, 1 if the run left a call alone or its
plan had reached its limit.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    group(ArgGroup::new("selected").args(["calls", "appointment", "since", "plan"]).required(true).multiple(true)),
    group(ArgGroup::new("carried_out").args(["repair", "plan"]).multiple(true)),
    mut_arg("json", |json| json.help(JSON_HELP)),
    mut_arg("yes", |yes| yes.requires("carried_out"))
)]
pub(crate) struct Verify {
    /// Ids of calls
    #[arg(value_name = "CALL", value_parser = NonEmptyStringValueParser::new(), conflicts_with = "plan")]
    calls: Vec<String>,
    /// Id of an appointment: verify all its calls
    #[arg(
        long,
        value_name = "ID",
        value_parser = NonEmptyStringValueParser::new(),
        conflicts_with_all = ["calls", "plan"]
    )]
    appointment: Option<String>,
    /// Verify all calls with changes since this time: a duration such as 2h, or a time in RFC 3339 format
    #[arg(long, value_name = "TIME", value_parser = since::parse, conflicts_with = "plan")]
    since: Option<Since>,
    /// Plan the repair of what differs
    #[arg(long, conflicts_with = "plan")]
    repair: bool,
    #[command(flatten)]
    change: Change,
}

impl Verify {
    /// Returns [`Ended::Found`] if every call matches its events.
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<Ended, CommandError> {
        let connection = self.change.connect()?;
        if self.change.names_plan() {
            return self.change.carry_out_named(&connection, Verb::Verify, out, errors);
        }
        let stack = &connection.stack;
        let since = self.since.map_or_else(|| stack.now().minus(SEARCHED_DEFAULT), |since| since.at(stack.now()));
        let filter = match &self.appointment {
            Some(appointment) => VerifyFilter::Appointment(appointment.clone()),
            None if self.calls.is_empty() => VerifyFilter::Since,
            None => VerifyFilter::Calls(self.calls.iter().map(call_or_entity).collect()),
        };
        let report = self
            .change
            .search(&connection, async |stack, progress| verify::verify(stack, &filter, since, progress).await);
        let report = match report {
            Ok(report) => report,
            Err(error) => return refused(error, errors),
        };
        if self.repair && report.is_repairable() {
            if !self.change.prints_json() {
                print(&report, "", out)?;
            }
            let plan = connection.block_on(verify::plan_repair(stack, &filter, &report, self.change.max()));
            return self.change.carry_out_made(&connection, Verb::Verify, plan, out, errors);
        }
        if self.change.prints_json() {
            print_json(&report, out)?;
        } else {
            let advice = if report.is_repairable() { "; add --repair to plan the repair" } else { "" };
            print(&report, advice, out)?;
        }
        Ok(if report.is_clean() { Ended::Found } else { Ended::NotFound })
    }
}

fn print(report: &VerifyReport, advice: &str, out: &mut impl Write) -> io::Result<()> {
    for Finding { call_id, problem } in &report.findings {
        // It may be any text that the user wrote.
        let call_id = visible(call_id.as_str());
        match problem {
            Problem::Different { differences, missing: _, is_forgetful: _ } => {
                writeln!(out, "{call_id}: the row does not match its events")?;
                for difference in differences {
                    writeln!(out, "  {}", difference.text)?;
                }
            }
            Problem::Lost { events, is_placed } => {
                let number = counted(events.len(), "event");
                let creation = if *is_placed { "the request that created the call, and " } else { "" };
                writeln!(out, "{call_id}: the row is lost, and the inbox holds {creation}{number} of the call")?;
                for event_id in events {
                    writeln!(out, "  {event_id}")?;
                }
            }
            Problem::Unknown => {
                writeln!(
                    out,
                    "{call_id}: there is no such call, and the inbox holds no event of it in the searched time"
                )?;
            }
            Problem::Unreadable { error } => writeln!(out, "{call_id}: {error}")?,
            Problem::TooManyEvents => {
                writeln!(out, "{call_id}: not verified, because too many events of other calls arrived with its own")?;
            }
            Problem::TooFarBack => {
                writeln!(
                    out,
                    "{call_id}: not verified, because the events of one call cannot be searched so far back: name a later \
                     --since, or give --since alone"
                )?;
            }
        }
    }
    writeln!(out, "{}{advice}", result(report))
}

/// Returns the result in one line: how many calls match, and how many have which problem.
fn result(report: &VerifyReport) -> String {
    if *report == VerifyReport::default() {
        return "verified no call: none has changed in this time".to_owned();
    }
    let verified = format!("verified {}", counted(report.matching + report.findings.len(), "call"));
    if report.findings.is_empty() {
        return format!("{verified}: all match their events");
    }
    let mut parts = vec![match report.matching {
        0 => "none matches its events".to_owned(),
        1 => "1 matches its events".to_owned(),
        more => format!("{more} match their events"),
    }];
    let [mut different, mut lost, mut unknown, mut unreadable, mut skipped] = [0_usize; 5];
    for finding in &report.findings {
        match finding.problem {
            Problem::Different { .. } => different += 1,
            Problem::Lost { .. } => lost += 1,
            Problem::Unknown => unknown += 1,
            Problem::Unreadable { .. } => unreadable += 1,
            Problem::TooManyEvents | Problem::TooFarBack => skipped += 1,
        }
    }
    for (count, one, more) in [
        (different, "differs from its events", "differ from their events"),
        (lost, "has lost its row", "have lost their rows"),
        (unknown, "does not exist", "do not exist"),
        (unreadable, "cannot be read", "cannot be read"),
        (skipped, "could not be compared", "could not be compared"),
    ] {
        match count {
            0 => {}
            1 => parts.push(format!("1 {one}")),
            count => parts.push(format!("{count} {more}")),
        }
    }
    format!("{verified}: {}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use switchhook_domain::CallId;
    use switchhook_domain::EventId;
    use switchhook_operate::verify::NamedDifference;

    use super::*;

    fn printed(report: &VerifyReport) -> String {
        let mut out = Vec::new();
        print(report, "", &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_finding_is_said_in_words() {
        let text = "the row says that the job is FAILED, and its events make it COMPLETED".to_owned();
        let finding = |id: &str, problem| Finding { call_id: CallId::new(id), problem };
        let report = VerifyReport {
            matching: 1,
            findings: vec![
                finding(
                    "a",
                    Problem::Different {
                        differences: vec![NamedDifference { name: "job", text }],
                        missing: Vec::new(),
                        is_forgetful: false,
                    },
                ),
                finding("b", Problem::Lost { events: vec![EventId::new("retell:1")], is_placed: true }),
                finding("c", Problem::Unknown),
                finding("d", Problem::Unreadable { error: "could not read history of the call's row".to_owned() }),
                finding("e", Problem::TooManyEvents),
                finding("f", Problem::TooFarBack),
            ],
            ..VerifyReport::default()
        };
        let expected = "a: the row does not match its events\n  the row says that the job is FAILED, and its events make it \
                        COMPLETED\nb: the row is lost, and the inbox holds the request that created the call, and 1 event of the call\n  retell:1\nc: there is no such \
                        call, and the inbox holds no event of it in the searched time\nd: could not read history of the call's \
                        row\ne: not verified, because too many events of other calls arrived with its own\nf: not verified, because \
                        the events of one call cannot be searched so far back: name a later --since, or give --since \
                        alone\nverified 7 calls: \
                        1 matches its events, 1 differs from its events, 1 has lost its row, 1 does not exist, 1 cannot be \
                        read, 2 could not be compared\n";
        assert_eq!(printed(&report), expected);
        let finding = |id: &str| Finding { call_id: CallId::new(id), problem: Problem::Unknown };
        assert_eq!(
            result(&VerifyReport {
                matching: 2,
                findings: vec![finding("a"), finding("b")],
                ..VerifyReport::default()
            }),
            "verified 4 calls: 2 match their events, 2 do not exist"
        );
        assert_eq!(result(&VerifyReport::default()), "verified no call: none has changed in this time");
        assert_eq!(
            result(&VerifyReport { findings: vec![finding("a")], ..VerifyReport::default() }),
            "verified 1 call: none matches its events, 1 does not exist"
        );
        assert_eq!(
            printed(&VerifyReport { matching: 2, ..VerifyReport::default() }),
            "verified 2 calls: all match their events\n"
        );
    }
}
