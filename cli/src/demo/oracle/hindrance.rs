//! Times in which the provider hindered calls: Switchhook announced it as unavailable, or it had refused a dial for its rate.
//!
//! Besides the outage, lost answers announce the provider as unavailable: three dials in a row without an answer look like an outage.

use crate::demo::json::{text, time};
use crate::demo::observation::{Observations, RequestResult};
use crate::demo::placed_script::{OUTAGE_END, OUTAGE_START};
use crate::demo::script::{MINUTE, Millis};

/// Dials without an answer that announce the provider as unavailable, and the time within which they must lie.
const LOST_ANSWERS_MIN: usize = 3;
const LOST_ANSWERS_WITHIN: Millis = 5 * MINUTE;

/// Longest time for which a refusal for the rate hinders later calls.
const SLOWDOWN_MAX: Millis = 5 * MINUTE;

/// Time in which a call that is triggered by hand may have to wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hindrance {
    pub(super) from: Millis,
    pub(super) until: Millis,
}

impl Hindrance {
    pub(super) fn contains(self, at: Millis) -> bool {
        (self.from..=self.until).contains(&at)
    }
}

/// Reads the announcements and the refusals. An announcement that nothing explains is a mismatch, and one that is not taken back
/// although a dial followed.
pub(super) fn hindrances(observations: &Observations, add_mismatch: &mut impl FnMut(String)) -> Vec<Hindrance> {
    let responses = observations.placed_calls.iter().flat_map(|placed| &placed.provider_responses);
    let refused = responses.filter(|response| response.result == RequestResult::RateLimited);
    let mut hindrances: Vec<Hindrance> =
        refused.map(|response| Hindrance { from: response.at, until: response.at + SLOWDOWN_MAX }).collect();
    for events in observations.provider_events.chunks(2) {
        let types: Vec<&str> = events.iter().map(|event| text(event, "type")).collect();
        let at = |index: usize| events.get(index).and_then(|event| time(event, "occurred_at"));
        let (from, until) = (at(0).unwrap_or_default(), at(1).unwrap_or(Millis::MAX));
        let during_outage = (OUTAGE_START..=OUTAGE_END).contains(&from);
        let is_explained = during_outage || answers_lost_before(observations, from) >= LOST_ANSWERS_MIN;
        // Only a dial finds that the provider is back. The last one of the demo may be the one that found it unavailable.
        let may_last = observations.placed_calls.iter().all(|placed| placed.last_dial_request() <= Some(from));
        let is_taken_back = types == ["provider.unavailable", "provider.available"];
        if !is_taken_back && (types != ["provider.unavailable"] || !may_last) || !is_explained {
            add_mismatch(format!("the health of the provider was announced wrongly: {events:?}"));
        }
        hindrances.push(Hindrance { from, until });
    }
    hindrances
}

/// Number of dials whose answers were lost shortly before this time.
fn answers_lost_before(observations: &Observations, at: Millis) -> usize {
    let rings = observations.placed_calls.iter().flat_map(|placed| &placed.phone_rings);
    let is_lost = |behaviour: &str| behaviour == "response_lost" || behaviour == "first_response_lost";
    rings.filter(|ring| is_lost(ring.behaviour) && (at - LOST_ANSWERS_WITHIN..=at).contains(&ring.started_at)).count()
}
