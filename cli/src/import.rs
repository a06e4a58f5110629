//! `switchhook call import`: creates the calls of a file.
//!
//! **A row is created once.** Its idempotency key is a hash of the import's name and of the row's content, unless the row has a key of its
//! own. So an import that was interrupted, or whose file was corrected, is repeated with the same command, and creates only the calls that
//! it lacks.

mod plan;
mod rows;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use http::Method;
use serde_json::{Value, json};
use switchhook_api::BATCH_CALLS_MAX;
use switchhook_aws::sdk::Patience;
use switchhook_domain::Provider;
use switchhook_operate::audit::{self, Counts, Direct, Subject};
use switchhook_operate::web::WebError;
use switchhook_providers::{PER_SECOND_MAX, PER_SECOND_MIN};

use self::plan::{Plan, Rates};
pub(crate) use self::rows::RowsError;
use self::rows::{Defaults, Row, RowError, read_rows};
use crate::client::{Api, ClientError};
use crate::error::{BatchError, CommandError};
use crate::reason::Reason;
use crate::stack_choice::{Connection, StackChoice, StackChoiceError};
use crate::words::{counted, progress, with_causes};

const EXAMPLES: &str = "\
Examples:
  switchhook call import calls.csv --plan --per-second 2
  switchhook call import calls.csv --provider retell --from-number +442079460018
  switchhook call import calls.jsonl --name reminders-november --stack switchhook --json

A .jsonl file has one body of POST /calls per line. A .csv file begins with the names of its columns: provider (or
providers, separated by blanks), from, to, appointment_id, due_at, window, idempotency_key, metadata.NAME, and
retry.attempts_max, retry.delay_seconds, retry.delay_max_seconds, retry.voicemail and retry.unheard. An empty cell counts as
missing. A window is text such as 'Europe/London 09:00-18:00 mon,tue'.

A second row with the same content is refused, unless both have an idempotency_key of their own.

Each row is created once for each name of an import, however often the command is repeated. A row with an idempotency_key of its own
is created once, whatever the name. So after an interruption, or after a row was corrected, run the same command again. If the check of the file refuses any row, nothing is created, unless
--skip-refused is given. The stack itself may refuse a row, for example of an account that never had a dial rate. That stops no
other row, nor does one that was due more than a day ago: if an earlier import created its call, it counts as created, and
otherwise the stack refuses it.

The plan tells how long it takes to create the calls, and how long each provider needs at least to be asked for them, at its
rate in DialRates of the stack. Due times, windows and limits on the calls at the same time may make it longer.

A stack on AWS knows the rows by the caller. So go on with the same AWS identity: under another one, the same command creates
all calls anew. The import writes audit records: who, why, and how many.

Exit status: 0 if every call was created, now or before; 1 if rows were refused; 2 if the file could not be read or the stack
could not be reached; 3 if the reason was refused.";

/// Tries to send a batch.
const TRIES_MAX: u32 = 5;
/// Pause after the first try that failed. It doubles with every try.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Import {
    /// File with the calls, whose name ends with .csv or .jsonl
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only check the file, and print what the import would do
    #[arg(long)]
    plan: bool,
    /// Name of the import: the same row is created once for each name, unless it has its own key; without it, the name of the file
    #[arg(long, value_name = "NAME", value_parser = import_name)]
    name: Option<String>,
    /// Provider of the rows that name none
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<Provider>,
    /// Calling number of the rows that name none
    #[arg(long, value_name = "NUMBER")]
    from_number: Option<String>,
    /// Calls per second that each provider places, for the plan; without it, `DialRates` of the stack
    #[arg(long, value_name = "N", value_parser = rate)]
    per_second: Option<f64>,
    /// Create the other calls if rows are refused
    #[arg(long)]
    skip_refused: bool,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    stack: StackChoice,
    /// Print one JSON object: {"created": …, "repeated": …, "refused_rows": …, "refused": […]}, or with --plan {"rows": …, "calls": …, …}
    #[arg(long)]
    json: bool,
}

