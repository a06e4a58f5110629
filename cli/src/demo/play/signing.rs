//! Signing keys of the demo's providers, and the HTTP requests that are signed with them.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Map, Value, json};
use switchhook_domain::Timestamp;
use switchhook_providers::{Key, ProvidersFile, sign, verifying_key};

use super::error::PlayError;
use crate::demo::script::Provider;
use crate::demo::traffic::{Delivery, DeliveryKind, Forgery};

const PUBLIC_URL: &str = "https://hooks.example.com";
const WRONG_KEY: &str = "a key that nobody configured";

/// Two signing keys per provider: a new one, and an old one that is still valid. They are the same in every run.
pub(super) struct SigningKeys {
    wrong: Key,
    by_provider: BTreeMap<&'static str, KeyPair>,
}

struct KeyPair {
    new: Key,
    old: Key,
    /// Both, as the providers file has them.
    texts: [String; 2],
}

/// Text of a key. A public one, because it opens nothing but the demo.
fn key_text(provider: Provider, age: &str) -> String {
    format!("the {age} key of the demo for {}", provider.name())
}

impl SigningKeys {
    pub(super) fn new() -> Result<Self, PlayError> {
        let key = |text: &str| Key::new(text).map_err(PlayError::SigningKey);
        let mut by_provider = BTreeMap::new();
        for provider in Provider::ALL {
            let (new, old) = (key_text(provider, "new"), key_text(provider, "old"));
            let name = provider.name();
            let domain: switchhook_domain::Provider = name.parse().map_err(|_| PlayError::UnknownProvider(name))?;
            let (new, old) = (key(&new)?, key(&old)?);
            let texts = [verifying_key(domain, &new), verifying_key(domain, &old)];
            by_provider.insert(name, KeyPair { new, old, texts });
        }
        Ok(Self { wrong: key(WRONG_KEY)?, by_provider })
    }

    /// Returns the configuration of all providers with these keys.
    pub(super) fn provider_config(&self) -> Result<ProvidersFile, PlayError> {
        ProvidersFile::from_json(&self.document()).map_err(PlayError::ProviderConfig)
    }

    /// Returns the text of a providers file with these keys.
    pub(super) fn document(&self) -> String {
        let mut document = Map::new();
        for (provider, keys) in &self.by_provider {
            document.insert((*provider).to_owned(), json!({"keys": keys.texts, "public_url": PUBLIC_URL}));
        }
        if let Some(retell) = document.get_mut(Provider::Retell.name()) {
            retell["dial"] = json!({"api_key": "the demo's own API key"});
        }
        Value::Object(document).to_string()
    }

    /// Returns the signed HTTP request of a delivery. A forgery gets the defect of its kind, for example a wrong key.
    pub(super) fn request(&self, delivery: &Delivery) -> Result<Request<Bytes>, PlayError> {
        let name = delivery.provider.name();
        let provider: switchhook_domain::Provider = name.parse().map_err(|_| PlayError::UnknownProvider(name))?;
        let keys = self.by_provider.get(name).ok_or(PlayError::UnknownProvider(name))?;
        let key = match (delivery.kind, delivery.old_key) {
            (DeliveryKind::Forged(Forgery::WrongKey), _) => &self.wrong,
            (_, true) => &keys.old,
            (_, false) => &keys.new,
        };
        let query = if delivery.query.is_empty() { String::new() } else { format!("?{}", delivery.query) };
        let url = format!("{PUBLIC_URL}/webhooks/{name}{query}");
        let signed = sign(provider, key, &url, &delivery.body, Timestamp::from_millis(delivery.signed_at));
        let path = signed.url.strip_prefix(PUBLIC_URL).unwrap_or(&signed.url);
        let mut request = Request::builder().method(Method::POST).uri(path).header("content-type", signed.content_type);
        if delivery.kind != DeliveryKind::Forged(Forgery::NoSignature) {
            for (name, value) in &signed.headers {
                request = request.header(*name, value);
            }
        }
        let mut body = delivery.body.clone();
        if let Some(bit) = delivery.flipped_bit
            && let Some(byte) = body.get_mut(bit / 8)
        {
            *byte ^= 1 << (bit % 8);
        }
        request.body(Bytes::from(body)).map_err(PlayError::Request)
    }
}
