//! `switchhook call`: the calls that Switchhook places, over its API.

use std::io::{self, Write};
use std::time::Duration;

use clap::{Args, Subcommand};
use http::{Method, Request};
use serde_json::{Map, Value, json};
use switchhook_domain::Provider;

use crate::client::{self, ClientError, Response};
use crate::duration;
use crate::paths::encoded;
use crate::show::{print_call, text};

const EXAMPLES: &str = "\
Examples:
  switchhook call create --provider retell --from-number +442079460018 --to-number +447700900123 \\
      --appointment appt_201 --to http://127.0.0.1:8787
  switchhook call list --job PENDING --to http://127.0.0.1:8787
  switchhook call trigger call-df8cf80227ec3237922df0ecd88385c5 --to http://127.0.0.1:8787

Requests to a host other than this machine are signed with AWS SigV4, as the API of a deployed stack wants them: with the
credentials of the environment, of AWS_PROFILE in the shared files, of the container or of the instance.

Exit status: 0 if it was done, 1 if it was refused, 2 if nobody could be asked.";

const CREATE_EXAMPLES: &str = "\
Examples:
  switchhook call create --provider retell --from-number +442079460018 --to-number +447700900123 \\
      --to http://127.0.0.1:8787
  switchhook call create --provider retell --from-number +442079460018 --to-number +447700900123 \\
      --appointment appt_201 --due 2026-11-23T09:30:00Z --window 'Europe/London 09:00-18:00 mon,tue,wed' \\
      --attempts 3 --delay 10m --metadata name=Zoe --idempotency-key order-7 --to http://127.0.0.1:8787

The fake provider of `switchhook dev` goes by --metadata fake=busy,confirms, a word for each attempt, or else by the last digit
of the number; `switchhook dev --help` lists the words.

Exit status: 0 if the call was created, now or before, 1 if it was refused, 2 if nobody could be asked.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Call {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Have a call placed
    Create(Create),
    /// Show the state of a call
    Show(CallArguments),
    /// Place a call now, whenever it is due
    Trigger(CallArguments),
    /// Cancel a call that waits to be placed
    Cancel(CallArguments),
    /// List calls, the longest waiting first
    List(List),
}

#[derive(Debug, Args)]
struct Target {
    /// Where the stack is
    #[arg(long, value_name = "URL")]
    to: String,
    /// Print the answer as it came, one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct CallArguments {
    /// The id of the call
    #[arg(value_name = "CALL")]
    call: String,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
#[command(after_help = CREATE_EXAMPLES)]
struct Create {
    /// Who places it: retell, twilio, vapi or telnyx
    #[arg(long, value_name = "P")]
    provider: Provider,
    /// The number that calls, in E.164, or a SIP address
    #[arg(long, value_name = "NUMBER")]
    from_number: String,
    /// The number that is called
    #[arg(long, value_name = "NUMBER")]
    to_number: String,
    /// Your id of the appointment that it is about
    #[arg(long, value_name = "ID")]
    appointment: Option<String>,
    /// Not before this, RFC 3339; without it now
    #[arg(long, value_name = "TIME")]
    due: Option<String>,
    /// When the person may be called, where they are: time zone, hours, and days unless every day
    #[arg(long, value_name = "'ZONE HH:MM-HH:MM [DAYS]'", value_parser = window)]
    window: Option<Value>,
    /// Attempts in all, the first included; without it the stack's
    #[arg(long, value_name = "N")]
    attempts: Option<u8>,
    /// The longest delay before the second attempt, for example 10m; without it the stack's
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    delay: Option<Duration>,
    /// Told to the provider with every attempt; may be given often
    #[arg(long, value_name = "NAME=VALUE", value_parser = metadata)]
    metadata: Vec<(String, String)>,
    /// Under one key one call is created, however often it is asked for
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
struct List {
    /// PENDING, CLAIMED, IN_PROGRESS, COMPLETED, FAILED or CANCELED
    #[arg(long, value_name = "STATE")]
    job: Option<String>,
    /// Of the latest attempt: initiated, ringing, in_progress, completed, failed, busy, no_answer, canceled, inconclusive
    #[arg(long, value_name = "STATE")]
    lifecycle: Option<String>,
    /// Not settled, and nothing has changed for so long: 90s, 10m, 2h, 3d
    #[arg(long, value_name = "TIME")]
    stuck_for: Option<String>,
    /// At most so many, up to 100
    #[arg(long, value_name = "N")]
    limit: Option<u8>,
    /// Go on where a list ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the answer could not be printed")]
    Print(#[source] io::Error),
}

impl Call {
    /// True if it was done.
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, CallError> {
        match &self.verb {
            Verb::Create(create) => create.run(out, errors),
            Verb::Show(call) => call.run(Method::GET, "", out, errors),
            Verb::Trigger(call) => call.run(Method::POST, "/trigger", out, errors),
            Verb::Cancel(call) => call.run(Method::POST, "/cancel", out, errors),
            Verb::List(list) => list.run(out, errors),
        }
    }
}

impl Create {
    fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, CallError> {
        let body = self.body().to_string().into_bytes();
        let headers = self.idempotency_key.iter().map(|key| ("idempotency-key", key.as_str()));
        let answer = self.target.send(Method::POST, "/calls", headers, body)?;
        self.target.print(&answer, out, errors, |call, out| {
            let created = if answer.status == 201 { "created" } else { "was created before" };
            writeln!(out, "{} {created}, due {}", text(call, "/call_id"), text(call, "/due_at"))
        })
    }

