//! The oracle: it computes what Switchhook must show and announce, and compares that with the observations.
//!
//! **Nothing of Switchhook's own is used here**: no type, no table, no rule. The steps are:
//!
//! 1. [`evidence`]: the reports that reached Switchhook. Lost and forged webhooks are not among them.
//! 2. [`knowledge`] and [`attempt_knowledge`]: the states and outcomes that this evidence proves.
//! 3. [`domain_events`]: the domain events that must have been published, in order.
//! 4. [`scripted_calls`], [`placed_calls`] and [`whole_run`] compare, field by field, with the JSON that subscribers
//!    and clients of the API get.
//!
//! The tests of the oracle show that it finds errors: each test changes one thing in a correct run, and expects a
//! mismatch.

mod attempt_knowledge;
mod choices;
mod domain_events;
mod evidence;
mod expected_event;
mod hindrance;
mod knowledge;
mod placed_calls;
#[cfg(test)]
mod rule_tests;
mod scripted_calls;
mod silence;
#[cfg(test)]
mod tests;
mod timeline;
mod whole_run;

use super::observation::{Observations, ObservedCall, PlacedCall};
use super::traffic::Traffic;

pub(super) use placed_calls::{EndingSource, ending_source};

/// A difference between an expectation and an observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// Index of the call. Calls that others place come first, then those that Switchhook places. `None` if the
    /// difference concerns no single call.
    pub(super) call: Option<usize>,
    pub(super) description: String,
}

/// Returns every mismatch of a run.
pub(super) fn mismatches(traffic: &Traffic, observations: &Observations) -> Vec<Mismatch> {
    let mut mismatches = Vec::new();
    let mut add = |call: Option<usize>, description: String| mismatches.push(Mismatch { call, description });
    let received = scripted_calls::received_reports(traffic, observations, &mut add);
    for (call, script) in traffic.scripts.iter().enumerate() {
        let received = received.get(call).map_or(&[][..], Vec::as_slice);
        let observed = observations.calls.get(call);
        for description in scripted_calls::mismatches(script, received, observed.unwrap_or(&ObservedCall::default())) {
            add(Some(call), description);
        }
    }
    let hindrances = hindrance::hindrances(observations, &mut |description| add(None, description));
    for (index, script) in traffic.placed_scripts.iter().enumerate() {
        let nothing = PlacedCall::default();
        let observed = observations.placed_calls.get(index).unwrap_or(&nothing);
        for description in placed_calls::mismatches(script, observed, &hindrances) {
            add(Some(traffic.scripts.len() + index), description);
        }
    }
    whole_run::check(traffic, observations, &mut |description| add(None, description));
    mismatches
}
