//! Daily's signature: `X-Webhook-Signature: <base64>` and `X-Webhook-Timestamp`.
//!
//! HMAC-SHA256 over the timestamp, a full stop, and the body. The key is the `hmac` of the webhook, which is the base64 of the secret.
//!
//! Daily documents neither the unit of the timestamp nor a window. So the size of the number decides the unit.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use switchhook_domain::Timestamp;

use crate::hmac::HmacAlgorithm;
use crate::key::Key;
use crate::scheme::{Algorithm, Encoding, HeaderForm, HeaderScheme, KeyForm, SignedTime, TimePlace, TimeUnit};
use crate::webhook::SignedWebhook;

/// The key is the `hmac` of the webhook.
const KEYS: KeyForm = KeyForm::Base64;

pub(crate) const SCHEME: HeaderScheme<&str> = HeaderScheme {
    algorithm: Algorithm::Hmac { hash: HmacAlgorithm::Sha256, keys: KEYS },
    header: "x-webhook-signature",
    form: HeaderForm::Single,
    prefix: "",
    encoding: Encoding::Base64,
    timestamp: Some(SignedTime { place: TimePlace::Header("x-webhook-timestamp"), unit: TimeUnit::Either }),
    id_header: None,
    signed: "{timestamp}.{body}",
};

/// Signs a webhook. A key that is not base64 is the secret itself.
pub(crate) fn sign(key: &Key, url: &str, body: &[u8], now: Timestamp) -> SignedWebhook {
    SCHEME.sign(key, url, body, now).unwrap_or_else(|| SCHEME.sign_with_text(key, url, body, now))
}

/// Key for the configuration that verifies the webhooks of [`sign`].
pub(crate) fn verifying_key(key: &Key) -> String {
    match KEYS.secret(key) {
        Some(_) => key.as_str().to_owned(),
        None => BASE64_STANDARD.encode(key.as_bytes()),
    }
}
