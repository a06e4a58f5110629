//! Webhooks that are held: a developer lets them go in any order, twice or never.

use serde_json::Value;
use switchhook_domain::Provider;

use super::{CrashPoint, Delivery, DeliveryFaults, FakeProvider, Mode, State};
use crate::sync::lock;

/// A webhook that is due, and waits until somebody lets it go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldWebhook {
    /// Number that names it.
    pub number: u64,
    /// Switchhook's id of the call, from the metadata of the call.
    pub call_id: String,
    /// Name of the event in the provider's words, for example `call_ended`.
    pub event: &'static str,
    pub body: String,
}

impl FakeProvider {
    /// Holds all webhooks that become due from now on, or no more. Those that are held already stay.
    pub fn hold(&self, hold: bool) {
        lock(&self.state).is_holding = hold;
    }

    /// True if webhooks that become due are held.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        lock(&self.state).is_holding
    }

    /// Webhooks that are held, in the order in which they became due.
    #[must_use]
    pub fn held(&self) -> Vec<HeldWebhook> {
        let state = lock(&self.state);
        let held = state.held.iter().map(|(number, delivery)| HeldWebhook {
            number: *number,
            call_id: delivery.call_id(),
            event: delivery.event,
            body: delivery.body.clone(),
        });
        held.collect()
    }

    /// Sends held webhooks now, in this order. A number that is listed twice is sent twice.
    pub fn release(&self, numbers: &[u64]) {
        let now = self.now_ms();
        let mut state = lock(&self.state);
        for number in numbers {
            if let Some(delivery) = state.held.get(number).cloned() {
                state.enqueue(now, Delivery { is_released: true, ..delivery });
            }
        }
        state.drop_held(numbers);
        state.save(self.journal.as_ref());
        drop(state);
        self.changed.changed();
    }

    /// Forgets held webhooks: they are never sent.
    pub fn drop_held(&self, numbers: &[u64]) {
        let mut state = lock(&self.state);
        state.drop_held(numbers);
        state.save(self.journal.as_ref());
    }

    /// Time at which the next webhook is due, in Unix milliseconds. `None` if none is planned.
    #[must_use]
    pub fn next_webhook_at(&self) -> Option<i64> {
        lock(&self.state).scheduled_webhooks.first_key_value().map(|((at, _), _)| *at)
    }

    /// Time at which the last of the planned webhooks of a call is due. `None` if none is planned.
    #[must_use]
    pub fn last_webhook_at(&self, call_id: &str) -> Option<i64> {
        let state = lock(&self.state);
        let planned = state.scheduled_webhooks.iter().filter(|(_, delivery)| delivery.call_id() == call_id);
        planned.map(|((at, _), _)| *at).max()
    }

    /// Current mode of Retell.
    #[must_use]
    pub fn mode(&self) -> Mode {
        lock(&self.state).mode_of(Provider::Retell, self.now_ms())
    }

    /// Point at which the function that sends the next request crashes. `None` if none is planned.
    #[must_use]
    pub fn next_crash(&self) -> Option<CrashPoint> {
        lock(&self.state).crash
    }

    /// Delivery faults of calls that are placed from now on.
    #[must_use]
    pub fn delivery_faults(&self) -> DeliveryFaults {
        lock(&self.state).delivery_faults
    }
}

impl State {
    fn drop_held(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.held.remove(number);
            self.forget_webhook(*number);
        }
    }
}

impl Delivery {
    /// Switchhook's id of the call. Empty if the metadata of the call has none.
    fn call_id(&self) -> String {
        let id = self.metadata.get("switchhook_call_id").and_then(Value::as_str);
        id.unwrap_or_default().to_owned()
    }
}
