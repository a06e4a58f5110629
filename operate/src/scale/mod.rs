//! Model of a stack at scale: webhooks per day lead to the load on every limit, and to dollars.
//!
//! **The model is arithmetic on numbers that have their home elsewhere.** Tests measure the [`Units`] in the local cloud, and compare
//! each [`parameter`] with the template. Prices are in [`crate::cost::price`], and quotas in [`quota`]. `switchhook simulate` prints the
//! model with its formulas.

mod bill;
mod claims;
mod load;
pub mod parameter;
mod partitions;
mod provider;
pub mod quota;
mod refold;
mod relay;
mod sweep;
mod units;

use serde::Serialize;
use switchhook_domain::LANE_SECONDS;
use switchhook_providers::BOOKED_SHARE;

pub use bill::{Bill, Charge, IDLE_STACK, METRICS_IN_USE, MONTH_DAYS, PROVISIONED_TABLES, bill};
pub use claims::{CLAIM_CPU_S, CLAIM_RUN_S};
pub use load::{Effect, Resource, WEBHOOKS_PER_DAY_MAX, pollers, resources};
pub use partitions::{Partitions, new_keys_writes_at_most, new_keys_writes_max, partitions};
pub use provider::{discovered_calls, discovered_calls_in_time, discovery_share, drift_hours, drift_share, recovery_h};
pub use refold::{ENTRY_CPU_S, REFOLD_CALL_MINUTES, REFOLD_READ_S, RefoldMax, refold_max};
pub use relay::relay_batch;
pub use sweep::{
    BATCH_READ_S, CALL_CPU_S, RETRY_CPU_S, ReconcilerLimits, reconciler_vcpus, retries_max, sweep_reads_max,
};
pub use units::{BATCH, BATCH_LINE_BYTES, DIAL, Profile, RELAY_LINE_BYTES, RETELL, TWILIO, Units};

/// Mean seconds from the arrival of a message in a FIFO queue to its receipt. Others measured a median of 28 ms and a 99th percentile of 645
/// ms on AWS, in 2022. A lognormal distribution with both has a mean of 70 ms. The mean tells how many messages a queue holds, and how many of
/// them a batch has.
pub const QUEUE_S: f64 = 0.07;
/// Share of the events that always fail in the row about messages in flight. It is an assumption: one of several providers.
pub const FAILING_SHARE: f64 = 0.1;
/// Seconds of an eventually consistent read of one item. It is an assumption.
pub const READ_S: f64 = 0.005;
/// Seconds for which a dial occupies a dialer. A lane has a place every [`LANE_SECONDS`] at the full rate, and claims book only a share of that.
/// At low rates it is more: 3.1 s at one dial per second.
pub const DIALER_S: f64 = LANE_SECONDS / BOOKED_SHARE;

/// Traffic of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Traffic {
    pub webhooks_per_day: f64,
    pub profile: Profile,
    /// Load at the busiest time, as a multiple of the mean.
    pub peak_factor: f64,
    /// Share of the calls that Switchhook dials.
    pub dialled_share: f64,
    /// Share of the calls whose ending no webhook reports, so that the reconciler asks the provider.
    pub silent_share: f64,
    pub inbox_days: f64,
    pub call_days: f64,
}

impl Traffic {
    /// Returns traffic of this size, with the other values that `switchhook simulate` assumes.
    #[must_use]
    pub const fn new(webhooks_per_day: f64) -> Self {
        Self {
            webhooks_per_day,
            profile: RETELL,
            peak_factor: 3.0,
            dialled_share: 0.1,
            silent_share: 0.001,
            inbox_days: parameter::INBOX_DAYS,
            call_days: parameter::CALL_DAYS,
        }
    }

    /// Mean number of webhooks per second.
    #[must_use]
    pub fn webhooks(&self) -> f64 {
        self.webhooks_per_day / 86_400.0
    }

    /// Mean number of calls per second.
    #[must_use]
    pub fn calls(&self) -> f64 {
        self.webhooks() / self.profile.webhooks_per_call
    }

    /// Mean number of dials per second.
    #[must_use]
    pub fn dials(&self) -> f64 {
        self.calls() * self.dialled_share
    }

    /// Use of AWS per webhook, with the share of a dial that belongs to it.
    #[must_use]
    pub fn units(&self) -> Units {
        self.profile.webhook.plus(self.dialled_share / self.profile.webhooks_per_call, &DIAL)
    }

    /// Mean number of messages in a batch of the consumer: as many as the queue holds while the day's traffic comes, at least one and at most
    /// [`BATCH`].
    #[must_use]
    pub fn batch(&self) -> f64 {
        (self.webhooks() * self.peak_factor * self.units().messages * QUEUE_S).clamp(1.0, BATCH)
    }
}

/// Share of a vCPU that a function with this memory has.
const fn vcpus(memory_gb: f64) -> f64 {
    memory_gb * 1_024.0 / quota::VCPU_MB
}

/// A small count as a number of the model.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
const fn count(count: u64) -> f64 {
    count as f64
}
