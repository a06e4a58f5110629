//! Plan of a run: calls and faults, all drawn from one seed. A plan is plain data, so a failing plan can be shrunk by
//! leaving out parts.

use std::collections::BTreeMap;

use fastrand::Rng;
use switchhook_domain::Provider;

use crate::calls::{ExternalCall, Millis};
use crate::requests::{CallRequest, OTHER_PROVIDERS};

/// Seconds from the start of a run after which no fault is injected.
pub(crate) const FAULTS_END: u64 = 50 * 60;
/// Largest difference between the clock of a function and the true time. AWS keeps the clocks of its machines much closer.
pub(crate) const CLOCK_SKEW_MS_MAX: i64 = 2_000;
/// Largest difference between the clock of a provider and the true time.
const PROVIDER_CLOCK_SKEW_MS_MAX: i64 = 30_000;
/// Length of a cycle of seeds. In each cycle, every kind of fault is the only one in one seed, and one seed has no
/// fault.
const CYCLE: u64 = 100;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FaultKind {
    // Webhooks
    DuplicateWebhook,
    DelayedWebhook,
    ReorderedWebhooks,
    LostWebhook,
    /// The provider reports one ending, and then a different one.
    TwoEndings,
    /// Providers sign with the old key in the first half of the time with faults, and with the new key afterwards.
    KeyRotation,
    /// The machine of each invocation has a clock of its own, some seconds ahead or behind, and so has each provider, for the whole run.
    ClockSkew,
    /// Another program reports the placed calls too: all or a part of what happens, some of it late and some twice.
    SecondSender,
    /// Others place calls, and all webhooks of these are lost. The providers' lists are read.
    UnreportedCalls,
    // Requests of a function to a service
    Throttled,
    Conflict,
    ServerError,
    /// The service carries the request out and answers with an error.
    ErrorAfterEffect,
    /// The request does not reach the service.
    NotSent,
    ResponseLost,
    Timeout,
    Slow,
    /// The function crashes before its request, or after the request took effect and before the response.
    FunctionCrash,
    /// A query of an index misses the writes of the last seconds.
    LaggingIndex,
    /// The consumer can read no row of a part of the calls, for half an hour or longer. So their events wait in the inbox.
    UnreadableCalls,
    /// The consumer can read no row of a part of the calls, and the queue hands out a message five times only. So their events become dead
    /// letters. An operator redrives and replays them, during the outage too.
    DeadLetters,
    // Event sources and schedules
    /// Messages become visible again while their consumer is still at work.
    VisibilityOverlap,
    /// A consumer did its work, but its messages are not deleted.
    NotDeleted,
    DuplicateClaim,
    /// A claim reaches its dialer after its lease has expired.
    LateClaim,
    DuplicateSchedule,
    MissedSchedule,
    /// The relay is down for longer than the stream keeps its records.
    RelayDown,
    /// EventBridge refuses single events of a request.
    BusRefusal,
    /// A queue message and a webhook that nobody can read.
    Poison,
    // Requests for calls
    /// Many requests come at once, and each provider takes few calls per second, or has few at the same time.
    Rush,
    // The provider that places calls for Switchhook
    DialerCrash,
    /// The provider answers every request with 503.
    ProviderDown,
    /// The provider answers no request.
    ProviderSilent,
    /// The provider carries every dial out, and answers it with 500.
    ErrorAfterDial,
    /// The provider refuses all dials because of the account: no credit, or no such agent.
    AccountProblem,
    /// The provider refuses the key of the account, in lookups too.
    KeyRefused,
    /// The provider answers every dial with 429.
    ProviderBusy,
    /// The provider accepts every dial, and then reports that the account has no room for another call.
    OverCapacity,
}

