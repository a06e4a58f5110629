//! Twilio's signature: `x-twilio-signature` is base64 of HMAC-SHA1 over the callback URL, followed by every form
//! parameter. A shared key signs the same text with HMAC-SHA1 or HMAC-SHA256, and `x-twilio-webhooks-signature-settings`
//! names the key and the algorithm.
//!
//! Sources are Twilio's own SDKs (`twilio-node/src/webhooks/webhooks.ts`, `twilio-python/twilio/request_validator.py`,
//! `twilio-go/client/request_validator.go`):
//!
//! * For each distinct parameter name, in byte order, the signed text contains the name and its distinct values, in
//!   byte order, decoded.
//! * A JSON body is not part of the signed text. Its hash is, as `bodySHA256` in the query. The query decides whether a
//!   body is JSON or a form, because it is signed. The content type is not signed.
//! * "Signature generation on the back end is inconsistent", say the SDKs. So several forms of the URL are accepted:
//!   with and without the port (the default port if the URL has none), and with the query in three encodings. These are
//!   the query as received, the query in the encoding of WHATWG URLs (`'` is `%27`), and the query decoded and encoded
//!   again (`+` is `%20`).
//!
//! **The signature does not prevent a replay.** It has no timestamp, and nothing separates URL, names and values in the
//! signed text. Whoever has seen a signed webhook can send it again at any time, or move bytes between neighbouring
//! values. TLS hides the webhooks, and the inbox turns a repeated one into a duplicate.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use form_urlencoded::parse;
use http::{HeaderMap, Uri};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::config::{SharedKey, WebhookConfig};
use crate::dial::TWILIO_BODY_HASH as BODY_HASH;
use crate::form::{self, Form};
use crate::hmac::{HmacAlgorithm, HmacSha1, matching_key};
use crate::key::Key;
use crate::webhook::{SignedWebhook, UnverifiedWebhook, VerifyError, signature_header};

const HEADER: &str = "x-twilio-signature";
/// Header of a webhook that a shared key signed: `key=<id>,algorithm=HMAC_SHA1|HMAC_SHA256`.
const SETTINGS_HEADER: &str = "x-twilio-webhooks-signature-settings";

/// Characters that WHATWG URLs encode in the query of an http URL.
const SPECIAL_QUERY: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>').add(b'\'');

/// Characters that Node's `querystring.stringify` encodes.
const QUERYSTRING: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

pub(crate) fn verify(config: &WebhookConfig, webhook: &UnverifiedWebhook<'_>) -> Result<usize, VerifyError> {
    let header = signature_header(webhook.headers, HEADER)?;
    let signer = Signer::of(config, webhook.headers)?;
    let signature = BASE64_STANDARD
        .decode(header)
        .ok()
        .filter(|signature| signature.len() == signer.algorithm().tag_bytes())
        .ok_or(VerifyError::MalformedSignature)?;
    let public_url = config.public_url().ok_or(VerifyError::MissingPublicUrl)?;

    let body_hashes = body_hashes(webhook.query);
    let parameters = match body_hashes.as_slice() {
        [] if form::has_too_many_parameters(webhook.body) => return Err(VerifyError::TooManyParameters),
        [] => Form::parse(webhook.body).joined(),
        [_] => String::new(),
        // With two hashes, it would be unclear which one the body must match.
        [_, _, ..] => return Err(VerifyError::MalformedSignature),
    };
    let key_index = candidate_urls(public_url, webhook.path, webhook.query)
        .iter()
        .find_map(|url| signer.matching_key(config, &[url.as_bytes(), parameters.as_bytes()], &signature))
        .ok_or(VerifyError::WrongSignature)?;
    for signed_hash in body_hashes {
        let hash = hex::encode(Sha256::digest(webhook.body));
        if !bool::from(hash.as_bytes().ct_eq(signed_hash.as_bytes())) {
            return Err(VerifyError::WrongBodyHash);
        }
    }
    Ok(key_index)
}

/// Key and algorithm of a signature, chosen by the request's headers.
enum Signer<'a> {
    /// One of the auth tokens, with SHA-1.
    AuthToken,
    /// The shared key at this index.
    SharedKey { index: usize, key: &'a Key, algorithm: HmacAlgorithm },
}

