//! `switchhook call list`: the list of the API, or with `--tab` a list of the page Calls.

use std::io::{self, Write};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use http::Method;
use serde_json::{Value, json};
use switchhook_domain::{JobState, Provider};
use switchhook_operate::calls::{self, CallFilter, CallPage, Tab};

use super::target::Target;
use crate::error::CommandError;
use crate::provider_name;
use crate::show::text;
use crate::table::aligned;

const EXAMPLES: &str = "\
Examples:
  switchhook call list
  switchhook call list --job PENDING --limit 20 --stack switchhook
  switchhook call list --stuck-for 2h --to http://127.0.0.1:8787 --json
  switchhook call list --tab waiting --provider retell

With --tab it prints a list of the page Calls, which it reads from the tables with your credentials:
  recent     calls of the latest received events
  in_flight  calls that are being placed, go on, or whose outcome is awaited
  waiting    calls that wait to be placed, the next due first
  stuck      calls that have not moved for ten minutes; `switchhook stuck` says why
  in_doubt   calls that were dialled, and nobody knows yet whether the phone rang
  settled    calls about which nothing more is expected
Such a list reads at most 200 rows. So with filters it may show few calls, or none, and still have more.

If there are more calls, the last line prints the --cursor for the next page.

Exit status: 0 if the calls were listed, 1 if the stack rejected the request or answered with a server error, 2 if the stack could not be
reached, 3 if the cursor is of no page of the list of --tab.";

/// Calls of a page with `--tab`, as on the page Calls.
const TAB_LIMIT: u8 = 25;
const LIMIT_MAX: i64 = 100;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct List {
    /// List of the page Calls
    #[arg(long, value_name = "LIST", value_parser = tab_parser(), conflicts_with = "stuck_for")]
    tab: Option<Tab>,
    /// Only calls with this job state: PENDING, CLAIMED, IN_PROGRESS, COMPLETED, FAILED, MISSED or CANCELED
    #[arg(long, value_name = "STATE")]
    job: Option<String>,
    /// Only calls whose latest attempt has this state: initiated, ringing, in_progress, completed, failed, busy,
    /// no_answer, canceled or inconclusive
    #[arg(long, value_name = "STATE")]
    lifecycle: Option<String>,
    /// Only calls with an attempt of this provider; needs --tab
    #[arg(long, value_name = "PROVIDER", value_parser = provider_name::provider, requires = "tab")]
    provider: Option<Provider>,
    /// Only calls whose job is not final and that have not changed for this time: 90s, 10m, 2h, 3d
    #[arg(long, value_name = "TIME")]
    stuck_for: Option<String>,
    /// Maximum number of calls, up to 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=LIMIT_MAX))]
    limit: Option<u8>,
    /// Continue from the cursor that a previous list printed
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    #[command(flatten)]
    target: Target,
}

fn tab_parser() -> impl TypedValueParser<Value = Tab> {
    // clap has checked the name.
    PossibleValuesParser::new(Tab::ALL.map(Tab::as_str)).map(|name| Tab::parse(&name).unwrap_or(Tab::Recent))
}

impl List {
    pub(super) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, CommandError> {
        match self.tab {
            Some(tab) => self.print_tab(tab, out),
            None => self.print_api_list(out, errors),
        }
    }

    fn print_tab(&self, tab: Tab, out: &mut impl Write) -> Result<bool, CommandError> {
        let job = |name: &String| JobState::parse(name).ok_or_else(|| CommandError::UnknownJob { name: name.clone() });
        let filter = CallFilter {
            tab,
            job: self.job.as_ref().map(job).transpose()?,
            lifecycle: self.lifecycle.clone(),
            provider: self.provider,
            limit: self.limit.unwrap_or(TAB_LIMIT).into(),
            cursor: self.cursor.clone(),
        };
        let connection = self.target.stack.connect()?;
        let page = connection.block_on(calls::list(&connection.stack, &filter))?;
        if self.target.json {
            writeln!(out, "{:#}", json!(page))?;
        } else {
            print_page(&page, out)?;
        }
        Ok(true)
    }

    fn print_api_list(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, CommandError> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let limit = self.limit.map(|limit| limit.to_string());
        for (name, value) in [
            ("job", &self.job),
            ("lifecycle", &self.lifecycle),
            ("stuck_for", &self.stuck_for),
            ("limit", &limit),
            ("cursor", &self.cursor),
        ] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        let query = query.finish();
        let path = if query.is_empty() { "/calls".to_owned() } else { format!("/calls?{query}") };
        let answer = self.target.send(Method::GET, &path, [], Vec::new())?;
        self.target.print(&answer, out, errors, |page, out| {
            let calls = page.get("calls").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            print_list(calls, out)?;
            for id in page.get("unreadable").and_then(Value::as_array).into_iter().flatten() {
                writeln!(out, "{} could not be read", id.as_str().unwrap_or_default())?;
            }
            print_cursor(page.get("cursor").and_then(Value::as_str), out)
        })
    }
}

fn print_page(page: &CallPage, out: &mut impl Write) -> io::Result<()> {
    let calls: Vec<Value> = page.calls.iter().map(|call| json!(call)).collect();
    print_list(&calls, out)?;
    for id in &page.unreadable {
        writeln!(out, "{id} could not be read")?;
    }
    if page.examined > page.calls.len() {
        writeln!(out, "calls that were examined: {}", page.examined)?;
    }
    print_cursor(page.next.as_deref(), out)
}

fn print_cursor(cursor: Option<&str>, out: &mut impl Write) -> io::Result<()> {
    cursor.map_or(Ok(()), |cursor| writeln!(out, "there may be more: --cursor {cursor}"))
}

fn print_list(calls: &[Value], out: &mut impl Write) -> io::Result<()> {
    if calls.is_empty() {
        return writeln!(out, "no call is listed");
    }
    let titles = ["call", "job", "attempts", "state", "appointment", "changed"].map(str::to_owned);
    let rows = calls.iter().map(|call| {
        let attempts = call.get("attempts").and_then(Value::as_array).map_or(0, Vec::len);
        [
            text(call, "/call_id"),
            text(call, "/job/state"),
            attempts.to_string(),
            text(call, "/lifecycle"),
            text(call, "/appointment_status"),
            text(call, "/updated_at"),
        ]
    });
    let rows: Vec<[String; 6]> = std::iter::once(titles).chain(rows).collect();
    aligned(&rows).iter().try_for_each(|line| writeln!(out, "{line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_list_says_that_it_is_empty() {
        let mut out = Vec::new();
        print_list(&[], &mut out).unwrap();
        assert_eq!(out, b"no call is listed\n");
    }

    #[test]
    fn list_is_a_table() {
        let call = json!({
            "call_id": "call-1", "job": {"state": "PENDING"}, "attempts": [{}, {}], "lifecycle": "busy",
            "appointment_status": "Retrying", "updated_at": "2025-10-20T12:00:00.000Z",
        });
        let mut out = Vec::new();
        print_list(&[call], &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "call    job      attempts  state  appointment  changed\n\
             call-1  PENDING  2         busy   Retrying     2025-10-20T12:00:00.000Z\n"
        );
    }

    #[test]
    fn page_without_calls_says_how_many_it_examined_and_goes_on() {
        let page = CallPage { examined: 200, next: Some("x".to_owned()), ..CallPage::default() };
        let mut out = Vec::new();
        print_page(&page, &mut out).unwrap();
        let expected = "no call is listed\ncalls that were examined: 200\nthere may be more: --cursor x\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
