//! The subject of a plan: the selection that an operator asked for, and its items.

use maud::{Markup, html};
use serde_json::Value;
use switchhook_domain::{CallId, EventId};
use switchhook_operate::mask::Masker;
use switchhook_operate::plan::{Plan, PlanItem, Verb};
use switchhook_operate::repair::text_of_cause;

use crate::parts;

/// Items that the page names.
const NAMED_MAX: usize = 50;
/// Items that are visible at once. More can be unfolded.
const OPEN_MAX: usize = 5;
/// Fields of filters that hold a text, each with its name for people.
const TEXTS: [(&str, &str); 6] = [
    ("cause", "cause"),
    ("origin", "sender"),
    ("provider", "sender"),
    ("type", "event type"),
    ("disposition", "disposition"),
    ("appointment", "appointment"),
];

/// Prints the selection of a plan: a cause, a sender, calls or a time. Events that were named are among the items.
pub(super) fn asked_for(plan: &Plan) -> Markup {
    let Some(filter) = fields(plan) else { return html! {} };
    let mut masker = Masker::new();
    let text = |name: &str| filter.get(name).and_then(Value::as_str);
    let mut selected: Vec<Markup> = Vec::new();
    for call in calls(filter).into_iter().take(NAMED_MAX) {
        selected.push(html! { "call " (subject(&CallId::new(call))) });
    }
    for (field, name) in TEXTS {
        let Some(value) = text(field) else { continue };
        let shown = parts::foreign(&masker.text(value));
        let words = text_of_cause(value).filter(|_| field == "cause");
        selected.push(html! { (name) ": " @if let Some(words) = words { (words) " (" (shown) ")" } @else { (shown) } });
    }
    for name in ["since", "until"] {
        selected.extend(text(name).map(|at| html! { (name) " " (parts::date_and_time(at)) }));
    }
    if filter.get("all").and_then(Value::as_bool) == Some(true) {
        selected.push(html! { "all" });
    }
    if filter.get("failed").is_some() {
        selected.push(html! { "what the relay gave up" });
    }
    html! {
        @if !selected.is_empty() {
            p { "Selected: " @for (index, part) in selected.iter().enumerate() { @if index > 0 { ", " } (part) } "." }
        }
    }
}

/// Returns the fields of the filter. `None` for plans of the terminal that the page does not explain: the filter of a person may hold a
/// phone number.
fn fields(plan: &Plan) -> Option<&Value> {
    let name = match plan.verb {
        Verb::Replay => return Some(&plan.filter),
        Verb::Redrive | Verb::DiscardDeadLetters => "dead_letters",
        Verb::Reprocess | Verb::DiscardQuarantined => "quarantine",
        Verb::Republish => "republish",
        Verb::Verify => "verify",
        Verb::Copy | Verb::Refill | Verb::Stop | Verb::Forget => return None,
    };
    plan.filter.get(name)
}

/// Returns the ids of the calls that were named.
fn calls(filter: &Value) -> Vec<&str> {
    let one = filter.get("call").and_then(Value::as_str);
    let several = filter.get("calls").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    one.into_iter().chain(several).collect()
}

/// Link to a call. An entity has no page.
pub(super) fn subject(call_id: &CallId) -> Markup {
    html! {
        @if call_id.is_entity() { span.id { (parts::foreign(call_id.as_str())) } } @else { (parts::call_link(call_id.as_str())) }
    }
}

/// Names the items.
pub(super) fn items(plan: &Plan) -> Markup {
    let more = plan.items.len().saturating_sub(NAMED_MAX);
    html! {
        @if !plan.items.is_empty() {
            details open[plan.items.len() <= OPEN_MAX] {
                summary { "The items" @if more > 0 { ", the first " (NAMED_MAX) } }
                ul {
                    @for one in plan.items.iter().take(NAMED_MAX) { li { (item(one)) } }
                    @if more > 0 { li { "and " (more) " more" } }
                }
            }
        }
    }
}

fn item(one: &PlanItem) -> Markup {
    html! {
        @match (one.event_id.as_ref().map(EventId::as_str), &one.call_id, &one.key) {
            (Some(event), Some(call), _) => { (parts::event_link(event)) " of " (subject(call)) },
            (Some(event), None, _) => (parts::event_link(event)),
            (None, Some(call), _) => (subject(call)),
            (None, None, key) => span.id { (parts::foreign(key.as_deref().unwrap_or("-"))) },
        }
    }
}

