//! The object `signature` of a configured provider.

use serde_json::Value;

use super::fields::Fields;
use super::scheme::{algorithm, encoding, header_name, one_of};
use crate::hmac::HmacAlgorithm;
use crate::jwt::TokenAlgorithm;
use crate::scheme::{
    Algorithm, Encoding, HeaderForm, HeaderScheme, KeyForm, Scheme, SignedTime, TimePlace, TimeUnit, TokenScheme,
    UrlScheme, wrong_template,
};

/// Most claims that a token must have.
const CLAIMS_MAX: usize = 8;

/// Names of the schemes.
#[derive(Clone, Copy)]
enum Name {
    Hmac,
    Ed25519,
    StandardWebhooks,
    Jwt,
    Twilio,
    SignalWire,
    Plivo,
    SharedSecret,
}

impl Scheme {
    /// Reads the object `signature` of a configured provider. `None` if it is missing or wrong.
    pub(super) fn read_configured(fields: &mut Fields<'_>) -> Option<Self> {
        if !fields.has("signature") {
            fields.problem("signature", "missing: there is no default, because it decides whose webhooks are accepted");
        }
        let mut fields = fields.object("signature")?;
        let schemes = [
            ("hmac", Name::Hmac),
            ("ed25519", Name::Ed25519),
            ("standard_webhooks", Name::StandardWebhooks),
            ("jwt", Name::Jwt),
            ("twilio", Name::Twilio),
            ("signalwire", Name::SignalWire),
            ("plivo", Name::Plivo),
            ("shared_secret", Name::SharedSecret),
        ];
        let names = schemes.map(|(name, _)| name).join(", ");
        if !fields.has("scheme") {
            fields.problem("scheme", &format!("missing: one of {names}"));
        }
        match one_of(&mut fields, "scheme", &format!("none of {names}"), &schemes)? {
            Name::Hmac => {
                let algorithm = hmac(&mut fields);
                read_header(fields, algorithm, &format!("{HEADER_FIELDS}, algorithm, key_encoding")).map(Self::Header)
            }
            Name::Ed25519 => read_header(fields, Algorithm::Ed25519, HEADER_FIELDS).map(Self::Header),
            Name::StandardWebhooks => {
                let versions = [("v1", false), ("v1a", true)];
                let is_public = one_of(&mut fields, "version", "neither v1 nor v1a", &versions).unwrap_or(false);
                fields.reject_unknown("scheme, version");
                Some(Self::Header(standard_webhooks(is_public)))
            }
            Name::Jwt => read_jwt(fields).map(Self::Token),
            Name::Twilio => Some(Self::Url(read_twilio(fields))),
            Name::SignalWire => {
                fields.reject_unknown("scheme");
                Some(Self::Url(UrlScheme::SignalWire))
            }
            Name::Plivo => {
                fields.reject_unknown("scheme");
                Some(Self::Url(UrlScheme::Plivo))
            }
            Name::SharedSecret => {
                let header = required_header(&mut fields);
                fields.reject_unknown("scheme, header");
                Some(Self::SharedSecret { header: header? })
            }
        }
    }
}

/// Names of the fields of every scheme with a signature in a header.
const HEADER_FIELDS: &str = "scheme, header, signature_field, separator, id_header, timestamp_header, timestamp_field, \
                             timestamp_unit, signed, encoding, prefix";

fn hmac(fields: &mut Fields<'_>) -> Algorithm {
    let hash = algorithm(fields);
    let key_forms = [("text", KeyForm::Text), ("base64", KeyForm::Base64), ("whsec", KeyForm::Whsec)];
    let keys = one_of(fields, "key_encoding", "none of text, base64, whsec", &key_forms).unwrap_or(KeyForm::Text);
    Algorithm::Hmac { hash, keys }
}

/// Reads the fields of a scheme with a signature in a header. `known` lists the fields that exist.
fn read_header(mut fields: Fields<'_>, algorithm: Algorithm, known: &str) -> Option<HeaderScheme<String>> {
    let header = required_header(&mut fields);
    let timestamp_header = header_name(&mut fields, "timestamp_header");
    let timestamp_field = fields.optional_text("timestamp_field");
    let signature_field = fields.optional_text("signature_field");
    let separators = [("comma", ','), ("space", ' ')];
    let separator = one_of(&mut fields, "separator", "neither comma nor space", &separators);
    let id_header = header_name(&mut fields, "id_header");
    let prefix = fields.optional_text("prefix").unwrap_or_default();
    if separator.is_some() && signature_field.is_some() {
        fields.problem("separator", "not beside signature_field, whose fields are always separated by commas");
    }
    if separator.is_some_and(|separator| prefix.contains(separator)) {
        fields.problem("prefix", "has the separator in it");
    }
    if timestamp_header.is_some() && timestamp_field.is_some() {
        fields.problem("timestamp_field", "not beside timestamp_header");
    }
    if timestamp_field.is_some() && signature_field.is_none() {
        fields.problem("timestamp_field", "needs signature_field: both are fields of the signature header");
    }
    for (name, text) in [("timestamp_field", &timestamp_field), ("signature_field", &signature_field)] {
        if text.as_ref().is_some_and(|text| text.contains([',', '=', ' '])) {
            fields.problem(name, "not the name of a field, such as v1");
        }
    }
    if signature_field.is_some() && signature_field == timestamp_field {
        fields.problem("signature_field", "the same as timestamp_field");
    }
    let units = [("seconds", TimeUnit::Seconds), ("milliseconds", TimeUnit::Millis)];
    let place = timestamp_header.map(TimePlace::Header).or(timestamp_field.map(TimePlace::Field));
    if place.is_none() {
        fields.reject("timestamp_unit", "needs timestamp_header or timestamp_field");
    }
    let unit = one_of(&mut fields, "timestamp_unit", "neither seconds nor milliseconds", &units);
    let timestamp = place.map(|place| SignedTime { place, unit: unit.unwrap_or(TimeUnit::Seconds) });
    let default = match (&id_header, &timestamp) {
        (Some(_), Some(_)) => "{id}.{timestamp}.{body}",
        (Some(_), None) => "{id}.{body}",
        (None, Some(_)) => "{timestamp}.{body}",
        (None, None) => "{body}",
    };
    let signed = fields.optional_text("signed").unwrap_or_else(|| default.to_owned());
    if let Some(message) = wrong_template(&signed, timestamp.is_some(), id_header.is_some()) {
        fields.problem("signed", message);
    }
    let scheme = HeaderScheme {
        algorithm,
        header: header.unwrap_or_default(),
        form: match (signature_field, separator) {
            (Some(signature), _) => HeaderForm::Fields { signature, exact: false },
            (None, Some(separator)) => HeaderForm::List { separator },
            (None, None) => HeaderForm::Single,
        },
        prefix,
        encoding: encoding(&mut fields),
        timestamp,
        id_header,
        signed,
    };
    fields.reject_unknown(known);
    Some(scheme)
}

