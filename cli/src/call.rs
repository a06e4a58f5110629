//! `switchhook call`: creates and manages calls over the API of a stack.

mod list;
mod target;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use switchhook_api::DELAY_SECONDS_MAX;
use switchhook_domain::{CallingWindow, Provider};
use switchhook_operate::audit::Direct;

use self::list::List;
use self::target::Target;
use crate::duration;
use crate::error::CommandError;
use crate::import::Import;
use crate::paths::encoded;
use crate::reason::Reason;
use crate::show::{print_call, text};

const EXAMPLES: &str = "\
Examples:
  switchhook call create --provider retell --from-number +442079460018 --to-number +447700900123 \\
      --appointment appt_201
  switchhook call import calls.csv --plan
  switchhook call list --job PENDING --stack switchhook
  switchhook call trigger call-050d39f27cbbd5c6d2e754f8767178ea --to http://127.0.0.1:8787

The API of a deployed stack requires signed requests. Requests to other machines are therefore signed with AWS SigV4, with
credentials from the environment, from AWS_PROFILE in the shared files, from the container or from the instance.

A command that changes something writes audit records: who, why, what. `switchhook audit list` shows them.

Exit status: 0 if the request succeeded, 1 if the stack rejected it or answered with a server error, 2 if the stack could not be reached,
3 if the reason was refused. After a server error, the request may have been carried out.";

const TRIGGER_EXAMPLES: &str = "\
Example:
  switchhook call trigger call-050d39f27cbbd5c6d2e754f8767178ea

The call must be PENDING. Its due time does not matter, but its calling window and the do-not-call list do.

A call that may not be placed at once, for example because its calling window is closed, stays PENDING. Then the time is printed.

Exit status: 0 if the call is being placed or will be, 1 if the stack rejected the request or answered with a server error, 2 if the
stack could not be reached, 3 if the reason was refused. After a server error, the call may be placed.";

const CANCEL_EXAMPLES: &str = "\
Example:
  switchhook call cancel call-050d39f27cbbd5c6d2e754f8767178ea

A canceled call is not dialled again. An attempt that is under way goes on, because the phone may be ringing.

Exit status: 0 if no further attempt follows, 1 if the stack rejected the request or answered with a server error, 2 if the stack could not
be reached, 3 if the reason was refused. After a server error, the call may be canceled.";

const CREATE_EXAMPLES: &str = "\
Examples:
  switchhook call create --provider retell --from-number +442079460018 --to-number +447700900123
  switchhook call create --provider retell --from-number +442079460018 --to-number +447700900123 \\
      --appointment appt_201 --window 'Europe/London 09:00-18:00 mon,tue,wed' \\
      --attempts 3 --delay 10m --metadata name=Zoe --idempotency-key order-7

The fake provider of `switchhook dev` plays the behaviours in --metadata fake=busy,confirms, one per attempt. Without them, the
last digit of the called number decides. `switchhook dev --help` lists the behaviours.

Without an idempotency key, the same request within five minutes creates no second call.

Exit status: 0 if the call was created, now or by the same request before; 1 if the stack rejected the request or answered with a
server error; 2 if the stack could not be reached; 3 if the reason was refused. After a server error, the call may have been created.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Call {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create a call that Switchhook places
    Create(Create),
    /// Create the calls of a CSV or JSON Lines file
    Import(Import),
    /// Place a call now, even if it is not due
    #[command(after_help = TRIGGER_EXAMPLES)]
    Trigger(ChangedCall),
    /// Cancel a call that has not ended
    #[command(after_help = CANCEL_EXAMPLES)]
    Cancel(ChangedCall),
    /// List calls: open calls by the time of their next step, then settled calls, the latest first; or one list of the page Calls
    List(List),
}

#[derive(Debug, Args)]
struct ChangedCall {
    /// Id of the call
    #[arg(value_name = "CALL", value_parser = NonEmptyStringValueParser::new())]
    call: String,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    reason: Reason,
}

