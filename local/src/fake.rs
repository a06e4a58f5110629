//! The fake provider: a provider for development that dials nobody.
//!
//! It speaks the shape of Retell's API (`POST /v2/create-phone-call`, `GET /v2/get-call/{id}`, `POST /v3/list-calls`), has a
//! virtual person at the other end of every number, and sends signed webhooks the way providers do: late, twice, out of order,
//! and some never. **What truly happened is decided when the call is placed**; webhooks and answers only tell of it, well or
//! badly. Its time is tokio's, its dice have a seed.
//!
//! What a person does is said by the call's metadata, `{"fake": "busy,confirms"}`, one word for each attempt and the last for all
//! that follow; else by the last digit of the number: see [`Behaviour`].

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::clock::Clock;
use crate::sync::{Signal, lock};

/// A webhook that is not taken is sent again so often, as Retell does.
const RETRIES_MAX: u32 = 3;
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// The request that places a call.
const DIAL: (&str, &str) = ("POST", "/v2/create-phone-call");

/// What the person at the other end does, or what goes wrong on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Behaviour {
    /// Last digit 0.
    Confirms,
    /// 1.
    Declines,
    /// 2: a machine answers.
    Voicemail,
    /// 3.
    Busy,
    /// 4.
    NoAnswer,
    /// 5: for a reason that may pass.
    Fails,
    /// 6: the provider takes the call, forgets it, and never says a word.
    Forgotten,
    /// 7: the phone rings and the person confirms, but the provider's answer to the dial is lost.
    ResponseLost,
    /// 8: the person confirms, and every webhook of it is lost.
    Silent,
    /// 9: the provider will not take the call now; after that the person confirms.
    RateLimited,
    /// Never by a digit: the number does not exist.
    Invalid,
}

impl Behaviour {
    pub const ALL: [Self; 11] = [
        Self::Confirms,
        Self::Declines,
        Self::Voicemail,
        Self::Busy,
        Self::NoAnswer,
        Self::Fails,
        Self::Forgotten,
        Self::ResponseLost,
        Self::Silent,
        Self::RateLimited,
        Self::Invalid,
    ];

    /// The word in the metadata.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Confirms => "confirms",
            Self::Declines => "declines",
            Self::Voicemail => "voicemail",
            Self::Busy => "busy",
            Self::NoAnswer => "no_answer",
            Self::Fails => "fails",
            Self::Forgotten => "forgotten",
            Self::ResponseLost => "response_lost",
            Self::Silent => "silent",
            Self::RateLimited => "rate_limited",
            Self::Invalid => "invalid",
        }
    }

    fn of(metadata: &Map<String, Value>, to: &str) -> Self {
        let text = |name: &str| metadata.get(name).and_then(Value::as_str);
        let attempt: usize = text("switchhook_attempt").and_then(|number| number.parse().ok()).unwrap_or(1);
        let word = text("fake").and_then(|words| {
            let words: Vec<&str> = words.split(',').map(str::trim).collect();
            words.get(attempt - 1).or(words.last()).copied()
        });
        let named = word.and_then(|word| Self::ALL.into_iter().find(|behaviour| behaviour.as_str() == word));
        let digit = to.bytes().next_back().filter(u8::is_ascii_digit).map_or(0, |digit| usize::from(digit - b'0'));
        named.or_else(|| Self::ALL.get(digit).copied()).unwrap_or(Self::Confirms)
    }

    /// Retell's words for how it ends; none if it is answered.
    const fn disconnection(self) -> Option<&'static str> {
        match self {
            Self::Busy => Some("dial_busy"),
            Self::NoAnswer => Some("dial_no_answer"),
            Self::Fails => Some("telephony_provider_unavailable"),
            Self::Invalid => Some("invalid_destination"),
            Self::Confirms
            | Self::Declines
            | Self::Voicemail
            | Self::Forgotten
            | Self::ResponseLost
            | Self::Silent
            | Self::RateLimited => None,
        }
    }
}

/// How badly webhooks are sent, in percent of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryFaults {
    pub duplicate_percent: u8,
    /// Half a minute to two minutes.
    pub delay_percent: u8,
    pub loss_percent: u8,
}

