//! Shared secret in a header. **It signs nothing**: whoever has seen one webhook can send any other.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use subtle::ConstantTimeEq;

use crate::key::Key;
use crate::webhook::{SignedWebhook, VerifyError, signature_header};

/// Index of the key that the header repeats. In the header `authorization`, the key is a bearer token.
pub(super) fn verify(keys: &[Key], header: &str, headers: &HeaderMap) -> Result<usize, VerifyError> {
    let value = signature_header(headers, header)?;
    let secret = if header == AUTHORIZATION.as_str() {
        let (scheme, token) = value.split_once(' ').ok_or(VerifyError::MalformedSignature)?;
        Some(token).filter(|_| scheme.eq_ignore_ascii_case("bearer")).ok_or(VerifyError::MalformedSignature)?
    } else {
        value
    };
    let is_key = |key: &Key| bool::from(key.as_bytes().ct_eq(secret.as_bytes()));
    keys.iter().position(is_key).ok_or(VerifyError::WrongSignature)
}

pub(super) fn sign(key: &Key, header: &str, url: &str) -> SignedWebhook<String> {
    let scheme = if header == AUTHORIZATION.as_str() { "Bearer " } else { "" };
    SignedWebhook {
        headers: vec![(header.to_owned(), format!("{scheme}{}", key.as_str()))],
        url: url.to_owned(),
        content_type: "application/json",
    }
}
