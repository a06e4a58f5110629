//! From an HTTP request that anybody could have sent to a webhook that only its provider can have signed.

use std::fmt;

use http::HeaderMap;
use switchhook_domain::{Provider, Timestamp};
use thiserror::Error;

use crate::config::ProviderConfig;
use crate::key::Key;
use crate::{generic, retell, telnyx, twilio, vapi};

/// A request as it came in. Nothing in it can be believed.
#[derive(Clone, Copy)]
pub struct UnverifiedWebhook<'a> {
    pub headers: &'a HeaderMap,
    /// As in the request line: neither decoded nor normalised.
    pub path: &'a str,
    /// As in the request line, without the question mark; empty if there is none.
    pub query: &'a str,
    /// The bytes as received.
    pub body: &'a [u8],
}

impl fmt::Debug for UnverifiedWebhook<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnverifiedWebhook")
            .field("path", &self.path)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// A webhook whose signature was right. Everything that can be read from it was signed.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifiedWebhook {
    provider: Provider,
    query: String,
    body: Vec<u8>,
    key_index: usize,
}

impl VerifiedWebhook {
    /// A webhook as the inbox holds it. **Trust:** a webhook is verified before it is stored and its signature is not kept, so who
    /// writes to the inbox can make one of these. Call this with nothing else.
    #[must_use]
    pub fn from_inbox(provider: Provider, query: String, body: Vec<u8>, key_index: usize) -> Self {
        Self::signed(provider, &query, body, key_index)
    }

    /// What a provider answered when we asked it, over a connection on which only it answers: as good as signed.
    pub(crate) fn from_lookup_answer(provider: Provider, query: &str, body: Vec<u8>) -> Self {
        Self::signed(provider, query, body, 0)
    }

    fn signed(provider: Provider, query: &str, body: Vec<u8>, key_index: usize) -> Self {
        let query = match provider {
            Provider::Twilio => query.to_owned(),
            Provider::Retell | Provider::Vapi | Provider::Telnyx | Provider::Generic => String::new(),
        };
        Self { provider, query, body, key_index }
    }

    #[must_use]
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// The raw query as far as it is signed: always empty but for Twilio, because the others sign the body alone.
    #[must_use]
    pub fn query(&self) -> &str {
        &self.query
    }

    /// The bytes as signed.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Which of the configured keys verified it, from 0. Once nothing matches but 0, the others can go.
    #[must_use]
    pub fn key_index(&self) -> usize {
        self.key_index
    }
}

impl fmt::Debug for VerifiedWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifiedWebhook")
            .field("provider", &self.provider)
            .field("body_bytes", &self.body.len())
            .field("key_index", &self.key_index)
            .finish_non_exhaustive()
    }
}

/// Checks the provider's signature over the raw bytes, with every configured key, in constant time.
///
/// # Errors
///
/// A cause for the log and the metric; the sender is told nothing of it. A timestamp is judged only after its signature, so
/// [`VerifyError::StaleTimestamp`] always means that the provider did sign this, earlier or by a clock that is off.
pub fn verify(
    provider: Provider,
    config: &ProviderConfig,
    webhook: &UnverifiedWebhook<'_>,
    now: Timestamp,
) -> Result<VerifiedWebhook, VerifyError> {
    let key_index = match provider {
        Provider::Retell => retell::verify(config, webhook, now),
        Provider::Twilio => twilio::verify(config, webhook),
        Provider::Vapi => vapi::verify(config, webhook, now),
        Provider::Telnyx => telnyx::verify(config, webhook, now),
        Provider::Generic => generic::verify(config, webhook, now),
    }?;
    let body = webhook.body.to_vec();
    Ok(VerifiedWebhook::signed(provider, webhook.query, body, key_index))
}

