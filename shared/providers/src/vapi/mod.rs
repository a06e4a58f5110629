//! Vapi.

mod client;
mod normalize;
mod payload;
mod signature;

pub(crate) use client::{VapiAccount, inquire, place, placed_id, told};
pub(crate) use normalize::read;
pub(crate) use signature::{sign, verify};
