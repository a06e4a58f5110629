//! Webhooks that the vendors' own packages signed, or accepted. `fixtures/vendor_packages.json` has them, with the package and its version.
//!
//! A package that only verifies (`accepted`) got a webhook that was made by hand. No package is needed to run these tests.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use switchhook_domain::{Provider, Timestamp};
use switchhook_providers::{UnverifiedWebhook, VerifyError, WebhookConfig, sign_as_configured, verify};

struct Vector {
    name: String,
    provider: Provider,
    config: WebhookConfig,
    url: String,
    headers: Vec<(String, String)>,
    body: String,
    now: Timestamp,
    /// True if the package signs one webhook always in the same way, with the ids that our own signer chooses.
    repeats: bool,
}

impl Vector {
    fn read(vector: &Value) -> Self {
        let text = |field: &str| vector[field].as_str().unwrap().to_owned();
        assert!(["signed", "accepted"].contains(&vector["made"].as_str().unwrap()));
        let provider: Provider = text("provider").parse().unwrap();
        let file = crate::providers_file(&json!({provider.as_str(): vector["entry"]}).to_string());
        let file = file.unwrap_or_else(|error| panic!("{}: {error}", vector["name"]));
        let headers = vector["headers"].as_object().unwrap();
        Self {
            name: text("name"),
            provider,
            config: file.webhook_keys().config(provider).unwrap().clone(),
            url: text("url"),
            headers: headers.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect(),
            body: text("body"),
            now: Timestamp::from_millis(vector["now_ms"].as_i64().unwrap()),
            repeats: vector["repeats"].as_bool().unwrap(),
        }
    }

    fn verify(&self, body: &[u8]) -> Result<(), VerifyError> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        let (base, query) = self.url.split_once('?').unwrap_or((&self.url, ""));
        let path = base.strip_prefix("https://example.com").unwrap();
        let webhook = UnverifiedWebhook { headers: &headers, path, query, body };
        verify(self.provider, &self.config, &webhook, self.now).map(|_| ())
    }
}

fn vectors() -> Vec<Vector> {
    let vectors: Vec<Value> = serde_json::from_str(include_str!("../../fixtures/vendor_packages.json")).unwrap();
    vectors.iter().map(Vector::read).collect()
}

#[test]
fn webhooks_of_the_packages_verify() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 22);
    for vector in &vectors {
        assert_eq!(vector.verify(vector.body.as_bytes()), Ok(()), "{}", vector.name);
        assert!(vector.verify(format!("{}0", vector.body).as_bytes()).is_err(), "{}", vector.name);
    }
}

#[test]
fn we_sign_as_the_packages_do() {
    let mut count = 0;
    for vector in vectors().into_iter().filter(|vector| vector.repeats) {
        let url = vector.url.split_once("&bodySHA256").map_or(vector.url.as_str(), |(url, _)| url);
        let signed =
            sign_as_configured(vector.provider, &vector.config, url, vector.body.as_bytes(), vector.now).unwrap();
        let mut headers = signed.headers;
        headers.sort();
        assert_eq!((&headers, &signed.url), (&vector.headers, &vector.url), "{}", vector.name);
        count += 1;
    }
    assert_eq!(count, 14);
}
