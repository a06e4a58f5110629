//! The check of calls that Switchhook places: API responses, state, dials, phones, timeline and domain events, each
//! compared with the script.

mod provider_record;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::Value;

use super::evidence::timeout_detected_between;
use super::hindrance::Hindrance;
use super::{domain_events, timeline};
use crate::demo::json::{text, time};
use crate::demo::observation::{PhoneRing, PlacedCall, ProviderResponse, RequestResult, WebhookKey};
use crate::demo::placed_script::{ApiAction, Course, Decision, DialScenario, OUTAGE_END, OUTAGE_START, PlacedScript};
use crate::demo::script::Millis;
use provider_record::{ProviderRecord, ended_at};

const ENDINGS: [&str; 6] = ["completed", "failed", "busy", "no_answer", "canceled", "inconclusive"];

/// The way in which Switchhook learned of a call's endings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::demo) enum EndingSource {
    Webhook,
    /// At least one ending was learned by looking the call up at the provider.
    Lookup,
}

/// Returns every mismatch of one call.
///
/// In the times of `hindrances`, a call that is triggered by hand may wait.
pub(in crate::demo) fn mismatches(
    script: &PlacedScript,
    observed: &PlacedCall,
    hindrances: &[Hindrance],
) -> Vec<String> {
    let mut mismatches = Vec::new();
    let mut add = |mismatch: String| mismatches.push(mismatch);
    check_api_responses(observed, hindrances, &mut add);
    let Some(call) = &observed.observed.call else {
        add(format!("{} is not known at all", observed.call_id));
        return mismatches;
    };
    let course = script.course(|number| observed.hit_outage(number));
    check_state(script, observed, call, &course, &mut add);
    check_dials(script, observed, &course.dials, &mut add);
    check_phones(&observed.phone_rings, &course.dials, &mut add);
    check_timeouts(observed, &course.dials, &mut add);
    let record = ProviderRecord::new(script, observed, &course);
    let (checked, evidence) = (record.checked_call(), record.evidence(&course.dials));
    timeline::check(&observed.call_id, &evidence, &observed.observed.timeline, &mut mismatches);
    mismatches.extend(domain_events::mismatch(&checked, &evidence, &observed.observed.domain_events));
    mismatches
}

fn check_api_responses(observed: &PlacedCall, hindrances: &[Hindrance], add_mismatch: &mut impl FnMut(String)) {
    let first = observed.api_responses.iter().find(|response| response.request.action == ApiAction::Create);
    for response in &observed.api_responses {
        let action = response.request.action;
        let (name, code, expected) = (action.name(), response.code, action.expected_status());
        let is_hindered = hindrances.iter().any(|period| period.contains(response.request.at));
        let waits = action == ApiAction::Trigger && code == 202 && is_hindered;
        if code != expected && !waits {
            add_mismatch(format!("{name} was answered {code} {}, must be {expected}", response.body));
        }
        if action == ApiAction::CreateAgain && Some(&response.body) != first.map(|first| &first.body) {
            add_mismatch(format!("the repeated request was answered {}, not as the first time", response.body));
        }
    }
}

fn check_state(
    script: &PlacedScript,
    observed: &PlacedCall,
    call: &Value,
    course: &Course,
    add_mismatch: &mut impl FnMut(String),
) {
    let mut check = |path: &str, expected: Value| {
        let actual = call.pointer(path).unwrap_or(&Value::Null);
        if *actual != expected {
            add_mismatch(format!("{path} is {actual}, must be {expected}"));
        }
    };
    let attempts: Vec<(usize, DialScenario)> = course.attempts().collect();
    let latest = attempts.last().map(|(_, scenario)| scenario.result());
    check("/call_id", observed.call_id.as_str().into());
    check("/provider", "retell".into());
    check("/direction", "outbound".into());
    check("/appointment_id", script.appointment_id.as_deref().into());
    check("/appointment_status", course.final_appointment().into());
    check("/job/state", job_state(course.decision).into());
    check("/lifecycle", latest.map(|result| result.lifecycle).into());
    check("/outcome", latest.map(|result| result.outcome).into());
    check("/settled", true.into());
    for (place, (number, scenario)) in attempts.iter().enumerate() {
        let result = scenario.result();
        let provider_call_id = observed.phone_ring(*number).map(|ring| ring.provider_call_id.as_str());
        check(&format!("/attempts/{place}/number"), (place + 1).into());
        check(&format!("/attempts/{place}/provider"), "retell".into());
        check(&format!("/attempts/{place}/lifecycle"), result.lifecycle.into());
        check(&format!("/attempts/{place}/outcome"), result.outcome.into());
        check(&format!("/attempts/{place}/provider_call_id"), provider_call_id.into());
    }
    check(&format!("/attempts/{}", attempts.len()), Value::Null);
    for (place, (number, scenario)) in attempts.iter().enumerate() {
        let mut check = |name: &str, expected: &[Option<Millis>]| {
            let actual = call.pointer(&format!("/attempts/{place}")).and_then(|attempt| time(attempt, name));
            if !expected.contains(&actual) {
                add_mismatch(format!("/attempts/{place}/{name} is {actual:?}, must be one of {expected:?}"));
            }
        };
        check("dialled_at", &[observed.dialled_at(*number)]);
        // An inactivity timeout ends the attempt when it is detected. The domain events are checked for that time.
        if scenario.result().lifecycle != "inconclusive" {
            check("ended_at", &possible_ends(observed, *number));
        }
    }
}