impl<'a> Signer<'a> {
    /// Without the header, an auth token signed. With it, the named key counts alone, and no algorithm that is weaker
    /// than the one configured for that key.
    fn of(config: &'a WebhookConfig, headers: &HeaderMap) -> Result<Self, VerifyError> {
        if !headers.contains_key(SETTINGS_HEADER) {
            return Ok(Self::AuthToken);
        }
        let settings = signature_header(headers, SETTINGS_HEADER)?;
        let setting = |name: &str| {
            let pairs = settings.split(',').filter_map(|pair| pair.split_once('='));
            pairs.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim()).next()
        };
        let id = setting("key").ok_or(VerifyError::MalformedSignature)?;
        let named = config.shared_keys().iter().enumerate().find(|(_, shared)| shared.id == id);
        let (index, shared) = named.ok_or(VerifyError::UnknownKey)?;
        let algorithm = match setting("algorithm") {
            Some("HMAC_SHA1") | None => HmacAlgorithm::Sha1,
            Some("HMAC_SHA256") => HmacAlgorithm::Sha256,
            Some(_) => return Err(VerifyError::UnacceptableAlgorithm),
        };
        if algorithm < shared.algorithm {
            return Err(VerifyError::UnacceptableAlgorithm);
        }
        Ok(Self::SharedKey { index, key: &shared.key, algorithm })
    }

    const fn algorithm(&self) -> HmacAlgorithm {
        match self {
            Self::AuthToken => HmacAlgorithm::Sha1,
            Self::SharedKey { algorithm, .. } => *algorithm,
        }
    }

    /// Index of the key that made the signature. Shared keys are counted after the auth tokens.
    fn matching_key(&self, config: &WebhookConfig, parts: &[&[u8]], signature: &[u8]) -> Option<usize> {
        match self {
            Self::AuthToken => matching_key::<HmacSha1>(config.keys(), parts, signature),
            Self::SharedKey { index, key, algorithm } => {
                let is_signed = algorithm.verifies(key.as_bytes(), parts, signature);
                is_signed.then_some(config.keys().len() + index)
            }
        }
    }
}

pub(crate) fn sign(key: &Key, url: &str, body: &[u8]) -> SignedWebhook {
    sign_with(HmacAlgorithm::Sha1, key, url, body)
}

/// Signs with a shared key, by the algorithm that is configured for it.
pub(crate) fn sign_with_shared_key(shared: &SharedKey, url: &str, body: &[u8]) -> SignedWebhook {
    let mut signed = sign_with(shared.algorithm, &shared.key, url, body);
    let algorithm = match shared.algorithm {
        HmacAlgorithm::Sha1 => "HMAC_SHA1",
        HmacAlgorithm::Sha256 | HmacAlgorithm::Sha512 => "HMAC_SHA256",
    };
    signed.headers.push((SETTINGS_HEADER, format!("key={},algorithm={algorithm}", shared.id)));
    signed
}

fn sign_with(algorithm: HmacAlgorithm, key: &Key, url: &str, body: &[u8]) -> SignedWebhook {
    let url = url.split_once('#').map_or(url, |(url, _fragment)| url);
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let mut query: Vec<Cow<'_, str>> =
        query.split('&').filter(|pair| !pair.is_empty() && body_hashes(pair).is_empty()).map(Cow::Borrowed).collect();
    let is_json =
        matches!(serde_json::from_slice(body), Ok(serde_json::Value::Object(_) | serde_json::Value::Array(_)));
    let (parameters, content_type) = if is_json {
        let hash = hex::encode(Sha256::digest(body));
        query.push(Cow::Owned(format!("{BODY_HASH}={hash}")));
        (String::new(), "application/json")
    } else {
        (Form::parse(body).joined(), "application/x-www-form-urlencoded")
    };
    let url = with_query(base, &query.join("&"));
    let tag = algorithm.tag(key.as_bytes(), &[url.as_bytes(), parameters.as_bytes()]);
    SignedWebhook { headers: vec![(HEADER, BASE64_STANDARD.encode(tag))], url, content_type }
}

/// True if the signed query declares the body as JSON. Otherwise the body is a form.
pub(super) fn is_json(query: &str) -> bool {
    !body_hashes(query).is_empty()
}

fn body_hashes(query: &str) -> Vec<String> {
    parse(query.as_bytes()).filter(|(name, _)| name == BODY_HASH).map(|(_, hash)| hash.into_owned()).collect()
}

/// All forms of the URL that Twilio may have signed, the most likely first.
fn candidate_urls(public_url: &str, path: &str, query: &str) -> Vec<String> {
    let mut bases = vec![public_url.to_owned()];
    if let Some(other) = with_other_port(public_url) {
        bases.push(other);
    }
    let mut queries = vec![query.to_owned()];
    for other in [utf8_percent_encode(query, SPECIAL_QUERY).to_string(), encoded_again(query)] {
        if !queries.contains(&other) {
            queries.push(other);
        }
    }
    queries.iter().flat_map(|query| bases.iter().map(move |base| with_query(&format!("{base}{path}"), query))).collect()
}

/// The URL without its port, or with the default port if it has none.
fn with_other_port(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let authority = uri.authority()?.as_str();
    let path = uri.path().trim_end_matches('/');
    let scheme = uri.scheme_str()?;
    let authority = match (uri.port(), scheme) {
        (Some(port), _) => authority.strip_suffix(&format!(":{}", port.as_str()))?.to_owned(),
        (None, "http") => format!("{authority}:80"),
        (None, _) => format!("{authority}:443"),
    };
    Some(format!("{scheme}://{authority}{path}"))
}

fn encoded_again(query: &str) -> String {
    let pairs: Vec<String> = parse(query.as_bytes())
        .map(|(name, value)| {
            let name = utf8_percent_encode(&name, QUERYSTRING);
            let value = utf8_percent_encode(&value, QUERYSTRING);
            format!("{name}={value}")
        })
        .collect();
    pairs.join("&")
}

fn with_query(url: &str, query: &str) -> String {
    if query.is_empty() { url.to_owned() } else { format!("{url}?{query}") }
}
