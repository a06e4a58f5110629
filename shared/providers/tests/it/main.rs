//! Tests of the crate's public functions: one binary, so that linking stays quick.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use switchhook_providers::{ConfigError, KeyLengths, ProvidersFile};

mod api;
mod configured;
mod decision;
mod dialling;
mod discovery;
mod folding;
mod lookups;
mod orders;
mod pages;
mod plivo_search;
mod plivo_signatures;
mod random;
mod reading;
mod samples;
mod signature_modes;
mod signatures;
mod tokens;
mod vonage_dialling;
mod vonage_search;

/// Reads a providers file. Its keys may be as short as those of the vendors' own test vectors.
fn providers_file(json: &str) -> Result<ProvidersFile, ConfigError> {
    ProvidersFile::parse(json, KeyLengths::Any)
}
