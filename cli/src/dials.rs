//! `switchhook dials`: whether calls go out, which provider is blocked, and which calls are in doubt.

use std::io::{self, Write};

use clap::Args;
use serde_json::json;
use switchhook_domain::Timestamp;
use switchhook_operate::calls::StuckCall;
use switchhook_operate::dials::{DialReport, ProviderDials, dials};
use switchhook_operate::duration;

use crate::error::CommandError;
use crate::stack_choice::StackChoice;
use crate::table::aligned;

const EXAMPLES: &str = "\
Examples:
  switchhook dials
  switchhook dials --stack switchhook --json

For each provider it prints the circuit, the rate, the calls in flight, due and in doubt, and the last error. Below are the calls
in doubt, the claims that were not used in time, and the calls that are due next. In flight and in doubt are counted among the
200 open calls that are examined: first those with a claim, among which are the calls in doubt.

Exit status: 0 if every circuit is closed, no call is in doubt and every row could be read, 1 if not, 2 if the stack could not be
read.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Dials {
    #[command(flatten)]
    stack: StackChoice,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Dials {
    /// Returns true if every circuit is closed, no call is in doubt and every row could be read.
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<bool, CommandError> {
        let connection = self.stack.connect()?;
        let report = connection.block_on(dials(&connection.stack))?;
        if self.json {
            writeln!(out, "{:#}", json!(report))?;
        } else {
            print(&report, out)?;
        }
        Ok(is_clean(&report))
    }
}

/// True if every circuit is closed, no call is in doubt and every row could be read.
fn is_clean(report: &DialReport) -> bool {
    let is_open = |dials: &ProviderDials| dials.open.is_some();
    report.in_doubt.is_empty() && report.unreadable.is_empty() && !report.providers.iter().any(is_open)
}

fn print(report: &DialReport, out: &mut impl Write) -> io::Result<()> {
    if report.providers.is_empty() {
        writeln!(out, "No provider is asked to place calls. The parameter DialRates names those that are.")?;
    } else {
        let titles = ["provider", "circuit", "rate", "in flight", "due now", "oldest due", "in doubt", "last error"];
        let rows = report.providers.iter().map(|dials| row(dials, report));
        let rows: Vec<[String; 8]> = std::iter::once(titles.map(str::to_owned)).chain(rows).collect();
        aligned(&rows).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    print_stuck("In doubt", &report.in_doubt, out)?;
    print_stuck("Claimed, and not dialled in time", &report.expired_claims, out)?;
    if !report.next.is_empty() {
        writeln!(out, "\nDue next:")?;
    }
    for call in &report.next {
        writeln!(out, "  {}  {}  {}", call.due_at, call.call_id, call.provider)?;
    }
    if !report.unreadable.is_empty() {
        writeln!(out)?;
    }
    for id in &report.unreadable {
        writeln!(
            out,
            "{id} could not be read: `switchhook verify {id}` says why, and P2RunErrorsAlarm in the runbook what to do"
        )?;
    }
    if report.more {
        writeln!(out, "\nThere are more open calls than the {} that were examined.", report.examined)?;
    }
    Ok(())
}

fn row(dials: &ProviderDials, report: &DialReport) -> [String; 8] {
    let plus = |more: bool| if more { "+" } else { "" };
    let is_partial = !report.is_complete();
    let limit = |most: Option<u64>| most.map_or_else(String::new, |most| format!("/{most}"));
    let since = |at: Timestamp| duration(report.at.millis_since(at));
    let circuit = match (&dials.open, dials.paused_until) {
        (Some(open), _) => format!("open, next probe {}", open.next_probe_at),
        (None, Some(until)) => format!("paused until {until}"),
        (None, None) => "closed".to_owned(),
    };
    // Only a probe is dialled while the circuit is open.
    let percent = if dials.open.is_some() { 0 } else { dials.rate / 10 };
    [
        dials.provider.to_string(),
        circuit,
        dials.per_second.map_or("none".to_owned(), |rate| format!("{percent} % of {rate}/s")),
        format!("{}{}{}", dials.in_flight, plus(is_partial), limit(dials.calls_max)),
        format!("{}{}", dials.due, plus(dials.more_due)),
        dials.oldest_due.map_or("-".to_owned(), since),
        format!("{}{}", dials.in_doubt, plus(is_partial)),
        dials.open.as_ref().map_or("-".to_owned(), |open| open.cause.clone()),
    ]
}

fn print_stuck(title: &str, calls: &[StuckCall], out: &mut impl Write) -> io::Result<()> {
    if calls.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}:")?;
    for call in calls {
        let at = call.next_at.map_or_else(String::new, |at| format!(", at {at}"));
        let late = if call.late { " (late)" } else { "" };
        writeln!(out, "  {}  since {}: {}", call.call_id, call.since, call.why)?;
        writeln!(out, "    next  {}{at}{late}", call.next)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use switchhook_domain::{CallId, Provider};
    use switchhook_operate::providers::OpenCircuit;

    use super::*;

    fn empty() -> DialReport {
        DialReport {
            at: Timestamp::from_millis(1_760_961_600_000),
            providers: Vec::new(),
            in_doubt: Vec::new(),
            expired_claims: Vec::new(),
            next: Vec::new(),
            unreadable: Vec::new(),
            examined: 1,
            more: false,
        }
    }

    #[test]
    fn provider_with_an_open_circuit_uses_nothing_of_its_rate() {
        let report = empty();
        let closed = ProviderDials {
            provider: Provider::Retell,
            per_second: Some(5.0),
            rate: 1_000,
            open: None,
            paused_until: None,
            failure_score: 0,
            in_flight: 0,
            calls_max: None,
            in_doubt: 0,
            due: 0,
            more_due: false,
            oldest_due: None,
        };
        let open = OpenCircuit {
            reason: "account_problem",
            cause: "unauthorized".to_owned(),
            since: None,
            next_probe_at: report.at,
            failed_probes: 0,
        };
        let open = ProviderDials { open: Some(open), ..closed.clone() };
        assert_eq!([closed, open].map(|dials| row(&dials, &report)[2].clone()), ["100 % of 5/s", "0 % of 5/s"]);
    }

    #[test]
    fn call_that_cannot_be_read_is_named() {
        let report = DialReport { unreadable: vec![CallId::new("call-1")], ..empty() };
        let mut out = Vec::new();
        print(&report, &mut out).unwrap();
        let printed = String::from_utf8(out).unwrap();
        assert!(printed.contains("call-1 could not be read: `switchhook verify call-1` says why"), "{printed}");
        assert!(!is_clean(&report));
        assert!(is_clean(&DialReport { unreadable: Vec::new(), ..report }));
    }
}