impl DeliveryFaults {
    /// As bad as one should expect.
    pub const USUAL: Self = Self { duplicate_percent: 15, delay_percent: 15, loss_percent: 8 };
    /// Each once and at once.
    pub const NONE: Self = Self { duplicate_percent: 0, delay_percent: 0, loss_percent: 0 };
    /// None at all.
    pub const ALL_LOST: Self = Self { duplicate_percent: 0, delay_percent: 0, loss_percent: 100 };
}

/// Where the function that makes the next request dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// Before the provider has the request.
    BeforeRequest,
    /// After the provider did what was asked, before its answer is there.
    BeforeResponse,
}

/// One phone that rang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dial {
    /// What the provider calls it.
    pub provider_call_id: String,
    /// Our id of the call, as the dial's metadata named it.
    pub call_id: String,
    pub attempt: String,
    pub behaviour: Behaviour,
    /// From the dial to the end of the call, in Unix milliseconds.
    pub started_ms: i64,
    /// None: nobody answered.
    pub answered_ms: Option<i64>,
    pub ended_ms: i64,
}

/// One webhook that was sent, taken or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentWebhook {
    pub provider_call_id: String,
    /// The provider's word for what it tells.
    pub event: &'static str,
    /// In Unix milliseconds.
    pub at_ms: i64,
}

/// What the API answered to one dial, or to one question about an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiRecord {
    /// Our ids, as the request or the call's metadata names them.
    pub call_id: String,
    pub attempt: String,
    /// In Unix milliseconds.
    pub at_ms: i64,
    pub result: RequestResult,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestResult {
    /// To a dial: the phone rings.
    Accepted,
    /// To a dial: not now.
    RateLimited,
    /// To a dial: never.
    Rejected,
    /// To a dial: nothing that says whether it was taken. It was not.
    Unavailable,
    /// There is no such call.
    NotFound,
    /// The call is not over.
    InProgress,
    /// How the call ended.
    Ended,
    /// The same, and what came of it.
    Analysed,
}

/// An answer of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResponse {
    pub status: u16,
    pub body: String,
    /// It never arrives: the connection breaks after the request was done.
    pub lost: bool,
}

/// A webhook whose time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    provider_call_id: String,
    event: &'static str,
    body: String,
    failed_sends: u32,
}

/// The provider.
#[derive(Debug)]
pub struct FakeProvider {
    clock: Clock,
    state: Mutex<State>,
    changed: Signal,
}

#[derive(Debug)]
struct State {
    rng: fastrand::Rng,
    delivery_faults: DeliveryFaults,
    down: bool,
    crash: Option<CrashPoint>,
    calls: BTreeMap<String, FakeCall>,
    /// By the time at which each is sent, and a counter.
    outbox: BTreeMap<(i64, u64), Delivery>,
    counter: u64,
    dials: Vec<Dial>,
    /// None: nobody wants to know.
    record: Option<Record>,
    requests: u64,
}

#[derive(Debug, Default)]
struct Record {
    webhooks: Vec<SentWebhook>,
    requests: Vec<ApiRecord>,
}

#[derive(Debug)]
struct FakeCall {
    behaviour: Behaviour,
    from: Value,
    to: Value,
    metadata: Value,
    answered_ms: Option<i64>,
    ended_ms: i64,
    analysed_ms: i64,
}

