//! JSON Web Tokens: the check of tokens that providers sign, and the tokens that open their APIs.
//!
//! **The algorithm is pinned.** The header of a token names its algorithm, and whoever made the token chose it. So a token that names
//! any other algorithm than the expected one is refused before its signature is checked: `none` needs no key at all, and a token that
//! says `HS256` could take a public key, which everybody knows, for the secret.
//!
//! [`public_key`] reads the public keys of tokens that only their provider can sign.

mod public_key;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use switchhook_domain::Timestamp;

use crate::hmac::HmacAlgorithm;
use crate::key::Key;
use crate::pem;
use crate::webhook::{VerifyError, check_not_after};

pub(crate) use self::public_key::{p256_public_key, rsa_public_key};

/// Time for which a token opens an API. It only has to outlast one request and the difference between two clocks.
const LOGIN_LIFETIME_S: i64 = 5 * 60;

/// Algorithm of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenAlgorithm {
    /// HMAC with SHA-256. The key is a secret.
    Hs256,
    /// RSA PKCS #1 v1.5 with SHA-256. The key is a public one.
    Rs256,
    /// ECDSA on P-256 with SHA-256. The key is a public one.
    Es256,
}

impl TokenAlgorithm {
    /// Name in the header of a token.
    const fn name(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
        }
    }

    /// True if the configured keys are public, so that they only verify.
    pub(crate) const fn has_public_keys(self) -> bool {
        match self {
            Self::Hs256 => false,
            Self::Rs256 | Self::Es256 => true,
        }
    }

    /// True if the key made this signature.
    fn verifies(self, key: &Key, signed: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Hs256 => HmacAlgorithm::Sha256.verifies(key.as_bytes(), &[signed], signature),
            Self::Rs256 => rsa_public_key(key).is_some_and(|key| {
                UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key).verify(signed, signature).is_ok()
            }),
            Self::Es256 => p256_public_key(key).is_some_and(|key| {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(signed, signature).is_ok()
            }),
        }
    }
}

/// Claims of a token with a right signature.
pub(crate) struct VerifiedToken {
    /// Index of the key that made the signature.
    pub(crate) key_index: usize,
    claims: Map<String, Value>,
}

/// Checks the signature of a token with every key. It must be signed with HMAC-SHA256. The caller must check the claims.
pub(crate) fn verify_hs256(keys: &[Key], token: &str) -> Result<VerifiedToken, VerifyError> {
    verify(TokenAlgorithm::Hs256, keys, token)
}

/// Checks the signature of a token with every key. It must be signed with this algorithm. The caller must check the claims.
pub(crate) fn verify(algorithm: TokenAlgorithm, keys: &[Key], token: &str) -> Result<VerifiedToken, VerifyError> {
    let (signed, tag) = token.rsplit_once('.').ok_or(VerifyError::MalformedSignature)?;
    let (header, claims) = signed.split_once('.').ok_or(VerifyError::MalformedSignature)?;
    let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| VerifyError::MalformedSignature);
    let (header, claims, tag) = (decode(header)?, decode(claims)?, decode(tag)?);
    let object =
        |json: &[u8]| serde_json::from_slice::<Map<String, Value>>(json).map_err(|_| VerifyError::MalformedSignature);
    let header = object(&header)?;
    // A critical extension changes the meaning of a token, and none is known here.
    if header.get("alg").and_then(Value::as_str) != Some(algorithm.name()) || header.contains_key("crit") {
        return Err(VerifyError::UnacceptableAlgorithm);
    }
    let made_this = |key: &Key| algorithm.verifies(key, signed.as_bytes(), &tag);
    let key_index = keys.iter().position(made_this).ok_or(VerifyError::WrongSignature)?;
    Ok(VerifiedToken { key_index, claims: object(&claims)? })
}

impl VerifiedToken {
    /// Claim that is a text. `None` if it is missing or no text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.claims.get(name)?.as_str()
    }

    /// Claim that is a time in Unix seconds, perhaps with a fraction. `None` if it is missing.
    ///
    /// # Errors
    /// [`VerifyError::MalformedTimestamp`] if the claim is no such time.
    pub(crate) fn time(&self, name: &str) -> Result<Option<Timestamp>, VerifyError> {
        let Some(value) = self.claims.get(name) else { return Ok(None) };
        // RFC 7519 allows fractions.
        let since_epoch = value.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let millis = since_epoch.and_then(|since_epoch| i64::try_from(since_epoch.as_millis()).ok());
        millis.map(|millis| Some(Timestamp::from_millis(millis))).ok_or(VerifyError::MalformedTimestamp)
    }

    /// Refuses a token that becomes valid only after `leeway` from now. A token without the claim `nbf` is valid at once.
    pub(crate) fn check_not_before(&self, leeway: Duration, now: Timestamp) -> Result<(), VerifyError> {
        self.time("nbf")?.map_or(Ok(()), |valid_from| check_not_after(valid_from, now, leeway))
    }

    /// Refuses a token that had expired for longer than `leeway`. A token without the claim `exp` never expires.
    pub(crate) fn check_expiry(&self, leeway: Duration, now: Timestamp) -> Result<(), VerifyError> {
        let Some(expires_at) = self.time("exp")? else { return Ok(()) };
        let skew_ms = now.millis_since(expires_at);
        if u128::try_from(skew_ms).is_ok_and(|late| late > leeway.as_millis()) {
            return Err(VerifyError::StaleTimestamp { skew_ms });
        }
        Ok(())
    }
}

