//! Webhooks before and after the signature check.

use std::fmt;
use std::time::Duration;

use http::HeaderMap;
use switchhook_domain::{Provider, Timestamp};
use thiserror::Error;

use crate::user_decision::{DecisionRule, UserDecision};

/// Request as it arrived. Anybody can have sent it, so no part of it can be trusted.
#[derive(Clone, Copy)]
pub struct UnverifiedWebhook<'a> {
    pub headers: &'a HeaderMap,
    /// Path of the request line, neither decoded nor normalised.
    pub path: &'a str,
    /// Query of the request line, neither decoded nor normalised, without the question mark. Empty if there is none.
    pub query: &'a str,
    /// Bytes as received.
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

/// Webhook with a valid signature. Everything that it contains was signed by the provider.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifiedWebhook {
    provider: Provider,
    query: String,
    body: Vec<u8>,
    key_index: usize,
    /// Id that the signature covers, if the scheme has one in a header.
    signed_id: Option<String>,
    /// The person's decision, by a rule of the configuration.
    decision: Option<UserDecision>,
}

impl VerifiedWebhook {
    /// Restores a webhook from the inbox. **Trust:** a webhook is verified before it is stored, and its signature is
    /// not kept. So everyone who can write to the inbox can forge a webhook. Call this function only with rows of the
    /// inbox.
    #[must_use]
    pub fn from_inbox(provider: Provider, query: String, body: Vec<u8>, key_index: usize) -> Self {
        Self::new(provider, &query, body, key_index)
    }

    /// Restores the [decision](Self::decision) from the inbox.
    #[must_use]
    pub fn with_decision(self, decision: Option<UserDecision>) -> Self {
        Self { decision, ..self }
    }

    /// **Trust:** the caller must have verified the body, and for Twilio, Plivo and SignalWire the query too. For a configured provider, the
    /// query is empty unless it is signed.
    pub(crate) fn new(provider: Provider, query: &str, body: Vec<u8>, key_index: usize) -> Self {
        let vendor = provider.vendor();
        let keeps_query = signs_url(vendor) || vendor.is_configured();
        let query = if keeps_query { query.to_owned() } else { String::new() };
        Self { provider, query, body, key_index, signed_id: None, decision: None }
    }

    /// Adds the person's decision, if the rule of the configuration finds one in the body.
    pub(crate) fn decided_by(self, rule: Option<&DecisionRule>) -> Self {
        let decision = rule.and_then(|rule| rule.decision(&self.body));
        Self { decision, ..self }
    }

    /// The person's decision by the rule of the configuration. `None` if there is no rule, or if it finds none. It is stored with the
    /// webhook, because functions that read the webhook again do not have the configuration.
    #[must_use]
    pub const fn decision(&self) -> Option<UserDecision> {
        self.decision
    }

    /// Adds the id that the signature covers.
    pub(crate) fn with_signed_id(self, signed_id: Option<String>) -> Self {
        Self { signed_id, ..self }
    }

    #[must_use]
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// Raw query, if it is signed. Empty except for Twilio, Plivo, SignalWire, and configured providers that sign in one of their ways,
    /// because the other providers sign the body alone.
    #[must_use]
    pub fn query(&self) -> &str {
        &self.query
    }

    /// Bytes as signed.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Id of the webhook that the signature covers. `None` if the scheme has none, and for a webhook of the inbox.
    pub(crate) fn signed_id(&self) -> Option<&str> {
        self.signed_id.as_deref()
    }

    /// Index of the configured key that verified the webhook. Everything that people see has its [`key_number`].
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

/// True if a vendor signs the URL that it posts to. False for a configured provider: its [scheme](crate::scheme::Scheme::signs_url) decides.
pub(crate) const fn signs_url(vendor: Provider) -> bool {
    match vendor {
        Provider::Twilio | Provider::Plivo | Provider::SignalWire => true,
        Provider::Retell
        | Provider::Vapi
        | Provider::Telnyx
        | Provider::ElevenLabs
        | Provider::Vonage
        | Provider::LiveKit
        | Provider::Daily
        | Provider::Bland
        | Provider::Generic
        | Provider::Named(_) => false,
    }
}

/// Returns the number of a key for people, in logs, metrics and pages: 1 is the first of the provider's list, the newest. Once every
/// webhook matches key 1, the other keys can be removed.
#[must_use]
pub const fn key_number(index: usize) -> usize {
    index.saturating_add(1)
}

/// Reason why a webhook is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum VerifyError {
    #[error("the signature header is missing")]
    MissingSignature,
    #[error("the signature header is malformed")]
    MalformedSignature,
    #[error("the header with the id of the webhook is missing")]
    MissingId,
    #[error("the header with the id of the webhook is malformed")]
    MalformedId,
    #[error("the timestamp header is missing")]
    MissingTimestamp,
    #[error("the timestamp header is malformed")]
    MalformedTimestamp,
    #[error("no configured key made this signature")]
    WrongSignature,
    #[error("the hash of the body is not the signed one")]
    WrongBodyHash,
    #[error("a claim of the token is not the configured one")]
    WrongClaim,
    #[error("the form has more parameters or bytes than the provider ever sends")]
    FormTooLarge,
    #[error("the signed timestamp is {} ms away from now", skew_ms)]
    StaleTimestamp {
        /// Now minus the signed timestamp: positive if the webhook is old, negative if its timestamp lies in the
        /// future.
        skew_ms: i64,
    },
    #[error("the signature names a key that is not configured")]
    UnknownKey,
    #[error("the algorithm of the signature is another one than is configured, or weaker")]
    UnacceptableAlgorithm,
    #[error("no signature scheme is configured")]
    MissingScheme,
    #[error("no public URL is configured to check the signature against")]
    MissingPublicUrl,
}

