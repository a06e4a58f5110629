//! Records of everything that the fake provider did. Tests compare them with the state that Switchhook derived.

use serde::{Deserialize, Serialize};
use switchhook_domain::Provider;

use super::behaviour::Behaviour;

/// A dial request that the provider accepted: one phone rang. A repeated request with the same idempotency key is no
/// further dial, nor is a call that ended with `concurrency_limit_reached`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dial {
    /// Provider that was asked.
    pub provider: Provider,
    /// The provider's own id of the call.
    pub provider_call_id: String,
    /// Switchhook's id of the call, taken from the metadata of the dial request.
    pub call_id: String,
    /// Number of the attempt, taken from the metadata of the dial request.
    pub attempt: String,
    pub behaviour: Behaviour,
    /// Time of the dial request, in Unix milliseconds.
    pub started_ms: i64,
    /// Time at which somebody or a machine picked up. `None` if nobody did.
    pub answered_ms: Option<i64>,
    pub ended_ms: i64,
}

/// A webhook that was sent, whether or not the receiver accepted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentWebhook {
    pub provider_call_id: String,
    /// Name of the event in the provider's words, for example `call_ended`.
    pub event: &'static str,
    /// Time of sending, in Unix milliseconds.
    pub at_ms: i64,
}

/// The provider's response to one dial request or to one lookup of an attempt. A repeated dial request with the same
/// idempotency key and the same result is not recorded again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiRecord {
    /// Provider that responded.
    pub provider: Provider,
    /// Switchhook's id of the call, taken from the request or from the metadata of the call.
    pub call_id: String,
    /// Number of the attempt, from the same place.
    pub attempt: String,
    /// Time of the response, in Unix milliseconds. A lookup has it by the provider's clock.
    pub at_ms: i64,
    pub result: RequestResult,
}

/// Result of one dial request or one lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestResult {
    /// Dial: the provider accepted the call.
    Accepted,
    /// Dial: the provider rejected the call for now, with 429.
    RateLimited,
    /// Dial: the provider rejected the call permanently.
    Rejected,
    /// Dial: the provider refused the call because of the account (its key, its credit or its agent), or blocked it.
    Refused,
    /// Dial: the provider was down, and answered 503 or nothing. It did not place the call, but that proves nothing.
    Unavailable,
    /// Lookup: the provider does not know the call.
    NotFound,
    /// Lookup: the call has not ended yet.
    InProgress,
    /// Lookup: the call has ended, and its analysis is not ready.
    Ended,
    /// Lookup: the call has ended, and its analysis is ready.
    Analysed,
}
