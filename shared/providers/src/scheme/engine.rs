//! The engine that verifies and signs by the data of a scheme with a signature in a header.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use switchhook_domain::Timestamp;

use super::Proof;
use super::data::{Algorithm, Encoding, HeaderForm, HeaderScheme, TimePlace, TimeUnit};
use super::header::HeaderValue;
use crate::ed25519;
use crate::key::Key;
use crate::webhook::{
    SignedWebhook, UnverifiedWebhook, VerifyError, check_window, id_header, parse_unix_seconds, signature_header,
    timestamp_header,
};

/// Smallest number that [`TimeUnit::Either`] reads as milliseconds. As milliseconds it is in the year 1973, as seconds in the
/// year 5138.
const MILLIS_FROM: i64 = 100_000_000_000;

/// Most computations over the body of one webhook. It allows two Ed25519 signatures with eight keys.
const COMPUTATIONS_MAX: usize = 16;

impl<T: AsRef<str> + Clone> HeaderScheme<T> {
    pub(crate) fn verify(
        &self,
        (keys, window): (&[Key], Option<Duration>),
        webhook: &UnverifiedWebhook<'_>,
        now: Timestamp,
    ) -> Result<Proof, VerifyError> {
        let value = signature_header(webhook.headers, self.header.as_ref())?;
        let header = HeaderValue::parse(self, value);
        let (timestamp, malformed) = match self.timestamp.as_ref().map(|time| &time.place) {
            Some(TimePlace::Header(name)) => {
                (Some(timestamp_header(webhook.headers, name.as_ref())?), VerifyError::MalformedTimestamp)
            }
            Some(TimePlace::Field(_)) | None => (None, VerifyError::MalformedSignature),
        };
        let header = header?;
        let webhook_id = match &self.id_header {
            Some(name) => Some(id_header(webhook.headers, name.as_ref())?),
            None => None,
        };
        let timestamp = timestamp.or(header.timestamp);
        let signatures: Option<Vec<Vec<u8>>> = header.signatures.iter().map(|text| self.decode(text)).collect();
        let signatures = signatures.ok_or(VerifyError::MalformedSignature)?;
        if self.algorithm.computations(keys.len(), signatures.len()) > COMPUTATIONS_MAX {
            return Err(VerifyError::MalformedSignature);
        }
        let signed_at = match (&self.timestamp, timestamp) {
            (Some(time), Some(text)) => Some(time.unit.parse(text).ok_or(malformed)?),
            (Some(_), None) | (None, _) => None,
        };
        let parts = self.parts(webhook_id, timestamp, webhook.body);
        let key_index = self.algorithm.matching_key(keys, &parts, &signatures).ok_or(VerifyError::WrongSignature)?;
        if let Some(signed_at) = signed_at {
            check_window(window, signed_at, now)?;
        }
        Ok(Proof { key_index, webhook_id: webhook_id.map(str::to_owned) })
    }

    /// Signs a webhook as the provider would, with the provider's secret or private key. `None` if the key does not have the form that
    /// the scheme asks for.
    pub(crate) fn sign(&self, key: &Key, url: &str, body: &[u8], now: Timestamp) -> Option<SignedWebhook<T>> {
        match self.algorithm {
            Algorithm::Hmac { hash, keys } => {
                let secret = keys.secret(key)?;
                Some(self.signed_by(|parts| hash.tag(&secret, parts), url, body, now))
            }
            Algorithm::Ed25519 => {
                let key = ed25519::private_key(key)?;
                Some(self.signed_by(|parts| ed25519::sign(&key, parts), url, body, now))
            }
        }
    }

    /// Signs a webhook with a key of any text. The text is the secret, or stands for a private key.
    pub(crate) fn sign_with_text(&self, key: &Key, url: &str, body: &[u8], now: Timestamp) -> SignedWebhook<T> {
        match self.algorithm {
            Algorithm::Hmac { hash, keys: _ } => {
                self.signed_by(|parts| hash.tag(key.as_bytes(), parts), url, body, now)
            }
            Algorithm::Ed25519 => {
                let key = ed25519::private_key_of_text(key);
                self.signed_by(|parts| ed25519::sign(&key, parts), url, body, now)
            }
        }
    }

    /// Signs a webhook. `sign` returns the signature of the parts.
    fn signed_by(
        &self,
        sign: impl FnOnce(&[&[u8]]) -> Vec<u8>,
        url: &str,
        body: &[u8],
        now: Timestamp,
    ) -> SignedWebhook<T> {
        let timestamp = self.timestamp.as_ref().map(|time| time.unit.print(now));
        // The same body gets the same id, as a provider's retry does.
        let webhook_id = self.id_header.as_ref().map(|_| format!("msg_{}", hex::encode(Sha256::digest(body))));
        let parts = self.parts(webhook_id.as_deref(), timestamp.as_deref(), body);
        let tag = sign(&parts);
        let encoded = match self.encoding {
            Encoding::Hex => hex::encode(tag),
            Encoding::Base64 => BASE64_STANDARD.encode(tag),
        };
        let mut signature = format!("{}{encoded}", self.prefix.as_ref());
        let mut headers: Vec<(T, String)> = Vec::new();
        if let HeaderForm::Fields { signature: name, exact: _ } = &self.form {
            signature = format!("{}={signature}", name.as_ref());
        }
        match (self.timestamp.as_ref().map(|time| &time.place), timestamp) {
            (Some(TimePlace::Header(name)), Some(timestamp)) => headers.push((name.clone(), timestamp)),
            (Some(TimePlace::Field(name)), Some(timestamp)) => {
                signature = format!("{}={timestamp},{signature}", name.as_ref());
            }
            (Some(_), None) | (None, _) => {}
        }
        headers.extend(self.id_header.clone().zip(webhook_id));
        headers.push((self.header.clone(), signature));
        SignedWebhook { headers, url: url.to_owned(), content_type: "application/json" }
    }

