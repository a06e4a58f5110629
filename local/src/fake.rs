//! The fake provider: a provider for development that dials nobody.
//!
//! It speaks Retell's API: `POST /v2/create-phone-call`, `GET /v2/get-call/{id}` and `POST /v3/list-calls`. A virtual
//! person answers every number. It sends signed webhooks the way providers do: some late, some twice, some out of
//! order, and some never.
//!
//! **The true course of a call is fixed at the moment when the call is placed.** Webhooks and API responses only report
//! it, correctly or not. The provider has the local cloud's clock, and random numbers from a seed.
//!
//! The metadata of the call decides what happens, for example `{"fake": "busy,confirms"}`: one [`Behaviour`] per
//! attempt, and the last one for all later attempts. Without it, the last digit of the called number decides. A
//! [`Mode`] changes the behaviour of the whole provider for some time.

mod behaviour;
mod call;
mod faults;
mod held;
mod listing;
mod mode;
mod records;
mod response;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::clock::Clock;
use crate::sync::{Signal, lock};
use call::FakeCall;
use mode::Refusal;
use response::{error, respond};

pub use behaviour::Behaviour;
pub use faults::{CrashPoint, DeliveryFaults};
pub use held::HeldWebhook;
pub use mode::Mode;
pub use records::{ApiRecord, Dial, RequestResult, SentWebhook};
pub use response::{ApiResponse, ResponseFate};

/// Number of times a webhook is sent again after the receiver did not accept it, as Retell does.
const RETRIES_MAX: u32 = 3;
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// Time during which a repeated dial request with the same `idempotency_key` is answered with the first call.
const IDEMPOTENCY_MS: i64 = 60 * 60 * 1000;
/// Seconds after which a caller may try again that was answered 429. It is longer than any pause that a dialer makes by itself.
const RETRY_AFTER_SECONDS: u64 = 90;
/// Method and path of the request that places a call.
const DIAL_ROUTE: (&str, &str) = ("POST", "/v2/create-phone-call");

/// A webhook to sign and send now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    provider_call_id: String,
    event: &'static str,
    body: String,
    failed_sends: u32,
    /// True if somebody held the webhook and let it go, so that it is not held again.
    is_released: bool,
}

/// The fake provider. All methods may be called from several threads.
#[derive(Debug)]
pub struct FakeProvider {
    clock: Clock,
    state: Mutex<State>,
    changed: Signal,
}

#[derive(Debug)]
struct State {
    rng: fastrand::Rng,
    /// Part of each call id. It keeps ids apart if a later process draws the same random numbers, from the same seed.
    started_at_ms: u64,
    delivery_faults: DeliveryFaults,
    mode: Mode,
    /// Time at which the mode ends, in Unix milliseconds. `None` if only [`FakeProvider::set_mode`] ends it.
    mode_until_ms: Option<i64>,
    crash: Option<CrashPoint>,
    calls: BTreeMap<String, FakeCall>,
    /// Provider call ids by `idempotency_key`.
    calls_by_key: BTreeMap<String, String>,
    /// Webhooks to send, by due time and a counter that keeps equal times apart.
    scheduled_webhooks: BTreeMap<(i64, u64), Delivery>,
    counter: u64,
    /// True if webhooks that are due wait until somebody lets them go.
    is_holding: bool,
    /// Webhooks that wait, by a number that names each.
    held: BTreeMap<u64, Delivery>,
    dials: Vec<Dial>,
    /// Number of dial requests that were answered 429.
    rate_limited: u64,
    /// `None` until recording starts.
    recording: Option<Recording>,
    requests: u64,
}

#[derive(Debug, Default)]
struct Recording {
    webhooks: Vec<SentWebhook>,
    requests: Vec<ApiRecord>,
    /// Last recorded result of each `idempotency_key`.
    results_by_key: BTreeMap<String, RequestResult>,
}

impl Delivery {
    /// Body of the webhook. The sender signs it.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.body
    }
}

impl FakeProvider {
    #[must_use]
    pub fn new(clock: Clock, seed: u64, delivery_faults: DeliveryFaults) -> Self {
        let state = State {
            rng: fastrand::Rng::with_seed(seed),
            started_at_ms: clock.now_ms(),
            delivery_faults,
            mode: Mode::Normal,
            mode_until_ms: None,
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
        };
        Self { clock, state: Mutex::new(state), changed: Signal::default() }
    }

    /// Sets the delivery faults for webhooks of calls that are placed from now on.
    pub fn set_delivery_faults(&self, delivery_faults: DeliveryFaults) {
        lock(&self.state).delivery_faults = delivery_faults;
    }

    /// Sets the mode of the provider until it is set again.
    pub fn set_mode(&self, mode: Mode) {
        let mut state = lock(&self.state);
        (state.mode, state.mode_until_ms) = (mode, None);
    }

    /// Sets the mode of the provider for some time. Then it is normal again.
    pub fn set_mode_for(&self, mode: Mode, time: Duration) {
        let until = self.now_ms() + millis(time);
        let mut state = lock(&self.state);
        (state.mode, state.mode_until_ms) = (mode, Some(until));
    }

