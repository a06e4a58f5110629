//! Items that the table of a plan does not name.

use std::collections::BTreeSet;
use std::io::{self, Write};

use switchhook_domain::CallId;
use switchhook_operate::plan::{Plan, PlanItem};

use crate::words::counted;

/// Prints the ids of the first `most` items that belong to no call or booking of the plan's table, so that an operator sees what a discard
/// deletes. They are the ids that the lists print.
pub(super) fn print_items(plan: &Plan, most: usize, out: &mut impl Write) -> io::Result<()> {
    // The items of a copy are parts of its tables, which are printed.
    if !plan.tables.is_empty() {
        return Ok(());
    }
    let named: BTreeSet<&CallId> = plan.effects.iter().map(|effect| &effect.call_id).collect();
    // A call that the table does not name is counted below it.
    let is_named = |item: &&PlanItem| item.call_id.as_ref().is_some_and(|id| !id.is_entity() || named.contains(id));
    let mut names: Vec<&str> = plan.items.iter().filter(|item| !is_named(item)).map(PlanItem::name).collect();
    // An event and its dead letter have one id.
    names.dedup();
    if names.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}:", if named.is_empty() { "Items" } else { "Other items" })?;
    names.iter().take(most).try_for_each(|name| writeln!(out, "  {name}"))?;
    match names.len().saturating_sub(most) {
        0 => Ok(()),
        more => writeln!(out, "  and {}", counted(more, "more item")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn printed(items: &[Value], effects: &[Value]) -> String {
        let plan: Plan = serde_json::from_value(json!({
            "id": "p-1", "verb": "discard_dead_letters", "made_at": "2026-11-22T15:58:04Z",
            "valid_until": "2026-11-22T16:13:04Z", "filter": null, "items": items, "capped": false, "examined": 0,
            "unaffected": 0, "skipped": [], "skipped_count": 0, "effects": effects, "calls": effects.len(), "phones": 0,
            "corrections": 0, "domain_events": 0,
            "cost": {"requests": 0, "read_units": 0, "write_units": 0, "dollars": 0.0},
        }))
        .unwrap();
        let mut out = Vec::new();
        print_items(&plan, 2, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// An operator must not delete what the plan does not name.
    #[test]
    fn items_that_change_no_call_are_named() {
        let discard = |key: &str| json!({"action": "discard_dead_letter", "key": key});
        let of_call = json!({"action": "discard_dead_letter", "event_id": "generic:e1", "call_id": "c1"});
        let of_entity = json!({"action": "discard_dead_letter", "event_id": "x-pay:e2", "call_id": "entity:x-pay:p1"});
        let many = printed(&[discard("m1"), of_entity, discard("m3"), discard("m4")], &[]);
        assert_eq!(many, "\nItems:\n  m1\n  x-pay:e2\n  and 2 more items\n");
        let effect = json!({"call_id": "c1", "items": 1, "before": null, "after": null, "announces": [],
            "corrections": 0, "could_ring": false, "blocks_number": false});
        assert_eq!(printed(&[of_call.clone(), discard("m1")], std::slice::from_ref(&effect)), "\nOther items:\n  m1\n");
        assert_eq!(printed(&[of_call], &[effect]), "");
    }
}
