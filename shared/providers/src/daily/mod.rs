//! Daily: rooms with phones. Switchhook places no calls there, because the API puts a phone into a room that must exist already, with
//! an agent in it.

mod normalize;
mod payload;
mod signature;

pub(crate) use normalize::read;
pub(crate) use signature::{SCHEME, sign, verifying_key};
