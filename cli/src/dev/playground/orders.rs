//! Every order of the held webhooks of a call, folded in memory.

use std::collections::{BTreeMap, BTreeSet};

use switchhook_console::{ORDERED_MAX, Orders};
use switchhook_domain::{AttemptState, Call, CallId, Policy, Provider, ProviderEvent, Timestamp, fold};
use switchhook_local::fake::HeldWebhook;
use switchhook_providers::{Reading, VerifiedWebhook, read};

use super::LocalPlayground;

impl LocalPlayground {
    /// Returns for each call what all orders of its held webhooks give. A call whose row cannot be read is left out.
    pub(super) async fn all_orders(&self, held: &[HeldWebhook]) -> Vec<Orders> {
        let mut by_call: BTreeMap<&str, Vec<(&str, ProviderEvent)>> = BTreeMap::new();
        for webhook in held {
            // The fake provider is in this process, so its webhooks need no signature here.
            let body = webhook.body.as_bytes().to_vec();
            let verified = VerifiedWebhook::from_inbox(Provider::Retell, String::new(), body, 0);
            if let Reading::Event(event) = read(&verified, self.now()) {
                by_call.entry(&webhook.call_id).or_default().push((webhook.event, event));
            }
        }
        let mut orders = Vec::new();
        for (call_id, events) in by_call {
            let Ok(resolved) = self.stack.calls.resolve(&CallId::new(call_id)).await else { continue };
            orders.push(try_all(call_id, resolved.call.as_ref(), &events, &self.stack.policy(), self.now()));
        }
        orders
    }
}

/// Folds the events into the call in every order.
pub(super) fn try_all(
    call_id: &str,
    call: Option<&Call>,
    events: &[(&str, ProviderEvent)],
    policy: &Policy,
    now: Timestamp,
) -> Orders {
    let orders = Orders {
        call_id: call_id.to_owned(),
        events: events.len(),
        tried: None,
        results: Vec::new(),
        without: Vec::new(),
    };
    if events.len() > ORDERED_MAX {
        return orders;
    }
    let tried = permutations(events.len());
    let all: Vec<&ProviderEvent> = events.iter().map(|(_, event)| event).collect();
    let result_of = |order: &[usize]| {
        let ordered = order.iter().filter_map(|index| all.get(*index).copied());
        result(call, ordered, policy, now)
    };
    let results: BTreeSet<String> = tried.iter().map(|order| result_of(order)).collect();
    let without = events.iter().enumerate().map(|(index, (name, _))| {
        let rest: Vec<usize> = (0..events.len()).filter(|other| *other != index).collect();
        ((*name).to_owned(), result_of(&rest))
    });
    Orders { tried: Some(tried.len()), results: results.into_iter().collect(), without: without.collect(), ..orders }
}

/// Folds the events one after another, as if each arrived alone. Returns the state: lifecycle and appointment.
fn result<'a>(
    call: Option<&Call>,
    events: impl Iterator<Item = &'a ProviderEvent>,
    policy: &Policy,
    now: Timestamp,
) -> String {
    let mut row = call.cloned();
    for event in events {
        if let Some(next) = fold(row.as_ref(), std::slice::from_ref(event), policy, now).transition {
            row = Some(next.call);
        }
    }
    let Some(row) = row else { return "no call".to_owned() };
    let attempts = row.attempts();
    let lifecycle = attempts.last().map_or("no attempt", AttemptState::lifecycle_label);
    format!("{lifecycle}, {}", row.appointment_status().as_str())
}

/// Returns every order of the numbers below `count`.
fn permutations(count: usize) -> Vec<Vec<usize>> {
    let mut orders = vec![Vec::new()];
    for number in 0..count {
        let longer = orders.iter().flat_map(|order: &Vec<usize>| {
            (0..=order.len()).map(move |place| {
                let (before, after) = order.split_at(place);
                [before, &[number], after].concat()
            })
        });
        orders = longer.collect();
    }
    orders
}

#[cfg(test)]
mod permutation_tests {
    use super::*;

    #[test]
    fn every_order_is_there_once() {
        assert_eq!(permutations(0), [Vec::<usize>::new()]);
        assert_eq!(permutations(3).into_iter().collect::<BTreeSet<_>>().len(), 6);
        assert_eq!(permutations(ORDERED_MAX).len(), 720);
    }
}
