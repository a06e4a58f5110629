//! Signature schemes that are configured: the credential of a Vapi server, and the shared keys of Twilio.

use http::HeaderName;
use serde_json::Value;

use super::fields::Fields;
use crate::hmac::HmacAlgorithm;
use crate::key::Key;
use crate::scheme::{Algorithm, Encoding, HeaderForm, HeaderScheme, KeyForm, Scheme, SignedTime, TimePlace, TimeUnit};
use crate::vapi;

impl Scheme {
    /// Reads the object `signature` of Vapi, with the names of Vapi's own credential in snake case. `None` if it is missing or
    /// wrong.
    pub(super) fn read_vapi(fields: &mut Fields<'_>) -> Option<Self> {
        let mut fields = fields.object("signature")?;
        let modes = [("hmac", false), ("shared_secret", true)];
        let is_secret = one_of(&mut fields, "mode", "neither hmac nor shared_secret", &modes).unwrap_or(false);
        if is_secret {
            let header = header_name(&mut fields, "header").unwrap_or_else(|| "x-vapi-secret".to_owned());
            fields.reject_unknown("mode, header");
            return Some(Self::SharedSecret { header });
        }
        let has_timestamp = fields.flag("include_timestamp").unwrap_or(true);
        if !has_timestamp && fields.has("timestamp_header") {
            fields.problem("timestamp_header", "not beside \"include_timestamp\": false");
        }
        let timestamp_header = header_name(&mut fields, "timestamp_header").unwrap_or_else(|| "x-timestamp".to_owned());
        let timestamp = SignedTime { place: TimePlace::Header(timestamp_header), unit: TimeUnit::Either };
        let hash = algorithm(&mut fields);
        let scheme = HeaderScheme {
            header: header_name(&mut fields, "header").unwrap_or_else(|| vapi::SCHEME.header.to_owned()),
            form: HeaderForm::Single,
            prefix: fields.optional_text("prefix").unwrap_or_default(),
            encoding: encoding(&mut fields),
            timestamp: has_timestamp.then_some(timestamp),
            id_header: None,
            signed: if has_timestamp { "{timestamp}.{body}" } else { "{body}" }.to_owned(),
            algorithm: Algorithm::Hmac {
                hash,
                keys: if fields.flag("base64_keys").unwrap_or(false) { KeyForm::Base64 } else { KeyForm::Text },
            },
        };
        fields.reject_unknown(
            "mode, header, timestamp_header, include_timestamp, algorithm, encoding, prefix, base64_keys",
        );
        Some(Self::Header(scheme))
    }
}

pub(super) fn algorithm(fields: &mut Fields<'_>) -> HmacAlgorithm {
    let known = [("sha256", HmacAlgorithm::Sha256), ("sha512", HmacAlgorithm::Sha512), ("sha1", HmacAlgorithm::Sha1)];
    one_of(fields, "algorithm", "none of sha256, sha512, sha1", &known).unwrap_or(HmacAlgorithm::Sha256)
}

pub(super) fn encoding(fields: &mut Fields<'_>) -> Encoding {
    let known = [("hex", Encoding::Hex), ("base64", Encoding::Base64)];
    one_of(fields, "encoding", "neither hex nor base64", &known).unwrap_or(Encoding::Hex)
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
pub(super) fn one_of<T: Copy>(fields: &mut Fields<'_>, name: &str, message: &str, known: &[(&str, T)]) -> Option<T> {
    let text = fields.optional_text(name)?;
    let found = known.iter().find(|(known, _)| *known == text).map(|(_, value)| *value);
    if found.is_none() {
        fields.problem(name, message);
    }
    found
}

/// Header name, in lower case.
pub(super) fn header_name(fields: &mut Fields<'_>, name: &str) -> Option<String> {
    let text = fields.optional_text(name)?;
    let header = HeaderName::from_bytes(text.as_bytes()).ok();
    if header.is_none() {
        fields.problem(name, "not the name of a header");
    }
    header.map(|header| header.as_str().to_owned())
}
