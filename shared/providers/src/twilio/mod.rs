//! Twilio Programmable Voice.

mod normalize;
mod payload;
mod signature;

pub(crate) use normalize::read;
pub(crate) use signature::{sign, verify};
