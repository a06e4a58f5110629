//! Sample bodies folded into one call in every order of delivery: the state depends on the set of events alone.
//!
//! A set of six events has 720 orders, and a provider has thousands of such sets. So these tests try
//!
//! - every order of every set of up to four events,
//! - every order of six events that are neighbours in the list of samples, and
//! - every last event of every set of up to six events, after one order of the others. If the state is the same after each of them, it is
//!   the same after every order, provided that a fold reads nothing but what the tests compare.
//!
//! Events that say the same are tried as neighbours alone.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use switchhook_domain::{Call, CallId, EventId, Policy, Provider, ProviderEvent, ProviderSet, Timestamp, fold};
use switchhook_providers::{Reading, read, samples};

use crate::samples::verified;

const NOW: Timestamp = Timestamp::from_millis(1_760_962_600_000);
const POLICY: Policy = Policy { inactivity_timeout: Duration::from_secs(900), outcome_providers: ProviderSet::ALL };

/// Largest size of the sets whose orders are all tried.
const EVERY_ORDER_MAX: u32 = 4;
/// Largest size of any set.
const SET_MAX: u32 = 6;

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

/// The events without those that say the same as an earlier one.
fn distinct<'a>(events: &[&'a ProviderEvent]) -> Vec<&'a ProviderEvent> {
    let mut distinct: Vec<&ProviderEvent> = Vec::new();
    for event in events {
        if distinct.iter().all(|earlier| earlier.call_events != event.call_events) {
            distinct.push(event);
        }
    }
    distinct
}

/// Everything about a call that must not depend on the order of its deliveries.
fn essence(call: &Call) -> impl PartialEq + Debug + use<> {
    let attempts: Vec<_> = call
        .attempts()
        .iter()
        .map(|it| {
            (it.lifecycle_label(), it.outcome_label(), call.attempt_provider(it.index), it.started_at, it.ended_at)
        })
        .collect();
    let dispositions: BTreeMap<EventId, _> = call.history.iter().map(|entry| (entry.id(), entry.disposition)).collect();
    let timeline: Vec<EventId> = call.timeline().iter().map(|entry| entry.id()).collect();
    (attempts, dispositions, timeline, call.job.clone(), call.appointment_status(), call.is_settled())
}

/// Number of sets of this size.
fn combinations(events: usize, size: usize) -> usize {
    (0..size).fold(1, |product, index| product * (events - index) / (index + 1))
}

/// The call after one more event.
fn after(call: Option<&Call>, event: &ProviderEvent) -> Call {
    let now = NOW.plus(Duration::from_secs(100));
    fold(call, std::slice::from_ref(event), &POLICY, now).transition.unwrap().call
}

/// States by the set of events that led to them. A set has one bit for each event of the list.
struct States<'a, E, F> {
    events: &'a [&'a ProviderEvent],
    essence: F,
    by_set: BTreeMap<u32, E>,
    folds: usize,
}

impl<'a, E: PartialEq + Debug, F: Fn(&Call) -> E> States<'a, E, F> {
    fn new(events: &'a [&'a ProviderEvent], essence: F) -> Self {
        Self { events, essence, by_set: BTreeMap::new(), folds: 0 }
    }

    /// The call after one more event, and its set. Panics if the set had another state before.
    fn add(&mut self, call: Option<&Call>, set: u32, index: usize) -> (Call, u32) {
        let (call, set) = (after(call, self.events[index]), set | 1 << index);
        let found = (self.essence)(&call);
        self.folds += 1;
        match self.by_set.get(&set) {
            Some(expected) => assert_eq!(&found, expected, "{:?}", self.ids(set)),
            None => {
                self.by_set.insert(set, found);
            }
        }
        (call, set)
    }

    fn ids(&self, set: u32) -> Vec<&str> {
        self.outside(!set).map(|index| self.events[index].event_id.as_str()).collect()
    }

    /// Indexes of the events that are not in the set.
    fn outside(&self, set: u32) -> impl Iterator<Item = usize> + use<E, F> {
        (0..self.events.len()).filter(move |index| set & 1 << index == 0)
    }

    /// Adds the events that are left in every order, until the set has `longest` events.
    fn try_orders(&mut self, call: Option<&Call>, set: u32, longest: u32) {
        if set.count_ones() == longest {
            return;
        }
        for index in self.outside(set) {
            let (call, set) = self.add(call, set, index);
            self.try_orders(Some(&call), set, longest);
        }
    }

    /// Adds each event to one call of each set without it, until the sets have `longest` events.
    fn try_last_events(&mut self, longest: u32) {
        let mut calls: BTreeMap<u32, Option<Call>> = BTreeMap::from([(0, None)]);
        for _ in 0..longest {
            let mut next = BTreeMap::new();
            for (set, call) in &calls {
                for index in self.outside(*set) {
                    let (call, set) = self.add(call.as_ref(), *set, index);
                    next.entry(set).or_insert(Some(call));
                }
            }
            calls = next;
        }
    }
}

#[test]
fn samples_of_every_provider_give_one_state_in_every_order() {
    for provider in Provider::ALL {
        let all = events(provider);
        let all: Vec<&ProviderEvent> = all.iter().collect();
        let distinct = distinct(&all);
        let mut states = States::new(&distinct, essence);
        states.try_orders(None, 0, EVERY_ORDER_MAX);
        assert!(states.by_set.len() >= 162, "{provider} has samples of few events: {} sets", states.by_set.len());
        for neighbours in all.windows(SET_MAX as usize) {
            let mut states = States::new(neighbours, essence);
            states.try_orders(None, 0, SET_MAX);
            assert_eq!((states.by_set.len(), states.folds), (63, 1956), "{provider}");
        }
    }
}

#[test]
fn samples_of_every_provider_give_one_state_after_every_last_event() {
    for provider in Provider::ALL {
        let events = events(provider);
        let all: Vec<&ProviderEvent> = events.iter().collect();
        let distinct = distinct(&all);
        let mut states = States::new(&distinct, essence);
        states.try_last_events(SET_MAX);
        let sets: usize = (1..=SET_MAX as usize).map(|size| combinations(distinct.len(), size)).sum();
        assert_eq!(states.by_set.len(), sets, "{provider}");
    }
}
