//! ElevenLabs' signature: `ElevenLabs-Signature: t=<unix s>,v0=<hex>`.
//!
//! `v0` is HMAC-SHA256 over the decimal seconds, a full stop, and the body. The secret is used as text. The header must hold
//! each of the two fields once. Other fields are ignored, because a later version of the scheme may add them.

use switchhook_domain::Timestamp;

use crate::config::WebhookConfig;
use crate::hmac::{HmacSha256, matching_key, tag};
use crate::key::Key;
use crate::webhook::{
    SignedWebhook, UnverifiedWebhook, VerifyError, check_window, parse_unix_seconds, signature_header,
};

const HEADER: &str = "elevenlabs-signature";

pub(crate) fn verify(
    config: &WebhookConfig,
    webhook: &UnverifiedWebhook<'_>,
    now: Timestamp,
) -> Result<usize, VerifyError> {
    let header = signature_header(webhook.headers, HEADER)?;
    let (seconds, signed_at, digest) = parse(header).ok_or(VerifyError::MalformedSignature)?;
    let parts = [seconds.as_bytes(), b".", webhook.body];
    let key_index = matching_key::<HmacSha256>(config.keys(), &parts, &digest).ok_or(VerifyError::WrongSignature)?;
    check_window(config, signed_at, now)?;
    Ok(key_index)
}

pub(crate) fn sign(key: &Key, url: &str, body: &[u8], now: Timestamp) -> SignedWebhook {
    let seconds = now.as_millis().div_euclid(1000).to_string();
    let digest = hex::encode(tag::<HmacSha256>(key, &[seconds.as_bytes(), b".", body]));
    SignedWebhook {
        headers: vec![(HEADER, format!("t={seconds},v0={digest}"))],
        url: url.to_owned(),
        content_type: "application/json",
    }
}

/// Parses the seconds, as they are signed and as a time, and the digest.
fn parse(header: &str) -> Option<(&str, Timestamp, [u8; 32])> {
    let mut digest = [0; 32];
    hex::decode_to_slice(field(header, "v0")?, &mut digest).ok()?;
    let seconds = field(header, "t")?;
    Some((seconds, parse_unix_seconds(seconds)?, digest))
}

/// Value of the field of this name. `None` if the header has no such field, or several: nothing says which of them counts.
fn field<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    let mut values = header.split(',').filter_map(|field| {
        let (field_name, value) = field.split_once('=')?;
        (field_name == name).then_some(value)
    });
    values.next().filter(|_| values.next().is_none())
}
