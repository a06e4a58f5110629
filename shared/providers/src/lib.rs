//! The webhooks of telephony providers, verified and read as call events, and the requests to their APIs. Pure: no IO, no clock, no randomness; `now` is an argument.
//!
//! [`verify`] turns an [`UnverifiedWebhook`] into a [`VerifiedWebhook`], and nothing else can; [`read`] turns that into a
//! [`Reading`]. **What decides what an event is, which call it belongs to and whether it was seen before is read from signed bytes
//! only.** [`dial_api_request`] and [`lookup_api_request`] make the requests that place a call and ask about one, [`read_dial_answer`] and [`read_lookup_answer`] read what
//! comes back. Each provider is one folder: `signature.rs` knows the scheme, `payload.rs` the vendor's words, `normalize.rs` what they
//! mean, `client.rs` the API (generic has none). What several providers share stands beside the folders.

mod client;
mod config;
mod content_hash;
mod correlation;
mod ending;
mod form;
mod generic;
mod hmac;
mod ids;
mod key;
mod lenient;
mod normalized;
mod reading;
mod retell;
mod samples;
mod telnyx;
mod twilio;
mod user_decision;
mod vapi;
mod webhook;

pub use client::{
    ApiRequest, ClientError, DialAnswer, DialRequest, Lookup, LookupAnswer, api_url, derived_call_id, dial_api_request,
    lookup_api_request, read_dial_answer, read_lookup_answer,
};
pub use config::{ConfigError, DEDUPE_RETENTION, DialConfig, ProviderConfig, Providers, WINDOW_MAX};
pub use content_hash::content_hash;
pub use ids::{DO_NOT_CALL_PREFIX, ID_BYTES_MAX};
pub use key::{Key, KeyError};
pub use reading::{ReadError, Reading, read};
pub use samples::samples;
pub use webhook::{SignedWebhook, UnverifiedWebhook, VerifiedWebhook, VerifyError, sign, verify, verifying_key};
