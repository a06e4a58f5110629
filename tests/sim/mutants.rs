//! The simulator's own test: the program without one of its parts must be caught, and by the law that the part is there for.
//!
//! Nothing is switched off in the program. What a part does, it does by a request or by its answer to an event source; so it is
//! cut there: the request reaches its service without the condition, or not at all and is answered as if it had.

use crate::law::Law;
use crate::mutation::Mutation;
use crate::plan::{FaultKind, Plan};
use crate::run::run;

struct Mutant {
    mutation: Mutation,
    /// What must go wrong for the part to be missed.
    faults: &'static [FaultKind],
    /// The laws of which one must be broken first.
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

/// A mutant that lives through so many seeds is not caught.
const SEEDS: std::ops::Range<u64> = 0..40;

/// The rows of the table whose number is even, or odd: two threads.
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
