//! Webhooks that the fake provider sends.

use bytes::Bytes;
use http::Request;
use http::header::CONTENT_TYPE;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use switchhook_domain::{Provider, Timestamp};
use switchhook_providers::{WebhookConfig, sign_as_configured};

/// Name of an event. The alias hides from serde that it is borrowed.
type EventName = &'static str;

/// Reads the name of an event. It is never freed: the webhooks are read once, at the start.
fn event_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<EventName, D::Error> {
    Ok(String::deserialize(deserializer)?.leak())
}

/// A webhook to sign and send now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    pub(super) provider: Provider,
    pub(super) provider_call_id: String,
    pub(super) metadata: Value,
    /// Query of the URL that the webhook goes to. Empty for every provider but Twilio, Plivo and SignalWire.
    pub(super) query: String,
    #[serde(deserialize_with = "event_name")]
    pub(super) event: EventName,
    pub(super) body: String,
    pub(super) failed_sends: u32,
    /// True if somebody held the webhook and let it go, so that it is not held again.
    pub(super) is_released: bool,
    /// Number of its entry in the journal, which stays there while the webhook is being sent.
    #[serde(skip)]
    pub(super) number: u64,
}

impl Delivery {
    /// Provider that sends the webhook.
    #[must_use]
    pub const fn provider(&self) -> Provider {
        self.provider
    }

    /// Query of the URL that the webhook goes to, without `?`. It is part of what Twilio signs.
    #[must_use]
    pub fn query(&self) -> &str {
        &self.query
    }

    /// Body of the webhook. The sender signs it.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.body
    }

    /// Metadata of the call, from the dial request.
    #[must_use]
    pub const fn metadata(&self) -> &Value {
        &self.metadata
    }

    /// Returns the request that posts the webhook, signed at this time with the first key of its provider. `None` if no key can sign it.
    pub(crate) fn signed_request(&self, config: &WebhookConfig, now: Timestamp) -> Option<Request<Bytes>> {
        let separator = if self.query.is_empty() { "" } else { "?" };
        let path = format!("/webhooks/{}{separator}{}", self.provider, self.query);
        let url = format!("{}{path}", config.public_url().unwrap_or_default());
        let signed = sign_as_configured(self.provider, config, &url, self.body.as_bytes(), now)?;
        let mut request = Request::post(path).header(CONTENT_TYPE, signed.content_type);
        for (name, value) in &signed.headers {
            request = request.header(name, value);
        }
        request.body(Bytes::from(self.body.clone())).ok()
    }
}
