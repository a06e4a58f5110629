//! The binary as people and scripts use it.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on fails; the allowances for tests do not cover their helpers"
)]

mod call;
mod demo;
mod dev;
mod fake;
mod help;
mod kill;
mod stack;
