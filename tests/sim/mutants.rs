//! The test of the simulator: if a part of the program is missing, a run must break the law that the part exists for.
//!
//! The program itself is not changed. A part acts by sending a request or by answering its event source, so the
//! mutation happens there. For example, the request reaches DynamoDB without its condition, or it never reaches SQS and
//! gets a faked success.

use crate::law::Law;
use crate::mutation::Mutation;
use crate::plan::{FaultKind, Plan};
use crate::run::run;

struct Mutant {
    mutation: Mutation,
    /// Faults under which the missing part makes a difference.
    faults: &'static [FaultKind],
    /// Laws that may notice the mutant. The first law that a run breaks must be one of them.
    caught_by: &'static [Law],
}

const fn mutant(mutation: Mutation, faults: &'static [FaultKind], caught_by: &'static [Law]) -> Mutant {
    Mutant { mutation, faults, caught_by }
}

const MUTANTS: [Mutant; 8] = [
    mutant(
        Mutation::NoVersionCondition,
        &[FaultKind::VisibilityOverlap, FaultKind::ReorderedWebhooks],
        &[Law::OneContent, Law::VersionGrows, Law::IsFold, Law::Accounted],
    ),
    mutant(Mutation::NoResendOnDuplicate, &[FaultKind::FunctionCrash], &[Law::Accounted]),
    mutant(Mutation::TailNotFailed, &[FaultKind::Conflict, FaultKind::ReorderedWebhooks], &[Law::Accounted]),
    mutant(Mutation::SharedClaimToken, &[FaultKind::LateClaim], &[Law::ClaimInTime]),
    mutant(Mutation::NoClaimCondition, &[FaultKind::DuplicateClaim], &[Law::OnePhone]),
    mutant(Mutation::NoRelayRetry, &[FaultKind::BusRefusal], &[Law::Published]),
    mutant(Mutation::NoInboxCondition, &[FaultKind::DuplicateWebhook], &[Law::AcceptedOnce]),
    mutant(Mutation::NeverWakes, &[FaultKind::LostWebhook], &[Law::Settles]),
];

/// Seeds for each mutant. If none of them breaks a law, nobody notices the mutant.
const SEEDS: std::ops::Range<u64> = 0..40;

/// Checks every second mutant, from the first or from the second, so that two threads share the work.
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
            panic!("with {:?} none of {:?} is broken: {others:#?}", mutant.mutation, mutant.caught_by);
        };
        println!("with {:?} seed {seed} breaks {:?}: {:.200}", mutant.mutation, violation.law, violation.detail);
    }
}
