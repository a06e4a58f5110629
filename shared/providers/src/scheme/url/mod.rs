//! Schemes that sign the URL of a webhook, with its query, and then the body. Each has the name of the vendor that invented it.
//!
//! None of them signs a time, so whoever has seen a webhook can send it again.

mod plivo;
mod signalwire;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use switchhook_domain::Timestamp;

use super::Proof;
use crate::hmac::HmacAlgorithm;
use crate::key::Key;
use crate::twiml;
use crate::webhook::{SignedWebhook, UnverifiedWebhook, VerifyError, signature_header};

/// Scheme that signs a URL. `T` is `&'static str` in a constant, and `String` in a scheme that is configured.
#[derive(Clone, Debug)]
pub(crate) enum UrlScheme<T> {
    /// Base64 of an HMAC over the URL and a form, as [`twiml`] joins them.
    Twilio { header: T, algorithm: HmacAlgorithm },
    /// Both schemes of SignalWire: the one of cXML and the one of SWML.
    SignalWire,
    /// Version 3 of Plivo's scheme.
    Plivo,
}

impl<T: AsRef<str>> UrlScheme<T> {
    /// Checks the signature with every key. `public_url` is the start of the URL, up to the path of the request.
    pub(crate) fn verify(
        &self,
        keys: &[Key],
        public_url: Option<&str>,
        webhook: &UnverifiedWebhook<'_>,
    ) -> Result<Proof, VerifyError> {
        let key_index = match self {
            Self::Twilio { header, algorithm } => {
                let header = signature_header(webhook.headers, header.as_ref())?;
                let signature = BASE64_STANDARD.decode(header).ok();
                let signature = signature.filter(|signature| signature.len() == algorithm.tag_bytes());
                let signature = signature.ok_or(VerifyError::MalformedSignature)?;
                let matching_key =
                    |parts: &[&[u8]]| keys.iter().position(|key| algorithm.verifies(key.as_bytes(), parts, &signature));
                twiml::verify(public_url, webhook, matching_key)?
            }
            Self::SignalWire => signalwire::verify(keys, public_url, webhook)?,
            Self::Plivo => plivo::verify(keys, public_url, webhook)?,
        };
        Ok(Proof { key_index, webhook_id: None })
    }

    /// True if a verified webhook is a form, whose parameters are signed in no certain order.
    pub(crate) fn is_form(&self, query: &str, body: &[u8]) -> bool {
        match self {
            Self::Twilio { .. } => !twiml::is_json(query),
            Self::SignalWire => !twiml::is_json(query) && !signalwire::is_swml(body),
            Self::Plivo => true,
        }
    }
}

impl<T: From<&'static str> + Clone> UrlScheme<T> {
    /// Signs a webhook as the provider would. Plivo's nonce is the time.
    pub(crate) fn sign(&self, key: &Key, url: &str, body: &[u8], now: Timestamp) -> SignedWebhook<T> {
        match self {
            Self::Twilio { header, algorithm } => {
                twiml::sign(header.clone(), url, body, |parts| algorithm.tag(key.as_bytes(), parts))
            }
            Self::SignalWire => signalwire::sign(key, url, body),
            Self::Plivo => plivo::sign(key, url, body, now),
        }
    }
}