impl Delivery {
    /// What is to be signed and sent.
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
            delivery_faults,
            down: false,
            crash: None,
            calls: BTreeMap::new(),
            outbox: BTreeMap::new(),
            counter: 0,
            dials: Vec::new(),
            record: None,
            requests: 0,
        };
        Self { clock, state: Mutex::new(state), changed: Signal::default() }
    }

    /// How badly the webhooks of calls that are placed from now on are sent.
    pub fn set_delivery_faults(&self, delivery_faults: DeliveryFaults) {
        lock(&self.state).delivery_faults = delivery_faults;
    }

    /// Its API answers nothing but errors; calls go on, and so do their webhooks.
    pub fn set_down(&self, down: bool) {
        lock(&self.state).down = down;
    }

    /// The next function that makes a request of its API dies there.
    pub fn crash_next(&self, crash: CrashPoint) {
        lock(&self.state).crash = Some(crash);
    }

    /// True, once, if a function is to die here.
    pub(crate) fn crashes_at(&self, at: CrashPoint) -> bool {
        let mut state = lock(&self.state);
        let now = state.crash == Some(at);
        if now {
            state.crash = None;
        }
        now
    }

    /// Every phone that rang.
    #[must_use]
    pub fn dials(&self) -> Vec<Dial> {
        lock(&self.state).dials.clone()
    }

    /// Requests to its API.
    #[must_use]
    pub fn requests(&self) -> u64 {
        lock(&self.state).requests
    }

    /// Keeps from now on what is sent and answered, for [`Self::sent_webhooks`] and [`Self::api_records`].
    pub fn start_recording(&self) {
        lock(&self.state).record.get_or_insert_default();
    }

    /// Every webhook that was sent since [`Self::start_recording`], in the order of time.
    #[must_use]
    pub fn sent_webhooks(&self) -> Vec<SentWebhook> {
        lock(&self.state).record.as_ref().map(|record| record.webhooks.clone()).unwrap_or_default()
    }

    /// Every dial and every question that was answered since [`Self::start_recording`], in the order of time. Of questions those that
    /// found the provider up.
    #[must_use]
    pub fn api_records(&self) -> Vec<ApiRecord> {
        lock(&self.state).record.as_ref().map(|record| record.requests.clone()).unwrap_or_default()
    }

    /// Dials that rang a phone while another dial for the same call still lived, or for an attempt that had been dialled.
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

    /// Answers a request to its API.
    #[must_use]
    pub fn handle(&self, method: &str, path: &str, authorization: Option<&str>, body: &[u8]) -> ApiResponse {
        let now = self.now_ms();
        let mut state = lock(&self.state);
        state.requests += 1;
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        if state.down {
            if (method, path) == DIAL {
                state.record(body.get("metadata").unwrap_or(&Value::Null), now, RequestResult::Unavailable);
            }
            return respond(503, &json!({"status": "error", "message": "the service is unavailable"}));
        }
        if !authorization.is_some_and(|value| value.starts_with("Bearer ") && value.len() > "Bearer ".len()) {
            return respond(401, &json!({"status": "error", "message": "no API key"}));
        }
        let answer = match (method, path) {
            DIAL => state.create(&body, now),
            ("POST", "/v3/list-calls") => state.list(&body, now),
            ("GET", _) => match path.strip_prefix("/v2/get-call/") {
                Some(id) => state.get(id, now),
                None => respond(404, &json!({"status": "error", "message": "no such path"})),
            },
            (_, _) => respond(404, &json!({"status": "error", "message": "no such path"})),
        };
        drop(state);
        self.changed.changed();
        answer
    }

    /// Waits for the next webhook whose time has come.
    pub async fn next_delivery(&self) -> Delivery {
        loop {
            let mut changed = self.changed.watch();
            let next = lock(&self.state).outbox.first_key_value().map(|((at, _), _)| *at);
            let wait = next.map(|at| Duration::from_millis(u64::try_from(at - self.now_ms()).unwrap_or(0)));
            match wait {
                Some(Duration::ZERO) => {
                    let at_ms = self.now_ms();
                    let mut state = lock(&self.state);
                    if let Some((_, delivery)) = state.outbox.pop_first() {
                        let Delivery { provider_call_id, event, .. } = &delivery;
                        if let Some(record) = &mut state.record {
                            record.webhooks.push(SentWebhook {
                                provider_call_id: provider_call_id.clone(),
                                event,
                                at_ms,
                            });
                        }
                        return delivery;
                    }
                }
                Some(wait) => {
                    tokio::select! {
                        biased;
                        () = tokio::time::sleep(wait) => {}
                        () = changed.changed() => {}
                    }
                }
                None => changed.changed().await,
            }
        }
    }

    /// Takes back a webhook that was not taken, and sends it again later, unless that was tried often enough.
    pub fn retry_delivery(&self, mut delivery: Delivery) {
        delivery.failed_sends += 1;
        if delivery.failed_sends <= RETRIES_MAX {
            let at = self.now_ms() + as_ms(RETRY_PAUSE);
            lock(&self.state).post(at, delivery);
            self.changed.changed();
        }
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.clock.now_ms()).unwrap_or(i64::MAX)
    }
}

