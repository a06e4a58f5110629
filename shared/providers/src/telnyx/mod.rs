//! Telnyx Call Control.

mod client;
mod normalize;
mod payload;
mod signature;

pub(crate) use client::{
    Search, dial_api_request, dialled_call_id, discovery_request, next_step, parse_page, refusal, start_search,
};
pub(crate) use normalize::read;
pub(crate) use signature::SCHEME;
