//! Retell's signature: `x-retell-signature: v=<unix ms>,d=<hex>`.
//!
//! `d` is HMAC-SHA256 over the body, followed by the decimal milliseconds without a separator. As in Retell's own SDKs
//! (`webhook_auth.ts`, `webhook_auth.py`), the header must match exactly, the digest may be upper or lower case, and
//! the window is inclusive.

use switchhook_domain::Timestamp;

use crate::config::WebhookConfig;
use crate::hmac::{HmacSha256, matching_key, tag};
use crate::key::Key;
use crate::webhook::{SignedWebhook, UnverifiedWebhook, VerifyError, check_window, signature_header};

const HEADER: &str = "x-retell-signature";

pub(crate) fn verify(
    config: &WebhookConfig,
    webhook: &UnverifiedWebhook<'_>,
    now: Timestamp,
) -> Result<usize, VerifyError> {
    let header = signature_header(webhook.headers, HEADER)?;
    let (millis, digest) = parse(header).ok_or(VerifyError::MalformedSignature)?;
    let decimal = millis.to_string();
    let parts = [webhook.body, decimal.as_bytes()];
    let key_index = matching_key::<HmacSha256>(config.keys(), &parts, &digest).ok_or(VerifyError::WrongSignature)?;
    check_window(config, Timestamp::from_millis(millis), now)?;
    Ok(key_index)
}

pub(crate) fn sign(key: &Key, url: &str, body: &[u8], now: Timestamp) -> SignedWebhook {
    let millis = now.as_millis();
    let digest = hex::encode(tag::<HmacSha256>(key, &[body, millis.to_string().as_bytes()]));
    SignedWebhook {
        headers: vec![(HEADER, format!("v={millis},d={digest}"))],
        url: url.to_owned(),
        content_type: "application/json",
    }
}

/// Parses `^v=(\d+),d=([0-9a-fA-F]{64})$`. The number must fit into 64 bits.
fn parse(header: &str) -> Option<(i64, [u8; 32])> {
    let (millis, digest) = header.strip_prefix("v=")?.split_once(",d=")?;
    if !millis.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut bytes = [0; 32];
    hex::decode_to_slice(digest, &mut bytes).ok()?;
    Some((millis.parse().ok()?, bytes))
}
