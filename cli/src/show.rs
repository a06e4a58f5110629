//! `switchhook show`: prints the state and the timeline of a call.

use std::io::{self, Write};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use serde_json::{Value, json};

use crate::client::Api;
use crate::error::CommandError;
use crate::paths::encoded;
use crate::stack_choice::StackChoice;

const EXAMPLES: &str = "\
Examples:
  switchhook show appointment:appt_201
  switchhook show retell:call_5d0b8f6e --stack switchhook --json
  switchhook show appointment:appt_201 --to http://127.0.0.1:8787

The API of a deployed stack requires signed requests. Requests to other machines are therefore signed with your AWS credentials.

Exit status: 0 if the call was found, 1 if it was not, 2 if the stack could not be reached.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    /// Id of the call: the id from `call create`, appointment:APPOINTMENT_ID, PROVIDER:PROVIDER_CALL_ID, or the call_id of a generic webhook
    #[arg(value_name = "CALL", value_parser = NonEmptyStringValueParser::new())]
    call: String,
    #[command(flatten)]
    stack: StackChoice,
    /// Print one JSON object: {"call": …, "events": […]}
    #[arg(long)]
    json: bool,
}

impl Show {
    /// Returns true if the call was found.
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, CommandError> {
        let (api, id) = (self.stack.api()?, encoded(&self.call));
        let call = get(&api, &format!("/call?id={id}"))?;
        let timeline = get(&api, &format!("/call/events?id={id}"))?;
        let (Some(call), Some(timeline)) = (call, timeline) else {
            writeln!(
                errors,
                "switchhook: there is no call {:?} at {}. The id of a call is the id from `call create`, \
                 appointment:APPOINTMENT_ID, PROVIDER:PROVIDER_CALL_ID, or the call_id of a generic webhook. `switchhook timeline` \
                 also finds a call by its appointment, by the event_id from the response to a webhook, or by a phone number.",
                self.call, api.url,
            )?;
            return Ok(false);
        };
        let events = timeline.get("events").cloned().unwrap_or_default();
        if self.json {
            writeln!(out, "{:#}", json!({"call": call, "events": events}))?;
        } else {
            print(&call, events.as_array().map_or(&[], Vec::as_slice), out)?;
        }
        Ok(true)
    }
}

/// Requests a JSON document. `None` if the response is 404.
fn get(api: &Api, path: &str) -> Result<Option<Value>, CommandError> {
    let answer = api.get(path)?;
    match (answer.status, serde_json::from_str(&answer.body)) {
        (200, Ok(found)) => Ok(Some(found)),
        (404, _) => Ok(None),
        (_, _) => Err(CommandError::NoCall { url: format!("{}{path}", api.base()), answer: answer.error_text() }),
    }
}

fn print(call: &Value, events: &[Value], out: &mut impl Write) -> io::Result<()> {
    print_call(call, out)?;
    print_timeline(events, out)
}

/// Prints the state of a call: job, attempts and appointment.
pub(crate) fn print_call(call: &Value, out: &mut impl Write) -> io::Result<()> {
    let settled = call.get("settled").and_then(Value::as_bool).unwrap_or_default();
    writeln!(out, "{}", text(call, "/call_id"))?;
    writeln!(out, "  provider     {}, {}", text(call, "/provider"), text(call, "/direction"))?;
    writeln!(out, "  state        {}, outcome {}", text(call, "/lifecycle"), text(call, "/outcome"))?;
    writeln!(out, "  appointment  {}, {}", text(call, "/appointment_id"), text(call, "/appointment_status"))?;
    let settled = if settled { "settled" } else { "not settled" };
    let details = ["due_at", "lease_ends_at", "stop_reason"].into_iter().filter_map(|name| {
        let value = call.pointer(&format!("/job/{name}"))?.as_str()?;
        Some(match name {
            "due_at" => format!(", due {value}"),
            "lease_ends_at" => format!(", until {value}"),
            _ => format!(", {value}"),
        })
    });
    writeln!(out, "  job          {}{}, {settled}", text(call, "/job/state"), details.collect::<String>())?;
    if let Some(at) = call.get("forgotten_at").and_then(Value::as_str) {
        writeln!(out, "  person       forgotten {at}")?;
    }
    for attempt in call.get("attempts").and_then(Value::as_array).into_iter().flatten() {
        writeln!(
            out,
            "  attempt {}    {}, outcome {}, {} to {}, {}",
            text(attempt, "/number"),
            text(attempt, "/lifecycle"),
            text(attempt, "/outcome"),
            text(attempt, "/started_at"),
            text(attempt, "/ended_at"),
            text(attempt, "/provider_call_id"),
        )?;
    }
    Ok(())
}

fn print_timeline(events: &[Value], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\n  {:<24}  {:>7}  {:<18}  {:<11}  event", "time", "attempt", "kind", "disposition")?;
    for event in events {
        let (time, remark) = match event.get("occurred_at").and_then(Value::as_str) {
            Some(time) => (time.to_owned(), ""),
            None => (text(event, "/received_at"), " (when it was received)"),
        };
        let implied = if event.get("implied") == Some(&Value::Bool(true)) { " (implied)" } else { "" };
        writeln!(
            out,
            "  {time:<24}  {:>7}  {:<18}  {:<11}  {}{implied}{remark}",
            text(event, "/attempt"),
            text(event, "/kind"),
            text(event, "/disposition"),
            text(event, "/event_id"),
        )?;
    }
    Ok(())
}

/// Returns a field as text for the user, or a dash if the field is missing.
pub(crate) fn text(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => "-".to_owned(),
        Some(other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_))) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeline_is_readable() {
        let call = json!({
            "call_id": "appointment:appt_1", "provider": "retell", "direction": "outbound", "appointment_id": "appt_1",
            "appointment_status": "Confirmed", "job": {"state": "COMPLETED"}, "lifecycle": "completed",
            "outcome": "confirmed", "settled": true, "version": 3,
            "attempts": [{"number": 1, "provider_call_id": "call_1", "lifecycle": "completed", "outcome": "confirmed",
                "started_at": "2025-10-20T12:13:57.211Z", "ended_at": "2025-10-20T12:15:21.846Z"}],
        });
        let events = [
            json!({"event_id": "retell:call_1:call_ended~ringing", "kind": "ringing", "implied": true,
                "occurred_at": "2025-10-20T12:13:57.211Z", "received_at": "2025-10-20T12:15:22.000Z",
                "disposition": "applied", "attempt": 1}),
            json!({"event_id": "retell:call_1:call_ended", "kind": "completed", "implied": false, "occurred_at": null,
                "received_at": "2025-10-20T12:15:22.000Z", "disposition": "applied", "attempt": null}),
        ];
        let mut out = Vec::new();
        print(&call, &events, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }
}
