//! Twilio's signature: `x-twilio-signature` is base64 of HMAC-SHA1 over the callback URL and every form parameter, as
//! [`twiml`] joins them. A shared key signs the same text with HMAC-SHA1 or HMAC-SHA256, and
//! `x-twilio-webhooks-signature-settings` names the key and the algorithm.
//!
//! Sources are Twilio's own SDKs (`twilio-node/src/webhooks/webhooks.ts`, `twilio-python/twilio/request_validator.py`,
//! `twilio-go/client/request_validator.go`).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;

use crate::config::{SharedKey, WebhookConfig};
use crate::hmac::{HmacAlgorithm, HmacSha1, matching_key};
use crate::key::Key;
use crate::twiml;
use crate::webhook::{SignedWebhook, UnverifiedWebhook, VerifyError, signature_header};

const HEADER: &str = "x-twilio-signature";
/// Header of a webhook that a shared key signed: `key=<id>,algorithm=HMAC_SHA1|HMAC_SHA256`.
const SETTINGS_HEADER: &str = "x-twilio-webhooks-signature-settings";

pub(crate) fn verify(config: &WebhookConfig, webhook: &UnverifiedWebhook<'_>) -> Result<usize, VerifyError> {
    let header = signature_header(webhook.headers, HEADER)?;
    let signer = Signer::of(config, webhook.headers)?;
    let signature = BASE64_STANDARD
        .decode(header)
        .ok()
        .filter(|signature| signature.len() == signer.algorithm().tag_bytes())
        .ok_or(VerifyError::MalformedSignature)?;
    twiml::verify(config.public_url(), webhook, |parts| signer.matching_key(config, parts, &signature))
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
    twiml::sign(HEADER, url, body, |parts| algorithm.tag(key.as_bytes(), parts))
}