#[derive(Debug, Args)]
#[command(after_help = CREATE_EXAMPLES)]
struct Create {
    /// Provider that places the call: retell, twilio, vapi, telnyx, elevenlabs, plivo, vonage, livekit, bland, signalwire or an account such as twilio-eu. Of several, separated by commas, the next one is
    /// asked if one is unavailable
    #[arg(long, value_name = "PROVIDER", required = true, value_delimiter = ',')]
    provider: Vec<Provider>,
    /// Number that calls, in E.164 format (+442079460018), or a SIP address
    #[arg(long, value_name = "NUMBER")]
    from_number: String,
    /// Number to call, in E.164 format, or a SIP address
    #[arg(long, value_name = "NUMBER")]
    to_number: String,
    /// Your id of the appointment that the call is about
    #[arg(long, value_name = "ID")]
    appointment: Option<String>,
    /// Earliest time of the first attempt, in RFC 3339 format (2027-01-04T09:30:00Z); without it, now
    #[arg(long, value_name = "TIME")]
    due: Option<String>,
    /// Calling window by the local time of the called person: zone, hours, days if not every day, and dates without calls
    #[arg(long, value_name = "'ZONE HH:MM-HH:MM [DAYS] [DATES]'")]
    window: Option<CallingWindow>,
    /// Maximum number of attempts, including the first; without it, the default of the stack
    #[arg(long, value_name = "N")]
    attempts: Option<u8>,
    /// Longest delay before the second attempt, for example 10m; without it, the default of the stack
    #[arg(long, value_name = "TIME", value_parser = delay)]
    delay: Option<Duration>,
    /// Try again also if nobody knows whether the person answered
    #[arg(long)]
    retry_unheard: bool,
    /// Metadata that is sent to the provider with every attempt; may be repeated with other names
    #[arg(long, value_name = "NAME=VALUE", value_parser = metadata)]
    metadata: Vec<(String, String)>,
    /// Idempotency key: however often the request is repeated with this key, only one call is created
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Create the call even if the same call was created within the last five minutes
    #[arg(long)]
    allow_duplicate: bool,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    target: Target,
}

impl Call {
    /// Returns true if the stack carried out the request.
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, CommandError> {
        match &self.verb {
            Verb::Create(create) => create.run(out, errors),
            Verb::Import(import) => import.run(out, errors),
            Verb::Trigger(call) => call.change(Direct::TriggerCall, "/call/trigger", out, errors),
            Verb::Cancel(call) => call.change(Direct::CancelCall, "/call/cancel", out, errors),
            Verb::List(list) => list.run(out, errors),
        }
    }
}

impl Create {
    fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, CommandError> {
        if let Some(name) = repeated(&self.metadata) {
            return Err(CommandError::RepeatedMetadata { name: name.to_owned() });
        }
        let body = self.body().to_string().into_bytes();
        let headers = self.idempotency_key.iter().map(|key| ("idempotency-key", key.as_str()));
        let change = (Direct::CreateCall, self.reason.as_deref());
        let (answer, unrecorded) = self.target.change(change, None, "/calls", headers, body)?;
        let (call, is_repetition) = (answer.json(), answer.status != 201);
        // The call is printed even if its record could not be written.
        let recorded = unrecorded.record(&answer, is_repetition, call.get("call_id").and_then(Value::as_str));
        let is_done = self.target.print(&answer, out, errors, |call, out| {
            let (call_id, due_at) = (text(call, "/call_id"), text(call, "/due_at"));
            match (answer.status, &self.idempotency_key) {
                (201, _) => writeln!(out, "{call_id} created, due {due_at}"),
                (_, Some(_)) => writeln!(out, "{call_id} was created before with this key, due {due_at}"),
                (_, None) => writeln!(
                    out,
                    "{call_id} was created by the same request within the last five minutes, due {due_at}. To create another \
                     call, add --allow-duplicate"
                ),
            }
        })?;
        recorded?;
        Ok(is_done)
    }

