//! `switchhook providers`: lists the providers of a stack, checks a providers file, and stores it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use switchhook_operate::Stack;
use switchhook_operate::audit::{self, Counts, Direct, Subject};
use switchhook_operate::providers::{Configured, ProviderReport, ProviderView, providers};
use switchhook_operate::secrets::{self, EntryChange, SecretsPlan};
use switchhook_providers::ProvidersFile;

use crate::error::CommandError;
use crate::providers_file::without_mark;
use crate::reason::Reason;
use crate::stack_choice::StackChoice;

const EXAMPLES: &str = "\
Examples:
  switchhook providers list
  switchhook providers check providers.json
  switchhook providers put providers.json --stack switchhook";

const LIST_EXAMPLES: &str = "\
Examples:
  switchhook providers list
  switchhook providers list --stack switchhook --json

A provider whose circuit is open gets one call at a time, as a probe, until one succeeds. Its other calls wait, or go to the next
provider that they name. In flight are calls that were dialled and have not ended; at most 1,000 open calls are counted.
The configuration is read from the secrets of the stack; no key is printed.

Exit status: 0 if all providers are available, 1 if one is not or the configuration is wrong or could not be read, 2 if the stack could
not be read.";

const CHECK_EXAMPLES: &str = "\
Examples:
  switchhook providers check providers.json
  switchhook providers check - < secret.json

Every wrong field is named, and no value is printed. The file holds the webhook keys and the dial accounts of all providers;
`switchhook providers put` stores the two in their secrets.

Exit status: 0 if the document is right, 1 if it is wrong, 2 if it could not be read.";

const PUT_EXAMPLES: &str = "\
Examples:
  switchhook providers put providers.json --stack switchhook
  switchhook providers put providers.json --stack switchhook --yes
  switchhook providers put retell.json --stack switchhook --yes --reason 'ticket 812'

The file is checked first, and a wrong one is not stored. Then its entries are compared with those of both secrets, the webhook
keys and the dial accounts; no value is printed. An entry of a provider replaces both of its stored entries. Entries of other
providers are kept, or removed with --replace. A secret without a change is not written.
Running functions use the new entries within five minutes. A new webhook key, provider or source address counts within ten seconds.
The audit records say who stored entries of which providers, and why.

Exit status: 0 if the file is stored, or would be, 1 if it is wrong, 2 if the stack could not be read or written, 3 if it was
refused.";

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
    /// Check a providers file before it is stored
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Check),
    /// Check a providers file and store it in the stack's secrets
    #[command(after_help = PUT_EXAMPLES)]
    Put(Put),
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

#[derive(Debug, Args)]
struct Put {
    /// Providers file; - reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    stack: StackChoice,
    /// Store the file; without it, only the changes are printed
    #[arg(long)]
    yes: bool,
    /// Remove the entries of providers that the file does not name
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    reason: Reason,
    /// Print one JSON object: {"plan": …, "stored": […], "problems": […]}; a wrong file has no plan
    #[arg(long)]
    json: bool,
}

impl Providers {
    /// Returns true if all providers are available, or if the document is right.
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, CommandError> {
        match &self.verb {
            Verb::List(list) => list.run(out, errors),
            Verb::Check(check) => check.run(out, errors),
            Verb::Put(put) => put.run(out, errors),
        }
    }
}

impl List {
    fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, CommandError> {
        let connection = self.stack.connect()?;
        let report = connection.block_on(providers(&connection.stack))?;
        let printed = if self.json { writeln!(out, "{:#}", json!(report)) } else { print(&report, out, errors) };
        printed?;
        Ok(is_well(&report))
    }
}

/// True if the configuration was read and is right, and every provider is available.
fn is_well(report: &ProviderReport) -> bool {
    let is_read = report.unconfigured_reason.is_none();
    is_read && report.problems.is_empty() && report.providers.iter().all(|provider| provider.available)
}

