//! Calls and webhooks that outlive the process of the fake provider. They are in a journal of the data directory.
//!
//! **A call is kept before its dial request is answered.** So a dial that was made stays made, whatever kills the process.

use serde::{Deserialize, Deserializer, Serialize};

use super::FakeProvider;
use super::call::FakeCall;
use super::records::Dial;
use super::state::{Delivery, State};
use crate::error::LocalError;
use crate::journal::{Change, Journal};

/// Table of the journal.
pub(crate) const JOURNAL: &str = "switchhook-local-fake";

/// Entry of the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Entry {
    Call(Box<KeptCall>),
    /// Webhook that is scheduled or held.
    Webhook {
        number: u64,
        at: i64,
        delivery: Delivery,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KeptCall {
    number: u64,
    id: String,
    call: FakeCall,
    idempotency_key: Option<String>,
    /// `None` if no phone rang.
    dial: Option<Dial>,
}

/// Change that is not written yet.
#[derive(Debug)]
pub(super) enum Unsaved {
    Write(u64, Entry),
    Erase(u64),
}

/// Name of an event. The alias hides from serde that it is borrowed.
pub(super) type EventName = &'static str;

/// Reads the name of an event. It is never freed: the webhooks are read once, at the start.
pub(super) fn event_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<EventName, D::Error> {
    Ok(String::deserialize(deserializer)?.leak())
}

impl FakeProvider {
    /// Writes what has changed. Returns false if it could not be written.
    pub(super) fn save(&self, state: &mut State) -> bool {
        let (Some(journal), Some(unsaved)) = (&self.journal, &mut state.unsaved) else { return true };
        let unsaved = std::mem::take(unsaved);
        let changes: Vec<Change<'_, Entry>> = unsaved
            .iter()
            .map(|unsaved| match unsaved {
                Unsaved::Write(number, entry) => Change::Write(*number, entry),
                Unsaved::Erase(number) => Change::Erase(*number),
            })
            .collect();
        let saved = if changes.is_empty() { Ok(()) } else { journal.change(&changes) };
        if let Err(error) = &saved {
            tracing::error!(error = error as &dyn std::error::Error, "calls of the fake provider could not be kept");
        }
        saved.is_ok()
    }
}

impl State {
    /// Takes over what an earlier process kept, and keeps what changes from now on.
    pub(super) fn restore(&mut self, journal: &Journal) -> Result<(), LocalError> {
        for entry in journal.read::<Entry>()? {
            let number = match entry {
                Entry::Call(kept) => {
                    let KeptCall { number, id, call, idempotency_key, dial } = *kept;
                    self.calls_by_key.extend(idempotency_key.map(|key| (key, id.clone())));
                    self.dials.extend(dial);
                    self.calls.insert(id, call);
                    number
                }
                Entry::Webhook { number, at, delivery } => {
                    self.scheduled_webhooks.insert((at, number), delivery);
                    number
                }
            };
            self.counter = self.counter.max(number);
        }
        self.unsaved = Some(Vec::new());
        Ok(())
    }

    pub(super) fn keep_call(&mut self, id: &str, call: &FakeCall, key: Option<&String>, dial: Option<&Dial>) {
        let Some(unsaved) = &mut self.unsaved else { return };
        self.counter += 1;
        let number = self.counter;
        let kept = KeptCall {
            number,
            id: id.to_owned(),
            call: call.clone(),
            idempotency_key: key.cloned(),
            dial: dial.cloned(),
        };
        unsaved.push(Unsaved::Write(number, Entry::Call(Box::new(kept))));
    }

    pub(super) fn keep_webhook(&mut self, number: u64, at: i64, delivery: &Delivery) {
        if let Some(unsaved) = &mut self.unsaved {
            unsaved.push(Unsaved::Write(number, Entry::Webhook { number, at, delivery: delivery.clone() }));
        }
    }

    pub(super) fn forget_webhook(&mut self, number: u64) {
        if let Some(unsaved) = &mut self.unsaved {
            unsaved.push(Unsaved::Erase(number));
        }
    }
}
