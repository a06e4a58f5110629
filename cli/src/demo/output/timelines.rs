//! Five calls in full. The webhooks of the first arrived out of order, the second lost some, and the third has forged ones. Two
//! providers report the fourth, and Switchhook placed and retried the fifth.

use std::io::{self, Write};

use serde_json::Value;

use super::summary::attempts;
use crate::demo::json::{text, time};
use crate::demo::observation::{Observations, ObservedCall, PlacedCall};
use crate::demo::placed_script::{PlacedScript, RequestPattern};
use crate::demo::script::{Millis, Report, SECOND, Scenario, Script};
use crate::demo::traffic::{Delivery, DeliveryKind, Traffic};

/// Number of domain events that fit on a line.
const EVENTS_PER_LINE: usize = 3;

const LEGEND: &str = "\
Five calls in full
  → webhook from the provider, and Switchhook's answer    ✗ webhook that was lost
  ← request to Switchhook's API    ☎ phone    ⇒ domain events that Switchhook publishes";

/// Prints one call of each kind. A kind that this run does not contain is left out.
pub(in crate::demo) fn print_timelines(
    traffic: &Traffic,
    observations: &Observations,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "{LEGEND}")?;
    let of_call = |call: usize| traffic.deliveries.iter().filter(move |delivery| delivery.call == call);
    let first = |call: usize| of_call(call).filter(|delivery| delivery.kind == DeliveryKind::First);
    let in_order = |call: usize| first(call).filter_map(|delivery| delivery.report).is_sorted();
    let lost = |call: usize, script: &Script| script.reports.len() > first(call).count();
    let forged = |call: usize| of_call(call).any(|delivery| matches!(delivery.kind, DeliveryKind::Forged(_)));
    type Filter<'a> = Box<dyn Fn(usize, &Script) -> bool + 'a>;
    let decided = |script: &Script| {
        script.attempts.iter().any(|it| matches!(it.truth.scenario, Scenario::Confirmed | Scenario::Declined))
    };
    let kinds: [(&str, Filter<'_>); 4] = [
        (
            "Webhooks out of order",
            Box::new(|call, script| {
                !in_order(call) && !lost(call, script) && !forged(call) && !script.has_two_providers()
            }),
        ),
        ("Lost webhooks", Box::new(|call, script| lost(call, script) && in_order(call))),
        ("Forged webhooks", Box::new(|call, script| forged(call) && !lost(call, script))),
        ("Two providers report one call", Box::new(|_, script| script.has_two_providers() && decided(script))),
    ];
    for (title, fits) in &kinds {
        let calls = || traffic.scripts.iter().enumerate().filter(|(call, script)| fits(*call, script));
        let longer = calls().find(|(_, script)| script.reports.len() > 2);
        if let Some((call, script)) = longer.or_else(|| calls().next())
            && let Some(observed) = observations.calls.get(call)
        {
            let truth: Vec<&str> = script.attempts.iter().map(|attempt| attempt.truth.scenario.description()).collect();
            let lines = scripted_call_lines(traffic, observations, call);
            print_timeline(title, &script.call_id, &truth, observed, &lines, out)?;
        }
    }
    let calls = || traffic.placed_scripts.iter().zip(&observations.placed_calls);
    let retried = || calls().filter(|(_, placed)| attempts(&placed.observed) > 1);
    let is_interesting = |(script, placed): &(&PlacedScript, &PlacedCall)| {
        matches!(script.pattern, RequestPattern::DuringOutage | RequestPattern::Repeated)
            && placed.phone_rings.len() > 1
    };
    if let Some((script, placed)) = retried().find(is_interesting).or_else(|| retried().next()) {
        let course = script.course(|number| placed.hit_outage(number));
        let truth: Vec<&str> = course.attempts().map(|(_, scenario)| scenario.description()).collect();
        let lines = placed_call_lines(placed);
        print_timeline("Placed by Switchhook, and retried", &placed.call_id, &truth, &placed.observed, &lines, out)?;
    }
    Ok(())
}

fn print_timeline(
    title: &str,
    call_id: &str,
    truth: &[&str],
    observed: &ObservedCall,
    lines: &[(Millis, String)],
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "\n{title}: {call_id}")?;
    for (at, line) in lines {
        writeln!(out, "  {}  {line}", clock_time(*at))?;
    }
    let state = |pointer: &str| observed.call.as_ref().and_then(|call| call.pointer(pointer)?.as_str()).unwrap_or("-");
    let attempts: Vec<String> = match truth {
        [only] => vec![(*only).to_owned()],
        several => several.iter().zip(1..).map(|(truth, number)| format!("attempt {number}: {truth}")).collect(),
    };
    writeln!(out, "  What truly happened:    {}", attempts.join("; "))?;
    writeln!(
        out,
        "  What Switchhook shows:  lifecycle {}, outcome {}, appointment {}, job {}",
        state("/lifecycle"),
        state("/outcome"),
        state("/appointment_status"),
        state("/job/state"),
    )
}

