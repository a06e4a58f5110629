//! A JSON Web Token in a header. It covers the body by a claim with the SHA-256 of the body.
//!
//! **The algorithm is pinned**: the token must be signed with the configured one, whatever its header names. **A token without the hash
//! is refused**, because it would fit every body.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::AUTHORIZATION;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use switchhook_domain::Timestamp;

use super::Proof;
use super::data::Encoding;
use crate::jwt::{self, RsaKey, TokenAlgorithm};
use crate::key::Key;
use crate::webhook::{SignedWebhook, UnverifiedWebhook, VerifyError, check_window, signature_header};

/// Time for which the tokens of [`TokenScheme::sign`] are valid.
const LIFETIME_S: i64 = 5 * 60;

/// Scheme that signs with a token.
#[derive(Clone, Debug)]
pub(crate) struct TokenScheme {
    pub(crate) algorithm: TokenAlgorithm,
    /// Name of the header with the token.
    pub(crate) header: String,
    /// Name of the claim with the SHA-256 of the body.
    pub(crate) body_hash: String,
    /// Notation of the hash.
    pub(crate) encoding: Encoding,
    /// Claims that a token must have, by their names. For example, `iss` names the vendor.
    pub(crate) claims: Vec<(String, String)>,
}

impl TokenScheme {
    /// Checks the signature, the hash of the body, the claims, and the times. The token must have been issued within the window, it must
    /// not have expired for longer, and it must become valid within it.
    pub(super) fn verify(
        &self,
        (keys, window): (&[Key], Option<Duration>),
        webhook: &UnverifiedWebhook<'_>,
        now: Timestamp,
    ) -> Result<Proof, VerifyError> {
        let header = signature_header(webhook.headers, &self.header)?;
        let token = match header.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token,
            Some(_) => return Err(VerifyError::MalformedSignature),
            None => header,
        };
        let token = jwt::verify(self.algorithm, keys, token)?;
        let hash = token.text(&self.body_hash).and_then(|hash| match self.encoding {
            Encoding::Hex => hex::decode(hash).ok(),
            Encoding::Base64 => BASE64_STANDARD.decode(hash).ok(),
        });
        if !hash.is_some_and(|hash| jwt::is_hash_of(&hash, webhook.body)) {
            return Err(VerifyError::WrongBodyHash);
        }
        if self.claims.iter().any(|(name, value)| token.text(name) != Some(value.as_str())) {
            return Err(VerifyError::WrongClaim);
        }
        let issued_at = match token.time("iat")? {
            Some(issued_at) => issued_at,
            None => token.time("nbf")?.ok_or(VerifyError::MissingTimestamp)?,
        };
        check_window(window, issued_at, now)?;
        let leeway = window.unwrap_or_default();
        token.check_not_before(leeway, now)?;
        token.check_expiry(leeway, now)?;
        Ok(Proof { key_index: token.key_index, webhook_id: None })
    }

    /// Signs a webhook with a secret or a private RSA key. In the header `authorization`, the token is a bearer token. `None` if the key
    /// does not fit the algorithm. No key signs with ECDSA here, because its signatures need random numbers.
    pub(super) fn sign(&self, key: &Key, url: &str, body: &[u8], now: Timestamp) -> Option<SignedWebhook<String>> {
        let hash = Sha256::digest(body);
        let hash = match self.encoding {
            Encoding::Hex => hex::encode(hash),
            Encoding::Base64 => BASE64_STANDARD.encode(hash),
        };
        let issued_at = now.as_millis().div_euclid(1000);
        let mut claims: Map<String, Value> =
            self.claims.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        claims.insert("iat".to_owned(), issued_at.into());
        claims.insert("exp".to_owned(), issued_at.saturating_add(LIFETIME_S).into());
        claims.insert(self.body_hash.clone(), hash.into());
        let scheme = if self.header == AUTHORIZATION.as_str() { "Bearer " } else { "" };
        let claims = Value::Object(claims);
        let token = match self.algorithm {
            TokenAlgorithm::Hs256 => jwt::sign_hs256(key, &claims),
            TokenAlgorithm::Rs256 => jwt::sign_rs256(&RsaKey::from_pem(key.as_str())?, &claims)?,
            TokenAlgorithm::Es256 => return None,
        };
        Some(SignedWebhook {
            headers: vec![(self.header.clone(), format!("{scheme}{token}"))],
            url: url.to_owned(),
            content_type: "application/json",
        })
    }
}
