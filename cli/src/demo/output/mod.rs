//! The output of the demo: a summary for people or programs, and five calls in full.

mod summary;
mod text;
mod timelines;

pub(super) use summary::Summary;
pub(super) use text::print_summary;
pub(super) use timelines::print_timelines;
