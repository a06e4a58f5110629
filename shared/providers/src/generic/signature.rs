//! Signature of the generic provider: HMAC-SHA256 over `{timestamp}.{body}`.
//!
//! Headers: `x-webhook-timestamp: <unix seconds>` and `x-webhook-signature: sha256=<hex>`.

use switchhook_domain::Timestamp;

use crate::config::WebhookConfig;
use crate::hmac::{HmacSha256, matching_key, tag};
use crate::key::Key;
use crate::webhook::{
    SignedWebhook, UnverifiedWebhook, VerifyError, check_window, parse_unix_seconds, signature_header, timestamp_header,
};

const TIMESTAMP_HEADER: &str = "x-webhook-timestamp";
const SIGNATURE_HEADER: &str = "x-webhook-signature";

pub(crate) fn verify(
    config: &WebhookConfig,
    webhook: &UnverifiedWebhook<'_>,
    now: Timestamp,
) -> Result<usize, VerifyError> {
    let signature = signature_header(webhook.headers, SIGNATURE_HEADER)?;
    let timestamp = timestamp_header(webhook.headers, TIMESTAMP_HEADER)?;
    let digest = parse_signature(signature).ok_or(VerifyError::MalformedSignature)?;
    let signed_at = parse_unix_seconds(timestamp).ok_or(VerifyError::MalformedTimestamp)?;
    let parts = [timestamp.as_bytes(), b".", webhook.body];
    let key_index = matching_key::<HmacSha256>(config.keys(), &parts, &digest).ok_or(VerifyError::WrongSignature)?;
    check_window(config, signed_at, now)?;
    Ok(key_index)
}

pub(crate) fn sign(key: &Key, url: &str, body: &[u8], now: Timestamp) -> SignedWebhook {
    let timestamp = now.as_millis().div_euclid(1000).to_string();
    let digest = hex::encode(tag::<HmacSha256>(key, &[timestamp.as_bytes(), b".", body]));
    SignedWebhook {
        headers: vec![(TIMESTAMP_HEADER, timestamp), (SIGNATURE_HEADER, format!("sha256={digest}"))],
        url: url.to_owned(),
        content_type: "application/json",
    }
}

fn parse_signature(header: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(header.strip_prefix("sha256=")?, &mut bytes).ok()?;
    Some(bytes)
}
