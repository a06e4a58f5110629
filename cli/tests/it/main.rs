//! The binary, called as users and scripts call it.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a helper that cannot go on fails its test; the lint allowances for tests do not cover helpers"
)]

mod audit;
mod bench;
mod call;
mod check;
mod configured;
mod demo;
mod dev;
mod events;
mod fake;
mod fake_aws;
mod forget;
mod help;
mod import;
mod kill;
mod operator;
mod playground;
mod repair;
mod ringing;
mod stack;
