//! The check of a call's timeline, which the API serves.

use std::collections::BTreeSet;

use serde_json::Value;

use super::evidence::Evidence;
use crate::demo::json::text;

/// Checks that the timeline contains every acknowledged report. Besides these it may contain answers to lookups, and
/// events that Switchhook itself made.
pub(super) fn check(call_id: &str, evidence: &[Evidence], timeline: &[Value], mismatches: &mut Vec<String>) {
    let mut received: BTreeSet<&str> = BTreeSet::new();
    let mut looked_up: BTreeSet<&str> = BTreeSet::new();
    for item in evidence {
        match item {
            Evidence::Received(report) => drop(received.insert(&report.event_id)),
            Evidence::LookupAnswered(report) => drop(looked_up.insert(&report.event_id)),
            Evidence::LookupNotFound { .. } => {}
        }
    }
    let own = format!("switchhook:{call_id}/");
    let mut listed: BTreeSet<&str> = BTreeSet::new();
    for entry in timeline {
        let event_id = source_event_id(entry);
        if !received.contains(event_id) && !looked_up.contains(event_id) && !event_id.starts_with(&own) {
            mismatches.push(format!("the timeline holds {event_id}, which nobody sent"));
        }
        listed.insert(event_id);
    }
    for missing in received.difference(&listed) {
        mismatches.push(format!("the timeline lacks {missing}, which was acknowledged"));
    }
}

/// Returns the id of the event behind a timeline entry. An implied entry has the id of its event and a suffix.
fn source_event_id(entry: &Value) -> &str {
    let id = text(entry, "event_id");
    let implied = entry.get("implied").and_then(Value::as_bool).unwrap_or_default();
    if implied { id.strip_suffix(&format!("~{}", text(entry, "kind"))).unwrap_or(id) } else { id }
}