/// Times that the API may show as the end of an attempt: the reported one, or those at which a report without a time was received.
fn possible_ends(observed: &PlacedCall, number: usize) -> Vec<Option<Millis>> {
    let Some(ring) = observed.phone_ring(number) else { return vec![None] };
    if let Some(at) = ended_at(ring) {
        return vec![Some(at)];
    }
    let webhooks = observed.sent_webhooks.iter().filter(|webhook| webhook.provider_call_id == ring.provider_call_id);
    let is_ending =
        |response: &&ProviderResponse| [RequestResult::Ended, RequestResult::Analysed].contains(&response.result);
    let lookups = observed.responses_about(number).filter(is_ending);
    webhooks.map(|webhook| webhook.at).chain(lookups.map(|response| response.at)).map(Some).collect()
}

/// Checks that the provider got each dial once, and at a time when the call might be dialled. A dial that the rate limit
/// refused may be repeated.
fn check_dials(
    script: &PlacedScript,
    observed: &PlacedCall,
    scenarios: &[DialScenario],
    add_mismatch: &mut impl FnMut(String),
) {
    for (scenario, number) in scenarios.iter().zip(1..) {
        let results: Vec<RequestResult> = observed.dial_responses(number).map(|response| response.result).collect();
        let last = match scenario {
            DialScenario::Invalid => RequestResult::Rejected,
            DialScenario::Outage => RequestResult::Unavailable,
            DialScenario::Confirms
            | DialScenario::Declines
            | DialScenario::Voicemail
            | DialScenario::Busy
            | DialScenario::NoAnswer
            | DialScenario::Fails
            | DialScenario::Forgotten
            | DialScenario::ResponseLost
            | DialScenario::Silent
            | DialScenario::RateLimited => RequestResult::Accepted,
        };
        // A rate-limited dial may hit the outage when it is repeated, so the planned scenario counts too.
        let is_rate_limited = [*scenario, script.scenario(number)].contains(&DialScenario::RateLimited);
        let refused = if is_rate_limited { results.len().saturating_sub(1) } else { 0 };
        let expected: Vec<RequestResult> =
            std::iter::repeat_n(RequestResult::RateLimited, refused).chain([last]).collect();
        if results != expected {
            add_mismatch(format!("the requests of dial {number} were answered {results:?}, must be {expected:?}"));
        }
    }
    let dials = scenarios.len();
    for response in &observed.provider_responses {
        if !(1..=dials).any(|number| response.attempt == number.to_string()) {
            let number = &response.attempt;
            add_mismatch(format!("the provider got a request for dial {number}, must be {dials} dials"));
        }
    }
    for response in (1..=dials).flat_map(|number| observed.dial_responses(number)) {
        if !(script.not_before()..=script.not_after()).contains(&response.at) {
            add_mismatch(format!("dial {} was made at {}, outside its time", response.attempt, response.at));
        }
    }
}

/// Checks that one phone rang for each dial that reaches a phone, and that no two rang at the same time.
fn check_phones(rings: &[PhoneRing], scenarios: &[DialScenario], add_mismatch: &mut impl FnMut(String)) {
    let expected: Vec<(String, Option<&str>)> = scenarios
        .iter()
        .zip(1..)
        .filter(|(scenario, _)| scenario.result().rings)
        .map(|(scenario, number): (_, usize)| (number.to_string(), scenario.keyword()))
        .collect();
    let actual: Vec<(String, Option<&str>)> =
        rings.iter().map(|ring| (ring.attempt.clone(), Some(ring.behaviour))).collect();
    if expected != actual {
        add_mismatch(format!("phones rang for {actual:?}, must have rung for {expected:?}"));
    }
    if rings.iter().zip(rings.iter().skip(1)).any(|(before, after)| before.ended_at > after.started_at) {
        add_mismatch("a phone rang before the previous attempt was over".to_owned());
    }
}

/// Checks that every inactivity timeout is detected in time, unless the provider is down when it should be.
fn check_timeouts(observed: &PlacedCall, scenarios: &[DialScenario], add_mismatch: &mut impl FnMut(String)) {
    for (scenario, number) in scenarios.iter().zip(1..) {
        let is_inconclusive = scenario.result().lifecycle == "inconclusive";
        // No report follows the dial of such an attempt.
        let Some(since) = observed.dialled_at(number).filter(|_| is_inconclusive) else { continue };
        let (earliest, latest) = timeout_detected_between(since);
        let during_outage = earliest < OUTAGE_END && OUTAGE_START < latest;
        let detected_at = observed.lookups_without_result(number).find(|at| *at >= earliest);
        if !during_outage && detected_at.is_none_or(|at| at > latest) {
            add_mismatch(format!(
                "the inactivity timeout of attempt {number} since {since} was detected at {detected_at:?}, \
                 must be by {latest}"
            ));
        }
    }
}

/// Returns how Switchhook learned of the endings: by a lookup, if an ending was received when no webhook was sent.
pub(in crate::demo) fn ending_source(observed: &PlacedCall, sent_webhooks: &BTreeSet<WebhookKey>) -> EndingSource {
    let is_looked_up = |ring: &PhoneRing| {
        let prefix = format!("retell:{}:", ring.provider_call_id);
        let of_attempt = |entry: &&Value| text(entry, "event_id").starts_with(&prefix);
        let first = observed
            .observed
            .timeline
            .iter()
            .filter(of_attempt)
            .filter(|entry| ENDINGS.contains(&text(entry, "kind")))
            .filter_map(|entry| time(entry, "received_at"))
            .min();
        first.is_some_and(|at| !sent_webhooks.contains(&(ring.provider_call_id.clone(), at)))
    };
    if observed.phone_rings.iter().any(is_looked_up) { EndingSource::Lookup } else { EndingSource::Webhook }
}

/// State of the job in the API.
const fn job_state(decision: Decision) -> &'static str {
    match decision {
        Decision::Complete => "COMPLETED",
        Decision::Fail(_) => "FAILED",
        Decision::Retry => "PENDING",
        Decision::Cancel => "CANCELED",
    }
}