    /// Takes the API down or brings it back.
    pub fn set_down(&self, down: bool) {
        self.set_mode(if down { Mode::Down } else { Mode::Normal });
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

    /// Answers a request to the API.
    #[must_use]
    pub fn handle(&self, method: &str, path: &str, authorization: Option<&str>, body: &[u8]) -> ApiResponse {
        let now = self.now_ms();
        let mut state = lock(&self.state);
        state.requests += 1;
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        // The fake provider plays one answer of Vapi alone: it takes the request, and dials nobody.
        if (method, path) == ("POST", "/call") && state.mode == Mode::OverCapacity {
            let id = format!("vapi_{}", state.requests);
            let limits = json!({"concurrencyBlocked": true});
            return respond(201, &json!({"id": id, "status": "queued", "subscriptionLimits": limits}));
        }
        // The APIs of other providers are unknown here, whatever the mode is.
        if !path.starts_with("/v2/") && !path.starts_with("/v3/") {
            return error(404, "no such path");
        }
        if state.mode_until_ms.is_some_and(|until| until <= now) {
            (state.mode, state.mode_until_ms) = (Mode::Normal, None);
        }
        let is_dial = (method, path) == DIAL_ROUTE;
        if let Some(refusal) = state.mode.response().filter(|refusal| is_dial || !refusal.is_for_dials_only) {
            if is_dial {
                state.record_dial(&body, now, refusal.result);
            }
            return state.with_retry_after(refusal);
        }
        if !authorization.is_some_and(|value| value.starts_with("Bearer ") && value.len() > "Bearer ".len()) {
            return error(401, "no API key");
        }
        let answer = match (method, path) {
            DIAL_ROUTE => state.create(&body, now),
            ("POST", "/v3/list-calls") => state.list(&body, now),
            ("GET", _) => match path.strip_prefix("/v2/get-call/") {
                Some(id) => state.get(id, now),
                None => error(404, "no such path"),
            },
            (_, _) => error(404, "no such path"),
        };
        drop(state);
        self.changed.changed();
        answer
    }

    /// Waits until the next webhook is due, and returns it.
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
        Some(delivery)
    }

    /// Schedules a webhook again that the receiver did not accept. Gives up after three retries.
    pub fn retry_delivery(&self, mut delivery: Delivery) {
        delivery.failed_sends += 1;
        if delivery.failed_sends <= RETRIES_MAX {
            let at = self.now_ms() + millis(RETRY_PAUSE);
            lock(&self.state).enqueue(at, delivery);
            self.changed.changed();
        }
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.clock.now_ms()).unwrap_or(i64::MAX)
    }
}

impl State {
    fn create(&mut self, body: &Value, now: i64) -> ApiResponse {
        if let Some(response) = self.repeated_dial(body, now) {
            return response;
        }
        let (from, to) = (body["from_number"].clone(), body["to_number"].clone());
        let Some(number) = to.as_str().filter(|number| !number.is_empty()) else {
            return error(422, "to_number is missing");
        };
        let metadata = body["metadata"].clone();
        let behaviour = Behaviour::select(metadata.as_object().unwrap_or(&Map::new()), number);
        let mode = match Mode::occasional(behaviour) {
            Some(mode) if self.rng.bool() => mode,
            Some(_) | None => self.mode,
        };
        let mode = if behaviour == Behaviour::Invalid { Mode::RejectsNumbers } else { mode };
        if let Some(refusal) = mode.response() {
            self.record_dial(body, now, refusal.result);
            return self.with_retry_after(refusal);
        }
        let is_over_capacity = mode == Mode::OverCapacity;
        let id = format!("call_{:012x}{:020x}", self.started_at_ms, self.rng.u128(..) >> 48);
        let rings = self.rng.i64(2_000..12_000);
        let answered_ms = (behaviour.disconnection_reason().is_none() && !is_over_capacity).then_some(now + rings);
        let ended_ms = match behaviour {
            Behaviour::Voicemail => now + rings + self.rng.i64(8_000..20_000),
            Behaviour::NoAnswer => now + 30_000,
            Behaviour::Forgotten => now + 60_000,
            Behaviour::Busy | Behaviour::Fails | Behaviour::Invalid => now + rings,
            Behaviour::Confirms
            | Behaviour::Declines
            | Behaviour::ResponseLost
            | Behaviour::Silent
            | Behaviour::RateLimited
            | Behaviour::FirstResponseLost
            | Behaviour::NoResponse
            | Behaviour::OutOfCredit
            | Behaviour::UnknownAsset
            | Behaviour::OverCapacity => now + rings + self.rng.i64(20_000..90_000),
        };
        let ended_ms = if is_over_capacity { now + 500 } else { ended_ms };
        let analysed_ms = ended_ms + self.rng.i64(1_000..6_000);
        self.record_dial(body, now, RequestResult::Accepted);
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        if !is_over_capacity {
            self.dials.push(Dial {
                provider_call_id: id.clone(),
                call_id: text("switchhook_call_id"),
                attempt: text("switchhook_attempt"),
                behaviour,
                started_ms: now,
                answered_ms,
                ended_ms,
            });
        }
        if let Some(key) = body["idempotency_key"].as_str() {
            self.calls_by_key.insert(key.to_owned(), id.clone());
        }
        let call = FakeCall {
            behaviour,
            is_over_capacity,
            from,
            to,
            metadata,
            created_ms: now,
            answered_ms,
            ended_ms,
            analysed_ms,
        };
        self.schedule_webhooks(&id, &call);
        let answer = respond(201, &call.to_json(&id, now));
        self.calls.insert(id, call);
        let is_lost = matches!(behaviour, Behaviour::ResponseLost | Behaviour::FirstResponseLost);
        if mode == Mode::FailsAfterDial {
            return error(500, "An unexpected server error occurred.");
        }
        ApiResponse { fate: if is_lost { ResponseFate::Lost } else { ResponseFate::Arrives }, ..answer }
    }

