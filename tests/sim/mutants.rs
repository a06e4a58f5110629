//! The test of the simulator: if the program lacks a safeguard, a run must break the law behind it.
//!
//! The program itself is not changed. A mutation changes a request that the program sends to AWS, or its answer to an
//! event source. For example, the request reaches DynamoDB without its condition. Or the request never reaches SQS and
//! gets a faked success.

use crate::law::Law;
use crate::mutation::Mutation;
use crate::plan::{FaultKind, Plan};
use crate::requests::{CallRequest, Delivery, Fallback};
use crate::run::run;

struct Mutant {
    mutation: Mutation,
    /// Faults under which the missing safeguard makes a difference.
    faults: &'static [FaultKind],
    /// Laws that the mutant is expected to break. In at least one run, the first broken law must be one of them.
    caught_by: &'static [Law],
}

const fn mutant(mutation: Mutation, faults: &'static [FaultKind], caught_by: &'static [Law]) -> Mutant {
    Mutant { mutation, faults, caught_by }
}

const MUTANTS: [Mutant; 33] = [
    mutant(
        Mutation::NoVersionCondition,
        &[FaultKind::VisibilityOverlap, FaultKind::ReorderedWebhooks],
        &[Law::OneContent, Law::VersionGrows, Law::IsFold, Law::Accounted],
    ),
    mutant(Mutation::NoResendOnDuplicate, &[FaultKind::FunctionCrash], &[Law::Accounted]),
    mutant(
        Mutation::TailNotFailed,
        &[FaultKind::Conflict, FaultKind::Throttled, FaultKind::ServerError, FaultKind::ReorderedWebhooks],
        &[Law::Settles, Law::Accounted],
    ),
    mutant(Mutation::SharedClaimToken, &[FaultKind::LateClaim], &[Law::ClaimInTime]),
    mutant(Mutation::NoClaimCondition, &[FaultKind::DuplicateClaim], &[Law::OnePhone]),
    mutant(Mutation::NoRelayRetry, &[FaultKind::BusRefusal], &[Law::Published]),
    mutant(Mutation::NoInboxCondition, &[FaultKind::DuplicateWebhook], &[Law::AcceptedOnce]),
    mutant(Mutation::NeverWakes, &[FaultKind::LostWebhook], &[Law::Settles]),
    mutant(Mutation::LostAnswerWithdrawn, &[], &[Law::OnePhone]),
    mutant(Mutation::DoubtForgotten, &[], &[Law::DoubtEnds]),
    mutant(Mutation::NoAdoption, &[], &[Law::Accounted, Law::IsFold]),
    mutant(Mutation::NoDoNotCallList, &[], &[Law::NoBlockedNumber]),
    mutant(Mutation::NoWindow, &[], &[Law::WindowOpen]),
    mutant(Mutation::UnheardRetried, &[], &[Law::NotAfterAnswer]),
    mutant(Mutation::RefusalFails, &[FaultKind::AccountProblem], &[Law::NoFailureWithoutReason]),
    mutant(Mutation::NoCircuit, &[FaultKind::AccountProblem], &[Law::FewRefusedDials]),
    mutant(Mutation::NoFallback, &[], &[Law::Settles]),
    mutant(Mutation::NoWindowGuard, &[FaultKind::LateClaim], &[Law::WindowOpen]),
    mutant(Mutation::DoubtGivenToOtherProvider, &[], &[Law::OnePhone]),
    mutant(Mutation::NoOldKey, &[FaultKind::KeyRotation], &[Law::Answered]),
    mutant(Mutation::NotStored, &[], &[Law::Stored]),
    mutant(Mutation::OlderRowWritten, &[], &[Law::NeverRegresses]),
    mutant(Mutation::NoAttemptLimit, &[], &[Law::Truth]),
    mutant(Mutation::NumberInTraceId, &[], &[Law::NothingLeaks]),
    mutant(
        Mutation::DeadLetteredAtOnce,
        &[FaultKind::Conflict, FaultKind::Throttled, FaultKind::ServerError],
        &[Law::DeadLettersAreUnreadable],
    ),
    mutant(Mutation::LeftShardsForgotten, &[FaultKind::FunctionCrash], &[Law::Accounted]),
    mutant(Mutation::WaitingUnnoted, &[FaultKind::UnreadableCalls], &[Law::Settles, Law::Accounted]),
    mutant(
        Mutation::WaitingNotRetried,
        &[FaultKind::UnreadableCalls],
        &[Law::Settles, Law::DeadLettersAreUnreadable, Law::Accounted],
    ),
    mutant(Mutation::WaitingUnlisted, &[FaultKind::UnreadableCalls], &[Law::NotAfterAnswer]),
    mutant(Mutation::RedriveNotSent, &[FaultKind::DeadLetters], &[Law::Settles]),
    mutant(Mutation::ListsUnread, &[FaultKind::UnreportedCalls], &[Law::Discovered]),
    mutant(Mutation::NoPlaces, &[FaultKind::Rush], &[Law::DialRate]),
    mutant(Mutation::InFlightUncounted, &[FaultKind::Rush], &[Law::DialRate]),
];

/// Seeds of the runs with each mutant. The runs end with the first one that breaks an expected law.
const SEEDS: std::ops::Range<u64> = 0..40;

/// Checks that the adoption of orphaned events keeps the laws by itself: the sweep, which would heal a call without it,
/// is off.
pub(crate) fn check_adoption_without_sweep() {
    let has_orphans = |request: &CallRequest| {
        request.delivery == Delivery::WithoutIds
            && request.behaviours.contains(&"response_lost")
            && request.fallback == Fallback::None
    };
    let plans = SEEDS.map(|seed| Plan::with_faults(seed, &[]));
    let plans: Vec<Plan> = plans.filter(|plan| plan.call_requests.iter().any(has_orphans)).take(3).collect();
    assert_eq!(plans.len(), 3);
    for plan in plans {
        let result = run(&plan, Some(Mutation::NoSweep));
        assert!(result.violation.is_none(), "seed {}: {:?}", plan.seed, result.violation);
    }
}

/// Checks that the sweep and its workers keep the laws by themselves: a duplicate webhook queues nothing again.
pub(crate) fn check_sweep_alone() {
    for seed in SEEDS.take(12) {
        let plan =
            Plan::with_faults(seed, &[FaultKind::FunctionCrash, FaultKind::NotDeleted, FaultKind::DuplicateSchedule]);
        let result = run(&plan, Some(Mutation::OnlySweepResends));
        assert!(result.violation.is_none(), "seed {seed}: {:?}", result.violation);
    }
}

/// Checks every second mutant, beginning with the first (`half` 0) or the second (`half` 1). Two tests share the work.
pub(crate) fn check(half: usize) {
    for mutant in MUTANTS.iter().skip(half).step_by(2) {
        let plans = SEEDS.map(|seed| Plan::with_faults(seed, mutant.faults));
        let violations = plans.filter_map(|plan| Some((plan.seed, run(&plan, Some(mutant.mutation)).violation?)));
        let mut others = Vec::new();
        let caught = violations.into_iter().find(|(seed, violation)| {
            others.push(format!("{seed}: {violation:?}"));
            mutant.caught_by.contains(&violation.law)
        });
        let Some((seed, violation)) = caught else {
            panic!(
                "with {:?}, no run breaks a law of {:?}; violations: {others:#?}",
                mutant.mutation, mutant.caught_by
            );
        };
        println!("with {:?} seed {seed} breaks {:?}: {:.200}", mutant.mutation, violation.law, violation.detail);
    }
}
