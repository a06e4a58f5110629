//! Sample bodies folded into one call in every order of delivery: the state depends on the set of events alone.

use std::collections::BTreeMap;
use std::time::Duration;

use switchhook_domain::{Call, CallId, EventId, Policy, Provider, ProviderEvent, ProviderSet, Timestamp, fold};
use switchhook_providers::{Reading, read, samples};

use crate::samples::verified;

const NOW: Timestamp = Timestamp::from_millis(1_760_962_600_000);
const POLICY: Policy = Policy { inactivity_timeout: Duration::from_secs(900), outcome_providers: ProviderSet::ALL };

/// Largest size of the sets that are all tried. Of larger sets, only the neighbours in the list of samples are.
const ALL_SETS_MAX: usize = 4;
/// Largest size of any set.
const SET_MAX: usize = 6;

/// The events of a provider's samples, as if all were about one attempt of one call. They may contradict each other.
fn events(provider: Provider) -> Vec<ProviderEvent> {
    let prefix = format!("{provider}/");
    let of_provider = samples().iter().filter(|(name, _)| name.starts_with(&prefix));
    let readings = of_provider.enumerate().map(|(second, (name, _))| read(&verified(name), NOW.plus(seconds(second))));
    let events: Vec<ProviderEvent> = readings
        .filter_map(|reading| match reading {
            Reading::Event(event) => Some(event),
            Reading::Recorded { .. } | Reading::Quarantined { .. } => None,
        })
        .collect();
    let first = events[0].clone();
    let of_one_call = |event| ProviderEvent {
        call_id: CallId::new("c"),
        attempt: first.attempt.clone(),
        provider_call_id: first.provider_call_id.clone(),
        appointment_id: first.appointment_id.clone(),
        direction: first.direction,
        ..event
    };
    events.into_iter().map(of_one_call).collect()
}

fn seconds(number: usize) -> Duration {
    Duration::from_secs(number.try_into().unwrap())
}

/// Everything about a call that must not depend on the order of its deliveries.
fn essence(call: &Call) -> impl PartialEq + std::fmt::Debug + use<> {
    let attempts: Vec<_> = call
        .attempts()
        .iter()
        .map(|it| (it.lifecycle_label(), it.outcome_label(), it.provider, it.started_at, it.ended_at))
        .collect();
    let dispositions: BTreeMap<EventId, _> = call.history.iter().map(|entry| (entry.id(), entry.disposition)).collect();
    let timeline: Vec<EventId> = call.timeline().iter().map(|entry| entry.id()).collect();
    (attempts, dispositions, timeline, call.job.clone(), call.appointment_status(), call.is_settled())
}

/// Folds the events that are left, one by one, in every order. Calls `check` with each result. Returns the number of orders.
fn in_every_order(call: Option<&Call>, left: &[&ProviderEvent], check: &mut impl FnMut(&Call)) -> usize {
    let mut orders = 0;
    for at in 0..left.len() {
        let mut rest = left.to_vec();
        let event = rest.remove(at);
        let after = fold(call, std::slice::from_ref(event), &POLICY, NOW.plus(Duration::from_secs(100)));
        let after = after.transition.unwrap().call;
        if rest.is_empty() {
            check(&after);
            orders += 1;
        } else {
            orders += in_every_order(Some(&after), &rest, check);
        }
    }
    orders
}

/// All sets of this size.
fn sets(events: &[ProviderEvent], size: usize) -> Vec<Vec<&ProviderEvent>> {
    if size == 0 {
        return vec![Vec::new()];
    }
    let Some((first, rest)) = events.split_first() else { return Vec::new() };
    let with_first = sets(rest, size - 1).into_iter().map(|mut set| {
        set.insert(0, first);
        set
    });
    with_first.chain(sets(rest, size)).collect()
}

#[test]
fn samples_of_every_provider_give_one_state_in_every_order() {
    for provider in Provider::ALL {
        let events = events(provider);
        let small = (1..=ALL_SETS_MAX).flat_map(|size| sets(&events, size));
        let large = (ALL_SETS_MAX + 1..=SET_MAX.min(events.len()))
            .flat_map(|size| events.windows(size).map(|neighbours| neighbours.iter().collect()));
        let mut orders = 0;
        for set in small.chain(large) {
            let mut expected = None;
            orders += in_every_order(None, &set, &mut |call| {
                let found = essence(call);
                match &expected {
                    None => expected = Some(found),
                    Some(expected) => {
                        let ids: Vec<&str> = set.iter().map(|event| event.event_id.as_str()).collect();
                        assert_eq!(&found, expected, "{ids:?}");
                    }
                }
            });
        }
        assert!(orders >= 60, "{provider} has samples of few events: {orders} orders");
    }
}
