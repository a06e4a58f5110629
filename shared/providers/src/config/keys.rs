//! The list `keys` of a provider.

use serde_json::Value;
use switchhook_domain::Provider;

use super::fields::Fields;
use crate::ed25519::{self, WHPK, WHSK};
use crate::jwt::{self, TokenAlgorithm};
use crate::key::Key;
use crate::pem;
use crate::scheme::{Algorithm, KeyForm, Scheme};

/// Maximum number of keys of one provider. A rotation needs two. Each key costs computations over the body of every webhook that is
/// rejected. They are a MAC for each text that the provider may have signed, or a check of each Ed25519 signature in the header.
const KEYS_MAX: usize = 8;

/// Kind of a provider's keys.
#[derive(Clone, Copy)]
enum KeyKind {
    Secret(KeyForm),
    Public(PublicKey),
    /// The entry does not say in a readable way how the provider signs, so any text may be right.
    Unknown,
}

/// Kind of a public key that verifies webhooks.
#[derive(Clone, Copy)]
enum PublicKey {
    Ed25519,
    Rsa,
    P256,
}

impl KeyKind {
    fn of(provider: Provider, scheme: Option<&Scheme>) -> Self {
        match (provider.vendor(), scheme) {
            (Provider::Telnyx, _) => Self::Public(PublicKey::Ed25519),
            (Provider::Daily, _) => Self::Secret(KeyForm::Base64),
            (_, Some(Scheme::Header(scheme))) => match scheme.algorithm {
                Algorithm::Hmac { hash: _, keys } => Self::Secret(keys),
                Algorithm::Ed25519 => Self::Public(PublicKey::Ed25519),
            },
            (_, Some(Scheme::Token(scheme))) => match scheme.algorithm {
                TokenAlgorithm::Hs256 => Self::Secret(KeyForm::Text),
                TokenAlgorithm::Rs256 => Self::Public(PublicKey::Rsa),
                TokenAlgorithm::Es256 => Self::Public(PublicKey::P256),
            },
            (_, None) if provider.is_configured() => Self::Unknown,
            (_, Some(Scheme::Url(_) | Scheme::SharedSecret { .. }) | None) => Self::Secret(KeyForm::Text),
        }
    }
}

/// Reads the list `keys`. It may be missing if there are shared keys.
pub(super) fn read(provider: Provider, scheme: Option<&Scheme>, has_shared: bool, fields: &mut Fields<'_>) -> Vec<Key> {
    let texts = match fields.take("keys") {
        Some(Value::Array(texts)) if texts.is_empty() => Err("the list is empty".to_owned()),
        Some(Value::Array(texts)) if texts.len() > KEYS_MAX => Err(format!("more than {KEYS_MAX}")),
        Some(Value::Array(texts)) => Ok(texts),
        Some(_) => Err("not a list".to_owned()),
        None if has_shared => return Vec::new(),
        None => Err("missing".to_owned()),
    };
    let texts = texts.unwrap_or_else(|message| {
        fields.problem("keys", &message);
        Vec::new()
    });
    let mut keys = Vec::new();
    let chars_min = fields.key_chars_min();
    let kind = KeyKind::of(provider, scheme);
    for (index, text) in texts.into_iter().enumerate() {
        let key = match (text, kind) {
            (Value::String(text), KeyKind::Secret(form)) => secret(provider, form, text, chars_min),
            (Value::String(text), KeyKind::Public(kind)) => public_key(provider, kind, &text),
            (Value::String(text), KeyKind::Unknown) => Key::new(text).map_err(|error| error.to_string()),
            (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_), _) => {
                Err("not a text".to_owned())
            }
        };
        match key {
            Ok(key) => keys.push(key),
            Err(message) => fields.problem(&format!("keys[{index}]"), &message),
        }
    }
    keys
}

fn secret(provider: Provider, form: KeyForm, text: String, chars_min: usize) -> Result<Key, String> {
    let key = Key::with_length(text, chars_min).map_err(|error| error.to_string())?;
    // Everybody may know a public key, so everybody could sign with it. The message about `whsec_` says more.
    let is_pem = pem::is_pem(key.as_str());
    if is_pem || (key.as_str().starts_with(WHPK) && !matches!(form, KeyForm::Whsec)) {
        let what = if is_pem { "a key in PEM form" } else { "a public key" };
        let advice = if provider.is_configured() {
            ". If the provider signs with a private key, choose the scheme ed25519, or jwt with RS256 or ES256"
        } else {
            ""
        };
        return Err(format!("{what}: this signature needs a secret{advice}"));
    }
    match form.secret(&key) {
        None => Err(wrong_form(provider, form, &key).to_owned()),
        Some(secret) if secret.len() < chars_min => {
            Err(format!("the key is the base64 of fewer than {chars_min} bytes"))
        }
        Some(_) => Ok(key),
    }
}

/// Message about a secret that does not have the form of its scheme.
fn wrong_form(provider: Provider, form: KeyForm, key: &Key) -> &'static str {
    match form {
        // Every text is such a key.
        KeyForm::Text => "not a text",
        KeyForm::Base64 if provider.vendor() == Provider::Vapi => "not base64, although base64_keys is true",
        KeyForm::Base64 if provider.vendor() == Provider::Daily => "not base64, as the hmac of a webhook of Daily is",
        KeyForm::Base64 => "not base64, although key_encoding is base64",
        KeyForm::Whsec if key.as_str().starts_with("v1,") => {
            "starts with v1, which is no part of the key: leave it out, so that the key starts with whsec_"
        }
        KeyForm::Whsec if key.as_str().starts_with(WHPK) => "a public key: add \"version\": \"v1a\" to the signature",
        KeyForm::Whsec => "not whsec_ followed by base64",
    }
}

/// Reads a public key. Its kind decides its length.
fn public_key(provider: Provider, kind: PublicKey, text: &str) -> Result<Key, String> {
    // Tools end a PEM block with a line end.
    let text = if pem::is_pem(text) { text.trim() } else { text };
    let key = Key::new(text).map_err(|error| error.to_string())?;
    if pem::is_private_key(text) || text.starts_with(WHSK) {
        return Err("a private key, which only the provider may have: write the public key".to_owned());
    }
    let (is_right, message) = match kind {
        PublicKey::Ed25519 if provider.vendor() == Provider::Telnyx => {
            (ed25519::public_key(&key).is_some(), "not the base64 of an Ed25519 public key")
        }
        PublicKey::Ed25519 => {
            (ed25519::public_key(&key).is_some(), "not an Ed25519 public key: hex or base64 of 32 bytes, or PEM")
        }
        PublicKey::Rsa => {
            (jwt::rsa_public_key(&key).is_some(), "not an RSA public key in PEM form, of 2048 to 8192 bits")
        }
        PublicKey::P256 => (jwt::p256_public_key(&key).is_some(), "not a public key on P-256 in PEM form"),
    };
    if is_right { Ok(key) } else { Err(message.to_owned()) }
}
