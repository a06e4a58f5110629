//! Wake queues: the partitions of the index by which workers find their calls.

use std::fmt;

use switchhook_domain::{Call, Provider, WakeFor};

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
    /// Wake queues of pending calls: those of the providers that place calls. Daily and generic place none, and no call waits for them.
    pub const PENDING: [Self; 20] = [
        Self::Dial(Provider::Retell),
        Self::Dial(Provider::Twilio),
        Self::Dial(Provider::Vapi),
        Self::Dial(Provider::Telnyx),
        Self::Dial(Provider::ElevenLabs),
        Self::Dial(Provider::Plivo),
        Self::Dial(Provider::Vonage),
        Self::Dial(Provider::LiveKit),
        Self::Dial(Provider::Bland),
        Self::Dial(Provider::SignalWire),
        Self::DialAny(Provider::Retell),
        Self::DialAny(Provider::Twilio),
        Self::DialAny(Provider::Vapi),
        Self::DialAny(Provider::Telnyx),
        Self::DialAny(Provider::ElevenLabs),
        Self::DialAny(Provider::Plivo),
        Self::DialAny(Provider::Vonage),
        Self::DialAny(Provider::LiveKit),
        Self::DialAny(Provider::Bland),
        Self::DialAny(Provider::SignalWire),
    ];
    /// Wake queues of calls that are neither pending nor settled, the most urgent first. A call stays in its queue until its wake-up
    /// time changes, because a move costs two writes of the index. So a call that was just dialled is in [`Self::Claims`], and one
    /// that has just ended may be in [`Self::Endings`].
    pub const OPEN: [Self; 3] = [Self::Claims, Self::Endings, Self::Outcomes];

    /// Returns every wake queue once.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::PENDING.into_iter().chain(Self::OPEN).chain([Self::Settled])
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
    use switchhook_providers::api_url;

    use super::*;

    #[test]
    fn calls_wait_for_each_provider_that_places_calls() {
        let dialling = Provider::ALL.into_iter().filter(|provider| api_url(*provider).is_some());
        let queues = dialling.clone().map(WakeQueue::Dial).chain(dialling.map(WakeQueue::DialAny));
        assert_eq!(queues.collect::<Vec<_>>(), WakeQueue::PENDING);
    }
}
