//! `switchhook republish`: publishes the domain events of calls again, with the same ids.

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use http::Request;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use switchhook_aws::bus::Bus;
use switchhook_aws::calls::Calls;
use switchhook_aws::inbox::Inbox;
use switchhook_aws::sdk;
use switchhook_domain::{CallId, Timestamp};
use switchhook_operate::web::WebError;
use switchhook_relay::{RepublishReport, calls_since, republish_call};

use crate::client::{self, ClientError};
use crate::duration;

const EXAMPLES: &str = "\
Examples:
  switchhook republish --call appointment:appt_201 --to http://127.0.0.1:8787
  switchhook republish --since 2h --calls-table CALLS --inbox-table INBOX --event-bus BUS
  switchhook republish --since 2026-11-20T09:00:00Z --calls-table CALLS --inbox-table INBOX --event-bus BUS --json

The domain events are derived again from the stored call, with the same ids and the same content. Subscribers recognise events
that they already have by the id. No stored data changes, and the command can be repeated. --since selects the calls that
received an event, or were settled, since that time.

Use --to with a `switchhook dev`. For a deployed stack, give the names of its tables and its event bus; they are outputs of the
stack. The command then uses your own AWS credentials.

Exit status: 0 if all events were published, 1 if the call does not exist, 2 if not all events could be published.";

/// Retention of inbox events. Unused, because this command writes no events.
const NO_RETENTION: Duration = Duration::ZERO;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Republish {
    #[command(flatten)]
    selection: Selection,
    /// URL of a `switchhook dev`
    #[arg(long, value_name = "URL", required_unless_present = "calls_table")]
    to: Option<String>,
    /// Calls table of a deployed stack
    #[arg(long, value_name = "TABLE", conflicts_with = "to", requires_all = ["inbox_table", "event_bus"])]
    calls_table: Option<String>,
    /// Inbox table of the deployed stack
    #[arg(long, value_name = "TABLE", requires = "calls_table")]
    inbox_table: Option<String>,
    /// Event bus of the deployed stack
    #[arg(long, value_name = "NAME", requires = "calls_table")]
    event_bus: Option<String>,
    /// Print one JSON object: {"calls": …, "events": …}
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Selection {
    /// Id of one call
    #[arg(long, value_name = "CALL")]
    call: Option<String>,
    /// All calls with changes since this time: a duration such as 2h, or a time in RFC 3339 format
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Since>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    Ago(Duration),
    At(Timestamp),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RepublishError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("{url} rejected the request: {error}")]
    Rejected { url: String, error: String },
    #[error("could not publish all events: run the command again")]
    Publish(#[source] switchhook_aws::Error),
    #[error("could not start the async runtime")]
    Start(#[source] io::Error),
    #[error("could not print the result")]
    Print(#[source] io::Error),
}

impl Republish {
    /// Returns false if the call does not exist.
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, RepublishError> {
        let now = now();
        let since = self.selection.since.map(|since| match since {
            Since::Ago(ago) => now.minus(ago),
            Since::At(at) => at,
        });
        let RepublishReport { calls, events } = match (&self.to, &self.calls_table, &self.inbox_table, &self.event_bus)
        {
            (None, Some(calls), Some(inbox), Some(bus)) => self.republish_deployed(calls, inbox, bus, since, now)?,
            // clap requires either `--to` or the names of a deployed stack.
            (to, _, _, _) => self.republish_locally(to.as_deref().unwrap_or_default(), since)?,
        };
        if let (Some(call), 0) = (&self.selection.call, calls) {
            writeln!(errors, "switchhook: there is no call {call:?}").map_err(RepublishError::Print)?;
            return Ok(false);
        }
        let printed = if self.json {
            writeln!(out, "{}", json!({"calls": calls, "events": events}))
        } else {
            writeln!(out, "published again: {} of {}", counted(events, "domain event"), counted(calls, "call"))
        };
        printed.map_err(RepublishError::Print)?;
        Ok(true)
    }

    fn republish_locally(&self, to: &str, since: Option<Timestamp>) -> Result<RepublishReport, RepublishError> {
        client::base_url(to)?;
        let url = format!("{}/republish", to.trim_end_matches('/'));
        let body = json!({"call_id": self.selection.call, "since": since.map(|since| since.to_string())});
        let request = Request::post(&url).header("content-type", "application/json");
        let request = request.body(body.to_string().into_bytes());
        let request = request.map_err(|source| ClientError::from(WebError::Request { url: url.clone(), source }))?;
        let answer = client::send(request)?;
        let body = answer.json();
        let count = |name: &str| body.get(name).and_then(Value::as_u64);
        match (answer.status, count("calls"), count("events")) {
            (200, Some(calls), Some(events)) => Ok(RepublishReport { calls, events }),
            (_, _, _) => Err(RepublishError::Rejected { url, error: answer.error_text() }),
        }
    }

    fn republish_deployed(
        &self,
        calls: &str,
        inbox: &str,
        bus: &str,
        since: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<RepublishReport, RepublishError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(RepublishError::Start)?.block_on(async {
            let aws = sdk::from_profile().await;
            let dynamodb = sdk::dynamodb(&aws);
            let table = Calls::new(dynamodb.clone(), calls.to_owned());
            let bus = Bus::new(sdk::eventbridge(&aws), bus.to_owned());
            if let Some(call) = &self.selection.call {
                return republish_call(&table, &bus, &CallId::new(call)).await.map_err(RepublishError::Publish);
            }
            let inbox = Inbox::new(dynamodb, inbox.to_owned(), NO_RETENTION);
            let bar = self.progress();
            let search = calls_since(&inbox, &table, since.unwrap_or(now), now, |done, all| {
                bar.set_length(all);
                bar.set_position(done);
            });
            let found = search.await.map_err(RepublishError::Publish)?;
            bar.set_message("calls");
            bar.set_length(found.len() as u64);
            bar.set_position(0);
            let mut all = RepublishReport::default();
            for call_id in &found {
                let RepublishReport { calls, events } =
                    republish_call(&table, &bus, call_id).await.map_err(RepublishError::Publish)?;
                all.calls += calls;
                all.events += events;
                bar.inc(1);
            }
            bar.finish_and_clear();
            Ok(all)
        })
    }

    /// Progress bar on standard error. Hidden with `--json`.
    fn progress(&self) -> ProgressBar {
        if self.json {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(0).with_message("minutes");
        match ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}") {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }
}

/// Returns a number and its noun, for example `1 call` or `2 calls`.
fn counted(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

fn since(text: &str) -> Result<Since, String> {
    match (Timestamp::parse_rfc3339(text), duration::parse(text)) {
        (Some(at), _) => Ok(Since::At(at)),
        (None, Ok(ago)) => Ok(Since::Ago(ago)),
        (None, Err(_)) => {
            Err("not a time ago such as 2h, up to 30 days, and not a time such as 2026-11-20T09:00:00Z".to_owned())
        }
    }
}

fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_time_or_a_time_ago() {
        assert_eq!(since("2h"), Ok(Since::Ago(Duration::from_secs(7_200))));
        assert_eq!(since("1970-01-01T00:00:01Z"), Ok(Since::At(Timestamp::from_millis(1_000))));
        for text in ["", "yesterday", "90d"] {
            assert!(since(text).is_err(), "{text}");
        }
    }
}
