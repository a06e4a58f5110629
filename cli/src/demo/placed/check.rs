//! Whether the calls that Switchhook placed came to what they had to: answers, states, phones and domain events, each held
//! against the order's truth.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Course, Demand, Job, Millis, Order, Person};
use crate::demo::play::{Placed, Rang, Webhook};
use crate::demo::script::MINUTE;

/// From the moment at which an attempt is written down to that at which the phone rings.
const RINGS_WITHIN: Millis = MINUTE;
const ENDINGS: [&str; 6] = ["completed", "failed", "busy", "no_answer", "canceled", "inconclusive"];
const LIFECYCLES: [&str; 9] =
    ["initiated", "ringing", "in_progress", "completed", "failed", "busy", "no_answer", "canceled", "inconclusive"];

/// How the ending of a call was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::demo) enum LearnedBy {
    Webhook,
    /// Some attempt's was learned by asking the provider.
    Asking,
}

/// What is wrong with one call that was asked for.
pub(in crate::demo) fn findings(order: &Order, placed: &Placed) -> Vec<String> {
    let mut findings = Vec::new();
    let mut found = |what: String| findings.push(what);
    answer_findings(placed, &mut found);
    let Some(call) = &placed.shown.call else {
        found(format!("{} is not known at all", placed.call_id));
        return findings;
    };
    let dialled: Vec<Millis> =
        list(call, "attempts").iter().filter_map(|attempt| time(attempt, "dialled_at")).collect();
    let (lived, job) = match order.course {
        Course::Canceled => (Vec::new(), None),
        Course::AtOnce
        | Course::Later
        | Course::Repeated
        | Course::Triggered
        | Course::Windowed
        | Course::WhileDown
        | Course::Patient => {
            let (lived, job) = order.life(|number| dialled.get(number).copied());
            (lived, Some(job))
        }
    };
    state_findings(order, placed, call, &lived, job, &mut found);
    phone_findings(order, &placed.rang, &dialled, &lived, &mut found);
    announced_findings(order, placed, &dialled, &lived, job, &mut found);
    findings
}

fn answer_findings(placed: &Placed, found: &mut impl FnMut(String)) {
    let first = placed.replies.iter().find(|reply| reply.request.demand == Demand::Create);
    for reply in &placed.replies {
        let demand = reply.request.demand;
        if reply.code != demand.answer() {
            found(format!("{} was answered {} {}, not {}", demand.name(), reply.code, reply.body, demand.answer()));
        }
        if demand == Demand::CreateAgain && Some(&reply.body) != first.map(|first| &first.body) {
            found(format!("the repetition was answered {}, not as the first time", reply.body));
        }
    }
}

fn state_findings(
    order: &Order,
    placed: &Placed,
    call: &Value,
    lived: &[Person],
    job: Option<Job>,
    found: &mut impl FnMut(String),
) {
    let mut check = |path: &str, expected: Value| {
        let actual = call.pointer(path).unwrap_or(&Value::Null);
        if *actual != expected {
            found(format!("{path} is {actual}, must be {expected}"));
        }
    };
    let latest = lived.last().map(|person| person.truth());
    check("/call_id", placed.call_id.as_str().into());
    check("/provider", "retell".into());
    check("/direction", "outbound".into());
    check("/appointment_id", order.appointment_id.as_deref().into());
    check("/appointment_status", Order::appointment(lived).into());
    check("/job/state", job_name(job).into());
    check("/lifecycle", latest.map(|truth| truth.lifecycle).into());
    check("/outcome", latest.map(|truth| truth.outcome).into());
    check("/settled", true.into());
    for (place, person) in lived.iter().enumerate() {
        let truth = person.truth();
        let number = (place + 1).to_string();
        let rang = placed.rang.iter().find(|rang| rang.attempt == number);
        check(&format!("/attempts/{place}/number"), (place + 1).into());
        check(&format!("/attempts/{place}/lifecycle"), truth.lifecycle.into());
        check(&format!("/attempts/{place}/outcome"), truth.outcome.into());
        check(&format!("/attempts/{place}/provider_call_id"), rang.map(|rang| rang.provider_call_id.as_str()).into());
    }
    check(&format!("/attempts/{}", lived.len()), Value::Null);
}