impl State {
    fn create(&mut self, body: &Value, now: i64) -> ApiResponse {
        let (from, to) = (body["from_number"].clone(), body["to_number"].clone());
        let Some(number) = to.as_str().filter(|number| !number.is_empty()) else {
            return respond(422, &json!({"status": "error", "message": "to_number is missing"}));
        };
        let metadata = body["metadata"].clone();
        let behaviour = Behaviour::of(metadata.as_object().unwrap_or(&Map::new()), number);
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (call_id, attempt) = (text("switchhook_call_id"), text("switchhook_attempt"));
        if behaviour == Behaviour::RateLimited && self.rng.bool() {
            self.record(&metadata, now, RequestResult::RateLimited);
            return respond(429, &json!({"status": "error", "message": "too many requests"}));
        }
        if behaviour == Behaviour::Invalid {
            self.record(&metadata, now, RequestResult::Rejected);
            return respond(422, &json!({"status": "error", "message": "to_number is not valid"}));
        }
        let id = format!("call_{:032x}", self.rng.u128(..));
        let rings = self.rng.i64(2_000..12_000);
        let answered_ms = behaviour.disconnection().is_none().then_some(now + rings);
        let ended_ms = match behaviour {
            Behaviour::Voicemail => now + rings + self.rng.i64(8_000..20_000),
            Behaviour::NoAnswer => now + 30_000,
            Behaviour::Forgotten => now + 60_000,
            Behaviour::Busy | Behaviour::Fails | Behaviour::Invalid => now + rings,
            Behaviour::Confirms
            | Behaviour::Declines
            | Behaviour::ResponseLost
            | Behaviour::Silent
            | Behaviour::RateLimited => now + rings + self.rng.i64(20_000..90_000),
        };
        let analysed_ms = ended_ms + self.rng.i64(1_000..6_000);
        self.record(&metadata, now, RequestResult::Accepted);
        let call = FakeCall { behaviour, from, to, metadata, answered_ms, ended_ms, analysed_ms };
        let provider_call_id = id.clone();
        self.dials.push(Dial { provider_call_id, call_id, attempt, behaviour, started_ms: now, answered_ms, ended_ms });
        self.schedule(&id, &call);
        let answer = call.shown(&id, now);
        self.calls.insert(id, call);
        ApiResponse { lost: behaviour == Behaviour::ResponseLost, ..respond(201, &answer) }
    }

    /// Sends of a call what a provider would, as badly as is set.
    fn schedule(&mut self, id: &str, call: &FakeCall) {
        let told = [
            ("call_started", call.answered_ms),
            ("call_ended", Some(call.ended_ms)),
            ("call_analyzed", Some(call.analysed_ms)),
        ];
        for (event, at) in told {
            let Some(at) = at else { continue };
            let dice = |rng: &mut fastrand::Rng, percent: u8| rng.u8(0..100) < percent;
            let DeliveryFaults { duplicate_percent, delay_percent, loss_percent } = self.delivery_faults;
            let never_said = matches!(call.behaviour, Behaviour::Forgotten | Behaviour::Silent);
            if dice(&mut self.rng, loss_percent) || never_said {
                continue;
            }
            let body = json!({"event": event, "call": call.shown(id, at)}).to_string();
            let copies = if dice(&mut self.rng, duplicate_percent) { 2 } else { 1 };
            for _ in 0..copies {
                let delay = if dice(&mut self.rng, delay_percent) {
                    self.rng.i64(30_000..120_000)
                } else {
                    self.rng.i64(50..3_000)
                };
                let delivery = Delivery { provider_call_id: id.to_owned(), event, body: body.clone(), failed_sends: 0 };
                self.post(at + delay, delivery);
            }
        }
    }

    fn post(&mut self, at: i64, delivery: Delivery) {
        self.counter += 1;
        self.outbox.insert((at, self.counter), delivery);
    }

    fn get(&mut self, id: &str, now: i64) -> ApiResponse {
        let unknown = respond(404, &json!({"status": "error", "message": "no such call"}));
        let Some(call) = self.calls.get(id) else { return unknown };
        let (metadata, result) = (call.metadata.clone(), call.result(now));
        let answer = if result == RequestResult::NotFound { unknown } else { respond(200, &call.shown(id, now)) };
        self.record(&metadata, now, result);
        answer
    }

