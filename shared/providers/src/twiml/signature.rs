//! Signature over a URL and a form, as Twilio and SignalWire make it. The text to sign is the callback URL, followed by every form
//! parameter.
//!
//! * For each distinct parameter name, in byte order, the signed text contains the name and its distinct values, in
//!   byte order, decoded. The name stands before each value. (SignalWire has a second rule for repeated names.)
//! * A JSON body is not part of the signed text. Its hash is, as `bodySHA256` in the query. The query decides whether a
//!   body is JSON or a form, because it is signed. The content type is not signed.
//! * "Signature generation on the back end is inconsistent", say Twilio's SDKs. So several forms of the URL are accepted:
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
use http::Uri;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::dial::TWILIO_BODY_HASH as BODY_HASH;
use crate::form::{self, Form};
use crate::json;
use crate::webhook::{SignedWebhook, UnverifiedWebhook, VerifyError};

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

/// Checks the signature of a webhook, and the hash of a JSON body. `matching_key` returns the index of the key that made the signature over
/// these parts.
pub(crate) fn verify(
    public_url: Option<&str>,
    webhook: &UnverifiedWebhook<'_>,
    matching_key: impl Fn(&[&[u8]]) -> Option<usize>,
) -> Result<usize, VerifyError> {
    verify_joined(public_url, webhook, |body| vec![Form::parse(body).joined()], matching_key)
}

/// Checks the signature of a webhook as [`verify`] does. `joined` returns the texts that the provider may have made of a form.
pub(crate) fn verify_joined(
    public_url: Option<&str>,
    webhook: &UnverifiedWebhook<'_>,
    joined: impl FnOnce(&[u8]) -> Vec<String>,
    matching_key: impl Fn(&[&[u8]]) -> Option<usize>,
) -> Result<usize, VerifyError> {
    let public_url = public_url.ok_or(VerifyError::MissingPublicUrl)?;
    let body_hashes = body_hashes(webhook.query);
    let texts = match body_hashes.as_slice() {
        [] if form::is_too_large(webhook.body) => return Err(VerifyError::FormTooLarge),
        [] => joined(webhook.body),
        [_] => vec![String::new()],
        // With two hashes, it would be unclear which one the body must match.
        [_, _, ..] => return Err(VerifyError::MalformedSignature),
    };
    let key_of_url = |url: &String| texts.iter().find_map(|text| matching_key(&[url.as_bytes(), text.as_bytes()]));
    let key_index = candidate_urls(public_url, webhook.path, webhook.query)
        .iter()
        .find_map(key_of_url)
        .ok_or(VerifyError::WrongSignature)?;
    for signed_hash in body_hashes {
        let hash = hex::encode(Sha256::digest(webhook.body));
        if !bool::from(hash.as_bytes().ct_eq(signed_hash.as_bytes())) {
            return Err(VerifyError::WrongBodyHash);
        }
    }
    Ok(key_index)
}

/// Signs a webhook as the provider would. A JSON object or array is signed as JSON, and any other body as a form. `tag` makes the
/// signature over the parts, and `header` is the header that carries it.
pub(crate) fn sign<N>(header: N, url: &str, body: &[u8], tag: impl Fn(&[&[u8]]) -> Vec<u8>) -> SignedWebhook<N> {
    let url = url.split_once('#').map_or(url, |(url, _fragment)| url);
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let mut query: Vec<Cow<'_, str>> =
        query.split('&').filter(|pair| !pair.is_empty() && body_hashes(pair).is_empty()).map(Cow::Borrowed).collect();
    let is_json = matches!(json::value(body), Some(serde_json::Value::Object(_) | serde_json::Value::Array(_)));
    let (parameters, content_type) = if is_json {
        let hash = hex::encode(Sha256::digest(body));
        query.push(Cow::Owned(format!("{BODY_HASH}={hash}")));
        (String::new(), "application/json")
    } else {
        (Form::parse(body).joined(), form::CONTENT_TYPE)
    };
    let url = with_query(base, &query.join("&"));
    let tag = tag(&[url.as_bytes(), parameters.as_bytes()]);
    SignedWebhook { headers: vec![(header, BASE64_STANDARD.encode(tag))], url, content_type }
}

/// True if the signed query declares the body as JSON. Otherwise the body is a form.
pub(crate) fn is_json(query: &str) -> bool {
    !body_hashes(query).is_empty()
}

fn body_hashes(query: &str) -> Vec<String> {
    parse(query.as_bytes()).filter(|(name, _)| name == BODY_HASH).map(|(_, hash)| hash.into_owned()).collect()
}

/// All forms of the URL that the provider may have signed, the most likely first.
pub(crate) fn candidate_urls(public_url: &str, path: &str, query: &str) -> Vec<String> {
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
