//! Vapi's signatures, as a server credential of Vapi makes them (`HmacAuthenticationPlan` in Vapi's own SDK).
//!
//! * HMAC over `{timestamp}.{body}`, or over the body alone. Header names, algorithm, encoding and prefix are
//!   configured as in the credential. By default: HMAC-SHA256 in hex, `x-signature` and `x-timestamp`.
//! * A shared secret in `X-Vapi-Secret`, or as a bearer token. **It signs nothing**, so it is accepted only if the
//!   configuration asks for it.
//!
//! Vapi does not document the unit of the timestamp, so the size of the number decides.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use subtle::ConstantTimeEq;
use switchhook_domain::Timestamp;

use crate::config::{HmacScheme, SignatureEncoding, VapiScheme, WebhookConfig};
use crate::hmac::{HmacSha256, tag};
use crate::key::Key;
use crate::webhook::{SignedWebhook, UnverifiedWebhook, VerifyError, check_window, signature_header, timestamp_header};

const TIMESTAMP_HEADER: &str = "x-timestamp";
const SIGNATURE_HEADER: &str = "x-signature";

/// Smallest timestamp that is read as milliseconds. As milliseconds it is in the year 1973, as seconds in the year
/// 5138.
const MILLIS_FROM: i64 = 100_000_000_000;

pub(crate) fn verify(
    config: &WebhookConfig,
    webhook: &UnverifiedWebhook<'_>,
    now: Timestamp,
) -> Result<usize, VerifyError> {
    match config.vapi_scheme() {
        VapiScheme::Hmac(scheme) => verify_hmac(config, scheme, webhook, now),
        VapiScheme::SharedSecret { header } => verify_secret(config, header, webhook.headers),
    }
}

fn verify_hmac(
    config: &WebhookConfig,
    scheme: &HmacScheme,
    webhook: &UnverifiedWebhook<'_>,
    now: Timestamp,
) -> Result<usize, VerifyError> {
    let signature = signature_header(webhook.headers, &scheme.signature_header)?;
    let signature = parse_signature(scheme, signature).ok_or(VerifyError::MalformedSignature)?;
    let timestamp = match &scheme.timestamp_header {
        Some(name) => Some(timestamp_header(webhook.headers, name)?),
        None => None,
    };
    let signed_at = match timestamp {
        Some(timestamp) => Some(parse_timestamp(timestamp).ok_or(VerifyError::MalformedTimestamp)?),
        None => None,
    };
    let parts: &[&[u8]] = match &timestamp {
        Some(timestamp) => &[timestamp.as_bytes(), b".", webhook.body],
        None => &[webhook.body],
    };
    let is_signed_with =
        |key: &Key| scheme.secret(key).is_some_and(|secret| scheme.algorithm.verifies(&secret, parts, &signature));
    let key_index = config.keys().iter().position(is_signed_with).ok_or(VerifyError::WrongSignature)?;
    if let Some(signed_at) = signed_at {
        check_window(config, signed_at, now)?;
    }
    Ok(key_index)
}

fn verify_secret(config: &WebhookConfig, header: &str, headers: &HeaderMap) -> Result<usize, VerifyError> {
    let value = signature_header(headers, header)?;
    let secret = if header == AUTHORIZATION.as_str() {
        let (scheme, token) = value.split_once(' ').ok_or(VerifyError::MalformedSignature)?;
        Some(token).filter(|_| scheme.eq_ignore_ascii_case("bearer")).ok_or(VerifyError::MalformedSignature)?
    } else {
        value
    };
    let is_key = |key: &Key| bool::from(key.as_bytes().ct_eq(secret.as_bytes()));
    config.keys().iter().position(is_key).ok_or(VerifyError::WrongSignature)
}

/// Signs with the default settings of a credential.
pub(crate) fn sign(key: &Key, url: &str, body: &[u8], now: Timestamp) -> SignedWebhook {
    let timestamp = now.as_millis().div_euclid(1000).to_string();
    let digest = hex::encode(tag::<HmacSha256>(key, &[timestamp.as_bytes(), b".", body]));
    SignedWebhook {
        headers: vec![(TIMESTAMP_HEADER, timestamp), (SIGNATURE_HEADER, digest)],
        url: url.to_owned(),
        content_type: "application/json",
    }
}

/// Signs with the configured settings of a credential. `None` if the key is not base64, although the credential promises base64.
pub(crate) fn sign_with(
    scheme: &VapiScheme,
    key: &Key,
    url: &str,
    body: &[u8],
    now: Timestamp,
) -> Option<SignedWebhook<String>> {
    let headers = match scheme {
        VapiScheme::Hmac(scheme) => {
            let timestamp = now.as_millis().div_euclid(1000).to_string();
            let signed: &[&[u8]] = match &scheme.timestamp_header {
                Some(_) => &[timestamp.as_bytes(), b".", body],
                None => &[body],
            };
            let tag = scheme.algorithm.tag(&scheme.secret(key)?, signed);
            let text = match scheme.encoding {
                SignatureEncoding::Hex => hex::encode(tag),
                SignatureEncoding::Base64 => BASE64_STANDARD.encode(tag),
            };
            let signature = (scheme.signature_header.clone(), format!("{}{text}", scheme.prefix));
            let timestamp = scheme.timestamp_header.clone().map(|header| (header, timestamp));
            timestamp.into_iter().chain([signature]).collect()
        }
        VapiScheme::SharedSecret { header } => {
            let is_bearer = header == AUTHORIZATION.as_str();
            let scheme = if is_bearer { "Bearer " } else { "" };
            vec![(header.clone(), format!("{scheme}{}", key.as_str()))]
        }
    };
    Some(SignedWebhook { headers, url: url.to_owned(), content_type: "application/json" })
}

fn parse_signature(scheme: &HmacScheme, header: &str) -> Option<Vec<u8>> {
    let text = header.strip_prefix(scheme.prefix.as_str())?;
    let bytes = match scheme.encoding {
        SignatureEncoding::Hex => hex::decode(text).ok(),
        SignatureEncoding::Base64 => BASE64_STANDARD.decode(text).ok(),
    }?;
    Some(bytes).filter(|bytes| bytes.len() == scheme.algorithm.tag_bytes())
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
