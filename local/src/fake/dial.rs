//! Dials of the fake provider: who is called, what truly happens, and which webhooks report it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use switchhook_domain::{Direction, Provider};
use switchhook_providers::repeats_safely_for;

use super::behaviour::Behaviour;
use super::call::FakeCall;
use super::delivery::Delivery;
use super::faults::DeliveryFaults;
use super::mode::{Mode, Refusal};
use super::records::{ApiRecord, Dial, RequestResult};
use super::response::{ApiResponse, ResponseFate, blocked_number, error, refused_calling_number};
use super::state::State;
use super::vendor::{self, Order, Webhook};

/// Seconds after which a caller may try again that was answered 429. It is longer than any pause that a dialer makes by itself.
const RETRY_AFTER_SECONDS: u64 = 90;

impl State {
    /// Places a call, unless the mode of the provider or the behaviour of the call prevents it.
    pub(super) fn dial(&mut self, order: Order, now: i64) -> ApiResponse {
        if let Some(response) = self.repeated_dial(&order, now) {
            return response;
        }
        let Some(number) = order.to.as_str().filter(|number| !number.is_empty()) else {
            return error(422, "to_number is missing");
        };
        if order.provider.vendor() == Provider::Twilio && self.blocked_numbers.contains(number) {
            self.record_dial(&order, now, RequestResult::Refused);
            return blocked_number();
        }
        if order.from.as_str().is_some_and(|from| self.blocked_numbers.contains(from))
            && let Some(response) = refused_calling_number(order.provider)
        {
            self.record_dial(&order, now, RequestResult::Refused);
            return response;
        }
        let behaviour = Behaviour::select(order.metadata.as_object().unwrap_or(&Map::new()), number);
        let mode = match Mode::occasional(behaviour) {
            Some(mode) if self.rng.bool() => mode,
            Some(_) | None => self.mode_of(order.provider, now),
        };
        let mode = if behaviour == Behaviour::Invalid { Mode::RejectsNumbers } else { mode };
        let is_full = self.capacities.get(&order.provider).is_some_and(|capacity| {
            let is_open = |dial: &&Dial| dial.provider == order.provider && now < dial.ended_ms;
            self.dials.iter().filter(is_open).count() >= *capacity
        });
        let mode = if mode == Mode::Normal && is_full { Mode::OverCapacity } else { mode };
        if let Some(refusal) = mode.response(order.provider) {
            self.record_dial(&order, now, refusal.result);
            return self.with_retry_after(refusal);
        }
        let is_over_capacity = mode == Mode::OverCapacity;
        self.record_dial(&order, now, RequestResult::Accepted);
        let key = order.idempotency_key.clone();
        let ahead = self.clock_ahead_ms(order.provider);
        let (id, call) = self.begin(order, Direction::Outbound, (behaviour, is_over_capacity), now + ahead);
        let text = |name: &str| call.metadata.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let dial = (!is_over_capacity).then(|| Dial {
            provider: call.provider,
            provider_call_id: id.clone(),
            call_id: text("switchhook_call_id"),
            attempt: text("switchhook_attempt"),
            behaviour,
            started_ms: now,
            answered_ms: call.answered_ms.map(|at| at - ahead),
            ended_ms: call.ended_ms - ahead,
        });
        self.keep_call(&id, &call, key.as_ref(), dial.as_ref());
        self.dials.extend(dial);
        if let Some(key) = key {
            self.calls_by_key.insert(key, id.clone());
        }
        let answer = vendor::dialled(&call, &id, now + ahead);
        self.calls.insert(id, call);
        let is_lost = matches!(behaviour, Behaviour::ResponseLost | Behaviour::FirstResponseLost);
        if mode == Mode::FailsAfterDial {
            return error(500, "An unexpected server error occurred.");
        }
        ApiResponse { fate: if is_lost { ResponseFate::Lost } else { ResponseFate::Arrives }, ..answer }
    }

    /// Begins a call whose course is this behaviour, or which ends at once because the account is full. Its webhooks are scheduled.
    /// Returns it with its provider call id. `now` is by the provider's clock.
    pub(super) fn begin(
        &mut self,
        order: Order,
        direction: Direction,
        (behaviour, is_over_capacity): (Behaviour, bool),
        now: i64,
    ) -> (String, FakeCall) {
        let prefix = match order.provider.vendor() {
            Provider::Retell | Provider::Daily | Provider::Generic | Provider::Named(_) => "call_",
            Provider::Twilio => "CA",
            Provider::Vapi => "vapi_",
            Provider::Telnyx => "v3:",
            Provider::ElevenLabs => "conv_",
            Provider::Plivo => "plivo-",
            Provider::Vonage => "vonage-",
            Provider::LiveKit => "SCL_",
            Provider::Bland => "bland-",
            Provider::SignalWire => "signalwire-",
        };
        let id = format!("{prefix}{:012x}{:020x}", self.started_at_ms, self.rng.u128(..) >> 48);
        let rings = self.rng.i64(2_000..12_000);
        let answered_ms = (behaviour.ending().is_answered() && !is_over_capacity).then_some(now + rings);
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
        let Order { provider, from, to, metadata, echoed, idempotency_key: _ } = order;
        let call = FakeCall {
            provider,
            direction,
            behaviour,
            is_over_capacity,
            from,
            to,
            metadata,
            echoed,
            changed_fields: BTreeMap::new(),
            created_ms: now,
            answered_ms,
            ended_ms,
            analysed_ms,
        };
        self.schedule_webhooks(&id, &call);
        (id, call)
    }