/// True if `hash` is the SHA-256 of the body. Takes constant time.
pub(crate) fn is_hash_of(hash: &[u8], body: &[u8]) -> bool {
    Sha256::digest(body).as_slice().ct_eq(hash).into()
}

/// Token that is signed with HMAC-SHA256.
pub(crate) fn sign_hs256(key: &Key, claims: &Value) -> String {
    let signed = signed_text(TokenAlgorithm::Hs256, claims);
    let tag = HmacAlgorithm::Sha256.tag(key.as_bytes(), &[signed.as_bytes()]);
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag))
}

/// Token that is signed with RSA and SHA-256. `None` if the key cannot sign.
pub(crate) fn sign_rs256(key: &RsaKey, claims: &Value) -> Option<String> {
    let signed = signed_text(TokenAlgorithm::Rs256, claims);
    let signature = key.sign(signed.as_bytes())?;
    Some(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
}

/// Header and claims, as they are signed.
fn signed_text(algorithm: TokenAlgorithm, claims: &Value) -> String {
    let [header, claims] = [&json!({"alg": algorithm.name(), "typ": "JWT"}), claims]
        .map(|part| BASE64_URL_SAFE_NO_PAD.encode(part.to_string().as_bytes()));
    format!("{header}.{claims}")
}

/// Login to an API by a token that the time is a part of, so it is made when a request is sent. `Debug` hides it.
#[derive(Clone)]
pub struct TokenLogin {
    key: LoginKey,
    /// Claims without the times and the id of the token.
    claims: Map<String, Value>,
}

impl TokenLogin {
    /// Login by tokens that are signed with RSA and SHA-256.
    pub(crate) fn rs256(key: RsaKey, claims: Map<String, Value>) -> Self {
        Self { key: LoginKey::Rsa(key), claims }
    }

    /// Login by tokens that are signed with HMAC-SHA256.
    pub(crate) fn hs256(key: Key, claims: Map<String, Value>) -> Self {
        Self { key: LoginKey::Secret(key), claims }
    }

    /// Token for a request that is sent now. `request` are bytes of the request, which make the id of the token unique. `None` if the
    /// key cannot sign.
    pub(crate) fn token(&self, request: &[&[u8]], now: Timestamp) -> Option<String> {
        let mut id = Sha256::new();
        id.update(now.as_millis().to_be_bytes());
        for part in request {
            id.update(part);
        }
        let issued_at = now.as_millis().div_euclid(1000);
        let mut claims = self.claims.clone();
        claims.insert("iat".to_owned(), issued_at.into());
        claims.insert("exp".to_owned(), issued_at.saturating_add(LOGIN_LIFETIME_S).into());
        claims.insert("jti".to_owned(), hex::encode(id.finalize()).into());
        let claims = Value::Object(claims);
        match &self.key {
            LoginKey::Rsa(key) => sign_rs256(key, &claims),
            LoginKey::Secret(key) => Some(sign_hs256(key, &claims)),
        }
    }
}

impl PartialEq for TokenLogin {
    fn eq(&self, other: &Self) -> bool {
        let has_same_key = match (&self.key, &other.key) {
            (LoginKey::Rsa(key), LoginKey::Rsa(other)) => Arc::ptr_eq(&key.0, &other.0),
            (LoginKey::Secret(key), LoginKey::Secret(other)) => key.as_bytes().ct_eq(other.as_bytes()).into(),
            (LoginKey::Rsa(_), LoginKey::Secret(_)) | (LoginKey::Secret(_), LoginKey::Rsa(_)) => false,
        };
        has_same_key && self.claims == other.claims
    }
}

impl Eq for TokenLogin {}

impl fmt::Debug for TokenLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenLogin(hidden)")
    }
}

/// Key that signs the tokens of a login.
#[derive(Clone)]
enum LoginKey {
    Rsa(RsaKey),
    Secret(Key),
}

/// Private RSA key that signs tokens. `Debug` hides it.
#[derive(Clone)]
pub(crate) struct RsaKey(Arc<RsaKeyPair>);

impl RsaKey {
    /// Reads a key in PEM form, PKCS #8 or PKCS #1, of 2048 to 4096 bits. `None` if the text is anything else.
    pub(crate) fn from_pem(text: &str) -> Option<Self> {
        let pair = match (pem::decode(text, "PRIVATE KEY"), pem::decode(text, "RSA PRIVATE KEY")) {
            (Some(pkcs8), _) => RsaKeyPair::from_pkcs8(&pkcs8),
            (None, Some(pkcs1)) => RsaKeyPair::from_der(&pkcs1),
            (None, None) => return None,
        };
        pair.ok().map(|pair| Self(Arc::new(pair)))
    }

    /// RSA signature of PKCS #1 v1.5 with SHA-256. It uses no random numbers: only other paddings do.
    fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let mut signature = vec![0; self.0.public().modulus_len()];
        self.0.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).ok()?;
        Some(signature)
    }
}

impl fmt::Debug for RsaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RsaKey(hidden)")
    }
}

#[cfg(test)]
mod tests;