impl VerifyError {
    /// True if a newer entry of the provider may accept the webhook. An entry has the keys, and says which headers, algorithm and claims a
    /// webhook must have. So every error but a stale timestamp may come from an entry that has changed: there, a key of the entry did sign.
    #[must_use]
    pub const fn may_be_of_new_entry(self) -> bool {
        match self {
            Self::MissingSignature
            | Self::MalformedSignature
            | Self::MissingId
            | Self::MalformedId
            | Self::MissingTimestamp
            | Self::MalformedTimestamp
            | Self::WrongSignature
            | Self::WrongBodyHash
            | Self::WrongClaim
            | Self::UnknownKey
            | Self::UnacceptableAlgorithm
            | Self::FormTooLarge
            | Self::MissingScheme
            | Self::MissingPublicUrl => true,
            Self::StaleTimestamp { .. } => false,
        }
    }

    /// Name of the cause as a metric dimension: `bad_signature`, `stale_timestamp` or `misconfigured`.
    #[must_use]
    pub const fn cause(self) -> &'static str {
        match self {
            Self::MissingSignature
            | Self::MalformedSignature
            | Self::MissingId
            | Self::MalformedId
            | Self::MissingTimestamp
            | Self::MalformedTimestamp
            | Self::WrongSignature
            | Self::WrongBodyHash
            | Self::WrongClaim
            | Self::UnknownKey
            | Self::UnacceptableAlgorithm
            | Self::FormTooLarge => "bad_signature",
            Self::StaleTimestamp { .. } => "stale_timestamp",
            Self::MissingPublicUrl | Self::MissingScheme => "misconfigured",
        }
    }
}

/// Headers and URL of a webhook that is signed as its provider would sign it. The names of the headers are fixed, or texts if
/// they are configured.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedWebhook<N = &'static str> {
    /// Headers to send with the request. Names are in lower case.
    pub headers: Vec<(N, String)>,
    /// URL to post to. It can differ from the given one: Twilio adds the hash of a JSON body to the query.
    pub url: String,
    /// Content type that the provider would send. Not part of `headers`.
    pub content_type: &'static str,
}

impl From<SignedWebhook> for SignedWebhook<String> {
    fn from(SignedWebhook { headers, url, content_type }: SignedWebhook) -> Self {
        let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { headers, url, content_type }
    }
}

impl<N> fmt::Debug for SignedWebhook<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedWebhook").field("content_type", &self.content_type).finish_non_exhaustive()
    }
}

/// Value of the header with the signature.
pub(crate) fn signature_header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, VerifyError> {
    single_header(headers, name, VerifyError::MissingSignature, VerifyError::MalformedSignature)
}

/// Value of the header with the id of the webhook.
pub(crate) fn id_header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, VerifyError> {
    single_header(headers, name, VerifyError::MissingId, VerifyError::MalformedId)
}

/// Value of the header with the timestamp.
pub(crate) fn timestamp_header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, VerifyError> {
    single_header(headers, name, VerifyError::MissingTimestamp, VerifyError::MalformedTimestamp)
}

/// Value of a header that must occur exactly once.
fn single_header<'a>(
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

/// Parses a timestamp of decimal digits, in seconds. The number must fit into 64 bits as milliseconds too.
pub(crate) fn parse_unix_seconds(header: &str) -> Option<Timestamp> {
    if !header.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let seconds: i64 = header.parse().ok()?;
    Some(Timestamp::from_millis(seconds.checked_mul(1000)?))
}

/// Rejects a signed timestamp that is further from now than the window, in either direction. A distance of exactly the
/// window is accepted. Without a window, every timestamp is.
pub(crate) fn check_window(window: Option<Duration>, signed_at: Timestamp, now: Timestamp) -> Result<(), VerifyError> {
    let skew_ms = now.millis_since(signed_at);
    let window_ms = window.map_or(u128::MAX, |window| window.as_millis());
    if u128::from(skew_ms.unsigned_abs()) > window_ms {
        return Err(VerifyError::StaleTimestamp { skew_ms });
    }
    Ok(())
}

/// Rejects a time that lies further in the future than `ahead`.
pub(crate) fn check_not_after(time: Timestamp, now: Timestamp, ahead: Duration) -> Result<(), VerifyError> {
    let skew_ms = now.millis_since(time);
    let is_too_late = skew_ms < 0 && u128::from(skew_ms.unsigned_abs()) > ahead.as_millis();
    if is_too_late { Err(VerifyError::StaleTimestamp { skew_ms }) } else { Ok(()) }
}
