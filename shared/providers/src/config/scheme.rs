//! Signature schemes that are configured: the credential of a Vapi server, and the shared keys of Twilio.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderName;
use serde_json::Value;

use super::fields::Fields;
use crate::hmac::HmacAlgorithm;
use crate::key::Key;

/// Way in which Vapi authenticates its webhooks.
#[derive(Clone, Debug)]
pub(crate) enum VapiScheme {
    Hmac(HmacScheme),
    /// The header repeats the key, so nothing is signed.
    SharedSecret {
        header: String,
    },
}

/// Settings of an HMAC credential. Header names are in lower case.
#[derive(Clone, Debug)]
pub(crate) struct HmacScheme {
    pub(crate) algorithm: HmacAlgorithm,
    pub(crate) signature_header: String,
    /// `None` if the credential signs the body alone.
    pub(crate) timestamp_header: Option<String>,
    pub(crate) prefix: String,
    pub(crate) encoding: SignatureEncoding,
    /// True if each key is the base64 of the secret.
    pub(crate) base64_keys: bool,
}

impl Default for HmacScheme {
    fn default() -> Self {
        Self {
            algorithm: HmacAlgorithm::Sha256,
            signature_header: "x-signature".to_owned(),
            timestamp_header: Some("x-timestamp".to_owned()),
            prefix: String::new(),
            encoding: SignatureEncoding::Hex,
            base64_keys: false,
        }
    }
}

impl HmacScheme {
    /// Bytes of the secret. `None` if the scheme has base64 keys and this one is not base64.
    pub(crate) fn secret(&self, key: &Key) -> Option<Vec<u8>> {
        if self.base64_keys {
            BASE64_STANDARD.decode(key.as_bytes()).ok().filter(|secret| !secret.is_empty())
        } else {
            Some(key.as_bytes().to_vec())
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum SignatureEncoding {
    Hex,
    Base64,
}

impl VapiScheme {
    /// Reads the object `signature`, with the names of Vapi's own credential in snake case.
    pub(super) fn read(fields: &mut Fields<'_>) -> Self {
        let Some(value) = fields.take("signature") else {
            return Self::Hmac(HmacScheme::default());
        };
        let Value::Object(object) = value else {
            fields.problem("signature", "not an object");
            return Self::Hmac(HmacScheme::default());
        };
        let mut fields = fields.inner("signature", object);
        let modes = [("hmac", false), ("shared_secret", true)];
        let is_secret = one_of(&mut fields, "mode", "neither hmac nor shared_secret", &modes).unwrap_or(false);
        if is_secret {
            let header = header_name(&mut fields, "header").unwrap_or_else(|| "x-vapi-secret".to_owned());
            fields.reject_unknown("mode, header");
            return Self::SharedSecret { header };
        }
        let default = HmacScheme::default();
        let algorithms =
            [("sha256", HmacAlgorithm::Sha256), ("sha512", HmacAlgorithm::Sha512), ("sha1", HmacAlgorithm::Sha1)];
        let encodings = [("hex", SignatureEncoding::Hex), ("base64", SignatureEncoding::Base64)];
        let has_timestamp = fields.flag("include_timestamp").unwrap_or(true);
        if !has_timestamp && fields.has("timestamp_header") {
            fields.problem("timestamp_header", "not beside \"include_timestamp\": false");
        }
        let timestamp_header = header_name(&mut fields, "timestamp_header").or(default.timestamp_header);
        let scheme = HmacScheme {
            algorithm: one_of(&mut fields, "algorithm", "none of sha256, sha512, sha1", &algorithms)
                .unwrap_or(default.algorithm),
            signature_header: header_name(&mut fields, "header").unwrap_or(default.signature_header),
            timestamp_header: timestamp_header.filter(|_| has_timestamp),
            prefix: fields.optional_text("prefix").unwrap_or_default(),
            encoding: one_of(&mut fields, "encoding", "neither hex nor base64", &encodings).unwrap_or(default.encoding),
            base64_keys: fields.flag("base64_keys").unwrap_or(false),
        };
        fields.reject_unknown(
            "mode, header, timestamp_header, include_timestamp, algorithm, encoding, prefix, base64_keys",
        );
        Self::Hmac(scheme)
    }
}

/// Key that a Twilio account shares with the receivers of its webhooks. A webhook names the key that signed it.
#[derive(Clone, Debug)]
pub(crate) struct SharedKey {
    pub(crate) id: String,
    pub(crate) key: Key,
    /// Weakest algorithm that is accepted with this key.
    pub(crate) algorithm: HmacAlgorithm,
}

impl SharedKey {
    /// Reads the list `shared_keys`. Empty if the field is missing.
    pub(super) fn read_list(fields: &mut Fields<'_>) -> Vec<Self> {
        let values = match fields.take("shared_keys") {
            None => return Vec::new(),
            Some(Value::Array(values)) if !values.is_empty() => values,
            Some(_) => {
                fields.problem("shared_keys", "not a list of at least one object");
                return Vec::new();
            }
        };
        let mut keys: Vec<Self> = Vec::new();
        for (index, value) in values.into_iter().enumerate() {
            let name = format!("shared_keys[{index}]");
            let Value::Object(object) = value else {
                fields.problem(&name, "not an object");
                continue;
            };
            let mut fields = fields.inner(&name, object);
            let algorithms = [("HMAC_SHA256", HmacAlgorithm::Sha256), ("HMAC_SHA1", HmacAlgorithm::Sha1)];
            let algorithm = one_of(&mut fields, "algorithm", "neither HMAC_SHA256 nor HMAC_SHA1", &algorithms);
            let (id, key) = (fields.text("id"), fields.key("key"));
            if id.as_ref().is_some_and(|id| keys.iter().any(|other| other.id == *id)) {
                fields.problem("id", "another shared key has this id");
            }
            fields.reject_unknown("id, key, algorithm");
            if let (Some(id), Some(key)) = (id, key) {
                keys.push(Self { id, key, algorithm: algorithm.unwrap_or(HmacAlgorithm::Sha256) });
            }
        }
        keys
    }
}

/// Value of a text that must be one of these names. `None` if the field is missing or wrong.
fn one_of<T: Copy>(fields: &mut Fields<'_>, name: &str, message: &str, known: &[(&str, T)]) -> Option<T> {
    let text = fields.optional_text(name)?;
    let found = known.iter().find(|(known, _)| *known == text).map(|(_, value)| *value);
    if found.is_none() {
        fields.problem(name, message);
    }
    found
}

/// Header name, in lower case.
fn header_name(fields: &mut Fields<'_>, name: &str) -> Option<String> {
    let text = fields.optional_text(name)?;
    let header = HeaderName::from_bytes(text.as_bytes()).ok();
    if header.is_none() {
        fields.problem(name, "not the name of a header");
    }
    header.map(|header| header.as_str().to_owned())
}
