//! How the reports of all calls are delivered: some twice, some late, some in the wrong order, some never, and among them
//! what nobody should believe.
//!
//! Each call in turn gets one kind of trouble for certain, so that every kind is there, and the rest by chance.

mod plan;

use fastrand::Rng;
use serde::Serialize;

use super::placed::{Order, Request};
use super::script::{MINUTE, Millis, Script, Vendor};
use plan::{Theme, deliver};

/// How long the demo's stack waits for a call that went silent.
pub(crate) const PATIENCE: Millis = 15 * MINUTE;
/// Time between two runs of its reconciler.
pub(crate) const TICK: Millis = MINUTE;
/// A signed timestamp may be this old.
const WINDOW: Millis = 5 * MINUTE;

/// What is wrong with one delivery, if anything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    Once,
    /// The same report once more.
    Again,
    /// The same report once more, worded otherwise.
    Reworded,
    /// Another provider speaks of this call.
    Claimed,
    /// Signed as it should be, and unreadable.
    Unreadable,
    Forged(Forgery),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forgery {
    WrongKey,
    FlippedBit,
    NoSignature,
    /// Recorded when it was true, and sent again later.
    Stale,
}

impl Forgery {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::WrongKey => "wrong key",
            Self::FlippedBit => "flipped bit",
            Self::NoSignature => "no signature",
            Self::Stale => "stale timestamp",
        }
    }
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    /// By our clock.
    pub(crate) at: Millis,
    /// Index into the scripts.
    pub(crate) call: usize,
    /// Index into the script's reports, where it is one of them.
    pub(crate) report: Option<usize>,
    pub(crate) how: Delivered,
    pub(crate) vendor: Vendor,
    pub(crate) name: String,
    pub(crate) query: String,
    pub(crate) body: Vec<u8>,
    pub(crate) signed_at: Millis,
    /// Signed with the key that is on its way out.
    pub(crate) old_key: bool,
    /// The bit of the body that is flipped after signing.
    pub(crate) flipped_bit: Option<usize>,
}

/// How often each trouble was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Troubles {
    /// Reports delivered again.
    pub(crate) repeated: u64,
    /// Of these, those whose bytes differed.
    pub(crate) reworded: u64,
    /// Reports that came after one that was made later.
    pub(crate) reordered: u64,
    /// Reports that came seconds or minutes late.
    pub(crate) delayed: u64,
    /// Reports that came when patience was over.
    pub(crate) too_late: u64,
    /// Reports that never came.
    pub(crate) lost: u64,
    /// Attempts of which no report that came tells the ending.
    pub(crate) endings_lost: u64,
    /// Reports of one call that came at the same moment.
    pub(crate) simultaneous: u64,
    pub(crate) wrong_key: u64,
    pub(crate) flipped_bit: u64,
    pub(crate) no_signature: u64,
    pub(crate) stale_timestamp: u64,
    /// Claims of another provider on a call.
    pub(crate) claimed: u64,
    pub(crate) unreadable: u64,
}

impl Troubles {
    pub(crate) fn all(&self) -> [(&'static str, u64); 14] {
        [
            ("reports repeated", self.repeated),
            ("  of them reworded", self.reworded),
            ("reports out of order", self.reordered),
            ("reports delayed", self.delayed),
            ("reports after the end of patience", self.too_late),
            ("reports lost", self.lost),
            ("endings lost", self.endings_lost),
            ("reports at the same moment", self.simultaneous),
            ("forged: wrong key", self.wrong_key),
            ("forged: one bit flipped", self.flipped_bit),
            ("forged: no signature", self.no_signature),
            ("forged: recorded, sent again later", self.stale_timestamp),
            ("claims of another provider", self.claimed),
            ("unreadable, but signed", self.unreadable),
        ]
    }
}

/// Everything that the demo plays.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) seed: u64,
    pub(crate) scripts: Vec<Script>,
    /// In the order of time.
    pub(crate) deliveries: Vec<Delivery>,
    /// The calls that Switchhook is to place.
    pub(super) orders: Vec<Order>,
    /// In the order of time.
    pub(super) requests: Vec<Request>,
    pub(crate) troubles: Troubles,
}

impl Traffic {
    /// Of these calls others place one half, and Switchhook the other.
    pub(crate) fn draw(calls: usize, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut troubles = Troubles::default();
        let mut scripts = Vec::new();
        let mut deliveries = Vec::new();
        for call in 0..calls - calls / 2 {
            let theme = Theme::of(call);
            let mut rng = rng.fork();
            let script = Script::draw(call, theme.vendors(), &mut rng);
            deliveries.extend(deliver(call, &script, theme, rng, &mut troubles));
            scripts.push(script);
        }
        deliveries.sort_by_key(|delivery| delivery.at);
        let mut orders = Vec::new();
        let mut requests = Vec::new();
        for index in 0..calls / 2 {
            let (order, asked) = Order::draw(index, &mut rng.fork());
            orders.push(order);
            requests.extend(asked);
        }
        requests.sort_by_key(|request| request.at);
        Self { seed, scripts, deliveries, orders, requests, troubles }
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
    fn two_hundred_calls_have_every_trouble() {
        for seed in 0..50 {
            let traffic = Traffic::draw(200, seed);
            for (name, count) in traffic.troubles.all() {
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
    fn something_is_heard_of_every_call() {
        let traffic = Traffic::draw(400, 2);
        for (call, script) in traffic.scripts.iter().enumerate() {
            let heard = traffic.deliveries.iter().any(|delivery| {
                let report = delivery.report.and_then(|report| script.reports.get(report));
                delivery.call == call && report.is_some_and(Report::is_folded)
            });
            assert!(heard, "{script:?}");
        }
    }
}
