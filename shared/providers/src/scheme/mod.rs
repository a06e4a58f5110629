//! Signature schemes as data. One engine verifies and signs webhooks by them.
//!
//! A scheme says which header has the signature, how that header is written, and which bytes are signed. Retell, Vapi and the
//! generic provider have constants. The entry of Vapi may configure another scheme, and the entry of a configured provider must.
//! A provider that signs in a way that no other uses has code of its own, in its folder.
//!
//! **Verifying and signing use the same data**, so a webhook that [`Scheme::sign`] made is accepted by [`Scheme::verify`].

mod data;
mod header;
mod hmac;
mod shared_secret;

use std::time::Duration;

use switchhook_domain::Timestamp;

pub(crate) use self::data::{Encoding, HeaderForm, HmacScheme, KeyForm, SignedTime, TimePlace, TimeUnit};
pub(crate) use self::hmac::wrong_template;
use crate::key::Key;
use crate::webhook::{SignedWebhook, UnverifiedWebhook, VerifyError};

/// Way in which a provider authenticates its webhooks. Header names are in lower case.
#[derive(Clone, Debug)]
pub(crate) enum Scheme {
    Hmac(HmacScheme<String>),
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
    /// Checks the signature with every key, and the signed time against the window.
    pub(crate) fn verify(
        &self,
        (keys, window): (&[Key], Option<Duration>),
        webhook: &UnverifiedWebhook<'_>,
        now: Timestamp,
    ) -> Result<Proof, VerifyError> {
        match self {
            Self::Hmac(scheme) => scheme.verify((keys, window), webhook, now),
            Self::SharedSecret { header } => {
                let key_index = shared_secret::verify(keys, header, webhook.headers)?;
                Ok(Proof { key_index, webhook_id: None })
            }
        }
    }

    /// Signs a webhook as the provider would. `None` if the key does not have the form that the scheme asks for.
    pub(crate) fn sign(&self, key: &Key, url: &str, body: &[u8], now: Timestamp) -> Option<SignedWebhook<String>> {
        match self {
            Self::Hmac(scheme) => scheme.sign(key, url, body, now),
            Self::SharedSecret { header } => Some(shared_secret::sign(key, header, url)),
        }
    }

    /// True if the signature covers a time, so that a window can be checked.
    pub(crate) const fn has_timestamp(&self) -> bool {
        match self {
            Self::Hmac(scheme) => scheme.timestamp.is_some(),
            Self::SharedSecret { .. } => false,
        }
    }
}
