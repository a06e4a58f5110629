//! The plan of an import: the calls that it would create, and the time that creating and dialling them takes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

use jiff::SignedDuration;
use serde_json::{Map, Value, json};
use switchhook_api::BATCH_CALLS_MAX;
use switchhook_domain::{PhoneNumber, Provider};
use switchhook_providers::{DialRates, Pacing};

use super::rows::{Row, RowError};
use crate::words::counted;

/// Assumed time of one request. A full batch is seven rounds of 16 calls, each with two writes one after the other.
const REQUEST_SECONDS: usize = 1;
/// Calls per second of each provider if nothing says more: the default of `DialRates`.
const ASSUMED_PER_SECOND: f64 = 1.0;

/// Rates at which the calls are placed.
#[derive(Debug)]
pub(super) enum Rates {
    /// Rate of the option `--per-second`.
    Given(f64),
    /// `DialRates` of the stack.
    Stack(DialRates),
    /// No stack is chosen, or it does not answer.
    Assumed,
}

impl Rates {
    /// Calls per second that the provider is asked to place. `None` if the stack places none with it.
    fn per_second(&self, provider: &str) -> Option<f64> {
        match self {
            Self::Given(rate) => Some(*rate),
            Self::Stack(rates) => rates.pacing(provider.parse::<Provider>().ok()?).map(Pacing::per_second),
            Self::Assumed => Some(ASSUMED_PER_SECOND),
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Given(_) => "per_second",
            Self::Stack(_) => "stack",
            Self::Assumed => "assumed",
        }
    }

    const fn text(&self) -> &'static str {
        match self {
            Self::Given(_) => "the rate is that of --per-second",
            Self::Stack(_) => "the rates are DialRates of the stack",
            Self::Assumed => {
                "the rate is the default of DialRates; choose a stack or give --per-second for another one"
            }
        }
    }
}

/// Plan of an import.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    rows: usize,
    refused_rows: usize,
    refused: &'a [RowError],
    /// Rows whose due time has passed for so long that only an earlier import can have created them.
    past_due: Vec<&'a RowError>,
    calls: usize,
    by_provider: BTreeMap<&'a str, usize>,
    /// Further accounts that the rows name, first or not.
    accounts: BTreeSet<&'a str>,
    /// Calls to a number that an earlier row calls.
    same_number: usize,
    rates: Rates,
}

impl<'a> Plan<'a> {
    pub(super) fn new(rows: &'a [Row], refused: &'a [RowError], rates: Rates) -> Self {
        let valid = || rows.iter().filter(|row| row.errors.is_empty());
        let new: Vec<&Row> = valid().filter(|row| row.past_due.is_none()).collect();
        let mut by_provider: BTreeMap<&str, usize> = BTreeMap::new();
        for row in &new {
            *by_provider.entry(row.provider()).or_default() += 1;
        }
        let numbers: BTreeSet<String> =
            new.iter().map(|row| PhoneNumber::new(row.text("to")).canonical().as_str().to_owned()).collect();
        Self {
            rows: rows.len(),
            refused_rows: rows.len() - valid().count(),
            refused,
            past_due: valid().filter_map(|row| row.past_due.as_ref()).collect(),
            calls: new.len(),
            by_provider,
            accounts: new.iter().flat_map(|row| row.accounts()).collect(),
            same_number: new.len() - numbers.len(),
            rates,
        }
    }

    /// Time of all requests, one after the other.
    fn create_seconds(&self) -> usize {
        self.calls.div_ceil(BATCH_CALLS_MAX) * REQUEST_SECONDS
    }

    pub(super) fn print_json(&self, out: &mut impl Write) -> io::Result<()> {
        let providers: Map<String, Value> = self
            .by_provider
            .iter()
            .map(|(provider, calls)| {
                let rate = self.rates.per_second(provider);
                let seconds = rate.map(|rate| seconds(*calls, rate).as_secs());
                ((*provider).to_owned(), json!({"calls": calls, "per_second": rate, "seconds": seconds}))
            })
            .collect();
        let errors = |errors: &mut dyn Iterator<Item = &RowError>| errors.map(RowError::json).collect::<Value>();
        let plan = json!({
            "rows": self.rows,
            "calls": self.calls,
            "create_seconds": self.create_seconds(),
            "rates_from": self.rates.name(),
            "providers": providers,
            "same_number": self.same_number,
            "past_due": errors(&mut self.past_due.iter().copied()),
            "refused_rows": self.refused_rows,
            "refused": errors(&mut self.refused.iter()),
        });
        writeln!(out, "{plan}")
    }

    pub(super) fn print(&self, file: &Path, out: &mut impl Write) -> io::Result<()> {
        let (rows, calls) = (counted(self.rows, "row"), counted(self.calls, "call"));
        writeln!(out, "{}: {rows}, {calls}, created in about {}s", file.display(), self.create_seconds())?;
        for (provider, calls) in &self.by_provider {
            let count = counted(*calls, "call");
            match self.rates.per_second(provider) {
                Some(rate) => {
                    let time = seconds(*calls, rate);
                    writeln!(out, "  {provider}: {count}, dialled in at least {time:#} at {rate} per second")?;
                }
                None => {
                    writeln!(out, "  {provider}: {count} that will wait: DialRates of the stack has no rate for it")?
                }
            }
        }
        if !self.by_provider.is_empty() {
            writeln!(out, "  {}", self.rates.text())?;
        }
        // The stack lists an account once it has a rate.
        for account in self.accounts.iter().filter(|account| self.rates.per_second(account).is_none()) {
            writeln!(
                out,
                "  {account} has no rate in DialRates of the stack: if it never had one, calls that name it are refused"
            )?;
        }
        if self.same_number > 0 {
            writeln!(out, "  {} of the calls are to a number that another row calls too", self.same_number)?;
        }
        if !self.past_due.is_empty() {
            let rows = counted(self.past_due.len(), "row");
            writeln!(out, "  {rows} due more than a day ago: refused, unless an earlier import created the call")?;
        }
        if self.refused_rows > 0 {
            writeln!(out, "  {} refused", counted(self.refused_rows, "row"))?;
        }
        Ok(())
    }
}

/// Time that the calls take at a rate. A plan needs no more precision than seconds.
fn seconds(calls: usize, per_second: f64) -> SignedDuration {
    SignedDuration::try_from_secs_f64((calls as f64 / per_second).ceil()).unwrap_or(SignedDuration::MAX)
}
