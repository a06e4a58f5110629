//! A collector for the domain events that are published on the bus.

use std::collections::BTreeMap;

use serde_json::Value;
use switchhook_local::Cloud;

use crate::demo::script::Millis;

/// The domain events that were published, each once.
#[derive(Default)]
pub(super) struct PublishedEvents {
    next_index: u64,
    by_id: BTreeMap<String, Value>,
    by_call: BTreeMap<String, CallEvents>,
    pub(super) quarantine_events: Vec<Value>,
    pub(super) provider_events: Vec<Value>,
    pub(super) ids_with_two_contents: Vec<String>,
}

/// Domain events of one call, and the time at which each was published.
#[derive(Default)]
pub(super) struct CallEvents {
    pub(super) published_at: Vec<Millis>,
    pub(super) domain_events: Vec<Value>,
}

impl PublishedEvents {
    /// Collects the events that were published since the last time. Call it often: the bus keeps only the latest
    /// events.
    pub(super) fn collect(&mut self, cloud: &Cloud) {
        for event in cloud.bus().events_since(self.next_index) {
            self.next_index = event.index + 1;
            self.add(&event.detail, event.received_at_ms.cast_signed());
        }
    }

    /// Removes the events of one call and returns them.
    pub(super) fn take_call(&mut self, call_id: &str) -> CallEvents {
        self.by_call.remove(call_id).unwrap_or_default()
    }

    /// Returns the events of all calls that were not taken.
    pub(super) fn into_rest(self) -> impl Iterator<Item = Value> {
        self.by_call.into_values().flat_map(|events| events.domain_events)
    }

    fn add(&mut self, detail: &str, at: Millis) {
        let event: Value = serde_json::from_str(detail).unwrap_or_default();
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (id, call_id) = (text("id"), text("call_id"));
        match self.by_id.get(&id) {
            Some(before) if *before == event => {}
            Some(_) => self.ids_with_two_contents.push(id),
            None if text("type") == "webhook.quarantined" => {
                self.by_id.insert(id, event.clone());
                self.quarantine_events.push(event);
            }
            None if text("type").starts_with("provider.") => {
                self.by_id.insert(id, event.clone());
                self.provider_events.push(event);
            }
            // Notices to operators repeat what other observations show.
            None if text("type").starts_with("operator.") => drop(self.by_id.insert(id, event)),
            None => {
                self.by_id.insert(id, event.clone());
                let events = self.by_call.entry(call_id).or_default();
                events.published_at.push(at);
                events.domain_events.push(event);
            }
        }
    }
}
