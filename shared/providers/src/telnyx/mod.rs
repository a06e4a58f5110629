//! Telnyx Call Control.

mod client;
mod normalize;
mod payload;
mod refusal;
mod signature;

pub(crate) use client::{
    Search, dial_api_request, dialled_call_id, discovery_request, is_unknown, next_step, parse_page, start_search,
};
pub(crate) use normalize::read;
pub(crate) use refusal::refusal;
pub(crate) use signature::SCHEME;