/// The phones themselves: one for each attempt that reaches one, in its time, and none while another still rings.
fn phone_findings(order: &Order, rang: &[Rang], dialled: &[Millis], lived: &[Person], found: &mut impl FnMut(String)) {
    let expected: Vec<(String, Option<&str>)> = lived
        .iter()
        .zip(1..)
        .filter(|(person, _)| person.truth().rings)
        .map(|(person, number): (_, usize)| (number.to_string(), person.word()))
        .collect();
    let actual: Vec<(String, Option<&str>)> =
        rang.iter().map(|rang| (rang.attempt.clone(), Some(rang.behaviour))).collect();
    if expected != actual {
        found(format!("phones rang for {actual:?}, must have rung for {expected:?}"));
    }
    for rang in rang {
        let number: usize = rang.attempt.parse().unwrap_or_default();
        let at = number.checked_sub(1).and_then(|place| dialled.get(place)).copied();
        if !at.is_some_and(|at| (at..=at + RINGS_WITHIN).contains(&rang.began)) {
            found(format!("a phone rang at {}, and attempt {number} was dialled at {at:?}", rang.began));
        }
        if !(order.not_before()..=order.not_after()).contains(&rang.began) {
            found(format!("a phone rang at {}, when it must not", rang.began));
        }
    }
    if rang.iter().zip(rang.iter().skip(1)).any(|(before, after)| before.ended > after.began) {
        found("a phone rang while the one before was not over".to_owned());
    }
}

fn announced_findings(
    order: &Order,
    placed: &Placed,
    dialled: &[Millis],
    lived: &[Person],
    job: Option<Job>,
    found: &mut impl FnMut(String),
) {
    let events = &placed.shown.announced;
    for (event, sequence) in events.iter().zip(1_usize..) {
        let expected = [
            ("id", json!(format!("{}/{sequence}", placed.call_id))),
            ("sequence", json!(sequence)),
            ("call_id", json!(placed.call_id)),
            ("provider", json!("retell")),
            ("appointment_id", json!(order.appointment_id)),
        ];
        for (name, expected) in expected {
            let actual = event.get(name).unwrap_or(&Value::Null);
            if *actual != expected {
                found(format!("domain event {sequence}: {name} is {actual}, must be {expected}"));
            }
        }
    }
    for (person, number) in lived.iter().zip(1_usize..) {
        attempt_findings(events, number, *person, found);
    }
    let of_type = |name: &str| events.iter().filter(|event| text(event, "type") == name).collect::<Vec<_>>();
    let retries = of_type("call.retry_scheduled");
    let expected: Vec<usize> = (1..lived.len()).collect();
    let actual: Vec<usize> = retries.iter().map(|event| number(event)).collect();
    if actual != expected {
        found(format!("call.retry_scheduled is announced after attempts {actual:?}, must be after {expected:?}"));
    }
    for event in retries {
        let due_at = time(event, "due_at");
        let next = dialled.get(number(event)).copied();
        if due_at.is_none() || due_at > next {
            found(format!("the next attempt was due at {due_at:?} and dialled at {next:?}"));
        }
    }
    let mut count = |name: &str, expected: usize| {
        let actual = of_type(name).len();
        if actual != expected {
            found(format!("{name} is announced {actual} times, must be {expected}"));
        }
    };
    count("call.exhausted", usize::from(job == Some(Job::Failed)));
    count("call.drift_repaired", of_type("call.drift_repaired").len().min(placed.drifts));
    if order.course == Course::Canceled {
        let types: Vec<&str> = events.iter().map(|event| text(event, "type")).collect();
        if types != ["call.canceled"] {
            found(format!("a canceled call announces {types:?}"));
        }
        return;
    }
    let appointment: Vec<&str> =
        events.iter().map(|event| text(event, "type")).filter_map(|name| name.strip_prefix("appointment.")).collect();
    let expected = snake(Order::appointment(lived));
    if appointment.last() != Some(&expected.as_str()) {
        found(format!("the appointment is announced as {appointment:?}, must end as {expected}"));
    }
    if appointment.iter().filter(|status| **status == "retrying").count() != lived.len().saturating_sub(1) {
        found(format!("the appointment is announced as {appointment:?}, and there were {} attempts", lived.len()));
    }
}

