//! Calls and domain events that a run has shown so far, and the laws that compare a call with its earlier state.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use switchhook_aws::calls::Alias;
use switchhook_domain::{AttemptState, Call, CallId};
use switchhook_tests::{Item, text};

use crate::law::Law;

/// Lifecycle or outcome of an attempt that timed out without an ending. It has no rank: a later ending replaces it.
pub(crate) const INCONCLUSIVE: &str = "inconclusive";

/// Calls and domain events that were observed so far.
#[derive(Default)]
pub(crate) struct Observed {
    /// Ids of the calls that were written before the last check.
    pub(crate) written_before: BTreeSet<String>,
    pub(crate) calls: BTreeMap<CallId, Call>,
    /// Lowest ranks that the lifecycle and the outcome of an attempt may have from now on, by call and attempt key.
    pub(crate) ranks: BTreeMap<(CallId, String), (u8, u8)>,
    /// Index of the first event of the bus that is not checked yet.
    pub(crate) bus_index: u64,
    pub(crate) aliases: BTreeMap<CallId, Alias>,
    /// Number of dials that were checked.
    pub(crate) dials: usize,
    /// Seconds for which an attempt has been in doubt, by call and attempt key.
    pub(crate) doubts: BTreeMap<(CallId, String), u64>,
    /// First row of each call with an attempt, for the mutation that writes it again.
    pub(crate) older_rows: BTreeMap<CallId, Item>,
    /// Published domain events by their ids.
    pub(crate) published: BTreeMap<String, Value>,
}

impl Observed {
    /// Types of the domain events of a call that were published, in no order.
    pub(crate) fn published_types(&self, call_id: &str) -> BTreeSet<String> {
        let of_call = self.published.values().filter(|event| event["call_id"] == call_id);
        of_call.map(|event| text(&event["type"])).collect()
    }

    /// Records that an id is an alias. The call that was stored under the id, if there was one, exists no more.
    pub(crate) fn merge(&mut self, id: &CallId, alias: Alias) {
        self.calls.remove(id);
        self.aliases.insert(id.clone(), alias);
    }

    /// Compares a changed call with its last observed state. Returns the law that it breaks.
    pub(crate) fn check_call(&mut self, call: Call) -> Option<(Law, String)> {
        let before = self.calls.insert(call.call_id.clone(), call.clone());
        if let Some(before) = before.filter(|before| before.version >= call.version) {
            return Some((Law::VersionGrows, format!("version {} after version {}", call.version, before.version)));
        }
        if !call.matches_history() {
            return Some((Law::IsFold, "the row differs from the fold of its own history".to_owned()));
        }
        for attempt in call.attempts() {
            let (lifecycle, outcome) = (attempt.lifecycle_label(), attempt.outcome_label());
            let rank = self.ranks.entry((call.call_id.clone(), key_of(&call, &attempt))).or_default();
            if lifecycle != INCONCLUSIVE {
                let Some(now) = ranks(lifecycle).iter().find(|now| **now >= rank.0) else {
                    return Some((Law::NeverRegresses, format!("lifecycle {lifecycle} after rank {}", rank.0)));
                };
                rank.0 = *now;
            }
            if outcome != INCONCLUSIVE {
                let now = rank_of_outcome(outcome);
                if now < rank.1 {
                    return Some((Law::NeverRegresses, format!("outcome {outcome} after rank {}", rank.1)));
                }
                rank.1 = now;
            }
        }
        None
    }
}

/// Ranks of the lifecycle states that the API shows under this name. Two states can share a name.
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
        other => panic!("unknown lifecycle {other}"),
    }
}

fn rank_of_outcome(outcome: &str) -> u8 {
    let order = ["dialing", "no_answer", "connected", "voicemail", "declined", "confirmed"];
    order.iter().position(|other| *other == outcome).and_then(|rank| u8::try_from(rank).ok()).unwrap()
}

fn key_of(call: &Call, attempt: &AttemptState) -> String {
    let key = call.attempt_records.get(attempt.index).and_then(|record| record.key.as_ref());
    key.map_or_else(String::new, |key| key.as_str().to_owned())
}
