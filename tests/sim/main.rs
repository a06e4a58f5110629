//! The simulator: it runs the production handlers over the real SDK clients in virtual time, and injects faults into
//! everything around them.
//!
//! One seed makes one [`plan`]: calls whose ground truth is known ([`calls`], [`requests`]), and faults. [`run`] carries the plan
//! out. The laws ([`law`]) are checked after every step ([`watch`]) and at the end ([`final_state`]). If a run breaks a
//! law, the simulator shrinks the plan and prints it. [`mutants`] shows that a law is broken when a safeguard of the
//! program is missing.
//!
//! `SWITCHHOOK_SIM_SEED=7` runs one seed and prints everything. `SWITCHHOOK_SIM_SEEDS=1000..2000` runs those seeds
//! instead of the usual ones. With `SWITCHHOOK_SIM_FAULTS=ClockSkew,Rush` both inject these kinds of fault instead of the drawn ones.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that cannot go on fails and prints its trace"
)]

mod calls;
mod dials;
mod event_sources;
mod final_state;
mod law;
mod mutants;
mod mutation;
mod observed;
mod operator;
mod pace;
mod plan;
mod requests;
mod run;
mod second_sender;
mod senders;
mod sim;
mod state;
mod unreported;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use law::Violation;
use plan::{FAULT_KINDS, FaultKind, Plan};
use run::run;
use state::RunResult;

/// Seeds that `cargo test` runs. For each kind of fault, two of the seeds have no other fault.
const SEEDS: Range<u64> = 0..160;
/// Number of test functions that share the seeds. They run on different threads.
const SHARES: u64 = 4;
/// Part of the names of the tests that inject several kinds of fault together.
const TOGETHER: &str = "under_other_faults";
/// Number of runs after which the shrinking of a failing plan stops.
const SHRINKS_MAX: usize = 120;
/// Number of lines of the trace that a failure prints.
const LINES_SHOWN: usize = 150;

#[test]
fn seeds_of_the_first_share_hold() {
    check_share(0);
}

#[test]
fn seeds_of_the_second_share_hold() {
    check_share(1);
}

#[test]
fn seeds_of_the_third_share_hold() {
    check_share(2);
}

#[test]
fn seeds_of_the_fourth_share_hold() {
    check_share(3);
}

#[test]
fn same_seed_is_the_same_run() {
    for seed in [3, 50] {
        let (one, two) = (run(&Plan::draw(seed), None), run(&Plan::draw(seed), None));
        assert!(one.trace.len() > 50);
        assert_eq!(one.trace, two.trace, "seed {seed}");
    }
    let plan = Plan::with_faults(3, &[FaultKind::DeadLetters, FaultKind::FunctionCrash]);
    let (one, two) = (run(&plan, None), run(&plan, None));
    assert!(one.repaired > 0);
    assert_eq!(one.trace, two.trace, "with dead letters");
    let kinds = [FaultKind::ClockSkew, FaultKind::SecondSender, FaultKind::UnreportedCalls, FaultKind::Rush];
    let plan = Plan::with_faults(3, &kinds);
    let (one, two) = (run(&plan, None), run(&plan, None));
    assert_eq!(one.injected.keys().copied().collect::<BTreeSet<_>>(), kinds.into_iter().collect());
    assert_eq!(one.trace, two.trace, "with {kinds:?}");
}

#[test]
fn missing_parts_are_noticed_one_half() {
    mutants::check(0);
}

#[test]
fn missing_parts_are_noticed_other_half() {
    mutants::check(1);
}

#[test]
fn orphaned_events_are_adopted_while_the_sweep_is_off() {
    mutants::check_adoption_without_sweep();
}

#[test]
fn lost_events_are_swept_although_shards_are_left_to_workers() {
    mutants::check_sweep_alone();
}

/// Faults that can separate an event from its message or its note, while many events wait. Overlapping consumers are not among them:
/// each receive counts, so a message that fails reaches the dead-letter queue before its event waits.
#[test]
fn events_that_wait_are_folded_under_other_faults() {
    let others = [
        FaultKind::Throttled,
        FaultKind::Slow,
        FaultKind::FunctionCrash,
        FaultKind::NotDeleted,
        FaultKind::DuplicateSchedule,
        FaultKind::MissedSchedule,
    ];
    check_kind(FaultKind::UnreadableCalls, &others, |result| result.waited, 50);
}

/// Faults that disturb the way of an event into the dead-letter queue, or out of it.
#[test]
fn dead_letters_are_folded_under_other_faults() {
    let others = [
        FaultKind::Throttled,
        FaultKind::Slow,
        FaultKind::FunctionCrash,
        FaultKind::NotDeleted,
        FaultKind::VisibilityOverlap,
        FaultKind::DuplicateSchedule,
    ];
    check_kind(FaultKind::DeadLetters, &others, |result| result.repaired, 50);
}

#[test]
fn one_seed_in_full() {
    let Some(seed) = std::env::var("SWITCHHOOK_SIM_SEED").ok() else { return };
    let plan = plan_of(seed.parse().unwrap());
    println!("{plan:#?}");
    let result = run(&plan, None);
    println!("{}\n{:?}", result.trace.join("\n"), result.injected);
    assert!(result.violation.is_none(), "{:?}", result.violation);
}

