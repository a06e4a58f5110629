//! Makes a plan of the items that a command has collected.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use switchhook_aws::inbox::Reread;
use switchhook_domain::{CallId, Timestamp};

use crate::concurrent::{CONCURRENCY, concurrently};
use crate::cost::{Cost, Work};
use crate::error::Error;
use crate::forecast::{Forecast, NOT_FOLDED, Step, forecast, sends_event};
use crate::plan::{
    Action, EFFECTS_MAX, NAMED_MAX, NotFound, Plan, PlanId, PlanItem, Skipped, Subject, VALID_FOR, Verb,
};
use crate::reread::ReadAnew;
use crate::stack::Stack;

/// Items that a command has collected for a plan.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) verb: Verb,
    pub(crate) filter: Value,
    /// Items, the earliest first.
    pub(crate) items: Vec<PlanItem>,
    /// True if the command stopped at its limit.
    pub(crate) capped: bool,
    pub(crate) continue_at: Option<Timestamp>,
    /// Number of events that the command has looked at.
    pub(crate) examined: usize,
    /// Named ids that nothing was found under.
    pub(crate) not_found: Vec<NotFound>,
}

/// Items of one call.
type Group = (Option<CallId>, Vec<PlanItem>);

impl Draft {
    /// Works out the effects on the first calls, stores the plan, and returns it.
    pub(crate) async fn into_plan(self, stack: &Stack) -> Result<Plan, Error> {
        let plan = self.work_out(stack).await?;
        plan.store(stack).await?;
        Ok(plan)
    }

    /// Works out the effects on the first calls.
    pub(crate) async fn work_out(self, stack: &Stack) -> Result<Plan, Error> {
        let stack = &stack.with_unread_entries();
        let now = stack.now();
        let id = PlanId::random(&stack.random_ids)?;
        let (first, rest) = self.groups(stack).await?;
        let forecasts = first.into_iter().map(|group| forecast_group(stack, &id, group, now));
        let forecasts = concurrently(CONCURRENCY, forecasts).await?;
        let mut plan = Plan {
            id,
            verb: self.verb,
            made_at: now,
            valid_until: now.plus(VALID_FOR),
            filter: self.filter,
            items: Vec::new(),
            capped: self.capped,
            continue_at: self.continue_at,
            examined: self.examined,
            unaffected: 0,
            skipped: Vec::new(),
            skipped_count: 0,
            not_folded_count: 0,
            not_found: self.not_found,
            warnings: Vec::new(),
            effects: Vec::new(),
            calls: 0,
            entities_without_effect: 0,
            phones: 0,
            corrections: 0,
            domain_events: 0,
            cost: Cost::default(),
            tables: Vec::new(),
        };
        for (items, forecast) in forecasts {
            plan.add(items, forecast);
        }
        for (call_id, items) in rest {
            let is_entity = call_id.as_ref().is_some_and(CallId::is_entity);
            plan.calls += usize::from(call_id.is_some() && !is_entity);
            plan.entities_without_effect += usize::from(is_entity);
            plan.items.extend(items);
        }
        plan.warnings.extend(stack.entries_warning());
        plan.cost = Cost::of(plan.work());
        Ok(plan)
    }

    /// Groups the items by call. All items get their call, so that a run can fold their events. For the first groups aliases were
    /// followed too, so their calls are known for certain.
    async fn groups(&self, stack: &Stack) -> Result<(Vec<Group>, Vec<Group>), Error> {
        let named = self.items.iter().map(|item| name_call(stack, item.clone()));
        let mut groups = grouped(concurrently(CONCURRENCY, named).await?.into_iter());
        let rest = groups.split_off(groups.len().min(EFFECTS_MAX));
        let located = groups.into_iter().map(|(call_id, items)| follow_alias(stack, call_id, items));
        let first = concurrently(CONCURRENCY, located).await?;
        Ok((grouped(first.into_iter().flatten()), rest))
    }
}

/// Groups items by call, in the order in which the calls first appear. Each item without a call is a group of its own.
fn grouped(items: impl Iterator<Item = PlanItem>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut places: BTreeMap<CallId, usize> = BTreeMap::new();
    for item in items {
        let place = item.call_id.as_ref().and_then(|call_id| places.get(call_id)).copied();
        match place.and_then(|place| groups.get_mut(place)) {
            Some((_, items)) => items.push(item),
            None => {
                if let Some(call_id) = &item.call_id {
                    places.insert(call_id.clone(), groups.len());
                }
                groups.push((item.call_id.clone(), vec![item]));
            }
        }
    }
    groups
}

/// Gives an item whose event is queued the call of that event. Ingress knows no call of an unreadable event.
async fn name_call(stack: &Stack, mut item: PlanItem) -> Result<PlanItem, Error> {
    let PlanItem { call_id: None, event_id: Some(event_id), .. } = &item else { return Ok(item) };
    if !sends_event(item.action) {
        return Ok(item);
    }
    item.call_id = match stack.inbox.get(event_id).await {
        Ok(Some(stored)) => match stack.read_anew(&stored).await {
            Ok(ReadAnew::Read(Reread::Foldable(event))) => Some(event.call_id),
            // The forecast reports the error.
            Ok(ReadAnew::Read(Reread::Recorded | Reread::Quarantined(_) | Reread::Erased) | ReadAnew::NoEntry(_))
            | Err(_) => None,
        },
        Ok(None) | Err(_) => None,
    };
    Ok(item)
}

