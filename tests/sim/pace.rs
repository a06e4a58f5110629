//! Checks of the laws about the pace of dials: how many a provider gets in a time, and how many calls it has at the same time.
//!
//! The requests are the fake provider's own record.

use std::collections::BTreeMap;

use fastrand::Rng;
use switchhook_domain::Provider;
use switchhook_local::fake::{ApiRecord, Dial, RequestResult};

use crate::calls::{Millis, START};
use crate::law::Law;
use crate::plan::{FaultKind, Plan, Reach};
use crate::requests::CallRequest;
use crate::sim::Sim;

/// Time in seconds whose dials may come together after a failure of the dialers.
const TOGETHER_S: f64 = 2.5;
/// Number of dials that may come besides: a provider whose circuit is open gets a probe, which needs no place.
const PROBES: usize = 1;

/// Number of requests in a rush.
const RUSH_REQUESTS: usize = 14;

/// Pace at which each provider is asked to place calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProviderPace {
    per_second: f64,
    /// Calls that it may have at the same time. `None` if there is no limit.
    calls_max: Option<usize>,
}

impl ProviderPace {
    /// The pace as `DialRates` has it.
    pub(crate) fn to_text(self) -> String {
        let Self { per_second, calls_max } = self;
        calls_max.map_or_else(|| per_second.to_string(), |calls| format!("{per_second}/{calls}"))
    }
}

impl Plan {
    /// Pace at which each provider is asked to place calls in this plan.
    pub(crate) fn pace(&self) -> ProviderPace {
        let (per_second, calls_max) = match self.seed % 3 {
            _ if !self.has_fault(FaultKind::Rush) => (2.5, None),
            0 => (0.5, None),
            1 => (1.0, Some(3)),
            _ => (2.5, Some(2)),
        };
        ProviderPace { per_second, calls_max }
    }

    /// Moves the requests of a plan with a [rush](FaultKind::Rush) together, and makes more of them.
    pub(crate) fn with_rush(self) -> Self {
        let Some(rush) = self.faults.iter().find(|fault| fault.kind == FaultKind::Rush) else { return self };
        // With a limit on the calls at the same time, the last requests come when the first calls are still going on.
        let spread_ms = if self.pace().calls_max.is_some() { 60_000 } else { 4_000 };
        let mut rng = Rng::with_seed(self.seed);
        let at = START + i64::try_from(rush.from).unwrap() * 1_000;
        let requests = (0..RUSH_REQUESTS).map(|index| {
            let request = CallRequest::draw(index, &mut rng.fork());
            CallRequest { at: at + rng.i64(0..spread_ms), ..request }
        });
        Self { call_requests: requests.collect(), ..self }
    }
}

impl Sim {
    /// Checks how many dials each provider got in any time.
    pub(crate) fn check_rates(&self) {
        let ProviderPace { per_second, .. } = self.plan.pace();
        let together = (per_second * TOGETHER_S).ceil();
        for (provider, times) in self.requests_by_provider() {
            for (place, first) in times.iter().enumerate() {
                for (count, last) in times.iter().skip(place).enumerate() {
                    let seconds = (last - first) as f64 / 1_000.0;
                    let most = per_second * seconds + together;
                    if (count + 1).saturating_sub(PROBES) as f64 > most {
                        let what =
                            format!("{provider} got {} dials in {seconds} s, at {per_second} per second", count + 1);
                        return self.state().report_violation(Law::DialRate, what);
                    }
                }
            }
        }
    }

    /// Times of the dial requests that each provider has answered, in order.
    fn requests_by_provider(&self) -> BTreeMap<Provider, Vec<Millis>> {
        let mut times: BTreeMap<Provider, Vec<Millis>> = BTreeMap::new();
        for ApiRecord { provider, at_ms, result, .. } in self.world.cloud.fake().api_records() {
            if is_answer_to_dial(result) {
                times.entry(provider).or_default().push(at_ms);
            }
        }
        times
    }

    /// Checks how many calls each provider has at the same time when a dial begins. Without faults of the functions: the place of a claim
    /// is reserved for ten seconds only, until the index shows the claim.
    pub(crate) fn check_calls_at_once(&self) {
        let Some(calls_max) = self.plan.pace().calls_max else { return };
        if self.plan.faults.iter().any(|fault| fault.kind.reach() == Reach::Functions) {
            return;
        }
        let dials = self.world.cloud.fake().dials();
        for dial in &dials {
            let at = dial.started_ms;
            let is_open =
                |other: &&Dial| other.provider == dial.provider && (other.started_ms..other.ended_ms).contains(&at);
            let open = dials.iter().filter(is_open).count();
            if open > calls_max + PROBES {
                let what = format!("{} has {open} calls instead of {calls_max} at {dial:?}", dial.provider);
                return self.state().report_violation(Law::DialRate, what);
            }
        }
    }

    /// Counts the dials that came as early as the pace allows, as injections of a rush.
    pub(crate) fn count_paced_dials(&self) {
        let ProviderPace { per_second, calls_max } = self.plan.pace();
        let dials = self.world.cloud.fake().dials();
        let Some(last) = dials.last() else { return };
        let before = |other: &&Dial| other.provider == last.provider && other.provider_call_id != last.provider_call_id;
        let is_close = |other: &Dial| ((last.started_ms - other.started_ms) as f64) < 2_000.0 / per_second;
        let open = dials.iter().filter(before).filter(|other| last.started_ms < other.ended_ms).count();
        let is_full = calls_max.is_some_and(|most| open + 1 >= most);
        if is_full || calls_max.is_none() && dials.iter().filter(before).any(is_close) {
            self.hit(FaultKind::Rush);
        }
    }
}

/// True if a provider has answered a dial. A repeated request is one dial, as far as it gets the same answer.
fn is_answer_to_dial(result: RequestResult) -> bool {
    match result {
        RequestResult::Accepted | RequestResult::RateLimited | RequestResult::Rejected | RequestResult::Refused => true,
        RequestResult::Unavailable
        | RequestResult::NotFound
        | RequestResult::InProgress
        | RequestResult::Ended
        | RequestResult::Analysed => false,
    }
}