/// Every kind of fault, with the percentage of opportunities at which it is injected.
pub(crate) const FAULT_KINDS: [(FaultKind, u8); 39] = [
    (FaultKind::DuplicateWebhook, 35),
    (FaultKind::DelayedWebhook, 15),
    (FaultKind::ReorderedWebhooks, 35),
    (FaultKind::LostWebhook, 15),
    (FaultKind::TwoEndings, 50),
    (FaultKind::KeyRotation, 100),
    (FaultKind::Throttled, 8),
    (FaultKind::Conflict, 8),
    (FaultKind::ServerError, 8),
    (FaultKind::ErrorAfterEffect, 8),
    (FaultKind::NotSent, 8),
    (FaultKind::ResponseLost, 8),
    (FaultKind::Timeout, 4),
    (FaultKind::Slow, 35),
    (FaultKind::FunctionCrash, 4),
    (FaultKind::VisibilityOverlap, 60),
    (FaultKind::NotDeleted, 15),
    (FaultKind::DuplicateClaim, 50),
    (FaultKind::LateClaim, 50),
    (FaultKind::DuplicateSchedule, 35),
    (FaultKind::MissedSchedule, 50),
    (FaultKind::RelayDown, 100),
    (FaultKind::BusRefusal, 15),
    (FaultKind::Poison, 100),
    (FaultKind::DialerCrash, 50),
    (FaultKind::ProviderDown, 100),
    (FaultKind::ProviderSilent, 100),
    (FaultKind::ErrorAfterDial, 100),
    (FaultKind::AccountProblem, 100),
    (FaultKind::KeyRefused, 100),
    (FaultKind::ProviderBusy, 100),
    (FaultKind::OverCapacity, 100),
    (FaultKind::LaggingIndex, 50),
    (FaultKind::UnreadableCalls, 100),
    (FaultKind::DeadLetters, 100),
    (FaultKind::ClockSkew, 100),
    (FaultKind::SecondSender, 75),
    (FaultKind::UnreportedCalls, 100),
    (FaultKind::Rush, 100),
];

/// The part of the run that a kind of fault disturbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Only webhooks on their way.
    Webhooks,
    /// Only the clocks.
    Clocks,
    /// Only the requests for calls.
    Requests,
    /// The functions, or what AWS runs around them.
    Functions,
    /// The provider that places calls for Switchhook.
    Provider,
}

impl FaultKind {
    pub(crate) const fn reach(self) -> Reach {
        match self {
            Self::DuplicateWebhook
            | Self::DelayedWebhook
            | Self::ReorderedWebhooks
            | Self::LostWebhook
            | Self::TwoEndings
            | Self::KeyRotation
            | Self::SecondSender
            | Self::UnreportedCalls => Reach::Webhooks,
            Self::ClockSkew => Reach::Clocks,
            Self::Rush => Reach::Requests,
            Self::Throttled
            | Self::Conflict
            | Self::ServerError
            | Self::ErrorAfterEffect
            | Self::NotSent
            | Self::ResponseLost
            | Self::Timeout
            | Self::Slow
            | Self::FunctionCrash
            | Self::LaggingIndex
            | Self::UnreadableCalls
            | Self::DeadLetters
            | Self::VisibilityOverlap
            | Self::NotDeleted
            | Self::DuplicateClaim
            | Self::LateClaim
            | Self::DuplicateSchedule
            | Self::MissedSchedule
            | Self::RelayDown
            | Self::BusRefusal
            | Self::Poison
            | Self::DialerCrash => Reach::Functions,
            Self::ProviderDown
            | Self::ProviderSilent
            | Self::ErrorAfterDial
            | Self::AccountProblem
            | Self::KeyRefused
            | Self::ProviderBusy
            | Self::OverCapacity => Reach::Provider,
        }
    }
}

impl FaultKind {
    /// True if the provider answers no lookup.
    pub(crate) const fn refuses_lookups(self) -> bool {
        matches!(self, Self::ProviderDown | Self::ProviderSilent | Self::KeyRefused)
    }
}

