//! LiveKit's signature: a JSON Web Token in the header `Authorization`, without a scheme before it, signed with an API secret (HS256).
//!
//! The token covers the body by its claim `sha256`, the base64 of its SHA-256. The same secrets sign the tokens that open LiveKit's API
//! and its rooms, and participants have such tokens. **Those have no hash of a body, so a token without one is refused.**
//!
//! The claim `iss` names the API key, and so the secret. Every configured secret is tried instead: only one of them makes the
//! signature, whatever the claim says.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use sha2::{Digest, Sha256};
use switchhook_domain::Timestamp;

use crate::config::{WINDOW_MAX, WebhookConfig};
use crate::jwt;
use crate::key::Key;
use crate::webhook::{SignedWebhook, UnverifiedWebhook, VerifyError, check_not_after, signature_header};

const HEADER: &str = "authorization";
/// Time for which LiveKit's tokens are valid.
const LIFETIME_S: i64 = 5 * 60;

/// Checks the token. It must be valid at `now`, or at a time that is no further from now than the window: LiveKit makes the token once,
/// and sends it with every retry, so a late retry has an expired one.
pub(crate) fn verify(
    config: &WebhookConfig,
    webhook: &UnverifiedWebhook<'_>,
    now: Timestamp,
) -> Result<usize, VerifyError> {
    let token = jwt::verify_hs256(config.keys(), signature_header(webhook.headers, HEADER)?)?;
    let hash = token.text("sha256").and_then(|hash| BASE64_STANDARD.decode(hash).ok());
    if !hash.is_some_and(|hash| jwt::is_hash_of(&hash, webhook.body)) {
        return Err(VerifyError::WrongBodyHash);
    }
    if token.text("iss").is_none_or(str::is_empty) {
        return Err(VerifyError::MalformedSignature);
    }
    token.time("nbf")?.ok_or(VerifyError::MissingTimestamp)?;
    let expires_at = token.time("exp")?.ok_or(VerifyError::MissingTimestamp)?;
    let window = config.window().unwrap_or_default();
    token.check_not_before(window, now)?;
    token.check_expiry(window, now)?;
    // The inbox forgets event ids some day. A token that outlived them could make an old webhook pass as new.
    check_not_after(expires_at, now, WINDOW_MAX)?;
    Ok(token.key_index)
}

/// Signs a webhook as LiveKit would, for an invented API key.
pub(crate) fn sign(key: &Key, url: &str, body: &[u8], now: Timestamp) -> SignedWebhook {
    let signed_at = now.as_millis().div_euclid(1000);
    let claims = json!({
        "iss": "APISwitchhook",
        "iat": signed_at,
        "nbf": signed_at,
        "exp": signed_at.saturating_add(LIFETIME_S),
        "sha256": BASE64_STANDARD.encode(Sha256::digest(body)),
    });
    SignedWebhook {
        headers: vec![(HEADER, jwt::sign_hs256(key, &claims))],
        url: url.to_owned(),
        content_type: "application/webhook+json",
    }
}
