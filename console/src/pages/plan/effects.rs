//! The changes of a plan: its numbers, and the table of its effects.

use maud::{Markup, html};
use switchhook_operate::plan::{CallSummary, Effect, Plan, Subject, Table};
use switchhook_operate::run::RATE_DEFAULT;

use crate::parts::{self, counted};

/// Effects that are visible at once. The others can be unfolded.
const EFFECTS_SHOWN: usize = 50;

/// Returns the numbers of a plan: what changes, rings and costs.
pub(super) fn summary(plan: &Plan) -> Markup {
    let changed = plan.effects.iter().filter(|effect| effect.before != effect.after).count();
    let bookings = plan.effects_on(Subject::Booking);
    let blocked = plan.effects.iter().filter(|effect| effect.blocks_number).count();
    let rate = usize::try_from(RATE_DEFAULT).unwrap_or(1);
    // Such a plan reads no row, so it cannot count the phones.
    let copies_calls = plan.tables.iter().any(|copied| copied.table == Table::Calls);
    html! {
        @if copies_calls {
            p { strong.act { "Warning: " }
                "Calls that are due are dialled as soon as they are copied, unless dialling is stopped (docs/recovery.md)." }
        }
        dl.facts {
            div { dt { "Items" } dd { (plan.items.len()) } }
            @if changed > 0 || bookings == 0 { div { dt { "Calls that change" } dd { (changed) } } }
            @if bookings > 0 { div { dt { "Bookings that schedule a call" } dd { (bookings) } } }
            div { dt { "Domain events" } dd { (plan.domain_events) @if plan.corrections > 0 { ", corrections " (plan.corrections) } } }
            @if !copies_calls {
                div class=[(plan.phones > 0).then_some("danger")] { dt { "Phones that could ring" } dd { (plan.phones) } }
            }
            @if blocked > 0 { div { dt { "Numbers blocked, if BlockOnRequest is on" } dd { (blocked) } } }
            div { dt { "Cost" } dd { "about $" (format!("{:.5}", plan.cost.dollars)) ", " (plan.cost.requests) " requests" } }
            div { dt { "Time" } dd { "about " (counted(plan.items.len().div_ceil(rate), "second")) " at " (rate) " a second" } }
        }
    }
}

/// Returns the table of the calls and bookings that a plan changes.
pub(super) fn effects(plan: &Plan) -> Markup {
    let (shown, more) = plan.effects.split_at(plan.effects.len().min(EFFECTS_SHOWN));
    let has_bookings = plan.effects_on(Subject::Booking) > 0;
    let (what, all, caption) = match has_bookings {
        true => ("Call or booking", "calls and bookings", "Calls and bookings before and after the run"),
        false => ("Call", "calls", "Calls before and after the run"),
    };
    html! {
        (effects_table(caption, what, shown))
        @if !more.is_empty() {
            details { summary { (more.len()) " more " (all) } (effects_table(&format!("More {all} before and after the run"), what, more)) }
        }
    }
}

fn effects_table(caption: &str, what: &str, effects: &[Effect]) -> Markup {
    html! {
        table.effects {
            caption.hidden { (caption) }
            (parts::columns(&[what, "Before", "After", "Announces", "Could ring?"]))
            tbody {
                @for effect in effects {
                    tr {
                        @match effect.about {
                            Subject::Call => {
                                td data-label=(what) { (parts::call_link(effect.call_id.as_str())) }
                                td data-label="Before" { (state(effect.before.as_ref())) }
                                td data-label="After" {
                                    @if effect.before == effect.after { span.muted { "the same" } } @else { strong { (state(effect.after.as_ref())) } }
                                }
                            }
                            Subject::Booking => {
                                td data-label=(what) { "booking " span.id { (parts::foreign(effect.call_id.as_str())) } }
                                td data-label="Before" { span.muted { "-" } }
                                td data-label="After" { strong { "schedules its call" } }
                            }
                        }
                        td data-label="Announces" {
                            @if effect.announces.is_empty() { "0" }
                            @else { details { summary { (effect.announces.len()) } span { (effect.announces.join(", ")) } } }
                        }
                        td data-label="Could ring?" { @if effect.could_ring { strong.act { "yes" } } @else { "no" } }
                    }
                }
            }
        }
    }
}

fn state(summary: Option<&CallSummary>) -> Markup {
    html! { @if let Some(summary) = summary { (summary.to_string()) } @else { span.muted { "no call" } } }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A tip of the mouse would be out of reach of the keyboard.
    #[test]
    fn types_of_the_domain_events_can_be_unfolded() {
        let effect = |announces: &[&str]| -> Effect {
            serde_json::from_value(json!({
                "call_id": "c1", "items": 1, "before": null, "after": null, "announces": announces, "corrections": 0,
                "could_ring": false, "blocks_number": false,
            }))
            .unwrap()
        };
        let shown = effects_table("", "Call", &[effect(&["call.started", "call.ended"]), effect(&[])]).into_string();
        let types = "<details><summary>2</summary><span>call.started, call.ended</span></details>";
        assert!(shown.contains(types) && shown.contains("<td data-label=\"Announces\">0</td>"), "{shown}");
    }

    /// Whatever is copied, the plan counts no phone.
    #[test]
    fn plan_to_copy_rows_says_that_phones_may_ring() {
        let shown = |table: &str| {
            let plan: Plan = serde_json::from_value(json!({
                "id": "p-1", "verb": "copy", "made_at": "2026-11-22T15:58:04Z", "valid_until": "2026-11-22T16:13:04Z",
                "filter": null, "items": [], "capped": false, "examined": 0, "unaffected": 0, "skipped": [],
                "skipped_count": 0, "effects": [], "calls": 0, "phones": 0, "corrections": 0, "domain_events": 0,
                "cost": {"requests": 0, "read_units": 0, "write_units": 0, "dollars": 0.0},
                "tables": [{"table": table, "from": "old", "items": 7, "parts": 1, "sample": []}],
            }))
            .unwrap();
            summary(&plan).into_string()
        };
        let (calls, inbox) = (shown("calls"), shown("inbox"));
        assert!(
            calls.contains("dialled as soon as they are copied") && !calls.contains("Phones that could ring"),
            "{calls}"
        );
        assert!(
            !inbox.contains("dialled as soon as they are copied") && inbox.contains("Phones that could ring"),
            "{inbox}"
        );
    }
}
