//! Vapi's signature: HMAC-SHA256 over `{timestamp}.{body}`.
//!
//! Headers: `x-timestamp: <unix seconds or milliseconds>` and `x-signature: <hex>`. A server credential of the kind
//! "HMAC" makes them with its default settings (`HmacAuthenticationPlan` in Vapi's own SDK). Do not change those
//! settings, and do not set the secret as base64.
//!
//! Vapi does not document the unit of the timestamp, so the size of the number decides. Vapi's other credentials
//! (`X-Vapi-Secret`, a bearer token) sign nothing, so they are not accepted.

use switchhook_domain::Timestamp;

use crate::config::ProviderConfig;
use crate::hmac::{HmacSha256, matching_key, tag};
use crate::key::Key;
use crate::webhook::{SignedWebhook, UnverifiedWebhook, VerifyError, check_window, single_header};

const TIMESTAMP_HEADER: &str = "x-timestamp";
const SIGNATURE_HEADER: &str = "x-signature";

/// Smallest timestamp that is read as milliseconds. As milliseconds it is in the year 1973, as seconds in the year
/// 5138.
const MILLIS_FROM: i64 = 100_000_000_000;

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
    let mut digest = [0; 32];
    hex::decode_to_slice(signature, &mut digest).map_err(|_| VerifyError::MalformedSignature)?;
    let signed_at = parse_timestamp(timestamp).ok_or(VerifyError::MalformedTimestamp)?;
    let parts = [timestamp.as_bytes(), b".", webhook.body];
    let key_index = matching_key::<HmacSha256>(config.keys(), &parts, &digest).ok_or(VerifyError::WrongSignature)?;
    check_window(config, signed_at, now)?;
    Ok(key_index)
}

pub(crate) fn sign(key: &Key, url: &str, body: &[u8], now: Timestamp) -> SignedWebhook {
    let timestamp = now.as_millis().div_euclid(1000).to_string();
    let digest = hex::encode(tag::<HmacSha256>(key, &[timestamp.as_bytes(), b".", body]));
    SignedWebhook {
        headers: vec![(TIMESTAMP_HEADER, timestamp), (SIGNATURE_HEADER, digest)],
        url: url.to_owned(),
        content_type: "application/json",
    }
}

/// Parses decimal digits that fit into 64 bits.
fn parse_timestamp(header: &str) -> Option<Timestamp> {
    if !header.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: i64 = header.parse().ok()?;
    let millis = if number < MILLIS_FROM { number * 1000 } else { number };
    Some(Timestamp::from_millis(millis))
}
