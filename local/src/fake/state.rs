//! State of the fake provider, which its parts share.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use switchhook_domain::Provider;

use super::call::FakeCall;
use super::faults::{CrashPoint, DeliveryFaults};
use super::kept::{EventName, Unsaved, event_name};
use super::mode::Mode;
use super::records::{ApiRecord, Dial, RequestResult, SentWebhook};

/// A webhook to sign and send now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    pub(super) provider: Provider,
    pub(super) provider_call_id: String,
    pub(super) metadata: Value,
    /// Query of the URL that the webhook goes to. Empty for every provider but Twilio, Plivo and SignalWire.
    pub(super) query: String,
    #[serde(deserialize_with = "event_name")]
    pub(super) event: EventName,
    pub(super) body: String,
    pub(super) failed_sends: u32,
    /// True if somebody held the webhook and let it go, so that it is not held again.
    pub(super) is_released: bool,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) rng: fastrand::Rng,
    /// Part of each call id. It keeps ids apart if a later process draws the same random numbers, from the same seed.
    pub(super) started_at_ms: u64,
    pub(super) delivery_faults: DeliveryFaults,
    /// Modes of the providers that have one, each with the time at which it ends, in Unix milliseconds. `None` if only
    /// [`set_mode_of`](super::FakeProvider::set_mode_of) ends it.
    pub(super) modes: BTreeMap<Provider, (Mode, Option<i64>)>,
    /// Calls that a provider has at most at the same time. A provider without an entry has any number.
    pub(super) capacities: BTreeMap<Provider, usize>,
    /// Numbers that Twilio refuses to call, and to call from.
    pub(super) blocked_numbers: BTreeSet<String>,
    pub(super) crash: Option<CrashPoint>,
    pub(super) calls: BTreeMap<String, FakeCall>,
    /// Provider call ids by idempotency key.
    pub(super) calls_by_key: BTreeMap<String, String>,
    /// Webhooks to send, by due time and a counter that keeps equal times apart.
    pub(super) scheduled_webhooks: BTreeMap<(i64, u64), Delivery>,
    pub(super) counter: u64,
    /// True if webhooks that are due wait until somebody lets them go.
    pub(super) is_holding: bool,
    /// Webhooks that wait, by a number that names each.
    pub(super) held: BTreeMap<u64, Delivery>,
    pub(super) dials: Vec<Dial>,
    /// Number of dial requests that were answered 429.
    pub(super) rate_limited: u64,
    /// `None` until recording starts.
    pub(super) recording: Option<Recording>,
    pub(super) requests: u64,
    /// Changes to write into the journal. `None` without a journal.
    pub(super) unsaved: Option<Vec<Unsaved>>,
}

#[derive(Debug, Default)]
pub(super) struct Recording {
    pub(super) webhooks: Vec<SentWebhook>,
    pub(super) requests: Vec<ApiRecord>,
    /// Last recorded result of each idempotency key.
    pub(super) results_by_key: BTreeMap<String, RequestResult>,
}

impl Delivery {
    /// Provider that sends the webhook.
    #[must_use]
    pub const fn provider(&self) -> Provider {
        self.provider
    }

    /// Query of the URL that the webhook goes to, without `?`. It is part of what Twilio signs.
    #[must_use]
    pub fn query(&self) -> &str {
        &self.query
    }

    /// Body of the webhook. The sender signs it.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.body
    }

    /// Metadata of the call, from the dial request.
    #[must_use]
    pub const fn metadata(&self) -> &Value {
        &self.metadata
    }
}
