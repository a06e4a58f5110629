//! Telnyx Call Control.

mod client;
mod normalize;
mod payload;
mod signature;

pub(crate) use client::{TelnyxAccount, inquire, place, placed_id, told};
pub(crate) use normalize::read;
pub(crate) use signature::{is_public_key, public_key, sign, verify};
