//! Vonage's signature: a JSON Web Token in the header `Authorization`, signed with the signature secret of the account (HS256).
//!
//! The token covers the body by its claim `payload_hash`, the hex SHA-256. Vonage's own SDK does not compare this claim
//! (`vonage_jwt/verify_jwt.py`). **The token does not cover the query**, so nothing in it is used.
//!
//! The claim `api_key` names the account. Every configured secret is tried instead, so the claim decides nothing.

use serde_json::json;
use sha2::{Digest, Sha256};
use switchhook_domain::Timestamp;

use crate::config::WebhookConfig;
use crate::jwt;
use crate::key::Key;
use crate::webhook::{SignedWebhook, UnverifiedWebhook, VerifyError, check_window, signature_header};

const HEADER: &str = "authorization";
const SCHEME: &str = "Bearer ";

pub(crate) fn verify(
    config: &WebhookConfig,
    webhook: &UnverifiedWebhook<'_>,
    now: Timestamp,
) -> Result<usize, VerifyError> {
    let header = signature_header(webhook.headers, HEADER)?;
    let token = header.strip_prefix(SCHEME).ok_or(VerifyError::MalformedSignature)?;
    let token = jwt::verify_hs256(config.keys(), token)?;
    let hash = token.text("payload_hash").and_then(|hash| hex::decode(hash).ok());
    // A webhook without a body has its event in the query, which is not signed.
    if webhook.body.is_empty() || !hash.is_some_and(|hash| jwt::is_hash_of(&hash, webhook.body)) {
        return Err(VerifyError::WrongBodyHash);
    }
    let issued_at = token.time("iat")?.ok_or(VerifyError::MissingTimestamp)?;
    check_window(config.window(), issued_at, now)?;
    let leeway = config.window().unwrap_or_default();
    token.check_not_before(leeway, now)?;
    token.check_expiry(leeway, now)?;
    Ok(token.key_index)
}

/// Signs a webhook as Vonage would, for an invented account.
pub(crate) fn sign(key: &Key, url: &str, body: &[u8], now: Timestamp) -> SignedWebhook {
    let hash = hex::encode(Sha256::digest(body));
    let claims = json!({
        "iat": now.as_millis().div_euclid(1000),
        "jti": hash,
        "iss": "Vonage",
        "payload_hash": hash,
        "api_key": "a1b2c3d4",
        "application_id": "00000000-0000-4000-8000-000000000000",
    });
    SignedWebhook {
        headers: vec![(HEADER, format!("{SCHEME}{}", jwt::sign_hs256(key, &claims)))],
        url: url.to_owned(),
        content_type: "application/json",
    }
}
