//! The traffic of one run: the deliveries of all webhooks, and the API requests for placed calls.
//!
//! A webhook is delivered once, twice, late, in the wrong order, or not at all. Webhooks that Switchhook must not trust
//! are added. Some calls are reported by two providers, and some senders name ids that are not theirs. Each call gets a fault profile. The profiles take turns, so that every fault occurs in a run of 200
//! calls.

mod delivery;
mod faults;
mod planner;
mod senders;

use fastrand::Rng;

use super::placed_script::{ApiRequest, PlacedScript};
use super::script::{Attempt, MINUTE, Scenario, Script};
pub(super) use delivery::{Delivery, DeliveryKind, Forgery};
pub(super) use faults::FaultCounts;
use planner::{FaultProfile, plan_deliveries};
pub(super) use senders::Senders;

/// Everything that one run plays.
#[derive(Debug)]
pub(super) struct Traffic {
    pub(super) seed: u64,
    /// The calls that others place.
    pub(super) scripts: Vec<Script>,
    /// In the order of time.
    pub(super) deliveries: Vec<Delivery>,
    /// The calls that Switchhook places.
    pub(super) placed_scripts: Vec<PlacedScript>,
    /// In the order of time.
    pub(super) requests: Vec<ApiRequest>,
    pub(super) faults: FaultCounts,
}

impl Traffic {
    /// Draws the traffic of a run. Others place one half of the calls, Switchhook the other half.
    pub(super) fn draw(calls: usize, seed: u64, senders: Senders) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut faults = FaultCounts::default();
        let mut scripts = Vec::new();
        let mut deliveries = Vec::new();
        for call in 0..calls - calls / 2 {
            let profile = FaultProfile::of_call(call);
            let mut rng = rng.fork();
            let script = profile.draw_script(call, senders, &mut rng);
            deliveries.extend(plan_deliveries(call, &script, profile, rng, &mut faults));
            scripts.push(script);
        }
        deliveries.sort_by_key(|delivery| delivery.at);
        let mut placed_scripts = Vec::new();
        let mut requests = Vec::new();
        for index in 0..calls / 2 {
            let (script, of_script) = PlacedScript::draw(index, &mut rng.fork());
            placed_scripts.push(script);
            requests.extend(of_script);
        }
        requests.sort_by_key(|request| request.at);
        Self { seed, scripts, deliveries, placed_scripts, requests, faults }
    }

    /// Returns the call to look at first: the person confirmed, and the webhooks came late, twice and out of order. `None` if there
    /// is none.
    pub(super) fn look_first(&self) -> Option<&Script> {
        let fits = |(call, script): &(usize, &Script)| {
            let of_call = || self.deliveries.iter().filter(|delivery| delivery.call == *call);
            let first = || of_call().filter(|delivery| delivery.kind == DeliveryKind::First);
            let is_late = |delivery: &Delivery| {
                let report = delivery.report.and_then(|index| script.reports.get(index));
                report.is_some_and(|report| delivery.at - report.emitted_at >= MINUTE)
            };
            let confirmed = |attempt: &Attempt| attempt.truth.scenario == Scenario::Confirmed;
            script.attempts.iter().all(confirmed)
                && first().count() == script.reports.len()
                && !first().filter_map(|delivery| delivery.report).is_sorted()
                && first().any(is_late)
                && of_call().any(|delivery| delivery.kind == DeliveryKind::Repeated)
        };
        self.scripts.iter().enumerate().find(fits).map(|(_, script)| script)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::script::{Provider, Report, START};

    #[test]
    fn everything_is_delivered_within_hours() {
        let traffic = Traffic::draw(200, 1, Senders::Usual);
        let moments = || traffic.deliveries.iter().map(|delivery| delivery.at);
        assert!(moments().is_sorted());
        assert!(moments().all(|at| (START..START + 180 * MINUTE).contains(&at)));
    }

    #[test]
    fn all_senders_report_calls() {
        let traffic = Traffic::draw(800, 1, Senders::All);
        for provider in Provider::ALL {
            let reported = traffic.deliveries.iter().filter(|delivery| delivery.provider == provider).count();
            assert!(reported > 20, "{}: {reported}", provider.name());
        }
    }

    #[test]
    fn call_to_look_at_first_was_confirmed_against_all_odds() {
        let traffic = Traffic::draw(200, 1, Senders::Usual);
        let script = traffic.look_first().unwrap();
        assert_eq!(script.attempts.len(), 1);
        assert!(!script.has_two_providers());
    }

    #[test]
    fn two_hundred_calls_have_every_fault() {
        for seed in 0..50 {
            for senders in [Senders::Usual, Senders::All] {
                let traffic = Traffic::draw(200, seed, senders);
                for (name, count) in traffic.faults.all() {
                    assert!(count > 0, "seed {seed}: {name}");
                }
            }
        }
    }

    #[test]
    fn same_seed_gives_the_same_deliveries() {
        let bytes = |seed| {
            let deliveries = Traffic::draw(50, seed, Senders::All).deliveries;
            deliveries.into_iter().map(|delivery| (delivery.at, delivery.body)).collect::<Vec<_>>()
        };
        assert_eq!(bytes(4), bytes(4));
        assert_ne!(bytes(4), bytes(5));
    }

    #[test]
    fn some_report_of_every_call_arrives() {
        let traffic = Traffic::draw(400, 2, Senders::All);
        for (call, script) in traffic.scripts.iter().enumerate() {
            let arrives = traffic.deliveries.iter().any(|delivery| {
                let report = delivery.report.and_then(|report| script.reports.get(report));
                delivery.call == call && report.is_some_and(Report::is_folded)
            });
            assert!(arrives, "{script:?}");
        }
    }
}
