//! The webhooks of telephony providers, verified and read as call events, and the requests to their APIs. Pure: no IO, no clock, no randomness; `now` is an argument.
//!
//! [`verify`] turns an [`UnverifiedWebhook`] into a [`VerifiedWebhook`], and nothing else can; [`read`] turns that into a
//! [`Reading`]. **What decides what an event is, which call it belongs to and whether it was seen before is read from signed bytes
//! only.** [`place`] and [`inquire`] make the requests that place a call and ask about one, [`read_placed`] and [`read_told`] read what
//! comes back. Each provider is one folder: `signature.rs` knows the scheme, `payload.rs` the vendor's words, `normalize.rs` what they
//! mean, `client.rs` the API (generic has none). What several providers share stands beside the folders.

mod analysis;
mod client;
mod config;
mod content;
mod correlation;
mod ending;
mod form;
mod generic;
mod hmac;
mod ids;
mod key;
mod reading;
mod report;
mod retell;
mod samples;
mod telnyx;
mod twilio;
mod vapi;
mod webhook;
mod wire;

pub use client::{
    ApiRequest, ClientError, DialOrder, Inquiry, Placed, Told, api_url, inquire, place, provider_call_key, read_placed,
    read_told,
};
pub use config::{ConfigError, DEDUPE_RETENTION, Dial, ProviderConfig, Providers, WINDOW_MAX};
pub use content::content_hash;
pub use ids::{DO_NOT_CALL_PREFIX, ID_BYTES_MAX};
pub use key::{Key, KeyError};
pub use reading::{ReadError, Reading, read};
pub use samples::samples;
pub use webhook::{Signed, UnverifiedWebhook, VerifiedWebhook, VerifyError, sign, verify, verifying_key};