/// A kind of fault, and the time during which it is injected, in seconds from the start of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedFault {
    pub(crate) kind: FaultKind,
    pub(crate) percent: u8,
    pub(crate) from: u64,
    pub(crate) until: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Seed of every random choice while the plan is carried out.
    pub(crate) seed: u64,
    pub(crate) external_calls: Vec<ExternalCall>,
    pub(crate) call_requests: Vec<CallRequest>,
    pub(crate) faults: Vec<PlannedFault>,
    /// Provider that refuses every request for the whole run, because of the account. Calls that name it go to Retell.
    pub(crate) closed_provider: &'static str,
    /// True if the faults of the provider are those of every provider, and not of Retell alone.
    pub(crate) are_all_providers_faulty: bool,
}

impl Plan {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let external_calls = (0..rng.usize(3..9)).map(|index| ExternalCall::draw(index, &mut rng.fork())).collect();
        let call_requests = (0..rng.usize(2..8)).map(|index| CallRequest::draw(index, &mut rng.fork())).collect();
        let turn = usize::try_from(seed % CYCLE).unwrap();
        let faults = match FAULT_KINDS.get(turn) {
            Some(alone) => vec![PlannedFault::draw(*alone, 0, &mut rng)],
            None if turn == FAULT_KINDS.len() => Vec::new(),
            None => {
                let some: Vec<(FaultKind, u8)> = FAULT_KINDS.into_iter().filter(|_| rng.u8(..5) == 0).collect();
                some.into_iter().map(|kind| PlannedFault::draw(kind, rng.u64(0..FAULTS_END / 2), &mut rng)).collect()
            }
        };
        let closed_provider = *rng.choice(&OTHER_PROVIDERS).unwrap();
        let are_all_providers_faulty = rng.bool();
        Self { seed, external_calls, call_requests, faults, closed_provider, are_all_providers_faulty }.with_rush()
    }

    /// True if the plan has a fault of this kind at some time.
    pub(crate) fn has_fault(&self, kind: FaultKind) -> bool {
        self.faults.iter().any(|fault| fault.kind == kind)
    }

    /// Milliseconds that the clock of each provider is ahead of the true time.
    pub(crate) fn provider_clocks(&self) -> BTreeMap<Provider, Millis> {
        if !self.has_fault(FaultKind::ClockSkew) {
            return BTreeMap::new();
        }
        let mut rng = Rng::with_seed(self.seed);
        let mut draw = || rng.i64(-PROVIDER_CLOCK_SKEW_MS_MAX..=PROVIDER_CLOCK_SKEW_MS_MAX);
        Provider::ALL.into_iter().map(|provider| (provider, draw())).collect()
    }

    /// A plan with the calls of this seed, and with these kinds of fault all the time.
    pub(crate) fn with_faults(seed: u64, kinds: &[FaultKind]) -> Self {
        let faults = FAULT_KINDS.into_iter().filter(|(kind, _)| kinds.contains(kind));
        let all_the_time = |(kind, percent)| PlannedFault { kind, percent, from: 0, until: FAULTS_END };
        Self { faults: faults.map(all_the_time).collect(), ..Self::draw(seed) }.with_rush()
    }

    /// Plans that lack one fault, one external call or one request of this plan.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        fn without<T: Clone>(all: &[T], index: usize) -> Vec<T> {
            all.iter().enumerate().filter(|(place, _)| *place != index).map(|(_, one)| one.clone()).collect()
        }
        let faults = (0..self.faults.len()).map(|index| Self { faults: without(&self.faults, index), ..self.clone() });
        let external_calls = (0..self.external_calls.len())
            .map(|index| Self { external_calls: without(&self.external_calls, index), ..self.clone() });
        let call_requests = (0..self.call_requests.len())
            .map(|index| Self { call_requests: without(&self.call_requests, index), ..self.clone() });
        faults.chain(external_calls).chain(call_requests).collect()
    }
}

impl PlannedFault {
    fn draw((kind, percent): (FaultKind, u8), from: u64, rng: &mut Rng) -> Self {
        // If lookups failed for longer, the reconciler would settle calls without the provider.
        let longest = if kind.refuses_lookups() { 6 * 60 } else { FAULTS_END - from };
        Self { kind, percent, from, until: from + rng.u64(longest / 2..=longest) }
    }
}