    fn body(&self) -> Value {
        let mut body = Map::new();
        let providers = self.provider.iter().map(|provider| provider.as_str()).collect::<Value>();
        body.insert("providers".to_owned(), providers);
        body.insert("from".to_owned(), self.from_number.as_str().into());
        body.insert("to".to_owned(), self.to_number.as_str().into());
        let mut retry = Map::new();
        retry.extend(self.attempts.map(|attempts| ("attempts_max".to_owned(), attempts.into())));
        retry.extend(self.delay.map(|delay| ("delay_seconds".to_owned(), delay.as_secs().into())));
        retry.extend(self.retry_unheard.then(|| ("unheard".to_owned(), true.into())));
        let metadata: Map<String, Value> =
            self.metadata.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        let optional = [
            ("appointment_id", self.appointment.as_deref().map(Value::from)),
            ("due_at", self.due.as_deref().map(Value::from)),
            ("window", self.window.as_ref().map(|window| json!(window))),
            ("allow_duplicate", self.allow_duplicate.then_some(Value::Bool(true))),
            ("retry", Some(retry).filter(|retry| !retry.is_empty()).map(Value::Object)),
            ("metadata", Some(metadata).filter(|metadata| !metadata.is_empty()).map(Value::Object)),
        ];
        body.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        Value::Object(body)
    }
}

impl ChangedCall {
    fn change(
        &self,
        direct: Direct,
        path: &str,
        out: &mut impl Write,
        errors: &mut impl Write,
    ) -> Result<bool, CommandError> {
        let Self { call, target, reason } = self;
        let path = format!("{path}?id={}", encoded(call));
        let (answer, unrecorded) = target.change((direct, reason.as_deref()), Some(call), &path, [], Vec::new())?;
        let recorded = unrecorded.record(&answer, false, None);
        let is_done = target.print(&answer, out, errors, |call, out| match call.get("provider") {
            Some(_) => {
                print_call(call, out)?;
                if answer.status == 202 {
                    writeln!(out, "The attempt goes on, and no further one follows.")?;
                }
                Ok(())
            }
            // The response to `trigger` contains only the id and the job.
            None => print_job(call, out),
        })?;
        recorded?;
        Ok(is_done)
    }
}

fn print_job(call: &Value, out: &mut impl Write) -> io::Result<()> {
    write!(out, "{} is {}", text(call, "/call_id"), text(call, "/job/state"))?;
    match call.pointer("/job/due_at").and_then(Value::as_str) {
        Some(due_at) => writeln!(out, ", and will be placed from {due_at} on"),
        None => writeln!(out),
    }
}

fn delay(text: &str) -> Result<Duration, String> {
    duration::parse_seconds(Duration::from_secs(DELAY_SECONDS_MAX.into()), text)
}

/// Returns a name of metadata that has several values.
fn repeated(metadata: &[(String, String)]) -> Option<&str> {
    let mut names = BTreeSet::new();
    metadata.iter().map(|(name, _)| name.as_str()).find(|name| !names.insert(*name))
}

fn metadata(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| "not NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call whose calling window is closed, and one that is being placed.
    #[test]
    fn call_that_waits_after_a_trigger_is_printed_with_its_time() {
        let printed = |job: Value| {
            let mut out = Vec::new();
            print_job(&json!({"call_id": "c1", "job": job}), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let waits = printed(json!({"state": "PENDING", "due_at": "2026-11-30T03:00:00.000Z"}));
        assert_eq!(waits, "c1 is PENDING, and will be placed from 2026-11-30T03:00:00.000Z on\n");
        assert_eq!(printed(json!({"state": "CLAIMED"})), "c1 is CLAIMED\n");
    }

    #[test]
    fn metadata_may_hold_an_equals_sign() {
        assert_eq!(metadata("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(metadata("a").is_err());
    }
}
