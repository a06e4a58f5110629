//! `switchhook audit`: lists what operators did.

use std::io::{self, Write};

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand};
use serde_json::json;
use switchhook_operate::audit::{self, AuditRecord, Counts};

use crate::change::Ended;
use crate::error::CommandError;
use crate::stack_choice::StackChoice;
use crate::words::{counted, visible};

const LIST_HELP: &str = "\
Examples:
  switchhook audit list
  switchhook audit list --max 500 --json

Every run of a repair leaves a record when it starts, when it is resumed and when it ends: who, why, what, and the result. The commands
call create, call import, call trigger, call cancel, reconcile and providers put leave one before the change and one after it. A change
without its second record was interrupted. `event show --body` leaves one record. `check`, `bench`, `send`, and requests of programs to
the API leave none. Records are kept for 400 days, and published as the domain event operator.action.

Exit status: 0 if there are records, 1 if there is none, 2 if the stack could not be reached.";

#[derive(Debug, Args)]
pub(crate) struct Audit {
    #[command(subcommand)]
    verb: AuditVerb,
}

#[derive(Debug, Subcommand)]
enum AuditVerb {
    /// List the latest records
    List(List),
}

#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
struct List {
    /// Largest number of records
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    max: usize,
    #[command(flatten)]
    stack: StackChoice,
    /// Print one JSON object: {"records": […]}
    #[arg(long)]
    json: bool,
}

impl Audit {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<Ended, CommandError> {
        let AuditVerb::List(List { max, stack, json }) = &self.verb;
        let connection = stack.connect()?;
        let records = connection.block_on(audit::list(&connection.stack, *max))?;
        if *json {
            writeln!(out, "{:#}", json!({"records": records}))?;
        } else {
            print(&records, out)?;
        }
        Ok(if records.is_empty() { Ended::NotFound } else { Ended::Found })
    }
}

fn print(records: &[AuditRecord], out: &mut impl Write) -> io::Result<()> {
    if records.is_empty() {
        return writeln!(out, "There is no audit record: no operator has changed anything.");
    }
    for record in records {
        let AuditRecord { id, at, moment, who, reason, verb, run_id, event_id, call_id, about, items, counts, .. } =
            record;
        let (moment, command) = (moment.as_str(), verb.command());
        let subject = event_id.as_ref().or(call_id.as_ref()).or(about.as_ref());
        let subject = subject.map_or_else(String::new, |subject| format!(" {}", visible(subject)));
        let (who, reason) = (visible(who), visible(reason));
        match (run_id, event_id) {
            (None, Some(_)) => writeln!(out, "{at}  {moment}  {command}{subject}  {who}: {reason}")?,
            (run_id, _) => {
                let id = run_id.as_deref().or_else(|| id.split('/').next()).unwrap_or_default();
                let items = counted(*items as u64, "item");
                writeln!(out, "{at}  {id}  {moment:<8}  {command}{subject}, {items}  {who}: {reason}")?;
            }
        }
        if *counts != Counts::default() {
            writeln!(out, "    {counts}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use switchhook_domain::Timestamp;
    use switchhook_operate::audit::{Direct, Moment, Operation};
    use switchhook_operate::plan::Verb;

    use super::*;

    fn printed(record: AuditRecord) -> String {
        let mut out = Vec::new();
        print(&[record], &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn run_of_a_replay() -> AuditRecord {
        AuditRecord {
            id: "r-1/finished".to_owned(),
            at: Timestamp::from_millis(0),
            moment: Moment::Finished,
            who: "ada".to_owned(),
            reason: "ticket 812".to_owned(),
            verb: Operation::Planned(Verb::Replay),
            run_id: Some("r-1".to_owned()),
            plan_id: Some("p-1".to_owned()),
            event_id: None,
            call_id: None,
            about: None,
            items: 3,
            counts: Counts { done: 2, unchanged: 0, skipped: 1 },
        }
    }

    #[test]
    fn record_tells_who_why_and_what() {
        assert_eq!(
            printed(run_of_a_replay()),
            "1970-01-01T00:00:00.000Z  r-1  finished  replay, 3 items  ada: ticket 812\n    2 done, 0 unchanged, 1 skipped\n"
        );
    }

    /// An earlier version, or another program, may have written a reason of several lines.
    #[test]
    fn record_is_one_line_whatever_its_texts_hold() {
        let record = AuditRecord {
            who: "ada\u{1b}[31m".to_owned(),
            reason: "routine\n2026-11-30  r-2  finished  forget, 9 items  alice: erased".to_owned(),
            counts: Counts::default(),
            ..run_of_a_replay()
        };
        let text = printed(record);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("  ada⟨U+001B⟩[31m: routine⟨U+000A⟩2026-11-30  r-2"), "{text}");
    }

    #[test]
    fn record_of_a_change_without_a_plan_names_its_call() {
        let cancel = AuditRecord {
            id: "a-1/started".to_owned(),
            moment: Moment::Started,
            verb: Operation::Direct(Direct::CancelCall),
            run_id: None,
            plan_id: None,
            call_id: Some("call-9".to_owned()),
            items: 1,
            counts: Counts::default(),
            ..run_of_a_replay()
        };
        assert_eq!(
            printed(cancel),
            "1970-01-01T00:00:00.000Z  a-1  started   call cancel call-9, 1 item  ada: ticket 812\n"
        );
    }
}