    /// Bytes of one signature. `None` if the text is not the encoding of a signature of the right length.
    fn decode(&self, text: &str) -> Option<Vec<u8>> {
        let bytes = match self.encoding {
            Encoding::Hex => hex::decode(text).ok(),
            Encoding::Base64 => BASE64_STANDARD.decode(text).ok(),
        };
        bytes.filter(|bytes| bytes.len() == self.algorithm.signature_bytes())
    }

    /// Signed bytes in parts: the template with its placeholders replaced.
    fn parts<'a>(&'a self, id: Option<&'a str>, timestamp: Option<&'a str>, body: &'a [u8]) -> Vec<&'a [u8]> {
        let part = |part| match part {
            Part::Literal(text) => text.as_bytes(),
            Part::Id => id.unwrap_or_default().as_bytes(),
            Part::Timestamp => timestamp.unwrap_or_default().as_bytes(),
            Part::Body => body,
        };
        template(self.signed.as_ref()).into_iter().map(part).collect()
    }
}

impl Algorithm {
    /// Length of a signature in bytes.
    const fn signature_bytes(self) -> usize {
        match self {
            Self::Hmac { hash, keys: _ } => hash.tag_bytes(),
            Self::Ed25519 => ed25519::SIGNATURE_BYTES,
        }
    }

    /// Number of computations over the body that a check of these many keys and signatures takes. A MAC is computed once per key.
    const fn computations(self, keys: usize, signatures: usize) -> usize {
        match self {
            Self::Hmac { .. } => keys,
            Self::Ed25519 => keys.saturating_mul(signatures),
        }
    }

    /// Index of the first key that made one of the signatures of the parts. Compares MACs in constant time.
    fn matching_key(self, keys: &[Key], parts: &[&[u8]], signatures: &[Vec<u8>]) -> Option<usize> {
        match self {
            Self::Hmac { hash, keys: form } => keys.iter().position(|key| {
                form.secret(key).is_some_and(|secret| {
                    let tag = hash.tag(&secret, parts);
                    signatures.iter().any(|signature| bool::from(tag.ct_eq(signature)))
                })
            }),
            Self::Ed25519 => {
                let message = parts.concat();
                keys.iter().position(|key| {
                    ed25519::public_key(key).is_some_and(|key| {
                        signatures.iter().any(|signature| ed25519::verifies(&key, &message, signature))
                    })
                })
            }
        }
    }
}

impl TimeUnit {
    fn parse(self, text: &str) -> Option<Timestamp> {
        match self {
            Self::Seconds => parse_unix_seconds(text),
            Self::Millis => Some(Timestamp::from_millis(parse_decimal(text)?)),
            Self::Either => {
                let number = parse_decimal(text)?;
                Some(Timestamp::from_millis(if number < MILLIS_FROM { number * 1000 } else { number }))
            }
        }
    }

    fn print(self, time: Timestamp) -> String {
        match self {
            Self::Seconds | Self::Either => time.as_millis().div_euclid(1000).to_string(),
            Self::Millis => time.as_millis().to_string(),
        }
    }
}

/// Parses decimal digits that fit into 64 bits.
fn parse_decimal(text: &str) -> Option<i64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Part of the signed bytes.
#[derive(Clone, Copy)]
enum Part<'a> {
    Literal(&'a str),
    Id,
    Timestamp,
    Body,
}

/// Parts of a template. A brace that belongs to no placeholder is literal.
fn template(text: &str) -> Vec<Part<'_>> {
    let placeholders = [("{id}", Part::Id), ("{timestamp}", Part::Timestamp), ("{body}", Part::Body)];
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let found = placeholders.iter().filter_map(|(name, part)| Some((rest.split_once(name)?, *part)));
        let Some(((literal, tail), part)) = found.min_by_key(|((literal, _), _)| literal.len()) else { break };
        parts.extend([Part::Literal(literal), part]);
        rest = tail;
    }
    parts.push(Part::Literal(rest));
    parts
}

/// Returns the first problem of a template of signed bytes. `None` if it is right.
pub(crate) fn wrong_template(text: &str, has_timestamp: bool, has_id: bool) -> Option<&'static str> {
    let (mut bodies, mut timestamps, mut ids, mut has_brace) = (0, 0, 0, false);
    let parts = template(text);
    for part in &parts {
        match part {
            Part::Body => bodies += 1,
            Part::Timestamp => timestamps += 1,
            Part::Id => ids += 1,
            Part::Literal(text) => has_brace |= text.contains(['{', '}']),
        }
    }
    // Between placeholders, there is always a literal. If it is empty, the end of an id could pass for the start of a time.
    let borders = parts.get(1..parts.len().saturating_sub(1)).unwrap_or_default();
    let touches = borders.iter().any(|part| matches!(part, Part::Literal("")));
    if has_brace {
        Some("it has another placeholder than {id}, {timestamp} and {body}")
    } else if bodies != 1 {
        Some("it needs {body} once")
    } else if timestamps != usize::from(has_timestamp) {
        Some("it needs {timestamp} once if timestamp_header or timestamp_field is set, and no {timestamp} otherwise")
    } else if ids != usize::from(has_id) {
        Some("it needs {id} once if id_header is set, and no {id} otherwise")
    } else if has_id && touches {
        Some("it needs a text, such as a dot, between {id} and the next placeholder")
    } else {
        None
    }
}
