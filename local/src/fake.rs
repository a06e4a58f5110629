//! The fake provider: a provider for development that dials nobody.
//!
//! It speaks the APIs of Retell, Twilio, Vapi, Telnyx, ElevenLabs, Plivo, Vonage, LiveKit, Bland and SignalWire: dials, lookups and lists of calls. The path of a request, and its login, tell
//! which one it plays. A virtual person answers every number. It sends webhooks the way providers do: some late, some twice, some out of
//! order, and some never.
//!
//! **The true course of a call is fixed at the moment when the call is placed.** Webhooks and API responses only report
//! it, correctly or not. The provider has the local cloud's clock, and random numbers from a seed.
//!
//! The metadata of the call decides what happens, for example `{"fake": "busy,confirms"}`: one [`Behaviour`] per
//! attempt, and the last one for all later attempts. Without it, the last digit of the called number decides. A
//! [`Mode`] changes the behaviour of one whole provider for some time.

mod behaviour;
mod call;
mod delivery;
mod dial;
mod faults;
mod held;
mod kept;
mod mode;
mod records;
mod response;
mod state;
#[cfg(test)]
mod tests;
#[expect(clippy::indexing_slicing, reason = "reading a field that a JSON value lacks gives null")]
mod vendor;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;
use switchhook_domain::{Direction, Provider};

use crate::clock::Clock;
use crate::error::LocalError;
use crate::journal::Journal;
use crate::sync::{Signal, lock};
use response::error;
use state::State;
use vendor::{Order, Request};

pub use behaviour::Behaviour;
pub use delivery::Delivery;
pub use faults::{CrashPoint, DeliveryFaults};
pub use held::HeldWebhook;
pub(crate) use kept::JOURNAL;
pub use mode::Mode;
pub use records::{ApiRecord, Dial, RequestResult, SentWebhook};
pub use response::{ApiResponse, ResponseFate};
pub(crate) use vendor::account_url;

/// Number of times a webhook is sent again after the receiver did not accept it, as Retell does.
const RETRIES_MAX: u32 = 3;
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// The fake provider. All methods may be called from several threads.
#[derive(Debug)]
pub struct FakeProvider {
    clock: Clock,
    state: Mutex<State>,
    changed: Signal,
    /// `None` if the data is in memory.
    journal: Option<Journal>,
}

impl FakeProvider {
    #[must_use]
    pub fn new(clock: Clock, seed: u64, delivery_faults: DeliveryFaults) -> Self {
        let state = State {
            rng: fastrand::Rng::with_seed(seed),
            started_at_ms: clock.now_ms(),
            delivery_faults,
            modes: BTreeMap::new(),
            capacities: BTreeMap::new(),
            answer_times: BTreeMap::new(),
            clocks_ahead_ms: BTreeMap::new(),
            blocked_numbers: BTreeSet::new(),
            crash: None,
            calls: BTreeMap::new(),
            calls_by_key: BTreeMap::new(),
            scheduled_webhooks: BTreeMap::new(),
            counter: 0,
            is_holding: false,
            held: BTreeMap::new(),
            dials: Vec::new(),
            rate_limited: 0,
            recording: None,
            requests: 0,
            unsaved: None,
        };
        Self { clock, state: Mutex::new(state), changed: Signal::default(), journal: None }
    }

    /// Creates a fake provider that goes on with the calls and webhooks of a journal. Settings, such as modes, are not kept.
    pub(crate) fn open(
        clock: Clock,
        seed: u64,
        delivery_faults: DeliveryFaults,
        journal: Option<Journal>,
    ) -> Result<Self, LocalError> {
        let provider = Self { journal, ..Self::new(clock, seed, delivery_faults) };
        if let Some(journal) = &provider.journal {
            lock(&provider.state).restore(journal)?;
        }
        Ok(provider)
    }

    /// Sets the delivery faults for webhooks of calls that are placed from now on.
    pub fn set_delivery_faults(&self, delivery_faults: DeliveryFaults) {
        lock(&self.state).delivery_faults = delivery_faults;
    }

    /// Sets the mode of Retell until it is set again.
    pub fn set_mode(&self, mode: Mode) {
        self.set_mode_of(Provider::Retell, mode);
    }

    /// Sets the mode of a provider until it is set again.
    pub fn set_mode_of(&self, provider: Provider, mode: Mode) {
        lock(&self.state).modes.insert(provider, (mode, None));
    }

    /// Sets the mode of Retell for some time. Then it is normal again.
    pub fn set_mode_for(&self, mode: Mode, time: Duration) {
        let until = self.now_ms() + millis(time);
        lock(&self.state).modes.insert(Provider::Retell, (mode, Some(until)));
    }

    /// Takes Retell's API down or brings it back.
    pub fn set_down(&self, down: bool) {
        self.set_mode(if down { Mode::Down } else { Mode::Normal });
    }

