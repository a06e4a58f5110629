//! Twilio Programmable Voice.

mod client;
mod normalize;
mod payload;
mod signature;

pub(crate) use client::{dial_api_request, dialled_call_id, lookup_api_request, parse_lookup_answer, refusal};
pub(crate) use normalize::read;
pub(crate) use signature::{sign, verify};
