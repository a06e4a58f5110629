//! Twilio Programmable Voice.

mod client;
mod normalize;
mod payload;
mod signature;

pub(crate) use client::{TwilioAccount, inquire, place, placed_id, told};
pub(crate) use normalize::read;
pub(crate) use signature::{BODY_HASH, sign, verify};
