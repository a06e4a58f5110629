//! Wake queues: the partitions of the index by which workers find their calls.

use std::collections::BTreeSet;
use std::fmt;

use switchhook_domain::{Call, Provider, WakeFor};
use switchhook_providers::api_url;

use crate::shards::Shards;

/// Group of calls in `by_wake` that one kind of worker reads. Each provider has a queue of its own, so that a slow
/// provider delays no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WakeQueue {
    /// Calls that wait to be placed through this provider, ordered by due time. Read by the scheduler.
    Dial(Provider),
    /// The same, for calls that name other providers too. If this one is unavailable, they are placed through another.
    DialAny(Provider),
    /// Calls whose claim waits for a dialer, dials in doubt, and aliases whose adoption is not finished, ordered by wake-up time.
    /// Read by the reconciler, like the next two.
    Claims,
    /// Calls with an attempt that has not ended.
    Endings,
    /// Calls that wait for an outcome, or for a retry by another system.
    Outcomes,
    /// Settled calls, ordered by `settled_at`. Read by the drift check and by `GET /calls`.
    Settled,
}

impl WakeQueue {
    /// Wake queues of calls that are neither pending nor settled, the most urgent first. A call stays in its queue until its wake-up
    /// time changes, because a move costs two writes of the index. So a call that was just dialled is in [`Self::Claims`], and one
    /// that has just ended may be in [`Self::Endings`].
    pub const OPEN: [Self; 3] = [Self::Claims, Self::Endings, Self::Outcomes];

    /// Returns the wake queues of pending calls: those of the providers that place calls, and of these further
    /// [accounts](super::Calls::accounts). Daily and generic place none, and no call waits for them.
    #[must_use]
    pub fn pending(accounts: &BTreeSet<Provider>) -> Vec<Self> {
        let providers = Provider::ALL.iter().chain(accounts).copied().filter(|provider| api_url(*provider).is_some());
        providers.clone().map(Self::Dial).chain(providers.map(Self::DialAny)).collect()
    }

    /// Returns every wake queue once, with those of these further [accounts](super::Calls::accounts).
    #[must_use]
    pub fn all(accounts: &BTreeSet<Provider>) -> Vec<Self> {
        [Self::pending(accounts).as_slice(), &Self::OPEN, &[Self::Settled]].concat()
    }

    /// Reads the name of a queue. `None` if there is no such queue.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let of_provider = |name: &str| name.parse().ok().filter(|provider| api_url(*provider).is_some());
        match name.strip_prefix("dial.") {
            Some(name) => match name.strip_suffix(".any") {
                Some(name) => of_provider(name).map(Self::DialAny),
                None => of_provider(name).map(Self::Dial),
            },
            None => Self::OPEN.into_iter().chain([Self::Settled]).find(|queue| queue.to_string() == name),
        }
    }

    /// True for the queues of [`Self::pending`].
    #[must_use]
    pub const fn is_pending(self) -> bool {
        match self {
            Self::Dial(_) | Self::DialAny(_) => true,
            Self::Claims | Self::Endings | Self::Outcomes | Self::Settled => false,
        }
    }

    pub(super) fn of(call: &Call) -> Self {
        if call.wake_at.is_none() {
            Self::Settled
        } else if let Some(provider) = call.dial_provider().filter(|_| call.is_pending()) {
            let names_others = call.plan.as_ref().is_some_and(|plan| plan.providers.len() > 1);
            if names_others { Self::DialAny(provider) } else { Self::Dial(provider) }
        } else {
            match call.wake_for {
                WakeFor::Claim => Self::Claims,
                WakeFor::Ending => Self::Endings,
                WakeFor::Outcome => Self::Outcomes,
            }
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

    /// Work for which the call of this `wake_key` wakes up. A call in no open queue needs none, and gets the least urgent.
    pub(super) fn work_of_key(wake_key: &str) -> WakeFor {
        match Self::OPEN.into_iter().find(|queue| queue.contains_key(wake_key)) {
            Some(Self::Claims) => WakeFor::Claim,
            Some(Self::Endings) => WakeFor::Ending,
            Some(_) | None => WakeFor::Outcome,
        }
    }
}

impl fmt::Display for WakeQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dial(provider) => write!(f, "dial.{provider}"),
            Self::DialAny(provider) => write!(f, "dial.{provider}.any"),
            Self::Claims => f.write_str("claims"),
            Self::Endings => f.write_str("endings"),
            Self::Outcomes => f.write_str("outcomes"),
            Self::Settled => f.write_str("settled"),
        }
    }
}

/// Value of `wake_key` in the row of a call. Its shard follows from the time at which the row was written.
pub(super) fn wake_key(call: &Call, shards: &Shards) -> String {
    WakeQueue::of(call).key(shards.shard_of(call.call_id.as_str(), call.updated_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_is_read_from_its_name() {
        let accounts = ["retell-eu", "generic-eu"].map(|name| name.parse().unwrap()).into();
        let all = WakeQueue::all(&accounts);
        assert_eq!(all.len(), 2 * 11 + 3 + 1, "a sender without an API has no queue");
        for queue in all {
            assert_eq!(WakeQueue::parse(&queue.to_string()), Some(queue));
        }
        for name in [
            "",
            "dial",
            "dial.",
            "dial.retel",
            "dial.daily",
            "dial.generic-eu",
            "dial.x-acme.any",
            "dial.retell.all",
            "open",
        ] {
            assert_eq!(WakeQueue::parse(name), None, "{name}");
        }
    }
}
