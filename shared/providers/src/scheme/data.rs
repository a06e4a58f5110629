//! The data of schemes with a signature in a header.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;

use crate::hmac::HmacAlgorithm;
use crate::key::Key;

/// Scheme with a signature in a header. `T` is `&'static str` in a constant, and `String` in a scheme that is configured.
#[derive(Clone, Debug)]
pub(crate) struct HeaderScheme<T> {
    pub(crate) algorithm: Algorithm,
    /// Name of the header with the signature.
    pub(crate) header: T,
    pub(crate) form: HeaderForm<T>,
    /// Text before each signature, for example `sha256=`. Empty if there is none.
    pub(crate) prefix: T,
    pub(crate) encoding: Encoding,
    /// `None` if no time is signed.
    pub(crate) timestamp: Option<SignedTime<T>>,
    /// Header with the id of the webhook. `None` if no id is signed.
    pub(crate) id_header: Option<T>,
    /// Template of the signed bytes, with the placeholders `{id}`, `{timestamp}` and `{body}`.
    pub(crate) signed: T,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Algorithm {
    Hmac {
        hash: HmacAlgorithm,
        keys: KeyForm,
    },
    /// A configured key is the provider's public key. It verifies, and cannot sign.
    Ed25519,
}

/// Way in which the signature header is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HeaderForm<T> {
    /// The value is one signature.
    Single,
    /// Fields that are separated by commas, for example `t=1700000000,v1=…,v1=…`. Each field with this name is a signature.
    Fields {
        signature: T,
        /// True if the header has the time and one signature, in this order, and nothing else.
        exact: bool,
    },
    /// Signatures that are separated by a character. Those without the prefix of the scheme are skipped: they belong to another
    /// version of the scheme.
    List { separator: char },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Encoding {
    Hex,
    Base64,
}

/// Time that the signature covers.
#[derive(Clone, Debug)]
pub(crate) struct SignedTime<T> {
    pub(crate) place: TimePlace<T>,
    pub(crate) unit: TimeUnit,
}

#[derive(Clone, Debug)]
pub(crate) enum TimePlace<T> {
    /// Header of its own.
    Header(T),
    /// Field of the signature header.
    Field(T),
}

/// Unit of a time since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TimeUnit {
    Seconds,
    Millis,
    /// The size of the number decides.
    Either,
}

/// Way in which the configured secrets are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    /// The text itself is the secret.
    Text,
    Base64,
    /// Base64 after `whsec_`. Standard Webhooks writes keys in this way. The prefix may be missing.
    Whsec,
}

/// Prefix of a key of Standard Webhooks.
const WHSEC: &str = "whsec_";

/// The packages of Standard Webhooks accept a key with and without padding.
const PADDING_OPTIONAL: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl KeyForm {
    /// Bytes of the secret. `None` if the key does not have this form.
    pub(crate) fn secret(self, key: &Key) -> Option<Vec<u8>> {
        match self {
            Self::Text => Some(key.as_bytes().to_vec()),
            Self::Base64 => decoded(&BASE64_STANDARD, key.as_str()),
            Self::Whsec => decoded(&PADDING_OPTIONAL, key.as_str().strip_prefix(WHSEC).unwrap_or(key.as_str())),
        }
    }
}

fn decoded(base64: &GeneralPurpose, text: &str) -> Option<Vec<u8>> {
    base64.decode(text).ok().filter(|secret| !secret.is_empty())
}