    fn list(&mut self, body: &Value, now: i64) -> ApiResponse {
        let filters = body.pointer("/filter_criteria/metadata").and_then(Value::as_array).cloned().unwrap_or_default();
        let matches = |call: &FakeCall| filters.iter().all(|filter| is_met(filter, &call.metadata));
        let known = self.calls.iter().filter(|(_, call)| call.result(now) != RequestResult::NotFound && matches(call));
        let results: Vec<RequestResult> = known.clone().map(|(_, call)| call.result(now)).collect();
        let items: Vec<Value> = known.map(|(id, call)| call.shown(id, now)).collect();
        let asked: Map<String, Value> = filters
            .iter()
            .filter_map(|filter| Some((filter["key"].as_str()?.to_owned(), filter["value"].clone())))
            .collect();
        self.record(&Value::Object(asked), now, results.first().copied().unwrap_or(RequestResult::NotFound));
        respond(200, &json!({"items": items, "has_more": false}))
    }

    /// Keeps what is answered about the attempt that `named` names, if anybody wants to know.
    fn record(&mut self, named: &Value, at_ms: i64, result: RequestResult) {
        let Some(record) = &mut self.record else { return };
        let text = |name: &str| named.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (call_id, attempt) = (text("switchhook_call_id"), text("switchhook_attempt"));
        record.requests.push(ApiRecord { call_id, attempt, at_ms, result });
    }
}

impl FakeCall {
    /// What there is to tell of the call at this time.
    fn result(&self, now: i64) -> RequestResult {
        if self.behaviour == Behaviour::Forgotten {
            RequestResult::NotFound
        } else if self.analysed_ms <= now {
            RequestResult::Analysed
        } else if self.ended_ms <= now {
            RequestResult::Ended
        } else {
            RequestResult::InProgress
        }
    }

    /// The call as Retell shows one at this time.
    fn shown(&self, id: &str, now: i64) -> Value {
        let mut call = Map::new();
        let mut set = |name: &str, value: Value| call.insert(name.to_owned(), value);
        for (name, value) in [
            ("call_id", id.into()),
            ("call_type", "phone_call".into()),
            ("agent_id", "agent_fake".into()),
            ("direction", "outbound".into()),
            ("from_number", self.from.clone()),
            ("to_number", self.to.clone()),
            ("metadata", self.metadata.clone()),
        ] {
            set(name, value);
        }
        let answered = self.answered_ms.filter(|at| *at <= now);
        let over = self.ended_ms <= now;
        let status = match (answered, over, self.behaviour.disconnection()) {
            (_, true, Some(_)) => "not_connected",
            (_, true, None) => "ended",
            (Some(_), false, _) => "ongoing",
            (None, false, _) => "registered",
        };
        set("call_status", status.into());
        if let Some(at) = answered {
            set("start_timestamp", at.into());
        }
        if over {
            set("end_timestamp", self.ended_ms.into());
            let reason = match self.behaviour {
                Behaviour::Voicemail => "voicemail_reached",
                Behaviour::Confirms
                | Behaviour::Declines
                | Behaviour::Forgotten
                | Behaviour::ResponseLost
                | Behaviour::Silent
                | Behaviour::RateLimited
                | Behaviour::Busy
                | Behaviour::NoAnswer
                | Behaviour::Fails
                | Behaviour::Invalid => self.behaviour.disconnection().unwrap_or("user_hangup"),
            };
            set("disconnection_reason", reason.into());
        }
        if self.analysed_ms <= now {
            let outcome = match self.behaviour {
                Behaviour::Confirms | Behaviour::ResponseLost | Behaviour::Silent | Behaviour::RateLimited => {
                    json!({"outcome": "confirmed"})
                }
                Behaviour::Declines => json!({"outcome": "declined"}),
                Behaviour::Voicemail
                | Behaviour::Busy
                | Behaviour::NoAnswer
                | Behaviour::Fails
                | Behaviour::Forgotten
                | Behaviour::Invalid => json!({}),
            };
            let analysis = json!({
                "in_voicemail": self.behaviour == Behaviour::Voicemail,
                "call_successful": answered.is_some(),
                "user_sentiment": "Unknown",
                "custom_analysis_data": outcome,
            });
            set("call_analysis", analysis);
        }
        Value::Object(call)
    }
}

/// True if the metadata has the value that a filter asks for.
fn is_met(filter: &Value, metadata: &Value) -> bool {
    let key = filter.get("key").and_then(Value::as_str);
    key.is_some_and(|key| metadata.get(key).is_some() && metadata.get(key) == filter.get("value"))
}

fn respond(status: u16, body: &Value) -> ApiResponse {
    ApiResponse { status, body: body.to_string(), lost: false }
}

fn as_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
