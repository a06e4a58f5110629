//! `telnyx-timestamp: <unix seconds>`, `telnyx-signature-ed25519: <base64>`: Ed25519 over `{timestamp}|{body}`. After Telnyx's own SDK
//! (`telnyx-node/src/lib/webhooks.ts`).
//!
//! A key of the configuration is the account's public key: base64 of its 32 bytes. Anybody may know it; only Telnyx can sign. To sign as
//! Telnyx would, the key is the private half instead.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::{SECRET_KEY_LENGTH, Signature, Signer, SigningKey, VerifyingKey};
use sha2::{Digest, Sha256};
use switchhook_domain::Timestamp;

use crate::config::ProviderConfig;
use crate::key::Key;
use crate::webhook::{SignedWebhook, UnverifiedWebhook, VerifyError, check_window, single_header};

const TIMESTAMP_HEADER: &str = "telnyx-timestamp";
const SIGNATURE_HEADER: &str = "telnyx-signature-ed25519";

pub(crate) fn verify(
    config: &ProviderConfig,
    webhook: &UnverifiedWebhook<'_>,
    now: Timestamp,
) -> Result<usize, VerifyError> {
    let signature = single_header(
        webhook.headers,
        SIGNATURE_HEADER,
        VerifyError::MissingSignature,
        VerifyError::MalformedSignature,
    )?;
    let timestamp = single_header(
        webhook.headers,
        TIMESTAMP_HEADER,
        VerifyError::MissingTimestamp,
        VerifyError::MalformedTimestamp,
    )?;
    let signature = parse_signature(signature).ok_or(VerifyError::MalformedSignature)?;
    let signed_at = parse_timestamp(timestamp).ok_or(VerifyError::MalformedTimestamp)?;
    let message = message(timestamp, webhook.body);
    // Strict: a signature that another form of the same key or of itself would pass is refused.
    let made_this =
        |key: &Key| parse_public_key(key).is_some_and(|key| key.verify_strict(&message, &signature).is_ok());
    let key_index = config.keys().iter().position(made_this).ok_or(VerifyError::WrongSignature)?;
    check_window(config, signed_at, now)?;
    Ok(key_index)
}

pub(crate) fn sign(key: &Key, url: &str, body: &[u8], now: Timestamp) -> SignedWebhook {
    let timestamp = now.as_millis().div_euclid(1000).to_string();
    let signature = signing_key(key).sign(&message(&timestamp, body));
    SignedWebhook {
        headers: vec![(SIGNATURE_HEADER, BASE64_STANDARD.encode(signature.to_bytes())), (TIMESTAMP_HEADER, timestamp)],
        url: url.to_owned(),
        content_type: "application/json",
    }
}

/// The public key, as it is configured, of what [`sign`] signs with.
pub(crate) fn public_key(key: &Key) -> String {
    BASE64_STANDARD.encode(signing_key(key).verifying_key().as_bytes())
}

/// True if signatures can be checked with it.
pub(crate) fn is_public_key(key: &Key) -> bool {
    parse_public_key(key).is_some()
}

fn parse_public_key(key: &Key) -> Option<VerifyingKey> {
    let bytes: [u8; 32] = BASE64_STANDARD.decode(key.as_bytes()).ok()?.try_into().ok()?;
    VerifyingKey::from_bytes(&bytes).ok().filter(|key| !key.is_weak())
}

/// The key's text is base64 of the 32 bytes of the private seed. Any other text stands for the seed that is its SHA-256, so that a test
/// rig may sign with whatever it has.
fn signing_key(key: &Key) -> SigningKey {
    let decoded = BASE64_STANDARD.decode(key.as_bytes()).ok();
    let seed: Option<[u8; SECRET_KEY_LENGTH]> = decoded.and_then(|bytes| bytes.try_into().ok());
    SigningKey::from_bytes(&seed.unwrap_or_else(|| Sha256::digest(key.as_bytes()).into()))
}

fn message(timestamp: &str, body: &[u8]) -> Vec<u8> {
    [timestamp.as_bytes(), b"|", body].concat()
}

fn parse_signature(header: &str) -> Option<Signature> {
    let bytes: [u8; 64] = BASE64_STANDARD.decode(header).ok()?.try_into().ok()?;
    Some(Signature::from_bytes(&bytes))
}

/// Digits alone, and within 64 bits as milliseconds too.
fn parse_timestamp(header: &str) -> Option<Timestamp> {
    if !header.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let seconds: i64 = header.parse().ok()?;
    Some(Timestamp::from_millis(seconds.checked_mul(1000)?))
}
