//! Configuration of random tests.
//!
//! **A random test draws the same cases in every run**, so `make test` gives the same result each time. `make soak`
//! draws new cases: it sets proptest's own variables `PROPTEST_RNG_SEED` and `PROPTEST_CASES`. Cases that failed once
//! are kept in `proptest-regressions` files, and every run tries them first.

#![expect(clippy::panic, clippy::print_stdout, reason = "a test prints for people, and fails by a panic")]

use proptest::test_runner::{Config, FileFailurePersistence, RngSeed, contextualize_config};

/// Seed of every random test, unless `PROPTEST_RNG_SEED` is set. Any other number would do as well.
const SEED: u64 = 2026;

/// Name of the module that holds the random tests of a file. `make soak` selects tests by this name.
const MODULE: &str = "random";

/// Returns the configuration of the random test that calls it: `cases` cases, drawn from the fixed seed.
///
/// `regressions` is the file in which proptest keeps the cases that failed, relative to the test's package. This
/// function also prints the command that repeats the test. `cargo test` shows that output only if the test fails.
///
/// # Panics
/// If the test is not in a module named `random`, because `make soak` would not run it.
#[must_use]
pub fn config(cases: u32, regressions: Option<&'static str>) -> Config {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    if !test.split("::").any(|module| module == MODULE) {
        panic!("move the random test {test:?} into a module named `{MODULE}`: `make soak` runs only those");
    }
    let config = contextualize_config(Config {
        cases,
        rng_seed: RngSeed::Fixed(SEED),
        failure_persistence: regressions.map(|path| Box::new(FileFailurePersistence::Direct(path)) as _),
        ..Config::default()
    });
    // Cargo sets the variable for the tests that it runs.
    let package = std::env::var("CARGO_PKG_NAME").map(|name| format!(" -p {name}")).unwrap_or_default();
    println!(
        "to repeat: PROPTEST_RNG_SEED={} PROPTEST_CASES={} cargo test --locked{package} {test} -- --exact",
        config.rng_seed, config.cases
    );
    config
}
