//! The webhooks of telephony providers, verified and read as call events. Pure: no IO, no clock, no randomness; `now` is an argument.
//!
//! [`verify`] turns an [`UnverifiedWebhook`] into a [`VerifiedWebhook`], and nothing else can; [`read`] turns that into a
//! [`Reading`]. **What decides what an event is, which call it belongs to and whether it was seen before is read from signed bytes
//! only.** Each provider is one folder: `signature.rs` knows the scheme, `payload.rs` the vendor's words, `normalize.rs` what they
//! mean. What several providers share stands beside the folders.

mod config;
mod content;
mod correlation;
mod form;
mod generic;
mod hmac;
mod ids;
mod key;
mod reading;
mod report;
mod retell;
mod samples;
mod twilio;
mod webhook;
mod wire;

pub use config::{ConfigError, DEDUPE_RETENTION, ProviderConfig, Providers, WINDOW_MAX};
pub use content::content_hash;
pub use ids::ID_BYTES_MAX;
pub use key::{Key, KeyError};
pub use reading::{ReadError, Reading, read};
pub use samples::samples;
pub use webhook::{Signed, UnverifiedWebhook, VerifiedWebhook, VerifyError, sign, verify};