    fn body(&self) -> Value {
        let mut body = Map::new();
        body.insert("provider".to_owned(), self.provider.as_str().into());
        body.insert("from".to_owned(), self.from_number.as_str().into());
        body.insert("to".to_owned(), self.to_number.as_str().into());
        let mut retry = Map::new();
        retry.extend(self.attempts.map(|attempts| ("attempts_max".to_owned(), attempts.into())));
        retry.extend(self.delay.map(|delay| ("delay_seconds".to_owned(), delay.as_secs().into())));
        let metadata: Map<String, Value> =
            self.metadata.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        let optional = [
            ("appointment_id", self.appointment.as_deref().map(Value::from)),
            ("due_at", self.due.as_deref().map(Value::from)),
            ("window", self.window.clone()),
            ("retry", Some(retry).filter(|retry| !retry.is_empty()).map(Value::Object)),
            ("metadata", Some(metadata).filter(|metadata| !metadata.is_empty()).map(Value::Object)),
        ];
        body.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        Value::Object(body)
    }
}

impl CallArguments {
    fn run(
        &self,
        method: Method,
        what: &str,
        out: &mut impl Write,
        errors: &mut impl Write,
    ) -> Result<bool, CallError> {
        let path = format!("/calls/{}{what}", encoded(&self.call));
        let answer = self.target.send(method, &path, [], Vec::new())?;
        self.target.print(&answer, out, errors, |call, out| match call.get("provider") {
            Some(_) => print_call(call, out),
            // Of a call that was triggered the answer says no more.
            None => writeln!(out, "{} is {}", text(call, "/call_id"), text(call, "/job/state")),
        })
    }
}

impl List {
    fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, CallError> {
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
                writeln!(out, "{} cannot be read", id.as_str().unwrap_or_default())?;
            }
            match page.get("cursor").and_then(Value::as_str) {
                Some(cursor) => writeln!(out, "there may be more: --cursor {cursor}"),
                None => Ok(()),
            }
        })
    }
}

impl Target {
    fn send<'a>(
        &self,
        method: Method,
        path: &str,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
        body: Vec<u8>,
    ) -> Result<Response, CallError> {
        client::base_url(&self.to)?;
        let url = format!("{}{path}", self.to.trim_end_matches('/'));
        let mut request = Request::builder().method(method).uri(&url);
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(body).map_err(|source| ClientError::Request { url, source })?;
        Ok(client::send_to_api(request)?)
    }

    /// True if it was done.
    fn print<O: Write>(
        &self,
        answer: &Response,
        out: &mut O,
        errors: &mut impl Write,
        print_result: impl FnOnce(&Value, &mut O) -> io::Result<()>,
    ) -> Result<bool, CallError> {
        let done = (200..300).contains(&answer.status);
        let printed = match (done, self.json) {
            (_, true) => writeln!(out, "{}", answer.body),
            (true, false) => print_result(&answer.json(), out),
            (false, false) => writeln!(errors, "switchhook: {}", answer.error_text()),
        };
        printed.map_err(CallError::Print)?;
        Ok(done)
    }
}

fn print_list(calls: &[Value], out: &mut impl Write) -> io::Result<()> {
    let rows: Vec<[String; 6]> = calls
        .iter()
        .map(|call| {
            let attempts = call.get("attempts").and_then(Value::as_array).map_or(0, Vec::len);
            [
                text(call, "/call_id"),
                text(call, "/job/state"),
                attempts.to_string(),
                text(call, "/lifecycle"),
                text(call, "/appointment_status"),
                text(call, "/updated_at"),
            ]
        })
        .collect();
    let titles = ["call", "job", "attempts", "state", "appointment", "changed"].map(str::to_owned);
    let widths: [usize; 6] = std::array::from_fn(|column| {
        let cells = rows.iter().chain([&titles]).filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    });
    for row in [&titles].into_iter().chain(&rows) {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

/// `Europe/London 09:00-18:00 mon,tue`, as the API takes it. Whether there is such a zone and such an hour the API says.
fn window(text: &str) -> Result<Value, String> {
    let shape = || "not a window such as 'Europe/London 09:00-18:00 mon,tue'".to_owned();
    let mut words = text.split_whitespace();
    let (Some(zone), Some(hours), days, None) = (words.next(), words.next(), words.next(), words.next()) else {
        return Err(shape());
    };
    let (opens, closes) = hours.split_once('-').ok_or_else(shape)?;
    let mut window = json!({"time_zone": zone, "opens": opens, "closes": closes});
    if let (Some(days), Some(window)) = (days, window.as_object_mut()) {
        window.insert("days".to_owned(), days.split(',').map(Value::from).collect());
    }
    Ok(window)
}

fn metadata(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| "not NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_is_read_as_people_write_it() {
        let whole = json!({"time_zone": "Europe/London", "opens": "09:00", "closes": "18:00", "days": ["mon", "tue"]});
        assert_eq!(window("Europe/London 09:00-18:00 mon,tue"), Ok(whole));
        assert_eq!(window("UTC 09:00-18:00"), Ok(json!({"time_zone": "UTC", "opens": "09:00", "closes": "18:00"})));
        for text in ["", "UTC", "UTC 09:00", "UTC 09:00-18:00 mon tue"] {
            assert!(window(text).is_err(), "{text}");
        }
    }

    #[test]
    fn metadata_may_hold_an_equals_sign() {
        assert_eq!(metadata("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(metadata("a").is_err());
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
}
