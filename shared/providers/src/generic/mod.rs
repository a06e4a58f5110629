//! Generic provider: our own scheme of events and signatures, for senders that have none.

mod normalize;
mod payload;
mod signature;

pub(crate) use normalize::read;
pub(crate) use signature::SCHEME;