impl Check {
    fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, CommandError> {
        let document = read(&self.file)?;
        let (configured, problems) = match ProvidersFile::from_json(&document) {
            Ok(file) => (Configured::list(file.webhook_keys(), file.dial_accounts()), Vec::new()),
            Err(error) => (Vec::new(), error.problems().to_vec()),
        };
        let printed = if self.json {
            writeln!(out, "{:#}", json!({"providers": configured, "problems": problems}))
        } else {
            print_problems(&self.file, &problems, errors).and_then(|()| {
                configured.iter().try_for_each(|one| writeln!(out, "{}: {}", one.provider, checked(one)))
            })
        };
        printed?;
        Ok(problems.is_empty())
    }
}

impl Put {
    fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, CommandError> {
        let file = match ProvidersFile::from_json(&read(&self.file)?) {
            Ok(file) => file,
            Err(error) => {
                let printed = if self.json {
                    writeln!(out, "{:#}", json!({"plan": null, "stored": [], "problems": error.problems()}))
                } else {
                    print_problems(&self.file, error.problems(), errors)
                };
                printed?;
                return Ok(false);
            }
        };
        let connection = self.stack.connect()?;
        let plan = connection.block_on(secrets::plan(&connection.stack, &file, self.replace))?;
        let stored = if self.yes && plan.has_changes() {
            connection.block_on(store(&connection.stack, &plan, self.reason.as_deref()))?
        } else {
            Vec::new()
        };
        let printed = if self.json {
            writeln!(out, "{:#}", json!({"plan": plan, "stored": stored, "problems": []}))
        } else {
            print_plan(&plan, &stored, out, errors)
        };
        printed?;
        Ok(true)
    }
}

/// Stores the secrets that change, between two audit records.
async fn store(
    stack: &Stack,
    plan: &SecretsPlan,
    reason: Option<&str>,
) -> Result<Vec<&'static str>, switchhook_operate::Error> {
    let is_change = |change: EntryChange| match change {
        EntryChange::Added | EntryChange::Changed | EntryChange::Removed => true,
        EntryChange::Absent | EntryChange::Unchanged | EntryChange::Kept => false,
    };
    let changed = plan.changes.iter().filter(|one| is_change(one.webhook_keys) || is_change(one.dial_account));
    let names: Vec<&str> = changed.map(|one| one.provider.as_str()).collect();
    let (about, items) = (Some(names.join(", ")), names.len());
    let subject = Subject { call_id: None, about, items };
    let begun = audit::begin(stack, Direct::PutProviders, reason, subject).await?;
    let stored = secrets::store(stack, plan).await?;
    audit::finish(stack, begun, Counts { done: items, ..Counts::default() }).await?;
    Ok(stored)
}

fn read(path: &Path) -> Result<String, CommandError> {
    let read = if path.as_os_str() == "-" { io::read_to_string(io::stdin()) } else { std::fs::read_to_string(path) };
    let text = read.map_err(|source| CommandError::Read { what: path.display().to_string(), source })?;
    Ok(without_mark(&text).to_owned())
}

fn print_problems(file: &Path, problems: &[String], errors: &mut impl Write) -> io::Result<()> {
    problems.iter().try_for_each(|problem| writeln!(errors, "{}: {problem}", file.display()))
}

fn print_plan(plan: &SecretsPlan, stored: &[&str], out: &mut impl Write, errors: &mut impl Write) -> io::Result<()> {
    for change in &plan.changes {
        let halves = [("webhook keys", change.webhook_keys), ("dial account", change.dial_account)];
        let words: Vec<String> =
            halves.into_iter().filter_map(|(half, change)| Some(format!("{half} {}", change_word(change)?))).collect();
        writeln!(out, "{}: {}", change.provider, words.join(", "))?;
    }
    for warning in &plan.warnings {
        writeln!(errors, "switchhook: {warning}")?;
    }
    if !stored.is_empty() {
        // Ingress reads its secret again for a webhook that it does not accept.
        let sooner = if stored.contains(&"webhook keys") { ", and a new webhook key within ten seconds" } else { "" };
        writeln!(out, "stored the {}; running functions use them within five minutes{sooner}", stored.join(" and the "))
    } else if plan.has_changes() {
        writeln!(out, "\nNothing has changed. To store the file, add --yes")
    } else {
        writeln!(out, "the secrets hold this already")
    }
}

