//! `switchhook bench`: measures a running stack with webhooks of invented calls, and removes their traces.

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use switchhook_operate::Stack;
use switchhook_operate::bench::{
    self, BenchId, CALLS_DEFAULT, CALLS_MAX, Consumed, Options, Progress, RATE_DEFAULT, RATE_MAX, Removed, Report,
    Spread,
};

use crate::change::{Ended, progress_bar, refused};
use crate::client::url;
use crate::duration;
use crate::error::CommandError;
use crate::stack_choice::{StackChoice, runtime};
use crate::words::counted;

const EXAMPLES: &str = "\
Examples:
  switchhook bench --to http://127.0.0.1:8787
  switchhook bench --stack switchhook --calls 1000 --rate 100
  switchhook bench --stack switchhook --calls 1000 --rate 100 --units

It signs three webhooks of each call with the stack's key of the generic provider, and posts them at the given rate, each on a new
connection. It prints the answers, how long a sender waits for them, and the time from the receipt of a webhook until it is applied to its
call. At the end it removes the calls and the events. Subscribers see the domain events of those calls, whose ids begin with `bench-`, and
the webhooks cost what docs/cost.md says. Nobody is dialled. Ctrl-C ends the sending, and a second one the wait; the calls and the events
are removed all the same.

--units reads the metrics of the tables and of the events queue for the minutes of the benchmark, and divides them by the webhooks that the
stack received in these minutes. All that the stack does in them counts. Webhooks of a real provider are larger, and cost more units.

It needs the same permissions as `switchhook check` for its webhook, which docs/first-deployment.md lists. --units
needs `cloudwatch:GetMetricData` too.

Exit status: 0 if all webhooks were accepted and applied, 1 if not, 2 if the stack could not be reached, 3 if it was refused.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Bench {
    #[command(flatten)]
    stack: StackChoice,
    /// Number of calls
    #[arg(long, value_name = "N", default_value_t = CALLS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=i64::from(CALLS_MAX)))]
    calls: u32,
    /// Webhooks per second
    #[arg(long, value_name = "N", default_value_t = RATE_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=i64::from(RATE_MAX)))]
    rate: u32,
    /// URL that providers post to, if it is not the output ApiUrl: a custom domain, or CloudFront
    #[arg(long, value_name = "URL", value_parser = url)]
    webhook_url: Option<String>,
    /// Time limit of the wait until all webhooks are applied
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration::parse)]
    timeout: Duration,
    /// Also print the units of the tables and the messages per webhook; on AWS this takes up to four minutes more
    #[arg(long)]
    units: bool,
    /// Only remove what an earlier benchmark left behind, by its id
    #[arg(long, value_name = "BENCH", conflicts_with_all = ["calls", "rate", "webhook_url", "timeout", "units"])]
    clean_up: Option<BenchId>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Bench {
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<Ended, CommandError> {
        let address = self.stack.address()?;
        let runtime = runtime()?;
        if let Some(id) = &self.clean_up {
            let cleaned = runtime.block_on(bench::clean_up(&address, id))?;
            let Removed { removed, left } = cleaned;
            if self.json {
                writeln!(out, "{:#}", json!({"bench_id": id.to_string(), "removed": removed, "left": left}))?;
            } else {
                writeln!(out, "{id}: calls removed: {removed}; calls with events that may still be folded: {left}")?;
            }
            return Ok(if removed > 0 && left == 0 { Ended::Found } else { Ended::NotFound });
        }
        let options = Options {
            calls: self.calls,
            rate: self.rate,
            webhook_url: self.webhook_url.clone(),
            timeout: self.timeout,
            units: self.units,
        };
        let bar = progress_bar(self.json, "webhooks");
        bar.set_length(u64::from(self.calls) * 3);
        let stopped = || async { drop(tokio::signal::ctrl_c().await) };
        let mut clean_up = String::new();
        let mut started = |stack: &Stack, id: &BenchId| {
            clean_up = format!("switchhook bench --clean-up {id} {}", stack.options());
            // The benchmark goes on if nobody can read that.
            drop(writeln!(io::stderr(), "If it is killed, this removes what it has made: {clean_up}"));
        };
        let mut progress = |step: Progress| {
            // The benchmark goes on if nobody can read the line.
            let told = |line: String| bar.suspend(|| drop(writeln!(io::stderr(), "{line}; Ctrl-C ends the wait")));
            match step {
                Progress::Answered(answered) => bar.set_position(answered),
                Progress::WaitsUntilApplied(calls) => {
                    let (seconds, calls) = (self.timeout.as_secs(), counted(calls as u64, "call"));
                    told(format!("waiting up to {seconds} s until the webhooks of {calls} are applied"));
                }
                Progress::WaitsForMetrics => told("waiting up to four minutes for the metrics of AWS".to_owned()),
            }
        };
        let done = runtime.block_on(bench::bench(&address, &options, stopped, &mut started, &mut progress));
        bar.finish_and_clear();
        let report = match done {
            Ok(done) => done,
            Err(error) => return refused(error, errors),
        };
        if self.json {
            writeln!(out, "{:#}", json!(report))?;
        } else {
            print(&report, out)?;
            print_end(&report, &clean_up, out)?;
        }
        Ok(if report.is_right() { Ended::Found } else { Ended::NotFound })
    }
}

fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let Report { sent, webhooks, seconds, per_second, .. } = report;
    writeln!(out, "{sent} of {webhooks} webhooks sent in {seconds:.1} s: {per_second:.1} per second")?;
    for (answer, count) in &report.answers {
        writeln!(out, "answered {answer}: {count}")?;
    }
    print_spread("answered after", report.answer_ms, out)?;
    print_spread("applied after", report.applied_ms, out)?;
    if report.not_applied > 0 {
        writeln!(out, "accepted, and not applied in time: {}", report.not_applied)?;
    }
    if let Some(consumed) = &report.consumed {
        print_consumed(consumed, out)?;
    }
    Ok(())
}

fn print_consumed(consumed: &Consumed, out: &mut impl Write) -> io::Result<()> {
    let Consumed { received, write_units, read_units, messages, dollars_per_million } = consumed;
    writeln!(out, "per webhook, of {received} that the stack received in these minutes:")?;
    for (kind, units) in [("write units", write_units), ("read units", read_units)] {
        let of_each: Vec<String> = units.iter().map(|(place, units)| format!("{place} {units:.2}")).collect();
        writeln!(out, "  {kind:<12} {:.2}  ({})", units.values().sum::<f64>(), of_each.join(", "))?;
    }
    writeln!(out, "  {:<12} {messages:.2}", "messages")?;
    writeln!(out, "the units cost ${dollars_per_million:.2} per million webhooks (us-east-1, on demand)")
}

fn print_spread(what: &str, spread: Option<Spread>, out: &mut impl Write) -> io::Result<()> {
    let Some(Spread { p50, p95, p99, max }) = spread else { return Ok(()) };
    writeln!(out, "{what:<14}  p50 {p50} ms, p95 {p95} ms, p99 {p99} ms, max {max} ms")
}

fn print_end(Report { bench_id, left, .. }: &Report, clean_up: &str, out: &mut impl Write) -> io::Result<()> {
    if *left == 0 {
        return writeln!(out, "{bench_id}: its calls and events are removed");
    }
    writeln!(
        out,
        "{bench_id}: calls with events that may still be folded: {left}. When they are, remove them: {clean_up}"
    )
}
