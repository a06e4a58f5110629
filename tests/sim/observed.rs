//! Observations of a run so far, and the laws that hold between an older and a newer state of a call.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use switchhook_domain::{AttemptState, Call, CallId};

use crate::law::Law;

/// Shown where nobody knows: it stands nowhere.
pub(crate) const INCONCLUSIVE: &str = "inconclusive";

/// What the watch has seen so far.
#[derive(Default)]
pub(crate) struct Observed {
    pub(crate) written_before: BTreeSet<String>,
    pub(crate) calls: BTreeMap<CallId, Call>,
    /// The least that an attempt's lifecycle and outcome may stand for, by its key.
    pub(crate) ranks: BTreeMap<(CallId, String), (u8, u8)>,
    pub(crate) bus: u64,
    pub(crate) published: BTreeMap<String, Value>,
}

impl Observed {
    /// What is wrong with a call that has changed, held against what was read of it before.
    pub(crate) fn check_call(&mut self, call: Call) -> Option<(Law, String)> {
        let before = self.calls.insert(call.call_id.clone(), call.clone());
        if let Some(before) = before.filter(|before| before.version >= call.version) {
            return Some((Law::VersionGrows, format!("{} after {}", call.version, before.version)));
        }
        if !call.matches_history() {
            return Some((Law::IsFold, "the row is not what its own history makes of it".to_owned()));
        }
        for attempt in call.attempts() {
            let (lifecycle, outcome) = (attempt.lifecycle_label(), attempt.outcome_label());
            let rank = self.ranks.entry((call.call_id.clone(), key_of(&call, &attempt))).or_default();
            if lifecycle != INCONCLUSIVE {
                let Some(now) = ranks(lifecycle).iter().find(|now| **now >= rank.0) else {
                    return Some((Law::NeverRegresses, format!("{lifecycle} after rank {}", rank.0)));
                };
                rank.0 = *now;
            }
            if outcome != INCONCLUSIVE {
                let now = rank_of_outcome(outcome);
                if now < rank.1 {
                    return Some((Law::NeverRegresses, format!("{outcome} after rank {}", rank.1)));
                }
                rank.1 = now;
            }
        }
        None
    }
}

/// Where the states of an attempt stand, by what is shown of them. Some are shown alike.
fn ranks(lifecycle: &str) -> &'static [u8] {
    match lifecycle {
        "initiated" => &[0],
        "ringing" => &[1],
        "completed" => &[2, 10],
        "no_answer" => &[3],
        "canceled" => &[4],
        "busy" => &[5, 8],
        "failed" => &[6, 9],
        "in_progress" => &[7],
        other => panic!("what is {other}?"),
    }
}

fn rank_of_outcome(outcome: &str) -> u8 {
    let order = ["dialing", "no_answer", "connected", "voicemail", "declined", "confirmed"];
    order.iter().position(|other| *other == outcome).and_then(|rank| u8::try_from(rank).ok()).unwrap()
}

fn key_of(call: &Call, attempt: &AttemptState) -> String {
    let key = call.attempt_records.get(attempt.index).and_then(|slot| slot.key.as_ref());
    key.map_or_else(String::new, |key| key.as_str().to_owned())
}
