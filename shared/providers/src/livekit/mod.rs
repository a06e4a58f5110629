//! LiveKit, with telephone calls over SIP.

mod client;
mod normalize;
mod payload;
mod signature;

pub(crate) use client::{Search, dial_api_request, dialled_call_id, next_step, refusal, start_search};
pub(crate) use normalize::read;
pub(crate) use signature::{sign, verify};
