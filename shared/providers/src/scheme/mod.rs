//! Signature schemes as data. One engine verifies and signs webhooks by them.
//!
//! * [`HeaderScheme`]: an HMAC or an Ed25519 signature over a template of the body, and perhaps a time and an id.
//! * [`UrlScheme`]: an HMAC over the URL and the body, in the forms of Twilio, SignalWire and Plivo.
//! * [`TokenScheme`]: a JSON Web Token with a hash of the body.
//! * A shared secret, which signs nothing.
//!
//! The folder of a provider has a constant, unless no other provider could use its scheme. A webhook of Twilio may name one of several
//! keys. The tokens of LiveKit and Vonage have claims of their own. The entry of Vapi may configure another scheme, and the entry
//! of a configured provider must.
//!
//! **Verifying and signing use the same data**, so a webhook that [`Scheme::sign`] made is accepted by [`Scheme::verify`]. If the
//! configured keys are public, only the private key of the provider signs.

mod data;
mod engine;
mod header;
mod shared_secret;
mod token;
mod url;

use std::time::Duration;

use switchhook_domain::Timestamp;

pub(crate) use self::data::{Algorithm, Encoding, HeaderForm, HeaderScheme, KeyForm, SignedTime, TimePlace, TimeUnit};
pub(crate) use self::engine::wrong_template;
pub(crate) use self::token::TokenScheme;
pub(crate) use self::url::UrlScheme;
use crate::key::Key;
use crate::webhook::{SignedWebhook, UnverifiedWebhook, VerifyError};

/// Way in which a provider authenticates its webhooks. Header names are in lower case.
#[derive(Clone, Debug)]
pub(crate) enum Scheme {
    Header(HeaderScheme<String>),
    Url(UrlScheme<String>),
    Token(TokenScheme),
    /// The header repeats the key, so **nothing is signed**. It is accepted only if the configuration asks for it.
    SharedSecret {
        header: String,
    },
}

/// Facts that a valid signature proves.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    /// Index of the key that made the signature.
    pub(crate) key_index: usize,
    /// Id of the webhook from its header. `None` if the signature covers no id.
    pub(crate) webhook_id: Option<String>,
}

impl Scheme {
    /// Checks the signature with every key, and the signed time against the window. Only a scheme that signs the URL needs `public_url`.
    pub(crate) fn verify(
        &self,
        (keys, window): (&[Key], Option<Duration>),
        public_url: Option<&str>,
        webhook: &UnverifiedWebhook<'_>,
        now: Timestamp,
    ) -> Result<Proof, VerifyError> {
        match self {
            Self::Header(scheme) => scheme.verify((keys, window), webhook, now),
            Self::Url(scheme) => scheme.verify(keys, public_url, webhook),
            Self::Token(scheme) => scheme.verify((keys, window), webhook, now),
            Self::SharedSecret { header } => {
                let key_index = shared_secret::verify(keys, header, webhook.headers)?;
                Ok(Proof { key_index, webhook_id: None })
            }
        }
    }

    /// Signs a webhook as the provider would, with the provider's secret or private key. `None` if the key does not have the form that
    /// the scheme asks for.
    pub(crate) fn sign(&self, key: &Key, url: &str, body: &[u8], now: Timestamp) -> Option<SignedWebhook<String>> {
        match self {
            Self::Header(scheme) => scheme.sign(key, url, body, now),
            Self::Url(scheme) => Some(scheme.sign(key, url, body, now)),
            Self::Token(scheme) => scheme.sign(key, url, body, now),
            Self::SharedSecret { header } => Some(shared_secret::sign(key, header, url)),
        }
    }

    /// True if the configured keys are public, so that they only verify.
    pub(crate) const fn has_public_keys(&self) -> bool {
        match self {
            Self::Header(scheme) => matches!(scheme.algorithm, Algorithm::Ed25519),
            Self::Token(scheme) => scheme.algorithm.has_public_keys(),
            Self::Url(_) | Self::SharedSecret { .. } => false,
        }
    }

    /// True if the signature covers a time, so that a window can be checked.
    pub(crate) const fn has_timestamp(&self) -> bool {
        match self {
            Self::Header(scheme) => scheme.timestamp.is_some(),
            Self::Token(_) => true,
            Self::Url(_) | Self::SharedSecret { .. } => false,
        }
    }

    /// True if the signature of a verified webhook covers the parameters of a form, and not the bytes of the body. The inbox keeps no
    /// signature, so the signed query and the body decide.
    pub(crate) fn is_form(&self, query: &str, body: &[u8]) -> bool {
        match self {
            Self::Url(scheme) => scheme.is_form(query, body),
            Self::Header(_) | Self::Token(_) | Self::SharedSecret { .. } => false,
        }
    }

    /// True if the signature covers the URL with its query, so that the configuration must name its start.
    pub(crate) const fn signs_url(&self) -> bool {
        match self {
            Self::Url(_) => true,
            Self::Header(_) | Self::Token(_) | Self::SharedSecret { .. } => false,
        }
    }
}
