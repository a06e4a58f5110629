//! The simulator: the production handlers over the real SDK clients, in virtual time, while everything around them goes wrong.
//!
//! One seed is one [`plan`]: calls whose truth is known ([`calls`]), and troubles. [`run`] carries it out, [`laws`] says what must
//! be true after every step and in the end. A run that breaks a law is made smaller and printed; and [`mutants`] shows that the
//! laws would notice if a part of the program were missing.
//!
//! `SWITCHHOOK_SIM_SEED=7` runs one seed and prints everything; `SWITCHHOOK_SIM_SEEDS=1000..2000` runs others than the usual.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and says what it did"
)]

mod calls;
mod event_sources;
mod final_state;
mod law;
mod mutants;
mod mutation;
mod observed;
mod plan;
mod run;
mod senders;
mod sim;
mod state;
mod watch;

use std::collections::BTreeMap;
use std::ops::Range;

use plan::{FAULT_KINDS, FaultKind, Plan};
use run::run;
use state::RunResult;

/// What every run of the tests goes through: each kind of trouble has several of these seeds to itself.
const SEEDS: Range<u64> = 0..160;
/// Test functions, and so threads, that share the seeds.
const SHARES: u64 = 4;
/// Runs that making a failing plan smaller may take.
const SHRINKS_MAX: usize = 120;
/// Lines of the log of a failing run that are printed.
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
fn one_seed_in_full() {
    let Some(seed) = std::env::var("SWITCHHOOK_SIM_SEED").ok() else { return };
    let plan = Plan::draw(seed.parse().unwrap());
    println!("{plan:#?}");
    let result = run(&plan, None);
    println!("{}\n{:?}", result.trace.join("\n"), result.injected);
    assert!(result.violation.is_none(), "{:?}", result.violation);
}

/// A share of the seeds, all of which hold every law; and each trouble of each plan was made.
fn check_share(share: u64) {
    let asked_for = std::env::var("SWITCHHOOK_SIM_SEEDS").ok().map(|range| {
        let (from, to) = range.split_once("..").unwrap_or(("0", &range));
        from.parse().unwrap()..to.parse().unwrap()
    });
    let seeds = asked_for.clone().unwrap_or(SEEDS);
    let mut injected: BTreeMap<FaultKind, u64> = BTreeMap::new();
    for seed in seeds.filter(|seed| seed % SHARES == share) {
        let plan = Plan::draw(seed);
        let result = run(&plan, None);
        if result.violation.is_some() {
            fail(plan, result);
        }
        assert!(result.verified_calls > 0, "seed {seed}: no call came to its true ending");
        for (kind, count) in result.injected {
            *injected.entry(kind).or_default() += count;
        }
    }
    println!("share {share}: {injected:?}");
    if asked_for.is_none() {
        // Those that have seeds of this share to themselves.
        let own = FAULT_KINDS.into_iter().zip((0..SHARES).cycle()).filter(|(_, of)| *of == share);
        let missing: Vec<FaultKind> =
            own.map(|((kind, _), _)| kind).filter(|kind| !injected.contains_key(kind)).collect();
        assert!(missing.is_empty(), "never injected: {missing:?}");
    }
}

/// Makes a plan that breaks a law smaller, as far as it still breaks the same one, and fails with it.
fn fail(mut plan: Plan, mut result: RunResult) -> ! {
    println!("seed {} breaks {:?}; now it is made smaller", plan.seed, result.violation);
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
    panic!(
        "SWITCHHOOK_SIM_SEED={} breaks {:?}\nwith {} calls of others, {:#?} and {:#?} (after {runs} smaller runs):\n{}",
        plan.seed,
        result.violation,
        plan.external_calls.len(),
        plan.call_requests,
        plan.faults,
        result.trace[from..].join("\n"),
    );
}