/// Runs a share of the seeds. Every run must keep every law. Each kind of fault that is alone in a seed of this share
/// must be injected.
fn check_share(share: u64) {
    let asked_for = seeds_asked_for();
    let seeds = asked_for.clone().unwrap_or(SEEDS);
    let mut injected: BTreeMap<FaultKind, u64> = BTreeMap::new();
    for seed in seeds.filter(|seed| seed % SHARES == share) {
        let plan = plan_of(seed);
        let result = run(&plan, None);
        if result.violation.is_some() {
            fail(plan, result);
        }
        assert!(result.verified_calls > 0, "no call was compared with its truth; to repeat: {}", command(seed));
        for (kind, count) in result.injected {
            *injected.entry(kind).or_default() += count;
        }
    }
    println!("share {share}: {injected:?}");
    if asked_for.is_none() {
        // The kinds of fault that are alone in a seed of this share.
        let own = FAULT_KINDS.into_iter().zip((0..SHARES).cycle()).filter(|(_, of)| *of == share);
        let missing: Vec<FaultKind> =
            own.map(|((kind, _), _)| kind).filter(|kind| !injected.contains_key(kind)).collect();
        assert!(missing.is_empty(), "these faults were never injected: {missing:?}");
    }
}

/// Runs twelve seeds with a kind of fault, and with others at the same time. Every run must keep every law. Each kind must be injected, and the
/// sum of `count` over the runs must be `at_least` so large. If seeds are asked for, it runs each fourth one, as a share does.
fn check_kind(kind: FaultKind, others: &[FaultKind], count: impl Fn(&RunResult) -> u64, at_least: u64) {
    let kinds = [&[kind], others].concat();
    let (mut counted, mut injected) = (0, BTreeSet::new());
    let asked_for = seeds_asked_for().map(|seeds| seeds.step_by(4).collect());
    for seed in asked_for.clone().unwrap_or_else(|| (0..12).collect::<Vec<u64>>()) {
        let result = run(&Plan::with_faults(seed, &kinds), None);
        if let Some(Violation { law, detail }) = result.violation {
            let next = seed + 1;
            panic!(
                "{}\nseed {seed} with {kinds:?} breaks the law {law:?}: {detail}\n\
                 To repeat it: SWITCHHOOK_SIM_SEEDS={seed}..{next} cargo test --locked -p switchhook-tests --test sim -- {TOGETHER}",
                result.trace.join("\n")
            );
        }
        counted += count(&result);
        injected.extend(result.injected.into_keys());
    }
    println!("{kind:?}: counted {counted}");
    if asked_for.is_none() {
        assert!(counted >= at_least, "{counted} instead of {at_least}");
        assert_eq!(injected, kinds.into_iter().collect());
    }
}

/// The plan of a seed, with the kinds of fault that are asked for.
fn plan_of(seed: u64) -> Plan {
    let Ok(names) = std::env::var("SWITCHHOOK_SIM_FAULTS") else { return Plan::draw(seed) };
    let kinds = FAULT_KINDS.map(|(kind, _)| kind).into_iter();
    let kinds: Vec<FaultKind> = kinds.filter(|kind| names.split(',').any(|name| format!("{kind:?}") == name)).collect();
    Plan::with_faults(seed, &kinds)
}

/// Seeds that are to be run instead of the usual ones.
fn seeds_asked_for() -> Option<Range<u64>> {
    let range = std::env::var("SWITCHHOOK_SIM_SEEDS").ok()?;
    let (from, to) = range.split_once("..").unwrap_or(("0", &range));
    Some(from.parse().unwrap()..to.parse().unwrap())
}

/// Shrinks a plan as long as it still breaks the same law. Then fails with the smallest plan.
fn fail(mut plan: Plan, mut result: RunResult) -> ! {
    println!("the plan of seed {} causes {:?}; it is being shrunk", plan.seed, result.violation);
    let law = |result: &RunResult| result.violation.as_ref().map(|violation| violation.law);
    let broken = law(&result);
    let mut runs = 0;
    'smaller: while runs < SHRINKS_MAX {
        for less in plan.smaller() {
            runs += 1;
            let again = run(&less, None);
            if law(&again) == broken {
                (plan, result) = (less, again);
                continue 'smaller;
            }
        }
        break;
    }
    let from = result.trace.len().saturating_sub(LINES_SHOWN);
    let law = result.violation.as_ref().map(|violation| format!("{:?}: {}", violation.law, violation.detail));
    panic!(
        "seed {} breaks the law {}\n\
         To repeat it: {}\n\
         After {runs} runs with smaller plans, the law still breaks with {} external calls, the requests {:#?} and the\n\
         faults {:#?}. The end of the trace:\n{}",
        plan.seed,
        law.unwrap_or_default(),
        command(plan.seed),
        plan.external_calls.len(),
        plan.call_requests,
        plan.faults,
        result.trace[from..].join("\n"),
    );
}

/// The command that repeats the run of one seed, and prints all of it.
fn command(seed: u64) -> String {
    let faults = std::env::var("SWITCHHOOK_SIM_FAULTS").map(|names| format!("SWITCHHOOK_SIM_FAULTS={names} "));
    let faults = faults.unwrap_or_default();
    format!(
        "{faults}SWITCHHOOK_SIM_SEED={seed} cargo test --locked -p switchhook-tests --test sim one_seed -- --nocapture"
    )
}
