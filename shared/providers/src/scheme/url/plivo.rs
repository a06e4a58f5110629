//! Plivo's signature V3: `x-plivo-signature-v3` is base64 of HMAC-SHA256 over the callback URL, its query, every form parameter, and
//! the nonce in `x-plivo-signature-v3-nonce`. The key is an auth token.
//!
//! Source is Plivo's own SDK for Python (plivo 4.63.0, `plivo/utils/signature_v3.py`):
//!
//! * The signed text is the URL up to its path, `?`, the query, `.`, the parameters, `.`, and the nonce. Query and parameters are
//!   decoded, and sorted by name and value. A query is joined as `name=value&…`, parameters are joined without separators.
//! * Without a query, the `?` stays, and the `.` before the parameters is left out. Plivo's documentation has that text the other way
//!   round: without the `?`, and with the `.`. Both are accepted.
//! * A header may hold several signatures, separated by commas, while an account has several auth tokens. An entry that is no
//!   signature is skipped.
//! * `x-plivo-signature-ma-v3` is a signature of the same text with the auth token of the main account. It differs from the
//!   other one if a subaccount made the call. One right signature is enough.
//!
//! Signature V2 is never accepted: it covers neither the query, which carries our ids, nor the body.
//!
//! **The signature does not prevent a replay.** It has no timestamp, and nothing separates names and values in the signed text.
//! Whoever has seen a signed webhook can send it again at any time, or move bytes between neighbouring values. TLS hides the
//! webhooks, and the inbox turns a repeated one into a duplicate. A nonce with a `.` is rejected, so that no end of the parameters
//! can pass as the nonce.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use form_urlencoded::parse;
use http::HeaderMap;
use subtle::ConstantTimeEq;
use switchhook_domain::Timestamp;

use crate::form;
use crate::hmac::HmacAlgorithm;
use crate::key::Key;
use crate::webhook::{SignedWebhook, UnverifiedWebhook, VerifyError, signature_header};

const HEADER: &str = "x-plivo-signature-v3";
const MAIN_ACCOUNT_HEADER: &str = "x-plivo-signature-ma-v3";
const NONCE_HEADER: &str = "x-plivo-signature-v3-nonce";
/// Most entries of both headers. Each signature is checked with every key.
const ENTRIES_MAX: usize = 8;

pub(super) fn verify(
    keys: &[Key],
    public_url: Option<&str>,
    webhook: &UnverifiedWebhook<'_>,
) -> Result<usize, VerifyError> {
    let signatures = signatures(webhook.headers)?;
    let nonce = signature_header(webhook.headers, NONCE_HEADER)?;
    if nonce.contains('.') {
        return Err(VerifyError::MalformedSignature);
    }
    let public_url = public_url.ok_or(VerifyError::MissingPublicUrl)?;
    if form::is_too_large(webhook.body) {
        return Err(VerifyError::FormTooLarge);
    }
    let url = format!("{public_url}{}", webhook.path);
    let texts = signed_texts(&url, webhook.query, webhook.body, nonce);
    // One computation for each text and key, however many signatures there are.
    let is_signed = |text: &String, key: &Key| {
        let tag = HmacAlgorithm::Sha256.tag(key.as_bytes(), &[text.as_bytes()]);
        signatures.iter().any(|signature| bool::from(tag.ct_eq(signature)))
    };
    texts.iter().find_map(|text| keys.iter().position(|key| is_signed(text, key))).ok_or(VerifyError::WrongSignature)
}

/// Signatures of both headers. Each header may be missing, but not both, and there is at least one signature.
fn signatures(headers: &HeaderMap) -> Result<Vec<Vec<u8>>, VerifyError> {
    let mut entries: Vec<&str> = Vec::new();
    for name in [HEADER, MAIN_ACCOUNT_HEADER] {
        let header = match signature_header(headers, name) {
            Ok(header) => header,
            Err(VerifyError::MissingSignature) => continue,
            Err(error) => return Err(error),
        };
        entries.extend(header.split(','));
    }
    match entries.len() {
        0 => return Err(VerifyError::MissingSignature),
        1..=ENTRIES_MAX => {}
        _ => return Err(VerifyError::MalformedSignature),
    }
    let decoded = entries.into_iter().filter_map(|entry| BASE64_STANDARD.decode(entry.trim()).ok());
    let signatures: Vec<Vec<u8>> =
        decoded.filter(|signature| signature.len() == HmacAlgorithm::Sha256.tag_bytes()).collect();
    if signatures.is_empty() { Err(VerifyError::MalformedSignature) } else { Ok(signatures) }
}

/// All texts that Plivo may have signed, the one of its SDKs first.
fn signed_texts(url: &str, query: &str, body: &[u8], nonce: &str) -> Vec<String> {
    let query = joined(query.as_bytes(), "=", "&");
    let parameters = joined(body, "", "");
    match (query.is_empty(), parameters.is_empty()) {
        (true, true) => vec![format!("{url}.{nonce}")],
        (true, false) => vec![format!("{url}?{parameters}.{nonce}"), format!("{url}.{parameters}.{nonce}")],
        (false, true) => vec![format!("{url}?{query}.{nonce}")],
        (false, false) => vec![format!("{url}?{query}.{parameters}.{nonce}")],
    }
}

/// Decoded parameters, sorted by name and value.
fn joined(parameters: &[u8], between: &str, separator: &str) -> String {
    let mut pairs: Vec<(Cow<'_, str>, Cow<'_, str>)> = parse(parameters).collect();
    pairs.sort();
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}{between}{value}")).collect();
    pairs.join(separator)
}

/// Signs as the SDKs do, with the time as the nonce.
pub(super) fn sign<N: From<&'static str>>(key: &Key, url: &str, body: &[u8], now: Timestamp) -> SignedWebhook<N> {
    let url = url.split_once('#').map_or(url, |(url, _fragment)| url);
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let nonce = now.as_millis().to_string();
    let text = signed_texts(base, query, body, &nonce).swap_remove(0);
    let signature = BASE64_STANDARD.encode(HmacAlgorithm::Sha256.tag(key.as_bytes(), &[text.as_bytes()]));
    SignedWebhook {
        headers: vec![(HEADER.into(), signature), (NONCE_HEADER.into(), nonce)],
        url: url.to_owned(),
        content_type: form::CONTENT_TYPE,
    }
}