/// Of each attempt every state is announced once, from the first to the true ending; what supersedes an ending corrects it.
fn attempt_findings(events: &[Value], attempt: usize, person: Person, found: &mut impl FnMut(String)) {
    let of_attempt: Vec<&Value> = events.iter().filter(|event| number(event) == attempt).collect();
    let states: Vec<(&Value, &str)> = of_attempt
        .iter()
        .filter_map(|event| Some((*event, text(event, "type").strip_prefix("call.")?)))
        .filter(|(_, status)| LIFECYCLES.contains(status))
        .collect();
    let names: Vec<&str> = states.iter().map(|(_, status)| *status).collect();
    let truth = person.truth().lifecycle;
    let distinct: BTreeSet<&str> = names.iter().copied().collect();
    if names.first() != Some(&"initiated") || names.last() != Some(&truth) || distinct.len() != names.len() {
        found(format!("attempt {attempt} is announced as {names:?}, must go from initiated to {truth}"));
    }
    let mut previous: Option<&str> = None;
    let mut ended: Option<&str> = None;
    let mut corrected: Vec<Option<&str>> = Vec::new();
    for (event, status) in states {
        let (said, corrects) = (event.get("previous").and_then(Value::as_str), event.get("corrects"));
        if said != previous {
            found(format!("{status} of attempt {attempt} follows {said:?}, must follow {previous:?}"));
        }
        if corrects.and_then(Value::as_str) != ended {
            found(format!("{status} of attempt {attempt} corrects {corrects:?}, must correct {ended:?}"));
        }
        corrected.extend(ended.map(Some));
        previous = Some(status);
        if ENDINGS.contains(&status) {
            ended = Some(text(event, "id"));
        }
    }
    let corrections: Vec<Option<&str>> = of_attempt
        .iter()
        .filter(|event| text(event, "type") == "call.corrected")
        .map(|event| event.get("corrects").and_then(Value::as_str))
        .collect();
    // What came at once is corrected at once.
    if !corrections.iter().all(|ending| corrected.contains(ending)) || corrections.is_empty() != corrected.is_empty() {
        found(format!("attempt {attempt} corrects {corrections:?}, must correct of {corrected:?}"));
    }
}

/// How the endings of a call were learned: an ending that was received when no webhook was sent was asked for.
pub(in crate::demo) fn learned_by(placed: &Placed, sent: &BTreeSet<Webhook>) -> LearnedBy {
    let asked = |rang: &Rang| {
        let of_attempt = |entry: &&Value| {
            text(entry, "event_id").starts_with("retell:") && number(entry).to_string() == rang.attempt
        };
        let endings = placed.shown.timeline.iter().filter(of_attempt);
        let first = endings
            .filter(|entry| ENDINGS.contains(&text(entry, "kind")))
            .filter_map(|entry| time(entry, "received_at"))
            .min();
        first.is_some_and(|at| !sent.contains(&(rang.provider_call_id.clone(), at)))
    };
    if placed.rang.iter().any(asked) { LearnedBy::Asking } else { LearnedBy::Webhook }
}

const fn job_name(job: Option<Job>) -> &'static str {
    match job {
        Some(Job::Completed) => "COMPLETED",
        Some(Job::Failed) => "FAILED",
        Some(Job::Retried) => "PENDING",
        None => "CANCELED",
    }
}

/// `NoAnswer` as `no_answer`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for (place, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && place > 0 {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

fn number(event: &Value) -> usize {
    let number = event.get("attempt").and_then(Value::as_u64);
    number.and_then(|number| usize::try_from(number).ok()).unwrap_or_default()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn time(value: &Value, name: &str) -> Option<Millis> {
    text(value, name).parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
