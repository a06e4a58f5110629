//! The check of everything that belongs to no single call: queues, logs, rejections and unexpected events.

use serde_json::{Value, json};

use crate::demo::json::time;
use crate::demo::observation::Observations;
use crate::demo::script::Report;
use crate::demo::traffic::{Delivery, DeliveryKind, Traffic};

pub(super) fn check(traffic: &Traffic, observations: &Observations, add_mismatch: &mut impl FnMut(String)) {
    let faults = &traffic.faults;
    for event in &observations.unexpected_events {
        add_mismatch(format!("belongs to no call of this run: {event}"));
    }
    for id in &observations.ids_with_two_contents {
        add_mismatch(format!("the domain event {id} was published with two different contents"));
    }
    for line in &observations.logged_failures {
        add_mismatch(format!("a failure was logged: {line}"));
    }
    check_quarantine(traffic, observations, add_mismatch);
    // The fake provider knows only the calls that Switchhook placed.
    for call_id in &observations.drifted_calls {
        if !observations.placed_calls.iter().any(|placed| placed.call_id == *call_id) {
            add_mismatch(format!(
                "the drift check found a drift in {call_id}, a call that the fake provider does not know"
            ));
        }
    }
    let mut check = |what: &str, actual: u64, expected: u64| {
        if actual != expected {
            add_mismatch(format!("{what}: {actual}, must be {expected}"));
        }
    };
    let cause = |name: &str| observations.rejections_by_cause.get(name).copied().unwrap_or_default();
    let badly_signed = faults.forged_wrong_key + faults.forged_flipped_bit + faults.forged_no_signature;
    check("webhooks rejected for their signature", cause("bad_signature"), badly_signed);
    check("webhooks rejected for their age", cause("stale_timestamp"), faults.forged_old_recording);
    let all_causes = observations.rejections_by_cause.values().sum();
    check("webhooks rejected for any cause", all_causes, badly_signed + faults.forged_old_recording);
    let names_foreign_id = |delivery: &&Delivery| {
        let script = traffic.scripts.get(delivery.call).filter(|script| script.foreign_call_id.is_some());
        let report = delivery.report.and_then(|report| script?.reports.get(report));
        report.is_some_and(Report::is_folded)
    };
    let foreign_ids = traffic.deliveries.iter().filter(names_foreign_id).count();
    check("webhooks that name an id of others", observations.foreign_ids, foreign_ids as u64);
    check("messages left in the event queue", observations.events_queue.total() as u64, 0);
    check("messages left in the dial queue", observations.dial_queue.total() as u64, 0);
    check("phones that rang twice", observations.duplicate_dials as u64, 0);
    check("messages in the dead-letter queue", observations.dead_letters.total() as u64, faults.unreadable);
    check("records that the relay gave up on", observations.relay_failures.total() as u64, 0);
}

/// Checks that every unreadable webhook is announced once as quarantined, and that nothing else is.
fn check_quarantine(traffic: &Traffic, observations: &Observations, add_mismatch: &mut impl FnMut(String)) {
    let deliveries = traffic.deliveries.iter().zip(&observations.webhook_responses);
    let expected: Vec<Value> = deliveries
        .filter(|(delivery, _)| delivery.kind == DeliveryKind::Unreadable)
        .map(|(delivery, response)| {
            let event_id = response.event_id.clone().unwrap_or_default();
            json!({
                "id": format!("{event_id}/quarantined"),
                "event_id": event_id,
                "provider": delivery.provider.name(),
                "call_id": null,
                "at": delivery.at,
            })
        })
        .collect();
    let actual: Vec<Value> = observations
        .quarantine_events
        .iter()
        .map(|event| {
            let field = |name: &str| event.get(name).cloned().unwrap_or_default();
            json!({
                "id": field("id"),
                "event_id": field("event_id"),
                "provider": field("provider"),
                "call_id": field("call_id"),
                "at": time(event, "occurred_at"),
            })
        })
        .collect();
    for missing in expected.iter().filter(|event| !actual.contains(event)) {
        add_mismatch(format!("the domain event for an unreadable webhook is missing: {missing}"));
    }
    for extra in actual.iter().filter(|event| !expected.contains(event)) {
        add_mismatch(format!("a domain event reports an unreadable webhook that nobody sent: {extra}"));
    }
}
