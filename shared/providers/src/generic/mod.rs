//! Generic provider: the scheme for every sender that has none of its own.

mod normalize;
mod payload;
mod signature;

pub(crate) use normalize::read;
pub(crate) use signature::{sign, verify};
