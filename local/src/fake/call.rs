//! A call at the fake provider.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use switchhook_domain::{Direction, Provider};

use super::behaviour::{Behaviour, Ending};
use super::records::RequestResult;

/// Time from a dial to the first ring.
const FIRST_RING_MS: i64 = 1_000;

/// A call with its whole true course. Times are Unix milliseconds by the provider's clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FakeCall {
    /// Provider that is played for this call.
    pub(super) provider: Provider,
    pub(super) direction: Direction,
    pub(super) behaviour: Behaviour,
    /// True if the account has as many calls as it may have, so that the call ends before a phone rings.
    pub(super) is_over_capacity: bool,
    pub(super) from: Value,
    pub(super) to: Value,
    pub(super) metadata: Value,
    /// Fields of the dial request that the provider repeats, in its own words.
    pub(super) echoed: Value,
    /// Fields that Retell or Bland shows with another value, by their names.
    pub(super) changed_fields: BTreeMap<String, Value>,
    pub(super) created_ms: i64,
    /// `None` if nobody picks up.
    pub(super) answered_ms: Option<i64>,
    pub(super) ended_ms: i64,
    /// Time at which the analysis of the conversation is ready.
    pub(super) analysed_ms: i64,
}

impl FakeCall {
    /// Result of a lookup of this call at `now`.
    pub(super) fn lookup_result(&self, now: i64) -> RequestResult {
        if self.behaviour == Behaviour::Forgotten {
            RequestResult::NotFound
        } else if self.analysed_ms <= now {
            RequestResult::Analysed
        } else if self.ended_ms <= now {
            RequestResult::Ended
        } else {
            RequestResult::InProgress
        }
    }

    /// The vendor's word for the direction of the call.
    pub(super) const fn direction_in<'a>(&self, inbound: &'a str, outbound: &'a str) -> &'a str {
        match self.direction {
            Direction::Inbound => inbound,
            Direction::Outbound => outbound,
        }
    }

    /// Time of the answer, if somebody or a machine has picked up by `now`.
    pub(super) fn answered_by(&self, now: i64) -> Option<i64> {
        self.answered_ms.filter(|at| *at <= now)
    }

    /// Time of the first ring. `None` if the phone does not ring.
    pub(super) fn rang_ms(&self) -> Option<i64> {
        let rings = match self.behaviour.ending() {
            Ending::Conversation | Ending::Voicemail | Ending::Busy | Ending::NoAnswer => !self.is_over_capacity,
            Ending::Failed | Ending::WrongNumber => false,
        };
        rings.then_some(self.created_ms + FIRST_RING_MS)
    }

    /// True if the phone has rung by `now`.
    pub(super) fn rings_by(&self, now: i64) -> bool {
        self.rang_ms().is_some_and(|at| at <= now)
    }

    /// Returns the decision of the person, in the word that an analysis uses. `None` if nobody said anything about the appointment.
    pub(super) fn outcome(&self) -> Option<&'static str> {
        self.answered_ms?;
        if self.behaviour.confirms() {
            Some("confirmed")
        } else {
            (self.behaviour == Behaviour::Declines).then_some("declined")
        }
    }
}
