//! SignalWire's signature: the header `X-Signalwire-Signature`, made with the signing key of the project. There are two schemes:
//!
//! * Callbacks of cXML: base64 of HMAC-SHA1 over the URL and the form, as [`twiml`] joins them. SignalWire's own SDK joins a repeated name
//!   differently: it keeps the order of the values and their repetitions. Both texts are accepted. The header may also be Twilio's, which
//!   the SDK accepts "as an alias".
//! * JSON of SWML: hex of HMAC-SHA1 over the URL, followed by the body. Such a body changes no call. (Those about a call also have
//!   `X-Signalwire-SHA256-Signature` over the same bytes. Whoever forges the first header can leave the second one out, so it is not read.)
//!
//! The length of the header tells which: 40 hex digits, or 28 characters of base64. The source is SignalWire's own SDK
//! (`signalwire-python`, `core/security/webhook_{validator,middleware}.py` and `tests/unit/security/test_webhook_validator.py`).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::form::{Form, joined_in_order};
use crate::hmac::{HmacAlgorithm, HmacSha1, matching_key};
use crate::key::Key;
use crate::lenient;
use crate::twiml;
use crate::webhook::{SignedWebhook, UnverifiedWebhook, VerifyError, signature_header};

const HEADER: &str = "x-signalwire-signature";
/// Header of a callback of cXML that has no [`HEADER`].
const CXML_HEADER: &str = "x-twilio-signature";
const ALGORITHM: HmacAlgorithm = HmacAlgorithm::Sha1;

/// Returns the index of the key that made the signature.
pub(super) fn verify(
    keys: &[Key],
    public_url: Option<&str>,
    webhook: &UnverifiedWebhook<'_>,
) -> Result<usize, VerifyError> {
    let (header, may_be_hex) = match signature_header(webhook.headers, HEADER) {
        Err(VerifyError::MissingSignature) => (signature_header(webhook.headers, CXML_HEADER)?, false),
        header => (header?, true),
    };
    let is_hex = may_be_hex && header.len() == 2 * ALGORITHM.tag_bytes();
    let signature = if is_hex { hex::decode(header).ok() } else { BASE64_STANDARD.decode(header).ok() };
    let signature = signature.filter(|signature| signature.len() == ALGORITHM.tag_bytes());
    let signature = signature.ok_or(VerifyError::MalformedSignature)?;
    let matching_key = |parts: &[&[u8]]| matching_key::<HmacSha1>(keys, parts, &signature);
    if !is_hex {
        let key_index = twiml::verify_joined(public_url, webhook, signed_forms, matching_key)?;
        // Such a body is read as JSON, and this scheme covers it only as a form. It is parsed last: parsed JSON takes many times its bytes,
        // so a sender without a key could use up the memory.
        let is_covered = twiml::is_json(webhook.query) || !is_swml(webhook.body);
        return if is_covered { Ok(key_index) } else { Err(VerifyError::MalformedSignature) };
    }
    // Both schemes sign one text. So a form whose values were joined before must not pass as a body, and JSON of cXML has its own hash.
    if !webhook.body.starts_with(b"{") || twiml::is_json(webhook.query) {
        return Err(VerifyError::MalformedSignature);
    }
    let public_url = public_url.ok_or(VerifyError::MissingPublicUrl)?;
    let urls = twiml::candidate_urls(public_url, webhook.path, webhook.query);
    let key_index = urls.iter().find_map(|url| matching_key(&[url.as_bytes(), webhook.body]));
    key_index.ok_or(VerifyError::WrongSignature)
}

/// Texts that SignalWire may have made of a form: by Twilio's rule, and by the one of its own SDK.
fn signed_forms(body: &[u8]) -> Vec<String> {
    let mut texts = vec![Form::parse(body).joined(), joined_in_order(body)];
    texts.dedup();
    texts
}

/// True if the body is JSON of SWML.
pub(super) fn is_swml(body: &[u8]) -> bool {
    lenient::from_body::<serde_json::Map<String, serde_json::Value>>(body).is_ok()
}

/// Signs a callback of cXML.
pub(super) fn sign<N: From<&'static str>>(key: &Key, url: &str, body: &[u8]) -> SignedWebhook<N> {
    twiml::sign(HEADER.into(), url, body, |parts| ALGORITHM.tag(key.as_bytes(), parts))
}