/// Gives items the call that they lead to: an id may be an alias.
async fn follow_alias(
    stack: &Stack,
    call_id: Option<CallId>,
    mut items: Vec<PlanItem>,
) -> Result<Vec<PlanItem>, Error> {
    let Some(call_id) = call_id else { return Ok(items) };
    if let Some(alias) = stack.calls.resolve(&call_id).await.ok().and_then(|resolved| resolved.alias) {
        for item in &mut items {
            item.call_id = Some(alias.call_id.clone());
        }
    }
    Ok(items)
}

/// Works out the effect of the items of one call. If an event in the call is read differently now, a refold takes the place of
/// its replay: it is added to the items.
pub(crate) async fn forecast_group(
    stack: &Stack,
    plan: &PlanId,
    (call_id, mut items): Group,
    now: Timestamp,
) -> Result<(Vec<PlanItem>, Forecast), Error> {
    let forecast_now = forecast(stack, plan, call_id.as_ref(), &items, now).await?;
    let differs = forecast_now.steps.iter().any(|step| matches!(step, Step::ReadsDifferently(_)));
    match call_id {
        Some(call_id) if differs && !items.iter().any(|item| item.action == Action::Refold) => {
            items.push(PlanItem::of_call(Action::Refold, call_id.clone()));
            let forecast_again = forecast(stack, plan, Some(&call_id), &items, now).await?;
            Ok((items, forecast_again))
        }
        Some(_) | None => Ok((items, forecast_now)),
    }
}

impl Plan {
    /// Adds the items of one call, and their effect.
    fn add(&mut self, items: Vec<PlanItem>, Forecast { effect, steps }: Forecast) {
        for (item, step) in items.into_iter().zip(steps) {
            match step {
                Step::Send { .. } | Step::Store(_) | Step::Refold(_) | Step::Act => {
                    // Each of these publishes the one domain event of an event of an entity.
                    self.domain_events += usize::from(item.action == Action::Republish && item.event_id.is_some());
                    self.items.push(item);
                }
                // Its dead letter or its notice is still to be deleted.
                Step::Unchanged | Step::ReadsDifferently(_) if item.action.is_finished_after_fold() => {
                    self.items.push(item);
                }
                Step::Unchanged => self.unaffected += 1,
                // The run stores the decision before the refold of the call.
                Step::Mend(_) | Step::ReadsDifferently(Some(_)) => self.items.push(item),
                // The refold of the call does its work.
                Step::ReadsDifferently(None) => {}
                Step::Skip(reason) => {
                    self.skipped_count += 1;
                    self.not_folded_count += usize::from(reason == NOT_FOLDED);
                    if self.skipped.len() < NAMED_MAX {
                        let name = item.name().to_owned();
                        self.skipped.push(Skipped { item: name, call_id: item.call_id, reason });
                    }
                }
            }
        }
        let Some(effect) = effect else { return };
        self.calls += usize::from(effect.about == Subject::Call);
        self.phones += usize::from(effect.could_ring);
        self.corrections += effect.corrections;
        self.domain_events += effect.announces.len();
        self.effects.push(effect);
    }

    fn work(&self) -> Work {
        let refolds = self.items.iter().filter(|item| item.action == Action::Refold).count();
        let events = self.items.iter().filter(|item| item.event_id.is_some()).count();
        let all_calls = self.calls + self.effects_on(Subject::Booking) + self.entities_without_effect;
        // A discard changes no call.
        let calls = if self.verb == Verb::DiscardDeadLetters { 0 } else { all_calls };
        let rebuilt = self.items.iter().filter(|item| item.action == Action::Rebuild);
        let rebuilt: BTreeSet<&CallId> = rebuilt.filter_map(|item| item.call_id.as_ref()).collect();
        let is_of_rebuilt = |item: &&PlanItem| item.call_id.as_ref().is_some_and(|call_id| rebuilt.contains(call_id));
        let marks = self.items.iter().filter(is_of_rebuilt).filter(|item| item.event_id.is_some()).count();
        Work { events, calls, refolds, marks, domain_events: self.domain_events }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use switchhook_domain::EventId;

    use super::*;

    /// A row that is lost comes back only after each of its events was marked.
    #[test]
    fn cost_of_a_rebuilt_call_includes_the_marks_of_its_events() {
        let empty: Plan = serde_json::from_value(json!({
            "id": "p-1", "verb": "verify", "made_at": "2026-11-22T15:58:04Z", "valid_until": "2026-11-22T16:13:04Z",
            "filter": null, "items": [], "capped": false, "examined": 0, "unaffected": 0, "skipped": [],
            "skipped_count": 0, "effects": [], "calls": 2, "phones": 0, "corrections": 0, "domain_events": 0,
            "cost": {"requests": 0, "read_units": 0, "write_units": 0, "dollars": 0.0},
        }))
        .unwrap();
        let replay = |call_id: &str, event_id: &str| {
            PlanItem::of_event(Action::Replay, EventId::new(event_id), Some(CallId::new(call_id)))
        };
        let replays = vec![replay("lost", "e1"), replay("lost", "e2"), replay("found", "e3")];
        let rebuild = PlanItem::of_call(Action::Rebuild, CallId::new("lost"));
        let cost = |items: Vec<PlanItem>| Cost::of(Plan { items, ..empty.clone() }.work());
        let (without, with) = (cost(replays.clone()), cost([vec![rebuild], replays].concat()));
        assert_eq!((with.requests - without.requests, with.write_units - without.write_units), (6, 10));
        assert!(with.dollars > without.dollars, "{with:?}");
    }
}
