//! The domain event about a circuit.

use serde::Serialize;

use crate::provider::Provider;

/// Event that Switchhook publishes when the circuit of a provider opens or closes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProviderAvailability {
    pub schema_version: u32,
    /// `provider-health:{provider}/{sequence}`. A repetition of the event has the same id.
    pub id: String,
    /// `provider.unavailable` or `provider.available`.
    #[serde(rename = "type")]
    pub event_type: String,
    pub provider: Provider,
    /// Position among these events of the provider, counted from 1.
    pub sequence: u64,
    pub status: &'static str,
    /// Kind of the failure that opened the circuit. `None` if it closed.
    pub reason: Option<&'static str>,
    /// The provider's reason in our words, for example `payment_required`. `None` if the circuit closed.
    pub cause: Option<String>,
    /// Time of the dial that opened or closed the circuit. RFC 3339.
    pub occurred_at: String,
}
