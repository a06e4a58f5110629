//! The traffic of one run: the deliveries of all webhooks, and the API requests for placed calls.
//!
//! A webhook is delivered once, twice, late, in the wrong order, or not at all. Webhooks that Switchhook must not trust are added.
//! Each call gets a fault profile. The profiles take turns, so that every fault occurs in a run of 200 calls.

mod planner;

use fastrand::Rng;
use serde::Serialize;

use super::placed_script::{ApiRequest, PlacedScript};
use super::script::{MINUTE, Millis, Provider, Script};
use planner::{FaultProfile, plan_deliveries};

/// Inactivity timeout of the demo's stack.
pub(super) const INACTIVITY_TIMEOUT: Millis = 15 * MINUTE;
/// Time between two runs of its reconciler.
pub(super) const RECONCILER_PERIOD: Millis = MINUTE;
/// Largest age of a signed timestamp that Switchhook accepts.
const SIGNATURE_WINDOW: Millis = 5 * MINUTE;

/// The kind of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeliveryKind {
    /// The first delivery of a report.
    First,
    /// A further delivery with the same body.
    Repeated,
    /// A further delivery with the same meaning and other bytes.
    Reworded,
    /// A correctly signed event of another provider, which names this call.
    OtherProvider,
    /// A correctly signed webhook that is not valid JSON.
    Unreadable,
    Forged(Forgery),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forgery {
    WrongKey,
    FlippedBit,
    NoSignature,
    /// A genuine webhook that an attacker recorded and sends again later.
    OldRecording,
}

impl Forgery {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::WrongKey => "wrong key",
            Self::FlippedBit => "one bit flipped",
            Self::NoSignature => "no signature",
            Self::OldRecording => "old recording",
        }
    }
}

/// One HTTP request to the webhook endpoint.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    /// Time of arrival by the system's clock.
    pub(super) at: Millis,
    /// Index into [`Traffic::scripts`].
    pub(super) call: usize,
    /// Index into the script's reports. `None` if the delivery is not one of them.
    pub(super) report: Option<usize>,
    pub(super) kind: DeliveryKind,
    pub(super) provider: Provider,
    /// The provider's name for the event.
    pub(super) name: String,
    pub(super) query: String,
    pub(super) body: Vec<u8>,
    pub(super) signed_at: Millis,
    /// True if the old key signs, which is still valid during a key rotation.
    pub(super) old_key: bool,
    /// Bit of the body that is flipped after signing.
    pub(super) flipped_bit: Option<usize>,
}

/// Number of deliveries with each fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct FaultCounts {
    /// Further deliveries of a report.
    pub(super) repeated: u64,
    /// Repeated deliveries whose bytes differ from the first.
    pub(super) reworded: u64,
    /// Reports that arrive after a report that was made later.
    pub(super) out_of_order: u64,
    /// Reports that arrive seconds or minutes late, but within the inactivity timeout.
    pub(super) delayed: u64,
    /// Reports that arrive after the inactivity timeout.
    pub(super) after_timeout: u64,
    /// Reports that never arrive.
    pub(super) lost: u64,
    /// Attempts without any arriving report that states the ending.
    pub(super) endings_lost: u64,
    /// Reports of one call that arrive in the same millisecond.
    pub(super) simultaneous: u64,
    pub(super) forged_wrong_key: u64,
    pub(super) forged_flipped_bit: u64,
    pub(super) forged_no_signature: u64,
    pub(super) forged_old_recording: u64,
    /// Events of another provider that name a call.
    pub(super) other_provider: u64,
    pub(super) unreadable: u64,
}

impl FaultCounts {
    /// Returns all counts with a description for the printed output.
    pub(super) fn all(&self) -> [(&'static str, u64); 14] {
        [
            ("delivered again", self.repeated),
            ("  of these, with other bytes", self.reworded),
            ("delivered out of order", self.out_of_order),
            ("delivered late", self.delayed),
            ("delivered after the inactivity timeout", self.after_timeout),
            ("lost", self.lost),
            ("attempts whose ending was lost", self.endings_lost),
            ("delivered in the same millisecond as another", self.simultaneous),
            ("forged: signed with a wrong key", self.forged_wrong_key),
            ("forged: one bit flipped after signing", self.forged_flipped_bit),
            ("forged: not signed", self.forged_no_signature),
            ("forged: old recording sent again", self.forged_old_recording),
            ("signed by another provider", self.other_provider),
            ("signed, but not readable", self.unreadable),
        ]
    }
}

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
    pub(super) fn draw(calls: usize, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut faults = FaultCounts::default();
        let mut scripts = Vec::new();
        let mut deliveries = Vec::new();
        for call in 0..calls - calls / 2 {
            let profile = FaultProfile::of_call(call);
            let mut rng = rng.fork();
            let script = Script::draw(call, profile.providers(), &mut rng);
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::script::{Report, START};

    #[test]
    fn everything_is_delivered_within_hours() {
        let traffic = Traffic::draw(200, 1);
        let moments = || traffic.deliveries.iter().map(|delivery| delivery.at);
        assert!(moments().is_sorted());
        assert!(moments().all(|at| (START..START + 180 * MINUTE).contains(&at)));
    }

    #[test]
    fn two_hundred_calls_have_every_fault() {
        for seed in 0..50 {
            let traffic = Traffic::draw(200, seed);
            for (name, count) in traffic.faults.all() {
                assert!(count > 0, "seed {seed}: {name}");
            }
        }
    }

    #[test]
    fn same_seed_gives_the_same_deliveries() {
        let bytes = |seed| {
            let deliveries = Traffic::draw(50, seed).deliveries;
            deliveries.into_iter().map(|delivery| (delivery.at, delivery.body)).collect::<Vec<_>>()
        };
        assert_eq!(bytes(4), bytes(4));
        assert_ne!(bytes(4), bytes(5));
    }

    #[test]
    fn some_report_of_every_call_arrives() {
        let traffic = Traffic::draw(400, 2);
        for (call, script) in traffic.scripts.iter().enumerate() {
            let arrives = traffic.deliveries.iter().any(|delivery| {
                let report = delivery.report.and_then(|report| script.reports.get(report));
                delivery.call == call && report.is_some_and(Report::is_folded)
            });
            assert!(arrives, "{script:?}");
        }
    }
}
