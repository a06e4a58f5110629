//! State of the fake provider, which its parts share.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use switchhook_domain::Provider;

use super::call::FakeCall;
use super::delivery::Delivery;
use super::faults::{CrashPoint, DeliveryFaults};
use super::kept::{Entry, KeptCall, Unsaved};
use super::mode::Mode;
use super::records::{ApiRecord, Dial, RequestResult, SentWebhook};
use crate::error::LocalError;
use crate::journal::{Change, Journal};

#[derive(Debug)]
pub(super) struct State {
    pub(super) rng: fastrand::Rng,
    /// Part of each call id. It keeps ids apart if a later process draws the same random numbers, from the same seed.
    pub(super) started_at_ms: u64,
    pub(super) delivery_faults: DeliveryFaults,
    /// Modes of the providers that have one, each with the time at which it ends, in Unix milliseconds. `None` if only
    /// [`set_mode_of`](super::FakeProvider::set_mode_of) ends it.
    pub(super) modes: BTreeMap<Provider, (Mode, Option<i64>)>,
    /// Calls that a provider has at most at the same time. A provider without an entry has any number.
    pub(super) capacities: BTreeMap<Provider, usize>,
    /// Times that providers take for each answer. A provider without an entry answers at once.
    pub(super) answer_times: BTreeMap<Provider, Duration>,
    /// Milliseconds that the clocks of providers are ahead of the local cloud's clock. A provider without an entry has the same time.
    pub(super) clocks_ahead_ms: BTreeMap<Provider, i64>,
    /// Numbers that Twilio refuses to call. Twilio and Bland refuse to call from them.
    pub(super) blocked_numbers: BTreeSet<String>,
    pub(super) crash: Option<CrashPoint>,
    pub(super) calls: BTreeMap<String, FakeCall>,
    /// Provider call ids by idempotency key.
    pub(super) calls_by_key: BTreeMap<String, String>,
    /// Webhooks to send, by due time and a counter that keeps equal times apart.
    pub(super) scheduled_webhooks: BTreeMap<(i64, u64), Delivery>,
    pub(super) counter: u64,
    /// True if webhooks that are due wait until somebody lets them go.
    pub(super) is_holding: bool,
    /// Webhooks that wait, by a number that names each.
    pub(super) held: BTreeMap<u64, Delivery>,
    pub(super) dials: Vec<Dial>,
    /// Number of dial requests that were answered 429.
    pub(super) rate_limited: u64,
    /// `None` until recording starts.
    pub(super) recording: Option<Recording>,
    pub(super) requests: u64,
    /// Changes to write into the journal. `None` without a journal.
    pub(super) unsaved: Option<Vec<Unsaved>>,
}

#[derive(Debug, Default)]
pub(super) struct Recording {
    pub(super) webhooks: Vec<SentWebhook>,
    pub(super) requests: Vec<ApiRecord>,
    /// Last recorded result of each idempotency key.
    pub(super) results_by_key: BTreeMap<String, RequestResult>,
}

impl State {
    /// Time that the clock of a provider shows at `now`.
    pub(super) fn time_of(&self, provider: Provider, now: i64) -> i64 {
        now + self.clock_ahead_ms(provider)
    }

    pub(super) fn clock_ahead_ms(&self, provider: Provider) -> i64 {
        self.clocks_ahead_ms.get(&provider).copied().unwrap_or_default()
    }

    /// Writes the changes into the journal. Returns false if it could not be written.
    pub(super) fn save(&mut self, journal: Option<&Journal>) -> bool {
        let (Some(journal), Some(unsaved)) = (journal, &mut self.unsaved) else { return true };
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