    /// Limits the calls that a provider has at the same time. Beyond the limit it is in [`Mode::OverCapacity`].
    pub fn set_capacity(&self, provider: Provider, calls: usize) {
        lock(&self.state).capacities.insert(provider, calls);
    }

    /// Sets the time that a provider takes for each answer. Only the functions of the local cloud wait for it.
    pub fn set_answer_time(&self, provider: Provider, time: Duration) {
        lock(&self.state).answer_times.insert(provider, time);
    }

    /// Sets the clock of a provider this many milliseconds ahead of the local cloud's clock, or behind it. Every time that the provider tells
    /// is by its own clock. Set it before the first call.
    pub fn set_clock_ahead(&self, provider: Provider, ahead_ms: i64) {
        lock(&self.state).clocks_ahead_ms.insert(provider, ahead_ms);
    }

    /// Returns the time that a provider takes for its answer to a request with this path and [login](Self::login_header). `None` if it
    /// answers at once.
    pub(crate) fn answer_time(&self, path: &str, login: Option<&str>) -> Option<Duration> {
        let (path, _) = path.split_once('?').unwrap_or((path, ""));
        lock(&self.state).answer_times.get(&vendor::addressee(path, login)?.0).copied()
    }

    /// Makes Twilio block every call to this number, and Twilio and Bland refuse every call from it, until it is unblocked.
    pub fn block_number(&self, number: &str) {
        lock(&self.state).blocked_numbers.insert(number.to_owned());
    }

    pub fn unblock_number(&self, number: &str) {
        lock(&self.state).blocked_numbers.remove(number);
    }

    /// Makes the function that sends the next API request crash at this point.
    pub fn crash_next(&self, point: CrashPoint) {
        self.set_crash(Some(point));
    }

    /// Does the same as [`Self::crash_next`]. With `None`, no function crashes.
    pub fn set_crash(&self, point: Option<CrashPoint>) {
        lock(&self.state).crash = point;
    }

    /// Returns true, once, if the calling function is to crash at this point.
    pub(crate) fn crashes_at(&self, point: CrashPoint) -> bool {
        lock(&self.state).crash.take_if(|planned| *planned == point).is_some()
    }

    /// All dial requests that the provider accepted, oldest first.
    #[must_use]
    pub fn dials(&self) -> Vec<Dial> {
        lock(&self.state).dials.clone()
    }

    /// Number of requests to the API.
    #[must_use]
    pub fn requests(&self) -> u64 {
        lock(&self.state).requests
    }

    /// Starts to record webhooks and API responses, for [`Self::sent_webhooks`] and [`Self::api_records`].
    pub fn start_recording(&self) {
        lock(&self.state).recording.get_or_insert_default();
    }

    /// Webhooks sent since [`Self::start_recording`], oldest first.
    #[must_use]
    pub fn sent_webhooks(&self) -> Vec<SentWebhook> {
        lock(&self.state).recording.as_ref().map(|recording| recording.webhooks.clone()).unwrap_or_default()
    }

    /// Dial requests and lookups answered since [`Self::start_recording`], oldest first. Lookups while the API was down
    /// are not included.
    #[must_use]
    pub fn api_records(&self) -> Vec<ApiRecord> {
        lock(&self.state).recording.as_ref().map(|recording| recording.requests.clone()).unwrap_or_default()
    }

    /// Number of dials that should never have happened: the same attempt had been dialled before, or an earlier dial
    /// for the same call had not ended yet.
    #[must_use]
    pub fn duplicate_dials(&self) -> usize {
        let state = lock(&self.state);
        let mut by_call: BTreeMap<&str, Vec<&Dial>> = BTreeMap::new();
        let mut clashes = 0;
        for dial in &state.dials {
            let before = by_call.entry(&dial.call_id).or_default();
            let clash = before.iter().any(|other| other.attempt == dial.attempt || other.ended_ms > dial.started_ms);
            clashes += usize::from(clash);
            before.push(dial);
        }
        clashes
    }