fn required_header(fields: &mut Fields<'_>) -> Option<String> {
    if !fields.has("header") {
        fields.problem("header", "missing: the name of the header with the signature");
    }
    header_name(fields, "header")
}

/// Scheme of the Standard Webhooks specification: `v1a` if the keys are public, `v1` if they are secrets. A sender may send signatures of
/// both versions. Those of the other version are skipped.
fn standard_webhooks(has_public_keys: bool) -> HeaderScheme<String> {
    let hmac = Algorithm::Hmac { hash: HmacAlgorithm::Sha256, keys: KeyForm::Whsec };
    HeaderScheme {
        algorithm: if has_public_keys { Algorithm::Ed25519 } else { hmac },
        header: "webhook-signature".to_owned(),
        form: HeaderForm::List { separator: ' ' },
        prefix: if has_public_keys { "v1a," } else { "v1," }.to_owned(),
        encoding: Encoding::Base64,
        timestamp: Some(SignedTime {
            place: TimePlace::Header("webhook-timestamp".to_owned()),
            unit: TimeUnit::Seconds,
        }),
        id_header: Some("webhook-id".to_owned()),
        signed: "{id}.{timestamp}.{body}".to_owned(),
    }
}

/// Twilio's scheme. Other vendors have copied it under headers of their own.
fn read_twilio(mut fields: Fields<'_>) -> UrlScheme<String> {
    let header = header_name(&mut fields, "header").unwrap_or_else(|| "x-twilio-signature".to_owned());
    let known = [("sha1", HmacAlgorithm::Sha1), ("sha256", HmacAlgorithm::Sha256)];
    let algorithm = one_of(&mut fields, "algorithm", "neither sha1 nor sha256", &known).unwrap_or(HmacAlgorithm::Sha1);
    fields.reject_unknown("scheme, header, algorithm");
    UrlScheme::Twilio { header, algorithm }
}

/// JSON Web Token. The name of the claim with the hash has no default, because a token without it covers no body.
fn read_jwt(mut fields: Fields<'_>) -> Option<TokenScheme> {
    let header = header_name(&mut fields, "header").unwrap_or_else(|| "authorization".to_owned());
    let algorithms =
        [("HS256", TokenAlgorithm::Hs256), ("RS256", TokenAlgorithm::Rs256), ("ES256", TokenAlgorithm::Es256)];
    let default = if fields.has("algorithm") { None } else { Some(TokenAlgorithm::Hs256) };
    let algorithm = one_of(&mut fields, "algorithm", "none of HS256, RS256, ES256", &algorithms).or(default);
    if !fields.has("body_hash") {
        fields
            .problem("body_hash", "missing: the name of the claim with the SHA-256 of the body, such as payload_hash");
    }
    let body_hash = fields.optional_text("body_hash");
    let known = [("hex", Encoding::Hex), ("base64", Encoding::Base64)];
    let encoding = one_of(&mut fields, "body_hash_encoding", "neither hex nor base64", &known);
    let claims = claims(&mut fields, body_hash.as_deref());
    fields.reject_unknown("scheme, header, algorithm, body_hash, body_hash_encoding, claims");
    Some(TokenScheme {
        algorithm: algorithm?,
        header,
        body_hash: body_hash?,
        encoding: encoding.unwrap_or(Encoding::Hex),
        claims,
    })
}

/// Reads the object `claims`: the texts that claims must have.
fn claims(fields: &mut Fields<'_>, body_hash: Option<&str>) -> Vec<(String, String)> {
    let object = match fields.take("claims") {
        None => return Vec::new(),
        Some(Value::Object(object)) if (1..=CLAIMS_MAX).contains(&object.len()) => object,
        Some(_) => {
            fields.problem("claims", &format!("not an object with one to {CLAIMS_MAX} texts"));
            return Vec::new();
        }
    };
    let mut claims = Vec::new();
    for (name, value) in object {
        let at = format!("claims.{name:?}");
        match value {
            _ if ["iat", "nbf", "exp"].contains(&name.as_str()) || body_hash == Some(&name) => {
                fields.problem(&at, "differs from webhook to webhook, and is checked anyway");
            }
            Value::String(text) if !text.is_empty() => claims.push((name, text)),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                fields.problem(&at, "not a text");
            }
        }
    }
    claims
}