/// Says what becomes of discarded events. Empty for a plan that discards nothing.
pub(super) fn discarded(plan: &Plan) -> Markup {
    let what = match plan.verb {
        Verb::DiscardQuarantined => {
            "A discarded event leaves the list of quarantined ones, and is not read again by itself."
        }
        Verb::DiscardDeadLetters => {
            "The dead letter of a discarded event is deleted, and the event is not folded into its call."
        }
        Verb::Replay
        | Verb::Redrive
        | Verb::Reprocess
        | Verb::Republish
        | Verb::Verify
        | Verb::Copy
        | Verb::Refill
        | Verb::Stop
        | Verb::Forget => return html! {},
    };
    html! {
        @if !plan.items.is_empty() {
            p.muted { (what) " It stays in the inbox for as long as the parameter " code { "InboxRetentionDays" } " says." }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan(verb: &str, filter: &Value, items: &Value) -> Plan {
        serde_json::from_value(json!({
            "id": "p-1", "verb": verb, "made_at": "2026-11-22T15:58:04Z", "valid_until": "2026-11-22T16:13:04Z",
            "filter": filter, "items": items, "capped": false, "examined": 0, "unaffected": 0, "skipped": [],
            "skipped_count": 0, "effects": [], "calls": 0, "phones": 0, "corrections": 0, "domain_events": 0,
            "cost": {"requests": 0, "read_units": 0, "write_units": 0, "dollars": 0.0},
        }))
        .unwrap()
    }

    #[test]
    fn selection_is_told_in_words() {
        let told = |verb: &str, filter: &Value| asked_for(&plan(verb, filter, &json!([]))).into_string();
        let full = json!({"quarantine": {"event_ids": [], "origin": "generic", "cause": "call_full", "all": false}});
        let of_full = told("discard_quarantined", &full);
        let cause =
            "cause: the call has reached its limit of events (<bdi>call_full</bdi>), sender: <bdi>generic</bdi>.";
        assert!(of_full.contains(cause), "{of_full}");
        let of_call = told("verify", &json!({"verify": {"calls": ["c 1", "entity:x-pay:pi_1"]}}));
        assert!(of_call.contains("/call?id=c+1") && !of_call.contains("/call?id=entity"), "{of_call}");
        let of_time = told("replay", &json!({"call": "c1", "since": "2026-11-22T15:00:00.000Z"}));
        assert!(of_time.contains("/call?id=c1") && of_time.contains(">2026-11-22 15:00:00</time>"), "{of_time}");
        assert!(told("republish", &json!({"republish": {"failed": null}})).contains("what the relay gave up"));
        assert_eq!(told("forget", &json!({"forget": {"number": "+447700900123"}})), "");
        assert_eq!(told("verify", &json!({"verify": "since"})), "");
    }

    #[test]
    fn first_items_are_named_and_the_others_counted() {
        let of = |count: usize| {
            let event = |n: usize| json!({"action": "discard_quarantined", "event_id": format!("generic:e{n}")});
            plan("discard_quarantined", &Value::Null, &(0..count).map(event).collect())
        };
        let few = items(&of(2)).into_string();
        assert!(few.contains("<details open>") && few.matches("/event?id=").count() == 2, "{few}");
        let many = items(&of(60)).into_string();
        assert!(many.contains("<details>") && many.matches("/event?id=").count() == NAMED_MAX, "{many}");
        assert!(many.contains("The items, the first 50") && many.contains("and 10 more"), "{many}");
        assert!(discarded(&of(2)).into_string().contains("leaves the list of quarantined ones"));
        let redrive = json!([{"action": "redrive", "event_id": "generic:e1", "call_id": "c1"}, {"action": "redrive", "key": "m-1"}]);
        let redrive = plan("redrive", &Value::Null, &redrive);
        let named = items(&redrive).into_string();
        assert!(named.contains("/event?id=generic%3Ae1") && named.contains("/call?id=c1") && named.contains("m-1"));
        assert_eq!(discarded(&redrive).into_string(), "");
    }
}
