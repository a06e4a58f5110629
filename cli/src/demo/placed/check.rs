//! Whether the calls that Switchhook placed came to what they had to: answers, states, phones and domain events, each held
//! against the order's truth.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::Value;

use super::learned::Learned;
use super::{Course, DOWN_FROM, DOWN_UNTIL, Demand, Job, Millis, Order, Person};
use crate::demo::oracle::{announced_findings, found_out, timeline_findings};
use crate::demo::play::{Placed, Rang, RequestResult, Webhook};

const ENDINGS: [&str; 6] = ["completed", "failed", "busy", "no_answer", "canceled", "inconclusive"];

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
    let (lived, job) = match order.course {
        Course::Canceled => (Vec::new(), None),
        Course::AtOnce
        | Course::Later
        | Course::Repeated
        | Course::Triggered
        | Course::Windowed
        | Course::WhileDown
        | Course::Patient => {
            let (lived, job) = order.life(|number| placed.found_down(number));
            (lived, Some(job))
        }
    };
    state_findings(order, placed, call, &lived, job, &mut found);
    dial_findings(order, placed, &lived, &mut found);
    phone_findings(&placed.rang, &lived, &mut found);
    silence_findings(placed, &lived, &mut found);
    let learned = Learned::of(order, placed, &lived, job);
    let (subject, moments) = (learned.subject(), learned.moments(&lived));
    timeline_findings(&placed.call_id, &moments, &placed.shown.timeline, &mut findings);
    findings.extend(announced_findings(&subject, &moments, &placed.shown.announced));
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
    for (place, person) in lived.iter().enumerate() {
        let mut check = |name: &str, expected: Option<Millis>| {
            let actual = call.pointer(&format!("/attempts/{place}")).and_then(|attempt| time(attempt, name));
            if actual != expected {
                found(format!("/attempts/{place}/{name} is {actual:?}, must be {expected:?}"));
            }
        };
        check("dialled_at", placed.dialled_at(place + 1));
        // When a silence was found out is told by what is announced of it.
        if person.truth().lifecycle != "inconclusive" {
            let ended_at = placed.rang_for(place + 1).map(|rang| rang.ended);
            check("ended_at", ended_at.or(placed.dialled_at(place + 1)));
        }
    }
}

/// What the provider was asked for: each attempt once, but for those that it would not take at that time, and each in its time.
fn dial_findings(order: &Order, placed: &Placed, lived: &[Person], found: &mut impl FnMut(String)) {
    for (person, number) in lived.iter().zip(1..) {
        let tales: Vec<RequestResult> = placed.dials_of(number).map(|told| told.tale).collect();
        let answer = match person {
            Person::Invalid => RequestResult::Rejected,
            Person::Down => RequestResult::Unavailable,
            Person::Confirms
            | Person::Declines
            | Person::Voicemail
            | Person::Busy
            | Person::NoAnswer
            | Person::Fails
            | Person::Hangs
            | Person::AnswerLost
            | Person::Silent
            | Person::RateLimited => RequestResult::Accepted,
        };
        // Who would not take it at first may be down when it is asked again.
        let refuses = [*person, order.person(number)].contains(&Person::RateLimited);
        let refused = if refuses { tales.len().saturating_sub(1) } else { 0 };
        let expected: Vec<RequestResult> =
            std::iter::repeat_n(RequestResult::RateLimited, refused).chain([answer]).collect();
        if tales != expected {
            found(format!("dials of attempt {number} were answered {tales:?}, must be {expected:?}"));
        }
    }
    for told in &placed.told {
        if !(1..=lived.len()).any(|number| told.attempt == number.to_string()) {
            found(format!("the provider was asked for attempt {}, and there were to be {}", told.attempt, lived.len()));
        }
    }
    for told in (1..=lived.len()).flat_map(|number| placed.dials_of(number)) {
        if !(order.not_before()..=order.not_after()).contains(&told.at) {
            found(format!("attempt {} was dialled at {}, when it must not", told.attempt, told.at));
        }
    }
}

/// The phones themselves: one for each attempt that reaches one, and none while another still rings.
fn phone_findings(rang: &[Rang], lived: &[Person], found: &mut impl FnMut(String)) {
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
    if rang.iter().zip(rang.iter().skip(1)).any(|(before, after)| before.ended > after.began) {
        found("a phone rang while the one before was not over".to_owned());
    }
}

/// That nothing will be heard of an attempt is found out when its patience ends; while the provider is down, when it is up again.
fn silence_findings(placed: &Placed, lived: &[Person], found: &mut impl FnMut(String)) {
    for (person, number) in lived.iter().zip(1..) {
        // Of these the answer to the dial is the last that is heard.
        let Some(since) = placed.dialled_at(number).filter(|_| person.truth().lifecycle == "inconclusive") else {
            continue;
        };
        let (earliest, latest) = found_out(since);
        let down = earliest < DOWN_UNTIL && DOWN_FROM < latest;
        let found_at = placed.found_unknown(number).find(|at| *at >= earliest);
        if !down && found_at.is_none_or(|at| at > latest) {
            found(format!(
                "silence of attempt {number} since {since} was found out at {found_at:?}, must be by {latest}"
            ));
        }
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