    /// Name of the header by which a request to this path authenticates itself.
    #[must_use]
    pub fn login_header(path: &str) -> &'static str {
        let vendor = vendor::addressee(path, None).map(|(provider, _)| provider.vendor());
        if vendor == Some(Provider::ElevenLabs) { "xi-api-key" } else { "authorization" }
    }

    /// Answers a request to the API of a provider. `path` may have a query. `login` is the value of [`Self::login_header`].
    #[must_use]
    pub fn handle(&self, method: &str, path: &str, login: Option<&str>, body: &[u8]) -> ApiResponse {
        let now = self.now_ms();
        let mut state = lock(&self.state);
        state.requests += 1;
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let Some((provider, path)) = vendor::addressee(path, login) else { return error(404, "no such path") };
        let request = Request { provider, method, path, query, body };
        let order = vendor::order(&request);
        let refusal = state.mode_of(provider, now).response(provider);
        if let Some(refusal) = refusal.filter(|refusal| order.is_some() || !refusal.is_for_dials_only) {
            if let Some(order) = &order {
                state.record_dial(order, now, refusal.result);
            }
            return state.with_retry_after(refusal);
        }
        let has_login = |value: &str| {
            let scheme_and_login = value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("Basic "));
            let is_bare = matches!(provider.vendor(), Provider::ElevenLabs | Provider::Bland);
            let login = if is_bare { Some(value) } else { scheme_and_login };
            login.is_some_and(|login| !login.is_empty())
        };
        if !login.is_some_and(has_login) {
            return error(401, "no API key");
        }
        let answer = match order {
            Some(order) => state.dial(order, now),
            None => {
                let now = state.time_of(provider, now);
                state.answer(&request, now)
            }
        };
        let is_saved = state.save(self.journal.as_ref());
        drop(state);
        self.changed.changed();
        if is_saved { answer } else { error(503, "the call could not be kept") }
    }

    /// Lets a person call a number of the account, so that the provider has a call that nobody placed. Returns its provider call id.
    ///
    /// Retell, Twilio, Vapi and Telnyx show its direction. The other providers have outbound calls only.
    pub fn receive_call(&self, provider: Provider, from: &str, to: &str, behaviour: Behaviour) -> String {
        let order = Order {
            provider,
            from: from.into(),
            to: to.into(),
            metadata: Value::Null,
            idempotency_key: None,
            echoed: Value::Null,
        };
        let now = self.now_ms();
        let mut state = lock(&self.state);
        let now = state.time_of(provider, now);
        let (id, call) = state.begin(order, Direction::Inbound, (behaviour, false), now);
        state.keep_call(&id, &call, None, None);
        state.calls.insert(id.clone(), call);
        state.save(self.journal.as_ref());
        drop(state);
        self.changed.changed();
        id
    }

    /// Changes a field of a call in the answers of Retell or Bland to later requests, as if the provider had added a value to its list.
    pub fn change_field(&self, provider_call_id: &str, name: &str, value: &str) {
        if let Some(call) = lock(&self.state).calls.get_mut(provider_call_id) {
            call.changed_fields.insert(name.to_owned(), value.into());
        }
    }

    /// Waits until the next webhook is due, and returns it. A restarted provider sends it again, unless it was
    /// [finished](Self::finish_delivery) or [retried](Self::retry_delivery) before.
    pub async fn next_delivery(&self) -> Delivery {
        loop {
            let mut changed = self.changed.watch();
            let next = lock(&self.state).scheduled_webhooks.first_key_value().map(|((at, _), _)| *at);
            match next {
                Some(at) if at <= self.now_ms() => {
                    if let Some(delivery) = self.take_due(at) {
                        return delivery;
                    }
                }
                Some(at) => {
                    tokio::select! {
                        biased;
                        () = self.clock.sleep_until(u64::try_from(at).unwrap_or_default()) => {}
                        () = changed.changed() => {}
                    }
                }
                None => changed.changed().await,
            }
        }
    }

    /// Takes the first webhook, which is due at `due`. `None` if it is held from now on.
    fn take_due(&self, due: i64) -> Option<Delivery> {
        let at_ms = self.now_ms();
        let mut state = lock(&self.state);
        let ((_, number), delivery) =
            state.scheduled_webhooks.first_entry().filter(|entry| entry.key().0 <= due)?.remove_entry();
        if state.is_holding && !delivery.is_released {
            state.held.insert(number, delivery);
            return None;
        }
        let Delivery { provider_call_id, event, .. } = &delivery;
        if let Some(recording) = &mut state.recording {
            recording.webhooks.push(SentWebhook { provider_call_id: provider_call_id.clone(), event, at_ms });
        }
        Some(Delivery { number, ..delivery })
    }

    /// Forgets a webhook that the receiver accepted, or that nobody can send.
    pub fn finish_delivery(&self, delivery: &Delivery) {
        let mut state = lock(&self.state);
        state.forget_webhook(delivery.number);
        state.save(self.journal.as_ref());
    }

    /// Schedules a webhook again that the receiver did not accept. Gives up after three retries.
    pub fn retry_delivery(&self, mut delivery: Delivery) {
        delivery.failed_sends += 1;
        let mut state = lock(&self.state);
        state.forget_webhook(delivery.number);
        if delivery.failed_sends <= RETRIES_MAX {
            state.enqueue(self.now_ms() + millis(RETRY_PAUSE), delivery);
        }
        state.save(self.journal.as_ref());
        drop(state);
        self.changed.changed();
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.clock.now_ms()).unwrap_or(i64::MAX)
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