/// Result of an import.
#[derive(Debug, Default)]
struct Imported {
    created: usize,
    repeated: usize,
    refused: Vec<RowError>,
    /// True if nobody knows the result of some rows: the answer to their last request was lost, or was an error of the stack.
    is_unknown: bool,
}

impl Imported {
    /// Returns the numbers for the audit record of an import of `rows` rows.
    fn counts(&self, rows: usize) -> Counts {
        let (created, repeated) = (self.created, self.repeated);
        Counts { done: created, unchanged: repeated, skipped: rows.saturating_sub(created + repeated) }
    }
}

impl Import {
    /// Returns true if no row was refused.
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, CommandError> {
        // A plan needs no stack.
        let address = if self.plan { None } else { Some(self.stack.address()?) };
        let defaults = Defaults { provider: self.provider, from: self.from_number.as_deref() };
        let file_name = self.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name = self.name.as_deref().unwrap_or(&file_name);
        let rows = read_rows(&self.file, name, &defaults)?;
        let refused: Vec<RowError> = rows.iter().flat_map(|row| row.errors.clone()).collect();
        for error in refused.iter().filter(|_| !self.json) {
            writeln!(errors, "{}", error.text(&self.file))?;
        }
        let Some(address) = address else {
            self.print_plan(&rows, &refused, out, errors)?;
            return Ok(refused.is_empty());
        };
        if !refused.is_empty() && !self.skip_refused {
            if self.json {
                // A program must not take the calls of a plan for calls that were created.
                self.print_result(&Imported { refused, ..Imported::default() }, out)?;
            } else {
                self.print_plan(&rows, &refused, out, errors)?;
                let advice = "nothing was created; correct these rows, or import the others with --skip-refused";
                writeln!(errors, "switchhook: {advice}")?;
            }
            return Ok(false);
        }
        let valid: Vec<&Row> = rows.iter().filter(|row| row.errors.is_empty()).collect();
        let connection = Connection::to(&address, Patience::Short)?;
        let stack = &connection.stack;
        let subject = Subject { call_id: None, about: Some(name.to_owned()), items: valid.len() };
        let begin = audit::begin(stack, Direct::ImportCalls, self.reason.as_deref(), subject);
        let begun = connection.block_on(begin)?;
        let mut imported = Imported::default();
        let sent = self.send(&connection.api(), &valid, &mut imported);
        // A change whose result is not known has no second record.
        let recorded = if imported.is_unknown {
            Ok(())
        } else {
            connection.block_on(audit::finish(stack, begun, imported.counts(valid.len())))
        };
        sent?;
        recorded?;
        for error in imported.refused.iter().filter(|_| !self.json) {
            writeln!(errors, "{}", error.text(&self.file))?;
        }
        imported.refused.extend(refused);
        self.print_result(&imported, out)?;
        Ok(imported.refused.is_empty())
    }

    /// Sends all rows, in batches.
    fn send(&self, to: &Api, rows: &[&Row], imported: &mut Imported) -> Result<(), CommandError> {
        let progress = progress(self.json, Some(rows.len() as u64), "{bar:40} {pos}/{len} rows, {eta} left");
        let mut done = 0;
        for batch in rows.chunks(BATCH_CALLS_MAX) {
            send_batch(to, batch, imported).map_err(|source| {
                progress.finish_and_clear();
                CommandError::Interrupted { done, rows: rows.len(), source: Box::new(source) }
            })?;
            done += batch.len();
            progress.inc(batch.len() as u64);
        }
        progress.finish_and_clear();
        Ok(())
    }

    fn print_plan(
        &self,
        rows: &[Row],
        refused: &[RowError],
        out: &mut impl Write,
        errors: &mut impl Write,
    ) -> io::Result<()> {
        let plan = Plan::new(rows, refused, self.rates(errors)?);
        if self.json { plan.print_json(out) } else { plan.print(&self.file, out) }
    }

