//! Tests of the crate's public functions: one binary, so that linking stays quick.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use switchhook_providers::{ConfigError, KeyLengths, ProvidersFile};

mod accounts;
mod api;
mod bland_dialling;
mod bland_search;
mod configured;
mod decision;
mod dialling;
mod discovery;
mod every_scheme;
mod fixtures;
mod folding;
mod livekit;
mod lookups;
mod named_schemes;
mod orders;
mod pages;
mod plivo_search;
mod plivo_signatures;
mod public_keys;
mod random;
mod reading;
mod samples;
mod signalwire_dialling;
mod signalwire_search;
mod signalwire_signatures;
mod signature_modes;
mod signatures;
mod sip;
mod telnyx_dialling;
mod telnyx_search;
mod tokens;
mod twilio_dialling;
mod twilio_search;
mod twilio_signatures;
mod vendor_packages;
mod vonage_dialling;
mod vonage_search;

/// Reads a providers file. Its keys may be as short as those of the vendors' own test vectors.
fn providers_file(json: &str) -> Result<ProvidersFile, ConfigError> {
    ProvidersFile::parse(json, KeyLengths::Any)
}
