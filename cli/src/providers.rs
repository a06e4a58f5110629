//! `switchhook providers`: lists the providers of a stack, and checks a providers file.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use switchhook_operate::providers::{Configured, ProviderReport, ProviderView, providers};
use switchhook_providers::Providers as Document;

use crate::stack_choice::{StackChoice, StackChoiceError};

const EXAMPLES: &str = "\
Examples:
  switchhook providers list
  switchhook providers check providers.json";

const LIST_EXAMPLES: &str = "\
Examples:
  switchhook providers list
  switchhook providers list --stack switchhook --json

A provider whose circuit is open gets one call at a time, as a probe, until one succeeds. Its other calls wait, or go to the next
provider that they name. In flight are calls that were dialled and have not ended; at most 1,000 open calls are counted.
The configuration of a deployed stack is read from its secret; no key is printed.

Exit status: 0 if all providers are available, 1 if one is not, 2 if the stack could not be read.";

const CHECK_EXAMPLES: &str = "\
Examples:
  switchhook providers check providers.json
  switchhook providers check - < secret.json

The file has the format of the stack's secret. Every wrong field is named, and no value is printed. Check a document before you
store it: functions keep the old keys if the new document is wrong, and a new function does not start.

Exit status: 0 if the document is right, 1 if it is wrong, 2 if it could not be read.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Providers {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the providers: configuration, circuits and calls in flight
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// Check a providers file before it becomes the stack's secret
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Check),
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    stack: StackChoice,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Check {
    /// File with the document; - reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON object: {"providers": […], "problems": […]}
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProvidersError {
    #[error(transparent)]
    Stack(#[from] StackChoiceError),
    #[error(transparent)]
    Operate(#[from] switchhook_operate::Error),
    #[error("could not read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("could not print the providers")]
    Print(#[source] io::Error),
}

impl Providers {
    /// Returns true if all providers are available, or if the document is right.
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, ProvidersError> {
        match &self.verb {
            Verb::List(list) => list.run(out, errors),
            Verb::Check(check) => check.run(out, errors),
        }
    }
}

impl List {
    fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, ProvidersError> {
        let connection = self.stack.connect()?;
        let report = connection.block_on(providers(&connection.stack))?;
        let printed = if self.json { writeln!(out, "{:#}", json!(report)) } else { print(&report, out, errors) };
        printed.map_err(ProvidersError::Print)?;
        Ok(report.providers.iter().all(|provider| provider.available))
    }
}

impl Check {
    fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, ProvidersError> {
        let read = if self.file.as_os_str() == "-" {
            io::read_to_string(io::stdin())
        } else {
            std::fs::read_to_string(&self.file)
        };
        let document = read.map_err(|source| ProvidersError::Read { path: self.file.clone(), source })?;
        let (configured, problems) = match Document::from_json(&document) {
            Ok(document) => (Configured::list(&document), Vec::new()),
            Err(error) => (Vec::new(), error.problems().to_vec()),
        };
        let printed = if self.json {
            writeln!(out, "{:#}", json!({"providers": configured, "problems": problems}))
        } else {
            problems.iter().try_for_each(|problem| writeln!(errors, "{}: {problem}", self.file.display())).and_then(
                |()| configured.iter().try_for_each(|one| writeln!(out, "{}: {}", one.provider, described(one))),
            )
        };
        printed.map_err(ProvidersError::Print)?;
        Ok(problems.is_empty())
    }
}

fn print(report: &ProviderReport, out: &mut impl Write, errors: &mut impl Write) -> io::Result<()> {
    for provider in &report.providers {
        print_provider(provider, report.unconfigured_reason.is_none(), out)?;
    }
    if let Some(reason) = &report.unconfigured_reason {
        writeln!(errors, "switchhook: the configuration of the providers could not be read: {reason}")?;
    }
    if report.more {
        writeln!(out, "there are more open calls than were counted")?;
    }
    Ok(())
}

fn print_provider(view: &ProviderView, is_configuration_known: bool, out: &mut impl Write) -> io::Result<()> {
    let state = match (&view.open, view.paused_until) {
        (Some(_), _) => "unavailable".to_owned(),
        (None, Some(until)) => format!("busy, paused until {until}"),
        (None, None) => "available".to_owned(),
    };
    writeln!(out, "{}: {state}, {} in flight", view.provider, view.in_flight)?;
    match &view.configured {
        Some(configured) => writeln!(out, "  configured  {}", described(configured))?,
        None if is_configuration_known => writeln!(out, "  configured  no")?,
        None => {}
    }
    if let Some(open) = &view.open {
        let since = open.since.map_or_else(String::new, |since| format!(" since {since}"));
        writeln!(out, "  circuit     open{since}: {}, {}", open.reason, open.cause)?;
        writeln!(out, "  next probe  {}, after {} failed", open.next_probe_at, open.failed_probes)?;
    }
    Ok(())
}

fn described(configured: &Configured) -> String {
    let keys = if configured.keys == 1 { "1 key".to_owned() } else { format!("{} keys", configured.keys) };
    let dial = match configured.per_second {
        Some(rate) => format!("places up to {rate} calls per second"),
        None => "places no calls".to_owned(),
    };
    let discover = if configured.discover { ", its list of calls is read" } else { "" };
    format!("{keys}, {dial}{discover}")
}

#[cfg(test)]
mod tests {
    use switchhook_domain::{Provider, Timestamp};
    use switchhook_operate::providers::OpenCircuit;

    use super::*;

    #[test]
    fn providers_are_readable() {
        let at = Timestamp::from_millis(1_760_961_600_000);
        let open = OpenCircuit {
            reason: "account_problem",
            cause: "payment_required".to_owned(),
            since: Some(at),
            next_probe_at: at,
            failed_probes: 2,
        };
        let configured = Configured { provider: Provider::Retell, keys: 2, per_second: Some(5.0), discover: true };
        let view = ProviderView {
            provider: Provider::Retell,
            configured: Some(configured),
            available: false,
            open: Some(open),
            paused_until: None,
            in_flight: 3,
        };
        let idle = ProviderView {
            provider: Provider::Generic,
            configured: None,
            available: true,
            open: None,
            paused_until: None,
            in_flight: 0,
        };
        let report = ProviderReport { providers: vec![view, idle], unconfigured_reason: None, more: false };
        let mut out = Vec::new();
        print(&report, &mut out, &mut Vec::new()).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "retell: unavailable, 3 in flight\n  configured  2 keys, places up to 5 calls per second, its list of calls is \
             read\n  circuit     open since 2025-10-20T12:00:00.000Z: account_problem, payment_required\n  next probe  \
             2025-10-20T12:00:00.000Z, after 2 failed\ngeneric: available, 0 in flight\n  configured  no\n"
        );
    }
}
