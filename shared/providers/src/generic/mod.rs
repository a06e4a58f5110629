//! The generic provider: for a sender without a scheme of its own.

mod normalize;
mod payload;
mod signature;

pub(crate) use normalize::read;
pub(crate) use signature::{sign, verify};