/// Lines about a call that others place: its webhooks and its domain events, in the order of time.
fn scripted_call_lines(traffic: &Traffic, observations: &Observations, call: usize) -> Vec<(Millis, String)> {
    let mut lines: Vec<(Millis, String)> = Vec::new();
    let (Some(script), Some(observed)) = (traffic.scripts.get(call), observations.calls.get(call)) else {
        return lines;
    };
    // If two providers report the call, each webhook is printed with its provider.
    let name = |name: &str, report: &Report| {
        let provider = if script.has_two_providers() { script.provider_of(report).name() } else { "" };
        format!("{provider} {name}").trim_start().to_owned()
    };
    let deliveries = traffic.deliveries.iter().zip(&observations.webhook_responses);
    let of_call = || deliveries.clone().filter(|(delivery, _)| delivery.call == call);
    for (index, report) in script.reports.iter().enumerate() {
        if !of_call().any(|(delivery, _)| delivery.report == Some(index)) {
            lines.push((report.emitted_at, format!("✗ {:<22} lost, never delivered", name(&report.name, report))));
        }
    }
    for (delivery, response) in of_call() {
        let report = delivery.report.and_then(|report| script.reports.get(report));
        let name = report.map_or_else(|| delivery.name.clone(), |report| name(&delivery.name, report));
        let line = format!("→ {name:<22} {}{}", remark(script, delivery), response.status);
        lines.push((delivery.at, line));
    }
    lines.extend(domain_event_lines(observed));
    lines.sort_by_key(|(at, _)| *at);
    lines
}

/// Lines about a call that Switchhook placed: API requests, phones, webhooks and domain events, in the order of time.
fn placed_call_lines(placed: &PlacedCall) -> Vec<(Millis, String)> {
    let mut lines: Vec<(Millis, String)> = Vec::new();
    for response in &placed.api_responses {
        let answer = match response.body.get("title").and_then(Value::as_str) {
            Some(title) => format!("{} {title}", response.code),
            None => response.code.to_string(),
        };
        lines.push((response.request.at, format!("← {:<22} {answer}", response.request.action.name())));
    }
    for ring in &placed.phone_rings {
        lines.push((ring.started_at, format!("☎ {:<22} dial {}: {}", "phone rings", ring.attempt, ring.behaviour)));
    }
    lines.extend(placed.sent_webhooks.iter().map(|webhook| (webhook.at, format!("→ {}", webhook.event))));
    lines.extend(domain_event_lines(&placed.observed));
    lines.sort_by_key(|(at, _)| *at);
    lines
}

/// Lines about the published domain events. Events that were published at the same time share a line.
fn domain_event_lines(observed: &ObservedCall) -> Vec<(Millis, String)> {
    let events: Vec<(Millis, String)> = observed
        .published_at
        .iter()
        .zip(&observed.domain_events)
        .map(|(at, event)| (*at, describe_event(event, &observed.domain_events)))
        .collect();
    let same_time = events.chunk_by(|(at, _), (next_at, _)| at == next_at);
    let line = |events: &[(Millis, String)]| {
        let names: Vec<&str> = events.iter().map(|(_, name)| name.as_str()).collect();
        events.first().map(|(at, _)| (*at, format!("    ⇒ {}", names.join(", "))))
    };
    same_time.flat_map(|events| events.chunks(EVENTS_PER_LINE)).filter_map(line).collect()
}

/// Type of a domain event, with the event that it corrects or the time at which the next attempt is due.
fn describe_event(event: &Value, all: &[Value]) -> String {
    let event_type = text(event, "type");
    let corrects = event.get("corrects").filter(|id| !id.is_null());
    let corrected = corrects.and_then(|id| all.iter().find(|other| other.get("id") == Some(id)));
    match (corrected, time(event, "due_at")) {
        (Some(corrected), _) => format!("{event_type} (corrects {})", text(corrected, "type")),
        (None, Some(due_at)) => format!("{event_type} (due {})", clock_time(due_at)),
        (None, None) => event_type.to_owned(),
    }
}

/// Remark about a delivery, to print before the response to it. Empty if nothing is wrong with the delivery.
fn remark(script: &Script, delivery: &Delivery) -> String {
    let made_at = delivery.report.and_then(|report| script.reports.get(report)).map(|report| report.emitted_at);
    let late = made_at.map_or(0, |made_at| (delivery.at - made_at) / SECOND);
    match delivery.kind {
        DeliveryKind::First if late > 0 => format!("{late} s late: "),
        DeliveryKind::First => String::new(),
        DeliveryKind::Repeated | DeliveryKind::Reworded => "repeated: ".to_owned(),
        DeliveryKind::Unreadable => "unreadable: ".to_owned(),
        DeliveryKind::Forged(forgery) => format!("forged, {}: ", forgery.name()),
    }
}

/// Time of day in UTC.
fn clock_time(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at).map(|time| time.strftime("%H:%M:%S").to_string()).unwrap_or_default()
}
