//! Webhooks that the fake provider sends.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use switchhook_domain::Provider;

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
}
