//! Wake queues: the partitions of the index by which workers find their calls.

use std::fmt;

use switchhook_domain::{Call, Provider};

use crate::dynamodb::shard_of;

/// Partitions of each wake queue in `by_wake`. Each partition takes 1,000 writes a second.
pub const WAKE_SHARDS: u64 = 4;

/// Group of calls in `by_wake` that one kind of worker reads. Each provider has a queue of its own, so that a slow
/// provider delays no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WakeQueue {
    /// Calls that wait to be placed through this provider, ordered by due time. Read by the scheduler.
    Dial(Provider),
    /// The same, for calls that name other providers too. If this one is unavailable, they are placed through another.
    DialAny(Provider),
    /// Calls that wait for an ending, or for a dialer to use a claim, ordered by wake-up time. Read by the reconciler.
    Reconcile,
    /// Settled calls, ordered by `settled_at`. Read by the drift check and by `GET /calls`.
    Settled,
}

impl WakeQueue {
    /// Wake queues of pending calls.
    pub const PENDING: [Self; 10] = [
        Self::Dial(Provider::Retell),
        Self::Dial(Provider::Twilio),
        Self::Dial(Provider::Vapi),
        Self::Dial(Provider::Telnyx),
        Self::Dial(Provider::Generic),
        Self::DialAny(Provider::Retell),
        Self::DialAny(Provider::Twilio),
        Self::DialAny(Provider::Vapi),
        Self::DialAny(Provider::Telnyx),
        Self::DialAny(Provider::Generic),
    ];
    const NOT_PENDING: [Self; 2] = [Self::Reconcile, Self::Settled];

    /// Returns every wake queue once.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::PENDING.into_iter().chain(Self::NOT_PENDING)
    }

    pub(super) fn of(call: &Call) -> Self {
        if call.wake_at.is_none() {
            Self::Settled
        } else if let Some(provider) = call.dial_provider().filter(|_| call.is_pending()) {
            let names_others = call.plan.as_ref().is_some_and(|plan| plan.providers.len() > 1);
            if names_others { Self::DialAny(provider) } else { Self::Dial(provider) }
        } else {
            Self::Reconcile
        }
    }

    /// Value of `wake_key` in one shard of the queue, for example `dial.retell#3`.
    #[must_use]
    pub fn key(self, shard: u64) -> String {
        format!("{self}#{shard}")
    }

    /// True if the value of `wake_key` belongs to this queue.
    pub(super) fn contains_key(self, wake_key: &str) -> bool {
        wake_key.rsplit_once('#').is_some_and(|(queue, _)| queue == self.to_string())
    }
}

impl fmt::Display for WakeQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dial(provider) => write!(f, "dial.{provider}"),
            Self::DialAny(provider) => write!(f, "dial.{provider}.any"),
            Self::Reconcile => f.write_str("reconcile"),
            Self::Settled => f.write_str("settled"),
        }
    }
}

/// Value of `wake_key` in the row of a call.
pub(super) fn wake_key(call: &Call) -> String {
    WakeQueue::of(call).key(shard_of(call.call_id.as_str(), WAKE_SHARDS))
}