    /// Returns the rates for the plan: the one that is given, else those of the stack that is chosen. A plan needs no stack.
    fn rates(&self, errors: &mut impl Write) -> io::Result<Rates> {
        if let Some(rate) = self.per_second {
            return Ok(Rates::Given(rate));
        }
        match self.stack.connect() {
            Ok(connection) => Ok(Rates::Stack(connection.stack.dial_rates())),
            Err(StackChoiceError::None { .. }) => Ok(Rates::Assumed),
            Err(error) => {
                if !self.json {
                    writeln!(errors, "switchhook: DialRates of the stack are not known: {}", with_causes(&error))?;
                }
                Ok(Rates::Assumed)
            }
        }
    }

    fn print_result(&self, imported: &Imported, out: &mut impl Write) -> io::Result<()> {
        let Imported { created, repeated, refused, is_unknown: _ } = imported;
        let lines: BTreeSet<u64> = refused.iter().map(|error| error.line).collect();
        if self.json {
            let result = json!({
                "created": created, "repeated": repeated, "refused_rows": lines.len(),
                "refused": refused.iter().map(RowError::json).collect::<Value>(),
            });
            return writeln!(out, "{result}");
        }
        let file = self.file.display();
        write!(out, "{file}: {} created, {repeated} created before", counted(*created, "call"))?;
        if lines.is_empty() { writeln!(out) } else { writeln!(out, ", {} refused", counted(lines.len(), "row")) }
    }
}

/// Sends one batch until each of its rows has been created or refused.
fn send_batch(to: &Api, batch: &[&Row], imported: &mut Imported) -> Result<(), BatchError> {
    let mut rows: Vec<&Row> = batch.to_vec();
    let mut pause = PAUSE;
    for tries in 1.. {
        let body = json!({"calls": rows.iter().map(|row| row.entry()).collect::<Value>()}).to_string();
        let answer = to.send(Method::POST, "/calls/batch", [], body.into_bytes());
        let failure = match answer {
            Ok(answer) if answer.status == 200 => {
                let answer = answer.json();
                let results = answer.get("results").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                if results.len() != rows.len() {
                    imported.is_unknown = true;
                    return Err(BatchError::Answer("something that is no result of a batch".to_owned()));
                }
                let mut failed = Vec::new();
                for (row, result) in rows.into_iter().zip(results) {
                    match result.get("status").and_then(Value::as_u64) {
                        Some(201) => imported.created += 1,
                        Some(200) => imported.repeated += 1,
                        Some(500..) => failed.push(row),
                        Some(_) | None => imported.refused.extend(row.refusal(result)),
                    }
                }
                imported.is_unknown = !failed.is_empty();
                if failed.is_empty() {
                    return Ok(());
                }
                rows = failed;
                BatchError::Answer(format!("500 for {}", counted(rows.len(), "row")))
            }
            Ok(answer) if answer.status == 429 || answer.status >= 500 => {
                imported.is_unknown |= answer.status >= 500;
                BatchError::Answer(answer.error_text())
            }
            Ok(answer) => return Err(BatchError::Answer(answer.error_text())),
            Err(error @ ClientError::Web(WebError::NoAnswer { .. })) => {
                imported.is_unknown = true;
                error.into()
            }
            Err(error) => {
                imported.is_unknown = true;
                return Err(error.into());
            }
        };
        if tries >= TRIES_MAX {
            return Err(failure);
        }
        std::thread::sleep(pause);
        pause *= 2;
    }
    Ok(())
}

/// Reads the name of an import for clap. **Under another name, every call is created again.** So a blank at its end makes no other name, and an
/// empty variable of the shell makes none.
fn import_name(text: &str) -> Result<String, String> {
    let name = text.trim();
    if name.is_empty() {
        Err("it is empty".to_owned())
    } else if name.contains(char::is_control) {
        Err("it has a line break or another control character".to_owned())
    } else {
        Ok(name.to_owned())
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let is_right = (PER_SECOND_MIN..=PER_SECOND_MAX).contains(&rate);
    if is_right { Ok(rate) } else { Err(format!("not between {PER_SECOND_MIN} and {PER_SECOND_MAX}")) }
}
