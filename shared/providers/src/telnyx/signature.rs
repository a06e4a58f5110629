//! Telnyx's signature: Ed25519 over `{timestamp}|{body}`, as in Telnyx's own SDK (`telnyx-node/src/lib/webhooks.ts`).
//!
//! Headers: `telnyx-timestamp: <unix seconds>` and `telnyx-signature-ed25519: <base64>`. A configured key is the
//! account's public key: base64 of its 32 bytes. It is not secret, because only Telnyx can sign. [`sign`] takes the
//! private key instead.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::{SECRET_KEY_LENGTH, Signature, Signer, SigningKey};
use sha2::{Digest, Sha256};
use switchhook_domain::Timestamp;

use crate::config::WebhookConfig;
use crate::ed25519::parse_public_key;
use crate::key::Key;
use crate::webhook::{
    SignedWebhook, UnverifiedWebhook, VerifyError, check_window, parse_unix_seconds, signature_header, timestamp_header,
};

const TIMESTAMP_HEADER: &str = "telnyx-timestamp";
const SIGNATURE_HEADER: &str = "telnyx-signature-ed25519";

pub(crate) fn verify(
    config: &WebhookConfig,
    webhook: &UnverifiedWebhook<'_>,
    now: Timestamp,
) -> Result<usize, VerifyError> {
    let signature = signature_header(webhook.headers, SIGNATURE_HEADER)?;
    let timestamp = timestamp_header(webhook.headers, TIMESTAMP_HEADER)?;
    let signature = parse_signature(signature).ok_or(VerifyError::MalformedSignature)?;
    let signed_at = parse_unix_seconds(timestamp).ok_or(VerifyError::MalformedTimestamp)?;
    let message = message(timestamp, webhook.body);
    // Strict: rejects signatures and keys in a second, equivalent encoding, which the plain check would accept.
    let made_this =
        |key: &Key| parse_public_key(key).is_some_and(|key| key.verify_strict(&message, &signature).is_ok());
    let key_index = config.keys().iter().position(made_this).ok_or(VerifyError::WrongSignature)?;
    check_window(config.window(), signed_at, now)?;
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

/// Public key, as the configuration holds it, for webhooks that [`sign`] made with this key.
pub(crate) fn public_key(key: &Key) -> String {
    BASE64_STANDARD.encode(signing_key(key).verifying_key().as_bytes())
}

/// Private key from the base64 of its 32-byte seed. Any other text is hashed to a seed with SHA-256, so that tests can
/// sign with any key.
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