    /// Answers a dial request whose `idempotency_key` was used within the last hour: with the first call. No phone
    /// rings.
    fn repeated_dial(&self, body: &Value, now: i64) -> Option<ApiResponse> {
        let id = self.calls_by_key.get(body["idempotency_key"].as_str()?)?;
        let call = self.calls.get(id).filter(|call| now < call.created_ms + IDEMPOTENCY_MS)?;
        let answer = respond(201, &call.to_json(id, now));
        if self.mode == Mode::FailsAfterDial {
            return Some(error(500, "An unexpected server error occurred."));
        }
        let is_lost = call.behaviour == Behaviour::ResponseLost;
        Some(ApiResponse { fate: if is_lost { ResponseFate::Lost } else { ResponseFate::Arrives }, ..answer })
    }

    /// Schedules the webhooks of a call, with the delivery faults that are set.
    fn schedule_webhooks(&mut self, id: &str, call: &FakeCall) {
        let events = [
            ("call_started", call.answered_ms),
            ("call_ended", Some(call.ended_ms)),
            ("call_analyzed", Some(call.analysed_ms)),
        ];
        for (event, at) in events {
            let Some(at) = at else { continue };
            let happens = |rng: &mut fastrand::Rng, percent: u8| rng.u8(0..100) < percent;
            let DeliveryFaults { duplicate_percent, delay_percent, loss_percent } = self.delivery_faults;
            let silent = matches!(call.behaviour, Behaviour::Forgotten | Behaviour::Silent);
            if happens(&mut self.rng, loss_percent) || silent {
                continue;
            }
            let body = json!({"event": event, "call": call.to_json(id, at)}).to_string();
            let copies = if happens(&mut self.rng, duplicate_percent) { 2 } else { 1 };
            for _ in 0..copies {
                let delay = if happens(&mut self.rng, delay_percent) {
                    self.rng.i64(30_000..120_000)
                } else {
                    self.rng.i64(50..3_000)
                };
                let delivery = Delivery {
                    provider_call_id: id.to_owned(),
                    event,
                    body: body.clone(),
                    failed_sends: 0,
                    is_released: false,
                };
                self.enqueue(at + delay, delivery);
            }
        }
    }

    fn enqueue(&mut self, at: i64, delivery: Delivery) {
        self.counter += 1;
        self.scheduled_webhooks.insert((at, self.counter), delivery);
    }

    fn get(&mut self, id: &str, now: i64) -> ApiResponse {
        let unknown = error(422, "Cannot find requested asset under given api key.");
        let Some(call) = self.calls.get(id) else { return unknown };
        let (metadata, result) = (call.metadata.clone(), call.lookup_result(now));
        let answer = if result == RequestResult::NotFound { unknown } else { respond(200, &call.to_json(id, now)) };
        self.record(&metadata, now, result);
        answer
    }

    /// Response of a refusal. Every other 429 says when to try again, beginning with the first.
    fn with_retry_after(&mut self, refusal: Refusal) -> ApiResponse {
        if refusal.result != RequestResult::RateLimited {
            return refusal.response;
        }
        self.rate_limited += 1;
        ApiResponse { retry_after: (self.rate_limited % 2 == 1).then_some(RETRY_AFTER_SECONDS), ..refusal.response }
    }

    /// Records the response to a dial request. See [`ApiRecord`] for repeated requests.
    fn record_dial(&mut self, body: &Value, at_ms: i64, result: RequestResult) {
        let Some(recording) = &mut self.recording else { return };
        if let Some(key) = body["idempotency_key"].as_str()
            && recording.results_by_key.insert(key.to_owned(), result) == Some(result)
        {
            return;
        }
        self.record(&body["metadata"], at_ms, result);
    }

    /// Records the response about the attempt whose call id and number are in `metadata`.
    fn record(&mut self, metadata: &Value, at_ms: i64, result: RequestResult) {
        let Some(recording) = &mut self.recording else { return };
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (call_id, attempt) = (text("switchhook_call_id"), text("switchhook_attempt"));
        recording.requests.push(ApiRecord { call_id, attempt, at_ms, result });
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
