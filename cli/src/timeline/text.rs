//! The story of a call as text.

use std::io::{self, Write};

use switchhook_domain::{Direction, Provider};
use switchhook_operate::duration;
use switchhook_operate::timeline::{CallSummary, EventInStory, Line, Story, WriteInStory};

use crate::mark::mark;
use crate::table::wrapped;

/// Columns before the details of an event.
const INDENT: usize = 4;
/// Columns before the values of the summary.
const SUMMARY_INDENT: usize = 15;

/// Prints a story.
pub(super) fn print(story: &Story, out: &mut impl Write) -> io::Result<()> {
    if let Some(as_of) = &story.as_of {
        writeln!(out, "As Switchhook knew it at {as_of}:")?;
    }
    print_call(&story.call, out)?;
    if let Some(person) = &story.person {
        writeln!(out, "  person       {person}")?;
    }
    if let Some(found_by) = &story.found_by {
        writeln!(out, "  found by     {found_by}")?;
    }
    for other in &story.other_calls {
        writeln!(out, "  other call   {other}")?;
    }
    let in_short = wrapped(&story.in_short, SUMMARY_INDENT).join("\n");
    writeln!(out, "  {:<13}{}", "in short", in_short.trim_start())?;
    writeln!(out)?;
    for line in &story.story {
        match line {
            Line::Event(event) => print_event(event, out)?,
            Line::Move { at, kind, reason } => {
                let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
                writeln!(out, "{at:<24}  job {kind}{reason}")?;
            }
            Line::Write(write) => print_write(write, out)?,
        }
    }
    Ok(())
}

fn print_call(call: &CallSummary, out: &mut impl Write) -> io::Result<()> {
    let direction = match call.direction {
        Some(Direction::Inbound) => "inbound",
        Some(Direction::Outbound) => "outbound",
        None => "-",
    };
    writeln!(out, "{}", call.call_id)?;
    writeln!(out, "  provider     {}, {direction}", or_dash(call.provider.as_ref().map(Provider::as_str)))?;
    writeln!(out, "  state        {}, outcome {}", or_dash(call.lifecycle), or_dash(call.outcome))?;
    writeln!(out, "  appointment  {}, {}", or_dash(call.appointment_id.as_deref()), call.appointment_status)?;
    let job = &call.job;
    let mut text = job.state.unwrap_or("not known: it depended on what the workers did").to_owned();
    for (name, value) in [("due", &job.due_at), ("until", &job.lease_ends_at)] {
        if let Some(value) = value {
            text.push_str(&format!(", {name} {value}"));
        }
    }
    if let Some(reason) = job.stop_reason {
        text.push_str(&format!(", {reason}"));
    }
    writeln!(out, "  job          {text}, {}", if call.settled { "settled" } else { "not settled" })?;
    if let Some(at) = &call.forgotten_at {
        writeln!(out, "  person       forgotten {at}")?;
    }
    for attempt in &call.attempts {
        let ended = attempt.ended_at.as_deref().unwrap_or("-");
        writeln!(
            out,
            "  attempt {:<4} {}, outcome {}, {} to {ended}",
            attempt.number, attempt.lifecycle, attempt.outcome, attempt.started_at
        )?;
        let dialled = attempt.dialled_at.as_ref().map(|at| format!(", dialled {at}")).unwrap_or_default();
        let id = or_dash(attempt.provider_call_id.as_deref());
        writeln!(out, "               {} {}{dialled}", or_dash(attempt.provider.as_ref().map(Provider::as_str)), id)?;
    }
    Ok(())
}

fn print_event(event: &EventInStory, out: &mut impl Write) -> io::Result<()> {
    let attempt = event.attempt.map_or_else(String::new, |number| format!("attempt {number}  "));
    let implied = if event.implied { " (implied)" } else { "" };
    let time = event.occurred_at.as_ref().unwrap_or(&event.received_at);
    let arrived = match (event.late_ms, event.is_late) {
        (None, _) => "when it arrived".to_owned(),
        (Some(ms), true) => format!("{} late", duration(ms)),
        (Some(ms), false) => format!("+{}", duration(ms).trim_start_matches('-')),
    };
    let mark = mark(event.disposition);
    writeln!(out, "{time:<24}  {arrived:<16}  {attempt}{}{implied}  {mark} {}", event.kind, event.disposition)?;
    writeln!(out, "{:INDENT$}{}", "", event.event_id)?;
    for line in wrapped(&event.why, INDENT) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn print_write(write: &WriteInStory, out: &mut impl Write) -> io::Result<()> {
    let state = [write.lifecycle, write.outcome, Some(write.appointment_status), write.job];
    let state: Vec<&str> = state.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    let mut text = format!("{}  → {}", write.at, state.join(", "));
    let announced: Vec<String> =
        write.announced.iter().map(|event| format!("#{} {}", event.sequence, event.event_type)).collect();
    if !announced.is_empty() {
        text.push_str(&format!("; announced {}", announced.join(", ")));
    }
    for line in wrapped(&text, INDENT) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)
}

fn or_dash(text: Option<&str>) -> &str {
    text.unwrap_or("-")
}