/// Why a webhook is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum VerifyError {
    #[error("the signature header is missing")]
    MissingSignature,
    #[error("the signature header is malformed")]
    MalformedSignature,
    #[error("the timestamp header is missing")]
    MissingTimestamp,
    #[error("the timestamp header is malformed")]
    MalformedTimestamp,
    #[error("no configured key made this signature")]
    WrongSignature,
    #[error("the body is not the one whose hash is signed")]
    WrongBodyHash,
    #[error("the form has more parameters than any that its provider sends")]
    TooManyParameters,
    #[error("the signature is {} ms away from now", skew_ms)]
    StaleTimestamp {
        /// Now less the signed timestamp: positive if the webhook is old, negative if it comes from the future.
        skew_ms: i64,
    },
    #[error("no public URL is configured to check the signature against")]
    MissingPublicUrl,
}

impl VerifyError {
    /// The name of the cause as a metric dimension: `bad_signature`, `stale_timestamp` or `misconfigured`.
    #[must_use]
    pub const fn cause(self) -> &'static str {
        match self {
            Self::MissingSignature
            | Self::MalformedSignature
            | Self::MissingTimestamp
            | Self::MalformedTimestamp
            | Self::WrongSignature
            | Self::WrongBodyHash
            | Self::TooManyParameters => "bad_signature",
            Self::StaleTimestamp { .. } => "stale_timestamp",
            Self::MissingPublicUrl => "misconfigured",
        }
    }
}

/// A webhook signed as its provider would.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedWebhook {
    /// To be sent with the request; names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// Where to post to. Not always the URL that was given: Twilio adds the hash of a JSON body to the query.
    pub url: String,
    /// What the provider would call the body. Not part of `headers`.
    pub content_type: &'static str,
}

impl fmt::Debug for SignedWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedWebhook").field("content_type", &self.content_type).finish_non_exhaustive()
    }
}

/// Signs as the provider would, for tests, the simulator and `switchhook send`.
///
/// `url` is the full public URL, query included; only Twilio signs it, without its fragment. For Twilio a JSON object or array is
/// signed as such, and any other body as a form. For Telnyx the key is base64 of the 32 bytes of a private Ed25519 seed (any other text
/// stands for the seed that is its SHA-256), and [`verifying_key`] is what its webhooks are verified with.
#[must_use]
pub fn sign(provider: Provider, key: &Key, url: &str, body: &[u8], now: Timestamp) -> SignedWebhook {
    match provider {
        Provider::Retell => retell::sign(key, url, body, now),
        Provider::Twilio => twilio::sign(key, url, body),
        Provider::Vapi => vapi::sign(key, url, body, now),
        Provider::Telnyx => telnyx::sign(key, url, body, now),
        Provider::Generic => generic::sign(key, url, body, now),
    }
}

/// What to put into `keys` of the configuration to verify what [`sign`] makes with this key: for Telnyx the public key, for all others
/// the key itself, which is as secret.
#[must_use]
pub fn verifying_key(provider: Provider, key: &Key) -> String {
    match provider {
        Provider::Telnyx => telnyx::public_key(key),
        Provider::Retell | Provider::Twilio | Provider::Vapi | Provider::Generic => key.as_str().to_owned(),
    }
}

/// The value of a header that may be there once.
pub(crate) fn single_header<'a>(
    headers: &'a HeaderMap,
    name: &str,
    missing: VerifyError,
    malformed: VerifyError,
) -> Result<&'a str, VerifyError> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().ok_or(missing)?;
    if values.next().is_some() {
        return Err(malformed);
    }
    let value = value.to_str().map_err(|_| malformed)?;
    if value.is_empty() { Err(missing) } else { Ok(value) }
}

/// Refuses a signed timestamp that lies further from now than the window, either way. Exactly the window is still good.
pub(crate) fn check_window(config: &ProviderConfig, signed_at: Timestamp, now: Timestamp) -> Result<(), VerifyError> {
    let skew_ms = now.millis_since(signed_at);
    let window_ms = config.window().map_or(u128::MAX, |window| window.as_millis());
    if u128::from(skew_ms.unsigned_abs()) > window_ms {
        return Err(VerifyError::StaleTimestamp { skew_ms });
    }
    Ok(())
}