    /// Answers a dial request whose idempotency key was used before: with the first call. No phone rings.
    fn repeated_dial(&self, order: &Order, now: i64) -> Option<ApiResponse> {
        let id = self.calls_by_key.get(order.idempotency_key.as_ref()?)?;
        let kept = repeats_safely_for(order.provider)?;
        let theirs = self.time_of(order.provider, now);
        let call = self.calls.get(id).filter(|call| theirs < call.created_ms + super::millis(kept))?;
        let answer = vendor::dialled(call, id, theirs);
        if self.mode_of(order.provider, now) == Mode::FailsAfterDial {
            return Some(error(500, "An unexpected server error occurred."));
        }
        let is_lost = call.behaviour == Behaviour::ResponseLost;
        Some(ApiResponse { fate: if is_lost { ResponseFate::Lost } else { ResponseFate::Arrives }, ..answer })
    }

    /// Schedules the webhooks of a call, with the delivery faults that are set.
    fn schedule_webhooks(&mut self, id: &str, call: &FakeCall) {
        let ahead = self.clock_ahead_ms(call.provider);
        for Webhook { event, at, body } in vendor::webhooks(call, id) {
            let happens = |rng: &mut fastrand::Rng, percent: u8| rng.u8(0..100) < percent;
            let DeliveryFaults { duplicate_percent, delay_percent, loss_percent } = self.delivery_faults;
            let silent = matches!(call.behaviour, Behaviour::Forgotten | Behaviour::Silent);
            if happens(&mut self.rng, loss_percent) || silent {
                continue;
            }
            let copies = if happens(&mut self.rng, duplicate_percent) { 2 } else { 1 };
            for _ in 0..copies {
                let delay = if happens(&mut self.rng, delay_percent) {
                    self.rng.i64(30_000..120_000)
                } else {
                    self.rng.i64(50..3_000)
                };
                let delivery = Delivery {
                    provider: call.provider,
                    provider_call_id: id.to_owned(),
                    metadata: call.metadata.clone(),
                    query: call.echoed.get("query").and_then(Value::as_str).unwrap_or_default().to_owned(),
                    event,
                    body: body.clone(),
                    failed_sends: 0,
                    is_released: false,
                    number: 0,
                };
                self.enqueue(at - ahead + delay, delivery);
            }
        }
    }

    pub(super) fn enqueue(&mut self, at: i64, delivery: Delivery) {
        self.counter += 1;
        self.keep_webhook(self.counter, at, &delivery);
        self.scheduled_webhooks.insert((at, self.counter), delivery);
    }

    /// Mode of a provider.
    pub(super) fn mode_of(&self, provider: Provider, now: i64) -> Mode {
        let mode = self.modes.get(&provider).filter(|(_, until)| until.is_none_or(|until| now < until));
        mode.map_or(Mode::Normal, |(mode, _)| *mode)
    }

    /// Response of a refusal. Every other 429 says when to try again, beginning with the first.
    pub(super) fn with_retry_after(&mut self, refusal: Refusal) -> ApiResponse {
        if refusal.result != RequestResult::RateLimited {
            return refusal.response;
        }
        self.rate_limited += 1;
        ApiResponse { retry_after: (self.rate_limited % 2 == 1).then_some(RETRY_AFTER_SECONDS), ..refusal.response }
    }

    /// Records the response to a dial request. See [`ApiRecord`] for repeated requests.
    pub(super) fn record_dial(&mut self, order: &Order, at_ms: i64, result: RequestResult) {
        let Some(recording) = &mut self.recording else { return };
        if let Some(key) = &order.idempotency_key
            && recording.results_by_key.insert(key.clone(), result) == Some(result)
        {
            return;
        }
        self.record(order.provider, &order.metadata, at_ms, result);
    }

    /// Records the response about the attempt whose call id and number are in `metadata`.
    pub(super) fn record(&mut self, provider: Provider, metadata: &Value, at_ms: i64, result: RequestResult) {
        let Some(recording) = &mut self.recording else { return };
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (call_id, attempt) = (text("switchhook_call_id"), text("switchhook_attempt"));
        recording.requests.push(ApiRecord { provider, call_id, attempt, at_ms, result });
    }
}
