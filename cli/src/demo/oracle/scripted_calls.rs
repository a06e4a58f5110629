//! The check of calls that others place: the responses to their webhooks, their state, timeline and domain events.

use std::collections::BTreeSet;

use serde_json::Value;

use super::attempt_knowledge::true_outcome;
use super::evidence::{CheckedAttempt, CheckedCall, Evidence, ReceivedReport};
use super::knowledge::Knowledge;
use super::{domain_events, timeline};
use crate::demo::json::time;
use crate::demo::observation::{Observations, ObservedCall, WebhookResponse};
use crate::demo::script::{Attempt, Provider, Script};
use crate::demo::traffic::{Delivery, DeliveryKind, Traffic};

/// Returns, for each script, the reports that Switchhook received, in the order of arrival. Checks all responses on the
/// way.
pub(super) fn received_reports(
    traffic: &Traffic,
    observations: &Observations,
    add_mismatch: &mut impl FnMut(Option<usize>, String),
) -> Vec<Vec<ReceivedReport>> {
    let mut all: Vec<Vec<ReceivedReport>> = vec![Vec::new(); traffic.scripts.len()];
    let mut delivered: BTreeSet<(usize, usize)> = BTreeSet::new();
    for (delivery, response) in traffic.deliveries.iter().zip(&observations.webhook_responses) {
        let first = delivery.report.is_some_and(|report| delivered.insert((delivery.call, report)));
        let expected = expected_response(traffic, delivery, first);
        if (response.code, response.status.as_str()) != expected {
            let WebhookResponse { code, status, .. } = response;
            let description =
                format!("{} was answered {code} {status}, must be {} {}", delivery.name, expected.0, expected.1);
            add_mismatch(Some(delivery.call), description);
        }
        let folded = delivery.report.filter(|report| {
            let script = traffic.scripts.get(delivery.call);
            script.and_then(|script| script.reports.get(*report)).is_some_and(|report| report.is_folded())
        });
        let (Some(report), Some(of_call)) = (folded, all.get_mut(delivery.call)) else { continue };
        let event_id = response.event_id.clone().unwrap_or_default();
        match of_call.iter().find(|received| received.report == report) {
            None => of_call.push(ReceivedReport { report, event_id, at: delivery.at }),
            Some(received) if received.event_id == event_id => {}
            Some(received) => add_mismatch(
                Some(delivery.call),
                format!("the repeated {} got the event id {event_id}, must be {}", delivery.name, received.event_id),
            ),
        }
    }
    all
}

/// Returns the HTTP status and the `status` or `error` that a delivery must be answered with.
fn expected_response(traffic: &Traffic, delivery: &Delivery, first: bool) -> (u16, &'static str) {
    let report = delivery.report.and_then(|report| traffic.scripts.get(delivery.call)?.reports.get(report));
    match (delivery.kind, report) {
        (DeliveryKind::Forged(_), _) => (401, "invalid_signature"),
        (DeliveryKind::Unreadable, _) => (200, "quarantined"),
        (DeliveryKind::First | DeliveryKind::Repeated | DeliveryKind::Reworded, _) if !first => {
            (200, "already_processed")
        }
        (DeliveryKind::First | DeliveryKind::Repeated | DeliveryKind::Reworded, Some(report))
            if !report.is_folded() =>
        {
            (200, "recorded")
        }
        (DeliveryKind::First | DeliveryKind::Repeated | DeliveryKind::Reworded, _) => (200, "accepted"),
    }
}

/// Returns every mismatch of one call.
pub(super) fn mismatches(script: &Script, received: &[ReceivedReport], observed: &ObservedCall) -> Vec<String> {
    let mut mismatches = Vec::new();
    let Some(call) = &observed.call else {
        mismatches.push(format!("{} is not known at all", script.call_id));
        return mismatches;
    };
    let checked = checked_call(script);
    let evidence: Vec<Evidence> = received.iter().cloned().map(Evidence::Received).collect();
    check_state(script, &Knowledge::at_the_end(&checked, &evidence), call, &mut mismatches);
    timeline::check(&script.call_id, &evidence, &observed.timeline, &mut mismatches);
    mismatches.extend(domain_events::mismatch(&checked, &evidence, &observed.domain_events));
    mismatches
}

fn checked_call(script: &Script) -> CheckedCall<'_> {
    CheckedCall {
        call_id: &script.call_id,
        appointment_id: script.appointment_id.as_deref(),
        attempts: script
            .attempts
            .iter()
            .map(|attempt| CheckedAttempt {
                provider: attempt.provider,
                provider_call_id: attempt.provider_call_id.as_deref(),
            })
            .collect(),
        reports: &script.reports,
        placement: None,
    }
}

fn check_state(script: &Script, knowledge: &Knowledge<'_>, call: &Value, mismatches: &mut Vec<String>) {
    let attempts = knowledge.attempts();
    let latest = attempts.last();
    let mut check = |path: &str, expected: Value| {
        let actual = call.pointer(path).unwrap_or(&Value::Null);
        if *actual != expected {
            mismatches.push(format!("{path} is {actual}, must be {expected}"));
        }
    };
    check("/call_id", script.call_id.as_str().into());
    check("/provider", latest.and_then(|attempt| attempt.provider()).map(Provider::name).into());
    check("/appointment_id", knowledge.appointment_id().into());
    check("/lifecycle", latest.map(|attempt| attempt.final_lifecycle()).into());
    check("/outcome", latest.map(|attempt| attempt.final_outcome()).into());
    check("/appointment_status", knowledge.final_appointment().into());
    check("/job/state", knowledge.final_job(script.inbound).into());
    check("/settled", true.into());
    for (place, attempt) in attempts.iter().enumerate() {
        check(&format!("/attempts/{place}/number"), (place + 1).into());
        check(&format!("/attempts/{place}/provider"), attempt.provider().map(Provider::name).into());
        check(&format!("/attempts/{place}/provider_call_id"), attempt.provider_call_id().into());
        check(&format!("/attempts/{place}/lifecycle"), attempt.final_lifecycle().into());
        check(&format!("/attempts/{place}/outcome"), attempt.final_outcome().into());
    }
    check(&format!("/attempts/{}", attempts.len()), Value::Null);
    // If no report was lost, the state must be exactly what truly happened.
    if knowledge.is_complete() {
        for (place, attempt) in attempts.iter().enumerate() {
            let Some(Attempt { provider, truth, .. }) = script.attempts.get(attempt.index) else { continue };
            check(&format!("/attempts/{place}/lifecycle"), truth.ending.status().into());
            check(&format!("/attempts/{place}/outcome"), true_outcome(*provider, truth).into());
        }
    }
    for (place, attempt) in attempts.iter().enumerate() {
        let path = format!("/attempts/{place}");
        let at = call.pointer(&path).and_then(|attempt| time(attempt, "ended_at")).unwrap_or_default();
        if !attempt.is_possible_end(at) {
            let ended_at = call.pointer(&format!("{path}/ended_at")).unwrap_or(&Value::Null);
            mismatches.push(format!("{path}/ended_at is {ended_at}, which no report states"));
        }
    }
    let direction = call.pointer("/direction").and_then(Value::as_str);
    let true_direction = if script.inbound { "inbound" } else { "outbound" };
    if direction.is_some_and(|direction| direction != true_direction)
        || attempts.iter().any(|attempt| attempt.provider() == Some(Provider::Retell)) && direction.is_none()
    {
        mismatches.push(format!("/direction is {direction:?}, must be {true_direction}"));
    }
}