const fn change_word(change: EntryChange) -> Option<&'static str> {
    match change {
        EntryChange::Absent => None,
        EntryChange::Unchanged => Some("unchanged"),
        EntryChange::Kept => Some("kept"),
        EntryChange::Added => Some("added"),
        EntryChange::Changed => Some("changed"),
        EntryChange::Removed => Some("removed"),
    }
}

fn print(report: &ProviderReport, out: &mut impl Write, errors: &mut impl Write) -> io::Result<()> {
    for provider in &report.providers {
        print_provider(provider, report.unconfigured_reason.is_none(), out)?;
    }
    if let Some(reason) = &report.unconfigured_reason {
        writeln!(errors, "switchhook: the configuration of the providers could not be read: {reason}")?;
    }
    for problem in &report.problems {
        writeln!(errors, "switchhook: {problem}")?;
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
        Some(configured) => writeln!(out, "  configured  {}", described(configured, view.per_second))?,
        None if view.disabled => writeln!(out, "  configured  no: its entry in the secret is wrong")?,
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

/// Describes a provider of a stack.
fn described(configured: &Configured, per_second: Option<f64>) -> String {
    let dial = match (configured.dial, per_second) {
        (true, Some(rate)) => format!("places up to {rate} calls per second"),
        (true, None) => "has an account, but no rate in DialRates".to_owned(),
        (false, _) => "places no calls".to_owned(),
    };
    with_keys(configured, &dial)
}

/// Describes a provider of a file.
fn checked(configured: &Configured) -> String {
    with_keys(configured, if configured.dial { "places calls" } else { "places no calls" })
}

fn with_keys(configured: &Configured, dial: &str) -> String {
    let keys = if configured.keys == 1 { "1 key".to_owned() } else { format!("{} keys", configured.keys) };
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
        let configured = Configured { provider: Provider::Retell, keys: 2, dial: true, discover: true };
        let view = ProviderView {
            provider: Provider::Retell,
            configured: Some(configured),
            disabled: false,
            per_second: Some(5.0),
            available: false,
            open: Some(open),
            paused_until: None,
            in_flight: 3,
        };
        let idle = ProviderView {
            provider: Provider::Generic,
            configured: None,
            disabled: true,
            per_second: None,
            available: true,
            open: None,
            paused_until: None,
            in_flight: 0,
        };
        let problems = vec!["webhook keys: generic.keys: missing".to_owned()];
        let report = ProviderReport { providers: vec![view, idle], unconfigured_reason: None, problems, more: false };
        let (mut out, mut errors) = (Vec::new(), Vec::new());
        print(&report, &mut out, &mut errors).unwrap();
        assert_eq!(String::from_utf8(errors).unwrap(), "switchhook: webhook keys: generic.keys: missing\n");
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "retell: unavailable, 3 in flight\n  configured  2 keys, places up to 5 calls per second, its list of calls is \
             read\n  circuit     open since 2025-10-20T12:00:00.000Z: account_problem, payment_required\n  next probe  \
             2025-10-20T12:00:00.000Z, after 2 failed\ngeneric: available, 0 in flight\n  configured  no: its entry in the secret is wrong\n"
        );
    }

    #[test]
    fn configuration_that_could_not_be_read_is_not_well() {
        let report = |reason: Option<&str>| ProviderReport {
            providers: Vec::new(),
            unconfigured_reason: reason.map(str::to_owned),
            problems: Vec::new(),
            more: false,
        };
        assert!(is_well(&report(None)) && !is_well(&report(Some("access denied"))));
    }
}
