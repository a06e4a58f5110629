//! The test harness: a local stack in virtual time, a sender of signed webhooks, and methods that read what became of them.

#![expect(clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod attention;
pub mod contract;
mod fixtures;
mod log_buffer;
mod recorded;
mod stack;
mod tables;
mod world;

pub use fixtures::*;
pub use stack::{stack_for, stack_of, stack_with};
pub use tables::Item;
pub use world::World;
